"""Facts of a schema that were read from private cells, and the conditions that follow."""

from __future__ import annotations

from typing import Literal, get_args

from missdp.conditions import (
    BinsFromRelease,
    Condition,
    DataDependentDomain,
    LevelsFromRelease,
    PublicDomain,
)
from missdp.errors import SchemaError, check_choice
from missdp.schema.binning import BinSource
from missdp.schema.numeric import Numeric
from missdp.schema.open_categorical import ReleasedCategorical
from missdp.schema.schema import Schema

Undeclared = Literal["refuse", "accept"]
"""Treatment of facts that were read from private cells: refuse them, or accept them."""


def domain_conditions(schema: Schema, undeclared: str = "refuse") -> tuple[Condition, ...]:
    """Return the conditions that a schema puts on every release that uses it.

    Levels and bounds determine the shape of the output, so a guarantee requires public levels and
    bounds: `PublicDomain`. If facts from private cells are accepted, the attributes with marks get
    `DataDependentDomain`. Bins and levels of an earlier release have conditions too.

    >>> from missdp.schema.undeclared import domain_conditions
    >>> from missdp import Categorical, Schema
    >>> read = Categorical(name="a", levels=("x",), undeclared=("levels",))
    >>> for condition in domain_conditions(Schema((read,)), undeclared="accept"):
    ...     print(condition)
    WARNING: categories, bounds or codes were read from the private table, which the stated
    guarantee does not cover, for: a.
    """
    check_choice("undeclared", undeclared, get_args(Undeclared))
    marked = schema.undeclared
    released = _released_conditions(schema)
    if not marked:
        return (PublicDomain(), *released)
    if undeclared == "refuse":
        raise SchemaError(
            "the schema marks facts read from the private data as not yet declared public, for "
            f"attributes {sorted(marked)}. Check these facts, and delete the 'undeclared' marks in "
            "the schema once they are public. Or accept them with undeclared='accept', which "
            "becomes a condition of the guarantee."
        )
    declared = [name for name in schema.names if name not in marked]
    declared += ["rules"] if schema.rules else []
    warning = DataDependentDomain(tuple(sorted(marked)))
    public = (PublicDomain(f"of: {', '.join(declared)}"),) if declared else ()
    return (warning, *public, *released)


def _released_conditions(schema: Schema) -> list[Condition]:
    """Return the conditions for bins and levels of other releases."""
    names_by_release: dict[str, list[str]] = {}
    for a in schema:
        if isinstance(a, Numeric) and a.binning.source is BinSource.RELEASE:
            origin = a.binning.release
            release = f"release {origin}" if origin else "an earlier fit"
            names_by_release.setdefault(release, []).append(a.name)
    bins = [BinsFromRelease(tuple(names), release) for release, names in names_by_release.items()]
    levels = tuple(a.name for a in schema if isinstance(a, ReleasedCategorical))
    return [*bins, *([LevelsFromRelease(levels)] if levels else [])]
