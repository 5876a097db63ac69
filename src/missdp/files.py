"""Atomic files: a file is written completely or not at all.

Content is written to a hidden temporary file in the folder of its target. The complete file then
replaces the target. The writing process holds a lock on the temporary file. A killed process leaves
its temporary file. The next run that writes into the folder removes temporary files without a lock.
Signals are delayed until a charged model is saved.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

from missdp.errors import (
    OutputError,
    ParameterError,
    import_optional,
    replacing,
)

if sys.platform != "win32":
    import fcntl

# Error numbers of a system that cannot create a file in an existing folder.
_UNWRITABLE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}
_PREFIX, _SUFFIX = ".missdp-", ".tmp"
_LOCK_SECONDS = 60.0  # age in seconds at which a temporary file in use has a lock


@contextlib.contextmanager
def atomic_path(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path whose file replaces a target file only if the block succeeds.

    A link is followed, and a replaced file keeps its permissions.

    Parameters
    ----------
    path : Path
        The target file.
    overwrite : bool, default True
        Whether an existing file is replaced. If not, also a file that another process wrote
        meanwhile is kept.

    Yields
    ------
    Path
        The temporary path, in the folder of the target.

    Raises
    ------
    OutputError
        If the file cannot be written, or exists and must not be replaced.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))
    with replacing(OSError, by=partial(write_error, path)):
        _sweep(target.parent)
        handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=target.parent)
        try:
            lock_file(handle)
            yield Path(name)
            _set_permissions(Path(name), target)
            os.fsync(handle)
            if sys.platform == "win32":  # where an open file cannot be renamed
                os.close(handle)
                handle = -1
            _put_in_place(name, target, overwrite=overwrite)
            sync_folder(target.parent)
        finally:
            with contextlib.suppress(OSError):
                os.close(handle)
            with contextlib.suppress(OSError):
                os.unlink(name)


def write_atomically(path: Path, content: bytes, *, overwrite: bool = True) -> None:
    """Write bytes to a file, completely or not at all.

    Parameters
    ----------
    path : Path
        The file.
    content : bytes
        The bytes.
    overwrite : bool, default True
        Whether an existing file is replaced.

    Raises
    ------
    OutputError
        If the file cannot be written, or exists and must not be replaced.
    """
    with atomic_path(path, overwrite=overwrite) as place:
        place.write_bytes(content)


def _put_in_place(name: str, target: Path, *, overwrite: bool) -> None:
    """Give a complete file its name, in one step."""
    if overwrite:
        os.replace(name, target)
        return
    is_there = False
    try:
        os.link(name, target)
    except FileExistsError:
        is_there = True
    except OSError:  # a disk without links
        is_there = os.path.lexists(target)
        if not is_there:
            os.replace(name, target)
    if is_there:
        raise OutputError(f"cannot write {str(target)!r}: another process wrote it")


#: Signals that stop a run and can be handled.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class DelayedSignals(contextlib.AbstractContextManager["DelayedSignals"]):
    """Context manager that delays signals that stop the process until its block ends.

    With a ``message``, the delay begins when noise is first drawn within the block. So a stop does
    not lose a result that was charged.

    Parameters
    ----------
    message : str, default ""
        Text that the first signal prints. A second signal then stops the process at once. Without
        it, the delay begins with the block.
    """

    def __init__(self, message: str = "") -> None:
        self._message = message
        self._received: list[int] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self._message:
            _UNTIL_NOISE.append(self)
        else:
            self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        """Handle the first received signal."""
        if self in _UNTIL_NOISE:
            _UNTIL_NOISE.remove(self)
        self._end()
        if self._received:
            signal.raise_signal(self._received[0])

    def begin(self) -> None:
        """Delay signals that stop the process from now on.

        Without effect outside of the main thread, in which Python handles signals.
        """
        if self._handlers or threading.current_thread() is not threading.main_thread():
            return
        for number in STOP_SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._note)

    def _end(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._message and self._received:
            self._received.clear()
            self._end()
            self._handlers[number](number, frame)
        self._received.append(number)
        if self._message:
            with contextlib.suppress(OSError):
                os.write(2, self._message.encode())


_UNTIL_NOISE: list[DelayedSignals] = []


def mark_noise_drawn() -> None:
    """Delay signals that stop the process from now on, since a stop would lose a charged result.

    It affects active blocks of `DelayedSignals` with a message.
    """
    for waiting in _UNTIL_NOISE:
        waiting.begin()


def picture_format(path: str | Path) -> str:
    """Return the picture format of a path, from its suffix.

    Parameters
    ----------
    path : str or Path
        The file of the picture.

    Returns
    -------
    {"svg", "png", "pdf"}
        The format.

    Raises
    ------
    ParameterError
        If the path has another suffix.
    MissingDependencyError
        If matplotlib is not installed.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in ("svg", "png", "pdf"):
        raise ParameterError(f"the picture {str(path)!r} must end in .svg, .png or .pdf")
    import_optional("matplotlib", purpose="pictures")
    return suffix


