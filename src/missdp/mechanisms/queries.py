"""What a door can be asked of its rows; a query knows its exact answer and how far a row moves it.

Queries hold public facts and released values only. `exact` computes from rows, and is private: only
a session calls it, after it has charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, number, replacing
from missdp.inference.dyadic import depth_of, folded
from missdp.mechanisms.noise import Noise, Selection
from missdp.mechanisms.session import exactly, no_warnings, plain_function, read_only
from missdp.schema import PairDenial, Schema
from missdp.schema.layout import STEPS
from missdp.sources import Clique, MarginalSource, MemorySource, Strategy
from missdp.sources.modelled import Modelled
from missdp.sources.partners import (
    check_comparable,
    check_countable,
    observed_on,
    violating_pairs,
)
from missdp.sources.strategies import PrivateCounts, is_weighed
from missdp.table import Table
from missdp.types import Floats, Ints

_STEPS = 1024  # of the grid, by which half the mean number of partners is counted
_ROW = 256  # steps of a row: the noise of their number has four times the scale


@dataclass(frozen=True, eq=False, repr=False)
class CountedRows:
    """The rows behind a door: as they came, and as they are counted. Private."""

    came: MarginalSource
    source: MarginalSource
    modelled: Modelled
    strategy: Strategy
    schema: Schema
    counts: PrivateCounts
    holes: dict[Clique, Ints] = field(default_factory=dict)
    # Scores that were worked out, each with the mark of the values that it is of.
    scores: dict[Score, dict[Clique, tuple[object, float]]] = field(default_factory=dict)
    sums: Ints | None = None  # over units: see `UnitSums`

    @property
    def steps(self) -> int:
        """How many steps of counts a row has, public."""
        return STEPS if is_weighed(self.came) else 1

    def refuse_weights(self, what: str) -> None:
        """Refuse what lets every row count for one, by public facts."""
        if self.steps > 1:
            raise ParameterError(f"{what} is not proven where rows count different amounts")

    def in_rows(self, counts: Ints) -> NDArray[Any]:
        """Return counts in rows, exactly."""
        return counts if self.steps == 1 else counts / self.steps

    def of(self, clique: Clique) -> Ints:
        """Return the counts of a clique, in steps."""
        return next(iter(self.counts.each([clique])))[1]

    def observed(self, names: Clique, sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows in which all of these are observed."""
        codes, whole = self.counts.codes(), self.strategy.complete_only
        holed = [name for name in names if self.schema[name].nullable and not whole]
        if not holed:
            return codes
        seen = np.logical_and.reduce([codes[n] < sizes[n] - 1 for n in holed])
        return {n: c[seen] for n, c in codes.items()}


class DoorQuery:
    """What is common to queries: one row moves one number by one, if nothing else is said."""

    answered_by: ClassVar[type] = Noise

    def steps(self, rows: CountedRows) -> int:
        """In how many steps of a row the exact answer is, public: more than one, if weighed."""
        return rows.steps

    def check(self, rows: CountedRows) -> None:
        """Refuse what cannot be answered, by public facts about the rows alone."""

    def moves(self, norm: float) -> float:
        """How far one row moves the answer, in L1 or L2 norm."""
        del norm
        return 1


@dataclass(frozen=True)
class RowCount(DoorQuery):
    """The number of all rows."""

    reads = None
    label = "number of rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the number; private."""
        return rows.source.counts([()], rows="extended")[()]


