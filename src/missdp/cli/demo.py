"""``missdp demo``: synthesize a real survey with real holes, which is public."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from missdp.cli import check_stdout, note_spending
from missdp.cli.app import JsonOption, OverwriteOption, SeedOption, check_epsilon, emit
from missdp.cli.release_files import Release, no_model_lost
from missdp.cli.synthesize import write_rows
from missdp.datasets import yrbss
from missdp.files import check_outputs
from missdp.progress import progress_bar
from missdp.synth.base import Synthesizer
from missdp.synth.registry import synthesizer_named
from missdp.table import Table
from missdp.table.written import output_format

__all__ = ["demo"]


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the synthetic survey.")
    ] = Path("yrbss_synthetic.csv"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    overwrite: OverwriteOption = False,
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
    release = Release(output, overwrite=overwrite)
    check_outputs(release.outputs)
    start = time.perf_counter()
    survey = yrbss().table()
    with release.claimed(survey.schema), progress_bar() as progress:
        note_spending(2 * epsilon)
        family = synthesizer_named("privbayes")
        drop = family(epsilon=epsilon, missing="complete-rows", random_state=seed).fit(survey)
        model = family(epsilon=epsilon, missing="joint", random_state=seed, progress=progress)
        with no_model_lost():
            model.fit(survey)
            release.keep(model)
        written = write_rows(
            model, release.table, rows=None, keep_holes=False, seed=seed, progress=progress
        )
        release.commit()
    synthetic = Table.read(output, model.schema_)
    dropped = drop.sample_table(random_state=seed)
    rows = _comparison(survey, dropped, synthetic)
    document = {
        "output": str(output),
        "rows": written,
        **release.wrote,
        "seconds": round(time.perf_counter() - start, 1),
        "comparison": rows,
        "guarantee": model.guarantee_.to_dict(),
    }
    emit(document, _text(document, rows, model, release), as_json=as_json)


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
    seen = codes < attribute.size
    wanted = attribute.levels.index(level)  # type: ignore[union-attr]
    return float(np.mean(codes[seen] == wanted))


def _text(
    document: dict[str, Any], rows: list[dict[str, Any]], model: Synthesizer, release: Release
) -> str:
    names = f"{'all answers':>13}{'complete rows':>15}{'rows dropped':>14}{'missdp':>11}"
    kinds = f"{'(exact)':>13}{'(exact)':>15}{'(private)':>14}{'(private)':>11}"
    head, kinds = f"{'share of':<26}{names}", f"{'':<26}{kinds}"
    table = [
        f"{row['group']:<26}{row['answered']:>13.1%}{row['complete_rows']:>15.1%}"
        f"{row['dropped_dp']:>14.1%}{row['missdp']:>11.1%}"
        for row in rows
    ]
    return "\n".join([_BEFORE, head, kinds, *table, _AFTER, _wrote(document, model, release)])


_BEFORE = """\
Youth Risk Behavior Survey: 13,583 respondents, 13 questions, 38 % of the rows have holes.
The survey is public, so its exact figures may stand here beside the private ones.
"""
_AFTER = """
Race is missing for 57 % of Hispanic and 7 % of other respondents, so dropping incomplete rows
loses most Hispanic respondents. missdp counts every row and fills holes inside its model.
"""


def _wrote(document: dict[str, Any], model: Synthesizer, release: Release) -> str:
    return (
        f"Wrote {document['output']}: {document['rows']} synthetic rows, no holes, "
        f"in {document['seconds']} s.\n"
        f"{release.wrote_in_words}\n\n"
        f"What the written file promises (the column 'rows dropped' would cost as much again):\n"
        f"{model.guarantee_.in_words()}"
    )
