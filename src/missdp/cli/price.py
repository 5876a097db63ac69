"""``missdp price``: what a release or a pipeline really costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.accounting.weak import warn_if_weak
from missdp.cli.app import JsonOption, emit
from missdp.cli.how_missing import (
    IndependentOption,
    MostOption,
    ObservedOption,
    stated_assumption,
)
from missdp.cli.side_files import check_together
from missdp.errors import ParameterError
from missdp.files import check_writable
from missdp.pricing import load_pipeline, plot_price
from missdp.pricing import price as price_pipeline
from missdp.synth import load

__all__ = ["price"]

_TRUSTED = "The model file is trusted as given: its checksum shows damage, and is no signature."


def price(
    target: Annotated[
        Path,
        typer.Argument(help="A saved model (.json) or a pipeline (.toml).", show_default=False),
    ],
    ground_truth: Annotated[
        bool,
        typer.Option("--ground-truth", help="Price for the table before values went missing."),
    ] = False,
    observed: ObservedOption = None,
    p_max: MostOption = None,
    row_independent: IndependentOption = False,
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
    if target.suffix == ".toml":
        if ground_truth or observed is not None or p_max is not None or row_independent:
            raise ParameterError("--ground-truth and its assumptions are for saved models")
        _price_pipeline(target, delta, plot, as_json=as_json)
        return
    if delta is not None or plot is not None:
        raise ParameterError("--delta and --plot are for pipelines (.toml)")
    check_together(target)
    model = load(target)
    guarantee = model.guarantee_
    stated = stated_assumption(
        observed, p_max, row_independent=row_independent, schema=model.schema_
    )
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
    document = {"guarantee": guarantee.to_dict(), "says": _TRUSTED}
    emit(document, f"{guarantee.in_words()}\n\n{_TRUSTED}", as_json=as_json)


def _price_pipeline(path: Path, delta: float | None, plot: Path | None, *, as_json: bool) -> None:
    if plot is not None:
        check_writable(plot)
    pipeline = load_pipeline(path, open_model=load)
    found = price_pipeline(pipeline, delta=delta)
    warn_if_weak(found.epsilon, found.delta, n=pipeline.rows)
    if plot is not None:
        plot_price(pipeline, plot)
    emit(found.to_dict(), str(found), as_json=as_json)
