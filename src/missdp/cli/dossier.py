"""``missdp dossier``: what publishing a release takes, from its saved model."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any

from missdp.cli import check_stdout
from missdp.cli.app import emit
from missdp.cli.options import JsonOption, OverwriteOption, argument, option
from missdp.cli.side_files import SIDE, SideFile, check_together
from missdp.errors import ParameterError, replacing
from missdp.record import read_json


def dossier(
    model: Annotated[Path, argument(help="A saved model (JSON).")],
    output: Annotated[Path, option("--output", "-o", help="Folder to make.")],
    title: Annotated[str, option(help="What the table is called.")] = "A synthetic table",
    audience: Annotated[str, option(help="For whom it is, and what for.")] = "",
    curator: Annotated[str, option(help="Who publishes it.")] = "",
    region: Annotated[str, option(help="Which region it is about.")] = "",
    published: Annotated[str, option(help="The day, as YYYY-MM-DD.")] = "",
    tipping: Annotated[
        list[str] | None,
        option(
            metavar="NAME=QUESTION",
            help="Shows where a conclusion turns if values of an attribute are missing because of "
            "what they are; repeatable.",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write what publishing a release takes, into a folder, whole or not at all.

    Free: nothing is read but the model, which holds released values and public facts.
    """
    check_stdout()
    if published:
        with replacing(ValueError, by=ParameterError("published must be a day, as YYYY-MM-DD")):
            date.fromisoformat(published)
    from missdp.office.dossier import FILES, About, write_dossier

    check_together(model)
    about = About(
        title=title, audience=audience, curator=curator, region=region, published=published
    )
    said = write_dossier(
        model,
        output,
        about=about,
        ledger=_ledger_line(model),
        tipping=[*map(_asked, tipping or ())],
        overwrite=overwrite,
    )
    text = f"Wrote {output}: {', '.join(FILES)}. They read TODO where a person must say something."
    emit({"output": str(output), **said}, text, as_json=as_json)


def _asked(text: str) -> tuple[str, str]:
    """Return an attribute that departs, and a question about it."""
    name, equals, question = text.partition("=")
    if not equals:
        raise ParameterError("tipping must be NAME=QUESTION, such as 'age=mean(age)'")
    return name.strip(), question.strip()


def _ledger_line(model: Path) -> dict[str, Any] | None:
    """Return what the side file of the model's release says of its charge, if there is one."""
    with replacing(OSError, by=ParameterError(f"cannot read {str(model)!r}")):
        release = read_json(model.read_bytes().decode("utf-8")).get("release")
    for path in sorted(model.resolve().parent.glob(f"*{SIDE}")):
        note = SideFile.read(path)
        if note is not None and not note.begun and note.id == release:
            return note.ledger
    return None
