"""How often each kind of missing occurs, in a true table and in a synthetic one."""

from __future__ import annotations

from collections import Counter as CountOf
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from missdp.evaluate.align import aligned, schema_of
from missdp.evaluate.printed import in_columns, rounded
from missdp.record import Record
from missdp.schema import Schema
from missdp.table import Table

__all__ = ["MissingnessByKind", "Shares", "missingness_by_kind"]

Shares: TypeAlias = dict[str, dict[str, float]]
"""Attribute, then kind of missing, then the share of the cells that are of this kind."""


@dataclass(frozen=True)
class MissingnessByKind(Record):
    """Kinds of missing of two tables side by side. Private: made from the truth without noise.

    Parameters
    ----------
    truth_shares, synthetic_shares : dict of str to dict of str to float
        Per attribute and kind, the share of its cells that are of this kind (0 for a table without
        rows).
    rows : int, optional
        Number of rows of the shorter table, which decides how many digits are printed.

    Examples
    --------
    >>> found = MissingnessByKind({"pay": {"refused": 0.25}}, {"pay": {"refused": 0.5}})
    >>> found.mean_difference
    0.25
    >>> print(found)
    cells without a value, by kind: mean difference 0.2500, max 0.2500
      pay, refused  0.2500 → 0.5000
    """

    truth_shares: Shares
    synthetic_shares: Shares
    rows: int | None = None

    derived: ClassVar[tuple[str, ...]] = ("mean_difference", "max_difference")

    @property
    def differences(self) -> dict[tuple[str, str], float]:
        """Synthetic minus true share, per attribute and kind."""
        return {
            (name, kind): self.synthetic_shares[name][kind] - share
            for name, shares in self.truth_shares.items()
            for kind, share in shares.items()
        }

    @property
    def mean_difference(self) -> float:
        """Mean absolute difference of the shares (0 if no cell may be without a value)."""
        return float(np.mean([abs(gap) for gap in self.differences.values()] or [0.0]))

    @property
    def max_difference(self) -> float:
        """Largest absolute difference of the shares."""
        return max((abs(gap) for gap in self.differences.values()), default=0.0)

    def __str__(self) -> str:
        lines = [
            "cells without a value, by kind: mean difference "
            f"{rounded(self.mean_difference, self.rows)}, "
            f"max {rounded(self.max_difference, self.rows)}"
        ]
        rows = []
        for name, kind in self.differences:
            both = (self.truth_shares[name][kind], self.synthetic_shares[name][kind])
            shares = " → ".join(rounded(share, self.rows) for share in both)
            rows.append((f"{name}, {kind.replace('_', ' ')}", shares))
        return "\n".join([*lines, *in_columns(rows)])


def missingness_by_kind(
    truth: Any, synthetic: Any, *, schema: Schema | None = None
) -> MissingnessByKind:
    """Compare how many cells are not applicable, refused, unknown, not asked or plainly missing.

    Curator only: the result is exact, not private. Do not publish it without a mechanism.

    Parameters
    ----------
    truth, synthetic : Table, or any table or file that Table.read takes
        The private table, and a synthetic one that kept its holes. Where a file or frame holds
        nulls instead of codes, kinds other than plain missing cannot be told, except that what is
        not applicable follows from the rules: write codes, with ``holes="codes"``.
    schema : Schema, optional
        The declared domain; needed if neither is a Table.

    Returns
    -------
    MissingnessByKind
        Shares of every kind that the schema declares, and of plain missing where it occurs.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Numeric, Schema
    >>> from missdp.evaluate import missingness_by_kind
    >>> pay = Numeric(name="pay", lower=0, upper=9, nullable=True, refused=(-7,))
    >>> one, two = pd.DataFrame({"pay": [1, -7]}), pd.DataFrame({"pay": [-7, None]})
    >>> missingness_by_kind(one, two, schema=Schema((pay,))).differences
    {('pay', 'missing'): 0.5, ('pay', 'refused'): 0.0}
    """
    declared = schema_of(truth, synthetic, schema=schema)
    both = [_shares(aligned(data, declared)(), declared) for data in (truth, synthetic)]
    (one, rows), (two, others) = both
    for a in declared:
        for kind in [*one[a.name]]:
            if kind not in a.kinds and not one[a.name][kind] and not two[a.name][kind]:
                del one[a.name][kind], two[a.name][kind]
    return MissingnessByKind(one, two, min(rows, others))


def _shares(tables: Iterator[Table], declared: Schema) -> tuple[Shares, int]:
    rows = 0
    found: dict[str, CountOf[str]] = {name: CountOf() for name in declared.names}
    for table in tables:
        rows += len(table)
        for a in table.schema:
            found[a.name].update({kind: int(table.mask(a.name, kind).sum()) for kind in a.kinds})
    shares = {
        name: {kind: count / max(rows, 1) for kind, count in counts.items()}
        for name, counts in found.items()
    }
    return shares, rows
