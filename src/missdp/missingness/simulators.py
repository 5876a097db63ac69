"""Simulators of missing data: completely at random, declared by the user, or fitted to the table.

Those fitted to the table are MAR, MNAR and self-masking (Muzellec et al. 2020). Their weights are
scaled to the table and their intercepts solved on it, so whether one row loses a value depends on
the others: no guarantee for the ground truth rests on them (Theorem 5.2 of Mohapatra et al. (2024)
needs rows that are independent). Use :class:`~missdp.missingness.DeclaredMechanism` for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, UnprovenError
from missdp.missingness.mechanism import (
    MissingMechanism,
    Probabilities,
    RateKind,
    Scores,
    always_known,
    check_names,
    check_rate,
    check_rates_kind,
    constant,
    fitted_probability,
    has_value,
    positions,
    random_scores,
    sum_scores,
    target_rate,
)
from missdp.schema import AnyAttribute, Categorical, Level, Numeric, Schema
from missdp.schema.bound import not_everywhere
from missdp.table import Table

__all__ = ["MAR", "MCAR", "MNAR", "DeclaredMechanism", "SelfMasking", "Weight"]


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

        It is 1 for attributes that may be not applicable, or follow from others: they may be
        known whatever went missing.

        Raises
        ------
        UnprovenError
            If the hole counts are exact: then cells are not missing independently.
        """
        if not self.row_independent:
            raise UnprovenError("exact hole counts couple the rows; use rates='expected'")
        missing = self.missing_rates(schema)
        found = {name: 1.0 - missing.get(name, 0.0) for name in schema.names}
        return found | always_known(schema)

    def observed_at_most(self, schema: Schema) -> dict[str, float]:
        """Bound each attribute's probability of being observed; see :meth:`observed`."""
        return self.observed(schema)

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        del rng  # nothing about the mechanism itself is drawn
        return constant(table, self.missing_rates(table.schema), self.rates)


Weight: TypeAlias = float | Mapping[Level, float]


