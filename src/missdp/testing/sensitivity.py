"""Exact sensitivity: what is behind each charge moves by at most what the charge declares.

A fit on a table is answered, and its answers are repeated for the table with one row more, so that
both are asked the same. Then what was behind each answer can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from missdp.accounting import (
    Event,
    FilterEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    releases,
)
from missdp.mechanisms.answers import Best, Law
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.testing.record import Answer, Differs, Enough, Recorder, Repeater, same
from missdp.testing.results import Finding, Report, examine, expect
from missdp.testing.subject import Guarded, Subject, subjects
from missdp.testing.tables import Codes, neighbours

__all__ = ["check_sensitivity", "moved", "sensitivity_of"]

_ROUNDING = 1e-9


def check_sensitivity(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    trials: int = 20,
    seed: int = 0,
) -> Report:
    """Check that one row moves what is behind each charge by at most its declared sensitivity.

    Neighbours are made up at random; the row that one has more has holes in every other pair. A row
    with a hole in the gate of a charge must move nothing. There must be as many reads of the rows
    as charges, in their order, and none beside them.

    Parameters
    ----------
    family : type of Synthesizer
    parameters : mapping, optional
        Of the family, beside the strategy.
    strategies : iterable of str, optional
        Those to check; by default all that the family lists.
    schema : Schema, optional
        Of the tables that are made up.
    trials : int, default 20
        Pairs of neighbours for each strategy.
    seed : int, default 0
        Of the pairs.

    Returns
    -------
    Report

    Raises
    ------
    CheckFailedError
        If a row moves more than was declared, or rows are read without a charge.

    Examples
    --------
    >>> from missdp.testing import check_sensitivity, examples
    >>> report = check_sensitivity(examples.Histograms, strategies=["observed"], trials=4)
    >>> report.passed
    True
    """
    found = [
        finding
        for on in subjects(family, parameters, strategies, schema)
        for finding in sensitivity_of(on, trials, seed)
    ]
    return Report(family.__name__, tuple(found)).checked()


def sensitivity_of(on: Subject, trials: int, seed: int) -> list[Finding]:
    """Return what was found for one strategy."""
    what = "one row moves what is behind a charge by at most its sensitivity"
    return [
        examine("sensitivity", what, on.strategy, lambda: _over_neighbours(on, trials, seed)),
        examine("sensitivity", "each charge pays for one read", on.strategy, lambda: _reads(on)),
    ]


def _over_neighbours(on: Subject, trials: int, seed: int) -> str:
    compared = 0
    for number, (table, more, row) in enumerate(neighbours(on.schema, trials, seed)):
        kept = Recorder(seed + number)
        on.build(random_state=kept).fit(table)
        kept.stop_after = len(kept.kept)  # what follows the last answer is post-processing
        again = _repeated(on, kept, more)
        for before, after in zip(kept.kept, again.kept, strict=True):
            _compare(on, before, after, row)
            compared += 1
    return f"{compared} answers of {trials} pairs of neighbours compared"


def _repeated(on: Subject, kept: Recorder, table: Any) -> Repeater:
    again = Repeater(kept)
    try:
        on.build(random_state=again).fit(table)
    except Enough:
        pass
    except Differs as difference:
        expect(False, f"questions depend on more than answers: {difference}")
    return again


def _compare(on: Subject, before: Answer, after: Answer, row: Codes) -> None:
    event, name = before.event, f"{type(before.event).__name__} {before.event.label!r}"
    gate = event.gate or frozenset()
    if any(row[n][0] == on.schema[n].missing_code for n in gate if n in on.schema):
        expect(
            same(before.exact, after.exact),
            f"{name} declares the gate {sorted(gate)}, and reads a row with a hole in it",
        )
    found, most = moved(before, after)
    expect(
        found <= most * (1 + _ROUNDING),
        f"one row moves what is behind {name} by {found:g}, and {most:g} was charged for",
    )


def moved(before: Answer, after: Answer) -> tuple[float, float]:
    """Return how far what is behind an answer moved, and how far it may.

    L1 norm for Laplace, L2 for Gaussian noise. For the exponential mechanism twice the largest
    change of a score, which is at least the spread of the changes. For any other law of a pure
    event how far the log probability of the answer moved. (0, inf) if nothing is known.
    """
    event, law = before.event, before.law
    if isinstance(event, LaplaceEvent | GaussianEvent):
        change = (np.asarray(after.exact) - np.asarray(before.exact)).astype(np.float64).ravel()
        norm = 1 if isinstance(event, LaplaceEvent) else 2
        return float(np.linalg.norm(change, norm)), event.sensitivity
    if isinstance(law, Best) and isinstance(event, SelectionEvent):
        change = np.asarray(after.exact, dtype=np.float64) - np.asarray(before.exact)
        return 2 * float(np.abs(change).max(initial=0.0)), event.epsilon * law.scale
    if isinstance(event, PureEvent) and hasattr(law, "log_ratio"):
        return abs(log_ratio(law, before.released, before.exact, after.exact)), event.epsilon
    return 0.0, math.inf


def log_ratio(law: Law, released: Any, exact: Any, other: Any) -> float:
    """Return the law's own log ratio; nothing if it has none."""
    known = getattr(law, "log_ratio", None)
    return 0.0 if known is None else float(known(released, exact, other))


def _reads(on: Subject) -> str:
    kept = Recorder(1)
    rows = Guarded(on.table(120), kept)
    model = on.build(random_state=kept).fit(rows)
    expect(not rows.outside, f"rows were read {rows.outside} times outside of an answer")
    charged, answered = releases(model.guarantee_.events), [a.event for a in kept.kept]
    steps = sum(getattr(event, "steps", 1) for event in charged)
    expect(
        len(answered) == steps,
        f"{len(answered)} answers were computed, and {steps} were charged for: charge for each",
    )
    for log in _logs(model.guarantee_.events):
        rest = iter(answered)
        expect(
            all(any(event == found for found in rest) for event in log),
            "answers were computed in another order than they were charged for",
        )
    return f"{len(answered)} answers, {len(charged)} charges, {rows.reads} reads"


def _logs(events: Iterable[Event]) -> list[list[Event]]:
    """The charges of each budget by themselves, in order; a part that was reserved has its own."""
    mine: list[Event] = []
    others: list[list[Event]] = []
    for event in events:
        if isinstance(event, FilterEvent):
            others += _logs(event.log)
        else:
            mine.append(event)
    return [mine, *others]
