"""Estimates with standard errors in three parts, with intervals and flags."""

from __future__ import annotations

import html
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.schema import Date
from missdp.schema.dates import UNIT_NAMES
from missdp.serialization import Record

if TYPE_CHECKING:
    import pandas as pd

_PARTS = ["noise", "sampling", "missing", "missing information", "rows"]
_COLUMNS = ["estimate", "error", "low", "high", *_PARTS]
_HEADER = (
    "error: the standard error, of privacy noise, sampling of rows and missing values together.\n"
    "missing information: the share of missing values in the variance without noise."
)
_TINY = 1e-300  # smallest variance in a divisor


@dataclass(frozen=True)
class Estimates(Record):
    """Estimates of one statistic for one or more groups, with standard errors, intervals and flags.

    `estimate` and `missdp.estimate.regress` return it for a fitted model. All values are released,
    so printing or publishing it has no privacy cost. The entries of all tuples are in the order of
    ``labels``. ``print`` shows a table.

    Parameters
    ----------
    question : str
        The question or the formula, as the user wrote it. Public.
    labels : tuple of str
        Groups, or terms of a regression. It is ``("all",)`` without groups.
    estimate : tuple of float
        The estimates, in the unit of the question: of the attribute for a mean, a share in [0, 1]
        for shares.
    noise, sampling, missing : tuple of float
        Parts of the standard error: the privacy noise, the sampling of rows, and the part that
        missing values add. The standard error is the root of the sum of their squares. Unit of the
        estimate.
    rows : tuple of float
        Released number of rows to which each estimate applies, at least 0.
    confidence : float
        Confidence of the intervals, strictly between 0 and 1.
    flags : tuple of str
        Sentences on errors that the intervals do not cover.
    possible : tuple of float, default ()
        Smallest and greatest possible value of an estimate, by public bounds. Empty without bounds.
        Estimates and intervals stay within.
    dates : str, default ""
        If estimates are dates, the unit of the numbers, counted since 1970. Empty otherwise.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.estimate import Estimates
    >>> parts = {"noise": (0.3,), "sampling": (0.4,), "missing": (0.0,)}
    >>> facts = {"rows": (900.0,), "confidence": 0.95, "flags": ()}
    >>> found = Estimates("mean(age)", ("all",), (40.0,), **parts, **facts)
    >>> found.errors, [round(end, 2) for end in found.intervals[0]]
    ((0.5,), [39.02, 40.98])
    """

    question: str
    labels: tuple[str, ...]
    estimate: tuple[float, ...]
    noise: tuple[float, ...]
    sampling: tuple[float, ...]
    missing: tuple[float, ...]
    rows: tuple[float, ...]
    confidence: float
    flags: tuple[str, ...]
    possible: tuple[float, ...] = ()
    dates: str = ""

    derived = ("errors", "intervals", "missing_information")

    def _coheres(self) -> bool:
        parts = (self.estimate, self.noise, self.sampling, self.missing, self.rows)
        lengths = {len(part) for part in parts}
        is_ordered = list(self.possible) == sorted(self.possible)
        return lengths == {len(self.labels)} and 0 < self.confidence < 1 and is_ordered

    @property
    def errors(self) -> tuple[float, ...]:
        """Standard errors of the estimates: the parts noise, sampling and missing together.

        Each is the root of the sum of the three squared parts.

        Returns
        -------
        tuple of float
            In the order of ``labels``, in the unit of the estimates. Released.
        """
        parts = np.square([self.noise, self.sampling, self.missing])
        return tuple(np.sqrt(parts.sum(axis=0)).tolist())

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """Confidence intervals of the estimates, as pairs of a lower and an upper end.

        They are normal intervals at ``confidence``, cut to the ``possible`` range.

        Returns
        -------
        tuple of (float, float)
            Lower and upper end, in the order of ``labels``, in the unit of the estimates.
            Released.
        """
        times = NormalDist().inv_cdf((1 + self.confidence) / 2)
        half = times * np.asarray(self.errors)
        lowest, highest = self.possible or (-math.inf, math.inf)
        ends = np.stack([self.estimate - half, self.estimate + half], axis=1)
        ends = np.clip(ends, lowest, highest)
        return tuple((low, high) for low, high in ends.tolist())

    @property
    def missing_information(self) -> tuple[float, ...]:
        """Share of the variance of each estimate that missing values add, in [0, 1].

        The variance is without privacy noise: the sum of the squared parts ``sampling`` and
        ``missing``.

        Returns
        -------
        tuple of float
            A share in [0, 1] for each estimate, in the order of ``labels``. Released.
        """
        missing, sampling = np.square([self.missing, self.sampling])
        return tuple((missing / np.maximum(missing + sampling, _TINY)).tolist())

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates as a pandas frame of numbers with one row for each group or term.

        Returns
        -------
        pandas.DataFrame
            Index: ``labels``. Columns: estimate, error, low, high, noise, sampling, missing,
            missing information, rows. ``error`` is the standard error, and ``low`` and ``high`` are
            the ends of the interval. Released.
        """
        import pandas as pd

        parts = (self.noise, self.sampling, self.missing, self.missing_information, self.rows)
        columns = self.estimate, self.errors, *zip(*self.intervals, strict=True), *parts
        index = pd.Index(self.labels, name=self.question)
        return pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True)), index=index)

    def shown(self) -> pd.DataFrame:
        """Return the estimates as a pandas frame of rounded text, one row for each group or term.

        Errors have two significant digits, and numbers of rows are integers. Dates are shown as
        dates.

        Returns
        -------
        pandas.DataFrame
            The rows and columns of `to_frame`, with text in each cell. Released.
        """
        frame = self.to_frame()
        digits = [decimals_of_error(error) for error in self.errors]
        for name in frame.columns[:-2]:
            unit = self.dates if name in ("estimate", "low", "high") else ""
            frame[name] = [_shown(*pair, unit) for pair in zip(frame[name], digits, strict=True)]
        frame["missing information"] = [f"{share:.0%}" for share in self.missing_information]
        return frame.assign(rows=[f"{rows:,.0f}" for rows in self.rows])

    def __str__(self) -> str:
        """Return a table for people, and the errors that it does not cover."""
        shown = self.shown().to_string()
        about = (
            f"Intervals have confidence {self.confidence:.0%}. They cover privacy noise, sampling "
            "and values missing at random."
        )
        unit: Any = self.dates
        more = [f"Errors are in {UNIT_NAMES[unit]}s."] if unit else []
        return "\n".join([shown, about, _HEADER, *more, *self.flags])

    def _repr_html_(self) -> str:
        flags = "".join(f"<li>{html.escape(flag)}</li>" for flag in self.flags)
        return f"{self.shown().to_html()}<ul>{flags}</ul>"


def _shown(value: float, digits: int, unit: Any) -> str:
    """Return a number with so many digits, or the date it stands for."""
    if unit and math.isfinite(value):
        return Date.date_text(round(value), unit)
    return f"{value:,.{digits}f}"


def decimals_of_error(error: float) -> int:
    """Return the number of decimals of an error with two significant digits."""
    return min(max(0, 1 - math.floor(math.log10(error))), 12) if 0 < error < math.inf else 4
