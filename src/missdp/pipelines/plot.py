"""A picture of the price: naive claim, true guarantee and group privacy over the noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from missdp.errors import MissingDependencyError, replacing
from missdp.pipelines.pipeline import PricedPipeline
from missdp.pipelines.price import Price, price

__all__ = ["plot_price"]


def plot_price(
    pipeline: PricedPipeline,
    path: str | Path,
    *,
    multipliers: Sequence[float] | None = None,
) -> tuple[Price, ...]:
    """Write a picture of epsilon against the noise, like Figure 2 of Hu et al. (2024).

    Parameters
    ----------
    pipeline : PricedPipeline
        Public facts only are read.
    path : str or Path
        Where to write; the suffix decides the format (``.svg``, ``.png``, ``.pdf``).
    multipliers : sequence of float or None
        Noise multipliers of the estimator. None: from half to eight times the pipeline's own.

    Returns
    -------
    tuple of Price
        What was drawn, one for each multiplier.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    absent = MissingDependencyError("plotting the price needs matplotlib: pip install matplotlib")
    with replacing(ImportError, by=absent):
        from matplotlib.figure import Figure
    own = float(pipeline.estimator.noise_multiplier)
    noise = [
        float(m) for m in (own * np.geomspace(0.5, 8.0, 15) if multipliers is None else multipliers)
    ]
    prices = tuple(price(_with_noise(pipeline, m)) for m in noise)
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes: Any = figure.subplots()
    lines = {
        "naive claim": [p.naive_epsilon for p in prices],
        "whole pipeline": [p.epsilon for p in prices],
        "group privacy": [p.group_epsilon for p in prices],
    }
    for (name, values), style in zip(lines.items(), (":", "-", "--"), strict=True):
        axes.plot(noise, values, style, label=name)
    axes.set(xscale="log", yscale="log", xlabel="noise multiplier", ylabel="epsilon")
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
    return prices


def _with_noise(pipeline: PricedPipeline, multiplier: float) -> PricedPipeline:
    fresh: PricedPipeline = clone(pipeline)
    fresh.estimator.noise_multiplier = multiplier
    return fresh
