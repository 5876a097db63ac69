"""Missing completely at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from missdp.errors import ParameterError, UnprovenError
from missdp.missingness.mechanism import (
    MissingMechanism,
    Probabilities,
    RateKind,
    check_names,
    check_rate,
    check_rates_kind,
    constant,
    target_rate,
)
from missdp.schema import Schema
from missdp.table import Table

__all__ = ["MCAR"]


@dataclass(frozen=True, kw_only=True)
class MCAR(MissingMechanism):
    """Cells go missing completely at random, independently across attributes.

    Parameters
    ----------
    rate : float or mapping of str to float
        Share of missing cells, in [0, 1): the same for every column, or one per column.
    columns : tuple of str, optional
        Columns that get holes (default: all). Not with a mapping.
    rates : {"expected", "exact"}, default "expected"
        ``"exact"`` puts exactly ``round(rate * n)`` holes into a column, which couples the rows.

    Raises
    ------
    ParameterError
        If a rate is outside [0, 1) or the options contradict each other.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import MCAR, missing_mask
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50})
    >>> holes = MCAR(rate=0.2, rates="exact").apply(table, random_state=0)
    >>> int(missing_mask(holes).sum()), holes.schema.nullable
    (20, ('a',))
    """

    rate: float | Mapping[str, float]
    columns: tuple[str, ...] | None = None
    rates: RateKind = "expected"

    def __post_init__(self) -> None:
        check_rates_kind(self.rates)
        if not isinstance(self.rate, Mapping):
            check_rate(self.rate)
            return
        if self.columns is not None:
            raise ParameterError("give a rate per column, or one rate and columns, not both")
        for rate in self.rate.values():
            check_rate(rate)

    @property
    def row_independent(self) -> bool:
        """Whether a row's holes depend on that row alone: yes, unless the hole count is exact."""
        return self.rates == "expected"

    def missing_rates(self, schema: Schema) -> dict[str, float]:
        """Return the rate of every column that gets holes."""
        if isinstance(self.rate, Mapping):
            return {name: float(self.rate[name]) for name in check_names(schema, self.rate)}
        names = schema.names if self.columns is None else self.columns
        return dict.fromkeys(check_names(schema, names), float(self.rate))

    def observed(self, schema: Schema) -> dict[str, float]:
        """Return each attribute's probability of being observed.

        Raises
        ------
        UnprovenError
            If the hole counts are exact: then cells are not missing independently.
        """
        if not self.row_independent:
            raise UnprovenError("exact hole counts couple the rows; use rates='expected'")
        missing = self.missing_rates(schema)
        return {name: 1.0 - missing.get(name, 0.0) for name in schema.names}

    def observed_at_most(self, schema: Schema) -> dict[str, float]:
        """Bound each attribute's probability of being observed; see :meth:`observed`."""
        return self.observed(schema)

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        del rng  # nothing about the mechanism itself is drawn
        wanted = self.missing_rates(table.schema)
        n = len(table)
        return constant(n, {name: target_rate(n, r, self.rates) for name, r in wanted.items()})
