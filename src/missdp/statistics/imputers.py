"""What one question may spend, and shares of it.

What the statistics need to know of an imputation, and the simpler ones to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError, SchemaError, UnprovenError, number
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.questions import Counts, Preparation, Prepared, Question, Rows
from missdp.schema import Numeric, Schema
from missdp.statistics.imputation import Cells, KNNImputation, check_range, names_of

__all__ = ["CappedKNN", "CompleteRows", "Imputation", "ReleasedModel", "cost_of", "share"]


# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40


def cost_of(epsilon: float | None, rho: float | None) -> Cost:
    """Return what a question may spend: pure DP ``epsilon``, or zCDP ``rho``.

    Raises
    ------
    ParameterError
        If both or neither are given, or what is given is out of range.

    Examples
    --------
    >>> cost_of(0.5, None)
    Cost(currency='pure', amount=0.5, order=None)
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError("give epsilon, or rho, and not both")
    amount = number("epsilon or rho", epsilon if rho is None else rho, most=1e9, open_end=True)
    return Cost(currency="zcdp" if rho is not None else "pure", amount=amount)


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole.

    Examples
    --------
    >>> share(Cost(currency="pure", amount=1.0), 0.25).amount <= 0.25
    True
    """
    return replace(cost, amount=cost.amount * part * _SHARE)


_MAX_MODEL_CELLS = 10_000_000


class Imputation(Protocol):
    """How holes are filled, as far as privacy is concerned. Public."""

    def check(self, schema: Schema) -> object:
        """Refuse a schema it does not fit."""

    def shared(self) -> frozenset[str]:
        """Attributes whose filled values depend on other rows without noise."""

    def fills(self) -> frozenset[str]:
        """Attributes that are filled; numeric ones need values, not bins only."""

    def step(self, name: str, schema: Schema) -> float:
        """Largest move of a filled value per exchanged donor, as a share of the range."""

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:
        """What filling itself releases first."""

    def preparation(
        self, schema: Schema, released: Sequence[NDArray[np.float64]] = ()
    ) -> Preparation:
        """Return how a door prepares its rows, given what was released."""


@dataclass(frozen=True, kw_only=True)
class CompleteRows:
    """Ignore rows in which any of ``impute`` is missing; every query has the usual sensitivity.

    Biased unless values are missing completely at random.

    Examples
    --------
    >>> from missdp.statistics import CompleteRows
    >>> CompleteRows(impute=("income",)).shared()
    frozenset()
    """

    impute: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "impute", names_of(self.impute))
        if not self.impute:
            raise ParameterError("name at least one attribute")

    def check(self, schema: Schema) -> object:
        """Refuse unknown attributes."""
        return [schema[name] for name in self.impute]

    def fills(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def shared(self) -> frozenset[str]:
        """None: a row is dropped for its own holes only."""
        return frozenset()

    def step(self, name: str, schema: Schema) -> float:  # noqa: ARG002
        """No donors, no moves."""
        return 0.0

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:  # noqa: ARG002
        """Nothing is released."""
        return ()

    def preparation(
        self,
        schema: Schema,  # noqa: ARG002
        released: Sequence[NDArray[np.float64]] = (),  # noqa: ARG002
    ) -> Preparation:
        """Keep the complete rows."""
        names = tuple(self.impute)
        return Preparation(function=_keep_complete, reads=frozenset(names), given=(names,))


@dataclass(frozen=True, kw_only=True)
class CappedKNN:
    """k-NN imputation priced by a declared bound on the donees of one donor (global sensitivity).

    Parameters
    ----------
    knn : KNNImputation
        The imputation.
    max_donees : int
        No donor ever serves more donees. Nobody checks it: it becomes a condition.

    Examples
    --------
    >>> from missdp.statistics import CappedKNN, KNNImputation
    >>> knn = KNNImputation(impute="income", match_on="age")
    >>> CappedKNN(knn=knn, max_donees=50).max_donees
    50
    """

    knn: KNNImputation
    max_donees: int

    def __post_init__(self) -> None:
        if not isinstance(self.knn, KNNImputation):
            raise ParameterError("knn must be a KNNImputation")
        if isinstance(self.max_donees, bool) or not isinstance(self.max_donees, int):
            raise ParameterError("max_donees must be a whole number")
        if not 1 <= self.max_donees <= 10**9:
            raise ParameterError("max_donees must be at least 1")

    def check(self, schema: Schema) -> object:
        """As the imputation."""
        return self.knn.check(schema)

    def shared(self) -> frozenset[str]:
        """The imputed attributes."""
        return self.knn.shared()

    def fills(self) -> frozenset[str]:
        """The imputed attributes."""
        return self.knn.fills()

    def step(self, name: str, schema: Schema) -> float:
        """As the imputation."""
        return self.knn.step(name, schema)

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:  # noqa: ARG002
        """Nothing is released."""
        return ()

    def preparation(
        self, schema: Schema, released: Sequence[NDArray[np.float64]] = ()
    ) -> Preparation:
        """As the imputation, with the declared bound in the place of a private one."""
        return replace(self.knn.preparation(schema, released), cap=self.max_donees)


@dataclass(frozen=True, kw_only=True)
class ReleasedModel:
    """Fill each hole by a draw from a released conditional table: later queries cost as usual.

    One noisy contingency table per attribute to fill, of the complete rows over ``match_on`` and
    the attribute, is released first. Each row is then filled from released numbers alone, so one
    row moves a query by its own contribution only, whatever it is worth as a donor.

    Parameters
    ----------
    impute, match_on : sequence of str
        As in `KNNImputation`.
    epsilon : float
        What the model costs, split evenly over the attributes.
    enough : float, default 30
        Conditionals with fewer noisy rows fall back to fewer matching attributes (the last one
        is dropped first).
    """

    impute: tuple[str, ...] = field()
    match_on: tuple[str, ...] = field()
    epsilon: float = 1.0
    enough: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "impute", names_of(self.impute))
        object.__setattr__(self, "match_on", names_of(self.match_on))
        if not self.impute or not self.match_on:
            raise ParameterError("name at least one attribute to impute and one to match on")
        number("epsilon", self.epsilon, most=1e9, open_end=True)
        number("enough", self.enough, least=-1.0, most=1e9, open_end=True)

    def check(self, schema: Schema) -> object:
        """Refuse tables that are too large."""
        for name in self.impute:
            check_range(schema[name])
            if np.prod(self._shape(schema, name), dtype=float) > _MAX_MODEL_CELLS:
                raise UnprovenError("the model's contingency table is too large; match on fewer")
        if set(self.impute) & set(self.match_on):
            raise SchemaError("an attribute is either imputed or matched on")
        return None

    def shared(self) -> frozenset[str]:
        """None: rows are filled from released numbers."""
        return frozenset()

    def step(self, name: str, schema: Schema) -> float:  # noqa: ARG002
        """No donors, no moves."""
        return 0.0

    def fills(self) -> frozenset[str]:
        """The imputed attributes."""
        return frozenset(self.impute)

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:
        """One noisy table per attribute."""
        cost = share(Cost(currency="pure", amount=self.epsilon), 1 / len(self.impute))
        found: list[tuple[Ask, Question]] = []
        for name in self.impute:
            shape, reads = self._shape(schema, name), frozenset({*self.match_on, name})
            given = (tuple(self.match_on), name, shape)
            table = Counts(
                function=_cell, reads=reads, given=given, cells=int(np.prod(shape))
            )  # fmt: skip
            ask = Ask(
                label=f"model of {name}", cost=cost, reads=reads, dimension=table.dimension
            )  # fmt: skip
            found.append((ask, table))
        return tuple(found)

    def preparation(
        self, schema: Schema, released: Sequence[NDArray[np.float64]] = ()
    ) -> Preparation:
        """Fill from the released tables."""
        laws = []
        for name, noisy in zip(self.impute, released, strict=True):
            law = np.ascontiguousarray(self._conditional(noisy.reshape(self._shape(schema, name))))
            laws.append(law)
        names, matched = tuple(self.impute), tuple(self.match_on)
        return Preparation(
            function=_fill_from_model,
            reads=frozenset({*names, *matched}),
            given=(names, matched, tuple(laws)),
            draws="generator",
        )

    def _shape(self, schema: Schema, name: str) -> tuple[int, ...]:
        return (*schema.extended_shape(self.match_on), schema[name].size)

    def _conditional(self, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Released conditionals, each from the most matching attributes that leave enough rows."""
        size = noisy.shape[-1]
        odds = np.full((1,) * noisy.ndim, 1.0 / size)
        odds = np.broadcast_to(odds, (*(1,) * (noisy.ndim - 1), size))
        for kept in range(noisy.ndim):
            axes = tuple(range(kept, noisy.ndim - 1))
            counts = np.maximum(noisy.sum(axis=axes, keepdims=True), 0.0)
            total = counts.sum(axis=-1, keepdims=True)
            own = counts / np.maximum(total, 1.0)
            odds = np.where(total >= self.enough, own, odds)
        return odds


