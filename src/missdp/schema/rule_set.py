"""All rules of a schema together: in which order they apply, and whether they contradict.

Three contradictions are errors: attributes that follow from each other, attributes that are ordered
in a circle, and a level that one rule alone forbids. Contradictions of several rules are not
searched for. A rehearsal of rows drawn uniformly from the public domain warns of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import TypeAlias, TypeVar

import numpy as np

from missdp.errors import SchemaError
from missdp.schema.binning import Binning
from missdp.schema.bound_rules import BoundRule, Derived, Forbidden, Routing
from missdp.schema.differences import Difference, EitherDate
from missdp.schema.logic import Cells, Comparison, Truth
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.schema.rules import Rule
from missdp.types import Flags

#: Cells that no row is in, by attribute names: an axis for each; "not applicable" comes last.
ImpossibleCells: TypeAlias = Mapping[tuple[str, ...], Flags]

MAX_TABLE = 1_000_000  # cells of one table of impossible cells
MAX_CHECKED = 300_000  # cells of a table that is checked for levels without any row
MAX_ORDERS = 30_000  # pairs of attributes, of which one lies below the other
MAX_COMPARED = 20_000_000  # cells of a table, times the comparisons of the rule that it checks
MAX_AXES = 30  # attributes of a table, of which NumPy has a limit
REHEARSED_ROWS = 1_000
FEW_ROWS = 5  # rows of a rehearsal, below which rules probably contradict each other

_WithTarget = TypeVar("_WithTarget", Derived, Routing)


class RuleSet:
    """The rules of a schema, bound to its attributes."""

    def __init__(self, columns: Columns, rules: Iterable[Rule]) -> None:
        self._columns = columns
        bound = [b for rule in rules for b in rule.bound(columns)]
        bound += [a.derivation(columns) for a in columns.values() if isinstance(a, Difference)]
        #: Every rule as it is computed with.
        self.bound: tuple[BoundRule, ...] = (*bound, *_through_missing(bound, columns))
        #: The attributes that follow from others.
        self.derived = _by_target(b for b in self.bound if isinstance(b, Derived))
        #: The attributes that are applicable to some rows only.
        self.routing = _by_target(b for b in self.bound if isinstance(b, Routing))
        #: What no row has.
        self.forbidden = tuple(rule for rule in self.bound if isinstance(rule, Forbidden))
        #: Linear equations by which a missing cell follows from the attribute that is determined.
        self.solved = tuple(
            rule.solve_for(columns[name])
            for rule in self.derived.values()
            if rule.is_linear
            for name in rule.by
            if columns[name].nullable
        )
        #: Attributes that follow or are routed, each after all that it depends on.
        self.order = self._sorted()
        self._check_nullable()
        self._check_levels()

    @property
    def rule_filled(self) -> frozenset[str]:
        """Attributes that rules may fill or make not applicable, although no value was observed."""
        marked = {
            a.name
            for a in self._columns.values()
            if a.not_applicable is not None or a.imputed_before or isinstance(a, EitherDate)
        }
        solved = {rule.target.name for rule in self.solved}
        return frozenset({*self.derived, *self.routing, *marked, *solved})

    @property
    def rule_fillable(self) -> frozenset[str]:
        """The same, whatever cells may be missing."""
        linear = (rule.by for rule in self.derived.values() if rule.is_linear)
        return self.rule_filled.union(*linear)

    def connected_by_rules(self, names: Iterable[str]) -> frozenset[str]:
        """Return the attributes that rules connect with the given ones, which are included."""
        connected = set(names)
        while True:
            near = {n for rule in self.bound if connected & {*rule.names} for n in rule.names}
            if near <= connected:
                return frozenset(connected)
            connected |= near

    @cached_property
    def impossible_cells(self) -> ImpossibleCells:
        """Combinations of levels and bins that no row has, where their tables are not too large."""
        tables: dict[tuple[str, ...], Flags] = {}
        for _, names, table in self._tables(MAX_TABLE):
            if table.any():
                tables[names] = tables[names] | table if names in tables else table
        return tables

    def not_everywhere(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those attributes that are not applicable to some rows."""
        return tuple(name for name in names if self._columns[name].not_applicable is not None)

    def not_applicable_only_by_rule(self, name: str) -> bool:
        """Whether other cells alone say that an attribute is not applicable."""
        attribute = self._columns[name]
        return attribute.nullable and not attribute.codes_of("not_applicable")

    def may_be_open(self, names: Iterable[str]) -> bool:
        """Whether rows may leave it open whether one of these attributes applies to them."""
        ruled = self.routing.keys() | self.derived.keys()
        return any(self._columns[n].nullable and n in ruled for n in self.not_everywhere(names))

    def applies(self, cells: Callable[[str], Cells], name: str) -> Truth:
        """Tell to which rows an attribute applies: where it has a value, or may have had one."""
        own = cells(name)
        truth = Truth.of(np.ones_like(own.missing))
        if name in self.routing:
            unless = self.routing[name].unless
            truth = unless.truth({n: cells(n) for n in unless.names}, len(own.missing))
        for other in self.derived[name].by if name in self.derived else ():
            truth &= self.applies(cells, other)
        return Truth(
            own.has_value | (own.missing & truth.is_true),
            own.not_applicable | (own.missing & truth.is_false),
        )

    def surviving_rows(self, n: int = REHEARSED_ROWS) -> int:
        """Return how many of ``n`` rows that are drawn uniformly obey the rules.

        Attributes that follow from others are computed, and attributes that do not apply are set to
        "not applicable". Public: no private row is read, and the seed is fixed.
        """
        rng, broken = np.random.default_rng(0), np.zeros(n, dtype=bool)
        names = dict.fromkeys(name for rule in self.bound for name in rule.names)
        cells = {name: _uniform(self._columns[name], n, rng) for name in names}
        for name in self.order:
            if name in self.derived:
                cells[name] = self.derived[name].compute(cells, n)
                broken |= self.derived[name].outside(cells[name])
            if name in self.routing:
                own, applies = cells[name], self.routing[name].unless.truth(cells, n)
                cells[name] = Cells(own.low, own.high, own.missing, applies.is_false)
        for rule in self.bound:
            broken |= rule.broken(cells, n).is_true
        return int(n - np.count_nonzero(broken))

    def _sorted(self) -> tuple[str, ...]:
        """Order what follows after what it depends on; refuse circles, of orders as well."""
        needs: dict[str, set[str]] = {}
        rules: list[Derived | Routing] = [*self.derived.values(), *self.routing.values()]
        for rule in rules:
            needs.setdefault(rule.target.name, set()).update(rule.reads)
        names = _in_order(
            needs,
            "follow from each other in a circle; leave one of these rules out, or let an equation "
            "determine another attribute",
        )
        above: dict[str, set[str]] = {}
        for high, low in _orders(self.forbidden):
            above.setdefault(low, set()).add(high)
        _in_order(
            above,
            "are ordered in a circle; leave one of these orders out (an equation says that two "
            "numbers are equal)",
        )
        return tuple(name for name in names if name in needs)

    def _check_nullable(self) -> None:
        for rule in self.derived.values():
            given = [self._columns[name] for name in rule.by]
            if any(a.nullable for a in given) and not (rule.target.nullable or rule.instead):
                raise SchemaError(
                    f"rule {rule.text!r}: {rule.target.name!r} must be nullable, since an "
                    "attribute that it follows from may be missing"
                )

    def _check_levels(self) -> None:
        """Refuse a rule that alone leaves a level, a bin or "not applicable" without any row.

        The domain of an attribute that follows may be wider, and bins that a fit found are none.
        """
        for rule, names, table in self._tables(MAX_CHECKED):
            if table.all():
                raise SchemaError(
                    f"rule {rule.text!r} leaves no row at all. Correct it, or the bounds and "
                    "levels of its attributes"
                )
            for axis, name in enumerate(names):
                others = tuple(i for i in range(len(names)) if i != axis)
                dead, attribute = np.asarray(table.all(axis=others)), self._columns[name]
                numeric = isinstance(attribute, Numeric)
                levels = attribute.bin_labels if numeric else attribute.levels  # type: ignore[union-attr]
                wider = name in self.derived or attribute.imputed_before
                wider |= isinstance(getattr(attribute, "bins", None), Binning)
                if dead.any() and not (wider and not dead[: attribute.size].all()):
                    level = (*levels, "not applicable")[int(np.argmax(dead))]
                    raise SchemaError(
                        f"rule {rule.text!r} leaves no row in which {name!r} is {level}. Take it "
                        "out of the attribute's domain, or correct the rule"
                    )

    def _tables(self, max_cells: int) -> Iterator[tuple[BoundRule, tuple[str, ...], Flags]]:
        """Yield which combinations of cells surely break a rule, an axis for each attribute."""
        for rule in self.bound:
            names = frozenset(rule.names)
            read = {name: a for name, a in self._columns.items() if name in names}
            shape = [attribute.missing_code for attribute in read.values()]
            size = math.prod(shape)
            fits = size <= max_cells and size * _n_comparisons(rule) <= MAX_COMPARED
            if fits and len(shape) <= MAX_AXES:
                codes = np.indices(shape).reshape(len(shape), -1)
                cells = {n: Cells.of(read[n], c, None) for n, c in zip(read, codes, strict=True)}
                yield rule, (*read,), rule.broken(cells, codes.shape[1]).is_true.reshape(shape)


