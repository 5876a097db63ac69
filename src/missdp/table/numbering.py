"""Numbers for identifiers: which of very many rows belong together, in 16 bytes for each row.

Identifiers are hashed to 128 bits by multiply-shift with fresh secret factors (Dietzfelbinger
1996): whatever they are, two that differ are alike with a chance of at most 2^-124, so that of a
thousand million no two are, but for a chance of 2^-64.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from missdp.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa

    from missdp.table.cells import Chunk

UNREAD: Final = b"\xff"
"""What cannot be read as an identifier: no text has these bytes, which files put for long cells."""

_LONGEST = 64  # bytes that are hashed at once
_EASY = rf"^[A-Za-z0-9_:/-]{{0,{_LONGEST}}}$"  # text that is the identifier as it stands
_WORD = 4  # bytes


def easy_identifiers(cells: Chunk) -> pa.Array | None:
    """Return identifiers as bytes where all are short plain text or whole numbers; else None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunk: Any = cells
    kind = getattr(chunk, "type", None)
    if isinstance(kind, pa.DataType) and pa.types.is_integer(kind):
        return chunk.cast(pa.large_string()).cast(pa.large_binary())
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    if not isinstance(kind, pa.DataType) or not any(is_text(kind) for is_text in texts):
        return None
    easy = pc.all(pc.match_substring_regex(chunk, _EASY)).as_py()
    return chunk.cast(pa.large_binary()) if easy is not False else None


def numbers(identifiers: Iterable[pa.Array]) -> Ints:
    """Return for each identifier a number, from 0, that equal ones share; -1 if null, -2 if unread.

    Examples
    --------
    >>> import pyarrow as pa
    >>> found = numbers([pa.array([b"a", None, b"b"], pa.large_binary())])
    >>> found[0] == found[2], found[1]
    (np.False_, np.int64(-1))
    """
    factors = np.frombuffer(os.urandom(8 * 4 * (_LONGEST // _WORD + 1)), dtype=np.uint64)
    parts = [_hashed(each, factors.reshape(-1, 4)) for each in identifiers]
    keys = np.concatenate([np.zeros((0, 2), dtype=np.uint64), *(key for key, _ in parts)])
    found = np.concatenate([np.zeros(0, dtype=np.int64), *(lacking for _, lacking in parts)])
    del parts
    known = np.flatnonzero(found == 0)
    first = keys[known, 0] if len(known) < len(keys) else keys[:, 0]
    order = np.argsort(first)
    ordered = first[order]
    alike = np.append(False, ordered[1:] == ordered[:-1])[: len(ordered)]
    del ordered
    second = keys[known, 1][order] if alike.any() else None
    if second is not None and (alike[1:] & (second[1:] != second[:-1])).any():
        order = np.lexsort((keys[known, 1], first))
        second = keys[known, 1][order]
        alike[1:] = (first[order[1:]] == first[order[:-1]]) & (second[1:] == second[:-1])
    found[known[order]] = np.cumsum(~alike) - 1
    return found


def _hashed(identifiers: pa.Array, factors: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Ints]:
    """Return 128 bits for each identifier, and 0 where there is one; -1 and -2 as of `numbers`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(identifiers)
    if (pc.max(lengths).as_py() or 0) > _LONGEST:
        identifiers = pa.array(map(_shorter, identifiers.to_pylist()), pa.large_binary())
        lengths = pc.binary_length(identifiers)
    lacking = np.zeros(len(identifiers), dtype=np.int64)
    lacking[_true(pc.equal(identifiers, pa.scalar(UNREAD, pa.large_binary())))] = -2
    lacking[_true(pc.is_null(identifiers))] = -1
    sizes = np.asarray(lengths.fill_null(0)).astype(np.uint64)
    width = -(-int(sizes.max(initial=0)) // _WORD)
    if not width:
        return np.zeros((len(sizes), 2), dtype=np.uint64), lacking
    whole = identifiers.fill_null(b"")
    bytes_ = pa.Array.from_buffers(
        pa.large_string(), len(whole), whole.buffers(), offset=whole.offset
    )
    padded = pc.ascii_rpad(bytes_, width * _WORD, padding="\0")
    cells = np.frombuffer(padded.buffers()[2], "<u4")[: len(sizes) * width]
    words = np.column_stack([cells.reshape(-1, width).astype(np.uint64), sizes])
    mixed = words @ np.vstack([factors[:width], factors[-1:]]) >> np.uint64(32)
    return mixed[:, :2] << np.uint64(32) | mixed[:, 2:], lacking


def _true(flags: Any) -> NDArray[np.bool_]:
    return np.asarray(flags.fill_null(False))


def _shorter(identifier: bytes | None) -> bytes | None:
    """Return a digest of a long identifier, which begins as no text does."""
    if identifier is None or len(identifier) <= _LONGEST:
        return identifier
    return UNREAD + hashlib.blake2b(identifier, digest_size=32).digest()
