"""Products of all pairs: their sensitivity to one row, and their released values."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.accounting import Cost, GaussianEvent
from missdp.errors import BudgetExceededError, ParameterError
from missdp.schema import Categorical, NotApplicable, Numeric, Schema
from missdp.session import LevelMerge, RowProducts, SeededNoise, products
from missdp.sources import DuckDBSource, MemorySource
from missdp.table import Table
from session.fillings import filling
from session.recorded import session_on

SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x", "y", "z"), nullable=True),
        Categorical(name="b", levels=("p", "q"), nullable=True),
        Numeric(name="c", lower=0, upper=4, bins=4),
    )
)
SIZES = (3, 2, 4)
LEVELS = dict(zip(SCHEMA.names, SIZES, strict=True))
CODES = {"a": 4, "b": 3, "c": 4}  # "missing" is one, for nullable attributes
COST = Cost(privacy_measure="gdp", amount=0.25)


def table_of(rows):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Table.from_codes(SCHEMA, {n: columns[:, i] for i, n in enumerate(SCHEMA.names)})


def behind(rows, plan, missing="joint"):
    """Return the exact values behind the single answer, and the released products."""
    noise, session = session_on(table_of(rows) if isinstance(rows, list) else rows, missing)
    with noise:
        released = session.measure(plan, COST).value
    (answer,) = noise.answers
    return answer, released


def sums(rows, plan, missing="joint"):
    return behind(rows, plan, missing)[0].exact


@st.composite
def plans(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.01, 1.0, 4.0]))

    def tables(least, most):
        return {
            name: rng.uniform(-scale, scale, (codes, draw(st.integers(least, most))))
            for name, codes in CODES.items()
            if least or draw(st.booleans())
        }

    clip = draw(st.sampled_from([0.01, 0.5, 3.0, 1000.0]))
    pairs = draw(st.none() | st.sets(st.sampled_from(("ab", "ca", "bc"))))
    chosen = None if pairs is None else tuple(map(tuple, sorted(pairs)))
    weight = draw(st.sampled_from([0.01, 1.0, 16.0]))
    return RowProducts(tables(1, 4), clip, weight, tables(0, 2), chosen)


EYES = {n: np.eye(k) for n, k in CODES.items()}
ROWS = [(0, 0, 0), (3, 1, 2), (1, 2, 3), (3, 2, 1), (2, 1, 0)] * 3
row = st.tuples(st.just(3) | st.integers(0, 3), st.integers(0, 2), st.integers(0, 3))


def vector(plan, codes):
    """The row's vector as it is defined, by hand."""
    blocks = [plan.blocks[n][c] for n, c in zip(SCHEMA.names, codes, strict=True)]
    parts = [plan.first_order_weight * block for block in blocks]
    places = zip(SCHEMA.names, codes, strict=True)
    parts += [
        plan.first_order_weight * plan.extra_features[n][c]
        for n, c in places
        if n in plan.extra_features
    ]
    chosen = ["ab", "ac", "bc"] if plan.pairs is None else ["".join(sorted(p)) for p in plan.pairs]
    for i, j in itertools.combinations(range(3), 2):
        if "abc"[i] + "abc"[j] in chosen:
            parts.append(np.outer(blocks[i], blocks[j]).ravel())
    return np.concatenate(parts)


@settings(max_examples=40, deadline=None)
@given(plans(), st.lists(row, max_size=6), row)
def test_one_row_moves_the_sums_by_no_more_than_was_charged_for(plan, rows, more):
    one, _ = behind(rows, plan)
    two, _ = behind([*rows, more], plan)
    moved = [int(x) for x in (two.exact - one.exact)]
    bound = int(one.event.sensitivity)
    assert sum(x * x for x in moved) <= bound * bound  # in whole numbers: nothing is rounded
    assert one.mechanism.scale**2 - 4 >= bound**2 / COST.amount
    assert type(one.event) is GaussianEvent
    assert one.event.sigma == one.mechanism.scale


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(plans(), st.lists(row, max_size=6), st.permutations(range(6)))
def test_what_a_row_adds_depends_on_this_row_alone(plan, rows, order):
    whole = sums(rows, plan)
    assert (whole == sum((sums([r], plan) for r in rows), np.zeros_like(whole))).all()
    assert (whole == sums([rows[i] for i in order if i < len(rows)], plan)).all()


