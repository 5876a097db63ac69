"""The session on counted rows: charges before answers, and answers with the charged noise."""

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Schema, Table
from missdp.accounting import (
    Cost,
    Filter,
    FilterEvent,
    LaplaceEvent,
    SelectionEvent,
    releases,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError, UnprovenError
from missdp.session import (
    CountedRows,
    Expected,
    LevelMerge,
    Marginal,
    Misfits,
    MissingKinds,
    Noise,
    RowCount,
    RowProducts,
    SeededNoise,
    Selection,
    Session,
    Tree,
)
from missdp.session.scores import misfit
from missdp.sources import STRATEGIES, MemorySource, strategy_named
from missdp.synth.noisy_counts import row_count
from refusing import refuses
from session.fillings import filling
from session.recorded import strange

SIZES = (2, 3, 4, 2)
SCHEMA = Schema(
    tuple(
        Categorical(name=n, levels=tuple(range(s)), nullable=n != "d")
        for n, s in zip("abcd", SIZES, strict=True)
    )
)
every_strategy = pytest.mark.parametrize("missing", list(STRATEGIES))
tiny = Noise("laplace", 1e-3)  # rounds to no noise
ZERO = {
    names: Expected(np.zeros(shape := SCHEMA.shape(names)), np.ones(shape, dtype=bool), 0.0, 1.0)
    for k in (1, 2)
    for names in itertools.permutations("abcd", k)
}
MISFITS = Misfits((("a",), ("b",)), ZERO)


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    codes = {a.name: rng.integers(0, a.size + a.nullable, n) for a in SCHEMA}
    return Table.from_codes(SCHEMA, codes)


class Spy(MemorySource):
    """Records the counted marginals, and the amount that had been charged by then."""

    def __init__(self, rows, budget):
        super().__init__(rows)
        self.budget, self.passes, self.charged = budget, [], []

    def counts(self, cliques, *, rows):
        cliques = list(cliques)
        self.passes.append(cliques)
        self.charged.append(len(self.budget.events))
        return super().counts(cliques, rows=rows)


def session_on(rows, missing="joint", *, epsilon=1e5, delta=0.0, **more):
    budget = Filter(epsilon, delta)
    spy = Spy(rows, budget)
    return Session(
        CountedRows.from_source(spy, strategy_named(missing), **more),
        budget=budget,
        noise=SeededNoise(0),
    ), spy


def expected(rows, clique, missing, groups=None):
    """Count rows one at a time. Levels are merged into groups if groups are given."""
    strategy, shape = strategy_named(missing), []
    for name in clique:
        size = SCHEMA[name].size if groups is None else groups[name].max() + 1
        shape.append(size + strategy.shape((name,), SCHEMA)[0] - SCHEMA[name].size)
    out = np.zeros(shape, dtype=int)
    for i in range(len(rows)):
        row = {name: int(rows.codes(name)[i]) for name in SCHEMA.names}
        absent = {name for name in SCHEMA.names if row[name] == SCHEMA[name].size}
        if not absent & strategy.required(clique, SCHEMA):
            if groups is not None:
                merged = {n: np.append(groups[n], groups[n].max() + 1) for n in clique}
                row = {n: merged[n][row[n]] for n in clique}
            out[tuple(row[name] for name in clique)] += 1
    return out


cliques = st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(tuple)


@every_strategy
@settings(max_examples=15, deadline=None)
@given(clique=cliques, expect=st.lists(cliques, max_size=3), seed=st.integers(0, 99))
def test_marginals_count_rows_observed_on_required_attributes(missing, clique, expect, seed):
    rows = table(40, seed)
    session, spy = session_on(rows, missing)
    session.expect(map(Marginal, expect))
    found = session.measure(Marginal(iter(clique)), tiny).value  # names that can be read only once
    np.testing.assert_array_equal(found, expected(rows, clique, missing))
    assert found.shape == session.facts.shape(clique)
    (event,) = spy.budget.events
    assert frozenset(event.required or ()) == session.facts.strategy.required(clique, SCHEMA)
    assert session.facts.sums_to_row_count(clique) == (not event.required)
    assert event.sensitivity == 1
    assert row_count(session, tiny).value == 40  # every row, whatever the strategy
    assert not spy.budget.events[1].required


@every_strategy
def test_everything_is_charged_before_anything_is_counted(missing):
    session, spy = session_on(table(), missing)
    row_count(session, tiny)
    session.measure(Marginal(("a",)), tiny)
    session.measure(MISFITS, Selection(0.5, 1.1))
    session.measure(MissingKinds("a"), tiny)
    if missing == "impute-first":
        session = session.apply(
            filling(session, {name: np.ones(SCHEMA[name].size) for name in "abc"})
        )
        session.measure(Marginal(("b", "a")), tiny)
    found = [(type(event), event.label) for event in spy.budget.events[:4]]
    assert found == [
        (LaplaceEvent, "number of rows"),
        (LaplaceEvent, "marginal a"),
        (SelectionEvent, "selection of a marginal"),
        (LaplaceEvent, "kinds of missing of a"),
    ]
    assert not spy.budget.events[3].required
    assert all(charged >= 1 for charged in spy.charged)
    assert spy.charged[-1] >= 4
    declared, spy = session_on(table(), missing, declared_rows=77)
    total = row_count(declared, Noise("laplace", 1.0))
    assert (total.value, total.variance) == (77.0, 0.0)
    assert not spy.budget.events
    assert not spy.passes


def test_what_is_expected_is_counted_in_one_pass():
    session, spy = session_on(table())
    pairs = [("a", "b"), ("c", "a"), ("b", "d")]
    session.expect(map(Marginal, [("a",), *pairs]))
    for clique in [("a",), *pairs, ("d", "b"), ("a", "c")]:
        session.measure(Marginal(clique), tiny)
    session.measure(Misfits(pairs, {p: ZERO[p] for p in pairs}), Selection(1.0, 1.1))
    assert len(spy.passes) == 1
    session.measure(Marginal(("a", "d")), tiny)
    assert spy.passes[1:] == [[("a", "d")]]


def test_scores_are_computed_again_only_for_another_expectation(monkeypatch):
    monkeypatch.setattr("missdp.session.exact_counts._CELLS_AT_ONCE", 12)
    computed = []

    def counting(counts, expected):
        computed.append(1)
        return misfit(counts, expected)

    monkeypatch.setattr("missdp.session.scores.misfit", counting)
    session, spy = session_on(table())
    names = [("a", "b"), ("b", "c"), ("a", "d")]
    given = {name: ZERO[name] for name in names}

    def select(expected, session=session):
        computed.clear()
        found = session.measure(Misfits(names, expected), Selection(1.0, 1.1))
        return len(computed), found.value

    assert [select(given)[0] for _ in range(3)] == [3, 0, 0]
    assert len(spy.passes) == 3  # marginals that do not fit at once are counted in batches
    assert select(lambda n: given[n])[0] == 0
    for best, name in enumerate(names):
        kept = given | {name: replace(ZERO[name], bias=-1e6)}
        assert select(lambda n: kept[n])[1] == best  # noqa: B023
    assert select(given)[0] == 1  # of the last winner
    same = {name: np.zeros(session.facts.schema[name].size, dtype=int) for name in "abcd"}
    merged = {n: replace(ZERO[n], table=np.zeros((1, 1)), possible=np.ones((1, 1))) for n in names}
    assert select(merged, session.apply(LevelMerge(same)))[0] == 3  # other counts, other scores
    assert select(lambda n: replace(ZERO[n]))[0] == 3  # none that are kept


def test_a_selection_that_fails_says_nothing_of_the_counts():
    """The failed selection stays charged. Warnings are errors in these tests."""
    session, spy = session_on(table(123))
    odd = {n: replace(ZERO[n], bias=float("nan")) for n in (("a",), ("b",))}

    def failing(name):
        raise KeyError(name)

    for bad in (odd, failing):
        with refuses(DataError) as caught:
            session.measure(Misfits((("a",), ("b",)), bad), Selection(1.0, 1.1))
        assert "123" not in str(caught.value)
    assert len(spy.budget.events) == 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    st.sampled_from([0.0, 1e-6]),
    st.floats(1e-4, 1e3),
)
def test_shares_that_sum_to_one_fit(parts, delta, epsilon):
    budget = Filter(epsilon, delta)
    left, total = budget.remaining, sum(parts) + len(parts)
    for part in parts:
        share = left.amount * (part + 1) / total
        noise = Noise.from_cost(replace(left, amount=share))
        event = noise.event(1, required=None, label="")
        assert float(left.price(event)) == pytest.approx(share, rel=1e-9)
        budget.charge(event)


