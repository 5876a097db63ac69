"""Rows that were changed one by one while they streamed, as codes, to be counted again and again.

What fills a row draws random numbers, and every count must see the same filled row. So rows are
filled once, in one pass, and kept as codes: one or two bytes for each cell, in memory as long as
there is room, then in a temporary file. That file has no name from the moment it is made, where the
system can do that, so that nothing is left of it when the process ends, however it ends.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Schema
from missdp.sources.counts import CHUNK_ROWS, Clique, Counter, Counts, Rows, check_cliques
from missdp.sources.row_weights import RowWeight
from missdp.table.blocks import in_order
from missdp.table.encode import code_dtype
from missdp.table.memory import memory_in_force

__all__ = ["CodeBlock", "CodeStore", "CodeStream", "streams_codes"]

CodeBlock: TypeAlias = Mapping[str, NDArray[Any]]

_SHARE = 0.25  # of the memory in force, for codes


class CodeStream(Protocol):
    """A source that can also yield its rows as codes, block by block, in one pass. Private."""

    def code_blocks(self) -> Iterator[CodeBlock]:
        """Yield the codes of all attributes, some rows at a time."""


def streams_codes(source: object) -> bool:
    """Whether a source can yield its rows as codes."""
    return callable(getattr(type(source), "code_blocks", None))


class CodeStore:
    """Count rows that are kept as codes.

    Parameters
    ----------
    schema : Schema
    blocks : iterable of mappings of str to array
        Codes of all attributes, some rows at a time; read once, now.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> store = CodeStore(schema, [{"smoker": np.array([0, 1])}, {"smoker": np.array([1])}])
    >>> store.counts([("smoker",)], rows="observed")[("smoker",)].tolist()
    [1, 2]
    """

    def __init__(self, schema: Schema, blocks: Iterable[CodeBlock]) -> None:
        self._schema = schema
        self._types = {a.name: np.dtype(code_dtype(a)) for a in schema}
        self._held: list[CodeBlock] = []
        self._sizes: list[int] = []  # of blocks in the file
        self._file: Any = None
        room = _SHARE * memory_in_force()
        for block in blocks:
            plain = {name: block[name].astype(kind) for name, kind in self._types.items()}
            room -= sum(codes.nbytes for codes in plain.values())
            if room >= 0:
                self._held.append(plain)
            else:
                self._spill(plain)

    def _spill(self, block: CodeBlock) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="missdp-")  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        self._sizes.append(len(next(iter(block.values()))))
        for codes in block.values():
            self._file.write(codes.data)

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        return self._schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique; see :meth:`missdp.sources.MarginalSource.counts`."""
        return self._count(check_cliques(self._schema, cliques, rows), None).result(rows)

    def weighted_counts(self, cliques: Iterable[Clique], weight: RowWeight) -> Counts:
        """Add up the weights of the rows in every cell; see ``WeighingSource``."""
        checked = check_cliques(self._schema, cliques, "extended")
        return self._count(checked, weight).result("extended")

    def _count(self, cliques: tuple[Clique, ...], weight: RowWeight | None) -> Counter:
        counter = Counter(self._schema, cliques)

        def count(block: CodeBlock) -> None:
            n = len(next(iter(block.values())))
            for start in range(0, n, CHUNK_ROWS):
                part = {name: codes[start : start + CHUNK_ROWS] for name, codes in block.items()}
                rows = min(CHUNK_ROWS, n - start)
                counter.add(part, rows, weight(part) if weight else None)

        for _ in in_order(count, self._blocks()):
            pass
        return counter

    def _blocks(self) -> Iterator[CodeBlock]:
        yield from self._held
        if self._file is None:
            return
        self._file.seek(0)
        width = sum(kind.itemsize for kind in self._types.values())
        for size in self._sizes:
            content = self._file.read(size * width)
            starts = np.cumsum([0, *(size * kind.itemsize for kind in self._types.values())])
            yield {
                name: np.frombuffer(content, kind, size, int(start))
                for (name, kind), start in zip(self._types.items(), starts[:-1], strict=True)
            }

    def __repr__(self) -> str:
        return f"CodeStore({', '.join(self._schema.names)})"
