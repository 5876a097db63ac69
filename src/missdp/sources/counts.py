"""Exact counts of many cliques in one pass over the rows: what a source promises, and the kernel.

`MarginalSource` is the protocol that every source obeys, and `MemorySource` the source for tables
held in memory. Every source of ours is a `CountingSource`: it feeds chunks of rows, as codes, to
one counting kernel (`Counter`), so every source counts alike.

Cliques that overlap are counted together: a chunk's cells are indexed once per *group* of
attributes (a small joint domain that contains several cliques), and the cliques are summed out of
the groups at the end. All pairs of 15 attributes need about 20 groups instead of 105 index
computations.
"""

from __future__ import annotations

import abc
import copy
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.schema import Numeric, Schema
from missdp.schema.layout import STEPS
from missdp.sources.partners import check_comparable
from missdp.table import Table
from missdp.types import Flags, Floats, Ints

Clique: TypeAlias = tuple[str, ...]  #: Names of attributes that are counted together.
#: Exact counts of cliques; private.
Counts: TypeAlias = dict[Clique, Ints]
#: Which rows count: those observed on the clique, or all, with missing as one more level.
Rows: TypeAlias = Literal["observed", "extended"]
#: What is asked of a source: counts of cliques, sums of rows' weights too, or the rows.
Reads: TypeAlias = Literal["counts", "weights", "rows"]


@dataclass(frozen=True, eq=False)
class RowWeight:
    """The factor by which a row's vector of products is clipped: a whole number for each row.

    A row has a block of numbers for each attribute, of squared length ``squares[name][code]``, and
    further numbers that enter no product, of squared length ``further[name][code]``. Its vector is
    made of the blocks and the further numbers, each times ``alone``, and of the products of every
    two blocks, so its squared length is ``alone^2 (S + R) + (S^2 - Q) / 2`` with S the sum of the
    squared lengths of blocks, Q the sum of their squares, and R the sum of the squared lengths of
    the further numbers. The weight is the largest whole number up to ``most`` by which that vector
    can be multiplied without becoming longer than ``bound``.

    Parameters
    ----------
    squares : mapping of str to array of int64
        For each attribute the squared length of the block of each code, at least 0.
    alone : int
        At least 0.
    bound : int
        At least 1.
    most : int
        At least 1, below 2**32.
    further : mapping of str to array of int64
        By attribute of ``squares`` that has further numbers.

    Examples
    --------
    >>> squares = {"a": np.array([4, 0]), "b": np.array([9, 1])}
    >>> weight = RowWeight(squares, alone=1, bound=70, most=20)
    >>> weight({"a": np.array([0, 1]), "b": np.array([0, 1])}).tolist()  # of lengths 7 and 1
    [9, 20]
    """

    squares: Mapping[str, Ints]
    alone: int
    bound: int
    most: int
    further: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes whose codes it reads."""
        return tuple(self.squares)

    def __call__(self, codes: Mapping[str, NDArray[Any]]) -> Ints:
        """Return the weight of each row of a chunk."""
        size = len(next(iter(codes.values()))) if codes else 0
        total, squared = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for name, lengths in self.squares.items():
            block = lengths[codes[name]]
            total += block
            squared += block * block
        rest = np.zeros(size, dtype=np.int64)
        for name, lengths in self.further.items():
            rest += lengths[codes[name]]
        length = np.sqrt(
            (self.alone**2 * (total + rest) + (total * total - squared) // 2).astype(np.float64)
        )
        # Rounding of the conversion, the root and the quotient together is far below 2**-50.
        with np.errstate(divide="ignore"):
            factor = self.bound * (1 - 2.0**-50) / length
        return np.asarray(np.floor(np.minimum(factor, self.most)), dtype=np.int64)

    def recoded(self, codes: Mapping[str, Ints]) -> RowWeight:
        """Return the weight of rows with other codes, of which ``codes`` tells those known here."""
        squares = {name: lengths[codes[name]] for name, lengths in self.squares.items()}
        further = {name: lengths[codes[name]] for name, lengths in self.further.items()}
        return RowWeight(squares, self.alone, self.bound, self.most, further)


@runtime_checkable
class MarginalSource(Protocol):
    """Exact counts of a private table; what comes out is private and must not be released.

    An implementation needs a schema and one method. The conformance suite in ``tests/sources``
    runs over every implementation.

    Notes
    -----
    Adding or removing one row changes each clique's counts by at most 1 in one cell (L1 and L2
    sensitivity 1), missing cells or not.
    """

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        ...

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count the rows in every cell of every clique, in one pass over the data.

        Parameters
        ----------
        cliques : iterable of tuple of str
            Attribute names; order matters for the axes. The empty clique counts all rows.
        rows : {"observed", "extended"}
            ``"observed"``: only rows observed on all attributes of the clique; shape
            ``schema.shape(clique)``. ``"extended"``: every row, missing is the last level of each
            nullable attribute; shape ``schema.extended_shape(clique)``.

        Returns
        -------
        dict of tuple of str to array of int64
            One array per distinct clique.

        Raises
        ------
        ParameterError
            If a clique repeats an attribute or has too many cells to hold in memory.
        SchemaError
            If a clique names an attribute that the schema does not declare.
        DataError
            If the data does not fit the schema or cannot be read. Quotes no value and no count.
        """
        ...


