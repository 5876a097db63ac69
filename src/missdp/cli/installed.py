"""Versions of the installed packages that missdp or its extras require."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as version_of

_NOT_FOR_USERS = {"dev", "docs", "reference", "release"}


def packages() -> Iterator[tuple[str, str]]:
    """Yield the required packages of a plain install and of extras, with their versions."""
    for line in requires("missdp") or ():
        package = re.match(r"([\w.-]+)(?:\[.*?\])?(?:>=([\d.]+))?", line)
        extra = re.search(r"extra == ['\"](\w+)", line)
        systems = re.findall(r"sys_platform == ['\"](\w+)", line)
        if package is None or (systems and sys.platform not in systems):
            continue
        if extra is None or extra[1] not in _NOT_FOR_USERS:
            try:
                number = version_of(package[1])
            except PackageNotFoundError:
                number = "absent" if extra else f"ABSENT: pip install {package[1]}"
            yield f"{package[1]}{f' [{extra[1]}]' if extra else ''}", number
