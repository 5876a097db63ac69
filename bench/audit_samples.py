"""Audits from samples: how well synthetic rows of any library distinguish two neighbours.

Every library gives samples, and its code need not be read. An audit from samples has no promised
power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, Guarantee
from missdp.errors import check_number, import_optional
from missdp.table import Table
from missdp.testing import Audit, Claim, judge


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
    """Return how well synthetic samples distinguish two neighbours.

    Parameters
    ----------
    fit_sample : callable
        ``fit_sample(table, seed)`` fits the audited method and returns a synthetic frame.
    table, neighbour : Table or pandas frame
        Two neighbours. The first lacks the last row of the second.
    claim : Claim, Guarantee or events
        The claimed guarantee, such as ``Claim(((epsilon, delta),))``.
    statistic : callable, optional
        A number for a sample, large where the row seems to be present. By default, a logistic
        regression on the share of a sample that agrees with the row. It is learned from the first
        half of the runs.
    trials : int, default 400
        Runs on each table.
    confidence : float, default 0.95
        Of the lower bound on mu.

    Returns
    -------
    Audit
        A low bound is no proof of privacy. Other outputs of a library may leak more than samples.

    Examples
    --------
    >>> from missdp.testing import TINY, canary
    >>> def bootstrap(frame, seed):  # no privacy at all
    ...     return frame.sample(len(frame), replace=True, random_state=seed)
    >>> frames = [table.to_native("pandas") for table in canary(TINY, 12)]
    >>> audit_samples(bootstrap, *frames, claim=Claim(((0.5, 0.0),)), trials=200).flagged
    True
    """
    check_number("trials of an audit", trials, min_value=20)
    frames = [t.to_native("pandas") if isinstance(t, Table) else t for t in (table, neighbour)]
    row = frames[1].iloc[-1]

    def read(sample: Any) -> Any:
        return _agreement(sample, row) if statistic is None else float(statistic(sample))

    scores = np.array(
        [
            [read(fit_sample(rows, 2 * trial + side)) for side, rows in enumerate(frames)]
            for trial in range(trials)
        ]
    )
    absent, present = _learned(scores) if statistic is None else scores.T
    return judge(present, absent, Claim.of(claim), confidence=confidence, subject=subject)


def _agreement(sample: Any, row: Any) -> list[float]:
    """Shares of a sample that agree with a row, by cell and in all cells, and its size."""
    frame = sample.to_native("pandas") if isinstance(sample, Table) else sample
    columns = [
        frame[name].isna() if missing else (frame[name] == row[name]).fillna(False)
        for name, missing in row.isna().items()
    ]
    agrees = np.column_stack([column.to_numpy(dtype=bool) for column in columns])
    size, equal_rows = max(1, len(agrees)), float(agrees.all(axis=1).sum())
    return [*(agrees.sum(axis=0) / size), equal_rows / size, float(equal_rows > 0), math.log(size)]


def _learned(scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of the second half of the runs on each table, by a classifier of the first half."""
    linear_model, pipeline, preprocessing = (
        import_optional(f"sklearn.{name}", purpose="audits without a `statistic`")
        for name in ("linear_model", "pipeline", "preprocessing")
    )
    half, later = np.split(scores, [len(scores) // 2])
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=1000)
    )
    model.fit(np.concatenate([half[:, 0], half[:, 1]]), np.repeat([0, 1], len(half)))
    return model.decision_function(later[:, 0]), model.decision_function(later[:, 1])
