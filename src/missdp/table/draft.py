"""Drafts of schemas, from private columns, for their curator to complete.

Names come from the table's own header; levels and bounds come from the private cells, so each is
marked as not yet declared public. A release refuses such a schema.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain, product
from pathlib import Path
from typing import Any, Final, NamedTuple

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
    Ordinal,
    Schema,
)
from missdp.schema.attributes import KINDS, MAX_WHOLE, Kind, number_text, read_number
from missdp.schema.layout import PLAIN
from missdp.schema.numeric import decimals
from missdp.schema.schema import write_tables
from missdp.table.cells import Iso, Plain, Unreadable
from missdp.table.encode import Encoder
from missdp.table.likely import between, date_facts, identifies, in_order, other_format
from missdp.table.packages import Described
from missdp.table.read_files import is_csv, numbered_columns
from missdp.table.streams import FileRows, RowStream, rows_of
from missdp.table.tally import (
    Proposed,
    Tally,
    is_padded,
    number_codes,
    odd_spelling,
    text_codes,
)
from missdp.types import Floats

_MAX_DRAFT_LEVELS = 100
_FEWEST = 10  # distinct numbers, whose step tells something
_MOST_DIGITS = 4  # behind the point, of a step
_RULES = """
# Rules are public facts about single rows. None is ever guessed from the rows; one looks like this:
# [[rule]]
# kind = "not_applicable"
# names = ["hours"]
# unless = "employed = 'yes'"
"""

_LEVELS: Final = (
    "Drop the column, or write its levels here; as it stands, no synthetic row has a value in it",
    {"kind": "categorical", "levels": [], "not_applicable": [], "outside": "missing"},
)
_NUMBERS: Final = (
    "This reads numbers; write the bounds that are publicly known",
    {"kind": "numeric", "lower": 0, "upper": 100, "nullable": True},
)
_YEARS: Final = (
    "This reads years",
    {"kind": "numeric", "lower": 1900, "upper": 2100, "integer": True, "nullable": True},
)
_KEY: Final = ("Drop the column, or leave it unread, with fresh keys in its place", {"kind": "key"})
_UNIT: Final = (
    "To protect all rows of one together, write unit = and its name, and max_rows = 5 or the like, "
    "above the first [[attribute]]. Or drop the column, or leave it unread, with fresh keys",
    {"kind": "key"},
)
_WEIGHT: Final = (
    "If this says how many people a row stands for: drop the block, and write weight = and its "
    "name, and weight_upper = with the largest that counts, a public fact, above the first "
    "[[attribute]]."
)
_FEW: Final = "Few numbers occur: if no others can, list those that can as spikes."
_CENTURIES: Final = ("1900-01-01", "2099-12-31")
_MARKS = "Numbers have marks besides a point. What these are is declared for the whole file:"
_STAY = """\
{later!r} is never before {earlier!r} in these rows. This models what lies between; both stay
declared, and one is computed from the other:
"""
_DIGITS: Final = (
    "Drop the column, or keep the first digit, each cell by itself; this reads it",
    {"kind": "categorical", "levels": list("0123456789"), "nullable": True},
)


class _Stub(NamedTuple):
    """Why a column has no draft, or hardly the right one; how to go on, and what reads it."""

    why: str
    advice: str = _LEVELS[0]
    facts: Mapping[str, Any] = _LEVELS[1]
    numbers: tuple[str, ...] = ()  # in another spelling

    def note(self, name: str) -> str:
        """Return a comment, whose block is valid once it is uncommented."""
        shown = {"name": name.encode("utf-8", "replace").decode(), **self.facts}
        block = "[[attribute]]\n" + tomli_w.dumps(shown)
        return _commented(f"column {name!r} {self.why}. {self.advice}:\n{block}")


_IDENTIFIERS: Final = {
    "row": _Stub("has a value of its own in every row: it looks like a key", *_KEY),
    "unit": _Stub("has values that come several times: it looks like whose rows they are", *_UNIT),
}


def _commented(text: str) -> str:
    return "\n" + "".join(f"# {line}\n" for line in text.strip().split("\n"))


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
        Columns that were drafted with levels, although these look like dates, or like numbers in a
        spelling that is not read as numbers.
    notes : str, optional
        What the file says of all these, with blocks to be uncommented.
    reasons : mapping of str to str, optional
        Why attributes were drafted as they are, in a line each.
    layout : Layout, optional
        Of a text file without a header line.
    """

    attributes: tuple[AnyAttribute, ...]
    stubs: Mapping[str, str]
    doubts: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    layout: Layout = PLAIN

    def to_toml(self, path: str | Path) -> None:
        """Write the draft, whole or not at all; a stub is a comment to be completed by hand."""
        lines = {name: (reason,) for name, reason in self.reasons.items()}
        notes = _RULES + self.notes
        write_tables(self.attributes, Path(path), layout=self.layout, comments=lines, notes=notes)


