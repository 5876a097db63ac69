"""Commands that show exact figures: for the curator, or of a table that is public.

* ``missdp schema``: draft, import and check the public facts.
* ``missdp simulate``: punch holes into a complete table.
* ``missdp evaluate``: how close a synthetic table is to the truth.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from missdp.cli import say
from missdp.cli.app import emit
from missdp.cli.options import (
    HolesOption,
    JsonOption,
    OutputOption,
    OverwriteOption,
    SchemaOption,
    SyntheticArgument,
    argument,
    check_apart,
    option,
    prints,
    reads_rows,
)
from missdp.cli.side_files import TO_REPLACE, check_free, check_together
from missdp.errors import DataError, MissDPError, OutputError, ParameterError, replacing
from missdp.files import reserved
from missdp.progress import progress_bar, working
from missdp.schema import OpenCategorical, Schema
from missdp.schema.attributes import KINDS
from missdp.schema.open_levels import at_most
from missdp.schema.schema import FILE
from missdp.table import Rows, Table, draft_columns
from missdp.table.check import lost_cells
from missdp.table.memory import fits_into_memory
from missdp.table.table import in_sizes, read_columns
from missdp.table.units import rows_of_units
from missdp.table.written import check_holds, holes_in, output_format, write_blocks

if TYPE_CHECKING:
    import pyarrow as pa


schema = typer.Typer(no_args_is_help=True, help="Draft and check schemas.", rich_markup_mode=None)


@schema.command(short_help="Write a draft schema, for a person to complete.")
@prints(".toml")
@reads_rows
def draft(
    data: Rows,
    output: Annotated[Path, option("--output", "-o", help="Where to write the draft.")],
    overwrite: OverwriteOption = False,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line of a text file is a row already.")
    ] = False,
    encoding: Annotated[
        str, typer.Option(help="The encoding of a text file: latin-1, cp1252, utf-16, say.")
    ] = "utf-8",
) -> None:
    """Write a draft schema from column names and cells, for a person to complete.

    Every fact that was read from the private cells is marked ``undeclared``; a release refuses a
    schema with such marks. Codes that usually stand for a kind of missing, such as -7 or "DK", are
    proposed as such: look each up in the code book. A draft that is accepted as it is reads every
    column: keys, names and free text are left unread, and a fit finds the levels of texts of many
    values. The draft itself is private until the marks and comments are gone.
    """
    if os.path.lexists(output) and not overwrite:
        raise OutputError(f"{str(output)!r} exists. {TO_REPLACE}")
    check_apart([output], data)
    with working("reading the rows"):
        drafted = draft_columns(data, header=not no_header, encoding=encoding)
    drafted.to_toml(output)
    marked = [a.name for a in drafted.attributes if a.undeclared]
    marked += drafted.unread
    marked += [FILE] * bool(drafted.file.undeclared)
    lines = [f"Wrote {output}: {len(drafted.attributes)} attributes."]
    if marked:
        lines += [
            f"Facts read from the data and not declared public yet: {', '.join(marked)}.",
            "Check each against what is publicly known, correct it, then delete its 'undeclared' "
            "mark.",
        ]
    if empty := [a.name for a in drafted.attributes if not a.size]:
        lines += [f"Without a value in any row, and so in synthetic rows: {', '.join(empty)}."]
    if opened := [a.name for a in drafted.attributes if isinstance(a, OpenCategorical)]:
        lines += [f"With levels that a fit finds privately: {', '.join(opened)}."]
    if drafted.unread:
        lines += ["Never read (keys, and columns that are ignored):"]
        lines += [f"  {why}" for why in drafted.unread.values()]
    if not (layout := drafted.file).plain:
        grouped = f" and groups of digits with {layout.thousands!r}" * bool(layout.thousands)
        lines += [f"Numbers in text have the decimal mark {layout.decimal!r}{grouped}: see [file]."]
    if drafted.doubts:
        lines += ["Drafted in a way that is hardly right (see the end of the file):"]
        lines += [f"  {why}" for why in drafted.doubts.values()]
    say("\n".join(lines))


@schema.command("import", short_help="Write the schema that a code book makes.")
def import_(
    codebook: Annotated[Path, argument(help="Frictionless, REDCap, DDI, SPSS or Stata.")],
    output: Annotated[Path, option("--output", "-o", help="Where to write the schema.")],
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the schema that a code book makes; no row of data is read.

    A Frictionless Table Schema or data package (.json), a REDCap data dictionary (.csv), a
    DDI-Codebook (.xml), or the description of variables in a file of SPSS or Stata. Each attribute
    stands below a comment that says where it comes from. Variables of which the code book does not
    say enough, and conditions that cannot be translated, stand in comments at the end.
    """
    from missdp.codebooks import read_codebook

    if os.path.lexists(output) and not overwrite:
        raise OutputError(f"{str(output)!r} exists. {TO_REPLACE}")
    book = read_codebook(codebook)
    book.to_toml(output)
    schema, lacking = book.schema(), book.left_out()
    lines = [f"Wrote {output}: {len(schema)} attributes, {len(schema.rules)} rules."]
    lines += ["To be written by hand (comments at the end of the file):"] * bool(lacking)
    lines += [f"  {why}" for why in lacking.values()]
    lines += [f"Not translated: {told}" for told in book.untranslated()]
    document: dict[str, Any] = {"attributes": list(schema.names), "to_write": dict(lacking)}
    document["rules"] = [rule.text for rule in schema.rules]
    document["untranslated"] = list(book.untranslated())
    emit(document, "\n".join(lines), as_json=as_json)


