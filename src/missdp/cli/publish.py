"""``missdp publish``: the dossier of a release, from its model file."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import click

from missdp.cli import RUN, check_stdout, emit
from missdp.cli.options import FILE, Command, option, output_option
from missdp.errors import ParameterError, replacing
from missdp.progress import show_stage


@click.command(cls=Command)
@click.argument("model", type=FILE)
@output_option("Folder to create.")
@option("--title", "Name of the table.", "Text", default="A synthetic table")
@option("--audience", "Readers and purpose of the table.", "Text", default="")
@option("--curator", "Publisher of the table.", "Text", default="")
@option("--published", "Date of publication, as YYYY-MM-DD.", "Text", default="")
@option("--tipping", "NAME=QUESTION: tipping point of a conclusion. Repeatable.", multiple=True)
def publish(model: Path, output: Path, tipping: tuple[str, ...], **text: str) -> None:
    """Write the documents of a published release into a folder, all or none.

    There is no cost, since the model has released values and public facts only.

    Try:
      missdp publish synthetic.model.json -o dossier --title Patients
      missdp publish synthetic.model.json -o dossier --tipping "age=mean(age) by smoker"
    """
    from missdp.governance.dossier import FILES, About, write_dossier
    from missdp.synth import load

    check_stdout()
    if text["published"]:
        with replacing(ValueError, by=ParameterError("--published must be a day, as YYYY-MM-DD")):
            date.fromisoformat(text["published"])
    facts: dict[str, Any] = {"about": About(**text), "tipping": [*map(_tipping_question, tipping)]}
    with show_stage("writing the dossier"):
        line = load(model).ledger_
        written = write_dossier(model, output, ledger=line, overwrite=RUN.overwrite, **facts)
    message = f"Wrote {output}: {', '.join(FILES)}. TODO marks text that a person must write."
    emit({"output": str(output), **written}, message)


def _tipping_question(text: str) -> tuple[str, str]:
    """Return the shifted attribute and the question of an option."""
    name, equals, question = text.partition("=")
    if not equals:
        raise ParameterError("--tipping must be NAME=QUESTION, such as 'age=mean(age)'")
    return name.strip(), question.strip()
