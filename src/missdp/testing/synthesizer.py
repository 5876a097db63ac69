"""All checks of a synthesizer, one by one or together.

Audits from samples alone: of any library, without a look inside, and without promised power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, Guarantee
from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.auditing import Audit, audit_subject, judge
from missdp.testing.claims import Claim
from missdp.testing.habits import BUDGET_HABITS
from missdp.testing.habits_output import OUTPUT_HABITS
from missdp.testing.interference import interference_of
from missdp.testing.record import Finding, Report, examine, expect
from missdp.testing.sensitivity import sensitivity_of
from missdp.testing.subject import TINY, Subject, subjects

__all__ = ["HABITS", "audit_samples", "check_habits", "check_synthesizer"]


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
