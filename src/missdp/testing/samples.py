"""Audits from samples alone: of any library, without a look inside, and without promised power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, Guarantee
from missdp.errors import ParameterError
from missdp.table import Table
from missdp.testing.auditing import Audit, judge
from missdp.testing.claims import Claim

__all__ = ["audit_samples"]


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
