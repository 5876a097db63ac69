"""Private rows as integer codes and masks per attribute: tables, or blocks of rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.attributes import KINDS, Kind
from missdp.schema.layout import PLAIN
from missdp.schema.numeric import code_dtype
from missdp.schema.schema import check_schema
from missdp.table.decode import MissingForm, Values, check_missing_form, decode
from missdp.table.encode import CodedColumn
from missdp.table.follow import computed_columns
from missdp.table.frames import frame_kind, native_from_arrow
from missdp.table.rows import Rows
from missdp.table.units import rows_of_units
from missdp.types import Flags, Floats, FrameKind, Ints

if TYPE_CHECKING:
    import pyarrow as pa


class Table:
    """Rows of a table in memory, stored as codes of levels, bins and missing values.

    Use :meth:`read` for any frame or file, and :meth:`from_codes` for codes. All inputs have one
    representation. Each attribute has an array of codes: ``0`` to ``size - 1`` for levels, bins and
    spikes, then one code for each of its ``kinds`` of missing (reasons why a cell has no value).
    Numeric attributes may also have their numbers.

    Parameters
    ----------
    schema : Schema
        Public facts about the columns.
    columns : mapping of str to CodedColumn
        The encoded cells of each attribute of the schema, all of one length: ``codes``, and
        ``values`` or None.
    kind : {"pandas", "polars", "pyarrow"}, default "pandas"
        The library of the input frame, which is the default library of output frames.

    Attributes
    ----------
    schema : Schema
        Public facts about the columns.
    kind : str
        The library of the input frame. Public.

    Raises
    ------
    DataError
        If attributes and columns differ, or columns have different lengths.

    Notes
    -----
    ``repr`` shows public facts only. ``len`` returns the number of rows, which is private under
    add-remove adjacency (neighbouring tables differ by one row or unit).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
    >>> table = Table.read(pd.DataFrame({"smoker": ["yes", None, "no"]}), schema)
    >>> table
    Table(smoker)
    >>> table.codes("smoker").tolist(), table.mask("smoker").tolist()
    ([1, 2, 0], [False, True, False])
    """

    def __init__(
        self, schema: Schema, columns: Mapping[str, CodedColumn], *, kind: FrameKind = "pandas"
    ) -> None:
        if set(columns) != set(schema.names):
            raise DataError("a table needs exactly one column per attribute of its schema")
        if len({len(column.codes) for column in columns.values()}) > 1:
            raise DataError("all columns of a table must have the same length")
        self.schema = schema
        self.kind = kind
        self._columns = {name: columns[name] for name in schema.names}
        # The schema, weights and sums by which rows were sampled while they were read. Private.
        self._read_as: Schema | None = None
        self._weights: Ints | None = None
        self._sums: Ints | None = None

    def _of_rows(self) -> Table:
        """Return the rows, sampled by their units, with weights and a schema without units.

        This is not public, since no guarantee for single rows holds for the sample.
        """
        fact = self.schema.unit or self.schema.weight
        if fact is None:
            return self
        if self._read_as is None or self._read_as != self.schema:
            done = "chosen" if self.schema.unit else "weighed"
            raise DataError(
                f"these rows were not {done} by their {fact.column!r}, which is only possible "
                "while a table is read. Pass the result of Table.read, or the frame or path."
            )
        table = Table(self.schema.without_unit, self._columns, kind=self.kind)
        table._weights, table._sums = self._weights, self._sums
        return table

    @classmethod
    def read_part(
        cls, rows: Rows, schema: Schema, some: Schema, valued: Container[str] | None
    ) -> Table:
        """Read only some attributes of a table into memory, and the exact numbers of even fewer.

        All attributes that are read have codes. Numbers need more memory and are optional.

        Parameters
        ----------
        rows : Rows
            The private rows.
        schema : Schema
            Public facts about all columns.
        some : Schema
            The schema of the attributes that are returned. Columns in which a cell may raise an
            error are read in addition, so that errors do not depend on this choice.
        valued : container of str or None
            Names of the attributes with numbers in the result. None: all attributes of ``schema``
            are read with numbers.

        Returns
        -------
        Table
            Private.

        Raises
        ------
        DataError
            If the rows cannot be read, or do not fit the schema. The message quotes no cell.
        """
        if valued is None:
            return cls.read(rows, schema)

        def without_numbers(columns: dict[str, CodedColumn]) -> dict[str, CodedColumn]:
            return {n: c if n in valued else CodedColumn(c.codes) for n, c in columns.items()}

        batches = read_columns(rows, schema, some.names, refusing=True)
        return cls(some, concatenate_columns(map(without_numbers, batches), some))

    @classmethod
    def without_rows(cls, schema: Schema) -> Table:
        """Return an empty table of a schema, which contains nothing private.

        It charges no ledger.

        Parameters
        ----------
        schema : Schema
            Public facts about the columns, without a unit and without a weight.

        Returns
        -------
        Table
            A table with 0 rows, whose schema has no ledger, file layout, ignored columns or keys.
            Public.

        Raises
        ------
        DataError
            If the schema declares a unit or a weight.
        """
        facts = {"ledger": "", "file": PLAIN, "ignore": (), "keys": (), "undeclared_columns": ()}
        plain = replace(schema, **facts)  # type: ignore[arg-type]
        return cls.read({name: [] for name in plain.input_columns.names}, plain)

    @classmethod
    def read(cls, data: Any, schema: Schema) -> Table:
        """Read a table into memory from any supported input, and check it against its schema.

        Rows are read in batches, so memory holds little more than the codes and numbers of the
        table.

        Parameters
        ----------
        data : Table, frame, DuckDB relation, Rows, str, Path, dict or list
            A frame is a frame of pandas, polars or Arrow, or of any library with Arrow's C
            interface (``__arrow_c_stream__``). A record batch reader is consumed. A path names a
            file: CSV, Parquet, Feather, Excel, SPSS, Stata or SAS. A dict has a list of cells for
            each column. A list has a dict for each row, which may omit missing cells. Private.
        schema : Schema
            Public facts about the columns: levels, bounds and rules. If it declares a unit of
            protection, at most ``max_rows`` rows of each unit are read, drawn at random.

        Returns
        -------
        Table
            Private.

        Raises
        ------
        DataError
            If the data cannot be read or do not fit the schema. The message quotes no value and no
            count.
        SchemaError
            If the schema is not a `Schema`, for example a path.
        MissingDependencyError
            If the format of the file needs a package that is not installed.
        """
        check_schema(schema)
        if isinstance(data, Table):
            if data.schema != schema:
                raise DataError("the table was read with another schema")
            return data
        rows, facts = rows_of_units(data, schema), schema.without_unit
        columns = concatenate_columns(read_columns(rows, facts), facts)
        read = cls(schema, columns, kind=frame_kind(data))
        if rows.is_chosen:
            read._read_as, read._weights, read._sums = schema, rows.unit_weights, rows.unit_sums
        return read

    @classmethod
    def from_codes(
        cls, schema: Schema, codes: Mapping[str, ArrayLike], *, kind: FrameKind = "pandas"
    ) -> Table:
        """Create a table from the codes of its cells, numbers that stand for levels and bins.

        Numeric attributes get bins without numbers.

        Parameters
        ----------
        schema : Schema
            Public facts about the columns.
        codes : mapping of str to array of int, of shape (n_rows,)
            The codes of each attribute, from 0 to ``extended_size - 1``. Other names are ignored.
        kind : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library of output frames.

        Returns
        -------
        Table
            With copies of the codes. Private, if the codes are private.

        Raises
        ------
        DataError
            If the codes of an attribute are absent or out of range, or lengths differ.
        ParameterError
            If codes are not a vector of integers.
        """
        columns = {}
        for attribute in schema:
            if attribute.name not in codes:
                raise DataError(f"no codes for attribute {attribute.name!r}")
            columns[attribute.name] = CodedColumn(_check_codes(attribute, codes[attribute.name]))
        return cls(schema, columns, kind=kind)

    @classmethod
    def of_block(
        cls, schema: Schema, block: Mapping[Any, NDArray[Any]], *, kind: FrameKind = "pandas"
    ) -> Table:
        """Create a table from a block: a dictionary of arrays, as row functions return it.

        A row function maps each row of a block to one row of another block.

        Parameters
        ----------
        schema : Schema
            Public facts about the columns.
        block : mapping of names to ndarray of shape (n_rows,)
            The codes of each attribute by its name. The numbers of some attributes, under the key
            ``("values", name)``.
        kind : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library of output frames.

        Returns
        -------
        Table
            With the arrays of the block, which are not copied. Private if the block is private.

        Raises
        ------
        DataError
            If the columns have different lengths, or the block has no codes of an attribute of the
            schema.
        """
        return cls(schema, _columns(block, schema.names), kind=kind)

    def block(self) -> dict[Any, NDArray[Any]]:
        """Return the columns of the table as a dictionary of arrays, which is called a block.

        Row functions take blocks. A row function maps each row of a block to one row.

        Returns
        -------
        dict of names to ndarray of shape (n_rows,)
            The codes of each attribute by its name. The numbers of an attribute, if the table has
            them, under the key ``("values", name)``. Private, unless made from released values.
        """
        block: dict[Any, NDArray[Any]] = {}
        for attribute in self.schema:
            column = self._columns[attribute.name]
            block[attribute.name] = column.codes.astype(code_dtype(attribute), copy=False)
            if column.values is not None:
                block["values", attribute.name] = column.values
        return block

    @classmethod
    def concatenate(cls, tables: Iterable[Table]) -> Table:
        """Concatenate the rows of several tables of one schema, in their order.

        Parameters
        ----------
        tables : iterable of Table
            At least one table. All tables have the schema of the first.

        Returns
        -------
        Table
            As private as the tables. It has the library of output frames of the first table.

        Raises
        ------
        DataError
            If there is no table, or a table has another schema than the first table.
        """
        parts = iter(tables)
        first = next(parts, None)
        if first is None:
            raise DataError("there is no table to concatenate. Pass at least one table")

        def block(table: Table) -> dict[str, CodedColumn]:
            if table.schema != first.schema:
                raise DataError("tables are concatenated only if they have one schema")
            return table._columns

        columns = concatenate_columns(map(block, chain([first], parts)), first.schema)
        return cls(first.schema, columns, kind=first.kind)

    def __repr__(self) -> str:
        return f"Table({', '.join(self.schema.names)})"

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())).codes)

    def column(self, name: str) -> CodedColumn:
        """Return the codes of an attribute of a table, and its numbers if the table has them.

        Parameters
        ----------
        name : str
            Name of the attribute.

        Returns
        -------
        CodedColumn
            With the arrays ``codes`` and ``values`` of shape (n_rows,). ``values`` may be None.
            Private, unless made from released values.

        Raises
        ------
        SchemaError
            If the schema has no attribute of this name.
        """
        self.schema[name]
        return self._columns[name]

    def codes(self, name: str) -> NDArray[np.unsignedinteger]:
        """Return the code of each cell of an attribute, a number that stands for a level or bin.

        Parameters
        ----------
        name : str
            Name of the attribute.

        Returns
        -------
        ndarray of unsigned int, of shape (n_rows,)
            Codes from 0 to ``extended_size - 1``, in the order of the rows. Codes from ``size`` on
            are cells without a value. Private, unless made from released values.

        Raises
        ------
        SchemaError
            If the schema has no attribute of this name.
        """
        return self.column(name).codes

    def mask(self, name: str, kind: Kind | None = None) -> Flags:
        """Return a flag for each cell of an attribute: True if the cell has no value.

        Parameters
        ----------
        name : str
            Name of the attribute.
        kind : {"not_applicable", "missing", "refused", "unknown", "not_asked"}, optional
            The reason why a cell has no value. Only cells with this reason are flagged. By default
            all cells without a value are flagged, including "not applicable".

        Returns
        -------
        ndarray of bool, of shape (n_rows,)
            In the order of the rows. Private, unless made from released values.

        Raises
        ------
        ParameterError
            If ``kind`` is not one of these names.
        SchemaError
            If the schema has no attribute of this name.
        """
        attribute, codes = self.schema[name], self.codes(name)
        if kind is None:
            return np.asarray(codes >= attribute.size)
        if kind not in KINDS:
            raise ParameterError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        if kind not in attribute.kinds:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(codes == attribute.size + attribute.kinds.index(kind))

    def values(self, name: str) -> Floats:
        """Return the number in each cell of a numeric attribute of a table.

        Parameters
        ----------
        name : str
            Name of the attribute.

        Returns
        -------
        ndarray of float, of shape (n_rows,)
            Numbers from ``lower`` to ``upper``, in the order of the rows. Dates are numbers of
            units of the calendar since 1970. A cell without a value has the number ``lower``: see
            :meth:`mask`. Private, unless made from released values.

        Raises
        ------
        DataError
            If the attribute is not numeric, or the table has bins only.
        SchemaError
            If the schema has no attribute of this name.
        """
        values = self.column(name).values
        if values is None:
            raise DataError(f"attribute {name!r} has no numeric values in this table")
        return values

    def incomplete_rows(self) -> Flags:
        """Return a flag for each row of the table: True if at least one of its cells is missing.

        A cell that is not applicable is not missing.

        Returns
        -------
        ndarray of bool, of shape (n_rows,)
            In the order of the rows. Private, unless made from released values.
        """
        masks = [
            self.codes(name) >= self.schema[name].missing_code for name in self.schema.nullable
        ]
        return np.any(masks, axis=0) if masks else np.zeros(len(self), dtype=bool)

    def _as_counted(self) -> Table:
        """Return rows repeated in proportion to their weights, as many as before. Private."""
        rows = self._of_rows()
        if rows._weights is None or not rows._weights.any():
            return rows
        ends = np.cumsum(rows._weights)
        middle = (np.arange(len(rows)) + 0.5) * (ends[-1] / len(rows))
        return rows.take(np.minimum(np.searchsorted(ends, middle, side="right"), len(rows) - 1))

    def take(self, rows: NDArray[np.integer] | Flags) -> Table:
        """Return a table of some rows of this table, in a given order.

        If the schema declares a unit or a weight, no release accepts the result, since these rows
        were chosen otherwise.

        Parameters
        ----------
        rows : ndarray of int, of shape (n_taken,), or of bool, of shape (n_rows,)
            Positions of the rows from 0 on, in the order of the result, or a flag for each row.

        Returns
        -------
        Table
            As private as this table.

        Raises
        ------
        IndexError
            If a position is out of range, or there is not one flag for each row.
        """
        columns = {name: column.take(rows) for name, column in self._columns.items()}
        return Table(self.schema, columns, kind=self.kind)

    def subset(self, names: Iterable[str]) -> Table:
        """Return a table of some columns of this table, with all rows.

        Parameters
        ----------
        names : iterable of str
            Names of the attributes, in the order of the result.

        Returns
        -------
        Table
            With the schema of :meth:`Schema.subset <missdp.schema.Schema.subset>`. As private as
            this table.

        Raises
        ------
        SchemaError
            If the schema has no attribute of a name, or there are no names.
        """
        schema = self.schema.subset(names)
        part = Table(schema, {n: self._columns[n] for n in schema.names}, kind=self.kind)
        if self._read_as == self.schema:  # the rows are the same
            part._read_as, part._weights, part._sums = schema, self._weights, self._sums
        return part

    def with_missing(self, mask: Mapping[str, Flags]) -> Table:
        """Return the table with additional missing cells, for example to study missing values.

        Computed attributes, such as differences of dates, are computed anew. If the schema declares
        a unit or a weight, no release accepts the result.

        Parameters
        ----------
        mask : mapping of str to ndarray of bool, of shape (n_rows,)
            For some attributes, by name, a flag for each row: True for cells that become missing.

        Returns
        -------
        Table
            A changed copy. As private as this table and the flags.

        Raises
        ------
        DataError
            If cells of an attribute would become missing that is not nullable.
        SchemaError
            If the schema has no attribute of a name.
        """
        columns = dict(self._columns)
        for name, missing in mask.items():
            attribute = self.schema[name]
            if np.any(missing) and not attribute.nullable:
                raise DataError(f"attribute {name!r} is not declared nullable")
            columns[name] = columns[name].without_value(attribute, missing, attribute.missing_code)
        columns |= computed_columns(self.schema, columns)
        return Table(self.schema, columns, kind=self.kind)

    def with_values(self, rng: np.random.Generator) -> Table:
        """Return the table with a drawn number for each cell of attributes that have bins only.

        A bin is an interval of values. The number is drawn from the bin of the cell. Synthetic
        tables have bins only. Present numbers stay unchanged.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the random numbers.

        Returns
        -------
        Table
            A changed copy. As private as this table.
        """
        columns = dict(self._columns)
        for attribute in self.schema:
            column = columns[attribute.name]
            if not isinstance(attribute, Numeric) or column.values is not None:
                continue
            missing = column.codes >= attribute.size
            bins = np.where(missing, 0, column.codes).astype(np.int64)
            values = attribute.decode(bins, rng.random(len(bins)))
            values[missing] = attribute.lower
            columns[attribute.name] = CodedColumn(column.codes, values)
        return Table(self.schema, columns, kind=self.kind)

    def coded_as(self, schema: Schema) -> Table:
        """Return the rows of a table under another schema, which counts numbers in other bins.

        Parameters
        ----------
        schema : Schema
            The same attributes, some of them with other bins.

        Returns
        -------
        Table
            As private as this table. Codes are the whole numbers that stand for bins in counts.

        Raises
        ------
        DataError
            If the bins of an attribute without numbers differ.
        SchemaError
            If the schema declares another unit, weight or ledger than the table's own.
        """
        from missdp.session.row_kernel import map_rows
        from missdp.table.row_functions import RecodedRow

        if schema is self.schema:
            return self
        self.schema.check_same_rows(schema)
        valued = (n for n, column in self._columns.items() if column.values is not None)
        recoded = RecodedRow(self.schema, schema, tuple(valued))
        return Table.of_block(schema, map_rows(recoded, self.block(), len(self)), kind=self.kind)

    def to_arrow(
        self, *, missing_as: MissingForm = "nulls", values: Values = "codes", first_key: int = 1
    ) -> pa.Table:
        """Return the rows as an Arrow table, whose types depend on the schema alone.

        Parameters
        ----------
        missing_as : {"nulls", "codes"}, default "nulls"
            Output of a cell without a value: null, or the first declared code of its kind of
            missing (null without a code). With codes, a table that is read again is unchanged,
            including kinds. A column of numbers with codes in text becomes text, and a column of
            true and false with any code.
        values : {"codes", "labels"}, default "codes"
            Output of a level: the level, or its declared label if there is a label. A column with
            labels is text.
        first_key : int, default 1
            The key of the first row, a whole number, in columns of keys, which were never read.

        Returns
        -------
        pyarrow.Table
            Columns of keys, then the stored columns in the order of the schema. Private unless the
            table was made from released values.

        Raises
        ------
        DataError
            If a numeric attribute has bins only: use :meth:`with_values` before.
        ParameterError
            If ``missing_as`` or ``values`` is not one of these names.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from missdp import Numeric, Schema, Table
        >>> age = Numeric(name="age", lower=0, upper=99, nullable=True, refused=(-7,))
        >>> schema = Schema((age,))
        >>> table = Table.read(pa.table({"age": [30, -7, None]}), schema)
        >>> table.to_arrow(missing_as="codes")["age"].to_pylist()
        [30.0, -7.0, None]
        """
        import pyarrow as pa

        check_missing_form(missing_as, values)
        keys = self.schema.keys
        fresh = pa.array(np.arange(first_key, first_key + len(self)) if keys else [], pa.int64())
        stored = self.schema.input_columns
        columns = self._columns
        arrays = [decode(a, columns[a.name], missing_as=missing_as, values=values) for a in stored]
        return pa.table([*[fresh] * len(keys), *arrays], names=[*keys, *stored.names])

    def to_native(
        self,
        kind: FrameKind | None = None,
        *,
        missing_as: MissingForm = "nulls",
        values: Values = "codes",
    ) -> Any:
        """Return the rows as a data frame of the library of the input, or of another library.

        Parameters
        ----------
        kind : {"pandas", "polars", "pyarrow"}, optional
            The library of the frame. By default the library of the input.
        missing_as : {"nulls", "codes"}, default "nulls"
            Output of a cell without a value: null, or the first declared code of its kind of
            missing. See :meth:`to_arrow`.
        values : {"codes", "labels"}, default "codes"
            Output of a level: the level, or its declared label. See :meth:`to_arrow`.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Columns as in :meth:`to_arrow`, with types that depend on the schema alone. Private
            unless the table was made from released values.

        Raises
        ------
        DataError
            If a numeric attribute has bins only: use :meth:`with_values` before.
        ParameterError
            If a parameter is not one of these names.
        MissingDependencyError
            If polars is requested and not installed.
        """
        table = self.to_arrow(missing_as=missing_as, values=values)
        return native_from_arrow(table, kind or self.kind)


def _check_codes(attribute: AnyAttribute, codes: ArrayLike) -> NDArray[np.unsignedinteger]:
    """Return a copy of codes, which must be integers in the range of the attribute."""
    array = np.asarray(codes)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise ParameterError(f"codes of {attribute.name!r} must be a vector of integers")
    if array.size and (array.min() < 0 or array.max() >= attribute.extended_size):
        raise DataError(f"codes of {attribute.name!r} must be in 0..{attribute.extended_size - 1}")
    return array.astype(code_dtype(attribute))


def read_columns(
    data: Any, schema: Schema, names: Iterable[str] | None = None, *, refusing: bool = False
) -> Iterator[dict[str, CodedColumn]]:
    """Yield encoded columns, a batch of rows at a time. Each row is encoded independently.

    Parameters
    ----------
    data : frame, DuckDB relation, Rows, str, Path, dict or list
        Private.
    schema : Schema
        Public facts without a unit and a weight.
    names : iterable of str, optional
        The requested attributes. By default all.
    refusing : bool, default False
        True if columns with cells that may be refused are read in addition.

    Yields
    ------
    dict of str to CodedColumn
        Private.
    """
    # Imported here: the session package is imported after tables are.
    from missdp.table.row_functions import CodedRow

    schema.refuse_units("this way of reading")
    rows = Rows.of(data, schema)
    rows.check(schema.input_columns.names)
    requested = tuple(schema.names if names is None else names)
    coded = CodedRow(schema, schema.read_for(requested, refusing=refusing), requested)
    yield from coded.blocks(rows, lambda block, _: _columns(block, requested))


def _columns(block: Mapping[Any, NDArray[Any]], names: Iterable[str]) -> dict[str, CodedColumn]:
    """Return the columns of a block of rows by name."""
    names = tuple(names)
    for name in names:
        if name not in block:
            raise DataError(f"no codes for attribute {name!r}")
    return {name: CodedColumn(block[name], block.get(("values", name))) for name in names}


_ROWS_AT_ONCE = 2**22  # rows of batches that are concatenated in one step


def concatenate_columns(
    parts: Iterable[dict[str, CodedColumn]], schema: Schema
) -> dict[str, CodedColumn]:
    """Concatenate the columns of all blocks of rows. Blocks are freed step by step."""
    import pyarrow as pa

    done: list[dict[str, CodedColumn]] = []
    waiting: list[dict[str, CodedColumn]] = []
    rows = 0
    for part in parts:
        waiting.append(dict(part))
        rows += len(part[schema.names[0]].codes)
        if rows >= _ROWS_AT_ONCE * (1 + len(done)):  # avoids fragmentation of memory
            done.append(_concatenated(waiting, schema))
            waiting = []
    pa.default_memory_pool().release_unused()  # memory of batches
    return _concatenated([*done, *waiting], schema)


def _concatenated(parts: list[dict[str, CodedColumn]], schema: Schema) -> dict[str, CodedColumn]:
    """Concatenate the columns of blocks of rows, and remove them from the blocks."""
    complete = {}
    for a in schema:
        columns = [part.pop(a.name) for part in parts]
        none = np.zeros(0) if isinstance(a, Numeric) else None
        columns = columns or [CodedColumn(np.zeros(0, code_dtype(a)), none)]
        values = [column.values for column in columns if column.values is not None]
        complete[a.name] = CodedColumn(
            np.concatenate([column.codes for column in columns]),
            np.concatenate(values) if values else None,
        )
    return complete


def rebatch(
    parts: Iterable[dict[str, CodedColumn]], rows: int, schema: Schema
) -> Iterator[dict[str, CodedColumn]]:
    """Yield the rows in blocks of equal size, except for the last block.

    Parameters
    ----------
    parts : iterable of dict of str to CodedColumn
        Blocks of any size.
    rows : int
        Rows of each block.
    schema : Schema
        Public facts.

    Yields
    ------
    dict of str to CodedColumn
        At least one block, which may be empty.
    """
    waiting: list[dict[str, CodedColumn]] = []
    held, first, none = 0, schema.names[0], True
    for part in parts:
        waiting.append(part)
        held += len(part[first].codes)
        if held >= rows:
            joined = concatenate_columns(waiting, schema)
            for start in range(0, held - rows + 1, rows):
                yield {n: column.take(slice(start, start + rows)) for n, column in joined.items()}
            none = False
            waiting = [{n: c.take(slice(held - held % rows, held)) for n, c in joined.items()}]
            held %= rows
    if held or none:
        yield concatenate_columns(waiting, schema)
