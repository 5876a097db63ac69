"""What 'joint' of AIM and MST corrects: holes by attributes that were measured with the hole's."""

import numpy as np

from missdp import PrivBayes, Table
from missdp.synth import AIM
from synth.tables import schema_of

SCHEMA = schema_of(dict.fromkeys("abc", 2), "a")


def error(model, n=20_000):
    """``a`` goes missing by b xor c, which are always observed: at random, given (a, b, c)."""
    rng = np.random.default_rng(0)
    b, c = rng.integers(0, 2, n), rng.integers(0, 2, n)
    cause = b ^ c
    a = (rng.random(n) < 0.2 + 0.6 * cause).astype(int)
    hole = rng.random(n) < 0.8 * cause
    table = Table.from_codes(SCHEMA, {"a": np.where(hole, 2, a), "b": b, "c": c})
    synthetic = model.fit(table).sample_table(n, random_state=0)
    return abs(synthetic.codes("a").mean() - a.mean())


def aim(**options):
    return AIM(epsilon=20.0, delta=1e-6, random_state=0, model_rows=2000, rounds=4, **options)


def test_holes_by_the_interaction_of_two_attributes_are_corrected_if_the_three_are_measured():
    assert error(aim(workload=[("a", "b", "c")])) < 0.02
    # No sum of an effect of b and one of c is their exclusive or.
    assert error(aim(workload=2)) > 0.05


def test_the_fill_of_privbayes_corrects_them_if_its_families_hold_them():
    model = PrivBayes(epsilon=20.0, degree=2, random_state=0)
    assert error(model) < 0.03


def where_observed(behind, n=20_000):
    """``a`` goes missing by b where b is observed, and at a rate of its own where it is not."""
    rng = np.random.default_rng(0)
    b, c = rng.integers(0, 2, n), rng.integers(0, 2, n)
    a = (rng.random(n) < 0.2 + 0.6 * b).astype(int)
    hidden = rng.random(n) < 0.3
    hole = rng.random(n) < np.where(hidden, behind, np.where(b == 1, 0.7, 0.1))
    schema = schema_of(dict.fromkeys("abc", 2), "ab")
    codes = {"a": np.where(hole, 2, a), "b": np.where(hidden, 2, b), "c": c}
    return Table.from_codes(schema, codes), a.mean(), b.mean()


def test_holes_by_an_attribute_only_where_it_is_observed_are_corrected():
    """Without that, values of 0.2 and 0.4 leave the first margin .020 and .043 off."""
    table, a, b = where_observed(0.05)
    synthetic = aim().fit(table).sample_table(20_000, random_state=0)
    assert abs(synthetic.codes("a").mean() - a) < 0.01
    assert abs(synthetic.codes("b").mean() - b) < 0.01
