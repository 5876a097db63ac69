"""Pipelines in TOML files, and the picture of a price, for the command ``missdp price``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from missdp.errors import ParameterError, UnprovenError, did_you_mean, replacing
from missdp.files import new_figure, picture_format, write_picture
from missdp.pricing import (
    ConstantImputer,
    Deduplicator,
    DPImputer,
    MeanImputer,
    MedianImputer,
    MinMaxScaler,
    NeighbourImputer,
    PCADimensionReducer,
    PCARankReducer,
    Price,
    PricedPipeline,
    PrivateCovariance,
    PrivateHistogram,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
    Quantizer,
    RegressionImputer,
    RowClipper,
    RowDomain,
    StandardScaler,
    TrimmedMeanImputer,
    price,
)
from missdp.schema.schema import load_toml

STEPS: dict[str, type] = {
    "clip": RowClipper,
    "impute-constant": ConstantImputer,
    "impute-mean": MeanImputer,
    "impute-median": MedianImputer,
    "impute-trimmed-mean": TrimmedMeanImputer,
    "impute-regression": RegressionImputer,
    "impute-knn": NeighbourImputer,
    "impute-model": DPImputer,
    "scale-standard": StandardScaler,
    "scale-min-max": MinMaxScaler,
    "pca-rank": PCARankReducer,
    "pca-dimension": PCADimensionReducer,
    "deduplicate": Deduplicator,
    "quantize": Quantizer,
}
"""Steps by the ``kind`` of a ``[[step]]``."""
MECHANISMS: dict[str, type] = {
    "mean": PrivateMean,
    "covariance": PrivateCovariance,
    "histogram": PrivateHistogram,
    "logistic-regression": PrivateLogisticRegression,
    "linear-regression": PrivateLinearRegression,
}
"""Private estimators by the ``kind`` of the ``[mechanism]``."""
_NOT_IN_FILES = {"radius", "delta", "budget", "random_state"}  # parameters set by the pipeline


def load_pipeline(
    path: str | Path, *, open_model: Callable[[Path], Any] | None = None
) -> PricedPipeline:
    """Read a pipeline from a TOML file.

    Parameters
    ----------
    path : str or Path
        The file. It has a table ``[table]`` (rows, columns, and optionally radius and complete) and
        a number ``delta``. It has any number of ``[[step]]`` (kind, optionally name, and
        parameters), and one ``[mechanism]`` (kind and parameters).
    open_model : callable, optional
        A function that loads the model of a step ``impute-model``, by its path relative to this
        file: :func:`missdp.load`.

    Returns
    -------
    PricedPipeline
        The pipeline, from public facts.

    Raises
    ------
    ParameterError
        If the file cannot be read, or names an unknown kind or parameter.

    Examples
    --------
    >>> from missdp.cli.pipeline_files import load_pipeline
    >>> import tempfile, pathlib
    >>> text = '''
    ... delta = 1e-6
    ... [table]
    ... rows = 1000
    ... columns = 4
    ... complete = false
    ... [[step]]
    ... kind = "impute-mean"
    ... max_incomplete = 30
    ... [[step]]
    ... kind = "pca-rank"
    ... n_components = 2
    ... min_gap = 0.2
    ... [mechanism]
    ... kind = "mean"
    ... noise_multiplier = 8.0
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pipeline.toml"
    ...     _ = path.write_text(text)
    ...     [name for name, step in load_pipeline(path).steps]
    ['impute-mean', 'pca-rank']
    """
    document = load_toml(Path(path), ParameterError)
    _check_names("the pipeline file", document, {"delta", "table", "step", "mechanism"})
    domain = _made("[table]", document.get("table"), RowDomain)
    listed = document.get("step", [])
    tables = isinstance(listed, list) and all(isinstance(facts, Mapping) for facts in listed)
    _require(tables, "steps must be [[step]] tables")
    chain: dict[str, Any] = {}
    for number, facts in enumerate(listed, start=1):
        name = str(facts.pop("name", facts.get("kind", number)))
        _require(name not in chain, "two steps have one name. Use different names in [[step]]")
        chain[name] = step = _made(f"[[step]] {number}", facts, STEPS)
        if isinstance(step, DPImputer):
            named = isinstance(step.model, str) and open_model is not None
            _require(named, "impute-model needs model, a path, and load_pipeline(open_model=)")
            step.model = open_model(Path(path).parent / step.model)  # type: ignore[misc]
            step.fit()
    mechanism = _made("[mechanism]", document.get("mechanism"), MECHANISMS)
    delta = document.get("delta", 0.0)
    # A parameter out of range is an error of the file. `price` reports a missing proof.
    wrong = ParameterError("delta, a step or the mechanism has a parameter of the wrong type")
    with contextlib.suppress(UnprovenError), replacing(TypeError, AttributeError, by=wrong):
        pipeline = PricedPipeline([*chain.items()], mechanism, delta=delta, **vars(domain))
        pipeline.bounds()
    return pipeline


def _require(truth: bool, message: str) -> None:
    """Raise ParameterError with ``message`` unless ``truth``."""
    if not truth:
        raise ParameterError(message)


def _made(where: str, facts: Any, kinds: type | Mapping[str, type]) -> Any:
    """Return the object of a table of the file. The field ``kind`` selects its class."""
    _require(isinstance(facts, Mapping), f"the pipeline file needs one {where} table")
    facts = dict(facts)
    if isinstance(kinds, Mapping):
        kind = facts.pop("kind", None)
        _require(kind in kinds, f"{where}: kind must be one of {', '.join(kinds)}, got {kind!r}")
        where, kinds = f"{where} ({kind})", kinds[kind]
    parameters = {field.name: field for field in fields(kinds)}
    hidden = _NOT_IN_FILES if kinds in MECHANISMS.values() else set()
    _check_names(where, facts, set(parameters) - hidden)
    lacking = [n for n, field in parameters.items() if field.default is MISSING and n not in facts]
    _require(not lacking, f"{where} needs {', '.join(lacking)}")
    with replacing(TypeError, ParameterError, by=lambda e: ParameterError(f"{where}: {e}")):
        return kinds(**facts)


def _check_names(where: str, facts: Mapping[str, Any], names: set[str]) -> None:
    """Raise an error if a table of the file has a key that is not among these names."""
    if unknown := sorted(set(facts) - names):
        raise ParameterError(
            f"{where} does not take {', '.join(unknown)}. It takes {', '.join(sorted(names))}"
            f"{did_you_mean(unknown[0], sorted(names))}"
        )


def plot_price(pipeline: PricedPipeline, path: str | Path) -> tuple[Price, ...]:
    """Write a picture of epsilon against the noise, like Figure 2 of Hu et al. (2024).

    Parameters
    ----------
    pipeline : PricedPipeline
        Only its public facts are read.
    path : str or Path
        The picture file. Its suffix determines the format (``.svg``, ``.png``, ``.pdf``).

    Returns
    -------
    tuple of Price
        The prices in the picture, for half to eight times the noise of the estimator.
    """
    picture_format(path)
    noise = (float(pipeline.estimator.noise_multiplier) * np.geomspace(0.5, 8.0, 15)).tolist()
    prices = tuple(price(pipeline.with_noise(m), suggest=False) for m in noise)
    figure = new_figure(figsize=(5.2, 3.6), layout="constrained")
    axes: Any = figure.subplots()
    axes.plot(noise, [p.naive_epsilon for p in prices], ":", label="naive claim")
    axes.plot(noise, [p.epsilon for p in prices], "-", label="whole pipeline")
    axes.plot(noise, [p.group_epsilon for p in prices], "--", label="group privacy")
    axes.set(xscale="log", yscale="log", xlabel="noise multiplier", ylabel="epsilon")
    axes.set_xticks(noise[::3], [f"{m:.3g}" for m in noise[::3]])
    axes.minorticks_off()
    axes.legend(frameon=False)
    write_picture(figure, path)
    return prices
