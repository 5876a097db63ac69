"""Options that state how values went missing, and what they state."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from missdp.accounting import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.errors import ParameterError, replacing
from missdp.schema import Schema

__all__ = ["IndependentOption", "MostOption", "ObservedOption", "stated_assumption"]

ObservedOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Holes completely at random: ATTRIBUTE=PROBABILITY observed, by commas; or one "
        "probability for every attribute that may be missing."
    ),
]
MostOption: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Any row is read with at most this probability, whatever its values."),
]
IndependentOption: TypeAlias = Annotated[
    bool,
    typer.Option("--row-independent", help="Rows lose values independently of each other."),
]


def stated_assumption(
    observed: str | None, p_max: float | None, *, row_independent: bool, schema: Schema | None
) -> Condition | None:
    """Return the one assumption that the options state, or None.

    Parameters
    ----------
    observed, p_max, row_independent
        Values of the options.
    schema : Schema or None
        Of the table; None where one probability for all attributes means nothing.

    Raises
    ------
    ParameterError
        If more than one is stated, or one cannot be read.

    Examples
    --------
    >>> stated_assumption("a=0.5", None, row_independent=False, schema=None)
    MissingCompletelyAtRandom(observed=(('a', 0.5),))
    """
    stated: list[Condition] = []
    if observed is not None:
        stated.append(MissingCompletelyAtRandom(_rates(observed, schema)))
    if p_max is not None:
        stated.append(BoundedObservation(p_max))
    if row_independent:
        stated.append(RowIndependentMissingness())
    if len(stated) > 1:
        raise ParameterError("state one assumption: --observed, --p-max or --row-independent")
    return stated[0] if stated else None


def _rates(text: str, schema: Schema | None) -> list[tuple[str, float]]:
    if schema is not None and "=" not in text:
        with replacing(ValueError, by=_unreadable):
            rate = float(text)
        return [(name, rate) for name in schema.nullable]
    observed = []
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        with replacing(ValueError, by=_unreadable):
            observed.append((name.strip(), float(value)))
        if not name.strip():
            raise _unreadable()
    return observed


def _unreadable(_: BaseException | None = None) -> ParameterError:
    return ParameterError(
        "--observed must look like age=0.9,income=0.75: for each attribute the probability that a "
        "cell is observed; or be one such number for all"
    )
