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
    """Request for a fit: its parameters and public facts. It holds no private data.

    Parameters
    ----------
    parameters : Synthesizer
        A synthesizer, of which a family reads parameters only.
    declared : Schema, optional
        The declared schema with its unit, its weight and its open levels.
    counted : Schema, optional
        Schema of the counted rows. It exists once the data are opened. Numeric attributes without
        bins have pending bins until bins are found.
    progress : callable, optional
        Called with the name of a stage and the share of the work that is done.
    """

    parameters: P
    declared: Schema | None = None
    counted: Schema | None = None
    progress: Progress | None = None

    @property
    def family(self) -> Family:
        """The family of the parameters."""
        return self.parameters.family

    @property
    def opened(self) -> tuple[str, ...]:
        """Names of the attributes with open levels."""
        declared = self.declared
        return () if declared is None else tuple(a.name for a in open_attributes(declared))

    @property
    def unit(self) -> Unit | None:
        """The declared unit, or None if each row is protected by itself."""
        return None if self.declared is None else self.declared.unit

    @property
    def weight(self) -> SurveyWeight | None:
        """The declared weight of rows, or None if each row counts as one."""
        return None if self.declared is None else self.declared.weight

    @property
    def schema(self) -> Schema:
        """The schema of the counted rows."""
        assert self.counted is not None
        return self.counted

    @cached_property
    def modelled(self) -> ModelView:
        """The modelled attributes, and the values that rules make impossible."""
        return ModelView(self.schema)

    @property
    def public(self) -> Schema:
        """The modelled attributes with the facts that were public before bins were found."""
        return ModelView(before_fit(self.schema)).schema

    @property
    def strategy(self) -> Strategy:
        """The strategy for missing values."""
        return self.family.strategy(self.parameters.missing)

    @property
    def delta(self) -> float:
        """The requested delta of the fit, or its default."""
        return chosen_delta(self.parameters.delta, self.parameters.n_rows)

    @property
    def delta_to_spend(self) -> float:
        """Delta at which the budget is converted. Finding open levels takes the rest."""
        return float_down(exact(self.delta) - sum(exact(event.delta) for event in self.failures))

    @property
    def failures(self) -> tuple[ApproximateEvent, ...]:
        """Events that open levels are charged with in addition: a rare level may be released."""
        if not self.opened:
            return ()
        chance = float_down(exact(self.delta) * _FAILURE)
        return (ApproximateEvent(epsilon=0.0, delta=chance, label="rare levels"),)

    @property
    def budget(self) -> Filter:
        """The unspent budget of the measurements, as public facts about one row."""
        total = self.family.budget(self)
        if self.unit is None:
            return total
        return total._for_units(self.unit.column, self.unit.max_rows, counts_as=self.unit.counts_as)

    @property
    def trainings(self) -> tuple[SampledGaussianEvent, ...]:
        """The trainings that are charged in addition to the budget."""
        return self.family.trainings(self)

    def plan(self) -> BudgetPlan:
        """Return all parts of the budget. Raise ParameterError if public facts show it to be
        impossible.

        Levels that a fit finds decide the later queries, so parts are not amplified then. Parts are
        not amplified for units or for weighted rows either.
        """
        plain = not (self.opened or self.unit or self.weight)
        parts = self.family.plan(self)
        return BudgetPlan(self.budget.remaining, (*first_parts(self), *parts), amplified=plain)

    def observed_requirement(self, names: Iterable[str]) -> RequiredAttributes:
        """Return the attributes that a row must have observed to be counted, before filling."""
        return self.strategy.required(names, self.modelled.schema) - self.modelled.rule_filled

    def required_sets(self, cliques: Iterable[Iterable[str]]) -> tuple[RequiredAttributes, ...]:
        """Return the required attributes of counts over sets of attributes, after filling."""
        filled = self.strategy.fills
        return tuple(
            RequiredAttributes() if filled else self.observed_requirement(clique)
            for clique in cliques
        )

    def single_requirements(self) -> tuple[RequiredAttributes, ...]:
        """Return the required attributes of each one-way marginal, after filling."""
        return self.required_sets((name,) for name in self.modelled.schema.names)

    def training_requirement(self) -> RequiredAttributes:
        """Return the attributes that a row must have observed for a training to read it."""
        return RequiredAttributes() if self.strategy.fills else self.observed_requirement(())

    def report(self, stage: str, done: float) -> None:
        """Report the share of the work that is done, from 0 to 1."""
        if callable(self.progress):
            self.progress(stage, done)

    def on_rows(self, schema: Schema, rebinnable: Iterable[str]) -> Request[P]:
        """Return the request for rows of a schema, with pending bins where a fit finds them.

        Parameters
        ----------
        schema : Schema
            Schema of the counted rows. Public.
        rebinnable : iterable of str
            Attributes whose values a source can put into other bins.

        Returns
        -------
        Request
            The request with that schema.
        """
        private = self.parameters.bins == "private"
        return self.with_schema(with_pending_bins(schema, rebinnable) if private else schema)

    def with_schema(self, schema: Schema) -> Request[P]:
        """Return the request for rows of another schema, with released levels or bins."""
        return self if schema == self.counted else replace(self, counted=schema)


@dataclass(frozen=True, eq=False)
class Learned:
    """Result of the fit of a family. All values are released.

    Parameters
    ----------
    model : object
        The model that rows are drawn from: numbers, text, arrays, records, and mappings of them.
    total : Total
        The released number of rows.
    tables : Record, optional
        The released tables to which the model was fitted, for estimates.
    measured : tuple of tuple of str, default ()
        The marginals that were selected.
    complete : Total, optional
        The number of complete rows, if only complete rows were read.
    schema : Schema, optional
        The schema of the fit, if the family changed more of it than bins.
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
    """Return a filter for any releases."""
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
    """Declaration of a family of synthesizers: names and plain functions.

    Parameters
    ----------
    strategies : tuple of str
        The strategies for missing values that it offers, its default first.
    fit : callable
        ``fit(session, plan, request)`` measures rows in a session, within a plan, and returns
        `Learned`.
    sample : callable
        ``sample(fitted, n, rng, keep_missing)`` draws codes of every modelled attribute.
    model, tables : type or annotation
        Types of the released model and of the released tables. Files with other types raise an
        error.
    parameters : callable
        Raises ParameterError for parameters that are not valid. May return parameters in the form
        in which files hold them. By default every value is valid.
    plan : callable
        Returns the parts of the budget after the parts that all families have. The budget is
        divided in their order. Raises ParameterError if public facts show the fit to be impossible.
        Without parts nothing is amplified for the ground truth.
    budget : callable
        Returns the filter of all measurements.
    trainings : callable
        Returns the private trainings that are charged in addition to the budget.
    resample : callable, optional
        ``resample(fitted, rng)`` yields models that vary by the uncertainty of the fitted one.
    finish : callable, optional
        ``finish(parameters)`` returns a ``Finish`` if rows must fit to each other, else None. All
        rows are then drawn together.
    reads : {"counts", "weights", "rows"}
        Queries that a source must be able to answer.
    protects_units : bool
        Whether all measurements are proven for units of several rows, and for weighted rows.
    reads_masks : bool
        Whether ``"observed"`` reads every row, and its mask of missing cells.
    rivals : tuple of str
        Families that may preserve more relations between columns.
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
        """Return the strategy that a word of ``strategies`` means in this family."""
        strategy = strategy_named(missing)
        if self.reads_masks and strategy.name == "observed":
            return replace(strategy, rows="extended", required_sets="none")
        return strategy

    def __post_init__(self) -> None:
        for name in self.strategies:
            strategy_named(name)
