"""What a stability map assumes of every table that it may see: conditions of a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from missdp.accounting import Condition

__all__ = [
    "BoundedDonations",
    "CentralGaps",
    "CovarianceGap",
    "ExtremeGaps",
    "FrameOverlap",
    "IncompleteRows",
    "LargestCluster",
    "LeastEigenvalue",
    "LeastRange",
    "LeastStandardDeviation",
    "ModelPaidApart",
    "NotFittedOnThisTable",
    "StepCondition",
    "TrimmedRange",
]


@dataclass(frozen=True)
class StepCondition(Condition, abstract=True):
    """What a stability map assumes of every table it may see; its ``sentence`` names its fields.

    Examples
    --------
    >>> print(IncompleteRows(10, 1))
    At most 10 rows have a missing cell, and none has more than 1.
    """

    sentence: ClassVar[str]
    about_rows: ClassVar[bool] = True
    """Whether it is about the table, so that a private test can stand in for it."""

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return self.sentence.format(**vars(self))


@dataclass(frozen=True)
class NotFittedOnThisTable(StepCondition):
    """The rows were not preprocessed by anything that had looked at the same table."""

    sentence = "No preprocessing of these rows was fitted on the same table."


@dataclass(frozen=True)
class ModelPaidApart(StepCondition):
    """What an imputer's model cost, if anything, is composed with the guarantee by the user."""

    sentence = (
        "The imputer's model was not fitted to these rows, or its own guarantee is composed with "
        "this one."
    )
    about_rows = False


@dataclass(frozen=True)
class IncompleteRows(StepCondition):
    """At most ``at_most`` rows have missing cells, and none more than ``cells_per_row``."""

    at_most: int
    cells_per_row: int
    sentence = "At most {at_most} rows have a missing cell, and none has more than {cells_per_row}."


@dataclass(frozen=True)
class CentralGaps(StepCondition):
    """Order statistics within ``ranks`` ranks of each median are ``at_most`` apart, one by one."""

    at_most: float
    ranks: int
    sentence = (
        "In every column, consecutive observed values within {ranks} ranks of the median differ "
        "by at most {at_most:.6g}."
    )


@dataclass(frozen=True)
class TrimmedRange(StepCondition):
    """From the ``trim``-th smallest to the ``trim``-th largest observed value it is not far."""

    trim: int
    at_most: float
    sentence = (
        "In every column, the {trim}-th smallest and {trim}-th largest observed values differ by "
        "at most {at_most:.6g}."
    )


@dataclass(frozen=True)
class LeastEigenvalue(StepCondition):
    """Predictors are well conditioned: X'X / n, over rows with an observed target, is bounded."""

    at_least: float
    sentence = (
        "The second-moment matrix of the regression's predictors, summed over the rows with an "
        "observed target and divided by n, has no eigenvalue below {at_least:.6g}."
    )


@dataclass(frozen=True)
class BoundedDonations(StepCondition):
    """No row is among the k donors of more than ``at_most`` incomplete rows."""

    at_most: int
    sentence = "No row is a donor of more than {at_most} incomplete rows."


@dataclass(frozen=True)
class LargestCluster(StepCondition):
    """Good clusters of this ``radius`` have ``at_most`` rows, and at one point few meet.

    Centres of at most ``neighbours`` of them lie within three radii of any point, also after some
    rows are removed (a packing bound of the dimension, unless declared).
    """

    radius: float
    at_most: int
    neighbours: int

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"No good cluster of radius {self.radius:.6g} has more than {self.at_most} rows, and "
            f"no point is within {3 * self.radius:.6g} of the centres of more than "
            f"{self.neighbours} good clusters, whichever rows are removed."
        )


@dataclass(frozen=True)
class ExtremeGaps(StepCondition):
    """Each of the ``ranks`` outermost gaps at either end of a column is ``at_most`` wide."""

    at_most: float
    ranks: int
    sentence = (
        "In every column, each of the {ranks} outermost gaps between consecutive values, "
        "at either end, is at most {at_most:.6g}."
    )


@dataclass(frozen=True)
class LeastRange(StepCondition):
    """Maximum less minimum of every column is bounded from below."""

    at_least: float
    sentence = "In every column, maximum and minimum differ by at least {at_least:.6g}."


@dataclass(frozen=True)
class LeastStandardDeviation(StepCondition):
    """The standard deviation (divisor n) of every column is bounded from below, above 0."""

    at_least: float
    sentence = "Every column that is scaled has a standard deviation of at least {at_least:.6g}."


@dataclass(frozen=True)
class CovarianceGap(StepCondition):
    """Eigenvalues ``k`` and ``k + 1`` of the covariance (divisor n - 1) are that far apart."""

    k: int
    at_least: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"The gap between eigenvalues {self.k} and {self.k + 1} of the covariance matrix that "
            f"PCA sees is at least {self.at_least:.6g}."
        )


@dataclass(frozen=True)
class FrameOverlap(StepCondition):
    """The smallest cosine between principal subspace and public frame is bounded from below."""

    at_least: float
    sentence = (
        "Every direction of the public reference frame has a cosine of at least {at_least:.6g} "
        "with the principal subspace."
    )
