"""Statistics of a table with missing values: the public class, and questions in text."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from missdp.accounting import Cost, Filter, PureEvent
from missdp.errors import BudgetExceededError, DataError, MissDPError, ParameterError, check_number
from missdp.schema import Numeric, OpenCategorical, Schema
from missdp.schema.expressions import parse_names
from missdp.schema.open_categorical import check_levels_declared
from missdp.schema.question_text import ROW_STATISTICS, Question, parse_question
from missdp.statistics.answers import answer_question, check_width
from missdp.statistics.estimates import Estimate, LevelEstimates
from missdp.statistics.imputation import KNNImputation
from missdp.statistics.table_rows import open_table
from missdp.statistics.tasks import BOUNDED, QUESTION_NAMES, Statistic, StatisticTask, Uncertainty

if TYPE_CHECKING:
    from missdp.table import Table


class _Options(TypedDict, total=False):
    """Options of a question: subpopulation, groups, cost and interval."""

    where: str | None
    by: str | None
    epsilon: float | None
    rho: float | None
    uncertainty: Uncertainty


class ImputedStatistics:
    """Differentially private statistics on an imputed table, sharing one profile and one budget.

    Every query charges the budget before it computes, and answers with an `Estimate` (or a
    `LevelEstimates`): value, error bar, guarantee.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation or None
        Imputation of missing cells. With None they stay missing, and the answer leaves out rows in
        which an attribute of the question is missing. This answer is biased unless values are
        missing completely at random.
    budget : Filter
        Charged for all questions. Other releases may share it.
    confidence : float, default 0.95
        Confidence of the intervals.
    undeclared : {"refuse", "accept"}, default "refuse"
        Whether a schema with facts that were not declared public raises an error.
    random_state : int or None
        None (the default) for releases. A seed is for tests and becomes a condition.
    may_refuse : bool, default False
        Whether the source of the table may raise an error because of a row, as CSV files may. Then
        the guarantee states that errors are not private.

    Notes
    -----
    Guarantee: add-remove, for the incomplete table. The number of rows is private: proportions and
    means divide by a released count. The weights (row, recipient) of a sum of a row function f with
    values in [-L, L] are as follows. The row weight is L. The recipient weight is 0 if f reads no
    imputed value, and otherwise at most the range of f. It is range / k if f is the k-NN mean
    itself, on a subpopulation that other attributes decide. Means use values centred at the middle
    of their bounds, which halves the own weight. Rows in which an attribute of the question is not
    applicable are left out.

    Every question takes a subpopulation ``where`` (see `parse_where`), by default all rows. Every
    question takes a cost: ``epsilon`` (pure DP) or ``rho`` (zCDP). Counts, proportions, means and
    sums take ``uncertainty="worst-case"``. A tenth of their cost then pays for
    `Estimate.imputation_interval`, which holds for all values of missing cells. `answer` takes a
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
        check_number("confidence", confidence, min_value=0.5, max_value=1.0, exclude_max=True)
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

    def answer(self, question: Statistic, cost: Cost) -> Estimate | LevelEstimates:
        """Charge for a question and answer it.

        Parameters
        ----------
        question : Statistic
            The question.
        cost : Cost
            The cost, in pure epsilon or zCDP's rho.

        Returns
        -------
        Estimate or LevelEstimates
            Released. Levels for a histogram, or with ``by``.
        """
        return answer_question(self._task(question, cost))

    def check(self, question: Statistic, cost: Cost) -> None:
        """Check a question by public facts.

        Reads no row and charges nothing.

        Parameters
        ----------
        question : Statistic
            The question.
        cost : Cost
            The cost of the question, in pure epsilon or zCDP's rho.

        Raises
        ------
        ParameterError
            If the question does not fit the schema, or noise is expected to hide large groups.
        """
        check_width(self._task(question, cost))

    def _task(self, question: Statistic, cost: Cost) -> StatisticTask:
        imputation = (self.imputation, self._change)
        return StatisticTask(self._session, *imputation, self._confidence, question, cost)

    def _answer_kind(self, kind: str, *of: str, **how: Unpack[_Options]) -> Estimate:
        cost = _cost_of(how.get("epsilon"), how.get("rho"))
        question = Statistic(
            kind, of, how.get("where"), how.get("uncertainty", "total"), how.get("by")
        )
        return cast("Estimate", self.answer(question, cost))

    def count(self, **how: Unpack[_Options]) -> Estimate:
        """Count the rows of a subpopulation.

        Parameters
        ----------
        **how
            ``where``, ``by``, ``uncertainty`` and a cost: ``epsilon`` or ``rho``. See `Statistic`.

        Returns
        -------
        Estimate
            Released number of rows.
        """
        return self._answer_kind("count", **how)

    def proportion(self, of: str, **how: Unpack[_Options]) -> Estimate:
        """Proportion of a subpopulation that satisfies ``of``: two released counts divided.

        Parameters
        ----------
        of : str
            The condition, see `parse_where`.
        **how
            As for `count`.

        Returns
        -------
        Estimate
            Released share in [0, 1].
        """
        return self._answer_kind("proportion", of, **how)

    def mean(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Mean of a numeric attribute over a subpopulation, of the rows where it is known.

        Parameters
        ----------
        name : str
            A numeric attribute.
        **how
            As for `count`.

        Returns
        -------
        Estimate
            Released mean within the bounds of the attribute.
        """
        return self._answer_kind("mean", name, **how)

    def sum(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Sum of a numeric attribute over a subpopulation.

        Parameters
        ----------
        name : str
            A numeric attribute.
        **how
            As for `count`.

        Returns
        -------
        Estimate
            Released sum.
        """
        return self._answer_kind("sum", name, **how)

    def variance(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Sample variance of a numeric attribute, around a released mean.

        Parameters
        ----------
        name : str
            A numeric attribute.
        **how
            As for `count`, without ``by``.

        Returns
        -------
        Estimate
            Released variance, with the divisor n - 1.
        """
        return self._answer_kind("variance", name, **how)

    def standard_deviation(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Square root of the released variance.

        Parameters
        ----------
        name : str
            A numeric attribute.
        **how
            As for `count`, without ``by``.

        Returns
        -------
        Estimate
            Released standard deviation, with the divisor n - 1.
        """
        return self._answer_kind("standard_deviation", name, **how)

    def correlation(self, first: str, second: str, **how: Unpack[_Options]) -> Estimate:
        """Pearson correlation of two numeric attributes, from released means and moments.

        Parameters
        ----------
        first, second : str
            Numeric attributes.
        **how
            As for `count`, without ``by``.

        Returns
        -------
        Estimate
            Released correlation in [-1, 1].
        """
        return self._answer_kind("correlation", first, second, **how)

    def histogram(self, name: str, **how: Unpack[_Options]) -> LevelEstimates:
        """Count the rows of each level (or bin) of an attribute, without missing rows.

        Parameters
        ----------
        name : str
            An attribute.
        **how
            As for `count`, without ``by``.

        Returns
        -------
        LevelEstimates
            Released number of rows of each level.
        """
        return cast("LevelEstimates", self._answer_kind("histogram", name, **how))


def _cost_of(epsilon: float | None, rho: float | None) -> Cost:
    """Return the cost of a question: pure DP ``epsilon``, or zCDP ``rho``."""
    if (epsilon is None) == (rho is None):
        raise ParameterError("give epsilon, or rho, and not both")
    amount = check_number(
        "epsilon or rho", epsilon if rho is None else rho, max_value=1e9, exclude_min=True
    )
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
) -> list[Estimate | LevelEstimates]:
    """Answer questions about rows that are imputed in one way.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation or None
        Imputation of missing cells. None if no cell that a question reads may be missing.
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
    list of Estimate or LevelEstimates
        One for each question.

    Raises
    ------
    BudgetExceededError
        If the questions together do not fit into the budget. Nothing is charged then, and nothing
        is read.
    ParameterError
        If public facts rule a question out. The question may not fit the schema, or read a cell
        that may be missing and is not filled. Or the groups of ``by`` are imputed, and noise is
        expected to hide a group of 10,000 rows.

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
    # The whole cost must be affordable before the first part is charged.
    if not budget.can_afford(PureEvent(epsilon=math.fsum(cost.amount for _ in questions))):
        raise BudgetExceededError(
            "the question costs more than the remaining budget. Nothing was computed or charged"
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
    """Check several questions by public facts, before any charge.

    Nothing is charged, and no row is read. So the check may use a table without rows, before the
    private table is opened. So a table without rows does, before the private one is opened.

    Parameters
    ----------
    table : Table
        A table of the schema. Its rows are not needed, and no ledger is charged.
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
    total = _cost_of(epsilon, None)
    # Each part is a little less, so that all parts together are at most the total.
    part = total.amount / len(questions) * (1 - 2.0**-40 * (len(questions) > 1))
    return replace(total, amount=part)


def _check_all(statistics: ImputedStatistics, questions: Sequence[Statistic], cost: Cost) -> None:
    """Check several questions by public facts."""
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
    """Return the statistics of questions such as ``mean(income) by region``.

    Parameters
    ----------
    texts : sequence of str
        The questions, as `missdp.schema.question_text` reads them.
    schema : Schema
        Attributes that they may name.
    where : str, optional
        The subpopulation of all questions.
    uncertainty : {"total", "noise", "worst-case"}, optional
        See `Statistic`. By default "total".

    Returns
    -------
    list of Statistic
        One for each question.

    Raises
    ------
    ParameterError
        If a question cannot be read, or if "total" is requested where it is not defined.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> (asked,) = read_questions(["share(gender = 'female')"], yrbss().schema())
    >>> asked.kind, asked.of
    ('proportion', ("gender = 'female'",))
    """
    questions = []
    interval_kind = "total" if uncertainty is None else uncertainty
    for text in texts:
        kind, of, by = _read(text, parse_question(text, schema, available=ROW_STATISTICS))
        questions.append(Statistic(kind, of, where, interval_kind, by))
    if uncertainty == "total" and not all(one.kind in BOUNDED and not one.by for one in questions):
        raise ParameterError(
            "uncertainty='total' is for counts, shares, means and sums, each without by. "
            "Intervals of other questions are of noise alone"
        )
    return questions


def _read(text: str, question: Question) -> tuple[str, tuple[str, ...], str | None]:
    """Return the statistic of a question, its attributes and its groups."""
    if question.what == "missing":
        raise ParameterError(
            "share(x is missing) is answered by `missdp estimate`, from a model. Missing cells of "
            "private rows are filled here."
        )
    if len(question.by) > 1:
        raise ParameterError("by names one attribute here. Answers are for each of its levels")
    of = question.of
    if question.what == "share":
        of = (text[text.index("(") + 1 : text.rindex(")")].strip(),)
    kinds = {name: kind for kind, name in QUESTION_NAMES.items()}
    return kinds.get(question.what, question.what), of, next(iter(question.by), None)


def read_imputation(
    schema: Schema, *, impute: str = "", match: str = "", group: str = "", k: int = 1
) -> KNNImputation | None:
    """Return the imputation of missing cells, from names that are separated by commas.

    Parameters
    ----------
    schema : Schema
        Attributes that are named. A name that holds a comma stands in backticks.
    impute, match, group : str
        The attributes to fill, the matching attributes, and the attributes on which donors agree
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
    """Return the attributes that questions need, and the attributes whose values they need.

    Public facts decide. None means that all attributes and values are needed. This is the case for
    a question that public facts rule out, and if facts are not declared public. It is also the case
    if the facts about some attributes alone would be rejected: among many rules, a contradiction
    may go unnoticed.

    Parameters
    ----------
    imputation, questions
        As `run_queries` takes them.
    schema : Schema
        Public facts about all rows.

    Returns
    -------
    schema : Schema
        The schema of the attributes that are read.
    valued : set of str or None
        Attributes whose values are needed. Levels or bins of other attributes are enough.

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
            needed = schema.rule_set.connected_by_rules(valued | matched)
            some = schema.subset(name for name in schema.names if name in needed)
            return some, {*some.names} if some.rules else valued
    return schema, None


def close_levels(
    imputation: KNNImputation | None, questions: Sequence[Statistic], schema: Schema
) -> Schema:
    """Return a schema without open attributes, if no question needs them.

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
