"""Rules are applied to rows as they are read: each row by itself, whatever else the table holds.

What follows from a row's own cells is filled in, in place of whatever was there; a linear equation
also gives a missing cell that others follow from, where it is the only one. A row that breaks
a rule loses the cells that the rule is about, as far as they may be missing; nobody can know which
of them is wrong. Where none of them may be missing the row stays as it is, and nothing is learned
from its impossible combination. This is repeated until nothing changes, so that a table that was
read, written and read again is the same. Nothing shows whether there are such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.bound_rules import Derived, Routing
from missdp.schema.differences import Computed
from missdp.schema.logic import Cells
from missdp.schema.numeric import code_dtype
from missdp.schema.rule_set import RuleSet
from missdp.table.encode import CodedColumn, Encoder
from missdp.types import Flags, Floats


def cells_by_name(schema: Schema, columns: Mapping[str, CodedColumn]) -> dict[str, Cells]:
    """Return what columns tell about their cells."""
    return {n: Cells.of(schema[n], c.codes.astype(np.int64), c.values) for n, c in columns.items()}


def apply_rules(
    schema: Schema, columns: Mapping[str, CodedColumn], names: Iterable[str] | None = None
) -> dict[str, CodedColumn]:
    """Return the columns with the schema's rules applied to every row by itself."""
    wanted = list(columns if names is None else names)
    if schema.input_columns is not schema:
        kept = {name: column for name, column in columns.items() if name in schema.input_columns}
        read = apply_rules(schema.input_columns, kept)
        found = {**columns, **read, **computed_columns(schema, read)}
        return {name: found[name] for name in wanted}
    book = schema.rule_set
    if not book.bound or not columns:
        return {name: columns[name] for name in wanted}
    with np.errstate(all="ignore"):  # a warning would tell of a row
        rows = RuledRows(schema, columns)
        _settle(rows, book, passes=3 * len(columns) + 2)
    return {name: rows.column(name) for name in wanted}


def computed_columns(schema: Schema, columns: Mapping[str, CodedColumn]) -> dict[str, CodedColumn]:
    """Return what is no column of a table, but follows from two dates of each row by itself."""
    found = {}
    for a in schema:
        dates = a.dates if isinstance(a, Computed) else ()
        known = [_values_or_nan(schema[n], columns[n]) for n in dates if n in columns]
        whole = [values for values in known if values is not None]
        if isinstance(a, Computed) and len(whole) == len(dates):
            found[a.name] = Encoder(a).encode_numbers(a.compute(*whole))
    return found


def _values_or_nan(attribute: AnyAttribute, column: CodedColumn) -> Floats | None:
    missing = column.codes >= attribute.size
    return None if column.values is None else np.where(missing, np.nan, column.values)


def _settle(rows: RuledRows, book: RuleSet, *, passes: int) -> None:
    """Apply the rules until nothing changes: a cell that nothing fills is lost once at most."""
    _solved(rows, book)
    for _ in range(passes):
        before = {name: rows.column(name) for name in rows.known}
        if not _passed(rows, book) or rows.are_still(before):
            return


def _passed(rows: RuledRows, book: RuleSet) -> bool:
    """Apply every rule once; return whether a row lost a cell, or an equation was solved."""
    changed = False
    for target in book.order:
        if target in book.derived and rows.has(book.derived[target].names):
            changed |= rows.derive(book.derived[target])
        if target in book.routing and rows.has(book.routing[target].names):
            rows.route(book.routing[target])
    changed |= _solved(rows, book)
    for rule in book.bound:
        if rows.has(rule.names):
            changed |= rows.blank(rule.names, rule.broken(rows.known, rows.n).is_true)
    return changed


def _solved(rows: RuledRows, book: RuleSet) -> bool:
    """Fill the one missing cell of each equation; return whether there was any."""
    filled = [rows.solve(rule) for rule in book.solved if rows.has(rule.names)]
    return any(filled)


