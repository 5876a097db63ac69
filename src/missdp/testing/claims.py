"""Audits: the power of an attacker who distinguishes two neighbours, and the bound of a claim.

A claim bounds the share of hits for a given share of false alarms. No test distinguishes two tables
better than the likelihood ratio of the observed answers (Neyman and Pearson 1933). The exact
numbers behind each answer of a session are known for both tables, since the answers on one table
are repeated on the other. So the ratio is the product of the ratios of the mechanisms.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pydantic.dataclasses
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import beta

from missdp.accounting import (
    Event,
    GaussianEvent,
    Guarantee,
    SampledGaussianEvent,
    ZCDPEvent,
    epsilon_of,
    flatten,
    releases,
)
from missdp.accounting.measures import gdp_cost, has_bound, is_pure, pure_epsilon
from missdp.errors import ParameterError, UnprovenError, check_number
from missdp.profiles import delta_of
from missdp.serialization import Record
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.example_tables import TINY, canary
from missdp.testing.findings import Run, Subject, list_subjects
from missdp.testing.recording import (
    QuestionDiffersError,
    RecordingNoise,
    ReplayedNoise,
    StopRecording,
    fitted_inside,
)
from missdp.testing.undercharges import UnknownMechanismError, log_ratio

_POINTS = 50  # number of epsilons at which a claim is evaluated
_MAX_EPSILON = 50.0  # largest epsilon at which a claim is evaluated
_SIGMAS = 9.0  # largest threshold in SDs, exceeded less than once in 10^18 trials


@dataclass(frozen=True)
class Claim:
    """Privacy claim that limits how well any test can distinguish two neighbouring tables.

    A test guesses whether one row was in the table. A *hit* is a correct guess that the row was
    there, and a *false alarm* is a wrong guess that it was there. A privacy guarantee bounds the
    chance of a hit for each chance of a false alarm. `audit` and `judge` compare this bound with
    the result of an attacker.

    Parameters
    ----------
    pairs : tuple of (float, float)
        Pairs (epsilon, delta) of approximate DP that are claimed, all of them at once. Epsilon
        is at least 0, and delta is in [0, 1].
    mu : float, default infinity
        Parameter mu of Gaussian differential privacy that is claimed, at least 0. Infinity
        claims nothing.

    Notes
    -----
    Let ``alarms`` be the chance of a false alarm. Each (epsilon, delta) allows at most
    ``exp(epsilon) * alarms + delta`` hits, and at most ``1 - exp(-epsilon) * (1 - alarms -
    delta)``. mu-GDP allows ``Phi(mu + Phi^-1(alarms))`` (Dong, Roth & Su 2022).

    A claim holds public numbers only.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", Journal of the Royal Statistical Society
    B 84(1).

    Examples
    --------
    >>> import math
    >>> from missdp.testing import Claim
    >>> Claim(((1.0, 0.0),)).max_hits(0.1) == 0.1 * math.e
    True
    """

    pairs: tuple[tuple[float, float], ...]
    mu: float = math.inf

    def max_hits(self, alarms: float) -> float:
        """Return the largest chance of a hit that a privacy claim allows, given the false alarms.

        Parameters
        ----------
        alarms : float
            Chance of a false alarm, in [0, 1].

        Returns
        -------
        float
            A chance in [alarms, 1]. Public.
        """
        bounds = [1.0, float(ndtr(self.mu + ndtri(alarms)))]
        for epsilon, delta in self.pairs:
            bounds.append(math.exp(epsilon) * alarms + delta)
            bounds.append(1 - math.exp(-epsilon) * (1 - alarms - delta))
        return max(alarms, min(bounds))

    def mu_at(self, alarms: float) -> float:
        """Return the mu of Gaussian DP that allows as many hits as a claim, given the false alarms.

        Parameters
        ----------
        alarms : float
            Chance of a false alarm, in [0, 1].

        Returns
        -------
        float
            The mu of a Gaussian mechanism with this chance of a false alarm and the largest
            allowed chance of a hit, at least 0. It may be infinite. At the ends 0 and 1 it is
            the mu of the claim. Public.
        """
        if not 0 < alarms < 1:
            return self.mu
        return float(ndtri(self.max_hits(alarms)) - ndtri(alarms))

    def and_also(self, other: Claim) -> Claim:
        """Return the claim that two privacy claims hold at once.

        Parameters
        ----------
        other : Claim
            Another claim.

        Returns
        -------
        Claim
            It has the pairs of both claims, and the smaller mu. Public.

        Examples
        --------
        >>> from missdp.testing import Claim
        >>> Claim(((1.0, 0.0),)).and_also(Claim((), mu=0.5)).mu
        0.5
        """
        return Claim((*self.pairs, *other.pairs), min(self.mu, other.mu))

    @classmethod
    def of(cls, events: Claim | Guarantee | Iterable[Event]) -> Claim:
        """Return the strongest known claim that a privacy guarantee or a set of charges makes.

        Parameters
        ----------
        events : Claim, Guarantee or iterable of Event
            A guarantee, or accounting events of noisy releases. Events are a composition that
            was fixed in advance. A claim is returned unchanged.

        Returns
        -------
        Claim
            The claim. It may claim nothing if no bound is proven for the events. Public.

        Raises
        ------
        ParameterError
            If an element is not an `Event`.
        """
        if isinstance(events, Claim):
            return events
        if isinstance(events, Guarantee):
            return cls(((events.epsilon, events.delta),)).and_also(cls.of(events.events))
        parts = flatten(events)
        return cls(_pairs(parts), _gaussian_of(parts))


def _gaussian_of(events: Iterable[Event]) -> float:
    """Return the mu of a composition: mus add up in squares.

    It also holds for adaptively chosen events, if the sum stays below it on every path (Smith &
    Thakurta 2022).
    """
    return math.sqrt(sum(mu_of(event) ** 2 for event in events))


def _pairs(events: tuple[Event, ...]) -> tuple[tuple[float, float], ...]:
    """Return claims at a grid of epsilons, and the one at delta 0 if there is one."""
    try:
        widest = epsilon_of(events, 1e-6)
        grid = np.linspace(0.0, min(widest, _MAX_EPSILON), _POINTS)
        claims = [(float(e), delta_of(events, float(e))) for e in grid]
    except UnprovenError:
        return ()
    if all(map(is_pure, events)):
        claims.append((sum(map(pure_epsilon, events)), 0.0))
    return tuple(pair for pair in claims if pair[0] <= _MAX_EPSILON)


def mu_of(event: Event) -> float:
    """Return the smallest proven mu of Gaussian DP that covers an accounting event.

    The event describes one noisy release. For discrete Gaussian noise on counts, the largest mu of
    all corners of its trade-off curve is found numerically, for false alarms above 10^-18. The
    curve of the Gaussian is convex, so it lies below the rest. Training steps that read every row
    are Gaussian. For steps that sample rows no mu is proven here. For all other events
    `missdp.accounting.measures` proves the mu.

    Parameters
    ----------
    event : Event
        An accounting event of a noisy release.

    Returns
    -------
    float
        A mu, at least 0, or infinity if no mu is proven. Public.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", Journal of the Royal Statistical Society
    B 84(1).

    Examples
    --------
    >>> from missdp.testing import mu_of
    >>> from missdp.accounting import PureEvent
    >>> round(mu_of(PureEvent(epsilon=1.0)), 3)
    1.232
    """
    if isinstance(event, GaussianEvent) and event.discrete and event.sensitivity < 2 - 1e-9:
        return _discrete_gaussian_mu(event.sigma)
    if isinstance(event, SampledGaussianEvent) and event.rate == 1:  # on a fine grid
        return math.sqrt(event.steps) / event.noise_multiplier
    return math.sqrt(gdp_cost(event)) if has_bound(gdp_cost, event) else math.inf


@functools.cache
def _discrete_gaussian_mu(sigma: float) -> float:
    if sigma > 100:
        return (1 + sigma**-2) / sigma
    reach = math.ceil(sigma * (_SIGMAS + 4)) + 2
    mass = -(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * sigma**2)
    tails: NDArray[np.float64] = np.logaddexp.accumulate(mass[::-1])[::-1]
    # Corners with more than half false alarms mirror the other corners. 0 is the first of these.
    tails = tails[reach:] - tails[0]
    tails = tails[: max(2, int((tails > log_ndtr(-_SIGMAS)).sum()))]
    return float((ndtri_exp(tails[:-1]) - ndtri_exp(tails[1:])).max())


@pydantic.dataclasses.dataclass(frozen=True)
class Audit(Record):
    """Result of an attack on a private computation, beside the bound of its privacy claim.

    `audit`, `audit_synthesizer` and `judge` return it. An attacker guesses from the answers of a
    run whether one row was in the table. All numbers are about example tables and are not private.

    Parameters
    ----------
    subject : str
        Name of the audited code.
    trials : int
        Number of runs on each of the two tables. A quarter of them chose the threshold.
    hits : float
        Share of runs on the table with the row that passed the threshold, in [0, 1].
    alarms : float
        Share of runs on the table without the row that passed the threshold, in [0, 1].
    mu_emp : float
        Point estimate of mu, the parameter of Gaussian DP, from these shares. At least 0.
    mu_low : float
        Lower confidence bound on mu, at least 0.
    mu_claim : float
        The largest mu that the claim allows at a share of false alarms within its bounds.
    flagged : bool
        True if the claim is refuted with the confidence. Then the lower bound on the hits
        exceeds the allowed hits at the upper bound on the false alarms.
    confidence : float
        Confidence of the bounds, above 0 and below 1.
    blind : tuple of str
        Class names of mechanisms that could not be used, since no `log_ratio` is registered for
        them.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.testing import Claim, judge
    >>> noise = np.random.default_rng(0).standard_normal((2, 400))
    >>> result = judge(noise[0] + 1, noise[1], Claim((), mu=1.0))
    >>> result.trials, result.flagged, round(result.mu_claim, 6)
    (400, False, 1.0)
    """

    subject: str
    trials: int
    hits: float
    alarms: float
    mu_emp: float
    mu_low: float
    mu_claim: float
    flagged: bool
    confidence: float
    blind: tuple[str, ...] = ()

    derived: ClassVar[tuple[str, ...]] = ("ratio",)

    @property
    def ratio(self) -> float:
        """Return the ratio of an attacker's estimated mu and the claimed mu of a privacy claim.

        It is ``mu_emp / mu_claim``. Mu is the parameter of Gaussian DP.

        Returns
        -------
        float
            At least 0. A ratio near 1 shows that the claim is tight. It is infinite if the
            claimed mu is 0.
        """
        return self.mu_emp / self.mu_claim if self.mu_claim else math.inf

    def __str__(self) -> str:
        verdict = "REFUTED" if self.flagged else "not refuted"
        return (
            f"{self.subject}: mu {self.mu_emp:.2f} found, at least {self.mu_low:.2f} with "
            f"confidence {self.confidence:.0%}; {self.mu_claim:.2f} claimed: {verdict}"
        )


def judge(
    present: NDArray[np.float64],
    absent: NDArray[np.float64],
    claim: Claim,
    *,
    confidence: float = 0.95,
    subject: str = "audit",
) -> Audit:
    """Return the verdict on a privacy claim from a statistic that is larger where a row is present.

    The first quarter of the runs chooses a threshold. The others count hits and false alarms: runs
    with and without the row whose statistic reaches the threshold. Their shares have
    Clopper-Pearson bounds, each with half of the remaining probability.

    Parameters
    ----------
    present : ndarray of float, shape (n_runs,)
        The statistic in independent runs on the table with the row. At least two runs.
    absent : ndarray of float, shape (n_runs,)
        The statistic in independent runs on the table without the row. At least two runs.
    claim : Claim
        The claim that is tested.
    confidence : float, default 0.95
        Confidence of the verdict, above 0 and below 1.
    subject : str, default "audit"
        Name of the audited code.

    Returns
    -------
    Audit
        The shares of hits and false alarms, and the verdict.

    Raises
    ------
    ParameterError
        If there are fewer than two runs, other numbers of runs with than without the row, or
        ``confidence`` is out of range.

    Notes
    -----
    The numbers come from example tables and are not private. If the claim is true, the verdict
    refutes it with a probability of at most ``1 - confidence``.

    References
    ----------
    Clopper, Pearson (1934), "The use of confidence or fiducial limits illustrated in the case of
    the binomial", Biometrika 26.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.testing import Claim, judge
    >>> noise = np.random.default_rng(0).standard_normal((2, 400))
    >>> judge(noise[0] + 3, noise[1], Claim((), mu=1.0)).flagged
    True
    """
    check_number("confidence", confidence, max_value=1.0, exclude_min=True, exclude_max=True)
    if not len(present) == len(absent) > 1:
        raise ParameterError("present and absent must have an equal number of runs, at least two")
    quarter = max(1, len(present) // 4)
    threshold = _best_threshold(present[:quarter], absent[:quarter], len(present), confidence)
    rest = [np.asarray(v[quarter:]) >= threshold for v in (present, absent)]
    (hits, n), (alarms, m) = ((int(r.sum()), len(r)) for r in rest)
    low, high = (float(bound) for bound in _bounds(hits, n, alarms, m, confidence))
    shares = [(count + 0.5) / (size + 1) for count, size in ((hits, n), (alarms, m))]
    min_alarms = min(shares[1], float(_bounds(alarms, m, 0, m, confidence)[0]) or shares[1])
    return Audit(
        subject=subject,
        trials=len(present),
        hits=hits / n,
        alarms=alarms / m,
        mu_emp=max(0.0, float(ndtri(shares[0]) - ndtri(shares[1]))),
        mu_low=max(0.0, float(ndtri(low) - ndtri(high))),
        mu_claim=max(claim.mu_at(float(a)) for a in np.linspace(min_alarms, high, 33)),
        flagged=low > claim.max_hits(high),
        confidence=confidence,
    )


def _best_threshold(
    present: NDArray[np.float64], absent: NDArray[np.float64], trials: int, confidence: float
) -> float:
    """Return the threshold with the largest lower bound, by shares that normal shares smooth."""
    both = np.concatenate([present, absent])
    finite = np.abs(both[np.isfinite(both)])
    far = 2 * float(finite.max(initial=0.0)) + 1
    parts = [np.clip(part, -far, far) for part in (present, absent)]
    values = np.unique(np.quantile(np.concatenate(parts), np.linspace(0, 1, 64)))
    counts = []
    for part in parts:
        normal = ndtr((part.mean() - values) / max(float(part.std()), 1e-9))
        counts.append(trials * (np.mean(part[:, None] >= values, axis=0) + normal) / 2)
    low, high = _bounds(counts[0], trials, counts[1], trials, confidence)
    with np.errstate(invalid="ignore"):
        bound = np.nan_to_num(ndtri(low) - ndtri(high), nan=-math.inf, posinf=0.0)
    return float(values[int(np.argmax(bound))])


def _bounds(hits: Any, n: int, alarms: Any, m: int, confidence: float) -> tuple[Any, Any]:
    """Clopper-Pearson: hits are at least, and alarms at most, so likely."""
    part = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(np.equal(hits, 0), 0.0, beta.ppf(part, hits, n - hits + 1))
        high = np.where(np.equal(alarms, m), 1.0, beta.ppf(1 - part, alarms + 1, m - alarms))
    return low, high


_PILOTS = 2  # runs on each table that count the answers


def audit(
    run: Run,
    table: Any,
    neighbour: Any,
    *,
    claim: Claim | Guarantee | Iterable[Event] | None = None,
    trials: int = 400,
    scale: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
    subject: str = "audit",
) -> Audit:
    """Attack a private computation on two neighbouring tables, and test its privacy claim.

    The attacker receives every answer of a run on one of two tables, and guesses the table by the
    likelihood ratio of the answers. Use it on example tables only, because it reads exact numbers.
    A claim that is not refuted is not proven.

    Parameters
    ----------
    run : callable
        ``run(table)`` runs the audited code: a fit, a statistic, a private estimator. It opens
        its sessions itself, so that they have the noise of the audit, for any ``random_state``.
        It is stopped after its last answer.
    table : object
        Example input without the row.
    neighbour : object
        Example input with the row.
    claim : Claim, Guarantee or iterable of Event, optional
        The claim. The default is the sum of the charges of the answers. It is a fixed
        composition if all runs have the same charges, and a sum of squared mus otherwise.
    trials : int, default 400
        Runs on each table, at least 20. Each takes two: one that is answered, and one that
        computes the exact numbers of the other table.
    scale : float, default 1.0
        Draw noise with so many times its scale, above 0. An audit of a sound ``run`` with 0.7
        shows that the audit has power: it should be flagged.
    confidence : float, default 0.95
        Confidence of the verdict, above 0 and below 1.
    seed : int, default 0
        Seed of the noise of all runs, at least 0.
    subject : str, default "audit"
        Name of the audited code.

    Returns
    -------
    Audit
        The shares of hits and false alarms, and whether they refute the claim.

    Raises
    ------
    ParameterError
        If a number is out of range, or the scale of a mechanism's noise cannot be changed.

    Notes
    -----
    The result has no privacy guarantee, since it is computed from exact numbers of the tables.

    Examples
    --------
    >>> from missdp.testing import TINY, audit, canary
    >>> from missdp import PrivBayes
    >>> def fit(table):
    ...     PrivBayes(epsilon=2.0).fit(table)
    >>> audit(fit, *canary(TINY, 12), trials=20).flagged
    False
    """
    _check(trials, confidence, scale)
    attacker = _Attacker(lambda _noise, rows: run(rows), (table, neighbour), scale, seed)
    present, absent = attacker.ratios(trials)
    claimed = attacker.charged() if claim is None else Claim.of(claim)
    verdict = judge(present, absent, claimed, confidence=confidence, subject=subject)
    return replace(verdict, blind=tuple(sorted(attacker.blind)))


@dataclass
class _Attacker:
    """Runs on either table, with the log likelihood ratio of all answers."""

    run: Callable[[RecordingNoise, Any], Any]
    tables: tuple[Any, Any]
    scale: float
    seed: int
    blind: set[str] = field(default_factory=set)
    compositions: set[frozenset[tuple[Event, int]]] = field(default_factory=set)
    stop_after: int | None = None

    def ratios(self, trials: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ratios of runs on the table with the row, and on the one without."""
        pilots = [self.recorded(side, -1 - k) for side in (0, 1) for k in range(_PILOTS)]
        # An attacker may use the first answers only. All runs then have the same number of answers.
        self.stop_after = max(len(recording.answers) for recording in pilots)
        absent, present = (
            np.array([self.ratio(side, number) for number in range(trials)]) for side in (0, 1)
        )
        return present, absent

    def recorded(self, side: int, number: int) -> RecordingNoise:
        """Answer a run on one of the tables."""
        mixed = np.random.SeedSequence([self.seed, side, number % 2**32])
        seed = int(mixed.generate_state(1, np.uint64)[0] >> 1)
        noise = RecordingNoise(seed, scale=self.scale, stop_after=self.stop_after)
        self._answered(noise, side)
        bare = Counter(replace(answer.event, label="", required=None) for answer in noise.answers)
        self.compositions.add(frozenset(bare.items()))
        return noise

    def _answered(self, noise: RecordingNoise, side: int) -> None:
        # Warnings about small tables and large epsilons do not matter here.
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(StopRecording), noise:
            self.run(noise, self.tables[side])

    def ratio(self, side: int, number: int) -> float:
        """Log likelihood of the neighbour less that of the table, for a run on one of them."""
        recording, sign = self.recorded(side, number), 1.0 if side else -1.0
        again = ReplayedNoise(recording)
        try:
            self._answered(again, 1 - side)
            alike = len(again.answers) == len(recording.answers)
        except QuestionDiffersError:
            alike = False
        if not alike:  # the other table leads to another question, so it cannot be the source
            return sign * math.inf
        total = 0.0
        for here, there in zip(recording.answers, again.answers, strict=True):
            try:
                total += log_ratio(here.mechanism, here.released, here.exact, there.exact)
            except UnknownMechanismError:
                self.blind.add(type(here.mechanism).__name__)
        return sign * total

    def charged(self) -> Claim:
        """Return the claim of the charges of all answers."""
        lists = [list(Counter(dict(counts)).elements()) for counts in self.compositions]
        if len(lists) == 1:
            return Claim.of(lists[0])
        return Claim((), max(map(_gaussian_of, lists)))


