"""All checks of a synthesizer, and audits in which the attacker sees every answer of the door.

No test tells two tables apart better than the ratio of the likelihoods of what was seen (Neyman and
Pearson 1933). The exact numbers behind each answer are known for both tables, since its answers on
one are repeated on the other; so the ratio is the product of the ratios of the laws.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, Guarantee, ZCDPEvent, epsilon_of, releases
from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.claims import Audit, Claim, gaussian_of, judge
from missdp.testing.findings import (
    Differs,
    Enough,
    Finding,
    Recorder,
    Repeater,
    Report,
    examine,
    expect,
)
from missdp.testing.habits import HABITS
from missdp.testing.interference import interference_of
from missdp.testing.made_up import RULED, TINY, canary
from missdp.testing.ruled import RULES
from missdp.testing.sensitivity import log_ratio, sensitivity_of
from missdp.testing.subject import Run, Subject, subjects

__all__ = ["audit", "audit_synthesizer", "check_habits", "check_synthesizer"]


def check_habits(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    habits: Iterable[str] | None = None,
) -> Report:
    """Check parameters, budgets, output, saving and refusals of a family.

    Parameters
    ----------
    family, parameters, strategies, schema
        See `check_synthesizer`.
    habits : iterable of str, optional
        Names of those to check (see ``HABITS``); all by default.

    Returns
    -------
    Report

    Raises
    ------
    CheckFailedError
        If the family does not have one of them.

    Examples
    --------
    >>> from missdp.testing import check_habits, examples
    >>> print(check_habits(examples.Histograms, strategies=["joint"], habits=["save_and_load"]))
    Histograms: 1 promise checked, all kept
    ok     habits: A saved model draws the same rows ... [joint]
    """
    found = [
        finding
        for on in subjects(family, parameters, strategies, schema)
        for finding in habits_of(on, habits)
    ]
    return Report(family.__name__, tuple(found)).checked()


def habits_of(on: Subject, habits: Iterable[str] | None = None) -> list[Finding]:
    """Return what was found for one strategy."""
    return [
        examine("habits", _promise(habit), on.case, partial(_in_folder, habit, on))
        for habit in (HABITS[name] for name in (HABITS if habits is None else habits))
    ]


def rules_of(on: Subject, rules: Iterable[str] | None = None) -> list[Finding]:
    """Return what was found for one strategy, on tables with kinds of missing and rules."""
    return [
        examine("rules", _promise(rule), on.case, partial(_in_folder, rule, on))
        for rule in (RULES[name] for name in (RULES if rules is None else rules))
    ]


def _promise(habit: FunctionType) -> str:
    return (habit.__doc__ or habit.__name__).split("\n")[0].rstrip(".")


def _in_folder(habit: FunctionType, on: Subject) -> None:
    """Run a habit, with an empty folder of its own if it takes one."""
    with tempfile.TemporaryDirectory() as folder:
        habit(*(on, Path(folder))[: habit.__code__.co_argcount])


def check_synthesizer(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    trials: int = 12,
    audit_trials: int = 100,
    seed: int = 0,
) -> Report:
    """Run every check on a synthesizer: habits, non-interference, sensitivity, rules and an audit.

    Run it on tables that are made up, which is what it does by itself: reports show exact numbers.

    Parameters
    ----------
    family : type of Synthesizer
    parameters : mapping, optional
        Of the family, beside the strategy: whatever makes its fits quick.
    strategies : iterable of str, optional
        Those to check; by default all that the family lists.
    schema : Schema, optional
        Of the tables that are made up; at least one attribute must be nullable. By default the
        kit has two: ``SCHEMA``, and ``RULED`` with kinds of missing and rules.
    trials : int, default 12
        Pairs of neighbours for the check of sensitivities.
    audit_trials : int, default 100
        Runs of the audit on each of two tables; 0 leaves it out. More find smaller mistakes.
    seed : int, default 0

    Returns
    -------
    Report
        Prints as a table of everything that was checked.

    Raises
    ------
    CheckFailedError
        If any promise is not kept: it lists all of them, and what to do.

    Examples
    --------
    >>> from missdp.errors import CheckFailedError
    >>> from missdp.testing import check_synthesizer, examples
    >>> try:
    ...     check_synthesizer(examples.ReadingTwice, strategies=["joint"])
    ... except CheckFailedError as error:
    ...     print(error)
    ReadingTwice does not keep ... promises:
    - FAILED sensitivity: each charge pays for one read [joint]: ...
    """
    found: list[Finding] = []
    for on in subjects(family, parameters, strategies, schema):
        found += habits_of(on)
        found += interference_of(on)
        found += sensitivity_of(on, trials, seed)
        if audit_trials:
            found.append(_audited(on, audit_trials, seed))
        if on.has_rules:
            found += rules_of(on)
        elif schema is None:
            found += _under_rules(replace(on, schema=RULED), trials, seed)
    return Report(family.__name__, tuple(found)).checked()


# What could depend on kinds and rules; everything else was checked without them.
_RULED_HABITS = ("charged_before_reading", "gates", "keeping_holes", "streaming")
_RULED_PAIRS = ("one hole", "rows as they came", "kinds of holes")


def _under_rules(on: Subject, trials: int, seed: int) -> list[Finding]:
    """Return what was found on tables with kinds of missing and rules, beside those without."""
    return [
        *rules_of(on),
        *habits_of(on, _RULED_HABITS),
        *interference_of(on, _RULED_PAIRS),
        *sensitivity_of(on, max(4, trials // 2), seed),
    ]


def _audited(on: Subject, trials: int, seed: int) -> Finding:
    tiny = Subject(
        on.family, on.strategy, {k: v for k, v in on.parameters.items() if k != "epsilon"}, TINY
    )

    def run() -> str:
        found = audit_subject(tiny, None, trials, seed=seed)
        expect(not found.flagged, f"{found}. Charge for what is released, or add more noise")
        return str(found).partition(": ")[2]

    return examine("audit", "an attacker finds no more than was charged for", on.strategy, run)


_PILOTS = 2


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
