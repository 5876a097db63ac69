"""The door: public facts, charges before answers, and answers with the noise that was charged."""

import copy
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.witness import strange
from missdp import Categorical, Schema, Table
from missdp.accounting import (
    Budget,
    Cost,
    FilterEvent,
    LaplaceEvent,
    SelectionEvent,
    releases,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError, UnprovenError
from missdp.inference.conditionals import fit_conditionals
from missdp.mechanisms import (
    Door,
    Marginal,
    Noise,
    RowCount,
    Score,
    Scores,
    SeededNoise,
    Selection,
    Training,
    Tree,
)
from missdp.mechanisms.door import Facts, RowProducts
from missdp.sources import STRATEGIES, MemorySource, strategy_named
from refusing import refuses

SIZES = (2, 3, 4, 2)
SCHEMA = Schema(
    tuple(
        Categorical(name=n, levels=tuple(range(s)), nullable=n != "d")
        for n, s in zip("abcd", SIZES, strict=True)
    )
)
every_strategy = pytest.mark.parametrize("missing", list(STRATEGIES))
tiny = Noise("laplace", 1e-3)  # rounds to no noise


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    codes = {a.name: rng.integers(0, a.size + a.nullable, n) for a in SCHEMA}
    return Table.from_codes(SCHEMA, codes)


class Spy(MemorySource):
    """Notes what was counted, and how much had been charged by then."""

    def __init__(self, rows, budget):
        super().__init__(rows)
        self.budget, self.passes, self.charged = budget, [], []

    def counts(self, cliques, *, rows):
        cliques = list(cliques)
        self.passes.append(cliques)
        self.charged.append(len(self.budget.events))
        return super().counts(cliques, rows=rows)


def door_to(rows, missing="joint", *, epsilon=1e5, delta=0.0, **more):
    budget = Budget(epsilon, delta, schedule="adaptive")
    spy = Spy(rows, budget)
    return Door(spy, strategy_named(missing), budget=budget, noise=SeededNoise(0), **more), spy


def expected(rows, clique, missing, groups=None):
    """Counts by going through the rows one by one; of levels merged into groups, if any are."""
    strategy, shape = strategy_named(missing), []
    for name in clique:
        size = SCHEMA[name].size if groups is None else groups[name].max() + 1
        shape.append(size + strategy.shape((name,), SCHEMA)[0] - SCHEMA[name].size)
    out = np.zeros(shape, dtype=int)
    for i in range(len(rows)):
        row = {name: int(rows.codes(name)[i]) for name in SCHEMA.names}
        holes = {name for name in SCHEMA.names if row[name] == SCHEMA[name].size}
        if not holes & strategy.gate(clique, SCHEMA):
            if groups is not None:
                merged = {n: np.append(groups[n], groups[n].max() + 1) for n in clique}
                row = {n: merged[n][row[n]] for n in clique}
            out[tuple(row[name] for name in clique)] += 1
    return out


cliques = st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(tuple)


@every_strategy
@settings(max_examples=15, deadline=None)
@given(clique=cliques, expect=st.lists(cliques, max_size=3), seed=st.integers(0, 99))
def test_marginals_are_the_counts_behind_the_gate_in_the_order_of_the_names(
    missing, clique, expect, seed
):
    rows = table(40, seed)
    door, spy = door_to(rows, missing)
    door.expect(expect)
    found = door.marginal(iter(clique), tiny)  # names that can be read only once
    np.testing.assert_array_equal(found, expected(rows, clique, missing))
    assert found.shape == door.shape(clique)
    (event,) = spy.budget.events
    assert frozenset(event.gate or ()) == door.strategy.gate(clique, SCHEMA)
    assert door.tells_total(clique) == (not event.gate)
    assert event.sensitivity == 1
    assert door.row_count(tiny).value == 40  # every row, whatever the strategy
    assert not spy.budget.events[1].gate


@every_strategy
def test_everything_is_charged_before_anything_is_counted(missing):
    door, spy = door_to(table(), missing)
    door.row_count(tiny)
    door.marginal(("a",), tiny)
    door.select([("a",), ("b",)], Score(largest, sensitivity=1.0), epsilon=0.5)
    door.kinds("a", tiny)
    if missing == "impute-first":
        door = door.filled({name: np.ones(SCHEMA[name].size) for name in "abc"})
        door.marginal(("b", "a"), tiny)
    found = [(type(event), event.label) for event in spy.budget.events[:4]]
    assert found == [
        (LaplaceEvent, "number of rows"),
        (LaplaceEvent, "marginal a"),
        (SelectionEvent, "selection of a marginal"),
        (LaplaceEvent, "kinds of missing of a"),
    ]
    assert not spy.budget.events[3].gate
    assert all(charged >= 1 for charged in spy.charged)
    assert spy.charged[-1] >= 4
    declared, spy = door_to(table(), missing, declared_rows=77)
    total = declared.row_count(Noise("laplace", 1.0))
    assert (total.value, total.variance) == (77.0, 0.0)
    assert not spy.budget.events
    assert not spy.passes


def largest(counts):
    return float(counts.max())


def test_what_is_expected_is_counted_in_one_pass():
    door, spy = door_to(table())
    pairs = [("a", "b"), ("c", "a"), ("b", "d")]
    door.expect([("a",), *pairs])
    for clique in [("a",), *pairs, ("d", "b"), ("a", "c")]:
        door.marginal(clique, tiny)
    door.select(pairs, Score(largest, sensitivity=1.0), epsilon=1.0)
    assert len(spy.passes) == 1
    door.marginal(("a", "d"), tiny)
    assert spy.passes[1:] == [[("a", "d")]]


CALLS = []


def sums(counts, *shift):
    CALLS.append(1)
    return float(counts.sum()) + float(np.sum(shift))


def test_scores_take_released_values_and_are_computed_once_for_facts_that_are_kept(monkeypatch):
    monkeypatch.setattr("missdp.sources.strategies._CELLS_AT_ONCE", 12)
    door, spy = door_to(table())
    score = Score(sums, sensitivity=1.0)
    names = [("a", "b"), ("b", "c"), ("a", "d")]
    shifts = {name: np.zeros(1) for name in names}
    facts = {name: Facts((shift,)) for name, shift in shifts.items()}

    def select(given=None, door=door):
        CALLS.clear()
        winner = door.select(names, score, epsilon=1.0, given=given)
        return len(CALLS), winner

    assert [select()[0] for _ in range(3)] == [3, 0, 0]  # of counts alone
    assert len(spy.passes) == 3  # what does not fit at once is counted in batches
    assert select(lambda n: facts[n])[0] == 3
    assert select(lambda n: facts[n])[0] == 0
    for best, name in enumerate(names):
        kept = facts | {name: Facts((np.array([1e6]),))}
        assert select(lambda n: kept[n])[1] == best  # noqa: B023
    assert select(lambda n: facts[n])[0] == 1  # of the last winner
    same = {name: np.zeros(door.schema[name].size, dtype=int) for name in "abcd"}
    assert select(lambda n: facts[n], door.merged(same))[0] == 3  # other counts, other scores
    assert select(lambda n: Facts((shifts[n],)))[0] == 3  # none that are kept
    assert select(lambda n: (shifts[n],))[0] == 3


def failing(counts):
    raise KeyError(int(counts.sum()))


def endless(counts):
    return float("nan")


def divided(counts):
    return float(min(counts[0] / np.int64(0), 1.0))


def test_a_score_that_fails_says_nothing_of_the_counts():
    """It stays charged; a warning is an error in these tests; one candidate is no choice."""
    door, spy = door_to(table(123))
    for bad in (failing, endless):
        with refuses(DataError) as caught:
            door.select([("a",), ("b",)], Score(bad, sensitivity=1.0), epsilon=1.0)
        assert "123" not in str(caught.value)
    assert len(spy.budget.events) == 2
    assert door.select([("a",), ("b",)], Score(divided, sensitivity=1.0), epsilon=1.0) in (0, 1)
    assert door.select([("a",)], Score(failing, sensitivity=1.0), epsilon=1.0) == 0
    assert len(spy.budget.events) == 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    st.sampled_from([0.0, 1e-6]),
    st.floats(1e-4, 1e3),
)
def test_shares_that_sum_to_one_fit(parts, delta, epsilon):
    budget = Budget(epsilon, delta, schedule="adaptive")
    left, total = budget.left, sum(parts) + len(parts)
    for part in parts:
        share = left.amount * (part + 1) / total
        noise = Noise.worth(replace(left, amount=share))
        event = noise.event(1, gate=None, label="")
        assert float(left.price(event)) == pytest.approx(share, rel=1e-9)
        budget.charge(event)


