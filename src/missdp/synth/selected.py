"""Rows that were asked for, among those that a model draws: the others are drawn and dropped.

A row that is kept has the model's law given that it is asked for, whatever the family; none is a
copy of another. How many are dropped follows from the released model alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

import numpy as np

from missdp.errors import ParameterError
from missdp.schema import Categorical, Schema
from missdp.schema.conditions import Join, Predicate
from missdp.schema.language import attribute_named, compare, reading
from missdp.schema.where import parse_where
from missdp.table import Table
from missdp.types import Flags

Where: TypeAlias = str | Mapping[str, Any]

FIRST = 2_000  # rows that are drawn to see how many are asked for
MOST_BLOCK = 200_000
TRIES = 1000  # rows that are drawn for each that is asked for, at most
LEAST_TRIES = 1_000_000


class Selection:
    """Which rows are asked for, and how many of those drawn were such.

    Parameters
    ----------
    where : str or mapping
        A condition such as ``"age >= 60 and sex = 'f'"``, or by name a value, a list of values, a
        pair of bounds (both belong to it), or None for cells that are missing.
    schema : Schema
    """

    def __init__(self, where: Where, schema: Schema) -> None:
        self.missing: tuple[str, ...] = ()
        self.drawn = self.kept = 0
        if isinstance(where, str):
            self._predicate = parse_where(where, schema)
            return
        if not isinstance(where, Mapping):
            raise ParameterError("where must be a condition in text, or a mapping of names")
        with reading("", schema.names, lambda why: ParameterError(f"where: {why}")):
            columns = [attribute_named(schema.columns, name).name for name in where]
            asked = [(name, where[name]) for name in columns if where[name] is not None]
            parts = tuple(_compared(schema, name, value) for name, value in asked)
        self.missing = tuple(name for name in columns if where[name] is None)
        self._predicate = Join(parts, all_of=True)

    @property
    def share(self) -> float:
        """The share of the model's rows that are asked for, as far as rows were drawn."""
        return self.kept / max(1, self.drawn)

    def of(self, table: Table) -> Flags:
        """Return which rows of a table are asked for, and count them."""
        found = self._predicate.select(table)
        for name in self.missing:
            attribute = table.schema[name]
            found = found & (table.codes(name) >= attribute.missing_code)
        self.drawn, self.kept = self.drawn + len(table), self.kept + int(np.count_nonzero(found))
        return found

    def blocks(self, drawn: Iterable[Table], n: int) -> Iterator[Table]:
        """Yield exactly ``n`` rows of those that are drawn.

        Raises
        ------
        ParameterError
            If they are not found among a public number of rows.
        """
        left, tries = n, max(LEAST_TRIES, TRIES * n)
        for table in drawn:
            rows = np.flatnonzero(self.of(table))[:left]
            left -= rows.size
            yield table.take(rows)
            if not left:
                return
            if self.drawn >= tries:
                break
        raise ParameterError(
            f"of {self.drawn:,} rows that the model drew {self.kept:,} are as 'where' asks, and "
            f"{n:,} were wanted: ask for fewer rows, or for more common ones"
        )


def trial_sizes(n: int) -> Iterator[int]:
    """Yield sizes of blocks of which rows are kept, growing, without an end."""
    size = min(max(2 * n, FIRST), MOST_BLOCK) if n else 0
    while True:
        yield size
        size = min(2 * size, MOST_BLOCK)


def _compared(schema: Schema, name: str, value: Any) -> Predicate:
    """Return the condition that one item of a mapping stands for."""
    attribute = schema[name]
    several = isinstance(value, (list, tuple, Set, np.ndarray))
    values = [v.item() if isinstance(v, np.generic) else v for v in (value if several else [value])]
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(attribute, Categorical):
        ends = zip((">=", "<="), values, strict=True)
        return Join(tuple(compare(attribute, sign, v) for sign, v in ends), all_of=True)
    return Join(tuple(compare(attribute, "==", v) for v in values), all_of=False)
