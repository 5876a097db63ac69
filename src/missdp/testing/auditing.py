"""Audits with power: the attacker sees every answer of the door and uses the likelihood ratio.

No test tells two tables apart better than the ratio of the likelihoods of what was seen (Neyman &
Pearson 1933). The exact numbers behind each answer are known for both tables, since its answers on
one are repeated on the other; so the ratio is the product of the ratios of the laws.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from missdp.accounting import Event, Guarantee, ZCDPEvent, epsilon_of, releases
from missdp.errors import ParameterError
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.claims import Claim, gaussian_of
from missdp.testing.record import Differs, Enough, Recorder, Repeater
from missdp.testing.sensitivity import log_ratio
from missdp.testing.subject import TINY, Run, Subject, canary, subjects

__all__ = ["Audit", "audit", "audit_synthesizer", "judge"]

_PILOTS = 2


@dataclass(frozen=True)
class Audit:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as JSON-ready values."""
        return {**asdict(self), "ratio": self.ratio}


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
    """Return how well an attacker who sees every answer tells two neighbours apart.

    Parameters
    ----------
    run : callable
        ``run(witness, table)`` does whatever is audited, with the witness as its noise
        (``random_state=witness``): a fit, a statistic, a private estimator. It is stopped after its
        last answer.
    table, neighbour
        Two neighbouring inputs.
    claim : Claim, Guarantee or events, optional
        What was claimed. By default what was charged for the answers: as a fixed composition if all
        runs were charged the same, and by the squares of mus otherwise.
    trials : int, default 400
        Runs on each table. Each takes two: one to be answered, one to learn what the answers would
        have been drawn from on the other table.
    scale : float, default 1.0
        Draw noise with so many times its scale. An audit of a sound ``run`` with 0.7 shows that the
        audit has power: it should be flagged.
    confidence : float, default 0.95
        Of the lower bound.
    seed : int, default 0
    subject : str
        Public name, for reports.

    Returns
    -------
    Audit

    Examples
    --------
    >>> from missdp.testing import audit, canary, examples, TINY
    >>> def fit(witness, table):
    ...     examples.Histograms(epsilon=2.0, random_state=witness).fit(table)
    >>> found = audit(fit, *canary(TINY, 12), trials=40)
    >>> found.flagged
    False
    """
    _check(trials, confidence, scale)
    attacker = _Attacker(run, (table, neighbour), scale, seed)
    ratios = [attacker.ratios(side, trials) for side in (0, 1)]
    if claim is None:
        claimed = attacker.charged()
    else:
        claimed = claim if isinstance(claim, Claim) else Claim.of(claim)
    found = judge(ratios[1], ratios[0], claimed, confidence=confidence, subject=subject)
    return replace(found, blind=tuple(sorted(attacker.blind)))


