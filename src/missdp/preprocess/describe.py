"""A pipeline described in a TOML file: public facts only."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.preprocess.clusters import Deduplicator, Quantizer
from missdp.preprocess.estimators import PrivateCovariance, PrivateHistogram, PrivateMean
from missdp.preprocess.impute import ConstantImputer, MeanImputer, MedianImputer, TrimmedMeanImputer
from missdp.preprocess.impute_rows import NeighbourImputer, RegressionImputer
from missdp.preprocess.linear import PrivateLinearRegression, PrivateLogisticRegression
from missdp.preprocess.pipeline import PricedPipeline
from missdp.preprocess.scale import (
    MinMaxScaler,
    PCADimensionReducer,
    PCARankReducer,
    StandardScaler,
)
from missdp.preprocess.steps import RowClipper, StableTransformer

__all__ = ["load_pipeline"]


_STEPS: dict[str, type[StableTransformer]] = {
    "clip": RowClipper,
    "impute-constant": ConstantImputer,
    "impute-mean": MeanImputer,
    "impute-median": MedianImputer,
    "impute-trimmed-mean": TrimmedMeanImputer,
    "impute-regression": RegressionImputer,
    "impute-knn": NeighbourImputer,
    "scale-standard": StandardScaler,
    "scale-min-max": MinMaxScaler,
    "pca-rank": PCARankReducer,
    "pca-dimension": PCADimensionReducer,
    "deduplicate": Deduplicator,
    "quantize": Quantizer,
}
_MECHANISMS: dict[str, Any] = {
    "mean": PrivateMean,
    "covariance": PrivateCovariance,
    "histogram": PrivateHistogram,
    "logistic-regression": PrivateLogisticRegression,
    "linear-regression": PrivateLinearRegression,
}
_NOT_IN_FILES = {"radius", "delta", "budget", "random_state"}


def load_pipeline(path: str | Path) -> PricedPipeline:
    """Read a pipeline from a TOML file.

    Parameters
    ----------
    path : str or Path
        With a table ``[table]`` (rows, columns, and optionally radius and complete), a number
        ``delta``, any number of ``[[step]]`` (kind, optionally name, and the step's parameters),
        and one ``[mechanism]`` (kind and parameters).

    Returns
    -------
    PricedPipeline

    Raises
    ------
    ParameterError
        If the file cannot be read, or names an unknown kind or parameter.

    Examples
    --------
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
    ... least_gap = 0.2
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
    document = _read(Path(path))
    _known("the pipeline file", document, {"delta", "table", "step", "mechanism"})
    table = _section(document, "table")
    _known("[table]", table, {"rows", "columns", "radius", "complete"})
    listed = document.get("step", [])
    if not isinstance(listed, list) or not all(isinstance(step, Mapping) for step in listed):
        raise ParameterError("steps are written as [[step]] tables")
    steps = []
    for number, entry in enumerate(listed, start=1):
        facts = dict(entry)
        name = str(facts.pop("name", facts.get("kind", number)))
        steps.append((name, _make(f"[[step]] {number}", facts, _STEPS, frozenset())))
    if len({name for name, _ in steps}) < len(steps):
        raise ParameterError("two steps share a name: give each [[step]] its own `name`")
    mechanism = _make(
        "[mechanism]", dict(_section(document, "mechanism")), _MECHANISMS, _NOT_IN_FILES
    )
    if not {"rows", "columns"} <= set(table):
        raise ParameterError("[table] needs rows and columns")
    with replacing(
        TypeError,
        ValueError,
        by=lambda error: ParameterError(f"[table] or delta cannot be read: {error}"),
    ):
        pipeline = PricedPipeline(
            steps, mechanism, delta=float(document.get("delta", 0.0)), **dict(table)
        )
        _ = pipeline.domain
    # Parameters out of range are refused here, where the file is known to be the cause; that no
    # bound is proven is the pipeline's own matter, which `price` states.
    wrong = ParameterError("a step or the mechanism has a parameter of the wrong type")
    with contextlib.suppress(UnprovenError), replacing(TypeError, AttributeError, by=wrong):
        pipeline.bounds()
    return pipeline


def _read(path: Path) -> dict[str, Any]:
    with replacing(
        OSError,
        by=lambda error: ParameterError(
            f"cannot read {str(path)!r}: {getattr(error, 'strerror', '')}"
        ),
    ):
        content = path.read_bytes()
    with replacing(
        tomllib.TOMLDecodeError,
        UnicodeDecodeError,
        by=lambda error: ParameterError(f"{str(path)!r} is not a TOML file: {error}"),
    ):
        return tomllib.loads(content.decode("utf-8"))


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name)
    if not isinstance(section, Mapping):
        raise ParameterError(f"the pipeline file needs one [{name}] table")
    return section


def _make(
    where: str, facts: dict[str, Any], kinds: Mapping[str, Any], hidden: set[str] | frozenset[str]
) -> Any:
    kind = facts.pop("kind", None)
    if kind not in kinds:
        raise ParameterError(f"{where}: kind must be one of {', '.join(kinds)}, got {kind!r}")
    found = kinds[kind]
    _known(f"{where} ({kind})", facts, set(found._get_param_names()) - hidden)
    with replacing(TypeError, by=lambda error: ParameterError(f"{where} ({kind}): {error}")):
        return found(**facts)


def _known(where: str, facts: Mapping[str, Any], names: set[str]) -> None:
    unknown = sorted(set(facts) - names)
    if unknown:
        raise ParameterError(
            f"{where} does not take {', '.join(unknown)}; it takes {', '.join(sorted(names))}"
        )
