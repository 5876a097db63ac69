"""The label beside synthetic rows: which release they were drawn from, and their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

from missdp.cli.rows import shown
from missdp.errors import MissDPWarning
from missdp.files import write_atomically
from missdp.synth.base import Synthesizer
from missdp.synth.fitted import release_in

STAMP = b"missdp.release"
"""Where a Parquet file has the id of its release."""
LABEL = ".synthetic.json"
_MAX_BYTES = 2**20  # of a label


def label_of(rows: Path) -> Path:
    """Return where the label of a file of synthetic rows is."""
    return rows.with_name(f"{rows.name}{LABEL}")


def write_label(model: Synthesizer, rows: Path) -> None:
    """Write the label of rows that were drawn from a model."""
    label = {
        "synthetic": True,
        "release": model.release_,
        "guarantee": model.guarantee_.in_words(),
        "sha256": sha256_of(rows),
    }
    write_atomically(label_of(rows), json.dumps(label, indent=1).encode())


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_rows_of(rows: Path, model: Synthesizer | None = None) -> None:
    """Warn if rows are not what their label states, or are of another release than a model.

    Parameters
    ----------
    rows : Path
        A file of synthetic rows. Without a label nothing is known of it.
    model : Synthesizer, optional
        The model that the rows are looked at with. By default the model that stands beside the
        rows as `missdp synthesize` writes it, if there is one.
    """
    label = _read(label_of(rows))
    if label is None:
        return
    release, name = label.get("release"), shown(rows)
    if os.path.exists(rows) and label.get("sha256") != sha256_of(rows):
        _warn(f"{name!r} was changed after it was drawn: its SHA-256 is not that of its label.")
        return
    beside = rows.with_name(f"{rows.stem}.model.json")
    other = model.release_ if model is not None else (release_in(beside) or release)
    if other != release:
        of = "the model" if model is not None else repr(shown(beside))
        _warn(
            f"{name!r} was drawn from release {release}, and {of} is of release {other}. Draw the "
            "rows anew with `missdp sample`."
        )


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a label states, or None if there is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if path.is_file() and path.stat().st_size <= _MAX_BYTES:
            found = json.loads(path.read_bytes())
            return found if isinstance(found, dict) else None
    return None


def _warn(text: str) -> None:
    warnings.warn(text, MissDPWarning, stacklevel=3)
