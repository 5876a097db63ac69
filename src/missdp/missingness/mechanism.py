"""Missing-data mechanisms: what each of them does, and which cells of a table are holes.

`MissingMechanism` decides which cells of a complete table go missing; masks and patterns say where
the holes of a table are. Logistic models of missingness have one score per level: logit = intercept
+ Σ score[code]. What is computed from a table is private, for the curator's eyes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition, ObservedAtMost
from missdp.errors import DataError, ParameterError, UnprovenError
from missdp.schema import AnyAttribute, Categorical, Schema
from missdp.table import Table
from missdp.table.encode import Column
from missdp.table.follow import follow_rules

__all__ = [
    "MissingMechanism",
    "Probabilities",
    "RandomState",
    "RateKind",
    "Scores",
    "fitted_probability",
    "missing_mask",
    "missing_patterns",
    "positions",
    "random_scores",
    "sum_scores",
    "with_holes",
]


RandomState: TypeAlias = int | np.random.SeedSequence | np.random.Generator
Probabilities: TypeAlias = dict[str, NDArray[np.float64]]
RateKind: TypeAlias = Literal["expected", "exact"]


class MissingMechanism(ABC):
    """Decide which cells of a complete table go missing.

    Subclasses say with which probability each cell goes missing; cells are then drawn
    independently given those probabilities (``rates="expected"``), or so that each column has an
    exact number of holes (``rates="exact"``).

    Where an attribute is not applicable there is nothing to lose: such a cell never goes missing,
    rates are shares of the other cells, and as a driver it weighs 0. A cell that follows by a rule
    of the schema from what is left of its row is no hole either: whoever reads the table knows it.
    """

    @property
    def row_independent(self) -> bool:
        """Whether a row's holes depend on that row alone (Mohapatra et al. 2024, Theorem 5.2).

        True only for mechanisms with declared parameters and independent draws. Weights or
        intercepts that are fitted to the table, and exact hole counts, couple the rows.
        """
        return False

    def observed_at_most(self, schema: Schema) -> dict[str, float]:
        """Bound each attribute's probability of being observed, over all rows of the domain.

        Raises
        ------
        UnprovenError
            If no bound holds whatever the table is, because the mechanism is fitted to it.
        """
        raise UnprovenError(
            f"{type(self).__name__} is fitted to the table or couples its rows: no bound on the "
            "probability of being observed is known; use MCAR with rates='expected' or "
            f"DeclaredMechanism (attributes: {list(schema.names)})"
        )

    def assumption(self, schema: Schema) -> Condition:
        """Return what a guarantee for the ground truth may assume of rows that lose values so.

        Parameters
        ----------
        schema : Schema

        Returns
        -------
        Condition
            Cells go missing independently given their row, each observed with at most the chance
            that `observed_at_most` states.

        Raises
        ------
        UnprovenError
            If no bound holds whatever the table is, because the mechanism is fitted to it.

        Examples
        --------
        >>> from missdp import Categorical, Schema
        >>> from missdp.missingness import DeclaredMechanism
        >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
        >>> itself = {"smoker": {"smoker": {"yes": 1.0}}}  # smokers answer less often
        >>> known = DeclaredMechanism(intercepts={"smoker": 0.0}, weights=itself)
        >>> known.assumption(schema)
        ObservedAtMost(observed=(('smoker', 0.5),))
        """
        return ObservedAtMost(self.observed_at_most(schema))

    @abstractmethod
    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        """Probability of a hole per row, for every column that may get holes."""

    def probabilities(self, table: Table, *, random_state: RandomState) -> Probabilities:
        """Return each row's probability of a hole, for the columns that may get holes.

        Parameters
        ----------
        table : Table
            A complete table.
        random_state : int, SeedSequence or Generator
            Seed; the same seed gives :meth:`apply` the same probabilities.

        Returns
        -------
        dict of str to array of float, shape (n,)
            Private, unless the table is not.
        """
        _check_complete(table)
        return _spared(table, self._probabilities(table, np.random.default_rng(random_state)))

    def apply(self, table: Table, *, random_state: RandomState) -> Table:
        """Return the table with holes.

        Parameters
        ----------
        table : Table
            A complete table.
        random_state : int, SeedSequence or Generator
            Seed.

        Returns
        -------
        Table
            Same rows. Its schema declares every column nullable that may have holes, and what
            follows from one of these by a rule.

        Raises
        ------
        DataError
            If the table already has holes.
        SchemaError
            If the mechanism names an attribute that the schema does not declare.
        """
        _check_complete(table)
        rng = np.random.default_rng(random_state)
        chances = _spared(table, self._probabilities(table, rng))
        return with_holes(table, {name: self._draw(p, rng) for name, p in chances.items()})

    def apply_blocks(
        self, tables: Iterable[Table], *, random_state: RandomState
    ) -> Iterator[Table]:
        """Yield tables with holes, each as :meth:`apply` would make them if it were the whole.

        Of mechanisms whose rows lose cells independently that is the same law.
        """
        rng = np.random.default_rng(random_state)
        for place, table in enumerate(tables):
            yield self.apply(table, random_state=random_state if place == 0 else rng.spawn(1)[0])

    def _draw(self, chance: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
        if getattr(self, "rates", "expected") == "exact":
            return draw_exact(chance, rng)
        return np.asarray(rng.random(len(chance)) < chance)


def draw_exact(chance: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw exactly ``round(sum(chance))`` holes, each cell with its own probability.

    Systematic sampling on a random order of the rows (Madow 1949): the inclusion probabilities
    are the given ones whenever their sum is whole.
    """
    holes = np.zeros(len(chance), dtype=bool)
    wanted = round(float(chance.sum()))
    if wanted == 0:
        return holes
    order = rng.permutation(len(chance))
    ends = np.cumsum(chance[order])
    ends *= wanted / ends[-1]
    ends[-1] = wanted
    steps = np.floor(ends + rng.random())
    holes[order] = np.diff(steps, prepend=0.0) > 0
    return holes