def audit_synthesizer(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    tables: tuple[Table, Table] | None = None,
    trials: int = 400,
    scale: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Audit]:
    """Attack fits of a synthesizer on two neighbouring tables, once for each missing-data strategy.

    Use it on example tables only, because it reads exact numbers. A claim that is not refuted is
    not proven.

    Parameters
    ----------
    family : type of Synthesizer
        Class of the synthesizer.
    parameters : mapping of str to object, optional
        Parameters of the synthesizer except the strategy. Without an epsilon the audit chooses
        one with mu near 2, where audits have most power. The audited code does not depend on
        it.
    strategies : iterable of str, optional
        Missing-data strategies to audit. By default, all strategies of the synthesizer.
    tables : pair of Table, optional
        Two neighbouring example tables, the larger second. The default is twelve equal rows,
        and these rows with one more row that differs. If their schema declares a unit of
        protection (all rows of one person), the tables must hold rows as `canary` or
        `Table.read` choose them.
    trials : int, default 400
        Runs on each table, at least 20.
    scale : float, default 1.0
        Draw noise with so many times its scale, above 0.
    confidence : float, default 0.95
        Confidence of the verdict, above 0 and below 1.
    seed : int, default 0
        Seed of the noise of all runs, at least 0.

    Returns
    -------
    dict of str to Audit
        The result for each strategy. The claim is the sum of the charges of the answers, or the
        guarantee if it claims less.

    Raises
    ------
    ParameterError
        If ``family`` is not a class of synthesizers, lacks a strategy, or a number is out of range.

    Notes
    -----
    The result has no privacy guarantee, since it is computed from exact numbers of the tables.

    Examples
    --------
    >>> from missdp.testing import audit_synthesizer
    >>> from missdp import PrivBayes
    >>> results = audit_synthesizer(PrivBayes, strategies=["joint"], trials=20)
    >>> results["joint"].trials, results["joint"].flagged
    (20, False)
    """
    _check(trials, confidence, scale)
    return {
        on.strategy: audit_subject(on, tables, trials, scale, confidence, seed)
        for on in list_subjects(family, parameters, strategies, TINY)
    }


