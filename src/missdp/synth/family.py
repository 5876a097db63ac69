"""The interface of a family of synthesizers: a record of functions, and their inputs and outputs.

`Family` is the record of functions. `Request` is their input: parameters and public facts.
`Learned` is the output of a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from missdp.accounting import ApproximateEvent, Cost, Filter, SampledGaussianEvent
from missdp.accounting.exact import exact, float_down
from missdp.errors import ParameterError
from missdp.progress import Progress
from missdp.schema import Schema, SurveyWeight, Unit
from missdp.schema.modelled import ModelView
from missdp.schema.open_categorical import open_attributes
from missdp.session import Reads, Session, Total
from missdp.session.strategies import Strategy, strategy_named
from missdp.synth.first_parts import first_parts
from missdp.synth.parameters import chosen_delta
from missdp.synth.search_grid import before_fit, with_pending_bins
from missdp.synth.split import BudgetPlan, Part, RequiredAttributes
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer
    from missdp.synth.fitted import Fitted

P = TypeVar("P", bound="Synthesizer")

_FAILURE = Fraction(1, 10)  # share of the delta of a fit for all attributes with open levels

Codes: TypeAlias = dict[str, Ints]
"""Codes of rows by the names of modelled attributes. A missing cell has the code ``size``."""


Finish: TypeAlias = Callable[
    ["Fitted", Any, Callable[[int, np.random.Generator], Any], np.random.Generator], Any
]
"""Changes synthetic rows that were drawn independently, so that they fit to each other.

