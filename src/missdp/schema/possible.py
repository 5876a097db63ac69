"""Whether rules leave every level a row: contradictions are found when a schema is read.

The values of each attribute are cut into pieces on which no condition changes its answer, and
pieces that no rule tells apart are one. Impossible combinations of the pieces of each rule are
joined: all of them at once where that is small, otherwise piece by piece until nothing more is
ruled out (arc consistency). What is refused is impossible for sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import SchemaError
from missdp.schema.bound import (
    Bound,
    Derives,
    Flags,
    Floats,
    Forbids,
    Known,
    Routes,
    compared,
    surely_broken,
)
from missdp.schema.numeric import Numeric
from missdp.schema.predicates import Compare, Join, Not, Predicate

if TYPE_CHECKING:
    from missdp.schema.schema import AnyAttribute, Schema


_MOST_CELLS = 300_000  # of one table
_MOST_IN_ALL = 4_000_000  # of all tables; rules beyond that are not looked at

_Tables: TypeAlias = dict[tuple[str, ...], Flags]
_Alive: TypeAlias = dict[str, Flags]


def check_possible(schema: Schema, bound: Iterable[Bound]) -> None:
    """Refuse rules that order attributes in a circle, or leave a level no row."""
    rules = tuple(bound)
    _check_circles(rules)
    names = [name for rule in rules for name in rule.names]
    pieces = {name: _pieces(schema[name], rules) for name in dict.fromkeys(names)}
    tables = _tables(rules, pieces)
    alive = {name: np.ones(len(pieces[name].sizes), dtype=bool) for name in pieces}
    _rule_out(tables, alive)
    for part in _connected(tables):
        _rule_out_jointly({names: tables[names] for names in part}, alive)
    for name, left in alive.items():
        _check_alive(schema[name], pieces[name].codes[left[pieces[name].classes]], rules)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces of an attribute's values, the code that each belongs to, and their classes."""

    codes: NDArray[np.int64]
    classes: NDArray[np.int64]
    sizes: NDArray[np.int64]  # of each class
    known: Known  # a piece of each class