def draft_columns(data: Any, *, header: bool = True) -> Draft:
    """Return a draft of every column that can be drafted, and why the others cannot.

    Parameters
    ----------
    data : frame, DuckDB relation, RowStream, str, Path, dict or list
        The private rows, as :meth:`Table.read` takes them.
    header : bool, default True
        Whether the first line of a text file names its columns.

    Examples
    --------
    >>> import pandas as pd
    >>> draft = draft_columns(pd.DataFrame({"age": [31, 70], "pets": [["cat"], []]}))
    >>> [attribute.name for attribute in draft.attributes]
    ['age']
    >>> draft.stubs["pets"]
    "column 'pets' has cells that are neither short text in UTF-8, numbers nor true/false"
    """
    rows, layout = _opened(data, header=header)
    names = rows.columns()
    if not names:
        raise DataError("the data has no columns to draft a schema from")
    rows.check(names)
    tallies = {name: Tally() for name in names}
    for batch in rows.batches(names):
        for place, tally in enumerate(tallies.values()):
            tally.add(batch.column(place))
    if not tallies[names[0]].found():
        raise DataError("the data has no rows to draft a schema from, only the names of columns")
    chosen = _chosen(rows, tallies)
    attributes = [a for a in chosen.values() if not isinstance(a, _Stub)]
    stubs = {name: stub for name, stub in chosen.items() if isinstance(stub, _Stub)}
    doubts = {a.name: doubt for a in attributes if (doubt := _doubt(a))}
    told = stubs | doubts
    why = {name: f"column {name!r} {stub.why}" for name, stub in told.items()}
    marks = _marks(told.values())
    if not header:  # the file says so already, in a table to which no other is added
        layout = replace(layout, **marks)  # type: ignore[arg-type]
    notes = _commented(f"{_MARKS}\n[file]\n{tomli_w.dumps(marks)}") if header and marks else ""
    notes += "".join(stub.note(n) for n, stub in told.items())
    notes += "".join(map(_difference_note, between(rows, attributes)))
    return Draft(
        tuple(attributes),
        {name: why[name] for name in stubs},
        {name: why[name] for name in doubts},
        notes,
        {a.name: said for a in attributes if (said := _reason(a, tallies[a.name].found()))},
        layout,
    )


def _opened(data: Any, *, header: bool) -> tuple[RowStream, Layout]:
    """Return what reads the rows, and the layout of a file without a header line."""
    rows = rows_of(data)
    if header:
        return rows, PLAIN
    if not (isinstance(rows, FileRows) and is_csv(rows.paths[0])):
        raise DataError("only text files, such as CSV, may lack a header line")
    layout = numbered_columns(rows.paths[0])
    return FileRows(rows.paths[0], layout=layout), layout


def _chosen(rows: RowStream, tallies: Mapping[str, Tally]) -> dict[str, AnyAttribute | _Stub]:
    """Return the first draft of each column that reads all its cells, or why there is none."""
    said = rows.described()
    drafts = {n: _drafts(n, tally, said.get(n, Described())) for n, tally in tallies.items()}
    chosen = {name: next(tried) for name, tried in drafts.items()}
    waiting = {name: a for name, a in chosen.items() if not isinstance(a, _Stub)}
    while waiting:
        unread = _unread_by(waiting, rows)
        chosen |= {name: next(drafts[name]) for name in unread}
        waiting = {name: a for name in unread if not isinstance(a := chosen[name], _Stub)}
    return chosen


