"""One charged release after the other: the only place where a private sum leaves.

`Releaser` holds the private table, its profile, and the budget. A query first states all its
releases (`Ask`), which are charged together; only then is anything computed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, get_args

from scipy.stats import norm

from missdp.accounting import (
    Budget,
    Event,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
)
from missdp.accounting.weakness import warn_if_weak
from missdp.errors import DataError, ParameterError, UnprovenError
from missdp.knn.asks import Ask, check_real, plain_event
from missdp.knn.bound import smooth_bound
from missdp.knn.estimates import Noisy
from missdp.knn.filled import FilledTable
from missdp.knn.imputers import Imputation
from missdp.knn.paper import paper_gamma, paper_mechanism
from missdp.knn.prepared import Prepared
from missdp.knn.rows import RowSum, Weights
from missdp.knn.scale import ReleasedScale, ScaleRelease
from missdp.mechanisms import NoiseSource, domain_conditions
from missdp.mechanisms.smooth import SmoothNoise, release_smooth
from missdp.mechanisms.smooth_plan import plan_smooth, public_grid, reference_bound
from missdp.schema import Numeric
from missdp.table import Table

__all__ = ["QueryNoise", "Releaser"]

QueryNoise = Literal["lomax", "cauchy", "paper"]


class Releaser:
    """Charges, computes and adds noise for one private table. See `ImputedStatistics`."""

    def __init__(
        self,
        table: Table,
        imputation: Imputation,
        *,
        budget: Budget,
        scale: ScaleRelease | None,
        noise: QueryNoise,
        confidence: float,
        undeclared: str,
        source: NoiseSource,
    ) -> None:
        if noise not in get_args(QueryNoise):
            raise ParameterError(f"noise must be one of {get_args(QueryNoise)}, not {noise!r}")
        _check_kinds(table, imputation, budget, scale)
        if check_real("confidence", confidence, most=1.0) < 0.5 or confidence == 1:
            raise ParameterError("confidence must be at least 0.5 and below 1")
        imputation.check(table.schema)
        self.valued = _valued(table)
        for name in imputation.fills():
            if isinstance(table.schema[name], Numeric) and name not in self.valued:
                raise DataError(f"attribute {name!r} has no numeric values in this table")
        self.imputation, self.confidence = imputation, confidence
        self.budget, self._noise, self._source = budget, noise, source
        self._conditions = (
            *domain_conditions(table.schema, undeclared),
            *imputation.conditions(),
            *source.conditions,
        )
        self._setup: tuple[Event, ...] = imputation.events()
        wants_scale = scale is not None and imputation.cap() is None
        if scale is not None and wants_scale:
            self._setup = (*self._setup, *scale.events(confidence))
        if self._setup:
            self.budget.charge(*self._setup, conditions=self._conditions)
        self._table = table
        self._prepared: Prepared | None = None
        self.scale: ReleasedScale | None = None
        self._scale_failure = 0.0
        if scale is not None and wants_scale:
            self._scale_failure = scale.failure(confidence)
            profile = self._ready().profile
            assert profile is not None
            self.scale = scale.release(profile, confidence=confidence, source=source)

    def _ready(self) -> Prepared:
        if self._prepared is None:
            self._prepared = self.imputation.prepare(self._table, self._source)
        return self._prepared

    def begin(self, asks: Sequence[Ask]) -> FilledTable:
        """Charge all releases of a query; only then hand out the private rows."""
        events = [self._event(ask) for ask in asks]
        promised = self.guarantee(asks)
        warn_if_weak(promised.epsilon)
        self.budget.charge(*events, conditions=self._conditions)
        return self._ready().filled

    def observed(self) -> FilledTable:
        """Return the rows with their holes, of a query that `begin` has charged."""
        return FilledTable(self._table, {})

    def guarantee(self, asks: Sequence[Ask]) -> Guarantee:
        """Guarantee of a query alone, the released scale it relies on included."""
        events = (*self._setup, *(self._event(ask) for ask in asks))
        pure = all(isinstance(event, (PureEvent, LaplaceEvent)) for event in events)
        delta = 0.0 if pure else self.budget.delta
        return Guarantee.from_events(
            events, delta=delta, adjacency=self.budget.adjacency, conditions=self._conditions
        )

    def level(self, pieces: int) -> float:
        """Confidence of each of several released numbers so that all hold together."""
        left = (1 - self.confidence) - (self._scale_failure if self.scale is not None else 0.0)
        return 1 - left / pieces

    # -- events: public facts only ---------------------------------------------------------------

    def _event(self, ask: Ask) -> Event:
        mechanism = self._mechanism(ask)
        if mechanism == "plain":
            size = ask.whole * (1 + ask.moves * (self.imputation.cap() or 0) * ask.depends)
            return plain_event(ask, size)
        if mechanism == "paper":
            paper_gamma(ask.cost.as_epsilon)
            if ask.dimension > 1:
                raise UnprovenError("the paper's mechanism is for single numbers")
        else:
            self._plan(ask, 1.0, float(ask.moves))  # What cannot be released is not charged.
        if self._chooses(ask):
            assert ask.cost.rho is not None
            # Which noise it will be depends on a released number. An event may not: both are
            # rho-zCDP, and that alone is stated, whichever it is.
            return ZCDPEvent(rho=ask.cost.rho, label=ask.label)
        return PureEvent(epsilon=ask.cost.as_epsilon, label=ask.label)

    def _chooses(self, ask: Ask) -> bool:
        """Whether the released scale decides between Gaussian and Lomax noise."""
        can = self.scale is not None and self.scale.gaussian and self.imputation.cap() is None
        return can and ask.depends and ask.cost.rho is not None and self._noise == "lomax"

    def _mechanism(self, ask: Ask) -> str:
        """Choose the noise on public grounds."""
        if not ask.depends or self.imputation.cap() is not None:
            return "plain"
        if not self._chooses(ask):
            return self._noise
        assert self.scale is not None
        assert ask.cost.rho is not None
        lomax = self._plan(ask, 1.0, float(ask.moves))
        heavy = lomax.standard_deviation * reference_bound(lomax.beta, 1.0, float(ask.moves))
        norm_2 = math.sqrt(2.0) if ask.moves > 1 else 1.0
        light = (1 + norm_2 * self.scale.donees) / math.sqrt(2 * ask.cost.rho)
        return "gaussian" if light < heavy and 2 * ask.whole * light < 2.0**39 else "lomax"

    def _plan(self, ask: Ask, own: float, donee: float) -> SmoothNoise:
        law: Literal["lomax", "cauchy"] = "cauchy" if self._noise == "cauchy" else "lomax"
        epsilon, dimension = ask.cost.as_epsilon, ask.dimension
        least = 0.0 if self.scale is None else self.scale.beta
        with contextlib.suppress(UnprovenError):
            return plan_smooth(
                epsilon, own=own, donee=donee, dimension=dimension, law=law, least_beta=least
            )
        return plan_smooth(epsilon, own=own, donee=donee, dimension=dimension, law=law)

    # -- releases --------------------------------------------------------------------------------

    def release(self, ask: Ask, answer: RowSum) -> list[Noisy]:
        """Release a charged sum."""
        mechanism = self._mechanism(ask)
        if mechanism == "plain":
            return self._plain(ask, answer)
        if mechanism == "gaussian":
            return self._gaussian(ask, answer)
        if mechanism == "paper":
            return self._paper(ask, answer)
        return self._smooth(ask, answer)

    def _plain(self, ask: Ask, answer: RowSum) -> list[Noisy]:
        weights, event = answer.weights, self._event(ask)
        cap = self.imputation.cap()
        # Without a cap a donor may serve any number of rows: no plain noise covers that.
        donees = (math.inf if cap is None else cap) if weights.donee else 0
        moved = weights.own + (weights.donee * donees if donees else 0)
        if moved > getattr(event, "sensitivity", 0):
            raise UnprovenError("the release is more sensitive than what was charged for")
        unit, size = float(weights.unit), len(answer.totals)
        if isinstance(event, GaussianEvent):
            draws = self._source.discrete_gaussian(event.sigma, size)
            radius = _gaussian_radius(event.sigma, unit)
        else:
            assert isinstance(event, LaplaceEvent)
            draws = self._source.discrete_laplace(event.scale, size)
            radius = _laplace_radius(event.scale, unit)
        exact = zip(answer.totals, draws.tolist(), strict=True)
        return [Noisy((total + draw) * unit, radius) for total, draw in exact]

    def _gaussian(self, ask: Ask, answer: RowSum) -> list[Noisy]:
        assert self.scale is not None
        assert ask.cost.rho is not None
        weights = answer.weights
        spread = weights.own + weights.donee_l2 * self.scale.donees
        sigma = math.nextafter(spread / math.sqrt(2 * ask.cost.rho), math.inf)
        draws = self._source.discrete_gaussian(sigma, len(answer.totals))
        unit = float(weights.unit)
        radius = _gaussian_radius(sigma, unit)
        exact = zip(answer.totals, draws.tolist(), strict=True)
        return [Noisy((total + draw) * unit, radius) for total, draw in exact]

    def _smooth(self, ask: Ask, answer: RowSum) -> list[Noisy]:
        weights = answer.weights
        noise = self._plan(ask, float(weights.own), float(weights.donee))
        grid = public_grid(weights.own, weights.donee, noise.epsilon)
        bound = self._bound(weights, noise.beta)
        values = [Fraction(total) for total in answer.totals]
        noisy = release_smooth(values, bound, noise, grid=grid, source=self._source)
        radius = None
        if self.scale is not None and noise.beta >= self.scale.beta:
            scale = (weights.own + weights.donee * self.scale.donees) * float(weights.unit)
            radius = _scaled(noise.quantile, scale)
        return [Noisy(float(value * weights.unit), radius) for value in noisy]

    def _paper(self, ask: Ask, answer: RowSum) -> list[Noisy]:
        weights, profile = answer.weights, self._ready().profile
        assert profile is not None
        epsilon = ask.cost.as_epsilon
        released = paper_mechanism(
            Fraction(answer.totals[0]), own=weights.own, donee=weights.donee,
            donees=profile.exact(0), epsilon=epsilon,
            grid=public_grid(weights.own, weights.donee, epsilon), source=self._source,
        )  # fmt: skip
        return [Noisy(float(released * weights.unit), None)]

    def _bound(self, weights: Weights, beta: float) -> float:
        profile = self._ready().profile
        assert profile is not None
        return smooth_bound(profile, own=weights.own, donee=weights.donee, beta=beta)


def _laplace_radius(scale: float, unit: float) -> Callable[[float], float]:
    return lambda level: (-scale * math.log1p(-level) + 1) * unit


def _gaussian_radius(sigma: float, unit: float) -> Callable[[float], float]:
    return lambda level: (sigma * float(norm.isf((1 - level) / 2)) + 1) * unit


def _scaled(quantile: Callable[[float], float], scale: float) -> Callable[[float], float]:
    return lambda level: quantile(level) * scale


def _check_kinds(table: Table, imputation: Imputation, budget: Budget, scale: object) -> None:
    if not isinstance(table, Table):
        raise DataError("statistics are asked of a Table: use Table.read(data, schema)")
    if not hasattr(imputation, "prepare"):
        raise ParameterError("imputation must be one of missdp.knn, for example a KNNImputation")
    if not isinstance(budget, Budget):
        raise ParameterError("budget must be a Budget")
    if not isinstance(scale, ScaleRelease | None):
        raise ParameterError("scale must be a ScaleRelease or None")


def _valued(table: Table) -> frozenset[str]:
    """Numeric attributes of which the table holds values, not bins only: how it was made."""
    found = set()
    for attribute in table.schema:
        with contextlib.suppress(DataError):
            table.values(attribute.name)
            found.add(attribute.name)
    return frozenset(found)
