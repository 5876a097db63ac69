"""What can be asked of counted rows: each query knows its exact answer and how far a row moves it.

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
from missdp.inference.dyadic import depth_of, folded
from missdp.session.counting import Clique
from missdp.session.mechanisms import Noise
from missdp.session.session import Release
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows


class CountQuery:
    """What queries have in common: one row moves one number by one, unless a query says otherwise.

    Attributes
    ----------
    label : str
        Public name.
    reads : tuple of str or None
        The attributes that are counted together. None: every row is read, whatever is missing.
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
        """The attributes that are counted together; None if every row is read."""
        return None

    def plan(self, rows: CountedRows, mechanism: Any) -> Release:
        """Return how the query is answered, and its price; refuse it, by public facts alone."""
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
        """Return in how many steps of a row the exact answer is; public."""
        return rows.facts.steps

    def check(self, rows: CountedRows) -> None:
        """Refuse what cannot be answered, by public facts about the rows alone."""
        rows.refuse_unknown(self.reads or ())

    def sensitivity(self, norm: float) -> float:
        """Return how far one row moves the answer, in the L1 or the L2 norm."""
        del norm
        return 1

    def exact(self, rows: CountedRows) -> Any:
        """Return the exact answer; private."""
        raise NotImplementedError


@dataclass(frozen=True)
class Marginal(CountQuery):
    """How many counted rows have each combination of some attributes' codes."""

    clique: Clique

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", tuple(self.clique))

    @property
    def reads(self) -> Clique:
        """The attributes; the strategy says which of them a row must have observed."""
        return self.clique

    @property
    def label(self) -> str:
        """Public name."""
        return "marginal " + " x ".join(self.clique) if self.clique else "number of counted rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts; private."""
        return rows.counts_of(self.clique)


@dataclass(frozen=True, kw_only=True)
class Tree(CountQuery):
    """How many rows are in each node of a dyadic tree over an attribute's levels, as ordered.

    Cells without a value are in no node. Else a row is in one node of each level of the tree: of L
    such levels, it moves the vector of all counts by 1 in L places.

    Parameters
    ----------
    name : str
        Of the attribute.
    size : int
        Number of its levels.
    levels : sequence of int
        Of the tree, which are counted: 1 is the halves; see ``missdp.inference.dyadic``.
    within : (int, int)
        First cell that the tree is over, and the first after it. What lies outside is counted as
        the nearest cell inside.
    """

    name: str
    size: int
    levels: Sequence[int]
    within: tuple[int, int]

    def __post_init__(self) -> None:
        # Copies: changed after the charge, more levels could be counted than were paid for.
        object.__setattr__(self, "levels", tuple(map(int, self.levels)))
        object.__setattr__(self, "within", tuple(map(int, self.within)))
        start, stop = self.within
        known = 0 <= start < stop - 1
        if not known or not {*self.levels} <= {*range(1, depth_of(stop - start) + 1)}:
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
        """Return how far one row moves the counts: by sqrt(L) in L2 norm, and by L in L1 norm."""
        deep = len(self.levels)
        return float(deep) if norm == 1 else math.nextafter(math.sqrt(deep), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts of all levels, one after the other; private."""
        cells, (start, stop) = rows.counts_of((self.name,))[: self.size], self.within
        place = np.clip(np.arange(len(cells)), start, stop - 1) - start
        inside = np.zeros(stop - start, dtype=np.int64)
        np.add.at(inside, place, cells)
        return np.concatenate(folded(inside, self.levels))
