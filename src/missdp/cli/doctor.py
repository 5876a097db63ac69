"""``missdp doctor``: what is installed here, and whether missdp can work with it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

import typer

from missdp import __version__
from missdp.cli.app import emit
from missdp.cli.options import JsonOption

_NOT_FOR_USERS = {"dev", "docs", "reference", "release"}
_Row = tuple[str, str, str]
"""What was looked at, what was found, and what is wrong with it or "fine" or "absent"."""


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed here, and whether missdp can work with it: paste it into reports.

    It reads no table. Exit code 7 says that a package is absent or too old, and 5 that the folder
    for temporary files cannot be written.
    """
    rows = [
        ("missdp", __version__, "fine"),
        ("Python", f"{platform.python_version()} on {platform.platform(terse=True)}", "fine"),
        *_packages(),
        _engine("Java", "java", "-version", least=17),
        _engine("PostgreSQL", "psql", "--version", least=1),
        _folder(),
        ("threads", _threads(), "fine"),
        ("randomness", _randomness(), "fine"),
    ]
    wide = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{a:{wide[0]}}  {b:{wide[1]}}  {c}".rstrip() for a, b, c in rows]
    parts = [dict(zip(("part", "found", "state"), row, strict=True)) for row in rows]
    faults = [row for row in rows if row[2] not in {"fine", "absent"}]
    emit({"fine": not faults, "parts": parts}, "\n".join(lines), as_json=as_json)
    if faults:
        raise typer.Exit(5 if faults == [row for row in faults if row[0] == "folder"] else 7)


def _packages() -> Iterator[_Row]:
    """Look at what a plain install needs, package by package, and at each extra."""
    for line in requires("missdp") or ():
        found = re.match(r"([\w.-]+)(?:\[.*?\])?(?:>=([\d.]+))?", line)
        extra = re.search(r"extra == ['\"](\w+)", line)
        systems = re.findall(r"sys_platform == ['\"](\w+)", line)
        if found and not (systems and sys.platform not in systems):
            name, least = found[1], found[2] or "0"
            if extra is None or extra[1] not in _NOT_FOR_USERS:
                yield _package(name, least, f"[{extra[1]}]" if extra else "")


def _package(name: str, least: str, extra: str) -> _Row:
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "-"
    if found == "-":
        state = "absent" if extra else f"needed: pip install {name}"
    else:
        state = "fine" if _numbers(found) >= _numbers(least) else f"older than {least}"
    return f"{name} {extra}".rstrip(), found, state


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at its end."""
    return tuple(int(part) for part in re.findall(r"\d+", re.sub(r"(\.0)+$", "", text)))


def _engine(name: str, program: str, option: str, *, least: int) -> _Row:
    """Ask a program for its version; none is needed but by the extra that starts it."""
    path = shutil.which(program)
    if path is None:
        return name, "-", "absent"
    told = subprocess.run([path, option], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"\d+(\.\d+)*", told.stdout + told.stderr)
    if found is None or _numbers(found[0]) < (least,):
        return name, found[0] if found else "-", f"older than {least}"
    return name, found[0], "fine"


def _folder() -> _Row:
    """Try the folder for temporary files, where tables larger than memory go."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"0")
        free = shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return "folder", "for temporary files", "cannot be written: set TMPDIR"
    return "folder", f"{tempfile.gettempdir()}, {free / 1e9:.0f} GB free", "fine"


def _threads() -> str:
    """Say how many cores there are, and how many threads linear algebra would take."""
    import numpy  # noqa: F401 - brings its library along
    from threadpoolctl import threadpool_info

    kinds = {f"{one['internal_api']} {one['num_threads']}" for one in threadpool_info()}
    return ", ".join([f"{os.cpu_count()} cores", *sorted(kinds)])


def _randomness() -> str:
    """Say where noise has its randomness from, once the system gives some."""
    os.urandom(8)
    return "os.urandom (getrandom)" if hasattr(os, "getrandom") else "os.urandom"
