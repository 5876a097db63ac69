"""Tests whether noise hides the relations between columns of a fitted table, with remedies."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.schema.modelled import ModelView
from missdp.session import Noise
from missdp.synth.family import Family, Request
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.relation_noise import (
    LARGER_EPSILON,
    MORE_ROWS,
    PairNoise,
    enough_epsilon,
    mostly_noise,
)

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer

_HIDES_ALL = 1e9  # noise of a count, in rows, if it cannot be drawn
_PAIR = 2  # smallest number of columns that have a relation


def noise_of_relations(synthesizer: Synthesizer) -> PairNoise:
    """Return the noise of tables of pairs, from released values and public facts only.

    If not all pairs were released, it is the noise of a tree of pairs that gets the complete
    budget. A tree has the fewest pairs that relate all attributes.
    """
    fitted = synthesizer.fitted_
    if isinstance(fitted.tables, PairRelease):
        return PairNoise.of_tables(fitted.tables.initial_tables())
    like = Request(type(synthesizer)(**fitted.parameters), fitted.with_unit(fitted.schema))
    remaining, columns = like.budget.remaining, [*fitted.modelled.schema]
    if like.trainings:  # the budget is that of the first part only
        remaining = Cost.from_epsilon("gdp", float(like.parameters.epsilon), like.delta_to_spend)
    counts, std = max(1, len(columns) - 1), _HIDES_ALL
    with suppress(ParameterError):  # raised if the noise is larger than can be drawn
        std = Noise.from_cost(replace(remaining, amount=remaining.amount / counts)).std
    shapes = combinations([attribute.extended_size for attribute in columns], 2)
    return PairNoise.of_counts(shapes, std, fitted.counted_rows)


def mostly_noise_of(synthesizer: Synthesizer) -> str | None:
    """Return a sentence if most relations of a fitted model are noise: see `mostly_noise`."""
    fitted, noise = synthesizer.fitted_, noise_of_relations(synthesizer)
    declared, epsilon = fitted.with_unit(fitted.schema), float(fitted.parameters["epsilon"])
    bound = 1 if declared.unit is None else declared.unit.bound
    remedies = remedies_of(declared, synthesizer.family)
    if noise.few_rows:
        remedies = [MORE_ROWS if one == LARGER_EPSILON else one for one in remedies]
    return mostly_noise(
        noise.clear,
        effective=noise.counted / bound * epsilon,
        enough=enough_epsilon(noise, epsilon),
        remedies=remedies,
    )


def remedies_of(declared: Schema, family: Family) -> list[str]:
    """Return the changes with which relations of a declared schema exceed the noise."""
    remedies = ["fewer columns"] if len(ModelView(declared.without_unit).schema) > _PAIR else []
    remedies.append(LARGER_EPSILON)
    if declared.weight is not None:
        remedies.append("a smaller weight upper bound")
    if declared.unit is not None and declared.unit.bound > 1:
        remedies.append("a smaller max_rows")
    return [*remedies, *family.rivals]