IN_CURRENCY = {
    "pure": Cost(currency="pure", amount=0.1),
    "zcdp": Cost(currency="zcdp", amount=0.05),
    "renyi": Cost(currency="renyi", amount=0.1, order=9.0),
}


@pytest.mark.parametrize("currency", list(IN_CURRENCY))
@pytest.mark.parametrize("whole", list(IN_CURRENCY))
def test_a_part_in_any_currency_costs_what_it_is_capped_by(whole, currency):
    budget = Budget(2.0, 1e-6, schedule="adaptive", currency=whole)
    door = Door(MemorySource(table()), strategy_named("joint"), budget=budget, noise=SeededNoise(0))
    before, cost = door.left, IN_CURRENCY[currency]
    unknown = {("pure", "zcdp"), ("pure", "renyi"), ("zcdp", "renyi"), ("renyi", "renyi")}
    if (whole, currency) in unknown:  # at order 9 it says nothing about the higher order of ours
        with pytest.raises(UnprovenError):
            door.reserve(cost, label="part")
        assert (door.left, budget.events) == (before, ())
        return
    part = door.reserve(cost, label="part")
    assert part.left == cost
    price = float(before.price(budget.events[0].capacity))
    assert door.left.amount == pytest.approx(before.amount - price, rel=1e-12)
    part.marginal(("a",), Noise.worth(part.left))
    assert door.left.amount == pytest.approx(before.amount - price, rel=1e-12)
    assert part.left.amount < 1e-9 * cost.amount
    (event,) = budget.events
    assert (type(event), event.label, len(releases(event))) == (FilterEvent, "part", 1)
    with pytest.raises(BudgetExceededError):
        part.marginal(("a",), Noise.worth(cost))


