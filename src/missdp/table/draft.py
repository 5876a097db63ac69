"""Drafts of schemas from private columns, for the curator to complete.

Names come from the header of the table. Levels and bounds come from the private cells, so each of
them is marked as not yet declared public. A release refuses a schema with marks. If the marks are
accepted, the draft reads every column. Columns without a list of levels and without bounds are
open, keys, or ignored.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import tomli_w

from missdp.errors import DataError, SchemaError
from missdp.files import write_atomically
from missdp.schema import (
    AnyAttribute,
    Attribute,
    Categorical,
    Date,
    Layout,
    Numeric,
    OpenCategorical,
    Ordinal,
    Schema,
)
from missdp.schema.attributes import CODE_FIELDS, MAX_INTEGER, Kind, read_number
from missdp.schema.dates import code_text
from missdp.schema.layout import PLAIN
from missdp.table.distinct_cells import DistinctCells, distinct_cells
from missdp.table.draft_guesses import (
    date_facts,
    differences,
    identifies,
    is_key_name,
    is_weight_name,
    other_format,
    usual_order,
)
from missdp.table.encode import Encoder
from missdp.table.missing_codes import Proposed, number_codes, text_codes
from missdp.table.number_styles import date_style, has_sign, layout_of, number_style
from missdp.table.packages import Described
from missdp.table.rows import Rows
from missdp.types import Floats

_MAX_DRAFT_LEVELS = 100  # levels that a draft lists
_OTHER: Final = OpenCategorical.other  # default name of the bucket, which depends on no cell
_MIN_NUMBERS = 10  # distinct numbers, from which on a step is proposed
_MAX_DECIMALS = 4  # decimals of a step
_INTEGER_STEPS = (1000.0, 100.0, 10.0)  # proposed steps of whole numbers
_STYLED = 300  # distinct texts of a column that are compared with formats
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_RULES = """
# Rules are public facts about single rows. No rule is ever guessed from the rows. An example:
# [[rule]]
# not_applicable = ["hours"]
# unless = "employed = 'yes'"
"""

_NUMBERS: Final = (
    "this block reads numbers. Write the bounds that are publicly known",
    {"kind": "numeric", "lower": 0, "upper": 100, "nullable": True},
)
_YEARS: Final = (
    "this block reads years",
    {"kind": "numeric", "lower": 1900, "upper": 2100, "integer": True, "nullable": True},
)
_DIGITS: Final = (
    "this block reads the first digit, if each cell is shortened to it separately",
    {"kind": "categorical", "levels": list("0123456789"), "nullable": True},
)
_FRESH: Final = "It is never read, and fresh keys are written in its place."
_IGNORED: Final = "It is never read or written. Other software may prepare it, cell by cell."
_UNIT: Final = (
    "To protect all rows of a unit together, write [unit] above the first [[attribute]] and, below "
    "it, column = with the name of this column, and max_rows = 5, for example. Then delete this "
    "block."
)
_WEIGHT: Final = (
    "If this column has survey weights, delete the block, write [weight] above the first "
    "[[attribute]] and, below it, column = with the name of this column, and upper = with the "
    "largest weight that counts, a public fact."
)
_OPEN: Final = (
    f"More than {_MAX_DRAFT_LEVELS} values, some in several rows: a fit releases the frequent "
    "values privately. Write a public list of levels if there is one."
)
_ONLY_COLUMN: Final = (
    "No other column can be modelled, and a schema needs an attribute: a fit releases the frequent "
    "values privately."
)
_ONLY_CODES: Final = "Only codes of missing cells occur, so no synthetic row has a value."
_FEW: Final = (
    "Few numbers occur: if no other numbers are possible, list the possible ones as spikes."
)
_CENTURIES: Final = ("1900-01-01", "2099-12-31")


_STAY = """\
{later!r} is never before {earlier!r} in these rows. This block models their difference. Both stay
declared, and one is computed from the other:
"""


class _Note(NamedTuple):
    """A doubt about the block of a column, with the facts of another block."""

    why: str
    advice: str
    facts: Mapping[str, Any]

    def text(self, name: str, codes: Mapping[str, Any]) -> str:
        """Return a comment with a block, which is valid once it is uncommented.

        The codes were read from private cells, so the block marks them.
        """
        block = "[[attribute]]\n" + tomli_w.dumps({"name": name, **self.facts, **codes})
        if codes:  # one line, which is easy to delete
            block += f"undeclared = {json.dumps([*codes])}\n"
        return _commented(
            f"column {name!r} {self.why}. In place of its block above, {self.advice}:\n{block}"
        )


class _Unread(NamedTuple):
    """A column that is never read: the reason, and the kind of its block."""

    why: str
    kind: Literal["key", "ignore"] = "ignore"
    advice: str = _IGNORED
    doubtful: bool = False  # True if its cells may be dates or numbers in another format


_IDENTIFIERS: Final = {
    "row": _Unread("has a different value in every row: it looks like a key", "key", _FRESH),
    "unit": _Unread(
        "has repeated values: it looks like an identifier of units", "key", f"{_FRESH} {_UNIT}"
    ),
}
_NO_TEXT: Final = _Unread("has cells that are neither short text in UTF-8, numbers nor true/false")


def _commented(text: str) -> str:
    """Return a text as comments of a TOML file."""
    return "\n" + "".join(f"# {line}\n" for line in text.strip().split("\n"))


@dataclass(frozen=True, repr=False)
class Draft:
    """Draft of a schema with reasons and doubts, which a person must check and complete.

    It is private until then. :func:`draft_columns` creates it from private rows. Its facts were
    read from cells, so no release accepts them before a person has declared them public.

    Parameters
    ----------
    facts : Schema
        The proposed schema. Each fact from cells is marked ``undeclared``. Private.
    unread : mapping of str to str
        Columns that are keys or ignored, by name, with the reasons. The draft marks them
        ``undeclared``.
    doubts : mapping of str to str, default {}
        Columns with levels, or ignored columns, that look like dates or like numbers in another
        format. By name, with the reasons.
    notes : str, default ""
        Comments in TOML about these columns, with blocks to be uncommented. Private.
    reasons : mapping of str to str, default {}
        The reason for the draft of each column, by its name, in a line. Private.

    Examples
    --------
    >>> from missdp.table import draft_columns
    >>> draft = draft_columns({"age": [31, 70], "city": ["Bonn", "Ulm"]})
    >>> draft.facts.names, draft.facts["city"].levels
    (('age', 'city'), ('Bonn', 'Ulm'))
    """

    facts: Schema
    unread: Mapping[str, str]
    doubts: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)

    def to_toml(self, path: str | Path) -> None:
        """Write the draft of a schema to a TOML file for a person to complete.

        The file is written completely or not at all. Comments state the reasons for each column.

        Parameters
        ----------
        path : str or Path
            The file, which is as private as the draft. An existing file is replaced.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        write_atomically(Path(path), self.toml_text().encode("utf-8"))

    def toml_text(self) -> str:
        """Return the content of the TOML file of the draft, with its comments.

        Returns
        -------
        str
            The text. Private until a person has completed it.
        """
        lines = {name: (reason,) for name, reason in self.reasons.items()}
        return self.facts.toml_text(comments=lines, notes=_RULES + self.notes)