def offers(source: object, method: str) -> bool:
    """Whether a source has a method beside those that all have; asked of its type."""
    return callable(getattr(type(source), method, None))


def weighing(source: MarginalSource) -> Any:
    """Return a source that adds up weights of rows (``weighted_counts``); refuse others."""
    if not offers(source, "weighted_counts"):
        raise ParameterError(
            "this release counts rows by weights, and the source has no method weighted_counts; "
            "read the rows with Table.read, or use another synthesizer"
        )
    return source


def recodable(source: MarginalSource) -> frozenset[str]:
    """Return the numeric attributes that a source can put into other bins; a public fact."""
    if not offers(source, "coded_as"):
        return frozenset()
    names = frozenset(a.name for a in source.schema if isinstance(a, Numeric))
    return names & source.valued if isinstance(source, MemorySource) else names


def readable(source: MarginalSource, reads: Reads) -> MarginalSource:
    """Return a source that can be read as a family needs it; refuse one that cannot.

    Raises
    ------
    ParameterError
    DataError
    If rows are read, and hold only bins of a number that is compared between two rows.
    """
    if reads == "rows":
        if not isinstance(source, MemorySource):
            raise ParameterError(
                "this fit needs the rows in memory, and these are streamed; read them with "
                "Table.read"
            )
        for denial in source.schema.rulebook.pairs:
            if denial.holds == "mostly":  # its rate is released
                check_comparable(denial, source.schema, source.valued)
    return weighing(source) if reads == "weights" else source


CHUNK_ROWS = 65_536
GROUP_CELLS = 16_384  # counts of one group stay in the second-level cache
MAX_CELLS = 50_000_000  # of one clique: 400 MB of counts
_MAX_TOTAL_CELLS = 4 * MAX_CELLS
_PLANNED_AT_ONCE = 2000  # cliques
_BLOCK = 32  # attributes
_BLOCK_CELLS = 2**17  # one megabyte of counts


@dataclass(frozen=True)
class _Group:
    """Attributes that are counted jointly, and the cliques that are read off them."""

    names: Clique
    shape: tuple[int, ...]
    cliques: tuple[Clique, ...]


