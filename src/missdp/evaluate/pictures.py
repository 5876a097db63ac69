"""Pictures of a synthetic table beside the real one; needs the extra ``plot``."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.evaluate.align import aligned, schema_of
from missdp.evaluate.fidelity import sampled, values_of
from missdp.files import picture_format, write_atomically
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.table import Table

__all__ = ["picture_format", "plot_columns"]

_MOST_LEVELS = 12  # the most frequent ones of the truth
_POINTS = 501  # of a distribution function
_WIDE = 4  # columns in a row of the picture
_COLOURS = {"real": "#7a8793", "synthetic": "#1f77b4"}


def plot_columns(
    truth: Any,
    synthetic: Any,
    path: str | Path,
    *,
    schema: Schema | None = None,
    max_rows: int = 200_000,
) -> None:
    """Draw every column of two tables: distribution functions of numbers, shares of levels.

    Curator only: the picture is exact, not private. Do not publish it.

    Parameters
    ----------
    truth, synthetic : Table, or any table or file that Table.read takes
        As for :func:`fidelity`.
    path : str or Path
        Where to write; the suffix decides the format (``.svg``, ``.png``, ``.pdf``).
    schema : Schema, optional
        The declared domain.
    max_rows : int, default 200000
        Of a longer table, a random sample of so many rows is drawn.

    Raises
    ------
    ParameterError
        If the suffix is another one.
    MissingDependencyError
        If matplotlib is not installed.
    """
    kind = picture_format(path)
    from matplotlib.figure import Figure

    declared = schema_of(truth, synthetic, schema=schema)
    real, made = (sampled(aligned(d, declared)(), max_rows) for d in (truth, synthetic))
    wide, high = min(_WIDE, len(declared)), math.ceil(len(declared) / _WIDE)
    figure = Figure(figsize=(3.2 * wide, 2.4 * high + 0.5), layout="constrained")
    panels = np.ravel(figure.subplots(high, wide, squeeze=False))
    for panel in panels[len(declared) :]:
        panel.set_axis_off()
    for attribute, panel in zip(declared, panels, strict=False):
        panel.set_xlabel(_plain(attribute.name), fontsize=9)
        panel.tick_params(labelsize=7)
        _draw(panel, attribute, {"real": real, "synthetic": made})
    panels[0].legend(fontsize=7, frameon=False)
    figure.suptitle("CURATOR ONLY: drawn from the private rows, without noise", fontsize=9)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(Path(path), drawn.getvalue())


def _draw(panel: Any, attribute: AnyAttribute, tables: dict[str, Table]) -> None:
    if isinstance(attribute, Numeric):
        heights = np.linspace(0, 1, _POINTS)
        for which, table in tables.items():
            values = values_of(table)[attribute.name]
            if len(known := values[~np.isnan(values)]):
                places = np.quantile(known, heights)
                panel.plot(places, heights, color=_COLOURS[which], label=which, linewidth=1)
        panel.set_ylabel("share of values up to this", fontsize=7)
        return
    shares = {
        which: _shares(table.codes(attribute.name), attribute.size)
        for which, table in tables.items()
    }
    shown = np.argsort(-shares["real"], kind="stable")[:_MOST_LEVELS]
    for place, (which, share) in enumerate(shares.items()):
        at = np.arange(len(shown)) + 0.4 * place
        panel.bar(at, share[shown], 0.4, color=_COLOURS[which], label=which)
    panel.set_ylabel("share of values", fontsize=7)
    levels = [_plain(str(attribute.levels[k])[:14]) for k in shown]
    panel.set_xticks(np.arange(len(shown)) + 0.2, levels, rotation=60, ha="right")


def _shares(codes: NDArray[np.unsignedinteger], size: int) -> NDArray[np.float64]:
    counts = np.bincount(codes[codes < size], minlength=size)
    return np.asarray(counts / max(counts.sum(), 1))


def _plain(text: str) -> str:
    """Return text in which nothing is read as a formula."""
    return text.replace("$", r"\$")
