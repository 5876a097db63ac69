"""Source for tables in memory."""

from __future__ import annotations

from missdp.errors import ParameterError
from missdp.schema import Numeric, Schema
from missdp.session.counting import MarginalSource, Reads, has_method
from missdp.session.held_rows import HeldSource
from missdp.session.row_weights import weighted_source
from missdp.table import Table
from missdp.table.row_functions import RecodedRow


def rebinnable_attributes(source: MarginalSource) -> frozenset[str]:
    """Return the numeric attributes whose bins a source can change. Public."""
    if not has_method(source, "coded_as"):
        return frozenset()
    names = frozenset(a.name for a in source.schema if isinstance(a, Numeric))
    return names & source.valued if isinstance(source, HeldSource) else names


def check_readable(source: MarginalSource, reads: Reads) -> MarginalSource:
    """Return a source that offers the reading that a family needs.

    Parameters
    ----------
    source : MarginalSource
        Private.
    reads : {"counts", "weights", "rows"}
        The needed reading.

    Returns
    -------
    MarginalSource
        The source, or a source with weights.

    Raises
    ------
    ParameterError
        If the rows are needed in memory, but are streamed.
    """
    if reads == "rows" and not isinstance(source, HeldSource):
        raise ParameterError(
            "this fit needs the rows in memory, but they are streamed. Read them with Table.read."
        )
    return weighted_source(source) if reads == "weights" else source


class MemorySource(HeldSource):
    """Source that counts a :class:`~missdp.table.Table` in memory, a chunk of rows at a time.

    Parameters
    ----------
    table : Table
        The private rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
    >>> frame = pd.DataFrame({"smoker": ["yes", None, "no", "yes"]})
    >>> source = MemorySource(Table.read(frame, schema))
    >>> source.counts([("smoker",)], rows="observed")[("smoker",)].tolist()
    [1, 2]
    >>> source.counts([("smoker",)], rows="extended")[("smoker",)].tolist()
    [1, 2, 1]
    """

    def __init__(self, table: Table) -> None:
        self._kind = table.kind
        valued = frozenset(n for n in table.schema.names if table.column(n).values is not None)
        rows = table.block()
        super().__init__(table.schema, lambda: rows, valued=valued, weights=table._weights)

    @property
    def table(self) -> Table:
        """The private rows."""
        return Table.of_block(self.schema, self._rows(), kind=self._kind)

    def coded_as(self, schema: Schema) -> MemorySource:
        """Return the rows under another binning, which is applied when rows are counted.

        Raises
        ------
        SchemaError
            If the schema declares another unit, weight or ledger than this source.
        """
        return self.mapped(RecodedRow(self.schema, schema, tuple(sorted(self.valued))), schema)
