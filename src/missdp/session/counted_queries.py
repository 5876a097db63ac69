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
    """Base class of queries. One row changes one number by one, unless a subclass states otherwise.

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
        """Public name."""
        raise NotImplementedError

    @property
    def reads(self) -> Clique | None:
        """The attributes that are counted together, or None if every row is read."""
        return None

    def plan(self, rows: CountedRows, mechanism: Any) -> Release:
        """Return the release of the query, or raise an error. Public facts alone decide."""
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
        """Return the number of steps in a row of the exact answer. Public."""
        return rows.facts.steps

    def check(self, rows: CountedRows) -> None:
        """Raise an error if the rows cannot answer the query. Public facts alone decide."""
        rows.refuse_unknown(self.reads or ())

    def sensitivity(self, norm: float) -> float:
        """Return the sensitivity of the answer to one row, in the L1 or the L2 norm."""
        del norm
        return 1

    def exact(self, rows: CountedRows) -> Any:
        """Return the exact answer. Private."""
        raise NotImplementedError


@dataclass(frozen=True)
class Marginal(CountQuery):
    """Query for the number of counted rows with each combination of some attributes' codes.

    Parameters
    ----------
    clique : tuple of str
        The attributes.

    Examples
    --------
    >>> Marginal(("age", "sex")).label
    'marginal age x sex'
    """

    clique: Clique

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", tuple(self.clique))

    @property
    def reads(self) -> Clique:
        """The attributes. The strategy decides which of them a row must have observed."""
        return self.clique

    @property
    def label(self) -> str:
        """Public name."""
        return "marginal " + " x ".join(self.clique) if self.clique else "number of counted rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts. Private."""
        return rows.counts_of(self.clique)


@dataclass(frozen=True, kw_only=True)
class Tree(CountQuery):
    """Query for the number of rows in each node of a dyadic tree over an attribute's levels.

    A row without a value is in no node. Any other row is in one node of each level of the tree. If
    L levels are counted, the row changes L of all counts by 1.

    Parameters
    ----------
    name : str
        Name of the attribute.
    size : int
        Number of levels of the attribute.
    levels : sequence of int
        Levels of the tree that are counted. Level 1 is the halves (``missdp.inference.dyadic``).
    within : (int, int)
        The first cell of the tree, and the first cell after it. Cells outside are counted as the
        nearest cell inside.
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
        """The attribute."""
        return (self.name,)

    @property
    def label(self) -> str:
        """Public name."""
        return f"tree {self.name}"

    def sensitivity(self, norm: float) -> float:
        """Return the sensitivity of the counts: sqrt(L) in L2 norm, and L in L1 norm."""
        depth = len(self.levels)
        return float(depth) if norm == 1 else math.nextafter(math.sqrt(depth), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts of all levels, one level after the other. Private."""
        cells, (start, stop) = rows.counts_of((self.name,))[: self.size], self.within
        place = np.clip(np.arange(len(cells)), start, stop - 1) - start
        inside = np.zeros(stop - start, dtype=np.int64)
        np.add.at(inside, place, cells)
        return np.concatenate(node_counts(inside, self.levels))