def _difference_note(facts: Mapping[str, Any]) -> str:
    said = _STAY.format(**facts)
    return _commented(f"{said}[[attribute]]\n{tomli_w.dumps({**facts, 'kind': 'difference'})}")


def _marks(stubs: Iterable[_Stub]) -> dict[str, str]:
    """Return the marks with which the numbers of all columns are read, where these are others."""
    numbers = {text for stub in stubs for text in stub.numbers}
    layout = _layout_of(numbers) if numbers else PLAIN
    found = {"decimal": layout.decimal, "thousands": layout.thousands}
    return {} if layout.plain else {name: mark for name, mark in found.items() if mark}


def _layout_of(texts: Collection[str]) -> Layout:
    """Return the layout in which all texts are numbers; the plain one if there is no such."""
    for decimal, thousands in product((".", ","), ("", ",", ".", "'", "\u2019", " ", "\u00a0")):
        if decimal != thousands:
            layout = Layout(decimal=decimal, thousands=thousands)
            if all(layout.number(text) is not None for text in texts):
                return layout
    return PLAIN


def _reason(attribute: AnyAttribute, found: list[tuple[Plain, int]]) -> str:
    """Say in a line what its cells were taken for, where that is more than what it says itself."""
    coded = any(attribute.codes_of(kind) for kind in attribute.kinds)
    codes = " Codes of missing cells are usual ones: look each up in the code book." * coded
    if isinstance(attribute, Date):
        written = f"as {attribute.format}" if attribute.format else "by type or in ISO 8601"
        other = other_format([cell for cell, _ in found], attribute.format)
        doubt = f", or as well as {other}" if other else ""
        return f"Dates, written {written}{doubt}.{codes}"
    if isinstance(attribute, Numeric):
        rows = sum(n for _, n in found)
        few = not attribute.integer and len(found) < min(_FEWEST, rows / _FEWEST)
        return (_WEIGHT * _is_weight(attribute.name) + _FEW * few + codes).strip()
    if attribute.levels == (0, 1) and not isinstance(attribute.levels[0], bool):
        return f"0 and 1 are two levels here, no number.{codes}"
    if isinstance(attribute, Ordinal) and not attribute.labels:
        return f'Words in an order, lowest first; if they have none, kind = "categorical".{codes}'
    if any(is_padded(cell) for cell in attribute.levels if isinstance(cell, str)):
        return f"Codes with zeros in front, which numbers would lose.{codes}"
    return codes.strip()


_WEIGHS = re.compile(
    r"(?:^|[\W_])(?:[a-z]*weights?|(?:final|[a-z])?wts?|[a-z]*wgts?|wt(?:mec|int)\w*)\d*$"
)


def _is_weight(name: str) -> bool:
    """Whether a column has a name that survey weights have: ``wt``, ``pweight``, ``WTMEC2YR``."""
    return _WEIGHS.search(name.lower()) is not None


def _doubt(attribute: AnyAttribute) -> _Stub | None:
    """Say that levels look like dates, or like numbers as they are not read."""
    if isinstance(attribute, Numeric) or not attribute.levels:
        return None
    if not isinstance(attribute.levels[0], str):
        return None
    stub = _odd([str(level) for level in attribute.levels], every=True)
    instead = "In place of its block above, whose levels are those of the rows, this"
    return stub and stub._replace(advice=stub.advice.replace("This", instead, 1))


def _odd(texts: list[str], *, every: bool) -> _Stub | None:
    """Say that most texts are dates, or that most or all are numbers in an odd spelling."""
    if (found := odd_spelling(texts, every=every)) is None:
        return None
    style, numbers = found
    return _Stub(style, *(_YEARS if numbers is None else _NUMBERS), numbers=numbers or ())


