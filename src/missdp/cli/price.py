"""``missdp price``: what a release or a pipeline really costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.accounting import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.accounting.conditions import warn_if_weak
from missdp.cli.app import JsonOption, emit
from missdp.errors import ParameterError, replacing
from missdp.files import check_writable
from missdp.preprocess import load_pipeline, plot_price
from missdp.preprocess import price as price_pipeline
from missdp.synth import load

__all__ = ["price"]


def price(
    target: Annotated[
        Path,
        typer.Argument(help="A saved model (.json) or a pipeline (.toml).", show_default=False),
    ],
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
    delta: Annotated[
        float | None, typer.Option(help="Price a pipeline at this delta instead of its own.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a pipeline's epsilon against its noise (.svg).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a saved model or a preprocessing pipeline really guarantees.

    A pipeline file describes imputation, scaling, PCA and so on, without noise, followed by a
    private estimator; only its public facts are read.
    """
    stated = _assumption(observed, p_max, row_independent=row_independent)
    if target.suffix == ".toml":
        if ground_truth or stated is not None:
            raise ParameterError("--ground-truth and its assumptions are for saved models")
        _price_pipeline(target, delta, plot, as_json=as_json)
        return
    if delta is not None or plot is not None:
        raise ParameterError("--delta and --plot are for pipelines (.toml)")
    model = load(target)
    guarantee = model.guarantee_
    if ground_truth:
        if stated is None:
            raise ParameterError(
                "--ground-truth needs an assumption about how values went missing: --observed, "
                "--p-max or --row-independent"
            )
        guarantee = model.ground_truth_guarantee(stated)
    elif stated is not None:
        raise ParameterError("assumptions about missing values are for --ground-truth")
    warn_if_weak(guarantee.epsilon, guarantee.delta, n=model.n_rows_)
    emit({"guarantee": guarantee.to_dict()}, guarantee.in_words(), as_json=as_json)


def _price_pipeline(path: Path, delta: float | None, plot: Path | None, *, as_json: bool) -> None:
    if plot is not None:
        check_writable(plot)
    pipeline = load_pipeline(path, open_model=load)
    found = price_pipeline(pipeline, delta=delta)
    warn_if_weak(found.epsilon, found.delta, n=pipeline.rows)
    if plot is not None:
        plot_price(pipeline, plot)
    emit(found.to_dict(), str(found), as_json=as_json)


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


def _parse_observed(text: str) -> list[tuple[str, float]]:
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
        "cell is observed"
    )
