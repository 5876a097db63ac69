"""Synthetic rows drawn by the tasks of Spark, from a released model.

The rows are those that the same seed gives in memory, block by block: each task draws blocks, each
from a stream of random numbers of its own, so a task that is run again draws the same rows again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from missdp.errors import ParameterError
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.sampling import block_sizes
from missdp.synth.state import is_whole, sampling_generator
from missdp.table import Holes, check_holes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_BATCH_ROWS = 32_768


def sample_spark(
    model: Synthesizer,
    session: SparkSession,
    n: int | None = None,
    *,
    missing_values: MissingValues = "fill",
    random_state: int | None = None,
    holes: Holes = "nulls",
) -> DataFrame:
    """Return synthetic rows as a Spark data frame, drawn where it is computed; costs no privacy.

    Parameters
    ----------
    model : Synthesizer
        Fitted, or loaded. It holds released values only, and goes to the executors, which need
        this package, in this version.
    session : pyspark.sql.SparkSession
    n, missing_values, random_state, holes
        See :meth:`missdp.synth.Synthesizer.sample`. Without a seed, one of 128 bits is drawn now
        from the operating system, so that the frame has the same rows whenever it is computed.

    Returns
    -------
    pyspark.sql.DataFrame
        With the schema's columns; the types depend on the schema alone.

    Raises
    ------
    ParameterError, NotFittedError
        As of :meth:`missdp.synth.Synthesizer.sample`.

    Examples
    --------
    >>> from missdp.engines import sample_spark
    >>> from missdp.synth import load
    >>> rows = sample_spark(load("model.json"), spark, 10**9)  # doctest: +SKIP
    >>> rows.write.parquet("s3a://bucket/synthetic")  # doctest: +SKIP
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    check_holes(holes)
    next(model.sample_blocks(0, missing_values=missing_values))  # refuses what sampling would
    if n is not None and not (is_whole(n) and n >= 0):
        raise ParameterError("n must be a whole number of rows, at least 0")
    rng = sampling_generator(model.random_state if random_state is None else random_state)
    rows = model.n_rows_ if n is None else int(n)
    together = model.draws_together(model.schema_)
    sizes = [rows] if together else block_sizes(rows, len(model.schema_))
    sent = copy.copy(model)
    sent.budget = sent.progress = None

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                fresh = _child(rng, number) if len(sizes) > 1 else copy.deepcopy(rng)
                drawn = sent._block(missing_values, sizes[number], fresh)
                first = 1 + sum(sizes[:number])
                yield from drawn.to_arrow(holes=holes, first_key=first).to_batches(_BATCH_ROWS)

    plain = model.sample_table(0, missing_values=missing_values).to_arrow(holes=holes).schema
    blocks = session.range(0, len(sizes), 1, numPartitions=len(sizes))
    return blocks.mapInArrow(run, from_arrow_schema(plain))


def _child(rng: np.random.Generator, number: int) -> np.random.Generator:
    """Return the generator that is spawned as the one of that number, without those before it."""
    parent: Any = rng.bit_generator.seed_seq
    key = (*parent.spawn_key, number)
    seed = np.random.SeedSequence(parent.entropy, spawn_key=key, pool_size=parent.pool_size)
    return np.random.Generator(type(rng.bit_generator)(seed))
