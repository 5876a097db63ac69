"""Files are written whole or not at all.

What is written goes to a hidden temporary file beside its target, and takes the target's place when
it is complete. The process that writes the temporary file holds a lock on it. A process that is
killed leaves it behind, and the next run that writes into the folder removes what nobody holds.
Signals are put off until a model that was paid for is saved.
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

# With these the system refuses to create a file, in a folder that exists.
_UNWRITABLE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}
_PREFIX, _SUFFIX = ".missdp-", ".tmp"
# Between being made and being locked, a temporary file is younger than this.
_YOUNG = 60.0


@contextlib.contextmanager
def atomic_path(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place only if the block succeeds.

    A link is followed, and a file that is replaced keeps its permissions. Without ``overwrite`` no
    file is replaced, not even one that another process wrote meanwhile.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))
    with replacing(OSError, by=partial(refusal, path)):
        _sweep(target.parent)
        handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=target.parent)
        try:
            locked(handle)
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
    """Write bytes to a file, whole or not at all.

    Parameters
    ----------
    path : Path
    content : bytes
    overwrite : bool, default True
        Whether a file that is there is replaced.

    Raises
    ------
    OutputError
        If the file cannot be written, or is there and is not to be replaced.
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


#: Signals that ask a run to stop, and can be answered.
STOPS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class PutOff(contextlib.AbstractContextManager["PutOff"]):
    """Signals that ask the run to stop are acted on when the block ends, not within.

    With a ``word``, only from the first noise on that is drawn within the block: it is said when
    one comes, and a second one then stops the run at once.
    """

    def __init__(self, word: str = "") -> None:
        self._word = word
        self._came: list[int] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self._word:
            _UNTIL_NOISE.append(self)
        else:
            self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        """Act on the first signal that came."""
        if self in _UNTIL_NOISE:
            _UNTIL_NOISE.remove(self)
        self._end()
        if self._came:
            signal.raise_signal(self._came[0])

    def begin(self) -> None:
        """Put signals off from now on. Python acts on them in its main thread only."""
        if self._handlers or threading.current_thread() is not threading.main_thread():
            return
        for number in STOPS:
            found = signal.getsignal(number)
            if callable(found):
                self._handlers[number] = found
                signal.signal(number, self._note)

    def _end(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._word and self._came:
            self._came.clear()
            self._end()
            self._handlers[number](number, frame)
        self._came.append(number)
        if self._word:
            with contextlib.suppress(OSError):
                os.write(2, self._word.encode())


_UNTIL_NOISE: list[PutOff] = []


def noise_is_drawn() -> None:
    """Say that from now on a stop would lose what was paid for; see `PutOff`."""
    for waiting in _UNTIL_NOISE:
        waiting.begin()


def picture_format(path: str | Path) -> str:
    """Return the format that the suffix of a path stands for, or refuse it."""
    found = Path(path).suffix.lower().removeprefix(".")
    if found not in ("svg", "png", "pdf"):
        raise ParameterError(f"the picture {str(path)!r} must end in .svg, .png or .pdf")
    import_optional("matplotlib", purpose="pictures")
    return found


def new_figure(**options: Any) -> Any:
    """Return a new figure of matplotlib."""
    return import_optional("matplotlib.figure", purpose="pictures").Figure(**options)


def write_picture(figure: Any, path: str | Path) -> None:
    """Write a figure of matplotlib, whole or not at all; a picture tells no time of its making."""
    kind, drawn = picture_format(path), io.BytesIO()
    figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(Path(path), drawn.getvalue())


def check_writable(path: Path) -> None:
    """Refuse early, before any budget is spent, a path that cannot be written."""
    kind = None
    refusing = replacing(OSError, ValueError, by=partial(refusal, path))
    with refusing, contextlib.suppress(FileNotFoundError, NotADirectoryError):
        kind = stat.S_IFMT(path.stat().st_mode)
    if kind == stat.S_IFDIR:
        raise OutputError(f"cannot write {str(path)!r}: it is a folder; name a file in it")
    if kind == stat.S_IFREG and not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise OutputError(f"cannot write {str(path)!r}: it is read-only; name another file")
    if kind not in (None, stat.S_IFREG):
        # Replacing a device or a pipe by a file would destroy it.
        raise OutputError(f"cannot write {str(path)!r}: it is not an ordinary file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: the folder does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OutputError(
            f"cannot write {str(path)!r}: the folder is not writable. Choose another output."
        )


def check_outputs(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse early outputs that cannot be written, are inputs, or are named twice."""
    named = [path for path in inputs if path is not None]
    taken = {_place(path): "input" for path in named}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        place = _place(path)
        if place in taken:
            raise OutputError(
                f"cannot write {str(path)!r}: it is an {taken[place]} of the same command already"
            )
        taken[place] = "output"


def _place(path: Path) -> tuple[int, int] | str:
    """Return what is the same for two names of one file, hard links included."""
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return os.path.realpath(path)


def refusal(path: Path, error: BaseException) -> OutputError:
    """Return why a path cannot be written, in the system's words for its error number."""
    if isinstance(error, OutputError):
        return error
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else "the system refuses this path"
    if number in _UNWRITABLE:
        reason = "the folder is not writable. Choose another output."
    elif number == errno.ENAMETOOLONG:
        reason = "its name, or the name of a file beside it, is too long. Choose a shorter name."
    return OutputError(f"cannot write {str(path)!r}: {reason}")


def locked(handle: int) -> bool:
    """Lock a file until its process ends, whichever way; False if somebody else holds it."""
    if sys.platform == "win32":  # where nobody can remove what another process has open
        return True
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _sweep(folder: Path) -> None:
    """Remove temporary files of ours that the process which made them can no longer want."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [e.name for e in entries if e.name.startswith(_PREFIX) and e.name.endswith(_SUFFIX)]
        for name in names:
            with contextlib.suppress(OSError):
                _remove_left_over(folder / name)


def _remove_left_over(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        found = os.fstat(handle)
        ours = stat.S_ISREG(found.st_mode) and found.st_uid == getattr(os, "getuid", int)()
        if ours and time.time() - found.st_mtime > _YOUNG and locked(handle):
            path.unlink()
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the new name last; a system that cannot has done what it can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _set_permissions(temporary: Path, target: Path) -> None:
    """Keep the target's permissions, or take those of an ordinary new file: mkstemp's are 0600."""
    if target.exists():
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        return
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
