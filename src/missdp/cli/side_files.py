"""Side files: which files are of one release, and how these take their places together.

A random id in a table's side file ``NAME.release.json``, in the model and in the guarantee says
which belong together. Until all are complete they stand as ``NAME-ID.model.json`` and the like.
Then ``NAME-ID.release.json`` says so: whatever stops the run from then on, the next command
finishes it, or undoes it. What is replaced goes into ``NAME.old-ID/``, the new files in, the side
file last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from missdp.errors import DataError, MissDPError, MissDPWarning, OutputError, replacing
from missdp.files import PutOff, locked, refusal, sync_folder
from missdp.record import WRONG, read_json

SIDE = ".release.json"
STAMP = b"missdp.release"
"""Where a Parquet file has the id of its release."""
_ID = "[0-9a-f]{32}"
#: What a refusal to replace a file ends with.
TO_REPLACE = "Use --overwrite to replace it, or choose another output."
_ENDINGS = {"model": ".model.json", "guarantee": ".guarantee.json"}
_WAIT = 10.0  # seconds, at the most, for another run that is putting files in place


@dataclass(frozen=True)
class SideFile:
    """What a side file says: whose it is, and which its files are, or will be."""

    path: Path
    id: str
    name: str
    begun: bool
    files: dict[str, Path]
    replaces: dict[Path, tuple[int, int]]  # with size and time, so that nothing else is moved
    sha256: str  # of the table
    ledger: dict[str, Any] | None = None  # which budget was charged, and its chain after that
    guarantee: str = ""

    @classmethod
    def read(cls, path: Path) -> SideFile | None:
        """Return what a file says, or None if it is no side file."""
        with contextlib.suppress(OSError, MissDPError, *WRONG):
            if not path.is_file():  # reading would take from a pipe what others wait for
                return None
            with path.open("rb") as file:
                said = read_json(file.read(2**20).decode("utf-8"))
            files = {role: _at(path, name) for role, name in said["files"].items()}
            moved = {_at(path, name): (*facts,) for name, facts in said["replaces"].items()}
            begun = said["state"] == "begun"
            promised = said.get("guarantee", "")
            facts = (begun, files, moved, said["sha256"], said.get("ledger"), promised)
            note = cls(path, said["release"], said["name"], *facts)
            known = {*files} <= {"table", *_ENDINGS} and re.fullmatch(_ID, note.id)
            return note if known and os.path.basename(note.name) == note.name else None
        return None

    def text(self) -> bytes:
        """Return the content of the file."""

        def named(path: Path) -> str:
            return _relative(path, self.path.parent)

        said = {
            "release": self.id,
            "name": self.name,
            "state": "begun" if self.begun else "whole",
            "files": {role: named(path) for role, path in self.files.items()},
            "replaces": {named(path): facts for path, facts in self.replaces.items()},
            "sha256": self.sha256,
            "synthetic": True,
            "guarantee": self.guarantee,
        }
        said |= {} if self.ledger is None else {"ledger": self.ledger}
        return json.dumps(said, indent=1).encode()

    @property
    def side(self) -> Path:
        """Where the side file of the release is."""
        return self.path.with_name(f"{self.name}{SIDE}")

    @property
    def journal(self) -> Path:
        """Where the side file is while the others are put in place."""
        return self.path.with_name(f"{self.name}-{self.id}{SIDE}")

    def staged(self, role: str) -> Path:
        """Return where a file of the release is until all are complete."""
        path = self.files[role]
        return path.with_name(f"{self.name}-{self.id}{_ENDINGS.get(role, path.suffix)}")

    def old(self, path: Path) -> Path:
        """Return where a file that is replaced is until the new ones are in place."""
        return path.parent / f"{self.name}.old-{self.id}" / path.name

    def has(self, role: str) -> bool:
        """Whether the file in this place is the one of this release."""
        path = self.files[role]
        return digest_of(path) == self.sha256 if role == "table" else _id_of(path) == self.id

    def put_in_place(self) -> None:
        """Move the old files away and the new ones in; if that fails, everything back."""
        try:
            self._move()
        except OSError as error:
            failed = refusal(self.side, error)
        else:
            self._remove_old()
            return
        with replacing(OSError, by=self._stuck):
            self._move_back()
        raise OutputError(f"{failed}; everything is where it was")

    def _stuck(self, error: BaseException) -> OutputError:
        return OutputError(
            f"release {self.id} is half in place: {refusal(self.side, error)}. Every missdp "
            "command on a file of this folder tries again"
        )

    def _move(self) -> None:
        new = {
            role: path for role, path in self.files.items() if os.path.lexists(self.staged(role))
        }
        for path in new.values():
            there, claim = size_and_time(path), SideFile.read(path)
            ours = claim is not None and claim.id == self.id
            if there is not None and not ours and there != self.replaces.get(path):
                raise OutputError(f"{shown(path)!r} was written by somebody else meanwhile")
        # What has no successor is moved only beside the side file: who made that could move it too.
        alone = {p for p in self.replaces if p.parent == self.path.parent} - {*self.files.values()}
        for path in {*new.values(), *alone}:
            if path in self.replaces and size_and_time(path) == self.replaces[path]:
                self.old(path).parent.mkdir(exist_ok=True)
                os.replace(path, self.old(path))
        for role, path in new.items():
            if self.old(path).exists():
                self.staged(role).chmod(stat.S_IMODE(self.old(path).stat().st_mode))
            os.replace(self.staged(role), path)
        self._sync()
        os.replace(self.journal, self.side)
        self._sync()

    def _move_back(self) -> None:
        for role, path in self.files.items():
            if path.exists() and not os.path.lexists(self.staged(role)) and self.has(role):
                os.replace(path, self.staged(role))
        for path in self.replaces:
            if os.path.lexists(self.old(path)) and not os.path.lexists(path):
                os.replace(self.old(path), path)
                with contextlib.suppress(OSError):
                    self.old(path).parent.rmdir()
        self._sync()
        self.journal.unlink()

    def _remove_old(self) -> None:
        for folder in {self.old(path).parent for path in self.replaces}:
            shutil.rmtree(folder, ignore_errors=True)

    def _sync(self) -> None:
        for folder in {path.parent for path in (self.side, *self.files.values())}:
            sync_folder(folder)

    def of_claim(self) -> str:
        """Say whose claim a file is, and what is left of the run that made it."""
        claim = f"{shown(self.path)!r} is only the claim of release {self.id}"
        if _busy(self.path):
            return f"{claim}, of a run that has not ended"
        kept = self.staged("model")
        if not kept.exists():
            return (
                f"{claim}, whose run was killed and kept no model; if it had begun to read private "
                "rows, count its epsilon as charged"
            )
        return (
            f"{claim}, whose run was killed; its model, which is paid for, is {shown(kept)!r}: "
            "missdp sample draws rows from it at no cost"
        )

    def left_models(self) -> list[Path]:
        """Return models of this name that were kept, but are not in their place."""
        return _named(self.path.parent, rf"{re.escape(self.name)}-{_ID}\.model\.json")


def settle(folder: Path) -> None:
    """Finish, or else undo, what stopped runs left half in place in a folder, and say so."""
    for path in _named(folder, rf".+-{_ID}\.release\.json"):
        note = SideFile.read(path)
        if note is None or path != note.journal:
            continue
        with replacing(OSError, by=partial(refusal, path)), PutOff(), _alone(path) as found:
            if found:
                note.put_in_place()
                named = ", ".join(repr(shown(file)) for file in note.files.values())
                _warn(f"release {note.id}, which a stopped run left half in place, is now: {named}")
    for path in _named(folder, rf".+\.old-{_ID}"):
        name, _, of = path.name.rpartition(".old-")
        note = SideFile.read(folder / f"{name}{SIDE}")
        if note is not None and note.id == of and not _busy(note.path):
            note._remove_old()
            _warn(f"what release {of} replaced is removed; the run that did so was stopped before")


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Wait for another run that puts files in place; yield whether it is still there."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        handle = -1
    if handle < 0:
        yield False
        return
    try:
        if not locked_soon(handle, _WAIT):
            raise OutputError(f"another run is putting in place what {shown(path)!r} names; wait")
        yield same_file(path, handle)
    finally:
        os.close(handle)


def check_together(path: Path) -> None:
    """Say whether a file and those of its release belong together; refuse a mere claim."""
    real = Path(os.path.realpath(path))
    settle(real.parent)
    claim = SideFile.read(real)
    if claim is not None and claim.begun:
        raise DataError(claim.of_claim())
    for side in _named(real.parent, r".+\.release\.json"):
        note = SideFile.read(side)
        if note is None or real not in note.files.values():
            continue
        if note.begun:
            _warn(note.of_claim())
            continue
        files = {role: file for role, file in note.files.items() if file.exists()}
        if others := [_whose(file) for role, file in files.items() if not note.has(role)]:
            _warn(
                f"files of two releases are mixed: {shown(side)!r} is of release {note.id}, but "
                f"{', and '.join(others)}"
            )


def check_free(outputs: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse to replace a file unasked, and a released table or one that is being made at all.

    Several outputs are one set of tables: none of another set may stand among them.
    """
    for output in outputs:
        real = Path(os.path.realpath(output))
        settle(real.parent)
        note = SideFile.read(real.with_name(f"{real.stem}{SIDE}"))
        if note is not None and note.files.get("table") == real:
            if not note.begun:
                raise OutputError(
                    f"cannot write {str(output)!r}: it is the table of release {note.id}, and "
                    f"would not be what {shown(note.path)!r} says; name another output"
                )
            if _busy(note.path):
                raise OutputError(note.of_claim())
            _warn(note.of_claim())
        if os.path.lexists(output) and not overwrite:
            raise OutputError(f"{shown(output)!r} exists. {TO_REPLACE}")
    for path in _others_of_set(outputs):
        raise OutputError(
            f"{shown(path)!r} would seem to be of the same set of tables; remove it, or name "
            "another output"
        )


