"""``missdp query``: one statistic of a table whose holes are filled from nearest neighbours."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from missdp.accounting import Filter, PureEvent
from missdp.cli import RUN, check_stdout
from missdp.cli.app import emit, finite
from missdp.cli.charges import Charge, charges_ledger, paid_schema
from missdp.cli.options import (
    JsonOption,
    SchemaOption,
    UndeclaredOption,
    option,
    reads_rows,
)  # fmt: skip
from missdp.errors import MissDPError, ParameterError, check_epsilon, replacing
from missdp.progress import working
from missdp.schema import Schema
from missdp.schema.expressions import parse_names
from missdp.schema.layout import PLAIN
from missdp.schema.open_levels import check_found
from missdp.schema.undeclared import domain_conditions
from missdp.statistics import QueryRequest, check_queries, run_queries
from missdp.table import Rows, Table
from missdp.table.encode import Column
from missdp.table.table import joined, read_columns

_Name = Annotated[str | None, option(metavar="ATTRIBUTE")]


@charges_ledger
@reads_rows
def query(
    data: Rows,
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
    questions: Annotated[
        Path | None, option(help="TOML file of several [[question]]s, which share epsilon evenly.")
    ] = None,
    where: Annotated[str, typer.Option(help="Subpopulation, e.g. 'age >= 20 and age < 30'.")] = "",
    by: Annotated[
        str,
        typer.Option(
            help="Answer for each level of this attribute. Cells of a group are filled from donors "
            "of the group."
        ),
    ] = "",
    k: Annotated[int, typer.Option(help="Donors per incomplete row.")] = 1,
    group: Annotated[
        str, typer.Option(help="Attributes on which donors must agree, by commas.")
    ] = "",
    uncertainty: Annotated[
        Literal["total", "noise", "worst-case"] | None,
        option(
            help="What the interval covers: total, the default for a count, proportion, mean or "
            "sum without --by; else noise alone. worst-case: pay a tenth to also bound what "
            "missing cells could hide."
        ),
    ] = None,
    tie_breaks: Annotated[
        int | None, option(help="Changes nothing: ties are averaged over.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show the intervals of noise and of missing cells.")
    ] = False,
    undeclared: UndeclaredOption = "refuse",
    as_json: JsonOption = False,
    charge: Charge | None = None,
) -> None:
    """Answer one question about a table with holes, privately.

    Missing values are taken from the k nearest complete rows. The answer's noise follows the smooth
    sensitivity of that imputation.
    """
    check_stdout()
    check_epsilon(epsilon, "--epsilon")
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
    stated = [{"statistic": name, "of": of} for name, of in asked.items() if of is not None]
    if questions is not None and (where or by):
        raise ParameterError("--where and --by stand in the file of --questions, for each question")
    if questions is None and len(stated) == 1:
        stated[0] |= {"where": where, "by": by}
    elif questions is not None and not stated:
        stated = _read_questions(questions)
    else:
        options = ", ".join("--" + name.replace("_", "-") for name in asked)
        raise ParameterError(f"ask exactly one question: one of {options}; or give --questions")
    if uncertainty == "total" and any(q.get("by") or q["statistic"] not in _TOTAL for q in stated):
        raise ParameterError(
            "--uncertainty total is for counts, proportions, means and sums, each without by; the "
            "intervals of others are of noise alone"
        )
    requests = [
        QueryRequest(
            impute=impute,
            match=match,
            # A little less of each, so that together they are no more than what is spent.
            epsilon=epsilon / len(stated) * (1 - 2.0**-40 * (len(stated) > 1)),
            k=k,
            group=group,
            uncertainty=uncertainty or "total",
            tie_breaks=tie_breaks,
            **question,
        )
        for question in stated
    ]
    facts, budget, charged = paid_schema(schema, charge), Filter(epsilon), None
    check_found(facts)
    facts.refuse_units("a statistic")
    check_queries(_without_rows(facts), requests)  # what public facts refuse is not charged
    if charge is not None:
        charge, events = charge.stating(questions=stated), (PureEvent(epsilon=epsilon),)
        rests_on = domain_conditions(facts, undeclared)
        if charge.files(events, facts, rests_on, as_json=as_json):
            return
        if charge.answered(facts, as_json=as_json):
            return
        RUN.note_spending(epsilon)
        charged = charge.start(events, facts, rests_on)
    with working("reading the rows") as progress:
        rows = _read(data, facts, requests)
        RUN.note_spending(epsilon)
        progress("filling missing values and answering", None)
        answers = run_queries(rows, requests, budget=budget, undeclared=undeclared)
    guarantee = budget.spent if len(answers) > 1 else answers[0].guarantee
    split = [f"Of epsilon {epsilon:g}, each of {len(answers)} questions had an equal part."]
    said = [*(a.in_words(details=details) for a in answers), *split * (len(answers) > 1)]
    text = "\n".join([*said, "", guarantee.in_words()])
    RUN.note_release(text)
    found = [answer.to_dict() for answer in answers]
    document = found[0] if questions is None else {"answers": found}
    if charged is not None:
        from missdp.office.chain import answer_digest

        document = finite(document | {"ledger": charged.said})
        text = f"{text}\n{charged.in_words}"
        answer = {"document": document, "text": text}  # which a retry shows again
        charged.finish(answer_digest(document), guarantee, answer=answer)
    emit(document, text, as_json=as_json)


_TOTAL = ("count", "proportion", "mean", "sum")  # have intervals over sampling and imputation
_FIELDS = {"statistic", "of", "where", "by"}


def _read_questions(path: Path) -> list[dict[str, str]]:
    """Return the questions of a file: of each the statistic, of what, of whom, and by what."""
    unreadable = ParameterError(f"the file of questions {str(path)!r} cannot be read")
    with replacing(OSError, by=unreadable):
        text = path.read_bytes()
    wrong = ParameterError(
        "a file of questions holds [[question]] tables with the keys statistic, of, where and by, "
        "all text"
    )
    with replacing(ValueError, by=wrong):
        found = tomllib.loads(text.decode()).get("question")
    if not isinstance(found, list) or not found:
        raise wrong
    for question in found:
        if not isinstance(question, dict) or not {"statistic"} <= set(question) <= _FIELDS:
            raise wrong
        if not all(isinstance(value, str) for value in question.values()):
            raise wrong
    return found


def _without_rows(facts: Schema) -> Table:
    """Return an empty table of the schema, which no ledger pays for."""
    plain = replace(facts, ledger="", file=PLAIN, ignore=(), keys=(), undeclared_columns=())
    return Table.read({name: [] for name in plain.stored.names}, plain)


def _read(rows: Rows, facts: Schema, requests: Sequence[QueryRequest]) -> Table:
    """Return the attributes that questions read, or all columns where one may refuse a cell."""
    some, valued = _needed(facts, requests)
    if valued is None:
        return Table.read(rows, facts)

    def lean(columns: dict[str, Column]) -> dict[str, Column]:
        return {n: c if n in valued else Column(c.codes) for n, c in columns.items()}

    batches = read_columns(rows, facts, some.names, refusing=True)
    return Table(some, joined(map(lean, batches), some))


def _needed(facts: Schema, requests: Sequence[QueryRequest]) -> tuple[Schema, set[str] | None]:
    """Return what questions need, by public facts alone: attributes, and of which values.

    All is needed, which None says, of a question that makes no sense and will be refused; where
    facts are open, which is a condition; and where the facts about some attributes alone would be
    refused, since among very many rules a contradiction may be overlooked that is seen among few.
    """
    with contextlib.suppress(MissDPError):
        first = requests[0]
        shared = {*parse_names(first.match), *parse_names(first.group)}  # bins are enough
        valued = {*first.imputation(facts).impute}
        valued = valued.union(*(request.question(facts).reads(facts) for request in requests))
        if valued | shared <= {*facts.names} and not facts.undeclared:
            wanted = facts.rule_set.connected_by_rules(valued | shared)
            some = facts.subset(name for name in facts.names if name in wanted)
            return some, {*some.names} if some.rules else valued
    return facts, None
