"""Parts that all queries are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, SchemaError
from missdp.knn.asks import Ask, Cost
from missdp.knn.estimates import Estimate, Interval, Noisy, clip, corners
from missdp.knn.filled import FilledTable
from missdp.knn.imputation import check_range
from missdp.knn.imputers import Imputation
from missdp.knn.predicates import Predicate
from missdp.knn.releases import Releaser
from missdp.knn.rows import RowSum, counted
from missdp.knn.where import parse_where
from missdp.schema import Numeric, Schema

__all__ = ["QueryParts"]


@dataclass(frozen=True, eq=False, repr=False)
class QueryParts:
    """Public facts of a session (schema, imputation) and its one door to the data."""

    schema: Schema
    imputation: Imputation
    releaser: Releaser

    def where(self, text: str | None) -> Predicate:
        """Parse a subpopulation."""
        chosen = parse_where(text, self.schema)
        self._check_values(chosen.names)
        return chosen

    def _check_values(self, names: Iterable[str]) -> None:
        """Refuse, before anything is charged, to compare values of a table that has bins only."""
        for name in names:
            if isinstance(self.schema[name], Numeric) and name not in self.releaser.valued:
                raise DataError(f"attribute {name!r} has no numeric values in this table")

    def depends(self, chosen: Predicate) -> bool:
        """Whether membership reads imputed values that depend on other rows."""
        return bool(chosen.names & self.imputation.shared())

    def numeric(self, name: str) -> Numeric:
        """Return a numeric attribute; refuse others."""
        attribute = self.schema[name]
        if not isinstance(attribute, Numeric):
            raise SchemaError(f"{name!r} is not numeric; ask for proportions or a histogram")
        check_range(attribute)
        self._check_values([name])
        return attribute

    def selected(self, rows: FilledTable, name: str, chosen: Predicate) -> NDArray[np.bool_]:
        """Members of the subpopulation in which the attribute is known."""
        known = rows.codes(name) != self.schema[name].missing_code
        return np.asarray(chosen.select(rows) & known)

    def count_ask(self, label: str, chosen: Predicate, cost: Cost) -> Ask:
        """A count to release."""
        return Ask(label=label, cost=cost, depends=self.depends(chosen), whole=1)

    def counted(self, rows: FilledTable, chosen: Predicate) -> RowSum:
        """The count itself."""
        return counted(chosen.select(rows), depends=self.depends(chosen))

    def sum_ask(self, label: str, name: str, chosen: Predicate, cost: Cost) -> Ask:
        """A sum to release, refused here if there is nothing to add up."""
        self.numeric(name)
        depends = self.depends(chosen) or name in self.imputation.shared()
        return Ask(label=f"{label} of {name}", cost=cost, depends=depends, moves=2)

    def change(self, name: str, chosen: Predicate, limit: float) -> float:
        """How far one donee that exchanges a donor moves a sum of values within ``limit``."""
        attribute = self.numeric(name)
        width = attribute.upper - attribute.lower
        moved = 0.0
        if name in self.imputation.shared():
            moved = width * self.imputation.step(name, self.schema)
        # A donee that enters or leaves the subpopulation brings or takes its whole value.
        return max(moved, limit) if self.depends(chosen) else moved

    def quotient(
        self,
        label: str,
        noisy: list[Noisy],
        asks: list[Ask],
        bounds: tuple[float, float],
        shift: Callable[[float], float],
    ) -> Estimate:
        """Return the shifted quotient of two released numbers, within public bounds."""
        part, whole = noisy

        def ratio(top: float, bottom: float) -> float:
            return shift(top / max(bottom, 1.0))

        level = self.releaser.level(2)
        interval = corners(ratio, [part.within(level), whole.within(level)], bounds)
        return self.estimate(label, clip(ratio(part.value, whole.value), bounds), interval, asks)

    def estimate(
        self, name: str, value: float, interval: Interval | None, asks: list[Ask]
    ) -> Estimate:
        """Put an answer and its guarantee together."""
        return Estimate(
            name=name, value=value, interval=interval, confidence=self.releaser.confidence,
            guarantee=self.releaser.guarantee(asks),
        )  # fmt: skip
