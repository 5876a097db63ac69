"""``missdp guarantee`` and ``missdp price``: guarantees of releases, and costs of pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit
from missdp.cli.options import FILE, Command, assume_option, option

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer

_TRUSTED = "The model file is trusted. Its checksum detects damage, and is not a signature."


@click.command(cls=Command)
@click.argument("models", nargs=-1, required=True, type=FILE, metavar="MODEL...")
@option("--prior", "Prior belief that the row of a person is present.", type=float, default=0.5)
@option("--chance", "Of an exception, where delta is above 0.", type=float, default=0.001)
@assume_option
def guarantee(models: tuple[Path, ...], prior: float, chance: float, assume: str | None) -> None:
    """Explain the guarantees of models, and their meaning for one person.

    With --assume, also for the table before values went missing. Several models are releases of one
    table. Their joint guarantee is a report, as if all had been fixed in advance.

    Try:
      missdp guarantee synthetic.model.json
      missdp guarantee synthetic.model.json --prior 0.1
      missdp guarantee synthetic.model.json --assume row-independent
    """
    from missdp.ground_truth.assumption_text import parse_assumption
    from missdp.ground_truth.guarantees import joint_epsilon
    from missdp.synth import load
    from missdp.words import warn_if_weak

    released = [load(path) for path in models]
    stated = parse_assumption(assume, released[0].schema_)
    documents, texts = [], []
    for path, model in zip(models, released, strict=True):
        proven = model.guarantee_
        warn_if_weak(proven.epsilon, proven.delta, n=model.n_rows_)
        risk = proven.explain(prior=prior, chance=chance)
        words = {"words": proven.in_words(), "risk_in_words": str(risk)}
        documents.append({"model": str(path), **_missing_values_of(model)})
        documents[-1] |= {"guarantee": proven.to_dict(), "risk": risk.to_dict(), **words}
        texts += [f"{path}:"] * (len(models) > 1) + ["\n\n".join(words.values())]
        if stated is not None:
            truth = model.ground_truth_guarantee(stated)
            documents[-1]["ground_truth"] = truth.to_dict()
            texts.append(f"For the table before values went missing:\n{truth.in_words()}")
    document: dict[str, Any] = documents[0] if len(models) == 1 else {"models": documents}
    if len(models) > 1:
        epsilon, delta = joint_epsilon(released, stated)
        joint = "nothing is proven" if epsilon is None else f"({epsilon:.4g}, {delta:g})"
        document["together"] = {"epsilon": epsilon, "delta": delta}
        texts.append(f"All together, had they been fixed in advance: {joint}.")
    emit(document | {"says": _TRUSTED}, "\n\n".join([*texts, _TRUSTED]))


def _missing_values_of(model: Synthesizer) -> dict[str, Any]:
    """Return the strategy for missing values of a model, and whether its rows can have them."""
    strategy = model.applied_strategy
    return {"strategy": strategy.name, "models_missingness": strategy.models_missingness}


@click.command(cls=Command)
@click.argument("pipeline", type=FILE)
@option("--delta price_delta", "In place of the delta of the pipeline.", "Privacy", type=float)
@option("--plot", "Draw epsilon against the noise: .svg, .png or .pdf.", type=FILE)
def price(pipeline: Path, price_delta: float | None, plot: Path | None) -> None:
    """Print the guarantee of a pipeline of preprocessing and a private estimator.

    The file describes steps without noise, such as imputation, scaling and PCA, and a private
    estimator. Only public facts are read.

    Try:
      missdp price pipeline.toml
    """
    from missdp.cli.pipeline_files import load_pipeline, plot_price
    from missdp.cli.rows import check_picture
    from missdp.pricing import price as price_of
    from missdp.synth import load
    from missdp.words import warn_if_weak

    check_picture(plot, pipeline)
    steps = load_pipeline(pipeline, open_model=load)
    result = price_of(steps, delta=price_delta)
    warn_if_weak(result.epsilon, result.delta, n=steps.rows)
    if plot is not None:
        plot_price(steps, plot)
    emit(result.to_dict(), str(result))
