"""Exact sensitivity: exact numbers move by at most the sensitivity that the charge declares.

A run on a table is answered, and its answers are repeated for a neighbour, so that both have the
same questions. Then the exact numbers behind each answer are compared, by the mechanism that drew
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from missdp.accounting import (
    ApproximateEvent,
    Composition,
    Event,
    Filter,
    FilterEvent,
    Guarantee,
    RDPEvent,
    SampledGaussianEvent,
    ZCDPEvent,
    releases,
)
from missdp.errors import UnprovenError
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.example_tables import SCHEMA, Codes, neighbours
from missdp.testing.findings import (
    Finding,
    Report,
    Run,
    Subject,
    UncheckedPromise,
    examine,
    expect,
    is_run,
    is_same,
    list_subjects,
    name_of,
)
from missdp.testing.interference import interference_of
from missdp.testing.recording import (
    UNANSWERED,
    Answer,
    RecordingNoise,
    ReplayedNoise,
    StopRecording,
    fitted_inside,
)
from missdp.testing.undercharges import undercharges

_CHECK = "sensitivity"
_SENSITIVITY = "one row moves what is behind a charge by at most its sensitivity"
_CHARGES = "each charge pays for one read"


def check_sensitivity(
    subject: type[Synthesizer] | Run,
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    pairs: Iterable[tuple[Any, ...]] | None = None,
    trials: int = 20,
    seed: int = 0,
) -> Report:
    """Check that one row changes exact numbers by at most their declared sensitivity.

    Neighbouring example tables are drawn at random. The additional row has missing cells in every
    other pair. A row with a missing cell in a required attribute of a charge must change nothing.
    There must be as many reads of the rows as charges, in their order, and a fit must not read rows
    in between. If the schema declares a unit of protection (all rows of one person), neighbours
    differ by all rows of one unit. They may change numbers by the largest number of rows of a unit
    times the allowed change of one row. Never run it on private rows.

    `undercharges` states the allowed change for each mechanism. A mechanism that it does not know
    fails, and a mechanism that cannot be checked is listed as not checked.

    Parameters
    ----------
    subject : type of Synthesizer, or callable
        Class of a synthesizer, or ``run(table)``, which opens a session and lets it answer. If
        it returns the budget that it charged, or a fitted model with a guarantee, charges are
        compared with answers, too.
    parameters : mapping of str to object, optional
        Parameters of a synthesizer except the strategy.
    strategies : iterable of str, optional
        Missing-data strategies of a synthesizer to check. By default all strategies.
    schema : Schema, optional
        Schema of the example tables, ``SCHEMA`` by default.
    pairs : iterable of tuple, optional
        Neighbours for a function, instead of example tables. A pair is (table, neighbour). With
        (table, neighbour, row), as `neighbours` yields them, required attributes are checked
        too.
    trials : int, default 20
        Number of pairs of neighbours for each strategy, at least 1.
    seed : int, default 0
        Seed of tables and noise, at least 0.

    Returns
    -------
    Report
        Findings on sensitivities and on charges, for each strategy.

    Raises
    ------
    CheckFailedError
        If a promise is not kept. The message lists the failures with remedies.
    ParameterError
        If the subject is neither a class of synthesizers nor a function, lacks a strategy, or
        options of a synthesizer are given for a function.

    Notes
    -----
    A report without failures is no proof: other pairs of tables may change numbers further.

    Examples
    --------
    >>> from missdp.testing import check_sensitivity
    >>> from missdp import PrivBayes
    >>> check_sensitivity(PrivBayes, strategies=["observed"], trials=4).passed
    True
    """
    if is_run(subject, parameters=parameters, strategies=strategies):
        neighbouring = neighbours(schema or SCHEMA, trials, seed) if pairs is None else pairs
        run: Any = subject
        compared = _Compared(lambda _noise, rows: run(rows), name_of(run), seed)
        findings = compared.findings(neighbouring)
        return Report(name_of(subject), tuple(findings)).checked()
    cases = list_subjects(subject, parameters, strategies, schema)  # type: ignore[arg-type]
    findings = [f for on in cases for f in _sensitivity_of(on, trials, seed, paid_on=on.table(120))]
    return Report(subject.__name__, tuple(findings)).checked()


def _sensitivity_of(
    on: Subject, trials: int, seed: int, *, paid_on: Table | None = None
) -> list[Finding]:
    """Return findings on sensitivities, and on the charge of each read."""
    compared = _Compared(partial(fitted_inside, on), on.case, seed)
    return compared.findings(neighbours(on.schema, trials, seed), paid_on)


def answers_of(on: Subject, pairs: Iterable[str] | None, trials: int, seed: int) -> list[Finding]:
    """Return the findings of non-interference and sensitivity, in one pass.

    Parameters
    ----------
    on : Subject
        A family with one strategy.
    pairs : iterable of str or None
        Names of pairs of tables for non-interference.
    trials : int
        Number of neighbours.
    seed : int
        Seed of tables and noise.

    Returns
    -------
    list of Finding
        Findings of both checks.
    """
    findings, runs = interference_of(on, pairs)
    compared = _Compared(partial(fitted_inside, on), on.case, seed, runs)
    return findings + compared.findings(neighbours(on.schema, trials, seed))


@dataclass
class _Compared:
    """Runs on neighbours, and mechanisms that could not be compared."""

    run: Callable[[RecordingNoise, Any], Any]
    case: str
    seed: int
    runs: list[tuple[RecordingNoise, Any]] = field(default_factory=list)  # with their return values
    answers: int = 0
    unchecked: dict[str, str] = field(default_factory=dict)

    def findings(self, pairs: Iterable[tuple[Any, ...]], paid_on: Any = None) -> list[Finding]:
        """Return findings of comparisons, of mechanisms without a comparison, and of charges."""
        finding = examine(_CHECK, _SENSITIVITY, self.case, partial(self._over, pairs))
        rest = [
            Finding(_CHECK, _SENSITIVITY, f"{self.case}, {mechanism}", False, why, checked=False)
            for mechanism, why in self.unchecked.items()
        ]
        pays = examine(_CHECK, _CHARGES, self.case, partial(self._paid, paid_on))
        return [*([] if finding.passed and not self.answers else [finding]), *rest, pays]

    def recorded(self, table: Any) -> RecordingNoise:
        """Return the answers of a run on a table."""
        with RecordingNoise(self.seed + len(self.runs)) as noise:
            self.runs.append((noise, self.run(noise, table)))
        return noise

    def _over(self, pairs: Iterable[tuple[Any, ...]]) -> str:
        for table, neighbour, *row in pairs:
            noise = self.recorded(table)
            # After the last answer everything is post-processing.
            noise.stop_after = len(noise.answers) or None
            again = ReplayedNoise(noise)
            with suppress(StopRecording), again:
                self.run(again, neighbour)
            for before, after in zip(noise.answers, again.answers, strict=True):
                if row:
                    _check_required(before, after, table, row[0])
                self._compare(before, after, _max_rows(table))
        expect(self.answers or self.unchecked, UNANSWERED)
        return f"{self.answers} answers of neighbours compared"

    def _compare(self, before: Answer, after: Answer, rows: int) -> None:
        mechanism, name = type(before.mechanism).__name__, _name(before.event)
        event = _of_unit(before.event, rows)
        try:
            why = undercharges(before.mechanism, event, before.exact, after.exact)
        except UnprovenError as error:
            self.unchecked[mechanism] = str(error)
            return
        expect(why is None, f"{name}: {why}. Declare a larger sensitivity, or add more noise")
        self.answers += 1

    def _paid(self, also: Any) -> str:
        """Compare the answers of every run with its charges, of one on another table, too."""
        if also is not None:
            self.recorded(also)
        expect(self.runs, UNANSWERED)
        for noise, result in self.runs:
            expect(
                not noise.outside_reads,
                f"rows were read {noise.outside_reads} times outside of an answer. Read them only "
                "in a function that the session calls",
            )
            events = _events_of(result)
            charged = [paid for event in releases(events) for paid in _steps(event)]
            answered = [answer.event for answer in noise.answers]
            _expect_paid(answered, charged)
            if len(answered) == len(charged):
                _expect_order(answered, events)
        return f"{len(answered)} answers, {len(releases(events))} charges"


def _check_required(before: Answer, after: Answer, table: Table, row: Codes) -> None:
    required, schema = before.event.required or frozenset(), table.schema
    is_missing = [row[n] >= schema[n].missing_code for n in required if n in schema]
    if is_missing and np.any(is_missing, axis=0).all():
        expect(
            is_same(before.exact, after.exact),
            f"{_name(before.event)} requires {sorted(required)}, and reads a row where one is "
            "missing. Count rows that observe all of them, or charge without the requirement",
        )


def _max_rows(table: Any) -> int:
    unit = table.schema.unit if isinstance(table, Table) else None
    return unit.max_rows if unit else 1


def _of_unit(event: Event, rows: int) -> Event:
    """Return the sum of so many charges for one row, as far as sensitivities depend on it."""
    together = {"sensitivity": rows, "epsilon": rows, "rho": rows**2}
    names = together.keys() & {f.name for f in fields(event)}
    facts: dict[str, Any] = {name: getattr(event, name) * together[name] for name in names}
    return replace(event, **facts)


def _name(event: Event) -> str:
    return f"{type(event).__name__} {event.label!r}"


def _events_of(result: Any) -> tuple[Event, ...]:
    """Return the events of the budget or guarantee that a run returned."""
    for holder in (result, getattr(result, "guarantee_", None), getattr(result, "budget", None)):
        if isinstance(holder, Composition | Filter | Guarantee):
            return tuple(holder.events)
    raise UncheckedPromise(
        "charges are not known. Let the function return the budget that it charged, or a fitted "
        "model with guarantee_"
    )


def _steps(event: Event) -> list[Event]:
    """Return the events of the answers of a charge: one for each step of a training."""
    if isinstance(event, SampledGaussianEvent):
        return [replace(event, steps=1, required=None, label="")] * event.steps
    # The chance that a bound fails costs, and has no answer.
    return [] if isinstance(event, ApproximateEvent) and event.epsilon == 0 else [event]


def _expect_paid(answered: list[Event], charged: list[Event]) -> None:
    """Raise BrokenPromise for answers without a charge of their own."""
    unpaid = Counter(answered) - Counter(charged)
    # One charge may pay for several answers, as for noisy gradients.
    several = [e in charged and e.adjacency == "replace-one" for e in unpaid]
    if unpaid and all(several) and all(isinstance(e, RDPEvent | ZCDPEvent) for e in unpaid):
        raise UncheckedPromise(
            f"{len(answered)} answers rest on {len(charged)} charges. Prove that one charge pays "
            "for several answers"
        )
    expect(
        not unpaid,
        f"{len(answered)} answers were computed, and {len(charged)} were charged for. Charge for "
        f"each. Without a charge: {sorted({_name(event) for event in unpaid})}",
    )


def _expect_order(answered: list[Event], events: Sequence[Event]) -> None:
    """Raise BrokenPromise for answers in another order than the charges of any budget."""
    for log in _logs(events):
        rest = iter(answered)
        expect(
            all(any(step == event for event in rest) for e in log for step in _steps(e)),
            "answers were computed in another order than they were charged for. Charge for each "
            "just before it is computed",
        )


def _logs(events: Sequence[Event]) -> list[list[Event]]:
    """Return the charges of each budget in order, reserved parts by themselves."""
    parts = [event for event in events if isinstance(event, FilterEvent)]
    direct = [event for event in events if not isinstance(event, FilterEvent)]
    return [direct, *(log for part in parts for log in _logs(part.log))]
