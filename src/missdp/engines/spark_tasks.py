"""Tasks of Spark: counting a share of the rows, and drawing synthetic rows.

A task reads batches of cells, counts them, and returns its counts after the last batch. It has no
other state and no other effect. A repeated task returns equal counts, of which the engine takes
one.

The counting code does not import the engine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from missdp.errors import DataError, MissDPError, ParameterError, replacing
from missdp.schema import OpenCategorical, Schema
from missdp.session.counting import CHUNK_ROWS, Clique, Counter
from missdp.session.frequent_values import count_texts
from missdp.session.row_weights import RowWeight
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.parameters import is_integer, sampling_generator
from missdp.synth.sampling import block_sizes
from missdp.table import MissingForm, check_missing_form
from missdp.table.encode import CodedColumn, Encoder
from missdp.table.follow import apply_rules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HANDED_IN = pa.schema([("block", pa.int32()), ("cells", pa.binary())])
"""A numbered block of counts. With a negative number, the text of an error."""


@dataclass(frozen=True, kw_only=True)
class CountTask:
    """Task that counts cells of columns. Without a counter, it only checks that cells fit.

    The code of a cell depends on the cell alone. The count of a row depends on the row alone, not
    on other rows, and not on earlier tasks.

    Parameters
    ----------
    schema : Schema
        The declared domain.
    names : tuple of str
        The columns that are read.
    counter : Counter, optional
        The marginals to count.
    weight : RowWeight, optional
        The weights of rows.
    observed : tuple of str
        Only rows that are observed on these attributes count.
    """

    schema: Schema
    names: Clique
    counter: Counter | None = None
    weight: RowWeight | None = None
    observed: Clique = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read all batches, then yield the counts."""
        failed = DataError("a task could not count its rows")
        encoders = [Encoder(self.schema[name]) for name in self.names]
        counter = copy.copy(self.counter)  # without counts
        refused: dict[int, str] = {}
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
            for chunk in _large_batches(batches):
                columns = self._read(chunk, encoders, refused)
                if counter is not None and not refused:
                    self._count(columns, chunk.num_rows, counter)
        for place in sorted(refused)[:1]:
            yield _handed_in(-1 - place, refused[place].encode())
        if counter is not None and not refused:
            for number, block in counter.blocks():
                yield _handed_in(number, block.tobytes())

    def _read(
        self, chunk: pa.Table, encoders: Sequence[Encoder], refused: dict[int, str]
    ) -> dict[str, CodedColumn]:
        """Return the codes of each column, and record the first column that does not fit."""
        columns: dict[str, CodedColumn] = {}
        for place, (name, encoder) in enumerate(zip(self.names, encoders, strict=True)):
            if place > min(refused, default=place):
                break
            try:
                columns[name] = encoder.encode(chunk.column(place))
            except DataError as error:
                # In one column, values outside the domain are reported before missing cells.
                refused[place] = min(refused.get(place, str(error)), str(error))
        return columns

    def _count(self, columns: dict[str, CodedColumn], n_rows: int, counter: Counter) -> None:
        """Add the rows of a batch to a counter."""
        read = counter.needed(self.weight)
        codes, n_rows = observed_codes(
            self.schema, columns, n_rows, names=read, observed=self.observed
        )
        counter.add(codes, n_rows, self.weight(codes) if self.weight else None)


