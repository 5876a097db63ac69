"""The private side of the door: exact counts, kept while they are needed, and filled rows.

Rows behind a door, and how they are changed there: filled, or dropped, by a pure function.
"""

from __future__ import annotations

import math
import secrets
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Assumption, Condition
from missdp.errors import DataError, replacing
from missdp.mechanisms.answers import no_warnings, plain_function, read_only
from missdp.mechanisms.noise import NoiseSource, SecureNoise
from missdp.mechanisms.questions import Rows, RowView
from missdp.schema import Schema
from missdp.sources import Clique, MarginalSource, MemorySource, Strategy
from missdp.table import Table

__all__ = [
    "ExactCounts",
    "MergedCounts",
    "Preparation",
    "Prepared",
    "PrivateCounts",
    "PrivateRows",
    "SmoothProfile",
    "as_they_came",
    "complete_rows",
    "complete_schema",
    "filled_rows",
    "merge_levels",
    "observed_on",
]


Counts = NDArray[np.int64]
_CELLS_AT_ONCE = 50_000_000  # 400 MB of counts


class PrivateCounts(Protocol):
    """Exact counts of cliques. Only a door holds one."""

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note what is to be counted together in one pass, when the first of it is needed."""

    def each(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Counts]]:
        """Yield each clique with its counts, few passes over the rows for all of them."""

    def take(self, clique: Clique) -> Counts:
        """Return the counts of a clique that is not asked for again."""

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows that are counted; they must be in memory."""


class ExactCounts:
    """Exact counts of a source under a strategy.

    Parameters
    ----------
    source : callable
        Returns the source; called when something is counted for the first time.
    schema : Schema
        Public facts about the rows that are counted.
    strategy : Strategy
    """

    def __init__(
        self, source: Callable[[], MarginalSource], schema: Schema, strategy: Strategy
    ) -> None:
        self._open, self._schema, self._strategy = source, schema, strategy
        self._place = {name: i for i, name in enumerate(schema.names)}
        self._expected: tuple[Clique, ...] = ()
        self._kept: dict[Clique, Counts] = {}

    @cached_property
    def _source(self) -> MarginalSource:
        return self._open()

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note what is to be counted together; see `PrivateCounts`."""
        self._expected = tuple(dict.fromkeys(self._ordered(clique) for clique in cliques))

    def each(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Counts]]:
        """Yield each clique with its counts; see `PrivateCounts`."""
        for batch in self._batches(cliques):
            ordered = [self._ordered(clique) for clique in batch]
            counts = self._counted(dict.fromkeys(ordered))
            for clique, key in zip(batch, ordered, strict=True):
                yield clique, _turned(counts[key], key, clique)

    def take(self, clique: Clique) -> Counts:
        """Return counts that are not asked for again; see `PrivateCounts`."""
        ordered = self._ordered(clique)
        found = _turned(self._counted([ordered])[ordered], ordered, clique)
        self._kept.pop(ordered, None)
        return found

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows that are counted; see `PrivateCounts`."""
        source = self._source
        assert isinstance(source, MemorySource)  # checked before anything was charged
        return {name: source.table.codes(name) for name in self._schema.names}

    def _counted(self, cliques: Iterable[Clique]) -> Mapping[Clique, Counts]:
        wanted = tuple(cliques)
        lacking = [clique for clique in wanted if clique not in self._kept]
        if not lacking:
            return self._kept
        if set(self._expected).issuperset(lacking):
            self._kept |= self._source.counts(self._expected, rows=self._strategy.rows)
            self._expected = ()
            return self._kept
        return ChainMap(self._source.counts(lacking, rows=self._strategy.rows), self._kept)

    def _batches(self, cliques: Iterable[Clique]) -> Iterator[list[Clique]]:
        """Cliques whose counts are held at once."""
        batch: list[Clique] = []
        cells = 0
        for clique in cliques:
            size = math.prod(self._schema.extended_shape(clique))
            if batch and cells + size > _CELLS_AT_ONCE:
                yield batch
                batch, cells = [], 0
            batch.append(clique)
            cells += size
        if batch:
            yield batch

    def _ordered(self, clique: Clique) -> Clique:
        return tuple(sorted(clique, key=self._place.__getitem__))


def _turned(counts: Counts, ordered: Clique, clique: Clique) -> Counts:
    if ordered == clique:
        return counts
    return counts.transpose([ordered.index(name) for name in clique])


