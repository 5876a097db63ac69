"""All rules of a schema together: in which order they apply, and whether they contradict."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TypeVar

import numpy as np

from missdp.errors import SchemaError
from missdp.schema.bound import Bound, Derives, Forbids, Routes
from missdp.schema.conditions import Compare, Known
from missdp.schema.denial import Denial
from missdp.schema.differences import Difference, EitherDate
from missdp.schema.numeric import Columns
from missdp.schema.possible import ImpossibleCells, check_possible, impossible_cells, in_order
from missdp.schema.rules import Rule

_Rule = TypeVar("_Rule", Derives, Routes)

_MOST_CELLS = 1_000_000  # of one table of impossible cells


class RuleBook:
    """The rules of a schema, bound to its attributes."""

    def __init__(self, columns: Columns, rules: Iterable[Rule]) -> None:
        self._columns, rules = columns, tuple(rules)
        bound = [b for rule in rules for b in rule.bound(columns)]
        bound += [a.computing(columns) for a in columns.values() if isinstance(a, Difference)]
        #: Every rule as it is computed with.
        self.bound: tuple[Bound, ...] = (*bound, *_through_holes(bound, columns))
        #: The attributes that follow from others.
        self.derives = _by_target(b for b in self.bound if isinstance(b, Derives))
        #: The attributes that are applicable to some rows only.
        self.routes = _by_target(b for b in self.bound if isinstance(b, Routes))
        #: What no row has.
        self.forbids = tuple(rule for rule in self.bound if isinstance(rule, Forbids))
        #: What no two rows have, or few if it holds mostly; drawing row by row ignores it.
        self.pairs = tuple(
            pair
            for rule in rules
            if isinstance(rule, Denial) and (pair := rule.pair(columns)) is not None
        )
        #: Linear equations by which a missing cell follows from what is otherwise determined.
        self.solved = tuple(
            rule.solved(columns[name])
            for rule in self.derives.values()
            if rule.lookup is None
            for name in rule.by
            if columns[name].nullable
        )
        #: Attributes that follow or are routed, each after all that it depends on.
        self.order = self._in_order() if self.bound else ()
        self._check_holes()
        if self.bound:
            check_possible(columns, self.bound)

    @property
    def filled(self) -> frozenset[str]:
        """Attributes that a row may have settled although no value of them was observed.

        Rules fill their missing cells; or they are not applicable to some rows, whatever went
        missing: where there is no value, none is lost. One of two dates is there if either is.
        """
        known = {
            a.name
            for a in self._columns.values()
            if a.not_applicable is not None or a.settled or isinstance(a, EitherDate)
        }
        solved = {rule.target.name for rule in self.solved}
        return frozenset({*self.derives, *self.routes, *known, *solved})

    @property
    def may_fill(self) -> frozenset[str]:
        """The same, whatever cells may be missing."""
        linear = (rule.by for rule in self.derives.values() if rule.lookup is None)
        return self.filled.union(*linear)

    def reached(self, names: Iterable[str]) -> frozenset[str]:
        """Return the attributes that the given ones hang together with by rules, them included."""
        found = set(names)
        while True:
            near = {n for rule in self.bound if found & {*rule.names} for n in rule.names}
            if near <= found:
                return frozenset(found)
            found |= near

    @cached_property
    def impossible(self) -> ImpossibleCells:
        """Combinations of levels and bins that no row has, where their tables are not too large."""
        if not self.bound:
            return {}
        attributes = self._columns.values()
        known = {a.name: Known.of(a, np.arange(a.missing_code), None) for a in attributes}
        return impossible_cells(self.bound, known, most=_MOST_CELLS)

    def _in_order(self) -> tuple[str, ...]:
        """Order what follows after what it depends on, or refuse a circle."""
        needs: dict[str, set[str]] = {}
        rules: list[Derives | Routes] = [*self.derives.values(), *self.routes.values()]
        for rule in rules:
            needs.setdefault(_target_of(rule), set()).update(rule.reads)
        found = in_order(
            needs,
            "follow from each other in a circle; leave one of these rules out, or let an equation "
            "determine another attribute",
        )
        return tuple(name for name in found if name in needs)

    def _check_holes(self) -> None:
        for rule in self.derives.values():
            given = [self._columns[name] for name in rule.by]
            if any(a.nullable for a in given) and not (rule.target.nullable or rule.instead):
                raise SchemaError(
                    f"rule {rule.text!r}: {rule.target.name!r} must be nullable, since an "
                    "attribute that it follows from may be missing"
                )


def _through_holes(bound: Iterable[Bound], columns: Columns) -> list[Forbids]:
    """Return what orders say of two attributes when the one between them is missing."""
    orders: dict[tuple[str, str], tuple[bool, str]] = {}
    for rule in bound:
        never = rule.never if isinstance(rule, Forbids) else None
        if isinstance(never, Compare) and never.pair and never.sign in (">", ">="):
            orders[never.pair] = never.sign == ">=", rule.text
    between = [a.name for a in columns.values() if a.nullable and a.not_applicable is None]
    found = dict(orders)
    for via in between:
        for (one, near), (strict, text) in list(found.items()):
            for (far, two), (also, more) in list(found.items()) if near == via else ():
                known = found.get((one, two), (False, ""))
                if far == via and one != two and not (known[1] and known[0] >= (strict or also)):
                    joined = text if more == text else f"{text} and {more}"
                    found[one, two] = strict or also, joined
    return [
        Forbids(text, Compare(columns[one], ">=" if strict else ">", columns[two]))
        for (one, two), (strict, text) in found.items()
        if orders.get((one, two)) != (strict, text)
    ]


def _target_of(rule: Derives | Routes) -> str:
    """Return the attribute that a rule is about."""
    return rule.target if isinstance(rule, Routes) else rule.target.name


def _by_target(rules: Iterable[_Rule]) -> dict[str, _Rule]:
    found: dict[str, _Rule] = {}
    for rule in rules:
        name = _target_of(rule)
        if name in found:
            verb = "is routed" if isinstance(rule, Routes) else "follows from others"
            raise SchemaError(
                f"rules: {name!r} {verb} by two rules, {found[name].text!r} and {rule.text!r}; "
                "make one of them"
            )
        found[name] = rule
    return found


def not_applicable(columns: Columns, rules: Iterable[Rule]) -> frozenset[str]:
    """Return the attributes that are not applicable to some rows."""
    bound = [b for rule in rules for b in rule.bound(columns)]
    found = {a.name for a in columns.values() if a.not_applicable is not None}
    found |= {rule.target for rule in bound if isinstance(rule, Routes)}
    derived = [rule for rule in bound if isinstance(rule, Derives)]
    grown = {*found}
    while grown:
        grown = {r.target.name for r in derived if found & {*r.by}} - found
        found |= grown
    return frozenset(found)
