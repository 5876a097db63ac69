"""What is modelled: what rules determine is left out, and "not applicable" is a level.

A synthesizer family sees a plainer schema than the declared one. Attributes that follow from others
are not in it. "Not applicable" is one more level of its attribute: it is no missing cell, nothing
is spent on it apart, and nothing fills it. All other kinds of missing are one: missing. Everything
here is public. How rows become plainer is in `missdp.session.modelled_rows`.
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
    """The attributes of a schema that are modelled, and the same of its rows."""

    def __init__(self, schema: Schema) -> None:
        #: Public facts about the private rows.
        self.full_schema = schema
        kept = [a for a in schema if a.name not in schema.rule_set.derived]
        plain = tuple(map(_plain, kept))
        same = len(kept) == len(schema) and all(a is b for a, b in zip(plain, schema, strict=True))
        #: Public facts about what is modelled.
        self.schema = schema if same and not schema.rules else Schema(plain)

    @property
    def is_integer(self) -> bool:
        """Whether everything is modelled as it is."""
        return self.schema is self.full_schema

    @property
    def rule_filled(self) -> frozenset[str]:
        """Attributes that a row may have settled although no value of them was observed."""
        return self.full_schema.rule_set.rule_filled

    @cached_property
    def impossible_cells(self) -> ImpossibleCells:
        """Combinations of modelled levels that no row has, also of some of a rule's attributes."""
        names = {*self.schema.names}
        found: dict[_Clique, Flags] = {}
        for clique, table in self.full_schema.rule_set.impossible_cells.items():
            if names.issuperset(clique):
                for part, never in _parts(clique, table):
                    found[part] = found[part] | never if part in found else never
        return found

    @property
    def not_applicable_levels(self) -> dict[int, int]:
        """By position of a modelled attribute that may be not applicable, its level for that."""
        return {
            place: self.full_schema[name].size
            for place, name in enumerate(self.schema.names)
            if self.full_schema[name].not_applicable is not None
        }

    @property
    def implied_by(self) -> dict[int, tuple[int, ...]]:
        """By position of an attribute, those by which alone a rule makes it not applicable."""
        book, names = self.full_schema.rule_set, self.schema.names
        found: dict[int, tuple[int, ...]] = {}
        for place, name in enumerate(names):
            if name in book.routing and book.not_applicable_only_by_rule(name):
                by = self._tell(name)
                others = (i for i, other in enumerate(names) if other in by)
                tell = tuple(i for i in others if self.schema[names[i]].nullable)
                found |= {place: tell} if tell else {}
        return found

    def _tell(self, name: str) -> set[str]:
        """Return the modelled attributes by which a rule tells that one is not applicable."""
        book, names = self.full_schema.rule_set, {*self.schema.names}
        by = {*book.routing[name].names} - {name}
        while follow := by & {*book.derived} - names:
            by = by.difference(follow).union(*(book.derived[other].by for other in follow))
        return by

    @property
    def never_missing(self) -> dict[int, int]:
        """By position, the level "not applicable" where only what tells it may be missing."""
        names, told = self.schema.names, self.implied_by
        return {
            place: code
            for place, code in self.not_applicable_levels.items()
            if place not in told or self._tell(names[place]) == {names[told[place][0]]}
        }

    @property
    def never_imputed(self) -> dict[int, int]:
        """By position of an attribute, the level "not applicable", where no rule says when."""
        names, routes = self.schema.names, self.full_schema.rule_set.routing
        return {
            place: code
            for place, code in self.not_applicable_levels.items()
            if names[place] not in routes
        }

    @cached_property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """By modelled attribute with several kinds of missing, their codes in the private table."""
        found = {}
        for name in self.schema.names:
            attribute = self.full_schema[name]
            holes = tuple(range(attribute.missing_code, attribute.extended_size))
            if len(holes) > 1:
                found[name] = holes
        return found

    def without_not_applicable(self, name: str, law: Floats) -> Floats:
        """Return the distribution of a missing cell, which is never "not applicable"."""
        if self.full_schema[name].not_applicable is None or len(law) == 1:
            return law
        drawn = np.append(law[:-1], 0.0)
        return drawn / drawn.sum() if drawn.sum() > 0 else np.append(np.ones(len(law) - 1), 0.0)

    def apply_routing(self, codes: dict[str, Ints]) -> dict[str, Ints]:
        """Return codes of rows without missing cells, with "not applicable" where it holds."""
        found = dict(codes)
        for name, applies in self._routed(found):
            found[name] = np.where(applies.is_false, self.full_schema[name].size, found[name])
        return found

    def wrongly_not_applicable(self, codes: dict[str, Ints]) -> dict[str, Flags]:
        """Tell where an attribute is said to be not applicable although it surely is."""
        return {
            name: applies.is_true & (codes[name] == self.full_schema[name].size)
            for name, applies in self._routed(codes)
        }

    def _routed(self, codes: dict[str, Ints]) -> Iterator[tuple[str, Truth]]:
        """Yield the attributes that rules route, and where they are applicable."""
        n, book = len(next(iter(codes.values()), ())), self.full_schema.rule_set
        for name in book.order:
            if name in book.routing and {*book.routing[name].names} <= {*codes}:
                cells = {
                    other: Cells.of(self.full_schema[other], codes[other], None)
                    for other in book.routing[name].names
                }
                yield name, book.routing[name].unless.truth(cells, n)


def _parts(clique: _Clique, table: Flags) -> Iterator[tuple[_Clique, Flags]]:
    """Yield what is impossible of two attributes or more, whatever the others are."""
    for size in range(min(2, len(clique)), len(clique) + 1):
        for kept in combinations(range(len(clique)), size):
            others = tuple(axis for axis in range(len(clique)) if axis not in kept)
            never = np.asarray(table.all(axis=others))
            if never.any():
                yield tuple(clique[axis] for axis in kept), never


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
    """Return the schema of rows whose missing cells have been filled."""
    facts: dict[str, Any] = {"nullable": False, "missing_codes": (), "outside": "error"}
    return Schema(tuple(replace(a, **facts, labels=()) for a in schema))