def new_figure(**options: Any) -> Any:
    """Return a new empty figure of matplotlib.

    Parameters
    ----------
    **options
        Parameters of ``matplotlib.figure.Figure``.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    return import_optional("matplotlib.figure", purpose="pictures").Figure(**options)


def write_picture(figure: Any, path: str | Path) -> None:
    """Write a figure of matplotlib to a file, completely or not at all.

    The time of creation is not written into SVG files.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or Path
        A file that ends in ``.svg``, ``.png`` or ``.pdf``.

    Raises
    ------
    ParameterError
        If the path has another suffix.
    OutputError
        If the file cannot be written.
    MissingDependencyError
        If matplotlib is not installed.
    """
    write_atomically(Path(path), picture_bytes(figure, picture_format(path)))


def picture_bytes(figure: Any, kind: str) -> bytes:
    """Return the content of a picture file of a figure, of the kind "svg", "png" or "pdf"."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return drawn.getvalue()


def check_writable(path: Path) -> None:
    """Raise an error if a file cannot be written, early, before any budget is spent.

    Parameters
    ----------
    path : Path
        The file. It need not exist.

    Raises
    ------
    OutputError
        If the path is a folder, a read-only file or not an ordinary file, or its folder is missing
        or not writable.
    """
    kind = None
    replacement = replacing(OSError, ValueError, by=partial(write_error, path))
    with replacement, contextlib.suppress(FileNotFoundError, NotADirectoryError):
        kind = stat.S_IFMT(path.stat().st_mode)
    if kind == stat.S_IFDIR:
        raise OutputError(f"cannot write {str(path)!r}: it is a folder. Name a file in it.")
    if kind == stat.S_IFREG and not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise OutputError(f"cannot write {str(path)!r}: it is read-only. Name another file.")
    if kind not in (None, stat.S_IFREG):
        # Replacing a device or a pipe by a file would destroy it.
        raise OutputError(f"cannot write {str(path)!r}: it is not an ordinary file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: the folder does not exist. Create it.")
    if not os.access(folder, os.W_OK):
        raise OutputError(
            f"cannot write {str(path)!r}: the folder is not writable. Choose another output."
        )


def check_outputs(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None] = ()) -> None:
    """Raise an error if output files of a command cannot be written, before budget is spent.

    Parameters
    ----------
    outputs : iterable of Path or None
        The output files. None is ignored.
    inputs : iterable of Path or None, default ()
        The input files, which must not be overwritten.

    Raises
    ------
    OutputError
        If an output cannot be written, is an input, or is named twice.
    """
    named = [path for path in inputs if path is not None]
    roles = {_file_identity(path): "input" for path in named}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        identity = _file_identity(path)
        if identity in roles:
            raise OutputError(
                f"cannot write {str(path)!r}: it is an {roles[identity]} of the same command"
            )
        roles[identity] = "output"


def _file_identity(path: Path) -> tuple[int, int] | str:
    """Return a value that is equal for two names of one file, including hard links."""
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return os.path.realpath(path)


def write_error(path: Path, error: BaseException) -> OutputError:
    """Return the error for a path that cannot be written, with the system's text for its number.

    Parameters
    ----------
    path : Path
        The file.
    error : BaseException
        The error of the system.

    Returns
    -------
    OutputError
        The error itself if it already is an `OutputError`.
    """
    if isinstance(error, OutputError):
        return error
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else "the system refuses this path"
    if number in _UNWRITABLE:
        reason = "the folder is not writable. Choose another output."
    elif number == errno.ENAMETOOLONG:
        reason = "its name, or the name of a file beside it, is too long. Choose a shorter name."
    return OutputError(f"cannot write {str(path)!r}: {reason}")


def lock_file(handle: int) -> bool:
    """Lock an open file until its process ends.

    Parameters
    ----------
    handle : int
        Descriptor of the file.

    Returns
    -------
    bool
        False if another process holds the lock, or the file system has no locks.
    """
    if sys.platform == "win32":  # open files of another process cannot be removed there
        return True
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _sweep(folder: Path) -> None:
    """Remove temporary files of this library whose process has ended."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [e.name for e in entries if e.name.startswith(_PREFIX) and e.name.endswith(_SUFFIX)]
        for name in names:
            with contextlib.suppress(OSError):
                _remove_abandoned(folder / name)


def _remove_abandoned(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(handle)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == getattr(os, "getuid", int)()
        if ours and time.time() - status.st_mtime > _LOCK_SECONDS and lock_file(handle):
            path.unlink()
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Write the names of new files in a folder to disk, if the system supports this.

    Parameters
    ----------
    folder : Path
        The folder.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _set_permissions(temporary: Path, target: Path) -> None:
    """Set the permissions of the target, or of an ordinary new file, since mkstemp sets 0600."""
    if target.exists():
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        return
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
