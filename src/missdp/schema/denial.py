"""Denial constraints: comparisons that never hold together, in one row or in two rows of a table.

The text is that of data-cleaning tools: ``t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)`` says that
no two rows have the same zip code and different cities. With one row only, or where only one of
the two is compared, it is a rule about single rows like any other. What is about two rows may hold
always, or mostly: then some pairs of rows violate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from missdp.errors import MissDPError, SchemaError, replacing
from missdp.schema import language
from missdp.schema.attributes import Categorical
from missdp.schema.conditions import Bound, Compare, Forbids, Join
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.schema.rules import Rule, scale_of

Holds: TypeAlias = Literal["always", "mostly"]


@dataclass(frozen=True, eq=False)
class PairDenial:
    """A bound denial constraint about two rows, t1 and t2: what never holds together of them.

    Parameters
    ----------
    text : str
    between : tuple of (str, str, str)
        A sign, the attribute of t1 and the attribute of t2 that it compares.
    first, second : tuple of Compare
        What is compared within t1 alone, and within t2 alone.
    holds : {"always", "mostly"}
        Whether no pair of rows violates it, or some pairs do.
    """

    text: str
    between: tuple[tuple[str, str, str], ...]
    first: tuple[Compare, ...] = ()
    second: tuple[Compare, ...] = ()
    holds: Holds = "always"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it compares, each once, in the order of the text's comparisons."""
        found = [name for _, one, two in self.between for name in (one, two)]
        for part in (*self.first, *self.second):
            found += [a.name for a in part.attributes]
        return tuple(dict.fromkeys(found))

    @property
    def dependency(self) -> tuple[tuple[str, ...], str] | None:
        """What it says if it is a functional dependency: rows that agree on these agree on that."""
        equal = tuple(one for sign, one, two in self.between if sign == "==" and one == two)
        other = [one for sign, one, two in self.between if sign == "!=" and one == two]
        whole = len(equal) + 1 == len(self.between) and not self.first and not self.second
        return (equal, other[0]) if whole and equal and len(other) == 1 else None