class MergedCounts:
    """Counts on merged levels, each added up once.

    Parameters
    ----------
    exact : PrivateCounts
    groups : mapping of str to ndarray of int64
        Group of each level, by attribute; further last levels ("missing") stay by themselves.
    """

    def __init__(self, exact: PrivateCounts, groups: Mapping[str, NDArray[np.int64]]) -> None:
        self._exact, self._groups = exact, groups
        self._kept: dict[Clique, Counts] = {}

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note what is to be counted together; see `PrivateCounts`."""
        self._exact.expect(cliques)

    def each(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Counts]]:
        """Yield each clique with its merged counts; see `PrivateCounts`."""
        for clique in cliques:
            if clique not in self._kept:
                table = self._exact.take(clique)
                for axis, name in enumerate(clique):
                    table = merge_levels(table, self._groups[name], axis)
                self._kept[clique] = table
            yield clique, self._kept[clique]

    def take(self, clique: Clique) -> Counts:
        """Return counts that are not asked for again; see `PrivateCounts`."""
        found = next(iter(self.each([clique])))[1]
        del self._kept[clique]
        return found

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows, merged; see `PrivateCounts`."""
        found = {}
        for name, codes in self._exact.codes().items():
            group = self._groups[name]
            found[name] = np.append(group, group.max() + 1)[codes]
        return found


def merge_levels(table: Counts, groups: NDArray[np.int64], axis: int) -> Counts:
    """Add up an axis of counts over groups of levels; further last levels are kept.

    Every row stays in one cell, so one row still moves one count by one.

    Examples
    --------
    >>> merge_levels(np.array([5, 1, 2, 9]), np.array([0, 1, 1]), 0).tolist()
    [5, 3, 9]
    """
    extra = table.shape[axis] - len(groups)
    size = int(groups.max()) + 1
    index = np.concatenate([groups, size + np.arange(extra)])
    moved = np.moveaxis(table, axis, 0)
    out = np.zeros((size + extra, *moved.shape[1:]), dtype=table.dtype)
    np.add.at(out, index, moved)
    return np.moveaxis(out, 0, axis)


def complete_rows(source: MarginalSource) -> MarginalSource:
    """Return the rows that have no hole; the source must hold its rows in memory."""
    assert isinstance(source, MemorySource)  # checked before anything was charged
    return MemorySource(source.table.take(~source.table.incomplete_rows()))


def filled_rows(
    source: MarginalSource, laws: Mapping[str, NDArray[np.float64]], rng: np.random.Generator
) -> MarginalSource:
    """Return the rows with every hole drawn from its attribute's law.

    Each row is filled by itself, so adding or removing one row still changes one filled row.
    A law with all its mass on one level takes no draw.
    """
    assert isinstance(source, MemorySource)  # checked before anything was charged
    table = source.table
    codes = {}
    for attribute in table.schema:
        cells = table.codes(attribute.name).astype(np.int64)
        if attribute.nullable:
            hole, law = table.mask(attribute.name), laws[attribute.name]
            sure = np.flatnonzero(law == 1.0)
            many = int(hole.sum())
            cells[hole] = sure[0] if sure.size else rng.choice(attribute.size, size=many, p=law)
        codes[attribute.name] = cells
    return MemorySource(Table.from_codes(complete_schema(table.schema), codes, kind=table.kind))


def complete_schema(schema: Schema) -> Schema:
    """Return the schema of a table whose holes have been filled."""
    closed = {"nullable": False, "missing_codes": (), "outside": "error"}
    return Schema(tuple(a.model_copy(update=closed) for a in schema))


Column: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64] | None]"


