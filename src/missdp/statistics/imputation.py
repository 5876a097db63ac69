"""Ways to impute missing values, as public parameters: k nearest neighbours, and simpler ones.

None of them holds rows: each tells a door by which function its rows are filled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError, SchemaError, UnprovenError, names_of, number
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.questions import Counts, Filled, Preparation, Prepared, Question, Rows
from missdp.schema import Level, Numeric, Schema
from missdp.schema.bound import not_everywhere
from missdp.statistics.donors import impute
from missdp.statistics.metric import Metric, MetricName, build_metric
from missdp.statistics.parts import Imputation, check_range, share

__all__ = ["Aggregate", "CappedKNN", "CompleteRows", "KNNImputation", "ReleasedModel"]


Aggregate = Literal["nearest", "mean", "majority"]


@dataclass(frozen=True, kw_only=True)
class KNNImputation(Imputation):
    """k-nearest-neighbour imputation of one or several attributes; public parameters only.

    A row is *complete* (a possible donor) if all of ``impute`` is observed in it. Every other row
    keeps what it has and takes what it lacks from its k nearest donors.

    What is not applicable is never filled, and rows to which nothing of ``impute`` applies neither
    give nor take. A hole in a routed attribute is filled where the rule's condition surely holds
    in its row; where the condition itself is missing it stays a hole. Attributes filled together
    come from donors to which the same of them apply.

    Parameters
    ----------
    impute : str or sequence of str
        Attributes to fill; they share donors.
    match_on : sequence of str, or mapping of str to float
        Attributes that donors are matched on, with weights (default 1). Numeric attributes are
        matched by the bins of the schema. A missing cell is one more level, at the largest distance
        from every other, and "not applicable" another one.
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
        impute, names, group = (names_of("attributes", n) for n in (impute, match_on, group))
        weights = dict(match_on) if isinstance(match_on, Mapping) else dict.fromkeys(names, 1.0)
        facts = {
            "impute": impute, "match_on": weights, "k": k, "metric": metric,
            "group": group, "aggregate": aggregate, "partition": dict(partition or {}),
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
        together = not_everywhere(schema, self.impute) if len(self.impute) > 1 else ()
        return build_metric(
            schema, match_on=self.match_on, group=self.group, metric=self.metric,
            partition=self.partition, together=together,
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


_MAX_MODEL_CELLS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class CompleteRows(Imputation):
    """Ignore rows in which any of ``impute`` is missing; every query has the usual sensitivity.

    What is not applicable is not missing. Biased unless values are missing completely at random.

    Examples
    --------
    >>> from missdp.statistics import CompleteRows
    >>> CompleteRows(impute=("income",)).shared()
    frozenset()
    """

    impute: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "impute", names_of("attributes", self.impute))
        if not self.impute:
            raise ParameterError("name at least one attribute")

    def check(self, schema: Schema) -> object:
        """Refuse unknown attributes."""
        return [schema[name] for name in self.impute]

    def preparation(
        self,
        schema: Schema,  # noqa: ARG002
        released: Sequence[NDArray[np.float64]] = (),  # noqa: ARG002
    ) -> Preparation:
        """Return how a door keeps the complete rows only."""
        names = tuple(self.impute)
        return Preparation(function=_keep_complete, reads=frozenset(names), given=(names,))


@dataclass(frozen=True, kw_only=True)
class CappedKNN(Imputation):
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
        """Check the parameters of the imputation."""
        return self.knn.check(schema)

    def shared(self) -> frozenset[str]:
        """The imputed attributes."""
        return self.knn.shared()

    def fills(self) -> frozenset[str]:
        """The imputed attributes."""
        return self.knn.fills()

    def step(self, name: str, schema: Schema) -> float:
        """Largest move of a filled value per exchanged donor, as a share of the range."""
        return self.knn.step(name, schema)

    def preparation(
        self, schema: Schema, released: Sequence[NDArray[np.float64]] = ()
    ) -> Preparation:
        """Return how a door imputes its rows, with the declared bound instead of a private one."""
        return replace(self.knn.preparation(schema, released), cap=self.max_donees)


@dataclass(frozen=True, kw_only=True)
class ReleasedModel(Imputation):
    """Fill each hole by a draw from a released conditional table: later queries cost as usual.

    Holes where the attribute is not applicable, or may not be, stay; see `KNNImputation`.

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
        object.__setattr__(self, "impute", names_of("attributes", self.impute))
        object.__setattr__(self, "match_on", names_of("attributes", self.match_on))
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

    def fills(self) -> frozenset[str]:
        """The imputed attributes."""
        return frozenset(self.impute)

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:
        """Return what is released first: one noisy contingency table per attribute to fill."""
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
        """Return how a door fills its rows from the released tables."""
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
    return Prepared(keep=~np.any([rows.holes(name) for name in names], axis=0))


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
    columns: dict[str, Filled] = {}
    for name, odds in zip(names, laws, strict=True):
        attribute, hole = rows.schema[name], rows.holes(name) & rows.applies(name)[0]
        law = odds[tuple(rows.codes(other)[hole] for other in matched)]
        draws = rng.random(len(law))
        codes = (draws[:, None] > np.cumsum(law, axis=1)).sum(axis=1)
        codes = np.minimum(codes, attribute.size - 1)
        values = None
        if isinstance(attribute, Numeric):
            values = attribute.decode(codes, rng.random(len(codes)))
        columns[name] = Filled(np.flatnonzero(hole), codes, values)
    return Prepared(columns)
