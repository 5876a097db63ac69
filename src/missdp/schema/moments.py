"""How dates and times are written, and the whole numbers that they are inside the library.

A date is a whole number of units of the calendar since the year 1970. What a text means is a
function of that text and of public facts: nothing is guessed, and each part of a date must be there
and be possible.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.schema.attributes import read_number
from missdp.types import Flags, Floats

#: Units of the calendar, coarsest first, as NumPy calls them.
Resolution: TypeAlias = Literal["Y", "M", "D", "h", "m", "s", "ms"]

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ZONE = r"(?P<z>Z|[+-]\d\d:?\d\d)"
_ISO = re.compile(
    r"(?P<Y>\d{4})(?:-(?P<m>\d\d)(?:-(?P<d>\d\d)(?:[T ](?P<H>\d\d):(?P<M>\d\d)"
    rf"(?::(?P<S>\d\d)(?:[.](?P<f>\d{{1,9}}))?)?{_ZONE}?)?)?)?",
    re.ASCII,
)
# How each part of a date is read, and written.
_PARTS: Final = {
    "%Y": (r"(?P<Y>\d{4})", "{Y:04}"), "%b": (r"(?P<b>[A-Za-z]{3})", "{b}"),
    "%m": (r"(?P<m>\d\d)", "{m:02}"), "%-m": (r"(?P<m>\d\d?)", "{m}"),
    "%d": (r"(?P<d>\d\d)", "{d:02}"), "%-d": (r"(?P<d>\d\d?)", "{d}"),
    "%H": (r"(?P<H>\d\d)", "{H:02}"), "%-H": (r"(?P<H>\d\d?)", "{H}"),
    "%M": (r"(?P<M>\d\d)", "{M:02}"), "%S": (r"(?P<S>\d\d)", "{S:02}"), "%z": (_ZONE, "Z"),
}  # fmt: skip
#: Formats that are a number since an origin: its unit, and when it was.
ORIGINS: Final[dict[str, tuple[Resolution, str]]] = {
    "%ty": ("Y", "0000"), "%tm": ("M", "1960-01"), "%td": ("D", "1960-01-01"),
    "%tc": ("ms", "1960-01-01"), "sas": ("s", "1960-01-01"), "spss": ("s", "1582-10-14"),
    "excel": ("D", "1899-12-30"), "unix": ("s", "1970-01-01"),
}  # fmt: skip
_NEEDED: Final[dict[Resolution, str]] = {"Y": "Y", "M": "Ym"}  # all others need a day
_TIMES: Final = (("H", "hour"), ("M", "minute"), ("S", "second"))
_NO_ZONE = 9999  # minutes
_NO_DATE = (0, 13, 32, 0, 0, 0, 0, _NO_ZONE)
_DAY = 86_400_000  # milliseconds
_FARTHEST = 10**14  # units since an origin; beyond lies no bound


def in_units(moments: NDArray[np.datetime64], resolution: Resolution) -> Floats:
    """Return the unit of the calendar that each moment lies in."""
    return moments.astype(f"datetime64[{resolution}]").astype(np.int64).astype(np.float64)


@dataclass(frozen=True)
class DateFormat:
    """A way to write dates: ISO, a pattern such as ``%d.%m.%Y``, or a number since an origin."""

    format: str | None = None

    def problem(self, resolution: Resolution) -> str | None:
        """Say why dates of this unit cannot be written like this; None if they can."""
        if self.format is None or self.format in ORIGINS:
            lossy = self.format in ("%ty", "%tm") and not self.is_whole(resolution)
            return "format has no place for the step" if lossy else None
        parts = [part for part in self._split if part.startswith("%")]
        names = [part[-1].replace("b", "m") for part in parts]
        if not parts or {*parts} - {*_PARTS}:
            return f"format is made of {', '.join(_PARTS)}, or one of {', '.join(ORIGINS)}"
        if len({*names}) < len(names):
            return "format names a part of the date twice"
        if not {*_NEEDED.get(resolution, "Ymd")} <= {*names}:
            return "format lacks a part of the date that the step needs"
        return None

    @property
    def _split(self) -> list[str]:
        return re.findall(r"%-?.|[^%]+|%", self.format or "")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        if self.format is None:
            return _ISO
        parts = (_PARTS[p][0] if p in _PARTS else re.escape(p) for p in self._split)
        return re.compile("".join(parts), re.ASCII)

    def read(
        self, texts: Sequence[str], resolution: Resolution, *, zoned: bool
    ) -> tuple[Floats, Flags]:
        """Return the unit of the calendar that each text lies in, and whether it is a date at all.

        Where a time zone is declared a text must say its own, and otherwise it may not.
        """
        if self.format in ORIGINS:
            numbers = [read_number(text) for text in texts]
            return self.since_origin([np.nan if n is None else n for n in numbers], resolution)
        fields = [_fields(self._pattern.fullmatch(text)) for text in texts]
        found = np.array(fields, dtype=np.int64).reshape(-1, 8)
        year, month, day, hour, minute, second, micro, offset = found.T
        needed = len(_NEEDED.get(resolution, "Ymd"))
        possible = (found[:, 1:needed] > 0).all(axis=1)
        possible &= (month <= 12) & (hour < 24) & (minute < 60) & (second < 60)
        possible &= (offset == _NO_ZONE) != zoned
        month, day = np.clip(month, 1, 12), np.maximum(day, 1)
        months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
        days = months.astype("datetime64[D]") + (day - 1)
        possible &= days.astype("datetime64[M]") == months  # there is no 30 February
        seconds = 3600 * hour + 60 * (minute - np.where(offset == _NO_ZONE, 0, offset)) + second
        moments = days.astype("datetime64[us]") + (10**6 * seconds + micro)
        return in_units(moments, resolution), possible

    def since_origin(
        self, numbers: Sequence[float] | Floats, resolution: Resolution
    ) -> tuple[Floats, Flags]:
        """Return the unit of the calendar that each number since the origin lies in."""
        unit, origin = ORIGINS[str(self.format)]
        values = np.asarray(numbers, dtype=np.float64)
        possible = np.abs(values) < _FARTHEST / (_DAY if unit == "D" else 1)
        values = np.where(possible, values, 0.0)
        if unit == "D":  # hours are a fraction of the day
            unit, values = "ms", np.rint(values * _DAY)
        moments = np.datetime64(origin, unit) + np.floor(values).astype(f"timedelta64[{unit}]")
        return in_units(moments, resolution), possible

    def write(self, values: Floats, resolution: Resolution) -> list[Any]:
        """Return dates as they are written in the format: text, or numbers since the origin."""
        moments = values.astype(np.int64).astype(f"datetime64[{resolution}]")
        if self.format in ORIGINS:
            unit, origin = ORIGINS[str(self.format)]
            if unit == "D" and not self.is_whole(resolution):
                since = moments.astype("datetime64[ms]") - np.datetime64(origin, "ms")
                return [*(since.astype(np.int64) / _DAY).tolist()]
            since = moments.astype(f"datetime64[{unit}]") - np.datetime64(origin, unit)
            return [*since.astype(np.int64).tolist()]
        parts = ((_PARTS[p][1] if p in _PARTS else _literal(p)) for p in self._split)
        template = "".join(parts)
        return [template.format(**_named(moment)) for moment in moments.tolist()]

    def is_whole(self, resolution: Resolution) -> bool:
        """Whether dates of this unit are whole numbers since the origin."""
        order = get_args(Resolution)
        return order.index(resolution) <= order.index(ORIGINS[str(self.format)][0])


def _fields(match: re.Match[str] | None) -> tuple[int, ...]:
    """Return year, month, day, hour, minute, second, microsecond and the zone's offset in minutes.

    A month or a day is 0 if it is not there.
    """
    part = {} if match is None else match.groupdict()
    if not part or "00" in (part.get("m"), part.get("d")):
        return _NO_DATE
    year, month, day, hour, minute, second = (int(part.get(key) or 0) for key in "YmdHMS")
    if name := part.get("b"):
        month = _MONTHS.index(name.lower()) + 1 if name.lower() in _MONTHS else _NO_DATE[1]
    micro = int((part.get("f") or "")[:6].ljust(6, "0"))
    return year, month, day, hour, minute, second, micro, _offset(part.get("z"))


def _offset(zone: str | None) -> int:
    """Return the minutes by which a zone is ahead of UTC."""
    if zone is None:
        return _NO_ZONE
    if zone == "Z":
        return 0
    minutes = 60 * int(zone[1:3]) + int(zone[-2:])
    return -minutes if zone[0] == "-" else minutes


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _named(moment: dt.date) -> dict[str, Any]:
    """Return the parts of a date by the letters that formats have for them."""
    found = {"Y": moment.year, "m": moment.month, "d": moment.day}
    found |= {letter: getattr(moment, name, 0) for letter, name in _TIMES}
    return {**found, "b": _MONTHS[moment.month - 1].capitalize()}
