"""The released model: a Bayesian network with sampling and filling of holes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.door import Clique
from missdp.synth.privbayes.structure import Family
from missdp.checksum import array_from_json, array_to_json

__all__ = ["Codes", "Network", "stratified_uniforms"]

Codes: TypeAlias = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Network:
    """Released families with their conditional tables, in ancestral order.

    Parameters
    ----------
    families : tuple of Family
        Parents come before children.
    conditionals : mapping of str to array
        For each child the law of the child given its parents, shape ``(parents..., child)``; the
        last axis sums to one.
    """

    families: tuple[Family, ...]
    conditionals: Mapping[str, NDArray[np.float64]]

    @classmethod
    def from_joints(
        cls, families: tuple[Family, ...], joints: Mapping[Clique, NDArray[np.float64]]
    ) -> Network:
        """Condition each family's non-negative joint table on the parents.

        Parent cells with no mass take the child's margin.
        """
        conditionals = {f.child: condition(joints[f.clique]) for f in families}
        return cls(families, conditionals)

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        """Draw ``n`` rows of codes, ancestrally, stratified within each parent cell."""
        codes: Codes = {}
        for family in self.families:
            table = self.conditionals[family.child]
            cell = cell_index(codes, family.parents, table.shape[:-1], n)
            draws = stratified_uniforms(cell, rng)
            codes[family.child] = invert(table.reshape(-1, table.shape[-1]), cell, draws)
        return codes

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values."""
        return [
            {
                "child": f.child,
                "parents": list(f.parents),
                "conditional": array_to_json(self.conditionals[f.child]),
            }
            for f in self.families
        ]

    @classmethod
    def from_json(cls, rows: list[dict[str, Any]]) -> Network:
        """Inverse of :meth:`to_json`."""
        families = tuple(Family(row["child"], tuple(row["parents"])) for row in rows)
        return cls(families, {row["child"]: array_from_json(row["conditional"]) for row in rows})


def condition(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Law of the last axis given the others; empty cells take the margin, then uniform."""
    flat = joint.reshape(-1, joint.shape[-1])
    margin = flat.sum(axis=0)
    total = margin.sum()
    margin = margin / total if total > 0 else np.full(len(margin), 1.0 / len(margin))
    mass = flat.sum(axis=1, keepdims=True)
    law = np.where(mass > 0, flat / np.where(mass > 0, mass, 1.0), margin)
    return law.reshape(joint.shape)


def cell_index(codes: Codes, names: Clique, shape: tuple[int, ...], n: int) -> NDArray[np.int64]:
    """Flat index of each row's cell in a table over ``names``."""
    index = np.zeros(n, dtype=np.int64)
    for name, size in zip(names, shape, strict=True):
        index = index * size + codes[name]
    return index


def stratified_uniforms(cell: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Uniform draws that are evenly spread within each cell.

    Each draw is uniform on [0, 1), but the g draws of a cell fall one into each interval of length
    1/g, in random order. Counts of the sampled child then stay within about one of their
    expectation, so that a synthetic table of n rows adds almost no sampling error to the family's
    marginal.
    """
    n = len(cell)
    order = np.lexsort((rng.random(n), cell))
    ordered = cell[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if n else np.empty(0, int)
    sizes = np.diff(np.r_[starts, n])
    position = np.arange(n) - np.repeat(starts, sizes)
    draws = np.empty(n)
    draws[order] = (position + rng.random(n)) / np.repeat(sizes, sizes)
    return draws


def invert(
    laws: NDArray[np.float64], row: NDArray[np.int64], draws: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Inverse-CDF sampling: ``laws[row[i]]`` at ``draws[i]``, all rows at once."""
    cumulative = np.cumsum(laws, axis=1)
    cumulative /= cumulative[:, -1:]
    size = laws.shape[1]
    codes = np.zeros(len(row), dtype=np.int64)
    for level in range(size - 1):
        codes += draws >= cumulative[row, level]
    return codes
