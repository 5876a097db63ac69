"""``missdp.toml``: defaults of options, in this folder or in a parent folder."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from missdp.errors import ParameterError, did_you_mean, replacing

NAME = "missdp.toml"
KEYS = ("schema", "ledger", "account", "delta")


def project_file() -> Path | None:
    """Return the project file of the current folder, or of its nearest parent with such a file."""
    here = Path.cwd()
    return next((p for folder in (here, *here.parents) if (p := folder / NAME).is_file()), None)


def _check_owner(path: Path, shown: str) -> None:
    """Raise ParameterError for a file of another user, since it selects ledger and schema."""
    if sys.platform == "win32":
        return
    about = path.stat()
    if about.st_uid not in (os.getuid(), 0) or about.st_mode & 0o022:
        raise ParameterError(
            f"{shown!r} belongs to another user, or other users may write it. Remove it, or change "
            "its owner and mode (chown, chmod go-w)."
        )


def project_settings() -> dict[str, Any]:
    """Return the defaults of options in the project file.

    Paths in the file are relative to its folder.

    Raises
    ------
    ParameterError
        If the file cannot be read, has an unknown key, or belongs to another user.
    """
    path = project_file()
    if path is None:
        return {}
    shown = os.path.relpath(path)
    _check_owner(path, shown)
    unreadable = ParameterError(f"{shown!r} is not valid TOML. See docs/commands.md.")
    with replacing(OSError, ValueError, by=unreadable):
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    for key, value in settings.items():
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            raise ParameterError(f"{shown!r}: unknown key {key!r}. Keys: {', '.join(KEYS)}{near}")
        kind: Any = (int, float) if key == "delta" else str
        if not isinstance(value, kind) or isinstance(value, bool):
            word = "text in quotes" if kind is str else "a number"
            raise ParameterError(f"{shown!r}: {key} must be {word}.")
    if "schema" in settings:
        settings["schema"] = os.path.relpath(path.parent / settings["schema"])
    place = str(settings.get("ledger", "")).removeprefix("sqlite:///")
    if settings.get("ledger", "").startswith("sqlite:///") and not os.path.isabs(place):
        settings["ledger"] = f"sqlite:///{os.path.relpath(path.parent / place)}"
    return settings
