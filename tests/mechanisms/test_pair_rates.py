"""Rates of pairs that violate a denial constraint: what one row moves, and what comes out."""

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.witness import door_to
from missdp import Categorical, Ordinal, Schema, Table
from missdp.accounting import Cost, GaussianEvent, LaplaceEvent
from missdp.errors import BudgetExceededError, CheckFailedError, DataError, ParameterError
from missdp.mechanisms import Noise
from missdp.mechanisms.queries import ViolatingPairs
from missdp.schema import Denial, NotApplicable
from missdp.sources import DuckDBSource
from missdp.table.encode import Column
from missdp.testing import check_sensitivity, neighbours
from sources.pair_cases import SCHEMA as PLAIN
from sources.pair_cases import denials, made, partners, tables

COST = Cost(currency="gdp", amount=0.25)
ORDERS = "t1&t2&LT(t1.x,t2.x)&GT(t1.y,t2.y)"
CITY = "t1&t2&EQ(t1.o,t2.o)&IQ(t1.c,t2.c)&GTE(t1.y,2)"
SCHEMA = Schema(PLAIN.attributes, (Denial(ORDERS, holds="mostly"), Denial(CITY, holds="mostly")))
STRATEGIES = ("joint", "observed", "complete-rows", "impute-first")


def under(table, *rules):
    return Table(
        Schema(table.schema.attributes, rules), {n: table.column(n) for n in table.schema.names}
    )


def without(table, row):
    return table.take(np.arange(len(table)) != row)


@settings(max_examples=70, deadline=None)
@given(denials(), tables(), st.integers(0, 24), st.booleans(), st.sampled_from([1, 2]))
def test_one_row_moves_the_numbers_by_no_more_than_was_charged_for(denial, table, row, holes, norm):
    if not len(table):
        return
    row %= len(table)
    if holes:  # the row that is there or not has holes of its own
        some = {a.name: np.arange(len(table)) == row for a in PLAIN if a.name in denial.names[:1]}
        table = table.with_missing(some)
    query = ViolatingPairs(denial)
    moved = [int(x) for x in query.numbers(table) - query.numbers(without(table, row))]
    # In whole numbers: nothing is rounded.
    assert sum(abs(x) ** norm for x in moved) <= query.moves(norm) ** norm
    if holes:
        assert moved == [0, 0]


def test_the_bound_is_reached():
    """One row that violates it with all others: the test above has power."""
    schema = Schema((Ordinal(name="o", levels=("a", "b")),), (Denial("t1&t2&IQ(t1.o,t2.o)"),))
    (denial,) = schema.rulebook.pairs
    table = Table.from_codes(schema, {"o": [0] * 50 + [1]})
    query = ViolatingPairs(denial)
    moved = float(np.hypot(*(query.numbers(table) - query.numbers(without(table, 50)))))
    assert 0.999 < moved / (bound := query.moves(2)) <= 1
    # Were it divided by the number of rows less two, say, it would be too much.
    assert bound**2 - (1024**2 + 256**2) < 2 * bound


@pytest.mark.parametrize("missing", STRATEGIES)
def test_it_is_charged_what_it_reads_and_gated_like_a_marginal(missing):
    table = under(made(400, 1, values=10, holes=0.3), *SCHEMA.rules)
    witness, door = door_to(table, missing)
    for denial in door.denials:
        found = door.pair_rate(denial, COST)
        event, exact = witness.event, witness.exact.tolist()
        assert (type(event), event.sensitivity) == (GaussianEvent, 1056)
        assert event.sigma == witness.law.scale == pytest.approx(1056 / 0.5)
        door.marginal(denial.names, Noise("gaussian", 1000.0))
        assert event.gate == witness.event.gate
        rows = table
        if missing == "complete-rows":
            rows = table.take(~table.incomplete_rows())
        for name in denial.names:
            rows = rows.take(~rows.mask(name))
        wanted = partners(denial, rows).sum() / 2 / (len(rows) - 1)
        assert exact == [int(1024 * wanted + 1e-9), 256 * len(rows)]
        assert found.partners_std == pytest.approx(2 * 1056 / 1024)
        assert found.std == pytest.approx(2 * found.partners_std / found.rows)
    witness, door = door_to(table, missing, cost=Cost(currency="pure", amount=1.0))
    found = door.pair_rate(door.denials[0], Cost(currency="pure", amount=0.5))
    assert (type(witness.event), witness.event.sensitivity) == (LaplaceEvent, 1280)
    assert found.partners_std == pytest.approx(2 * 2**0.5 * 1280 / 1024)
    assert 0 <= found.rate <= 1


