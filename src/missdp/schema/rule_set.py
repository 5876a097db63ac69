"""All rules of a schema together: their order of application, and their contradictions.

Three contradictions are errors: attributes that follow from each other, a circular order of
attributes, and a level that one rule alone forbids. There is no search for contradictions of
several rules. A simulation of rows drawn uniformly from the public domain warns of them.
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

#: Impossible combinations by attribute names, with an axis for each. "Not applicable" comes last.
ImpossibleCells: TypeAlias = Mapping[tuple[str, ...], Flags]

MAX_TABLE = 1_000_000  # cells of one table of impossible cells
MAX_CHECKED = 300_000  # cells of a table that is checked for levels without any row
MAX_ORDERS = 30_000  # pairs of ordered attributes
MAX_COMPARED = 20_000_000  # cells of a table, times comparisons of its rule
MAX_AXES = 30  # attributes of a table, below the limit of NumPy
REHEARSED_ROWS = 1_000  # simulated rows of a check for contradictions
FEW_ROWS = 5  # simulated rows that obey all rules, below which a warning is given

_WithTarget = TypeVar("_WithTarget", Derived, Routing)


class RuleSet:
    """The rules of a schema, bound to its attributes.

    Parameters
    ----------
    columns : mapping of str to attribute
        The attributes of the schema by name. Public.
    rules : iterable of Rule
        The declared rules. Public.
    """

    def __init__(self, columns: Columns, rules: Iterable[Rule]) -> None:
        self._columns = columns
        bound = [b for rule in rules for b in rule.bound(columns)]
        bound += [a.derivation(columns) for a in columns.values() if isinstance(a, Difference)]
        #: All bound rules.
        self.bound: tuple[BoundRule, ...] = (*bound, *_through_missing(bound, columns))
        #: Rules by the attribute that they determine.
        self.derived = _by_target(b for b in self.bound if isinstance(b, Derived))
        #: Rules by the attribute that they make not applicable.
        self.routing = _by_target(b for b in self.bound if isinstance(b, Routing))
        #: Rules that exclude combinations.
        self.forbidden = tuple(rule for rule in self.bound if isinstance(rule, Forbidden))
        #: Linear equations that determine a missing cell by the attribute that follows from it.
        self.solved = tuple(
            rule.solve_for(columns[name])
            for rule in self.derived.values()
            if rule.is_linear
            for name in rule.by
            if columns[name].nullable
        )
        #: Attributes that follow or are routed, each after the attributes that it depends on.
        self.order = self._sorted()
        self._check_nullable()
        self._check_levels()

    @property
    def rule_filled(self) -> frozenset[str]:
        """Names of attributes that rules may fill, or make not applicable."""
        marked = {
            a.name
            for a in self._columns.values()
            if a.not_applicable is not None or a.imputed_before or isinstance(a, EitherDate)
        }
        solved = {rule.target.name for rule in self.solved}
        return frozenset({*self.derived, *self.routing, *marked, *solved})

    @property
    def rule_fillable(self) -> frozenset[str]:
        """Names of ``rule_filled`` and of all attributes of linear equations, nullable or not."""
        linear = (rule.by for rule in self.derived.values() if rule.is_linear)
        return self.rule_filled.union(*linear)

    def connected_by_rules(self, names: Iterable[str]) -> frozenset[str]:
        """Return the attributes that rules connect with ``names``, including ``names``."""
        connected = set(names)
        while True:
            near = {n for rule in self.bound if connected & {*rule.names} for n in rule.names}
            if near <= connected:
                return frozenset(connected)
            connected |= near

    @cached_property
    def impossible_cells(self) -> ImpossibleCells:
        """Combinations of levels and bins that rules exclude, in tables of limited size."""
        tables: dict[tuple[str, ...], Flags] = {}
        for _, names, table in self._tables(MAX_TABLE):
            if table.any():
                tables[names] = tables[names] | table if names in tables else table
        return tables

    def not_everywhere(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes in ``names`` that are not applicable to some rows."""
        return tuple(name for name in names if self._columns[name].not_applicable is not None)

    def not_applicable_only_by_rule(self, name: str) -> bool:
        """Return True if only other cells, and no code, mark an attribute as not applicable."""
        attribute = self._columns[name]
        return attribute.nullable and not attribute.codes_of("not_applicable")

    def may_be_open(self, names: Iterable[str]) -> bool:
        """Return True if a row may leave open whether one of these attributes applies."""
        ruled = self.routing.keys() | self.derived.keys()
        return any(self._columns[n].nullable and n in ruled for n in self.not_everywhere(names))

    def applies(self, cells: Callable[[str], Cells], name: str) -> Truth:
        """Return the truth of "the attribute applies" for each row.

        An attribute applies if its cell has a value. For a missing cell, rules decide.
        """
        target = cells(name)
        truth = Truth.of(np.ones_like(target.missing))
        if name in self.routing:
            unless = self.routing[name].unless
            truth = unless.truth({n: cells(n) for n in unless.names}, len(target.missing))
        for other in self.derived[name].by if name in self.derived else ():
            truth &= self.applies(cells, other)
        return Truth(
            target.has_value | (target.missing & truth.is_true),
            target.not_applicable | (target.missing & truth.is_false),
        )

    def surviving_rows(self, n: int = REHEARSED_ROWS) -> int:
        """Return the number of rows that obey the rules, out of ``n`` rows drawn uniformly.

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
                cell, applies = cells[name], self.routing[name].unless.truth(cells, n)
                cells[name] = Cells(cell.low, cell.high, cell.missing, applies.is_false)
        for rule in self.bound:
            broken |= rule.broken(cells, n).is_true
        return int(n - np.count_nonzero(broken))

    def _sorted(self) -> tuple[str, ...]:
        """Return determined attributes in order of dependence. Raise SchemaError for circles."""
        needs: dict[str, set[str]] = {}
        rules: list[Derived | Routing] = [*self.derived.values(), *self.routing.values()]
        for rule in rules:
            needs.setdefault(rule.target.name, set()).update(rule.reads)
        names = _in_order(
            needs,
            "follow from each other in a circle. Leave one of these rules out, or let an equation "
            "determine another attribute.",
        )
        above: dict[str, set[str]] = {}
        for high, low in _orders(self.forbidden):
            above.setdefault(low, set()).add(high)
        _in_order(
            above,
            "are ordered in a circle. Leave one of these orders out, or write an equation for two "
            "equal numbers.",
        )
        return tuple(name for name in names if name in needs)

    def _check_nullable(self) -> None:
        """Raise SchemaError if an attribute must be nullable because of a rule."""
        for rule in self.derived.values():
            if any(self._columns[name].nullable for name in rule.by) and not (
                rule.target.nullable or rule.instead
            ):
                raise SchemaError(
                    f"rule {rule.text!r}: {rule.target.name!r} must be nullable, since an "
                    "attribute that it follows from may be missing"
                )

    def _check_levels(self) -> None:
        """Raise SchemaError if one rule leaves a level, a bin or "not applicable" without any row.

        The domain of a derived attribute may be wider than needed. Released bins are not checked.
        """
        for rule, names, table in self._tables(MAX_CHECKED):
            if table.all():
                raise SchemaError(
                    f"rule {rule.text!r} leaves no row at all. Correct the rule, or the bounds "
                    "and levels of its attributes."
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
                        f"rule {rule.text!r} leaves no row in which {name!r} is {level}. Take the "
                        "level out of the domain of the attribute, or correct the rule."
                    )

    def _tables(self, max_cells: int) -> Iterator[tuple[BoundRule, tuple[str, ...], Flags]]:
        """Yield rules with tables of combinations that break them, an axis per attribute."""
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
    """Return the number of comparisons of a rule in each row."""
    if isinstance(rule, Derived):
        return 1
    condition = rule.condition if isinstance(rule, Forbidden) else rule.unless
    return sum(1 for _ in condition.comparisons())


def _uniform(attribute: AnyAttribute, n: int, rng: np.random.Generator) -> Cells:
    """Draw levels or numbers uniformly.

    Half of the numbers are bounds. A uniform draw would rarely be 0, often the most frequent value.
    """
    if not isinstance(attribute, Numeric):
        return Cells.exact(rng.integers(0, attribute.size, n).astype(np.float64))
    values = rng.uniform(attribute.lower, attribute.upper, n)
    bounds = rng.choice([attribute.lower, attribute.upper], n)
    values = np.where(rng.random(n) < 0.5, bounds, values)
    values = attribute.round_to_step(np.rint(values) if attribute.integer else values)
    return Cells.exact(np.clip(values, attribute.lower, attribute.upper))


def _in_order(after: Mapping[str, Iterable[str]], why: str) -> tuple[str, ...]:
    """Return names in topological order. Raise SchemaError with the reason for a circle."""
    try:
        return tuple(TopologicalSorter({n: sorted(after[n]) for n in after}).static_order())
    except CycleError as error:
        circle = ", ".join(sorted({*error.args[1]}))
    raise SchemaError(f"rules: {circle} {why}")


def _orders(rules: Iterable[BoundRule]) -> dict[tuple[str, str], tuple[bool, str]]:
    """Map pairs of ordered attributes to a flag for strict order, and the text of their rule."""
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
    """Return the implied orders of two attributes whose intermediate attribute may be missing."""
    orders = _orders(bound)
    between = [a.name for a in columns.values() if a.nullable and a.not_applicable is None]
    implied = dict(orders)
    for via in between:
        above = [(one, of) for (one, near), of in implied.items() if near == via]
        below = [(two, of) for (far, two), of in implied.items() if far == via]
        for (one, (strict, text)), (two, (also, more)) in product(above, below):
            old = implied.get((one, two), (False, ""))
            if one != two and not (old[1] and old[0] >= (strict or also)):
                joined = text if more == text else f"{text} and {more}"
                implied[one, two] = strict or also, joined
        if len(implied) > MAX_ORDERS:
            raise SchemaError(
                f"rules: orders of attributes that may be missing make more than {MAX_ORDERS:,} "
                "pairs of attributes. Use fewer orders."
            )
    return [
        Forbidden(text, Comparison(columns[one], ">=" if strict else ">", columns[two]))
        for (one, two), (strict, text) in implied.items()
        if orders.get((one, two)) != (strict, text)
    ]


def _by_target(rules: Iterable[_WithTarget]) -> dict[str, _WithTarget]:
    """Map targets to their rules. Raise SchemaError if two rules have one target."""
    targets: dict[str, _WithTarget] = {}
    for rule in rules:
        other = targets.setdefault(rule.target.name, rule)
        if other is not rule:
            verb = "is routed" if isinstance(rule, Routing) else "follows from others"
            raise SchemaError(
                f"rules: {rule.target.name!r} {verb} by two rules, {other.text!r} and "
                f"{rule.text!r}. Combine the two rules."
            )
    return targets