IN_CURRENCY = {
    "pure": Cost(privacy_measure="pure", amount=0.1),
    "zcdp": Cost(privacy_measure="zcdp", amount=0.05),
    "gdp": Cost(privacy_measure="gdp", amount=0.1),
}


@pytest.mark.parametrize("privacy_measure", list(IN_CURRENCY))
@pytest.mark.parametrize("whole", list(IN_CURRENCY))
def test_a_part_in_any_measure_costs_what_it_is_capped_by(whole, privacy_measure):
    budget = Filter(2.0, 1e-6, measure=whole)
    session = Session(
        CountedRows.from_source(MemorySource(table()), strategy_named("joint")),
        budget=budget,
        noise=SeededNoise(0),
    )
    before, cost = session.remaining, IN_CURRENCY[privacy_measure]
    if (whole, privacy_measure) in {("pure", "zcdp"), ("pure", "gdp"), ("gdp", "zcdp")}:
        with pytest.raises(UnprovenError):
            session.reserve(cost, label="part")
        assert (session.remaining, budget.events) == (before, ())
        return
    part = session.reserve(cost, label="part")
    assert part.remaining == cost
    price = float(before.price(budget.events[0].capacity))
    assert session.remaining.amount == pytest.approx(before.amount - price, rel=1e-12)
    part.measure(Marginal(("a",)), Noise.from_cost(part.remaining))
    assert session.remaining.amount == pytest.approx(before.amount - price, rel=1e-12)
    assert part.remaining.amount < 1e-9 * cost.amount
    (event,) = budget.events
    assert (type(event), event.label, len(releases(event))) == (FilterEvent, "part", 1)
    with pytest.raises(BudgetExceededError):
        part.measure(Marginal(("a",)), Noise.from_cost(cost))


