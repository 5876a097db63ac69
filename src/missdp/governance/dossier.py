"""The dossier of a release: all documents in one folder, complete or not at all."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from missdp.accounting import DataDependentDomain
from missdp.errors import OutputError, SchemaError, replacing
from missdp.files import DelayedSignals, sync_folder, write_error
from missdp.governance.chain import digest, json_text
from missdp.governance.facts import ModelSummary
from missdp.governance.measurements import measurements
from missdp.governance.pages import pages
from missdp.governance.rendering import plain_text
from missdp.schema.schema import FILE
from missdp.serialization import read_json, seal
from missdp.synth import load
from missdp.synth.base import Synthesizer
from missdp.words import in_a_line

__all__ = ["FILES", "About", "write_dossier"]

_RELEASE = "release.json"
FILES = (
    "report.html",
    "registry.yaml",
    "answers.md",
    "measurements.parquet",
    "maintained.csv",
    "how-to-use.md",
    _RELEASE,
)
"""Names of the files of a dossier."""

_SHIFTS = (-0.5, -0.4, -0.3, -0.2, -0.1, 0.1, 0.2, 0.3, 0.4, 0.5)  # standard deviations


@dataclass(frozen=True, kw_only=True)
class About:
    """Texts about a release, which its dossier (documents for publication) shows unchanged.

    Parameters
    ----------
    title : str, default "A synthetic table"
        Title of the release.
    audience : str, default ""
        The audience and the purpose of the release.
    curator : str, default ""
        The publisher of the data.
    region : str, default ""
        The region of the data.
    published : str, default ""
        The day of publication, as YYYY-MM-DD.

    Examples
    --------
    >>> from missdp.governance.dossier import About
    >>> About(title="Patients").title
    'Patients'
    """

    title: str = "A synthetic table"
    audience: str = ""
    curator: str = ""
    region: str = ""
    published: str = ""


def write_dossier(
    model: Synthesizer | str | Path,
    folder: str | Path,
    *,
    about: About | None = None,
    ledger: Mapping[str, Any] | None = None,
    tipping: Iterable[tuple[str, str]] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write all documents for publishing a release, from the released model and its schema.

    Only the model is read, so this costs no privacy. Equal models make equal bytes.

    Parameters
    ----------
    model : Synthesizer, str or Path
        A fitted model, or the file of a model.
    folder : str or Path
        The folder to make, inside a folder that exists.
    about : About, optional
        Texts about the release.
    ledger : mapping, optional
        The ledger's record of the charge, which ``release.json`` includes.
    tipping : iterable of (str, str), optional
        Attributes that may be missing not at random, each with a question. The report states the
        shift of missing values at which the conclusion changes (`Synthesizer.sensitivity`).
    overwrite : bool, default False
        Whether to replace an existing dossier. Other folders are never replaced.

    Returns
    -------
    dict
        The content of ``release.json``: the SHA-256 of each file, of the model and of the schema.

    Raises
    ------
    SchemaError
        If facts of the schema were read from the private table and not declared public.
    OutputError
        If the folder exists, or cannot be written.
    MissingDependencyError
        Without ``missdp[report]``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> from missdp.governance.dossier import write_dossier
    >>> model = PrivBayes(epsilon=1.0).fit(yrbss().table())
    >>> content = write_dossier(model, pathlib.Path(tempfile.mkdtemp()) / "dossier")
    >>> len(content["files"])
    6
    """
    target = Path(folder)
    check_folder(target, overwrite=overwrite)
    released = model if isinstance(model, Synthesizer) else load(model)
    text = model.fitted_.text() if isinstance(model, Synthesizer) else Path(model).read_bytes()
    _check_declared(released)
    release = released.release_
    facts = ModelSummary(released)
    labels = {
        b"missdp.release": (release or "").encode(),
        b"missdp.what": b"noisy measurements of a private table; no row of it",
        b"missdp.guarantee": in_a_line(released.guarantee_).encode(),
    }
    files = {
        **pages(
            facts,
            vars(about or About()),
            analyses=[released.sensitivity(q, attribute=a, shifts=_SHIFTS) for a, q in tipping],
            release=f"release {release}" if release else "a model without the id of a release",
            ledger=ledger,
            version=version("missdp"),
        ),
        "measurements.parquet": measurements(facts, labels),
        "maintained.csv": _maintained(facts),
    }
    content = seal(
        {
            "dossier": 1,
            "release": release,
            "synthetic": True,
            "guarantee": {
                "epsilon": released.guarantee_.epsilon,
                "delta": released.guarantee_.delta,
                "in words": released.guarantee_.in_words(),
            },
            "files": {name: hashlib.sha256(files[name]).hexdigest() for name in FILES[:-1]},
            "model": hashlib.sha256(text).hexdigest(),
            "schema": digest(json_text(released.schema_.to_dict())),
            "ledger": dict(ledger) if ledger else None,
            "note": "A checksum is no signature: anyone can compute it.",
        }
    )
    encoded = json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8")
    with DelayedSignals(), replacing(OSError, by=partial(write_error, target)):
        _write_folder(target, files | {_RELEASE: encoded})
    return content


