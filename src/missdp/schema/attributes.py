"""What one cell means: a function of the cell and of public facts, never of other rows.

Every container (pandas, polars, Arrow, CSV, Parquet, DuckDB) hands its cells to the two readers
here, as text, as a number or as true/false. So the same value means the same thing everywhere, and
one person's cell cannot change how another person's cell is read.

Public facts about one column: its kind, its domain and whether it may be missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from missdp.errors import SchemaError, replacing

__all__ = [
    "MAX_WHOLE",
    "MISSING",
    "OUTSIDE",
    "AnyAttribute",
    "Attribute",
    "Categorical",
    "Level",
    "LevelReader",
    "Numeric",
    "Ordinal",
    "number_text",
    "read_number",
]


MAX_WHOLE: Final = 2**53  # from here on, floating-point numbers skip whole ones
MISSING: Final = -1
OUTSIDE: Final = -2

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.IGNORECASE | re.ASCII,
)
_TRUTH = {"true": True, "false": False}


def read_number(text: str) -> float | None:
    """Return the floating-point number nearest to what is written, None if it is no number.

    Digits are 0 to 9, with an optional sign, decimal point and exponent; ``inf``, ``infinity`` and
    ``nan`` in any case. Nothing else: no blanks, no thousands separators, no other bases.

    Examples
    --------
    >>> read_number("007"), read_number("-.5e1"), read_number("1_000"), read_number("0x10")
    (7.0, -5.0, None, None)
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def number_text(number: float) -> str:
    """Return the shortest text of a number; a whole one has no decimal point.

    Examples
    --------
    >>> number_text(7.0), number_text(0.1), number_text(-0.0)
    ('7', '0.1', '0')
    """
    if number.is_integer() and abs(number) < MAX_WHOLE:
        return str(int(number))
    return repr(number)


class LevelReader:
    """Read cells of a column with levels.

    Text equal to a level, blanks around it apart, is that level. Anything else that is a number,
    or is written like one, is the level that is the same number; true and false likewise. Several
    levels that are the same number, such as ``"7"`` and ``"007"``, are told apart by their text
    only; a number without text is the one that is written shortest.

    Parameters
    ----------
    levels : iterable of str, of int or of bool
        The domain, in order.
    missing_codes : iterable of str, int or float
        What else stands for missing.

    Examples
    --------
    >>> reader = LevelReader(("7", "8"), ("?", -9))
    >>> [reader.read(cell) for cell in ("7", " 8 ", 7.0, "07.0", "?", -9.0, "", "9")]
    [0, 1, 0, 0, -1, -1, -1, -2]
    """

    def __init__(
        self,
        levels: Iterable[str | int | bool],
        missing_codes: Iterable[str | float] = (),
    ) -> None:
        self._text: dict[str, int] = {}
        self._truth: dict[bool, int] = {}
        self._number: dict[float, int] = {}
        numbers: dict[float, list[tuple[str, int]]] = {}
        truths: dict[bool, list[tuple[str, int]]] = {}
        for code, level in enumerate(levels):
            if isinstance(level, bool):
                self._truth[level] = self._number[float(level)] = code
            elif isinstance(level, int):
                self._number[float(level)] = code
            else:
                self._text[level] = code
                number, truth = read_number(level), _TRUTH.get(level.lower())
                if number is not None:
                    numbers.setdefault(number, []).append((level, code))
                if truth is not None:
                    truths.setdefault(truth, []).append((level, code))
        for number, found in numbers.items():
            self._number[number] = _chosen(found, number_text(number))
        for truth, found in truths.items():
            self._truth[truth] = _chosen(found, str(truth).lower())
        self._add_codes(missing_codes)

    def _add_codes(self, missing_codes: Iterable[str | float]) -> None:
        for code in missing_codes:
            number: float | None
            if isinstance(code, str):
                self._text.setdefault(code.strip(), MISSING)
                number = read_number(code.strip())
            else:
                number = float(code)
            if number is not None:
                self._number.setdefault(number, MISSING)

    def read(self, cell: str | float | bool) -> int:
        """Return the number of the cell's level, or ``MISSING``, or ``OUTSIDE``."""
        if isinstance(cell, str):
            return self._read_text(cell.strip())
        if isinstance(cell, bool):
            return self._truth.get(cell, OUTSIDE)
        return MISSING if cell != cell else self._number.get(cell, OUTSIDE)

    def _read_text(self, text: str) -> int:
        if not text:
            return MISSING
        code = self._text.get(text)
        if code is not None:
            return code
        number = read_number(text)
        if number is not None:
            return self.read(number)
        truth = _TRUTH.get(text.lower())
        return OUTSIDE if truth is None else self._truth.get(truth, OUTSIDE)


