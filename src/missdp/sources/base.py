"""The protocol every source obeys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Schema

__all__ = ["Clique", "Counts", "MarginalSource", "Rows"]

Clique: TypeAlias = tuple[str, ...]
Counts: TypeAlias = dict[Clique, NDArray[np.int64]]
Rows: TypeAlias = Literal["observed", "extended"]


@runtime_checkable
class MarginalSource(Protocol):
    """Exact counts of a private table; what comes out is private and must not be released.

    An implementation needs a schema and one method. The conformance suite in ``tests/sources``
    runs over every implementation.

    Notes
    -----
    Adding or removing one row changes each clique's counts by at most 1 in one cell (L1 and L2
    sensitivity 1), missing cells or not.
    """

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        ...

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count the rows in every cell of every clique, in one pass over the data.

        Parameters
        ----------
        cliques : iterable of tuple of str
            Attribute names; order matters for the axes. The empty clique counts all rows.
        rows : {"observed", "extended"}
            ``"observed"``: only rows observed on all attributes of the clique; shape
            ``schema.shape(clique)``. ``"extended"``: every row, missing is the last level of each
            nullable attribute; shape ``schema.extended_shape(clique)``.

        Returns
        -------
        dict of tuple of str to array of int64
            One array per distinct clique.

        Raises
        ------
        ParameterError
            If a clique repeats an attribute or has too many cells to hold in memory.
        SchemaError
            If a clique names an attribute that the schema does not declare.
        DataError
            If the data does not fit the schema or cannot be read. Quotes no value and no count.
        """
        ...
