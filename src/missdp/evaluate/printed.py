"""How results are printed: the digits that the rows support, and columns beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence


def rounded(share: float, rows: int | None) -> str:
    """Return a share, or a difference of shares, with the digits that so many rows support.

    Examples
    --------
    >>> rounded(0.01384, 500), rounded(0.01384, 30_000), rounded(0.01384, None)
    ('0.01', '0.014', '0.0138')
    """
    digits = 4 if rows is None else math.ceil(math.log10(2 * max(rows, 1) ** 0.5))
    return f"{share:.{max(digits, 1)}f}"


def in_columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield each row as a line: its name to the left, what follows to the right.

    Examples
    --------
    >>> [*in_columns([("mean", "0.1"), ("sd", "10.0")])]
    ['  mean   0.1', '  sd    10.0']
    """
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *others in cells:
        numbers = map(str.rjust, others, widths[1:])
        yield "  ".join(["", name.ljust(widths[0]), *numbers]).rstrip()
