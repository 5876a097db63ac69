"""The modelled view of a schema, without attributes that rules determine.

Synthesizer families model a simpler schema than the declared schema. It omits attributes that
follow from others. "Not applicable" is one more level of its attribute: the cell is not missing, is
never imputed, and has no separate budget. All other kinds of missing are one kind. Everything here
is public. `missdp.session.modelled_rows` maps rows to the modelled view.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from missdp.schema.attributes import Categorical
from missdp.schema.differences import Computed
from missdp.schema.logic import Cells, Truth
from missdp.schema.numeric import AnyAttribute
from missdp.schema.rule_set import ImpossibleCells
from missdp.schema.schema import Schema
from missdp.types import Flags, Floats, Ints

_Clique: TypeAlias = tuple[str, ...]


class ModelView:
    """The modelled attributes of a schema, and the mapping of codes to them.

    Parameters
    ----------
    schema : Schema
        The declared schema. Public.
    """

    def __init__(self, schema: Schema) -> None:
        #: The declared schema.
        self.full_schema = schema
        plain = tuple(_plain(a) for a in schema if a.name not in schema.rule_set.derived)
        same = len(plain) == len(schema) and all(a is b for a, b in zip(plain, schema, strict=True))
        #: The modelled attributes.
        self.schema = schema if same and not schema.rules else Schema(plain)

    @property
    def is_identity(self) -> bool:
        """True if the modelled schema is the declared schema."""
        return self.schema is self.full_schema

    @property
    def rule_filled(self) -> frozenset[str]:
        """Names of attributes that rules may fill although no value was observed."""
        return self.full_schema.rule_set.rule_filled

    @cached_property
    def impossible_cells(self) -> ImpossibleCells:
        """Combinations of modelled levels that rules exclude, in tables by attributes."""
        names = {*self.schema.names}
        tables: dict[_Clique, Flags] = {}
        for clique, table in self.full_schema.rule_set.impossible_cells.items():
            if names.issuperset(clique):
                for part, never in _parts(clique, table):
                    tables[part] = tables[part] | never if part in tables else never
        return tables

    @property
    def not_applicable_levels(self) -> dict[int, int]:
        """Map from an attribute's position to its level "not applicable", if it has this level."""
        return {
            place: self.full_schema[name].size
            for place, name in enumerate(self.schema.names)
            if self.full_schema[name].not_applicable is not None
        }

    @property
    def implied_by(self) -> dict[int, tuple[int, ...]]:
        """Map from an attribute's position to the attributes that determine when it does not apply.

        Only attributes that may be missing are listed.
        """
        rules, names = self.full_schema.rule_set, self.schema.names
        implied_by: dict[int, tuple[int, ...]] = {}
        for place, name in enumerate(names):
            if name in rules.routing and rules.not_applicable_only_by_rule(name):
                by = self._determinants(name)
                others = (i for i, other in enumerate(names) if other in by)
                nullable = tuple(i for i in others if self.schema[names[i]].nullable)
                implied_by |= {place: nullable} if nullable else {}
        return implied_by

    def _determinants(self, name: str) -> set[str]:
        """Return the modelled attributes that determine by a rule when an attribute applies."""
        rules, names = self.full_schema.rule_set, {*self.schema.names}
        by = {*rules.routing[name].names} - {name}
        while follow := by & {*rules.derived} - names:
            by = by.difference(follow).union(*(rules.derived[other].by for other in follow))
        return by

    @property
    def never_missing(self) -> dict[int, int]:
        """Map from a position to the level "not applicable", if it never hides a missing cell."""
        names, implied_by = self.schema.names, self.implied_by
        return {
            place: code
            for place, code in self.not_applicable_levels.items()
            if place not in implied_by
            or self._determinants(names[place]) == {names[implied_by[place][0]]}
        }

    @property
    def never_imputed(self) -> dict[int, int]:
        """Map from a position to the level "not applicable", if no rule determines the level."""
        names, routes = self.schema.names, self.full_schema.rule_set.routing
        return {
            place: code
            for place, code in self.not_applicable_levels.items()
            if names[place] not in routes
        }

    @cached_property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """Map from an attribute with several kinds of missing to their codes in the table."""
        codes_by_name = {}
        for name in self.schema.names:
            attribute = self.full_schema[name]
            codes = tuple(range(attribute.missing_code, attribute.extended_size))
            if len(codes) > 1:
                codes_by_name[name] = codes
        return codes_by_name

    def without_not_applicable(self, name: str, weights: Floats) -> Floats:
        """Return the distribution of a missing cell, which is never "not applicable"."""
        if self.full_schema[name].not_applicable is None or len(weights) == 1:
            return weights
        drawn = np.append(weights[:-1], 0.0)
        return drawn / drawn.sum() if drawn.sum() > 0 else np.append(np.ones(len(weights) - 1), 0.0)

    def apply_routing(self, codes: dict[str, Ints]) -> dict[str, Ints]:
        """Return codes of complete rows, with "not applicable" wherever rules imply it."""
        routed = dict(codes)
        for name, applies in self._routed(routed):
            routed[name] = np.where(applies.is_false, self.full_schema[name].size, routed[name])
        return routed

    def wrongly_not_applicable(self, codes: dict[str, Ints]) -> dict[str, Flags]:
        """Return True for cells that are "not applicable" although the attribute applies."""
        return {
            name: applies.is_true & (codes[name] == self.full_schema[name].size)
            for name, applies in self._routed(codes)
        }

    def _routed(self, codes: dict[str, Ints]) -> Iterator[tuple[str, Truth]]:
        """Yield the attributes that rules route, and the truth of "the attribute applies"."""
        n, rules = len(next(iter(codes.values()), ())), self.full_schema.rule_set
        for name in rules.order:
            if name in rules.routing and {*rules.routing[name].names} <= {*codes}:
                cells = {
                    other: Cells.of(self.full_schema[other], codes[other], None)
                    for other in rules.routing[name].names
                }
                yield name, rules.routing[name].unless.truth(cells, n)


def _parts(clique: _Clique, table: Flags) -> Iterator[tuple[_Clique, Flags]]:
    """Yield the combinations of two or more attributes that are impossible for all other levels."""
    for size in range(min(2, len(clique)), len(clique) + 1):
        for axes in combinations(range(len(clique)), size):
            others = tuple(axis for axis in range(len(clique)) if axis not in axes)
            never = np.asarray(table.all(axis=others))
            if never.any():
                yield tuple(clique[axis] for axis in axes), never


def _plain(attribute: AnyAttribute) -> AnyAttribute:
    """Return an attribute with "not applicable" as a level, and one kind of missing."""
    if isinstance(attribute, Computed):
        return attribute.plain()
    if attribute.not_applicable is not None:
        levels = tuple(map(str, range(attribute.size + 1)))
        return Categorical(name=attribute.name, levels=levels, nullable=attribute.nullable)
    if len(attribute.kinds) > 1:
        return attribute.with_one_missing_kind()
    return attribute


def complete_schema(schema: Schema) -> Schema:
    """Return the schema of rows without missing cells."""
    facts: dict[str, Any] = {"nullable": False, "missing_codes": (), "outside": "error"}
    return Schema(tuple(replace(a, **facts, labels=()) for a in schema))
