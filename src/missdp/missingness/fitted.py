"""Mechanisms fitted to the table: MAR, MNAR and self-masking (Muzellec et al. 2020).

Their weights are scaled to the table and their intercepts solved on it, so whether one row loses a
value depends on the others: no guarantee for the ground truth rests on them (paper A, Theorem 5.2
needs rows that are independent). Use :class:`~missdp.missingness.DeclaredMechanism` for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from missdp.errors import ParameterError
from missdp.missingness.logistic import fitted_probability, random_scores, sum_scores
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

__all__ = ["MAR", "MNAR", "SelfMasking"]


@dataclass(frozen=True, kw_only=True)
class _Fitted(MissingMechanism):
    rate: float
    strength: float = 1.0
    rates: RateKind = "expected"

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_rates_kind(self.rates)
        if not 0 < self.strength < float("inf"):
            raise ParameterError(f"strength must be a positive number, not {self.strength!r}")

    def _logistic(
        self, table: Table, targets: Iterable[str], drivers: Iterable[str], rng: np.random.Generator
    ) -> Probabilities:
        rate = target_rate(len(table), self.rate, self.rates)
        drivers = tuple(drivers)
        chances = {}
        for name in targets:
            scores = random_scores(table, drivers, strength=self.strength, rng=rng)
            chances[name] = fitted_probability(sum_scores(table, scores), rate)
        return chances


@dataclass(frozen=True, kw_only=True)
class MAR(_Fitted):
    """Missing at random: columns that are always observed drive the holes of the others.

    Parameters
    ----------
    rate : float
        Share of missing cells in each column that gets holes, in [0, 1).
    drivers : tuple of str, optional
        Columns that stay observed (default: half of them, drawn at random).
    strength : float, default 1.0
        Standard deviation of the logits in the table.
    rates : {"expected", "exact"}, default "expected"
        Whether the rate is met on average or by the exact number of holes in each column.

    References
    ----------
    Muzellec, Josse, Boyer and Cuturi, "Missing Data Imputation using Optimal Transport", ICML 2020;
    paper A §6.1.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import MAR
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "ab"))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25})
    >>> MAR(rate=0.3, drivers=("a",)).apply(table, random_state=0).schema.nullable
    ('b',)
    """

    drivers: tuple[str, ...] | None = None

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        drivers, targets = _split(table.schema, self.drivers, rng)
        return self._logistic(table, targets, drivers, rng)


@dataclass(frozen=True, kw_only=True)
class MNAR(_Fitted):
    """Missing not at random: the values that drive the holes are themselves missing at times.

    Parameters
    ----------
    rate : float
        Share of missing cells in every column, in [0, 1).
    model : {"hidden-drivers", "all-columns"}, default "hidden-drivers"
        ``"hidden-drivers"``: half of the columns drive the holes of the others, and lose cells
        completely at random themselves (paper A §6.1). ``"all-columns"``: every column's holes
        depend on the whole row, its own value included.
    drivers : tuple of str, optional
        The driving columns (default: half of them, drawn at random). Not with ``"all-columns"``.
    strength : float, default 1.0
        Standard deviation of the logits in the table.
    rates : {"expected", "exact"}, default "expected"
        Whether the rate is met on average or by the exact number of holes in each column.

    References
    ----------
    Muzellec, Josse, Boyer and Cuturi, "Missing Data Imputation using Optimal Transport", ICML 2020;
    paper A §6.1.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import MNAR
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "ab"))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25})
    >>> MNAR(rate=0.3).apply(table, random_state=0).schema.nullable
    ('a', 'b')
    """

    model: Literal["hidden-drivers", "all-columns"] = "hidden-drivers"
    drivers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model not in ("hidden-drivers", "all-columns"):
            raise ParameterError(
                f"model must be 'hidden-drivers' or 'all-columns', not {self.model!r}"
            )
        if self.model == "all-columns" and self.drivers is not None:
            raise ParameterError("drivers are for model='hidden-drivers' only")

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        names = table.schema.names
        if self.model == "all-columns":
            return self._logistic(table, names, names, rng)
        drivers, targets = _split(table.schema, self.drivers, rng)
        chances = self._logistic(table, targets, drivers, rng)
        rate = target_rate(len(table), self.rate, self.rates)
        return chances | constant(len(table), dict.fromkeys(drivers, rate))


@dataclass(frozen=True, kw_only=True)
class SelfMasking(_Fitted):
    """Missing not at random: whether a cell is missing depends on its own value alone.

    Parameters
    ----------
    rate : float
        Share of missing cells in each column that gets holes, in [0, 1).
    columns : tuple of str, optional
        Columns that get holes (default: all).
    strength : float, default 1.0
        Standard deviation of the logits in the table.
    rates : {"expected", "exact"}, default "expected"
        Whether the rate is met on average or by the exact number of holes in each column.

    References
    ----------
    Muzellec, Josse, Boyer and Cuturi, "Missing Data Imputation using Optimal Transport", ICML 2020.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import SelfMasking
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50})
    >>> chance = SelfMasking(rate=0.3).probabilities(table, random_state=0)["a"]
    >>> round(chance.mean(), 9), bool(chance[0] != chance[1])
    (np.float64(0.3), True)
    """

    columns: tuple[str, ...] | None = None

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        columns = table.schema.names if self.columns is None else self.columns
        chances: Probabilities = {}
        for name in check_names(table.schema, columns):
            chances |= self._logistic(table, (name,), (name,), rng)
        return chances


def _split(
    schema: Schema, drivers: tuple[str, ...] | None, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that drive and names that are driven."""
    if len(schema) < 2:
        raise ParameterError(
            "a driving column needs another one to drive: give two columns or more"
        )
    if drivers is None:
        chosen = rng.permutation(len(schema))[: max(1, len(schema) // 2)]
        drivers = tuple(schema.names[i] for i in sorted(chosen))
    drivers = check_names(schema, drivers)
    targets = tuple(name for name in schema.names if name not in drivers)
    if not targets:
        raise ParameterError("at least one column must not be a driver")
    return drivers, targets
