"""Statistics of a table with missing values: the public class, and a question asked in text."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from missdp.accounting import Cost, Filter, PureEvent
from missdp.errors import BudgetExceededError, DataError, MissDPError, ParameterError, number
from missdp.schema import Numeric, OpenCategorical, Schema
from missdp.schema.expressions import parse_names
from missdp.schema.open_levels import check_found
from missdp.schema.questions import OF_ROWS, Question, parse_question
from missdp.statistics.answers import answered, check_width
from missdp.statistics.asking import Asking, Statistic, Uncertainty, check_kind
from missdp.statistics.estimates import Estimate, Histogram
from missdp.statistics.imputation import KNNImputation
from missdp.statistics.table_rows import open_table

if TYPE_CHECKING:
    from missdp.table import Table


class _Options(TypedDict, total=False):
    """How a question is asked: of whom, by which groups, for what, and how sure one is to be."""

    where: str | None
    by: str | None
    epsilon: float | None
    rho: float | None
    uncertainty: Uncertainty


class ImputedStatistics:
    """Differentially private statistics on an imputed table, sharing one profile and one budget.

    Every query charges the budget before it computes, and answers with an `Estimate` (or a
    `Histogram`): value, error bar, guarantee.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation or None
        How missing cells are filled. With None they stay: a row in which what is asked about is
        missing has no part in the answer, which is biased unless values are missing completely at
        random.
    budget : Filter
        What may be spent, shared with whatever else uses it.
    confidence : float, default 0.95
        Of the error bars.
    undeclared : {"refuse", "accept"}, default "refuse"
        What to do with a schema some of whose facts nobody has declared public.
    random_state : int or None
        None (the default) for releases. A seed is for tests and becomes a condition.
    may_refuse : bool, default False
        Whether what the table was read from may be refused for what is in a row, as CSV files
        are. The guarantee then states that refusals are not private.

    Notes
    -----
    Guarantee: add-remove, for the incomplete table. The number of rows is private: proportions and
    means divide by a released count. Weights (own, donee) of a sum of a row function f in [-L,
    L]: own = L; donee = 0 if f reads no imputed value, at most the range of f otherwise, and
    range / k if f is the k-NN mean itself on a subpopulation fixed by other attributes. Means use
    values centred at the middle of their bounds, which halves the own weight. Rows in which what is
    asked about is not applicable are left out.

    Every question takes a subpopulation ``where`` (see `parse_where`; everyone by default), and
    what to spend: ``epsilon`` (pure DP) or ``rho`` (zCDP). Counts, proportions, means and sums
    take ``uncertainty="worst-case"``: a tenth of their cost then pays for
    `Estimate.imputation_interval`, which holds whatever the missing cells are. `answer` takes a
    question as an object, a `Statistic`.

    Source: Clifton et al. (2022).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Numeric, Ordinal, Schema, Table
    >>> schema = Schema((
    ...     Ordinal(name="grade", levels=(1, 2, 3)),
    ...     Numeric(name="income", lower=0, upper=100, nullable=True),
    ... ))
    >>> frame = pd.DataFrame({"grade": [1, 2, 3] * 200, "income": [10.0, 20.0, None] * 200})
    >>> statistics = ImputedStatistics(
    ...     Table.read(frame, schema), KNNImputation(impute="income", match_on="grade"),
    ...     budget=Filter(2.0),
    ... )
    >>> answer = statistics.count(where="income > 15", epsilon=1.0)
    >>> round(answer.guarantee.epsilon, 9)
    1.0
    """

    def __init__(
        self,
        table: Table,
        imputation: KNNImputation | None,
        *,
        budget: Filter,
        confidence: float = 0.95,
        undeclared: str = "refuse",
        random_state: int | None = None,
        may_refuse: bool = False,
    ) -> None:
        if not isinstance(imputation, KNNImputation | None):
            raise ParameterError("imputation must be a KNNImputation or None")
        number("confidence", confidence, least=0.5, most=1.0, below=True)
        session = open_table(
            table,
            budget=budget,
            random_state=random_state,
            undeclared=undeclared,
            may_refuse=may_refuse,
        )
        self._change, facts = None, session.facts
        if imputation is not None:
            self._change = imputation.change(facts.schema)
            for name in imputation.impute:
                if isinstance(facts.schema[name], Numeric) and name not in facts.valued:
                    raise DataError(f"attribute {name!r} has no numeric values in this table")
        self._session, self._budget = session, budget
        self._imputation, self._confidence = imputation, confidence

    def __repr__(self) -> str:
        return f"ImputedStatistics({', '.join(self._session.facts.schema.names)})"

    @property
    def budget(self) -> Filter:
        """The shared budget."""
        return self._budget

    def answer(self, question: Statistic, cost: Cost) -> Estimate | Histogram:
        """Charge for a question and answer it.

        Parameters
        ----------
        question : Statistic
            What is asked.
        cost : Cost
            What to spend, in pure epsilon or zCDP's rho.
        """
        return answered(self._asking(question, cost))

    def check(self, question: Statistic, cost: Cost) -> None:
        """Raise an error if public facts refuse a question.

        Reads no row and charges nothing.

        Parameters
        ----------
        question : Statistic
            What is asked.
        cost : Cost
            What it would spend, in pure epsilon or zCDP's rho.

        Raises
        ------
        ParameterError
            If the question does not fit the schema, or noise is expected to hide large groups.
        """
        check_width(self._asking(question, cost))

    def _asking(self, question: Statistic, cost: Cost) -> Asking:
        imputation = (self._imputation, self._change)
        return Asking(self._session, *imputation, self._confidence, question, cost)

    def _asked(self, kind: str, *of: str, **how: Unpack[_Options]) -> Estimate:
        cost = _cost_of(how.get("epsilon"), how.get("rho"))
        question = Statistic(
            kind, of, how.get("where"), how.get("uncertainty", "total"), how.get("by")
        )
        return cast("Estimate", self.answer(question, cost))

    def count(self, **how: Unpack[_Options]) -> Estimate:
        """Count the rows of a subpopulation."""
        return self._asked("count", **how)

    def proportion(self, of: str, **how: Unpack[_Options]) -> Estimate:
        """Proportion of a subpopulation that satisfies ``of``: two released counts divided."""
        return self._asked("proportion", of, **how)

    def mean(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Mean of a numeric attribute over a subpopulation, of the rows where it is known."""
        return self._asked("mean", name, **how)

    def sum(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Sum of a numeric attribute over a subpopulation."""
        return self._asked("sum", name, **how)

    def variance(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Sample variance of a numeric attribute, around a released mean."""
        return self._asked("variance", name, **how)

    def standard_deviation(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Square root of the released variance."""
        return self._asked("standard_deviation", name, **how)

    def correlation(self, first: str, second: str, **how: Unpack[_Options]) -> Estimate:
        """Pearson correlation of two numeric attributes, from released means and moments."""
        return self._asked("correlation", first, second, **how)

    def histogram(self, name: str, **how: Unpack[_Options]) -> Histogram:
        """Counts per level (or bin) of an attribute; rows where it is missing are not counted."""
        return cast("Histogram", self._asked("histogram", name, **how))


def _cost_of(epsilon: float | None, rho: float | None) -> Cost:
    """Return what a question may spend: pure DP ``epsilon``, or zCDP ``rho``."""
    if (epsilon is None) == (rho is None):
        raise ParameterError("give epsilon, or rho, and not both")
    amount = number("epsilon or rho", epsilon if rho is None else rho, most=1e9, open_end=True)
    return Cost(currency="zcdp" if rho is not None else "pure", amount=amount)


@dataclass(frozen=True, kw_only=True)
class QueryRequest:
    """One question, asked in text.

    Parameters
    ----------
    impute, match : str
        Attribute names, separated by commas; one that holds a comma stands in backticks. Both may
        be blank if no attribute that the question reads may be missing.
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
    uncertainty : {"total", "noise", "worst-case"}, default "total"
        See `Statistic`.
    by : str
        An attribute for each of whose levels the statistic is asked for; blank for none. Missing
        cells of a group are filled from donors of the group.
    tie_breaks : int, optional
        Changes nothing any more: answers are averages over all equally near donors.

    Raises
    ------
    ParameterError
        If a field is out of range. When it is answered: if the groups of ``by`` are imputed and
        noise is expected to hide a group of 10,000 rows; by public facts alone.
    UnprovenError
        If "worst-case" is asked of another statistic: no bound is derived.

    Examples
    --------
    >>> QueryRequest(impute="income", match="age", statistic="mean", of="income", epsilon=1.0).k
    1
    """

    impute: str = ""
    match: str = ""
    statistic: str
    of: str = ""
    where: str = ""
    epsilon: float
    k: int = 1
    group: str = ""
    uncertainty: Uncertainty = "total"
    by: str = ""
    tie_breaks: int | None = None

    def __post_init__(self) -> None:
        for name in ("impute", "match", "of", "where", "group", "by"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(f"{name} must be text")
        _cost_of(self.epsilon, None)
        check_kind(self.statistic, self.uncertainty)
        if (self.statistic != "count") != bool(self.of.strip()):
            raise ParameterError("every statistic but count needs to know of what")

    def question(self, schema: Schema) -> Statistic:
        """Return what is asked."""
        of = (self.of,) if self.statistic == "proportion" else parse_names(self.of, schema)
        (by,) = parse_names(self.by, schema) or (None,)
        return Statistic(self.statistic, of, self.where, self.uncertainty, by)

    def imputation(self, schema: Schema) -> KNNImputation | None:
        """Return how missing values are filled; None if no value that is asked for may be missing.

        Raises
        ------
        ParameterError
            If an attribute that the question reads may be missing, and none is to be filled.
        """
        if not (self.impute.strip() or self.match.strip() or self.group.strip()):
            self._check_complete(schema)
            return None
        impute, match, group = (
            parse_names(text, schema) for text in (self.impute, self.match, self.group)
        )
        return KNNImputation(
            impute=impute, match_on=match, k=self.k, group=group, tie_breaks=self.tie_breaks or 1
        )

    def _check_complete(self, schema: Schema) -> None:
        known = [name for name in self.question(schema).reads(schema) if name in schema.names]
        if incomplete := sorted(name for name in known if schema[name].nullable):
            raise ParameterError(
                f"attribute {incomplete[0]!r} may be missing. Fill it from similar rows with "
                "impute=NAMES and match=NAMES, or ask about attributes that are complete."
            )


def run_query(
    table: Table, request: QueryRequest, *, budget: Filter, undeclared: str = "refuse"
) -> Estimate | Histogram:
    """Answer one question and charge it.

    Parameters
    ----------
    table : Table
        Private rows.
    request : QueryRequest
        The question.
    budget : Filter
        Charged with ``request.epsilon`` in all.
    undeclared : {"refuse", "accept"}
        See `ImputedStatistics`.

    Returns
    -------
    Estimate or Histogram
        The released answer.

    Raises
    ------
    BudgetExceededError
        If the budget does not cover the question. Nothing is read.

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
    >>> answer = run_query(Table.read(frame, schema), request, budget=Filter(1.0))
    >>> 0 <= answer.value <= 100, answer.interval is not None
    (True, True)
    """
    (answer,) = run_queries(table, [request], budget=budget, undeclared=undeclared)
    return answer


def run_queries(
    table: Table,
    requests: Sequence[QueryRequest],
    *,
    budget: Filter,
    undeclared: str = "refuse",
    may_refuse: bool = False,
) -> list[Estimate | Histogram]:
    """Answer several questions about rows that are imputed in one way.

    Parameters
    ----------
    table : Table
        Private rows.
    requests : sequence of QueryRequest
        The questions; ``impute``, ``match``, ``k``, ``group`` and ``tie_breaks`` are the same for
        all.
    budget : Filter
        Charged with the sum of their epsilons.
    undeclared : {"refuse", "accept"}
        See `ImputedStatistics`.
    may_refuse : bool, default False
        See `ImputedStatistics`.

    Returns
    -------
    list of Estimate or Histogram
        One for each question.

    Raises
    ------
    BudgetExceededError
        If the questions together do not fit into the budget. Nothing is charged then.
    ParameterError
        If the questions are not filled in one way, or public facts refuse one of them.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> asked = [
    ...     QueryRequest(impute="strength_training_7d", match="age,gender", statistic="mean",
    ...                  of="strength_training_7d", by=by, epsilon=1.0)
    ...     for by in ("", "gender")
    ... ]
    >>> budget = Filter(2.0)
    >>> everyone, groups = run_queries(yrbss().table(), asked, budget=budget)
    >>> 2 < everyone.value < 4, groups.levels, round(budget.remaining_epsilon, 9)
    (True, ('female', 'male'), 0.0)
    """
    # The wording is checked on public facts before anything is charged.
    imputation, questions = _planned(requests, table.schema)
    # All of it is affordable before the first part of it is charged.
    whole = math.fsum(request.epsilon for request in requests)
    if not budget.can_afford(PureEvent(epsilon=whole)):
        raise BudgetExceededError(
            "the question does not fit into what is left of the budget; nothing was computed or "
            "charged"
        )
    statistics = ImputedStatistics(
        table, imputation, budget=budget, undeclared=undeclared, may_refuse=may_refuse
    )
    for question, cost in questions:
        statistics.check(question, cost)
    return [statistics.answer(question, cost) for question, cost in questions]


def check_queries(table: Table, requests: Sequence[QueryRequest]) -> None:
    """Raise an error if public facts refuse one of several questions.

    Nothing is charged, and no row is read. So a table without rows does, before the private one is
    opened.

    Parameters
    ----------
    table : Table
        Of the schema that is asked about, which no ledger pays for; rows are not needed.
    requests : sequence of QueryRequest
        As `run_queries` takes them.

    Raises
    ------
    ParameterError
        If a question does not fit the schema, or noise is expected to hide large groups.
    """
    imputation, questions = _planned(requests, table.schema)
    never_charged = Filter(1.0)
    statistics = ImputedStatistics(table, imputation, budget=never_charged, undeclared="accept")
    for question, cost in questions:
        statistics.check(question, cost)


# Statistics of questions by the names of the methods that answer them.
_METHODS = {"share": "proportion", "sd": "standard_deviation"}
_TOTAL = ("count", "proportion", "mean", "sum")  # have intervals over sampling and imputation


def read_questions(
    texts: Sequence[str],
    schema: Schema,
    epsilon: float,
    *,
    uncertainty: Uncertainty | None = None,
    **how: Any,
) -> list[QueryRequest]:
    """Return what questions such as ``mean(income) by region`` ask, as requests.

    Parameters
    ----------
    texts : sequence of str
        The questions, as `missdp.schema.questions` reads them.
    schema : Schema
        Attributes that they may name.
    epsilon : float
        Of all questions together, in equal parts.
    uncertainty : {"total", "noise", "worst-case"}, optional
        See `Statistic`; by default "total".
    **how : object
        ``impute``, ``match``, ``k``, ``group`` and ``where`` of each `QueryRequest`.

    Returns
    -------
    list of QueryRequest
        One for each question.

    Raises
    ------
    ParameterError
        If a question cannot be read, or if "total" is asked for where it has no meaning.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> asked = read_questions(["share(gender = 'female')"], yrbss().schema(), 1.0)
    >>> asked[0].statistic, asked[0].of
    ('proportion', "gender = 'female'")
    """
    asked = [_fields(text, parse_question(text, schema, available=OF_ROWS)) for text in texts]
    total = [one["statistic"] in _TOTAL and not one["by"] for one in asked]
    if uncertainty == "total" and not all(total):
        raise ParameterError(
            "uncertainty='total' is for counts, shares, means and sums, each without by; the "
            "intervals of others are of noise alone"
        )
    # A little less of each, so that together they are no more than what is spent.
    part = epsilon / len(asked) * (1 - 2.0**-40 * (len(asked) > 1))
    kind = uncertainty or "total"
    return [QueryRequest(epsilon=part, uncertainty=kind, **one, **how) for one in asked]


def _fields(text: str, question: Question) -> dict[str, Any]:
    """Return a question as fields of a request."""
    if question.what == "missing":
        raise ParameterError(
            "share(x is missing) is answered by `missdp estimate`, from a model. Missing cells of "
            "private rows are filled here."
        )
    if len(question.by) > 1:
        raise ParameterError("by names one attribute here: answers are for each of its levels")
    of = ", ".join(f"`{name}`" for name in question.of)
    if question.what == "share":
        of = text[text.index("(") + 1 : text.rindex(")")].strip()
    by = f"`{question.by[0]}`" if question.by else ""
    return {"statistic": _METHODS.get(question.what, question.what), "of": of, "by": by}


def needed_attributes(
    requests: Sequence[QueryRequest], schema: Schema
) -> tuple[Schema, set[str] | None]:
    """Return what questions need, by public facts alone: attributes, and of which values.

    None means that all is needed. That is so for a question that makes no sense and will be
    refused, and where facts are open, which is a condition. It is also so where the facts about
    some attributes alone would be refused: among many rules, a contradiction may be overlooked.

    Parameters
    ----------
    requests : sequence of QueryRequest
        As `run_queries` takes them.
    schema : Schema
        Public facts about all rows.

    Returns
    -------
    schema : Schema
        Of the attributes that are read.
    valued : set of str or None
        Attributes of which values are needed. Of the others, levels or bins are enough.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> facts = yrbss().schema()
    >>> asked = read_questions(["count()"], facts, 1.0, impute="height", match="gender")
    >>> some, valued = needed_attributes(asked, facts)
    >>> some.names, valued
    (('gender', 'height'), {'height'})
    """
    with contextlib.suppress(MissDPError):
        first = requests[0]
        imputation = first.imputation(schema)
        shared = {*parse_names(first.match), *parse_names(first.group)}
        valued = set() if imputation is None else {*imputation.impute}
        valued = valued.union(*(request.question(schema).reads(schema) for request in requests))
        if valued | shared <= {*schema.names} and not schema.undeclared:
            wanted = schema.rule_set.connected_by_rules(valued | shared)
            some = schema.subset(name for name in schema.names if name in wanted)
            return some, {*some.names} if some.rules else valued
    return schema, None


def close_levels(requests: Sequence[QueryRequest], schema: Schema) -> Schema:
    """Return a schema that ignores open attributes, of which questions need none.

    Parameters
    ----------
    requests : sequence of QueryRequest
        As `run_queries` takes them.
    schema : Schema
        Public facts about all rows.

    Returns
    -------
    Schema

    Raises
    ------
    SchemaError
        If a question needs an attribute whose levels are open.
    """
    opened = [a.name for a in schema if isinstance(a, OpenCategorical)]
    if not opened:
        return schema
    check_found(needed_attributes(requests, schema.declare_public())[0])
    closed = schema.subset(name for name in schema.names if name not in opened)
    ignore, file = (*schema.ignore, *opened), schema.file
    unread = schema.undeclared_columns
    return replace(closed, ignore=ignore, keys=schema.keys, undeclared_columns=unread, file=file)


def _planned(
    requests: Sequence[QueryRequest], schema: Schema
) -> tuple[KNNImputation | None, list[tuple[Statistic, Cost]]]:
    """Return how cells are filled, and all questions with their costs."""
    if not requests:
        raise ParameterError("ask at least one question")
    imputation = requests[0].imputation(schema)
    if any(request.imputation(schema) != imputation for request in requests):
        raise ParameterError(
            "questions that are asked together share impute, match, k, group and tie_breaks"
        )
    return imputation, [(r.question(schema), _cost_of(r.epsilon, None)) for r in requests]
