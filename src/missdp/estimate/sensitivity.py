"""How estimates depend on what cannot be seen: values that are missing because of what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.answers import (
    Asked,
    Estimates,
    answered,
    asked_about,
    asked_by,
    moved_by,
)
from missdp.estimate.formula import is_formula
from missdp.estimate.released import released_by
from missdp.files import new_figure, picture_format, write_picture
from missdp.record import Record
from missdp.synth.base import Synthesizer
from missdp.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

_LEAST = 1e-9
_MOST_SHIFTS = 101
_LARGEST = 10.0  # standard deviations


@dataclass(frozen=True)
class SensitivityAnalysis(Record):
    """Estimates by how far missing values depart from missing at random; released values only.

    Parameters
    ----------
    attribute : str
        Whose missing values depart.
    deviation : float
        Its standard deviation, as released: the unit of the shifts.
    shifts : tuple of float
        Standard deviations that are added to every missing value.
    estimates : tuple of Estimates
        One for each shift.
    tipping : tuple of (float or None)
        For each estimate, the shift nearest to 0 at which the conclusion turns: an interval of a
        difference, correlation or coefficient no longer leaves out 0, or does so now; any other
        estimate leaves its interval at shift 0. None if it does not within the shifts.
    """

    attribute: str
    deviation: float
    shifts: tuple[float, ...]
    estimates: tuple[Estimates, ...]
    tipping: tuple[float | None, ...]

    def _coheres(self) -> bool:
        labels = {found.labels for found in self.estimates}
        whole = len(self.shifts) == len(self.estimates) > 0 and len(labels) == 1
        return whole and len(self.tipping) == len(self.estimates[0].labels)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each shift and estimate."""
        return self._stacked([found.to_frame() for found in self.estimates])

    def _stacked(self, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        return pd.concat(frames, keys=self.shifts, names=["shift", self.estimates[0].question])

    def __str__(self) -> str:
        """Return a table for people, where conclusions turn, and what is not covered."""
        kept = ["estimate", "error", "low", "high"]
        shown = self._stacked([found.shown()[kept] for found in self.estimates]).to_string()
        unit = f"Shifts are added to missing {self.attribute}, in units of {self.deviation:.4g}."
        return "\n".join([shown, unit, *self.conclusions, *self.estimates[0].flags])

    @property
    def conclusions(self) -> tuple[str, ...]:
        """Where each conclusion turns, in words."""
        low, high = min(self.shifts), max(self.shifts)
        labels = self.estimates[0].labels
        return tuple(
            f"{label}: the conclusion holds from {low:g} to {high:g}."
            if turn is None
            else f"{label}: the conclusion turns at a shift of {turn:.3g}."
            for label, turn in zip(labels, self.tipping, strict=True)
        )

    def plot(self, path: str | Path) -> None:
        """Draw the estimates and their intervals against the shifts.

        Parameters
        ----------
        path : str or Path
            Where to write; the suffix decides the format (``.svg``, ``.png``, ``.pdf``).

        Raises
        ------
        ParameterError
            If the suffix is another one.
        MissingDependencyError
            If matplotlib is not installed.
        """
        picture_format(path)

        labels = self.estimates[0].labels
        figure = new_figure(figsize=(6.4, 1.2 + 2.2 * len(labels)), layout="constrained")
        panels = np.ravel(figure.subplots(len(labels), 1, squeeze=False, sharex=True))
        for place, (panel, label, turn) in enumerate(
            zip(panels, labels, self.tipping, strict=True)
        ):
            values = [found.estimate[place] for found in self.estimates]
            low, high = zip(*(found.intervals[place] for found in self.estimates), strict=True)
            panel.fill_between(self.shifts, low, high, color="#1f77b4", alpha=0.2, linewidth=0)
            panel.plot(self.shifts, values, color="#1f77b4", linewidth=1.5)
            if turn is not None:
                panel.axvline(turn, color="#b4441f", linestyle="--", linewidth=1)
            title = self.estimates[0].question if label == "all" else label
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
    """Return what `Synthesizer.sensitivity` returns."""
    steps = _checked(shifts)
    asked = (
        asked_by(model, question) if is_formula(question) else asked_about(model, question, by=by)
    )
    place = [column.attribute.name for column in asked.columns]
    _check(model, asked, attribute, confidence)
    released = released_by(model, asked.cliques)
    column = asked.columns[place.index(attribute)]
    if column.points is None:
        raise ParameterError(
            f"{attribute!r} is categorical. Choose an attribute whose values are numbers."
        )
    law = released.point.of(column.at)[: column.width]
    mean, square = (
        float(law @ column.mean(released.point, of) / max(law.sum(), _LEAST))
        for of in (np.asarray, np.square)
    )
    deviation = max(square - mean**2, 0.0) ** 0.5
    moved = moved_by(model, asked, released)
    apart, found = released.parted(column.at, column.width), []
    for step in steps:
        column.shift = step * deviation
        found.append(answered(model, asked, apart, confidence, moved=moved))
    return SensitivityAnalysis(
        attribute, deviation, steps, tuple(found), _tipping(asked, steps, found)
    )


def _checked(shifts: Sequence[float]) -> tuple[float, ...]:
    steps = tuple(sorted({0.0, *map(float, shifts)}))
    if not 1 < len(steps) <= _MOST_SHIFTS or not all(abs(step) <= _LARGEST for step in steps):
        raise ParameterError(
            f"shifts must be up to {_MOST_SHIFTS - 1} numbers other than 0, of size {_LARGEST:g} "
            "at most"
        )
    return steps


def _check(model: Synthesizer, asked: Asked, attribute: str, confidence: float) -> None:
    names = [column.attribute.name for column in asked.columns]
    if attribute not in names:
        raise ParameterError(
            f"attribute must be one that the question is about: {', '.join(names)}"
        )
    column = asked.columns[names.index(attribute)]
    if column.by_levels or f"by {attribute}" in asked.text:
        raise ParameterError(f"{attribute!r} makes groups, to which nothing can be added")
    column.check_holes(model)
    if asked.of_holes:
        raise ParameterError("a shift moves values, and the share of those missing stays as it is")
    if not 0 < confidence < 1:
        raise ParameterError("confidence must be strictly between 0 and 1")


def _tipping(
    asked: Asked, steps: Sequence[float], found: Sequence[Estimates]
) -> tuple[float | None, ...]:
    """Return where each conclusion turns, between the shifts by straight lines."""
    start, turns = found[steps.index(0.0)], []
    for place in range(len(start.labels)):
        margins = [_margin(asked, start, one, place) for one in found]
        points = []
        for (left, a), (right, b) in pairwise(zip(steps, margins, strict=True)):
            if (a > 0) != (b > 0):
                points.append(left + (right - left) * a / (a - b))
        turns.append(min(points, key=abs) if points else None)
    return tuple(turns)


def _margin(asked: Asked, start: Estimates, one: Estimates, place: int) -> float:
    """Return how far a conclusion is from turning: it has where the sign is another."""
    low, high = (one if asked.contrast else start).intervals[place]
    value = 0.0 if asked.contrast else one.estimate[place]
    return float(min(value - low, high - value))
