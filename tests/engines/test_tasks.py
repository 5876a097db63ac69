"""What a task does with its share of the rows, without an engine."""

import itertools
import pickle

import numpy as np
import pyarrow as pa

from missdp import Categorical, Numeric, Schema, Table
from missdp.engines.spark import _add_up
from missdp.engines.spark_tasks import CountTask, merged
from missdp.errors import DataError
from missdp.sources import MemorySource
from missdp.sources.counts import Counter
from missdp.testing import RULED, made_up
from missdp.testing.made_up import unread
from refusing import refuses

PAIRS = [("arbeit", "stunden"), ("größe",), ()]


def task(cliques=PAIRS, schema=RULED, **more):
    names = schema.names
    return CountTask(schema=schema, names=names, counter=Counter(schema, cliques), **more)


def batches(table, rows=7):
    return table.to_arrow(holes="codes").to_batches(rows)


def handed_in(records):
    return pa.Table.from_batches(list(records))


def test_partial_counts_of_any_number_of_tasks_add_up():
    table = made_up(RULED, 100, seed=2)
    wanted = MemorySource(Table.read(table.to_arrow(holes="codes"), RULED))
    for cuts in ([100], [40, 60], [0, 99, 1], [4] * 25):
        run, ends = task(), np.cumsum([0, *cuts])
        parts = [table.take(np.arange(*pair)) for pair in itertools.pairwise(ends)]
        out = [batch for part in parts for batch in run(batches(part))]
        counter = Counter(RULED, PAIRS)
        _add_up(handed_in(merged(out)), counter)
        found = counter.result("extended")
        for clique, counts in wanted.counts(PAIRS, rows="extended").items():
            np.testing.assert_array_equal(found[clique], counts)


def test_a_task_starts_from_nothing_whenever_and_wherever_it_runs():
    table, run = made_up(RULED, 50), task()
    first = handed_in(run(batches(table)))
    for again in (run, pickle.loads(pickle.dumps(run))):
        assert handed_in(again(batches(table))).equals(first)
    counter = Counter(RULED, PAIRS)
    counter.add({n: table.codes(n) for n in RULED.names}, 50)
    for known, there in ((counter, True), (pickle.loads(pickle.dumps(counter)), False)):
        assert any(block.any() for _, block in known.blocks()) == there


def test_large_vectors_come_in_blocks():
    schema = Schema(tuple(Numeric(name=n, lower=0, upper=1, bins=500) for n in "ab"))
    counter = Counter(schema, [("a", "b")])
    sizes = [block.size for _, block in counter.blocks()]
    assert sizes == [2**17, 250_000 - 2**17]
    run = CountTask(schema=schema, names=("a", "b"), counter=counter)
    table = unread(schema, 300)
    _add_up(handed_in(run(batches(table))), counter)
    wanted = MemorySource(table).counts([("a", "b")], rows="observed")["a", "b"]
    np.testing.assert_array_equal(counter.result("observed")["a", "b"], wanted)


STRICT = Schema(
    (Categorical(name="a", levels=("u", "v")), Numeric(name="b", lower=0, upper=1, nullable=True))
)


def refused(*parts):
    run = CountTask(schema=STRICT, names=("a", "b"), counter=Counter(STRICT, [("a",)]))
    out = [batch for a, b in parts for batch in run([pa.record_batch({"a": a, "b": b})])]
    with refuses(DataError) as caught:
        _add_up(handed_in(merged(out)), Counter(STRICT, [("a",)]))
    return str(caught.value)


def test_what_is_refused_does_not_depend_on_how_rows_are_cut():
    good, level, null, number = (["u"], [0.5]), (["SECRET"], [0.5]), ([None], [0.5]), (["u"], [7.0])
    both = refused((["u", "SECRET", None], [0.5, 0.5, 7.0]))
    for parts in ((level, number, null), (good, null, level, number), (null, number, level)):
        assert refused(*parts) == both
    whole = pa.table({"a": ["u", "SECRET", None], "b": [0.5, 0.5, 7.0]})
    with refuses(DataError) as caught:
        Table.read(whole, STRICT)
    assert str(caught.value) == both
    assert "missing cells" in refused(good, null, number)
    assert "'b'" in refused(good, number)


def test_a_task_that_cannot_go_on_quotes_nothing():
    def breaking():
        yield pa.record_batch({"a": ["u"], "b": [0.5]})
        raise ValueError("SECRET")

    run = CountTask(schema=STRICT, names=("a", "b"), counter=Counter(STRICT, [("a",)]))
    with refuses(DataError, "could not count"):
        list(run(breaking()))


def test_rows_with_holes_are_left_out_by_their_own_cells():
    table = made_up(RULED, 80, seed=4)
    run = task(observed=("arbeit", "größe"))
    counter = Counter(RULED, PAIRS)
    _add_up(handed_in(run(batches(table))), counter)
    read = Table.read(table.to_arrow(holes="codes"), RULED)
    whole = read.take(~(read.mask("arbeit") | read.mask("größe")))
    found = counter.result("extended")
    for clique, counts in MemorySource(whole).counts(PAIRS, rows="extended").items():
        np.testing.assert_array_equal(found[clique], counts)
