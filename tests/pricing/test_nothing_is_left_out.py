"""What a newcomer adds is tried, can be written in a file, and stands in the documents."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

import missdp.pricing as room
from missdp import pricing as mp
from missdp.accounting import Condition
from missdp.pricing.prices import _MECHANISMS, _STEPS
from pricing import stability_cases
from pricing.cases import ESTIMATORS

PAGE = Path(__file__).parents[2] / "docs" / "price-of-preprocessing.md"
FREE = {room.RowClipper, room.ConstantImputer}


def exported(base):
    found = {vars(room)[name] for name in room.__all__}
    found = {kind for kind in found if inspect.isclass(kind) and issubclass(kind, base)}
    return found - {base, room.Imputer, room.ColumnImputer, room.StepCondition}


def test_every_step_is_tried_with_random_neighbours():
    pair = stability_cases.complete_pair(0, d=3)
    public = {n: f for n, f in vars(stability_cases).items() if not n.startswith("_")}
    tried = {type(case(pair)[0]) for name, case in public.items() if name.endswith("_case")}
    assert exported(mp.StableTransformer) == tried | FREE


def test_every_step_and_estimator_has_a_word_for_files():
    assert set(_STEPS.values()) == exported(mp.StableTransformer)
    assert set(_MECHANISMS.values()) == exported(mp.PrivateEstimator)


def test_every_estimator_meets_the_promises_of_the_door():
    assert exported(mp.PrivateEstimator) == {type(estimator) for estimator in ESTIMATORS.values()}


def test_the_page_names_every_step():
    page = PAGE.read_text(encoding="utf-8")
    missing = [k.__name__ for k in exported(mp.StableTransformer) if f"`{k.__name__}`" not in page]
    assert not missing


@pytest.mark.parametrize(
    "kind", sorted(exported(mp.StableTransformer) | exported(mp.PrivateEstimator), key=str)
)
def test_parameters_are_fields_by_name_and_objects_are_themselves(kind):
    init = [f for f in dataclasses.fields(kind) if f.init]
    assert all(f.kw_only for f in init)
    assert {f.name for f in init} == set(kind._get_param_names())
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


@pytest.mark.parametrize("kind", sorted(exported(Condition), key=str))
def test_a_condition_is_a_sentence_with_its_numbers(kind):
    facts = {field.name: 40 + i for i, field in enumerate(dataclasses.fields(kind))}
    text = kind(**facts).statement()
    assert text.endswith(".")
    assert "{" not in text
    assert all(str(fact) in text for fact in facts.values())
