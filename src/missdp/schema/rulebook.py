"""All rules of a schema together: in which order they apply, and whether they contradict.

Contradictions are found when a schema is read: the values of each attribute are cut into pieces on
which no condition changes its answer. Impossible combinations of the pieces of each rule are
joined: all of them at once where that is small, otherwise piece by piece until nothing more is
ruled out (arc consistency). What is refused is impossible for sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from missdp.errors import SchemaError
from missdp.schema.conditions import (
    Bound,
    Compare,
    Derives,
    Forbids,
    Join,
    Known,
    Routes,
    Verdict,
    compared,
    decided,
)
from missdp.schema.differences import Difference, EitherDate
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.schema.rules import Rule
from missdp.types import Flags, Ints

_MOST_CELLS = 300_000  # of one table
_MOST_IN_ALL = 4_000_000  # of all tables; rules beyond that are not looked at

_MOST_AXES = 30

#: Cells that no row is in, by attribute names: an axis for each; "not applicable" comes last.
ImpossibleCells: TypeAlias = Mapping[tuple[str, ...], Flags]


def _check_possible(columns: Columns, rules: tuple[Bound, ...]) -> None:
    """Refuse rules that order attributes in a circle, or leave a level no row."""
    _check_circles(rules)
    names = dict.fromkeys(name for rule in rules for name in rule.names)
    pieces = {name: _pieces(columns[name], rules) for name in names}
    known = {name: found.known for name, found in pieces.items()}
    tables = _impossible_cells(rules, known, most=_MOST_CELLS, in_all=_MOST_IN_ALL)
    alive = {name: np.ones(len(found.hole), dtype=bool) for name, found in known.items()}
    changed = True
    while changed:
        changed = sum(_rule_out({names: table}, alive) for names, table in tables.items()) > 0
    for part in _connected(tables):
        _rule_out({names: tables[names] for names in part}, alive)
    for name, left in alive.items():
        _check_alive(columns[name], pieces[name].codes[left[pieces[name].classes]], rules)


class _Pieces(NamedTuple):
    """Pieces of an attribute's values: the code and the class of each, a piece of each class."""

    codes: Ints
    classes: Ints
    known: Known


def _pieces(attribute: AnyAttribute, rules: tuple[Bound, ...]) -> _Pieces:
    """Cut the values of an attribute, "not applicable" among them, so that rules are decided."""
    alone = [
        (part.sign, part.two)
        for rule in rules
        for part in _comparisons(rule)
        if isinstance(part.two, float) and part.one.name == attribute.name
    ]
    widths = [len(rule.names) for rule in rules if attribute.name in _computed_with(rule)]
    most = _MOST_CELLS ** (1 / max(widths)) if widths else 0
    if not isinstance(attribute, Numeric):
        codes = np.arange(attribute.size)
        least = greatest = codes.astype(np.float64)
    elif attribute.integer and attribute.upper - attribute.lower < most:
        least = greatest = np.arange(attribute.lower, attribute.upper + 1)
        codes = attribute.encode_values(least)
    else:
        codes, least, greatest = attribute.pieces_at(value for _, value in alone)
    absent = np.zeros(len(codes), dtype=bool)
    if attribute.not_applicable is not None:
        codes, absent = np.append(codes, attribute.size), np.append(absent, True)
        least, greatest = np.append(least, least[0]), np.append(greatest, greatest[0])
    known = Known(least, greatest, np.zeros(len(codes), dtype=bool), absent)
    told_apart = [np.arange(len(codes)) if widths else absent.astype(np.int64)]
    for sign, value in alone:
        surely, _ = compared(known, sign, Known.constant(value, len(codes)))
        told_apart.append(surely.astype(np.int64))
    _, first, classes = np.unique(
        np.array(told_apart), axis=1, return_index=True, return_inverse=True
    )
    return _Pieces(codes, classes.reshape(-1), known.taken(first))


