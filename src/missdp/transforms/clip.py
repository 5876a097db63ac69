"""Row-norm clipping: the one step that costs nothing, and makes the domain true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.mechanisms.parameters import number
from missdp.mechanisms.row_domain import RowDomain, clip_rows
from missdp.mechanisms.table_distance import TableDistance
from missdp.transforms.base import PrivateState, StableTransformer

__all__ = ["RowClipper"]

FloatArray = NDArray[np.float64]


class RowClipper(StableTransformer):
    """Scale every row down to a declared norm.

    Parameters
    ----------
    radius : float, default 1.0
        Largest Euclidean norm of a row's observed part; public, not read from the data.

    Notes
    -----
    Stability: distances do not grow, since the projection on a ball is 1-Lipschitz and each row
    is mapped on its own. No condition.

    Examples
    --------
    >>> RowClipper(radius=1.0).fit_transform([[3.0, 4.0], [0.0, 0.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    _needs_complete = False

    def __init__(self, *, radius: float = 1.0) -> None:
        self.radius = radius

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the distance unchanged, capped at the new diameter."""
        return distance.after(
            rows=domain.rows,
            lipschitz=1.0,
            shift=0.0,
            hit=0,
            diameter=self.output_domain(domain).diameter,
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain with the smaller radius."""
        return replace(domain, radius=min(domain.radius, self._radius()))

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return no condition."""
        return ()

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:  # noqa: ARG002
        return {}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:  # noqa: ARG002
        return clip_rows(table, self._radius())

    def _radius(self) -> float:
        return number("radius", self.radius, least=1e-100)
