"""Private rows, as integer codes plus a mask per attribute: a whole table, or block after block."""

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
    """Rows of a table as codes and masks; private unless it was made from released values.

    Use :meth:`read` (any frame or file) or :meth:`from_codes`. The representation is the same for
    every input: per attribute an array of codes in ``0..size - 1``, or from ``size`` on for a cell
    without a value, one code for each of the attribute's ``kinds`` of missing.

    Parameters
    ----------
    schema : Schema
        Public facts.
    columns : mapping of str to CodedColumn
        One per attribute, all of one length.
    kind : {"pandas", "polars", "pyarrow"}
        The kind of frame that came in, which is the kind that goes out.

    Notes
    -----
    ``repr`` shows public facts only. The number of rows is private under add-remove adjacency.

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
        # What its rows were chosen and weighed by, while they were read. Private.
        self._read_as: Schema | None = None
        self._weights: Ints | None = None
        self._sums: Ints | None = None

    def _of_rows(self) -> Table:
        """Return the rows, chosen by their units, with a schema that declares none, and weights.

        Not public: which rows are chosen depends on all rows of a unit: nothing is proven for one.
        """
        fact = self.schema.unit or self.schema.weight
        if fact is None:
            return self
        if self._read_as is None or self._read_as != self.schema:
            done = "chosen" if self.schema.unit else "weighed"
            raise DataError(
                f"these rows were not {done} by their {fact.column!r}, which is known while a "
                "table is read: pass Table.read(...) as it is, or the frame or path itself"
            )
        found = Table(self.schema.without_unit, self._columns, kind=self.kind)
        found._weights, found._sums = self._weights, self._sums
        return found

    @classmethod
    def read_part(
        cls, rows: Rows, schema: Schema, some: Schema, valued: Container[str] | None
    ) -> Table:
        """Read some attributes, and perhaps only the levels or bins of some of these.

        Parameters
        ----------
        rows : Rows
            The private rows.
        schema : Schema
            Public facts about all columns.
        some : Schema
            Of the attributes that are read. All columns are read where one may refuse a cell.
        valued : container of str, optional
            Attributes of which values are kept. None: the whole table is read.

        Returns
        -------
        Table
            Private.

        Raises
        ------
        DataError
            If the rows cannot be read, or do not fit the schema.
        """
        if valued is None:
            return cls.read(rows, schema)

        def lean(columns: dict[str, CodedColumn]) -> dict[str, CodedColumn]:
            return {n: c if n in valued else CodedColumn(c.codes) for n, c in columns.items()}

        batches = read_columns(rows, schema, some.names, refusing=True)
        return cls(some, concatenate_columns(map(lean, batches), some))

    @classmethod
    def without_rows(cls, schema: Schema) -> Table:
        """Return an empty table of a schema, which no ledger pays for."""
        facts = {"ledger": "", "file": PLAIN, "ignore": (), "keys": (), "undeclared_columns": ()}
        plain = replace(schema, **facts)  # type: ignore[arg-type]
        return cls.read({name: [] for name in plain.input_columns.names}, plain)

    @classmethod
    def read(cls, data: Any, schema: Schema) -> Table:
        """Read a table from any supported input.

        Parameters
        ----------
        data : Table, frame, DuckDB relation, Rows, str, Path, dict or list
            A frame is one of pandas, polars or Arrow, or of any library with Arrow's C interface
            (``__arrow_c_stream__``): also a record batch reader, which is used up by that. A path
            names a CSV or Parquet file. A dict has a list of cells for each column; a list has a
            dict for each row, in which a cell that is missing may be left out. Rows are read in
            batches, so that little more is held at once than the codes and
            numbers of the table.
        schema : Schema
            The declared domain. If it declares a unit, at most ``max_rows`` rows of each are read,
            chosen at random.

        Raises
        ------
        DataError
            If the data does not fit the schema. The message quotes no value and no count.
        SchemaError
            If the schema is none, but a path, say.
        """
        check_schema(schema)
        if isinstance(data, Table):
            if data.schema != schema:
                raise DataError("the table was read with another schema")
            return data
        rows, facts = rows_of_units(data, schema), schema.without_unit
        read = cls(
            schema, concatenate_columns(read_columns(rows, facts), facts), kind=frame_kind(data)
        )
        if rows.is_chosen:
            read._read_as, read._weights, read._sums = schema, rows.unit_weights, rows.unit_sums
        return read

    @classmethod
    def from_codes(
        cls, schema: Schema, codes: Mapping[str, ArrayLike], *, kind: FrameKind = "pandas"
    ) -> Table:
        """Build a table from codes; numeric attributes get no values, only bins."""
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
        """Build a table from the columns of a block of rows; see `missdp.session.row_kernel`."""
        return cls(schema, _columns(block, schema.names), kind=kind)

    def block(self) -> dict[Any, NDArray[Any]]:
        """Return the columns as a block of rows, which row functions map. Private."""
        found: dict[Any, NDArray[Any]] = {}
        for attribute in self.schema:
            column = self._columns[attribute.name]
            found[attribute.name] = column.codes.astype(code_dtype(attribute), copy=False)
            if column.values is not None:
                found["values", attribute.name] = column.values
        return found

    @classmethod
    def concatenate(cls, tables: Iterable[Table]) -> Table:
        """Return the rows of several tables of one schema, at least one, one after the other."""
        parts = iter(tables)
        first = next(parts)
        columns = concatenate_columns(
            (table._columns for table in chain([first], parts)), first.schema
        )
        return cls(first.schema, columns, kind=first.kind)

    def __repr__(self) -> str:
        return f"Table({', '.join(self.schema.names)})"

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())).codes)

    def column(self, name: str) -> CodedColumn:
        """Codes of an attribute, and its values if the table holds any."""
        self.schema[name]
        return self._columns[name]

    def codes(self, name: str) -> NDArray[np.unsignedinteger]:
        """Codes of an attribute, shape ``(n,)``; missing cells have ``missing_code``."""
        return self.column(name).codes

    def mask(self, name: str, kind: Kind | None = None) -> Flags:
        """True where a cell is missing, shape ``(n,)``: for whatever reason, or of one kind."""
        attribute, codes = self.schema[name], self.codes(name)
        if kind is None:
            return np.asarray(codes >= attribute.size)
        if kind not in KINDS:
            raise ParameterError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        if kind not in attribute.kinds:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(codes == attribute.size + attribute.kinds.index(kind))

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute, shape ``(n,)``; ``lower`` where missing (see the mask).

        Raises
        ------
        DataError
            If the attribute is not numeric or the table holds bins only.
        """
        values = self.column(name).values
        if values is None:
            raise DataError(f"attribute {name!r} has no numeric values in this table")
        return values

    def incomplete_rows(self) -> Flags:
        """Return True where any cell of the row is a hole, shape ``(n,)``.

        What is not applicable is no hole.
        """
        masks = [
            self.codes(name) >= self.schema[name].missing_code for name in self.schema.nullable
        ]
        return np.any(masks, axis=0) if masks else np.zeros(len(self), dtype=bool)

    def _as_counted(self) -> Table:
        """Return as many rows, each as often as it counts, as far as whole numbers go. Private."""
        whole = self._of_rows()
        if whole._weights is None or not whole._weights.any():
            return whole
        ends = np.cumsum(whole._weights)
        middle = (np.arange(len(whole)) + 0.5) * (ends[-1] / len(whole))
        return whole.take(np.minimum(np.searchsorted(ends, middle, side="right"), len(whole) - 1))

    def take(self, rows: NDArray[np.integer] | Flags) -> Table:
        """Return the rows chosen by an index or a boolean array."""
        columns = {name: column.take(rows) for name, column in self._columns.items()}
        return Table(self.schema, columns, kind=self.kind)

    def subset(self, names: Iterable[str]) -> Table:
        """Return the named columns."""
        schema = self.schema.subset(names)
        found = Table(schema, {n: self._columns[n] for n in schema.names}, kind=self.kind)
        if self._read_as == self.schema:  # the rows are the same
            found._read_as, found._weights, found._sums = schema, self._weights, self._sums
        return found

    def with_missing(self, mask: Mapping[str, Flags]) -> Table:
        """Return the table with more cells missing; their attributes must be nullable."""
        columns = dict(self._columns)
        for name, hole in mask.items():
            attribute = self.schema[name]
            if np.any(hole) and not attribute.nullable:
                raise DataError(f"attribute {name!r} is not declared nullable")
            columns[name] = columns[name].without_value(attribute, hole, attribute.missing_code)
        columns |= computed_columns(self.schema, columns)
        return Table(self.schema, columns, kind=self.kind)

    def with_values(self, rng: np.random.Generator) -> Table:
        """Return the table with a value drawn uniformly inside each numeric bin.

        Meant for synthetic tables, which know bins only. Values that are there stay.
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
        """Return the same rows, with the values of numeric attributes in the bins of a schema.

        Raises
        ------
        DataError
        If the table holds bins only of an attribute whose bins differ.
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
        """Return an Arrow table whose types depend on the schema alone.

        Parameters
        ----------
        missing_as : {"nulls", "codes"}, default "nulls"
            What is written for a cell without a value: null, or the first code that the schema
            declares for its kind of missing (null if it declares none). Then a table that is read
            again is the same, kinds included. A column of numbers whose codes are text becomes
            text; so does one of true and false that has any code.
        values : {"codes", "labels"}, default "codes"
            What is written for a level: itself, or the label that the schema declares for it, if it
            does. A column of which a level has a label is text then.
        first_key : int, default 1
            The key of the first row, in columns of keys: these were never read.

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
        arrays = [
            decode(a, self._columns[a.name], missing_as=missing_as, values=values) for a in stored
        ]
        return pa.table([*[fresh] * len(keys), *arrays], names=[*keys, *stored.names])

    def to_native(
        self,
        kind: FrameKind | None = None,
        *,
        missing_as: MissingForm = "nulls",
        values: Values = "codes",
    ) -> Any:
        """Return a frame of the kind that came in, or of the kind asked for.

        Parameters
        ----------
        kind : {"pandas", "polars", "pyarrow"}, optional
        missing_as, values : str, optional
            As in :meth:`to_arrow`.
        """
        return native_from_arrow(
            self.to_arrow(missing_as=missing_as, values=values), kind or self.kind
        )


def _check_codes(attribute: AnyAttribute, codes: ArrayLike) -> NDArray[np.unsignedinteger]:
    array = np.asarray(codes)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise ParameterError(f"codes of {attribute.name!r} must be a vector of integers")
    if array.size and (array.min() < 0 or array.max() >= attribute.extended_size):
        raise DataError(f"codes of {attribute.name!r} must be in 0..{attribute.extended_size - 1}")
    return array.astype(code_dtype(attribute))


def read_columns(
    data: Any,
    schema: Schema,
    names: Iterable[str] | None = None,
    *,
    refusing: bool = False,
) -> Iterator[dict[str, CodedColumn]]:
    """Yield encoded columns, a batch of rows at a time, every row by itself.

    Parameters
    ----------
    data : frame, DuckDB relation, Rows, str, Path, dict or list
        Private.
    schema : Schema
        Without a unit and a weight.
    names : iterable of str, optional
        The attributes that are wanted; by default all.
    refusing : bool, default False
        Whether columns are read, too, of which a cell may be refused.

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
    wanted = tuple(schema.names if names is None else names)
    read = schema.read_for(wanted, refusing=refusing)
    yield from CodedRow(schema, read, wanted).blocks(rows, lambda block, _: _columns(block, wanted))


