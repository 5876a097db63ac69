"""Simulated rows, and the accuracy of a fit to them: public facts only, so at no cost.

The rehearsed fit is the fit of the synthesizer itself, so a plan cannot differ from it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import NormalDist
from time import perf_counter
from typing import Any, get_args

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from missdp.accounting import (
    Event,
    FilterEvent,
    GaussianEvent,
    MissingCompletelyAtRandom,
    PureEvent,
    RDPEvent,
    ZCDPEvent,
)
from missdp.errors import (
    ParameterError,
    UnprovenError,
    check_bounded_integer,
    check_fraction,
    check_positive,
)
from missdp.estimate.intervals import estimate_quickly
from missdp.evaluate import MCAR, marginal_distance
from missdp.governance.plan import Marginals, Planned, number_of_fits, peak_memory
from missdp.ground_truth import planned_ground_truth
from missdp.progress import Progress
from missdp.schema import AnyAttribute, Numeric, OpenCategorical, Schema
from missdp.schema.differences import Difference
from missdp.schema.layout import STEPS
from missdp.schema.modelled import ModelView
from missdp.schema.numeric import code_dtype
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.noisy_counts import TOO_FEW_ROWS, SmallTableWarning
from missdp.synth.relation_noise import MOSTLY_NOISE
from missdp.synth.relations import noise_of_relations
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.table.follow import apply_rules, computed_columns
from missdp.table.units import unit_sums
from missdp.types import Floats

_CORRELATION = 0.3  # correlation of any two attributes of simulated rows
_MAX_RANK, _GRID = 6.0, 6001  # largest normal rank and grid size to invert distributions
_SMALLEST = 1e-9  # smallest weight or width
_MAX_ROWS = 1_000_000  # simulated rows; more rows only need more time
_ROWS_SEED, _NOISE_SEED = 1, 2  # different seeds of simulated rows and of their noise
# Power of the noise by which distances of two-way tables grow. Fits with 3,000 and 30,000 rows gave
# powers from .43 to .80.
_DISTANCE_POWER = 0.6
_MAX_COMPARED = (
    100  # columns of simulated rows and synthetic rows whose two-way tables are compared
)
# Draws of tables for the error of a mean. Fewer draws are made if values are missing in more than
# _FEW_COLUMNS columns, since a draw then takes long.
_DRAWS, _FEW_DRAWS, _FEW_COLUMNS = 100, 20, 8
_WIDTH = 2 * NormalDist().inv_cdf(0.975)  # width of a 95 % interval, in standard errors


def _shares(size: int, marginals: Marginals) -> Floats:
    """Return the assumed shares of ``size`` levels.

    >>> from missdp.governance.rehearsal import _shares
    >>> _shares(2, "zipf").round(2).tolist()
    [0.67, 0.33]
    """
    weights = np.ones(size) if marginals == "uniform" else 1 / np.arange(1.0, size + 1)
    return np.asarray(weights / weights.sum())


def _distribution(
    attribute: AnyAttribute,
    marginals: Marginals,
    spread: float | None = None,
    mean: float | None = None,
) -> Floats:
    """Return the share of each level or bin, by a beta distribution if a spread is declared."""
    if spread is None:
        return _shares(attribute.size, marginals)
    if not isinstance(attribute, Numeric):
        raise ParameterError(f"{attribute.name!r} is not numeric, so it has no standard deviation")
    low, high, *shape = _beta_distribution(attribute, spread, mean)
    step = 0.5 if attribute.integer else 0.0
    lower, upper = attribute.code_ranges
    above = betainc(*shape, (upper + step - low) / (high - low))
    below = betainc(*shape, (lower - step - low) / (high - low))
    weights = np.maximum(above - below, _SMALLEST)
    return np.asarray(weights / weights.sum())


def _beta_distribution(
    attribute: Numeric, spread: float, mean: float | None
) -> tuple[float, float, float, float]:
    """Return ends and parameters of the beta distribution with this mean and deviation.

    By default the mean is in the middle. With distant bounds, the distribution is nearly normal for
    such a mean, and nearly a gamma distribution for a mean near one of the bounds.
    """
    half = 0.5 if attribute.integer else 0.0  # integers are rounded
    low, high = attribute.lower - half, attribute.upper + half
    center = 0.5 if mean is None else (mean - low) / (high - low)
    precision = center * (1 - center) * ((high - low) / spread) ** 2 - 1
    if not 0 < center < 1 or not precision > 0:
        raise ParameterError(
            f"the bounds of {attribute.name!r} do not allow this mean, or this spread around it"
        )
    return low, high, center * precision, (1 - center) * precision


def _values(attribute: Numeric, spread: float, mean: float | None, latent: Floats) -> CodedColumn:
    """Return numbers of this mean and deviation, in the order of the normal numbers ``latent``."""
    low, high, *shape = _beta_distribution(attribute, spread, mean)
    ranks = np.linspace(-_MAX_RANK, _MAX_RANK, _GRID)  # inverting takes long
    numbers = np.interp(latent, ranks, low + (high - low) * betaincinv(*shape, ndtr(ranks)))
    numbers = np.rint(numbers) if attribute.integer else numbers
    codes = attribute.encode_values(np.clip(numbers, attribute.lower, attribute.upper))
    step = 0.5 if attribute.integer else 0.0
    lower, upper = (end[codes] for end in attribute.code_ranges)
    places = (numbers - lower + step) / np.maximum(upper - lower + 2 * step, _SMALLEST)
    values = attribute.decode(codes, np.clip(places, 0.0, 1 - _SMALLEST))
    return CodedColumn(codes.astype(code_dtype(attribute)), values)


def _latent(shared: Floats, rng: np.random.Generator) -> Floats:
    """Draw normal numbers that are correlated with a shared number of each row."""
    independent = rng.normal(size=len(shared))
    share = math.sqrt(_CORRELATION) * shared
    return np.asarray(share + math.sqrt(1 - _CORRELATION) * independent)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Declared facts about a table that is not read.

    Parameters
    ----------
    schema : Schema
        Public facts about the columns.
    rows : int
        Number of rows.
    missing : mapping of str to float
        Share of missing cells by attribute, by default 0.
    spreads : mapping of str to float
        Standard deviation by number. Other numbers have the kind of marginals.
    means : mapping of str to float
        Mean by number with a spread, by default the middle of the bounds.
    marginals : {"uniform", "zipf"}
        Kind of marginals.
    mean_weight : float or None
        Mean of the weights of rows.
    """

    schema: Schema
    rows: int
    missing: Mapping[str, float] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    marginals: Marginals = "uniform"
    mean_weight: float | None = None

    @property
    def counted(self) -> float:
        """Mean weight of a row, as a share of the largest weight."""
        if self.mean_weight is None or self.schema.weight is None:
            return 1.0
        return self.mean_weight / self.schema.weight.upper

    def __post_init__(self) -> None:
        check_bounded_integer("rows", self.rows)
        for attribute in self.schema:
            if isinstance(attribute, OpenCategorical):
                raise ParameterError(f"the levels of {attribute.name!r} are open: declare some")
        self._check_mean_weight()
        if self.marginals not in get_args(Marginals):
            raise ParameterError(f"marginals must be one of {', '.join(get_args(Marginals))}")
        for name in (*self.missing, *self.spreads, *self.means):
            if name not in self.schema.names:
                raise ParameterError(f"the schema has no attribute {name!r}")
        for name, rate in self.missing.items():
            if not 0 <= check_fraction("a missing rate", rate) < 1:
                raise ParameterError("a missing rate must be below 1")
            if name not in self.schema.input_columns:
                raise ParameterError(
                    f"{name!r} is computed from two dates: declare the missing rates of these"
                )
            if rate and not self.schema[name].nullable:
                raise ParameterError(f"the schema says that {name!r} is never missing")
        self._check_numbers()

    def _check_mean_weight(self) -> None:
        """Raise unless a mean weight is declared exactly where the schema has a weight."""
        weight, declared = self.schema.weight, self.mean_weight
        if weight is None and declared is not None:
            raise ParameterError("mean_weight is for a schema that declares a weight")
        if weight is not None and declared is None:
            raise ParameterError(
                "mean_weight is needed: the schema declares a weight, and the noise of an estimate "
                f"depends on the mean of the weights. Declare a mean of at most {weight.upper:g}, "
                "from the documentation of the survey and not from the rows"
            )
        if weight is not None and declared is not None and not 0 < declared <= weight.upper:
            raise ParameterError(
                f"mean_weight must be above 0 and at most {weight.upper:g}, the largest weight "
                "that counts (upper in [weight] of the schema)"
            )

    def _check_numbers(self) -> None:
        for name, spread in self.spreads.items():
            check_positive("a spread", spread)
            self._distribution(name, self.marginals)
        for name in self.means:
            if name not in self.spreads:
                raise ParameterError(f"declare the spread of {name!r} in addition to its mean")

    def distributions(self, marginals: Marginals) -> dict[str, Floats]:
        """Return the share of each level or bin of each attribute."""
        return {name: self._distribution(name, marginals) for name in self.schema.names}

    def _distribution(self, name: str, marginals: Marginals) -> Floats:
        return _distribution(self.schema[name], marginals, *self._spread_and_mean(name))

    def _spread_and_mean(self, name: str) -> tuple[float | None, float | None]:
        """Return the declared spread and mean of a number, in the units of its codes."""
        attribute = self.schema[name]
        # The schema declares the unit of a difference of dates. Its codes count steps of dates.
        size = attribute.size_of_unit if isinstance(attribute, Difference) else 1.0
        declared = self.spreads.get(name), self.means.get(name)
        spread, mean = (None if number is None else number * size for number in declared)
        return spread, mean

    def simulate(self, seed: int) -> Table:
        """Return rows of correlated attributes, with cells missing completely at random.

        Any two attributes follow normal numbers of one correlation. A synthesizer could learn no
        relation of independent attributes. Rules are applied to each row, as in reading.
        """
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=self.rows)
        latent = {name: _latent(shared, rng) for name in self.schema.names}
        edges = {
            name: ndtri(np.minimum(shares.cumsum()[:-1], 1.0))
            for name, shares in self.distributions(self.marginals).items()
        }
        codes = {name: np.searchsorted(edges[name], latent[name]) for name in edges}
        table = Table.from_codes(self.schema, codes).with_values(rng)
        columns = {name: table.column(name) for name in self.schema.names}
        for name in self.spreads:
            attribute, (spread, mean) = self.schema[name], self._spread_and_mean(name)
            assert isinstance(attribute, Numeric)
            assert spread is not None
            columns[name] = _values(attribute, spread, mean, latent[name])
        columns = with_dates(self.schema, columns, rng)
        ruled = Table(self.schema, apply_rules(self.schema, columns), kind=table.kind)
        masked = MCAR(rate=self.missing).apply(ruled, random_state=rng) if self.missing else ruled
        columns = {name: masked.column(name) for name in self.schema.names}
        columns |= computed_columns(self.schema, columns)  # a difference is missing if a date is
        simulated = Table(self.schema, columns, kind=masked.kind)
        if self.schema.without_unit is not self.schema:
            # Each simulated row is a unit of the mean weight.
            bound = 1 if self.schema.unit is None else self.schema.unit.bound
            size, weight = len(simulated), int(self.counted * STEPS)
            weights = np.full(size, weight) if self.schema.is_weighted else None
            simulated._read_as, simulated._weights = self.schema, weights
            simulated._sums = unit_sums(np.arange(size), weights, bound)
        return simulated

    def swamped(self, noise: float, marginals: Marginals) -> float:
        """Return the share of cells of two-way tables with fewer rows than twice the noise.

        Attributes are independent, and only rows with both attributes observed count.
        """
        modelled = ModelView(self.schema).schema.names
        shares = {n: x for n, x in self.distributions(marginals).items() if n in modelled}
        observed = {name: self._observed(name) for name in shares}
        counts = [
            self.counted * self.rows * observed[a] * observed[b] * np.outer(x, y).ravel()
            for (a, x), (b, y) in combinations(shares.items(), 2)
        ]
        if not counts or math.isnan(noise):
            return math.nan
        return float((np.concatenate(counts) < 2 * noise).mean())

    def _observed(self, name: str) -> float:
        """Return the observed share of an attribute, or of both dates of a difference."""
        attribute = self.schema[name]
        stored = attribute.dates if isinstance(attribute, Difference) else (name,)
        return math.prod(1 - self.missing.get(column, 0.0) for column in stored)

    def true_epsilon(self, model: Synthesizer) -> float | None:
        """Return epsilon for the ground truth, if cells are missing at random at these rates.

        The model may be fitted, or only planned.
        """
        if not self.missing:
            return None
        observed = MCAR(rate=self.missing).max_observation_rates(self.schema)
        try:
            stated = MissingCompletelyAtRandom(observed=observed)
            if hasattr(model, "guarantee_"):
                return model.ground_truth_guarantee(stated).epsilon
            return planned_ground_truth(model, self.schema, stated).epsilon
        except UnprovenError:
            return None


