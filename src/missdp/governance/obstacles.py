"""Reasons why a schema would stop every release, from public facts only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from missdp.errors import MissDPError
from missdp.schema import Schema
from missdp.schema.open_categorical import with_max_levels
from missdp.synth.registry import default_synthesizer, synthesizer_named


def release_obstacles(facts: Schema) -> Iterator[str]:
    """Yield the reasons why the default synthesizer would stop, by public facts.

    A synthesizer raises only its first error. Smaller schemas are therefore tried too: without the
    unit, without the weight, and with declared levels instead of open levels.

    Parameters
    ----------
    facts : Schema
        The schema of a table.

    Yields
    ------
    str
        A sentence for each reason. Public.
    """
    if facts.undeclared:
        marked = ", ".join(f"{name} ({', '.join(m)})" for name, m in facts.undeclared.items())
        yield f"not declared public yet: {marked}."
    reasons: dict[str, None] = {}
    smaller = [facts, replace(facts, unit=None), replace(facts, weight=None), facts.without_unit]
    for tried in (*smaller, *map(with_max_levels, smaller)):
        try:
            method = synthesizer_named(default_synthesizer(tried, delta=None))
            method(epsilon=1.0).planned_parts(tried)
        except MissDPError as error:
            reasons.setdefault(f"{str(error).rstrip('.')}.")
    yield from reasons
