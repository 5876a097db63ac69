"""Numbers of rows of a table that violate the public rules of its schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.evaluate.align import blocks_of, column_lines, schema_of
from missdp.schema import Schema
from missdp.serialization import Record
from missdp.table.follow import cells_by_name


@dataclass(frozen=True)
class RuleViolations(Record):
    """Numbers of rows of a table that violate the public rules of its schema.

    `rule_violations` returns it. Counts are exact. They are **private** unless the table is
    synthetic.

    Parameters
    ----------
    rows : int
        Number of rows of the table.
    broken_rows : int
        Number of rows that certainly violate at least one rule.
    broken : dict of str to int
        By the text of each rule, the number of rows that certainly violate it. Missing cells may
        leave the violation open, and the row is then not counted.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.evaluate import RuleViolations
    >>> found = RuleViolations(200, 3, {"start <= end": 2, "never a = 'x'": 1})
    >>> found.share, found.shares["start <= end"]
    (0.015, 0.01)
    >>> print(found)
    3 of 200 rows break a rule (0.0150)
      start <= end      2  0.0100
      never a = 'x'     1  0.0050
    """

    rows: int
    broken_rows: int
    broken: dict[str, int]

    derived: ClassVar[tuple[str, ...]] = ("share", "shares")

    @property
    def share(self) -> float:
        """Return the share of the rows that certainly violate at least one rule.

        Returns
        -------
        float
            In [0, 1]. 0 for a table without rows. Private unless the table is synthetic.
        """
        return self.broken_rows / max(self.rows, 1)

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of the rows that certainly violate each rule.

        Returns
        -------
        dict of str to float
            Shares in [0, 1], by the text of the rule. 0 for a table without rows. Private
            unless the table is synthetic.
        """
        return {text: count / max(self.rows, 1) for text, count in self.broken.items()}

    def __str__(self) -> str:
        title = f"{self.broken_rows} of {self.rows} rows break a rule ({self.share:.4f})"
        shares = self.shares
        rows = [(t, f"{count:>4}", f"{shares[t]:.4f}") for t, count in self.broken.items()]
        return "\n".join([title, *column_lines(rows)])


def rule_violations(data: Any, *, schema: Schema | None = None) -> RuleViolations:
    """Count the rows of a table that certainly violate each rule of a schema.

    Rules are public facts such as ``start <= end``. Frames and files are read without applying the
    rules, so no cell is corrected first. A row whose missing cells leave the violation open is not
    counted. If the table is private, it is for the curator only: the result is exact. Do not
    publish it without a mechanism (noise that is charged to a budget).

    Parameters
    ----------
    data : Table, or any table or file that Table.read takes
        A true or a synthetic table. A `Table` is used unchanged. :meth:`~missdp.Table.read` has
        already applied the rules of its schema.
    schema : Schema, optional
        The schema with the rules. By default the schema of the `Table`.

    Returns
    -------
    RuleViolations
        Exact numbers of rows, by the text of the rule, in the order of the schema.

    Raises
    ------
    ParameterError
        If ``schema`` is missing and ``data`` is not a `Table`.
    DataError, SchemaError
        If the table cannot be read under the schema.

    Examples
    --------
    >>> from missdp.evaluate import rule_violations
    >>> import pandas as pd
    >>> from missdp import Numeric, Schema
    >>> from missdp.schema import Always
    >>> year = {"lower": 1900, "upper": 2030, "integer": True}
    >>> columns = (Numeric(name="start", **year), Numeric(name="end", **year))
    >>> frame = pd.DataFrame({"start": [1999, 2005], "end": [2001, 2001]})
    >>> rule_violations(frame, schema=Schema(columns, (Always("start <= end"),))).broken
    {'start <= end': 1}
    """
    schema = schema_of(data, schema=schema)
    plain = replace(schema, rules=())
    rows, broken_rows = 0, 0
    broken: dict[str, int] = {}
    for table in blocks_of(data, plain):
        cells = cells_by_name(plain, {name: table.column(name) for name in plain.names})
        any_rule = np.zeros(len(table), dtype=bool)
        for rule in schema.rules:
            parts = [
                bound.broken(cells, len(table)).is_true for bound in rule.bound(schema.columns)
            ]
            if not parts:
                continue
            surely = np.logical_or.reduce(parts)
            any_rule |= surely
            broken[rule.text] = broken.get(rule.text, 0) + int(surely.sum())
        rows, broken_rows = rows + len(table), broken_rows + int(any_rule.sum())
    return RuleViolations(rows, broken_rows, broken)