def with_dates(
    schema: Schema, columns: dict[str, CodedColumn], rng: np.random.Generator
) -> dict[str, CodedColumn]:
    """Return simulated columns in which every date lies its difference from the other date.

    A row whose computed date leaves its bounds becomes a copy of a row that fits.

    Parameters
    ----------
    schema : Schema
        Schema with differences of dates.
    columns : dict of str to Column
        Simulated columns. They are not changed.
    rng : numpy.random.Generator
        Generator that chooses the copied rows.

    Returns
    -------
    dict of str to Column
        The same columns, if the schema has no differences of dates.

    Raises
    ------
    ParameterError
        If no row has all of its dates within their bounds.
    """
    result, differences = dict(columns), [a for a in schema if isinstance(a, Difference)]
    if not differences:
        return result
    fits = np.ones(len(next(iter(columns.values())).codes), dtype=bool)
    places = {name: place for place, name in enumerate(schema.rule_set.order)}
    for difference in sorted(differences, key=lambda a: places[a.target]):
        base, between = result[difference.base].values, result[difference.name].values
        assert base is not None
        assert between is not None
        target = schema[difference.target]
        assert isinstance(target, Numeric)
        values = base + between if difference.target == difference.later else base - between
        fits &= (values >= target.lower) & (values <= target.upper)
        values = np.clip(values, target.lower, target.upper)
        codes = target.encode_values(values).astype(code_dtype(target))
        result[difference.target] = CodedColumn(codes, values)
    if not fits.any():
        names = ", ".join(repr(a.name) for a in differences)
        raise ParameterError(
            f"no simulated row has dates within their bounds. Check the bounds of {names} and of "
            "their dates."
        )
    invalid = np.flatnonzero(~fits)
    rows = np.arange(len(fits))
    rows[invalid] = rng.choice(np.flatnonzero(fits), size=invalid.size)
    return {
        name: CodedColumn(c.codes[rows], None if c.values is None else c.values[rows])
        for name, c in result.items()
    }


