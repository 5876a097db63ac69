"""``missdp synthesize``: a private synthetic table from a private table with holes.

``missdp sample``: more synthetic rows from a saved model, at no cost.

``missdp demo``: the main job on a real survey with real holes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from missdp.cli import outcome
from missdp.cli.common import (
    DataArgument,
    JsonOption,
    KeptModel,
    SchemaOption,
    SeedOption,
    check_epsilon,
    check_rows,
    counted,
    emit,
    model_beside,
    paid,
    progress_bar,
    write_rows,
)
from missdp.cli.outcome import check_stdout
from missdp.datasets import yrbss
from missdp.errors import ParameterError
from missdp.files import check_outputs, reserved, write_atomically
from missdp.schema import Schema
from missdp.sources import STRATEGIES, strategy_named
from missdp.synth import PrivBayes, load
from missdp.synth.base import Synthesizer
from missdp.synth.registry import BUILT_IN, read_settings, synthesizer_named
from missdp.synth.state import chosen_delta
from missdp.table import Table
from missdp.table.frames import output_format

__all__ = ["EXAMPLES", "demo", "sample", "synthesize"]


EXAMPLES = {
    "synthesize": (
        "Examples: missdp synthesize t.csv --schema t.toml --epsilon 1 -o s.csv; the same with "
        "--missing observed (holes completely at random); with --delta 0 (pure epsilon-DP); with "
        "--method mst --set shrink=0.5; with --keep-holes (synthetic holes, too)."
    ),
}


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


def sample(
    model: Annotated[Path, typer.Argument(help="A saved model (JSON).", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default=False),
    ],
    rows: Annotated[
        int | None, typer.Option(help="Rows to draw; by default the released row count.")
    ] = None,
    keep_holes: Annotated[
        bool, typer.Option("--keep-holes", help="Keep holes in synthetic rows.")
    ] = False,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a saved model. Free: the model holds released values only."""
    check_rows(rows)
    output_format(output)
    check_outputs([output], inputs=[model])
    with reserved([output]), progress_bar() as progress:
        progress("reading the model", None)
        released = load(model)
        synthetic = write_rows(
            released, output, rows=rows, keep_holes=keep_holes, seed=seed, progress=progress
        )
    document = {
        "output": str(output),
        "rows": len(synthetic),
        "guarantee": released.guarantee_.to_dict(),
    }
    drawn = counted(len(synthetic), "synthetic row")
    text = f"Wrote {output}: {drawn}.\n\n{released.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the synthetic survey.")
    ] = Path("yrbss_synthetic.csv"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Synthesize a real survey with holes, and show what dropping incomplete rows would have done.

    The survey (Youth Risk Behavior Survey, United States, public domain) is public, so this
    command may show exact figures of it next to the private ones. Do not do that with your data.
    """
    check_stdout()
    check_epsilon(epsilon)
    output_format(output)
    place = model_beside(output)
    check_outputs([output, place])
    start = time.perf_counter()
    survey = yrbss().table()
    kept = KeptModel(place, output)
    with paid(place, output), progress_bar() as progress:
        outcome.spending(2 * epsilon)
        drop = PrivBayes(epsilon=epsilon, missing="complete-rows", random_state=seed).fit(survey)
        model = PrivBayes(epsilon=epsilon, missing="joint", random_state=seed, progress=progress)
        model.fit(survey)
        kept.save(model)
        synthetic = write_rows(
            model, output, rows=None, keep_holes=False, seed=seed, progress=progress
        )
    kept.check()
    dropped = drop.sample_table(random_state=seed)
    rows = _comparison(survey, dropped, synthetic)
    document = {
        "output": str(output),
        "rows": len(synthetic),
        "model": str(place),
        "seconds": round(time.perf_counter() - start, 1),
        "comparison": rows,
        "guarantee": model.guarantee_.to_dict(),
    }
    emit(document, _text(document, rows, model), as_json=as_json)


def _comparison(survey: Table, dropped: Table, synthetic: Table) -> list[dict[str, Any]]:
    """Shares of some groups among the answers given, in the survey and in two releases."""
    complete = survey.take(~survey.incomplete_rows())
    asked = [
        ("hispanic", "hispanic", "Hispanic respondents"),
        ("text_while_driving_30d", "did not drive", "do not drive"),
        ("school_night_hours_sleep", "<5", "sleep less than 5 hours"),
        ("gender", "female", "female respondents"),
    ]
    columns = {
        "answered": survey,
        "complete_rows": complete,
        "dropped_dp": dropped,
        "missdp": synthetic,
    }
    return [
        {"group": label, **{k: _share(t, name, level) for k, t in columns.items()}}
        for name, level, label in asked
    ]


def _share(table: Table, name: str, level: str) -> float:
    attribute = table.schema[name]
    codes = table.codes(name)
    seen = codes != attribute.missing_code
    wanted = attribute.levels.index(level)  # type: ignore[union-attr]
    return float(np.mean(codes[seen] == wanted))


def _text(document: dict[str, Any], rows: list[dict[str, Any]], model: PrivBayes) -> str:
    names = f"{'all answers':>13}{'complete rows':>15}{'rows dropped':>14}{'missdp':>11}"
    kinds = f"{'(exact)':>13}{'(exact)':>15}{'(private)':>14}{'(private)':>11}"
    head, kinds = f"{'share of':<26}{names}", f"{'':<26}{kinds}"
    table = [
        f"{row['group']:<26}{row['answered']:>13.1%}{row['complete_rows']:>15.1%}"
        f"{row['dropped_dp']:>14.1%}{row['missdp']:>11.1%}"
        for row in rows
    ]
    return "\n".join([_BEFORE, head, kinds, *table, _AFTER, _wrote(document, model)])


_BEFORE = """\
Youth Risk Behavior Survey: 13,583 respondents, 13 questions, 38 % of the rows have holes.
The survey is public, so its exact figures may stand here beside the private ones.
"""

_AFTER = """
Race is missing for 57 % of Hispanic and 7 % of other respondents, so dropping incomplete rows
loses most Hispanic respondents. missdp counts every row and fills holes inside its model.
"""


def _wrote(document: dict[str, Any], model: PrivBayes) -> str:
    return (
        f"Wrote {document['output']}: {document['rows']} synthetic rows, no holes, "
        f"in {document['seconds']} s.\n"
        f"Wrote {document['model']}: the model; missdp sample draws more rows from it at no cost."
        "\n\n"
        f"What the written file promises (the column 'rows dropped' would cost as much again):\n"
        f"{model.guarantee_.in_words()}"
    )
