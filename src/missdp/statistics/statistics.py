"""Statistics of a table with missing values: the public class, and questions asked in text."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from missdp.accounting import Cost, Filter, PureEvent
from missdp.errors import BudgetExceededError, DataError, MissDPError, ParameterError, number
from missdp.schema import Numeric, OpenCategorical, Schema
from missdp.schema.expressions import parse_names
from missdp.schema.open_categorical import check_levels_declared
from missdp.schema.question_text import ROW_STATISTICS, Question, parse_question
from missdp.statistics.answers import answered, check_width
from missdp.statistics.asking import BOUNDED, WRITTEN, Asking, Statistic, Uncertainty
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
        self.imputation, self._confidence = imputation, confidence

    def __repr__(self) -> str:
        return f"ImputedStatistics({', '.join(self._session.facts.schema.names)})"

    @property
    def schema(self) -> Schema:
        """Public facts about the rows, in which all missing cells are plainly missing."""
        return cast("Schema", self._session.facts.schema)

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
        imputation = (self.imputation, self._change)
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
    return Cost(privacy_measure="zcdp" if rho is not None else "pure", amount=amount)


def run_queries(
    table: Table,
    imputation: KNNImputation | None,
    questions: Sequence[Statistic],
    *,
    epsilon: float,
    budget: Filter,
    undeclared: str = "refuse",
    may_refuse: bool = False,
) -> list[Estimate | Histogram]:
    """Answer questions about rows that are imputed in one way.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation or None
        How missing cells are filled. None if no cell that a question reads may be missing.
    questions : sequence of Statistic
        The questions, at least one.
    epsilon : float
        Total cost of all questions, error bars included. Each question has an equal part.
    budget : Filter
        Charged with epsilon.
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
        If the questions together do not fit into the budget. Nothing is charged then, and nothing
        is read.
    ParameterError
        If public facts refuse a question. The question may not fit the schema, or read a cell that
        may be missing and is not filled. Or the groups of ``by`` are imputed, and noise is expected
        to hide a group of 10,000 rows.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> imputation = KNNImputation(impute="strength_training_7d", match_on=("age", "gender"))
    >>> questions = [
    ...     Statistic("mean", ("strength_training_7d",), by=by) for by in (None, "gender")
    ... ]
    >>> budget = Filter(2.0)
    >>> everyone, groups = run_queries(
    ...     yrbss().table(), imputation, questions, epsilon=2.0, budget=budget
    ... )
    >>> 2 < everyone.value < 4, groups.levels, round(budget.remaining_epsilon, 9)
    (True, ('female', 'male'), 0.0)
    """
    cost = _part_of(epsilon, questions)
    # All of it is affordable before the first part of it is charged.
    if not budget.can_afford(PureEvent(epsilon=math.fsum(cost.amount for _ in questions))):
        raise BudgetExceededError(
            "the question does not fit into what is left of the budget; nothing was computed or "
            "charged"
        )
    statistics = ImputedStatistics(
        table, imputation, budget=budget, undeclared=undeclared, may_refuse=may_refuse
    )
    _check_all(statistics, questions, cost)
    return [statistics.answer(question, cost) for question in questions]


def check_queries(
    table: Table,
    imputation: KNNImputation | None,
    questions: Sequence[Statistic],
    *,
    epsilon: float,
) -> None:
    """Raise an error if public facts refuse one of several questions.

    Nothing is charged, and no row is read. So a table without rows does, before the private one is
    opened.

    Parameters
    ----------
    table : Table
        Of the schema that is asked about, which no ledger pays for; rows are not needed.
    imputation, questions, epsilon
        As `run_queries` takes them.

    Raises
    ------
    ParameterError
        As `run_queries` raises it.
    """
    never_charged = Filter(1.0)
    statistics = ImputedStatistics(table, imputation, budget=never_charged, undeclared="accept")
    _check_all(statistics, questions, _part_of(epsilon, questions))


def _part_of(epsilon: float, questions: Sequence[Statistic]) -> Cost:
    """Return the cost of each of several questions that together have an epsilon."""
    if not questions:
        raise ParameterError("ask at least one question")
    whole = _cost_of(epsilon, None)
    # A little less of each, so that together they are no more than what is spent.
    part = whole.amount / len(questions) * (1 - 2.0**-40 * (len(questions) > 1))
    return replace(whole, amount=part)


def _check_all(statistics: ImputedStatistics, questions: Sequence[Statistic], cost: Cost) -> None:
    """Raise an error if public facts refuse one of several questions."""
    for question in questions:
        if statistics.imputation is None:
            _check_complete(question, statistics.schema)
        statistics.check(question, cost)


def _check_complete(question: Statistic, schema: Schema) -> None:
    """Raise ParameterError if a cell may be missing that a question reads."""
    if incomplete := sorted(n for n in question.reads(schema) if schema[n].nullable):
        raise ParameterError(
            f"attribute {incomplete[0]!r} may be missing. Fill it from similar rows with "
            "impute=NAMES and match=NAMES, or ask about attributes that are complete."
        )


def read_questions(
    texts: Sequence[str],
    schema: Schema,
    *,
    where: str | None = None,
    uncertainty: Uncertainty | None = None,
) -> list[Statistic]:
    """Return what questions such as ``mean(income) by region`` ask.

    Parameters
    ----------
    texts : sequence of str
        The questions, as `missdp.schema.question_text` reads them.
    schema : Schema
        Attributes that they may name.
    where : str, optional
        The subpopulation of all questions.
    uncertainty : {"total", "noise", "worst-case"}, optional
        See `Statistic`; by default "total".

    Returns
    -------
    list of Statistic
        One for each question.

    Raises
    ------
    ParameterError
        If a question cannot be read, or if "total" is asked for where it has no meaning.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> (asked,) = read_questions(["share(gender = 'female')"], yrbss().schema())
    >>> asked.kind, asked.of
    ('proportion', ("gender = 'female'",))
    """
    found = []
    kept = "total" if uncertainty is None else uncertainty
    for text in texts:
        kind, of, by = _read(text, parse_question(text, schema, available=ROW_STATISTICS))
        found.append(Statistic(kind, of, where, kept, by))
    if uncertainty == "total" and not all(one.kind in BOUNDED and not one.by for one in found):
        raise ParameterError(
            "uncertainty='total' is for counts, shares, means and sums, each without by; the "
            "intervals of others are of noise alone"
        )
    return found


def _read(text: str, question: Question) -> tuple[str, tuple[str, ...], str | None]:
    """Return the statistic of a question, what it is of, and its groups."""
    if question.what == "missing":
        raise ParameterError(
            "share(x is missing) is answered by `missdp estimate`, from a model. Missing cells of "
            "private rows are filled here."
        )
    if len(question.by) > 1:
        raise ParameterError("by names one attribute here: answers are for each of its levels")
    of = question.of
    if question.what == "share":
        of = (text[text.index("(") + 1 : text.rindex(")")].strip(),)
    kinds = {name: kind for kind, name in WRITTEN.items()}
    return kinds.get(question.what, question.what), of, next(iter(question.by), None)


def read_imputation(
    schema: Schema, *, impute: str = "", match: str = "", group: str = "", k: int = 1
) -> KNNImputation | None:
    """Return how missing cells are filled, from names that are separated by commas.

    Parameters
    ----------
    schema : Schema
        Attributes that are named. A name that holds a comma stands in backticks.
    impute, match, group : str
        The attributes to fill, those that donors are matched on, and those on which donors agree
        exactly. If all are blank, nothing is filled.
    k : int, default 1
        Donors per incomplete row.

    Returns
    -------
    KNNImputation or None

    Raises
    ------
    ParameterError
        If the schema has no such attribute, or the parameters contradict each other.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> read_imputation(yrbss().schema(), impute="height", match="age,gender").match_on
    {'age': 1.0, 'gender': 1.0}
    """
    if not (impute.strip() or match.strip() or group.strip()):
        return None
    filled, near, same = (parse_names(text, schema) for text in (impute, match, group))
    return KNNImputation(impute=filled, match_on=near, k=k, group=same)


def needed_attributes(
    imputation: KNNImputation | None, questions: Sequence[Statistic], schema: Schema
) -> tuple[Schema, set[str] | None]:
    """Return what questions need, by public facts alone: attributes, and of which values.

    None means that all is needed. That is so for a question that makes no sense and will be
    refused, and where facts are open, which is a condition. It is also so where the facts about
    some attributes alone would be refused: among many rules, a contradiction may be overlooked.

    Parameters
    ----------
    imputation, questions
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
    >>> imputation = KNNImputation(impute="height", match_on="gender")
    >>> some, valued = needed_attributes(imputation, read_questions(["count()"], facts), facts)
    >>> some.names, valued
    (('gender', 'height'), {'height'})
    """
    with contextlib.suppress(MissDPError):
        valued: set[str] = set().union(*(question.reads(schema) for question in questions))
        matched: set[str] = set()
        if imputation is not None:
            valued |= {*imputation.impute}
            matched = {*imputation.match_on, *imputation.group}
        if valued | matched <= {*schema.names} and not schema.undeclared:
            wanted = schema.rule_set.connected_by_rules(valued | matched)
            some = schema.subset(name for name in schema.names if name in wanted)
            return some, {*some.names} if some.rules else valued
    return schema, None


def close_levels(
    imputation: KNNImputation | None, questions: Sequence[Statistic], schema: Schema
) -> Schema:
    """Return a schema that ignores open attributes, of which questions need none.

    Parameters
    ----------
    imputation, questions
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
    check_levels_declared(needed_attributes(imputation, questions, schema.declare_public())[0])
    closed = schema.subset(name for name in schema.names if name not in opened)
    ignore, file = (*schema.ignore, *opened), schema.file
    unread = schema.undeclared_columns
    return replace(closed, ignore=ignore, keys=schema.keys, undeclared_columns=unread, file=file)
