"""The counting kernel: exact counts of many cliques of attributes in one pass over the rows.

`MarginalSource` is the protocol that every source obeys. Every source of this library is a
`CountingSource`: it feeds chunks of rows, as codes, to one counting kernel (`Counter`). The kernel
checks the number of rows, the type and the public range of every column before it counts. One row
more changes the counts of a clique by one in one cell, or by the row's weight.

Cliques that overlap are counted together. A *group* of attributes is a small joint domain that
contains several cliques. A chunk's cells are indexed once per group, and the cliques are summed out
of the groups at the end. All pairs of 15 attributes need about 20 groups instead of 105 index
computations.
"""

from __future__ import annotations

import abc
import copy
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Filter
from missdp.accounting.budget import check_paid
from missdp.errors import DataError
from missdp.schema import Schema
from missdp.schema.cliques import Clique as Clique
from missdp.schema.cliques import Rows as Rows
from missdp.schema.cliques import check_cliques, plan_groups
from missdp.schema.layout import STEPS
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.session.row_weights import RowWeight

#: Map from each clique (a tuple of names of attributes) to an array of exact numbers of rows. The
#: axes follow the order of the names. Private.
Counts: TypeAlias = dict[Clique, Ints]
#: The reading of a source that a fit needs: "counts" of rows, "weights" for sums of the weights of
#: rows in addition, or "rows" for rows in memory.
Reads: TypeAlias = Literal["counts", "weights", "rows"]


