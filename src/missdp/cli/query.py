"""``missdp query``: one statistic of a table whose holes are filled from nearest neighbours."""

from __future__ import annotations

import contextlib
from typing import Annotated, Literal

import typer

from missdp.accounting import Budget
from missdp.cli import RUN, check_stdout
from missdp.cli.app import emit
from missdp.cli.options import (
    JsonOption,
    SchemaOption,
    UndeclaredOption,
    check_epsilon,
    option,
    reads_rows,
)  # fmt: skip
from missdp.errors import MissDPError, ParameterError
from missdp.schema import Schema
from missdp.schema.where import parse_names
from missdp.shelf import on_disk
from missdp.statistics import Estimate, Histogram, QueryRequest, run_query
from missdp.table import RowStream, Table
from missdp.table.blocks import joined, read_columns
from missdp.table.encode import Column
from missdp.table.memory import fits_into_memory, memory_in_force

_Name = Annotated[str | None, option(metavar="ATTRIBUTE")]


@reads_rows
def query(
    data: RowStream,
    schema: SchemaOption,
    impute: Annotated[str, option(help="Attributes to fill, by commas (`a,b` in backticks).")],
    match: Annotated[str, option(help="Attributes that say who is near, by commas.")],
    epsilon: Annotated[float, option(help="Cost of the answer, error bar included.")],
    count: Annotated[bool, typer.Option("--count", help="Count the rows.")] = False,
    proportion: Annotated[
        str | None, typer.Option(help="Share of rows with a property, e.g. 'income >= 500'.")
    ] = None,
    mean: _Name = None,
    total: Annotated[str | None, typer.Option("--sum", metavar="ATTRIBUTE")] = None,
    variance: _Name = None,
    standard_deviation: _Name = None,
    correlation: Annotated[str | None, typer.Option(metavar="ATTRIBUTE,ATTRIBUTE")] = None,
    histogram: _Name = None,
    where: Annotated[str, typer.Option(help="Subpopulation, e.g. 'age >= 20 and age < 30'.")] = "",
    k: Annotated[int, typer.Option(help="Donors per incomplete row.")] = 1,
    group: Annotated[str, typer.Option(help="Attributes on which donors must agree.")] = "",
    error_bar: Annotated[
        bool, typer.Option("--error-bar/--no-error-bar", help="Pay a fifth for an error bar.")
    ] = True,
    uncertainty: Annotated[
        Literal["noise", "worst-case"],
        typer.Option(help="worst-case: pay a tenth to also bound what missing cells could hide."),
    ] = "noise",
    undeclared: UndeclaredOption = "refuse",
    as_json: JsonOption = False,
) -> None:
    """Answer one question about a table with holes, privately.

    Missing values are taken from the k nearest complete rows. The answer's noise follows the smooth
    sensitivity of that imputation.
    """
    check_stdout()
    check_epsilon(epsilon)
    asked = {
        "count": "" if count else None,
        "proportion": proportion,
        "mean": mean,
        "sum": total,
        "variance": variance,
        "standard_deviation": standard_deviation,
        "correlation": correlation,
        "histogram": histogram,
    }
    stated = [(name, of) for name, of in asked.items() if of is not None]
    if len(stated) != 1:
        options = ", ".join("--" + name.replace("_", "-") for name in asked)
        raise ParameterError(f"ask exactly one question: one of {options}")
    ((statistic, of),) = stated
    budget = Budget(epsilon)
    request = QueryRequest(
        impute=impute,
        match=match,
        statistic=statistic,
        of=of,
        where=where,
        epsilon=epsilon,
        k=k,
        group=group,
        bar_share=0.2 if error_bar else 0.0,
        uncertainty=uncertainty,
    )
    facts = Schema.from_toml(schema)
    with on_disk(_disk_limit(data, facts, request)):
        rows = _read(data, facts, request)
        RUN.note_spending(epsilon)
        answer = run_query(rows, request, budget=budget, undeclared=undeclared)
    text = _text(answer)
    RUN.note_release(text)
    emit(answer.to_dict(), text, as_json=as_json)


