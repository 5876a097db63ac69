"""Differences of two dates, such as a stay or an age, modelled in place of one of the dates.

Separate bins of two dates would lose a stay of three days. The model therefore has the difference
and one date, and the other date is computed from them. A difference is not a column of the table.
Its value in a row follows from the two dates of the row when the row is read.
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
"""Fields of numeric attributes that a difference inherits from its dates."""


@dataclass(frozen=True, kw_only=True)
class Difference(Numeric):
    """An attribute that is the difference of two dates of each row, such as an age or a stay.

    Use it if the time between two dates matters, since separate bins of the dates would lose short
    times. The difference is not a column of the table: it is computed when a row is read. The model
    has the difference and one of the dates, and the other date is computed from them.

    Parameters
    ----------
    name : str
        Name of the attribute, any non-empty text.
    later, earlier : str
        Names of two dates with one step that apply to every row. Cells may be missing.
    lower, upper : float
        Public bounds, in ``unit``. A row beyond the bounds is ``outside`` the domain.
    unit : str, default "day"
        ``"year"`` (of 365.25 days, or of 12 months between dates in months or years),
        ``"quarter"``, ``"month"``, ``"week"``, ``"day"``, ``"hour"``, ``"minute"``, ``"second"`` or
        ``"millisecond"``. It is not finer than the unit of the dates. Months and quarters are for
        dates in whole months.
    computes : str, optional
        The date that is computed from the other date. By default the date with the wider bounds. If
        the other date may be missing, :class:`EitherDate` is modelled too, so that the computed
        date may be present without the other date.
    bins, edges, spikes : int or Binning, tuple of float, tuple of float, optional
        Number of bins of equal width or released bins, bin edges, and single values, as for
        :class:`Numeric`. Edges and spikes are in ``unit``.
    nullable : bool, default False
        True if a date may be missing. A schema sets it if a date is nullable.
    outside : {"error", "clamp", "missing"}, default "error"
        Treatment of rows whose difference is out of bounds, as for :class:`Attribute`.
    label, units : str, default ""
        Description of the difference, and unit of its values, for human readers.
    labels : mapping of str to str, default {}
        Meanings of numbers for human readers, by their text.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.
    **facts
        Facts of :class:`Numeric` that do not apply, which keep their defaults: ``missing_codes``,
        ``refused``, ``unknown``, ``not_asked``, ``not_applicable``, ``other`` and
        ``imputed_before``. The schema sets ``integer``, ``step`` and ``resolution``.

    Attributes
    ----------
    resolution : {"Y", "M", "D", "h", "m", "s", "ms"} or None
        Unit of the dates, which the schema sets. In a schema, bounds and values are in this unit.

    Raises
    ------
    SchemaError
        If the unit is unknown, the dates are equal, or another fact is not valid. :class:`Schema`
        also raises it for dates that are not declared, or have different steps or zones.

    Examples
    --------
    >>> from missdp import Difference
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
    resolution: Resolution | None = None  # unit of the dates, set by the schema

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
        """Number of units of the two dates in one unit of their difference.

        For example 7.0 for a difference in weeks between dates in days.

        Returns
        -------
        float
            At least 1. It is 0 if the unit of the difference is finer than the unit of the dates,
            or cannot be converted. Public.
        """
        date_unit = UNIT_NAMES[self.resolution or "D"]
        sizes = _MONTHS if self.resolution in ("Y", "M") else _SECONDS
        size = sizes.get(self.unit, 0.0) / sizes[date_unit]
        return size if size >= 1 else 0.0

    def format_value(self, value: float) -> str:
        """Return the text of a difference of two dates for human readers, in its declared unit.

        Parameters
        ----------
        value : float
            The difference in units of the dates.

        Returns
        -------
        str
            The number of declared units with six significant digits. As private as ``value``.

        Raises
        ------
        SchemaError
            If the unit of the difference cannot be counted in units of the dates, such as months of
            a difference outside a schema.
        """
        if not self.size_of_unit:
            raise self._not_valid("its unit is unknown outside a Schema with its two dates")
        return f"{value / self.size_of_unit:g}"

    @property
    def base(self) -> str:
        """Name of the date that a model holds together with the difference of two dates.

        The parameter ``computes`` names the other date. If it is not declared, a schema sets it to
        the date with the wider bounds.

        Returns
        -------
        str
            ``earlier`` or ``later``. Public.
        """
        return self.earlier if self.computes == self.later else self.later

    @property
    def target(self) -> str:
        """Name of the date that is computed from the modelled date and the difference.

        The parameter ``computes`` names it. If it is not declared, a schema sets it to the date
        with the wider bounds.

        Returns
        -------
        str
            ``later`` or ``earlier``. Public.
        """
        return self.later if self.base == self.earlier else self.earlier

    @classmethod
    def _unknown_field(cls, name: str) -> str:
        """Return the message about an unknown field, with the fields of a difference."""
        names = [f.name for f in fields(cls) if f.name not in WITHOUT_EFFECT]
        near = did_you_mean(name, names) or "."
        return (
            f"unknown field {name!r}{near} Known fields of kind {cls.kind!r}: {', '.join(names)}. "
            f"See {cls.documented_in} for all fields."
        )

    def _date(self, fact: str, columns: Columns) -> Date:
        """Return a date of the difference, which the schema must declare."""
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
        """Return the difference with its bounds and bins in the unit of its two dates.

        :class:`Schema` calls it for each difference.

        Parameters
        ----------
        columns : mapping of str to attribute
            The attributes of the schema by name, among them both dates.

        Returns
        -------
        Difference
            A copy with ``resolution``, ``computes`` and ``nullable`` set from the dates. A
            difference that already has its unit keeps its bounds. Public.

        Raises
        ------
        SchemaError
            If a date is not declared, or the dates differ in step or time zone. Also if the unit of
            the difference is finer than the unit of the dates.
        """
        later, earlier = self._date("later", columns), self._date("earlier", columns)
        if (later.unit, later.step, later.zoned) != (earlier.unit, earlier.step, earlier.zoned):
            raise self._not_valid("its dates must have one step, and both a time zone or none")
        if later.step and (later.lower - earlier.lower) % later.step:
            raise self._not_valid("the lower bounds of its dates must lie whole steps apart")
        nullable = self.nullable or later.nullable or earlier.nullable
        if self.resolution is not None:
            return self if nullable == self.nullable else replace(self, nullable=nullable)
        wider = earlier if earlier.upper - earlier.lower > later.upper - later.lower else later
        bound = replace(
            self, resolution=later.unit, nullable=nullable, computes=self.computes or wider.name
        )
        return bound._in_units_of_dates(later.step or 1.0)

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
        """Return the rule by which one date follows from the other date and the difference.

        Parameters
        ----------
        columns : mapping of str to attribute
            The attributes of the schema by name, among them both dates.

        Returns
        -------
        Derived
            The rule, ready for computation. Public.

        Raises
        ------
        SchemaError
            If a date may be not applicable.
        """
        if any(columns[name].not_applicable is not None for name in self.dates):
            raise self._not_valid("its dates must apply to every row")
        sign = 1.0 if self.base == self.earlier else -1.0
        text = f"{self.name} = {self.later} - {self.earlier}"
        by = (self.base, self.name)
        eithers = (a for a in columns.values() if isinstance(a, EitherDate))
        instead = next((e.name for e in eithers if {*e.dates} == {*self.dates}), None)
        return Derived(text, columns[self.target], by, terms=(1.0, sign), instead=instead)

    def either_date(self, columns: Columns) -> EitherDate | None:
        """Return an attribute with the date that is present, for rows without the modelled date.

        Without it, the computed date would be lost in these rows.

        Parameters
        ----------
        columns : mapping of str to attribute
            The attributes of the schema by name, among them both dates.

        Returns
        -------
        EitherDate or None
            The first of the two dates that is present, as an attribute. None if the modelled date
            is never missing. Public.
        """
        base, target = columns[self.base], columns[self.target]
        assert isinstance(base, Date)
        assert isinstance(target, Date)
        if not base.nullable:
            return None
        # With the base first, few cells are needed to state which of the dates is missing.
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
        """Names of the two dates of a difference: the later date, then the earlier date.

        Returns
        -------
        tuple of two str
            Public.
        """
        return self.later, self.earlier

    @staticmethod
    def compute(later: Floats, earlier: Floats) -> Floats:
        """Compute the difference of two dates in each private row.

        Parameters
        ----------
        later, earlier : ndarray of float, of shape (n_rows,)
            The dates, in units of the calendar since 1970. NaN is missing. Private, if the rows are
            private.

        Returns
        -------
        ndarray of float, of shape (n_rows,)
            The later date minus the earlier date, in units of the dates. NaN if a date is missing.
            As private as the input.
        """
        return later - earlier

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts of a difference of dates as a table of a schema file.

        Returns
        -------
        dict of str to JSON value
            The keys of an ``[[attribute]]`` table: ``name``, ``kind`` and each fact that differs
            from its default. Bounds, edges and spikes are in the declared unit. If a fit released
            the bins, they are in units of the dates. Public.
        """
        facts = super().to_dict()
        if self.resolution is None or isinstance(self.bins, Binning):
            return facts
        for fact in ("resolution", "integer", "step"):
            facts.pop(fact, None)
        numbers = {*facts} & {"lower", "upper", "edges", "spikes"}
        return facts | {fact: each(self._declared_number, facts[fact]) for fact in numbers}

    def _declared_number(self, value: float) -> float:
        """Return the shortest number in the unit of the difference that is read as ``value``."""
        size = self.size_of_unit
        rounded = (round(value / size, digits) for digits in range(17))
        near = (n for n in rounded if math.ceil(round(n * size, 6)) == value)
        return next(near, value / size)


@dataclass(frozen=True, kw_only=True)
class EitherDate(Date):
    """The first of two dates of each row, or the second if the first is missing, as an attribute.

    A schema adds it if a date of a :class:`Difference` may be missing. It is modelled, but not a
    column of the table, and users do not declare it.

    Parameters
    ----------
    first, second : str
        Names of the two dates.
    world : bool, default False
        True if the dates are moments in UTC.
    **facts
        Name, bounds, step and the other facts of a :class:`Date`.
    """

    kind: ClassVar[str] = "either_date"
    is_declared = False
    resolutions: ClassVar[tuple[Resolution, ...]] = get_args(Resolution)
    first: str
    second: str
    world: bool = False

    @property
    def zoned(self) -> bool:
        """True if the values of the attribute are moments in UTC.

        The value is public.
        """
        return self.world

    @property
    def dates(self) -> tuple[str, str]:
        """Names of the two dates: the preferred date, then its replacement.

        The value is public.
        """
        return self.first, self.second

    @staticmethod
    def compute(first: Floats, second: Floats) -> Floats:
        """Return the first date of each row, or the second date if the first date is missing.

        Parameters
        ----------
        first, second : ndarray of float, of shape (n_rows,)
            The dates, in units of the calendar since 1970. NaN is missing. Private, if the rows are
            private.

        Returns
        -------
        ndarray of float, of shape (n_rows,)
            The dates in the same unit, NaN if both are missing. As private as the input.
        """
        return np.where(np.isnan(first), second, first)


Computed: TypeAlias = Difference | EitherDate  #: Attributes that are modelled, but are not columns.
