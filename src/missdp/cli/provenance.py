"""Labels of synthetic rows: a file with the release of the rows, and their SHA-256."""

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
"""The metadata key of a Parquet file for the id of its release."""
LABEL = ".synthetic.json"
"""The suffix of label files."""
_MAX_BYTES = 2**20  # bytes of a label


def label_of(rows: Path) -> Path:
    """Return the path of the label of a file of synthetic rows."""
    return rows.with_name(f"{rows.name}{LABEL}")


def write_label(model: Synthesizer, rows: Path) -> None:
    """Write the label of rows from a model."""
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
    """Warn if rows differ from their label, or from the release of a model.

    Parameters
    ----------
    rows : Path
        A file of synthetic rows. Without a label there is no check.
    model : Synthesizer, optional
        The model that is compared. By default the model file that `missdp synthesize` writes in the
        folder of the rows, if it exists.
    """
    label = _read(label_of(rows))
    if label is None:
        return
    release, name = label.get("release"), shown(rows)
    if os.path.exists(rows) and label.get("sha256") != sha256_of(rows):
        _warn(f"{name!r} was changed after it was drawn: its SHA-256 differs from its label.")
        return
    neighbour = rows.with_name(f"{rows.stem}.model.json")
    other = model.release_ if model is not None else (release_in(neighbour) or release)
    if other != release:
        of = "the model" if model is not None else repr(shown(neighbour))
        _warn(
            f"{name!r} was drawn from release {release}, but {of} has release {other}. Draw the "
            "rows again with `missdp sample`."
        )


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a label, or None without a label."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if path.is_file() and path.stat().st_size <= _MAX_BYTES:
            label = json.loads(path.read_bytes())
            return label if isinstance(label, dict) else None
    return None


def _warn(text: str) -> None:
    """Warn in the name of the caller."""
    warnings.warn(text, MissDPWarning, stacklevel=3)