@dataclass(frozen=True, kw_only=True)
class DeclaredMechanism(MissingMechanism):
    """Each cell goes missing with a declared logistic probability of its own row.

    ``P(column is missing | row) = 1 / (1 + exp(-(intercept + sum of weights)))``. Nothing is fitted
    to the table, so rows go missing independently of each other: with :class:`MCAR` the only
    mechanisms that carry the condition ``RowIndependentMissingness``.

    Parameters
    ----------
    intercepts : mapping of str to float
        One per column that gets holes; the logit of a row whose weights add up to 0.
    weights : mapping of str to mapping, optional
        Per column that gets holes, the weights of its drivers (its own name is allowed:
        self-masking). A number is the slope of an ordinal or numeric driver whose levels or bins
        are placed evenly on [-1, 1]. A mapping gives a weight per level of a categorical or
        ordinal driver; levels that are not named weigh 0.

    Raises
    ------
    ParameterError
        If a number is not finite or a column has weights but no intercept.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import DeclaredMechanism
    >>> schema = Schema((
    ...     Categorical(name="sex", levels=("female", "male")),
    ...     Categorical(name="smoker", levels=("no", "yes")),
    ... ))
    >>> mechanism = DeclaredMechanism(
    ...     intercepts={"smoker": -2.0}, weights={"smoker": {"sex": {"male": 1.0}}}
    ... )
    >>> {name: round(p, 3) for name, p in mechanism.observed_at_most(schema).items()}
    {'sex': 1.0, 'smoker': 0.881}
    >>> mechanism.row_independent
    True
    """

    intercepts: Mapping[str, float]
    weights: Mapping[str, Mapping[str, Weight]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.intercepts:
            raise ParameterError("name at least one attribute in intercepts")
        if lacking := [name for name in self.weights if name not in self.intercepts]:
            raise ParameterError(f"these columns have weights but no intercept: {lacking}")
        for number in self._numbers():
            if isinstance(number, bool) or not math.isfinite(number):
                raise ParameterError("intercepts and weights must be finite numbers")

    @property
    def row_independent(self) -> bool:
        """Whether a row's holes depend on that row alone: yes."""
        return True

    def observed_at_most(self, schema: Schema) -> dict[str, float]:
        """Bound each attribute's probability of being observed, over all rows of the domain.

        It is 1 for attributes that may be not applicable, or follow from others.
        """
        from scipy.special import expit

        bounds = dict.fromkeys(schema.names, 1.0)
        for name in check_names(schema, self.intercepts):
            scores = self._scores(schema, name)
            least = {driver: float(score.min()) for driver, score in scores.items()}
            none = not_everywhere(schema, least)  # what is not applicable weighs 0
            lowest = sum(min(x, 0.0) if driver in none else x for driver, x in least.items())
            bounds[name] = float(expit(-(self.intercepts[name] + lowest)))
        return bounds | always_known(schema)

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        from scipy.special import expit

        del rng  # nothing about the mechanism itself is drawn
        chances = {}
        for name in check_names(table.schema, self.intercepts):
            linear = self.intercepts[name] + sum_scores(table, self._scores(table.schema, name))
            chances[name] = np.asarray(expit(linear), dtype=np.float64)
        return chances

    def _scores(self, schema: Schema, name: str) -> Scores:
        drivers = self.weights.get(name, {})
        return {driver: _score(schema[driver], weight) for driver, weight in drivers.items()}

    def _numbers(self) -> list[float]:
        numbers = list(self.intercepts.values())
        for drivers in self.weights.values():
            for weight in drivers.values():
                numbers.extend(weight.values() if isinstance(weight, Mapping) else [weight])
        return numbers


def _score(attribute: AnyAttribute, weight: Weight) -> NDArray[np.float64]:
    """One number per level or bin."""
    if not isinstance(weight, Mapping):
        if isinstance(attribute, Categorical):
            raise ParameterError(
                f"attribute {attribute.name!r} has no order: give a weight per level"
            )
        return weight * positions(attribute)
    if isinstance(attribute, Numeric):
        raise ParameterError(f"attribute {attribute.name!r} is numeric: give one slope")
    if unknown := [level for level in weight if level not in attribute.levels]:
        raise ParameterError(attribute.not_a_level(unknown[0]))
    return np.array([float(weight.get(level, 0.0)) for level in attribute.levels])


@dataclass(frozen=True, kw_only=True)
class _Fitted(MissingMechanism):
    """A mechanism whose weights and intercepts are fitted to the table."""

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
        drivers = tuple(drivers)
        chances = {}
        for name in targets:
            scores = random_scores(table, drivers, strength=self.strength, rng=rng)
            here, linear = has_value(table, name), sum_scores(table, scores)
            rate = target_rate(int(here.sum()), self.rate, self.rates)
            chances[name] = np.zeros(len(table))
            chances[name][here] = fitted_probability(linear[here], rate)
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
    Muzellec et al. (2020); Mohapatra et al. (2024), section 6.1.

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
        completely at random themselves (Mohapatra et al. 2024). ``"all-columns"``: every column's
        holes depend on the whole row, its own value included.
    drivers : tuple of str, optional
        The driving columns (default: half of them, drawn at random). Not with ``"all-columns"``.
    strength, rates
        As in :class:`MAR`.

    References
    ----------
    Muzellec et al. (2020); Mohapatra et al. (2024), section 6.1.

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
        return chances | constant(table, dict.fromkeys(drivers, self.rate), self.rates)


@dataclass(frozen=True, kw_only=True)
class SelfMasking(_Fitted):
    """Missing not at random: whether a cell is missing depends on its own value alone.

    Parameters
    ----------
    rate : float
        Share of missing cells in each column that gets holes, in [0, 1).
    columns : tuple of str, optional
        Columns that get holes (default: all).
    strength, rates
        As in :class:`MAR`.

    References
    ----------
    Muzellec et al. (2020).

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