def _chosen(found: list[tuple[str, int]], shortest: str) -> int:
    """Return the level that a value without text stands for."""
    if len(found) == 1:
        return found[0][1]
    return dict(found).get(shortest, OUTSIDE)


Level: TypeAlias = str | int | bool
OutsidePolicy: TypeAlias = Literal["error", "clamp", "missing"]

_MAX_LEVELS = 1_000_000
_LEVEL_TYPES = "levels must be a list, all text, all integers or all true/false"


class Attribute(BaseModel):
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

    model_config = ConfigDict(frozen=True, extra="forbid", str_min_length=0)

    name: StrictStr = Field(min_length=1)
    kind: str
    nullable: StrictBool = False
    missing_codes: tuple[StrictStr | StrictInt | StrictFloat, ...] = ()
    outside: OutsidePolicy = "error"
    label: StrictStr = ""
    units: StrictStr = ""
    undeclared: tuple[StrictStr, ...] = ()

    def __init__(self, **data: Any) -> None:
        def explained(error: BaseException) -> SchemaError:
            assert isinstance(error, ValidationError)
            return SchemaError(_explain(data.get("name"), error))

        with replacing(ValidationError, by=explained):
            super().__init__(**data)

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

    @model_validator(mode="after")
    def _check_common(self) -> Attribute:
        if self.outside == "missing" and not self.nullable:
            raise ValueError('outside = "missing" needs nullable = true')
        if self.missing_codes and not self.nullable:
            raise ValueError("missing_codes need nullable = true")
        if not all(isinstance(code, str) or abs(code) < MAX_WHOLE for code in self.missing_codes):
            raise ValueError(
                "missing_codes that are numbers must be finite and below 2**53 in size"
            )
        fields = set(type(self).model_fields)
        if unknown := [fact for fact in self.undeclared if fact not in fields]:
            raise ValueError(f"undeclared names facts that do not exist: {unknown}")
        return self


class _Levelled(Attribute):
    """An attribute whose domain is a finite list of levels of one type."""

    levels: tuple[StrictStr, ...] | tuple[StrictBool, ...] | tuple[StrictInt, ...]

    @model_validator(mode="after")
    def _check_levels(self) -> _Levelled:
        if not self.levels:
            raise ValueError("levels must not be empty")
        if len(self.levels) > _MAX_LEVELS:
            raise ValueError(f"at most {_MAX_LEVELS} levels are supported")
        if len({type(level) for level in self.levels}) > 1:
            raise ValueError(_LEVEL_TYPES)
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("levels must be distinct")
        if any(isinstance(level, int) and abs(level) >= MAX_WHOLE for level in self.levels):
            raise ValueError("levels that are whole numbers must be below 2**53 in size")
        if any(isinstance(level, str) and level != level.strip() for level in self.levels):
            raise ValueError(
                "levels must not begin or end with blanks: they are dropped on reading"
            )
        if "" in self.levels:
            raise ValueError("the empty text cannot be a level: an empty field means missing")
        if clash := self._levels_that_are_codes():
            raise ValueError(f"levels and missing_codes overlap: {clash}")
        if self.outside == "clamp":
            raise ValueError('outside = "clamp" is for numeric attributes only')
        return self

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

    kind: Literal["categorical"] = "categorical"


