"""Attributes: public facts about one column, its kind, its domain, what stands for missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING as REQUIRED
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.errors import SchemaError
from missdp.record import Record
from missdp.schema.cells import MAX_WHOLE, Bins, LevelReader, read_number

__all__ = [
    "AnyAttribute",
    "Attribute",
    "Categorical",
    "Level",
    "Numeric",
    "Ordinal",
]


Level: TypeAlias = str | int | bool
OutsidePolicy: TypeAlias = Literal["error", "clamp", "missing"]

_MAX_LEVELS = 1_000_000
_SURROGATE = re.compile("[\ud800-\udfff]")  # what no file can hold


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _SURROGATE.search(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_texts(values: object) -> bool:
    return isinstance(values, tuple) and all(map(_is_text, values))


def _as_float(value: Any) -> Any:
    """Return a real number as a float (infinite if it is too large); anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, kw_only=True)
class Attribute(Record, abstract=True):
    """Facts common to every kind of attribute. Use a subclass.

    Parameters
    ----------
    name : str
        Column name, any non-empty text.
    nullable : bool, default False
        Whether a cell of this column may be missing.
    missing_codes : tuple of str or number, default ()
        Sentinels that stand for "missing" in the data, for example ``"?"`` or ``-9``. NaN, None,
        NaT, ``pd.NA``, null and empty text always count as missing.
    outside : {"error", "clamp", "missing"}, default "error"
        What to do with *whatever* is not in the declared domain: too large, not a declared level,
        not whole, or not readable at all. ``"error"`` refuses the table, and that refusal is an
        output that no privacy guarantee covers. ``"missing"`` (needs ``nullable=True``) and
        ``"clamp"`` (numeric attributes) refuse no cell.
    label, units : str
        For people.
    undeclared : tuple of str, default ()
        Names of facts on this page that were read from private data and that nobody has declared
        public yet. A release refuses a schema with such marks unless told to go on.
    """

    name: str
    nullable: bool = False
    missing_codes: tuple[str | float, ...] = ()
    outside: OutsidePolicy = "error"
    label: str = ""
    units: str = ""
    undeclared: tuple[str, ...] = ()

    def __new__(cls, **facts: Any) -> Self:
        """Refuse facts that this kind of attribute does not have, or lacks."""
        known = {f.name: f.default is REQUIRED for f in fields(cls)}
        lacking = [name for name, required in known.items() if required and name not in facts]
        for name in facts.keys() - known.keys():
            raise _refusal(facts.get("name"), f"there is no fact {name!r}")
        for name in lacking if facts else ():  # a copy or a pickle names its facts later
            raise _refusal(facts.get("name"), f"{name} is required")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
                object.__setattr__(self, field.name, tuple(value))
        for problem in self._problems():
            raise _refusal(self.name, problem)

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the kind and whatever is not as by default."""
        default = {f.name: f.default for f in fields(self)}
        kept = {k: v for k, v in super().to_dict().items() if getattr(self, k) != default.get(k)}
        return {"name": self.name, **kept}

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        return _refusal(data.get("name"), why)

    @property
    def size(self) -> int:
        """Number of values in the declared domain, missing not counted."""
        raise NotImplementedError

    @property
    def extended_size(self) -> int:
        """Number of codes with missing as one more level: ``size + 1`` if nullable."""
        return self.size + int(self.nullable)

    @property
    def missing_code(self) -> int:
        """Integer code of a missing cell: one past the last level."""
        return self.size

    @property
    def refuses(self) -> bool:
        """Whether some cell of this column makes reading fail: ``outside`` is ``"error"``."""
        return self.outside == "error"

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong; each check may rely on those before it."""
        if not _is_text(self.name) or not self.name:
            yield "name must be text, and not empty"
        for fact in ("nullable", "integer"):
            if not isinstance(getattr(self, fact, False), bool):
                yield f"{fact} must be true or false"
        for fact in ("label", "units"):
            if not _is_text(getattr(self, fact)):
                yield f"{fact} must be text"
        if self.outside not in get_args(OutsidePolicy):
            yield f"outside must be one of {', '.join(get_args(OutsidePolicy))}"
        if not _are_texts(self.undeclared):
            yield "undeclared must be a list of names of facts"
        if unknown := [n for n in self.undeclared if n not in {f.name for f in fields(self)}]:
            yield f"undeclared names facts that do not exist: {unknown}"
        yield from self._wrong_codes()

    def _wrong_codes(self) -> Iterator[str]:
        codes = self.missing_codes
        if not isinstance(codes, tuple) or not all(_is_text(c) or _is_number(c) for c in codes):
            yield "missing_codes must be a list of text or numbers"
        if self.outside == "missing" and not self.nullable:
            yield 'outside = "missing" needs nullable = true'
        if codes and not self.nullable:
            yield "missing_codes need nullable = true"
        if not all(abs(code) < MAX_WHOLE for code in codes if not isinstance(code, str)):
            yield "missing_codes that are numbers must be finite and below 2**53 in size"


