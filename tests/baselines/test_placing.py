"""No two placed rows violate a hard denial constraint, whatever it is and whatever was drawn."""

import dataclasses
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.baselines.placing import _without_conflicts, placed
from missdp.errors import DataError
from missdp.evaluate import marginal_distance, pair_violations, rule_violations
from missdp.schema import Denial, Determined, Impossible, NotApplicable, read_denials
from missdp.sources.partners import violates_itself
from missdp.testing.made_up import made_up
from refusing import refuses
from sources.pair_cases import SCHEMA, denials, made, partners, tables

DATA = Path(__file__).parents[3] / "shared" / "data"


def under(table, *rules):
    columns = {name: table.column(name) for name in table.schema.names}
    return Table(Schema(table.schema.attributes, rules), columns)


def broken(denials, table):
    return sum(int(partners(denial, table).sum()) for denial in denials)


@settings(max_examples=60)
@given(st.lists(denials(), min_size=1, max_size=3), tables(), st.integers(0, 2**32))
def test_no_two_placed_rows_violate_anything(hard, table, seed):
    rng = np.random.default_rng(seed)
    found = None
    with suppress(DataError):
        found = placed(table, hard, rng)
    if found is None:  # only what no two equal rows may have can leave rows over
        assert any(violates_itself(denial, table).any() for denial in hard)
        return
    assert broken(hard, found) == 0
    assert len(found) == len(table)
    touched = {name for denial in hard for name in denial.names}
    for name in {*SCHEMA.names} - touched:
        assert np.array_equal(found.codes(name), table.codes(name))
    if broken(hard, table) == 0:
        assert found is table


@settings(max_examples=40)
@given(st.lists(denials(), min_size=1, max_size=3), tables(), st.integers(0, 2**32))
def test_rows_that_are_kept_conflict_with_no_other(hard, table, seed):
    kept = _without_conflicts(hard, table, np.random.default_rng(seed))
    assert broken(hard, table.take(kept)) == 0
    for row in np.flatnonzero(~kept)[:5]:  # none was left out without a reason
        more = kept.copy()
        more[row] = True
        assert broken(hard, table.take(more)) > 0


def test_the_majority_is_kept():
    text = "t1&t2&EQ(t1.o,t2.o)&IQ(t1.c,t2.c)"
    schema = Schema((SCHEMA["o"], SCHEMA["c"]), (Denial(text),))
    codes = {"o": [0] * 100 + [1] * 50, "c": [0] * 70 + [1] * 30 + [0] * 10 + [1] * 40}
    table = Table.from_codes(schema, codes)
    kept = _without_conflicts(schema.rulebook.pairs, table, np.random.default_rng(0))
    assert kept.sum() == 70 + 40
    found = placed(table, schema.rulebook.pairs, np.random.default_rng(0))
    assert found.codes("c").tolist() == [0] * 100 + [1] * 50
    assert found.codes("o").tolist() == codes["o"]


def test_dependencies_that_follow_on_each_other_are_settled_in_their_order():
    """The second one is written first; a numeric attribute gets one exact value."""
    levels = tuple("abcdef")
    schema = Schema(
        (
            Categorical(name="zip", levels=levels),
            Ordinal(name="city", levels=levels, nullable=True),
            Numeric(name="tax", lower=0, upper=1, bins=3),
        ),
        (
            Denial("t1&t2&EQ(t1.city,t2.city)&IQ(t1.tax,t2.tax)"),
            Denial("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"),
        ),
    )
    table = made_up(schema, 500, 3)
    found = placed(table, schema.rulebook.pairs, np.random.default_rng(1))
    assert not any(pair_violations(found).pairs.values())
    assert np.array_equal(found.mask("city"), table.mask("city"))
    seen = ~found.mask("city")
    assert 3 <= len(np.unique(found.values("tax")[seen])) <= 6
    assert set(found.values("tax").tolist()) <= set(table.values("tax").tolist())


