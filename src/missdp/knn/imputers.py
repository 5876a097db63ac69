"""What the statistics need to know of an imputation, and the simpler ones to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Assumption, Condition, Event, LaplaceEvent
from missdp.errors import ParameterError, SchemaError, UnprovenError
from missdp.knn.asks import Cost, check_real, laplace_event
from missdp.knn.filled import FilledTable
from missdp.knn.imputation import KNNImputation, check_range, names_of
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

    def fills(self) -> frozenset[str]:
        """Attributes that are filled; numeric ones need values, not bins only."""

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "impute", names_of(self.impute))
        object.__setattr__(self, "match_on", names_of(self.match_on))
        if not self.impute or not self.match_on:
            raise ParameterError("name at least one attribute to impute and one to match on")
        check_real("epsilon", self.epsilon)
        check_real("enough", self.enough, least=-1.0)

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

    def cap(self) -> int | None:
        """No donors."""
        return 0

    def fills(self) -> frozenset[str]:
        """The imputed attributes."""
        return frozenset(self.impute)

    def events(self) -> tuple[Event, ...]:
        """One noisy table per attribute."""
        return tuple(self._event(name) for name in self.impute)

    def _event(self, name: str) -> LaplaceEvent:
        share = Cost(epsilon=self.epsilon).share(1 / len(self.impute)).as_epsilon
        return laplace_event(1, share, f"model of {name}")

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
        noisy = counts + source.discrete_laplace(self._event(name).scale, shape)
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
