"""The command that says what each epsilon buys, before the table is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from missdp.cli.app import emit
from missdp.cli.options import JsonOption, argument, option
from missdp.errors import ParameterError, replacing
from missdp.files import check_outputs, picture_format
from missdp.office import plan as plan_of
from missdp.progress import progress_bar
from missdp.schema import Schema
from missdp.synth.registry import default_synthesizer, read_settings, synthesizer_named


def plan(
    schema: Annotated[Path, argument(help="TOML file with the public facts.")],
    rows: Annotated[int, option(help="How many rows there will be, as you declare.")],
    missing: Annotated[
        list[str] | None,
        option(metavar="NAME=RATE", help="Share of missing cells, as you declare; repeatable."),
    ] = None,
    spread: Annotated[
        list[str] | None,
        option(
            metavar="NAME=SD",
            help="Standard deviation of a number, as you declare: it is then taken to be normal; "
            "repeatable.",
        ),
    ] = None,
    margins: Annotated[
        Literal["uniform", "zipf"], typer.Option(help="How often levels and bins occur.")
    ] = "uniform",
    mean_weight: Annotated[
        float | None, option(help="Mean of the survey weights, as you declare.")
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Epsilons to compare, by commas.")] = "0.5,1,2",
    delta: Annotated[float | None, option(help="As of synthesize.")] = None,
    method: Annotated[str | None, option(help="As of synthesize.")] = None,
    strategy: Annotated[
        str | None, option(help="What to do about missing values: --missing of synthesize.")
    ] = None,
    settings: Annotated[
        list[str] | None, option("--set", metavar="NAME=VALUE", help="As of synthesize.")
    ] = None,
    mean: Annotated[
        list[str] | None, option(help="A number whose mean is planned; repeatable.")
    ] = None,
    plot: Annotated[Path | None, option(help="Draw it (.svg, .png, .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each epsilon buys, before the table is looked at, from public facts only.

    The fit is rehearsed on made-up rows: noise, intervals, seconds and memory are its own.
    """
    if plot is not None:
        picture_format(plot)
        check_outputs([plot], inputs=[schema])
    grid = _numbers(f"epsilons={text}" for text in epsilons.split(","))
    facts = Schema.from_toml(schema)
    chosen = method or default_synthesizer(facts, delta=delta)
    given = {"delta": delta, "strategy": strategy}
    with progress_bar() as progress:
        found = plan_of(
            facts,
            rows=rows,
            missing=dict(_numbers(missing or ())),
            spreads=dict(_numbers(spread or ())),
            margins=margins,
            mean_weight=mean_weight,
            epsilons=[epsilon for _, epsilon in grid],
            method=chosen,
            means=mean,
            progress=progress,
            **{name: value for name, value in given.items() if value is not None},
            **read_settings(synthesizer_named(chosen), settings or ()),
        )
    if plot is not None:
        found.plot(plot)
    emit(found.to_dict(), str(found), as_json=as_json)


def _numbers(texts: Iterable[str]) -> list[tuple[str, float]]:
    """Return the names and numbers that were written as ``name=number``."""
    with replacing(ValueError, by=ParameterError("write a number for each, as name=0.2")):
        parts = [text.rpartition("=") for text in texts]
        return [(name, float(number)) for name, _, number in parts]