def draft_columns(data: Any, *, header: bool = True, encoding: str = "utf-8") -> Draft:
    """Draft a schema from private rows, with reasons for columns that stay unread.

    All private rows are read, and nothing is charged. The draft is therefore for the curator only.

    No privacy guarantee covers the draft.

    Parameters
    ----------
    data : frame, DuckDB relation, Rows, str, Path, dict or list
        The private rows, as :meth:`Table.read` takes them.
    header : bool, default True
        True if the first line of a text file names its columns. Otherwise the columns are named
        ``column1``, ``column2`` and so on.
    encoding : str, default "utf-8"
        The encoding of a text file, as in :class:`Layout`.

    Returns
    -------
    Draft
        Private until a person has completed it.

    Raises
    ------
    DataError
        If there are no rows, or names of columns are repeated or cannot be written to a file. Also
        if a file without a header line or with an encoding is not a text file.
    SchemaError
        If the encoding is unknown.

    Examples
    --------
    >>> from missdp.table import draft_columns
    >>> import pandas as pd
    >>> draft = draft_columns(pd.DataFrame({"age": [31, 70], "pets": [["cat"], []]}))
    >>> draft.facts.names, draft.facts.ignore
    (('age',), ('pets',))
    >>> draft.unread["pets"]
    "column 'pets' has cells that are neither short text in UTF-8, numbers nor true/false"
    """
    rows, layout = _opened(data, header=header, encoding=encoding)
    names = rows.names
    if not names:
        raise DataError("the data has no columns to draft a schema from")
    rows.check(names)
    if any(not name or _NOT_TEXT.search(name) for name in names):
        raise DataError("the name of a column is empty or not valid text. Rename the column.")
    columns = distinct_cells(rows, names)
    if not columns:
        raise DataError("the data has no rows to draft a schema from, only the names of columns")
    spelled, marks = _spelled_columns(columns)
    if marks:
        layout = replace(layout, **marks, undeclared=tuple(marks))  # type: ignore[arg-type]
        numbers = [n for n, c in columns.items() if _may_have_marks(c) and _are_numbers(c, layout)]
        columns |= {name: columns[name].respelled(layout) for name in numbers}
    chosen = _chosen(rows, columns, layout)
    dates = (a for a in chosen.values() if isinstance(a, Date))
    notes = "".join(map(_difference_note, differences(rows, dates)))
    return _draft_of(chosen, columns, layout, spelled, notes)