@dataclass(frozen=True)
class Denial(Rule):
    """A denial constraint: comparisons that never hold together in one row, or in two rows.

    Parameters
    ----------
    constraint : str
        Such as ``"t1&EQ(t1.sex,'male')&EQ(t1.pregnant,'yes')"`` for one row or
        ``"t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"`` for two. The comparisons are EQ, IQ (not
        equal), LT, LTE, GT, GTE; a side may be a constant. ``"not(t1.zip = t2.zip and t1.city !=
        t2.city)"`` means the same. Names with other characters go in backticks.
    holds : {"always", "mostly"}, default "always"
        What is about two rows may hold mostly: some pairs of rows violate it. How many do is
        private, and is released before synthetic rows are made to violate it as often.

    Notes
    -----
    What is about single rows holds in every synthetic row, as any other rule. What is about two
    rows is not: it is at hand in ``schema.rulebook.pairs`` for families that can make rows obey it.

    Examples
    --------
    >>> Denial("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)").dependency
    (('zip',), 'city')
    >>> Denial("t1&LT(t1.age,18)&EQ(t1.licence,'yes')").is_about_pairs
    False
    """

    kind: ClassVar[str] = "denial"
    constraint: str
    holds: Holds = "always"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as JSON values; ``holds`` is left out where it is "always"."""
        found = super().to_dict()
        if self.holds == "always":  # as in files that were written before there was a choice
            del found["holds"]
        return found

    @cached_property
    def _parts(self) -> tuple[language.Part, ...]:
        if not isinstance(self.constraint, str):
            raise self._wrong("it is written as text")
        with self._reading({}):
            return language.denial(self.constraint)

    @cached_property
    def _cells(self) -> tuple[language.Cell, ...]:
        """The rows and attributes that it compares."""
        return tuple(c for one, _, two in self._parts for c in (one, two) if isinstance(c, tuple))

    @property
    def is_about_pairs(self) -> bool:
        """Whether it compares two rows."""
        return len({row for row, _ in self._cells}) > 1

    @property
    def dependency(self) -> tuple[tuple[str, ...], str] | None:
        """What it says if it is a functional dependency: rows that agree on these agree on that."""
        between = tuple(
            (sign, one[1], two[1])
            for one, sign, two in self._parts
            if isinstance(two, tuple) and one[0] != two[0]
        )
        whole = len(between) == len(self._parts)
        return PairDenial(self.text, between).dependency if whole else None

    def about(self, columns: Columns) -> frozenset[str]:
        """Return the attributes that the rule is about."""
        del columns
        return frozenset(name for _, name in self._cells)

    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return what is forbidden within one row; nothing if two rows are compared."""
        if self.holds not in get_args(Holds):
            raise self._wrong(f"it holds 'always' or 'mostly', not {self.holds!r}")
        _, alone = self._compared(columns)
        if self.is_about_pairs:
            return ()
        if self.holds == "mostly":
            raise self._wrong("only what is about two rows may hold 'mostly'")
        return (Forbids(self.text, Join((*alone[1], *alone[2]), all_of=True)),)

    def pair(self, columns: Columns) -> PairDenial | None:
        """Return the constraint as it is computed between two rows; None if it is about one row."""
        if not self.is_about_pairs:
            return None
        between, alone = self._compared(columns)
        return PairDenial(
            self.text, tuple(between), tuple(alone[1]), tuple(alone[2]), holds=self.holds
        )

    def _compared(
        self, columns: Columns
    ) -> tuple[list[tuple[str, str, str]], dict[int, list[Compare]]]:
        """Return what is compared between two rows, and within the first and the second one."""
        between: list[tuple[str, str, str]] = []
        alone: dict[int, list[Compare]] = {1: [], 2: []}
        for (row, name), sign, other in self._parts:
            first = self._attribute(columns, name)
            if not isinstance(other, tuple):
                with self._reading(columns):
                    alone[row].append(language.compare(first, sign, other))
                continue
            second = self._attribute(columns, other[1])
            if (row, name) == other:
                raise self._wrong(f"it compares {name!r} with itself in one row")
            self._check_scales(first, sign, second)
            if row != other[0]:
                between.append((sign, first.name, second.name))
            else:
                alone[row].append(Compare(first, sign, second))
        return between, alone

    def _check_scales(self, one: AnyAttribute, sign: str, two: AnyAttribute) -> None:
        """Refuse to compare what is not on one scale."""
        if isinstance(one, Numeric) or isinstance(two, Numeric):
            if scale_of(one) != scale_of(two):
                raise self._wrong(
                    f"{one.name!r} and {two.name!r} cannot be compared: only one is numeric, or "
                    "their dates are in different units"
                )
            return
        if one.levels != two.levels:
            raise self._wrong(
                f"{one.name!r} and {two.name!r} cannot be compared: their levels differ"
            )
        unordered = [a.name for a in (one, two) if isinstance(a, Categorical)]
        if sign not in ("==", "!=") and unordered:
            raise self._wrong(f"{unordered[0]!r} has no order; make it ordinal, or use EQ and IQ")


def read_denials(path: str | Path, *, holds: Holds = "always") -> tuple[Denial, ...]:
    """Read denial constraints from a text file, one on each line; # begins a comment line.

    Parameters
    ----------
    path : str or Path
    holds : {"always", "mostly"}, default "always"
        What every one of them does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "constraints.txt")
    ...     _ = path.write_text("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)")
    ...     read_denials(path)
    (Denial(constraint='t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)', holds='always'),)
    """

    def unreadable(error: BaseException) -> MissDPError:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        return SchemaError(f"cannot read {str(path)!r}: {reason}")

    with replacing(OSError, ValueError, by=unreadable):
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    found = [
        Denial(line.strip(), holds) for line in lines if line.strip() and line.strip()[0] != "#"
    ]
    for denial in found:
        _ = denial.is_about_pairs  # refused now, if it cannot be read
    return tuple(found)
