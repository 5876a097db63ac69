"""Queries of counted rows. Each query has an exact answer and a proven sensitivity.

Queries hold public facts and released values only. `exact` computes from private rows: only a
session calls it, after the charge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.dyadic import node_counts, tree_depth
from missdp.session.counting import Clique
from missdp.session.mechanisms import Noise
from missdp.session.session import Release
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows


class CountQuery:
    """Base class of queries whose exact answer is a table of counts or a list of scores.

    One row changes one number of the answer by at most one, unless a subclass states otherwise. A
    query has public or released values only. A subclass defines ``label`` and ``exact``. It
    overrides ``sensitivity``, ``reads``, ``check`` and ``answered_by`` where they differ.

    Attributes
    ----------
    label : str
        Public name.
    reads : tuple of str or None
        The attributes that are counted together. None: every row is read, with or without missing
        cells.
    answered_by : type
        The mechanism that the query takes.
    """

    answered_by: ClassVar[type] = Noise

    @property
    def label(self) -> str:
        """Return the public name of a query for counts, as reports and accounting events state it.

        Returns
        -------
        str
            Public.
        """
        raise NotImplementedError

    @property
    def reads(self) -> Clique | None:
        """Return the attributes whose combinations of values a query counts.

        The strategy for missing cells decides from them which cells a row must have observed.

        Returns
        -------
        tuple of str or None
            None if every row is read, with or without missing cells. Public.
        """
        return None

    def plan(self, rows: CountedRows, mechanism: Any) -> Release:
        """Return the plan of the release that answers a query: event to charge, and noise.

        Public facts alone decide. Nothing is read or charged.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.
        mechanism : Noise, Selection or Cost
            The mechanism, of the type ``answered_by``, or the cost to spend on noise.

        Returns
        -------
        Release
            The accounting event, the noise, and the exact computation, which a session calls.

        Raises
        ------
        ParameterError
            If the rows cannot answer the query, or the mechanism is of another type.
        UnprovenError
            If a `Selection` states a smaller sensitivity than the scores have.
        """
        self.check(rows)
        if isinstance(mechanism, Cost):
            norm = 1 if mechanism.privacy_measure == "pure" else 2
            mechanism = Noise.from_cost(mechanism, sensitivity=self.sensitivity(norm))
        if type(mechanism) is not self.answered_by:
            raise ParameterError(
                f"{self.label} is answered by {self.answered_by.__name__}, not by "
                f"{type(mechanism).__name__}"
            )
        if isinstance(mechanism, Noise):
            mechanism = replace(mechanism, steps=self.steps(rows))
        sensitivity = self.sensitivity(mechanism.norm)
        required = rows.required(self.reads) or None
        event = mechanism.event(sensitivity, required=required, label=self.label)
        return Release(event, mechanism, partial(self.exact, rows))

    def steps(self, rows: CountedRows) -> int:
        """Return the number of counting units into which a query's exact answer divides one row.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.

        Returns
        -------
        int
            1, unless rows have survey weights. Public.
        """
        return rows.facts.steps

    def check(self, rows: CountedRows) -> None:
        """Raise an error if private rows cannot answer a query, by public facts alone.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.

        Raises
        ------
        ParameterError
            If the schema lacks an attribute of the query.
        """
        rows.refuse_unknown(self.reads or ())

    def sensitivity(self, norm: float) -> float:
        """Return the largest change of a query's exact answer by one added or removed row.

        Parameters
        ----------
        norm : float
            The norm of the change: 1 for L1, 2 for L2, infinity for the largest change of one
            number.

        Returns
        -------
        float
            1 by default, in rows. Public.
        """
        del norm
        return 1

    def exact(self, rows: CountedRows) -> Any:
        """Return the exact answer of a query, which only a session computes, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        object
            The exact answer. Private.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Marginal(CountQuery):
    """Query for the number of rows with each combination of values of some attributes.

    Pass it to `Session.measure` with `Noise`. One row changes one count by one. The strategy for
    missing cells decides which rows are counted, and whether "missing" is a value.

    Parameters
    ----------
    clique : tuple of str
        Names of the attributes. Empty: the number of counted rows.

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges for the noise before it
    counts. The sensitivity is 1 in L1 and L2 norm, under add-remove adjacency.

    Examples
    --------
    >>> from missdp.session import Marginal
    >>> Marginal(("age", "sex")).label
    'marginal age x sex'
    """

    clique: Clique

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", tuple(self.clique))

    @property
    def reads(self) -> Clique:
        """Return the attributes whose combinations of values the query counts.

        The strategy for missing cells decides which of them a row must have observed.

        Returns
        -------
        tuple of str
            Names of attributes. Public.
        """
        return self.clique

    @property
    def label(self) -> str:
        """Return the public name of a query for counts, with the names of its attributes.

        Returns
        -------
        str
            For example ``"marginal age x sex"``. It is ``"number of counted rows"`` without
            attributes. Public.
        """
        return "marginal " + " x ".join(self.clique) if self.clique else "number of counted rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the exact number of rows with each combination of values.

        Only a session calls it, after the charge. No noise is added yet.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        ndarray of int64, shape (n_codes_1, ..., n_codes_k)
            Counts with one axis for each of the k attributes, in units of ``1 / steps`` rows.
            ``steps`` is 1 unless rows have survey weights (`CountedFacts.steps`). Private.
        """
        return rows.counts_of(self.clique)


@dataclass(frozen=True, kw_only=True)
class Tree(CountQuery):
    """Query for the number of rows in nested intervals of an attribute's ordered levels.

    The intervals are the nodes of a dyadic tree: halves, quarters, and so on. Pass the query to
    `Session.measure` with `Noise`. A row without a value is in no interval. Any other row is in one
    interval of each depth of the tree. If L depths are counted, the row changes L of all counts by
    1.

    Parameters
    ----------
    name : str
        Name of the attribute.
    size : int
        Number of levels of the attribute, at least 2.
    levels : sequence of int
        Depths of the tree that are counted, from 1 (two halves) to the depth of single levels.
        See ``missdp.inference.dyadic``.
    within : tuple of (int, int)
        Position of the first level of the tree, and of the first level after it. Outer levels
        count as the nearest level inside.

    Raises
    ------
    ParameterError
        If ``within`` has fewer than two levels of the attribute, or the tree lacks a depth.

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges for the noise before it
    counts. The sensitivity is L in L1 norm and the root of L in L2 norm, under add-remove
    adjacency.

    Examples
    --------
    >>> from missdp.session import Tree
    >>> Tree(name="age", size=8, levels=(1, 2), within=(0, 8)).sensitivity(1)
    2.0
    """

    name: str
    size: int
    levels: Sequence[int]
    within: tuple[int, int]

    def __post_init__(self) -> None:
        # These are copies. A change after the charge could count more levels than were charged.
        object.__setattr__(self, "levels", tuple(map(int, self.levels)))
        object.__setattr__(self, "within", tuple(map(int, self.within)))
        start, stop = self.within
        valid = 0 <= start < stop - 1
        if not valid or not {*self.levels} <= {*range(1, tree_depth(stop - start) + 1)}:
            raise ParameterError("levels must be those of a tree over at least two cells")

    @property
    def reads(self) -> Clique:
        """Return the attribute whose levels form the tree.

        Returns
        -------
        tuple of str
            One name. Public.
        """
        return (self.name,)

    @property
    def label(self) -> str:
        """Return the public name of the query, with the name of its attribute.

        Returns
        -------
        str
            For example ``"tree age"``. Public.
        """
        return f"tree {self.name}"

    def sensitivity(self, norm: float) -> float:
        """Return the largest change of the counts in a tree of intervals by one row.

        Parameters
        ----------
        norm : float
            1 for the L1 norm, any other number for the L2 norm.

        Returns
        -------
        float
            The number L of counted depths in L1 norm, and its square root, rounded up, in L2 norm.
            In rows. Public.
        """
        depth = len(self.levels)
        return float(depth) if norm == 1 else math.nextafter(math.sqrt(depth), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the exact number of rows in each interval of the tree.

        Only a session calls it, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        ndarray of int64, shape (n_intervals,)
            Counts of all intervals, one depth after the other, in units of ``1 / steps`` rows.
            Depth d has ``2**d`` intervals. ``steps`` is 1 unless rows have survey weights
            (`CountedFacts.steps`). Private.
        """
        cells, (start, stop) = rows.counts_of((self.name,))[: self.size], self.within
        place = np.clip(np.arange(len(cells)), start, stop - 1) - start
        inside = np.zeros(stop - start, dtype=np.int64)
        np.add.at(inside, place, cells)
        return np.concatenate(node_counts(inside, self.levels))