weights = st.lists(st.floats(0.1, 1.0), min_size=9, max_size=9)
alone = weights.map(lambda w: {"a": w[:2], "b": w[2:5], "c": w[5:]})


@settings(max_examples=25, deadline=None)
@given(alone, st.integers(0, 99))
def test_filling_changes_missing_cells_only(laws, seed):
    rows = table(60, seed)
    session, spy = session_on(rows, "impute-first")
    filled = session.apply(filling(session, laws))
    assert not spy.passes  # not before an answer needs it
    assert not filled.facts.schema.nullable
    assert filled.facts.same_total
    assert filled.facts.sums_to_row_count(("a", "b"))
    after = filled.measure(Marginal(("a", "b", "c")), tiny).value
    before = expected(rows, ("a", "b", "c"), "complete-rows")
    assert (after >= before).all()
    assert after.sum() == 60
    assert (
        session.measure(Marginal(("a",)), tiny).value.sum()
        == expected(rows, ("a",), "observed").sum()
    )


def test_filling_fails_without_a_word_of_the_rows(monkeypatch):
    session, _ = session_on(table(60), "impute-first")

    def fails(*_):
        raise MemoryError("Unable to allocate an array of 60 rows")

    monkeypatch.setattr("missdp.sources.filling._routed", fails)
    laws = {n: np.ones(SCHEMA[n].size) for n in "abc"}
    with pytest.raises(DataError, match="could not be read or changed") as failure:
        session.apply(filling(session, laws)).measure(Marginal(("a",)), tiny)
    assert failure.value.__context__ is None


def test_what_a_session_measures_is_a_closed_set():
    session, spy = session_on(table(123))
    for query, how, words in (
        (strange(RowCount)(), tiny, "of the types"),
        ("a", tiny, "of the types"),
        (RowCount(), strange(Noise)("laplace", 1.0), "answered by Noise"),
        (RowCount(), Selection(1.0, 1.0), "answered by Noise"),
        (MISFITS, tiny, "answered by Selection"),
        (strange(Misfits)((("a",), ("b",)), ZERO), Selection(1.0, 2.0), "of the types"),
        (strange(RowProducts)({"a": np.eye(2)}, clip=1.0), session.remaining, "of the types"),
        (Misfits((("a", "z"),), ZERO), Selection(1.0, 2.0), "no attribute 'z'"),
        (Marginal(("z",)), tiny, "no attribute 'z'"),
    ):
        with pytest.raises(ParameterError, match=words):
            session.measure(query, how)
    with pytest.raises(ParameterError, match="changed by"):
        session.apply(lambda rows: rows)
    assert not spy.budget.events
    assert session.measure(MISFITS, Selection(1.0, 2.0)).value in (0, 1)
    with pytest.raises(UnprovenError, match="more sensitive"):
        session.measure(MISFITS, Selection(1.0, 0.5))


class Short(list):
    """A list that says it is shorter than it is."""

    def __len__(self):
        return 1


