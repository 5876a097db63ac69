"""What every model of rows is: a released record that draws rows, holes included."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from graphlib import TopologicalSorter
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from missdp.inference.masks import MaskModel
from missdp.inference.model import Levels, finite, shaped
from missdp.record import Record

__all__ = ["RowModel", "masks_fit"]


class RowModel(Record, abc.ABC, abstract=True):
    """A law of rows and of their holes; released values."""

    levels: tuple[Levels, ...]
    n_rows: float

    @abc.abstractmethod
    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""


def masks_fit(masks: MaskModel, sizes: Sequence[int]) -> bool:
    """Whether masks are of attributes with so many levels; an error if they need themselves."""
    d, told = len(sizes), masks.told
    needs = {a: {b for c, b in masks.unseen if c == a} for a in range(d)}
    TopologicalSorter({a: {*needs[a], *masks._tellers(a)} for a in needs}).prepare()
    named = {*masks.always, *told, *chain(*told.values(), *masks.unseen, *masks.slopes)}
    shapes = masks.rates.shape, masks.intercepts.shape, masks.correlation.shape
    numbers = masks.rates, masks.intercepts, masks.correlation, *masks.slopes.values()
    return (
        shapes == ((d,), (d,), (d, d))
        and named <= {*range(d)}
        and all(shaped({effect[1:]: table}, sizes) for effect, table in masks.slopes.items())
        and finite(numbers)
        and all(map(math.isfinite, masks.unseen.values()))
        and bool(np.linalg.eigvalsh(masks.correlation)[0] > 0)
    )