@settings(max_examples=60, deadline=None)
@given(plans(), row)
def test_a_row_adds_its_vector_clipped(plan, codes):
    answer, released = behind([codes], plan)
    wanted = vector(plan, codes)
    length = np.linalg.norm(wanted)
    clipped = wanted * min(1.0, plan.clip / max(length, 1e-12))
    unit = plan.clip / answer.event.sensitivity
    step = np.cbrt(unit)  # of the grid that blocks are rounded to, and factors down to
    allowed = 0.03 * max(1.0, plan.clip) + step * np.abs(wanted).max()
    assert answer.exact * unit == pytest.approx(clipped, abs=allowed)
    assert released.std == pytest.approx(plan.clip / 0.5, rel=1e-3)


def test_the_clip_is_used_up_and_numbers_that_enter_no_product_are_part_of_the_length():
    """Left out of it, they would come on top of a vector that has used up its clip.

    The bound would be broken by a slightly larger factor: the test of sensitivity has power.
    """
    blocks = {n: np.full((k, 2), 0.3) for n, k in CODES.items()}
    further = {"a": np.full((4, 1), 1.9), "c": np.full((4, 2), -2.1)}
    for codes in ((0, 0, 0), (3, 2, 0)):  # observed, and missing
        for plan in (
            RowProducts({n: np.full((k, 2), 1.7) for n, k in CODES.items()}, clip=2.0),
            RowProducts(blocks, clip=2.0, extra_features=further),
        ):
            answer, _ = behind([codes], plan)
            norm = np.linalg.norm(answer.exact.astype(float))
            assert 0.99 < norm / answer.event.sensitivity <= 1
        _, free = behind([codes], RowProducts(blocks, clip=30.0, extra_features=further))
        assert free.extra_blocks["a"] == pytest.approx(further["a"], abs=1e-3)
        assert [len(free.extra_features[n]) for n in "ac"] == [1, 2]


def test_some_pairs_use_up_the_clip_with_their_products_alone():
    """With the products of all pairs in the length, the clip would not be used up."""
    blocks = {n: np.full((k, 2), 1.7) for n, k in CODES.items()}
    plan = RowProducts(blocks, clip=2.0, first_order_weight=0.01, pairs=(("c", "a"),))
    answer, released = behind([(0, 0, 0)], plan)
    norm = np.linalg.norm(answer.exact.astype(float))
    assert 0.99 < norm / answer.event.sensitivity <= 1
    assert list(released.pairs) == [("a", "c")]


@pytest.mark.parametrize("pairs", ["aa", "az", ("ab", "ab"), ("ab", "ba"), ("abc",)])
def test_pairs_that_are_not_different_pairs_raise(pairs):
    pairs = tuple(map(tuple, [pairs] if isinstance(pairs, str) else pairs))
    _, session = session_on(table_of(ROWS))
    before = session.remaining.amount
    with pytest.raises(ParameterError):
        session.measure(RowProducts(EYES, 2.0, pairs=pairs), COST)
    assert session.remaining.amount == before


def test_extra_features_are_released_as_sums():
    further = {"b": np.array([[1.0], [-3.0], [0.5]])}
    _, session = session_on(
        table_of(ROWS), noise=SeededNoise(0), cost=Cost(privacy_measure="gdp", amount=1e6)
    )
    found = session.measure(
        RowProducts(EYES, clip=9.0, extra_features=further), session.remaining
    ).value
    wanted = sum(further["b"][b, 0] for _, b, _ in ROWS)
    assert found.extra_features["b"] == pytest.approx([wanted], abs=6 * found.single_std)
    assert found.single["b"] == pytest.approx([3, 6, 6], abs=6 * found.single_std)


