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
    """Check that a source of private rows offers the reading that a synthesizer needs.

    Parameters
    ----------
    source : MarginalSource
        The source that counts the private rows.
    reads : {"counts", "weights", "rows"}
        The needed reading: counts of rows, also sums of the weights of rows, or the rows in memory.

    Returns
    -------
    MarginalSource
        The same source. Private.

    Raises
    ------
    ParameterError
        If the rows are needed in memory, but are streamed. Sums of weights raise it if the source
        has no method ``weighted_counts``.

    Examples
    --------
    >>> from missdp.sources import MemorySource, check_readable
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> source = MemorySource(Table.read({"smoker": ["yes"]}, schema))
    >>> check_readable(source, "rows") is source
    True
    """
    if reads == "rows" and not isinstance(source, HeldSource):
        raise ParameterError(
            "this fit needs the rows in memory, but they are streamed. Read them with Table.read."
        )
    return weighted_source(source) if reads == "weights" else source


class MemorySource(HeldSource):
    """Source of exact counts of private rows that are held in memory.

    A source returns exact counts of private rows, which must not be released. A session, the object
    that releases noisy numbers, adds the noise and charges a budget for it. For rows that do not
    fit into memory use :class:`DuckDBSource`. :func:`open_source` chooses between them.

    Parameters
    ----------
    table : Table
        The private rows.

    Attributes
    ----------
    valued : frozenset of str
        Attributes that have numbers in addition to codes. Public.

    Examples
    --------
    >>> from missdp.sources import MemorySource
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
        """The private rows of an in-memory source, as a :class:`~missdp.table.Table`.

        Changes of the rows, such as other bins, are applied.

        Returns
        -------
        Table
            A table of the rows, without weights. Private.
        """
        return Table.of_block(self.schema, self._rows(), kind=self._kind)

    def coded_as(self, schema: Schema) -> MemorySource:
        """Return an in-memory source of the same rows under another binning of numeric attributes.

        A binning divides numbers into intervals, in which they are counted. It is applied when rows
        are first counted.

        Parameters
        ----------
        schema : Schema
            The same attributes, some of them with other bins.

        Returns
        -------
        MemorySource
            Private.

        Raises
        ------
        DataError
            If the bins of an attribute without numbers differ.
        SchemaError
            If the schema declares another unit, weight or ledger than this source.
        """
        return self.mapped(RecodedRow(self.schema, schema, tuple(sorted(self.valued))), schema)