def _draft_of(
    chosen: Mapping[str, AnyAttribute | _Unread],
    columns: Mapping[str, DistinctCells],
    layout: Layout,
    spelled: tuple[str, ...],
    notes: str,
) -> Draft:
    """Return the draft of columns with chosen blocks."""
    attributes = tuple(a for a in chosen.values() if not isinstance(a, _Unread))
    unread = {name: a for name, a in chosen.items() if isinstance(a, _Unread)}
    doubts = {n: note for n, a in chosen.items() if (note := _doubt(a, columns[n]))}
    read = {a.name: _reason(a, columns[a.name]) for a in attributes}
    read |= {n: f"Numbers in text as [file] declares. {read[n]}" for n in spelled if n in read}
    reasons = read | {name: f"This column {a.why}. {a.advice}" for name, a in unread.items()}
    codes = {name: _code_facts(columns[name].word_codes) for name in doubts}
    keys = tuple(name for name, a in unread.items() if a.kind == "key")
    ignored = tuple(name for name, a in unread.items() if a.kind == "ignore")
    return Draft(
        Schema(
            attributes, file=layout, keys=keys, ignore=ignored, undeclared_columns=tuple(unread)
        ),
        {name: f"column {name!r} {a.why}" for name, a in unread.items()},
        {name: f"column {name!r} {note.why}" for name, note in doubts.items()},
        "".join(note.text(name, codes[name]) for name, note in doubts.items()) + notes,
        {name: reasons[name].strip() for name in reasons if reasons[name]},
    )


def _opened(data: Any, *, header: bool, encoding: str) -> tuple[Rows, Layout]:
    """Return the rows, and the layout of their file."""
    rows, layout = Rows.of(data), Layout(encoding=encoding)
    if header and layout == PLAIN:
        return rows, layout
    if not rows.is_text:
        raise DataError("only text files, such as CSV, may lack a header line or have an encoding")
    (file,) = rows.data_files
    if not header:
        first = file.with_layout(layout).header
        columns = tuple(f"column{k + 1}" for k in range(len(first.names)))
        tabs = first.delimiter == "\t"  # a .tsv file
        delimiter = "," if tabs else first.delimiter
        layout = replace(layout, header=columns, delimiter=delimiter)
    return rows.with_layout(layout), layout