@runtime_checkable
class MarginalSource(Protocol):
    """Protocol of sources of a private table, which return exact numbers of rows.

    The numbers are private and must not be released: a `Session` adds noise to them. An
    implementation defines a schema and the method ``counts``. The tests in ``tests/sources`` run
    over every implementation of this package.

    Notes
    -----
    Adding or removing one row changes each table of counts by at most 1 in one cell (L1 and L2
    sensitivity 1), missing cells or not. A source charges nothing. A `Session` charges the budget
    before it calls ``counts``.
    """

    @property
    def schema(self) -> Schema:
        """Return the public facts about the columns of the private table.

        Returns
        -------
        Schema
            Public.
        """
        ...

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Return the exact number of private rows with each combination of attribute values.

        All tables of counts are made in one pass over the rows.

        Parameters
        ----------
        cliques : iterable of tuple of str
            Names of the attributes of each table of counts (clique). Their order is the order of
            the axes. The empty clique counts all rows.
        rows : {"observed", "extended"}
            ``"observed"``: only rows observed on all attributes of the clique, in the shape
            ``schema.shape(clique)``. ``"extended"``: every row, with missing as the last level of
            each nullable attribute, in the shape ``schema.extended_shape(clique)``.

        Returns
        -------
        dict of tuple of str to array of int64
            One array for each distinct clique, in rows. With survey weights, in units of 2**-20 of
            a row, where a row counts ``min(weight, upper) / upper``. Private.

        Raises
        ------
        ParameterError
            If a clique is no tuple, repeats an attribute or has too many cells to hold in memory,
            or ``rows`` is invalid.
        SchemaError
            If a clique names an attribute that the schema does not declare.
        DataError
            If the data does not fit the schema or cannot be read. Quotes no value and no count.
        """
        ...


def check_counts(counts: Ints, shape: tuple[int, ...]) -> Ints:
    """Return exact counts of a source, after a check of their shape and type.

    Parameters
    ----------
    counts : ndarray
        The counts. Private.
    shape : tuple of int
        The public shape.

    Returns
    -------
    ndarray of int64
        The counts.

    Raises
    ------
    DataError
        If shape or type is wrong. The message quotes no count.
    """
    if counts.shape != shape or counts.dtype.kind not in "iu":
        raise DataError("counts do not have their public shape; nothing was released")
    return counts


def has_method(source: object, method: str) -> bool:
    """Whether the type of a source has an optional method."""
    return callable(getattr(type(source), method, None))


def outside_engine(source: MarginalSource) -> str:
    """Return the public name of the engine that counts, empty if the kernel counts."""
    if isinstance(source, CountingSource) and type(source).counts is CountingSource.counts:
        return type(source).engine
    return type(source).__name__


def is_weighed(source: MarginalSource) -> bool:
    """Whether the counts of a source are in steps, since rows have weights. Public."""
    return isinstance(source, CountingSource) and source.weighed


CHUNK_ROWS = 65_536  # rows that are counted in one step
GROUP_CELLS = 16_384  # cells of a group, whose counts then fit into the second-level cache
MAX_WEIGHT = 2**32  # weight of one row; sums of fewer than 2**21 rows are exact in doubles
_BLOCK_CELLS = 2**17  # cells of a block of counts, one megabyte


@dataclass(frozen=True)
class _Group:
    """Attributes that are counted jointly, and the cliques that are summed from their counts."""

    names: Clique
    shape: tuple[int, ...]
    cliques: list[Clique]


class Counter:
    """Adds up the cells of chunks of rows. Chunks may be added from several threads.

    A pickled counter has the same plan and no counts. Another process returns its counts as
    :meth:`blocks`.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    cliques : sequence of tuple of str
        The cliques to count.
    group_cells : int
        Largest joint domain, in cells, into which several cliques are merged.
    """

    def __init__(
        self, schema: Schema, cliques: Sequence[Clique], *, group_cells: int = GROUP_CELLS
    ) -> None:
        planned = plan_groups(schema, cliques, group_cells=group_cells)
        groups = [_Group(names, schema.extended_shape(names), read) for names, read in planned]
        self.__setstate__((schema, tuple(cliques), groups))

    def __getstate__(self) -> tuple[Any, ...]:
        return self._schema, self._cliques, self._groups

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._schema, self._cliques, self._groups = state
        self._totals = [np.zeros(math.prod(g.shape), dtype=np.int64) for g in self._groups]
        self._sizes = {name: self._schema[name].extended_size for name in self.names}
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
        """Add the rows of one chunk, each multiplied by its weight.

        Parameters
        ----------
        codes : mapping of str to array of unsigned int, each of shape (n_rows,)
            The codes of each attribute. Private.
        n_rows : int
            The number of rows. Private.
        weights : array of int64, shape (n_rows,), optional
            The weight of each row, below 2**32. By default a row counts one. Private.

        Raises
        ------
        DataError
            If a column has another number of rows, another type or codes that the schema does not
            have. The text is fixed.
        """
        self._check(codes, n_rows, weights)
        for group, total in zip(self._groups, self._totals, strict=True):
            if not group.names:
                with self._lock:
                    total += n_rows if weights is None else weights.sum()
                continue
            cell = _cell_index(codes, group)
            if total.size <= 4 * n_rows:  # sums of integers below 2**53 are exact
                partial = np.bincount(cell, weights, minlength=total.size).astype(np.int64)
                with self._lock:
                    total += partial
            else:  # with many more cells than rows, only the cells that occur are changed
                with self._lock:
                    np.add.at(total, cell, 1 if weights is None else weights)

    def _check(self, codes: Mapping[str, NDArray[Any]], n_rows: int, weights: Ints | None) -> None:
        valid = all(_in_range(codes[name], n_rows, size) for name, size in self._sizes.items())
        if weights is not None:
            valid = valid and weights.dtype == np.int64 and _in_range(weights, n_rows, MAX_WEIGHT)
        if not valid:
            raise DataError("the codes of rows are not those of the schema; nothing was counted")

    def blocks(self) -> Iterator[tuple[int, Ints]]:
        """Yield all counts so far as numbered vectors of a megabyte, which are writable views."""
        starts = ((t, s) for t in self._totals for s in range(0, t.size, _BLOCK_CELLS))
        for number, (total, start) in enumerate(starts):
            yield number, total[start : start + _BLOCK_CELLS]

    def result(self, rows: Rows) -> Counts:
        """Return the counts of every clique, once. The counter then drops its counts."""
        counts: Counts = {}
        self._totals.reverse()
        for group in self._groups:
            joint = self._totals.pop().reshape(group.shape)
            for clique in group.cliques:
                counts[clique] = self._read_off(joint, group.names, clique, rows)
        return {clique: counts[clique] for clique in self._cliques}

    def _read_off(self, joint: Ints, names: Clique, clique: Clique, rows: Rows) -> Ints:
        others = tuple(axis for axis, name in enumerate(names) if name not in clique)
        axes = [name for name in names if name in clique]
        counts = joint.sum(axis=others).transpose([axes.index(name) for name in clique])
        if rows == "observed":
            counts = counts[tuple(slice(size) for size in self._schema.shape(clique))]
        return np.array(counts, dtype=np.int64, order="C")


def _in_range(cells: NDArray[Any], n_rows: int, size: int) -> bool:
    """Whether a column has ``n_rows`` integers, all of them from 0 to below ``size``."""
    if cells.shape != (n_rows,) or cells.dtype.kind not in "iu":
        return False
    if not n_rows:
        return True
    # These are calls of ufuncs. Methods of arrays would take half as much time again.
    smallest = 0 if cells.dtype.kind == "u" else int(np.minimum.reduce(cells))
    return smallest >= 0 and int(np.maximum.reduce(cells)) < size


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
    """Base class of sources that count private rows in this package, a chunk of rows at a time.

    Each chunk of rows, as codes (numbers of levels or bins), is added to a `Counter`. A subclass
    defines ``_count``.

    Parameters
    ----------
    schema : Schema
        Public facts about the columns.

    Attributes
    ----------
    engine : str
        Public name of the engine that counts in place of the `Counter`, such as a database. Empty
        by default.
    """

    engine: ClassVar[str] = ""

    def __init__(self, schema: Schema) -> None:
        #: Public facts about the columns.
        self.schema = schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Return the exact number of private rows with each combination of attribute values.

        All tables of counts are made in one pass over the rows.

        Parameters
        ----------
        cliques : iterable of tuple of str
            Names of the attributes of each table of counts (clique). The empty clique counts all
            rows.
        rows : {"observed", "extended"}
            ``"observed"``: only rows observed on all attributes of the clique. ``"extended"``:
            every row, with missing as the last level of each nullable attribute.

        Returns
        -------
        dict of tuple of str to array of int64
            One array for each distinct clique, with one axis for each attribute. In rows, or with
            survey weights in units of 2**-20 of a row, where a row counts
            ``min(weight, upper) / upper``. Private.

        Raises
        ------
        ParameterError
            If a clique repeats an attribute or has too many cells to hold in memory.
        SchemaError
            If a clique names an attribute that the schema does not declare.
        DataError
            If the data does not fit the schema or cannot be read. The message quotes no value and
            no count.
        """
        counter = self._counter(check_cliques(self.schema, cliques, rows))
        self._count(counter, None)
        return counter.result(rows)

    def weighted_counts(self, cliques: Iterable[Clique], weight: RowWeight) -> Counts:
        """Return the exact sum of the weights of private rows with each combination of values.

        The weight of a row is a whole number that depends on its codes (numbers of levels or bins)
        only.

        Parameters
        ----------
        cliques : iterable of tuple of str
            Names of the attributes of each table of sums. Rows with missing cells are included.
        weight : RowWeight
            Function from codes to the weight of each row.

        Returns
        -------
        dict of tuple of str to array of int64
            One array for each distinct clique, with missing as the last level of nullable
            attributes. Private.

        Raises
        ------
        ParameterError
            If a clique repeats an attribute or has too many cells to hold in memory.
        SchemaError
            If a clique names an attribute that the schema does not declare.
        DataError
            If the data does not fit the schema or cannot be read.
        """
        counter = self._counter(check_cliques(self.schema, cliques, "extended"))
        self._count(counter, weight)
        return counter.result("extended")

    @property
    def weighed(self) -> bool:
        """Return whether rows have survey weights, so that counts are in fractions of a row.

        Returns
        -------
        bool
            Public.
        """
        return False

    def paid_by(self, budget: Filter | None) -> Self:
        """Return these private rows for use with a budget that is in the ledger of their schema.

        A schema may name a ledger (database of budgets) that must pay for its rows.

        Parameters
        ----------
        budget : Filter or None
            The budget that pays for the rows.

        Returns
        -------
        CountingSource
            The rows with a schema that names no ledger. The source itself if its schema names none.

        Raises
        ------
        LedgerError
            If the schema names a ledger in which the budget does not stand.
        """
        check_paid(self.schema.ledger, budget)
        if not self.schema.ledger:
            return self
        paid = copy.copy(self)
        paid.schema = self.schema.without_ledger()
        return paid

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
    """Add rows in memory to a counter, a chunk at a time.

    Shares and counts are in steps. A row's vector is multiplied by the row's share and rounded down
    to whole numbers. So a clipped vector is at most as long as that share of the clip norm.

    Parameters
    ----------
    counter : Counter
        The counter to which rows are added.
    codes : mapping of str to array, each of shape (n_rows,)
        One column of codes for each attribute. Private.
    n_rows : int
        The number of rows. Private.
    weight : RowWeight or None
        The factor that clips a row's vector.
    shares : array of int, shape (n_rows,), optional
        The amount that each row counts, from 0 to ``STEPS`` steps. By default a row counts one.
        Private.

    Raises
    ------
    DataError
        If a share lies outside its range.
    """
    if shares is not None and not _in_range(shares, n_rows, STEPS + 1):
        raise DataError("a row counts less than nothing, or more than one; nothing was counted")
    for start in range(0, n_rows, CHUNK_ROWS):
        chunk = {name: c[start : start + CHUNK_ROWS] for name, c in codes.items()}
        n_chunk = min(CHUNK_ROWS, n_rows - start)
        times = weight(chunk) if weight else None
        if shares is not None:
            share = shares[start : start + CHUNK_ROWS]
            times = share if times is None else times * share // STEPS
        counter.add(chunk, n_chunk, times)
