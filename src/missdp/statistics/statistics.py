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
    """Differentially private statistics of a private table, after imputation of missing cells.

    Each method charges the shared budget for a question, and then returns an `Estimate` or
    `LevelEstimates`: released value, interval and guarantee. Missing cells are filled from similar
    rows (k-nearest neighbours), and the noise covers the effect of one row on the filled cells of
    others. For many marginals of one table, fit a synthesizer instead.

    Parameters
    ----------
    table : Table
        Private rows. Each row is protected by itself.
    imputation : KNNImputation or None
        Imputation of missing cells. With None they stay missing, and the answer leaves out rows
        in which an attribute of the question is missing. This answer is biased unless values
        are missing completely at random.
    budget : Filter
        Privacy budget that all questions charge. Other releases may share it.
    confidence : float, default 0.95
        Confidence of the intervals, at least 0.5 and below 1.
    undeclared : {"refuse", "accept"}, default "refuse"
        Whether a schema with facts that were read from private data and not declared public
        raises an error.
    random_state : int or None, default None
        None for releases, with noise from a secure source. A seed is for tests, and the
        guarantee then states it as a condition.
    may_refuse : bool, default False
        Whether the source of the table may raise an error because of a row, as CSV files may.
        Then the guarantee states that errors are not private.

    Attributes
    ----------
    imputation : KNNImputation or None
        The imputation. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value.
    DataError
        If the rows are not a `Table`, or a filled numeric attribute has bins only, no values.
    SchemaError
        If the schema has a unit of protection (all rows of one person), weights, or facts that
        are not declared public. An attribute that cannot be imputed raises the error, too.
    LedgerError
        If the schema names a ledger and the budget is not a part of it.
    UnprovenError
        If the public domain is too large for the bound on the effect of one donor.

    Notes
    -----
    Guarantee: add-remove, for the incomplete table. The number of rows is private: proportions and
    means divide by a released count. The weights (row, recipient) of a sum of a row function f with
    values in [-L, L] are as follows. The row weight is L. The recipient weight is 0 if f reads no
    imputed value, and otherwise at most the range of f. It is range / k if f is the k-NN mean
    itself, on a subpopulation that other attributes decide. Means use values centred at the middle
    of their bounds, which halves the row weight. Rows in which an attribute of the question is not
    applicable are left out.

    Counts, proportions, means and sums take ``uncertainty="worst-case"``. A tenth of their cost
    then pays for `Estimate.imputation_interval`, which holds for all values of missing cells.

    References
    ----------
    Clifton, Hanson, Merrill, Merrill (2022), "Differentially private k-nearest neighbor missing
    data imputation", ACM Transactions on Privacy and Security 25(3).

    Examples
    --------
    >>> from missdp import Filter
    >>> from missdp.statistics import ImputedStatistics, KNNImputation
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
        """Public facts about the private rows, in which all kinds of missing cells are one kind.

        Returns
        -------
        Schema
            Names, kinds, levels and bounds of the attributes, and rules. Public.
        """
        return cast("Schema", self._session.facts.schema)

    @property
    def budget(self) -> Filter:
        """The privacy budget that all questions charge, shared with other releases.

        Returns
        -------
        Filter
            The object that was given. Its charges and its remaining amount may be published.
        """
        return self._budget

    def answer(self, question: Statistic, cost: Cost) -> Estimate | LevelEstimates:
        """Charge the budget for a question about the private table, and answer it with noise.

        Parameters
        ----------
        question : Statistic
            The question, as an object. Public.
        cost : Cost
            Cost of the question, above 0, in pure epsilon or in rho of zCDP.

        Returns
        -------
        Estimate or LevelEstimates
            Released. `LevelEstimates` for a histogram or a question with ``by``, in the order
            of the levels.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Examples
        --------
        >>> from missdp import Filter
        >>> from missdp.accounting import Cost
        >>> from missdp.statistics import ImputedStatistics, Statistic
        >>> from missdp.datasets import yrbss
        >>> statistics = ImputedStatistics(yrbss().table(), None, budget=Filter(1.0))
        >>> answer = statistics.answer(Statistic("count"), Cost(privacy_measure="pure", amount=0.5))
        >>> answer.name, round(statistics.budget.remaining_epsilon, 9)
        ('count()', 0.5)
        """
        return answer_question(self._task(question, cost))

    def check(self, question: Statistic, cost: Cost) -> None:
        """Raise an error if public facts rule out a question about the private table.

        No row is read, and nothing is charged.

        Parameters
        ----------
        question : Statistic
            The question. Public.
        cost : Cost
            Cost of the question, above 0, in pure epsilon or in rho of zCDP.

        Raises
        ------
        ParameterError
            If the question does not fit the schema. It is also raised if ``by`` is imputed and
            noise is expected to hide a mean or proportion of a group of 10,000 rows.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.
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
        """Charge the budget, and return the noisy number of rows of a subpopulation.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        by : str, optional
            Categorical or ordinal attribute. The answer is then for each of its declared levels.
        uncertainty : {"total", "noise", "worst-case"}, default "total"
            Intervals of the answer, see `Statistic`.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate or LevelEstimates
            Released number of rows, at least 0. With ``by``, one number for each level in
            declared order.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.

        Examples
        --------
        >>> from missdp import Filter
        >>> from missdp.statistics import ImputedStatistics
        >>> from missdp.datasets import yrbss
        >>> statistics = ImputedStatistics(yrbss().table(), None, budget=Filter(1.0))
        >>> answer = statistics.count(where="gender = 'female'", epsilon=0.5)
        >>> abs(answer.value - 6600) < 400
        True
        """
        return self._answer_kind("count", **how)

    def proportion(self, of: str, **how: Unpack[_Options]) -> Estimate:
        """Charge the budget, and return the noisy share of a subpopulation that meets a condition.

        The share is a quotient of two released numbers.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        of : str
            The condition, such as ``"income > 15"``, see `parse_where`.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        by : str, optional
            Categorical or ordinal attribute. The answer is then for each of its declared levels.
        uncertainty : {"total", "noise", "worst-case"}, default "total"
            Intervals of the answer, see `Statistic`.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate or LevelEstimates
            Released share in [0, 1]. With ``by``, one share for each level in declared order.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
        """
        return self._answer_kind("proportion", of, **how)

    def mean(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Charge the budget, and return the noisy mean of a numeric attribute over a subpopulation.

        Rows in which the attribute is still missing after imputation are left out. The mean is a
        quotient of two released numbers.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        name : str
            A numeric attribute.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        by : str, optional
            Categorical or ordinal attribute. The answer is then for each of its declared levels.
        uncertainty : {"total", "noise", "worst-case"}, default "total"
            Intervals of the answer, see `Statistic`.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate or LevelEstimates
            Released mean within the bounds of the attribute, in its units. With ``by``, one
            mean for each level in declared order.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
        """
        return self._answer_kind("mean", name, **how)

    def sum(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Charge the budget, and return the noisy sum of a numeric attribute over a subpopulation.

        Rows in which the attribute is still missing after imputation are left out.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        name : str
            A numeric attribute.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        uncertainty : {"total", "noise", "worst-case"}, default "total"
            Intervals of the answer, see `Statistic`.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate
            Released sum, in the units of the attribute.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
        """
        return self._answer_kind("sum", name, **how)

    def variance(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Charge the budget, and return the noisy sample variance of a numeric attribute.

        It is the mean of squares around a released mean, with the divisor n - 1. Rows in which the
        attribute is still missing after imputation are left out.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        name : str
            A numeric attribute.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate
            Released variance, in squared units of the attribute. Its interval covers noise alone.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
        """
        return self._answer_kind("variance", name, **how)

    def standard_deviation(self, name: str, **how: Unpack[_Options]) -> Estimate:
        """Charge the budget, and return the noisy standard deviation of a numeric attribute.

        It is the square root of the released sample variance, with the divisor n - 1.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        name : str
            A numeric attribute.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate
            Released standard deviation, in the units of the attribute. Its interval covers
            noise alone.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
        """
        return self._answer_kind("standard_deviation", name, **how)

    def correlation(self, first: str, second: str, **how: Unpack[_Options]) -> Estimate:
        """Charge the budget, and return the noisy Pearson correlation of two numeric attributes.

        It is computed from released means and moments.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        first, second : str
            Numeric attributes.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        Estimate
            Released correlation in [-1, 1]. Its interval covers noise alone.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
        """
        return self._answer_kind("correlation", first, second, **how)

    def histogram(self, name: str, **how: Unpack[_Options]) -> LevelEstimates:
        """Charge the budget, and return noisy numbers of rows for all levels of an attribute.

        Rows in which the attribute is still missing after imputation are left out. All levels
        together cost as much as one count.

        The options and the cost are keyword arguments.

        Parameters
        ----------
        name : str
            An attribute.
        where : str, optional
            Condition of the subpopulation, see `parse_where`. By default all rows.
        epsilon : float, optional
            Cost in pure DP, above 0. Give either ``epsilon`` or ``rho``.
        rho : float, optional
            Cost in zCDP (zero-concentrated DP), above 0.

        Returns
        -------
        LevelEstimates
            Released number of rows of each level in declared order, or of each bin in
            increasing order.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the question. Nothing is charged, and nothing is computed.
        ParameterError
            If the question does not fit the schema, or not exactly one cost is given. Nothing
            is charged.
        DataError
            If a numeric attribute of the question has bins only, no values.
        SchemaError
            If the bounds of a numeric attribute are too close for floating-point numbers.
        UnprovenError
            If no bound is known for the requested combination of options.

        Notes
        -----
        The answer is private under add-remove adjacency at the given cost, its intervals included.
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
    """Answer several questions about a private table with noise, for one total epsilon.

    The missing cells are filled once. The budget is charged for each question before it is
    computed. If public facts rule out a question, or the budget is too small for all questions,
    nothing is charged.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation or None
        Imputation of missing cells. None if no cell that a question reads may be missing.
    questions : sequence of Statistic
        The questions, at least one.
    epsilon : float
        Total cost of all questions in pure DP, above 0, intervals included. Each question has
        an equal part.
    budget : Filter
        Privacy budget that is charged.
    undeclared : {"refuse", "accept"}, default "refuse"
        Whether a schema with facts that were read from private data and not declared public
        raises an error.
    may_refuse : bool, default False
        Whether the source of the table may raise an error because of a row, as CSV files may.
        Then the guarantee states that errors are not private.

    Returns
    -------
    list of Estimate or LevelEstimates
        Released. One for each question, in their order.

    Raises
    ------
    BudgetExceededError
        If the questions together do not fit into the budget. Nothing is charged, and nothing is
        read.
    ParameterError
        If public facts rule out a question. The question may not fit the schema, or read a cell
        that may be missing and is not filled. Or the groups of ``by`` are imputed, and noise is
        expected to hide a group of 10,000 rows.
    DataError
        If the rows are not a `Table`, or a numeric attribute of a question has bins only, no
        values.
    SchemaError
        If the schema has a unit of protection (all rows of one person), weights, or facts that
        are not declared public. An attribute that cannot be imputed raises the error, too.
    LedgerError
        If the schema names a ledger and the budget is not a part of it.
    UnprovenError
        If no bound is known for the imputation or for a question.

    Notes
    -----
    All answers together are epsilon-DP under add-remove adjacency. The guarantee is for the
    incomplete table, and protects single rows.

    Examples
    --------
    >>> from missdp import Filter
    >>> from missdp.statistics import KNNImputation, Statistic, run_queries
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
    """Raise an error if public facts rule out one of several questions about a table.

    No row is read, and nothing is charged. So the table may be without rows, before the private
    table is opened.

    Parameters
    ----------
    table : Table
        A table with the schema of the private rows. Its rows are not read.
    imputation : KNNImputation or None
        Imputation of missing cells. None if no cell that a question reads may be missing.
    questions : sequence of Statistic
        The questions, at least one.
    epsilon : float
        Total cost of all questions in pure DP, above 0. Each question has an equal part.

    Raises
    ------
    ParameterError
        If a question does not fit the schema, or reads a cell that may be missing and is not
        filled. Or the groups of ``by`` are imputed, and noise is expected to hide a group of
        10,000 rows.
    DataError
        If the argument is not a `Table`, or a numeric attribute of a question has bins only, no
        values.
    SchemaError
        If the schema has a unit of protection (all rows of one person) or weights, or an
        attribute cannot be imputed.
    UnprovenError
        If no bound is known for the imputation or for a question.

    Examples
    --------
    >>> from missdp.statistics import Statistic, check_queries
    >>> from missdp.datasets import yrbss
    >>> table, questions = yrbss().table(), [Statistic("mean", ("gender",))]
    >>> check_queries(table, None, questions, epsilon=1.0)
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: 'gender' is not numeric. Use proportions or a histogram
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
    """Return the questions about a table that texts such as ``mean(income) by region`` ask.

    Parameters
    ----------
    texts : sequence of str
        The questions, as `missdp.schema.question_text` reads them.
    schema : Schema
        Public facts about the attributes that they may name.
    where : str, optional
        Condition of the subpopulation of all questions, see `parse_where`. By default all rows.
    uncertainty : {"total", "noise", "worst-case"}, optional
        Intervals of the answers, see `Statistic`. By default "total" where it is defined.

    Returns
    -------
    list of Statistic
        Public. One for each question, in their order.

    Raises
    ------
    ParameterError
        If a question cannot be read, or if "total" is requested where it is not defined.
    UnprovenError
        If "worst-case" is requested for a statistic without a proven bound.

    Examples
    --------
    >>> from missdp.statistics import read_questions
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
    """Return the nearest-neighbour imputation that comma-separated names of attributes describe.

    Parameters
    ----------
    schema : Schema
        Public facts about the attributes. A name that holds a comma stands in backticks.
    impute : str, default ""
        Attributes whose missing cells are filled.
    match : str, default ""
        Attributes by which near donors (rows whose cells are copied) are found, all with weight 1.
    group : str, default ""
        Attributes on which donors agree exactly.
    k : int, default 1
        Donors for each incomplete row, from 1 to 1000.

    Returns
    -------
    KNNImputation or None
        Public parameters. None if all three texts are blank.

    Raises
    ------
    ParameterError
        If the schema has no such attribute, or the parameters contradict each other.

    Examples
    --------
    >>> from missdp.statistics import read_imputation
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
    """Return the attributes of a table that must be read to answer several questions.

    Public facts decide, and no row is read. All attributes are needed if public facts rule a
    question out, if no attribute is named, or if facts are not declared public. They are also
    needed if the schema of some attributes alone would be rejected: among many rules, a
    contradiction may go unnoticed.

    Parameters
    ----------
    imputation : KNNImputation or None
        Imputation of missing cells, or None if no cell is filled. It needs the attributes that it
        fills and matches on.
    questions : sequence of Statistic
        The questions. They need the attributes that they name.
    schema : Schema
        Public facts about all attributes.

    Returns
    -------
    schema : Schema
        Public facts about the attributes that are read.
    valued : set of str or None
        Attributes whose values are needed. Levels or bins of other attributes are enough. None
        if all values are needed.

    Examples
    --------
    >>> from missdp.statistics import KNNImputation, needed_attributes, read_questions
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
    """Return a schema without its open attributes, those whose levels are not declared.

    The levels of an open attribute are not known before a release finds them. Rows of a table can
    be read without these attributes.

    Parameters
    ----------
    imputation : KNNImputation or None
        Imputation of missing cells, or None if no cell is filled.
    questions : sequence of Statistic
        The questions. They need the attributes that they name.
    schema : Schema
        Public facts about all attributes.

    Returns
    -------
    Schema
        Public. The open attributes are ignored columns. It is the argument if no attribute is open.

    Raises
    ------
    SchemaError
        If a question or the imputation needs an attribute whose levels are open. Also if every
        attribute is open.

    Examples
    --------
    >>> from missdp import OpenCategorical
    >>> from missdp.statistics import close_levels, read_questions
    >>> from missdp import Categorical, Schema
    >>> facts = Schema((Categorical(name="sex", levels=("f", "m")), OpenCategorical(name="job")))
    >>> close_levels(None, read_questions(["share(sex = 'f')"], facts), facts).names
    ('sex',)
    """
    opened = [a.name for a in schema if isinstance(a, OpenCategorical)]
    if not opened:
        return schema
    public, named = schema.declare_public(), True
    with contextlib.suppress(MissDPError):  # a question such as count() needs no attribute
        named = imputation is not None or any(question.reads(public) for question in questions)
    if named or len(opened) == len(schema):
        check_levels_declared(needed_attributes(imputation, questions, public)[0])
    closed = schema.subset(name for name in schema.names if name not in opened)
    ignore, file = (*schema.ignore, *opened), schema.file
    unread = schema.undeclared_columns
    return replace(closed, ignore=ignore, keys=schema.keys, undeclared_columns=unread, file=file)
