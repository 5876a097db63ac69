"""Drafts of schemas, from private columns, for their curator to complete.

Names come from the table's own header; levels and bounds come from the private cells, so each is
marked as not yet declared public. A release refuses such a schema. Once the marks are accepted, it
reads every column of the table: those that have no list of levels and no bounds are open, keys, or
ignored.
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
    in_order,
    is_key_name,
    is_weight_name,
    other_format,
)
from missdp.table.encode import Encoder
from missdp.table.missing_codes import Proposed, number_codes, text_codes
from missdp.table.number_styles import date_style, has_sign, layout_of, number_style
from missdp.table.packages import Described
from missdp.table.rows import Rows
from missdp.types import Floats

_MAX_DRAFT_LEVELS = 100
_OTHER: Final = OpenCategorical.other  # the name of the bucket that no cell decides
_FEWEST = 10  # distinct numbers, whose step tells something
_MOST_DIGITS = 4  # behind the point, of a step
_WHOLE_STEPS = (1000.0, 100.0, 10.0)  # that whole numbers are rounded to
_STYLED = 300  # distinct texts of a column that decide whether it looks like dates or numbers
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_RULES = """
# Rules are public facts about single rows. None is ever guessed from the rows; one looks like this:
# [[rule]]
# not_applicable = ["hours"]
# unless = "employed = 'yes'"
"""

_NUMBERS: Final = (
    "this reads numbers; write the bounds that are publicly known",
    {"kind": "numeric", "lower": 0, "upper": 100, "nullable": True},
)
_YEARS: Final = (
    "this reads years",
    {"kind": "numeric", "lower": 1900, "upper": 2100, "integer": True, "nullable": True},
)
_DIGITS: Final = (
    "this reads the first digit, if each cell is cut to it by itself",
    {"kind": "categorical", "levels": list("0123456789"), "nullable": True},
)
_FRESH: Final = "It is never read, and fresh keys are written in its place."
_IGNORED: Final = "It is never read, and not written. Other software may prepare it, cell by cell."
_UNIT: Final = (
    "To protect all rows of one together, write [unit] and, below it, column = and its name, and "
    "max_rows = 5 or the like, above the first [[attribute]], and delete this block."
)
_WEIGHT: Final = (
    "If this says how many people a row stands for: drop the block, and write [weight] and, "
    "below it, column = and its name, and upper = with the largest that counts, a public fact, "
    "above the first [[attribute]]."
)
_OPEN: Final = (
    f"More than {_MAX_DRAFT_LEVELS} values, some in several rows: a fit finds the frequent ones "
    "privately. Write a public list of levels if there is one."
)
_ALONE: Final = (
    "No other column can be modelled, and a schema needs one: a fit finds the frequent values "
    "privately."
)
_CODES_ALONE: Final = "Only codes of missing cells occur, and no value: no synthetic row has one."
_FEW: Final = "Few numbers occur: if no others can, list those that can as spikes."
_CENTURIES: Final = ("1900-01-01", "2099-12-31")


_STAY = """\
{later!r} is never before {earlier!r} in these rows. This models what lies between; both stay
declared, and one is computed from the other:
"""


class _Note(NamedTuple):
    """Why the block of a column is hardly the right one, and what may stand in its place."""

    why: str
    advice: str
    facts: Mapping[str, Any]

    def text(self, name: str, codes: Mapping[str, Any]) -> str:
        """Return a comment, whose block is valid once it is uncommented.

        The codes were read from private cells, so the block marks them.
        """
        block = "[[attribute]]\n" + tomli_w.dumps({"name": name, **self.facts, **codes})
        if codes:  # in one line, which a person can delete whole
            block += f"undeclared = {json.dumps([*codes])}\n"
        return _commented(
            f"column {name!r} {self.why}. In place of its block above, {self.advice}:\n{block}"
        )


class _Unread(NamedTuple):
    """Why a column is never read, and of which kind its block is."""

    why: str
    kind: Literal["key", "ignore"] = "ignore"
    advice: str = _IGNORED
    doubtful: bool = False  # whether its cells may be dates or numbers in another spelling


_IDENTIFIERS: Final = {
    "row": _Unread("has a value of its own in every row: it looks like a key", "key", _FRESH),
    "unit": _Unread(
        "has values that come several times: it looks like whose rows they are",
        "key",
        f"{_FRESH} {_UNIT}",
    ),
}
_NO_TEXT: Final = _Unread("has cells that are neither short text in UTF-8, numbers nor true/false")


def _commented(text: str) -> str:
    return "\n" + "".join(f"# {line}\n" for line in text.strip().split("\n"))


@dataclass(frozen=True, repr=False)
class Draft:
    """A schema that a person must complete; private until that is done.

    Parameters
    ----------
    facts : Schema
        Facts that were guessed from the cells, each marked ``undeclared``.
    unread : mapping of str to str
        Columns that are keys or ignored, and why. The draft marks them ``undeclared``.
    doubts : mapping of str to str, optional
        Columns that were drafted with levels or ignored, although they look like dates, or like
        numbers in a spelling that is not read as numbers.
    notes : str, optional
        What the file says of all these, with blocks to be uncommented.
    reasons : mapping of str to str, optional
        Why columns were drafted as they are, in a line each.
    """

    facts: Schema
    unread: Mapping[str, str]
    doubts: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)

    def to_toml(self, path: str | Path) -> None:
        """Write the draft, whole or not at all."""
        lines = {name: (reason,) for name, reason in self.reasons.items()}
        self.facts.to_toml(path, comments=lines, notes=_RULES + self.notes)


def draft_columns(data: Any, *, header: bool = True, encoding: str = "utf-8") -> Draft:
    """Return a draft that reads every column, or says why a column is left unread.

    Parameters
    ----------
    data : frame, DuckDB relation, Rows, str, Path, dict or list
        The private rows, as :meth:`Table.read` takes them.
    header : bool, default True
        Whether the first line of a text file names its columns.
    encoding : str, default "utf-8"
        The encoding of a text file, as of :class:`Layout`.

    Returns
    -------
    Draft
        Private, until a person has completed it.

    Raises
    ------
    DataError
        If there are no rows, or names of columns are repeated or cannot be written to a file.

    Examples
    --------
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
        raise DataError("the name of a column is empty or no text that a file can hold: rename it")
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
    """Return the draft of columns, of which each has a block by now."""
    attributes = tuple(a for a in chosen.values() if not isinstance(a, _Unread))
    unread = {name: a for name, a in chosen.items() if isinstance(a, _Unread)}
    doubts = {n: note for n, a in chosen.items() if (note := _doubt(a, columns[n]))}
    read = {a.name: _reason(a, columns[a.name]) for a in attributes}
    read |= {n: f"Numbers in text as [file] declares. {read[n]}" for n in spelled if n in read}
    left = {name: f"This column {a.why}. {a.advice}" for name, a in unread.items()}
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
        {name: said.strip() for name, said in {**read, **left}.items() if said},
    )