def _fit(model: Synthesizer, table: Table) -> Synthesizer:
    """Fit a model to simulated rows, without its warnings about noise, which the plan states."""
    with warnings.catch_warnings():
        for message in (MOSTLY_NOISE, TOO_FEW_ROWS):
            warnings.filterwarnings("ignore", message, SmallTableWarning)
        return model.fit(table)


def rehearse(model: Synthesizer, table: Table) -> tuple[float, Any]:
    """Fit a model and draw as many rows. Return the seconds of both, and the rows."""
    started = perf_counter()
    drawn = _fit(model, table).sample(len(table))
    return perf_counter() - started, drawn


def fitted_error(table: Table, drawn: Any) -> float:
    """Return the mean distance of two-way tables, as `missdp evaluate` prints it.

    It is the mean over the pairs of a hundred columns if there are more, which no row decides.
    """
    schema = table.schema.without_unit
    if len(schema) < 2:
        return math.nan
    rng, size = np.random.default_rng(_ROWS_SEED), min(len(schema), _MAX_COMPARED)
    names = rng.choice(schema.names, size=size, replace=False)
    return marginal_distance(table, drawn, k=2, schema=schema, attributes=names.tolist()).mean


def noise_of_tables(model: Synthesizer) -> tuple[float, float]:
    """Return the standard deviation of the noise of a count of a one-way and a two-way table.

    It is the median over tables, or NaN if the synthesizer measures no such tables.
    """
    if not isinstance(model, AIM | MST | AllPairs):
        return math.nan, math.nan
    released = model.tables_
    if isinstance(released, PairRelease):
        variances = released.initial_tables().variances.values()
        pairs = [math.sqrt(v.mean()) * released.rows for v in variances]
        return released.marginals.std, float(np.median(pairs or [math.nan]))
    return released.std, float(np.median([*released.stds.values()] or [math.nan]))


