"""Conditions and events: validation, words, and the way through JSON and back."""

import json
import subprocess
import sys

import pytest
from accounting_strategies import conditions, events
from hypothesis import given

from missdp.accounting import (
    ApproximateEvent,
    Assumption,
    BoundedObservation,
    ComposedEvent,
    Condition,
    DataDependentDomain,
    DatasetCollection,
    EigenGap,
    Event,
    GaussianEvent,
    LaplaceEvent,
    MissingCompletelyAtRandom,
    PureEvent,
    RDPEvent,
    RowIndependentMissingness,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    flatten,
)
from missdp.errors import ParameterError, UnprovenError


@given(conditions)
def test_conditions_survive_json(condition):
    again = Condition.from_json(condition.to_json())
    assert again == condition
    assert type(again) is type(condition)
    assert hash(again) == hash(condition)


@given(conditions)
def test_every_condition_is_one_sentence_that_names_its_numbers(condition):
    assert condition.statement().rstrip().endswith(".")
    assert str(condition) == condition.statement()


@given(events)
def test_events_survive_json(event):
    again = Event.from_json(event.to_json())
    assert again == event
    assert flatten(again) == flatten(event)


def test_mcar_keeps_sorted_pairs_and_prints_them():
    condition = MissingCompletelyAtRandom({"b": 0.5, "a": 1})
    assert condition.observed == (("a", 1.0), ("b", 0.5))
    assert condition == MissingCompletelyAtRandom([("a", 1.0), ("b", 0.5)])
    assert "0.5 for b" in condition.statement()


@pytest.mark.parametrize(
    "build",
    [
        lambda: MissingCompletelyAtRandom({"a": 1.2}),
        lambda: MissingCompletelyAtRandom({"a": float("nan")}),
        lambda: MissingCompletelyAtRandom([("a", 1), ("a", 0.5)]),
        lambda: BoundedObservation(-0.1),
        lambda: DatasetCollection(max_missing=-1, n=10),
        lambda: DatasetCollection(max_missing=1, n=0),
        lambda: EigenGap(0, 0.1),
        lambda: EigenGap(1.5, 0.1),
        lambda: EigenGap(1, 0.0),
        lambda: DataDependentDomain("age"),
        lambda: Assumption("  "),
        lambda: PureEvent(epsilon=-1),
        lambda: PureEvent(epsilon=float("inf")),
        lambda: PureEvent(epsilon=1, gate="age"),
        lambda: PureEvent(epsilon=1, adjacency="swap"),
        lambda: PureEvent(epsilon="much"),
        lambda: LaplaceEvent(sensitivity=1, scale=0),
        lambda: LaplaceEvent(sensitivity=0.5, scale=1),
        lambda: LaplaceEvent(sensitivity=1, scale=1, discrete="no"),
        lambda: GaussianEvent(sensitivity=1, sigma=float("nan")),
        lambda: GaussianEvent(sensitivity=0, sigma=1, discrete=False),
        lambda: ApproximateEvent(epsilon=1, delta=1.0),
        lambda: ZCDPEvent(rho=-1e-9),
        lambda: RDPEvent(orders=[2, 2], epsilons=[1, 1]),
        lambda: RDPEvent(orders=[1, 2], epsilons=[1, 1]),
        lambda: RDPEvent(orders=[2], epsilons=[1, 1]),
        lambda: RDPEvent(orders=[], epsilons=[]),
        lambda: SampledGaussianEvent(rate=1.1, noise_multiplier=1, steps=1),
        lambda: SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=0),
        lambda: SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=1.5),
        lambda: ComposedEvent(events=["pure"]),
        lambda: flatten(["pure"]),
    ],
)
def test_out_of_range_is_refused(build):
    with pytest.raises(ParameterError):
        build()


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "Nonsense"},
        {"kind": "PureEvent"},
        {"kind": "PureEvent", "epsilon": 1, "surprise": 2},
        {"epsilon": 1},
        {"kind": ["PureEvent"], "epsilon": 1},
        {"kind": "ExplicitSeed"},
        [],
    ],
)
def test_strange_json_is_refused(data):
    with pytest.raises(ParameterError):
        Event.from_json(json.dumps(data))


def test_broken_json_is_refused():
    with pytest.raises(ParameterError, match="not valid JSON"):
        Condition.from_json("{")


def test_a_family_reads_only_its_own_kinds():
    with pytest.raises(ParameterError, match="unknown kind"):
        Condition.from_json(PureEvent(epsilon=1).to_json())
    with pytest.raises(ParameterError, match="unknown kind"):
        SelectionEvent.from_json(PureEvent(epsilon=1).to_json())


def test_composition_adds_its_gate_to_its_parts():
    inner = ComposedEvent(
        events=[PureEvent(epsilon=1, gate={"a"}), PureEvent(epsilon=2)], gate={"b"}
    )
    outer = ComposedEvent(events=[inner], gate={"c"})
    assert [event.gate for event in outer.flatten()] == [{"a", "b", "c"}, {"b", "c"}]


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (PureEvent(epsilon=0.5), "epsilon", 1.0),
        (SelectionEvent(epsilon=0.5), "epsilon", 1.0),
        (LaplaceEvent(sensitivity=1, scale=3), "sensitivity", 2.0),
        (GaussianEvent(sensitivity=1, sigma=3), "sensitivity", 2.0),
        (ZCDPEvent(rho=0.5), "rho", 2.0),
        (ApproximateEvent(epsilon=1.0, delta=0.1), "delta", 0.1 * (1 + 2.718281828459045)),
    ],
)
def test_replace_one_is_two_steps(event, field, value):
    converted = event.to_replace_one()
    assert getattr(converted, field) == pytest.approx(value)
    assert converted.adjacency == "replace-one"
    assert type(converted) is type(event)
    assert converted.to_replace_one() is converted


def test_replace_one_is_refused_where_unproven():
    sampled = SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=1)
    for event in (sampled, RDPEvent(orders=[2], epsilons=[1]), ComposedEvent(events=[sampled])):
        with pytest.raises(UnprovenError):
            event.to_replace_one()
    with pytest.raises(UnprovenError):
        SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=1, adjacency="replace-one")
    with pytest.raises(UnprovenError):
        ComposedEvent(events=[PureEvent(epsilon=1, adjacency="replace-one")])


def test_only_conditions_on_rows_imply_row_independence():
    assert RowIndependentMissingness().implies_row_independence
    assert MissingCompletelyAtRandom({}).implies_row_independence
    assert BoundedObservation(0.5).implies_row_independence
    assert not EigenGap(1, 0.1).implies_row_independence


EVERY_KIND = """
import importlib, json, pkgutil, sys
if {everything}:
    import missdp
    for found in pkgutil.walk_packages(missdp.__path__, "missdp."):
        if "cli" not in found.name and "__main__" not in found.name:
            importlib.import_module(found.name)
from missdp.errors import ParameterError
from missdp.record import Record
if not {everything}:
    import missdp.accounting
    assert "missdp.pricing" not in sys.modules
    try:
        Record.from_dict({{"kind": "of no family"}})
    except ParameterError:
        pass
from missdp.accounting import Condition, Event
kinds = Record._kinds.items()
print(json.dumps(sorted(kind for kind, one in kinds if issubclass(one, (Condition, Event)))))
"""


def test_every_kind_of_the_package_is_found_where_only_accounting_was_imported():
    found = [
        subprocess.run(
            [sys.executable, "-c", EVERY_KIND.format(everything=everything)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for everything in (True, False)
    ]
    assert found[0] == found[1]
    assert "AmplifiedEvent" in found[0]
