"""Tables of three attributes beside all pairs: charged, gated, within the caps, and held."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from missdp import AllPairs, Table
from missdp.accounting import MissingCompletelyAtRandom, releases
from missdp.errors import BudgetExceededError, ParameterError
from missdp.ground_truth import planned_ground_truth
from missdp.synth.split import Keeper
from refusing import refuses
from synth.tables import rows_of, schema_of

ROWS = 6000
TRIPLE = [("a", "b", "c")]
SIZES = {"a": 2, "b": 2, "c": 2, "d": 4, "e": 3}


def parity(holes=0.0):
    rng = np.random.default_rng(0)
    a, b, d = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS), rng.integers(0, 4, ROWS)
    codes = {"a": a, "b": b, "c": a ^ b, "d": d, "e": np.minimum(d, rng.integers(0, 3, ROWS))}
    table = Table.from_codes(schema_of(SIZES, holes > 0), codes)
    return table.with_missing({n: rng.random(ROWS) < holes for n in SIZES if holes})


def model(missing="joint", **more):
    more = {"workload": TRIPLE, **more}
    return AllPairs(epsilon=1.0, delta=1e-6, missing=missing, random_state=1, **more)


def distance(frame):
    """How far the law of the three is from four rows, of which each is as likely."""
    cells = (frame[[*"abc"]].to_numpy() @ [4, 2, 1]).astype(int)
    truth = [0.25 * (a ^ b == c) for a, b, c in product(range(2), repeat=3)]
    return float(np.abs(np.bincount(cells, minlength=8) / len(frame) - truth).sum() / 2)


@pytest.mark.parametrize(
    ("missing", "holes"),
    [("joint", 0.0), ("joint", 0.1), ("observed", 0.1), ("complete-rows", 0.1)],
)
def test_parity_is_held_where_it_is_asked_for(missing, holes, tmp_path):
    fitted = model(missing).fit(parity(holes))
    assert distance(fitted.sample(ROWS)) < 0.04
    fitted.save(tmp_path / "model.json")
    again = AllPairs.load(tmp_path / "model.json")
    assert distance(again.sample(ROWS)) < 0.04
    assert again.pairs_.together[0, 1, 2].shape == fitted.pairs_.together[0, 1, 2].shape
    if not holes:
        tables = fitted.sample(ROWS, multiple=2, random_state=2)
        assert all(distance(t) < 0.06 for t in tables)


def test_pairs_alone_do_not_tell_it():
    assert distance(model(workload=2).fit(parity()).sample(ROWS)) > 0.3


@pytest.mark.parametrize("missing", AllPairs.strategies)
def test_each_table_is_an_event_behind_its_gate_within_the_caps(missing):
    fitted = model(missing, workload={("a", "b", "c"): 1.0, ("b", "d", "e"): 3.0}).fit(parity(0.1))
    (whole,) = fitted.guarantee_.events
    events = {e.label: e for e in releases(whole) if e.label.count(" x ") == 2}
    assert list(events) == ["marginal a x b x c", "marginal b x d x e"]
    gates = {
        "joint": (None, None),
        "observed": ({"a", "b", "c"}, {"b", "d", "e"}),
        "complete-rows": ({*"abcde"}, {*"abcde"}),
        "impute-first": (None, None),
    }[missing]
    assert tuple(e.gate for e in events.values()) == gates
    few, many = ((e.sensitivity / e.sigma) ** 2 for e in events.values())
    assert many / few == pytest.approx(3.0, rel=0.02)
    pairs = releases(whole)[-1]
    left = (pairs.sensitivity / pairs.sigma) ** 2
    assert (few + many) / (few + many + left) == pytest.approx(0.12, rel=0.05)
    caps = fitted._caps_of_fit()
    assert caps is None or caps.hold(whole)


def test_what_it_measures_counts_behind_its_own_gate_of_the_ground_truth():
    known = MissingCompletelyAtRandom(dict.fromkeys("abcde", 0.3))

    def epsilon(**more):
        return planned_ground_truth(model("observed", **more), schema_of(SIZES), known).epsilon

    assert epsilon() < 0.999 * epsilon(workload=2)  # less of it reads every row
    assert epsilon(workload=2, top_up=False) == epsilon(workload=2)


def test_a_table_that_is_dearer_than_its_part_is_refused():
    fitted = model("observed").fit(parity(0.1))
    keeper = Keeper(fitted._caps_of_fit())
    known = releases(fitted.guarantee_.events[0])
    for event in known:
        keeper.admit(event)
    (one,) = (e for e in known if e.label == "marginal a x b x c")
    with refuses(BudgetExceededError):
        keeper.admit(replace(one, sigma=one.sigma / 2))


def test_refusals():
    for workload, told in [
        ([("a", "b", "q")], "the workload names 'q'"),
        (0, "from 1 to 4"),
        ([], "empty"),
        ({("a", "b", "c"): -1.0}, "weights"),
    ]:
        with refuses(ParameterError, told):
            model(workload=workload).fit(parity())
    with refuses(ParameterError, "top_up=True"):
        model(top_up=False).fit(parity())
    with refuses(ParameterError, "True or False"):
        model(top_up=1).fit(parity())
    with refuses(ParameterError, "100 at most"):
        model(workload=3).fit(rows_of(schema_of([2] * 10), 9))


def test_columns_that_are_missing_together_are_drawn_so():
    gone = np.random.default_rng(3).random(ROWS) < 0.3
    table = rows_of(schema_of(SIZES), ROWS, holes=0).with_missing(dict.fromkeys("abc", gone))
    drawn = model(workload=2).fit(table).sample(ROWS, missing_values="keep")
    holes = drawn[[*"abc"]].isna().sum(axis=1)
    assert holes.isin([1, 2]).mean() < 0.03
    assert (holes == 3).mean() == pytest.approx(0.3, abs=0.02)