def _chosen(
    rows: Rows, columns: Mapping[str, DistinctCells], layout: Layout
) -> dict[str, AnyAttribute | _Unread]:
    """Return the first draft of each column that reads all its cells, or an unread column."""
    described = rows.described()
    chosen: dict[str, AnyAttribute | _Unread] = {}
    for name, cells in columns.items():
        drafts = _drafts(name, cells, described.get(name, Described()))
        chosen[name] = next(a for a in drafts if _reads(a, cells, rows, layout))
    if all(isinstance(a, _Unread) for a in chosen.values()):  # a schema needs an attribute
        name = next(iter(chosen))
        chosen[name] = OpenCategorical(name=name, nullable=True, undeclared=("levels", "nullable"))
    return chosen


def _difference_note(facts: Mapping[str, Any]) -> str:
    """Return the comment that proposes a difference of two dates."""
    block = tomli_w.dumps({**facts, "kind": "difference"})
    return _commented(f"{_STAY.format(**facts)}[[attribute]]\n{block}")


def _reads(
    drafted: AnyAttribute | _Unread, cells: DistinctCells, rows: Rows, layout: Layout
) -> bool:
    """Return True if a draft reads every cell: all distinct cells, or the cells of all rows."""
    if isinstance(drafted, _Unread | OpenCategorical):
        return True
    columns, encoder = iter([cells.cells]), Encoder(drafted)
    if cells.sampled or cells.typed:
        encoder = Encoder(drafted, layout)
        columns = (batch.column(0) for batch in rows.batches((drafted.name,)))
    try:
        for column in columns:
            encoder.encode(column)
    except (SchemaError, DataError):
        return False
    return True


