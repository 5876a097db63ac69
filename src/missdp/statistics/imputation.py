"""k-nearest-neighbour imputation: what it is (public), and the pure function that a door runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, SchemaError, replacing
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.questions import Preparation, Prepared, Question, RowView
from missdp.schema import AnyAttribute, Level, Numeric, Schema
from missdp.statistics.layout import Metric, MetricName, build_metric, lay_out
from missdp.statistics.neighbours import choose_donors
from missdp.statistics.profile import Profile

__all__ = ["Aggregate", "Cells", "KNNImputation", "check_range", "impute", "names_of"]


_CLOSEST = 1e-150
Aggregate = Literal["nearest", "mean", "majority"]
Cells: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64] | None]"


@dataclass(frozen=True, kw_only=True)
class KNNImputation:
    """k-nearest-neighbour imputation of one or several attributes; public parameters only.

    A row is *complete* (a possible donor) if all of ``impute`` is observed in it. Every other row
    keeps what it has and takes what it lacks from its k nearest donors.

    Parameters
    ----------
    impute : str or sequence of str
        Attributes to fill; they share donors.
    match_on : sequence of str, or mapping of str to float
        Attributes that donors are matched on, with weights (default 1). Numeric attributes are
        matched by the bins of the schema. A missing cell is one more level, at the largest distance
        from every other.
    k : int, default 1
        Donors per incomplete row.
    metric : {"gower", "euclidean"}, default "gower"
        Sum of range-normalised differences (mismatch for categorical attributes), or of their
        squares.
    group : sequence of str, default ()
        Attributes on which a donor must agree exactly.
    aggregate : {"nearest", "mean", "majority"} or mapping, optional
        How k values become one, for all attributes or each. Default: the nearest donor's value if
        k is 1, else the mean of a numeric attribute and the majority of others (ties go to the
        nearest).
    partition : mapping of str to int, default {}
        Blocks of consecutive codes that coarsen the sensitivity bound (not the imputation) where
        the public domain is too large for the exact one.
    default : mapping of str to a level or number, default {}
        Public value that stands in for donors that do not exist (default: the middle of the
        bounds, or the first level).

    Raises
    ------
    ParameterError
        If the parameters contradict each other.

    Notes
    -----
    *Fewer than k donors.* Behind all real donors, at infinite distance, every incomplete row has k
    virtual donors that hold the public default. So a donor set always has exactly k members, one
    donor more or less exchanges exactly one of them, and the sensitivity theorem holds unchanged:
    the mean divides by k, never by the number of donors found.

    Examples
    --------
    >>> from missdp.statistics import KNNImputation
    >>> KNNImputation(impute="income", match_on=("age", "education")).k
    1
    """

    impute: tuple[str, ...] = field()
    match_on: Mapping[str, float] = field()
    k: int = 1
    metric: MetricName = "gower"
    group: tuple[str, ...] = ()
    aggregate: Aggregate | Mapping[str, Aggregate] | None = None
    partition: Mapping[str, int] = field(default_factory=dict)
    default: Mapping[str, Level | float] = field(default_factory=dict)

    def __init__(
        self,
        *,
        impute: str | Sequence[str],
        match_on: str | Sequence[str] | Mapping[str, float],
        k: int = 1,
        metric: MetricName = "gower",
        group: str | Sequence[str] = (),
        aggregate: Aggregate | Mapping[str, Aggregate] | None = None,
        partition: Mapping[str, int] | None = None,
        default: Mapping[str, Level | float] | None = None,
    ) -> None:
        names = names_of(match_on)
        weights = dict(match_on) if isinstance(match_on, Mapping) else dict.fromkeys(names, 1.0)
        facts = {
            "impute": names_of(impute), "match_on": weights, "k": k, "metric": metric,
            "group": names_of(group), "aggregate": aggregate, "partition": dict(partition or {}),
            "default": dict(default or {}),
        }  # fmt: skip
        for name, value in facts.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if not self.impute or not (self.match_on or self.group):
            raise ParameterError("name at least one attribute to impute and one to match on")
        everything = (*self.impute, *self.match_on, *self.group)
        if len(set(everything)) < len(everything):
            raise ParameterError("an attribute is either imputed, matched on or a group, and once")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= 1000:
            raise ParameterError("k must be a whole number from 1 to 1000")
        if unknown := (set(self.default) | set(self._aggregates())) - set(self.impute):
            raise ParameterError(
                f"aggregate or default for attributes not imputed: {sorted(unknown)}"
            )
        for how in self._aggregates().values():
            if how not in get_args(Aggregate):
                raise ParameterError(f"aggregate must be one of {get_args(Aggregate)}, not {how!r}")
            if how == "nearest" and self.k > 1:
                raise ParameterError("aggregate 'nearest' copies one donor: use k = 1")

    def _aggregates(self) -> Mapping[str, Aggregate]:
        if isinstance(self.aggregate, Mapping):
            return self.aggregate
        return {} if self.aggregate is None else dict.fromkeys(self.impute, self.aggregate)

    def aggregate_of(self, name: str, schema: Schema) -> Aggregate:
        """How the values of k donors become one."""
        numeric = isinstance(schema[name], Numeric)
        usual: Aggregate = "mean" if numeric else "majority"
        how = self._aggregates().get(name, "nearest" if self.k == 1 else usual)
        if how == "mean" and not numeric:
            raise SchemaError(f"{name!r} is not numeric: impute it by 'majority'")
        if how == "majority" and numeric:
            raise SchemaError(f"{name!r} is numeric: impute it by 'mean', or declare it ordinal")
        return how

    def check(self, schema: Schema) -> Metric:
        """Check the parameters against a schema and return the public metric.

        Raises
        ------
        SchemaError
            If an attribute does not exist or cannot be imputed this way.
        UnprovenError
            If the public domain is too large for the sensitivity bound.
        """
        for name in self.impute:
            check_range(schema[name])
            self.aggregate_of(name, schema)
            self.default_of(name, schema)
        return build_metric(
            schema, match_on=self.match_on, group=self.group, metric=self.metric,
            partition=self.partition,
        )  # fmt: skip

    def default_of(self, name: str, schema: Schema) -> float:
        """Return the public stand-in for absent donors: a value (numeric) or a code."""
        attribute = schema[name]
        if isinstance(attribute, Numeric):
            value = self.default.get(name, (attribute.lower + attribute.upper) / 2)
            if isinstance(value, (str, bool)) or not isinstance(value, Real):
                value = math.nan
            if not attribute.lower <= value <= attribute.upper:
                raise ParameterError(f"default of {name!r} must be a number within its bounds")
            return float(value)
        level = self.default.get(name, attribute.levels[0])
        if level not in attribute.levels:
            raise ParameterError(f"default of {name!r} must be one of its levels")
        return float(attribute.levels.index(level))

    def shared(self) -> frozenset[str]:
        """Attributes whose filled values depend on other rows."""
        return frozenset(self.impute)

    def fills(self) -> frozenset[str]:
        """Attributes that are filled."""
        return frozenset(self.impute)

    def step(self, name: str, schema: Schema) -> float:
        """Largest move of a filled value per exchanged donor, as a share of the range."""
        return 1 / self.k if self.aggregate_of(name, schema) == "mean" else 1.0

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:  # noqa: ARG002
        """Nothing is released by imputing."""
        return ()

    def preparation(
        self,
        schema: Schema,
        released: Sequence[NDArray[np.float64]] = (),  # noqa: ARG002
    ) -> Preparation:
        """Return how a door imputes its rows."""
        metric = self.check(schema)
        fills = tuple(
            (name, self.aggregate_of(name, schema), self.default_of(name, schema))
            for name in self.impute
        )
        return Preparation(
            function=impute,
            reads=frozenset(self.impute) | frozenset(metric.names),
            given=(fills, self.k, metric),
            draws="labels",
            shared=self.shared(),
        )


def impute(
    rows: RowView,
    labels: NDArray[np.uint64],
    fills: tuple[tuple[str, str, float], ...],
    k: int,
    metric: Metric,
) -> Prepared:
    """Fill rows from their k nearest donors; the result is private.

    Parameters
    ----------
    rows : RowView
        Private rows.
    labels : array of unsigned int, shape (n,)
        Tie-breaking labels.
    fills : tuple of (str, str, float)
        Attributes to fill, how k values become one, and what stands in for absent donors: a value
        for numeric attributes, a code for others.
    k : int
        Donors per incomplete row.
    metric : Metric
    """
    missing = np.zeros(len(rows), dtype=bool)
    for name, _, _ in fills:
        missing |= rows.codes(name) == rows.schema[name].missing_code
    layout = lay_out(rows, metric, ~missing, labels)
    donors = choose_donors(layout, k)
    columns = {
        name: _fill(rows, name, layout.donees.rows, donors, how=how, default=default)
        for name, how, default in fills
    }
    return Prepared(columns, profile=Profile(layout, k))


def _fill(
    table: RowView,
    name: str,
    rows: NDArray[np.int64],
    donors: NDArray[np.int64],
    *,
    how: str,
    default: float,
) -> Cells:
    """Return one column with its holes filled from donors.

    Parameters
    ----------
    table : RowView
        Private rows.
    name : str
        Attribute to fill.
    rows : array of int, shape (m,)
        Incomplete rows.
    donors : array of int, shape (m, k)
        Their donors, -1 for the virtual donor that holds ``default``.
    how : {"nearest", "mean", "majority"}
        How k values become one.
    default : float
        A value for numeric attributes, a code for others.
    """
    attribute = table.schema[name]
    hole = (table.codes(name) == attribute.missing_code)[rows]
    target, donors = rows[hole], donors[hole]
    codes = table.codes(name).astype(np.int64)
    if not isinstance(attribute, Numeric):
        votes = np.where(donors < 0, int(default), codes[donors])
        codes[target] = _majority(votes)
        return codes, None
    values = table.values(name).copy()
    given = np.where(donors < 0, default, values[donors])
    values[target] = given.mean(axis=1) if how == "mean" else given[:, 0]
    np.clip(values, attribute.lower, attribute.upper, out=values)
    codes[target] = attribute.encode_values(values[target])
    return codes, values


def _majority(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Most frequent vote of each row; ties go to the vote that comes first."""
    support = np.zeros_like(votes)
    for column in range(votes.shape[1]):
        support += votes == votes[:, [column]]
    return np.asarray(votes[np.arange(len(votes)), support.argmax(axis=1)])


def names_of(names: str | Sequence[str] | Mapping[str, float]) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    given: tuple[Any, ...] = ()
    with replacing(TypeError, by=ParameterError("attributes are given by name")):
        given = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in given):
        raise ParameterError("attributes are given by name")
    return given


def check_range(attribute: AnyAttribute) -> None:
    """Refuse bounds whose squares floating point cannot hold; a public fact.

    Raises
    ------
    SchemaError
        If the attribute is numeric and its bounds are closer than 1e-150.
    """
    if isinstance(attribute, Numeric) and attribute.upper - attribute.lower < _CLOSEST:
        raise SchemaError(
            f"the bounds of {attribute.name!r} are too close for statistics; use another unit"
        )
