"""Made-up rows, and what a family's fit to them shows: public facts only, so at no cost.

The fit that is rehearsed is the family's own, so that a plan cannot drift from what it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from statistics import NormalDist
from time import perf_counter
from typing import Any, get_args

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from missdp.accounting import MissingCompletelyAtRandom
from missdp.errors import ParameterError, UnprovenError
from missdp.evaluate import MCAR, marginal_distance
from missdp.office.plan import Margins
from missdp.record import check_fraction, check_positive, check_whole
from missdp.schema import AnyAttribute, Numeric, OpenCategorical, Schema
from missdp.schema.layout import STEPS
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.table import Table
from missdp.table.encode import Column, code_dtype
from missdp.table.follow import follow_rules
from missdp.table.units import unit_sums
from missdp.types import Floats

_RELATED = 0.3  # correlation of any two attributes of made-up rows
_FURTHEST, _GRID = 6.0, 6001  # normal ranks at which distributions are inverted
_SMALLEST = 1e-9


def _shares(size: int, margins: Margins) -> Floats:
    """Return how often each of so many levels is taken to occur.

    >>> _shares(2, "zipf").round(2).tolist()
    [0.67, 0.33]
    """
    weights = np.ones(size) if margins == "uniform" else 1 / np.arange(1.0, size + 1)
    return np.asarray(weights / weights.sum())


def _law_of(
    attribute: AnyAttribute,
    margins: Margins,
    spread: float | None = None,
    mean: float | None = None,
) -> Floats:
    """Return the share of each level or bin; of a beta distribution, if a spread is declared."""
    if spread is None:
        return _shares(attribute.size, margins)
    if not isinstance(attribute, Numeric):
        raise ParameterError(f"{attribute.name!r} is no number, and has no standard deviation")
    low, high, *shape = _fitting(attribute, spread, mean)
    step = 0.5 if attribute.integer else 0.0
    least, greatest = attribute.reach
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


def _values(attribute: Numeric, spread: float, mean: float | None, latent: Floats) -> Column:
    """Return numbers of this mean and deviation, in the order of normal ones."""
    low, high, *shape = _fitting(attribute, spread, mean)
    ranks = np.linspace(-_FURTHEST, _FURTHEST, _GRID)  # inverting takes long
    found = np.interp(latent, ranks, low + (high - low) * betaincinv(*shape, ndtr(ranks)))
    found = np.rint(found) if attribute.integer else found
    codes = attribute.encode_values(np.clip(found, attribute.lower, attribute.upper))
    step = 0.5 if attribute.integer else 0.0
    least, greatest = (end[codes] for end in attribute.reach)
    places = (found - least + step) / np.maximum(greatest - least + 2 * step, _SMALLEST)
    values = attribute.decode(codes, np.clip(places, 0.0, 1 - _SMALLEST))
    return Column(codes.astype(code_dtype(attribute)), values)


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
    margins: Margins = "uniform"
    mean_weight: float | None = None

    @property
    def counted(self) -> float:
        """How much of the largest weight a row counts on average."""
        if self.mean_weight is None or self.schema.weight is None:
            return 1.0
        return self.mean_weight / self.schema.weight.upper

    def __post_init__(self) -> None:
        check_whole("rows", self.rows)
        for attribute in self.schema:
            if isinstance(attribute, OpenCategorical):
                raise ParameterError(f"the levels of {attribute.name!r} are open: declare some")
        if self.mean_weight is not None:
            upper = 0.0 if self.schema.weight is None else self.schema.weight.upper
            if not 0 < self.mean_weight <= upper:
                raise ParameterError(
                    "mean_weight is above 0, and weight_upper of the schema at most"
                )
        if self.margins not in get_args(Margins):
            raise ParameterError(f"margins must be one of {', '.join(get_args(Margins))}")
        for name in (*self.missing, *self.spreads, *self.means):
            if name not in self.schema.names:
                raise ParameterError(f"the schema has no attribute {name!r}")
        for name, rate in self.missing.items():
            if not 0 <= check_fraction("a missing rate", rate) < 1:
                raise ParameterError("a missing rate must be below 1")
            if rate and not self.schema[name].nullable:
                raise ParameterError(f"the schema says that {name!r} is never missing")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name, spread in self.spreads.items():
            check_positive("a spread", spread)
            _law_of(self.schema[name], self.margins, spread, self.means.get(name))
        for name in self.means:
            if name not in self.spreads:
                raise ParameterError(f"declare the spread of {name!r} as well: a mean is no law")

    def laws(self, margins: Margins) -> dict[str, Floats]:
        """Return the share of each level or bin of each attribute."""
        return {
            a.name: _law_of(a, margins, self.spreads.get(a.name), self.means.get(a.name))
            for a in self.schema
        }

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
        for name, spread in self.spreads.items():
            attribute = self.schema[name]
            assert isinstance(attribute, Numeric)
            columns[name] = _values(attribute, spread, self.means.get(name), latent[name])
        ruled = Table(self.schema, follow_rules(self.schema, columns), kind=table.kind)
        holed = MCAR(rate=self.missing).apply(ruled, random_state=rng) if self.missing else ruled
        columns = {name: holed.column(name) for name in self.schema.names}
        made = Table(self.schema, columns, kind=holed.kind)
        if self.schema.of_rows is not self.schema:
            # Nobody's rows: each is a unit, of the same weight.
            bound = 1 if self.schema.unit is None else self.schema.unit.bound
            weights = np.full(len(made), int(self.counted * STEPS)) if self.schema.weighs else None
            made._read_as, made._weights = self.schema, weights
            made._sums = unit_sums(np.arange(len(made)), weights, bound)
        return made

    def swamped(self, noise: float, margins: Margins) -> float:
        """Return the share of cells of two-way tables with fewer rows than twice the noise.

        Of independent attributes, and rows in which both are observed.
        """
        laws = self.laws(margins)
        seen = {name: 1 - self.missing.get(name, 0.0) for name in laws}
        counts = [
            self.counted * self.rows * seen[a] * seen[b] * np.outer(laws[a], laws[b]).ravel()
            for a, b in combinations(laws, 2)
        ]
        if not counts or math.isnan(noise):
            return math.nan
        return float((np.concatenate(counts) < 2 * noise).mean())

    def true_epsilon(self, model: Synthesizer) -> float | None:
        """Return epsilon for the ground truth, if cells go missing at random at these rates."""
        if not self.missing:
            return None
        observed = MCAR(rate=self.missing).observed(self.schema)
        try:
            stated = MissingCompletelyAtRandom(observed=observed)
            return model.ground_truth_guarantee(stated).epsilon
        except UnprovenError:
            return None


def rehearse(model: Synthesizer, table: Table) -> tuple[float, Any]:
    """Fit a model, draw as many rows, and return how long that took, and the rows."""
    started = perf_counter()
    drawn = model.fit(table).sample(len(table))
    return perf_counter() - started, drawn


def fitted_error(table: Table, drawn: Any) -> float:
    """Return the mean distance of two-way tables, as `missdp evaluate` prints it."""
    if len(table.schema) < 2:
        return math.nan
    return marginal_distance(table, drawn, k=2, schema=table.schema.of_rows).mean


def noise_of_tables(model: Synthesizer) -> tuple[float, float]:
    """Return the standard deviation of the noise of a count of a one-way and a two-way table.

    The median over tables; NaN where a family measures no such tables, or tells no noise.
    """
    if isinstance(model, AllPairs) and model.pairs_ is not None:
        release = model.pairs_
        variances = release.guessed().variances.values()
        pairs = [math.sqrt(v.mean()) * release.crude.rows for v in variances]
        return release.crude.std, _median(pairs)
    if isinstance(model, AIM | MST):
        recipe = model._recipe
        pairs = [std for clique, std in recipe.sigmas.items() if len(clique) > 1]
        return recipe.first_sigma, _median(pairs)
    return math.nan, math.nan


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else math.nan


def width_of_mean(model: Synthesizer, name: str) -> float:
    """Return the width of the 95 % interval of a mean; NaN where nothing is estimated."""
    if not isinstance(model, AllPairs | AIM | MST):
        return math.nan
    error: float = model.estimate(f"mean(`{name}`)").errors[0]
    return 2 * NormalDist().inv_cdf(0.975) * error
