"""What a family of synthesizers declares, and what it is given and returns: plain data.

A family is one `Family`, a record of functions. `Request` is what they are given: parameters and
public facts. `Learned` is what a fit returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

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

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer
    from missdp.synth.fitted import Fitted

P = TypeVar("P", bound="Synthesizer")

_FAILURE = Fraction(1, 10)  # of the delta of a fit, for all attributes with open levels

Codes: TypeAlias = dict[str, NDArray[np.int64]]
"""Codes of rows, by the names of modelled attributes; a missing cell has the code ``size``."""


Finish: TypeAlias = Callable[
    ["Fitted", Any, Callable[[int, np.random.Generator], Any], np.random.Generator], Any
]
"""Makes synthetic rows fit to each other, after each was drawn by itself.

``finish(fitted, table, draw, rng)`` returns the table with some of its rows changed. ``draw`` draws
further rows.
"""


@dataclass(frozen=True, eq=False)
class Request(Generic[P]):
    """A fit that is requested: parameters and public facts, and nothing private.

    Parameters
    ----------
    parameters : Synthesizer
        A synthesizer, of which a family reads parameters only.
    declared : Schema, optional
        The declared schema, with its unit, its weight and its open levels.
    counted : Schema, optional
        Of the rows that are counted. Numeric attributes without bins are marked until bins are
        found. It is known once the data are opened.
    progress : callable, optional
        Called with the name of a stage and the share of the work that is done.
    """

    parameters: P
    declared: Schema | None = None
    counted: Schema | None = None
    progress: Progress | None = None

    @property
    def family(self) -> Family:
        """The family whose parameters they are."""
        return self.parameters.family

    @property
    def opened(self) -> tuple[str, ...]:
        """Names of the attributes whose levels are to be found."""
        declared = self.declared
        return () if declared is None else tuple(a.name for a in open_attributes(declared))

    @property
    def unit(self) -> Unit | None:
        """The declared unit. None: each row is protected."""
        return None if self.declared is None else self.declared.unit

    @property
    def weight(self) -> SurveyWeight | None:
        """The declared weight of rows. None: each row counts as one."""
        return None if self.declared is None else self.declared.weight

    @property
    def schema(self) -> Schema:
        """The schema of the rows that are counted."""
        assert self.counted is not None
        return self.counted

    @cached_property
    def modelled(self) -> ModelView:
        """The attributes that are modelled, and which values rules make impossible."""
        return ModelView(self.schema)

    @property
    def public(self) -> Schema:
        """The modelled attributes, as far as they were public before bins were found."""
        return ModelView(before_fit(self.schema)).schema

    @property
    def strategy(self) -> Strategy:
        """The strategy for missing values."""
        return self.family.strategy(self.parameters.missing)

    @property
    def delta(self) -> float:
        """The delta of the fit: the requested one, or the default."""
        return chosen_delta(self.parameters.delta, self.parameters.n_rows)

    @property
    def delta_to_spend(self) -> float:
        """The delta at which the budget is converted: finding open levels takes the rest."""
        return float_down(exact(self.delta) - sum(exact(event.delta) for event in self.failures))

    @property
    def failures(self) -> tuple[ApproximateEvent, ...]:
        """What open levels are charged by, beside all else: a rare one may be released."""
        if not self.opened:
            return ()
        chance = float_down(exact(self.delta) * _FAILURE)
        return (ApproximateEvent(epsilon=0.0, delta=chance, label="rare levels"),)

    @property
    def budget(self) -> Filter:
        """The budget of the measurements as facts about one row, unspent."""
        total = self.family.budget(self)
        if self.unit is None:
            return total
        return total._for_units(self.unit.column, self.unit.max_rows, counts_as=self.unit.counts_as)

    @property
    def trainings(self) -> tuple[SampledGaussianEvent, ...]:
        """The trainings that a fit is charged with beside its budget."""
        return self.family.trainings(self)

    def plan(self) -> BudgetPlan:
        """Return all parts of the budget; refuse what public facts show to be impossible.

        Nothing is amplified beside levels that a fit finds, as what is counted follows from them
        and not from public facts. Nor is anything of units, or of rows that count by weights.
        """
        plain = not (self.opened or self.unit or self.weight)
        parts = self.family.plan(self)
        return BudgetPlan(self.budget.left, (*first_parts(self), *parts), amplified=plain)

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
        """Report the share of the work that is done."""
        if callable(self.progress):
            self.progress(stage, done)

    def on_rows(self, schema: Schema, rebinnable: Iterable[str]) -> Request[P]:
        """Return the request for rows of a schema, with pending bins where a fit finds them.

        Parameters
        ----------
        schema : Schema
            Of the rows that are counted. Public.
        rebinnable : iterable of str
            Attributes whose values a source can put into other bins.

        Returns
        -------
        Request
        """
        private = self.parameters.cuts == "private"
        return self.with_schema(with_pending_bins(schema, rebinnable) if private else schema)

    def with_schema(self, schema: Schema) -> Request[P]:
        """Return the request for rows of another schema, in which levels or bins were found."""
        return self if schema == self.counted else replace(self, counted=schema)


@dataclass(frozen=True, eq=False)
class Learned:
    """What a family returns from a fit: released values.

    Parameters
    ----------
    model : object
        What rows are drawn from: numbers, text, arrays, records, and mappings of them.
    total : Total
        The number of rows, as far as it was released.
    tables : Record, optional
        What the model was fitted to, for estimates.
    measured : tuple of tuple of str, default ()
        The marginals that were selected.
    complete : Total, optional
        The number of complete rows, if they alone were learned from.
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
    """Return a filter in the privacy measure that is best for counts: pure if delta is 0."""
    epsilon = request.parameters.epsilon
    measure = Cost.for_counts(float(epsilon), request.delta).privacy_measure
    return Filter(epsilon, request.delta_to_spend, measure=measure)


def gaussian_budget(request: Request[Any]) -> Filter:
    """Return a filter in Gaussian DP."""
    return Filter(request.parameters.epsilon, request.delta_to_spend, measure="gdp")


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family of synthesizers declares: names, and plain functions.

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
        What the released model is, and what is kept beside it; a file with anything else is
        refused.
    parameters : callable
        Refuses parameters that are not valid. May return those that are written to files in
        another form than given. By default nothing is refused.
    plan : callable
        Returns the parts of the budget after those that all families have, in the order in which
        the budget is divided. Raises ParameterError for what public facts show to be impossible.
        Without parts nothing is amplified for the ground truth.
    budget : callable
        Returns the filter of all measurements.
    trainings : callable
        Returns the private trainings that are charged beside the budget.
    resample : callable, optional
        ``resample(fitted, rng)`` yields models that vary as the fitted one is uncertain.
    finish : callable, optional
        ``finish(parameters)`` returns a ``Finish`` if rows must fit to each other, else None. All
        rows are then drawn together.
    reads : {"counts", "weights", "rows"}
        What a source must be able to answer.
    protects_units : bool
        Whether all that it measures is proven for units of several rows, and for weighted rows.
    reads_masks : bool
        Whether ``"observed"`` reads every row, and which cells are missing.
    rivals : tuple of str
        Families that bring out more relations, if this one brings out few.
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
        """Return the strategy that a word of ``strategies`` stands for in this family."""
        strategy = strategy_named(missing)
        if self.reads_masks and strategy.name == "observed":
            return replace(strategy, rows="extended", required_sets="none")
        return strategy

    def __post_init__(self) -> None:
        for name in self.strategies:
            strategy_named(name)
