"""``missdp.toml``: what is the same in every call, found in this folder or in one above."""

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
    """Return the file of the current folder, or else of its nearest parent that has one."""
    here = Path.cwd()
    return next((p for folder in (here, *here.parents) if (p := folder / NAME).is_file()), None)


def _check_owner(path: Path, shown: str) -> None:
    """Refuse the file of somebody else: it says which ledger is charged, and by what schema."""
    if sys.platform == "win32":
        return
    about = path.stat()
    if about.st_uid not in (os.getuid(), 0) or about.st_mode & 0o022:
        raise ParameterError(
            f"{shown!r} belongs to somebody else, or others may write it. Remove it, or take it "
            "over (chown, chmod go-w)."
        )


def project_settings() -> dict[str, Any]:
    """Return the values that options have where a command does not give them.

    Paths in the file are relative to its folder.

    Raises
    ------
    ParameterError
        If the file cannot be read, has an unknown key, or belongs to somebody else.
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