def _errors_of_means(model: Synthesizer, names: Sequence[str]) -> Floats:
    """Return the standard errors of means: from noise, and from sampling and missing values."""
    if not names or not isinstance(model, AIM | MST | AllPairs):
        return np.full((2, len(names)), math.nan)
    is_slow = len(model.modelled_) > _FEW_COLUMNS and any(x.nullable for x in model.modelled_)
    questions = [f"mean(`{name}`)" for name in names]
    means = estimate_quickly(model, questions, draws=_FEW_DRAWS if is_slow else _DRAWS)
    errors = [(mean.noise[0], math.hypot(mean.sampling[0], mean.missing[0])) for mean in means]
    return np.array(errors).T


@dataclass(frozen=True)
class _Rehearsed:
    """The results of rehearsed fits with one epsilon: public, since rows are simulated."""

    noise: float  # noise of the epsilon, in a fixed unit
    tables: Floats  # noise of one-way and two-way counts, and the smallest clear Cramér's V
    fitted: float
    errors: Floats  # errors of each mean: from noise, and from all other sources
    seconds: float

    def at_noise(self, noise: float) -> _Rehearsed:
        """Return the results extrapolated to another noise."""
        factor = noise / self.noise
        fitted = min(1.0, factor**_DISTANCE_POWER * self.fitted)
        errors = self.errors * [[factor], [1.0]]
        return replace(self, noise=noise, tables=factor * self.tables, fitted=fitted, errors=errors)

    def interpolate(self, other: _Rehearsed, share: float) -> _Rehearsed:
        """Return the weighted geometric mean of the results of two fits of equal noise."""

        def mean(name: str) -> Any:
            first, second = (np.asarray(getattr(fits, name)) for fits in (self, other))
            mixed = np.abs(first) ** (1 - share) * np.abs(second) ** share
            return np.where((first <= 0) | (second <= 0), first, mixed)[()]

        return replace(self, **{n: mean(n) for n in ("tables", "fitted", "errors", "seconds")})


