"""Rows behind a door, and how they are changed there: filled, or dropped, by a pure function."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
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
from missdp.table import Table

__all__ = ["Preparation", "Prepared", "PrivateRows", "SmoothProfile", "as_they_came", "observed_on"]

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
