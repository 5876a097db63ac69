"""Queries for totals: of rows, of units, and of missing cells of each kind.

One row changes each total by one, or by the sensitivity of `UnitSums`. A fit measures a total only
if no marginal adds up to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from missdp.errors import ParameterError
from missdp.schema.layout import STEPS
from missdp.session.counted_queries import CountQuery
from missdp.session.counting import check_counts
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows


@dataclass(frozen=True)
class RowCount(CountQuery):
    """Query for the number of all private rows, with or without missing cells.

    Pass it to `Session.measure` with `Noise`. One row changes the number by one.

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges for the noise before it
    counts. The sensitivity is 1 in L1 and L2 norm, under add-remove adjacency.

    Examples
    --------
    >>> from missdp.session import RowCount
    >>> RowCount().sensitivity(1)
    1
    """

    label = "number of rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the exact number of all private rows.

        Only a session calls it, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        ndarray of int64, shape ()
            In units of ``1 / steps`` rows, where ``steps`` is 1 unless rows have survey weights.
            Private.
        """
        return check_counts(rows.source.counts([()], rows="extended")[()], ())


@dataclass(frozen=True)
class UnitSums(CountQuery):
    """Query for two sums over persons: of their counted rows, and of the square of this number.

    A person stands here for any unit of protection, whose rows an identifying column links. The
    amount of a unit is the number of its counted rows, or their weight. It is at most the bound,
    ``max_rows`` or 1. The second sum divides each square by the bound. So a unit changes either sum
    by at most the bound. The accounting event states the sensitivity to one row, which changes both
    sums by one. A budget for units multiplies it by the bound (`missdp.accounting.unit_costs`).

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges for the noise before it
    counts. Sensitivities hold under add-remove adjacency.

    Examples
    --------
    >>> from missdp.session import UnitSums
    >>> UnitSums().sensitivity(1)
    2.0
    """

    label = "what units count, and its square"

    def check(self, rows: CountedRows) -> None:
        """Raise an error if the source of the rows does not identify units of protection.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.

        Raises
        ------
        ParameterError
            If the source does not identify units.
        """
        if rows.unit_sums is None:
            raise ParameterError("this source does not identify units")

    def steps(self, rows: CountedRows) -> int:  # noqa: ARG002
        """Return the number of counting units into which the sums over persons divide one row.

        Parameters
        ----------
        rows : CountedRows
            Not used: the number is fixed.

        Returns
        -------
        int
            A public constant, the number of counting units in one row.
        """
        return STEPS

    def sensitivity(self, norm: float) -> float:
        """Return the largest change of the two sums over units of protection by one row.

        Parameters
        ----------
        norm : float
            1 for the L1 norm, any other number for the L2 norm.

        Returns
        -------
        float
            2 in L1 norm, and the square root of 2, rounded up, in L2 norm. In rows. Public.
        """
        return 2.0 if norm == 1 else math.nextafter(math.sqrt(2), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the exact sum of the units' amounts, and the sum of their squares over the bound.

        The amount of a unit of protection (such as a person) is the number of its counted rows, or
        their weight. Only a session calls it, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows, whose source identifies units.

        Returns
        -------
        ndarray of int64, shape (2,)
            The two sums in this order, in units of ``1 / steps`` rows (`UnitSums.steps`).
            Private.
        """
        assert rows.unit_sums is not None  # checked before anything was charged
        return rows.unit_sums


@dataclass(frozen=True)
class MissingKinds(CountQuery):
    """Query for the number of missing cells of one attribute, by kind of missing value.

    Kinds are "missing", and "refused", "unknown" and "not_asked" where they are declared. Pass the
    query to `Session.measure` with `Noise`. One row changes one count by one.

    Parameters
    ----------
    name : str
        Name of the attribute.

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges for the noise before it
    counts. The sensitivity is 1 in L1 and L2 norm, under add-remove adjacency.

    Examples
    --------
    >>> from missdp.session import MissingKinds
    >>> MissingKinds("age").label
    'kinds of missing of age'
    """

    name: str

    @property
    def label(self) -> str:
        """Return the public name of the query, with the name of its attribute.

        Returns
        -------
        str
            For example ``"kinds of missing of age"``. Public.
        """
        return f"kinds of missing of {self.name}"

    def check(self, rows: CountedRows) -> None:
        """Raise an error if the schema lacks the attribute whose missing cells are counted.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.

        Raises
        ------
        ParameterError
            If the schema lacks the attribute.
        """
        rows.refuse_unknown((self.name,))

    def exact(self, rows: CountedRows) -> Ints:
        """Return the exact number of missing cells of the attribute, by kind of missing value.

        Only a session calls it, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        ndarray of int64, shape (n_kinds,)
            Plainly missing cells first, in units of ``1 / steps`` rows. ``steps`` is 1 unless
            rows have survey weights (`CountedFacts.steps`). Private.
        """
        return rows.kinds(self.name)