def test_orders_are_kept_by_moving_values_within_groups():
    text = "t1&t2&EQ(t1.c,t2.c)&LT(t1.o,t2.o)&GT(t1.x,t2.x)"
    table = under(made(4000, 5, values=10, holes=0.2), Denial(text))
    found = placed(
        table, table.schema.rulebook.pairs, np.random.default_rng(0), order=("c", "o", "x")
    )
    assert pair_violations(found).pairs[text] == 0
    for name in ("c", "o"):
        assert np.array_equal(found.codes(name), table.codes(name))
    assert np.array_equal(np.sort(found.values("x")), np.sort(table.values("x")))
    assert np.array_equal(found.mask("x"), table.mask("x"))


def test_a_key_that_is_too_small_is_refused_and_one_that_is_not_is_found():
    schema = Schema(
        (Numeric(name="id", lower=0, upper=999, integer=True, bins=5), SCHEMA["c"]),
        (Denial("t1&t2&EQ(t1.id,t2.id)"),),
    )

    def redraw(rows, names, rng):
        return made_up(schema, len(rows), int(rng.integers(2**32))) if names == ("id",) else rows

    rng = np.random.default_rng(0)
    found = placed(made_up(schema, 300, 0), schema.rulebook.pairs, rng, redraw=redraw)
    assert len(np.unique(found.values("id"))) == 300
    with refuses(DataError, r"only \d+ of 3000 synthetic rows can be placed.*EQ") as caught:
        placed(made_up(schema, 3000, 0), schema.rulebook.pairs, rng, redraw=redraw)
    number = int(str(caught.value).split()[1])
    assert 600 < number <= 1000


def test_rules_of_single_rows_go_on_holding():
    """What a constraint changes may be what another attribute follows from, or is ruled out by."""
    schema = Schema(
        (
            Ordinal(name="stufe", levels=("a", "b", "c", "d")),
            Numeric(name="jahre", lower=0, upper=20, integer=True, bins=4),
            Numeric(name="lohn", lower=0, upper=100, bins=5, nullable=True),
            Categorical(name="ort", levels=("x", "y", "z"), nullable=True),
            Categorical(name="amt", levels=("p", "q", "r")),
        ),
        (
            Determined("jahre", by="stufe", map=(("a", 4), ("b", 9), ("c", 13), ("d", 17))),
            NotApplicable("lohn", unless="stufe != 'a'"),
            Impossible("amt = 'p' and stufe = 'd'"),
            Denial("t1&t2&EQ(t1.ort,t2.ort)&IQ(t1.amt,t2.amt)"),
            Denial("t1&t2&LT(t1.jahre,t2.jahre)&GT(t1.lohn,t2.lohn)"),
            Denial("t1&t2&EQ(t1.amt,t2.amt)&IQ(t1.stufe,t2.stufe)&EQ(t1.ort,'z')"),
        ),
    )
    for seed in range(3):
        table = made_up(schema, 400, seed)
        table = table.take(~_breaks(table))
        found = placed(table, schema.rulebook.pairs, np.random.default_rng(seed))
        assert not any(pair_violations(found).pairs.values())
        assert broken(schema.rulebook.pairs, found) == 0
        assert rule_violations(found).broken_rows == 0
        assert len(np.unique(found.values("lohn"))) > 20  # it is no copy of one row


def _breaks(table):
    from missdp.synth.sampling import followed

    return followed(table)[1]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the files are not here")
def test_adult_is_placed_and_its_margins_hardly_move():
    from _data import schema

    from missdp import AllPairs

    attributes = tuple(
        dataclasses.replace(a, spikes=(0,)) if a.name.startswith("capital") else a
        for a in schema("adult")
    )
    facts = Schema(attributes, read_denials(DATA / "adult" / "denial_constraints.txt"))
    rows = Table.read(DATA / "adult" / "mcar_0.2.parquet", facts)
    drawn = AllPairs(epsilon=1.0, missing="observed", random_state=0).fit(rows).sample_table()
    assert all(pair_violations(drawn).pairs.values())
    start = time.process_time()
    found = placed(drawn, facts.rulebook.pairs, np.random.default_rng(0))
    assert time.process_time() - start < 5
    assert not any(pair_violations(found).pairs.values())
    truth = Table.read(DATA / "adult" / "truth.parquet", facts)
    for k, more in ((1, 0.0005), (2, 0.001)):
        before, after = (marginal_distance(truth, t, k=k).mean for t in (drawn, found))
        assert after < before + more
