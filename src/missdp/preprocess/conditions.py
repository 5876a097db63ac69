"""Collection parameters as conditions: what a stability map assumes of every table it may see."""

from __future__ import annotations

from dataclasses import dataclass

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
    "NotFittedOnThisTable",
    "TrimmedRange",
]


@dataclass(frozen=True)
class IncompleteRows(Condition):
    """Few rows have missing cells, and few cells of each.

    Parameters
    ----------
    at_most : int
        Largest number of incomplete rows.
    cells_per_row : int
        Largest number of missing cells of one row.

    Examples
    --------
    >>> print(IncompleteRows(10, 1))
    At most 10 rows have a missing cell, and none has more than 1.
    """

    at_most: int
    cells_per_row: int

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"At most {self.at_most} rows have a missing cell, and none has more than "
            f"{self.cells_per_row}."
        )


@dataclass(frozen=True)
class CentralGaps(Condition):
    """Neighbouring order statistics around each column's median are close.

    Parameters
    ----------
    at_most : float
        Bound on the gap between consecutive observed values.
    ranks : int
        How many ranks on either side of the middle the bound covers.
    """

    at_most: float
    ranks: int

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"In every column, consecutive observed values within {self.ranks} ranks of the "
            f"median differ by at most {self.at_most:.6g}."
        )


@dataclass(frozen=True)
class TrimmedRange(Condition):
    """The values that trimming leaves (and the two next to them) span a short range.

    Parameters
    ----------
    trim : int
        Values cut off at either end.
    at_most : float
        Bound on the distance from the trim-th smallest to the trim-th largest observed value.
    """

    trim: int
    at_most: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"In every column, the {self.trim}-th smallest and {self.trim}-th largest observed "
            f"values differ by at most {self.at_most:.6g}."
        )


@dataclass(frozen=True)
class ExtremeGaps(Condition):
    """The smallest values of each column are close together, and so are the largest.

    Parameters
    ----------
    at_most : float
        Bound on the gap between consecutive values at either end.
    ranks : int
        How many of the outermost gaps the bound covers.
    """

    at_most: float
    ranks: int

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"In every column, each of the {self.ranks} outermost gaps between consecutive values, "
            f"at either end, is at most {self.at_most:.6g}."
        )


@dataclass(frozen=True)
class LeastRange(Condition):
    """Every column spans at least a declared range.

    Parameters
    ----------
    at_least : float
        Bound on maximum less minimum.
    """

    at_least: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return f"In every column, maximum and minimum differ by at least {self.at_least:.6g}."


@dataclass(frozen=True)
class LeastStandardDeviation(Condition):
    """Every column's standard deviation (divisor n) has a declared lower bound.

    Parameters
    ----------
    at_least : float
        The bound, above 0.
    """

    at_least: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"Every column that is scaled has a standard deviation of at least {self.at_least:.6g}."
        )


@dataclass(frozen=True)
class CovarianceGap(Condition):
    """An eigen-gap of the covariance matrix (divisor n - 1) has a declared lower bound.

    Parameters
    ----------
    k : int
        The gap between eigenvalues k and k + 1.
    at_least : float
        The bound, above 0.
    """

    k: int
    at_least: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"The gap between eigenvalues {self.k} and {self.k + 1} of the covariance matrix that "
            f"PCA sees is at least {self.at_least:.6g}."
        )


@dataclass(frozen=True)
class FrameOverlap(Condition):
    """The principal subspace is not nearly orthogonal to a public reference frame.

    Parameters
    ----------
    at_least : float
        Bound on the smallest cosine between the subspace and the frame, in (0, 1].
    """

    at_least: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            "Every direction of the public reference frame has a cosine of at least "
            f"{self.at_least:.6g} with the principal subspace."
        )


@dataclass(frozen=True)
class LeastEigenvalue(Condition):
    """The predictors of a regression imputation are well conditioned.

    Parameters
    ----------
    at_least : float
        Bound on the smallest eigenvalue of X'X / n over the rows with an observed target.
    """

    at_least: float

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            "The second-moment matrix of the regression's predictors, summed over the rows with an "
            f"observed target and divided by n, has no eigenvalue below {self.at_least:.6g}."
        )


@dataclass(frozen=True)
class BoundedDonations(Condition):
    """No row donates to many incomplete rows.

    Parameters
    ----------
    at_most : int
        Largest number of incomplete rows with one and the same row among their k donors.
    """

    at_most: int

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return f"No row is a donor of more than {self.at_most} incomplete rows."


@dataclass(frozen=True)
class LargestCluster(Condition):
    """Good clusters are small, and not many of them meet at one point.

    Parameters
    ----------
    radius : float
        The radius eta of a good cluster.
    at_most : int
        Largest number of rows of a good cluster.
    neighbours : int
        Largest number of good clusters whose centres lie within 3 eta of one point, also after
        some rows are removed (a packing bound of the dimension, unless declared).
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
class NotFittedOnThisTable(Condition):
    """The rows were not preprocessed by anything that had looked at the same table.

    Examples
    --------
    >>> print(NotFittedOnThisTable())
    No preprocessing of these rows was fitted on the same table.
    """

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return "No preprocessing of these rows was fitted on the same table."
