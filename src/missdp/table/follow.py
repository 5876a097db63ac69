"""Application of rules to rows as they are read, each row independently of other rows.

A derived value replaces the value in the row. A linear equation also gives the value of a missing
cell, if it is the only missing cell of the equation. A row that breaks a rule loses the cells of
the rule that may be missing, since the wrong cell is unknown. If none of these cells may be
missing, the row stays unchanged, and models ignore its impossible combination. The steps are
repeated until no cell changes, so a table that is read, written and read again is unchanged. No
output shows whether rows break rules.
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
    """Return the cells of columns, with bounds on their values."""
    return {n: Cells.of(schema[n], c.codes.astype(np.int64), c.values) for n, c in columns.items()}


def apply_rules(
    schema: Schema, columns: Mapping[str, CodedColumn], names: Iterable[str] | None = None
) -> dict[str, CodedColumn]:
    """Apply the rules of a schema to every row of encoded columns.

    Parameters
    ----------
    schema : Schema
        Public facts with rules.
    columns : mapping of str to CodedColumn
        Private.
    names : iterable of str, optional
        The columns to return. By default all.

    Returns
    -------
    dict of str to CodedColumn
        Private. Each row is a function of the cells of this row.
    """
    requested = list(columns if names is None else names)
    if schema.input_columns is not schema:
        stored = {name: column for name, column in columns.items() if name in schema.input_columns}
        ruled = apply_rules(schema.input_columns, stored)
        complete = {**columns, **ruled, **computed_columns(schema, ruled)}
        return {name: complete[name] for name in requested}
    rules = schema.rule_set
    if not rules.bound or not columns:
        return {name: columns[name] for name in requested}
    with np.errstate(all="ignore"):  # a warning would disclose facts of a row
        rows = RuledRows(schema, columns)
        _apply_until_stable(rows, rules, passes=3 * len(columns) + 2)
    return {name: rows.column(name) for name in requested}


def computed_columns(schema: Schema, columns: Mapping[str, CodedColumn]) -> dict[str, CodedColumn]:
    """Return the attributes that are computed from two dates of each row. Private."""
    computed = {}
    for a in schema:
        dates = a.dates if isinstance(a, Computed) else ()
        cells = [_values_or_nan(schema[n], columns[n]) for n in dates if n in columns]
        values = [numbers for numbers in cells if numbers is not None]
        if isinstance(a, Computed) and len(values) == len(dates):
            computed[a.name] = Encoder(a).encode_numbers(a.compute(*values))
    return computed


def _values_or_nan(attribute: AnyAttribute, column: CodedColumn) -> Floats | None:
    """Return the numbers of a column, with NaN for missing cells, or None without numbers."""
    missing = column.codes >= attribute.size
    return None if column.values is None else np.where(missing, np.nan, column.values)


def _apply_until_stable(rows: RuledRows, rules: RuleSet, *, passes: int) -> None:
    """Apply the rules until no cell changes. A cell that no rule fills is lost at most once."""
    _solve(rows, rules)
    for _ in range(passes):
        before = {name: rows.column(name) for name in rows.cells}
        if not _apply_once(rows, rules) or rows.are_equal(before):
            return


def _apply_once(rows: RuledRows, rules: RuleSet) -> bool:
    """Apply every rule once. Return True if a row lost a cell, or an equation was solved."""
    changed = False
    for target in rules.order:
        if target in rules.derived and rows.has(rules.derived[target].names):
            changed |= rows.derive(rules.derived[target])
        if target in rules.routing and rows.has(rules.routing[target].names):
            rows.route(rules.routing[target])
    changed |= _solve(rows, rules)
    for rule in rules.bound:
        if rows.has(rule.names):
            changed |= rows.blank(rule.names, rule.broken(rows.cells, rows.n).is_true)
    return changed


def _solve(rows: RuledRows, rules: RuleSet) -> bool:
    """Fill the one missing cell of each equation. Return True if any cell was filled."""
    filled = [rows.solve(rule) for rule in rules.solved if rows.has(rule.names)]
    return any(filled)


class RuledRows:
    """Encoded rows that rules change, each row independently. Private.

    Parameters
    ----------
    schema : Schema
        Public facts with rules.
    columns : mapping of str to CodedColumn
        The columns, which stay unchanged. At least one. Private.
    """

    def __init__(self, schema: Schema, columns: Mapping[str, CodedColumn]) -> None:
        self._schema, self._columns = schema, dict(columns)
        read = {name for rule in schema.rule_set.bound for name in rule.names}
        #: The cells that rules read, with bounds on their values.
        self.cells = cells_by_name(schema, {n: c for n, c in columns.items() if n in read})
        self.n = len(next(iter(columns.values())).codes)

    def has(self, names: Iterable[str]) -> bool:
        """Return True if the rows have columns of all these attributes."""
        return self._columns.keys() >= {*names}

    def column(self, name: str) -> CodedColumn:
        """Return the present state of a column."""
        return self._columns[name]

    def are_equal(self, columns: Mapping[str, CodedColumn]) -> bool:
        """Return True if the rows equal these columns."""
        return all(
            np.array_equal(old.codes, self.column(name).codes)
            and (old.values is None or np.array_equal(old.values, self.column(name).values))  # type: ignore[arg-type]
            for name, old in columns.items()
        )

    def derive(self, rule: Derived) -> bool:
        """Fill in derived values. A row with a derived value outside the domain breaks the rule."""
        derived = self.follow(rule)
        target = rule.target.name
        if (
            self._schema.rule_set.not_applicable_only_by_rule(target)
            and target not in self._schema.rule_set.routing
        ):
            self.lose(target, derived.missing & self.cells[target].not_applicable)
        return self.blank(rule.names, rule.outside(derived))

    def follow(self, rule: Derived, *, missing_only: bool = False) -> Cells:
        """Fill in derived values, or only missing cells, and return the derived cells."""
        every = np.ones(self.n, dtype=bool)
        where = self.cells[rule.target.name].missing if missing_only else every
        derived = rule.compute(self.cells, self.n)
        self._fill(rule, derived, where)
        self._put(self._schema[rule.target.name], where & derived.not_applicable, rule.target.size)
        return derived

    def solve(self, rule: Derived) -> bool:
        """Fill missing cells with solutions of an equation. Return True if any cell was filled."""
        missing = self.cells[rule.target.name].missing
        return bool(missing.any()) and self._fill(rule, rule.compute(self.cells, self.n), missing)

    def _fill(self, rule: Derived, derived: Cells, where: Flags) -> bool:
        """Fill in derived values in the domain. Return True if any cell was filled."""
        certain = derived.has_value & ~rule.outside(derived) & derived.are_exact
        certain &= where
        attribute = self._schema[rule.target.name]
        column = self._columns[attribute.name]
        values = column.values
        if isinstance(attribute, Numeric):
            inside = np.where(certain, np.clip(derived.low, attribute.lower, attribute.upper), 0.0)
            inside = np.where(certain, inside, attribute.lower) + 0.0  # no -0.0
            codes = attribute.encode_values(inside)
            if values is not None:
                values = np.where(certain, inside, values)
        else:
            codes = np.where(certain, derived.low, 0).astype(np.int64)
        coded = np.where(certain, codes, column.codes).astype(code_dtype(attribute))
        self._set(attribute.name, CodedColumn(coded, values))
        return bool(certain.any())

    def route(self, rule: Routing) -> None:
        """Set cells to "not applicable" by a rule. Undecided missing cells stay missing."""
        attribute = self._schema[rule.target.name]
        applies = rule.unless.truth(self.cells, self.n)
        self._put(attribute, applies.is_false, attribute.size)
        if attribute.nullable:
            # If the deciding cell is lost, "not applicable" becomes missing.
            only_by_rule = self._schema.rule_set.not_applicable_only_by_rule(attribute.name)
            applicable = ~applies.is_false if only_by_rule else applies.is_true
            wrong = applicable & self.cells[attribute.name].not_applicable
            self._put(attribute, wrong, attribute.missing_code)

    def lose(self, name: str, where: Flags) -> None:
        """Make the cells of one attribute missing in the rows that ``where`` marks."""
        self._put(self._schema[name], where, self._schema[name].missing_code)

    def blank(self, names: Iterable[str], broken: Flags) -> bool:
        """Make the cells of rows that break a rule missing. Return True if any cell was lost.

        Cells that an equation derives from a lost cell are lost too. Otherwise they would restore
        the lost cell.
        """
        lost = False
        for name in names if broken.any() else ():
            attribute = self._schema[name]
            where = broken & ~self.cells[name].missing
            if attribute.nullable and where.any():
                self._put(attribute, where, attribute.missing_code)
                self.blank(self._derived_from(name), where)
                lost = True
        return lost

    def _derived_from(self, name: str) -> list[str]:
        """Return the attributes that equations derive from an attribute."""
        return [
            other
            for other, rule in self._schema.rule_set.derived.items()
            if rule.is_linear and name in rule.by and other in self.cells
        ]

    def _put(self, attribute: AnyAttribute, where: Flags, code: int) -> None:
        """Set cells to a code of a kind of missing."""
        if where.any():
            name = attribute.name
            self._set(name, self._columns[name].without_value(attribute, where, code))

    def _set(self, name: str, column: CodedColumn) -> None:
        """Replace a column and its cells."""
        self._columns[name] = column
        self.cells |= cells_by_name(self._schema, {name: column})