class RuledRows:
    """Rows that are changed cell by cell, each by itself. Private."""

    def __init__(self, schema: Schema, columns: Mapping[str, CodedColumn]) -> None:
        self._schema, self._columns = schema, dict(columns)
        read = {name for rule in schema.rule_set.bound for name in rule.names}
        #: What is known of the cells that rules read.
        self.known = cells_by_name(schema, {n: c for n, c in columns.items() if n in read})
        self.n = len(next(iter(columns.values())).codes)

    def has(self, names: Iterable[str]) -> bool:
        """Whether these are all the attributes that a rule reads."""
        return self._columns.keys() >= {*names}

    def column(self, name: str) -> CodedColumn:
        """Return a column as it is now."""
        return self._columns[name]

    def are_still(self, columns: Mapping[str, CodedColumn]) -> bool:
        """Whether no cell has changed since the columns were these."""
        return all(
            np.array_equal(old.codes, self.column(name).codes)
            and (old.values is None or np.array_equal(old.values, self.column(name).values))  # type: ignore[arg-type]
            for name, old in columns.items()
        )

    def derive(self, rule: Derived) -> bool:
        """Fill in what follows; a row in which it is outside the domain breaks the rule."""
        derived = self.follow(rule)
        target = rule.target.name
        if (
            self._schema.rule_set.not_applicable_only_by_rule(target)
            and target not in self._schema.rule_set.routing
        ):
            self.lose(target, derived.missing & self.known[target].not_applicable)
        return self.blank(rule.names, rule.outside(derived))

    def follow(self, rule: Derived, *, missing_only: bool = False) -> Cells:
        """Fill in what follows, where it is in the domain, or its holes alone; and return it."""
        every = np.ones(self.n, dtype=bool)
        where = self.known[rule.target.name].missing if missing_only else every
        derived = rule.compute(self.known, self.n)
        self._fill(rule, derived, where)
        self._put(self._schema[rule.target.name], where & derived.not_applicable, rule.target.size)
        return derived

    def solve(self, rule: Derived) -> bool:
        """Fill holes with what an equation leaves for them; tell if any was."""
        hole = self.known[rule.target.name].missing
        return bool(hole.any()) and self._fill(rule, rule.compute(self.known, self.n), hole)

    def _fill(self, rule: Derived, derived: Cells, where: Flags) -> bool:
        """Fill in some cells, where what follows is in the domain; tell if any was."""
        sure = derived.has_value & ~rule.outside(derived) & derived.are_exact
        sure &= where
        attribute = self._schema[rule.target.name]
        column = self._columns[attribute.name]
        values = column.values
        if isinstance(attribute, Numeric):
            inside = np.where(sure, np.clip(derived.low, attribute.lower, attribute.upper), 0.0)
            inside = np.where(sure, inside, attribute.lower) + 0.0  # one zero only
            codes = attribute.encode_values(inside)
            if values is not None:
                values = np.where(sure, inside, values)
        else:
            codes = np.where(sure, derived.low, 0).astype(np.int64)
        coded = np.where(sure, codes, column.codes).astype(code_dtype(attribute))
        self._set(attribute.name, CodedColumn(coded, values))
        return bool(sure.any())

    def route(self, rule: Routing) -> None:
        """Settle where an attribute is not applicable; a hole where that is not known stays."""
        attribute = self._schema[rule.target.name]
        applies = rule.unless.truth(self.known, self.n)
        self._put(attribute, applies.is_false, attribute.size)
        if attribute.nullable:
            # Once a cell that alone tells it is lost, it is not known, as when rows are read again.
            only_by_rule = self._schema.rule_set.not_applicable_only_by_rule(attribute.name)
            applicable = ~applies.is_false if only_by_rule else applies.is_true
            wrong = applicable & self.known[attribute.name].not_applicable
            self._put(attribute, wrong, attribute.missing_code)

    def lose(self, name: str, where: Flags) -> None:
        """Make the cells of one attribute plainly missing in the rows that ``where`` marks."""
        self._put(self._schema[name], where, self._schema[name].missing_code)

    def blank(self, names: Iterable[str], broken: Flags) -> bool:
        """Take the cells of rows that break a rule, where they may be missing; tell if any was.

        What an equation derives from such a cell goes, too, or it would bring the cell back.
        """
        lost = False
        for name in names if broken.any() else ():
            attribute = self._schema[name]
            where = broken & ~self.known[name].missing
            if attribute.nullable and where.any():
                self._put(attribute, where, attribute.missing_code)
                self.blank(self._derived_from(name), where)
                lost = True
        return lost

    def _derived_from(self, name: str) -> list[str]:
        """Attributes that an equation derives from one that may be missing."""
        return [
            other
            for other, rule in self._schema.rule_set.derived.items()
            if rule.is_linear and name in rule.by and other in self.known
        ]

    def _put(self, attribute: AnyAttribute, where: Flags, code: int) -> None:
        """Set cells to a code that stands for no value."""
        if where.any():
            name = attribute.name
            self._set(name, self._columns[name].without_value(attribute, where, code))

    def _set(self, name: str, column: CodedColumn) -> None:
        self._columns[name] = column
        self.known |= cells_by_name(self._schema, {name: column})
