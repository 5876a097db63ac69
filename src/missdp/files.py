"""Files are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from missdp.errors import OutputError

__all__ = ["atomic_path", "check_outputs", "check_writable", "write_atomically"]


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it only if the block succeeds.

    A link is followed, and a file that is replaced keeps its permissions.

    Raises
    ------
    OutputError
        If the folder does not exist or cannot be written, or the file system refuses.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=".missdp-", suffix=".tmp", dir=target.parent)
        temporary = Path(name)
        os.close(handle)
        yield temporary
        _set_permissions(temporary, target)
        os.replace(temporary, target)
    except OSError as error:
        raise _refusal(path, error) from None
    finally:
        if temporary is not None:
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
        If the path is a folder or a device, or its folder is absent or not writable.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        kind = None
    except (OSError, ValueError) as error:
        raise _refusal(path, error) from None
    if kind == stat.S_IFDIR:
        raise OutputError(f"cannot write {str(path)!r}: it is a folder; name a file in it")
    if kind not in (None, stat.S_IFREG):
        # Replacing a device or a pipe by a file would destroy it.
        raise OutputError(f"cannot write {str(path)!r}: it is not an ordinary file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: the folder does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {str(path)!r}: no permission to write in its folder")


def check_outputs(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse early outputs that cannot be written, or that would overwrite what is needed.

    Parameters
    ----------
    outputs, inputs : iterable of Path or None
        Files of one command; None stands for an option that was not given.

    Raises
    ------
    OutputError
        If an output cannot be written, is an input, or is named twice.
    """
    taken = {os.path.realpath(path): "input" for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        place = os.path.realpath(path)
        if place in taken:
            raise OutputError(
                f"cannot write {str(path)!r}: it is an {taken[place]} of the same command already"
            )
        taken[place] = "output"


def _refusal(path: Path, error: OSError | ValueError) -> OutputError:
    reason = getattr(error, "strerror", None) or "the system refuses this path"
    return OutputError(f"cannot write {str(path)!r}: {reason}")


def _set_permissions(temporary: Path, target: Path) -> None:
    """Keep the target's permissions, or take those of an ordinary new file: mkstemp's are 0600."""
    if target.exists():
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        return
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
