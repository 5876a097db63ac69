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
@output_option("Folder to make.")
@option("--title", "What the table is called.", "Text", default="A synthetic table")
@option("--audience", "For whom it is, and what for.", "Text", default="")
@option("--curator", "Who publishes it.", "Text", default="")
@option("--published", "The day, as YYYY-MM-DD.", "Text", default="")
@option("--tipping", "NAME=QUESTION: where a conclusion turns; repeatable.", multiple=True)
def publish(model: Path, output: Path, tipping: tuple[str, ...], **text: str) -> None:
    """Write the documents that publishing a release takes into a folder, all or none.

    Free: the model holds released values and public facts only.

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
    facts: dict[str, Any] = {"about": About(**text), "tipping": [*map(_asked, tipping)]}
    with show_stage("writing the dossier"):
        line = load(model).ledger_
        found = write_dossier(model, output, ledger=line, overwrite=RUN.overwrite, **facts)
    said = f"Wrote {output}: {', '.join(FILES)}. They read TODO where a person must write."
    emit({"output": str(output), **found}, said)


def _asked(text: str) -> tuple[str, str]:
    """Return an attribute that departs, and a question about it."""
    name, equals, question = text.partition("=")
    if not equals:
        raise ParameterError("--tipping must be NAME=QUESTION, such as 'age=mean(age)'")
    return name.strip(), question.strip()
