"""Lines of a ledger that the files of releases state, and the check that a ledger has them.

A ledger that was restored from a backup, or was lost and created again, lacks charges. The files of
releases do not: each file states the line of the ledger that paid for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from missdp.errors import DataError, LedgerError, MissDPError, replacing
from missdp.governance.chain import answer_digest
from missdp.serialization import WRONG, read_json

if TYPE_CHECKING:
    from missdp.governance.ledger import Ledger

_MAX_BYTES = 2**28  # bytes of a file that is read; a larger file is not a model
_MAX_LINES = 2**63  # limit of the number of a line in a database
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class StatedLine:
    """A line of a ledger that a file of a release states.

    Parameters
    ----------
    root : str
        The name of the table's budget.
    number : int
        The number of the line in the chain of that budget.
    head : str
        The hash of the line.
    """

    root: str
    number: int
    head: str


@dataclass(frozen=True)
class StatedRelease:
    """A release as its file states it.

    Parameters
    ----------
    release : str
        The id.
    output : str or None
        The SHA-256 of the output, if the file is the output: a model or a saved answer.
    line : StatedLine or None
        The line that paid for the release, if a ledger did.
    """

    release: str
    output: str | None
    line: StatedLine | None


def stated_release(path: Path) -> StatedRelease:
    """Return the release that a file states: a model, an answer, or the list of a dossier.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    StatedRelease

    Raises
    ------
    DataError
        If the file is not a file of a release.
    """
    wrong = DataError(f"{str(path)!r} is not a file of a release")
    with replacing(OSError, MissDPError, *WRONG, by=wrong):
        content = path.read_bytes()
        document = read_json(content.decode("utf-8"))
        paid = document.get("ledger")
        output = None
        if "family" in document:  # a model, which is the output itself
            output = hashlib.sha256(content).hexdigest()
        elif "release" not in document:
            output = answer_digest(document)
        release = str(document["release"] if "release" in document else paid["request"])
        return StatedRelease(release, output, None if paid is None else _stated_line(paid))
    raise wrong


def _stated_line(paid: dict[str, object]) -> StatedLine:
    root, number, head = str(paid["budget"]).partition("/")[0], paid["lines"], str(paid["head"])
    if type(number) is not int or not 1 <= number < _MAX_LINES or not _HASH.fullmatch(head):
        raise ValueError
    return StatedLine(root, number, head)


def check_has_lines(
    ledger: Ledger, root: str, folders: Iterable[Path], *, if_lost: str = ""
) -> None:
    """Raise an error if the ledger lacks a line that a file of a release states.

    This check is no proof. It reads models and other files whose name ends in `.json`, of up to
    256 MiB, in the given folders without their subfolders. `missdp ledger verify --head` proves
    that a ledger is complete.

    Parameters
    ----------
    ledger : Ledger
        The ledger to check.
    root : str
        The name of the table's budget.
    folders : iterable of Path
        Folders that may have files of releases: of data, schema and output.
    if_lost : str, default ""
        A sentence about another remedy, which ends the message.

    Raises
    ------
    LedgerError
        If a line is missing. The message names the file. Nothing is charged or recorded.
    """
    for path, line in _stated_lines(folders):
        if line.root == root and not ledger.has_line(root, line.number, line.head):
            raise LedgerError(
                f"the ledger was lost, or is an older copy: it lacks line {line.number} of the "
                f"account {root!r}, which {path.name!r} states. Nothing was charged or read. "
                "Restore the newest copy of the ledger"
                f"{if_lost}"
            )


def _stated_lines(folders: Iterable[Path]) -> Iterator[tuple[Path, StatedLine]]:
    """Yield the lines that files in some folders state. Unreadable files state no line."""
    for folder in sorted({folder.resolve() for folder in folders}):
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, MissDPError):
                is_small = path.is_file() and path.stat().st_size <= _MAX_BYTES
                if is_small and b'"ledger"' in path.read_bytes():
                    line = stated_release(path).line
                    if line is not None:
                        yield path, line
