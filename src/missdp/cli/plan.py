"""``missdp plan``: noise, intervals and resources for each epsilon, without private rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit
from missdp.cli.options import FILE, Command, method_options, option
from missdp.errors import ParameterError, replacing
from missdp.progress import progress_bar

if TYPE_CHECKING:
    from missdp.governance import Plan
    from missdp.schema import Schema
    from missdp.synth import Synthesizer


@click.command(cls=Command)
@click.argument("schema", type=FILE)
@option("--rows -n", "Expected number of rows.", "Data", type=int, required=True)
@option("--epsilon", "Budgets to compare, by commas.", "Privacy", default="0.5,1,2")
@option("--missing-rate", "NAME=RATE: share of missing cells. Repeatable.", "Data", multiple=True)
@option(
    "--mean", "NAME or NAME=MEAN: plan the mean of a number. Repeatable.", "Data", multiple=True
)
@option("--sd", "NAME=SD: standard deviation of a number. Repeatable.", "Data", multiple=True)
@option("--mean-weight", "Mean of the survey weights.", "Data", type=float)
@method_options
def plan(schema: Path, rows: int, epsilon: str, **declared: Any) -> None:
    """Plan noise, intervals, run time and memory for each epsilon, from public facts.

    The fit is simulated on made-up rows. No private row is read.

    Try:
      missdp plan patients.toml --rows 500 --missing-rate age=0.2 --mean age
      missdp plan patients.toml --rows 500 --epsilon 1,3 --strategy observed
    """
    from missdp.cli.rows import schema_at
    from missdp.governance import plan as plan_of
    from missdp.synth.registry import default_synthesizer, read_settings, synthesizer_named

    epsilons = _numbers(
        [f"epsilon={text}" for text in epsilon.split(",")],
        "--epsilon must be numbers with commas between them, such as 0.5,1,2",
    )
    facts = schema_at(schema)
    chosen = declared["method"] or default_synthesizer(facts, delta=declared["delta"])
    optional = {"delta": declared["delta"], "strategy": declared["strategy"]}
    given: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    given |= read_settings(synthesizer_named(chosen), declared["settings"])
    rates = _numbers(declared["missing_rate"], "--missing-rate must be NAME=RATE, such as age=0.2")
    with progress_bar() as progress:
        result = plan_of(
            facts,
            rows=rows,
            missing=dict(rates),
            spreads=dict(_numbers(declared["sd"], "--sd must be NAME=SD, such as age=12")),
            mean_weight=declared["mean_weight"],
            epsilons=[number for _, number in epsilons],
            method=chosen,
            means=_means(declared["mean"]),
            progress=progress,
            **given,
        )
    named = {"missing" if name == "strategy" else name: value for name, value in given.items()}
    made = partial(synthesizer_named(chosen), **named)
    emit(_document(result, facts, made), str(result))


def _document(result: Plan, facts: Schema, made: Callable[..., Synthesizer]) -> dict[str, Any]:
    """Return the JSON document of a plan, with the meaning of each budget for one person."""
    document = result.to_dict() | {"mostly_noise": result.mostly_noise}
    for one in document["planned"]:
        guarantee = made(epsilon=one["epsilon"]).planned_parts(facts)[0]
        one["risk_in_words"] = str(guarantee.explain())
    return document


def _means(texts: tuple[str, ...]) -> list[str] | dict[str, float] | None:
    """Return the numbers whose means are planned, with their declared means."""
    plain = [text for text in texts if "=" not in text]
    if plain and len(plain) < len(texts):
        raise ParameterError("declare the mean of every number, or of none")
    if plain or not texts:
        return plain or None
    return dict(_numbers(texts, "--mean must be NAME or NAME=MEAN, such as age=40"))


def _numbers(texts: Iterable[str], form: str) -> list[tuple[str, float]]:
    """Parse texts of the form ``name=number``. Raise ParameterError with ``form`` otherwise."""
    with replacing(ValueError, by=ParameterError(form)):
        parts = [text.rpartition("=") for text in texts]
        return [(name, float(number)) for name, _, number in parts]
