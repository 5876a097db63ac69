"""``missdp version`` and ``missdp demo``: installed packages, and a first release."""

from __future__ import annotations

import platform
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from missdp import __version__
from missdp.cli import RUN, check_stdout, emit
from missdp.cli.installed import packages
from missdp.cli.options import Command, epsilon_option, option, output_option
from missdp.cli.project import project_file, project_settings
from missdp.errors import check_epsilon
from missdp.files import DelayedSignals
from missdp.progress import progress_bar

if TYPE_CHECKING:
    pass


@click.command(cls=Command)
@option("--verbose", "Also packages, and the file of the project.", is_flag=True)
def version(verbose: bool) -> None:
    """Print the version. With --verbose also list the installed packages, for reports.

    Try:
      missdp version
      missdp version --verbose
    """
    versions = {"missdp": __version__}
    if verbose:
        versions["Python"] = f"{platform.python_version()} on {platform.platform(terse=True)}"
        versions |= dict(packages())
        path = project_file()
        stated = f"{path}: {', '.join(project_settings()) or 'empty'}"
        versions["missdp.toml"] = "none in this folder or above" if path is None else stated
    wide = max(map(len, versions))
    text = "\n".join(f"{name:{wide}}  {number}" for name, number in versions.items())
    emit(versions, text if verbose else f"missdp {__version__}")


@click.command(cls=Command)
@output_option("Default: yrbss_synthetic.csv.", required=False)
@epsilon_option
def demo(output: Path | None, epsilon: float | None) -> None:
    """Synthesize a public survey with missing values, and compare with dropping incomplete rows.

    The survey (Youth Risk Behavior Survey, United States, public domain) is public, so this
    command may show its exact figures. Exact figures of private data must not be shown.

    Try:
      missdp demo
    """
    from missdp.cli.fit import AT_ONCE, check_new, save
    from missdp.cli.provenance import label_of
    from missdp.cli.sample import draw_tables
    from missdp.datasets import yrbss
    from missdp.datasets.group_shares import group_shares
    from missdp.synth.registry import synthesizer_named
    from missdp.table import Table
    from missdp.table.written import output_format

    check_stdout()
    epsilon = 1.0 if epsilon is None else epsilon
    output = output or Path("yrbss_synthetic.csv")
    check_epsilon(epsilon, "--epsilon")
    output_format(output)
    place = output.with_name(f"{output.stem}.model.json")
    check_new((place, output, label_of(output)), None)
    folder = output.with_name(f"{output.stem}_dossier") if find_spec("jinja2") else None
    if folder is not None:
        from missdp.governance.dossier import check_folder

        check_folder(folder, overwrite=RUN.overwrite)
    start = time.perf_counter()
    survey = yrbss().table()
    with progress_bar() as progress:
        RUN.note_cost(2 * epsilon)
        family = synthesizer_named("all-pairs")
        drop = family(epsilon=epsilon, missing="complete-rows").fit(survey)
        model = family(epsilon=epsilon, missing="joint", progress=progress)
        with DelayedSignals(AT_ONCE):
            model.fit(survey)
            save(model, place, None)
        number = draw_tables(model, [output], None, progress, keep_missing=False, seed=None)
    dossier = _dossier(place, folder)
    rows = group_shares(
        survey, drop.sample_table(random_state=None), Table.read(output, model.schema_)
    )
    document = {
        "output": str(output),
        "model": str(place),
        "rows": number,
        "dossier": folder and str(folder),
        "seconds": round(time.perf_counter() - start, 1),
        "comparison": rows,
        "guarantee": model.guarantee_.to_dict(),
    }
    lines = [
        _BEFORE,
        *(_LINE.format(**row) for row in rows),
        _AFTER,
        f"Wrote {output}: {number} synthetic rows, in {document['seconds']} s.",
        f"Wrote {place}: the model, from which `missdp estimate` answers.",
        f"{dossier}\n",
        "Guarantee of the written files (the column 'rows dropped' would cost as much again):",
        model.guarantee_.in_words(),
    ]
    emit(document, "\n".join(lines))


def _dossier(model: Path, folder: Path | None) -> str:
    """Write the dossier of a model if its packages are installed. Return a line about it."""
    if folder is None:
        return "With pip install 'missdp[report]', missdp publish writes a report of the model."
    from missdp.governance.dossier import About, write_dossier

    about = About(title="Youth Risk Behavior Survey, synthetic", audience="A demonstration.")
    write_dossier(model, folder, about=about, overwrite=RUN.overwrite)
    return f"Wrote {folder / 'report.html'}: the report of the release, in its dossier."


_BEFORE = """\
Youth Risk Behavior Survey: 13,583 respondents, 13 questions, 38 % of the rows lack a value.
The survey is public, so its exact figures may be compared with the private ones.

share of                    all answers  complete rows  rows dropped     missdp
                                (exact)        (exact)     (private)  (private)"""
_LINE = "{group:<26}{answered:>13.1%}{complete_rows:>15.1%}{dropped_dp:>14.1%}{missdp:>11.1%}"
_AFTER = """
Race is missing for 57 % of Hispanic and 7 % of other respondents, so dropping incomplete rows
loses most Hispanic respondents. missdp counts every row and fills cells inside its model.
"""
