"""No two placed rows violate a denial constraint, and single rows go on obeying their rules."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.constraint_cases import SCHEMA, conflicts, constraints, made, tables
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.baselines.denial_constraints import count_conflicts, read_constraints, violates_itself
from missdp.baselines.placing import _Placing, place_rows
from missdp.errors import DataError
from missdp.evaluate import rule_violations
from missdp.schema import Determined, Never, NotApplicable
from missdp.synth.sampling import enforce_rules
from missdp.testing.example_tables import example_table
from refusing import refuses


def placed(table, stated, *, seed=0, draw=None, order=None):
    rng = np.random.default_rng(seed)
    others = draw or (lambda n: table.take(rng.integers(0, len(table), n)))
    return place_rows(table, stated, rng, draw=others, order=order or table.schema.names)


def broken(stated, table):
    return sum(int(conflicts(constraint, table).sum()) for constraint in stated)


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(constraints(), min_size=1, max_size=3), tables(), st.integers(0, 2**32))
def test_no_two_placed_rows_violate_a_constraint(stated, table, seed):
    found = None
    with suppress(DataError):
        found = placed(table, stated, seed=seed)
    if found is None:  # rows are left over only where two equal rows violate a constraint
        assert any(violates_itself(constraint, table).any() for constraint in stated)
        return
    assert broken(stated, found) == 0
    assert len(found) == len(table)
    if broken(stated, table) == 0:
        assert found is table


@settings(max_examples=40)
@given(st.lists(constraints(), min_size=1, max_size=3), tables(), st.integers(0, 2**32))
def test_kept_rows_are_consistent_and_as_many_as_fit(stated, table, seed):
    kept = _Placing(tuple(stated), np.random.default_rng(seed), {}).consistent(table)
    assert broken(stated, table.take(kept)) == 0
    for row in np.flatnonzero(~kept)[:5]:  # each row that is left out conflicts with a kept row
        more = kept.copy()
        more[row] = True
        assert broken(stated, table.take(more)) > 0


def test_a_dependency_keeps_the_most_frequent_value():
    schema = Schema((SCHEMA["o"], SCHEMA["c"]))
    stated = read_constraints("t1&t2&EQ(t1.o,t2.o)&IQ(t1.c,t2.c)", schema)
    codes = {"o": [0] * 100 + [1] * 50, "c": [0] * 70 + [1] * 30 + [0] * 10 + [1] * 40}
    table = Table.from_codes(schema, codes)
    kept = _Placing(stated, np.random.default_rng(0), {}).consistent(table)
    assert kept.sum() == 70 + 40
    found = placed(table, stated)
    assert found.codes("c").tolist() == [0] * 100 + [1] * 50
    assert found.codes("o").tolist() == codes["o"]


def test_chained_dependencies_are_settled_in_drawing_order():
    """The second one is written first. A numeric attribute gets one exact value."""
    levels = tuple("abcdef")
    schema = Schema(
        (
            Categorical(name="zip", levels=levels),
            Ordinal(name="city", levels=levels, nullable=True),
            Numeric(name="tax", lower=0, upper=1, bins=3),
        )
    )
    stated = read_constraints(
        "t1&t2&EQ(t1.city,t2.city)&IQ(t1.tax,t2.tax); t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)",
        schema,
    )
    table = example_table(schema, 500, 3)
    found = placed(table, stated)
    assert broken(stated, found) == 0
    assert np.array_equal(found.mask("city"), table.mask("city"))
    seen = ~found.mask("city")
    assert 3 <= len(np.unique(found.values("tax")[seen])) <= 6
    assert set(found.values("tax").tolist()) <= set(table.values("tax").tolist())


def test_an_order_moves_values_within_groups():
    stated = read_constraints("t1&t2&EQ(t1.c,t2.c)&LT(t1.o,t2.o)&GT(t1.x,t2.x)", SCHEMA)
    table = made(4000, 5, values=10, holes=0.2)
    found = placed(table, stated, order=("c", "o", "x"))
    assert broken(stated, found) == 0
    for name in ("c", "o"):
        assert np.array_equal(found.codes(name), table.codes(name))
    assert np.array_equal(np.sort(found.values("x")), np.sort(table.values("x")))
    assert np.array_equal(found.mask("x"), table.mask("x"))


def test_a_key_is_drawn_until_it_fits_or_raises():
    schema = Schema(
        (Numeric(name="id", lower=0, upper=999, integer=True, bins=5), SCHEMA["c"]),
    )
    stated = read_constraints("t1&t2&EQ(t1.id,t2.id)", schema)
    seeds = iter(range(1, 1000))

    def draw(n):
        return example_table(schema, n, next(seeds))

    found = placed(example_table(schema, 300, 0), stated, draw=draw)
    assert len(np.unique(found.values("id"))) == 300
    with refuses(DataError, r"only \d+ of 3000 synthetic rows fit.*EQ") as caught:
        placed(example_table(schema, 3000, 0), stated, draw=draw)
    assert 600 < int(str(caught.value).split()[1]) <= 1000


STAFF = (
    Ordinal(name="stufe", levels=("a", "b", "c", "d")),
    Numeric(name="jahre", lower=0, upper=20, integer=True, bins=4),
    Numeric(name="lohn", lower=0, upper=100, bins=5, nullable=True),
    Categorical(name="ort", levels=("x", "y", "z"), nullable=True),
    Categorical(name="amt", levels=("p", "q", "r")),
)
RULES = (
    Determined("jahre", by="stufe", map=(("a", 4), ("b", 9), ("c", 13), ("d", 17))),
    NotApplicable("lohn", unless="stufe != 'a'"),
    Never("amt = 'p' and stufe = 'd'"),
)


@pytest.mark.parametrize("seed", range(3))
def test_rules_of_single_rows_go_on_holding(seed):
    """A changed attribute may determine another one, or rule it out."""
    table = example_table(Schema(STAFF, RULES), 400, seed)
    table = table.take(~enforce_rules(table)[1])
    stated = read_constraints(
        [
            "t1&t2&EQ(t1.ort,t2.ort)&IQ(t1.amt,t2.amt)",
            "t1&t2&LT(t1.jahre,t2.jahre)&GT(t1.lohn,t2.lohn)",
            "t1&t2&EQ(t1.amt,t2.amt)&IQ(t1.stufe,t2.stufe)&EQ(t1.ort,'z')",
        ],
        table.schema,
    )
    found = placed(table, stated, seed=seed)
    assert broken(stated, found) == 0
    assert rule_violations(found).broken_rows == 0
    assert len(np.unique(found.values("lohn"))) > 20  # it is no copy of one row


@pytest.mark.long
def test_hundred_thousand_rows_are_placed_without_a_conflict():
    """A functional dependency and an order constraint, as in docs/synthesizers.md."""
    schema = Schema(
        (
            Categorical(name="town", levels=tuple(map(str, range(60)))),
            Categorical(name="state", levels=tuple("abcdefgh")),
            Ordinal(name="rank", levels=tuple(range(12))),
            Numeric(name="pay", lower=0, upper=1000, bins=20),
        )
    )
    stated = read_constraints(
        "t1&t2&EQ(t1.town,t2.town)&IQ(t1.state,t2.state); "
        "t1&t2&EQ(t1.state,t2.state)&LT(t1.rank,t2.rank)&GT(t1.pay,t2.pay)",
        schema,
    )
    found = placed(example_table(schema, 100_000, 0), stated)
    assert len(found) == 100_000
    assert not any(count_conflicts(constraint, found).any() for constraint in stated)
