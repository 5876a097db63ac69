"""Release of all pairs at once: crude margins first, then one sum of products of centred blocks.

Centring by what the margins tell is what makes all pairs affordable: a row that is like most others
has a short vector. Everything here is post-processing of what a door answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from missdp.inference.model import Levels, Zeros, level_kinds
from missdp.inference.pair_tables import PairTables
from missdp.mechanisms.door import Door, Noise, Products, RowProducts, Total
from missdp.synth.noisy_counts import least_squares_total, project_to_simplex

__all__ = ["Crude", "crude_margins", "pair_tables", "row_products"]

Floats = NDArray[np.float64]

_RARE = 0.5  # levels below so many standard deviations of noise are merged for modelling
_GRID = 2.0**-10
_MASK = 0.5  # factor of the number that says whether an attribute is missing
_LEAST_SHARE = 1e-7


@dataclass(frozen=True, eq=False)
class Crude:
    """Noisy one-way margins, and what is made of them.

    Parameters
    ----------
    levels : tuple of Levels
        Which levels are merged.
    margins : tuple of ndarray
        Share of the rows at each group of levels and, if the attribute may be missing, missing.
    total : Total
        Number of rows.
    std : float
        Noise of each count.
    """

    levels: tuple[Levels, ...]
    margins: tuple[Floats, ...]
    total: Total
    std: float

    @property
    def rows(self) -> float:
        """Number of rows, at least one."""
        return max(1.0, self.total.value)


def crude_margins(door: Door, noise: Noise, zeros: Zeros) -> Crude:
    """Release the one-way margins of all attributes.

    Parameters
    ----------
    door : Door
    noise : Noise
    zeros : mapping of Clique to ndarray of bool
        Impossible cells of pairs; only levels to which the same is possible are merged.
    """
    door.expect([(name,) for name in door.schema.names])
    counts = [door.marginal((name,), noise).astype(np.float64) for name in door.schema.names]
    told: list[Total] = []
    floors: list[Total] = []
    for name, count in zip(door.schema.names, counts, strict=True):
        total = Total(float(count.sum()), count.size * noise.variance)
        (told if door.tells_total((name,)) else floors).append(total)
    total = least_squares_total(told, floors)
    rows = max(1.0, total.value)
    levels, margins = [], []
    kinds = level_kinds(zeros, [attribute.size for attribute in door.schema])
    for attribute, count, kind in zip(door.schema, counts, kinds, strict=True):
        rare = _RARE * noise.scale
        level = Levels.from_counts(count[: attribute.size], threshold=rare, kinds=kind)
        merged = np.bincount(level.groups, weights=count[: attribute.size])
        if door.strategy.complete_only or not attribute.nullable:
            margins.append(project_to_simplex(merged / rows))
        else:
            missing = count[attribute.size :].sum() if len(count) > attribute.size else 0.0
            missing = missing if len(count) > attribute.size else rows - merged.sum()
            margins.append(project_to_simplex(np.append(merged, missing) / rows))
        levels.append(level)
    return Crude(tuple(levels), tuple(margins), total, noise.scale)


def row_products(names: tuple[str, ...], crude: Crude, *, clip: float, alone: float) -> RowProducts:
    """Return what is summed up over rows, given crude margins."""
    blocks = {}
    for name, level, margin in zip(names, crude.levels, crude.margins, strict=True):
        blocks[name] = _block(margin, level.n_groups)
    return RowProducts(blocks, clip=clip, alone=alone)


def _on_grid(values: Floats) -> Floats:
    return np.asarray(np.rint(values / _GRID) * _GRID)


def _block(margin: Floats, size: int) -> Floats:
    """Return the block of each code: centred indicators, and whether it is missing."""
    share = margin[:size].sum()
    centre = margin[:size] / share if share > 0 else np.full(size, 1 / size)
    if len(margin) == size:
        return np.eye(size) - _on_grid(centre)
    block = np.zeros((size + 1, size + 1))
    block[:size, :size] = np.eye(size) - _on_grid(centre)
    block[:, size] = -_on_grid(_MASK * margin[size:])
    block[size, size] += _MASK
    return block


def _back(block: Floats, size: int) -> Floats:
    """Return the matrix that takes sums of blocks back to deviations from the margin."""
    back = np.eye(len(block))
    back[:size, :size] -= 1 / size
    if len(block) > size:
        centre = (np.eye(size) - block[:size, :size])[0]
        scale = block[size, size] - block[0, size]
        back[:size, size] = -centre / scale
        back[size, size] = 1 / scale
    return back


def pair_tables(crude: Crude, products: Products | None) -> PairTables:
    """Return the tables of all pairs that were released, with the noise of every cell."""
    if products is None:  # of one attribute there is no pair
        sizes = tuple(level.n_groups for level in crude.levels)
        return PairTables(sizes, crude.margins, {}, {}, crude.rows)
    names, rows = list(products.blocks), crude.rows
    sizes = tuple(level.n_groups for level in crude.levels)
    blocks = [products.blocks[name] for name in names]
    back = [_back(block, size) for block, size in zip(blocks, sizes, strict=True)]
    margins = [
        _refined(m, crude.std / rows, products.single[v] / rows, products.single_std / rows, b, o)
        for v, m, b, o in zip(names, crude.margins, back, blocks, strict=True)
    ]
    means = [block.T @ margin for block, margin in zip(blocks, margins, strict=True)]
    spread = [np.square(b).sum(axis=1) for b in back]
    tables, variances = {}, {}
    for a, b in combinations(range(len(names)), 2):
        excess = products.pairs[names[a], names[b]] / rows - np.outer(means[a], means[b])
        tables[a, b] = back[a] @ excess @ back[b].T + np.outer(margins[a], margins[b])
        variances[a, b] = (products.std / rows) ** 2 * np.outer(spread[a], spread[b])
    return PairTables(sizes, tuple(margins), tables, variances, rows)


def _refined(
    crude: Floats, std: float, single: Floats, single_std: float, back: Floats, block: Floats
) -> Floats:
    """Put the crude margin and the sum of blocks together, by their inverse variances."""
    again = crude + back @ (single - block.T @ crude)
    ours, theirs = std**2, single_std**2 * np.square(back).sum(axis=1)
    raw = crude - (crude.sum() - 1) / len(crude)
    mixed = (raw / ours + again / theirs) / (1 / ours + 1 / theirs)
    refined = np.maximum(project_to_simplex(mixed), _LEAST_SHARE)
    return np.asarray(refined / refined.sum())