class SmoothProfile(Protocol):
    """How many rows one row can move, here and in tables nearby. Private."""

    def smooth_bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return a beta-smooth bound of ``own + donee * (rows that one row can move)``.

        Rounded up by a factor of at most 1 + 2**-40.
        """

    def most(self) -> int:
        """Return how many rows one row can move."""


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """What a preparation made of the rows. Private.

    Parameters
    ----------
    columns : mapping of str to (codes, values or None)
        Attributes that were filled; a column for each row.
    keep : array of bool, shape (n,), optional
        Rows that stay; the others, and their filled cells, are dropped.
    profile : SmoothProfile, optional
        For preparations in which a row's filled cells depend on other rows.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    keep: NDArray[np.bool_] | None = None
    profile: SmoothProfile | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """How rows are changed behind the door: a pure function, and what it means for privacy.

    Parameters
    ----------
    function : callable
        ``function(rows, draws, *given)`` returns `Prepared`; a plain function, see `Question`. Each
        row becomes what it becomes by its own cells, what is given, and its own draws; only
        attributes in ``shared`` may depend on other rows.
    reads : frozenset of str
        Attributes that it reads.
    given : tuple
        Public or released values.
    draws : {"labels", "generator"} or None
        What it gets to draw with: a 64-bit label for each row, or a generator.
    shared : frozenset of str
        Attributes whose filled cells depend on other rows without noise. How many rows one row can
        move is then private, and `Prepared.profile` bounds it; or ``cap`` does.
    cap : int, optional
        Declared bound on the number of rows that one row can move, which becomes a condition.
    """

    function: Callable[..., Prepared]
    reads: frozenset[str] = frozenset()
    given: tuple[Any, ...] = ()
    draws: Literal["labels", "generator"] | None = None
    shared: frozenset[str] = frozenset()
    cap: int | None = None

    def __post_init__(self) -> None:
        plain_function(self.function, "a preparation")
        object.__setattr__(self, "given", tuple(map(read_only, self.given)))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What it rests on."""
        if self.cap is None:
            return ()
        return (
            Assumption(
                f"No donor ever serves more than {self.cap} incomplete rows, in the table "
                "and in all its neighbours."
            ),
        )


class PrivateRows:
    """Rows as a preparation makes them, when they are first needed. Private."""

    def __init__(self, table: Table, preparation: Preparation, noise: NoiseSource) -> None:
        self._table, self._preparation, self._noise = table, preparation, noise

    def __repr__(self) -> str:
        return "Rows(private)"

    @property
    def cells(self) -> RowView:
        """What questions read."""
        return self._made

    def bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return a smooth bound of how far one row moves a question."""
        failed = DataError("the bound of a question failed")
        with replacing(Exception, by=failed), no_warnings():
            return self._profile.smooth_bound(own=own, donee=donee, beta=beta)

    def most(self) -> float:
        """Return how many rows one row can move."""
        failed = DataError("the bound of a question failed")
        with replacing(Exception, by=failed), no_warnings():
            return self._profile.most()

    @property
    def _profile(self) -> SmoothProfile:
        profile = self._made.profile
        assert profile is not None  # checked when the rows were made
        return profile

    @cached_property
    def _made(self) -> _FilledRows:
        how = self._preparation
        failed = DataError("the preparation of the rows failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = Rows(self._table, how.reads)
            made = how.function(rows, self._draws(how.draws), *how.given)
            return _FilledRows(self._table, made, private=bool(how.shared) and how.cap is None)

    def _draws(self, kind: str | None) -> Any:
        if kind == "labels":
            return read_only(_labels(len(self._table), self._noise))
        return self._noise.generator() if kind == "generator" else None


class _FilledRows:
    """Codes and values of every attribute, filled cells in the place of holes. Private."""

    def __init__(self, table: Table, made: Prepared, *, private: bool) -> None:
        size, columns = len(table), dict(made.columns)
        parts = [part for column in columns.values() for part in column if part is not None]
        if any(part.shape != (size,) for part in parts) or (private and made.profile is None):
            raise DataError("the preparation did not return what it should")
        if made.keep is not None:
            keep = np.asarray(made.keep, dtype=bool)
            table = table.take(keep)
            columns = {
                name: (codes[keep], None if values is None else values[keep])
                for name, (codes, values) in columns.items()
            }
        self._table, self._columns, self.profile = table, columns, made.profile

    def __len__(self) -> int:
        return len(self._table)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._table.schema

    def codes(self, name: str) -> NDArray[np.integer]:
        """Codes of an attribute; cells that are still missing have its missing code."""
        return self._columns[name][0] if name in self._columns else self._table.codes(name)

    def values(self, name: str) -> NDArray[np.float64]:
        """Values of a numeric attribute; its lower bound where still missing."""
        values = self._columns[name][1] if name in self._columns else self._table.values(name)
        if values is None:
            raise DataError("no numeric values")
        return values


def _labels(size: int, source: NoiseSource) -> NDArray[np.uint64]:
    """Draw one independent 64-bit label for each row.

    The privacy statement of a preparation that uses them is for tables of labelled rows: a row
    brings its own label, drawn independently of all values and of all other labels, so adding or
    removing a row leaves the labels of the others as they were. It must be private for every fixed
    assignment of labels, hence also on average over them.
    """
    if isinstance(source, SecureNoise):
        return np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
    return source.generator().integers(0, 2**64, size=size, dtype=np.uint64)


def as_they_came(rows: Rows, draws: None) -> Prepared:  # noqa: ARG001
    """Change nothing."""
    return Prepared()


def observed_on(rows: Rows, draws: None, gate: tuple[str, ...]) -> Prepared:  # noqa: ARG001
    """Keep the rows in which no attribute of a gate is missing."""
    return Prepared(keep=~np.any([rows.mask(name) for name in gate], axis=0))