def draft_schema(data: Any) -> Schema:
    """Return a draft of a schema; every fact read from the cells is marked ``undeclared``.

    Parameters
    ----------
    data : frame, DuckDB relation, RowStream, str, Path, dict or list
        The private rows, as :meth:`Table.read` takes them.

    Returns
    -------
    Schema
        To be checked by a person: correct the facts, then delete the marks.

    Raises
    ------
    DataError
        If there are no rows, or a column cannot be drafted, for example because it has too many
        distinct values to be categorical; :func:`draft_columns` goes on with the others.

    Examples
    --------
    >>> import pandas as pd
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


def _unread_by(drafted: Mapping[str, AnyAttribute], rows: RowStream) -> list[str]:
    """Return the columns that their drafts do not read."""
    lost: set[str] = set()
    for batch in rows.batches(tuple(drafted)):
        for place, (name, attribute) in enumerate(drafted.items()):
            try:
                Encoder(attribute).encode(batch.column(place))
            except (SchemaError, DataError):
                lost.add(name)
    return [name for name in drafted if name in lost]


def _drafts(name: str, tally: Tally, said: Described) -> Iterator[AnyAttribute | _Stub]:
    """Yield attributes that may read the cells, the one that says most first; then why none is."""
    found = tally.found()
    if any(isinstance(cell, Unreadable) for cell, _ in found):
        yield _Stub("has cells that are neither short text in UTF-8, numbers nor true/false")
        return
    if (what := identifies(name, found)) is not None:
        yield _IDENTIFIERS[what]
        return
    stated = [_stated_codes(said)] if said.codes else []
    for codes in chain(stated, _proposals(found, tally.numbers)):
        with contextlib.suppress(SchemaError, DataError):
            drafted = _labelled(_draft_with(name, found, codes), said, _known(found, codes))
            yield drafted
            if isinstance(drafted, Date):  # of very many, some are not in the tally
                yield _of_two_centuries(drafted)
    yield _Stub("has a name or values that a schema cannot hold")


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
    drafted: AnyAttribute | _Stub, said: Described, known: list[tuple[Plain, int]]
) -> AnyAttribute | _Stub:
    """Return a draft with the labels of a file; numbers that all have one are levels."""
    if isinstance(drafted, _Stub) or not (said.label or said.labels):
        return drafted
    labels = {_as_text(code): label for code, label in said.labels.items()}
    codes = {_as_text(code) for kind in drafted.kinds for code in drafted.codes_of(kind)}
    levels = [key for key in labels if key not in codes and (read_number(key) or 0.5).is_integer()]
    cells = {_as_text(cell) for cell, _ in known}
    if isinstance(drafted, Numeric) and cells <= {*levels}:
        shared = {f.name for f in fields(Attribute)}
        facts = {name: getattr(drafted, name) for name in shared}
        facts["undeclared"] = ("levels", *(m for m in drafted.undeclared if m in shared))
        kind = Ordinal if said.ordered else Categorical
        drafted = kind(**facts, levels=tuple(map(int, levels)))
    fitting = {k: label for k, label in labels.items() if k in codes or k in levels or k in cells}
    marks = ("label",) * bool(said.label) + ("labels",) * bool(fitting)
    more: dict[str, Any] = {"label": said.label, "labels": fitting}
    return replace(drafted, **more, undeclared=(*drafted.undeclared, *marks))


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


def _draft_with(name: str, found: list[tuple[Plain, int]], codes: Proposed) -> AnyAttribute | _Stub:
    counted = _known(found, codes)
    if not counted and codes:
        return _Stub("has codes of missing cells, and no value")
    if not counted:
        marks = ("levels", "not_applicable")
        return Categorical(name=name, levels=(), not_applicable=(), undeclared=marks)
    holes = any(_is_missing(cell) for cell, _ in found)
    facts: dict[str, Any] = {"name": name, "nullable": holes or bool({*codes} - {"not_applicable"})}
    facts |= {_fact(kind): codes[kind] for kind in KINDS if kind in codes}
    facts["undeclared"] = ("nullable", *(_fact(kind) for kind in KINDS if kind in codes))
    if (dates := date_facts([cell for cell, _ in counted])) is not None:
        return _draft_dates(*dates, facts)
    numbers = [x for cell, _ in counted if (x := _as_number(cell)) is not None]
    if len(numbers) == len(counted) and not any(is_padded(cell) for cell, _ in counted):
        return _draft_numeric(np.array(numbers), facts)
    return _draft_levels([cell for cell, _ in counted], facts)


def _draft_dates(kind: type[Date], found: dict[str, Any], facts: dict[str, Any]) -> Date:
    marks = {"lower", "upper", *facts["undeclared"]}
    if "missing_codes" in found:
        found["missing_codes"] = (*facts.get("missing_codes", ()), *found["missing_codes"])
        marks |= {"missing_codes"}
        found["nullable"] = True
    return kind(**{**facts, **found, "undeclared": tuple(sorted(marks))})


def _fact(kind: Kind) -> str:
    return "missing_codes" if kind == "missing" else kind


def _is_missing(cell: Plain) -> bool:
    number = _as_number(cell)
    return cell is None or cell == "" or (number is not None and math.isnan(number))


def _as_number(cell: Plain) -> float | None:
    if isinstance(cell, str):
        return read_number(cell)
    return cell if isinstance(cell, float) else None


def _draft_numeric(numbers: Floats, facts: dict[str, Any]) -> AnyAttribute | _Stub:
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return _Stub("has no finite numbers")
    if np.max(np.abs(finite)) >= MAX_WHOLE - 1:
        return _Stub("has numbers too large to be told apart: it looks like an identifier", *_KEY)
    if {*finite} == {0.0, 1.0} and len(finite) == len(numbers):
        return Categorical(
            levels=(0, 1), **{**facts, "undeclared": ("levels", *facts["undeclared"])}
        )
    lower, upper = float(finite.min()) + 0.0, float(finite.max()) + 0.0  # no -0.0
    endless = len(finite) < len(numbers)
    step = _step(finite)
    marks = ("lower", "upper", "integer", *facts["undeclared"])
    marks += ("outside",) * endless + ("step",) * (step is not None)
    return Numeric(
        lower=lower,
        upper=upper if upper > lower else lower + 1,
        integer=bool(np.all(finite == np.floor(finite))),
        step=step,
        outside="clamp" if endless else "error",
        **{**facts, "undeclared": marks},
    )


def _step(numbers: Floats) -> float | None:
    """Return the step on which all numbers lie, such as 0.01 or 0.5; None if there is no such."""
    numbers = np.unique(numbers)
    digits = decimals(*numbers.tolist())
    if len(numbers) < _FEWEST or not 0 < digits <= _MOST_DIGITS:
        return None
    units = np.rint((numbers - numbers[0]) * 10**digits)
    if units[-1] >= MAX_WHOLE:
        return None
    return float(np.gcd.reduce(units.astype(np.int64)) / 10.0**digits)


def _draft_levels(known: list[Plain], facts: dict[str, Any]) -> AnyAttribute | _Stub:
    levels: tuple[str, ...] | tuple[bool, ...] = tuple(sorted({_as_text(cell) for cell in known}))
    if all(str(level).lower() in ("true", "false") for level in levels):
        levels = (False, True)
    if len(levels) > _MAX_DRAFT_LEVELS:
        texts = [str(level) for level in levels]
        many = f"has more than {_MAX_DRAFT_LEVELS} distinct values"
        if all(text.isdecimal() for text in texts):
            return _Stub(f"{many}, some with zeros in front: it looks like an identifier", *_DIGITS)
        text = f"{many}: it looks like an identifier or free text"
        return _odd(texts, every=False) or _Stub(text, *_KEY)
    marked = {**facts, "undeclared": ("levels", *facts["undeclared"])}
    ordered = in_order([level for level in levels if isinstance(level, str)])
    return Ordinal(levels=ordered, **marked) if ordered else Categorical(levels=levels, **marked)


def _as_text(cell: Plain) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, Iso):
        return cell.removesuffix("T00:00:00")
    return number_text(cell) if isinstance(cell, float) else str(cell)
