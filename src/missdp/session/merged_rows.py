"""Rows with merged levels, for trainings. Counts are merged in `exact_counts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from missdp.session.row_kernel import Block, Range, RowFunction, row_function
from missdp.types import Floats, Ints


@row_function
@dataclass(frozen=True, eq=False)
class MergedRow(RowFunction):
    """Row function that merges levels into groups. Codes after the levels are not merged.

    Attributes
    ----------
    groups : mapping of str to ndarray of int64
        For each attribute the group of each level, ``0..k - 1``.
    """

    groups: Mapping[str, Ints]

    @property
    def columns(self) -> Mapping[Any, Range]:
        """The groups of all attributes, and one more code for missing."""
        return {
            n: Range(np.dtype(np.int64), 0, group.max() + 1) for n, group in self.groups.items()
        }

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return the group of each code."""
        del uniforms
        return {n: np.append(group, group.max() + 1)[rows[n]] for n, group in self.groups.items()}
