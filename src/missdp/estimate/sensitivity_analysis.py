"""Sensitivity of estimates to values that are missing because of their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.errors import ParameterError
from missdp.estimate.columns import QuestionColumn
from missdp.estimate.estimands import Estimand, match_text
from missdp.estimate.interval_estimates import Estimates
from missdp.estimate.intervals import estimates_of, released_with_shifts
from missdp.estimate.released import ReleasedTables
from missdp.files import new_figure, picture_format, write_picture
from missdp.serialization import Record
from missdp.synth.base import Synthesizer
from missdp.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

_MIN_SHARE = 1e-9  # smallest share in a divisor
_MAX_SHIFTS = 101  # largest number of shifts, 0 included
_LARGEST_SHIFT = 10.0  # largest shift, in standard deviations of the attribute


@dataclass(frozen=True)
class SensitivityAnalysis(Record):
    """Estimates of a statistic for several shifts that are added to missing values.

    It shows how far missing values must differ from observed values before a conclusion changes. At
    shift 0, values are missing at random: given the other attributes, missing values are like
    observed values. `sensitivity` returns it. All values are released.

    Parameters
    ----------
    attribute : str
        Name of the attribute whose missing values are shifted. Public.
    deviation : float
        Released standard deviation of the attribute, in the unit of the attribute. It is the unit
        of the shifts.
    shifts : tuple of float
        Shifts that are added to every missing value, in standard deviations, in increasing order.
    estimates : tuple of Estimates
        The estimates for each shift, in the order of ``shifts``. All have equal labels.
    tipping : tuple of (float or None)
        For each estimate, the shift nearest to 0 at which the conclusion turns, or None if it does
        not turn within the shifts. The conclusion on a difference, correlation or coefficient turns
        where its interval begins or ceases to exclude 0. Any other conclusion turns where the
        estimate leaves its interval at shift 0.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    Post-processing of released values: to print or publish the object has no privacy cost.

    Examples
    --------
    >>> from missdp.estimate import Estimates, SensitivityAnalysis
    >>> parts = {"noise": (0.3,), "sampling": (0.4,), "missing": (0.1,)}
    >>> facts = {"rows": (900.0,), "confidence": 0.95, "flags": ()}
    >>> means = (40.0,), (42.0,)
    >>> steps = tuple(Estimates("mean(age)", ("all",), mean, **parts, **facts) for mean in means)
    >>> found = SensitivityAnalysis("age", 10.0, (0.0, 0.5), steps, (0.25,))
    >>> found.conclusions
    ('all: the conclusion turns at a shift of 0.25.',)
    """

    attribute: str
    deviation: float
    shifts: tuple[float, ...]
    estimates: tuple[Estimates, ...]
    tipping: tuple[float | None, ...]

    def _coheres(self) -> bool:
        labels = {step.labels for step in self.estimates}
        has_all = len(self.shifts) == len(self.estimates) > 0 and len(labels) == 1
        return has_all and len(self.tipping) == len(self.estimates[0].labels)

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates for all shifts as a pandas frame of numbers.

        Returns
        -------
        pandas.DataFrame
            One row for each shift and label, in this order. Columns: estimate, error (standard
            error), low and high (ends of the interval), noise, sampling, missing, missing
            information, rows. Released.
        """
        return self._stacked([step.to_frame() for step in self.estimates])

    def _stacked(self, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        return pd.concat(frames, keys=self.shifts, names=["shift", self.estimates[0].question])

    def __str__(self) -> str:
        """Return a table, the shifts at which conclusions turn, and flags."""
        columns = ["estimate", "error", "low", "high"]
        shown = self._stacked([step.shown()[columns] for step in self.estimates]).to_string()
        unit = f"Shifts are added to missing {self.attribute}, in units of {self.deviation:.4g}."
        return "\n".join([shown, unit, *self.conclusions, *self.estimates[0].flags])

    @property
    def conclusions(self) -> tuple[str, ...]:
        """Sentences that state the shift at which each conclusion changes, one for each label.

        A conclusion is, for example, that an interval excludes 0. See ``tipping``.

        Returns
        -------
        tuple of str
            One sentence for each label. Shifts are in released standard deviations of the
            shifted attribute. Released.
        """
        holds = f"holds from {min(self.shifts):g} to {max(self.shifts):g}"
        turns = [holds if x is None else f"turns at a shift of {x:.3g}" for x in self.tipping]
        pairs = zip(self.estimates[0].labels, turns, strict=True)
        return tuple(f"{label}: the conclusion {turn}." for label, turn in pairs)

    def plot(self, path: str | Path) -> None:
        """Draw the estimates and their intervals against the shifts of missing values.

        The picture has one panel for each label. It shows released values only.

        Parameters
        ----------
        path : str or Path
            File to write. The suffix decides the format (``.svg``, ``.png``, ``.pdf``). An existing
            file is replaced.

        Raises
        ------
        ParameterError
            If the path has another suffix.
        MissingDependencyError
            If matplotlib is not installed.
        OutputError
            If the file cannot be written.
        """
        picture_format(path)

        labels, question = self.estimates[0].labels, self.estimates[0].question
        figure = new_figure(figsize=(6.4, 1.2 + 2.2 * len(labels)), layout="constrained")
        panels = np.ravel(figure.subplots(len(labels), 1, squeeze=False, sharex=True))
        values = np.array([step.estimate for step in self.estimates])
        low, high = np.array([step.intervals for step in self.estimates]).T
        each = zip(panels, labels, self.tipping, values.T, low, high, strict=True)
        for panel, label, turn, line, bottom, top in each:
            panel.fill_between(self.shifts, bottom, top, color="#1f77b4", alpha=0.2, linewidth=0)
            panel.plot(self.shifts, line, color="#1f77b4", linewidth=1.5)
            if turn is not None:
                panel.axvline(turn, color="#b4441f", linestyle="--", linewidth=1)
            title = question if label == "all" else label
            panel.set_title(title.replace("$", r"\$"), fontsize=9)
            panel.set_ylabel("estimate and interval", fontsize=9)
        name = self.attribute.replace("$", r"\$")
        panels[-1].set_xlabel(f"added to missing {name} (standard deviations)", fontsize=9)
        write_picture(figure, path)


@one_blas_thread()
def sensitivity(
    model: Synthesizer,
    question: str,
    *,
    attribute: str,
    shifts: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    by: str | Sequence[str] = (),
    confidence: float = 0.95,
) -> SensitivityAnalysis:
    """Repeat an estimate for several shifts that are added to missing values of an attribute.

    It shows how far missing values must differ from observed values before a conclusion changes. No
    private rows are read, and nothing is charged.

    Parameters
    ----------
    model : Synthesizer
        A fitted model of AllPairs, AIM or MST. These families keep their released tables.
    question : str
        A question such as ``mean(x)``, or a formula such as ``x ~ y``. Questions and formulas are
        written as for `estimate` and `missdp.estimate.regress`.
    attribute : str
        A numeric attribute in the question that may be missing. Its missing values are shifted.
    shifts : sequence of float, default (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
        Shifts that are added to every missing value of the attribute, in released standard
        deviations of the attribute. 1 to 100 numbers other than 0, each from -10 to 10. The shift 0
        is always included, and means missing at random.
    by : str or sequence of str, optional
        Attributes whose levels make groups, in addition to names after ``by`` in the question.
    confidence : float, default 0.95
        Confidence of the intervals, strictly between 0 and 1.

    Returns
    -------
    SensitivityAnalysis
        Released estimates for each shift, in increasing order of the shifts.

    Raises
    ------
    ParameterError
        If the question or the shifts cannot be read, nothing can be added to the attribute, or the
        model has no answer.
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    Post-processing of released values: no privacy cost.

    Examples
    --------
    >>> from missdp.estimate import sensitivity
    >>> import pandas as pd
    >>> from missdp import AllPairs, Categorical, Numeric, Schema
    >>> schema = Schema((
    ...     Numeric(name="age", lower=0, upper=100, bins=10, nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"age": [20, 50, None] * 200, "ill": ["yes", "no", "no"] * 200})
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> sensitivity(model, "mean(age)", attribute="age", shifts=(0.5,)).shifts
    (0.0, 0.5)
    """
    steps = _checked(shifts)
    estimand = match_text(model, question, by=by)
    column = _column_of(model, estimand, attribute)
    released, row_shifts = released_with_shifts(model, estimand, confidence)
    deviation = _deviation(released, column)
    chances = released.chances_missing(column.at, column.width)
    estimand = replace(estimand, prepare=lambda tables: tables.separated(column.at, chances))
    estimates = []
    for step in steps:
        column.shift = step * deviation
        estimates.append(estimates_of(model, estimand, released, confidence, shifts=row_shifts))
    tipping = _tipping(estimand, steps, estimates)
    return SensitivityAnalysis(attribute, deviation, steps, tuple(estimates), tipping)


def _checked(shifts: Sequence[float]) -> tuple[float, ...]:
    steps = tuple(sorted({0.0, *map(float, shifts)}))
    if not 1 < len(steps) <= _MAX_SHIFTS or not all(abs(step) <= _LARGEST_SHIFT for step in steps):
        raise ParameterError(
            f"shifts must be up to {_MAX_SHIFTS - 1} numbers other than 0, of size "
            f"{_LARGEST_SHIFT:g} at most"
        )
    return steps


def _column_of(model: Synthesizer, estimand: Estimand, attribute: str) -> QuestionColumn:
    """Return the column of an attribute to whose missing values a shift can be added."""
    columns = {column.name: column for column in estimand.columns}
    if attribute not in columns:
        raise ParameterError(
            f"attribute must be one that the question is about: {', '.join(columns)}"
        )
    column = columns[attribute]
    if column.by_levels or attribute in estimand.question.by:
        raise ParameterError(f"{attribute!r} makes groups, to which nothing can be added")
    column.check_missing(model)
    if estimand.question.what == "missing":
        raise ParameterError("a shift changes values, and not the share of missing values")
    if column.points is None:
        raise ParameterError(
            f"{attribute!r} is categorical. Choose an attribute whose values are numbers."
        )
    return column


def _deviation(released: ReleasedTables, column: QuestionColumn) -> float:
    """Return the standard deviation of a column, as released."""
    shares = released.point.of(column.at)[: column.width]
    mean, square = (
        float(shares @ column.mean(released.point, of) / max(shares.sum(), _MIN_SHARE))
        for of in (np.asarray, np.square)
    )
    return math.sqrt(max(square - mean**2, 0.0))


def _tipping(
    estimand: Estimand, steps: Sequence[float], estimates: Sequence[Estimates]
) -> tuple[float | None, ...]:
    """Return the shift at which each conclusion turns, by linear interpolation."""
    low, high = np.moveaxis(np.array([estimate.intervals for estimate in estimates]), 2, 0)
    if estimand.is_relation:  # the interval excludes or includes 0
        distances = np.minimum(-low, high)
    else:  # the estimate lies in the interval at shift 0
        values, zero = np.array([estimate.estimate for estimate in estimates]), steps.index(0.0)
        distances = np.minimum(values - low[zero], high[zero] - values)
    turns = []
    for column in distances.T.tolist():
        points = [
            start + (end - start) * a / (a - b)
            for (start, a), (end, b) in pairwise(zip(steps, column, strict=True))
            if (a > 0) != (b > 0)
        ]
        turns.append(min(points, key=abs, default=None))
    return tuple(turns)