def audit_subject(
    on: Subject,
    tables: tuple[Table, Table] | None,
    trials: int,
    scale: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Return the audit of one strategy of a family.

    Parameters
    ----------
    on : Subject
        A family with one strategy.
    tables : pair of Table or None
        Two neighbours, the larger second. None: see `canary`.
    trials : int
        Runs on each table.
    scale, confidence, seed
        See `audit`.

    Returns
    -------
    Audit
        The shares of hits and false alarms, and the verdict.
    """
    if "epsilon" not in on.parameters:
        on = replace(on, parameters={**on.parameters, "epsilon": _audit_epsilon(on.delta)})
    both = tables or canary(TINY, 12)
    attacker = _Attacker(functools.partial(fitted_inside, on), both, scale, seed)
    present, absent = attacker.ratios(trials)
    stated = _stated(on, both[0])
    # A charge of an answer is about rows. Only the guarantee is about units.
    claim = stated if both[0].schema.unit else attacker.charged().and_also(stated)
    subject = f"{on.family.__name__}, {on.strategy}"
    verdict = judge(present, absent, claim, confidence=confidence, subject=subject)
    return replace(verdict, blind=tuple(sorted(attacker.blind)))


def _stated(on: Subject, table: Table) -> Claim:
    """Return the claim of a guarantee, and of its charges if some answers have no charge."""
    noise = RecordingNoise(0)
    with warnings.catch_warnings(action="ignore"), noise:
        guarantee = fitted_inside(on, noise, table).guarantee_
    stated, charged = Claim.of(guarantee), releases(guarantee.events)
    unpaid = len(charged) < len(noise.answers)
    return stated.and_also(Claim.of(charged)) if unpaid else stated


def _audit_epsilon(delta: float) -> float:
    """The epsilon at which mu is near 2, and few runs refute noise that is too small."""
    return 3.0 if delta == 0 else epsilon_of(ZCDPEvent(rho=2.0), delta)


def _check(trials: int, confidence: float, scale: float) -> None:
    check_number("trials of an audit", trials, min_value=20)
    check_number("confidence", confidence, max_value=1 - 1e-12, exclude_min=True)
    check_number("scale", scale, exclude_min=True)