def _comparisons(rule: Bound) -> Iterator[Compare]:
    """Yield every comparison of a rule."""
    if not isinstance(rule, Derives):
        yield from (rule.unless if isinstance(rule, Routes) else rule.never).comparisons()


def _computed_with(rule: Bound) -> set[str]:
    """Return the attributes whose values, not only whether conditions hold, a rule reads."""
    if isinstance(rule, Derives):
        return {*rule.names}
    return {name for part in _comparisons(rule) for name in part.pair or ()}


def _impossible_cells(
    rules: Iterable[Bound], known: Mapping[str, Known], *, most: int, in_all: float = math.inf
) -> ImpossibleCells:
    """Return which combinations of known cells surely break a rule, where tables are small."""
    found: dict[tuple[str, ...], Flags] = {}
    for rule in rules:
        names = tuple(name for name in known if name in rule.names)
        size = math.prod(len(known[name].hole) for name in names)
        if size <= min(in_all, most):
            in_all -= size
            table = _surely_broken(rule, known, names)
            found[names] = found[names] | table if names in found else table
    return {names: table for names, table in found.items() if table.any()}


def _surely_broken(rule: Bound, known: Mapping[str, Known], names: tuple[str, ...]) -> Flags:
    """Return which combinations of cells surely break a rule, an axis for each attribute."""
    shape = [len(known[name].hole) for name in names]
    places = np.indices(shape).reshape(len(shape), -1)
    cells = {name: known[name].taken(at) for name, at in zip(names, places, strict=True)}
    return rule.broken(cells, places.shape[1])[0].reshape(shape)


def _rule_out(tables: ImpossibleCells, alive: dict[str, Flags]) -> bool:
    """Mark pieces that no possible combination holds as dead; return whether there were any."""
    names = tuple(dict.fromkeys(name for found in tables for name in found))
    kept = {name: np.flatnonzero(alive[name]) for name in names}
    shape = [len(kept[name]) for name in names]
    if math.prod(shape) > _MOST_CELLS or len(names) > _MOST_AXES:
        return False
    possible = np.ones(shape, dtype=bool)
    for found, impossible in tables.items():
        order = sorted(range(len(found)), key=lambda i: names.index(found[i]))
        table = impossible[np.ix_(*(kept[name] for name in found))].transpose(order)
        wide = [len(kept[name]) if name in found else 1 for name in names]
        possible &= ~table.reshape(wide)
    before = sum(shape)
    for axis, name in enumerate(names):
        others = tuple(i for i in range(len(names)) if i != axis)
        alive[name] = np.isin(np.arange(len(alive[name])), kept[name][possible.any(axis=others)])
    return bool(before > sum(np.count_nonzero(alive[name]) for name in names))


def _connected(tables: ImpossibleCells) -> list[list[tuple[str, ...]]]:
    """Return the tables in groups that share no attribute."""
    groups: list[list[tuple[str, ...]]] = []
    for names in tables:
        near = [group for group in groups if {*names} & {*chain.from_iterable(group)}]
        groups = [group for group in groups if group not in near]
        groups.append([*chain.from_iterable(near), names])
    return groups


def _check_alive(attribute: AnyAttribute, codes: Ints, rules: tuple[Bound, ...]) -> None:
    """Refuse that a level, a bin, or "not applicable" has no row."""
    name = attribute.name
    dead = sorted({*range(attribute.missing_code)} - {*codes.tolist()})
    follows = any(isinstance(rule, Derives) and rule.target.name == name for rule in rules)
    found = isinstance(attribute, Numeric) and attribute.cuts_from is not None
    if not dead or ((follows or found) and (codes < attribute.size).any()):
        return  # a wider domain of what follows from others does no harm; bins are no domain
    what = "not applicable"
    if dead[0] < attribute.size:
        numeric = isinstance(attribute, Numeric)
        texts = attribute.interval_names if numeric else attribute.levels  # type: ignore[union-attr]
        what = str(texts[dead[0]])
    about = "; ".join(dict.fromkeys(rule.text for rule in rules if name in rule.names))
    raise SchemaError(
        f"rules leave no row in which {name!r} is {what}: {about}. Take it out of "
        "the attribute's domain, or correct the rules"
    )


