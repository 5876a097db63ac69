"""Schemas and rows of categorical attributes, as most tests of synthesizers need them."""

import numpy as np

from missdp import Categorical, Schema, Table
from missdp.synth.split import CHOICES, EVERY_ROW, TABLES, BudgetPlan, Part


def schema_of(sizes, nullable=True, rules=()):
    """Return a schema of attributes with the given sizes.

    The attributes have the given names, or c0, c1, ... All attributes are nullable, or only the
    named attributes.
    """
    named = sizes if isinstance(sizes, dict) else {f"c{i}": k for i, k in enumerate(sizes)}
    holed = named if nullable is True else nullable or ()
    attributes = (
        Categorical(name=name, levels=tuple(range(size)), nullable=name in holed)
        for name, size in named.items()
    )
    return Schema(tuple(attributes), rules)


def rows_of(schema, n, seed=0, *, holes=0.2, common=0.0):
    """Draw rows evenly. A share of the cells of a row repeats one number that these cells share."""
    rng = np.random.default_rng(seed)
    shared, codes = rng.random(n), {}
    for attribute in schema:
        at = np.where(rng.random(n) < common, shared, rng.random(n))
        hole = attribute.nullable & (rng.random(n) < holes)
        codes[attribute.name] = np.where(hole, attribute.size, (at * attribute.size).astype(int))
    return Table.from_codes(schema, codes)


def chosen_caps(whole, *, ungated, selections, fixed, among, largest=None):
    """Return caps of a fit with the given amount for each part.

    The fit spends the rest on marginals that it chooses.
    """
    amounts = {EVERY_ROW: ungated, CHOICES: selections, **fixed}
    parts, left = [], whole.amount
    for required, amount in amounts.items():
        kind = "selections" if required == CHOICES else "other"
        parts.append(
            Part(str(required), amount / left, (EVERY_ROW if kind != "other" else required,), kind)
        )
        left -= amount
    share = 1.0 if largest is None else largest / left
    parts.append(Part(TABLES, 1.0, tuple(among), chosen=True, largest=share))
    return BudgetPlan(whole, tuple(parts)).limits
