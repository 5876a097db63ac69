"""``missdp query``: statistics of private rows, with noise, intervals and a charge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import RUN, check_stdout, emit, finite
from missdp.cli.options import (
    Command,
    choice,
    data_argument,
    epsilon_option,
    ledger_options,
    new_schema_option,
    option,
    purpose_option,
    schema_option,
    table_option,
    undeclared_option,
)
from missdp.errors import ParameterError, check_epsilon
from missdp.progress import show_stage

if TYPE_CHECKING:
    from missdp.cli.charge import Charge, Charged
    from missdp.schema import Schema
    from missdp.statistics import KNNImputation, Statistic
    from missdp.table import Rows

_FILLED = "Missing values"  # group of options


@click.command(cls=Command)
@data_argument()
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@schema_option
@epsilon_option
@option("--where", "Restrict the questions to rows that match this condition.", default="")
@option("--impute", "Attributes to fill from similar rows, by commas.", _FILLED, default="")
@option("--match", "Attributes by which rows are similar, by commas.", _FILLED, default="")
@option("--within", "Attributes that similar rows share, by commas.", _FILLED, default="")
@option("--neighbors", "Similar rows per cell.", _FILLED, type=int, default=1)
@choice("--interval", "Uncertainty that an interval covers.", of=("total", "noise", "worst-case"))
@undeclared_option
@table_option
@ledger_options
@purpose_option
@new_schema_option
def query(
    data: str, questions: tuple[str, ...], schema: Path, epsilon: float | None, **how: Any
) -> None:
    """Answer questions about private rows, within epsilon in all.

    QUESTION is count(), share(x = 'a'), mean(x), sum(x), variance(x), sd(x), correlation(x, y) or
    histogram(x). The name of a group follows after 'by'. Missing cells of a group are filled from
    the group. Several questions have equal parts of epsilon. Single rows are protected. If several
    rows belong to one person, fit a model and use missdp estimate.

    Try:
      missdp query patients.csv --schema patients.toml --epsilon 1 --impute age --match smoker
        "mean(age)"
      missdp query patients.csv --schema patients.toml --epsilon 1 --impute age --match smoker
        "share(age >= 65)" --where "smoker = 'yes'"
      missdp query patients.csv --schema patients.toml --epsilon 1 --impute age --match smoker
        "count()" "mean(age) by smoker"
    """
    from missdp.cli.charge import Charge, account_schema, note_unrecorded
    from missdp.cli.rows import rows_at
    from missdp.statistics import check_queries, close_levels, read_imputation, read_questions
    from missdp.table import Table
    from missdp.table.rows import may_refuse

    check_stdout()
    if epsilon is None:
        raise ParameterError("--epsilon is required: the privacy budget, for example 1.")
    check_epsilon(epsilon, "--epsilon")
    rows, charge = rows_at(data, how["table"]), Charge.of_command()
    facts = account_schema(schema, charge)
    facts.refuse_units("a statistic")
    statistics = read_questions(questions, facts, where=how["where"], uncertainty=how["interval"])
    imputation = read_imputation(
        facts, impute=how["impute"], match=how["match"], group=how["within"], k=how["neighbors"]
    )
    closed = close_levels(imputation, statistics, facts)
    # Errors that follow from public facts are raised before the charge.
    check_queries(Table.without_rows(closed), imputation, statistics, epsilon=epsilon)
    # The ledger and the printed guarantee have one fact, by public facts of all columns.
    refuses = may_refuse(rows) or any(attribute.refuses for attribute in facts)
    undeclared = how["undeclared"]
    charged = _charged(charge, statistics, facts, epsilon, undeclared=undeclared, refuses=refuses)
    _answer(
        rows,
        closed,
        imputation,
        statistics,
        epsilon,
        charged,
        undeclared=undeclared,
        refuses=refuses,
    )
    note_unrecorded(charge)


def _charged(
    charge: Charge | None,
    questions: Sequence[Statistic],
    facts: Schema,
    epsilon: float,
    *,
    undeclared: str,
    refuses: bool,
) -> Charged | None:
    """Charge the account with epsilon. Private rows may be read only afterwards."""
    from missdp.accounting import PureEvent
    from missdp.conditions import RefusalsNotPrivate, RowFunctionsTested
    from missdp.schema.undeclared import domain_conditions

    conditions = [*domain_conditions(facts, undeclared), RowFunctionsTested()]
    if refuses:
        conditions.append(RefusalsNotPrivate())
    RUN.note_cost(epsilon)
    if charge is None:
        return None
    stated = [f"{one.kind}({', '.join(one.of)}) by {one.by or ''}" for one in questions]
    events = (PureEvent(epsilon=epsilon),)
    charged = charge.with_parameters(questions=stated).start(events, facts, conditions)
    RUN.note_charge()
    return charged


def _answer(
    rows: Rows,
    facts: Schema,
    imputation: KNNImputation | None,
    questions: Sequence[Statistic],
    epsilon: float,
    charged: Charged | None,
    *,
    undeclared: str,
    refuses: bool,
) -> None:
    """Read the rows, answer the questions, and print the answers."""
    from missdp.accounting import Filter
    from missdp.statistics import needed_attributes, run_queries
    from missdp.table import Table

    budget = Filter(epsilon)
    with show_stage("reading the rows") as progress:
        table = Table.read_part(rows, facts, *needed_attributes(imputation, questions, facts))
        progress("filling missing values and answering", None)
        answers = run_queries(
            table,
            imputation,
            questions,
            epsilon=epsilon,
            budget=budget,
            undeclared=undeclared,
            may_refuse=refuses,
        )
    guarantee = budget.spent if len(answers) > 1 else answers[0].guarantee
    lines = [answer.in_words() for answer in answers]
    if len(answers) > 1:
        lines.append(f"Of epsilon {epsilon:g}, each of {len(answers)} questions had an equal part.")
    text = "\n".join([*lines, "", guarantee.in_words()])
    RUN.note_release(text)
    documents = [answer.to_dict() for answer in answers]
    document = documents[0] if len(documents) == 1 else {"answers": documents}
    if charged is not None:
        from missdp.governance.chain import answer_digest

        document = finite(document | {"ledger": charged.line})
        text = f"{text}\n{charged.in_words}"
        answer = {"document": document, "text": text}
        charged.finish(answer_digest(document), guarantee, answer=answer)
    emit(document, text)
