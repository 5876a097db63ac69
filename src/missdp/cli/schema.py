"""``missdp schema``: drafts, imports and checks of public facts."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit
from missdp.cli.options import (
    FILE,
    PRINTED,
    Commands,
    data_argument,
    option,
    output_option,
    table_option,
)
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.progress import show_stage

if TYPE_CHECKING:
    from missdp.schema import Schema
    from missdp.table.draft import Draft


@click.group(cls=Commands, no_args_is_help=True)
def schema() -> None:
    """Draft, import and check schemas: the public facts about a table.

    A schema file has a table [[attribute]] for each column and [[rule]] for each rule. Optional
    tables are [unit] (the unit of protection), [weight] (survey weights) and [file] (the format of
    the data).
    """


@schema.command()
@data_argument()
@output_option("Schema file to write: .toml. - prints the draft.")
@option("--no-header", "The first line of a text file is a row.", "Data", is_flag=True)
@option("--encoding", "Encoding of a text file, such as latin-1.", "Data", default="utf-8")
@table_option
def init(data: str, output: Path, no_header: bool, encoding: str, table: str | None) -> None:
    """Draft a schema from column names and cells, for a person to complete.

    Every fact from private cells is marked `undeclared`. A schema with marks stops a release. Check
    each fact, then delete its mark. The draft is private until the marks and comments are deleted.
    With -o - it is printed and not stored.

    Try:
      missdp schema init patients.csv -o patients.toml
    """
    from missdp.cli.rows import check_apart, check_free, rows_at
    from missdp.table import draft_columns

    rows, is_printed = rows_at(data, table), output == PRINTED
    if not is_printed:
        check_free([output])
        check_apart([output], rows)
    with show_stage("reading the rows"):
        draft = draft_columns(rows, header=not no_header, encoding=encoding)
    if not is_printed:
        draft.to_toml(output)
    marked = [*draft.facts.undeclared]
    document = {
        "output": str(output),
        "attributes": list(draft.facts.names),
        "undeclared": marked,
        "ignored": dict(draft.unread),
        "doubts": dict(draft.doubts),
    }
    if is_printed:
        text = draft.toml_text()
        emit(document | {"toml": text}, text)
        return
    emit(document, "\n".join(_draft_in_words(output, draft, marked)))


def _draft_in_words(output: Path, draft: Draft, marked: list[str]) -> Iterator[str]:
    """Yield lines about a draft."""
    from missdp.schema import OpenCategorical

    yield f"Wrote {output}: {len(draft.facts)} attributes."
    if marked:
        yield f"Facts read from the data and not declared public yet: {', '.join(marked)}."
        yield "Check each fact against public knowledge, correct it, then delete its mark."
    if empty := [a.name for a in draft.facts if not a.size]:
        yield f"Without a value in any row or synthetic row: {', '.join(empty)}."
    if opened := [a.name for a in draft.facts if isinstance(a, OpenCategorical)]:
        yield f"With levels that a fit releases privately: {', '.join(opened)}."
    if draft.unread:
        yield "Never read (keys and ignored columns):"
        yield from (f"  {why}" for why in draft.unread.values())
    layout = draft.facts.file
    if not layout.plain:
        grouped = f" and groups of digits with {layout.thousands!r}" * bool(layout.thousands)
        yield f"Numbers in text have the decimal mark {layout.decimal!r}{grouped}: see [file]."
    if draft.doubts:
        yield "Doubtful drafts (see the end of the file):"
        yield from (f"  {why}" for why in draft.doubts.values())
    yield f"Next: missdp schema check {output}"
    yield f"Then: missdp plan {output} --rows N, which states the noise for each epsilon"


@schema.command("import")
@click.argument("codebook", type=FILE)
@output_option("Schema file to write: .toml.")
def import_(codebook: Path, output: Path) -> None:
    """Write the schema of a code book. No row of data is read.

    Code books are a Frictionless Table Schema or data package (.json), a REDCap data dictionary
    (.csv), a DDI-Codebook (.xml), or the variables of a file of SPSS or Stata. Comments at the end
    of the schema list absent facts.

    Try:
      missdp schema import codebook.json -o codebook.toml
    """
    from missdp.cli.rows import check_free
    from missdp.codebooks import read_codebook

    check_free([output])
    book = read_codebook(codebook)
    book.to_toml(output)
    facts, omitted = book.schema(), book.omitted()
    lines = [f"Wrote {output}: {len(facts)} attributes, {len(facts.rules)} rules."]
    lines += ["To be written by hand (comments at the end of the file):"] * bool(omitted)
    lines += [f"  {why}" for why in omitted.values()]
    lines += [f"Not translated: {text}" for text in book.untranslated()]
    document = {
        "output": str(output),
        "attributes": list(facts.names),
        "to_write": dict(omitted),
        "rules": [rule.text for rule in facts.rules],
        "untranslated": list(book.untranslated()),
    }
    emit(document, "\n".join(lines))


@schema.command()
@click.argument("schema", type=FILE)
@data_argument(metavar="[DATA]", required=False)
@table_option
def check(schema: Path, data: str | None, table: str | None) -> None:
    """Check a schema, the fit of data, and the facts that would stop a release.

    Rows that break rules are not reported, since their number is private. The report on columns
    with unreadable cells is for the curator. The exit code is 3 if the schema would stop a release.

    Try:
      missdp schema check patients.toml
      missdp schema check patients.toml patients.csv
    """
    from missdp.cli.main import EXIT_CODES
    from missdp.cli.rows import rows_at, schema_at
    from missdp.governance.obstacles import release_obstacles
    from missdp.schema import Difference, OpenCategorical
    from missdp.schema.open_categorical import with_max_levels
    from missdp.table.check import lost_cells

    facts = schema_at(schema)
    lost: dict[str, tuple[str, ...]] = {}
    stops = [*release_obstacles(facts)]
    if data is not None:
        from missdp.evaluate.comparison import check_rows_fit

        rows = rows_at(data, table)
        try:
            with show_stage("reading the rows"):
                check_rows_fit(rows, with_max_levels(facts))
                lost = lost_cells(rows, facts)
        except DataError:
            if stops:  # the error about the data follows
                emit({"data_fits": False, "stops": stops}, "\n".join(_stops_in_words(stops)))
            raise
    document: dict[str, Any] = {
        "attributes": list(facts.names),
        "nullable": list(facts.nullable),
        "unread": list(facts.ignored_columns),
        "undeclared": {name: list(marks) for name, marks in facts.undeclared.items()},
        "data_fits": None if data is None else True,
    }
    optional: dict[str, Any] = {
        "stops": stops,
        "unit": None if facts.unit is None else facts.unit.to_table(),
        "weight": None if facts.weight is None else facts.weight.to_table(),
        "differences": [a.name for a in facts if isinstance(a, Difference)],
        "open": [a.name for a in facts if isinstance(a, OpenCategorical)],
        **{name: list(columns) for name, columns in lost.items()},
        "kinds": {a.name: list(a.kinds) for a in facts if {*a.kinds} - {"missing"}},
        "rules": [rule.text for rule in facts.rules],
    }
    document |= {name: value for name, value in optional.items() if value}
    emit(document, "\n".join(_check_in_words(facts, document, lost)))
    if stops:
        raise SystemExit(EXIT_CODES[SchemaError])


@schema.command("set")
@click.argument("schema", type=FILE)
@click.argument("column", required=False)
@click.argument("facts", nargs=-1, metavar="[FACT=VALUE]...")
@option("--public", "Reason why the facts are public. It removes the marks.", default="")
def set_(schema: Path, column: str | None, facts: tuple[str, ...], public: str) -> None:
    """Change facts of a column in a schema file, and state why they are public.

    Comments and all other lines of the file stay. A VALUE is written as in the file. Text may lack
    its quotes. Levels and codes of missing cells may lack their brackets: they have commas between
    them. An empty VALUE removes the fact. Without COLUMN, the reason of --public holds for every
    column with marks.

    Try:
      missdp schema set patients.toml age lower=0 upper=120 --public "by definition"
      missdp schema set patients.toml smoker kind=categorical levels=no,yes nullable=true
      missdp schema set patients.toml --public "questionnaire of 2024"
    """
    from missdp.files import write_atomically
    from missdp.schema.edits import SchemaText

    text = SchemaText.of_file(schema)
    given = dict(map(_fact, facts))
    columns = {place: table for place, table in enumerate(text.tables) if table.table != "rule"}
    chosen = {k: t for k, t in columns.items() if (t.marks if column is None else t.name == column)}
    if column is not None and not chosen:
        raise SchemaError(f"{str(schema)!r} has no column {column!r}")
    changed = {}
    for place, table in chosen.items():
        stated = {k: v for k, v in (table.further | given).items() if v is not None and k != "kind"}
        kind = str(given.get("kind", table.kind))
        changed[place] = table.changed(kind, stated, public or table.public)
    text = text.with_tables(changed)
    facts_now, _ = text.checked
    write_atomically(schema, text.toml.encode("utf-8"))
    undeclared = {name: list(marks) for name, marks in facts_now.undeclared.items()}
    document = {"schema": str(schema), "changed": [t.name for t in changed.values()]}
    lines = [f"Changed in {schema}: {', '.join(document['changed']) or 'no column'}."]
    lines += [f"Not declared public yet: {', '.join(undeclared)}."] * bool(undeclared)
    emit(document | {"undeclared": undeclared}, "\n".join(lines))


def _fact(text: str) -> tuple[str, Any]:
    """Return the name and the value of a fact of the command line."""
    from missdp.schema.attributes import CODE_FIELDS
    from missdp.schema.edits import fact_of_text

    name, sign, value = text.partition("=")
    if not sign:
        raise ParameterError(f"a fact is written as FACT=VALUE, not as {text!r}.")
    is_list = name in ("levels", *CODE_FIELDS.values())
    with contextlib.suppress(ValueError):
        fact = tomllib.loads(f"value = {value}")["value"]
        return name, [fact] if is_list and not isinstance(fact, list | dict) else fact
    if name == "levels":
        value = value.replace(",", "\n")
    is_word = name == "levels" and value == "open"  # the release finds the levels
    return name, value if is_word else fact_of_text(name, value)


def _check_in_words(
    facts: Schema, document: dict[str, Any], lost: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield lines about a checked schema."""
    if stops := document.get("stops"):
        yield from _stops_in_words(stops)
        yield ""
    yield f"{len(facts)} attributes, {len(facts.nullable)} may be missing."
    if empty := [a.name for a in facts if not a.size]:
        yield f"Without a value in any row and in synthetic rows: {', '.join(empty)}."
    if facts.ignored_columns:
        yield f"Never read: {', '.join(facts.ignored_columns)}."
    yield from _tables_in_words(facts)
    yield from _kinds_in_words(facts)
    if facts.rules:
        yield "Rules, which hold for every row:"
        yield from (f"  {rule.text}" for rule in facts.rules)
    if opened := document.get("open"):
        yield f"A fit releases levels, with a delta above 0: {', '.join(opened)}."
    if document["data_fits"]:
        yield "The data fits." if not stops else "The data fits, but the schema stops a release."
    for kind, columns in lost.items():
        yield _LOST[kind].format(", ".join(columns))
    if lost:
        yield "(For the curator only: these facts were read from the rows.)"


