"""``missdp price``: what a release or a pipeline really costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from missdp.accounting import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.cli.common import JsonOption, emit
from missdp.cli.families import family_of
from missdp.errors import DataError, ParameterError
from missdp.synth.base import Synthesizer

__all__ = ["price"]


def price(
    target: Annotated[Path, typer.Argument(help="A saved model (JSON).", show_default=False)],
    ground_truth: Annotated[
        bool,
        typer.Option("--ground-truth", help="Price for the table before values went missing."),
    ] = False,
    observed: Annotated[
        str | None,
        typer.Option(help="Holes completely at random: ATTRIBUTE=PROBABILITY observed, by commas."),
    ] = None,
    p_max: Annotated[
        float | None,
        typer.Option(help="Any row is read with at most this probability, whatever its values."),
    ] = None,
    row_independent: Annotated[
        bool,
        typer.Option("--row-independent", help="Rows lose values independently of each other."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a saved model guarantees, for the incomplete table or for the ground truth."""
    model = _load(target)
    guarantee = model.guarantee_
    stated = _assumption(observed, p_max, row_independent=row_independent)
    if ground_truth:
        if stated is None:
            raise ParameterError(
                "--ground-truth needs an assumption about how values went missing: --observed, "
                "--p-max or --row-independent"
            )
        guarantee = model.ground_truth_guarantee(stated)
    elif stated is not None:
        raise ParameterError("assumptions about missing values are for --ground-truth")
    emit({"guarantee": guarantee.to_dict()}, guarantee.in_words(), as_json=as_json)


def _load(path: Path) -> Synthesizer:
    try:
        name = json.loads(path.read_text(encoding="utf-8"))["family"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{str(path)!r} is not a saved missdp model") from None
    return family_of(name).load(path)


def _assumption(
    observed: str | None, p_max: float | None, *, row_independent: bool
) -> Condition | None:
    stated: list[Condition] = []
    if observed is not None:
        stated.append(MissingCompletelyAtRandom(_parse_observed(observed)))
    if p_max is not None:
        stated.append(BoundedObservation(p_max))
    if row_independent:
        stated.append(RowIndependentMissingness())
    if len(stated) > 1:
        raise ParameterError("state one assumption: --observed, --p-max or --row-independent")
    return stated[0] if stated else None


def _parse_observed(text: str) -> dict[str, float]:
    observed = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            observed[name.strip()] = float(value)
        except ValueError:
            name = ""
        if not name.strip():
            raise ParameterError(
                "--observed must look like age=0.9,income=0.75: for each attribute the probability "
                "that a cell is observed"
            )
    return observed