class Rehearsal:
    """Fits of one synthesizer to simulated rows, for a grid of epsilons.

    Parameters
    ----------
    family : callable
        Function that makes a synthesizer from ``epsilon``, ``random_state`` and ``progress``.
    declared : Declared
        Declared facts about the table.
    means : list of str
        Numbers whose means are planned.
    progress : callable or None
        Function that gets the present stage and the share that is done.

    Attributes
    ----------
    rows : int
        Number of simulated rows, at most a million.
    memory : float or None
        Largest memory of the process after the first fit, in megabytes.
    """

    def __init__(
        self,
        family: Callable[..., Synthesizer],
        declared: Declared,
        means: list[str],
        progress: Progress | None,
    ) -> None:
        self._family, self._declared, self._means = family, declared, means
        self._progress = progress
        self.rows = min(declared.rows, _MAX_ROWS)
        self.memory: float | None = None

    def planned(self, grid: Sequence[float]) -> tuple[Planned, ...]:
        """Return the accuracy of each epsilon. With many columns, some follow from others."""
        ordered = sorted({*grid})
        rehearsed, fits = number_of_fits(len(ModelView(self._declared.schema).schema), len(ordered))
        chosen = [ordered[place] for place in _spread_places(len(ordered), rehearsed)]
        plans = {e: self._family(epsilon=e, random_state=_NOISE_SEED) for e in ordered}
        noise = {e: self._noise(model) for e, model in plans.items()}  # raises errors early
        table = replace(self._declared, rows=self.rows).simulate(_ROWS_SEED)
        results = {}
        for place, epsilon in enumerate(chosen):
            share = 1 / (len(chosen) * fits)
            starts = (share * (place * fits + fit) for fit in range(fits))
            models = [self._to_fit(epsilon, k, start, share) for k, start in enumerate(starts)]
            results[epsilon] = self._rehearsed(models, noise[epsilon], table)
        return tuple(
            self._planned(plans[e], _interpolated(e, noise[e], results), rehearsed=e in chosen)
            for e in grid
        )

    def _noise(self, model: Synthesizer) -> float:
        event, *_ = model.planned_parts(self._declared.schema)[0].events
        return _cap_noise(event.capacity if isinstance(event, FilterEvent) else event)

    def _to_fit(self, epsilon: float, fit: int, start: float, share: float) -> Synthesizer:
        """Return a model whose fit is a part of the progress of the plan."""

        def shown(_: str, done: float | None) -> None:
            if self._progress is not None:
                self._progress(f"rehearsing epsilon {epsilon:g}", start + share * (done or 0.0))

        return self._family(epsilon=epsilon, random_state=_NOISE_SEED + fit, progress=shown)

    def _rehearsed(self, models: list[Synthesizer], noise: float, table: Table) -> _Rehearsed:
        seconds, drawn = rehearse(models[0], table)
        self.memory = self.memory or peak_memory()  # before distances and estimates
        for model in models[1:]:
            _fit(model, table)
        errors = [_errors_of_means(model, self._means) for model in models]
        tables = np.array([*noise_of_tables(models[0]), noise_of_relations(models[0]).clear])
        fitted = fitted_error(table, drawn)
        return _Rehearsed(noise, tables, fitted, np.mean(errors, axis=0), seconds)

    def _planned(self, model: Synthesizer, result: _Rehearsed, *, rehearsed: bool) -> Planned:
        declared = self._declared
        one_way, two_way, clear = result.tables.tolist()
        widths = zip(self._means, (_WIDTH * np.hypot(*result.errors)).tolist(), strict=True)
        return Planned(
            epsilon=float(model.epsilon),
            delta=model.planned_parts(declared.schema)[0].delta,
            one_way=one_way,
            two_way=two_way,
            fitted=float(result.fitted),
            clear=clear,
            swamped={m: declared.swamped(two_way, m) for m in get_args(Marginals)},
            widths={name: width for name, width in widths if not math.isnan(width)},
            ground_truth=declared.true_epsilon(model),
            seconds=float(result.seconds),
            rehearsed=rehearsed,
        )


