"""All checks of a synthesizer, one by one or together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.testing.auditing import audit_subject
from missdp.testing.habits import BUDGET_HABITS
from missdp.testing.habits_output import OUTPUT_HABITS
from missdp.testing.interference import interference_of
from missdp.testing.results import Finding, Report, examine, expect
from missdp.testing.sensitivity import sensitivity_of
from missdp.testing.subject import Subject, subjects
from missdp.testing.tables import TINY

__all__ = ["HABITS", "check_habits", "check_synthesizer"]

HABITS: dict[str, Callable[[Subject], None]] = {
    habit.__name__: habit for habit in (*BUDGET_HABITS, *OUTPUT_HABITS)
}


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
    family : type of Synthesizer
    parameters : mapping, optional
        Of the family, beside the strategy.
    strategies : iterable of str, optional
        Those to check; by default all that the family lists.
    schema : Schema, optional
        Of the tables that are made up; at least one attribute must be nullable.
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
    chosen = [HABITS[name] for name in (HABITS if habits is None else habits)]
    return [examine("habits", _promise(habit), on.strategy, partial(habit, on)) for habit in chosen]


def _promise(habit: Callable[[Subject], None]) -> str:
    return (habit.__doc__ or habit.__name__).split("\n")[0].rstrip(".")


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
    """Run every check on a synthesizer: habits, non-interference, sensitivity and an audit.

    Run it on tables that are made up, which is what it does by itself: reports show exact numbers.

    Parameters
    ----------
    family : type of Synthesizer
    parameters : mapping, optional
        Of the family, beside the strategy: whatever makes its fits quick.
    strategies : iterable of str, optional
        Those to check; by default all that the family lists.
    schema : Schema, optional
        Of the tables that are made up; at least one attribute must be nullable.
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
    return Report(family.__name__, tuple(found)).checked()


def _audited(on: Subject, trials: int, seed: int) -> Finding:
    tiny = Subject(
        on.family, on.strategy, {k: v for k, v in on.parameters.items() if k != "epsilon"}, TINY
    )

    def run() -> str:
        found = audit_subject(tiny, None, trials, seed=seed)
        expect(not found.flagged, f"{found}. Charge for what is released, or add more noise")
        return str(found).partition(": ")[2]

    return examine("audit", "an attacker finds no more than was charged for", on.strategy, run)
