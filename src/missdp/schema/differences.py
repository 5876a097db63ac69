"""Differences of two dates: a stay, an age; modelled in place of one of the dates.

Two dates that are cut into bins by themselves lose a stay of three days. So the difference is cut
and modelled, beside the date from which the other one is then computed. It is no column of the
table: what it is in a row follows from this row's two dates, when the row is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, ClassVar, Final, TypeAlias, get_args

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.errors import did_you_mean
from missdp.schema.binning import Binning
from missdp.schema.bound_rules import Derived
from missdp.schema.dates import UNIT_NAMES, Date, Resolution
from missdp.schema.numeric import Columns, Numeric, each
from missdp.types import Floats

_MONTHS: Final = {"year": 12.0, "quarter": 3.0, "month": 1.0}
_SECONDS: Final = {
    "year": 365.25 * 86400, "week": 604800.0, "day": 86400.0, "hour": 3600.0, "minute": 60.0,
    "second": 1.0, "millisecond": 0.001,
}  # fmt: skip

WITHOUT_EFFECT: Final = frozenset(
    (
        *("missing_codes", "refused", "unknown", "not_asked", "not_applicable", "other"),
        *("imputed_before", "integer", "step", "resolution"),
    )
)
"""Fields of numbers that nobody declares of a difference: its dates decide them."""


@dataclass(frozen=True, kw_only=True)
class Difference(Numeric):
    """What lies between two dates of a row, such as a stay or an age: no column, but modelled.

    Parameters
    ----------
    later, earlier : str
        Names of two dates of one step, of which every row has a value, or a missing cell.
    lower, upper : float
        Public bounds, in ``unit``. A row beyond them is ``outside`` the domain.
    unit : str, default "day"
        ``"year"`` (of 365.25 days), ``"month"``, ``"week"``, ``"day"``, ``"hour"``, ``"minute"`` or
        ``"second"``; not finer than the dates.
    computes : str, optional
        Which of the two dates is computed from the other one; by default the one with wider bounds.
        Where the other one may be missing, either of them is modelled as well, so that the one that
        is computed may be there alone.

    Examples
    --------
    >>> from missdp.schema import Date, Schema
    >>> years = {"lower": "2018-01-01", "upper": "2024-12-31"}
    >>> schema = Schema((
    ...     Date(name="admission", **years),
    ...     Date(name="discharge", **years, nullable=True),
    ...     Difference(name="stay", later="discharge", earlier="admission", lower=0, upper=60),
    ... ))
    >>> schema.input_columns.names, schema["stay"].computes, schema["stay"].nullable
    (('admission', 'discharge'), 'discharge', True)
    """

    kind: ClassVar[str] = "difference"
    later: str
    earlier: str
    unit: str = "day"
    computes: str | None = None
    resolution: Resolution | None = None  # of its dates, once it is in a schema

    def __post_init__(self) -> None:
        if self.outside == "missing":
            object.__setattr__(self, "nullable", True)
        super().__post_init__()

    def _problems(self) -> Iterator[str]:
        if self.unit not in {*_SECONDS, *_MONTHS}:
            yield f"unit must be one of {', '.join({**_SECONDS, **_MONTHS})}"
        if self.later == self.earlier:
            yield "later and earlier must be two dates"
        if self.computes not in (None, self.later, self.earlier):
            yield "computes must be one of its two dates"
        if any(self.codes_of(kind) for kind in self.kinds) or len(self.kinds) > self.nullable:
            yield "it has no codes and no kinds of missing: it is missing where one of its dates is"
        yield from super()._problems()

    @property
    def size_of_unit(self) -> float:
        """How many units of its dates there are in one of its own; 0 if it is finer."""
        own = UNIT_NAMES[self.resolution or "D"]
        sizes = _MONTHS if self.resolution in ("Y", "M") else _SECONDS
        size = sizes.get(self.unit, 0.0) / sizes[own]
        return size if size >= 1 else 0.0

    def format_value(self, value: float) -> str:
        """Return a number of units of the dates as a number of its own unit."""
        return f"{value / self.size_of_unit:g}"

    @property
    def base(self) -> str:
        """The date from which the other one is computed."""
        return self.earlier if self.computes == self.later else self.later

    @property
    def target(self) -> str:
        """The date that is computed."""
        return self.later if self.base == self.earlier else self.earlier

    @classmethod
    def _unknown_field(cls, name: str) -> str:
        """Return why a field is not accepted, with the fields that a difference has."""
        known = [f.name for f in fields(cls) if f.name not in WITHOUT_EFFECT]
        near = did_you_mean(name, known) or "."
        return (
            f"unknown field {name!r}{near} Known fields of kind {cls.kind!r}: {', '.join(known)}. "
            f"See {cls.documented_in} for all fields."
        )

    def _date(self, fact: str, columns: Columns) -> Date:
        """Return one of its dates, which the schema must declare."""
        name = getattr(self, fact)
        date = columns.get(name)
        if isinstance(date, Date) and not isinstance(date, EitherDate):
            return date
        dates = [n for n, a in columns.items() if isinstance(a, Date) and n not in self.dates]
        raise self._not_valid(
            f"{fact} = {name!r} is not a date of this schema{did_you_mean(name, dates) or '.'} "
            "Name an attribute of kind 'date' or 'datetime'."
        )

    def in_date_units(self, columns: Columns) -> Difference:
        """Return the difference in units of its dates, which are attributes of the same schema."""
        later, earlier = self._date("later", columns), self._date("earlier", columns)
        if (later.unit, later.step, later.zoned) != (earlier.unit, earlier.step, earlier.zoned):
            raise self._not_valid("its dates must have one step, and both a time zone or none")
        if later.step and (later.lower - earlier.lower) % later.step:
            raise self._not_valid("the lower bounds of its dates must lie whole steps apart")
        nullable = self.nullable or later.nullable or earlier.nullable
        if self.resolution is not None:
            return self if nullable == self.nullable else replace(self, nullable=nullable)
        wider = earlier if earlier.upper - earlier.lower > later.upper - later.lower else later
        found = replace(
            self, resolution=later.unit, nullable=nullable, computes=self.computes or wider.name
        )
        return found._in_units_of_dates(later.step or 1.0)

    def _in_units_of_dates(self, step: float) -> Difference:
        size = self.size_of_unit
        if not size:
            raise self._not_valid("its unit cannot be counted in those of its dates")

        def steps(bound: float) -> float:
            return step * math.ceil(round(bound * size / step, 6))

        return replace(
            self,
            integer=True,
            step=step if step > 1 else None,
            lower=steps(self.lower),
            upper=steps(self.upper),
            edges=self.edges and tuple(map(steps, self.edges)),
            spikes=tuple(map(steps, self.spikes)),
        )

    def derivation(self, columns: Columns) -> Derived:
        """Return the rule by which one of the dates follows."""
        if any(columns[name].not_applicable is not None for name in self.dates):
            raise self._not_valid("its dates must apply to every row")
        sign = 1.0 if self.base == self.earlier else -1.0
        text = f"{self.name} = {self.later} - {self.earlier}"
        by = (self.base, self.name)
        eithers = (a for a in columns.values() if isinstance(a, EitherDate))
        instead = next((e.name for e in eithers if {*e.dates} == {*self.dates}), None)
        return Derived(text, columns[self.target], by, terms=(1.0, sign), instead=instead)

    def either_date(self, columns: Columns) -> EitherDate | None:
        """Return what is modelled for rows without the base; None if all have it."""
        base, target = columns[self.base], columns[self.target]
        assert isinstance(base, Date)
        assert isinstance(target, Date)
        if not base.nullable:
            return None
        # Which is missing is told by few cells if they are the same wherever the base is there.
        first, second = (base, target) if target.nullable else (target, base)
        return EitherDate(
            name=f"{first.name} or {second.name}",
            first=first.name,
            second=second.name,
            lower=min(base.lower, target.lower),
            upper=max(base.upper, target.upper),
            step=base.step,
            resolution=base.resolution,
            world=base.zoned,
            nullable=target.nullable,
        )

    @property
    def dates(self) -> tuple[str, str]:
        """The dates that it is computed from."""
        return self.later, self.earlier

    @staticmethod
    def compute(later: Floats, earlier: Floats) -> Floats:
        """Return what it is in each row; NaN is missing."""
        return later - earlier

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as they are written: in its own unit, if bins are not released."""
        found = super().to_dict()
        if self.resolution is None or isinstance(self.bins, Binning):
            return found
        for fact in ("resolution", "integer", "step"):
            found.pop(fact, None)
        numbers = {*found} & {"lower", "upper", "edges", "spikes"}
        return found | {fact: each(self._in_own_unit, found[fact]) for fact in numbers}

    def _in_own_unit(self, value: float) -> float:
        """Return the shortest number that is read as this one."""
        size = self.size_of_unit
        rounded = (round(value / size, digits) for digits in range(17))
        near = (n for n in rounded if math.ceil(round(n * size, 6)) == value)
        return next(near, value / size)


@dataclass(frozen=True, kw_only=True)
class EitherDate(Date):
    """One of two dates, or the other where it is missing: no column, but modelled by itself."""

    kind: ClassVar[str] = "either_date"
    is_declared = False
    resolutions: ClassVar[tuple[Resolution, ...]] = get_args(Resolution)
    first: str
    second: str
    world: bool = False

    @property
    def zoned(self) -> bool:
        """Whether its values are moments of the world's time."""
        return self.world

    @property
    def dates(self) -> tuple[str, str]:
        """The dates that it is computed from."""
        return self.first, self.second

    @staticmethod
    def compute(first: Floats, second: Floats) -> Floats:
        """Return what it is in each row; NaN is missing."""
        return np.where(np.isnan(first), second, first)


Computed: TypeAlias = Difference | EitherDate  #: What is modelled, and is no column.
