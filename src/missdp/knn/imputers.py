"""What the statistics need to know of an imputation, and the simpler ones to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Assumption, Condition, Event, LaplaceEvent
from missdp.errors import ParameterError, SchemaError, UnprovenError
from missdp.knn.filled import FilledTable
from missdp.knn.imputation import KNNImputation
from missdp.knn.prepared import Prepared
from missdp.mechanisms import NoiseSource
from missdp.schema import Numeric, Schema
from missdp.table import Table

__all__ = ["CappedKNN", "CompleteRows", "Imputation", "ReleasedModel"]

_MAX_MODEL_CELLS = 10_000_000


class Imputation(Protocol):
    """How holes are filled, as far as privacy is concerned. Public."""

    def check(self, schema: Schema) -> object:
        """Refuse a schema it does not fit."""

    def shared(self) -> frozenset[str]:
        """Attributes whose filled values depend on other rows without noise."""

    def step(self, name: str, schema: Schema) -> float:
        """Largest move of a filled value per exchanged donor, as a share of the range."""

    def cap(self) -> int | None:
        """Declared bound on the donees of a donor; None if the profile is computed."""

    def events(self) -> tuple[Event, ...]:
        """What filling itself releases."""

    def conditions(self) -> tuple[Condition, ...]:
        """What the sensitivity rests on."""

    def prepare(self, table: Table, source: NoiseSource) -> Prepared:
        """Fill a private table."""


@dataclass(frozen=True, kw_only=True)
class CompleteRows:
    """Ignore rows in which any of ``impute`` is missing; every query has the usual sensitivity.

    Biased unless values are missing completely at random.

    Examples
    --------
    >>> from missdp.knn import CompleteRows
    >>> CompleteRows(impute=("income",)).shared()
    frozenset()
    """

    impute: Sequence[str]

    def check(self, schema: Schema) -> object:
        """Refuse unknown attributes."""
        return [schema[name] for name in self.impute]

    def shared(self) -> frozenset[str]:
        """None: a row is dropped for its own holes only."""
        return frozenset()

    def step(self, name: str, schema: Schema) -> float:  # noqa: ARG002
        """No donors, no moves."""
        return 0.0

    def cap(self) -> int | None:
        """No donors."""
        return 0

    def events(self) -> tuple[Event, ...]:
        """Nothing is released."""
        return ()

    def conditions(self) -> tuple[Condition, ...]:
        """Nothing is assumed."""
        return ()

    def prepare(self, table: Table, source: NoiseSource) -> Prepared:  # noqa: ARG002
        """Keep the complete rows."""
        keep = ~np.any([table.mask(name) for name in self.impute], axis=0)
        return Prepared(FilledTable(table.take(keep), {}))


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
    >>> from missdp.knn import CappedKNN, KNNImputation
    >>> knn = KNNImputation(impute="income", match_on="age")
    >>> print(CappedKNN(knn=knn, max_donees=50).conditions()[0])
    No donor ever serves more than 50 incomplete rows, in the table and in all its neighbours.
    """

    knn: KNNImputation
    max_donees: int

    def __post_init__(self) -> None:
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

    def step(self, name: str, schema: Schema) -> float:
        """As the imputation."""
        return self.knn.step(name, schema)

    def cap(self) -> int | None:
        """The declared bound."""
        return self.max_donees

    def events(self) -> tuple[Event, ...]:
        """Nothing is released."""
        return ()

    def conditions(self) -> tuple[Condition, ...]:
        """The declared bound, in words."""
        return (
            Assumption(
                f"No donor ever serves more than {self.max_donees} incomplete rows, in the table "
                "and in all its neighbours."
            ),
        )

    def prepare(self, table: Table, source: NoiseSource) -> Prepared:
        """Impute; no profile is needed."""
        return Prepared(self.knn.prepare(table, source).filled)


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

    def check(self, schema: Schema) -> object:
        """Refuse tables that are too large."""
        if not self.impute or not 0 < self.epsilon < np.inf:
            raise ParameterError("name an attribute to impute and an epsilon above 0")
        for name in self.impute:
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

    def cap(self) -> int | None:
        """No donors."""
        return 0

    def events(self) -> tuple[Event, ...]:
        """One noisy table per attribute."""
        scale = len(self.impute) / self.epsilon
        return tuple(
            LaplaceEvent(sensitivity=1, scale=scale, label=f"model of {name}")
            for name in self.impute
        )

    def conditions(self) -> tuple[Condition, ...]:
        """Nothing is assumed."""
        return ()

    def prepare(self, table: Table, source: NoiseSource) -> Prepared:
        """Release the models and fill from them."""
        rng = source.generator()
        filled = {name: self._filled(table, name, source, rng) for name in self.impute}
        return Prepared(FilledTable(table, filled))

    def _shape(self, schema: Schema, name: str) -> tuple[int, ...]:
        return (*schema.extended_shape(self.match_on), schema[name].size)

    def _filled(
        self, table: Table, name: str, source: NoiseSource, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        attribute, shape = table.schema[name], self._shape(table.schema, name)
        hole = table.mask(name)
        matched = [table.codes(other).astype(np.int64) for other in self.match_on]
        codes = table.codes(name).astype(np.int64)
        seen = [column[~hole] for column in (*matched, codes)]
        flat = np.ravel_multi_index(seen, shape)
        counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
        noisy = counts + source.discrete_laplace(len(self.impute) / self.epsilon, shape)
        odds = self._conditional(noisy.astype(np.float64))
        rows = odds[tuple(column[hole] for column in matched)]
        draws = rng.random(len(rows))
        codes[hole] = (draws[:, None] > np.cumsum(rows, axis=1)).sum(axis=1)
        codes = np.minimum(codes, attribute.size - 1)
        if not isinstance(attribute, Numeric):
            return codes, None
        values = table.values(name).copy()
        values[hole] = attribute.decode(codes[hole], rng.random(int(hole.sum())))
        return codes, values

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