def _others_of_set(outputs: Sequence[Path]) -> list[Path]:
    """Return files that are numbered as several outputs are, but are none of them."""
    if len(outputs) < 2:
        return []
    first = outputs[0]
    stem = re.escape(first.stem.removesuffix("-1"))
    found = _named(first.parent, rf"{stem}-\d+{re.escape(first.suffix)}")
    return [path for path in found if path not in outputs]


def _whose(path: Path) -> str:
    of = _id_of(path)
    return f"{shown(path)!r} is " + (f"of release {of}" if of else "not, or was changed")


def _id_of(path: Path) -> str | None:
    """Return the id of the release that a file says it is of."""
    import pyarrow.parquet

    with contextlib.suppress(OSError, MissDPError, pyarrow.ArrowException, *WRONG):
        if path.suffix == ".json":
            found = read_json(path.read_bytes().decode("utf-8"))["release"]
        else:
            found = pyarrow.parquet.read_schema(path).metadata[STAMP].decode()
        return found if re.fullmatch(_ID, found) else None
    return None


def shown(path: Path) -> str:
    """Return the shorter of a path's names, as people would write it."""
    return min(str(path), _relative(path, Path.cwd()), key=len)


def _relative(path: Path, folder: Path) -> str:
    with contextlib.suppress(ValueError):  # on another drive
        return os.path.relpath(path, folder)
    return str(path)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_and_time(path: Path) -> tuple[int, int] | None:
    """Return size and time of what is in a place, which moving it does not change."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        return found.st_size, found.st_mtime_ns
    return None


def _at(path: Path, name: str) -> Path:
    return Path(os.path.normpath(path.parent / name))


def same_file(path: Path, handle: int) -> bool:
    """Whether an open file is still the one of this name."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(path), os.fstat(handle))
    return False


def locked_soon(handle: int, seconds: float) -> bool:
    """Lock a file, which others lock for a moment to see whether they can."""
    until = time.monotonic() + seconds
    while not locked(handle):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _busy(path: Path) -> bool:
    """Whether a run that has not ended holds a file."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return not locked(file.fileno(), shared=True)
    return False


def _named(folder: Path, pattern: str) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted(folder / e.name for e in entries if re.fullmatch(pattern, e.name))
    return []


def _warn(text: str) -> None:
    warnings.warn(text, MissDPWarning, stacklevel=3)
