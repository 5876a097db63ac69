"""Three-valued logic: the truth of conditions in rows with missing cells.

A condition is true, false or unknown in a row. A missing cell makes it unknown (Kleene 1952). An
attribute applies to a row if its cell has a value, and does not apply if the cell is not
applicable. For a missing cell, the condition of a :class:`~missdp.schema.NotApplicable` rule
decides. If this condition is unknown too, the attribute may not apply, and no value is imputed. An
attribute that follows from others applies if they apply. Without a rule, a code in the data marks
cells that are not applicable, and every other missing cell is in a row to which the attribute
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
    """Truth of a condition in each row: true, false, or unknown because of a missing cell.

    Parameters
    ----------
    is_true, is_false : ndarray of bool, shape (n_rows,)
        Never both in one row. Private if the rows are private.

    Examples
    --------
    >>> from missdp.schema.logic import Truth
    >>> import numpy as np
    >>> truth = Truth(np.array([True, False, False]), np.array([False, True, False]))
    >>> (~truth).is_true.tolist(), (truth | ~truth).is_true.tolist()
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
    """Cells of one attribute: bounds on each value, or the kind of an absent value.

    Parameters
    ----------
    low, high : ndarray of float, shape (n_rows,)
        Bounds on the value, or on the code of the level.
    missing : ndarray of bool, shape (n_rows,)
        True for a missing value, on which there is no information.
    not_applicable : ndarray of bool, shape (n_rows,)
        True if the attribute is not applicable, so that there is no value.
    """

    low: Floats
    high: Floats
    missing: Flags
    not_applicable: Flags

    @property
    def has_value(self) -> Flags:
        """True for cells with a value, which lies within the bounds."""
        return ~(self.missing | self.not_applicable)

    @property
    def applies(self) -> Truth:
        """Truth of "the attribute applies", by the cell alone."""
        return Truth(self.has_value, self.not_applicable)

    @property
    def are_exact(self) -> Flags:
        """True for cells whose bounds are equal."""
        return np.asarray(self.low == self.high)

    @classmethod
    def of(
        cls, attribute: AnyAttribute, codes: NDArray[np.integer], values: Floats | None
    ) -> Cells:
        """Build cells from codes, and from values if there are any.

        Parameters
        ----------
        attribute : attribute
            Public.
        codes : ndarray of int, shape (n_rows,)
            Private if the rows are private.
        values : ndarray of float, shape (n_rows,), optional
            Numbers. Without numbers, the bounds are the limits of the bins.

        Returns
        -------
        Cells
            With exact values, levels, or bounds by bin.
        """
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
        """Build cells that all have an exact value."""
        none = np.zeros(len(values), dtype=bool)
        return cls(values, values, none, none)

    def without_missing(self) -> Cells:
        """Return the cells with each missing cell marked as not applicable."""
        return Cells(self.low, self.high, np.zeros_like(self.missing), ~self.has_value)


CellsByName: TypeAlias = Mapping[str, Cells]


def compare(a: Cells, sign: str, b: Cells) -> Truth:
    """Compare two columns. A cell that is not applicable satisfies no comparison.

    Parameters
    ----------
    a, b : Cells
        Cells of two attributes, in the same rows.
    sign : str
        ``"=="``, ``"!="``, ``"<"``, ``"<="``, ``">"`` or ``">="``.

    Returns
    -------
    Truth
        Unknown for a missing cell, or if the bounds of the two cells do not decide.
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
    have_values = a.has_value & b.has_value
    return Truth(true & have_values, (false & have_values) | not_applicable)


class Predicate(ABC):
    """Condition that selects a subpopulation, a function of each row alone."""

    @abstractmethod
    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of the condition."""

    @abstractmethod
    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Return the truth for ``n`` rows. Parts that share a cell are treated as independent."""

    @abstractmethod
    def opposite(self) -> Predicate:
        """Return the negation by opposite comparisons. "Not applicable" satisfies none of them."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the attributes that the condition reads."""
        return frozenset(a.name for part in self.comparisons() for a in part.attributes)

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that satisfy it. A missing cell satisfies no comparison."""
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
    """Comparison of an attribute with a constant, or with another attribute of the row."""

    left: AnyAttribute
    operator: str
    right: AnyAttribute | float

    @property
    def attributes(self) -> tuple[AnyAttribute, ...]:
        """The attributes that the comparison reads."""
        return (self.left,) if isinstance(self.right, float) else (self.left, self.right)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield this comparison."""
        yield self

    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Return the truth of the comparison for ``n`` rows."""
        constant = isinstance(self.right, float)
        right = Cells.exact(np.full(n, self.right)) if constant else cells[self.right.name]  # type: ignore[union-attr]
        return compare(cells[self.left.name], self.operator, right)

    def opposite(self) -> Comparison:
        """Return the comparison that holds for values that fail this comparison."""
        return Comparison(self.left, _OPPOSITE[self.operator], self.right)


@dataclass(frozen=True)
class Junction(Predicate):
    """Conjunction or disjunction of conditions. A conjunction without parts selects all rows."""

    parts: tuple[Predicate, ...]
    all_of: bool

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of all parts."""
        for part in self.parts:
            yield from part.comparisons()

    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Return the conjunction or disjunction of the truths of the parts."""
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
    """Negation of a condition."""

    part: Predicate

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparisons of the negated condition."""
        yield from self.part.comparisons()

    def truth(self, cells: CellsByName, n: int) -> Truth:
        """Return the negated truth."""
        return ~self.part.truth(cells, n)

    def opposite(self) -> Predicate:
        """Return the negated condition."""
        return self.part