def _refusal(name: object, why: str) -> SchemaError:
    """Return one line about an attribute; the schema is public, so its facts may be named."""
    subject = f"attribute {name!r}" if isinstance(name, str) and name else "an attribute"
    return SchemaError(f"{subject} is not valid: {why}")


@dataclass(frozen=True, kw_only=True)
class _Levelled(Attribute, abstract=True):
    """An attribute whose domain is a finite list of levels of one type."""

    levels: tuple[str, ...] | tuple[bool, ...] | tuple[int, ...]

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        levels = self.levels
        if levels == ():
            yield "levels must not be empty"
        kinds = {type(level) for level in levels} if isinstance(levels, tuple) else set()
        if kinds not in ({int}, {bool}) and not (levels and _are_texts(levels)):
            yield "levels must be a list, all text, all integers or all true/false"
        if len(levels) > _MAX_LEVELS:
            yield f"at most {_MAX_LEVELS} levels are supported"
        if len(set(levels)) != len(levels):
            yield "levels must be distinct"
        if any(isinstance(level, int) and abs(level) >= MAX_WHOLE for level in levels):
            yield "levels that are whole numbers must be below 2**53 in size"
        if any(isinstance(level, str) and level != level.strip() for level in levels):
            yield "levels must not begin or end with blanks: they are dropped on reading"
        if "" in levels:
            yield "the empty text cannot be a level: an empty field means missing"
        if clash := self._levels_that_are_codes():
            yield f"levels and missing_codes overlap: {clash}"
        if self.outside == "clamp":
            yield 'outside = "clamp" is for numeric attributes only'

    def _levels_that_are_codes(self) -> list[str | int | bool]:
        """Levels that a missing code would be read as; text levels clash with equal text only."""
        reader = LevelReader(self.levels)
        text = isinstance(self.levels[0], str)
        clash: set[str | int | bool] = set()
        for code in self.missing_codes:
            if text and isinstance(code, str):
                clash |= {code.strip()} & set(self.levels)
            elif (level := reader.read(code)) >= 0:
                clash.add(self.levels[level])
        return sorted(clash, key=str)

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)


@dataclass(frozen=True, kw_only=True)
class Categorical(_Levelled):
    """An attribute with unordered levels.

    Parameters
    ----------
    levels : tuple of str, of int or of bool
        The whole public domain.

    Examples
    --------
    >>> Categorical(name="sex", levels=("female", "male"), nullable=True).extended_size
    3
    """

    kind: ClassVar[str] = "categorical"


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Levelled):
    """An attribute with ordered levels, lowest first.

    Examples
    --------
    >>> Ordinal(name="grade", levels=("9", "10", "11", "12")).size
    4
    """

    kind: ClassVar[str] = "ordinal"


