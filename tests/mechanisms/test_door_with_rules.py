"""The door with kinds and rules: counts of sensitivity one, of any source, filled row by row."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.accounting import Budget, Cost
from missdp.inference.conditionals import fit_conditionals
from missdp.mechanisms import Door, Noise, Training
from missdp.schema import Denial, Equation
from missdp.sources import DuckDBSource, MemorySource, strategy_named
from missdp.sources.modelled import Modelled
from missdp.testing import RULED, Recorder, Repeater
from missdp.testing.made_up import _appended, _read_again

MODELLED = Modelled(RULED)
cells = st.tuples(*(st.integers(0, a.extended_size - 1) for a in RULED))
tables = st.lists(cells, max_size=10)


def table_of(rows):
    """Rows of any cells: they break rules, have any kind of hole, are n/a where they apply."""
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(RULED)).T
    codes = dict(zip(RULED.names, columns, strict=True))
    return Table.from_codes(RULED, codes).with_values(np.random.default_rng(len(rows)))


@st.composite
def neighbours(draw):
    """Two tables of which one has a row more; in half of the pairs it has a hole."""
    rows, row = draw(tables), list(draw(cells))
    if draw(st.booleans()):
        place = RULED.names.index(draw(st.sampled_from(RULED.nullable)))
        attribute = RULED.attributes[place]
        row[place] = draw(st.integers(attribute.missing_code, attribute.extended_size - 1))
    raw = table_of(rows)
    more = _appended(raw, {n: np.array([c]) for n, c in zip(RULED.names, row, strict=True)})
    return _read_again(raw), _read_again(more)


def door(table, missing, witness=None):
    budget = Budget(1e6, schedule="adaptive")
    source = MemorySource(table) if isinstance(table, Table) else table
    return Door(source, strategy_named(missing), budget=budget, noise=witness or Recorder(0))


CLIQUES = [(), ("stunden",), ("arbeit", "stunden"), ("alter", "erste stelle"), ("wohnt", "stufe")]
LOUD = Noise("laplace", 10.0)


def even(door):
    return {a.name: np.full(a.size, 1 / a.size) for a in door.schema if a.nullable}


def asked(table, missing, witness):
    """Everything that a family may ask, under one strategy."""
    found = door(table, missing, witness)
    found.row_count(LOUD)
    for name in MODELLED.kinds:
        found.kinds(name, LOUD)
    for clique in CLIQUES:
        found.marginal(clique, LOUD)
    if found.strategy.fills:
        filled = found.filled(even(found))
        for clique in CLIQUES:
            filled.marginal(clique, LOUD)


@settings(max_examples=25, deadline=None)
@given(neighbours(), st.sampled_from(("joint", "observed", "complete-rows", "impute-first")))
def test_one_row_moves_every_count_by_one_at_most(pair, missing):
    table, more = pair
    kept = Recorder(0)
    asked(table, missing, kept)
    again = Repeater(kept)
    asked(more, missing, again)
    for one, two in zip(kept.kept, again.kept, strict=True):
        moved = np.abs(np.subtract(one.exact, two.exact))
        assert moved.sum() <= 1, one.event.label
        assert one.event.sensitivity == 1


@settings(max_examples=12, deadline=None)
@given(tables, st.integers(1, 4))
def test_streams_count_as_memory_does_in_any_batches(rows, size):
    cells = table_of(rows).to_arrow(holes="codes")

    class Batched(DuckDBSource):
        def _batches(self, names):
            for batch in super()._batches(names):
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)

    streamed, kept = Batched(duckdb.connect().from_arrow(cells), RULED, n_jobs=1), []
    for source in (Table.read(cells, RULED), streamed):
        kept.append(Recorder(0))
        for missing in ("joint", "observed"):
            asked(source, missing, kept[-1])
    for one, two in zip(*(each.kept for each in kept), strict=True):
        np.testing.assert_array_equal(one.exact, two.exact, strict=True)


def given_all():
    rng, sizes = np.random.default_rng(0), [a.size for a in MODELLED.schema]
    return fit_conditionals(np.stack([rng.integers(0, s, 500) for s in sizes], axis=1), sizes)


@settings(max_examples=25, deadline=None)
@given(neighbours(), st.booleans())
def test_rows_are_filled_one_by_one(pair, alone):
    """A row more changes no other filled row, n/a included, whether other cells are looked at."""
    filled = []
    for table in pair:
        kept = Recorder(0)  # whose generators draw alike for rows that are in both tables
        opened = door(table, "impute-first", kept)
        filled.append(opened.filled(even(opened) if alone else given_all())._rows.counts.codes())
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
    (Equation("z = x + y"), Denial("t1&t2&EQ(t1.w,t2.w)&LT(t1.x,t2.x)", holds="mostly")),
)


@pytest.mark.parametrize("missing", ["observed", "complete-rows"])
def test_no_gate_has_what_rules_may_fill_whatever_is_asked(missing):
    """All cells of x were masked, and follow from y and z: rows are read all the same."""
    frame = pd.DataFrame({"x": None, "y": [3.0, 4.0] * 30, "z": [5.0, 9.0] * 30, "w": "a"})
    rows, kept = Table.read(frame, SOLVED), Recorder(0)
    budget = Budget(1e3, 1e-5, schedule="adaptive", currency="zcdp")
    found = Door(MemorySource(rows), strategy_named(missing), budget=budget, noise=kept)
    plan = Training(rate=1.0, steps=1, clip=1.0, noise_multiplier=1.0)
    assert found.marginal(("x",), Noise("gaussian", 0.1)).sum() > 30
    assert found.train(plan, one, (), observed=("x", "w")).step()[0] > 30
    rate = found.pair_rate(found.denials[0], Cost(currency="zcdp", amount=100.0))
    assert rate.rate > 0.3
    gates = [event.gate for event in budget.events]
    alone = None if missing == "observed" else {"w"}
    assert gates == [alone, {"w"}, {"w"}]


def one(codes):
    return np.ones((len(codes["x"]), 1))