def _keep_complete(rows: Rows, draws: None, names: tuple[str, ...]) -> Prepared:  # noqa: ARG001
    return Prepared(keep=~np.any([rows.mask(name) for name in names], axis=0))


def _cell(
    rows: Rows, matched: tuple[str, ...], name: str, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the cell of a model's table in which each row is counted, -1 for none."""
    hole = rows.mask(name)
    columns = [*(rows.codes(other) for other in matched), np.where(hole, 0, rows.codes(name))]
    return np.where(hole, -1, np.ravel_multi_index(columns, shape))


def _fill_from_model(
    rows: Rows,
    rng: np.random.Generator,
    names: tuple[str, ...],
    matched: tuple[str, ...],
    laws: tuple[NDArray[np.float64], ...],
) -> Prepared:
    """Fill each hole by a draw from the released law of its row's matching cell."""
    columns: dict[str, Cells] = {}
    for name, odds in zip(names, laws, strict=True):
        attribute, hole = rows.schema[name], rows.mask(name)
        codes = rows.codes(name).copy()
        law = odds[tuple(rows.codes(other)[hole] for other in matched)]
        draws = rng.random(len(law))
        codes[hole] = (draws[:, None] > np.cumsum(law, axis=1)).sum(axis=1)
        codes = np.minimum(codes, attribute.size - 1)
        values = None
        if isinstance(attribute, Numeric):
            values = rows.values(name).copy()
            values[hole] = attribute.decode(codes[hole], rng.random(int(hole.sum())))
        columns[name] = (codes, values)
    return Prepared(columns)