COMPLETE = np.stack([np.arange(60) % size for size in SIZES], axis=1)
GIVEN_ALL = fit_conditionals(COMPLETE, SIZES)
weights = st.lists(st.floats(0.1, 1.0), min_size=9, max_size=9)
alone = weights.map(lambda w: {"a": w[:2], "b": w[2:5], "c": w[5:]})


@settings(max_examples=25, deadline=None)
@given(alone | st.just(GIVEN_ALL), st.integers(0, 99))
def test_filling_changes_holes_only_and_every_row_counts_then(laws, seed):
    rows = table(60, seed)
    door, spy = door_to(rows, "impute-first")
    filled = door.filled(laws)
    assert not spy.passes  # not before an answer needs it
    assert not filled.schema.nullable
    assert filled.every_row_counts
    assert filled.tells_total(("a", "b"))
    after = filled.marginal(("a", "b", "c"), tiny)
    before = expected(rows, ("a", "b", "c"), "complete-rows")
    assert (after >= before).all()
    assert after.sum() == 60
    assert door.marginal(("a",), tiny).sum() == expected(rows, ("a",), "observed").sum()


def test_filling_warns_of_nothing_and_fails_without_a_word_of_the_rows(monkeypatch):
    """Laws may be such that a row with a hole beside a certain level overflows."""
    laws = fit_conditionals(COMPLETE, SIZES)
    for factors in (laws.given_all.factors, laws.given_some.factors):
        for table_ in factors.values():
            table_[1] = 1e308
    door, _ = door_to(table(60), "impute-first")
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert door.filled(laws).marginal(("a",), tiny).sum() == 60

    def fails(*_):
        raise MemoryError("Unable to allocate an array of 60 rows")

    for name, given_laws in (
        ("filled_given_all", laws),
        ("filled_rows", {n: np.ones(SCHEMA[n].size) for n in "abc"}),
    ):
        monkeypatch.setattr(f"missdp.mechanisms.door.{name}", fails)
        with pytest.raises(DataError, match="could not be computed") as told:
            door.filled(given_laws).marginal(("a",), tiny)
        assert told.value.__context__ is None


def test_what_a_session_measures_is_a_closed_set():
    door, spy = door_to(table(123))
    scores = Scores([("a",), ("b",)], Score(largest, sensitivity=1.0))
    for query, how, words in (
        (strange(RowCount)(), tiny, "one of"),
        ("a", tiny, "one of"),
        (RowCount(), strange(Noise)("laplace", 1.0), "takes a Noise"),
        (RowCount(), Selection(1.0, 1.0), "takes a Noise"),
        (scores, tiny, "takes a Selection"),  # an error would tell whether they are whole
        (Marginal(("z",)), tiny, "no attribute 'z'"),
    ):
        with pytest.raises(ParameterError, match=words):
            door.measure(query, how)
    score = strange(Score)(largest, sensitivity=1.0)
    plan = strange(Training)(rate=1.0, steps=1, clip=1.0, noise_multiplier=1.0)
    products = strange(RowProducts)({"a": np.eye(2)}, clip=1.0)
    for ask in (
        lambda: door.select([("a",), ("b",)], score, epsilon=1.0),
        lambda: door.train(plan, largest, ()),
        lambda: door.products(products, door.left),
    ):
        with pytest.raises(ParameterError, match="nothing made from it"):
            ask()
    assert not spy.budget.events
    assert door.measure(scores, Selection(1.0, 2.0)).value in (0, 1)
    with pytest.raises(UnprovenError, match="more sensitive"):
        door.measure(scores, Selection(1.0, 0.5))


