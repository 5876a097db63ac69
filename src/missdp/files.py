"""Files are written whole or not at all, and opened before anything is paid for.

What is written goes to a temporary file beside its target, which it replaces at the end. Where the
system has files without a name (Linux), it gets one when it is complete: nothing is left of a run
that is killed before. Elsewhere it is hidden, and locked by the process that writes it: one that
nobody holds any more was left over, and the next run that writes into the folder removes it.
Signals are put off until what was paid for is kept.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, BinaryIO, Self

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


class Draft:
    """A temporary file beside its target, opened, locked, and perhaps given room."""

    def __init__(self, path: Path, room: int = 0) -> None:
        check_writable(path)
        self.target = Path(os.path.realpath(path))
        _sweep(self.target.parent)
        self.handle, self.path = _temporary(self.target.parent)
        self.used, self.named = False, True
        try:
            locked(self.handle)
            if room and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.handle, 0, room)
        except BaseException:
            self.close()
            raise

    def write(self, content: bytes) -> None:
        """Write into the room there is, so that a disk that filled up since does no harm."""
        os.lseek(self.handle, 0, os.SEEK_SET)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self.handle, rest) :]
        os.ftruncate(self.handle, len(content))

    def commit(self) -> None:
        """Put the finished file in the target's place, so that not even a power cut halves it."""
        if not self.named:
            return
        _set_permissions(self.path, self.target)
        os.fsync(self.handle)
        nameless = self.path.parent == _NAMELESS
        if not (nameless and self._linked(self.target)):  # nothing stood there
            if nameless:
                hidden = self.target.parent / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
                self._linked(hidden)
                self.path = hidden
            if sys.platform == "win32":  # where an open file cannot be renamed
                os.close(self.handle)
                self.handle = -1
            os.replace(self.path, self.target)
        sync_folder(self.target.parent)

    def _linked(self, name: Path) -> bool:
        """Give a nameless file a name, unless it is taken."""
        with contextlib.suppress(FileExistsError):
            # Only with a descriptor does os.link follow the link that stands for the file.
            os.link(self.path, name, src_dir_fd=self.handle, follow_symlinks=True)
            return True
        return False

    def close(self) -> None:
        """Let go of the file; what was not committed is gone."""
        self.used = True
        handle, self.handle = self.handle, -1  # once: its number may be another file's by then
        with contextlib.suppress(OSError):
            os.close(handle)
        with contextlib.suppress(OSError):
            self.path.unlink()


_NAMELESS = Path("/proc/self/fd")


def _temporary(folder: Path) -> tuple[int, Path]:
    """Open a file in a folder, without a name if possible, and return where it can be opened."""
    with contextlib.suppress(OSError, AttributeError):  # not every system and disk has these
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        if (path := _NAMELESS / str(handle)).exists():
            return handle, path
        os.close(handle)
    handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=folder)
    return handle, Path(name)


_RESERVED: ContextVar[dict[Path, Draft] | None] = ContextVar("reserved", default=None)


@contextlib.contextmanager
def reserved(paths: Iterable[Path | None], *, room: int = 0) -> Iterator[None]:
    """Open the files that will be written within the block, before anything is paid for.

    Whatever this module writes to one of these paths within the block goes to the file that was
    opened here. What was not written by then leaves no trace. None stands for an option that was
    not given; ``room`` bytes are set aside on the disk for each file, where the system can.
    """
    taken = dict(_RESERVED.get() or {})
    drafts: list[Draft] = []
    try:
        for path in paths:
            if path is not None and _waiting(path) is None:
                with replacing(OSError, by=partial(refusal, path)):
                    drafts.append(Draft(path, room))
                taken[drafts[-1].target] = drafts[-1]
        token = _RESERVED.set(taken)
        try:
            yield
        finally:
            _RESERVED.reset(token)
    finally:
        for draft in drafts:
            draft.close()


@contextlib.contextmanager
def unnamed(path: Path) -> Iterator[BinaryIO]:
    """Yield the file that takes what is written to a path within the block, and never its name."""
    draft = Draft(path)
    draft.named = False
    token = _RESERVED.set({**(_RESERVED.get() or {}), draft.target: draft})
    try:
        with open(os.dup(draft.handle), "rb") as file:
            yield file
    finally:
        _RESERVED.reset(token)
        draft.close()


def has_name(path: Path) -> bool:
    """Whether what is written to a path within a block of `unnamed` or `reserved` stays there."""
    waiting = _waiting(path)
    return waiting is None or waiting.named


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it only if the block succeeds.

    A link is followed, and a file that is replaced keeps its permissions.
    """
    with _opened(path) as draft:
        yield draft.path


def write_atomically(path: Path, content: bytes) -> None:
    """Write bytes to a file, whole or not at all."""
    with _opened(path) as draft:
        draft.write(content)


def _waiting(path: Path) -> Draft | None:
    """Return the file that was opened for what is written to a path, if there is one."""
    check_writable(path)
    with replacing(OSError, by=partial(refusal, path)):
        found = (_RESERVED.get() or {}).get(Path(os.path.realpath(path)))
    return None if found is None or found.used else found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Draft]:
    waiting = _waiting(path)
    with replacing(OSError, by=partial(refusal, path)):
        draft = Draft(path) if waiting is None else waiting
        try:
            yield draft
            draft.commit()
        finally:
            draft.close()


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Act on the first signal that came."""
        del kind, error, traceback
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


def locked(handle: int, *, shared: bool = False) -> bool:
    """Lock a file until its process ends, whichever way; False if somebody else holds it.

    Others may hold a ``shared`` lock too: it is for those who only want to know.
    """
    if sys.platform == "win32":  # where nobody can remove what another process has open
        return True
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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