@schema.command()
@reads_rows
def check(
    schema: Annotated[Path, argument(help="TOML schema.")],
    data: Rows | None = None,
    as_json: JsonOption = False,
) -> None:
    """Check a schema, whether data fits it, and what of the schema would stop a release.

    Nothing is said about rows that break rules: how many there are is private. So is what is said
    of columns whose cells cannot be read: it is for the curator.
    """
    facts = Schema.from_toml(schema)
    lost: dict[str, tuple[str, ...]] = {}
    if data is not None:
        with working("reading the rows"):
            _check_rows_fit(data, at_most(facts))
            lost = lost_cells(data, facts)
    document: dict[str, Any] = {
        "attributes": list(facts.names),
        "nullable": list(facts.nullable),
        "unread": list(facts.unread),
        "undeclared": {name: list(marks) for name, marks in facts.undeclared.items()},
        "data_fits": None if data is None else True,
    }
    if stops := [*_stops(facts)]:
        document["stops"] = stops
    if opened := [a.name for a in facts if isinstance(a, OpenCategorical)]:
        document["open"] = opened
    document |= {name: list(columns) for name, columns in lost.items()}
    if kinds := {a.name: list(a.kinds) for a in facts if {*a.kinds} - {"missing"}}:
        document["kinds"] = kinds
    if facts.rules:
        document["rules"] = [rule.text for rule in facts.rules]
    lines = [f"{len(facts)} attributes, {len(facts.nullable)} may be missing."]
    if empty := [a.name for a in facts if not a.size]:
        lines += [f"No row has a value, and no synthetic row will: {', '.join(empty)}."]
    if facts.unread:
        lines += [f"Never read: {', '.join(facts.unread)}."]
    lines += [*_kinds_in_words(facts)]
    if facts.rules:
        rules = (f"  {rule.text}" for rule in facts.rules)
        lines += ["Rules, which hold for every row:", *rules]
    if data is not None:
        lines.append("The data fits.")
    lines += [*_lost_in_words(lost)]
    if opened:
        lines.append(
            f"Levels are found by a fit, which needs a delta above 0: {', '.join(opened)}."
        )
    lines += [f"Would stop a release: {why}." for why in stops]
    emit(document, "\n".join(lines), as_json=as_json)


def _stops(facts: Schema) -> Iterator[str]:
    """Yield why the usual synthesizer would refuse a schema: by public facts alone."""
    if facts.undeclared:
        marked = "; ".join(f"{name} ({', '.join(m)})" for name, m in facts.undeclared.items())
        yield f"not declared public yet: {marked}"
    from missdp.synth.registry import default_synthesizer, synthesizer_named

    try:
        synthesizer_named(default_synthesizer(facts, delta=None))(epsilon=1.0).planned_parts(facts)
    except MissDPError as error:
        yield str(error)


def _kinds_in_words(facts: Schema) -> Iterator[str]:
    """Yield a line for each kind of missing that is kept apart from plain missing."""
    for kind in KINDS:
        names = [a.name for a in facts if kind in a.kinds]
        if names and kind != "missing":
            yield f"May be {kind.replace('_', ' ')}: {', '.join(names)}."


# What is said of columns of which cells are lost without a word.
_LOST = {
    "without_values": "But no cell of these is in its declared domain: {}.",
    "blank": "But no cell of these has a value: {}. Values of synthetic rows would be made up; "
    "they have none if the column is categorical, with levels = [] and not_applicable = [].",
    "other_styles": "But cells of these look like numbers and cannot be read, as with thousands "
    "separators, decimal commas or signs: {}.",
    "unreadable": "But cells of these are neither short text in UTF-8, numbers nor true/false: {}.",
}