@dataclass(frozen=True)
class UnitSums(DoorQuery):
    """How much all units count, and the sum of the squares of what each does, over the bound.

    A unit counts its bound at most, ``max_rows`` or 1, and moves either number by that at most. It
    costs as much as if one of so many rows that are charged for together moved both by one.
    """

    reads = None
    label = "what units count, and its square"

    def check(self, rows: CountedRows) -> None:
        """Refuse rows of which it is not known."""
        if rows.sums is None:
            raise ParameterError("of these rows it is not known which belong together")

    def steps(self, rows: CountedRows) -> int:  # noqa: ARG002
        """In steps of a row, always."""
        return STEPS

    def moves(self, norm: float) -> float:
        """How far one row moves the two numbers."""
        return 2.0 if norm == 1 else math.nextafter(math.sqrt(2), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the two numbers; private."""
        assert rows.sums is not None  # checked before anything was charged
        return rows.sums


@dataclass(frozen=True)
class Kinds(DoorQuery):
    """How many holes of an attribute are of each kind; the first is plainly missing."""

    name: str

    reads = None

    @property
    def label(self) -> str:
        """Public name."""
        return f"kinds of missing of {self.name}"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts; private."""
        wanted = dict.fromkeys([(self.name,), *((other,) for other in rows.modelled.kinds)])
        if (self.name,) not in rows.holes:  # all in one pass
            rows.holes.update(rows.came.counts(wanted, rows="extended"))
        return rows.holes[self.name,][rows.modelled.whole[self.name].missing_code :]


@dataclass(frozen=True)
class Marginal(DoorQuery):
    """How many counted rows have each combination of some attributes' codes."""

    clique: Clique

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", tuple(self.clique))

    def check(self, rows: CountedRows) -> None:
        """Refuse attributes that there are not."""
        if unknown := {*self.clique} - {*rows.schema.names}:
            raise ParameterError(f"there is no attribute {min(unknown)!r}")

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
        return rows.of(self.clique)


@dataclass(frozen=True, kw_only=True)
class Tree(DoorQuery):
    """How many rows are in each node of a dyadic tree over an attribute's levels, as ordered.

    Cells without a value are in no node. Else a row is in one node of each level of the tree: of L
    such levels, it moves the vector of all counts by 1 in L places.

    Parameters
    ----------
    name, size
        Of the attribute: its name, and the number of its levels.
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

    def moves(self, norm: float) -> float:
        """How far one row moves the counts: by sqrt(L) in L2 norm, and by L in L1 norm."""
        deep = len(self.levels)
        return float(deep) if norm == 1 else math.nextafter(math.sqrt(deep), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts of all levels, one after the other; private."""
        cells, (start, stop) = rows.of((self.name,))[: self.size], self.within
        place = np.clip(np.arange(len(cells)), start, stop - 1) - start
        inside = np.zeros(stop - start, dtype=np.int64)
        np.add.at(inside, place, cells)
        return np.concatenate(folded(inside, self.levels))


@dataclass(frozen=True)
class PairRate:
    """A released share of the pairs of rows that violate a denial constraint.

    Parameters
    ----------
    partners : float
        Half the mean number of rows with which a row violates it; noisy, so it may be negative.
    rows : float
        The number of rows with a value of all its attributes; noisy.
    partners_std : float
        Standard deviation of the noise of ``partners``.

    """

    partners: float
    rows: float
    partners_std: float

    @property
    def rate(self) -> float:
        """The share of pairs, from 0 to 1."""
        return float(min(1.0, max(0.0, 2 * self.partners / max(1.0, self.rows))))

    @property
    def std(self) -> float:
        """Standard deviation of the noise of the share, as far as the number of rows is known."""
        return 2 * self.partners_std / max(1.0, self.rows)


@dataclass(frozen=True)
class ViolatingPairs(DoorQuery):
    """What is released of a denial constraint about two rows: two whole numbers.

    Notes
    -----
    Let ``m`` be the number of rows with a value of all attributes of the constraint, and ``S`` the
    number of pairs of these, in no order, that violate it. Then ``g = S / (m - 1)`` (0 if there are
    fewer than two) is half the mean number of violating partners of a row, and ``2 g / m`` is the
    share of pairs that violate the constraint. Adding a row that has ``v`` violating partners moves
    it to ``(S + v) / m``, so by

        v / m - S / (m (m - 1)),   where 0 <= v <= m and 0 <= S <= m (m - 1) / 2,

    which lies between -1/2 and 1. With ``m = 1`` it moves from 0 to ``v``, and with ``m = 0`` not
    at all. A row with a missing cell in one of the attributes moves nothing. So ``g`` moves by at
    most 1, whatever the rows are, and the share can be told with noise that falls as ``1 / m``.

    In whole numbers ``g`` is rounded down to a multiple of a grid's step. Numbers that differ by at
    most a whole number of steps still do so when both are rounded down, so rounding adds nothing.
    The number ``m`` is released with it, in coarser steps, since it matters less.
    """

    denial: PairDenial

    def check(self, rows: CountedRows) -> None:
        """Refuse what is none of the schema's, cannot be counted, or is about rows in a stream.

        Also rows that hold only bins of a numeric attribute that is compared.
        """
        if not any(self.denial is known for known in rows.modelled.whole.rulebook.pairs):
            raise ParameterError("a rate is released of the schema's own denial constraints only")
        check_countable(self.denial)
        rows.refuse_weights("a share of pairs of rows")
        if not isinstance(rows.came, MemorySource):
            raise ParameterError(
                "pairs of rows are counted in memory, and these rows are streamed; read them with "
                "Table.read"
            )
        check_comparable(self.denial, rows.came.schema, rows.came.valued)

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes of the constraint."""
        return self.denial.names

    @property
    def label(self) -> str:
        """Public name."""
        return f"pairs of rows that violate {self.denial.text}"

    def moves(self, norm: float) -> float:
        """How far a row moves the two numbers."""
        if norm == 1:
            return _STEPS + _ROW
        return math.isqrt(_STEPS**2 + _ROW**2) + 1  # it is no square

    def exact(self, rows: CountedRows) -> Ints:
        """Return the two numbers; private."""
        assert isinstance(rows.came, MemorySource)  # checked before anything was charged
        table = rows.came.table
        if rows.strategy.complete_only:
            table = table.take(~rows.modelled.table(table).incomplete_rows())
        return self.numbers(table)

    def numbers(self, table: Table) -> Ints:
        """Return the two numbers of a table; private."""
        rows = table.take(observed_on(self.denial.names, table))
        many = len(rows)
        pairs = violating_pairs(self.denial, rows) if many > 1 else 0
        # Python's whole numbers have no largest one, and are rounded down exactly.
        return np.array([_STEPS * pairs // max(1, many - 1), _ROW * many], dtype=np.int64)

    @staticmethod
    def read(cells: Ints, noise: Noise) -> PairRate:
        """Return what was released."""
        return PairRate(float(cells[0]) / _STEPS, float(cells[1]) / _ROW, noise.std / _STEPS)


Values: TypeAlias = tuple[Any, ...]
Given: TypeAlias = Callable[[Clique], Values] | Mapping[Clique, Values] | None
_FIXED = object()  # the mark of values that stay the same for good


class Facts(tuple[Any, ...]):
    """Released values that a score takes, and that are not changed as long as they are kept."""

    def __init__(self, values: Iterable[Any]) -> None:
        del values
        self.mark = object()  # by which a score is remembered, without keeping the values


@dataclass(frozen=True)
class Score:
    """How much a candidate deserves to be selected: a pure function of its exact counts.

    Parameters
    ----------
    function : callable
        ``function(counts, *given)`` returns a finite number. A plain function without a closure or
        defaults, so that it cannot carry counts away: it sees them, what is given, and nothing
        else.
    sensitivity : float
        How far one row can move the score: the author's proof, rounding of the function included.
    of_shares : bool, default False
        Whether it is proven that a row that counts for a share of one moves the score by that share
        of the sensitivity at most. If not, nothing is selected where rows count different amounts.

    """

    function: Callable[..., float]
    sensitivity: float
    of_shares: bool = False

    def __post_init__(self) -> None:
        plain_function(self.function, "a score")
        number("sensitivity", self.sensitivity, most=math.inf, open_end=True)

    def of(self, counts: Ints, given: Values = ()) -> float:
        """Return the score; private."""
        return float(self.function(read_only(counts), *map(read_only, given)))


@dataclass(frozen=True, eq=False)
class Scores(DoorQuery):
    """The scores of cliques, each of its counts and what is given; see `Door.select`."""

    cliques: Sequence[Clique]
    score: Score
    given: Given = None

    answered_by = Selection
    reads = ()
    label = "selection of a marginal"

    def __post_init__(self) -> None:
        exactly(Score, self.score)

    def check(self, rows: CountedRows) -> None:
        """Refuse a score that is proven for whole rows, where rows count different amounts."""
        if not self.score.of_shares:
            rows.refuse_weights("a score that is not proven for a share of a row")

    def moves(self, norm: float) -> float:
        """How far one row moves any of the scores."""
        del norm
        return self.score.sensitivity

    def exact(self, rows: CountedRows) -> Floats:
        """Return the scores; private."""
        known, given = rows.scores.setdefault(self.score, {}), self.given
        failed = DataError("the score of a candidate failed")
        for clique, counts in rows.counts.each(list(self._lacking(known))):
            values = given(clique) if callable(given) else given[clique] if given else ()
            mark = getattr(values, "mark", object()) if callable(given) else _FIXED
            if clique in known and known[clique][0] is mark:
                continue
            # An error or a warning could tell of counts.
            with replacing(Exception, by=failed), no_warnings():
                known[clique] = mark, self.score.of(rows.in_rows(counts), values)
        return np.array([known[c][1] for c in self.cliques], dtype=np.float64)

    def _lacking(self, known: Mapping[Clique, tuple[object, float]]) -> Iterator[Clique]:
        for clique in dict.fromkeys(self.cliques):
            if callable(self.given) or known.get(clique, (0,))[0] is not _FIXED:
                yield clique