def observed_codes(
    schema: Schema,
    columns: Mapping[str, CodedColumn],
    n_rows: int,
    *,
    names: Iterable[str],
    observed: Clique,
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the codes of the counted rows of a batch, and their number.

    Parameters
    ----------
    schema : Schema
        The declared domain.
    columns : mapping of str to CodedColumn
        The encoded columns of the batch, each of ``n_rows`` cells. Private.
    n_rows : int
        Number of rows of the batch.
    names : iterable of str
        Attributes whose codes are returned.
    observed : tuple of str
        Only rows with observed cells of all these attributes are counted. Their codes are returned
        too. With an empty tuple all rows are counted.

    Returns
    -------
    dict of str to ndarray of shape (n_counted,)
        The codes of each attribute, after the rules of the schema. Empty if none is needed.
    int
        ``n_counted``, the number of rows that are counted.
    """
    requested = tuple(dict.fromkeys((*names, *observed)))
    if not requested and schema.input_columns is schema:
        return {}, n_rows
    codes = {n: column.codes for n, column in apply_rules(schema, columns, requested).items()}
    if not observed:
        return codes, n_rows
    rows = np.logical_and.reduce([codes[n] < schema[n].missing_code for n in observed])
    return {n: c[rows] for n, c in codes.items()}, int(rows.sum())


def value_count_batches(
    batches: Iterable[pa.RecordBatch], attributes: tuple[OpenCategorical, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the values of columns with open levels, with their numbers of rows and places."""
    with replacing(Exception, by=DataError("a task could not count its rows")):
        counts_by_place = count_texts(_large_batches(batches), attributes)
    for place, counts in enumerate(counts_by_place):
        columns = [pa.array([place] * len(counts), pa.int32()), pa.array(counts, pa.string())]
        columns.append(pa.array(counts.values(), pa.int64()))
        yield pa.record_batch(columns, names=["place", "value", "times"])


def merge_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add blocks with equal numbers. Of several errors about a column, yield one."""
    totals: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    refused: dict[int, bytes] = {}
    for batch in batches:
        for number, cells in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            if number < 0:
                refused[number] = min(refused.get(number, cells), cells)
            elif number in totals:
                totals[number] += np.frombuffer(cells, dtype=np.int64)
            else:
                totals[number] = np.frombuffer(cells, dtype=np.int64).copy()
    for number, why in refused.items():
        yield _handed_in(number, why)
    for number, total in totals.items():
        yield _handed_in(number, total.tobytes())


def _large_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of at least `CHUNK_ROWS` rows, since batches of engines are small."""
    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, n_rows = [], 0
    if n_rows:
        yield pa.Table.from_batches(waiting)


def _handed_in(number: int, cells: bytes) -> pa.RecordBatch:
    """Return a numbered block as a batch."""
    return pa.record_batch([pa.array([number], pa.int32()), pa.array([cells])], schema=HANDED_IN)


_BATCH_ROWS = 32_768  # rows of a batch of synthetic rows


def sample_spark(
    model: Synthesizer,
    session: SparkSession,
    n: int | None = None,
    *,
    missing_values: MissingValues = "fill",
    random_state: int | None = None,
    missing_as: MissingForm = "nulls",
) -> DataFrame:
    """Draw synthetic rows as a Spark data frame, by the executors and at no privacy cost.

    Use it for more rows than fit on one machine. Rows are drawn when Spark computes the frame.

    Parameters
    ----------
    model : Synthesizer
        A fitted or loaded model. It has released values only, and is sent to the executors, which
        need this version of this package.
    session : pyspark.sql.SparkSession
        The session.
    n : int, optional
        Number of rows, at least 0. By default the released number of rows of the model.
    missing_values : {"fill", "keep"}, default "fill"
        Treatment of missing cells in synthetic rows, as in :meth:`missdp.synth.Synthesizer.sample`.
        ``"fill"`` gives each of them a value, and ``"keep"`` leaves them missing.
    random_state : int, optional
        Seed, at least 0. By default the seed of the model, or 128 bits from the operating system,
        drawn once. Every computation of the frame has equal rows.
    missing_as : {"nulls", "codes"}, default "nulls"
        Output of cells without a value: null, or the declared code of their kind of missing.

    Returns
    -------
    pyspark.sql.DataFrame
        Released synthetic rows with the columns of the schema. They follow from released values
        alone. Types depend on the schema alone.

    Raises
    ------
    ParameterError
        If ``n`` is not a whole number of at least 0, or another argument is not valid.
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    Post-processing of the released model: no privacy cost.

    Examples
    --------
    >>> from missdp.synth import load
    >>> from missdp.engines import sample_spark
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> spark = SparkSession.builder.getOrCreate()  # doctest: +SKIP
    >>> rows = sample_spark(load("model.json"), spark, 10**9)  # doctest: +SKIP
    >>> rows.write.parquet("s3a://bucket/synthetic")  # doctest: +SKIP
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    check_missing_form(missing_as)
    next(
        model.sample_blocks(0, missing_values=missing_values)
    )  # raises the errors of sampling early
    if n is not None and not (is_integer(n) and n >= 0):
        raise ParameterError("n must be a whole number of rows, at least 0")
    rng = sampling_generator(model.random_state if random_state is None else random_state)
    rows = model.n_rows_ if n is None else int(n)
    together = model.draws_together
    sizes = [rows] if together else block_sizes(rows, len(model.schema_))
    sent = copy.copy(model)
    sent.budget = sent.progress = None

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                fresh = _child(rng, number) if len(sizes) > 1 else copy.deepcopy(rng)
                drawn = sent.sample_block(missing_values, sizes[number], fresh)
                first = 1 + sum(sizes[:number])
                yield from drawn.to_arrow(missing_as=missing_as, first_key=first).to_batches(
                    _BATCH_ROWS
                )

    plain = (
        model.sample_table(0, missing_values=missing_values).to_arrow(missing_as=missing_as).schema
    )
    blocks = session.range(0, len(sizes), 1, numPartitions=len(sizes))
    return blocks.mapInArrow(run, from_arrow_schema(plain))


def _child(rng: np.random.Generator, number: int) -> np.random.Generator:
    """Return the spawned generator with index ``number``, without spawning those before it."""
    parent: Any = rng.bit_generator.seed_seq
    key = (*parent.spawn_key, number)
    seed = np.random.SeedSequence(parent.entropy, spawn_key=key, pool_size=parent.pool_size)
    return np.random.Generator(type(rng.bit_generator)(seed))