def _opened(data: Any, *, header: bool, encoding: str) -> tuple[Rows, Layout]:
    """Return what reads the rows, and how the file is written."""
    rows, layout = Rows.of(data), Layout(encoding=encoding)
    if header and layout == PLAIN:
        return rows, layout
    if not rows.is_text:
        raise DataError("only text files, such as CSV, may lack a header line or have an encoding")
    (file,) = rows.data_files
    if not header:
        first = file.with_layout(layout).header
        columns = tuple(f"column{k + 1}" for k in range(len(first.names)))
        tabs = first.delimiter == "\t"  # of a .tsv file
        delimiter = "," if tabs else first.delimiter
        layout = replace(layout, header=columns, delimiter=delimiter)
    return rows.written(layout), layout


def _chosen(
    rows: Rows, columns: Mapping[str, DistinctCells], layout: Layout
) -> dict[str, AnyAttribute | _Unread]:
    """Return the first draft of each column that reads all its cells, or why it is not read."""
    said = rows.described()
    chosen: dict[str, AnyAttribute | _Unread] = {}
    for name, cells in columns.items():
        drafts = _drafts(name, cells, said.get(name, Described()))
        chosen[name] = next(a for a in drafts if _reads(a, cells, rows, layout))
    if all(isinstance(a, _Unread) for a in chosen.values()):  # a schema needs an attribute
        name = next(iter(chosen))
        chosen[name] = OpenCategorical(name=name, nullable=True, undeclared=("levels", "nullable"))
    return chosen