``finish(fitted, table, draw, rng)`` returns the table with some of its rows changed. ``draw`` draws
additional rows.
"""


@dataclass(frozen=True, eq=False)
class Request(Generic[P]):
    """Request for a fit of a synthesizer: its parameters and the public facts about the table.

    It holds no private data. The functions of a `Family` receive it, and compute plans and costs
    from it before any private row is read.

    Parameters
    ----------
    parameters : Synthesizer
        A synthesizer, of which a family reads parameters only.
    declared : Schema, optional
        The declared schema with its unit, its weight and its open levels. Levels are open if a fit
        finds the levels of an attribute, because the schema declares none. Public.
    counted : Schema, optional
        Schema of the counted rows. It exists once the data are opened. Numeric attributes without
        bins have pending bins until the fit finds bins.
    progress : callable, optional
        Called with the name of a stage and the share of the work that is done, from 0 to 1.

    Examples
    --------
    >>> from missdp.synth import Request
    >>> from missdp import AllPairs
    >>> from missdp.datasets import yrbss
    >>> request = Request(AllPairs(epsilon=1.0), yrbss().schema())
    >>> request.delta, request.strategy.name
    (1e-06, 'joint')
    """

    parameters: P
    declared: Schema | None = None
    counted: Schema | None = None
    progress: Progress | None = None

    @property
    def family(self) -> Family:
        """Return the family of the synthesizer that is to be fitted.

        A family is a kind of synthesizer, such as AllPairs.

        Returns
        -------
        Family
            The record of the functions of the family. Public.
        """
        return self.parameters.family

    @property
    def opened(self) -> tuple[str, ...]:
        """Return the names of the attributes whose levels the fit has to find.

        The schema declares no levels for these attributes.

        Returns
        -------
        tuple of str
            In schema order. Empty without a declared schema. Public.
        """
        declared = self.declared
        return () if declared is None else tuple(a.name for a in open_attributes(declared))

    @property
    def unit(self) -> Unit | None:
        """Return the declared unit of protection, such as all rows of one person, or None.

        Returns
        -------
        Unit or None
            None means that each row is protected by itself. Public.
        """
        return None if self.declared is None else self.declared.unit

    @property
    def weight(self) -> SurveyWeight | None:
        """Return the declared survey weight of the rows of a fit, or None.

        A survey weight is the column that states how many persons a row stands for.

        Returns
        -------
        SurveyWeight or None
            None means that each row counts as one. Public.
        """
        return None if self.declared is None else self.declared.weight

    @property
    def schema(self) -> Schema:
        """Return the schema of the counted rows, with the levels and bins that are known so far.

        It exists once the data are opened.

        Returns
        -------
        Schema
            Public, or released once the fit has found levels and bins.

        Raises
        ------
        ParameterError
            If the data are not opened yet.
        """
        if self.counted is None:
            raise ParameterError(
                "the request has no schema of counted rows, as the data are not opened yet. Read "
                "'declared' instead, or call 'on_rows' first."
            )
        return self.counted

    @cached_property
    def modelled(self) -> ModelView:
        """Return the attributes that the fit models, and the values that rules make impossible.

        Attributes that follow from others by a rule of the schema are left out.

        Returns
        -------
        ModelView
            Public, or released once the fit has found levels and bins.
        """
        return ModelView(self.schema)

    @property
    def public(self) -> Schema:
        """Return the schema of the modelled attributes, as it is public before the fit finds bins.

        Numeric attributes whose bins the fit finds have the largest number of bins that it may
        find.

        Returns
        -------
        Schema
            Public.
        """
        return ModelView(before_fit(self.schema)).schema

    @property
    def strategy(self) -> Strategy:
        """Return the strategy for missing values that the synthesizer requests.

        The parameter ``missing`` names it.

        Returns
        -------
        Strategy
            Public.

        Raises
        ------
        ParameterError
            If the name is unknown.
        """
        return self.family.strategy(self.parameters.missing)

    @property
    def delta(self) -> float:
        """Return the delta of the complete fit, as the parameter states it or by default.

        The default is 1e-6. For a declared number n of rows above 10,000 it is ``1 / (100 n)``.

        Returns
        -------
        float
            At least 0 and below 1. Public.
        """
        return chosen_delta(self.parameters.delta, self.parameters.n_rows)

    @property
    def delta_to_spend(self) -> float:
        """Return the part of delta that is left for the noisy measurements of the fit.

        The budget of the measurements is converted at this delta. The rest of delta is the
        probability of releasing a rare level while the fit finds open levels.

        Returns
        -------
        float
            At least 0, rounded down. Public.
        """
        return float_down(exact(self.delta) - sum(exact(event.delta) for event in self.failures))

    @property
    def failures(self) -> tuple[ApproximateEvent, ...]:
        """Return the accounting events for the probability that a fit releases a rare level.

        They are charged in addition to the budget of the measurements if the fit finds levels. The
        event has epsilon 0 and a tenth of the delta of the fit.

        Returns
        -------
        tuple of ApproximateEvent
            A single event, or none if all levels are declared. Public.
        """
        if not self.opened:
            return ()
        chance = float_down(exact(self.delta) * _FAILURE)
        return (ApproximateEvent(epsilon=0.0, delta=chance, label="rare levels"),)

    @property
    def budget(self) -> Filter:
        """Return the unspent budget of all noisy measurements of the fit, as a new `Filter`.

        It is computed from parameters and public facts alone. It is stated for the declared unit of
        protection.

        Returns
        -------
        Filter
            A budget to which nothing was charged. Public.

        Raises
        ------
        ParameterError
            If epsilon or delta has no valid value.
        """
        total = self.family.budget(self)
        if self.unit is None:
            return total
        return total._for_units(self.unit.column, self.unit.max_rows, counts_as=self.unit.counts_as)

    @property
    def trainings(self) -> tuple[SampledGaussianEvent, ...]:
        """Return the accounting events of the private trainings of networks in the fit.

        They are charged in addition to the budget of the measurements. A training reads random
        samples of the private rows.

        Returns
        -------
        tuple of SampledGaussianEvent
            Empty for families without networks. Public.
        """
        return self.family.trainings(self)

    def plan(self) -> BudgetPlan:
        """Return the division of the budget of the fit into parts, from public facts alone.

        A part is the budget of one kind of release, such as the one-way marginals. Each part has a
        largest cost that is fixed in advance. These costs can improve the guarantee for the table
        before values went missing. They cannot improve it with open levels, units of several rows
        or weighted rows.

        Returns
        -------
        BudgetPlan
            The parts that all families have, and then the parts of this family. Public.

        Raises
        ------
        ParameterError
            If public facts show the fit to be impossible.
        """
        plain = not (self.opened or self.unit or self.weight)
        parts = self.family.plan(self)
        return BudgetPlan(self.budget.remaining, (*first_parts(self), *parts), amplified=plain)

    def observed_requirement(self, names: Iterable[str]) -> RequiredAttributes:
        """Return the attributes that a row must have observed to enter a table of counts.

        It is the requirement before missing cells are filled. The attributes follow from the
        strategy for missing values and the schema.

        Parameters
        ----------
        names : iterable of str
            Attributes of the table of counts.

        Returns
        -------
        frozenset of str
            Names of attributes. Empty if every row is counted. Public.
        """
        return self.strategy.required(names, self.modelled.schema) - self.modelled.rule_filled

    def required_sets(self, cliques: Iterable[Iterable[str]]) -> tuple[RequiredAttributes, ...]:
        """Return the attributes that a row must have observed to enter each table of counts.

        If the strategy fills missing cells first, rows are counted after filling, and nothing is
        required.

        Parameters
        ----------
        cliques : iterable of iterable of str
            The attributes of each table of counts.

        Returns
        -------
        tuple of frozenset of str
            A set of names for each table, in the order of ``cliques``. The set is empty if every
            row enters the table. Public.
        """
        filled = self.strategy.fills
        return tuple(
            RequiredAttributes() if filled else self.observed_requirement(clique)
            for clique in cliques
        )

    def single_requirements(self) -> tuple[RequiredAttributes, ...]:
        """Return the attributes that a row must have observed to enter each one-way marginal.

        If the strategy fills missing cells first, rows are counted after filling, and nothing is
        required.

        Returns
        -------
        tuple of frozenset of str
            A set of names for each modelled attribute, in schema order. Public.
        """
        return self.required_sets((name,) for name in self.modelled.schema.names)

    def training_requirement(self) -> RequiredAttributes:
        """Return the attributes that a row must have observed for a training to read the row.

        A training reads random samples of the private rows to fit a network.

        If the strategy fills missing cells first, nothing is required.

        Returns
        -------
        frozenset of str
            Names of attributes. Empty if every row is read. Public.
        """
        return RequiredAttributes() if self.strategy.fills else self.observed_requirement(())

    def report(self, stage: str, done: float) -> None:
        """Report the progress of the fit to the callable of the user, if there is a callable.

        Parameters
        ----------
        stage : str
            Name of the stage of the work. It states nothing private.
        done : float
            Share of the work that is done, from 0 to 1.
        """
        if callable(self.progress):
            self.progress(stage, done)

    def on_rows(self, schema: Schema, rebinnable: Iterable[str]) -> Request[P]:
        """Return this request with the schema of the counted rows, once the data are opened.

        With ``bins="private"``, numeric attributes without declared bins get pending bins, which
        the fit replaces by released bins.

        Parameters
        ----------
        schema : Schema
            Schema of the counted rows. Public.
        rebinnable : iterable of str
            Attributes whose values a source can put into other bins.

        Returns
        -------
        Request
            A request with that schema. Public.
        """
        private = self.parameters.bins == "private"
        return self.with_schema(with_pending_bins(schema, rebinnable) if private else schema)

    def with_schema(self, schema: Schema) -> Request[P]:
        """Return this request with another schema of the counted rows, such as with released bins.

        Parameters
        ----------
        schema : Schema
            Schema of the counted rows. Public, or with released levels or bins.

        Returns
        -------
        Request
            A request with that schema. It is this request if the schema is unchanged. As public
            as the schema.
        """
        return self if schema == self.counted else replace(self, counted=schema)


@dataclass(frozen=True, eq=False)
class Learned:
    """Result of the fit of a synthesizer family: the released model, and released numbers of rows.

    The function ``fit`` of a `Family` returns it. All values are released: none of them may be an
    exact private number.

    Parameters
    ----------
    model : object
        The model that synthetic rows are drawn from: numbers, text, arrays, records, and mappings
        of them.
    total : Total
        The released number of rows, with the variance of its noise.
    tables : Record, optional
        The released tables to which the model was fitted, for estimates.
    measured : tuple of tuple of str, default ()
        The marginals (tables of counts over a few attributes) that a noisy selection chose, by
        attribute names.
    complete : Total, optional
        The released number of complete rows, with the variance of its noise, if only complete
        rows were read.
    schema : Schema, optional
        The schema of the fit, if the family changed more of it than bins. Public facts and released
        values.

    Raises
    ------
    TypeError
        If ``total`` is not a `Total`.

    Notes
    -----
    The object is a release, so it may be published.

    Examples
    --------
    >>> from missdp.session import Total
    >>> from missdp.synth import Learned
    >>> Learned(model={"mean": 3.2}, total=Total(1000.0, 25.0)).total.std
    5.0
    """

    model: Any
    total: Total
    tables: Any = None
    measured: tuple[tuple[str, ...], ...] = ()
    complete: Total | None = None
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.total, Total):
            raise TypeError(
                f"total of Learned must be a Total, not {type(self.total).__name__}: "
                "missdp.synth.noisy_counts.row_count(session, noise) returns one"
            )


def plain_budget(request: Request[Any]) -> Filter:
    """Return the unspent budget of a fit as a filter that accepts releases of any kind.

    Parameters
    ----------
    request : Request
        The parameters and public facts of the fit. Its epsilon and delta are read.

    Returns
    -------
    Filter
        The budget of all noisy measurements, without any charge. Public.

    Raises
    ------
    ParameterError
        If epsilon or delta has no valid value.

    Examples
    --------
    >>> from missdp.synth import Request
    >>> from missdp.synth.family import plain_budget
    >>> from missdp import PrivBayes
    >>> plain_budget(Request(PrivBayes(epsilon=0.5))).epsilon
    0.5
    """
    return Filter(request.parameters.epsilon, request.delta_to_spend)


def budget_of_counts(request: Request[Any]) -> Filter:
    """Return a filter in the best privacy measure for counts, which is pure if delta is 0."""
    epsilon = request.parameters.epsilon
    measure = Cost.for_counts(float(epsilon), request.delta).privacy_measure
    return Filter(epsilon, request.delta_to_spend, measure=measure)


def gaussian_budget(request: Request[Any]) -> Filter:
    """Return a filter in Gaussian DP."""
    return Filter(request.parameters.epsilon, request.delta_to_spend, measure="gdp")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Record that defines a kind of synthesizer: how it plans, fits and samples.

    A family also lists its strategies for missing values and the types of its released model.

    A subclass of `Synthesizer` sets its class attribute ``family`` to such a record. The functions
    of the record plan a fit, fit a model in a session, and draw rows. The session charges each
    noisy release and returns released values only. ``plan``, ``budget``, ``trainings`` and
    ``parameters`` read parameters and public facts, and never private rows.

    Parameters
    ----------
    strategies : tuple of str
        Names of the strategies for missing values that the family offers, its default first.
    fit : callable
        ``fit(session, plan, request)`` measures rows in a `Session`, within a ``BudgetPlan``, and
        returns `Learned`.
    sample : callable
        ``sample(fitted, n, rng, keep_missing)`` draws n rows: integer codes of shape (n,) by name
        of each modelled attribute. The code of a missing cell is the number of levels.
    model, tables : type or annotation, default Any and NoneType
        Types of the released model and of the released tables. Reading a file with other types
        raises an error.
    parameters : callable, optional
        ``parameters(synthesizer)`` raises ParameterError for parameters that are not valid. It may
        return a dict of parameters in the form in which files hold them. By default every value is
        valid.
    plan : callable, optional
        ``plan(request)`` returns a list of ``Part``: the parts of the budget after the parts of
        all families. The budget is divided in their order. It raises ParameterError if public
        facts show the fit to be impossible. Without parts, the guarantee for the table before
        values went missing equals the guarantee of the fit.
    budget : callable, optional
        ``budget(request)`` returns the unspent `Filter` of all measurements. By default a filter
        for any releases.
    trainings : callable, optional
        ``trainings(request)`` returns the accounting events of private trainings, which are charged
        in addition to the budget. By default none.
    resample : callable, optional
        ``resample(fitted, rng)`` yields models, without end, that vary by the uncertainty of the
        fitted model. Without it, ``sample(multiple=...)`` raises an error.
    finish : callable, optional
        ``finish(parameters)`` returns a function that changes drawn rows so that they satisfy
        constraints between rows, or None without constraints. All rows are then drawn together.
    reads : {"counts", "weights", "rows"}, default "counts"
        Access to the data source that the family needs: counts of marginals, also sums of the
        weights of rows, or the rows in memory.
    protects_units : bool, default False
        Whether all measurements are proven for units of several rows, and for weighted rows. If
        False, a schema with a unit or a weight raises UnprovenError before the charge.
    reads_masks : bool, default False
        Whether ``"observed"`` reads every row, and its mask of missing cells.
    rivals : tuple of str, default ()
        Names of families that may preserve more relations between columns, for a warning.

    Raises
    ------
    ParameterError
        If a strategy is unknown.

    Notes
    -----
    A session charges each release before it is computed. So a fit is private for any ``fit`` that
    releases only values of its session.

    Examples
    --------
    >>> from missdp.synth import Family
    >>> def fit(session, plan, request):
    ...     raise NotImplementedError
    >>> def sample(fitted, n, rng, keep_missing):
    ...     raise NotImplementedError
    >>> Family(strategies=("joint", "observed"), fit=fit, sample=sample).strategy("joint").name
    'joint'
    """

    strategies: tuple[str, ...]
    fit: Callable[[Session, BudgetPlan, Request[Any]], Learned]
    sample: Callable[[Fitted, int, np.random.Generator, bool], Codes]
    model: Any = Any
    tables: Any = NoneType
    parameters: Callable[[Any], Mapping[str, Any] | None] = lambda _: None
    plan: Callable[[Request[Any]], list[Part]] = lambda _: []
    budget: Callable[[Request[Any]], Filter] = plain_budget
    trainings: Callable[[Request[Any]], tuple[SampledGaussianEvent, ...]] = lambda _: ()
    resample: Callable[[Fitted, np.random.Generator], Iterator[Any]] | None = None
    finish: Callable[[Mapping[str, Any]], Finish | None] | None = None
    reads: Reads = "counts"
    protects_units: bool = False
    reads_masks: bool = False
    rivals: tuple[str, ...] = ()

    def strategy(self, missing: str) -> Strategy:
        """Return the strategy for missing values that has this name in the family.

        In families whose trainings read masks, ``"observed"`` reads every row and requires no
        observed cell.

        Parameters
        ----------
        missing : str
            One of ``"joint"``, ``"observed"``, ``"complete-rows"`` and ``"impute-first"``.

        Returns
        -------
        Strategy
            Public facts: the rows that are counted, and the treatment of missing cells.

        Raises
        ------
        ParameterError
            If the name is unknown.
        """
        strategy = strategy_named(missing)
        if self.reads_masks and strategy.name == "observed":
            return replace(strategy, rows="extended", required_sets="none")
        return strategy

    def __post_init__(self) -> None:
        for name in self.strategies:
            strategy_named(name)