def test_strategies_read_the_rows_that_they_say():
    rng = np.random.default_rng(3)
    full = {n: rng.normal(size=(k, 2)) for n, k in CODES.items()}
    plan = RowProducts(full, clip=9.0)
    assert (sums(ROWS, plan) == sums(ROWS, plan, "observed")).all()
    assert not behind(ROWS, plan, "observed")[0].event.required
    short = RowProducts({n: full[n][:k] for n, k in LEVELS.items()}, clip=9.0)
    answer, _ = behind(ROWS, short, "complete-rows")
    assert answer.event.required == {"a", "b"}
    assert (answer.exact == sums([r for r in ROWS if r[0] < 3 and r[1] < 2], plan)).all()
    with pytest.raises(ParameterError, match="a row for each code"):
        behind(ROWS, plan, "complete-rows")
    noise, session = session_on(table_of(ROWS), "impute-first")
    with noise:
        session.apply(filling(session, {"a": [0, 0, 1], "b": [0, 1]})).measure(short, COST)
    filled = [(2 if a == 3 else a, 1 if b == 2 else b, c) for a, b, c in ROWS]
    assert (noise.answers[0].exact == sums(filled, plan)).all()


def test_streamed_rows_give_the_same_sums(tmp_path):
    table, rng = table_of(ROWS), np.random.default_rng(3)
    path = tmp_path / "rows.parquet"
    table.with_values(np.random.default_rng(0)).to_native().to_parquet(path)
    blocks = {n: rng.normal(size=(k, 2)) for n, k in CODES.items()}
    plan = RowProducts(blocks, clip=2.5, extra_features={"a": blocks["a"], "c": 2 * blocks["c"]})
    assert (sums(ROWS, plan) == sums(DuckDBSource(path, SCHEMA), plan)).all()


def test_levels_that_are_merged_share_a_block():
    rng = np.random.default_rng(4)
    merged = {n: rng.normal(size=(k, 2)) for n, k in {"a": 3, "b": 3, "c": 2}.items()}
    groups = {"a": np.array([1, 0, 1]), "b": np.array([0, 1]), "c": np.array([0, 0, 1, 1])}
    noise, session = session_on(table_of(ROWS))
    with noise:
        session.apply(LevelMerge(groups)).measure(
            RowProducts(merged, clip=2.0, extra_features=merged), COST
        )
    spread = {
        n: merged[n][np.append(g, np.arange(g.max() + 1, len(merged[n])))]
        for n, g in groups.items()
    }
    assert (
        noise.answers[0].exact == sums(ROWS, RowProducts(spread, 2.0, extra_features=spread))
    ).all()


@pytest.mark.parametrize("streamed", [False, True])
def test_kinds_of_missing_share_a_code_not_applicable_is_a_level(streamed, tmp_path):
    kinds = {"nullable": True, "refused": ("ref",), "not_applicable": ()}
    schema = Schema(
        (
            Categorical(name="works", levels=("no", "yes")),
            Categorical(name="hours", levels=("few", "many"), **kinds),
        ),
        rules=(NotApplicable("hours", unless="works = 'yes'"),),
    )
    cells = {"works": ["no", "yes", "yes", "yes"] * 5, "hours": [None, "few", "ref", None] * 5}
    frame = pd.DataFrame(cells)
    frame.to_parquet(path := tmp_path / "x.parquet")
    source = DuckDBSource(path, schema) if streamed else MemorySource(Table.read(frame, schema))
    works, hours = [[1.0], [-1.0]], [[1.0, 0], [0, 1], [2, 2], [-1, 0]]
    plan = RowProducts({"works": np.array(works), "hours": np.array(hours)}, clip=100.0)
    answer, _ = behind(source, plan)
    rows = [(works[w], hours[h]) for w, h in ((0, 2), (1, 0), (1, 3), (1, 3))]
    wanted = 5 * sum(np.concatenate([w, h, np.outer(w, h).ravel()]) for w, h in rows)
    assert answer.exact * 100.0 / answer.event.sensitivity == pytest.approx(wanted)