class Counter:
    """Add up the cells of chunks of rows. Chunks may be added from several threads.

    A pickled counter has the same plan and no counts: what another process adds up comes back as
    :meth:`blocks`. ``group_cells`` bounds the joint domain that cliques may be merged into.
    """

    def __init__(
        self, schema: Schema, cliques: Sequence[Clique], *, group_cells: int = GROUP_CELLS
    ) -> None:
        groups = _plan_groups(schema, cliques, group_cells=group_cells)
        self.__setstate__((schema, tuple(cliques), groups))

    def __getstate__(self) -> tuple[Any, ...]:
        return self._schema, self._cliques, self._groups

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._schema, self._cliques, self._groups = state
        self._totals = [np.zeros(math.prod(g.shape), dtype=np.int64) for g in self._groups]
        self._lock = threading.Lock()

    @property
    def names(self) -> Clique:
        """Attributes whose codes :meth:`add` needs, in schema order."""
        used = {name for clique in self._cliques for name in clique}
        return tuple(name for name in self._schema.names if name in used)

    def needed(self, weight: RowWeight | None) -> Clique:
        """Return the attributes whose codes are needed to count rows."""
        return tuple(dict.fromkeys((*self.names, *(weight.names if weight else ()))))

    def add(
        self,
        codes: Mapping[str, NDArray[np.unsignedinteger]],
        n_rows: int,
        weights: Ints | None = None,
    ) -> None:
        """Add the rows of one chunk, each as often as its weight says, below 2**32."""
        for group, total in zip(self._groups, self._totals, strict=True):
            if not group.names:
                with self._lock:
                    total += n_rows if weights is None else weights.sum()
                continue
            cell = _cell_index(codes, group)
            if total.size <= 4 * n_rows:  # sums of whole numbers below 2**53 are exact
                partial = np.bincount(cell, weights, minlength=total.size).astype(np.int64)
                with self._lock:
                    total += partial
            else:  # many more cells than rows: touch only the cells that occur
                with self._lock:
                    np.add.at(total, cell, 1 if weights is None else weights)

    def blocks(self) -> Iterator[tuple[int, Ints]]:
        """Yield everything counted so far as numbered vectors of a megabyte: views, to add to."""
        starts = ((t, s) for t in self._totals for s in range(0, t.size, _BLOCK_CELLS))
        for number, (total, start) in enumerate(starts):
            yield number, total[start : start + _BLOCK_CELLS]

    def result(self, rows: Rows) -> Counts:
        """Return the counts of every clique, once: what was read off is no longer held."""
        found: Counts = {}
        self._totals.reverse()
        for group in self._groups:
            joint = self._totals.pop().reshape(group.shape)
            for clique in group.cliques:
                found[clique] = self._read_off(joint, group.names, clique, rows)
        return {clique: found[clique] for clique in self._cliques}

    def _read_off(self, joint: Ints, names: Clique, clique: Clique, rows: Rows) -> Ints:
        others = tuple(axis for axis, name in enumerate(names) if name not in clique)
        kept = [name for name in names if name in clique]
        counts = joint.sum(axis=others).transpose([kept.index(name) for name in clique])
        if rows == "observed":
            counts = counts[tuple(slice(size) for size in self._schema.shape(clique))]
        return np.array(counts, dtype=np.int64, order="C")


def check_cliques(schema: Schema, cliques: Iterable[Clique], rows: Rows) -> tuple[Clique, ...]:
    """Return the distinct cliques in order, or refuse what cannot be counted."""
    if rows not in ("observed", "extended"):
        raise ParameterError(f"rows must be 'observed' or 'extended', not {rows!r}")
    distinct: dict[Clique, int] = {}
    for clique in cliques:
        if isinstance(clique, str):
            raise ParameterError(f"a clique is a tuple of names: write ({clique!r},)")
        names = tuple(clique)
        if len(set(names)) != len(names):
            raise ParameterError(f"clique {names} repeats an attribute")
        cells = math.prod(schema.extended_shape(names))
        if cells > MAX_CELLS:
            raise ParameterError(
                f"clique {names} has {cells:,} cells, more than the {MAX_CELLS:,} that are counted "
                "exactly; use fewer attributes, or fewer bins or levels"
            )
        distinct[names] = cells
    total = sum(distinct.values())
    if total > _MAX_TOTAL_CELLS:
        raise ParameterError(
            f"{len(distinct)} cliques have {total:,} cells together, more than the "
            f"{_MAX_TOTAL_CELLS:,} that are held at once; ask for fewer cliques at a time"
        )
    return tuple(distinct)


