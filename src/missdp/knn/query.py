"""One question in words, as a command line asks it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from missdp.accounting import Budget, PureEvent
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.knn.costs import cost_of, share
from missdp.knn.estimates import Estimate, Histogram
from missdp.knn.imputation import KNNImputation
from missdp.knn.predicates import parse_where
from missdp.knn.statistics import ImputedStatistics
from missdp.knn.worst_case import Uncertainty
from missdp.mechanisms.asks import check_real
from missdp.mechanisms.smooth_scale import ScaleRelease

if TYPE_CHECKING:
    from missdp.table import Table

__all__ = ["QueryRequest", "Statistic", "run_query"]

Statistic = Literal[
    "count", "proportion", "mean", "sum", "variance", "standard_deviation", "correlation",
    "histogram",
]  # fmt: skip
_BOUNDED = ("count", "proportion", "mean", "sum")


@dataclass(frozen=True, kw_only=True)
class QueryRequest:
    """A question in text.

    Parameters
    ----------
    impute, match : str
        Attribute names, separated by commas.
    statistic : str
        One of `Statistic`.
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
    statistic: Statistic
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
        if self.statistic not in get_args(Statistic):
            raise ParameterError(f"statistic must be one of {', '.join(get_args(Statistic))}")
        if not 0 <= check_real("bar_share", self.bar_share, least=-1.0, most=1.0) < 1:
            raise ParameterError("bar_share must be at least 0 and below 1")
        if (self.statistic == "count") != (not self.of.strip()):
            raise ParameterError("every statistic but count needs to know of what")
        if self.uncertainty not in get_args(Uncertainty):
            raise ParameterError(f"uncertainty must be one of {get_args(Uncertainty)}")
        if self.uncertainty != "noise" and self.statistic not in _BOUNDED:
            raise UnprovenError(f"worst-case bounds exist for {', '.join(_BOUNDED)} only")


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
    imputation = KNNImputation(
        impute=_split(request.impute), match_on=_split(request.match), k=request.k,
        group=_split(request.group),
    )  # fmt: skip
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
    arguments = [] if request.statistic == "count" else [request.of]
    if request.statistic not in ("count", "proportion"):
        arguments = list(_split(request.of))
    more = {"uncertainty": request.uncertainty} if request.statistic in _BOUNDED else {}
    ask = getattr(statistics, request.statistic)
    answer: Estimate | Histogram = ask(
        *arguments, where=request.where or None, epsilon=request.epsilon, **more
    )
    return answer


def _reads(request: QueryRequest, table: Table) -> set[str]:
    reads = set(parse_where(request.where, table.schema).names)
    if request.statistic == "proportion":
        return reads | parse_where(request.of, table.schema).names
    names = _split(request.of)
    wanted = {"count": 0, "correlation": 2}.get(request.statistic, 1)
    if len(names) != wanted:
        raise ParameterError(f"{request.statistic} needs {wanted} attribute(s)")
    for name in names:
        attribute = table.schema[name]
        if request.statistic != "histogram" and attribute.kind != "numeric":
            raise ParameterError(f"{name!r} is not numeric; ask for proportions or a histogram")
    return reads | set(names)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())