class Counting:
    """A custom source, which counts and has no weights."""

    schema = SCHEMA

    def counts(self, cliques, *, rows):
        return MemorySource(table_of(ROWS)).counts(cliques, rows=rows)


def test_what_cannot_be_afforded_or_drawn_is_refused_before_anything_is_charged():
    plan, little = RowProducts(EYES, clip=2.0), Cost(privacy_measure="gdp", amount=0.01)
    _, session = session_on(table_of(ROWS), cost=Cost(privacy_measure="gdp", amount=0.1))
    _, unweighted = session_on(Counting(), cost=Cost(privacy_measure="gdp", amount=0.1))
    for make in (
        lambda: session.measure(plan, Cost(privacy_measure="gdp", amount=1e-40)).value,
        lambda: session.measure(plan, Cost(privacy_measure="pure", amount=0.1)).value,
        lambda: session.measure(RowProducts({"a": np.eye(4)}, clip=2.0), COST).value,
        lambda: RowProducts({"a": np.array([[5.0]])}, clip=1.0),
        lambda: RowProducts({"a": np.array([[np.nan]])}, clip=1.0),
        lambda: RowProducts({"a": np.zeros(3)}, clip=1.0),
        lambda: RowProducts(EYES, clip=1.0, extra_features={"a": np.full((4, 1), 4.5)}),
        lambda: (
            session.measure(RowProducts(EYES, 2.0, extra_features={"a": np.eye(3)}), COST).value
        ),
        lambda: (
            session.measure(RowProducts(EYES, 2.0, extra_features={"z": np.eye(4)}), COST).value
        ),
        lambda: RowProducts({}, clip=0.0),
        lambda: RowProducts({}, clip=np.inf),
        lambda: RowProducts({}, clip=1.0, first_order_weight=0.0),
    ):
        with pytest.raises(ParameterError):
            make()
    with pytest.raises(ParameterError, match="weighted_counts"):
        unweighted.measure(plan, little)
    with pytest.raises(BudgetExceededError):
        session.measure(plan, COST)
    assert session.remaining.amount == unweighted.remaining.amount == 0.1


def test_what_was_checked_cannot_be_changed_afterwards():
    blocks = {n: np.eye(k) for n, k in CODES.items()}
    plan = RowProducts(blocks, clip=1.0)
    blocks["b"][0, 0] = 2.0**22
    assert plan.blocks["b"][0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        plan.blocks["b"][0, 0] = np.nan
    with pytest.raises(TypeError):
        plan.blocks["b"] = blocks["b"]


def by_hand(left, table, right):
    """The same in Python's whole numbers, which have no end."""
    exact = left.astype(object).T @ table.astype(object) @ right.astype(object)
    return np.clip(exact.ravel(), -(2**61), 2**61)


@pytest.mark.parametrize("rows", [1, 10**7, 10**11, 2**40])
def test_sums_over_any_number_of_rows_are_exact(rows):
    rng = np.random.default_rng(rows)
    left = rng.integers(-(2**12), 2**12, (41, 40))
    right = rng.integers(-(2**12), 2**12, (16, 15))
    table = (rng.dirichlet(np.full(41 * 16, 0.1)) * rows * 2**10).astype(np.int64).reshape(41, 16)
    found = products._sums(left, table, right)
    assert found.dtype == np.int64
    assert (found == by_hand(left, table, right).astype(np.int64)).all()


def test_of_too_many_rows_a_sum_is_cut_off_and_never_wraps():
    left, right = np.array([[2**12]]), np.array([[2**12, -(2**12)]])
    for size in (2**37 - 1, 2**37, 2**37 + 1, 2**50, 2**62):
        table = np.array([[size]])
        assert products._sums(left, table, right).tolist() == [*by_hand(left, table, right)]
        assert products._sums(left * 0, table, right).tolist() == [0, 0]