def _plan_groups(
    schema: Schema, cliques: Sequence[Clique], *, group_cells: int
) -> tuple[_Group, ...]:
    """Cover the cliques by few groups of attributes (greedily; public facts only).

    That takes time that grows with the square of the number of cliques, so many are planned in
    batches of those that lie in the same blocks of neighbouring attributes.
    """
    if len(cliques) <= _PLANNED_AT_ONCE:
        return _planned(schema, cliques, group_cells)
    column = {name: i for i, name in enumerate(schema.names)}
    batches: dict[tuple[int, ...], list[Clique]] = {}
    for clique in cliques:
        blocks = tuple(sorted({column[name] // _BLOCK for name in clique}))
        batches.setdefault(blocks, []).append(clique)
    groups: list[_Group] = []
    for batch in batches.values():
        for start in range(0, len(batch), _PLANNED_AT_ONCE):
            part = batch[start : start + _PLANNED_AT_ONCE]
            groups += _planned(schema, part, group_cells)
    return tuple(groups)


def _planned(schema: Schema, cliques: Sequence[Clique], group_cells: int) -> tuple[_Group, ...]:
    """Cover a few cliques by groups; see `_plan_groups`."""
    used = {name for clique in cliques for name in clique}
    attributes = [a for a in schema if a.name in used]
    all_names = tuple(a.name for a in attributes)
    sizes = np.array([a.extended_size for a in attributes], dtype=np.float64)
    column = {name: i for i, name in enumerate(all_names)}
    member = np.zeros((len(cliques), len(attributes)), dtype=bool)
    for row, clique in enumerate(cliques):
        member[row, [column[name] for name in clique]] = True
    waiting = np.arange(len(cliques))[np.argsort(-member.sum(axis=1), kind="stable")]
    member = np.asfortranarray(member[waiting])
    groups = []
    while len(waiting):
        chosen = _grow(member[0], member, sizes, group_cells)
        covered = ~np.any(member[:, ~chosen], axis=1)
        names = tuple(name for name, taken in zip(all_names, chosen, strict=True) if taken)
        members = tuple(cliques[row] for row in waiting[covered])
        groups.append(_Group(names, schema.extended_shape(names), members))
        waiting, member = waiting[~covered], np.asfortranarray(member[~covered])
    return tuple(groups)


def _grow(
    start: Flags,
    member: Flags,
    sizes: Floats,
    group_cells: int,
) -> Flags:
    chosen = start.copy()
    lacking = np.count_nonzero(member[:, ~chosen], axis=1)
    while True:
        gain = member[lacking == 1].sum(axis=0).astype(np.float64)
        too_big = np.prod(sizes[chosen]) * sizes > group_cells
        gain[chosen | too_big] = 0.0
        if not gain.any():
            return chosen
        best = np.lexsort((sizes, -gain))[0]
        chosen[best] = True
        lacking -= member[:, best]


def _cell_index(codes: Mapping[str, NDArray[np.unsignedinteger]], group: _Group) -> NDArray[Any]:
    """Mixed-radix cell number of every row, in the smallest integer type that holds it."""
    cells = math.prod(group.shape)
    kind: np.dtype[Any] = np.dtype(np.uint16 if cells < 2**16 else np.int64)
    index: NDArray[Any] = codes[group.names[0]].astype(kind)
    for name, size in zip(group.names[1:], group.shape[1:], strict=True):
        index *= kind.type(size)
        index += codes[name].astype(kind, copy=False)
    return index


class CountingSource(abc.ABC):
    """A source whose rows are fed to a `Counter`, a chunk at a time."""

    def __init__(self, schema: Schema) -> None:
        #: Public facts about the columns.
        self.schema = schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique; see :meth:`missdp.sources.MarginalSource.counts`."""
        counter = self._counter(check_cliques(self.schema, cliques, rows))
        self._count(counter, None)
        return counter.result(rows)

    def weighted_counts(self, cliques: Iterable[Clique], weight: RowWeight) -> Counts:
        """Add up the weights of the rows in every cell of every clique, missing cells included."""
        counter = self._counter(check_cliques(self.schema, cliques, "extended"))
        self._count(counter, weight)
        return counter.result("extended")

    def _counter(self, cliques: tuple[Clique, ...]) -> Counter:
        return Counter(self.schema, cliques)

    @abc.abstractmethod
    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        """Add every row to a counter."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.schema.names)})"


def count_block(
    counter: Counter,
    codes: Mapping[str, NDArray[Any]],
    n_rows: int,
    weight: RowWeight | None,
    shares: Ints | None = None,
) -> None:
    """Add rows in memory to a counter, a chunk at a time; ``shares`` are what each counts.

    They are in steps, and so are counts. Of a row's vector its share is left, rounded down to whole
    numbers: a vector that is clipped becomes no longer than that share of the clip norm.
    """
    for start in range(0, n_rows, CHUNK_ROWS):
        chunk = {name: c[start : start + CHUNK_ROWS] for name, c in codes.items()}
        n_chunk = min(CHUNK_ROWS, n_rows - start)
        times = weight(chunk) if weight else None
        if shares is not None:
            share = shares[start : start + CHUNK_ROWS]
            times = share if times is None else times * share // STEPS
        counter.add(chunk, n_chunk, times)


class MemorySource(CountingSource):
    """Count a :class:`~missdp.table.Table` in memory, a chunk of rows at a time.

    Parameters
    ----------
    table : Table
        The private rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
    >>> frame = pd.DataFrame({"smoker": ["yes", None, "no", "yes"]})
    >>> source = MemorySource(Table.read(frame, schema))
    >>> source.counts([("smoker",)], rows="observed")[("smoker",)].tolist()
    [1, 2]
    >>> source.counts([("smoker",)], rows="extended")[("smoker",)].tolist()
    [1, 2, 1]
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table.schema)
        self._table: Table | Callable[[], Table] = table
        self._weights = table._weights
        #: Attributes of which the rows have values, not bins alone: a public fact.
        self.valued = frozenset(n for n in table.schema.names if table.column(n).values is not None)

    @property
    def weighed(self) -> bool:
        """Whether rows count different amounts, so that counts are in steps; a public fact."""
        return self._weights is not None

    def taken(self, rows: Flags) -> MemorySource:
        """Return some of the rows, with what they count."""
        found = MemorySource(self.table.take(rows))
        found._weights = None if self._weights is None else self._weights[rows]
        return found

    @property
    def table(self) -> Table:
        """The private rows."""
        if not isinstance(self._table, Table):
            self._table = self._table()
        return self._table

    def later(self, schema: Schema, worked_out: Callable[[Table], Table]) -> MemorySource:
        """Return rows that are worked out from these when the first of them is counted.

        They are as many, in the same order: each counts what it did.
        """
        found = copy.copy(self)
        found.schema, found._table = schema, lambda: worked_out(self.table)
        found.valued = self.valued & {*schema.names}
        return found

    def coded_as(self, schema: Schema) -> MemorySource:
        """Return the same rows with other bins; they are put into them once they are counted."""
        return self.later(schema, lambda table: table.coded_as(schema))

    def _counter(self, cliques: tuple[Clique, ...]) -> Counter:
        few = min(GROUP_CELLS, len(self.table) // 4)
        return Counter(self.schema, cliques, group_cells=few)

    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        codes = {name: self.table.codes(name) for name in counter.needed(weight)}
        count_block(counter, codes, len(self.table), weight, self._weights)
