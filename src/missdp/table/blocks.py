"""Tables in blocks of rows: read from streams, joined, cut to sizes."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from missdp.schema import Numeric, Schema
from missdp.schema.unit import refuse_units
from missdp.shelf import Pile
from missdp.table.encode import Column, Encoder, code_dtype
from missdp.table.follow import follow_rules
from missdp.table.streams import Batch, RowStream, rows_of
from missdp.table.units import rows_of_units

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def in_order(
    function: Callable[[_In], _Out], items: Iterable[_In], *, n_jobs: int | None = None
) -> Iterator[_Out]:
    """Yield a function of each item, in the order of the items, worked out by a few threads.

    By default by as many as there are processors, at most 4. One item alone needs none.
    """
    items = iter(items)
    begin = list(islice(items, 2))
    if len(begin) < 2:
        yield from map(function, begin)
        return
    jobs = n_jobs or min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool, contextlib.ExitStack() as stack:
        waiting: deque[Future[_Out]] = deque()
        stack.callback(lambda: [task.cancel() for task in waiting])
        for item in chain(begin, items):
            waiting.append(pool.submit(function, item))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def read_columns(
    stream: RowStream,
    schema: Schema,
    names: Iterable[str] | None = None,
    *,
    refusing: bool = False,
) -> Iterator[dict[str, Column]]:
    """Yield encoded columns, a batch of rows at a time, every row by itself."""
    refuse_units(schema, "this way of reading")
    stream = rows_of(stream, schema)
    stream.check(schema.stored.names)
    wanted = tuple(schema.names if names is None else names)
    reached = schema.rulebook.reached(wanted)
    needed = schema.read_for(
        a.name for a in schema if a.name in reached or (refusing and a.refuses)
    )
    read = tuple(a.name for a in schema.stored if a.name in needed)
    encoders = {name: Encoder(schema[name]) for name in read}

    def encoded(batch: Batch) -> dict[str, Column]:
        columns = {n: encoders[n].encode(batch.column(i)) for i, n in enumerate(read)}
        return follow_rules(schema, columns, wanted)

    yield from in_order(encoded, stream.batches(read))


def check_rows_fit(data: Any, schema: Schema) -> None:
    """Refuse data of which a row does not fit the schema, and keep none."""
    for _ in read_columns(rows_of_units(data, schema), schema.of_rows):
        pass


def joined(parts: Iterable[dict[str, Column]], schema: Schema) -> dict[str, Column]:
    """Return the columns of all blocks of rows together, each freed once it is joined."""
    import pyarrow as pa

    codes = {a.name: Pile(code_dtype(a)) for a in schema}
    values = {a.name: Pile(np.float64) for a in schema if isinstance(a, Numeric)}
    for part in parts:
        for name, pile in codes.items():
            pile.add(part[name].codes)
            numbers = part[name].values
            if numbers is not None:
                values[name].add(numbers)
            else:  # of bins alone
                values.pop(name, None)
    pa.default_memory_pool().release_unused()  # what batches left there
    return {
        name: Column(codes.pop(name).array(), values.pop(name).array() if name in values else None)
        for name in schema.names
    }


def in_sizes(
    parts: Iterable[dict[str, Column]], rows: int, schema: Schema
) -> Iterator[dict[str, Column]]:
    """Yield the same rows in blocks of so many each, but for the last; at least one block."""
    waiting: list[dict[str, Column]] = []
    held, first, none = 0, schema.names[0], True
    for part in parts:
        waiting.append(part)
        held += len(part[first].codes)
        if held >= rows:
            whole = joined(waiting, schema)
            for start in range(0, held - rows + 1, rows):
                yield {n: column.take(slice(start, start + rows)) for n, column in whole.items()}
            none = False
            waiting = [{n: c.take(slice(held - held % rows, held)) for n, c in whole.items()}]
            held %= rows
    if held or none:
        yield joined(waiting, schema)