def _difference_note(facts: Mapping[str, Any]) -> str:
    said = _STAY.format(**facts)
    return _commented(f"{said}[[attribute]]\n{tomli_w.dumps({**facts, 'kind': 'difference'})}")


def _reads(
    drafted: AnyAttribute | _Unread, cells: DistinctCells, rows: Rows, layout: Layout
) -> bool:
    """Whether a draft reads every cell: the distinct ones, or those of all rows."""
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
    """Return the columns of numbers with marks besides a point, and marks that read all numbers.

    A file has one decimal mark. So no other mark is drafted if a column has a point. Cells that are
    numbers by type have no mark.
    """
    known = {name: cells.without(cells.word_codes) for name, cells in columns.items()}
    odd = tuple(name for name, cells in known.items() if _are_spelled(cells.words))
    layout = layout_of([text for name in odd for text in known[name].texts]) if odd else PLAIN
    plain = (cells for cells in known.values() if _may_have_marks(cells) and not cells.words)
    if layout.plain or not all(_are_numbers(cells, layout) for cells in plain):
        return (), {}
    marks = {"decimal": layout.decimal, "thousands": layout.thousands}
    return odd, {name: mark for name, mark in marks.items() if mark != getattr(PLAIN, name)}


def _may_have_marks(cells: DistinctCells) -> bool:
    """Whether cells are texts, and no codes with zeros in front."""
    return cells.in_text and not any(map(_is_padded, cells.texts))


def _are_spelled(texts: list[str]) -> bool:
    """Whether all texts are numbers in another spelling."""
    spelled = number_style(texts[:_STYLED], every=True) and number_style(texts, every=True)
    return bool(spelled) and not any(map(has_sign, texts))


def _are_numbers(cells: DistinctCells, layout: Layout) -> bool:
    """Whether all cells but codes of missing are numbers in a layout."""
    texts = cells.without(cells.word_codes).texts
    return all(layout.number(text) is not None for text in texts)


def _reason(attribute: AnyAttribute, cells: DistinctCells) -> str:
    """Say in a line what its cells were taken for, where that is more than what it says itself."""
    coded = any(attribute.codes_of(kind) for kind in attribute.kinds)
    codes = " Codes of missing cells are usual ones: look each up in the code book." * coded
    if isinstance(attribute, Date):
        written = f"as {attribute.format}" if attribute.format else "by type or in ISO 8601"
        other = other_format(cells.texts, attribute.format)
        doubt = f", or as well as {other}" if other else ""
        return f"Dates, written {written}{doubt}.{codes}"
    if isinstance(attribute, Numeric):
        few = not attribute.integer and len(cells) < min(_FEWEST, cells.rows / _FEWEST)
        return (_WEIGHT * is_weight_name(attribute.name) + _FEW * few + codes).strip()
    if isinstance(attribute, OpenCategorical):
        return f"{_ALONE if _mostly_different(cells) else _OPEN}{codes}"
    if attribute.levels == (0, 1) and not isinstance(attribute.levels[0], bool):
        return f"0 and 1 are two levels here, no number.{codes}"
    if isinstance(attribute, Ordinal) and not attribute.labels:
        return f'Words in an order, lowest first; if they have none, kind = "categorical".{codes}'
    if any(map(_is_padded, attribute.levels)):
        return f"Codes with zeros in front, which numbers would lose.{codes}"
    if not attribute.levels and attribute.not_applicable:
        return _CODES_ALONE
    return codes.strip()


