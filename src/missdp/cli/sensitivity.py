"""The command that asks what if values are missing because of what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from missdp.cli.app import emit
from missdp.cli.options import JsonOption, argument, option
from missdp.cli.side_files import check_together
from missdp.errors import ParameterError, replacing
from missdp.files import check_outputs, picture_format
from missdp.synth import load

_STEPS = 11


def sensitivity(
    model: Annotated[Path, argument(help="A saved model (JSON) of AllPairs, AIM or MST.")],
    question: Annotated[str, argument(help="'mean(x) by y' and the like, or 'y ~ x + C(z)'.")],
    attribute: Annotated[str, option(help="A number in it, some of whose values are missing.")],
    shift: Annotated[
        str, option(help="FROM:TO, in standard deviations of it, added to every missing value.")
    ] = "0:0.5",
    plot: Annotated[Path | None, option(help="Draw it (.svg, .png, .pdf).")] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Show how an estimate moves if values are missing because of what they are. Free.

    At 0 they are missing at random. The shift at which the conclusion turns is named.
    """
    ends = _ends(shift)
    if plot is not None:
        picture_format(plot)
        check_outputs([plot], inputs=[model])
    check_together(model)
    released = load(model)
    steps = np.linspace(*ends, _STEPS).round(12).tolist()
    found = released.sensitivity(question, attribute=attribute, shifts=steps, confidence=confidence)
    if plot is not None:
        found.plot(plot)
    document = {**found.to_dict(), "guarantee": released.guarantee_.to_dict()}
    emit(document, f"{found}\n\n{released.guarantee_.in_words()}", as_json=as_json)


def _ends(shift: str) -> tuple[float, float]:
    bad = ParameterError("shift must be FROM:TO, such as 0:0.5 or -0.5:0.5")
    with replacing(ValueError, by=bad):
        low, high = map(float, shift.split(":"))
    if not -np.inf < low < high < np.inf:
        raise bad
    return low, high
