"""Placed rows violate soft constraints about as often as was released, and change little."""

import numpy as np
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema
from missdp.baselines.placing import leaned
from missdp.evaluate import pair_violations, rule_violations
from missdp.schema import Denial, Determined, Impossible
from missdp.synth.sampling import followed
from missdp.testing.made_up import made_up

TEXTS = (
    "t1&t2&LT(t1.x,t2.x)&GT(t1.y,t2.y)",
    "t1&t2&EQ(t1.o,t2.o)&IQ(t1.c,t2.c)",
    "t1&t2&IQ(t1.c,t2.c)&LTE(t1.o,t2.o)&GT(t1.y,t2.y)",
)
PLAIN = (
    Numeric(name="x", lower=0, upper=10, bins=5),
    Numeric(name="y", lower=0, upper=100, bins=10, nullable=True),
    Ordinal(name="o", levels=tuple("abcdef"), nullable=True),
    Categorical(name="c", levels=("u", "v", "w")),
    Categorical(name="z", levels=("u", "v", "w")),
)


def drawn(n, seed, *texts):
    schema = Schema(PLAIN, tuple(Denial(text, holds="mostly") for text in texts))
    return made_up(schema, n, seed, holes=0.1)


def shares(table):
    return np.array(list(pair_violations(table).pair_shares.values()))


def toward(table, rates, *, std=0.0, seed=0, **more):
    aims = [(float(rate), std) for rate in rates]
    rng = np.random.default_rng(seed)
    return leaned(table, table.schema.rulebook.pairs, aims, rng, **more)


@pytest.mark.parametrize(("texts", "times"), [(TEXTS[:1], 0.5), (TEXTS, 1.5)])
def test_pairs_violate_as_often_as_was_released(texts, times):
    table = drawn(3000, 1, *texts)
    rates = shares(table) * times
    found = toward(table, rates)
    assert shares(found) == pytest.approx(rates, rel=0.15)
    assert np.array_equal(found.codes("z"), table.codes("z"))


def test_what_is_met_within_the_noise_stays_as_it_is():
    table = drawn(1000, 2, *TEXTS)
    rates = shares(table)
    assert toward(table, rates) is table
    assert toward(table, 1.09 * rates) is table
    assert toward(table, 2.5 * rates, std=float(rates.max())) is table
    assert toward(table, 1.5 * rates) is not table
    for few in (0, 1):
        rows = table.take(np.arange(few))
        assert toward(rows, rates) is rows
    assert leaned(table, (), (), np.random.default_rng(0)) is table


@pytest.mark.parametrize("times", [0.5, 1.5])
def test_a_noisy_rate_is_followed_no_farther_than_its_noise_allows(times):
    table = drawn(3000, 7, TEXTS[0])
    (share,) = shares(table)
    found = toward(table, [times * share], std=0.1 * share)
    edge = times + (0.2 if times < 1 else -0.2)
    assert shares(found)[0] == pytest.approx(edge * share, rel=0.15)


def test_the_attribute_that_is_drawn_last_is_changed_first_and_few_rows_are():
    table = drawn(3000, 4, TEXTS[0])
    found = toward(table, 0.8 * shares(table), order=("x", "y", "o", "c", "z"))
    same = found.values("y") == table.values("y")
    assert 0.75 < same.mean() < 1
    assert np.array_equal(found.values("x"), table.values("x"))
    for name in ("o", "c", "z"):
        assert np.array_equal(found.codes(name), table.codes(name))


def test_rules_of_single_rows_go_on_holding():
    rules = (
        Determined("x", by="stufe", map=(("a", 1), ("b", 2), ("c", 7))),
        Impossible("c = 'u' and stufe = 'a'"),
        Denial("t1&t2&LT(t1.x,t2.x)&GT(t1.y,t2.y)&EQ(t1.c,t2.c)", holds="mostly"),
    )
    schema = Schema((Ordinal(name="stufe", levels=tuple("abc")), *PLAIN), rules)
    table = made_up(schema, 2000, 6)
    table = table.take(~followed(table)[1])
    rates = 0.6 * shares(table)
    found = toward(table, rates)
    assert shares(found) == pytest.approx(rates, rel=0.15)
    assert rule_violations(found).broken_rows == 0
