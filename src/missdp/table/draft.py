"""Draft a schema from column names and cells, for a person to complete.

Names come from the table's own header; levels and bounds come from the private cells, so each is
marked as not yet declared public. A release refuses such a schema.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from missdp.errors import DataError, SchemaError
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.schema.attributes import KINDS, MAX_WHOLE, Kind, number_text, read_number
from missdp.schema.schema import write_tables
from missdp.table.cells import Cells, Plain, Unreadable
from missdp.table.encode import encode
from missdp.table.frames import columns_from_native
from missdp.table.number_styles import date_style, number_style
from missdp.table.streams import RowStream, stream_of
from missdp.table.tally import Tally
from missdp.table.usual import Proposed, number_codes, text_codes

__all__ = ["Draft", "draft_columns", "draft_schema"]

_MAX_DRAFT_LEVELS = 100
_PILE = 0.05  # the least share of all cells at which a number is proposed as a spike
_RULES = """
# Rules are public facts about single rows. None is ever guessed from the rows; one looks like this:
# [[rule]]
# kind = "not_applicable"
# names = ["hours"]
# unless = "employed = 'yes'"
"""


@dataclass(frozen=True, repr=False)
class Draft:
    """A schema that a person must complete; private until that is done.

    Parameters
    ----------
    attributes : tuple of Categorical or Numeric
        Attributes whose facts were guessed from the cells, each marked ``undeclared``.
    stubs : mapping of str to str
        Columns for which nothing could be guessed, and why.
    doubts : mapping of str to str, optional
        Columns that were drafted with levels, although these look like numbers in a spelling that
        is not read as numbers.
    """

    attributes: tuple[AnyAttribute, ...]
    stubs: Mapping[str, str]
    doubts: Mapping[str, str] = field(default_factory=dict)

    def to_toml(self, path: str | Path) -> None:
        """Write the draft, whole or not at all; a stub is a comment to be completed by hand."""
        notes = _RULES + "".join(_stub(*stub) for stub in self.stubs.items())
        notes += "".join(f"\n# {doubt}.\n" for doubt in self.doubts.values())
        write_tables(self.attributes, Path(path), notes=notes)


def _stub(name: str, why: str) -> str:
    title = tomli_w.dumps({"name": name.encode("utf-8", "replace").decode()}).strip()
    return (
        f"\n# {why}.\n# Complete this by hand, or drop the column from the data.\n"
        f'# [[attribute]]\n# {title}\n# kind = "categorical"\n# levels = []\n'
    )


def draft_columns(data: Any) -> Draft:
    """Return a draft of every column that can be drafted, and why the others cannot.

    Parameters
    ----------
    data : pandas, polars or Arrow table, DuckDB relation, str or Path
        The private rows.

    Raises
    ------
    DataError
        If the data cannot be read at all, or has no columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp.table import draft_columns
    >>> draft = draft_columns(pd.DataFrame({"age": [31, 70], "pets": [["cat"], []]}))
    >>> [attribute.name for attribute in draft.attributes], draft.stubs["pets"]
    (['age'], "column 'pets' has cells that are neither text in UTF-8, numbers nor true/false")
    """
    stream = stream_of(data)
    columns = _Frame(columns_from_native(data)) if stream is None else _Streamed(stream)
    if not columns.names:
        raise DataError("the data has no columns to draft a schema from")
    drafts = {name: _drafts(name, tally) for name, tally in columns.tallies().items()}
    chosen = {name: next(tried) for name, tried in drafts.items()}
    waiting = {name: a for name, a in chosen.items() if not isinstance(a, str)}
    while waiting:
        unread = columns.unread(waiting)
        chosen |= {name: next(drafts[name]) for name in unread}
        waiting = {name: a for name in unread if not isinstance(a := chosen[name], str)}
    attributes = [a for a in chosen.values() if not isinstance(a, str)]
    stubs = {n: f"column {n!r} {why}" for n, why in chosen.items() if isinstance(why, str)}
    doubts = {a.name: f"column {a.name!r} {why}" for a in attributes if (why := _doubt(a))}
    return Draft(tuple(attributes), stubs, doubts)


def _doubt(attribute: AnyAttribute) -> str | None:
    """Say that levels look like numbers, as people write them and as they are not read."""
    if isinstance(attribute, Numeric) or not isinstance(attribute.levels[0], str):
        return None
    return number_style([str(level) for level in attribute.levels], every=True)


def draft_schema(data: Any) -> Schema:
    """Return a draft of a schema; every fact read from the cells is marked ``undeclared``.

    Parameters
    ----------
    data : pandas, polars or Arrow table, DuckDB relation, str or Path
        The private rows.

    Returns
    -------
    Schema
        To be checked by a person: correct the facts, then delete the marks.

    Raises
    ------
    DataError
        If a column cannot be drafted, for example because it has no values at all, or too many
        distinct ones to be categorical; :func:`draft_columns` goes on with the others.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp.table import draft_schema
    >>> draft = draft_schema(pd.DataFrame({"smoker": ["yes", "no", None], "age": [31, 70, 45]}))
    >>> draft["smoker"].levels, draft["smoker"].undeclared
    (('no', 'yes'), ('levels', 'nullable'))
    >>> draft.undeclared["age"]
    ('lower', 'upper', 'integer', 'nullable')
    """
    draft = draft_columns(data)
    for why in draft.stubs.values():
        raise DataError(f"{why}: write its attribute into the schema by hand, or drop the column")
    return Schema(draft.attributes)


class _Frame:
    """Columns that are held. Private."""

    def __init__(self, cells: Mapping[str, Cells]) -> None:
        self._cells = cells
        self.names = tuple(cells)

    def tallies(self) -> dict[str, Tally]:
        """Return the distinct cells of every column."""
        found = {name: Tally() for name in self.names}
        for name, tally in found.items():
            tally.add(self._cells[name])
        return found

    def unread(self, drafted: Mapping[str, AnyAttribute]) -> list[str]:
        """Return the columns that their drafts do not read."""
        return [name for name, a in drafted.items() if not _reads(a, self._cells[name])]


class _Streamed:
    """Columns that are read in batches of rows. Private."""

    def __init__(self, stream: RowStream) -> None:
        self._stream = stream
        self.names = stream.columns()
        stream.check(self.names)

    def tallies(self) -> dict[str, Tally]:
        """Return the distinct cells of every column."""
        found = {name: Tally() for name in self.names}
        for batch in self._stream.batches(self.names):
            for place, tally in enumerate(found.values()):
                tally.add(batch.column(place))
        return found

    def unread(self, drafted: Mapping[str, AnyAttribute]) -> list[str]:
        """Return the columns that their drafts do not read."""
        left = dict(drafted)
        for batch in self._stream.batches(tuple(drafted)):
            for place, name in enumerate(drafted):
                if name in left and not _reads(left[name], batch.column(place)):
                    del left[name]
        return [name for name in drafted if name not in left]


def _reads(attribute: AnyAttribute, cells: Cells) -> bool:
    try:
        encode(attribute, cells)
    except (SchemaError, DataError):
        return False
    return True


def _drafts(name: str, tally: Tally) -> Iterator[AnyAttribute | str]:
    """Yield attributes that may read the cells, the one that says most first; then why none is."""
    found = tally.found()
    if any(isinstance(cell, Unreadable) for cell, _ in found):
        yield "has cells that are neither text in UTF-8, numbers nor true/false"
        return
    for codes in _proposals(found, tally.numbers):
        with contextlib.suppress(SchemaError, DataError):
            drafted = _draft_with(name, found, codes, tally.numbers)
            yield drafted
    yield "has a name or values that a schema cannot hold"


def _proposals(found: list[tuple[Plain, int]], numbers_in_all: int) -> Iterator[Proposed]:
    """Yield codes of kinds of missing: all that are usual, then fewer, in case they do not fit."""
    texts = text_codes(cell for cell, _ in found if isinstance(cell, str))
    known = _known(found, texts)
    numbers = [(x, n) for cell, n in known if (x := _as_number(cell)) is not None]
    usable = np.array([pair for pair in numbers if math.isfinite(pair[0])]).reshape(-1, 2)
    if len(numbers) == len(known) and len(usable):
        values, places = np.unique(usable[:, 0], return_inverse=True)
        counts = np.bincount(places, usable[:, 1]).astype(float)
        more = number_codes(values, counts, total=numbers_in_all or None)
        if more:
            yield {k: (*texts.get(k, ()), *more.get(k, ())) for k in {**texts, **more}}
    yield texts
    yield {}


def _known(found: list[tuple[Plain, int]], codes: Proposed) -> list[tuple[Plain, int]]:
    """Return the cells that have a value, and how often."""
    taken = {code for given in codes.values() for code in given}
    return [
        (cell, n)
        for cell, n in found
        if not _is_missing(cell) and cell not in taken and _as_number(cell) not in taken
    ]


def _draft_with(
    name: str, found: list[tuple[Plain, int]], codes: Proposed, numbers_in_all: int
) -> AnyAttribute | str:
    counted = _known(found, codes)
    if not counted:
        return "is empty"
    holes = any(_is_missing(cell) for cell, _ in found)
    facts: dict[str, Any] = {"name": name, "nullable": holes or bool({*codes} - {"not_applicable"})}
    facts |= {_fact(kind): codes[kind] for kind in KINDS if kind in codes}
    facts["undeclared"] = ("nullable", *(_fact(kind) for kind in KINDS if kind in codes))
    numbers = [(x, count) for cell, count in counted if (x := _as_number(cell)) is not None]
    if len(numbers) == len(counted) and not any(_is_padded(cell) for cell, _ in counted):
        return _draft_numeric(np.array(numbers), facts, numbers_in_all)
    return _draft_levels([cell for cell, _ in counted], facts)


def _is_padded(cell: Plain) -> bool:
    """Whether digits begin with a zero that a number would lose, as in postal codes."""
    return isinstance(cell, str) and len(cell) > 1 and cell[0] == "0" and cell.isdecimal()


def _fact(kind: Kind) -> str:
    return "missing_codes" if kind == "missing" else kind


def _is_missing(cell: Plain) -> bool:
    number = _as_number(cell)
    return cell is None or cell == "" or (number is not None and math.isnan(number))


def _as_number(cell: Plain) -> float | None:
    if isinstance(cell, str):
        return read_number(cell)
    return cell if isinstance(cell, float) else None


def _draft_numeric(
    counted: NDArray[np.float64], facts: dict[str, Any], numbers_in_all: int
) -> Numeric | str:
    numbers, counts = counted.T
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return "has no finite numbers"
    if np.max(np.abs(finite)) >= MAX_WHOLE - 1:
        return "has numbers too large to be told apart: it looks like an identifier"
    lower, upper = float(finite.min()) + 0.0, float(finite.max()) + 0.0  # no -0.0
    endless = len(finite) < len(numbers)
    marks = ("lower", "upper", "integer", *facts["undeclared"], *(["outside"] * endless))
    plain = Numeric(
        lower=lower,
        upper=upper if upper > lower else lower + 1,
        integer=bool(np.all(finite == np.floor(finite))),
        outside="clamp" if endless else "error",
        **{**facts, "undeclared": marks},
    )
    spikes = _piles(plain, finite, counts[np.isfinite(numbers)], numbers_in_all)
    return replace(plain, spikes=spikes, undeclared=(*marks, "spikes")) if spikes else plain


def _piles(
    attribute: Numeric,
    values: NDArray[np.float64],
    counts: NDArray[np.float64],
    numbers_in_all: int,
) -> tuple[float, ...]:
    """Return the values that a share of all cells has, far above other values of their bin."""
    codes = attribute.encode_values(values)
    others = np.bincount(codes, minlength=attribute.size)[codes] - 1
    beside = np.bincount(codes, counts, attribute.size)[codes] - counts
    found = (
        (others > 0)
        & (counts >= _PILE * max(numbers_in_all, counts.sum()))
        & (counts * others > 3 * beside)
    )
    return tuple(np.unique(values[found]).tolist())


def _draft_levels(known: list[Plain], facts: dict[str, Any]) -> Categorical | str:
    levels: tuple[str, ...] | tuple[bool, ...] = tuple(sorted({_as_text(cell) for cell in known}))
    if all(str(level).lower() in ("true", "false") for level in levels):
        levels = (False, True)
    if len(levels) > _MAX_DRAFT_LEVELS:
        texts = [str(level) for level in levels]
        if style := date_style(texts) or number_style(texts, every=False):
            return style
        return (
            f"has more than {_MAX_DRAFT_LEVELS} distinct values: it looks like an identifier or "
            "free text"
        )
    return Categorical(levels=levels, **{**facts, "undeclared": ("levels", *facts["undeclared"])})


def _as_text(cell: Plain) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return number_text(cell) if isinstance(cell, float) else str(cell)
