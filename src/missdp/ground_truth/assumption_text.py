"""Assumptions about how values went missing, as text."""

from __future__ import annotations

from missdp.accounting import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.errors import ParameterError, replacing
from missdp.schema import Schema

_FORMS = "mcar=0.8, mcar=age:0.9,income:0.8, bounded=0.9 or row-independent"


def parse_assumption(text: str | None, schema: Schema) -> Condition | None:
    """Return the assumption that ``--assume`` states, or None without it.

    Parameters
    ----------
    text : str or None
        ``mcar=0.8``, ``mcar=age:0.9,income:0.8``, ``bounded=0.9`` or ``row-independent``.
    schema : Schema
        Declares which attributes may be missing.

    Returns
    -------
    Condition or None
        A condition of guarantees for the ground truth.

    Raises
    ------
    ParameterError
        If the text has none of these forms.
    """
    if text is None:
        return None
    kind, _, value = text.partition("=")
    unreadable = ParameterError(f"--assume must be of the form {_FORMS}; got {text!r}.")
    if text == "row-independent":
        return RowIndependentMissingness()
    if kind not in ("mcar", "bounded") or not value:
        raise unreadable
    with replacing(ValueError, by=unreadable):
        if kind == "bounded":
            bound = float(value)
        elif ":" not in value:
            rates = [(name, float(value)) for name in schema.nullable]
        else:
            parts = [part.rpartition(":") for part in value.split(",")]
            rates = [(name.strip(), float(rate)) for name, _, rate in parts]
    if kind == "bounded":
        return BoundedObservation(bound)
    if not all(name for name, _ in rates):
        raise unreadable
    return MissingCompletelyAtRandom(rates)
