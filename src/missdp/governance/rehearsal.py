"""Made-up rows, and what a family's fit to them shows: public facts only, so at no cost.

The fit that is rehearsed is the family's own, so that a plan cannot drift from what it does.
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
from missdp.governance.plan import Marginals, Planned, fits_of, peak_memory
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

_RELATED = 0.3  # correlation of any two attributes of made-up rows
_FURTHEST, _GRID = 6.0, 6001  # normal ranks at which distributions are inverted
_SMALLEST = 1e-9
_MOST_ROWS = 1_000_000  # that are made up: more would only take longer
_ROWS_SEED, _NOISE_SEED = 1, 2  # made-up rows and their noise tell nothing; apart, so not alike
# How fast distances of two-way tables grow with the noise: .43 to .80 with 3,000 and 30,000 rows.
_DISTANCE_POWER = 0.6
# Draws of tables by which the error of a mean is planned. A draw takes long if values are missing.
_DRAWS, _FEW_DRAWS, _FEW_COLUMNS = 100, 20, 8
_WIDTH = 2 * NormalDist().inv_cdf(0.975)  # of a 95 % interval, in standard errors


def _shares(size: int, margins: Marginals) -> Floats:
    """Return how often each of so many levels is taken to occur.

    >>> _shares(2, "zipf").round(2).tolist()
    [0.67, 0.33]
    """
    weights = np.ones(size) if margins == "uniform" else 1 / np.arange(1.0, size + 1)
    return np.asarray(weights / weights.sum())


def _law_of(
    attribute: AnyAttribute,
    margins: Marginals,
    spread: float | None = None,
    mean: float | None = None,
) -> Floats:
    """Return the share of each level or bin; of a beta distribution, if a spread is declared."""
    if spread is None:
        return _shares(attribute.size, margins)
    if not isinstance(attribute, Numeric):
        raise ParameterError(f"{attribute.name!r} is not numeric, so it has no standard deviation")
    low, high, *shape = _fitting(attribute, spread, mean)
    step = 0.5 if attribute.integer else 0.0
    least, greatest = attribute.code_ranges
    above = betainc(*shape, (greatest + step - low) / (high - low))
    below = betainc(*shape, (least - step - low) / (high - low))
    weights = np.maximum(above - below, _SMALLEST)
    return np.asarray(weights / weights.sum())


def _fitting(
    attribute: Numeric, spread: float, mean: float | None
) -> tuple[float, float, float, float]:
    """Return ends and parameters of the beta distribution with this mean and deviation.

    By default the mean is in the middle. Of far bounds it is nearly normal there, and nearly a
    gamma distribution where the mean is near one of them: both have the tail that people know.
    """
    half = 0.5 if attribute.integer else 0.0  # whole numbers are rounded
    low, high = attribute.lower - half, attribute.upper + half
    at = 0.5 if mean is None else (mean - low) / (high - low)
    sharp = at * (1 - at) * ((high - low) / spread) ** 2 - 1
    if not 0 < at < 1 or not sharp > 0:
        raise ParameterError(
            f"the bounds of {attribute.name!r} allow no such mean, or no such spread around it"
        )
    return low, high, at * sharp, (1 - at) * sharp


def _values(attribute: Numeric, spread: float, mean: float | None, latent: Floats) -> CodedColumn:
    """Return numbers of this mean and deviation, in the order of normal ones."""
    low, high, *shape = _fitting(attribute, spread, mean)
    ranks = np.linspace(-_FURTHEST, _FURTHEST, _GRID)  # inverting takes long
    found = np.interp(latent, ranks, low + (high - low) * betaincinv(*shape, ndtr(ranks)))
    found = np.rint(found) if attribute.integer else found
    codes = attribute.encode_values(np.clip(found, attribute.lower, attribute.upper))
    step = 0.5 if attribute.integer else 0.0
    least, greatest = (end[codes] for end in attribute.code_ranges)
    places = (found - least + step) / np.maximum(greatest - least + 2 * step, _SMALLEST)
    values = attribute.decode(codes, np.clip(places, 0.0, 1 - _SMALLEST))
    return CodedColumn(codes.astype(code_dtype(attribute)), values)


def _latent(shared: Floats, rng: np.random.Generator) -> Floats:
    """Draw normal numbers that lean on what each row shares."""
    own = rng.normal(size=len(shared))
    return np.asarray(math.sqrt(_RELATED) * shared + math.sqrt(1 - _RELATED) * own)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a person declares of a table that nobody looks at.

    Parameters
    ----------
    schema : Schema
    rows : int
    missing : mapping of str to float
        Share of missing cells by attribute; 0 for others.
    spreads : mapping of str to float
        Standard deviation by number; others have the margins.
    means : mapping of str to float
        Mean by number with a spread; by default it is in the middle of the bounds.
    margins : {"uniform", "zipf"}
    mean_weight : float or None
    """

    schema: Schema
    rows: int
    missing: Mapping[str, float] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    margins: Marginals = "uniform"
    mean_weight: float | None = None

    @property
    def counted(self) -> float:
        """How much of the largest weight a row counts on average."""
        if self.mean_weight is None or self.schema.weight is None:
            return 1.0
        return self.mean_weight / self.schema.weight.upper

    def __post_init__(self) -> None:
        check_bounded_integer("rows", self.rows)
        for attribute in self.schema:
            if isinstance(attribute, OpenCategorical):
                raise ParameterError(f"the levels of {attribute.name!r} are open: declare some")
        self._check_mean_weight()
        if self.margins not in get_args(Marginals):
            raise ParameterError(f"margins must be one of {', '.join(get_args(Marginals))}")
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
            self._law(name, self.margins)
        for name in self.means:
            if name not in self.spreads:
                raise ParameterError(f"declare the spread of {name!r} as well: a mean is no law")

    def laws(self, margins: Marginals) -> dict[str, Floats]:
        """Return the share of each level or bin of each attribute."""
        return {name: self._law(name, margins) for name in self.schema.names}

    def _law(self, name: str, margins: Marginals) -> Floats:
        return _law_of(self.schema[name], margins, *self._spread_and_mean(name))

    def _spread_and_mean(self, name: str) -> tuple[float | None, float | None]:
        """Return what is declared of a number, in the units in which the schema counts it."""
        attribute = self.schema[name]
        # A difference of dates has the unit that the schema names; its codes count steps of dates.
        size = attribute.size_of_unit if isinstance(attribute, Difference) else 1.0
        declared = self.spreads.get(name), self.means.get(name)
        spread, mean = (None if number is None else number * size for number in declared)
        return spread, mean

    def made_up(self, seed: int) -> Table:
        """Return rows of related attributes, with cells missing completely at random.

        Any two attributes are related as normal numbers of one correlation are: of independent
        ones a family would need to learn nothing. Rules are applied to each row, as they are to
        rows that are read.
        """
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=self.rows)
        latent = {name: _latent(shared, rng) for name in self.schema.names}
        edges = {
            name: ndtri(np.minimum(law.cumsum()[:-1], 1.0))
            for name, law in self.laws(self.margins).items()
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
        holed = MCAR(rate=self.missing).apply(ruled, random_state=rng) if self.missing else ruled
        columns = {name: holed.column(name) for name in self.schema.names}
        columns |= computed_columns(self.schema, columns)  # a difference is missing where a date is
        made = Table(self.schema, columns, kind=holed.kind)
        if self.schema.without_unit is not self.schema:
            # Nobody's rows: each is a unit, of the same weight.
            bound = 1 if self.schema.unit is None else self.schema.unit.bound
            weights = (
                np.full(len(made), int(self.counted * STEPS)) if self.schema.is_weighted else None
            )
            made._read_as, made._weights = self.schema, weights
            made._sums = unit_sums(np.arange(len(made)), weights, bound)
        return made

    def swamped(self, noise: float, margins: Marginals) -> float:
        """Return the share of cells of two-way tables with fewer rows than twice the noise.

        Of independent attributes, and rows in which both are observed.
        """
        modelled = ModelView(self.schema).schema.names
        laws = {name: law for name, law in self.laws(margins).items() if name in modelled}
        seen = {name: self._observed(name) for name in laws}
        counts = [
            self.counted * self.rows * seen[a] * seen[b] * np.outer(laws[a], laws[b]).ravel()
            for a, b in combinations(laws, 2)
        ]
        if not counts or math.isnan(noise):
            return math.nan
        return float((np.concatenate(counts) < 2 * noise).mean())

    def _observed(self, name: str) -> float:
        """Return how often an attribute is observed: a difference, where both its dates are."""
        attribute = self.schema[name]
        of = attribute.dates if isinstance(attribute, Difference) else (name,)
        return math.prod(1 - self.missing.get(one, 0.0) for one in of)

    def true_epsilon(self, model: Synthesizer) -> float | None:
        """Return epsilon for the ground truth, if cells go missing at random at these rates.

        Of a model that is fitted, and of one that is only planned.
        """
        if not self.missing:
            return None
        observed = MCAR(rate=self.missing).observed(self.schema)
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
    """Return made-up columns in which every date lies its difference from the other date.

    A row whose computed date leaves its bounds becomes a copy of a row that fits.

    Parameters
    ----------
    schema : Schema
        Declares the differences of dates.
    columns : dict of str to Column
        Made-up columns. They are not changed.
    rng : numpy.random.Generator
        Chooses the rows that are copied.

    Returns
    -------
    dict of str to Column
        The same columns, if the schema has no differences of dates.

    Raises
    ------
    ParameterError
        If no row has all of its dates within their bounds.
    """
    found, differences = dict(columns), [a for a in schema if isinstance(a, Difference)]
    if not differences:
        return found
    fits = np.ones(len(next(iter(columns.values())).codes), dtype=bool)
    places = {name: place for place, name in enumerate(schema.rule_set.order)}
    for difference in sorted(differences, key=lambda a: places[a.target]):
        base, between = found[difference.base].values, found[difference.name].values
        assert base is not None
        assert between is not None
        target = schema[difference.target]
        assert isinstance(target, Numeric)
        values = base + between if difference.target == difference.later else base - between
        fits &= (values >= target.lower) & (values <= target.upper)
        values = np.clip(values, target.lower, target.upper)
        codes = target.encode_values(values).astype(code_dtype(target))
        found[difference.target] = CodedColumn(codes, values)
    if not fits.any():
        names = ", ".join(repr(a.name) for a in differences)
        raise ParameterError(
            f"no made-up row has dates within their bounds: look at the bounds of {names} and of "
            "their dates"
        )
    lacking = np.flatnonzero(~fits)
    which = np.arange(len(fits))
    which[lacking] = rng.choice(np.flatnonzero(fits), size=lacking.size)
    return {
        name: CodedColumn(c.codes[which], None if c.values is None else c.values[which])
        for name, c in found.items()
    }


def _fit(model: Synthesizer, table: Table) -> Synthesizer:
    """Fit a model to made-up rows, of which no number is released; the plan itself tells noise."""
    with warnings.catch_warnings():
        for said in (MOSTLY_NOISE, TOO_FEW_ROWS):
            warnings.filterwarnings("ignore", said, SmallTableWarning)
        return model.fit(table)


def rehearse(model: Synthesizer, table: Table) -> tuple[float, Any]:
    """Fit a model, draw as many rows, and return how long that took, and the rows."""
    started = perf_counter()
    drawn = _fit(model, table).sample(len(table))
    return perf_counter() - started, drawn


def fitted_error(table: Table, drawn: Any) -> float:
    """Return the mean distance of two-way tables, as `missdp evaluate` prints it."""
    if len(table.schema) < 2:
        return math.nan
    return marginal_distance(table, drawn, k=2, schema=table.schema.without_unit).mean


def noise_of_tables(model: Synthesizer) -> tuple[float, float]:
    """Return the standard deviation of the noise of a count of a one-way and a two-way table.

    The median over tables; NaN where a family measures no such tables, or tells no noise.
    """
    if not isinstance(model, AIM | MST | AllPairs):
        return math.nan, math.nan
    released = model.tables_
    if isinstance(released, PairRelease):
        variances = released.guessed().variances.values()
        pairs = [math.sqrt(v.mean()) * released.rows for v in variances]
        return released.marginals.std, float(np.median(pairs or [math.nan]))
    return released.std, float(np.median([*released.stds.values()] or [math.nan]))


def _errors_of_means(model: Synthesizer, names: Sequence[str]) -> Floats:
    """Return the standard errors of means: by noise, and by sampling and missing values."""
    if not names or not isinstance(model, AIM | MST | AllPairs):
        return np.full((2, len(names)), math.nan)
    is_slow = len(model.modelled_) > _FEW_COLUMNS and any(x.nullable for x in model.modelled_)
    questions = [f"mean(`{name}`)" for name in names]
    means = estimate_quickly(model, questions, draws=_FEW_DRAWS if is_slow else _DRAWS)
    errors = [(mean.noise[0], math.hypot(mean.sampling[0], mean.missing[0])) for mean in means]
    return np.array(errors).T


@dataclass(frozen=True)
class _Rehearsed:
    """The results of rehearsed fits with one epsilon: public, since rows are made up."""

    noise: float  # that the epsilon needs, in some unit
    tables: Floats  # noise of a one-way and of a two-way count; Cramér's V that stands out
    fitted: float
    errors: Floats  # of each mean: by noise, and by all else
    seconds: float

    def at(self, noise: float) -> _Rehearsed:
        """Return the results of fits with so much noise, as far as these tell."""
        by = noise / self.noise
        fitted = min(1.0, by**_DISTANCE_POWER * self.fitted)
        errors = self.errors * [[by], [1.0]]
        return replace(self, noise=noise, tables=by * self.tables, fitted=fitted, errors=errors)

    def between(self, other: _Rehearsed, share: float) -> _Rehearsed:
        """Return the weighted geometric mean of the results of two fits of the same noise."""

        def mean(name: str) -> Any:
            one, two = (np.asarray(getattr(of, name)) for of in (self, other))
            found = np.abs(one) ** (1 - share) * np.abs(two) ** share
            return np.where((one <= 0) | (two <= 0), one, found)[()]

        return replace(self, **{n: mean(n) for n in ("tables", "fitted", "errors", "seconds")})


class Rehearsal:
    """Fits of one family to made-up rows, for a grid of epsilons.

    Parameters
    ----------
    family : callable
        Makes a synthesizer with a given ``epsilon``, ``random_state`` and ``progress``.
    declared : Declared
    means : list of str
        Numbers whose means are planned.
    progress : callable or None

    Attributes
    ----------
    rows : int
        That are made up: not more than a million.
    memory : float or None
        Most megabytes that the process had needed after the first fit.
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
        self.rows = min(declared.rows, _MOST_ROWS)
        self.memory: float | None = None

    def planned(self, grid: Sequence[float]) -> tuple[Planned, ...]:
        """Return what each epsilon buys; with many columns, some follow from others."""
        ordered = sorted({*grid})
        at, fits = fits_of(len(ModelView(self._declared.schema).schema), len(ordered))
        chosen = [ordered[place] for place in _spread(len(ordered), at)]
        plans = {e: self._family(epsilon=e, random_state=_NOISE_SEED) for e in ordered}
        noise = {e: self._noise(model) for e, model in plans.items()}  # refuses early what is wrong
        table = replace(self._declared, rows=self.rows).made_up(_ROWS_SEED)
        found = {}
        for place, epsilon in enumerate(chosen):
            share = 1 / (len(chosen) * fits)
            starts = (share * (place * fits + fit) for fit in range(fits))
            models = [self._to_fit(epsilon, k, start, share) for k, start in enumerate(starts)]
            found[epsilon] = self._rehearsed(models, noise[epsilon], table)
        return tuple(
            self._planned(plans[e], _told(e, noise[e], found), rehearsed=e in chosen) for e in grid
        )

    def _noise(self, model: Synthesizer) -> float:
        whole, *_ = model.planned_parts(self._declared.schema)[0].events
        return _noise_of(whole.capacity if isinstance(whole, FilterEvent) else whole)

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

    def _planned(self, model: Synthesizer, found: _Rehearsed, *, rehearsed: bool) -> Planned:
        declared = self._declared
        one_way, two_way, clear = found.tables.tolist()
        widths = zip(self._means, (_WIDTH * np.hypot(*found.errors)).tolist(), strict=True)
        return Planned(
            epsilon=float(model.epsilon),
            delta=model.planned_parts(declared.schema)[0].delta,
            one_way=one_way,
            two_way=two_way,
            fitted=float(found.fitted),
            clear=clear,
            swamped={m: declared.swamped(two_way, m) for m in get_args(Marginals)},
            widths={name: width for name, width in widths if not math.isnan(width)},
            ground_truth=declared.true_epsilon(model),
            seconds=float(found.seconds),
            rehearsed=rehearsed,
        )


def _spread(size: int, chosen: int) -> list[int]:
    """Return places of a sorted grid, apart from each other: the middle, or both ends, or more.

    >>> _spread(3, 1), _spread(3, 2), _spread(5, 3), _spread(2, 1)
    ([1], [0, 2], [0, 2, 4], [1])
    """
    if chosen == 1:
        return [size // 2]
    return [round(place * (size - 1) / (chosen - 1)) for place in range(chosen)]


def _told(epsilon: float, noise: float, found: Mapping[float, _Rehearsed]) -> _Rehearsed:
    """Return what the fits with the nearest epsilons say of this one."""
    below = max((e for e in found if e <= epsilon), default=None)
    above = min((e for e in found if e >= epsilon), default=None)
    if below is None or above is None or below == above:
        (nearest,) = {e for e in (below, above) if e is not None}
        return found[nearest].at(noise)
    share = math.log(epsilon / below) / math.log(above / below)
    return found[below].at(noise).between(found[above].at(noise), share)


def _noise_of(event: Event) -> float:
    """Return how much noise a cap needs, in a unit that depends on its kind alone."""
    if isinstance(event, GaussianEvent):
        return event.sigma / event.sensitivity
    if isinstance(event, ZCDPEvent):
        return 1 / math.sqrt(event.rho)
    if isinstance(event, RDPEvent):
        return 1 / math.sqrt(event.epsilons[0])
    if isinstance(event, PureEvent):
        return 1 / event.epsilon
    return 1.0