# Bytes for each row at most, beside the table, where every row lacks what is filled.
_ROW_BYTES, _DONOR_BYTES, _FILLED_BYTES = 200, 32, 24


def _disk_limit(stream: RowStream, facts: Schema, request: QueryRequest) -> int | None:
    """Return how much memory may be taken where rows are kept on disk; None if all fit.

    What is answered is the same either way. Nothing is refused: that would tell how many rows there
    are.
    """
    fit = fits_into_memory(stream.about(), _needed(facts, request)[0], beside=_row_bytes(request))
    return None if fit else memory_in_force()


def _row_bytes(request: QueryRequest) -> int:
    """Return how many bytes a row takes at most, beside its cells."""
    filled = 1 + request.impute.count(",")
    return _ROW_BYTES + max(1, request.k) * _DONOR_BYTES + filled * _FILLED_BYTES


def _read(stream: RowStream, facts: Schema, request: QueryRequest) -> Table:
    """Return the rows with the attributes that a question reads, where that is known to be enough.

    Every column is read all the same if it may refuse a cell.
    """
    some, valued = _needed(facts, request)
    if valued is None:
        return Table.read(stream, facts)

    def lean(columns: dict[str, Column]) -> dict[str, Column]:
        return {n: c if n in valued else Column(c.codes) for n, c in columns.items()}

    batches = read_columns(stream, facts, some.names, refusing=True)
    return Table(some, joined(map(lean, batches), some))


def _needed(facts: Schema, request: QueryRequest) -> tuple[Schema, set[str] | None]:
    """Return what a question needs, by public facts alone: attributes, and of which values.

    All is needed, which None says, of a question that makes no sense and will be refused; where
    facts are open, which is a condition; and where the facts about some attributes alone would be
    refused, since among very many rules a contradiction may be overlooked that is seen among few.
    """
    with contextlib.suppress(MissDPError):
        shared = {*parse_names(request.match), *parse_names(request.group)}  # bins are enough
        valued = {*request.imputation(facts).impute} | request.question(facts).reads(facts)
        if valued | shared <= {*facts.names} and not facts.undeclared:
            wanted = facts.rulebook.reached(valued | shared)
            some = facts.subset(name for name in facts.names if name in wanted)
            return some, {*some.names} if some.rules else valued
    return facts, None


def _text(answer: Estimate | Histogram) -> str:
    if isinstance(answer, Estimate):
        lines = [f"{answer.name}: {answer.value:.6g}{_bar(answer.interval)}"]
    else:
        bars = answer.intervals or (None,) * len(answer.values)
        lines = [answer.name] + [
            f"  {level}: {value:.6g}{_bar(bar)}"
            for level, value, bar in zip(answer.levels, answer.values, bars, strict=True)
        ]
    if answer.applicable:
        verb = "is" if len(answer.applicable) == 1 else "are"
        lines.append(
            f"About the rows in which {' and '.join(answer.applicable)} {verb} applicable; rows in "
            "which this is not so, or is not known, have no part in it."
        )
    if answer.note:
        lines.append(f"{answer.note}.")
    known = answer.interval if isinstance(answer, Estimate) else answer.intervals
    if known is not None:
        lines.append(
            f"In brackets: where the answer without noise lies with confidence "
            f"{answer.confidence:.0%}. Sampling and imputation error come on top."
        )
    if isinstance(answer, Estimate) and answer.imputation_interval is not None:
        lines.append(
            f"Whatever the missing cells were, the answer lies in "
            f"{_bar(answer.imputation_interval).strip()} with confidence {answer.confidence:.0%}."
        )
    return "\n".join([*lines, "", answer.guarantee.in_words()])


def _bar(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"  [{interval[0]:.6g}, {interval[1]:.6g}]"