@pytest.mark.parametrize("levels", [[1], np.array([1]), [1, 2], Short([1, 2])], ids=repr)
def test_levels_of_a_tree_are_those_that_were_charged_for(levels):
    """Whatever the list says of itself, and however it is changed after the charge."""
    tree, many = Tree(name="c", size=4, levels=levels, within=(0, 4)), len(list(levels))
    more = levels.append if isinstance(levels, list) else levels.fill
    budget = Filter(1e5)
    rows = CountedRows.from_source(MemorySource(table()), strategy_named("joint"))
    more_later = {"noise": SeededNoise(0), "limit": lambda event: more(2)}
    session = Session(rows, budget=budget, **more_later)
    found = session.measure(tree, session.share(0.5))
    assert found.value.shape == ((2, 6)[many - 1],)
    assert budget.events[0].sensitivity == found.event.sensitivity == many


@pytest.mark.parametrize("missing", ["joint", "observed", "complete-rows"])
@settings(max_examples=25, deadline=None)
@given(clique=cliques.filter(bool), seed=st.integers(0, 99), groups=st.integers(1, 3))
def test_merged_levels_add_up(missing, clique, seed, groups):
    rows, rng = table(50, seed), np.random.default_rng(seed)
    numbers = {a.name: rng.permutation(np.arange(a.size) % min(groups, a.size)) for a in SCHEMA}
    merged = session_on(rows, missing)[0].apply(LevelMerge(numbers))
    found = merged.measure(Marginal(clique), tiny).value
    assert found.shape == merged.facts.shape(clique)
    np.testing.assert_array_equal(found, expected(rows, clique, missing, numbers))


def test_rows_of_merged_levels_are_not_changed_again():
    """A row function of the levels that came would be applied to codes of merged ones."""
    numbers = {a.name: np.zeros(a.size, dtype=np.int64) for a in SCHEMA}
    session, spy = session_on(table(20))
    merged = session.apply(LevelMerge(numbers))
    with pytest.raises(ParameterError, match="not changed again"):
        merged.apply(LevelMerge(numbers))
    assert spy.budget.events == ()


def test_counts_of_another_shape_are_not_released():
    """A source that is not ours could count cells that the sensitivity does not speak of."""

    def released(change, query):
        class Changed(Spy):
            def counts(self, cliques, *, rows):
                return {c: change(n) for c, n in super().counts(cliques, rows=rows).items()}

        budget = Filter(1.0)
        rows = CountedRows.from_source(Changed(table(20), budget), strategy_named("joint"))
        session = Session(rows, budget=budget, noise=SeededNoise(0))
        try:
            return session.measure(query, Noise("laplace", 10.0)).value
        finally:
            assert len(budget.events) == 1  # it was charged, and stays charged

    for query, shape in ((Marginal(("a",)), (3,)), (RowCount(), ())):  # two levels, and missing
        assert np.shape(released(lambda counts: counts, query)) == shape
        for change in (lambda counts: np.append(counts, 0), lambda counts: counts / 2):
            with pytest.raises(DataError, match="public shape"):
                released(change, query)


LAWS = {"a": [1] * 2, "b": [1] * 3, "c": [1] * 4}
GROUPS = {a.name: np.arange(a.size) for a in SCHEMA}
LOUD = Noise("laplace", 1.0)
REFUSED = {
    "does not fit": [
        lambda session: row_count(session, LOUD),
        lambda session: session.measure(Marginal(("a",)), LOUD),
        lambda session: session.measure(MISFITS, Selection(1.0, 1.1)),
    ],
    "distribution": [
        lambda session, bad=bad: session.apply(filling(session, LAWS | {"a": bad}))
        for bad in ([1.0], [-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0])
    ],
    "groups": [
        lambda session, bad=bad: session.apply(LevelMerge(GROUPS | {"a": np.array(bad)}))
        for bad in ([0, 2], [0], [0, 1, 1], [0.0, 1.0], [-1, 0])
    ],
    "share": [
        lambda session, bad=bad: session.share(bad) for bad in (0.0, -0.1, 1.1, float("nan"), True)
    ],
    "must be a Filter": [lambda session: Session(session._rows, budget=None, noise=None)],
    "private rows": [pickle.dumps, copy.copy, copy.deepcopy],
    "noise must be": [lambda session: Noise("cauchy", 1.0)],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_counts_nothing_and_charges_nothing(words):
    session, spy = session_on(table(123), "impute-first", epsilon=0.1)
    for ask in REFUSED[words]:
        with pytest.raises((ParameterError, BudgetExceededError), match=words) as refused:
            ask(session)
        assert "\n" not in str(refused.value)
        assert "123" not in str(refused.value)
    assert not spy.passes
    assert not spy.budget.events
    for missing in ("joint", "observed"):
        with pytest.raises(ParameterError, match="fills"):
            (closed := session_on(table(), missing)[0]).apply(filling(closed, LAWS))
