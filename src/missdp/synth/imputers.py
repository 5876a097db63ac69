"""Imputation first: private imputers that fill each row on its own, before synthesis."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.door import Door, Noise
from missdp.schema import AnyAttribute, Numeric
from missdp.synth.projection import project_to_simplex

__all__ = ["Imputer", "impute"]

Imputer: TypeAlias = Literal["random", "marginal", "mean"]


def impute(door: Door, imputer: Imputer = "marginal", *, epsilon: float) -> Door:
    """Return a door to filled rows if the strategy fills holes; the door itself if not.

    Given what was released, each row is filled on its own, so adding or removing one row still
    changes the filled table by one row: later mechanisms keep their sensitivity.

    Parameters
    ----------
    door : Door
    imputer : {"random", "marginal", "mean"}
        ``"random"`` draws from the public domain and costs nothing. ``"marginal"`` draws from the
        released one-way margin of the observed cells. ``"mean"`` is the baseline of Mohapatra et
        al. (2024): the released mean for numeric attributes, a draw from the margin for others.
    epsilon : float
        Pure-DP budget of the margins, split evenly over the nullable attributes; ignored by
        ``"random"``.
    """
    if not door.strategy.fills:
        return door
    nullable = [attribute for attribute in door.schema if attribute.nullable]
    if imputer == "random":
        return door.filled({a.name: np.ones(a.size) for a in nullable})
    door.expect((a.name,) for a in nullable)
    return door.filled({a.name: _law(door, a, imputer, epsilon / len(nullable)) for a in nullable})


def _law(
    door: Door, attribute: AnyAttribute, imputer: Imputer, epsilon: float
) -> NDArray[np.float64]:
    """Return how to draw the holes of an attribute, from its released margin."""
    released = door.marginal((attribute.name,), Noise("laplace", 1 / epsilon))
    law = project_to_simplex(released / max(1.0, float(released.sum())))
    if imputer == "mean" and isinstance(attribute, Numeric):
        edges = attribute.bin_edges
        mean = float(law / law.sum() @ (edges[:-1] + edges[1:])) / 2
        level = int(attribute.encode_values(np.array([mean]))[0])
        return np.asarray(np.arange(attribute.size) == level, dtype=np.float64)
    return law
