"""The released model of all pairs: released values and public facts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.inference.completion import Completed
from missdp.inference.conditional_models import ConditionalModels
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Draws, Levels, cell_index, split_rows
from missdp.inference.raking import raked_rows, scaled_to, scaled_to_smaller, shrunk
from missdp.serialization import Record
from missdp.types import Clique, Floats, Ints


@dataclass(frozen=True, eq=False)
class PairModel(Record):
    """Released model of rows and missing cells, as AllPairs, AIM, MST and Kamino fit it.

    It describes complete rows by conditional distributions in which all pairs of attributes hold,
    and missing cells by a distribution given the row. It is a function of released values, so
    drawing rows has no privacy cost. ``model_`` of a fitted synthesizer returns it.

    Parameters
    ----------
    levels : tuple of Levels
        Groups of merged rare levels, one entry for each modelled attribute in schema order.
    row_model : ConditionalModels
        The conditional distributions that rows are drawn from, on groups of levels.
    tables : dict of tuple of int to ndarray
        Shares of the rows by positions of attributes. Drawn rows are adjusted to these tables
        (raking).
    masks : MissingnessModel
        The distribution of missing cells, given a complete row.
    n_rows : float
        Released number of counted rows.
    """

    levels: tuple[Levels, ...]
    row_model: ConditionalModels
    tables: dict[Clique, Floats]
    masks: MissingnessModel
    n_rows: float

    def complete(self, n: int, rng: np.random.Generator, *, draws: Draws = "even") -> Ints:
        """Draw complete synthetic rows from the released model, as groups of levels.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Draws the rows.
        draws : {"even", "independent"}, default "even"
            With ``"even"``, counts of drawn rows vary less than counts of independent rows.

        Returns
        -------
        ndarray of int64, shape (n, d)
            Group of levels of each row and attribute, with attributes in schema order. Released.
        """
        return raked_rows(self.row_model.sample, self.tables, n, rng, draws=draws)

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_missing: bool, draws: Draws = "even"
    ) -> list[Ints]:
        """Draw synthetic rows, with or without missing cells, from the released model.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Draws the rows.
        keep_missing : bool
            Whether cells may be missing. If False, rows are complete.
        draws : {"even", "independent"}, default "even"
            With ``"even"``, counts of drawn rows vary less than counts of independent rows.

        Returns
        -------
        list of ndarray of int64, shape (n,)
            Codes of the rows, one array for each attribute in schema order. The code of a missing
            cell is the number of levels. Released.
        """
        rows = self.complete(n, rng, draws=draws)
        missing = self.masks.draw(rows, rng) if keep_missing else np.zeros(rows.shape, dtype=bool)
        return split_rows(self.levels, rows, missing, rng)


def targets(
    completed: Completed, rows: Ints, *, larger: Mapping[Clique, Floats] | None = None
) -> dict[Clique, Floats]:
    """Return the tables to which rows are raked: noisy tables, shrunk towards those of a model.

    Parameters
    ----------
    completed : Completed
        Estimates of tables of complete rows.
    rows : ndarray of int64, shape (n, d)
        Rows of the model.
    larger : mapping of tuple of int to ndarray, optional
        Tables of three or more attributes. They are scaled to the tables of their pairs.

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
    pairs = shrunk(noisy, base, completed.stds, marginals=marginals, rows=len(rows))
    return pairs | scaled_to_smaller(larger or {}, pairs)