def _doubt(attribute: AnyAttribute | _Unread, cells: DistinctCells) -> _Note | None:
    """Say that levels, or cells that are not read, look like dates, numbers or parts of codes."""
    if isinstance(attribute, Numeric) or (
        isinstance(attribute, _Unread) and not attribute.doubtful
    ):
        return None
    if isinstance(attribute, _Unread | OpenCategorical):
        texts = cells.without(cells.word_codes).texts
        if all(map(str.isdecimal, texts)):
            return _Note("has codes, some with zeros in front", *_DIGITS)
        return _odd(texts, every=False)
    if not (attribute.levels and isinstance(attribute.levels[0], str)):
        return None
    return _odd([str(level) for level in attribute.levels], every=True)


def _odd(texts: list[str], *, every: bool) -> _Note | None:
    """Say that most texts are dates, or that most or all are numbers in an odd spelling."""
    some = texts[:: len(texts) // _STYLED + 1]
    if style := date_style(some):
        return _Note(style, *_YEARS)
    style = number_style(some, every=every)
    return None if style is None else _Note(style, *_NUMBERS)


def draft_schema(data: Any) -> Schema:
    """Return a draft of a schema; every fact read from the cells is marked ``undeclared``.

    Parameters
    ----------
    data : frame, DuckDB relation, Rows, str, Path, dict or list
        The private rows, as :meth:`Table.read` takes them.

    Returns
    -------
    Schema
        To be checked by a person: correct the facts, then delete the marks.

    Raises
    ------
    DataError
        If there are no rows, or names of columns are repeated or cannot be written to a file.

    Examples
    --------
    >>> import pandas as pd
    >>> draft = draft_schema(pd.DataFrame({"smoker": ["yes", "no", None], "age": [31, 70, 45]}))
    >>> draft["smoker"].levels, draft["smoker"].undeclared
    (('no', 'yes'), ('levels', 'nullable'))
    >>> draft.undeclared["age"]
    ('lower', 'upper', 'integer', 'nullable')
    """
    return draft_columns(data).facts


def _drafts(name: str, cells: DistinctCells, said: Described) -> Iterator[AnyAttribute | _Unread]:
    """Yield attributes that may read the cells, the one that says most first; then why none is."""
    if cells.unreadable:
        yield _NO_TEXT
        return
    if (what := identifies(name, cells)) is not None:
        yield _IDENTIFIERS[what]
        return
    stated = [_stated_codes(said)] if said.codes else []
    for codes in chain(stated, _proposals(cells)):
        with contextlib.suppress(SchemaError, DataError):
            known = cells.without(codes)
            drafted = _labelled(_draft_with(name, known, codes), said, known)
            yield drafted
            if isinstance(drafted, Date) and cells.sampled:
                yield _of_two_centuries(drafted)
    yield _Unread("has values that a schema cannot hold")


def _of_two_centuries(drafted: Date) -> Date:
    more: dict[str, Any] = dict(zip(("lower", "upper"), _CENTURIES, strict=True))
    more |= {"nullable": True, "outside": "missing"}
    return replace(drafted, **more, undeclared=(*drafted.undeclared, "outside"))


def _stated_codes(said: Described) -> Proposed:
    """Return the codes of missing cells that a file declares, by the kind of their labels."""
    found: dict[Kind, tuple[str | float, ...]] = {}
    for code in said.codes:
        kind: Kind = next(iter(text_codes([said.labels.get(code, "")])), "missing")
        found[kind] = (*found.get(kind, ()), _plain(code))
    return found


def _plain(code: str | float) -> str | float:
    return int(code) if isinstance(code, float) and code.is_integer() else code


def _labelled(
    drafted: AnyAttribute | _Unread, said: Described, known: DistinctCells
) -> AnyAttribute | _Unread:
    """Return a draft with the labels of a file; numbers that all have one are levels."""
    if isinstance(drafted, _Unread) or not (said.label or said.labels):
        return drafted
    if isinstance(drafted, OpenCategorical):  # its levels, which may have labels, are not known
        mark = ("label",) * bool(said.label)
        return replace(drafted, label=said.label, undeclared=(*drafted.undeclared, *mark))
    labels = {code_text(code): label for code, label in said.labels.items()}
    codes = {code_text(code) for kind in drafted.kinds for code in drafted.codes_of(kind)}
    levels = [key for key in labels if key not in codes and (read_number(key) or 0.5).is_integer()]
    cells = {*known.texts} if labels else set[str]()
    if isinstance(drafted, Numeric) and levels and cells <= {*levels}:
        shared = {f.name for f in fields(Attribute)}
        facts = {name: getattr(drafted, name) for name in shared}
        facts["undeclared"] = ("levels", *(m for m in drafted.undeclared if m in shared))
        kind = Ordinal if said.ordered else Categorical
        drafted = kind(**facts, levels=tuple(map(int, levels)))
    fitting = {k: label for k, label in labels.items() if k in codes or k in levels or k in cells}
    marks = ("label",) * bool(said.label) + ("labels",) * bool(fitting)
    more: dict[str, Any] = {"label": said.label, "labels": fitting}
    return replace(drafted, **more, undeclared=(*drafted.undeclared, *marks))


def _proposals(cells: DistinctCells) -> Iterator[Proposed]:
    """Yield codes of kinds of missing: all that are usual, then fewer, in case they do not fit."""
    texts = cells.word_codes
    known = cells.without(texts)
    if len(known) and not known.words:
        finite = known.where(np.isfinite(known.numbers))
        values, places = np.unique(finite.numbers, return_inverse=True)
        counts = np.bincount(places, finite.counts).astype(float)
        more = number_codes(values, counts, total=known.rows if known.sampled else None)
        if more:
            yield {k: (*texts.get(k, ()), *more.get(k, ())) for k in {**texts, **more}}
    yield texts
    yield {}


def _draft_with(name: str, known: DistinctCells, codes: Proposed) -> AnyAttribute | _Unread:
    """Draft a column of which some cells are codes and the others are known."""
    if not len(known):
        marks, alone = ("levels", "not_applicable"), tuple(chain.from_iterable(codes.values()))
        return Categorical(name=name, levels=(), not_applicable=alone, undeclared=marks)
    nullable = known.missing or bool({*codes} - {"not_applicable"})
    facts: dict[str, Any] = {"name": name, "nullable": nullable, **_code_facts(codes)}
    if (dates := date_facts(known)) is not None:
        kind, read = dates
        if never := read.pop("missing_codes", ()):
            facts |= {"nullable": True, "missing_codes": (*facts.get("missing_codes", ()), *never)}
        return _marked(kind, read | facts)
    if not known.words and not (known.in_text and any(map(_is_padded, known.texts))):
        return _draft_numeric(known, facts)
    return _draft_levels(known, facts)


def _marked(kind: Callable[..., AnyAttribute], facts: Mapping[str, Any]) -> AnyAttribute:
    """Return an attribute of which each fact was read from cells, and is marked."""
    return kind(**facts, undeclared=tuple(fact for fact in facts if fact != "name"))


def _code_facts(codes: Proposed) -> dict[str, Any]:
    """Return codes by the facts of an attribute that declare them."""
    return {fact: codes[kind] for kind, fact in CODE_FIELDS.items() if kind in codes}


def _is_padded(cell: object) -> bool:
    """Whether digits begin with a zero that a number would lose, as in postal codes."""
    return isinstance(cell, str) and len(cell) > 1 and cell[0] == "0" and cell.isdecimal()


def _draft_numeric(known: DistinctCells, facts: dict[str, Any]) -> AnyAttribute | _Unread:
    finite = known.numbers[np.isfinite(known.numbers)]
    if not len(finite):
        return _Unread("has no finite numbers")
    if np.max(np.abs(finite)) >= MAX_INTEGER - 1:
        why = "has numbers too large to be told apart"
        if _mostly_different(known) or is_key_name(facts["name"]):
            return _Unread(f"{why}: it looks like an identifier", "key", _FRESH)
        return _Unread(why)
    endless = len(finite) < len(known)
    if {*finite} == {0.0, 1.0} and not endless:
        return _marked(Categorical, {"levels": (0, 1), **facts})
    lower, upper = float(finite.min()) + 0.0, float(finite.max()) + 0.0  # no -0.0
    read: dict[str, Any] = {"lower": lower, "upper": upper if upper > lower else lower + 1}
    read |= {"integer": bool(np.all(finite == np.floor(finite)))} | facts
    read |= {"outside": "clamp"} if endless else {}
    return _marked(Numeric, read | ({"step": step} if (step := _step(finite)) else {}))


def _step(numbers: Floats) -> float | None:
    """Return the step on which all numbers lie, such as 0.01, 0.5 or 100; None if there is none."""
    numbers = np.unique(numbers)
    scaled = ((d, np.rint(numbers * 10.0**d) / 10.0**d) for d in range(_MOST_DIGITS + 1))
    digits = next((d for d, rounded in scaled if np.array_equal(rounded, numbers)), None)
    if len(numbers) < _FEWEST or digits is None:
        return None
    units = np.rint((numbers - numbers[0]) * 10**digits)
    if units[-1] >= MAX_INTEGER:
        return None
    if digits > 0:
        return float(np.gcd.reduce(units.astype(np.int64)) / 10.0**digits)
    # Of whole numbers, each must be one: 7, 17 and 27 are not rounded to tens.
    common = int(np.gcd.reduce(numbers.astype(np.int64)))
    return next((step for step in _WHOLE_STEPS if common % int(step) == 0), None)


def _draft_levels(known: DistinctCells, facts: dict[str, Any]) -> AnyAttribute | _Unread:
    levels: tuple[str, ...] | tuple[bool, ...] = tuple(sorted({*known.texts}))
    if all(str(level).lower() in ("true", "false") for level in levels):
        levels = (False, True)
    if len(levels) > _MAX_DRAFT_LEVELS:
        return _draft_many(known, facts)
    ordered = in_order([level for level in levels if isinstance(level, str)])
    return _marked(Ordinal if ordered else Categorical, {"levels": ordered or levels, **facts})


def _draft_many(known: DistinctCells, facts: dict[str, Any]) -> AnyAttribute | _Unread:
    """Draft a column with too many values to be listed: open, a key, or ignored."""
    many = f"has more than {_MAX_DRAFT_LEVELS} distinct values"
    if not _mostly_different(known):
        taken = {*known.texts}
        names = chain((_OTHER, "any other"), (f"other {k}" for k in count(2)))
        other = next(name for name in names if name not in taken)
        read = {"other": other} if other != _OTHER else {}  # which private cells decided
        drafted = _marked(OpenCategorical, read | facts)
        return replace(drafted, undeclared=("levels", *drafted.undeclared))
    digits = all(map(str.isdecimal, known.texts))
    if is_key_name(facts["name"]) or digits:
        zeros = ", some with zeros in front" * digits
        return _Unread(f"{many}{zeros}: it looks like an identifier", "key", _FRESH, digits)
    why = f"{many}, few of them in several rows: it looks like names or free text"
    return _Unread(why, doubtful=True)


def _mostly_different(cells: DistinctCells) -> bool:
    """Whether most values are those of one row, so that a fit finds hardly any of them."""
    return bool(2 * len(cells) > cells.counts.sum())
