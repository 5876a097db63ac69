"""Cells of synthetic rows drawn anew from a released model, given the rest of their rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from missdp.inference.given_rest import redraw
from missdp.inference.heads import Heads
from missdp.inference.model import Levels
from missdp.table import Table

__all__ = ["Rows", "redrawn"]

Rows: TypeAlias = Table
"""Synthetic rows."""


def redrawn(
    law: Heads,
    levels: tuple[Levels, ...],
    rows: Table,
    names: tuple[str, ...],
    rng: np.random.Generator,
) -> Table:
    """Return synthetic rows with some attributes drawn anew; numeric values lie in the bins drawn.

    Parameters
    ----------
    law : Heads
    levels : tuple of Levels
        How the levels of each attribute are grouped in the law.
    rows : Table
        Complete rows, of the attributes that are modelled.
    names : tuple of str
        What is drawn anew.
    rng : numpy Generator
    """
    schema = rows.schema
    place = {name: i for i, name in enumerate(schema.names)}
    groups = np.stack(
        [level.groups[rows.codes(n)] for n, level in zip(schema.names, levels, strict=True)], axis=1
    )
    drawn = redraw(law, groups, tuple(place[n] for n in names), rng)
    codes = {n: levels[place[n]].split(drawn[:, place[n]], rng) for n in names}
    again = Table.from_codes(schema.subset(names), codes).with_values(rng)
    columns = {n: rows.column(n) for n in schema.names} | {n: again.column(n) for n in names}
    return Table(schema, columns, kind=rows.kind)