class _Attacker:
    """Runs on either table, with the log likelihood ratio of all answers."""

    def __init__(self, run: Run, tables: tuple[Any, Any], scale: float, seed: int) -> None:
        self.run, self.tables, self.scale, self.seed = run, tables, scale, seed
        self.blind: set[str] = set()
        self.events: set[tuple[tuple[Event, int], ...]] = set()
        self.stop_after: int | None = None
        pilots = [self.recorded(side, -1 - k) for side in (0, 1) for k in range(_PILOTS)]
        # An attacker may look at the first answers only; where all runs have as many, at all.
        self.stop_after = max(len(kept.kept) for kept in pilots)

    def recorded(self, side: int, number: int) -> Recorder:
        """Answer a run on one of the tables."""
        mixed = np.random.SeedSequence([self.seed, side, number % 2**32])
        kept = Recorder(
            int(mixed.generate_state(1, np.uint64)[0] >> 1),
            scale=self.scale,
            stop_after=self.stop_after,
        )
        self._stopped(kept, self.tables[side])
        bare = Counter(replace(answer.event, label="", gate=None) for answer in kept.kept)
        self.events.add(tuple(sorted(bare.items(), key=repr)))
        return kept

    def _stopped(self, witness: Recorder, table: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of small tables and large epsilons
                self.run(witness, table)
        except Enough:
            pass

    def ratios(self, side: int, trials: int) -> NDArray[np.float64]:
        """Log likelihood of the neighbour less that of the table, for runs on one of them."""
        return np.array([self.ratio(side, number) for number in range(trials)])

    def ratio(self, side: int, number: int) -> float:
        kept = self.recorded(side, number)
        sign = 1.0 if side else -1.0
        again = Repeater(kept)
        try:
            self._stopped(again, self.tables[1 - side])
            gives_away = len(again.kept) != len(kept.kept)
        except Differs:
            gives_away = True
        if gives_away:  # the other table asks something else: it cannot have been that one
            return sign * math.inf
        total = 0.0
        for here, there in zip(kept.kept, again.kept, strict=True):
            if not hasattr(here.law, "log_ratio"):
                self.blind.add(type(here.law).__name__)
            total += log_ratio(here.law, here.released, here.exact, there.exact)
        return sign * total

    def charged(self) -> Claim:
        """What was charged for the answers."""
        lists = [[e for event, times in found for e in [event] * times] for found in self.events]
        if len(lists) == 1:
            return Claim.of(lists[0])
        return Claim((), max(gaussian_of(events) for events in lists))


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
    """Return an audit of each strategy of a family.

    Parameters
    ----------
    family : type of Synthesizer
    parameters : mapping, optional
        Of the family. Without an epsilon among them one is chosen at which audits have most power,
        mu near 2; it does not matter to what is audited.
    strategies : iterable of str, optional
        Those to audit; by default all that the family lists.
    tables : pair of Table, optional
        Two neighbours, the larger second. By default twelve equal rows, and a row that differs.
    trials, scale, confidence, seed
        See `audit`.

    Returns
    -------
    dict of str to Audit
        By strategy. What is claimed is what was charged for the answers, or the guarantee if that
        claims less.

    Examples
    --------
    >>> from missdp.testing import audit_synthesizer, examples
    >>> found = audit_synthesizer(examples.Histograms, strategies=["joint"], trials=40)
    >>> found["joint"].flagged
    False
    """
    _check(trials, confidence, scale)
    return {
        on.strategy: audit_subject(on, tables, trials, scale, confidence, seed)
        for on in subjects(family, parameters, strategies, TINY)
    }


def audit_subject(
    on: Subject,
    tables: tuple[Table, Table] | None,
    trials: int,
    scale: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Return the audit of one strategy."""
    if "epsilon" not in on.parameters:
        on = on.with_parameters(epsilon=_telling_epsilon(on.delta))
    table, neighbour = tables or canary(TINY, 12)

    def run(witness: Recorder, rows: Table) -> None:
        on.build(random_state=witness).fit(rows)

    attacker = _Attacker(run, (table, neighbour), scale, seed)
    ratios = [attacker.ratios(side, trials) for side in (0, 1)]
    claim = attacker.charged().and_also(_stated(on, table))
    subject = f"{on.family.__name__}, {on.strategy}"
    found = judge(ratios[1], ratios[0], claim, confidence=confidence, subject=subject)
    return replace(found, blind=tuple(sorted(attacker.blind)))


def _stated(on: Subject, table: Table) -> Claim:
    """What the guarantee of a fit states, and, in case answers were not paid for, what was paid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = Recorder(0)
        guarantee = on.build(random_state=kept).fit(table).guarantee_
    stated, charged = Claim.of(guarantee), releases(guarantee.events)
    if len(charged) < len(kept.kept):
        return stated.and_also(Claim.of(charged))
    return stated


def _telling_epsilon(delta: float) -> float:
    """The epsilon at which mu is near 2, and few runs refute noise that is too small."""
    return 3.0 if delta == 0 else epsilon_of(ZCDPEvent(rho=2.0), delta)


def _check(trials: int, confidence: float, scale: float) -> None:
    if trials < 20:
        raise ParameterError("an audit needs at least 20 trials")
    if not 0 < confidence < 1 or not scale > 0:
        raise ParameterError("confidence must be in (0, 1), and scale above 0")
