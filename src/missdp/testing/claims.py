"""What a claim allows an attacker, the verdict of an audit, and audits from samples alone.

A claim bounds the share of hits for a given share of false alarms. Samples can be had of any
library without a look inside; an audit from them has no promised power.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import beta

from missdp.accounting import (
    FAST_ACCOUNTANTS,
    Event,
    GaussianEvent,
    Guarantee,
    PLDAccountant,
    PureAccountant,
    SampledGaussianEvent,
    delta_of,
    epsilon_of,
    flatten,
)
from missdp.accounting.costs import pure_epsilon
from missdp.accounting.gdp import GDPAccountant, gdp_cost
from missdp.errors import ParameterError, UnprovenError
from missdp.record import Record
from missdp.table import Table

__all__ = ["Audit", "Claim", "audit_samples", "judge", "mu_of"]


_POINTS = 50  # epsilons at which a claim is read
_MOST_EPSILON = 50.0
_SIGMAS = 9.0  # thresholds further out happen less than once in 10^18 trials


@dataclass(frozen=True)
class Claim:
    """Bounds on a test that tells two neighbours apart.

    Parameters
    ----------
    pairs : tuple of (float, float)
        (epsilon, delta) that are claimed, all of them at once.
    mu : float, default infinity
        Gaussian differential privacy that is claimed.

    Notes
    -----
    With ``alarms`` the chance of a false alarm, each (epsilon, delta) allows at most
    ``exp(epsilon) * alarms + delta`` hits and ``1 - exp(-epsilon) * (1 - alarms - delta)``, and
    mu-GDP allows ``Phi(mu + Phi^-1(alarms))`` (Dong, Roth & Su 2022).

    Examples
    --------
    >>> Claim(((1.0, 0.0),)).most_hits(0.1) == 0.1 * math.e
    True
    >>> round(Claim((), mu=1.0).mu_at(0.1), 6)
    1.0
    """

    pairs: tuple[tuple[float, float], ...]
    mu: float = math.inf

    def most_hits(self, alarms: float) -> float:
        """Return the largest chance of a hit that is allowed."""
        bounds = [1.0, float(ndtr(self.mu + ndtri(alarms)))]
        for epsilon, delta in self.pairs:
            bounds.append(math.exp(epsilon) * alarms + delta)
            bounds.append(1 - math.exp(-epsilon) * (1 - alarms - delta))
        return max(alarms, min(bounds))

    def mu_at(self, alarms: float) -> float:
        """Return the mu of the largest chance of a hit that is allowed."""
        if not 0 < alarms < 1:
            return self.mu
        return float(ndtri(self.most_hits(alarms)) - ndtri(alarms))

    def and_also(self, other: Claim) -> Claim:
        """Return both claims at once."""
        return Claim((*self.pairs, *other.pairs), min(self.mu, other.mu))

    @classmethod
    def of(cls, events: Iterable[Event] | Guarantee) -> Claim:
        """Return what a guarantee claims, or what events that were fixed in advance do."""
        if isinstance(events, Guarantee):
            stated = ((events.epsilon, events.delta),)
            return cls(stated, math.inf).and_also(cls.of(events.events))
        parts = flatten(events)
        return cls(_pairs(parts), gaussian_of(parts))


def gaussian_of(events: Iterable[Event]) -> float:
    """Return the mu of a composition: mus add up in squares.

    That holds for adaptively chosen events too, as long as the sum stays below it on every path
    (Smith & Thakurta 2022).
    """
    counted = Counter(replace(event, label="", gate=None) for event in events)
    return math.sqrt(sum(times * mu_of(event) ** 2 for event, times in counted.items()))


def _pairs(events: tuple[Event, ...]) -> tuple[tuple[float, float], ...]:
    try:
        tight = (PLDAccountant(),) if all(map(PLDAccountant().supports, events)) else None
        using = tight or FAST_ACCOUNTANTS
        widest = epsilon_of(events, 1e-6, accountants=using)
        grid = np.linspace(0.0, min(widest, _MOST_EPSILON), _POINTS)
        found = [(float(e), delta_of(events, float(e), accountants=using)) for e in grid]
    except UnprovenError:
        return ()
    if all(PureAccountant().supports(event) for event in events):
        found.append((sum(pure_epsilon(event) for event in events), 0.0))
    return tuple(pair for pair in found if pair[0] <= _MOST_EPSILON)


def mu_of(event: Event) -> float:
    """Return the smallest mu of Gaussian DP that is known to cover an event; infinite if none.

    For discrete Gaussian noise on counts the largest mu of all corners of its trade-off curve is
    found numerically, for false alarms above 10^-18: the curve of the Gaussian is convex, so that
    it lies below the rest. Steps that read every row are Gaussian; for those that sample rows no mu
    is known here. Everything else is what `missdp.accounting.gdp` proves.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, PureEvent
    >>> mu_of(GaussianEvent(sensitivity=2.0, sigma=4.0, discrete=False))
    0.5
    >>> round(mu_of(PureEvent(epsilon=1.0)), 3)
    1.232
    """
    if isinstance(event, GaussianEvent) and event.discrete and event.sensitivity < 2 - 1e-9:
        return _discrete_gaussian_mu(event.sigma)
    if isinstance(event, SampledGaussianEvent) and event.rate == 1:  # on a fine grid
        return math.sqrt(event.steps) / event.noise_multiplier
    return math.sqrt(gdp_cost(event)) if GDPAccountant().supports(event) else math.inf


def _discrete_gaussian_mu(sigma: float) -> float:
    if sigma > 100:
        return (1 + sigma**-2) / sigma
    reach = math.ceil(sigma * (_SIGMAS + 4)) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    mass = -(x**2) / (2 * sigma**2)
    tails: NDArray[np.float64] = np.logaddexp.accumulate(mass[::-1])[::-1]
    tails -= tails[0]
    # Corners with more than half false alarms mirror those with less; 0 is the first of these.
    tails = tails[reach:]
    tails = tails[: max(2, int((tails > log_ndtr(-_SIGMAS)).sum()))]
    return float((ndtri_exp(tails[:-1]) - ndtri_exp(tails[1:])).max())


@dataclass(frozen=True)
class Audit(Record):
    """What an attacker achieved, beside what the claim allows.

    Parameters
    ----------
    subject : str
    trials : int
        Runs on each of the two tables; a quarter of them chose the threshold.
    hits, alarms : float
        Share of runs on the table with the row, and on the one without, that passed the threshold.
    mu_emp : float
        Point estimate of mu from these shares.
    mu_low : float
        Lower confidence bound on mu.
    mu_claim : float
        The largest mu that the claim allows at a share of false alarms within its bounds.
    flagged : bool
        Whether the claim is refuted, with the confidence: the lower bound on the hits is more than
        the claim allows at the upper bound on the false alarms.
    confidence : float
    blind : tuple of str
        Laws that could not be used, since they have no ``log_ratio``.
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
        """How near to the claim the attacker came: ``mu_emp / mu_claim``."""
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
    """Return the verdict on a statistic that tends to be larger where a row is present.

    The first quarter of the values chooses a threshold; the others count hits and false alarms.
    Their shares have Clopper-Pearson bounds, each at half of what the confidence leaves.

    Parameters
    ----------
    present, absent : array of float
        The statistic of independent runs on either table.
    claim : Claim
    confidence : float, default 0.95
    subject : str
    """
    quarter = max(1, len(present) // 4)
    threshold = _best_threshold(present[:quarter], absent[:quarter], len(present), confidence)
    rest = [np.asarray(v[quarter:]) >= threshold for v in (present, absent)]
    (hits, most), (alarms, runs) = ((int(r.sum()), len(r)) for r in rest)
    low, high = (float(bound) for bound in _bounds(hits, most, alarms, runs, confidence))
    shares = [(count + 0.5) / (size + 1) for count, size in ((hits, most), (alarms, runs))]
    least = min(shares[1], float(_bounds(alarms, runs, 0, runs, confidence)[0]) or shares[1])
    return Audit(
        subject=subject,
        trials=len(present),
        hits=hits / most,
        alarms=alarms / runs,
        mu_emp=max(0.0, float(ndtri(shares[0]) - ndtri(shares[1]))),
        mu_low=max(0.0, float(ndtri(low) - ndtri(high))),
        mu_claim=max(claim.mu_at(float(a)) for a in np.linspace(least, high, 33)),
        flagged=low > claim.most_hits(high),
        confidence=confidence,
    )


def _best_threshold(
    present: NDArray[np.float64], absent: NDArray[np.float64], trials: int, confidence: float
) -> float:
    """The threshold with the largest lower bound, were the shares those of more runs.

    The shares are smoothed by those of a normal law: few runs say little of rare values.
    """
    both = np.concatenate([present, absent])
    finite = np.abs(both[np.isfinite(both)])
    far = 2 * float(finite.max(initial=0.0)) + 1
    parts = [np.clip(part, -far, far) for part in (present, absent)]
    values = np.unique(np.quantile(np.concatenate(parts), np.linspace(0, 1, 64)))
    counts = [
        trials * (np.mean(part[:, None] >= values, axis=0) + _normal_share(part, values)) / 2
        for part in parts
    ]
    low, high = _bounds(counts[0], trials, counts[1], trials, confidence)
    with np.errstate(invalid="ignore"):
        bound = np.nan_to_num(ndtri(low) - ndtri(high), nan=-math.inf, posinf=0.0)
    return float(values[int(np.argmax(bound))])


def _normal_share(part: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(ndtr((part.mean() - values) / max(float(part.std()), 1e-9)))


def _bounds(hits: Any, most: int, alarms: Any, runs: int, confidence: float) -> tuple[Any, Any]:
    """Clopper-Pearson: hits are at least, and alarms at most, so likely."""
    part = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(np.equal(hits, 0), 0.0, beta.ppf(part, hits, most - hits + 1))
        high = np.where(np.equal(alarms, runs), 1.0, beta.ppf(1 - part, alarms + 1, runs - alarms))
    return low, high


def audit_samples(
    fit_sample: Callable[[Any, int], Any],
    table: Any,
    neighbour: Any,
    *,
    claim: Claim | Guarantee | Iterable[Event],
    statistic: Callable[[Any], float] | None = None,
    trials: int = 400,
    confidence: float = 0.95,
    subject: str = "samples",
) -> Audit:
    """Return how well two neighbours are told apart by synthetic samples.

    Parameters
    ----------
    fit_sample : callable
        ``fit_sample(table, seed)`` fits whatever is audited and returns a synthetic frame.
    table, neighbour : Table or pandas frame
        Two neighbours; the last row of the second is the one that the first lacks.
    claim : Claim, Guarantee or events
        What was claimed: ``Claim(((epsilon, delta),))``, say.
    statistic : callable, optional
        A number for a sample, large where the row seems to be present. By default a logistic
        regression, learned on the first half of the runs from how much of a sample agrees with the
        row.
    trials : int, default 400
        Runs on each table.
    confidence : float, default 0.95
        Of the lower bound on mu.
    subject : str
        Public name, for reports.

    Returns
    -------
    Audit
        A low bound proves nothing: a sample may hide what its library leaks elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.testing import Claim, audit_samples, canary, TINY
    >>> def bootstrap(frame, seed):  # no privacy at all
    ...     return frame.sample(len(frame), replace=True, random_state=seed)
    >>> frames = [table.to_native("pandas") for table in canary(TINY, 12)]
    >>> audit_samples(bootstrap, *frames, claim=Claim(((0.5, 0.0),)), trials=200).flagged
    True
    """
    if trials < 20:
        raise ParameterError("an audit needs at least 20 trials")
    one, other = (t.to_native("pandas") if isinstance(t, Table) else t for t in (table, neighbour))
    seen: list[list[Any]] = [[], []]
    for number in range(trials):
        for side, rows in enumerate((one, other)):
            seen[side].append(fit_sample(rows, 2 * number + side))
    if statistic is None:
        agreed = [np.array([_agreement(s, other.iloc[-1]) for s in samples]) for samples in seen]
        absent, present = _learned(agreed[0], agreed[1])
    else:
        absent, present = (np.array([float(statistic(s)) for s in side]) for side in seen)
    claimed = claim if isinstance(claim, Claim) else Claim.of(claim)
    return judge(present, absent, claimed, confidence=confidence, subject=subject)


def _agreement(sample: Any, row: Any) -> list[float]:
    """How much of a sample agrees with a row, cell by cell and as a whole, and its size."""
    frame = sample.to_native("pandas") if isinstance(sample, Table) else sample
    agrees = np.column_stack(
        [
            (frame[name].isna() if _is_missing(row[name]) else frame[name] == row[name])
            .fillna(False)
            .to_numpy(dtype=bool)
            for name in row.index
        ]
    )
    size = max(1, len(agrees))
    whole = float(agrees.all(axis=1).sum())
    return [*(agrees.sum(axis=0) / size), whole / size, float(whole > 0), math.log(size)]


def _is_missing(cell: Any) -> bool:
    return cell is None or bool(cell != cell) if not hasattr(cell, "__len__") else False


def _learned(
    absent: NDArray[np.float64], present: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of the second half of the runs, by a classifier of the first."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    half = len(absent) // 2
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    truth = np.repeat([0, 1], half)
    model.fit(np.concatenate([absent[:half], present[:half]]), truth)
    return model.decision_function(absent[half:]), model.decision_function(present[half:])