def check_rate(rate: float) -> float:
    """Refuse what is not a share below 1."""
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise ParameterError(f"a missing rate must be in [0, 1), not {rate!r}")
    return float(rate)


def check_rates_kind(rates: str) -> None:
    """Refuse an unknown way to meet the rate."""
    if rates not in ("expected", "exact"):
        raise ParameterError(f"rates must be 'expected' or 'exact', not {rates!r}")


def check_names(schema: Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, or refuse unknown, repeated or no attributes."""
    found = tuple(schema[name].name for name in names)
    if len(set(found)) != len(found):
        raise ParameterError(f"attributes are named twice: {found}")
    if not found:
        raise ParameterError("name at least one attribute")
    return found


def target_rate(n_rows: int, rate: float, rates: str) -> float:
    """Rate that the fitted probabilities must average to: whole number of holes if exact."""
    return round(rate * n_rows) / n_rows if rates == "exact" and n_rows else rate


def constant(table: Table, missing: Mapping[str, float], rates: str) -> Probabilities:
    """Return the same probability for every row."""
    return {
        name: np.full(len(table), target_rate(int(has_value(table, name).sum()), rate, rates))
        for name, rate in missing.items()
    }


def has_value(table: Table, name: str) -> NDArray[np.bool_]:
    """Return True where the attribute is applicable, of a table without holes."""
    return ~table.mask(name)


def always_known(schema: Schema) -> dict[str, float]:
    """Return what bounds the chances of what may be settled without a value: 1, all the time."""
    return dict.fromkeys(schema.rulebook.may_fill, 1.0)


def _spared(table: Table, chances: Probabilities) -> Probabilities:
    """Return the probabilities, 0 where there is nothing to lose."""
    return {name: np.where(has_value(table, name), p, 0.0) for name, p in chances.items()}


def _check_complete(table: Table) -> None:
    if table.incomplete_rows().any():
        raise DataError(
            "missing values are simulated on complete tables, and this one has holes already; "
            "drop its incomplete rows or fill them first"
        )


def missing_mask(table: Table) -> NDArray[np.bool_]:
    """Return True where a cell is missing, of whatever kind; "not applicable" is not missing.

    Parameters
    ----------
    table : Table
        Private rows.

    Returns
    -------
    array of bool, shape (n, d)
        Columns in schema order. Private, like the cells themselves.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import missing_mask
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_mask(Table.from_codes(schema, {"a": [0, 2]})).tolist()
    [[False], [True]]
    """
    return np.column_stack([table.codes(a.name) >= a.missing_code for a in table.schema])


def missing_patterns(table: Table) -> dict[tuple[str, ...], int]:
    """Count the rows of every pattern of missing attributes. Curator only: exact private counts.

    Parameters
    ----------
    table : Table
        Private rows.

    Returns
    -------
    dict of tuple of str to int
        Names of the missing attributes (empty: a complete row), most frequent pattern first.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import missing_patterns
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_patterns(Table.from_codes(schema, {"a": [0, 2, 1]}))
    {(): 2, ('a',): 1}
    """
    patterns, counts = np.unique(missing_mask(table), axis=0, return_counts=True)
    names = np.array(table.schema.names, dtype=object)
    order = np.argsort(-counts, kind="stable")
    return {tuple(names[patterns[i]]): int(counts[i]) for i in order}


def with_holes(table: Table, holes: Mapping[str, NDArray[np.bool_]]) -> Table:
    """Return the table with cells removed; every attribute named is nullable in its schema.

    Removed cells that follow from the rest of their row by a rule are there again.
    """
    open_ = _nullable(table.schema, holes)
    schema = replace(
        table.schema,
        attributes=tuple(replace(a, nullable=True) if a.name in open_ else a for a in table.schema),
    )
    columns = {name: table.column(name) for name in schema.names}
    found = Table(schema, columns, kind=table.kind).with_missing(holes)
    if not schema.rules:
        return found
    columns = {name: found.column(name) for name in schema.names}
    followed = follow_rules(schema, columns, holes)
    restored = {n: _where(holes[n], followed[n], columns[n]) for n in holes}
    return Table(schema, columns | restored, kind=table.kind)


def _nullable(schema: Schema, names: Iterable[str]) -> set[str]:
    """Return attributes that may have holes, and those that follow from them by a rule."""
    found = set(names)
    while (
        grown := {name for name, rule in schema.rulebook.derives.items() if found & {*rule.by}}
        - found
    ):
        found |= grown
    return found


def _where(chosen: NDArray[np.bool_], one: Column, two: Column) -> Column:
    """Return the cells of one column where chosen, else those of the other."""
    values = None
    if one.values is not None and two.values is not None:
        values = np.where(chosen, one.values, two.values)
    return Column(np.where(chosen, one.codes, two.codes), values)


Scores = Mapping[str, NDArray[np.float64]]


def positions(attribute: AnyAttribute) -> NDArray[np.float64]:
    """Place the ordered levels or bins of an attribute evenly on [-1, 1]: a public scale."""
    if attribute.size == 1:
        return np.zeros(1)
    return np.linspace(-1.0, 1.0, attribute.size)


def sum_scores(table: Table, scores: Scores) -> NDArray[np.float64]:
    """Add up the scores of each row's levels."""
    total = np.zeros(len(table))
    for name, score in scores.items():
        total += score_of(table, name, score)
    return total


def score_of(table: Table, name: str, score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of each row's level; what is not applicable has 0."""
    return np.asarray(np.append(score, 0.0)[table.codes(name)])


def random_scores(
    table: Table, drivers: Iterable[str], *, strength: float, rng: np.random.Generator
) -> Scores:
    """Draw a linear predictor of the drivers whose standard deviation in the table is ``strength``.

    Each driver is standardised in the table (unordered levels are first given standard normal
    numbers), weighted by a standard normal weight, and the sum is scaled (Muzellec et al. 2020).
    """
    scores = {}
    for name in drivers:
        attribute = table.schema[name]
        unordered = isinstance(attribute, Categorical)
        score = rng.standard_normal(attribute.size) if unordered else positions(attribute)
        weight = rng.standard_normal()
        scores[name] = weight * _divide(score, score_of(table, name, score))
    total = sum_scores(table, scores)
    return {name: strength * _divide(score, total) for name, score in scores.items()}


def fitted_probability(linear: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Shift logits by the intercept that makes the mean probability equal the rate."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    if rate in (0.0, 1.0) or not linear.size:
        return np.full(linear.shape, rate)
    target = float(logit(rate))
    low, high = target - float(linear.max()), target - float(linear.min())
    if high - low < 1e-12:
        return np.full(linear.shape, rate)

    def excess(intercept: float) -> float:
        return float(expit(linear + intercept).mean()) - rate

    intercept = brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-13)
    return np.asarray(expit(linear + intercept), dtype=np.float64)


def _divide(score: NDArray[np.float64], realised: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale a score by the spread it has in the table; leave a constant alone."""
    spread = float(realised.std()) if realised.size else 0.0
    return score / spread if spread > 1e-12 else score