def _lost_in_words(lost: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for what, columns in lost.items():
        yield _LOST[what].format(", ".join(columns))
    if lost:
        anew = " Write these cells anew." if {*lost} - {"blank"} else ""
        yield f"(For the curator only: this was read from the rows.{anew})"


_HELD = 4  # tables: the rows, those with holes, and the chances of all cells
_BLOCK_ROWS = 2**18
_MECHANISMS = ("mcar", "mar", "mnar", "self-masking")


@prints(".csv")
@reads_rows
def simulate(
    data: Rows,
    schema: SchemaOption,
    rate: Annotated[float, option(help="Share of missing cells per column with holes.")],
    output: OutputOption,
    seed: Annotated[int, option(help="Seed of the holes.")],
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(_MECHANISMS)}.")] = "mcar",
    output_schema: Annotated[
        Path | None,
        typer.Option(help="Write the schema of the result here (nullable where holes may be)."),
    ] = None,
    holes: HolesOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Punch holes into a complete table, for experiments. The result is as private as the input."""
    check_apart([output, output_schema], data, schema)
    check_free([output], overwrite=overwrite)
    output_format(output)
    if mechanism not in _MECHANISMS:
        raise ParameterError(
            f"--mechanism must be one of {', '.join(_MECHANISMS)}, not {mechanism!r}"
        )
    if not 0 <= rate < 1:
        raise ParameterError("--rate must be at least 0 and below 1")
    if seed < 0:
        raise ParameterError("--seed must be a whole number, at least 0")
    from missdp.evaluate import MAR, MCAR, MNAR, SelfMasking

    simulator = dict(zip(_MECHANISMS, (MCAR, MAR, MNAR, SelfMasking), strict=True))[mechanism](
        rate=rate
    )
    facts = Schema.from_toml(schema)
    facts.refuse_units("a simulation")
    check_holds(output, facts)
    with reserved([output, output_schema]):
        holed = simulator.apply_blocks(_blocks(data, facts, mechanism), random_state=seed)
        found = facts

        def written() -> Iterator[list[pa.Table]]:
            nonlocal found
            for block in holed:
                found = block.schema
                yield [block.to_arrow(holes=holes_in(output, holes))]

        write_blocks([output], written(), schema=facts)
        if output_schema is not None:
            found.to_toml(output_schema)
    say(f"Wrote {output}: {mechanism} holes at rate {rate:g}, seed {seed}.")
    if mended := sorted(facts.rule_set.rule_fillable):
        say(f"Fewer in what rules fill, or make not applicable: {', '.join(mended)}.")


def _blocks(data: Rows, facts: Schema, mechanism: str) -> Iterator[Table]:
    """Yield the rows: all at once if they fit into memory, or each by itself may lose cells."""
    if fits_into_memory(data.approximate_length(), facts, tables=_HELD):
        yield Table.read(data, facts)
    elif mechanism == "mcar":
        for columns in in_sizes(read_columns(data, facts), _BLOCK_ROWS, facts):
            yield Table(facts, columns)
    else:
        raise ParameterError(
            f"--mechanism {mechanism} meets its rate on all rows together, and these are too many "
            "for --memory; use mcar, or a larger limit"
        )


_WARNING = (
    "CURATOR ONLY: these figures are computed from the private table without noise. "
    "Do not publish them."
)


@reads_rows
def evaluate(
    data: Rows,
    synthetic: SyntheticArgument,
    schema: Annotated[
        Path,
        option(help="TOML file with the public facts; a saved model, where a fit found levels."),
    ],
    ways: Annotated[str, typer.Option(help="Marginals to compare, e.g. 1,2,3.")] = "1,2",
    bins: Annotated[
        int | None, typer.Option(help="Compare numbers on this many bins instead of the schema's.")
    ] = None,
    f1: Annotated[
        bool, typer.Option("--f1", help="Also train nine classifiers per attribute (slow).")
    ] = False,
    test: Annotated[
        str | None, typer.Option(help="Held-out true rows for --f1 that were not synthesized from.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the classifiers.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw every column into this file: .svg, .png or .pdf (an extra)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a synthetic table with the private one. The result is private, for the curator."""
    from missdp.evaluate import classifier_f1, fidelity, marginal_distance, missing_fidelity
    from missdp.evaluate.classifiers import check_learners
    from missdp.evaluate.fidelity import plot_columns
    from missdp.files import picture_format

    facts = _facts_at(schema)
    check_together(synthetic)
    if f1:
        check_learners()
    if plot is not None:
        picture_format(plot)
        check_apart([plot], data, synthetic, schema)
    with _said_of("the private table"):
        counted = rows = rows_of_units(data, facts)
        if facts.weighs:  # rows as often as they count
            read = Table.read(rows, facts.of_rows)  # the same rows of each unit
            counted = Rows.of(read._as_counted().to_arrow(holes="codes"))
    data, facts = rows, facts.of_rows
    truth, other = _held((counted, Rows.of(synthetic)), facts)
    if f1 and not (isinstance(truth, Table) and isinstance(other, Table)):
        raise ParameterError("--f1 learns from both tables in memory: they are too large for that")
    if test is not None and not f1:
        raise ParameterError("--test is for --f1, which was not asked for")
    with _said_of("the held-out rows"):
        held_out = None if test is None else Table.read(test, facts)
    sizes = _parse_ways(ways, len(facts))
    document: dict[str, Any] = {"curator_only": True, "marginals": {}}
    texts = [_WARNING]
    for k in sizes:
        with progress_bar() as progress:
            distance = marginal_distance(
                truth, other, k=k, schema=facts, bins=bins, progress=progress
            )
        document["marginals"][str(k)] = distance.to_dict()
        texts.append(str(distance))
    holes = missing_fidelity(truth, other, schema=facts)
    document["missing"] = holes.to_dict()
    texts.append(str(holes))
    texts += _public_facts(document, truth, other, facts, sources=(data, synthetic))
    if f1:
        with progress_bar() as progress:
            scores = classifier_f1(
                truth, other, random_state=seed, test=held_out, progress=progress
            )
        document["f1"] = scores.to_dict()
        texts.append(str(scores))
    kept = fidelity(truth, other, schema=facts)
    document["fidelity"] = kept.to_dict()
    if plot is not None:
        plot_columns(truth, other, plot, schema=facts)
    texts += [str(kept), f"{kept.verdict} {holes.verdict}".rstrip()]
    emit(document, "\n\n".join(texts), as_json=as_json)


def _facts_at(path: Path) -> Schema:
    """Return the schema of a file, or of a saved model, which knows the levels that a fit found."""
    if path.suffix != ".json":
        return Schema.from_toml(path)
    from missdp.synth import load

    fitted = load(path).fitted_
    return fitted.with_unit(fitted.unbinned)


def _held(streams: tuple[Rows, Rows], facts: Schema) -> Iterator[Any]:
    """Yield both tables, in memory if both fit into it; else they are read as often as needed."""
    each = [stream.approximate_length() for stream in streams]
    rows = None if None in each else sum(n for n in each if n is not None)
    held = fits_into_memory(rows, facts, tables=2)  # and once more where they are aligned
    for stream, which in zip(streams, ("private", "synthetic"), strict=True):
        with _said_of(f"the {which} table"):
            if not held:
                _check_rows_fit(stream, facts)
            read = Table.read(stream, facts) if held else stream
        yield read


def _check_rows_fit(data: Any, schema: Schema) -> None:
    """Refuse data of which a row does not fit the schema, and keep none."""
    for _ in read_columns(rows_of_units(data, schema), schema.of_rows):
        pass


def _said_of(table: str) -> AbstractContextManager[None]:
    """Say in refusals which of several tables they are about."""
    return replacing(DataError, by=lambda error: DataError(f"{table}: {error}"))


def _public_facts(
    document: dict[str, Any],
    truth: Table | Rows,
    other: Table | Rows,
    facts: Schema,
    *,
    sources: tuple[Rows, Path],
) -> list[str]:
    """Say how both tables keep to the schema's kinds of missing and rules, where it has any."""
    from missdp.evaluate import missingness_by_kind, rule_violations

    parts = []
    if any({*attribute.kinds} - {"missing"} for attribute in facts):
        kinds = missingness_by_kind(truth, other, schema=facts)
        document["kinds"] = kinds.to_dict()
        parts.append(str(kinds))
    if facts.rule_set.bound:
        true, made = (rule_violations(source, schema=facts) for source in sources)
        document["rules"] = {"truth": true.to_dict(), "synthetic": made.to_dict()}
        parts += [f"synthetic table: {made}", f"private table: {true}"]
    return parts


def _parse_ways(text: str, attributes: int) -> list[int]:
    refusal = ParameterError("--ways must be whole numbers separated by commas, e.g. 1,2")
    with replacing(ValueError, by=refusal):
        ways = [int(part) for part in text.split(",")]
    if not ways or any(not 1 <= k <= min(3, attributes) for k in ways):
        raise ParameterError(f"--ways must be between 1 and {min(3, attributes)}")
    return ways
