"""Imputation first: holes of private rows filled, each row by itself, from released laws.

Laws are released with a share of the budget: of each attribute by itself (``"marginal"``), or, from
one release of all pairs of attributes, of each attribute given all others (``"pairs"``). The door
fills the rows behind it, and what is released of filled rows costs what it costs of any rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.conditionals import Conditionals, fit_conditionals
from missdp.mechanisms.door import Door, Noise
from missdp.schema import AnyAttribute, Numeric
from missdp.synth.learn_pairs import (
    crude_margins,
    fit_pairs,
    impossible_pairs,
    release_pairs,
)
from missdp.synth.noisy_counts import project_to_simplex
from missdp.synth.split import Gate, Part

Imputer: TypeAlias = Literal["marginal", "pairs", "random", "mean"]

IMPUTATION = "imputation"
"""Name of the part of a budget."""

_FIRST_SHARE = 0.08  # of the cost of "pairs", for the one-way margins
_COUNT_SHARE = 0.02  # for the number of rows, where no margin tells it
_ROWS = 20_000  # of the model of pairs, by which laws are fitted


def check_imputer(imputer: str) -> None:
    """Refuse what is no imputer."""
    if imputer not in get_args(Imputer):
        first, *others = map(repr, get_args(Imputer))
        raise ParameterError(f"imputer must be {first} or {' or '.join(others)}")


def imputation_parts(
    gates: Sequence[Gate], imputer: Imputer, share: float, *, attributes: int, pure: bool
) -> list[Part]:
    """Return the part of a budget that `impute` spends, if it releases anything; public."""
    if imputer == "random" or not gates:
        return []
    if imputer != "pairs":
        return [Part(IMPUTATION, share, tuple(gates))]
    if pure:
        raise ParameterError("imputer='pairs' needs delta above 0: its noise is Gaussian")
    longest = 2.2 * (attributes + 1.0)  # no row's vector of products is
    return [Part(IMPUTATION, share, kind="products", count=longest**2)]


def _part(cost: Cost, share: float) -> Noise:
    return Noise.worth(replace(cost, amount=share * cost.amount))


def impute(door: Door, imputer: Imputer = "marginal", *, cost: Cost) -> Door:
    """Return a door to filled rows if the strategy fills holes; the door itself if not.

    ``"random"`` draws from the public domain and costs nothing. ``"marginal"`` draws from the
    released one-way margin of the observed cells. ``"pairs"`` draws given all other cells of the
    row, from laws fitted to one noisy release of all pairs of attributes. ``"mean"`` is the
    baseline of Mohapatra et al. (2024): the released mean for numeric attributes, a draw from the
    margin for others. Margins share the cost evenly.

    Given what was released, each row is filled on its own, so adding or removing one row still
    changes the filled table by one row: later mechanisms keep their sensitivity.
    """
    if not door.strategy.fills:
        return door
    nullable = [attribute for attribute in door.schema if attribute.nullable]
    if imputer == "random" or not nullable:
        return door.filled({a.name: np.ones(a.size) for a in nullable})
    if imputer == "pairs":
        return door.filled(_given_all(door, cost))
    noise = _part(cost, 1 / len(nullable))
    door.expect((a.name,) for a in nullable)
    laws = {}
    for attribute in nullable:
        released = door.marginal((attribute.name,), noise)
        margin = project_to_simplex(released / max(1.0, float(released.sum())))
        laws[attribute.name] = _law(imputer, attribute, margin)
    return door.filled(laws)


def _law(
    imputer: Imputer, attribute: AnyAttribute, law: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distribution of an attribute's filled cells, given its released margin."""
    if imputer == "mean" and isinstance(attribute, Numeric):
        mean = float(law / law.sum() @ attribute.centres)
        level = int(attribute.encode_values(np.array([mean]))[0])
        return np.asarray(np.arange(attribute.size) == level, dtype=np.float64)
    return law


def _given_all(door: Door, cost: Cost) -> Conditionals:
    """Release all pairs on rows observed on them; return each attribute's law given others."""
    part = door.reserve(cost, label="imputation")
    schema, names = part.schema, part.schema.names
    zeros = impossible_pairs(part.impossible, names)
    told = any(part.tells_total((name,)) for name in names)
    number = None if told else part.row_count(_part(cost, _COUNT_SHARE))
    crude = crude_margins(part, _part(cost, _FIRST_SHARE / len(names)), zeros, number)
    release = release_pairs(part, crude)
    rng = part.generator()
    model = fit_pairs(
        release,
        selective=False,
        always=crude.always(part.never_missing),
        told=part.told,
        allowed=crude.allowed(zeros),
        rng=rng,
    )
    rows = np.stack(model.sample(_ROWS, rng, keep_holes=False), axis=1)
    pairs = {(c[0], c[1]): table for c, table in zeros.items()}
    return fit_conditionals(rows, [a.size for a in schema], rng=rng, impossible=pairs)
