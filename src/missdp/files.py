"""Files are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from missdp.errors import OutputError

__all__ = ["atomic_path", "check_writable", "write_atomically"]


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it only if the block succeeds.

    Raises
    ------
    OutputError
        If the folder does not exist or cannot be written, or the file system refuses.
    """
    check_writable(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _apply_umask(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or 'I/O error'}") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write bytes to a file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def check_writable(path: Path) -> None:
    """Refuse early, before any budget is spent, a path that cannot be written.

    Raises
    ------
    OutputError
        If the path is a folder, or its folder is absent or not writable.
    """
    if path.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: the folder does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"cannot write {str(path)!r}: no permission to write in its folder")


def _apply_umask(path: Path) -> None:
    """Give a file made by ``mkstemp`` (mode 0600) the permissions of an ordinary new file."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
