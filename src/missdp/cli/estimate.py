"""``missdp estimate``: answers from a released model, with intervals, at no cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from missdp.cli import emit
from missdp.cli.options import FILE, Command, option
from missdp.errors import ParameterError, replacing
from missdp.progress import progress_bar, show_stage

if TYPE_CHECKING:
    from missdp.estimate import Estimates

_STEPS = 11  # shifts of a sensitivity analysis


@click.command(cls=Command)
@click.argument("model", type=FILE)
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@option("--confidence", "Of each interval. Default: 0.95.", type=float, default=0.95)
@option("--shift", "NAME=FROM:TO: shifts of missing values, for a sensitivity analysis.")
@option("--plot", "Draw the answers of --shift: .svg, .png or .pdf.", type=FILE)
def estimate(
    model: Path, questions: tuple[str, ...], confidence: float, shift: str | None, plot: Path | None
) -> None:
    """Answer questions from a model of AllPairs, AIM or MST, with intervals, at no cost.

    QUESTION is mean(x), sd(x), median(x), quantile(x, 0.9), share(x = 'a'), share(x is missing),
    correlation(x, y) or difference(mean(x)). Names of groups follow after 'by'. A regression is a
    formula such as y ~ x + C(z).

    Try:
      missdp estimate synthetic.model.json "mean(age) by smoker"
      missdp estimate synthetic.model.json "share(smoker = 'yes')" "quantile(age, 0.9)"
      missdp estimate synthetic.model.json "age ~ C(smoker)"
      missdp estimate synthetic.model.json "mean(age)" --shift age=0:0.5
    """
    from missdp.synth import load

    if shift is not None:
        _departures(model, questions, confidence, shift, plot)
        return
    if plot is not None:
        raise ParameterError("--plot requires --shift")
    from missdp.estimate.estimands import match_text
    from missdp.estimate.intervals import answer

    with show_stage("reading the model"):
        released = load(model)
    estimands = [match_text(released, question) for question in questions]
    answers = []
    with progress_bar() as progress:
        for place, estimand in enumerate(estimands):
            progress("estimating", place / len(estimands) if place else None)
            answers.append(answer(released, estimand, confidence))
    often = Counter(flag for one in answers for flag in one.flags)
    single = [replace(x, flags=tuple(f for f in x.flags if often[f] == 1)) for x in answers]
    several = "\n".join(flag for flag, times in often.items() if times > 1)
    guarantee = released.guarantee_
    texts = [*map(str, single), *([several] if several else []), guarantee.in_words()]
    documents = [{**one.to_dict(), "shown": _shown(one)} for one in answers]
    document = documents[0] if len(documents) == 1 else {"answers": documents}
    emit(document | {"guarantee": guarantee.to_dict()}, "\n\n".join(texts))


def _shown(answer: Estimates) -> list[dict[str, str]]:
    """Return estimates and intervals as text, with the digits that their errors support."""
    names = ["estimate", "low", "high"]
    rows = answer.shown()[names].itertuples(index=False)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _departures(
    model: Path, questions: tuple[str, ...], confidence: float, shift: str, plot: Path | None
) -> None:
    """Print an estimate for shifted missing values, a sensitivity analysis."""
    import numpy as np

    from missdp.cli.rows import check_picture
    from missdp.synth import load

    if len(questions) != 1:
        raise ParameterError("--shift takes one question")
    name, low, high = _ends(shift)
    check_picture(plot, model)
    released = load(model)
    steps = np.linspace(low, high, _STEPS).round(12).tolist()
    with show_stage("estimating"):
        analysis = released.sensitivity(
            questions[0], attribute=name, shifts=steps, confidence=confidence
        )
    if plot is not None:
        analysis.plot(plot)
    guarantee = released.guarantee_
    document = {**analysis.to_dict(), "guarantee": guarantee.to_dict()}
    emit(document, f"{analysis}\n\n{guarantee.in_words()}")


def _ends(shift: str) -> tuple[str, float, float]:
    """Return the attribute and the range of shifts of an option."""
    bad = ParameterError("--shift must be NAME=FROM:TO, such as age=0:0.5 or age=-0.5:0.5")
    name, _, ends = shift.rpartition("=")
    with replacing(ValueError, by=bad):
        low, high = map(float, ends.split(":"))
    if not name or not float("-inf") < low < high < float("inf"):
        raise bad
    return name.strip().strip("`"), low, high
