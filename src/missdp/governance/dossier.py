"""The papers of a release in one folder, whole or not at all; a model from its measurements."""

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
from missdp.files import PutOff, refusal, sync_folder
from missdp.governance.chain import canonical, digest
from missdp.governance.facts import ModelSummary
from missdp.governance.measurements import measurements
from missdp.governance.pages import pages
from missdp.governance.rendering import plain
from missdp.schema.schema import FILE
from missdp.serialization import read_json, sealed
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
"""What a dossier consists of."""

_SHIFTS = (-0.5, -0.4, -0.3, -0.2, -0.1, 0.1, 0.2, 0.3, 0.4, 0.5)  # standard deviations


@dataclass(frozen=True, kw_only=True)
class About:
    """What people say of a release; text that is shown as it is.

    Parameters
    ----------
    title : str, default "A synthetic table"
    audience : str
        For whom it is, and what for.
    curator, region : str
        Who publishes it, and which region it is about.
    published : str
        The day, as YYYY-MM-DD.

    Examples
    --------
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
    """Write everything that publishing a release takes, from the released model and its schema.

    Nothing is read but the model, so it costs no privacy, and the same model makes the same bytes.

    Parameters
    ----------
    model : Synthesizer, str or Path
        A fitted model, or the file of one.
    folder : str or Path
        To be made, inside a folder that exists.
    about : About, optional
    ledger : mapping, optional
        What a ledger said of the charge, to be kept beside the release.
    tipping : iterable of (str, str), optional
        Attributes whose values may be missing because of what they are, each with a question: the
        report says where its conclusion turns; see `Synthesizer.sensitivity`.
    overwrite : bool, default False
        Whether to replace a dossier; never anything else.

    Returns
    -------
    dict
        What ``release.json`` says: the SHA-256 of each file, of the model and of the schema.

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
    >>> said = write_dossier(model, pathlib.Path(tempfile.mkdtemp()) / "dossier")
    >>> len(said["files"])
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
    said = sealed(
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
            "schema": digest(canonical(released.schema_.to_dict())),
            "ledger": dict(ledger) if ledger else None,
            "note": "A checksum is no signature: anyone can compute it.",
        }
    )
    content = json.dumps(said, indent=1, ensure_ascii=False).encode("utf-8")
    with PutOff(), replacing(OSError, by=partial(refusal, target)):
        _put(target, files | {_RELEASE: content})
    return said


_FORMULA = ("=", "+", "-", "@")


def _maintained(facts: ModelSummary) -> bytes:
    """Return a CSV file of the relations that were measured, that are modelled, and that follow."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = ["attributes", "maintained", "noise of a cell (share of rows)", "strength"]
    writer.writerow([*columns, "stands out from noise", "rule"])
    for one in facts.relations:
        numbers = ("" if x is None else _in_csv(float(x)) for x in (one.std, one.strength))
        clear = {None: "", True: "yes", False: "no"}[one.clear]
        writer.writerow(
            [_in_csv("; ".join(one.names)), one.how, *numbers, clear, _in_csv(one.rule)]
        )
    return file.getvalue().encode("utf-8")


def _in_csv(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula.

    >>> _in_csv("=1+1"), _in_csv("age"), _in_csv(-0.5)
    ("'=1+1", 'age', '-0.5')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    text = plain(value, None)
    return f"'{text}" if text.startswith(_FORMULA) else text


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is there, unless it is empty, or a dossier that may be replaced."""
    parent = Path(os.path.realpath(folder)).parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise OutputError(
            f"cannot write {str(folder)!r}: the folder around it is absent or cannot be written"
        )
    _check_no_curator_page(parent)
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise OutputError(f"cannot write {str(folder)!r}: it is a file. Choose another folder.")
    _check_no_curator_page(folder)
    found = {entry.name for entry in folder.iterdir()}
    if not found:
        return
    if not overwrite:
        raise OutputError(
            f"{str(folder)!r} exists. Use --overwrite to replace a dossier, or choose another "
            "folder."
        )
    if not found <= {*FILES} or not _is_dossier(folder / _RELEASE):
        raise OutputError(
            f"{str(folder)!r} holds what is of no dossier, and is not replaced; name another folder"
        )


_OWN = b"<title>CURATOR ONLY"


def _check_no_curator_page(folder: Path) -> None:
    """Refuse a folder with a curator's page in it for anything that is to be released."""
    for page in folder.glob("*.html"):
        with page.open("rb") as file:
            if _OWN in file.read(4096):
                raise OutputError(
                    f"{str(folder)!r} holds a page for the curator only: a folder is easily "
                    "published as a whole; write to another one"
                )


def _is_dossier(path: Path) -> bool:
    with suppress(Exception):
        return "dossier" in read_json(path.read_text(encoding="utf-8"))
    return False


def _check_declared(model: Synthesizer) -> None:
    """Refuse a model whose schema was made from the private rows: the papers would show them."""
    conditions = model.guarantee_.conditions
    read = {n for c in conditions if isinstance(c, DataDependentDomain) for n in c.attributes}
    read |= {*model.schema_.undeclared}
    columns = (*model.schema_.ignored_columns, *model.schema_.names, FILE)
    if read:
        named = ", ".join(name for name in dict.fromkeys(columns) if name in read)
        raise SchemaError(
            f"facts about {named} were read from the private table and never declared public; a "
            "dossier would publish them. Declare them in the schema, and fit again"
        )


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files into a folder of another name, which then takes the place of this one."""
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
