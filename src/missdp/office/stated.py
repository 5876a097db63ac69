"""What released files say of a ledger: the only proof that none of its lines was cut off."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from missdp.errors import DataError, LedgerError, replacing
from missdp.office.chain import Replay, canonical, digest
from missdp.record import WRONG


@dataclass(frozen=True)
class Stated:
    """A line that a ledger must have, and a release that it must have charged.

    Parameters
    ----------
    head : str or None
        The hash of the line; None if a release says nothing of a ledger.
    lines : int or None
        Its number.
    release : str or None
        The id of the release.
    output : str or None
        The SHA-256 of what was released, which the ledger holds as well.
    """

    head: str | None
    lines: int | None = None
    release: str | None = None
    output: str | None = None

    @classmethod
    def in_file(cls, path: Path) -> list[Stated]:
        """Return what a file states: of a release, or an export of a whole ledger."""
        wrong = DataError(f"{str(path)!r} is no file of a release or of a ledger")
        document: Any = {}
        with replacing(OSError, *WRONG, by=wrong):
            content = path.read_bytes()
            with contextlib.suppress(ValueError):  # an export has an object on each line
                document = json.loads(content)
            if "ledger" in document or "release" in document:
                return [cls._of_release(document, content)]
            return cls._in_export(content.decode("utf-8"))
        raise wrong

    @classmethod
    def _in_export(cls, text: str) -> list[Stated]:
        last = {}
        for line in map(json.loads, text.splitlines()):
            body = json.loads(line["body"])
            last[body["root"]] = cls(line["hash"], body["number"])
        return [*last.values()]

    @classmethod
    def _of_release(cls, document: Mapping[str, Any], content: bytes) -> Stated:
        ledger = document.get("ledger") or {}
        release = document["release"] if "release" in document else ledger["request"]
        if "state" in document:  # it says which files are of the release
            output = hashlib.sha256(content).hexdigest()
        elif "release" in document:
            output = None
        else:
            output = answer_digest(document)
        return cls(ledger.get("head"), ledger.get("lines"), str(release), output)

    def check(self, replay: Replay) -> None:
        """Refuse a ledger that lacks the line or the release, or has another output of it."""
        found = replay.hashes.get(self.head or "")
        if self.head is not None and (found is None or self.lines not in (None, found)):
            raise LedgerError(
                f"the ledger was cut or restored: it lacks the line {self.head[:12]}... that a "
                "release states"
            )
        release = self.release
        if release is None:
            return
        if replay.states.get(release) not in ("started", "released", "abandoned"):
            raise LedgerError(f"the ledger lacks the release {release}: it was never charged")
        if self.output is not None and replay.outputs.get(release, self.output) != self.output:
            raise LedgerError(f"what says of release {release} what was released was changed")


def answer_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an answer as it is saved: without the warnings of a run."""
    return digest(canonical({k: value for k, value in document.items() if k != "warnings"}))