def _n_comparisons(rule: BoundRule) -> int:
    """Return how many comparisons decide a rule in each row."""
    if isinstance(rule, Derived):
        return 1
    condition = rule.condition if isinstance(rule, Forbidden) else rule.unless
    return sum(1 for _ in condition.comparisons())


def _uniform(attribute: AnyAttribute, n: int, rng: np.random.Generator) -> Cells:
    """Draw levels, or numbers, each with the same probability.

    Half of the numbers are bounds: a uniform draw would hardly ever be 0, say, which is often the
    most frequent number.
    """
    if not isinstance(attribute, Numeric):
        return Cells.exact(rng.integers(0, attribute.size, n).astype(np.float64))
    values = rng.uniform(attribute.lower, attribute.upper, n)
    bounds = rng.choice([attribute.lower, attribute.upper], n)
    values = np.where(rng.random(n) < 0.5, bounds, values)
    values = attribute.round_to_step(np.rint(values) if attribute.integer else values)
    return Cells.exact(np.clip(values, attribute.lower, attribute.upper))


def _in_order(after: Mapping[str, Iterable[str]], why: str) -> tuple[str, ...]:
    """Return names, each after those it comes after; say why a circle is refused."""
    try:
        return tuple(TopologicalSorter({n: sorted(after[n]) for n in after}).static_order())
    except CycleError as error:
        circle = ", ".join(sorted({*error.args[1]}))
    raise SchemaError(f"rules: {circle} {why}")


