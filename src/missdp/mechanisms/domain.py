"""What a release has to say about where its domain comes from: one rule for every family."""

from __future__ import annotations

from typing import Literal

from missdp.accounting import Condition, DataDependentDomain, PublicDomain
from missdp.errors import ParameterError, SchemaError
from missdp.schema import Schema

__all__ = ["Undeclared", "domain_conditions"]

Undeclared = Literal["refuse", "accept"]


def domain_conditions(schema: Schema, undeclared: str = "refuse") -> tuple[Condition, ...]:
    """Return the conditions that a schema puts on every release that uses it.

    Levels and bounds shape the output, so a guarantee always rests on their being public:
    `PublicDomain`, or `DataDependentDomain` for the attributes that are marked as read from the
    private cells (with `PublicDomain` for the others).

    Parameters
    ----------
    schema : Schema
        Public facts.
    undeclared : {"refuse", "accept"}
        What to do about facts that were read from the data and not declared public.

    Raises
    ------
    ParameterError
        If ``undeclared`` is neither.
    SchemaError
        If some facts are not declared public, and that is refused.

    Examples
    --------
    >>> from missdp import Categorical, Schema
    >>> read = Categorical(name="a", levels=("x",), undeclared=("levels",))
    >>> for condition in domain_conditions(Schema((read, Categorical(name="b", levels=("y",)))),
    ...                                    undeclared="accept"):
    ...     print(condition)
    WARNING: categories or bounds were read from the private table, which the stated guarantee
    does not cover, for: a.
    Columns, categories and bounds were declared without the private table (of: b).
    """
    if undeclared not in ("refuse", "accept"):
        raise ParameterError("undeclared must be 'refuse' or 'accept'")
    marked = schema.undeclared
    if not marked:
        return (PublicDomain(),)
    if undeclared == "refuse":
        raise SchemaError(
            "the schema marks facts read from the private data as not yet declared public, for "
            f"attributes {sorted(marked)}; check them and delete the 'undeclared' marks, or pass "
            "undeclared='accept', which then becomes a condition of the guarantee"
        )
    declared = [name for name in schema.names if name not in marked]
    warning = DataDependentDomain(tuple(sorted(marked)))
    return (warning, PublicDomain(f"of: {', '.join(declared)}")) if declared else (warning,)