def _spelled_columns(
    columns: Mapping[str, DistinctCells],
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return columns of numbers in another format, and the marks that read all numbers.

    A file has one decimal mark, so a comma is not drafted if a column has a point. Cells with a
    type of numbers have no mark.
    """
    values = {name: cells.without(cells.word_codes) for name, cells in columns.items()}
    odd = tuple(name for name, cells in values.items() if _are_spelled(cells.words))
    layout = layout_of([text for name in odd for text in values[name].texts]) if odd else PLAIN
    plain = (cells for cells in values.values() if _may_have_marks(cells) and not cells.words)
    if layout.plain or not all(_are_numbers(cells, layout) for cells in plain):
        return (), {}
    marks = {"decimal": layout.decimal, "thousands": layout.thousands}
    return odd, {name: mark for name, mark in marks.items() if mark != getattr(PLAIN, name)}


def _may_have_marks(cells: DistinctCells) -> bool:
    """Return True if cells are texts, but not codes with leading zeros."""
    return cells.in_text and not any(map(_is_padded, cells.texts))


def _are_spelled(texts: list[str]) -> bool:
    """Return True if all texts are numbers in another format."""
    spelled = number_style(texts[:_STYLED], every=True) and number_style(texts, every=True)
    return bool(spelled) and not any(map(has_sign, texts))


def _are_numbers(cells: DistinctCells, layout: Layout) -> bool:
    """Return True if all cells are numbers in a layout, or codes of missing cells."""
    texts = cells.without(cells.word_codes).texts
    return all(layout.number(text) is not None for text in texts)


def _reason(attribute: AnyAttribute, cells: DistinctCells) -> str:
    """Return the reason for an attribute in a line, or an empty text."""
    coded = any(attribute.codes_of(kind) for kind in attribute.kinds)
    codes = " Codes of missing cells are guesses: look up each code in the code book." * coded
    if isinstance(attribute, Date):
        written = f"as {attribute.format}" if attribute.format else "by type or in ISO 8601"
        other = other_format(cells.texts, attribute.format)
        doubt = f", or as well as {other}" if other else ""
        return f"Dates, written {written}{doubt}.{codes}"
    if isinstance(attribute, Numeric):
        few = not attribute.integer and len(cells) < min(_MIN_NUMBERS, cells.rows / _MIN_NUMBERS)
        return (_WEIGHT * is_weight_name(attribute.name) + _FEW * few + codes).strip()
    if isinstance(attribute, OpenCategorical):
        return f"{_ONLY_COLUMN if _mostly_different(cells) else _OPEN}{codes}"
    if attribute.levels == (0, 1) and not isinstance(attribute.levels[0], bool):
        return f"0 and 1 are two levels here, not numbers.{codes}"
    if isinstance(attribute, Ordinal) and not attribute.labels:
        return (
            f'Words in an order, lowest first. If they have no order: kind = "categorical".{codes}'
        )
    if any(map(_is_padded, attribute.levels)):
        return f"Codes with leading zeros, which numbers would lose.{codes}"
    if not attribute.levels and attribute.not_applicable:
        return _ONLY_CODES
    return codes.strip()


def _doubt(attribute: AnyAttribute | _Unread, cells: DistinctCells) -> _Note | None:
    """Return a note on levels or unread cells that look like dates, numbers or parts of codes."""
    if isinstance(attribute, Numeric) or (
        isinstance(attribute, _Unread) and not attribute.doubtful
    ):
        return None
    if isinstance(attribute, _Unread | OpenCategorical):
        texts = cells.without(cells.word_codes).texts
        if all(map(str.isdecimal, texts)):
            return _Note("has codes, some with leading zeros", *_DIGITS)
        return _odd(texts, every=False)
    if not (attribute.levels and isinstance(attribute.levels[0], str)):
        return None
    return _odd([str(level) for level in attribute.levels], every=True)


def _odd(texts: list[str], *, every: bool) -> _Note | None:
    """Return a note on texts that are mostly dates, or mostly or all numbers in another format."""
    some = texts[:: len(texts) // _STYLED + 1]
    if style := date_style(some):
        return _Note(style, *_YEARS)
    style = number_style(some, every=every)
    return None if style is None else _Note(style, *_NUMBERS)


def draft_schema(data: Any) -> Schema:
    """Draft a schema from private rows, for a person to check and complete.

    All private rows are read, and nothing is charged. Every fact from cells is marked
    ``undeclared``, and a release raises SchemaError for a schema with these marks.

    No privacy guarantee covers the draft.

    Parameters
    ----------
    data : frame, DuckDB relation, Rows, str, Path, dict or list
        The private rows, as :meth:`Table.read` takes them.

    Returns
    -------
    Schema
        Private until a person has checked the facts, corrected them, and deleted the marks.

    Raises
    ------
    DataError
        If there are no rows, or names of columns are repeated or cannot be written to a file.

    Examples
    --------
    >>> from missdp.table import draft_schema
    >>> import pandas as pd
    >>> draft = draft_schema(pd.DataFrame({"smoker": ["yes", "no", None], "age": [31, 70, 45]}))
    >>> draft["smoker"].levels, draft["smoker"].undeclared
    (('no', 'yes'), ('levels', 'nullable'))
    >>> draft.undeclared["age"]
    ('lower', 'upper', 'integer', 'nullable')
    """
    return draft_columns(data).facts


def _drafts(name: str, cells: DistinctCells, facts: Described) -> Iterator[AnyAttribute | _Unread]:
    """Yield attributes that may read the cells, the most specific first, then an unread column."""
    if cells.unreadable:
        yield _NO_TEXT
        return
    if (what := identifies(name, cells)) is not None:
        yield _IDENTIFIERS[what]
        return
    stated = [_stated_codes(facts)] if facts.codes else []
    for codes in chain(stated, _proposals(cells)):
        with contextlib.suppress(SchemaError, DataError):
            values = cells.without(codes)
            drafted = _labelled(_draft_with(name, values, codes), facts, values)
            yield drafted
            if isinstance(drafted, Date) and cells.sampled:
                yield _of_two_centuries(drafted)
    yield _Unread("has values that a schema cannot hold")


def _of_two_centuries(drafted: Date) -> Date:
    """Return a date with bounds of two centuries. Other cells become missing."""
    more: dict[str, Any] = dict(zip(("lower", "upper"), _CENTURIES, strict=True))
    more |= {"nullable": True, "outside": "missing"}
    return replace(drafted, **more, undeclared=(*drafted.undeclared, "outside"))


def _stated_codes(facts: Described) -> Proposed:
    """Return the codes of missing cells that a file declares, by the kind of their labels."""
    codes_by_kind: dict[Kind, tuple[str | float, ...]] = {}
    for code in facts.codes:
        kind: Kind = next(iter(text_codes([facts.labels.get(code, "")])), "missing")
        codes_by_kind[kind] = (*codes_by_kind.get(kind, ()), _plain(code))
    return codes_by_kind


def _plain(code: str | float) -> str | float:
    """Return a whole number as an integer."""
    return int(code) if isinstance(code, float) and code.is_integer() else code


def _labelled(
    drafted: AnyAttribute | _Unread, described: Described, values: DistinctCells
) -> AnyAttribute | _Unread:
    """Return a draft with the labels of a file. Numbers that all have labels become levels."""
    if isinstance(drafted, _Unread) or not (described.label or described.labels):
        return drafted
    if isinstance(drafted, OpenCategorical):  # its levels are not declared
        mark = ("label",) * bool(described.label)
        return replace(drafted, label=described.label, undeclared=(*drafted.undeclared, *mark))
    labels = {code_text(code): label for code, label in described.labels.items()}
    codes = {code_text(code) for kind in drafted.kinds for code in drafted.codes_of(kind)}
    levels = [key for key in labels if key not in codes and (read_number(key) or 0.5).is_integer()]
    cells = {*values.texts} if labels else set[str]()
    if isinstance(drafted, Numeric) and levels and cells <= {*levels}:
        shared = {f.name for f in fields(Attribute)}
        facts = {name: getattr(drafted, name) for name in shared}
        facts["undeclared"] = ("levels", *(m for m in drafted.undeclared if m in shared))
        kind = Ordinal if described.ordered else Categorical
        drafted = kind(**facts, levels=tuple(map(int, levels)))
    fitting = {k: label for k, label in labels.items() if k in codes or k in levels or k in cells}
    marks = ("label",) * bool(described.label) + ("labels",) * bool(fitting)
    more: dict[str, Any] = {"label": described.label, "labels": fitting}
    return replace(drafted, **more, undeclared=(*drafted.undeclared, *marks))


def _proposals(cells: DistinctCells) -> Iterator[Proposed]:
    """Yield codes of kinds of missing: all usual codes, then codes in text, then none."""
    texts = cells.word_codes
    others = cells.without(texts)
    if len(others) and not others.words:
        finite = others.where(np.isfinite(others.numbers))
        values, places = np.unique(finite.numbers, return_inverse=True)
        counts = np.bincount(places, finite.counts).astype(float)
        more = number_codes(values, counts, total=others.rows if others.sampled else None)
        if more:
            yield {k: (*texts.get(k, ()), *more.get(k, ())) for k in {**texts, **more}}
    yield texts
    yield {}


def _draft_with(name: str, values: DistinctCells, codes: Proposed) -> AnyAttribute | _Unread:
    """Draft a column from its values, without cells that are codes of missing cells."""
    if not len(values):
        marks, all_codes = ("levels", "not_applicable"), tuple(chain.from_iterable(codes.values()))
        return Categorical(name=name, levels=(), not_applicable=all_codes, undeclared=marks)
    nullable = values.missing or bool({*codes} - {"not_applicable"})
    facts: dict[str, Any] = {"name": name, "nullable": nullable, **_code_facts(codes)}
    if (dates := date_facts(values)) is not None:
        kind, read = dates
        if never := read.pop("missing_codes", ()):
            facts |= {"nullable": True, "missing_codes": (*facts.get("missing_codes", ()), *never)}
        return _marked(kind, read | facts)
    if not values.words and not (values.in_text and any(map(_is_padded, values.texts))):
        return _draft_numeric(values, facts)
    return _draft_levels(values, facts)


def _marked(kind: Callable[..., AnyAttribute], facts: Mapping[str, Any]) -> AnyAttribute:
    """Return an attribute with a mark for each fact, since all were read from cells."""
    return kind(**facts, undeclared=tuple(fact for fact in facts if fact != "name"))


def _code_facts(codes: Proposed) -> dict[str, Any]:
    """Return the facts of an attribute that declare codes."""
    return {fact: codes[kind] for kind, fact in CODE_FIELDS.items() if kind in codes}


def _is_padded(cell: object) -> bool:
    """Return True for digits with a leading zero, which numbers would lose, as in postal codes."""
    return isinstance(cell, str) and len(cell) > 1 and cell[0] == "0" and cell.isdecimal()


def _draft_numeric(values: DistinctCells, facts: dict[str, Any]) -> AnyAttribute | _Unread:
    """Draft a column of numbers."""
    finite = values.numbers[np.isfinite(values.numbers)]
    if not len(finite):
        return _Unread("has no finite numbers")
    if np.max(np.abs(finite)) >= MAX_INTEGER - 1:
        why = "has numbers too large to be distinguished"
        if _mostly_different(values) or is_key_name(facts["name"]):
            return _Unread(f"{why}: it looks like an identifier", "key", _FRESH)
        return _Unread(why)
    infinite = len(finite) < len(values)
    if {*finite} == {0.0, 1.0} and not infinite:
        return _marked(Categorical, {"levels": (0, 1), **facts})
    lower, upper = float(finite.min()) + 0.0, float(finite.max()) + 0.0  # no -0.0
    read: dict[str, Any] = {"lower": lower, "upper": upper if upper > lower else lower + 1}
    read |= {"integer": bool(np.all(finite == np.floor(finite)))} | facts
    read |= {"outside": "clamp"} if infinite else {}
    return _marked(Numeric, read | ({"step": step} if (step := _step(finite)) else {}))


def _step(numbers: Floats) -> float | None:
    """Return the step of all numbers, such as 0.01, 0.5 or 100, or None."""
    numbers = np.unique(numbers)
    scaled = ((d, np.rint(numbers * 10.0**d) / 10.0**d) for d in range(_MAX_DECIMALS + 1))
    digits = next((d for d, rounded in scaled if np.array_equal(rounded, numbers)), None)
    if len(numbers) < _MIN_NUMBERS or digits is None:
        return None
    units = np.rint((numbers - numbers[0]) * 10**digits)
    if units[-1] >= MAX_INTEGER:
        return None
    if digits > 0:
        return float(np.gcd.reduce(units.astype(np.int64)) / 10.0**digits)
    # Each whole number must be a multiple of the step: 7, 17 and 27 are not rounded to tens.
    common = int(np.gcd.reduce(numbers.astype(np.int64)))
    return next((step for step in _INTEGER_STEPS if common % int(step) == 0), None)


def _draft_levels(values: DistinctCells, facts: dict[str, Any]) -> AnyAttribute | _Unread:
    """Draft a column of texts with levels, or without a list of levels."""
    levels: tuple[str, ...] | tuple[bool, ...] = tuple(sorted({*values.texts}))
    if all(str(level).lower() in ("true", "false") for level in levels):
        levels = (False, True)
    if len(levels) > _MAX_DRAFT_LEVELS:
        return _draft_many(values, facts)
    ordered = usual_order([level for level in levels if isinstance(level, str)])
    return _marked(Ordinal if ordered else Categorical, {"levels": ordered or levels, **facts})


def _draft_many(values: DistinctCells, facts: dict[str, Any]) -> AnyAttribute | _Unread:
    """Draft a column with too many values for a list of levels: open, a key, or ignored."""
    many = f"has more than {_MAX_DRAFT_LEVELS} distinct values"
    if not _mostly_different(values):
        texts = {*values.texts}
        names = chain((_OTHER, "any other"), (f"other {k}" for k in count(2)))
        other = next(name for name in names if name not in texts)
        read = {"other": other} if other != _OTHER else {}  # then private cells determine it
        drafted = _marked(OpenCategorical, read | facts)
        return replace(drafted, undeclared=("levels", *drafted.undeclared))
    digits = all(map(str.isdecimal, values.texts))
    if is_key_name(facts["name"]) or digits:
        zeros = ", some with leading zeros" * digits
        return _Unread(f"{many}{zeros}: it looks like an identifier", "key", _FRESH, digits)
    why = f"{many}, few of them repeated: it looks like names or free text"
    return _Unread(why, doubtful=True)


def _mostly_different(cells: DistinctCells) -> bool:
    """Return True if most rows have a value of their own, so that a fit releases few levels."""
    return bool(2 * len(cells) > cells.counts.sum())
