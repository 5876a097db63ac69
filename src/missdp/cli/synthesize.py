"""``missdp synthesize``: a private synthetic table from a private table with holes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from missdp.cli import outcome
from missdp.cli.common import (
    DataArgument,
    JsonOption,
    SchemaOption,
    SeedOption,
    check_epsilon,
    check_rows,
    counted,
    emit,
    progress_bar,
)
from missdp.cli.release import KeptModel, model_beside, paid, write_rows
from missdp.cli.streams import check_stdout
from missdp.errors import ParameterError
from missdp.files import check_outputs, write_atomically
from missdp.schema import Schema
from missdp.sources import STRATEGIES, strategy_named
from missdp.synth.base import Synthesizer
from missdp.synth.inputs import chosen_delta
from missdp.synth.registry import BUILT_IN, read_settings, synthesizer_named
from missdp.table.files import output_format

__all__ = ["EXAMPLES", "synthesize"]

EXAMPLES = (
    "Examples: missdp synthesize t.csv --schema t.toml --epsilon 1 -o s.csv; the same with "
    "--missing observed (holes completely at random); with --delta 0 (pure epsilon-DP); with "
    "--method mst --set shrink=0.5; with --keep-holes (synthetic holes, too)."
)


def synthesize(
    data: DataArgument,
    schema: SchemaOption,
    epsilon: Annotated[float, typer.Option(help="Privacy budget, above 0.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default=False),
    ],
    delta: Annotated[
        float | None,
        typer.Option(
            help="By default 1e-6, or 1/(100 n) if --public-rows n makes that smaller. 0 is pure "
            "epsilon-DP.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(BUILT_IN)}, or one that an installed package adds; by default aim, "
            "or privbayes if --delta is 0.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help=f"What to do about holes: {', '.join(STRATEGIES)}; by default the method's first.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the method's own, such as rounds=30; may be repeated.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows to draw; by default the released row count.")
    ] = None,
    public_rows: Annotated[
        int | None, typer.Option(help="Declare the number of rows public, a condition.")
    ] = None,
    keep_holes: Annotated[
        bool, typer.Option("--keep-holes", help="Keep holes in synthetic rows.")
    ] = False,
    undeclared: Annotated[
        Literal["refuse", "accept"],
        typer.Option(help="Facts read from the data: refuse, or accept as a condition."),
    ] = "refuse",
    model: Annotated[
        Path | None,
        typer.Option(
            help="Save the released model here (JSON), to sample again; by default beside the "
            "output, as OUTPUT.model.json under a name that is free."
        ),
    ] = None,
    guarantee: Annotated[Path | None, typer.Option(help="Save the guarantee here (JSON).")] = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turn a private table with holes into a synthetic one, and say what that guarantees.

    All files are opened before the table is read. The model is saved as soon as it is paid for, so
    whatever fails later, rows can still be drawn from it with `missdp sample`.
    """
    check_stdout()
    check_epsilon(epsilon)
    if public_rows is not None and public_rows < 1:
        raise ParameterError("--public-rows must be at least 1")
    output_format(output)
    place = model_beside(output) if model is None else model
    check_outputs([output, place, guarantee], inputs=[data, schema])
    chosen = method or ("privbayes" if delta == 0 else "aim")
    own = read_settings(synthesizer_named(chosen), settings or [])
    facts = Schema.from_toml(schema)
    check_rows(public_rows if rows is None else rows, len(facts))
    kept = KeptModel(place, output)
    with paid(place, output, guarantee), progress_bar() as progress:
        synthesizer = _build(chosen, own, missing, epsilon, delta, public_rows, seed)
        if keep_holes and not strategy_named(synthesizer.missing).models_holes:
            raise ParameterError("--keep-holes needs --missing joint, which models the holes")
        synthesizer.progress = progress
        outcome.spending(epsilon, chosen_delta(synthesizer.delta, synthesizer.n_rows))
        synthesizer.fit(data, schema=facts, undeclared=undeclared)
        kept.save(synthesizer)
        if guarantee is not None:
            write_atomically(guarantee, synthesizer.guarantee_.to_json().encode("utf-8"))
        synthetic = write_rows(
            synthesizer, output, rows=rows, keep_holes=keep_holes, seed=seed, progress=progress
        )
    kept.check()
    document = {
        "output": str(output),
        "method": chosen,
        "rows": len(synthetic),
        "model": str(place),
        "guarantee": synthesizer.guarantee_.to_dict(),
    }
    drawn = counted(len(synthetic), "synthetic row")
    said = f"{chosen}, since delta is 0" if method is None and delta == 0 else chosen
    text = (
        f"Wrote {output}: {drawn}, {counted(len(facts), 'column')}; method: {said}.\n"
        f"Wrote {place}: the model; missdp sample draws more rows from it at no cost.\n\n"
        f"{synthesizer.guarantee_.in_words()}"
    )
    emit(document, text, as_json=as_json)


def _build(
    method: str,
    own: dict[str, Any],
    missing: str | None,
    epsilon: float,
    delta: float | None,
    public_rows: int | None,
    seed: int | None,
) -> Synthesizer:
    options = dict(own)
    if missing is not None:
        options["missing"] = missing
    if delta is not None:
        options["delta"] = delta
    return synthesizer_named(method)(
        epsilon=epsilon,
        n_rows="noisy" if public_rows is None else public_rows,
        random_state=seed,
        **options,
    )
