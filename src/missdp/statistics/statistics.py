"""Statistics of a table with missing values: the public class, and a question asked in text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, get_args

from missdp.accounting import Budget, PureEvent
from missdp.errors import (
    BudgetExceededError,
    DataError,
    ParameterError,
    UnprovenError,
    number,
)
from missdp.mechanisms.asks import ScaleRelease
from missdp.mechanisms.row_door import RandomState, RowDoor
from missdp.schema import Numeric
from missdp.schema.predicates import Predicate, backticks_hint, parse_names, parse_where
from missdp.statistics.answers import (
    MissingCells,
    Uncertainty,
    correlation,
    count,
    histogram,
    mean,
    proportion,
    total,
    variance,
)
from missdp.statistics.estimates import Estimate, Histogram
from missdp.statistics.imputation import KNNImputation
from missdp.statistics.parts import Imputation, Parts, cost_of, share

if TYPE_CHECKING:
    from missdp.table import Table

__all__ = ["ImputedStatistics", "QueryRequest", "run_query"]


class ImputedStatistics:
    """Differentially private statistics on an imputed table, sharing one profile and one budget.

    Every query charges the budget before it computes, and answers with an `Estimate` (or a
    `Histogram`): value, error bar, guarantee.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation, ReleasedModel, CompleteRows or CappedKNN
        How holes are filled; its attributes are those with ``impute``.
    budget : Budget
        What may be spent, shared with whatever else uses it.
    scale : ScaleRelease, optional
        Pays, once and now, for error bars: the noise scale depends on the table, so an error bar is
        a release. With ``rho`` and ``delta`` it also allows Gaussian noise (queries with ``rho``).
        Without it, numbers that depend on imputed values come without error bars.
    confidence : float, default 0.95
        Of the error bars.
    undeclared : {"refuse", "accept"}, default "refuse"
        What to do with a schema some of whose facts nobody has declared public.
    random_state : int, Generator, NoiseSource or None
        None (the default) for releases. Anything else is for tests and becomes a condition.

    Notes
    -----
    Guarantee: add-remove, for the incomplete table. The number of rows is private: proportions
    and means divide by a released count. Weights (own, donee) of a sum of a row function f in
    [-L, L]: own = L; donee = 0 if f reads no imputed value, at most the range of f otherwise, and
    range / k if f is the k-NN mean itself on a subpopulation fixed by other attributes. Means use
    values centred at the middle of their bounds, which halves the own weight. Rows in which what is
    asked about is not applicable are left out.

    Counts, proportions, means and sums take ``uncertainty="worst-case"``: a tenth of their cost
    then pays for `Estimate.imputation_interval`, which holds whatever the missing cells are.

    Source: Clifton et al. (2022).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Numeric, Ordinal, Schema, Table
    >>> from missdp.accounting import Budget
    >>> from missdp.statistics import ImputedStatistics, KNNImputation
    >>> schema = Schema((
    ...     Ordinal(name="grade", levels=(1, 2, 3)),
    ...     Numeric(name="income", lower=0, upper=100, nullable=True),
    ... ))
    >>> frame = pd.DataFrame({"grade": [1, 2, 3] * 200, "income": [10.0, 20.0, None] * 200})
    >>> statistics = ImputedStatistics(
    ...     Table.read(frame, schema), KNNImputation(impute="income", match_on="grade"),
    ...     budget=Budget(2.0),
    ... )
    >>> answer = statistics.count(where="income > 15", epsilon=1.0)
    >>> answer.guarantee.epsilon
    1.0
    """

    def __init__(
        self,
        table: Table,
        imputation: Imputation,
        *,
        budget: Budget,
        scale: ScaleRelease | None = None,
        confidence: float = 0.95,
        undeclared: str = "refuse",
        random_state: RandomState = None,
    ) -> None:
        if not isinstance(imputation, Imputation):
            raise ParameterError(
                "imputation must be one of missdp.statistics, for example a KNNImputation"
            )
        if not isinstance(scale, ScaleRelease | None):
            raise ParameterError("scale must be a ScaleRelease or None")
        if number("confidence", confidence, most=1.0, open_end=True) < 0.5 or confidence == 1:
            raise ParameterError("confidence must be at least 0.5 and below 1")
        door = RowDoor(table, budget=budget, random_state=random_state, undeclared=undeclared)
        self._parts = Parts(_prepared(door, imputation, scale, confidence), imputation, confidence)

    def __repr__(self) -> str:
        return f"ImputedStatistics({', '.join(self._parts.schema.names)})"

    @property
    def budget(self) -> Budget:
        """The shared budget."""
        return self._parts.door.budget

    def count(
        self,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Count the rows of a subpopulation.

        Parameters
        ----------
        where : str, optional
            The subpopulation, see `parse_where`; everyone by default.
        epsilon : float, optional
            What to spend (pure DP).
        rho : float, optional
            What to spend instead (zCDP).
        uncertainty : {"noise", "worst-case"}, default "noise"
            "worst-case" spends a tenth of the cost on `Estimate.imputation_interval`: where the
            answer could be, whatever the missing cells hold.
        """
        return count(self._parts, where or "", self._asked(where, epsilon, rho, uncertainty))

    def proportion(
        self,
        of: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Proportion of a subpopulation that satisfies ``of``: two released counts divided."""
        part = self._parts.where(of, named="of")
        return proportion(self._parts, of, self._asked(where, epsilon, rho, uncertainty, part))

    def mean(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Mean of a numeric attribute over a subpopulation, of the rows where it is known."""
        values = self._parts.numeric(name)
        return mean(self._parts, name, self._asked(where, epsilon, rho, uncertainty, values))

    def sum(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Sum of a numeric attribute over a subpopulation."""
        values = self._parts.numeric(name)
        return total(self._parts, name, self._asked(where, epsilon, rho, uncertainty, values))

    def variance(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Estimate:
        """Sample variance of a numeric attribute, around a released mean."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return variance(self._parts, name, chosen, cost, root=False)

    def standard_deviation(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Estimate:
        """Square root of the released variance."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return variance(self._parts, name, chosen, cost, root=True)

    def correlation(
        self,
        first: str,
        second: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Estimate:
        """Pearson correlation of two numeric attributes, from released means and moments."""
        cost = cost_of(epsilon, rho)
        return correlation(self._parts, first, second, self._parts.where(where), cost)

    def histogram(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Histogram:
        """Counts per level (or bin) of an attribute; rows where it is missing are not counted."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return histogram(self._parts, name, chosen, cost)

    def _asked(
        self,
        where: str | None,
        epsilon: float | None,
        rho: float | None,
        uncertainty: Uncertainty,
        of: Numeric | Predicate | None = None,
    ) -> MissingCells:
        """Check what the questions with a worst case are given, before anything is charged."""
        return MissingCells(
            schema=self._parts.schema, uncertainty=uncertainty, cost=cost_of(epsilon, rho),
            where=self._parts.where(where), of=of,
        )  # fmt: skip


def _prepared(
    door: RowDoor, imputation: Imputation, scale: ScaleRelease | None, confidence: float
) -> RowDoor:
    """Return a door to imputed rows, with the released scale; all charged before it is read."""
    imputation.check(schema := door.schema)
    for name in imputation.fills():
        if isinstance(schema[name], Numeric) and name not in door.valued:
            raise DataError(f"attribute {name!r} has no numeric values in this table")
    releases = imputation.releases(schema)
    charged = door.begin(*(ask for ask, _ in releases))
    released = [
        door.answer(token, question).values
        for token, (_, question) in zip(charged, releases, strict=True)
    ]
    prepared = door.prepared(imputation.preparation(schema, released), using=charged)
    # Where how many rows a row can move is public, error bars cost nothing.
    if scale is None or not prepared.needs_scale:
        return prepared
    return prepared.scaled(scale, confidence=confidence)


# A statistic is a method that takes a subpopulation: its name, and its words.
_STATISTICS = {
    name: tuple(signature(method).parameters)[1:]
    for name, method in vars(ImputedStatistics).items()
    if name[0] != "_" and "where" in getattr(method, "__annotations__", ())
}
_BOUNDED = tuple(name for name, words in _STATISTICS.items() if "uncertainty" in words)


@dataclass(frozen=True, kw_only=True)
class QueryRequest:
    """One question, asked in text.

    Parameters
    ----------
    impute, match : str
        Attribute names, separated by commas; one that holds a comma stands in backticks.
    statistic : str
        A method of `ImputedStatistics`, such as "mean".
    of : str
        What it is about: an attribute, two separated by a comma for a correlation, a condition
        for a proportion, nothing for a count.
    where : str
        The subpopulation; blank for everyone.
    epsilon : float
        Total cost, error bar included.
    k : int
        Donors per incomplete row.
    group : str
        Attributes on which donors must agree, separated by commas.
    bar_share : float, default 0.2
        Share of epsilon spent on the error bar; 0 for none. Queries that read no imputed value
        need none and pay none.
    uncertainty : {"noise", "worst-case"}, default "noise"
        "worst-case" spends a tenth of what is left on `Estimate.imputation_interval`: counts,
        proportions, means and sums only.

    Raises
    ------
    ParameterError
        If a field is out of range.
    UnprovenError
        If "worst-case" is asked of another statistic: no bound is derived.

    Examples
    --------
    >>> QueryRequest(impute="income", match="age", statistic="mean", of="income", epsilon=1.0).k
    1
    """

    impute: str
    match: str
    statistic: str
    of: str = ""
    where: str = ""
    epsilon: float
    k: int = 1
    group: str = ""
    bar_share: float = 0.2
    uncertainty: Uncertainty = "noise"

    def __post_init__(self) -> None:
        for name in ("impute", "match", "of", "where", "group"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(f"{name} must be text")
        cost_of(self.epsilon, None)
        if self.statistic not in _STATISTICS:
            raise ParameterError(f"statistic must be one of {', '.join(_STATISTICS)}")
        if not 0 <= number("bar_share", self.bar_share, least=-1.0, most=1.0, open_end=True) < 1:
            raise ParameterError("bar_share must be at least 0 and below 1")
        if bool(self.about) != bool(self.of.strip()):
            raise ParameterError("every statistic but count needs to know of what")
        if self.uncertainty not in get_args(Uncertainty):
            raise ParameterError(f"uncertainty must be one of {get_args(Uncertainty)}")
        if self.uncertainty != "noise" and self.statistic not in _BOUNDED:
            raise UnprovenError(f"worst-case bounds exist for {', '.join(_BOUNDED)} only")

    @property
    def about(self) -> tuple[str, ...]:
        """What the statistic is of, in words: its arguments before the subpopulation."""
        words = _STATISTICS[self.statistic]
        return words[: words.index("where")]


def run_query(
    table: Table, request: QueryRequest, *, budget: Budget, undeclared: str = "refuse"
) -> Estimate | Histogram:
    """Answer one question and charge it.

    Parameters
    ----------
    table : Table
        Private rows.
    request : QueryRequest
        The question.
    budget : Budget
        Charged with ``request.epsilon`` in all.
    undeclared : {"refuse", "accept"}
        See `ImputedStatistics`.

    Returns
    -------
    Estimate or Histogram

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Numeric, Ordinal, Schema, Table
    >>> schema = Schema((
    ...     Ordinal(name="grade", levels=(1, 2, 3)),
    ...     Numeric(name="income", lower=0, upper=100, nullable=True),
    ... ))
    >>> frame = pd.DataFrame({"grade": [1, 2, 3] * 200, "income": [10.0, 20.0, None] * 200})
    >>> request = QueryRequest(impute="income", match="grade", statistic="mean", of="income",
    ...                        where="grade <= 2", epsilon=1.0)
    >>> answer = run_query(Table.read(frame, schema), request, budget=Budget(1.0))
    >>> 0 <= answer.value <= 100, answer.interval is not None
    (True, True)
    """
    impute, match, group = (
        parse_names(text, table.schema) for text in (request.impute, request.match, request.group)
    )
    imputation = KNNImputation(impute=impute, match_on=match, k=request.k, group=group)
    # The wording is checked on public facts before anything is charged.
    reads = _reads(request, table)
    bars = request.bar_share > 0 and bool(reads & set(imputation.impute))
    # All of it is affordable before the first part of it is charged.
    if not budget.can_afford(PureEvent(epsilon=request.epsilon)):
        raise BudgetExceededError(
            "the question does not fit into what is left of the budget; nothing was computed or "
            "charged"
        )
    whole, bar = cost_of(request.epsilon, None), request.bar_share if bars else 0.0
    statistics = ImputedStatistics(
        table, imputation, budget=budget, undeclared=undeclared,
        scale=ScaleRelease(epsilon=share(whole, bar).amount) if bars else None,
    )  # fmt: skip
    rest = share(whole, 1 - bar) if bars else whole
    return _ask(statistics, replace(request, epsilon=rest.amount))


def _ask(statistics: ImputedStatistics, request: QueryRequest) -> Estimate | Histogram:
    arguments = (request.of,) if request.about == ("of",) else parse_names(request.of)
    more = {"uncertainty": request.uncertainty} if request.statistic in _BOUNDED else {}
    ask = getattr(statistics, request.statistic)
    answer: Estimate | Histogram = ask(
        *arguments, where=request.where or None, epsilon=request.epsilon, **more
    )
    return answer


def _reads(request: QueryRequest, table: Table) -> set[str]:
    reads = set(parse_where(request.where, table.schema).names)
    if request.about == ("of",):
        return reads | parse_where(request.of, table.schema, named=request.statistic).names
    names = parse_names(request.of)
    if len(names) != len(request.about):
        hint = backticks_hint(request.of, table.schema.names)
        wanted = "one attribute" if len(request.about) == 1 else f"{len(request.about)} attributes"
        raise ParameterError(f"{request.statistic} is of {wanted}{hint}")
    for name in names:
        attribute = table.schema[name]
        if request.statistic != "histogram" and attribute.kind != "numeric":
            raise ParameterError(f"{name!r} is not numeric; ask for proportions or a histogram")
    return reads | set(names)