@dataclass(frozen=True, kw_only=True)
class Numeric(Attribute):
    """A bounded number, cut into bins wherever a finite domain is needed.

    Parameters
    ----------
    lower, upper : float
        Public bounds, ``lower < upper``; both belong to the domain.
    integer : bool, default False
        Whether the values are whole numbers.
    bins : int, optional
        Number of bins of equal width (default 10, or one per whole number if there are fewer).
    edges : tuple of float, optional
        Bin edges instead of ``bins``: increasing, from ``lower`` to ``upper``. Bins are closed on
        the left; the last one is closed on both sides.
    spikes : tuple of float, default ()
        Values at which many rows pile up, such as an income of 0. Each is counted by itself, as
        if it were a level, and drawn exactly; its bin keeps the other values.

    Examples
    --------
    >>> age = Numeric(name="age", lower=0, upper=100, integer=True, bins=10)
    >>> age.encode_values(np.array([0.0, 9.9, 10.0, 100.0])).tolist()
    [0, 0, 1, 9]
    >>> income = Numeric(name="income", lower=0, upper=1000, bins=2, spikes=(0,))
    >>> income.size, income.encode_values(np.array([0.0, 1.0, 1000.0])).tolist()
    (3, [0, 1, 2])
    """

    kind: ClassVar[str] = "numeric"
    lower: float
    upper: float
    integer: bool = False
    bins: int | None = None
    edges: tuple[float, ...] | None = None
    spikes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            object.__setattr__(self, bound, _as_float(getattr(self, bound)))
        for fact in ("edges", "spikes"):
            if isinstance(given := getattr(self, fact), (list, tuple)):
                object.__setattr__(self, fact, tuple(map(_as_float, given)))
        super().__post_init__()

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        bounds = (self.lower, self.upper)
        if not all(isinstance(bound, float) and math.isfinite(bound) for bound in bounds):
            yield "lower and upper must be finite numbers"
        if not self.lower < self.upper:
            yield "lower must be below upper"
        if self.integer and not all(bound.is_integer() for bound in bounds):
            yield "integer attributes need whole-number bounds"
        if max(map(abs, bounds)) >= MAX_WHOLE:
            yield "lower and upper must be below 2**53 in size, where numbers are still told apart"
        yield from self._wrong_bins()
        numbers = [read_number(c.strip()) for c in self.missing_codes if isinstance(c, str)]
        if any(number is not None and not math.isnan(number) for number in numbers):
            yield "missing_codes of a numeric attribute that are numbers go without quotes"
        if any(_is_number(c) and self.lower <= c <= self.upper for c in self.missing_codes):
            yield (
                "missing_codes that are numbers must lie outside [lower, upper]: inside, they "
                "cannot be told from values"
            )

    def _wrong_bins(self) -> Iterator[str]:
        whole = type(self.bins) is int and 0 < self.bins <= _MAX_LEVELS
        if self.bins is not None and not whole:
            yield f"bins must be a whole number from 1 to {_MAX_LEVELS}"
        if self.bins is not None and self.edges is not None:
            yield "give bins or edges, not both"
        if self.edges is not None:
            increasing = "edges must be at least two finite, strictly increasing numbers"
            if not isinstance(self.edges, tuple) or len(self.edges) < 2:
                yield increasing
            if not all(isinstance(edge, float) and math.isfinite(edge) for edge in self.edges):
                yield increasing
            if np.any(np.diff(self.edges) <= 0):
                yield increasing
            if (self.edges[0], self.edges[-1]) != (self.lower, self.upper):
                yield "edges must start at lower and end at upper"
        if np.any(np.diff(self.bin_edges) <= 0):
            yield "bins are narrower than floating-point numbers can tell apart"
        if self.integer and np.any(np.diff(self._bins.firsts) < 1):
            yield "every bin of an integer attribute must hold a whole number"
        yield from self._wrong_spikes()

    def _wrong_spikes(self) -> Iterator[str]:
        spikes = self.spikes
        if not isinstance(spikes, tuple) or not all(isinstance(s, float) for s in spikes):
            yield "spikes must be a list of numbers"
        if not all(self.lower <= spike <= self.upper for spike in spikes):
            yield "spikes must lie inside [lower, upper]"
        if len(set(spikes)) < len(spikes):
            yield "spikes must be distinct"
        if self.integer and not all(spike.is_integer() for spike in spikes):
            yield "spikes of an integer attribute must be whole numbers"

    @property
    def bin_edges(self) -> NDArray[np.float64]:
        """Edges of the bins, shape ``(number of bins + 1,)``."""
        if self.edges is not None:
            return np.asarray(self.edges, dtype=np.float64)
        whole = int(self.upper - self.lower) + 1 if self.integer else 10
        return np.linspace(self.lower, self.upper, (self.bins or min(10, whole)) + 1)

    @cached_property
    def _bins(self) -> Bins:
        return Bins(self.bin_edges, spikes=self.spikes, integer=self.integer)

    @property
    def size(self) -> int:
        """Number of bins and spikes; a bin in which there are only spikes is none."""
        return self._bins.size

    @property
    def centres(self) -> NDArray[np.float64]:
        """The middle of each bin, and each spike; increasing, shape ``(size,)``."""
        return self._bins.centres

    @property
    def interval_names(self) -> tuple[str, ...]:
        """What each code stands for, in text: ``"[0, 10)"``, or ``"0"`` for a spike."""
        return self._bins.names

    def encode_values(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bin, or spike, of each value in ``[lower, upper]``."""
        return self._bins.encode(values)

    def decode(
        self, codes: NDArray[np.integer], uniform: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Draw a value inside each bin, uniformly; a spike is always itself.

        Parameters
        ----------
        codes : array of int, shape (n,)
            Codes in ``0..size - 1``.
        uniform : array of float, shape (n,)
            Draws from [0, 1), one per cell. Never the bin's centre: that would distort every
            finer-grained statistic.
        """
        return self._bins.decode(codes, uniform)


AnyAttribute: TypeAlias = Categorical | Ordinal | Numeric