def _check_circles(rules: tuple[Bound, ...]) -> None:
    """Refuse orders such as a <= b and b <= a."""
    above: dict[str, set[str]] = {}
    for rule in rules:
        never = rule.never if isinstance(rule, Forbids) else None
        if isinstance(never, Join) and len(never.parts) == 1:
            never = never.parts[0]
        if isinstance(never, Compare) and never.pair and never.sign in ("<", "<=", ">", ">="):
            high, low = never.pair if never.sign in ("<", "<=") else never.pair[::-1]
            above.setdefault(low, set()).add(high)
    _in_order(
        above,
        "are ordered in a circle; leave one of these orders out (an equation says that two numbers "
        "are equal)",
    )


def _in_order(after: Mapping[str, Iterable[str]], why: str) -> tuple[str, ...]:
    """Return names, each after those it comes after; say why a circle is refused."""
    try:
        return tuple(TopologicalSorter({n: sorted(after[n]) for n in after}).static_order())
    except CycleError as error:
        circle = ", ".join(sorted({*error.args[1]}))
    raise SchemaError(f"rules: {circle} {why}")


_Rule = TypeVar("_Rule", Derives, Routes)

_MOST_IMPOSSIBLE = 1_000_000  # cells of one table of impossible cells


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
        #: Linear equations by which a missing cell follows from what is otherwise determined.
        self.solved = tuple(
            rule.solved(columns[name])
            for rule in self.derives.values()
            if rule.is_linear
            for name in rule.by
            if columns[name].nullable
        )
        #: Attributes that follow or are routed, each after all that it depends on.
        self.order = self._in_order() if self.bound else ()
        self._check_holes()
        if self.bound:
            _check_possible(columns, self.bound)

    @property
    def filled(self) -> frozenset[str]:
        """Attributes that rules may fill or make not applicable, although no value was observed."""
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
        linear = (rule.by for rule in self.derives.values() if rule.is_linear)
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
        return _impossible_cells(self.bound, known, most=_MOST_IMPOSSIBLE)

    def not_everywhere(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those attributes that are not applicable to some rows."""
        return tuple(name for name in names if self._columns[name].not_applicable is not None)

    def told_by_rules(self, name: str) -> bool:
        """Whether nothing but other cells can tell that an attribute is not applicable."""
        attribute = self._columns[name]
        return attribute.nullable and not attribute.codes_of("not_applicable")

    def may_be_open(self, names: Iterable[str]) -> bool:
        """Whether rows may leave it open whether one of these attributes applies to them."""
        ruled = self.routes.keys() | self.derives.keys()
        return any(self._columns[n].nullable and n in ruled for n in self.not_everywhere(names))

    def applies(self, cells: Callable[[str], Known], name: str) -> Verdict:
        """Tell to which rows an attribute surely applies, and to which it may."""
        known = cells(name)
        surely, maybe = np.ones_like(known.hole), np.ones_like(known.hole)
        if name in self.routes:
            unless = self.routes[name].unless
            found = {other: cells(other) for other in unless.names}
            surely, maybe = decided(unless, found, len(known.hole))
        for other in self.derives[name].by if name in self.derives else ():
            one, two = self.applies(cells, other)
            surely, maybe = surely & one, maybe & two
        return (
            np.asarray(known.present | (known.hole & surely)),
            np.asarray(known.present | (known.hole & maybe)),
        )

    def _in_order(self) -> tuple[str, ...]:
        """Order what follows after what it depends on, or refuse a circle."""
        needs: dict[str, set[str]] = {}
        rules: list[Derives | Routes] = [*self.derives.values(), *self.routes.values()]
        for rule in rules:
            needs.setdefault(_target_of(rule), set()).update(rule.reads)
        found = _in_order(
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
