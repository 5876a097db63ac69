"""Three-valued logic: whether conditions hold in rows of which some cells are missing.

A condition is true, false or unknown in a row: a missing cell leaves it open (Kleene 1952). To
which rows an attribute applies is decided alike: a cell with a value applies, and one that is not
applicable does not. Where the condition of a :class:`~missdp.schema.NotApplicable` rule reads a
cell that is missing too, the attribute may not apply, and nobody should invent a value. An
attribute that follows from others applies where they do. Without such a rule, the data mark by a
code that an attribute is not applicable; any other missing cell is in a row to which the attribute
applies.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema.numeric import AnyAttribute, Numeric
from missdp.types import Flags, Floats

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True, eq=False)
class Truth:
    """Whether a condition holds in each row: true, false, or unknown since a cell is missing.

    Parameters
    ----------
    is_true, is_false : ndarray of bool, shape (n_rows,)
        Never both in one row. Private, if the rows are.

    Examples
    --------
    >>> import numpy as np
    >>> known = Truth(np.array([True, False, False]), np.array([False, True, False]))
    >>> (~known).is_true.tolist(), (known | ~known).is_true.tolist()
    ([False, True, False], [True, True, False])
    """

    is_true: Flags
    is_false: Flags

    @classmethod
    def of(cls, flags: Flags) -> Truth:
        """Return a truth that is unknown in no row."""
        return cls(flags, ~flags)

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.is_true & other.is_true, self.is_false | other.is_false)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.is_true | other.is_true, self.is_false & other.is_false)

    def __invert__(self) -> Truth:
        return Truth(self.is_false, self.is_true)


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """What is known of cells of one attribute: bounds on each value, or why there is no value.

    Parameters
    ----------
    low, high : ndarray of float, shape (n_rows,)
        Bounds on the value, or on the code of the level.
    missing : ndarray of bool, shape (n_rows,)
        Where the value is missing, so that nothing is known of it.
    not_applicable : ndarray of bool, shape (n_rows,)
        Where the attribute is not applicable, so that there is no value.
    """

    low: Floats
    high: Floats
    missing: Flags
    not_applicable: Flags

    @property
    def has_value(self) -> Flags:
        """Whether there is a value, known within the bounds."""
        return ~(self.missing | self.not_applicable)

    @property
    def applies(self) -> Truth:
        """Whether the attribute applies, as far as the cell itself says."""
        return Truth(self.has_value, self.not_applicable)

    @property
    def are_exact(self) -> Flags:
        """Whether the bounds are one number."""
        return np.asarray(self.low == self.high)

    @classmethod
    def of(
        cls, attribute: AnyAttribute, codes: NDArray[np.integer], values: Floats | None
    ) -> Cells:
        """Return what codes, and values if there are any, say about cells."""
        missing = np.asarray(codes >= attribute.missing_code)
        not_applicable = np.asarray(codes >= attribute.size) & ~missing
        if values is not None:
            return cls(values, values, missing, not_applicable)
        inside = np.where(missing | not_applicable, 0, codes).astype(np.int64)
        if isinstance(attribute, Numeric):
            low, high = attribute.code_ranges
            return cls(low[inside], high[inside], missing, not_applicable)
        levels = inside.astype(np.float64)
        return cls(levels, levels, missing, not_applicable)

    @classmethod
    def exact(cls, values: Floats) -> Cells:
        """Return cells that all have a known value."""
        none = np.zeros(len(values), dtype=bool)
        return cls(values, values, none, none)

    def without_missing(self) -> Cells:
        """Return the same cells, each missing one as if the attribute were not applicable."""
        return Cells(self.low, self.high, np.zeros_like(self.missing), ~self.has_value)


CellsByName: TypeAlias = Mapping[str, Cells]


def compare(a: Cells, sign: str, b: Cells) -> Truth:
    """Compare two columns; a cell that is not applicable satisfies no comparison.

    Parameters
    ----------
    a, b : Cells
        As many cells each.
    sign : str
        ``"=="``, ``"!="``, ``"<"``, ``"<="``, ``">"`` or ``">="``.

    Returns
    -------
    Truth
        Unknown where a cell is missing, or where the bounds of both cells leave it open.
    """
    if sign in (">", ">="):
        return compare(b, MIRRORED[sign], a)
    if sign == "<":
        true, false = a.high < b.low, a.low >= b.high
    elif sign == "<=":
        true, false = a.high <= b.low, a.low > b.high
    else:
        false = (a.high < b.low) | (b.high < a.low)
        true = a.are_exact & b.are_exact & ~false
        if sign == "!=":
            true, false = false, true
    not_applicable = a.not_applicable | b.not_applicable
    known = a.has_value & b.has_value
    return Truth(true & known, (false & known) | not_applicable)


class Predicate(ABC):
    """Which rows belong to a subpopulation: a function of each row alone."""

    @abstractmethod
    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons that it is made of."""

    @abstractmethod
    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Decide it for ``n`` rows; parts that share a cell leave more open than there is."""

    @abstractmethod
    def opposite(self) -> Predicate:
        """Return the denial by opposite comparisons, none of which "not applicable" satisfies."""

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return frozenset(a.name for part in self.comparisons() for a in part.attributes)

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that belong; a missing cell satisfies no comparison."""
        read = {a.name: a for part in self.comparisons() for a in part.attributes}
        cells = {
            name: Cells.of(
                a, rows.codes(name), rows.values(name) if isinstance(a, Numeric) else None
            ).without_missing()
            for name, a in read.items()
        }
        return self.truth(cells, len(rows)).is_true


@dataclass(frozen=True)
class Comparison(Predicate):
    """An attribute compared with a constant, or with another attribute of the row."""

    left: AnyAttribute
    operator: str
    right: AnyAttribute | float

    @property
    def attributes(self) -> tuple[AnyAttribute, ...]:
        """Attributes that it reads."""
        return (self.left,) if isinstance(self.right, float) else (self.left, self.right)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield itself."""
        yield self

    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Compare the cells."""
        constant = isinstance(self.right, float)
        right = Cells.exact(np.full(n, self.right)) if constant else cells[self.right.name]  # type: ignore[union-attr]
        return compare(cells[self.left.name], self.operator, right)

    def opposite(self) -> Comparison:
        """Return the comparison that holds where there are values and this one fails."""
        return Comparison(self.left, _OPPOSITE[self.operator], self.right)


@dataclass(frozen=True)
class Junction(Predicate):
    """Conjunction or disjunction of rows that belong to all parts, or any; of none, all rows."""

    parts: tuple[Predicate, ...]
    all_of: bool

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of all parts."""
        for part in self.parts:
            yield from part.comparisons()

    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Join what holds of the parts."""
        joined = Truth.of(np.full(n, self.all_of))
        for part in self.parts:
            truth = part.truth(cells, n)
            joined = joined & truth if self.all_of else joined | truth
        return joined

    def opposite(self) -> Junction:
        """Return the other junction of the opposite parts."""
        return Junction(tuple(part.opposite() for part in self.parts), all_of=not self.all_of)


@dataclass(frozen=True)
class Not(Predicate):
    """Complement: rows that do not belong to ``part``."""

    part: Predicate

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of what it denies."""
        yield from self.part.comparisons()

    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Deny what holds of the part."""
        return ~self.part.truth(cells, n)

    def opposite(self) -> Predicate:
        """Return what it denies."""
        return self.part