def test_holes_that_were_filled_and_levels_that_were_merged_are_not_looked_at():
    table = under(made(300, 2, values=10, holes=0.3), *SCHEMA.rules)
    witness, door = door_to(table, "impute-first")
    denial = door.denials[0]
    door.pair_rate(denial, COST)
    before = witness.exact
    filled = door.filled({a.name: np.ones(door.sizes[a.name]) for a in door.schema})
    for other in (filled, filled.merged({a.name: np.zeros(a.size, int) for a in filled.schema})):
        other.pair_rate(denial, COST)
        assert witness.exact.tolist() == before.tolist()
        assert witness.event.gate is None  # every row is filled, so nothing is gated


@pytest.mark.parametrize("missing", STRATEGIES)
def test_the_kit_finds_nothing_and_finds_a_smaller_bound(missing, monkeypatch):
    rules = (*SCHEMA.rules, NotApplicable("x", unless="c = 'u'"))
    schema = Schema(PLAIN.attributes, rules)

    def run(witness, table):
        _, door = door_to(table, missing, noise=witness)
        for denial in door.denials:
            door.pair_rate(denial, COST)
        return door._budget

    pairs = list(neighbours(schema, 60, 0))
    report = check_sensitivity(run, pairs=pairs)
    assert report.passed
    assert not report.unchecked
    if missing == "complete-rows":  # hardly any row is complete here
        return
    monkeypatch.setattr(ViolatingPairs, "moves", lambda _, norm: 300)
    with pytest.raises(CheckFailedError, match="one row moves"):
        check_sensitivity(run, pairs=pairs)


def test_refusals_are_typed_and_come_before_the_charge():
    _, door = door_to(under(made(40, 3, values=10, holes=0.2), *SCHEMA.rules), "observed")
    (own, _), other = door.denials, Denial(ORDERS).pair(PLAIN)
    few = Schema((Categorical(name="a", levels=("x", "y")),), (Denial("t1&t2&EQ(t1.a,t2.a)"),))
    source = DuckDBSource(duckdb.sql("select 'x' as a"), few)
    _, streamed = door_to(source, "observed")
    many = tuple(Categorical(name=n, levels=("x", "y")) for n in "abcdef")
    text = "t1&t2&" + "&".join(f"IQ(t1.{n},t2.{n})" for n in "abcdef")
    narrow = Schema(many, (Denial(text),))
    _, wide = door_to(Table.from_codes(narrow, {a.name: [0] for a in many}), "observed")
    for asked, denial, words in (
        (door, other, "own denial constraints"),
        (streamed, streamed.denials[0], "these rows are streamed"),
        (wide, wide.denials[0], "at most 5 comparisons"),
    ):
        with pytest.raises(ParameterError, match=words):
            asked.pair_rate(denial, COST)
        assert asked._budget.events == ()
    with pytest.raises(BudgetExceededError):
        door.pair_rate(own, Cost(currency="gdp", amount=9.0))


@pytest.mark.parametrize("rows", [0, 1, 2, 40])
@pytest.mark.parametrize("holes", [0.0, 1.0])
def test_that_there_are_bins_only_is_said_before_the_charge_however_many_rows_there_are(
    rows, holes
):
    """An error from two rows on would tell of the second one."""
    table = under(made(rows, 3, values=10, holes=holes), *SCHEMA.rules)
    bins = Table(table.schema, {n: Column(table.codes(n)) for n in table.schema.names})
    _, door = door_to(bins, "observed")
    with pytest.raises(DataError, match="no numeric values"):
        door.pair_rate(door.denials[0], COST)
    assert door._budget.events == ()
