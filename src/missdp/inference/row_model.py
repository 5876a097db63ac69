"""What every model of rows is: a released record that draws rows, holes included."""

from __future__ import annotations

import abc

import numpy as np
from numpy.typing import NDArray

from missdp.record import Record

__all__ = ["RowModel"]


class RowModel(Record, abc.ABC, abstract=True):
    """A law of rows and of their holes; released values."""

    n_rows: float

    @abc.abstractmethod
    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
