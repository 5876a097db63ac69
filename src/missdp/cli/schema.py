"""``missdp schema``: draft, import and check the public facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit
from missdp.cli.options import (
    FILE,
    Commands,
    data_argument,
    option,
    output_option,
    table_option,
)
from missdp.errors import DataError, MissDPError, SchemaError
from missdp.progress import working

if TYPE_CHECKING:
    from missdp.schema import Schema
    from missdp.table.draft import Draft


@click.group(cls=Commands, no_args_is_help=True)
def schema() -> None:
    """Draft, import and check schemas: the public facts about a table.

    A schema file has a table [[attribute]] for each column, [[rule]] for each rule, and perhaps
    [unit] (whose rows they are), [weight] (how much each row counts) and [file] (how the data is
    written).
    """


@schema.command()
@data_argument()
@output_option("Schema file to write: .toml.")
@option("--no-header", "The first line of a text file is a row.", "Data", is_flag=True)
@option("--encoding", "Of a text file: latin-1, say.", "Data", default="utf-8")
@table_option
def init(data: str, output: Path, no_header: bool, encoding: str, table: str | None) -> None:
    """Draft a schema from column names and cells, for a person to complete.

    Every fact that was read from private cells is marked `undeclared`. A release is refused as
    long as marks are there: check each fact, then delete its mark. The draft itself is private
    until the marks and comments are gone.

    Try:
      missdp schema init patients.csv -o patients.toml
    """
    from missdp.cli.rows import check_apart, check_free, rows_at
    from missdp.table import draft_columns

    rows = rows_at(data, table)
    check_free([output])
    check_apart([output], rows)
    with working("reading the rows"):
        draft = draft_columns(rows, header=not no_header, encoding=encoding)
    draft.to_toml(output)
    marked = [*draft.facts.undeclared]
    document = {
        "output": str(output),
        "attributes": list(draft.facts.names),
        "undeclared": marked,
        "ignored": dict(draft.unread),
        "doubts": dict(draft.doubts),
    }
    emit(document, "\n".join(_draft_in_words(output, draft, marked)))


def _draft_in_words(output: Path, draft: Draft, marked: list[str]) -> Iterator[str]:
    from missdp.schema import OpenCategorical

    yield f"Wrote {output}: {len(draft.facts)} attributes."
    if marked:
        yield f"Facts read from the data and not declared public yet: {', '.join(marked)}."
        yield "Check each against what is publicly known, correct it, then delete its mark."
    if empty := [a.name for a in draft.facts if not a.size]:
        yield f"Without a value in any row, and so in synthetic rows: {', '.join(empty)}."
    if opened := [a.name for a in draft.facts if isinstance(a, OpenCategorical)]:
        yield f"With levels that a fit finds privately: {', '.join(opened)}."
    if draft.unread:
        yield "Never read (keys, and columns that are ignored):"
        yield from (f"  {why}" for why in draft.unread.values())
    layout = draft.facts.file
    if not layout.plain:
        grouped = f" and groups of digits with {layout.thousands!r}" * bool(layout.thousands)
        yield f"Numbers in text have the decimal mark {layout.decimal!r}{grouped}: see [file]."
    if draft.doubts:
        yield "Drafted in a way that is hardly right (see the end of the file):"
        yield from (f"  {why}" for why in draft.doubts.values())
    yield f"Next: missdp schema check {output}"
    yield f"Then: missdp plan {output} --rows N, which states what each epsilon buys"


@schema.command("import")
@click.argument("codebook", type=FILE)
@output_option("Schema file to write: .toml.")
def import_(codebook: Path, output: Path) -> None:
    """Write the schema that a code book makes; no row of data is read.

    A Frictionless Table Schema or data package (.json), a REDCap data dictionary (.csv), a
    DDI-Codebook (.xml), or the description of variables in a file of SPSS or Stata. What the code
    book does not state stands in comments at the end.

    Try:
      missdp schema import codebook.json -o codebook.toml
    """
    from missdp.cli.rows import check_free
    from missdp.codebooks import read_codebook

    check_free([output])
    book = read_codebook(codebook)
    book.to_toml(output)
    facts, lacking = book.schema(), book.omitted()
    lines = [f"Wrote {output}: {len(facts)} attributes, {len(facts.rules)} rules."]
    lines += ["To be written by hand (comments at the end of the file):"] * bool(lacking)
    lines += [f"  {why}" for why in lacking.values()]
    lines += [f"Not translated: {text}" for text in book.untranslated()]
    document = {
        "output": str(output),
        "attributes": list(facts.names),
        "to_write": dict(lacking),
        "rules": [rule.text for rule in facts.rules],
        "untranslated": list(book.untranslated()),
    }
    emit(document, "\n".join(lines))


@schema.command()
@click.argument("schema", type=FILE)
@data_argument(metavar="[DATA]", required=False)
@table_option
def check(schema: Path, data: str | None, table: str | None) -> None:
    """Check a schema, whether data fits it, and what of the schema would stop a release.

    Nothing is said about rows that break rules: how many there are is private. What is said of
    columns whose cells cannot be read is for the curator. The exit code is 3 if the schema would
    stop a release.

    Try:
      missdp schema check patients.toml
      missdp schema check patients.toml patients.csv
    """
    from missdp.cli.main import EXIT_CODES
    from missdp.cli.rows import rows_at, schema_at
    from missdp.schema import Difference, OpenCategorical
    from missdp.schema.open_categorical import with_max_levels
    from missdp.table.check import lost_cells

    facts = schema_at(schema)
    lost: dict[str, tuple[str, ...]] = {}
    stops = [*_stops(facts)]
    if data is not None:
        from missdp.evaluate.comparison import check_rows_fit

        rows = rows_at(data, table)
        try:
            with working("reading the rows"):
                check_rows_fit(rows, with_max_levels(facts))
                lost = lost_cells(rows, facts)
        except DataError:
            if stops:  # that the data does not fit is one more reason, which the error states
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


def _check_in_words(
    facts: Schema, document: dict[str, Any], lost: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    if stops := document.get("stops"):
        yield from _stops_in_words(stops)
        yield ""
    yield f"{len(facts)} attributes, {len(facts.nullable)} may be missing."
    if empty := [a.name for a in facts if not a.size]:
        yield f"No row has a value, and no synthetic row will: {', '.join(empty)}."
    if facts.ignored_columns:
        yield f"Never read: {', '.join(facts.ignored_columns)}."
    yield from _tables_in_words(facts)
    yield from _kinds_in_words(facts)
    if facts.rules:
        yield "Rules, which hold for every row:"
        yield from (f"  {rule.text}" for rule in facts.rules)
    if opened := document.get("open"):
        yield f"Levels are found by a fit, which needs a delta above 0: {', '.join(opened)}."
    if document["data_fits"]:
        yield "The data fits." if not stops else "The data fits, but the schema stops a release."
    for what, columns in lost.items():
        yield _LOST[what].format(", ".join(columns))
    if lost:
        yield "(For the curator only: this was read from the rows.)"


def _stops_in_words(stops: list[str]) -> Iterator[str]:
    yield "These facts of the schema would stop a release:"
    yield from (f"  {why}" for why in stops)


def _stops(facts: Schema) -> Iterator[str]:
    """Yield why the usual synthesizer would refuse a schema: by public facts alone.

    A synthesizer raises its first error only. So smaller schemas are tried as well: without the
    unit, without the weight, and with declared levels instead of open ones.
    """
    from missdp.schema.open_categorical import with_max_levels
    from missdp.synth.registry import default_synthesizer, synthesizer_named

    if facts.undeclared:
        marked = "; ".join(f"{name} ({', '.join(m)})" for name, m in facts.undeclared.items())
        yield f"not declared public yet: {marked}."
    reasons: dict[str, None] = {}
    smaller = [facts, replace(facts, unit=None), replace(facts, weight=None), facts.without_unit]
    for tried in (*smaller, *map(with_max_levels, smaller)):
        try:
            method = synthesizer_named(default_synthesizer(tried, delta=None))
            method(epsilon=1.0).planned_parts(tried)
        except MissDPError as error:
            reasons.setdefault(f"{str(error).rstrip('.')}.")
    yield from reasons


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


# What is said of columns of which cells are lost without a word.
_LOST = {
    "without_values": "But no cell of these is in its declared domain: {}. Correct levels, "
    "bounds or format in the schema, or write these cells anew.",
    "blank": "But no cell of these has a value: {}. Values of synthetic rows would be made up; "
    "they have none if the column is categorical, with levels = [] and not_applicable = [].",
    "other_styles": "But cells of these look like numbers and cannot be read, as with thousands "
    "separators, decimal commas or signs: {}. State decimal and thousands in [file], or write "
    "these cells anew.",
    "unreadable": "But cells of these are neither short text in UTF-8, numbers nor true/false: {}. "
    "Write these cells anew.",
}
