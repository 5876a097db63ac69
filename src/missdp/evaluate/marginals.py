"""Total variation distance of all k-way marginals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.evaluate.inputs import align, rebin, whole
from missdp.evaluate.progress import Progress
from missdp.schema import Schema
from missdp.sources import MemorySource, Rows

__all__ = ["MarginalDistance", "marginal_distance"]

MissingAs: TypeAlias = Literal["unobserved", "level"]
_BATCH_CELLS = 10_000_000


@dataclass(frozen=True)
class MarginalDistance:
    """Distances of the k-way marginals of two tables. Private: made from the truth without noise.

    Parameters
    ----------
    k : int
        Number of attributes per marginal.
    per_marginal : dict of tuple of str to float
        Total variation distance in [0, 1] for every k-subset of the attributes.

    Examples
    --------
    >>> found = MarginalDistance(1, {("a",): 0.1, ("b",): 0.3})
    >>> found.mean, found.max
    (0.2, 0.3)
    >>> print(found)
    1-way marginals, total variation distance: mean 0.2000, max 0.3000 (2 marginals)
      b  0.3000
      a  0.1000
    """

    k: int
    per_marginal: dict[tuple[str, ...], float]

    @property
    def mean(self) -> float:
        """Mean over all marginals."""
        return float(np.mean(list(self.per_marginal.values())))

    @property
    def max(self) -> float:
        """Largest distance of any marginal."""
        return max(self.per_marginal.values())

    def worst(self, count: int = 5) -> dict[tuple[str, ...], float]:
        """Return the marginals that are furthest off, worst first."""
        ranked = sorted(self.per_marginal.items(), key=lambda item: -item[1])
        return dict(ranked[:count])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        rows = [{"clique": list(c), "distance": d} for c, d in self.per_marginal.items()]
        return {"k": self.k, "mean": self.mean, "max": self.max, "marginals": rows}

    def __str__(self) -> str:
        lines = [
            f"{self.k}-way marginals, total variation distance: mean {self.mean:.4f}, "
            f"max {self.max:.4f} ({len(self.per_marginal)} marginals)"
        ]
        worst = {" × ".join(clique): d for clique, d in self.worst().items()}
        width = max(map(len, worst))
        lines += [f"  {name:<{width}}  {distance:.4f}" for name, distance in worst.items()]
        return "\n".join(lines)


def marginal_distance(
    truth: Any,
    synthetic: Any,
    *,
    k: int = 2,
    schema: Schema | None = None,
    bins: int | None = None,
    missing: MissingAs = "unobserved",
    progress: Progress | None = None,
) -> MarginalDistance:
    """Compare all k-way marginals of two tables: ½·Σ|p − q| for every k-subset of attributes.

    Curator only: the result is exact, not private. Do not publish it without a mechanism.

    Parameters
    ----------
    truth, synthetic : Table, or any table or file that Table.read takes
        Frames need ``schema``, or a Table on the other side.
    k : int, default 2
        Attributes per marginal, from 1 to the number of attributes.
    schema : Schema, optional
        The declared domain.
    bins : int, optional
        Cut numeric attributes into this many bins of equal width, finer than the declared ones
        (attributes that have more keep their own). Both tables must then hold values, not only
        bins. By default the declared bins are compared.
    missing : {"unobserved", "level"}, default "unobserved"
        Whether a marginal counts the rows observed on all of its attributes, each table relative to
        its own total, or all rows with missing as one more level.
    progress : callable, optional
        Called with the number of marginals done and in total.

    Returns
    -------
    MarginalDistance
        A table that has no row to count is at distance 1 from one that has.

    Raises
    ------
    ParameterError
        If ``k``, ``bins`` or ``missing`` is out of range, or a marginal has too many cells.

    Notes
    -----
    Distances on different bins do not compare: decoding to bin centres alone costs 0.2 on 16
    finer bins of Adult (spec synthesis.md, "Evaluation").

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.evaluate import marginal_distance
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> one, two = pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["x", "x"]})
    >>> marginal_distance(one, two, k=1, schema=schema).mean
    0.5
    """
    real, made = align(truth, synthetic, schema)
    if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= len(real.schema):
        raise ParameterError(f"k must be from 1 to {len(real.schema)}, not {k!r}")
    if missing not in ("unobserved", "level"):
        raise ParameterError(f"missing must be 'unobserved' or 'level', not {missing!r}")
    if bins is not None:
        whole("bins", bins, least=1)
        real, made = rebin(real, bins), rebin(made, bins)
    rows: Rows = "observed" if missing == "unobserved" else "extended"
    sources = MemorySource(real), MemorySource(made)
    distances: dict[tuple[str, ...], float] = {}
    total = math.comb(len(real.schema), k)
    for batch in _batches(real.schema, k):
        one, two = (source.counts(batch, rows=rows) for source in sources)
        distances |= {clique: total_variation(one[clique], two[clique]) for clique in batch}
        if progress is not None:
            progress(len(distances), total)
    return MarginalDistance(k, distances)


def total_variation(one: NDArray[np.int64], two: NDArray[np.int64]) -> float:
    """Distance of two tables of counts, each relative to its own total."""
    n_one, n_two = int(one.sum()), int(two.sum())
    if n_one == 0 or n_two == 0:
        return float(n_one != n_two)
    return float(min(1.0, 0.5 * np.abs(one / n_one - two / n_two).sum()))


def _batches(schema: Schema, k: int) -> Iterator[list[tuple[str, ...]]]:
    """All k-subsets, a bounded number of cells at a time."""
    batch: list[tuple[str, ...]] = []
    cells = 0
    for clique in itertools.combinations(schema.names, k):
        size = math.prod(schema.extended_shape(clique))
        if batch and cells + size > _BATCH_CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    yield batch