def _orders(rules: Iterable[BoundRule]) -> dict[tuple[str, str], tuple[bool, str]]:
    """Return which attribute lies below another: by their names, if strictly, and by which rule."""
    orders = {}
    for rule in rules:
        forbidden = rule.condition if isinstance(rule, Forbidden) else None
        if not isinstance(forbidden, Comparison) or isinstance(forbidden.right, float):
            continue
        names = forbidden.left.name, forbidden.right.name
        if forbidden.operator not in ("==", "!="):
            names = names if ">" in forbidden.operator else names[::-1]
            orders[names] = "=" in forbidden.operator, rule.text
    return orders


def _through_missing(bound: Iterable[BoundRule], columns: Columns) -> list[Forbidden]:
    """Return what orders say of two attributes when the one between them is missing."""
    orders = _orders(bound)
    between = [a.name for a in columns.values() if a.nullable and a.not_applicable is None]
    known = dict(orders)
    for via in between:
        above = [(one, of) for (one, near), of in known.items() if near == via]
        below = [(two, of) for (far, two), of in known.items() if far == via]
        for (one, (strict, text)), (two, (also, more)) in product(above, below):
            old = known.get((one, two), (False, ""))
            if one != two and not (old[1] and old[0] >= (strict or also)):
                joined = text if more == text else f"{text} and {more}"
                known[one, two] = strict or also, joined
        if len(known) > MAX_ORDERS:
            raise SchemaError(
                f"rules: orders of attributes that may be missing make more than {MAX_ORDERS:,} "
                "pairs of attributes; use fewer of them"
            )
    return [
        Forbidden(text, Comparison(columns[one], ">=" if strict else ">", columns[two]))
        for (one, two), (strict, text) in known.items()
        if orders.get((one, two)) != (strict, text)
    ]


def _by_target(rules: Iterable[_WithTarget]) -> dict[str, _WithTarget]:
    targets: dict[str, _WithTarget] = {}
    for rule in rules:
        other = targets.setdefault(rule.target.name, rule)
        if other is not rule:
            verb = "is routed" if isinstance(rule, Routing) else "follows from others"
            raise SchemaError(
                f"rules: {rule.target.name!r} {verb} by two rules, {other.text!r} and "
                f"{rule.text!r}; make one of them"
            )
    return targets