def _stops_in_words(stops: list[str]) -> Iterator[str]:
    """Yield lines about facts that would stop a release."""
    yield "These facts of the schema would stop a release:"
    yield from (f"  {why}" for why in stops)


def _tables_in_words(facts: Schema) -> Iterator[str]:
    """Yield a line for the unit, the weight and each difference of two dates."""
    from missdp.schema import Difference

    if (unit := facts.unit) is not None:
        rows = "1 row takes" if unit.max_rows == 1 else f"{unit.max_rows:,} rows take"
        counts = ", and they count as one together" * (unit.counts_as == "one")
        yield f"Protected unit: {unit.column!r}. At most {rows} part of each{counts}."
    if (weight := facts.weight) is not None:
        yield f"Rows count by their {weight.column!r}, up to {weight.upper:g}."
    for a in facts:
        if isinstance(a, Difference):
            bounds = f"{a.format_value(a.lower)} to {a.format_value(a.upper)}"
            yield f"Difference {a.name}: {a.later} - {a.earlier}, {bounds} in units of a {a.unit}."


def _kinds_in_words(facts: Schema) -> Iterator[str]:
    """Yield a line for each kind of missing that is distinguished from plain missing."""
    from missdp.schema.attributes import KINDS

    for kind in KINDS:
        names = [a.name for a in facts if kind in a.kinds]
        if names and kind != "missing":
            yield f"May be {kind.replace('_', ' ')}: {', '.join(names)}."


# Messages about columns with cells that are dropped silently.
_LOST = {
    "without_values": "But no cell of these columns is in its declared domain: {}. Correct levels, "
    "bounds or format in the schema, or correct these cells.",
    "blank": "But no cell of these columns has a value: {}. Values of synthetic rows would be "
    "arbitrary. Declare a categorical column with levels = [] and not_applicable = [].",
    "other_styles": "But cells of these columns look like numbers and cannot be read, as with "
    "thousands separators, decimal commas or signs: {}. Declare decimal and thousands in [file], "
    "or correct these cells.",
    "unreadable": "But cells of these columns are neither short text in UTF-8, numbers nor "
    "true/false: {}. Correct these cells.",
}
