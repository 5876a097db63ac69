"""Adult and BR2000 in the usual form: declared domains, numerics in 10 bins."""

import json
from pathlib import Path

from missdp import Categorical, Numeric, Schema, Table

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def schema(dataset, *, nullable=True):
    """Schema from the data set's public ``domain.json``."""
    facts = json.loads((SHARED / dataset / "domain.json").read_text())
    attributes = []
    for name, fact in facts.items():
        if fact["kind"] == "numeric":
            attributes.append(
                Numeric(
                    name=name,
                    lower=fact["lower"],
                    upper=fact["upper"],
                    integer=fact["integer"],
                    bins=10,
                    nullable=nullable,
                )
            )
        else:
            attributes.append(
                Categorical(name=name, levels=tuple(fact["levels"]), nullable=nullable)
            )
    return Schema(tuple(attributes))


def table(dataset, file, *, nullable=True):
    """Read one of the data set's files, e.g. ``table("adult", "mcar_0.2")``."""
    return Table.read(SHARED / dataset / f"{file}.parquet", schema(dataset, nullable=nullable))
