"""Non-interference: whatever a fit shows was answered.

The answers of a fit on one table are kept and repeated during a fit on another. Model, samples,
saved file, messages, warnings, refusals and what is left outside the model must then be the same,
bit by bit: what differs came from the rows by another way. How long a fit takes is not compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.look import differences, outcome, outside_state
from missdp.testing.record import Differs, Recorder, Repeater
from missdp.testing.results import Finding, Report, examine, expect
from missdp.testing.subject import Guarded, Subject, subjects
from missdp.testing.tables import with_a_hole

__all__ = ["PAIRS", "check_non_interference", "interference_of"]

_CHECK = "non-interference"
_WHAT = "whatever a fit shows was answered"
_ADVICE = (
    "release it through the door's answers, or leave it out; state outside the model must not "
    "change with a fit"
)


def check_non_interference(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    pairs: Iterable[str] | None = None,
) -> Report:
    """Check that a fit shows nothing of the rows but what it was answered.

    Parameters
    ----------
    family : type of Synthesizer
    parameters : mapping, optional
        Of the family, beside the strategy.
    strategies : iterable of str, optional
        Those to check; by default all that the family lists.
    schema : Schema, optional
        Of the tables that are made up; at least one attribute must be nullable.
    pairs : iterable of str, optional
        Which pairs of tables (see ``PAIRS``); all by default.

    Returns
    -------
    Report

    Raises
    ------
    CheckFailedError
        If something else of the rows is seen.

    Examples
    --------
    >>> from missdp.testing import check_non_interference, examples
    >>> report = check_non_interference(examples.Histograms, strategies=["joint"])
    >>> len(report.findings)
    6
    """
    found = [
        finding
        for on in subjects(family, parameters, strategies, schema)
        for finding in interference_of(on, pairs)
    ]
    return Report(family.__name__, tuple(found)).checked()


def _tables(on: Subject) -> dict[str, tuple[Table, Table]]:
    usual = on.table(300)
    return {
        "two tables": (usual, on.table(250, seed=1)),
        "one hole": (usual, with_a_hole(usual)),
        "full and empty": (on.table(60, seed=2), on.table(0)),
        "one row and none": (on.table(1), on.table(0)),
        "constant columns": (on.constant(200), usual),
    }


PAIRS = ("two tables", "one hole", "full and empty", "one row and none", "constant columns")


def interference_of(on: Subject, pairs: Iterable[str] | None = None) -> list[Finding]:
    """Return what was found for one strategy."""
    tables, wanted = _tables(on), tuple(PAIRS if pairs is None else pairs)
    found = [
        examine(_CHECK, _WHAT, f"{on.strategy}, {name}", partial(compare, on, *tables[name]))
        for name in wanted
    ]
    what = "repeated answers read nothing"
    other = on.table(250, seed=1)
    found.append(examine(_CHECK, what, on.strategy, partial(reads_nothing, on, on.table(), other)))
    return found


def compare(on: Subject, one: Table, other: Table) -> str:
    """Compare what is seen of a table with what is seen of another, given the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Recorder(0)
        first = outcome(on.build(random_state=kept), one, Path(folder))
        before = outside_state(on.family)
        again = Repeater(kept)
        second = outcome(on.build(random_state=again), other, Path(folder))
        after = outside_state(on.family)
    asked_more = second["refusal of fit"].startswith(Differs.__name__)
    expect(not asked_more, f"questions depend on more than answers: {second['refusal of fit']}")
    seen = [*differences(first, second), *differences(before, after)]
    if len(again.kept) != len(kept.kept):
        seen.insert(0, "number of questions")
    expect(
        not seen, f"differs with the rows: {', '.join(seen[:6])}{_copied(seen, kept)}. {_ADVICE}"
    )
    return f"{len(kept.kept)} answers, {len(first)} facts"


def _copied(seen: list[str], kept: Recorder) -> str:
    """Say whose exact numbers were seen; there is nothing to say if the difference is no array."""
    arrays = any(name.startswith("attribute") for name in seen)
    labels = {a.event.label for a in kept.kept if isinstance(a.exact, np.ndarray)}
    return f" (exact numbers of {sorted(labels)} were at hand)" if arrays and labels else ""


def reads_nothing(on: Subject, one: Table, other: Table) -> str:
    """Repeat answers without computing what is behind them."""
    kept = Recorder(0)
    on.build(random_state=kept).fit(Guarded(one, kept))
    again = Repeater(kept, reads=False)
    rows = Guarded(other, again)
    on.build(random_state=again).fit(rows)
    expect(not rows.reads, f"rows were read {rows.reads} times without an answer")
    expect(len(again.kept) == len(kept.kept), "fewer questions were asked")
    return f"{len(kept.kept)} answers"