def _columns(block: Mapping[Any, NDArray[Any]], names: Iterable[str]) -> dict[str, CodedColumn]:
    return {name: CodedColumn(block[name], block.get(("values", name))) for name in names}


_TOGETHER = 2**22  # rows that are joined before others come


def concatenate_columns(
    parts: Iterable[dict[str, CodedColumn]], schema: Schema
) -> dict[str, CodedColumn]:
    """Return the columns of all blocks of rows together, each freed once it is joined."""
    import pyarrow as pa

    done: list[dict[str, CodedColumn]] = []
    waiting: list[dict[str, CodedColumn]] = []
    rows = 0
    for part in parts:
        waiting.append(dict(part))
        rows += len(part[schema.names[0]].codes)
        if rows >= _TOGETHER * (1 + len(done)):  # or the memory would be fragmented
            done.append(_concatenated(waiting, schema))
            waiting = []
    pa.default_memory_pool().release_unused()  # what batches left there
    return _concatenated([*done, *waiting], schema)


def _concatenated(parts: list[dict[str, CodedColumn]], schema: Schema) -> dict[str, CodedColumn]:
    """Return the columns of blocks of rows, which are emptied meanwhile."""
    found = {}
    for a in schema:
        columns = [part.pop(a.name) for part in parts]
        none = np.zeros(0) if isinstance(a, Numeric) else None
        columns = columns or [CodedColumn(np.zeros(0, code_dtype(a)), none)]
        values = [column.values for column in columns if column.values is not None]
        found[a.name] = CodedColumn(
            np.concatenate([column.codes for column in columns]),
            np.concatenate(values) if values else None,
        )
    return found


def rebatch(
    parts: Iterable[dict[str, CodedColumn]], rows: int, schema: Schema
) -> Iterator[dict[str, CodedColumn]]:
    """Yield the same rows in blocks of so many each, but for the last; at least one block."""
    waiting: list[dict[str, CodedColumn]] = []
    held, first, none = 0, schema.names[0], True
    for part in parts:
        waiting.append(part)
        held += len(part[first].codes)
        if held >= rows:
            whole = concatenate_columns(waiting, schema)
            for start in range(0, held - rows + 1, rows):
                yield {n: column.take(slice(start, start + rows)) for n, column in whole.items()}
            none = False
            waiting = [{n: c.take(slice(held - held % rows, held)) for n, c in whole.items()}]
            held %= rows
    if held or none:
        yield concatenate_columns(waiting, schema)