_FORMULA = ("=", "+", "-", "@")  # characters that begin a formula in spreadsheets


def _maintained(facts: ModelSummary) -> bytes:
    """Return a CSV file of the relations that are measured, modelled, or implied by rules."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = ["attributes", "maintained", "noise of a cell (share of rows)", "strength"]
    writer.writerow([*columns, "stands out from noise", "rule"])
    for relation in facts.relations:
        names, how, rule = "; ".join(relation.names), relation.how, relation.rule
        values = (relation.std, relation.strength)
        numbers = ("" if x is None else _in_csv(float(x)) for x in values)
        clear = {None: "", True: "yes", False: "no"}[relation.clear]
        writer.writerow([_in_csv(names), how, *numbers, clear, _in_csv(rule)])
    return file.getvalue().encode("utf-8")


def _in_csv(value: object) -> str:
    """Return a cell that spreadsheets do not read as a formula.

    >>> from missdp.governance.dossier import _in_csv
    >>> _in_csv("=1+1"), _in_csv("age"), _in_csv(-0.5)
    ("'=1+1", 'age', '-0.5')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    text = plain_text(value, None)
    return f"'{text}" if text.startswith(_FORMULA) else text


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Raise an error if a folder exists, unless it is empty or a dossier to be replaced."""
    parent = Path(os.path.realpath(folder)).parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise OutputError(
            f"cannot write {str(folder)!r}: its parent folder is absent or cannot be written"
        )
    _check_no_curator_page(parent)
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise OutputError(f"cannot write {str(folder)!r}: it is a file. Choose another folder.")
    _check_no_curator_page(folder)
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return
    if not overwrite:
        raise OutputError(
            f"{str(folder)!r} exists. Use --overwrite to replace a dossier, or choose another "
            "folder."
        )
    if not names <= {*FILES} or not _is_dossier(folder / _RELEASE):
        raise OutputError(
            f"{str(folder)!r} has files that are not part of a dossier. Choose another folder."
        )


_CURATOR_TITLE = b"<title>CURATOR ONLY"


def _check_no_curator_page(folder: Path) -> None:
    """Raise an error if a folder for released files has a curator's page."""
    for page in folder.glob("*.html"):
        with page.open("rb") as file:
            if _CURATOR_TITLE in file.read(4096):
                raise OutputError(
                    f"{str(folder)!r} has a page for the curator only, which must not be published "
                    "with the folder. Choose another folder."
                )


def _is_dossier(path: Path) -> bool:
    with suppress(Exception):
        return "dossier" in read_json(path.read_text(encoding="utf-8"))
    return False


def _check_declared(model: Synthesizer) -> None:
    """Raise an error if facts of the schema come from private rows, since the dossier has them."""
    conditions = model.guarantee_.conditions
    read = {n for c in conditions if isinstance(c, DataDependentDomain) for n in c.attributes}
    read |= {*model.schema_.undeclared}
    columns = (*model.schema_.ignored_columns, *model.schema_.names, FILE)
    if read:
        named = ", ".join(name for name in dict.fromkeys(columns) if name in read)
        raise SchemaError(
            f"facts about {named} were read from the private table and never declared public. A "
            "dossier would publish them. Declare them in the schema, and fit again."
        )


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files into a temporary folder, which then replaces the target folder."""
    place = Path(os.path.realpath(folder))
    with tempfile.TemporaryDirectory(prefix=".missdp-", dir=place.parent) as scratch:
        draft, old = Path(scratch) / "new", Path(scratch) / "old"
        draft.mkdir(mode=0o755)
        for name, content in files.items():
            (draft / name).write_bytes(content)
            with (draft / name).open("rb") as written:
                os.fsync(written.fileno())
        if place.exists():
            place.rename(old)
        try:
            draft.rename(place)
        except BaseException:
            if old.exists():
                old.rename(place)
            raise
        sync_folder(place.parent)