def _pieces(attribute: AnyAttribute, rules: tuple[Bound, ...]) -> _Pieces:
    """Cut the values of an attribute, "not applicable" among them, so that rules are decided."""
    leaves = [leaf for leaf in _leaves(rules) if leaf.attribute.name == attribute.name]
    widths = [len(rule.names) for rule in rules if attribute.name in _compared(rule)]
    compares, most = bool(widths), _MOST_CELLS ** (1 / max(widths, default=1))
    codes, least, greatest = _cut(
        attribute, {leaf.value for leaf in leaves}, most if compares else 0
    )
    absent = np.zeros(len(codes), dtype=bool)
    if attribute.not_applicable is not None:
        codes = np.append(codes, attribute.size)
        least, greatest = np.append(least, least[0]), np.append(greatest, greatest[0])
        absent = np.append(absent, True)
    known = Known(least, greatest, np.zeros(len(codes), dtype=bool), absent)
    told_apart = [np.arange(len(codes)) if compares else absent.astype(np.int64)]
    for leaf in leaves:
        surely, _ = compared(known, leaf.sign, Known.constant(leaf.value, len(codes)))
        told_apart.append(surely.astype(np.int64))
    _, first, classes, sizes = np.unique(
        np.array(told_apart), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return _Pieces(codes, classes.reshape(-1), sizes, known.taken(first))


def _cut(
    attribute: AnyAttribute, constants: Iterable[float], most: float
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the code, least and greatest value of each piece; ``most`` whole numbers singly."""
    if not isinstance(attribute, Numeric):
        levels = np.arange(attribute.size)
        return levels, levels.astype(np.float64), levels.astype(np.float64)
    if attribute.integer and attribute.upper - attribute.lower < most:
        numbers = np.arange(attribute.lower, attribute.upper + 1)
        return attribute.encode_values(numbers), numbers, numbers
    least, greatest = attribute.reach
    codes = np.arange(attribute.size)
    for constant in sorted(constants):
        inside = (least <= constant) & (constant <= greatest)
        if not inside.any():
            continue
        below, above = _beside(constant, whole=attribute.integer)
        at = np.full(int(inside.sum()), constant)
        lows = [least[~inside], least[inside], at, np.full(at.shape, above)]
        highs = [greatest[~inside], np.full(at.shape, below), at, greatest[inside]]
        of = [codes[~inside], codes[inside], codes[inside], codes[inside]]
        least, greatest, codes = (np.concatenate(parts) for parts in (lows, highs, of))
        kept = _has_values(attribute, codes, least, greatest)
        least, greatest, codes = least[kept], greatest[kept], codes[kept]
    return codes, least, greatest


def _has_values(
    attribute: Numeric, codes: NDArray[np.int64], least: Floats, greatest: Floats
) -> Flags:
    """Tell which pieces hold a value of their code: of a bin, one that is no spike."""
    points = least == greatest
    own = attribute.encode_values(np.where(points, least, attribute.lower)) == codes
    if not attribute.integer:
        return np.asarray((least < greatest) | (points & own))
    spikes = np.sort(np.asarray(attribute.spikes, dtype=np.float64))
    inside = np.searchsorted(spikes, greatest, "right") - np.searchsorted(spikes, least, "left")
    others = np.floor(greatest) - np.ceil(least) + 1 - inside
    return np.asarray(np.where(points, own & (least == np.rint(least)), others > 0))


def _beside(constant: float, *, whole: bool) -> tuple[float, float]:
    if whole:
        return math.ceil(constant) - 1.0, math.floor(constant) + 1.0
    return math.nextafter(constant, -math.inf), math.nextafter(constant, math.inf)


def _leaves(rules: Iterable[Bound]) -> Iterator[Compare]:
    """Yield every comparison with a constant."""
    waiting: list[Predicate] = []
    for rule in rules:
        if isinstance(rule, Routes):
            waiting.append(rule.unless)
        elif isinstance(rule, Forbids):
            waiting += [part for part in rule.together if not isinstance(part, tuple)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Compare):
            yield found
        elif isinstance(found, Join):
            waiting += found.parts
        elif isinstance(found, Not):
            waiting.append(found.part)


def _compared(rule: Bound) -> set[str]:
    """Return the attributes whose values a rule computes with."""
    if isinstance(rule, Derives):
        return {*rule.names}
    if isinstance(rule, Routes):
        return set()
    pairs = [part for part in rule.together if isinstance(part, tuple)]
    return {name for one, _, two in pairs for name in (one, two)}


def _tables(rules: tuple[Bound, ...], pieces: Mapping[str, _Pieces]) -> _Tables:
    """Return which combinations of pieces surely break a rule, where their tables are small."""
    found: _Tables = {}
    left = _MOST_IN_ALL
    order = {name: place for place, name in enumerate(pieces)}
    known = {name: pieces[name].known for name in pieces}
    for rule in rules:
        names = tuple(sorted(rule.names, key=order.__getitem__))
        shape = [len(pieces[name].sizes) for name in names]
        if math.prod(shape) > min(left, _MOST_CELLS):
            continue
        left -= math.prod(shape)
        table = surely_broken(rule, known, names)
        found[names] = found[names] | table if names in found else table
    return found


def _rule_out(tables: _Tables, alive: _Alive) -> None:
    """Rule out what a table leaves no partner, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for names, impossible in tables.items():
            possible = ~impossible & _together([alive[name] for name in names])
            for name, left in _sides(names, possible):
                changed |= bool((left != alive[name]).any())
                alive[name] = left


def _rule_out_jointly(tables: _Tables, alive: _Alive) -> None:
    """Rule out what is in no combination of all attributes, if there are few enough."""
    names = tuple(dict.fromkeys(name for found in tables for name in found))
    kept = {name: np.flatnonzero(alive[name]) for name in names}
    shape = [len(kept[name]) for name in names]
    if len(tables) < 2 or not 0 < math.prod(shape) <= _MOST_CELLS or len(names) > 30:
        return
    possible = np.ones(shape, dtype=bool)
    for found, impossible in tables.items():
        order = sorted(range(len(found)), key=lambda i: names.index(found[i]))
        table = impossible[np.ix_(*(kept[name] for name in found))].transpose(order)
        wide = [len(kept[name]) if name in found else 1 for name in names]
        possible &= ~table.reshape(wide)
    for name, left in _sides(names, possible):
        alive[name] = np.isin(np.arange(len(alive[name])), kept[name][left])


def _together(flags: list[Flags]) -> Flags:
    """Return the outer product of flags."""
    found = np.ones((), dtype=bool)
    for one in flags:
        found = found[..., None] & one
    return np.asarray(found)


def _sides(names: tuple[str, ...], possible: Flags) -> Iterator[tuple[str, Flags]]:
    for axis, name in enumerate(names):
        others = tuple(i for i in range(len(names)) if i != axis)
        yield name, np.asarray(possible.any(axis=others))


def _connected(tables: _Tables) -> list[list[tuple[str, ...]]]:
    """Return the tables in groups that share no attribute."""
    groups: list[tuple[set[str], list[tuple[str, ...]]]] = []
    for names in tables:
        near = [group for group in groups if group[0] & {*names}]
        groups = [group for group in groups if not group[0] & {*names}]
        reached = {*names}.union(*(group[0] for group in near))
        groups.append((reached, [*(t for group in near for t in group[1]), names]))
    return [found for _, found in groups]


def _check_alive(
    attribute: AnyAttribute, codes: NDArray[np.int64], rules: tuple[Bound, ...]
) -> None:
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
        part = rule.together[0] if isinstance(rule, Forbids) and len(rule.together) == 1 else None
        if isinstance(part, tuple) and part[1] in ("<", "<=", ">", ">="):
            low, high = (part[0], part[2]) if part[1] in (">", ">=") else (part[2], part[0])
            above.setdefault(low, set()).add(high)
    in_order(
        above,
        lambda names: SchemaError(
            f"rules: {names} are ordered in a circle; leave one of these orders out (an "
            "equation says that two numbers are equal)"
        ),
    )


def in_order(
    after: Mapping[str, Iterable[str]], circle: Callable[[str], SchemaError]
) -> tuple[str, ...]:
    """Return names, each after those it comes after; in a circle raise what ``circle`` makes."""
    wrong: list[str] = []
    try:
        return tuple(TopologicalSorter({n: sorted(after[n]) for n in after}).static_order())
    except CycleError as error:
        wrong = error.args[1]
    raise circle(", ".join(sorted({*wrong})))
