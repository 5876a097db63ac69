"""Dates and times: numbers in whole units of the calendar. Input and output are text.

Inside the library a date *is* an integer attribute, for example days since 1970. Bins, rules,
models and draws use no calendar. The meaning of a text is a function of the text and of public
facts. Nothing is guessed, and each part of a date must be present and possible.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

import numpy as np
import pydantic.dataclasses
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic_core import ArgsKwargs

from missdp.errors import replacing
from missdp.schema.attributes import Kind, number_text, read_number
from missdp.schema.binning import Finite
from missdp.schema.numeric import Numeric, each
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
# The pattern and the output format of each part of a date.
_PARTS: Final = {
    "%Y": (r"(?P<Y>\d{4})", "{Y:04}"), "%b": (r"(?P<b>[A-Za-z]{3})", "{b}"),
    "%m": (r"(?P<m>\d\d)", "{m:02}"), "%-m": (r"(?P<m>\d\d?)", "{m}"),
    "%d": (r"(?P<d>\d\d)", "{d:02}"), "%-d": (r"(?P<d>\d\d?)", "{d}"),
    "%H": (r"(?P<H>\d\d)", "{H:02}"), "%-H": (r"(?P<H>\d\d?)", "{H}"),
    "%M": (r"(?P<M>\d\d)", "{M:02}"), "%S": (r"(?P<S>\d\d)", "{S:02}"), "%z": (_ZONE, "Z"),
}  # fmt: skip
#: Unit and origin of formats that are a number since an origin.
ORIGINS: Final[dict[str, tuple[Resolution, str]]] = {
    "%ty": ("Y", "0000"), "%tm": ("M", "1960-01"), "%td": ("D", "1960-01-01"),
    "%tc": ("ms", "1960-01-01"), "sas": ("s", "1960-01-01"), "spss": ("s", "1582-10-14"),
    "excel": ("D", "1899-12-30"), "unix": ("s", "1970-01-01"),
}  # fmt: skip
_NEEDED: Final[dict[Resolution, str]] = {"Y": "Y", "M": "Ym"}  # all others need a day
_TIMES: Final = (("H", "hour"), ("M", "minute"), ("S", "second"))
# A moment as NumPy reads it, the defaults of its parts, and its number of characters.
_MOMENT: Final = "{Y}-{m:0>2}-{d:0>2}T{H:0>2}:{M}:{S}.{f:0<6}"
_FIRST: Final = {"m": "1", "d": "1", "H": "0", "M": "00", "S": "00", "f": "0"}
_MICROSECONDS = len("2020-12-31T23:59:59.123456")
_DAY = 86_400_000  # milliseconds
_FARTHEST = 10**14  # units since an origin. Every bound is smaller.


def in_units(moments: NDArray[np.datetime64], resolution: Resolution) -> Floats:
    """Return the unit of the calendar that each moment lies in."""
    return moments.astype(f"datetime64[{resolution}]").astype(np.int64).astype(np.float64)


_YEAR = 12 * 32 + 31  # parts of a year, more than the largest month and day of `_since_new_year`


def completed_years(earlier: Floats, later: Floats, units: tuple[Resolution, Resolution]) -> Floats:
    """Return the completed years between two dates, as a person's age is counted.

    A year is completed on the anniversary. The anniversary of 29 February is 1 March in years
    without this day. If ``later`` precedes ``earlier``, the number is negative.

    Parameters
    ----------
    earlier, later : ndarray of shape (n_rows,)
        Units of the calendar since 1970. A date of whole months or years is its first day, as it is
        written. Private, if the rows are.
    units : tuple of two units of the calendar
        The unit of each array.

    Returns
    -------
    ndarray of shape (n_rows,)
        Whole numbers. They grow with ``later`` and fall with ``earlier``.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.schema.dates import completed_years
    >>> born = np.array(["2000-02-29"], "datetime64[D]").astype(float)
    >>> days = np.array(["2001-02-28", "2001-03-01"], "datetime64[D]").astype(float)
    >>> completed_years(born, days, ("D", "D")).tolist()
    [0.0, 1.0]
    """
    first, last = (
        _since_new_year(x, unit) for x, unit in zip((earlier, later), units, strict=True)
    )
    return np.floor((last - first) / _YEAR)


def plus_years(values: Floats, years: Floats, unit: Resolution) -> Floats:
    """Shift dates by whole years. 29 February becomes 1 March in years without this day.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Dates, as numbers of units since 1970.
    years : ndarray of shape (n_rows,)
        Whole numbers, negative ones for earlier dates.
    unit : {"Y", "M", "D", "h", "m", "s", "ms"}
        The unit of the dates.

    Returns
    -------
    ndarray of shape (n_rows,)
        Whole numbers of units since 1970.
    """
    moments = np.floor(values).astype(np.int64).astype(f"datetime64[{unit}]")
    months = moments.astype("datetime64[M]")
    later = months + 12 * years.astype(np.int64)
    shifted = later.astype(moments.dtype) + (moments - months.astype(moments.dtype))
    return np.asarray(shifted.astype(np.int64).astype(np.float64))


def _since_new_year(values: Floats, unit: Resolution) -> Floats:
    """Return dates in parts of a year, `_YEAR` each, in the order of month and day."""
    moments = np.floor(values).astype(np.int64).astype(f"datetime64[{unit}]")
    years, months = moments.astype("datetime64[Y]"), moments.astype("datetime64[M]")
    month = (months - years.astype("datetime64[M]")).astype(np.int64)
    day = (moments.astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    return np.asarray(years.astype(np.int64) * float(_YEAR) + 32 * month + day)


@dataclass(frozen=True)
class DateFormat:
    """A format of dates: ISO, a pattern such as ``%d.%m.%Y``, or a number since an origin.

    Parameters
    ----------
    format : str, optional
        The pattern, or the name of an origin. By default ISO 8601.
    """

    format: str | None = None

    def problem(self, resolution: Resolution) -> str | None:
        """Return the reason why dates of this unit cannot be written in the format, or None."""
        if self.format is None or self.format in ORIGINS:
            lossy = self.format in ("%ty", "%tm") and not self.is_integer(resolution)
            return "format cannot represent the step" if lossy else None
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
        """Return the unit of the calendar of each text, and a flag for texts that are dates.

        Parameters
        ----------
        texts : sequence of str
            Private, if the cells are.
        resolution : {"Y", "M", "D", "h", "m", "s", "ms"}
            The unit of the calendar.
        zoned : bool
            True if each text must state a time zone. Otherwise no text may state one.

        Returns
        -------
        values : ndarray of shape (n_texts,)
            Units since 1970.
        possible : ndarray of bool, shape (n_texts,)
            True for texts that are dates in the format.
        """
        if self.format in ORIGINS:
            numbers = [read_number(text) for text in texts]
            return self.since_origin([np.nan if n is None else n for n in numbers], resolution)
        needed = {*_NEEDED.get(resolution, "Ymd")} | ({"z"} if zoned else set())
        moments = [self._moment(text, needed) for text in texts]
        possible = np.array([moment is not None for moment in moments], dtype=bool)
        parsed = np.array([moment or 0 for moment in moments], dtype="datetime64[us]")
        return in_units(parsed, resolution), possible

    def _moment(self, text: str, needed: Set[str]) -> np.datetime64 | None:
        """Return the moment of a text, in UTC if the text has a zone. None: the text is no date.

        All parts in ``needed`` must be present, and a zone only if it is needed.
        """
        match = self._pattern.fullmatch(text)
        part = {} if match is None else {k: v for k, v in match.groupdict().items() if v}
        with contextlib.suppress(ValueError):  # an impossible month, or 30 February
            if name := part.pop("b", None):
                part["m"] = str(1 + _MONTHS.index(name.lower()))
            zone = part.get("z")
            if needed <= part.keys() and (zone is None or "z" in needed):
                local = np.datetime64(_MOMENT.format(**{**_FIRST, **part})[:_MICROSECONDS], "us")
                return local if zone is None else local - _offset(zone)
        return None

    def since_origin(
        self, numbers: Sequence[float] | Floats, resolution: Resolution
    ) -> tuple[Floats, Flags]:
        """Return the unit of the calendar of each number since the origin, and a flag for dates."""
        unit, origin = ORIGINS[str(self.format)]
        values = np.asarray(numbers, dtype=np.float64)
        possible = np.abs(values) < _FARTHEST / (_DAY if unit == "D" else 1)
        values = np.where(possible, values, 0.0)
        if unit == "D":  # hours are a fraction of the day
            unit, values = "ms", np.rint(values * _DAY)
        moments = np.datetime64(origin, unit) + np.floor(values).astype(f"timedelta64[{unit}]")
        return in_units(moments, resolution), possible

    def write(self, values: Floats, resolution: Resolution) -> list[Any]:
        """Return dates in the format: text, or numbers since the origin."""
        moments = values.astype(np.int64).astype(f"datetime64[{resolution}]")
        if self.format in ORIGINS:
            unit, origin = ORIGINS[str(self.format)]
            if unit == "D" and not self.is_integer(resolution):
                since = moments.astype("datetime64[ms]") - np.datetime64(origin, "ms")
                return [*(since.astype(np.int64) / _DAY).tolist()]
            since = moments.astype(f"datetime64[{unit}]") - np.datetime64(origin, unit)
            return [*since.astype(np.int64).tolist()]
        literal = str.maketrans({"{": "{{", "}": "}}"})
        parts = ((_PARTS[p][1] if p in _PARTS else p.translate(literal)) for p in self._split)
        template = "".join(parts)
        return [template.format(**_named(moment)) for moment in moments.tolist()]

    def is_integer(self, resolution: Resolution) -> bool:
        """Return True if dates of this unit are whole numbers since the origin."""
        order = get_args(Resolution)
        return order.index(resolution) <= order.index(ORIGINS[str(self.format)][0])


def _offset(zone: str) -> np.timedelta64:
    """Return the offset of a zone from UTC."""
    minutes = 0 if zone == "Z" else 60 * int(zone[1:3]) + int(zone[-2:])
    return np.timedelta64(-minutes if zone[0] == "-" else minutes, "m")


def _named(moment: dt.date) -> dict[str, Any]:
    """Return the parts of a date by their letters in formats."""
    parts = {"Y": moment.year, "m": moment.month, "d": moment.day}
    parts |= {letter: getattr(moment, name, 0) for letter, name in _TIMES}
    return {**parts, "b": _MONTHS[moment.month - 1].capitalize()}


_STEP = re.compile(r"([1-9]\d{0,5})? ?([a-z]+?)s?")
_UNITS: Final[dict[str, tuple[Resolution, int]]] = {
    "year": ("Y", 1), "quarter": ("M", 3), "month": ("M", 1), "week": ("D", 7), "day": ("D", 1),
    "hour": ("h", 1), "minute": ("m", 1), "min": ("m", 1), "second": ("s", 1),
    "millisecond": ("ms", 1),
}  # fmt: skip
UNIT_NAMES: Final = {unit: name for name, (unit, n) in _UNITS.items() if n == 1 and name != "min"}
_CALENDAR: Final = ("0001-01-01", "9999-12-31")
DateBound: TypeAlias = Annotated[Finite, Field(description="a date such as 2018-01-31")]
_TEXTS: Final = ("lower", "upper", "edges", "spikes")


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class Date(Numeric):
    """A date attribute: a column of calendar dates between public bounds, in whole steps.

    Use it for dates without a time of day. For dates with a time use :class:`DateTime`. Inside the
    package a date is a whole number of units of the calendar (years, months or days) since 1970.
    Bins and models work with these numbers.

    :class:`Attribute` documents the facts in more detail. A guarantee holds only if they are
    public. It states this as its condition `PublicDomain`, which is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    lower, upper : str or datetime.date
        Public bounds, such as ``"2018-01-01"``, from year 1 to 9999. Both belong to the domain.
        They are stored as numbers of units of the calendar since 1970.
    step : str, default "day"
        ``"day"``, ``"week"``, ``"month"``, ``"quarter"`` or ``"year"``, or several: ``"2 weeks"``.
        Dates are rounded down to a whole number of steps from ``lower``. ``upper`` must be a whole
        number of steps after ``lower``. The step determines the unit of the calendar: years,
        months, or days.
    bins : int or Binning, optional
        Number of bins of equal width, or released bins, as for :class:`Numeric`.
    edges, spikes : tuple of str, optional
        Bin edges and single values as dates: ``("2018-01-01", "2019-01-01", "2020-12-31")`` makes
        bins of years.
    format : str, optional
        The format of dates in text or numbers. A pattern such as ``"%d.%m.%Y"`` has the parts
        ``%Y``, ``%m``, ``%d``, ``%b`` (Jan), ``%-m`` and ``%-d`` (without a zero in front). Numbers
        are ``"%td"``, ``"%tm"``, ``"%ty"``, ``"%tc"`` (Stata), ``"spss"``, ``"sas"``, ``"excel"``
        or ``"unix"``. Dates are written in the same format. By default dates are read in ISO 8601
        only, and written as dates of the frame or file.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``. A code that is a date lies outside the bounds.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as the discharge of an outpatient. None: there
        are no such cells.
    outside : {"error", "clamp", "missing"}, default "error"
        Treatment of a cell that is not a date between the bounds. ``"error"`` raises `DataError`.
        ``"missing"`` makes the cell missing. ``"clamp"`` takes the nearest bound. A cell that is
        not a date then becomes missing, or ``lower`` if no cell may be missing.
    other : None
        Not used, since a date has no levels.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    labels : mapping of str to str, default {}
        Meanings of codes for human readers, by their text.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.

    Attributes
    ----------
    resolution : {"Y", "M", "D"}
        The unit of the calendar, which follows from ``step``. It is not passed.
    integer : bool
        Always True: values are whole numbers of units.

    Raises
    ------
    SchemaError
        If a bound is not a date, the step or the format is unknown, or another fact is not valid.

    Notes
    -----
    A cell is ``outside`` the domain if it is not a date in the format, such as 30 February. A cell
    out of bounds, and a moment with a time zone, are ``outside`` too.

    Examples
    --------
    >>> from missdp import Date
    >>> admission = Date(name="admission", lower="2018-01-01", upper="2024-12-31", nullable=True)
    >>> admission.format_value(admission.lower), admission.number("2018-01-03") - admission.lower
    ('2018-01-01', 2.0)
    """

    kind: ClassVar[str] = "date"
    finest: ClassVar[str] = "day"
    resolutions: ClassVar[tuple[Resolution, ...]] = ("Y", "M", "D")
    lower: DateBound
    upper: DateBound
    integer: bool = True
    format: str | None = None
    resolution: Resolution | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            lower: str | dt.date | float,
            upper: str | dt.date | float,
            step: str | float | None = None,
            **facts: Any,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _in_units(cls, arguments: ArgsKwargs) -> ArgsKwargs:
        """Return the facts with the step and the bounds in units of the calendar."""
        facts = dict(arguments.kwargs or {})
        step = facts.get("step")
        if isinstance(step, str) or facts.get("resolution") is None:
            facts["resolution"], size = cls._step_of(step, facts)
            facts["step"] = float(size) if size > 1 else None
        for fact in (fact for fact in _TEXTS if fact in facts):
            value, bound = facts[fact], partial(cls._bound, facts)
            many = isinstance(value, (list, tuple))
            facts[fact] = tuple(map(bound, value)) if many else bound(value)
        return ArgsKwargs(arguments.args, facts)

    @classmethod
    def _step_of(cls, step: object, facts: Mapping[str, Any]) -> tuple[Resolution, int]:
        """Return the unit of a step, and the number of units in the step."""
        match = _STEP.fullmatch(cls.finest if step is None else str(step))
        unit, size = _UNITS.get(match[2] if match else "", ("ms", 0))
        if match is None or not size or unit not in cls.resolutions:
            units = [name for name, (unit, _) in _UNITS.items() if unit in cls.resolutions]
            why = f"step must be one of {', '.join(units)}, or several of them"
            raise cls._refusal(facts, why)
        return unit, size * int(match[1] or 1)

    @classmethod
    def _bound(cls, facts: Mapping[str, Any], bound: Any) -> Any:
        """Return the number of a bound that is written as a date. Other values stay unchanged."""
        unit, zone = facts["resolution"], facts.get("timezone")
        if not isinstance(bound, (str, dt.date, np.datetime64)) or unit not in get_args(Resolution):
            return bound
        text: str | None = str(bound)
        if isinstance(zone, str):
            unknown = cls._refusal(facts, "timezone is unknown")
            with replacing(ValueError, LookupError, OSError, by=unknown):
                text = _in_world(str(bound), ZoneInfo(zone))
        number = None if text is None else _exact_number(text, unit, zoned=zone is not None)
        if number is None:
            example = f"{cls.date_text(0, unit)}{'' if zone is None else 'Z'}"
            raise cls._refusal(facts, f"{str(bound)!r} is not a date like {example}")
        return number

    @property
    def unit(self) -> Resolution:
        """Unit of the calendar in which the values of a date attribute are counted since 1970.

        The parameter ``step`` determines it.

        Returns
        -------
        {"Y", "M", "D", "h", "m", "s", "ms"}
            Years, months, days, hours, minutes, seconds or milliseconds. Public.
        """
        assert self.resolution is not None  # set by the constructor
        return self.resolution

    def number(self, text: str) -> float | None:
        """Return a public date as the number of units of the calendar since 1970.

        Parameters
        ----------
        text : str
            A date in ISO 8601, such as ``"2018-01-03"``, from a rule or question.

        Returns
        -------
        float or None
            A whole number of units, see ``unit``. None if the text is not a date, or lies between
            two units. Public.
        """
        return _exact_number(text, self.unit, zoned=self.zoned)

    @property
    def in_text(self) -> DateFormat:
        """Format in which a date attribute reads dates from text and writes them.

        Returns
        -------
        DateFormat
            The declared pattern or number format, by default ISO 8601. Public.
        """
        return DateFormat(self.format)

    @property
    def zoned(self) -> bool:
        """True if the values of a date attribute are moments in UTC, read with their time zone.

        A date without a time of day has no zone.

        Returns
        -------
        bool
            Always False for :class:`Date`. Public.
        """
        return False

    def round_down(self, values: Floats) -> Floats:
        """Round dates down to a whole number of steps from the lower bound of their attribute.

        Parameters
        ----------
        values : ndarray of float, of any shape
            Numbers of units of the calendar since 1970. Private, if the cells are private.

        Returns
        -------
        ndarray of float, in the shape of the input
            Numbers of units. Unchanged if the step is one unit. As private as the input.
        """
        if self.step is None:
            return values
        return self.lower + self.step * np.floor((values - self.lower) / self.step)

    def read_texts(self, texts: Sequence[str], *, iso: bool = False) -> tuple[Floats, Flags]:
        """Read texts as dates of a date attribute, and flag the texts that are dates.

        Parameters
        ----------
        texts : sequence of str
            The cells, without blanks around them. Private, if the cells are private.
        iso : bool, default False
            True if the texts are read in ISO 8601 instead of the declared format.

        Returns
        -------
        values : ndarray of float, of shape (n_texts,)
            Numbers of days since 1970-01-01, or of the declared ``resolution`` (such as hours),
            rounded down to multiples of the declared ``step``. A text that is not a date has a
            number without meaning. The numbers may lie outside the bounds.
        possible : ndarray of bool, of shape (n_texts,)
            True for texts that are dates in the format. Both arrays are as private as the texts.
        """
        form = DateFormat() if iso else self.in_text
        values, possible = form.read(texts, self.unit, zoned=self.zoned)
        return self.round_down(values), possible

    @staticmethod
    def date_text(units: int, unit: Any) -> str:
        """Return the ISO 8601 text of a date that is given as a number of units since 1970.

        Parameters
        ----------
        units : int
            The number of units since 1970.
        unit : {"Y", "M", "D", "h", "m", "s", "ms"}
            The unit of the calendar, from years to milliseconds.

        Returns
        -------
        str
            A text such as ``"1970-01-06"``. A text in hours has minutes too. As private as the
            number.
        """
        moment = np.datetime64(units, unit)
        return str(moment.astype("datetime64[m]") if unit == "h" else moment)

    def format_value(self, value: float) -> str:
        """Return the ISO 8601 text of a value of a date attribute, for human readers.

        Parameters
        ----------
        value : float
            A number of units of the calendar since 1970. It is rounded up to a whole number.

        Returns
        -------
        str
            A text such as ``"2018-01-02"``. Moments in UTC end in "Z". As private as ``value``.
        """
        text = self.date_text(math.ceil(value), self.unit)
        return f"{text}Z" if self.zoned else text

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts of a date attribute as a table of a schema file.

        Returns
        -------
        dict of str to JSON value
            The keys of an ``[[attribute]]`` table: ``name``, ``kind``, ``step`` and each fact that
            differs from its default. Bounds, edges, spikes and the step are text, such as
            ``"2018-01-01"`` and ``"2 month"``. Public.
        """
        facts = super().to_dict()
        del facts["resolution"]
        size = "" if self.step is None else f"{self.step:g} "
        facts["step"] = f"{size}{UNIT_NAMES[self.unit]}"
        return facts | {f: each(self.format_value, facts[f]) for f in _TEXTS if f in facts}

    def _problems(self) -> Iterator[str]:
        if self.resolution not in self.resolutions or self.integer is not True:
            yield "it is a whole number of its steps"
        first, last = in_units(np.array(_CALENDAR, dtype="datetime64[D]"), self.unit)
        if not (first <= self.lower and self.upper <= last):
            yield "lower and upper must be dates from year 1 to 9999"
        if problem := self.in_text.problem(self.unit):
            yield problem
        yield from super()._problems()

    def _codes_that_are_values(self, kind: Kind) -> Iterator[str]:
        values, possible = self.read_texts([code_text(code) for code in self.codes_of(kind)])
        if np.any(possible & (self.lower <= values) & (values <= self.upper)):
            yield f"codes of {kind} that are dates must lie outside [lower, upper]"


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class DateTime(Date):
    """A date-time attribute: a column of dates with a time of day, between public bounds.

    Use it for moments such as an admission at 08:15. For dates without a time use :class:`Date`.
    Inside the package a moment is a whole number of hours, minutes, seconds or milliseconds since
    1970.

    :class:`Attribute` documents the facts in more detail. A guarantee holds only if they are
    public. It states this as its condition `PublicDomain`, which is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    lower, upper : str or datetime.datetime
        Public bounds, such as ``"2018-01-01T08:00"``. Both belong to the domain. Bounds without a
        zone are in ``timezone``.
    step : str, default "second"
        ``"hour"``, ``"minute"``, ``"second"`` or ``"millisecond"``, or several: ``"15min"``.
        Moments are rounded down to a whole number of steps from ``lower``. ``upper`` must be a
        whole number of steps after ``lower``.
    timezone : str, optional
        The zone of the output, such as ``"UTC"`` or ``"Europe/Berlin"``. Every cell must state its
        zone, which may be another. By default no cell may state a zone.
    format : str, optional
        The format of times in text or numbers, as for :class:`Date`. A pattern may also have
        ``%H``, ``%-H``, ``%M``, ``%S`` and ``%z``. By default ISO 8601.
    bins, edges, spikes : int or Binning, tuple of str, tuple of str, optional
        Number of bins of equal width or released bins, bin edges, and single values, as for
        :class:`Date`. Edges and spikes are text, such as ``"2018-01-01T08:00"``.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``. A code that is a date with a time lies outside the bounds.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as the discharge of an outpatient. None: there
        are no such cells.
    outside : {"error", "clamp", "missing"}, default "error"
        Treatment of a cell that is not a date with a time between the bounds. ``"error"`` raises
        `DataError`. ``"missing"`` makes the cell missing. ``"clamp"`` takes the nearest bound. A
        cell that is not a date with a time then becomes missing, or ``lower`` if no cell may be
        missing.
    other : None
        Not used, since a date has no levels.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    labels : mapping of str to str, default {}
        Meanings of codes for human readers, by their text.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.

    Attributes
    ----------
    resolution : {"h", "m", "s", "ms"}
        The unit of the calendar, which follows from ``step``. It is not passed.
    integer : bool
        Always True: values are whole numbers of units.

    Raises
    ------
    SchemaError
        If a bound is not a time, the step, the format or the zone is unknown, or another fact is
        not valid.

    Examples
    --------
    >>> from missdp import DateTime
    >>> bounds = {"lower": "2024-01-01T00:00", "upper": "2024-12-31T23:45"}
    >>> visit = DateTime(name="visit", **bounds, step="15min")
    >>> visit.format_value(visit.lower + 4 * visit.step)
    '2024-01-01T01:00'
    """

    kind: ClassVar[str] = "datetime"
    finest: ClassVar[str] = "second"
    resolutions: ClassVar[tuple[Resolution, ...]] = ("h", "m", "s", "ms")
    timezone: str | None = None

    @property
    def zoned(self) -> bool:
        """True if the values of a date-time attribute are moments in UTC, read with a time zone.

        This is the case if ``timezone`` is declared.

        Returns
        -------
        bool
            Public.
        """
        return self.timezone is not None

    def number(self, text: str) -> float | None:
        """Return a public date with a time as the number of units of the calendar since 1970.

        Parameters
        ----------
        text : str
            A time in ISO 8601, such as ``"2024-01-01T08:00"``, from a rule or question. A time
            without a zone is in ``timezone``, if a zone is declared.

        Returns
        -------
        float or None
            A whole number of units, see ``unit``, in UTC if a zone is declared. None if the text is
            not a time, or lies between two units. Public.
        """
        if self.timezone is None:
            return super().number(text)
        world = _in_world(text, ZoneInfo(self.timezone))
        return None if world is None else super().number(world)


def _exact_number(text: str, unit: Resolution, *, zoned: bool) -> float | None:
    """Return the number of a public date in ISO 8601. None: no date, or between two units."""
    (value,), (possible,) = DateFormat().read([text], unit, zoned=zoned)
    (fine,), (precise,) = DateFormat().read([text], "ms", zoned=zoned)
    begins = np.array([value]).astype(f"datetime64[{unit}]").astype("datetime64[ms]")
    exact = not precise or in_units(begins, "ms")[0] == fine
    return float(value) if possible and exact else None


def _in_world(text: str, zone: ZoneInfo) -> str | None:
    """Return a time as text in UTC. A time without a zone is in ``zone``."""
    with contextlib.suppress(ValueError, OverflowError):
        local = dt.datetime.fromisoformat(text)
        local = local if local.tzinfo else local.replace(tzinfo=zone)
        return local.astimezone(dt.UTC).isoformat()
    return None


def code_text(code: str | float) -> str:
    """Return the text of a code of a kind of missing, as a cell may hold it."""
    return code.strip() if isinstance(code, str) else number_text(float(code))
