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
from missdp.testing.look import Facts, differences, outcome, outcome_of_run, outside_state
from missdp.testing.record import Differs, Recorder, Repeater
from missdp.testing.results import Finding, Report, examine, expect
from missdp.testing.subject import Guarded, Run, Subject, is_run, name_of, subjects
from missdp.testing.tables import SCHEMA, constant, made_up, with_a_hole

__all__ = ["PAIRS", "check_non_interference", "interference_of"]

_CHECK = "non-interference"
_WHAT = "whatever a fit shows was answered"
_ADVICE = (
    "release it through the door's answers, or leave it out; state outside the model must not "
    "change with a fit"
)


def check_non_interference(
    subject: type[Synthesizer] | Run,
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    pairs: Iterable[str] | None = None,
    tables: Mapping[str, tuple[Any, Any]] | None = None,
) -> Report:
    """Check that a fit, or anything else, shows nothing of the rows but what it was answered.

    Parameters
    ----------
    subject : type of Synthesizer, or callable
        A family, or ``run(witness, table)``: whatever answers through a door, with the witness as
        its noise (``random_state=witness``). All that it returns is compared, hidden attributes
        too: return what others get to see, and not the door.
    parameters : mapping, optional
        Of a family, beside the strategy.
    strategies : iterable of str, optional
        Those of a family to check; by default all that it lists.
    schema : Schema, optional
        Of the tables that are made up; at least one attribute must be nullable.
    pairs : iterable of str, optional
        Which pairs of tables (see ``PAIRS``); all by default.
    tables : mapping of str to pair, optional
        Pairs of tables for a function, by name, instead of those that are made up.

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
    if is_run(subject, parameters=parameters, strategies=strategies):
        known = _chosen(_tables(schema or SCHEMA), pairs) if tables is None else tables
        return Report(name_of(subject), tuple(_of_run(subject, known))).checked()
    found = [
        finding
        for on in subjects(subject, parameters, strategies, schema)  # type: ignore[arg-type]
        for finding in interference_of(on, pairs)
    ]
    return Report(subject.__name__, tuple(found)).checked()


def _tables(schema: Schema) -> dict[str, tuple[Table, Table]]:
    usual, other = made_up(schema, 300, 0), made_up(schema, 250, 1)
    return {
        "two tables": (usual, other),
        "one hole": (usual, with_a_hole(usual)),
        "full and empty": (made_up(schema, 60, 2), made_up(schema, 0, 0)),
        "one row and none": (made_up(schema, 1, 0), made_up(schema, 0, 0)),
        "constant columns": (constant(schema, 200), usual),
    }


def _chosen(
    tables: Mapping[str, tuple[Any, Any]], pairs: Iterable[str] | None
) -> dict[str, tuple[Any, Any]]:
    return {name: tables[name] for name in (PAIRS if pairs is None else pairs)}


def _of_run(run: Run, tables: Mapping[str, tuple[Any, Any]]) -> list[Finding]:
    """Return what was found for a function."""
    what, compared = "whatever a call shows was answered", partial(_compare_run, run)
    return [
        examine(_CHECK, what, f"{name_of(run)}, {name}", partial(compared, *pair))
        for name, pair in tables.items()
    ]


def _compare_run(run: Run, one: Any, other: Any) -> str:
    kept = Recorder(0)
    first, before = outcome_of_run(run, kept, one), outside_state(run)
    expect(
        kept.kept or first["refusal"],
        "nothing was answered: hand the witness on, as random_state, to what draws the noise",
    )
    found = ""
    for reads in (True, False):  # without reading rows, too
        again = Repeater(kept, reads=reads)
        second, after = outcome_of_run(run, again, other), outside_state(run)
        found = found or _seen(kept, again, first, second, before, after, second["refusal"])
    expect(not found, found)
    return f"{len(kept.kept)} answers, {len(first)} facts"


def _seen(
    kept: Recorder,
    again: Repeater,
    first: Facts,
    second: Facts,
    before: Facts,
    after: Facts,
    refusal: str,
) -> str:
    """Say what differs, if anything does."""
    if refusal.startswith(Differs.__name__):
        return (
            f"questions depend on more than answers: {refusal}. Choose what to ask, and with how "
            "much noise, from public facts and released values only"
        )
    seen = [*differences(first, second), *differences(before, after)]
    if len(again.kept) != len(kept.kept):
        seen.insert(0, "number of questions")
    if not seen:
        return ""
    return f"differs with the rows: {', '.join(seen[:6])}{_copied(seen, kept)}. {_ADVICE}"


PAIRS = ("two tables", "one hole", "full and empty", "one row and none", "constant columns")


def interference_of(on: Subject, pairs: Iterable[str] | None = None) -> list[Finding]:
    """Return what was found for one strategy."""
    found = [
        examine(_CHECK, _WHAT, f"{on.strategy}, {name}", partial(compare, on, *tables))
        for name, tables in _chosen(_tables(on.schema), pairs).items()
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
    found = _seen(kept, again, first, second, before, after, second["refusal of fit"])
    expect(not found, found)
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
    expect(not rows.reads, f"rows were read {rows.reads} times without an answer. {_ADVICE}")
    expect(len(again.kept) == len(kept.kept), "fewer questions were asked")
    return f"{len(kept.kept)} answers"
