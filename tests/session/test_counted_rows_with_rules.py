"""The session with kinds and rules: counts of sensitivity one, of any source, filled row by row."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.accounting import Filter
from missdp.schema import Always
from missdp.schema.modelled import ModelView
from missdp.session import CountedRows, Marginal, MissingKinds, Noise, Session
from missdp.sources import DuckDBSource, MemorySource, strategy_named
from missdp.synth.noisy_counts import row_count
from missdp.testing import RULED, RecordingNoise, ReplayedNoise
from missdp.testing.example_tables import _appended, _read_again
from session.fillings import filling

MODELLED = ModelView(RULED)
cells = st.tuples(*(st.integers(0, a.extended_size - 1) for a in RULED))
tables = st.lists(cells, max_size=10)


def table_of(rows):
    """Rows of any cells, which break rules and have all kinds of missing cells."""
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(RULED)).T
    codes = dict(zip(RULED.names, columns, strict=True))
    return Table.from_codes(RULED, codes).with_values(np.random.default_rng(len(rows)))


@st.composite
def neighbours(draw):
    """Draw two tables that differ by one row. In half of the pairs, this row has a missing cell."""
    rows, row = draw(tables), list(draw(cells))
    if draw(st.booleans()):
        place = RULED.names.index(draw(st.sampled_from(RULED.nullable)))
        attribute = RULED.attributes[place]
        row[place] = draw(st.integers(attribute.missing_code, attribute.extended_size - 1))
    raw = table_of(rows)
    more = _appended(raw, {n: np.array([c]) for n, c in zip(RULED.names, row, strict=True)})
    return _read_again(raw), _read_again(more)


def session(table, missing, noise=None):
    budget = Filter(1e6)
    source = MemorySource(table) if isinstance(table, Table) else table
    return Session(
        CountedRows.from_source(source, strategy_named(missing)),
        budget=budget,
        noise=noise or RecordingNoise(0),
    )


CLIQUES = [(), ("stunden",), ("arbeit", "stunden"), ("alter", "erste stelle"), ("wohnt", "stufe")]
LOUD = Noise("laplace", 10.0)


def even(session):
    return {a.name: np.full(a.size, 1 / a.size) for a in session.facts.schema if a.nullable}


def asked(table, missing, noise):
    """Everything that a family may ask, under one strategy."""
    found = session(table, missing, noise)
    with noise:
        row_count(found, LOUD)
        for name in MODELLED.kinds:
            found.measure(MissingKinds(name), LOUD)
        for clique in CLIQUES:
            found.measure(Marginal(clique), LOUD)
        if found.facts.strategy.fills:
            filled = found.apply(filling(found, even(found)))
            for clique in CLIQUES:
                filled.measure(Marginal(clique), LOUD)


@settings(max_examples=25, deadline=None)
@given(neighbours(), st.sampled_from(("joint", "observed", "complete-rows", "impute-first")))
def test_one_row_moves_every_count_by_one_at_most(pair, missing):
    table, more = pair
    kept = RecordingNoise(0)
    asked(table, missing, kept)
    again = ReplayedNoise(kept)
    asked(more, missing, again)
    for one, two in zip(kept.answers, again.answers, strict=True):
        moved = np.abs(np.subtract(one.exact, two.exact))
        assert moved.sum() <= 1, one.event.label
        assert one.event.sensitivity == 1


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(tables, st.integers(1, 4))
def test_streams_count_as_memory_does_in_any_batches(rows, size):
    cells = table_of(rows).to_arrow(missing_as="codes")

    class Batched(DuckDBSource):
        def _batches(self, names):
            for batch in super()._batches(names):
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)

    streamed, kept = Batched(duckdb.connect().from_arrow(cells), RULED, n_jobs=1), []
    for source in (Table.read(cells, RULED), streamed):
        kept.append(RecordingNoise(0))
        for missing in ("joint", "observed"):
            asked(source, missing, kept[-1])
    for one, two in zip(*(each.answers for each in kept), strict=True):
        np.testing.assert_array_equal(one.exact, two.exact, strict=True)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(neighbours())
def test_rows_are_filled_one_by_one(pair):
    """A row more changes no other filled row, n/a included."""
    filled = []
    for table in pair:
        kept = RecordingNoise(0)  # whose generators draw alike for rows that are in both tables
        opened = session(table, "impute-first", kept)
        filled.append(opened.apply(filling(opened, even(opened)))._rows.counts.codes())
    for name in MODELLED.schema.names:
        assert np.array_equal(filled[0][name], filled[1][name][:-1])
        assert (filled[1][name] < MODELLED.schema[name].size).all()


WHOLE = {"lower": 0, "bins": 5, "integer": True, "nullable": True}
MOST = {"x": 9, "y": 9, "z": 18}
SOLVED = Schema(
    (
        *(Numeric(name=name, upper=most, **WHOLE) for name, most in MOST.items()),
        Categorical(name="w", levels=("a", "b"), nullable=True),
    ),
    (Always("z = x + y"),),
)


@pytest.mark.parametrize("missing", ["observed", "complete-rows"])
def test_required_attributes_omit_cells_that_rules_fill(missing):
    """All cells of x were masked, and follow from y and z: rows are read all the same."""
    frame = pd.DataFrame({"x": None, "y": [3.0, 4.0] * 30, "z": [5.0, 9.0] * 30, "w": "a"})
    rows, kept = Table.read(frame, SOLVED), RecordingNoise(0)
    budget = Filter(1e3, 1e-5, measure="zcdp")
    found = Session(
        CountedRows.from_source(MemorySource(rows), strategy_named(missing)),
        budget=budget,
        noise=kept,
    )
    assert found.measure(Marginal(("x",)), Noise("gaussian", 0.1)).value.sum() > 30
    required_sets = [event.required for event in budget.events]
    assert required_sets == [None if missing == "observed" else {"w"}]
