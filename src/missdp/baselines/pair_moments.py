"""What a critic of pairs knows of the private rows: the mean of a row's clipped pair features.

The features of a row are the blocks of `missdp.synth.learn_pairs`, centred indicators of what is
observed and of what is missing, and all products of two attributes' blocks. A critic that is linear
in them is a kernel: its best weights are the mean over private rows less that over generated rows,
and what it can tell at most is the length of this difference (Gretton et al. 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from missdp.inference.clipping import clipped_away
from missdp.inference.model import Codes
from missdp.synth.learn_pairs import Crude, PairRelease

__all__ = ["PairMoments", "moments_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Released means of clipped features, with the noise of each number.

    Parameters
    ----------
    crude : Crude
        Released margins, with their own noise.
    blocks : tuple of ndarray, shape (codes, width)
        What each code of each attribute stands for.
    single : ndarray, shape (D,)
        Mean of the blocks of all attributes, one after the other; D is the sum of their widths.
    products : ndarray, shape (D, D)
        Mean of their products; 0 for two numbers of one attribute, which have no product.
    single_std, product_std : float
        Noise of each number.
    clip, alone : float
        Norm to which a row's vector was clipped, and the factor of blocks in it.
    """

    crude: Crude
    blocks: tuple[Floats, ...]
    single: Floats
    products: Floats
    single_std: float
    product_std: float
    clip: float
    alone: float

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where the blocks of the attributes begin and end."""
        return np.cumsum([0, *(block.shape[1] for block in self.blocks)])

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which numbers of ``products`` are: those of two attributes, shape (D, D)."""
        whose = np.repeat(np.arange(len(self.blocks)), np.diff(self.ends))
        return np.asarray(whose[:, np.newaxis] != whose)

    @property
    def margin_std(self) -> float:
        """Noise of each share of the crude margins."""
        return self.crude.std / self.crude.rows

    def corrected(self, rows: Codes) -> tuple[Floats, Floats]:
        """Return the means with what clipping takes from a model's rows put back."""
        lost, both = clipped_away(rows, self.blocks, clip=self.clip, alone=self.alone)
        return self.single + np.concatenate(lost), self.products + self._laid_out(both)

    def _laid_out(self, pairs: dict[tuple[int, int], Floats]) -> Floats:
        return _laid_out(pairs, self.ends)


def _laid_out(pairs: dict[tuple[int, int], Floats], ends: NDArray[np.int64]) -> Floats:
    """Return the tables of pairs as one symmetric table."""
    whole = np.zeros((int(ends[-1]), int(ends[-1])))
    for (a, b), table in pairs.items():
        whole[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = table
        whole[ends[b] : ends[b + 1], ends[a] : ends[a + 1]] = table.T
    return whole


def moments_of(release: PairRelease) -> PairMoments:
    """Return the means that one release of all pairs tells: a critic in closed form."""
    assert release.products is not None  # there are two attributes or more
    assert release.plan is not None
    found, rows = release.products, release.crude.rows
    tables = list(found.pairs.values())
    blocks = tuple(release.blocks)
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    places = combinations(range(len(blocks)), 2)
    pairs = {place: table / rows for place, table in zip(places, tables, strict=True)}
    return PairMoments(
        release.crude,
        blocks,
        _joined(list(found.single.values())) / rows,
        _laid_out(pairs, ends),
        found.single_std / rows,
        found.std / rows,
        release.plan.clip,
        release.plan.alone,
    )


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
