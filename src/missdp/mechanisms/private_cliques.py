"""What is behind a door, and the public facts about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Budget, Event
from missdp.errors import ParameterError
from missdp.mechanisms.choices import Remembered, Score
from missdp.mechanisms.laws import Handle, Total
from missdp.mechanisms.noise import NoiseSource
from missdp.schema import Schema
from missdp.schema.rulebook import ImpossibleCells
from missdp.sources import Clique, MarginalSource, Strategy
from missdp.sources.modelled import Modelled
from missdp.sources.strategies import ExactCounts, PrivateCounts, complete_rows


class PrivateCliques(Handle):
    """A handle on private rows, of which it tells public facts only; see `Door` for the answers."""

    def __init__(
        self,
        source: MarginalSource,
        strategy: Strategy,
        *,
        budget: Budget,
        noise: NoiseSource,
        declared_rows: int | None = None,
    ) -> None:
        strategy.check(source)
        super().__init__(budget=budget, noise=noise)
        self._admit: Callable[[Event], None] | None = None
        self._modelled, self._rows = Modelled(source.schema), source
        self._holes: dict[Clique, NDArray[np.int64]] = {}
        source = self._modelled.source(source)
        self._source, self._strategy = source, strategy
        self._declared_rows = declared_rows
        self._schema = source.schema
        self._sizes = strategy.shape(source.schema.names, source.schema)
        opened = (lambda: complete_rows(source)) if strategy.complete_only else (lambda: source)
        self._counts: PrivateCounts = ExactCounts(opened, source.schema, strategy)
        self._totals: list[Total] = []  # of the marginals released so far, shared by all handles
        self._scores: dict[Score, Remembered] = {}

    def _charge(self, *events: Event) -> None:
        if self._admit is not None:
            for event in events:
                self._admit(event)
        super()._charge(*events)

    # Public facts

    @property
    def schema(self) -> Schema:
        """Public facts about what is counted of the rows: see ``Modelled``."""
        return self._schema

    @property
    def impossible(self) -> ImpossibleCells:
        """Combinations of levels that no row has, by rules."""
        return self._modelled.impossible

    @property
    def never_missing(self) -> dict[int, int]:
        """By position of an attribute, its level "not applicable", if that is never missing."""
        return self._modelled.never_missing

    @property
    def told(self) -> dict[int, tuple[int, ...]]:
        """By position of an attribute, those by which alone "not applicable" is known."""
        return self._modelled.told

    @property
    def strategy(self) -> Strategy:
        """How rows with holes are counted."""
        return self._strategy

    @property
    def sizes(self) -> dict[str, int]:
        """Number of codes of each attribute in the counts, "missing" included if it is one."""
        return dict(zip(self._schema.names, self._sizes, strict=True))

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Return the shape of a clique's counts."""
        sizes = self.sizes
        return tuple(sizes[name] for name in clique)

    def tells_total(self, clique: Clique) -> bool:
        """Whether the clique's counts add up to the number of all rows."""
        return self._strategy.tells_total(clique, self._schema)

    @property
    def every_row_counts(self) -> bool:
        """Whether all cliques have the same total; if not, each counts the rows observed on it."""
        return self._strategy.every_row_counts(self._schema)

    @property
    def complete_rows(self) -> tuple[Total, ...]:
        """Number of complete rows, by each marginal released, if some others are not counted."""
        return tuple(self._totals) if self._strategy.complete_only and self._schema.nullable else ()

    def _noted(self, released: NDArray[np.int64], variance: float) -> NDArray[np.int64]:
        """Return a released marginal, and keep its total."""
        self._totals.append(Total(float(released.sum()), released.size * variance))
        return released

    def _gate(self, clique: Clique) -> frozenset[str]:
        """Return what a counted row must have had observed, before rules filled any cell."""
        return self._strategy.gate(clique, self._schema) - self._modelled.filled

    def _codes_of_rows(self) -> dict[str, int]:
        """Number of codes that each attribute of the rows may have."""
        hole = not self._strategy.complete_only
        modelled = self._strategy.models_holes
        return {
            a.name: size + (a.nullable and hole) - (a.nullable and modelled)
            for a, size in zip(self._schema, self._sizes, strict=True)
        }

    def _rows_observed(self, names: Clique) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows in which all of these are observed."""
        codes, sizes = self._counts.codes(), self._codes_of_rows()
        holed = [n for n in names if self._schema[n].nullable and not self._strategy.complete_only]
        if not holed:
            return codes
        seen = np.logical_and.reduce([codes[n] < sizes[n] - 1 for n in holed])
        return {n: c[seen] for n, c in codes.items()}

    def _law(self, name: str, laws: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        law = np.asarray(laws[name], dtype=np.float64)
        if law.shape != (self._schema[name].size,) or not (law >= 0).all() or not law.sum() > 0:
            raise ParameterError(f"the law of {name} must have a probability for each level")
        return np.asarray(law / law.sum())
