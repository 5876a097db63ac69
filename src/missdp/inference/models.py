"""The released model of all pairs: released values and public facts."""

from __future__ import annotations

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.inference.completion import Completed
from missdp.inference.conditional_models import ConditionalModels
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Draws, Levels, cell_index, split_rows
from missdp.inference.raking import raked_rows, scaled_to, shrunk
from missdp.serialization import Record
from missdp.types import Clique, Floats, Ints


@dataclass(frozen=True, eq=False)
class PairModel(Record):
    """A distribution of complete rows in which all pairs hold, and of missing cells. All released.

    * ``levels``: Groups of the levels of each attribute.
    * ``row_model``: Draws rows, on groups of levels.
    * ``tables``: Tables to which drawn rows are raked.
    * ``masks``: Model of missing cells.
    * ``n_rows``: Number of counted rows.
    """

    levels: tuple[Levels, ...]
    row_model: ConditionalModels
    tables: dict[Clique, Floats]
    masks: MissingnessModel
    n_rows: float

    def complete(self, n: int, rng: np.random.Generator, *, draws: Draws = "even") -> Ints:
        """Draw ``n`` complete rows on groups of levels."""
        return raked_rows(self.row_model.sample, self.tables, n, rng, draws=draws)

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_missing: bool, draws: Draws = "even"
    ) -> list[Ints]:
        """Draw ``n`` rows as one array of codes per attribute, with ``size`` for missing cells."""
        rows = self.complete(n, rng, draws=draws)
        missing = self.masks.draw(rows, rng) if keep_missing else np.zeros(rows.shape, dtype=bool)
        return split_rows(self.levels, rows, missing, rng)


def targets(completed: Completed, rows: Ints) -> dict[Clique, Floats]:
    """Return the tables to which rows are raked: noisy tables, shrunk towards those of a model.

    Parameters
    ----------
    completed : Completed
        Estimates of tables of complete rows.
    rows : ndarray of int64, shape (n, d)
        Rows of the model.

    Returns
    -------
    dict of tuple of int to ndarray
        Shares of the rows.
    """
    sizes = [len(marginal) for marginal in completed.marginals]
    columns = np.ascontiguousarray(rows.T)
    noisy: dict[Clique, Floats] = {}
    base: dict[Clique, Floats] = {}
    for (a, b), moment in completed.pairs.items():
        shape, ends = (sizes[a], sizes[b]), (completed.marginals[a], completed.marginals[b])
        product = np.outer(*ends)
        cells = cell_index(columns, (a, b), shape, len(rows))
        shares = np.bincount(cells, minlength=product.size).reshape(shape) / max(1, len(rows))
        base[a, b] = scaled_to(shares, ends)
        noisy[a, b] = moment + product
    marginals = dict(enumerate(completed.marginals))
    return shrunk(noisy, base, completed.stds, marginals=marginals, rows=len(rows))
