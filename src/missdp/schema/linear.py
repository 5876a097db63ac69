"""Rules about numbers: linear equations, and orders."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from missdp.errors import SchemaError, replacing
from missdp.schema.attributes import MAX_WHOLE, Ordinal
from missdp.schema.bound import Bound, Derives, Forbids
from missdp.schema.numeric import Numeric
from missdp.schema.predicates import backticks_hint
from missdp.schema.rules import Rule

if TYPE_CHECKING:
    from missdp.schema.schema import Schema

__all__ = ["Equation", "Order"]


_TERM = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<quoted>`[^`]+`)|(?P<name>[^\W\d]\w*)|(?P<sign><=|[-+*=<]))"
)


def _tokens(rule: Rule, text: Any) -> list[tuple[str, str]]:
    if not isinstance(text, str):
        raise rule._wrong("it is written as text")
    found, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None:
            raise rule._wrong(f"cannot read {text[at:].strip()[:20]!r}")
        kind = str(match.lastgroup)
        found.append(("name" if kind == "quoted" else kind, match.group(kind).strip("`")))
        at = match.end()
    return found


def _hinting(rule: Rule, schema: Schema) -> AbstractContextManager[None]:
    """Add to a refusal that an odd name goes in backticks, if the rule has one without them."""
    hint = backticks_hint(rule.text, schema.names)
    return replacing(SchemaError, by=lambda error: SchemaError(f"{error}{hint}"))


@dataclass(frozen=True)
class Equation(Rule):
    """A linear equation between numbers, by which one of them follows from the others.

    Parameters
    ----------
    equation : str
        Such as ``"age + birth_year = 2024"`` or ``"2 * a - b = c"``; names that are no plain words
        go in backticks.
    determines : str, optional
        Which one follows from the others; by default the last one named.

    Examples
    --------
    >>> Equation("age + birth_year = 2024").text
    'age + birth_year = 2024'
    """

    kind: ClassVar[str] = "equation"
    equation: str
    determines: str | None = None

    @property
    def text(self) -> str:
        """The rule in words."""
        return str(self.equation)

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return the bound rule."""
        with _hinting(self, schema):
            terms, constant = self._sides()
            attributes = [self._attribute(schema, name) for name in terms]
        for attribute in attributes:
            if not isinstance(attribute, Numeric):
                raise self._wrong(f"{attribute.name!r} is not numeric")
        target = self.determines if self.determines is not None else next(reversed(terms), "")
        if not isinstance(target, str) or target not in terms:
            raise self._wrong(f"it cannot determine {target!r}, which it does not name")
        if len(terms) < 2 or not all(terms.values()):
            raise self._wrong("it needs at least two attributes, each with a multiple other than 0")
        by = tuple(name for name in terms if name != target)
        own = terms[target]
        multiples = tuple(-terms[name] / own for name in by)
        start = constant / own
        self._check_sizes(schema, dict(zip(by, multiples, strict=True)), start)
        if schema[target].integer and not all(schema[name].integer for name in by):  # type: ignore[union-attr]
            raise self._wrong(
                f"{target!r} is a whole number; so must be the attributes that it follows from"
            )
        return (Derives(self.text, schema[target], by, terms=multiples, start=start),)

    def _check_sizes(self, schema: Schema, multiples: Mapping[str, float], start: float) -> None:
        """Refuse numbers that floating point cannot add, or that vanish."""
        sizes = [abs(start)]
        for name, times in multiples.items():
            attribute = schema[name]
            assert isinstance(attribute, Numeric)
            sizes.append(abs(times) * max(abs(attribute.lower), abs(attribute.upper)))
        if not all(map(math.isfinite, multiples.values())) or not sum(sizes) < MAX_WHOLE:
            raise self._wrong("its numbers are too large: what follows must be below 2**53 in size")
        if not all(multiples.values()):
            raise self._wrong("its numbers differ so much in size that some of them vanish")

    def _sides(self) -> tuple[dict[str, float], float]:
        """Return the multiple of each attribute, all on the left, and the number on the right."""
        tokens = iter([*_tokens(self, self.equation), ("sign", "")])
        terms: dict[str, float] = {}
        constant, side = 0.0, 1.0
        end = "+"
        while end:
            if end == "=" and side < 0:
                raise self._wrong("it has more than one '='")
            side = -1.0 if end == "=" else side
            name, factor, after = self._term(tokens, first=end == "=" or not terms)
            factor *= -1.0 if end == "-" else 1.0
            if name is None:
                constant -= side * factor
            else:
                terms[name] = terms.get(name, 0.0) + side * factor
            end = after
        if side > 0:
            raise self._wrong("it has no '='")
        return terms, constant

    def _term(
        self, tokens: Iterator[tuple[str, str]], *, first: bool
    ) -> tuple[str | None, float, str]:
        """Read a number, a name or a multiple of a name, and the sign after it."""
        kind, word = next(tokens, ("sign", ""))
        factor = 1.0
        if first and word == "-":
            factor, (kind, word) = -1.0, next(tokens, ("sign", ""))
        name: str | None = None
        if kind == "number":
            factor *= float(word)
            sign = next(tokens)[1]
            if sign != "*":
                return None, factor, self._sign(sign)
            kind, word = next(tokens, ("sign", ""))
        if kind == "name":
            name = word
            return name, factor, self._sign(next(tokens)[1])
        raise self._wrong(f"expected a number or an attribute, found {word or 'the end'!r}")

    def _sign(self, sign: str) -> str:
        if sign not in ("+", "-", "=", ""):
            raise self._wrong(f"expected +, - or =, found {sign!r}")
        return sign


@dataclass(frozen=True)
class Order(Rule):
    """Attributes whose values never fall from one to the next.

    Parameters
    ----------
    order : str
        Names with ``<=`` or ``<`` between them, such as ``"start <= end"``. All are numbers, or
        all are ordinal with the same levels.

    Examples
    --------
    >>> Order("born < married <= died").text
    'born < married <= died'
    """

    kind: ClassVar[str] = "order"
    order: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return str(self.order)

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return one bound rule for each two neighbours."""
        with _hinting(self, schema):
            tokens = _tokens(self, self.order)
            names, signs = tokens[::2], tokens[1::2]
            in_turn = len(names) == len(signs) + 1 and len(names) > 1
            if (
                not in_turn
                or any(k != "name" for k, _ in names)
                or {s for _, s in signs} - {"<", "<="}
            ):
                raise self._wrong("it needs names with < or <= between them")
            found = [self._attribute(schema, name) for _, name in names]
        if len({attribute.name for attribute in found}) < len(found):
            raise self._wrong("it names an attribute twice")
        numbers = all(isinstance(attribute, Numeric) for attribute in found)
        scales = {a.levels if isinstance(a, Ordinal) else None for a in found}
        if not numbers and (None in scales or len(scales) > 1):
            raise self._wrong("all must be numeric, or all ordinal with the same levels")
        # What is forbidden: the opposite of each comparison.
        return tuple(
            Forbids(self.text, (one.name, two.name), ((one.name, _OPPOSITE[sign], two.name),))
            for (one, two), (_, sign) in zip(pairwise(found), signs, strict=True)
        )


_OPPOSITE = {"<=": ">", "<": ">="}
