"""Which lines of a ledger the files of releases state, and whether a ledger has these lines.

A ledger that was restored from a backup, or was lost and made anew, has forgotten charges. The
files of releases have not: each states the line of the ledger that paid for it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from missdp.errors import LedgerError, MissDPError
from missdp.serialization import WRONG, read_json

if TYPE_CHECKING:
    from missdp.governance.ledger import Ledger

_MAX_BYTES = 2**28  # of a file that is looked at: a larger one is no model
_MAX_LINES = 2**63  # of a chain, below which databases hold the number of a line
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class StatedLine:
    """A line of a ledger that a file of a release states.

    Parameters
    ----------
    path : Path
        The file.
    root : str
        The name of the table's budget.
    number : int
        The number of the line in the chain of that budget.
    head : str
        The hash of the line.
    """

    path: Path
    root: str
    number: int
    head: str


def stated_lines(folders: Iterable[Path], root: str) -> list[StatedLine]:
    """Return the lines of one table's budget that the files in some folders state.

    Parameters
    ----------
    folders : iterable of Path
        Folders to look into, without the folders in them.
    root : str
        The name of the table's budget.

    Returns
    -------
    list of StatedLine
        By file name. Files that cannot be read state nothing.
    """
    real = {folder.resolve() for folder in folders}
    found = (_stated_in(path) for folder in sorted(real) for path in _files_in(folder))
    return [line for line in found if line is not None and line.root == root]


def check_has_lines(
    ledger: Ledger, root: str, folders: Iterable[Path], *, if_lost: str = ""
) -> None:
    """Refuse a ledger that lacks a line that a file of a release states.

    This check is a help. It looks at models and other files whose name ends in `.json`, of up to
    256 MiB, in the folders of data, schema and output. Subfolders are not looked at. `missdp
    ledger verify --head` is what proves that a ledger is whole.

    Parameters
    ----------
    ledger : Ledger
    root : str
        The name of the table's budget.
    folders : iterable of Path
        Where files of releases may be.
    if_lost : str, default ""
        A sentence about another remedy, for the message.

    Raises
    ------
    LedgerError
        That names the file. Nothing is charged or recorded.
    """
    for line in stated_lines(folders, root):
        if not ledger.has_line(root, line.number, line.head):
            raise LedgerError(
                f"the ledger was lost, or is an older copy: it lacks line {line.number} of the "
                f"account {root!r}, which {line.path.name!r} states. Nothing was charged or read. "
                "Restore the newest copy of the ledger"
                f"{if_lost}"
            )


def _files_in(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in sorted(folder.glob("*.json")):
            if path.is_file():
                yield path


def _stated_in(path: Path) -> StatedLine | None:
    with contextlib.suppress(OSError, MissDPError, *WRONG):
        if path.stat().st_size > _MAX_BYTES:
            return None
        content = path.read_bytes()
        if b'"ledger"' not in content:
            return None
        said = read_json(content.decode("utf-8"))["ledger"]
        root, lines, head = str(said["budget"]).partition("/")[0], said["lines"], said["head"]
        if type(lines) is int and 1 <= lines < _MAX_LINES and _HASH.fullmatch(head):
            return StatedLine(path, root, lines, head)
    return None