def _spread_places(size: int, chosen: int) -> list[int]:
    """Return distant places of a sorted grid: the middle, both ends, or more places.

    >>> from missdp.governance.rehearsal import _spread_places
    >>> [_spread_places(size, chosen) for size, chosen in [(3, 1), (3, 2), (5, 3), (2, 1)]]
    [[1], [0, 2], [0, 2, 4], [1]]
    """
    if chosen == 1:
        return [size // 2]
    return [round(place * (size - 1) / (chosen - 1)) for place in range(chosen)]


def _interpolated(epsilon: float, noise: float, results: Mapping[float, _Rehearsed]) -> _Rehearsed:
    """Return the results of an epsilon, from the fits with the nearest epsilons."""
    below = max((e for e in results if e <= epsilon), default=None)
    above = min((e for e in results if e >= epsilon), default=None)
    if below is None or above is None or below == above:
        (nearest,) = {e for e in (below, above) if e is not None}
        return results[nearest].at_noise(noise)
    share = math.log(epsilon / below) / math.log(above / below)
    return results[below].at_noise(noise).interpolate(results[above].at_noise(noise), share)


def _cap_noise(event: Event) -> float:
    """Return the noise of a cap, in a unit that depends on its kind only."""
    if isinstance(event, GaussianEvent):
        return event.sigma / event.sensitivity
    if isinstance(event, ZCDPEvent):
        return 1 / math.sqrt(event.rho)
    if isinstance(event, RDPEvent):
        return 1 / math.sqrt(event.epsilons[0])
    if isinstance(event, PureEvent):
        return 1 / event.epsilon
    return 1.0