class Ordinal(_Levelled):
    """An attribute with ordered levels, lowest first.

    Examples
    --------
    >>> Ordinal(name="grade", levels=("9", "10", "11", "12")).size
    4
    """

    kind: Literal["ordinal"] = "ordinal"


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

    Examples
    --------
    >>> age = Numeric(name="age", lower=0, upper=100, integer=True, bins=10)
    >>> age.encode_values(np.array([0.0, 9.9, 10.0, 100.0])).tolist()
    [0, 0, 1, 9]
    """

    kind: Literal["numeric"] = "numeric"
    lower: float
    upper: float
    integer: StrictBool = False
    bins: Annotated[StrictInt, Field(ge=1, le=_MAX_LEVELS)] | None = None
    edges: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _check_numeric(self) -> Numeric:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise ValueError("lower and upper must be finite")
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")
        if self.integer and not (self.lower.is_integer() and self.upper.is_integer()):
            raise ValueError("integer attributes need whole-number bounds")
        if max(abs(self.lower), abs(self.upper)) >= MAX_WHOLE:
            raise ValueError(
                "lower and upper must be below 2**53 in size, where numbers are still told apart"
            )
        if self.bins is not None and self.edges is not None:
            raise ValueError("give bins or edges, not both")
        if self.edges is not None:
            self._check_edges(self.edges)
        if np.any(np.diff(self.bin_edges) <= 0):
            raise ValueError("bins are narrower than floating-point numbers can tell apart")
        if self.integer and np.any(self._integer_counts() < 1):
            raise ValueError("every bin of an integer attribute must hold a whole number")
        self._check_numeric_codes()
        return self

    def _check_numeric_codes(self) -> None:
        for code in self.missing_codes:
            if isinstance(code, str):
                number = read_number(code.strip())
                if number is not None and not math.isnan(number):
                    raise ValueError(
                        "missing_codes of a numeric attribute that are numbers go without quotes"
                    )
            elif self.lower <= code <= self.upper:
                raise ValueError(
                    "missing_codes that are numbers must lie outside [lower, upper]: inside, they "
                    "cannot be told from values"
                )

    def _check_edges(self, edges: tuple[float, ...]) -> None:
        array = np.asarray(edges)
        if len(edges) < 2 or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
            raise ValueError("edges must be at least two finite, strictly increasing numbers")
        if edges[0] != self.lower or edges[-1] != self.upper:
            raise ValueError("edges must start at lower and end at upper")

    @property
    def bin_edges(self) -> NDArray[np.float64]:
        """Edges of the bins, shape ``(size + 1,)``."""
        if self.edges is not None:
            return np.asarray(self.edges, dtype=np.float64)
        return np.linspace(self.lower, self.upper, self.size + 1)

    @property
    def size(self) -> int:
        """Number of bins."""
        if self.edges is not None:
            return len(self.edges) - 1
        if self.bins is not None:
            return self.bins
        whole = int(self.upper - self.lower) + 1 if self.integer else 10
        return min(10, whole)

    def encode_values(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bin of each value in ``[lower, upper]``."""
        codes = np.searchsorted(self.bin_edges, values, side="right") - 1
        return np.clip(codes, 0, self.size - 1)

    def _integer_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """First whole number of each bin, and the first one after it."""
        edges = self.bin_edges
        first, after = np.ceil(edges[:-1]), np.ceil(edges[1:])
        after[-1] = self.upper + 1
        return first, after

    def _integer_counts(self) -> NDArray[np.float64]:
        first, after = self._integer_bounds()
        return after - first

    def decode(
        self, codes: NDArray[np.integer], uniform: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Draw a value inside each bin, uniformly.

        Parameters
        ----------
        codes : array of int, shape (n,)
            Bin numbers in ``0..size - 1``.
        uniform : array of float, shape (n,)
            Draws from [0, 1), one per cell. Never the bin's centre: that would distort every
            finer-grained statistic.
        """
        if self.integer:
            first, after = self._integer_bounds()
            drawn = first[codes] + np.floor(uniform * (after - first)[codes])
        else:
            edges = self.bin_edges
            drawn = edges[codes] + uniform * np.diff(edges)[codes]
        return np.asarray(drawn, dtype=np.float64)


AnyAttribute: TypeAlias = Annotated[Categorical | Ordinal | Numeric, Field(discriminator="kind")]


def _explain(name: object, error: ValidationError) -> str:
    """One line out of pydantic's report; the schema is public, so its facts may be named."""
    parts = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(step) for step in item["loc"] if not str(step).startswith("tuple["))
        message = str(item["msg"]).removeprefix("Value error, ")
        if where.startswith("levels") and item["type"] != "missing":
            where, message = "", _LEVEL_TYPES
        if where.startswith("missing_codes"):
            where, message = "", "missing_codes must be a list of text or numbers"
        parts.append(f"{where}: {message}" if where else message)
    subject = f"attribute {name!r}" if isinstance(name, str) and name else "an attribute"
    return f"{subject} is not valid: " + "; ".join(dict.fromkeys(parts))
