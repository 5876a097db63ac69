"""Subpopulations and lists of names, as people write them in commands and questions.

See :mod:`missdp.schema.language`. ``select`` takes rows as they are: a missing cell
satisfies no comparison. :func:`missdp.schema.conditions.decided` keeps to what holds for every
value of the missing cells.
"""

from __future__ import annotations

import re

from missdp.errors import ParameterError, SchemaError, did_you_mean
from missdp.schema.conditions import Join, Predicate
from missdp.schema.language import backticks_hint, condition, reading
from missdp.schema.schema import Schema

_NAME_IN_LIST = re.compile(r"(?:\s*`([^`]+)`\s*|([^,`]*))(?:,|$)")  # takes linear time


def parse_names(text: str, schema: Schema | None = None) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas; one with a comma is in backticks."""
    names, at = [], 0
    while at < len(text):
        found = _NAME_IN_LIST.match(text, at)
        if found is None:
            raise ParameterError("write names with commas between them, and odd names in backticks")
        names.append(found[1] or found[2].strip())
        at = found.end()
    named = tuple(name for name in names if name)
    unknown = [] if schema is None else [name for name in named if name not in schema]
    if schema is not None and unknown:
        hint = backticks_hint(text, schema.names) or f"; it has {list(schema.names)}"
        hint += did_you_mean(unknown[0], schema.names)
        raise SchemaError(f"the schema has no attribute {unknown[0]!r}{hint}")
    return named


def parse_where(text: str | None, schema: Schema, *, named: str = "where") -> Predicate:
    """Parse a subpopulation."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{named}: a subpopulation is written as text")
    if text is None or not text.strip():
        return Join((), all_of=True)
    with reading(text, schema.names, lambda why: ParameterError(f"{named}: {why}")):
        return condition(text, schema.columns)
