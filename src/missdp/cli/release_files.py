"""A release as the commands make it: claimed before the charge, kept once paid for, then in place.

Before the charge the side file claims the name. What is paid for is written at once, under a name
of its own; ``side_files.py`` puts all files in place when they are complete.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from missdp.accounting import Guarantee
from missdp.cli import RUN
from missdp.cli.side_files import (
    SIDE,
    TO_REPLACE,
    SideFile,
    digest_of,
    locked_soon,
    same_file,
    settle,
    shown,
    size_and_time,
)
from missdp.errors import MissDPWarning, OutputError, replacing
from missdp.files import Draft, PutOff, refusal, reserved, write_atomically
from missdp.schema import Schema
from missdp.synth.base import Synthesizer
from missdp.synth.registry import load
from missdp.words import in_a_line

# Bytes set aside before the charge: more than models of ordinary surveys take; for each pair of
# levels (eight bytes, as text, and what stands around them); for each column of a guarantee.
_ROOM, _ROOM_OF_PAIR, _ROOM_OF_COLUMN, _MOST_ROOM = 8 * 2**20, 11, 2**14, 2**30


class Release:
    """The files of one release, from the claim on their names until all are in place."""

    def __init__(
        self,
        output: Path,
        *,
        model: Path | None = None,
        guarantee: Path | None = None,
        overwrite: bool = False,
        id: str | None = None,  # noqa: A002 - of a request, which the ledger knows
    ) -> None:
        real = Path(os.path.realpath(output))
        settle(real.parent)
        self.id, self._output, self._overwrite = id or secrets.token_hex(16), output, overwrite
        given = {"model": model, "guarantee": guarantee}
        files = {role: Path(os.path.realpath(path)) for role, path in given.items() if path}
        self._by_hand = [*files.values()]
        files = {"table": real, "model": real.with_name(f"{real.stem}.model.json"), **files}
        side = real.with_name(f"{real.stem}{SIDE}")
        self._note = SideFile(side, self.id, real.stem, True, files, {}, "")
        self._old = self._others_of_old() if overwrite else []
        self._claims: dict[Path, os.stat_result] = {}

    def _others_of_old(self) -> list[Path]:
        """Return files beside the table that of the old release with no successor."""
        old = SideFile.read(self._note.side)
        if old is None or old.begun:
            return []
        found = {role: p for role, p in old.files.items() if p.parent == self._note.side.parent}
        taken = [*self._note.files.values()]
        return [p for role, p in found.items() if p not in taken and p.exists() and old.has(role)]

    @property
    def outputs(self) -> list[Path]:
        """Everything that is written, replaced or removed."""
        return [*self._note.files.values(), self._note.side, *self._old]

    @property
    def is_whole(self) -> bool:
        """Whether all files of this release are in place, by an earlier run."""
        old = SideFile.read(self._note.side)
        return old is not None and not old.begun and old.id == self.id

    @property
    def kept_in_words(self) -> str:
        """What is left of an earlier run of this release that kept its model; empty if none is."""
        model = self._staged("model")
        if not model.exists():
            return ""
        return (
            f". Its model, which is paid for, is {shown(model)!r}: missdp sample draws rows from "
            "it at no cost"
        )

    @property
    def sha256(self) -> str:
        """The SHA-256 of the side file in its place."""
        return digest_of(self._note.side)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the model in its place."""
        return load(self._note.files["model"]).guarantee_

    def note_charge(self, ledger: dict[str, Any]) -> None:
        """Say in the side file which budget was charged."""
        self._note = replace(self._note, ledger=ledger)

    @property
    def wrote(self) -> dict[str, str]:
        """What a document says of the files."""
        model = shown(self._note.files["model"])
        return {"release": self.id, "release_file": shown(self._note.side), "model": model}

    @property
    def wrote_in_words(self) -> str:
        """What is said of the files, but for the table."""
        lines = [
            f"Wrote {self.wrote['model']}: the model; missdp sample draws more rows from it at no "
            "cost.",
            f"Wrote {self.wrote['release_file']}: which files are of this release.",
        ]
        lines += [
            f"Removed {shown(path)}, of the release that this one replaces." for path in self._old
        ]
        return "\n".join(lines)

    @property
    def table(self) -> Path:
        """Where the rows are to be written."""
        return self._staged("table")

    def _staged(self, role: str) -> Path:
        return Path(shown(self._note.staged(role)))  # as messages show it

    @contextlib.contextmanager
    def claimed(self, schema: Schema) -> Iterator[None]:
        """Claim all names and set room aside, before anything is paid for; refuse what is taken."""
        note = self._note
        levels = sum(a.size + 1 for a in schema)
        rooms = {
            "table": 0,
            "model": min(_MOST_ROOM, _ROOM + _ROOM_OF_PAIR * levels**2),
            "guarantee": 2**20 + _ROOM_OF_COLUMN * len(schema),
        }
        with ExitStack() as stack:
            stack.callback(self._clean)
            for path in (note.side, *self._by_hand):
                output = self._output if path == note.side else path  # which the user named
                with PutOff(), replacing(OSError, by=partial(refusal, output)):
                    self._claim(path, stack)
            for path in note.files.values():
                self._refuse_taken(path)
            for path in note.left_models():
                warnings.warn(
                    f"{shown(path)!r} is the model of a release that was paid for and not put in "
                    "place: missdp sample draws rows from it at no cost",
                    MissDPWarning,
                    stacklevel=2,
                )
            there = {*self.outputs} - {note.side, *self._claims}
            moved = {path: facts for path in there if (facts := size_and_time(path))}
            self._note = replace(note, begun=False, replaces=moved)
            for role in note.files:
                stack.enter_context(reserved([self._staged(role)], room=rooms[role]))
            with replacing(OSError, by=partial(refusal, note.journal)):
                self._journal = Draft(note.journal, 2**16)
            stack.callback(self._journal.close)
            yield

    def _claim(self, path: Path, stack: ExitStack) -> None:
        """Create a file that nobody else has, or lock the one that will be replaced."""
        handle = -1
        while handle < 0:
            self._refuse_taken(path)
            taken = os.path.lexists(path)
            with contextlib.suppress(FileExistsError):  # then it has come, or gone, just now
                handle = os.open(path, os.O_RDWR | (0 if taken else os.O_CREAT | os.O_EXCL), 0o666)
        stack.callback(os.close, handle)
        if not taken:
            self._claims[path] = os.fstat(handle)
        if not (locked_soon(handle, 1.0) and same_file(path, handle)) and taken:
            raise OutputError(f"{shown(path)!r} is held by another run, which has not ended")
        if not taken:  # locked by now, if there are locks here: an unlocked claim is a dead one
            os.write(handle, self._note.text())

    def _refuse_taken(self, path: Path) -> None:
        """Refuse to replace what is there unasked, and say what it is."""
        if self._overwrite or path in self._claims or not os.path.lexists(path):
            return
        note = SideFile.read(path)
        if note is None:
            raise OutputError(f"{shown(path)!r} exists. {TO_REPLACE}")
        if note.begun:
            raise OutputError(f"{note.of_claim()}. {TO_REPLACE}")
        raise OutputError(
            f"{shown(note.files['table'])!r} belongs to release {note.id}. Use --overwrite to "
            "replace the whole release, or choose another output name."
        )

    def keep(self, model: Synthesizer) -> None:
        """Write model and guarantee, on the disk before anything else is done with them."""
        model.release_ = self.id
        self._note = replace(self._note, guarantee=in_a_line(model.guarantee_))
        place: Path | None = self._staged("model")
        failed: OutputError | None = None
        with PutOff():
            try:
                model.save(self._staged("model"))
            except OutputError as error:
                place, failed = _saved_elsewhere(model, self._staged("model").name), error
            RUN.note_release(self._said(place))
            if failed is None and "guarantee" in self._note.files:
                text = model.guarantee_.to_json(release=self.id, ledger=self._note.ledger)
                write_atomically(self._staged("guarantee"), text.encode("utf-8"))
        if failed is not None:
            raise failed

    def _said(self, place: Path | None) -> str:
        if place is None:
            return "the model, which could not be saved anywhere"
        free = self._note.side in self._claims and not os.path.lexists(self._note.files["table"])
        rows = str(self._output) if free else shown(self.table)
        again = shlex.join(["missdp", "sample", shown(place), "-o", rows])
        return (
            f"the model of release {self.id}, in {shown(place)!r}; draw rows from it at no "
            f"cost: {again}"
        )

    def commit(self) -> None:
        """Put all files in place, or none; the table must be written by now."""
        note = replace(self._note, sha256=digest_of(self.table))
        with PutOff():
            with replacing(OSError, by=partial(refusal, note.journal)):
                self._journal.write(note.text())
                self._journal.commit()
            note.put_in_place()
            named = ", ".join(repr(shown(path)) for path in note.files.values())
            RUN.note_release(f"all of release {self.id}: {named}")

    def _clean(self) -> None:
        """Remove what is only claimed, and rows without a release: they can be drawn again."""
        with PutOff(), contextlib.suppress(OSError):
            for path, mine in self._claims.items():
                if path.exists() and os.path.samestat(path.stat(), mine):
                    path.unlink()
            if not os.path.lexists(self._note.journal):
                self.table.unlink(missing_ok=True)


def _saved_elsewhere(model: Synthesizer, name: str) -> Path | None:
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="missdp-"))
        with contextlib.suppress(OutputError):
            model.save(folder / name)
            return folder / name
        folder.rmdir()
    return None