class Short(list):
    """A list that says it is shorter than it is."""

    def __len__(self):
        return 1


@pytest.mark.parametrize("levels", [[1], np.array([1]), [1, 2], Short([1, 2])], ids=repr)
def test_levels_of_a_tree_are_those_that_were_charged_for(levels):
    """Whatever the list says of itself, and however it is changed after the charge."""
    door, spy = door_to(table())
    tree, many = Tree(name="c", size=4, levels=levels, within=(0, 4)), len(list(levels))
    more = levels.append if isinstance(levels, list) else levels.fill
    found = door.admitting(lambda event: more(2)).measure(tree, door.share(0.5))
    assert found.value.shape == ((2, 6)[many - 1],)
    assert spy.budget.events[0].sensitivity == found.event.sensitivity == many


def slopes(codes, theta):
    return theta + codes["a"][:, None]


def test_steps_are_taken_as_they_were_planned_when_they_were_charged_for():
    budget = Budget(1.0, 1e-6, schedule="adaptive", currency="renyi")
    facts = {"budget": budget, "noise": SeededNoise(0)}
    door = Door(MemorySource(table()), strategy_named("joint"), **facts)
    plan = Training.worth(door.left, rate=2.0**-30, steps=1, clip=1.0)
    training = door.train(plan, slopes, (np.zeros(1),))
    object.__setattr__(plan, "rate", 1.0)  # every row would be read
    assert abs(training.step(np.zeros(1))[0]) < 10 * training.noise_std


@pytest.mark.parametrize("missing", ["joint", "observed", "complete-rows"])
@settings(max_examples=25, deadline=None)
@given(clique=cliques.filter(bool), seed=st.integers(0, 99), groups=st.integers(1, 3))
def test_merged_levels_add_up(missing, clique, seed, groups):
    rows, rng = table(50, seed), np.random.default_rng(seed)
    numbers = {a.name: rng.permutation(np.arange(a.size) % min(groups, a.size)) for a in SCHEMA}
    merged = door_to(rows, missing)[0].merged(numbers)
    found = merged.marginal(clique, tiny)
    assert found.shape == merged.shape(clique)
    np.testing.assert_array_equal(found, expected(rows, clique, missing, numbers))


LAWS = {"a": [1] * 2, "b": [1] * 3, "c": [1] * 4}
GROUPS = {a.name: np.arange(a.size) for a in SCHEMA}
LOUD = Noise("laplace", 1.0)
REFUSED = {
    "does not fit": [
        lambda door: door.row_count(LOUD),
        lambda door: door.marginal(("a",), LOUD),
        lambda door: door.select([("a",), ("b",)], Score(largest, sensitivity=1.0), epsilon=1.0),
    ],
    "law": [
        lambda door, bad=bad: door.filled(LAWS | {"a": bad})
        for bad in ([1.0], [-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0])
    ],
    "laws must be of the attributes": [
        lambda door: door.filled(fit_conditionals(COMPLETE[:, :3], SIZES[:3])),
        lambda door: door.filled(replace(GIVEN_ALL, order=(0, 0, 1, 2))),
    ],
    "groups": [
        lambda door, bad=bad: door.merged(GROUPS | {"a": np.array(bad)})
        for bad in ([0, 2], [0], [0, 1, 1], [0.0, 1.0], [-1, 0])
    ],
    "share": [
        lambda door, bad=bad: door.share(bad) for bad in (0.0, -0.1, 1.1, float("nan"), True)
    ],
    "must be a Budget": [
        lambda door: Door(door._rows.came, strategy_named("joint"), budget=None, noise=None)
    ],
    "private rows": [pickle.dumps, copy.copy, copy.deepcopy],
    "noise must be": [lambda door: Noise("cauchy", 1.0)],
    "plain function": [lambda door: Score(lambda counts, k=1: k, sensitivity=1.0)],
    "sensitivity must be": [lambda door: Score(largest, sensitivity=0.0)],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_counts_nothing_and_charges_nothing(words):
    door, spy = door_to(table(123), "impute-first", epsilon=0.1)
    for ask in REFUSED[words]:
        with pytest.raises((ParameterError, BudgetExceededError), match=words) as refused:
            ask(door)
        assert "\n" not in str(refused.value)
        assert "123" not in str(refused.value)
    assert not spy.passes
    assert not spy.budget.events
    for missing, laws in (("joint", {}), ("observed", GIVEN_ALL)):
        with pytest.raises(ParameterError, match="fills"):
            door_to(table(), missing)[0].filled(laws)
