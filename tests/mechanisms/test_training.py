"""Private training: what a row may move, what is charged, what a gradient function may not do."""

import contextlib
import copy
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from mechanisms.witness import Keeper
from missdp import Categorical, Schema, Table
from missdp.accounting import Budget, Cost, SampledGaussianEvent
from missdp.errors import BudgetExceededError, ParameterError
from missdp.mechanisms import Door, SecureNoise, SeededNoise, Training
from missdp.mechanisms.training import RowFunction, _Grid, _RowGradients
from missdp.sources import MemorySource, strategy_named

SCHEMA = Schema(
    tuple(
        Categorical(name=name, levels=tuple(range(size)), nullable=name != "c")
        for name, size in (("a", 3), ("b", 2), ("c", 2))
    )
)
SIZES = (4, 3, 2)  # with "missing"
PLAN = Training(rate=1.0, steps=4, clip=1.0, noise_multiplier=1.0)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, s, n) for name, s in zip("abc", SIZES, strict=True)}
    return Table.from_codes(SCHEMA, codes)


def ones(codes):
    return np.ones((len(codes["a"]), 1))


def halves(codes):
    return 0.5 * ones(codes)


def door_to(rows, missing="joint", *, epsilon=1e4, noise=None, currency="zcdp", source=None):
    budget = Budget(epsilon, 1e-6, schedule="adaptive", currency=currency)
    noise = noise if noise is not None else Keeper()
    found = source or MemorySource(rows)
    return Door(found, strategy_named(missing), budget=budget, noise=noise), budget, noise


def stepped(rows, gradient, plan=PLAN, *, state=(), rows_at_once=4, **more):
    """Return who saw what stands behind one step."""
    door, _, keeper = door_to(rows, **more)
    door.train(plan, gradient, state, rows_at_once=rows_at_once).step(*state)
    return keeper


def values_of(seed):
    """Gradients of every row there can be, of all sizes, some that are no numbers."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((*SIZES, 3)) * 10.0 ** rng.integers(-3, 4, (*SIZES, 1))
    odd = [np.nan, np.inf, -np.inf, 1e308, -1.7e308, 5e-324, 1e-300, 0.0]
    where = rng.random(found.shape) < 0.1
    found[where] = rng.choice(odd, where.sum())
    return found


CURRENT = {}  # a state would have to be finite


def current(codes):
    """The gradient of a row is an entry of a table: any function of a row there can be."""
    return CURRENT["values"][codes["a"], codes["b"], codes["c"]]


def current_in_parts(codes):
    found = current(codes)
    return found[:, :2].reshape(-1, 1, 2), found[:, 2:]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 11),
    row=st.tuples(*(st.integers(0, s - 1) for s in SIZES)),
    at=st.integers(0, 11),
    multiplier=st.sampled_from([0.0625, 0.3, 1.0, 7.5, 65536.0]),
    clip=st.sampled_from([1e-6, 0.1, 1.0, 123.0]),
    function=st.sampled_from([current, current_in_parts]),
)
def test_a_row_moves_the_sum_by_at_most_the_clip_norm(seed, n, row, at, multiplier, clip, function):
    """In whole numbers: nothing is rounded here. Half of the rows have holes."""
    plan = Training(rate=1.0, steps=4, clip=clip, noise_multiplier=multiplier)
    rows, CURRENT["values"] = table(n, seed), values_of(seed)
    codes = zip("abc", row, strict=True)
    more = {name: np.insert(rows.codes(name).astype(int), min(at, n), code) for name, code in codes}
    first = stepped(rows, function, plan).exact
    keeper = stepped(Table.from_codes(SCHEMA, more), function, plan)
    moved = sum(int(x) ** 2 for x in keeper.exact.total - first.total)
    cells = plan.grid(3).cells
    assert moved <= cells**2
    # The noise that is drawn is at least what is claimed for this length, and the slack beyond it.
    assert keeper.law.sigma >= cells * multiplier * (1 + 2.0**-10)
    assert keeper.law.shift(first, keeper.exact) <= 1 / multiplier
    gradient = [float(x) for x in CURRENT["values"][row]]
    if not all(map(math.isfinite, gradient)):
        assert moved == 0
    elif math.hypot(*gradient) > clip * 1.01:
        assert moved >= (0.999 * cells) ** 2  # clipped, not dropped


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(0, 10**6), st.sampled_from([2**12, 2**20, 2**38]))
def test_clipped_rows_lie_within_the_ball_of_whole_numbers(dimension, seed, cells):
    rng = np.random.default_rng(seed)
    gradients = rng.standard_normal((20, dimension)) * 10.0 ** rng.integers(-5, 5, (20, 1))
    gradients[0] = 1.0 / math.sqrt(dimension)  # every coordinate is rounded the same way
    gradients[1] = [1.0] + [0.0] * (dimension - 1)
    grid = _Grid(clip=1.0, cells=cells, dimension=dimension)
    for row in grid.cells_of(gradients):
        assert sum(int(x) ** 2 for x in row) <= cells**2


def long_in_both(codes, values):
    found = values[codes["a"]]
    return found[:, :2], found[:, 2:]


def test_all_parameters_are_clipped_together():
    """Each part has the clip norm by itself; clipped apart they would move the sum by sqrt(2)."""
    rows = Table.from_codes(SCHEMA, {"a": [0], "b": [0], "c": [0]})
    values = np.tile([0.6, 0.8, 0.0, 1.0], (4, 1))
    door, _, keeper = door_to(rows)
    sums = door.train(PLAN, long_in_both, (values,)).step(values)
    assert [part.shape for part in sums] == [(2,), (2,)]
    moved = keeper.exact.total * PLAN.grid(4).width
    np.testing.assert_allclose(moved, values[0] / math.sqrt(2), rtol=1e-8)


# Sampling
def test_coins_are_never_more_likely_than_promised():
    for rate in (0.1, 1 / 3, 2.0**-40, 0.75):
        threshold = int(rate * 2**64)
        for low, expected in ((threshold - 1, True), (threshold, False)):
            noise = SeededNoise(0)
            noise._words = lambda count, low=low: np.full(count, low, dtype=np.uint64)
            assert noise.coins(rate, 1)[0] == expected
    assert SecureNoise().coins(1.0, 5).all()
    assert not SecureNoise().coins(0.0, 500).any()
    assert 300 < SecureNoise().coins(0.5, 1000).sum() < 700
    with pytest.raises(ParameterError, match="rate"):
        SecureNoise().coins(1.5, 3)


def test_the_sum_is_over_the_sample_with_the_noise_that_was_promised():
    plan = Training(rate=0.3, steps=600, clip=1.0, noise_multiplier=6.0)
    door, _, _ = door_to(table(80))
    training = door.train(plan, halves, ())
    sums = np.array([training.step()[0] for _ in range(600)])
    mean, variance = 0.5 * 24, 0.25 * 80 * 0.3 * 0.7 + 36  # noise of .7 times the size: 22
    assert training.noise_std == pytest.approx(6.0, rel=0.002)
    assert abs(sums.mean() - mean) < 4 * math.sqrt(variance / 600)
    assert sums.var() == pytest.approx(variance, rel=0.25)


# What is charged
def test_all_steps_are_charged_once_before_anything_is_read():
    class Shut(MemorySource):
        @property
        def table(self):
            assert budget.events
            return super().table

    door, budget, keeper = door_to(None, source=Shut(table(30)))
    training = door.train(PLAN, halves, (), label="heads")
    (event,) = budget.events
    assert event == SampledGaussianEvent(
        rate=1.0, noise_multiplier=1.0, steps=4, discrete=True, label="heads"
    )
    for left in (3, 2, 1, 0):
        training.step()
        assert training.steps_left == left
    with pytest.raises(BudgetExceededError, match="4 steps"):
        training.step()
    assert len(keeper.answers) == 4
    assert len(budget.events) == 1
    assert {e.steps for e, _, _ in keeper.kept} == {1}


@pytest.mark.parametrize(
    ("currency", "rate", "epsilon"),
    [("zcdp", 0.1, 3.0), ("renyi", 0.005, 0.3), ("renyi", 0.1, 3.0), ("renyi", 1.0, 0.3)],
)
def test_the_noise_a_cost_buys_is_what_it_costs_by_the_oracle(currency, rate, epsilon):
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    if currency == "zcdp":
        cost = Cost.worth(currency, epsilon, 1e-5)
    else:
        cost = Training.cost(epsilon, 1e-5, rate=rate, steps=100)
    plan = Training.worth(cost, rate=rate, steps=100, clip=1.0)
    spent = float(cost.price(plan.event()))
    assert 0.999 * cost.amount <= spent <= cost.amount
    orders = np.concatenate([np.arange(1.1, 11, 0.05), np.arange(11, 80.0, 0.5)])
    accountant = RdpAccountant(orders.tolist())
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(plan.noise_multiplier)), 100)
    assert accountant.get_epsilon(1e-5) <= epsilon * (1 + 1e-4)  # not all orders
    if currency == "renyi":  # whole orders only, but little is wasted
        assert accountant.get_epsilon(1e-5) >= 0.9 * epsilon
    else:
        assert plan.noise_multiplier == pytest.approx(math.sqrt(50 / cost.amount))


# An attacker who sees every answer and uses the likelihood ratio
def canary(codes):
    """Every row there is has gradient 0, but one, which has the clip norm."""
    return ((codes["a"] == 2) & (codes["b"] == 1))[:, None] * np.array([0.6, 0.8])


def test_the_likelihood_ratio_of_a_sample_averages_to_one_and_is_the_mixture():
    plan = Training(rate=0.3, steps=1, clip=1.0, noise_multiplier=0.7)
    seen = {"a": [2, 0], "b": [1, 0], "c": [0, 0]}
    many = {name: np.resize(codes[:1], 13) for name, codes in seen.items()}
    rows = (seen, {"a": [0], "b": [0], "c": [0]}, many)
    kept = [stepped(Table.from_codes(SCHEMA, codes), canary, plan) for codes in rows]
    (*behind, crowd), law, noise = [keeper.exact for keeper in kept], kept[0].law, SeededNoise(1)
    answers = [law.draw(behind[1], noise) for _ in range(1000)]
    ratios = np.exp([law.log_ratio(answer, *behind) for answer in answers])
    assert ratios.mean() == pytest.approx(1.0, abs=4 * ratios.std() / 31)
    along = np.array(answers) @ np.array([0.6, 0.8]) / law.sigma
    shift = plan.grid(2).cells / law.sigma
    direct = 0.7 + 0.3 * norm.pdf(along - shift) / norm.pdf(along)
    np.testing.assert_allclose(ratios, direct, rtol=1e-6)
    with pytest.raises(ParameterError, match="at most 12"):
        law.log_ratio(answers[0], crowd, behind[1])


def indicators(codes):
    return np.stack([*(codes["a"] == k for k in range(4)), codes["b"] == 2], axis=1) * 0.5


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("missing", ["joint", "observed", "complete-rows", "impute-first"])
def test_rows_with_holes_are_read_as_the_strategy_says(missing, merged):
    rows = table(60)
    a, b = (rows.codes(name) for name in "ab")
    door, budget, keeper = door_to(rows, missing)
    if missing == "impute-first":
        door = door.filled({"a": [1, 0, 0], "b": [1, 0]})
        a, b = np.where(a == 3, 0, a), np.where(b == 2, 0, b)
    elif missing == "complete-rows":
        a, b = a[(a < 3) & (b < 2)], b[(a < 3) & (b < 2)]
    if merged:
        door = door.merged({"a": np.array([0, 1, 1]), "b": np.arange(2), "c": np.arange(2)})
        a = np.array([0, 1, 1, 2])[a]
    door.train(PLAN, indicators, ()).step()
    counts = [*np.bincount(a, minlength=4), (b == 2).sum()]
    np.testing.assert_allclose(keeper.exact.total * PLAN.grid(5).width, 0.5 * np.array(counts))
    gate = budget.events[-1].gate
    assert gate == (frozenset("ab") if missing == "complete-rows" else None)


# What a gradient function may not do
def batch_norm(codes, theta):
    x = codes["a"].astype(float)
    return ((x - x.mean()) / (x.std() + 1))[:, None] * theta


LOOKS = [
    batch_norm,
    lambda codes, theta: (codes["a"] - codes["a"].mean())[:, None] + theta,
    lambda codes, theta: np.ones((len(codes["a"]), 1)) / codes["a"].sum() + theta,
    lambda codes, theta: np.cumsum(codes["a"])[:, None] + theta,
    lambda codes, theta: np.roll(codes["b"], 1)[:, None] + theta,
    lambda codes, theta: np.argsort(np.argsort(codes["a"], kind="stable"))[:, None] + theta,
    lambda codes, theta: (codes["a"] == codes["a"].max())[:, None] * (1.0 + theta),
    lambda codes, theta: np.full((len(codes["a"]), 1), (codes["b"] == 2).any()) + theta,
    lambda codes, theta: np.random.default_rng().standard_normal((len(codes["a"]), 1)) + theta,
]


def later(codes, step):
    x = codes["a"][:, None].astype(float)
    return x - x.mean() if step > 2 else x


def failing_later(codes, step):
    return codes["a"][:, None] / ([1.0] * 3)[step]


def test_a_function_that_changes_its_ways_is_found_out_on_made_up_rows():
    plan = Training(rate=0.5, steps=100, clip=1.0, noise_multiplier=1.0)
    door, _, keeper = door_to(table(30))
    training = door.train(plan, later, (0,))
    for step in range(4):
        training.step(step)
    with pytest.raises(ParameterError, match="this row only"):
        training.step(4)
    training = door.train(plan, failing_later, (0,))
    for step in range(3):
        training.step(step)
    with pytest.raises(ParameterError, match="made-up rows: IndexError"):
        training.step(3)
    assert len(keeper.kept) == 7


def writing(codes, theta):
    for array in (theta, codes["a"]):
        with contextlib.suppress(ValueError):
            array.flags.writeable = True
            array[...] = 7
    return ones(codes) + theta


def test_what_a_function_writes_to_its_inputs_is_lost():
    rows, theta = table(30), np.zeros(1)
    codes = rows.codes("a").copy()
    stepped(rows, writing, state=(theta,))
    assert theta[0] == 0
    np.testing.assert_array_equal(rows.codes("a"), codes)


SEEN = []


def noting_its_size(codes):
    SEEN.append(tuple(map(len, codes.values())))
    return ones(codes)


@pytest.mark.parametrize("n", [0, 1, 5, 8, 9, 30])
def test_every_block_has_the_public_size(n):
    SEEN.clear()
    found = stepped(table(n), noting_its_size, rows_at_once=8).exact
    assert {*SEEN} == {(8, 8, 8)}
    assert found.total[0] * PLAN.grid(1).width == pytest.approx(n)


def failing_on_a_rare_row(codes):
    if (codes["a"] == 3).any():
        raise KeyError("private")
    if (codes["a"] == 2).any():
        warnings.warn("private", stacklevel=1)
        np.log(np.zeros(1))
    return ones(codes)


def test_a_row_for_which_the_function_fails_counts_as_none_and_nobody_is_told():
    """A warning is an error in these tests; no made-up row has the codes that fail."""
    codes = {name: table(40).codes(name) for name in "abc"}
    function = RowFunction(failing_on_a_rare_row, {"a": 2, "b": 3, "c": 2}, (), 8)
    found = _RowGradients(lambda: codes, function, (), PLAN.grid(1))
    fine = (codes["a"] < 3).sum()
    assert 0 < fine < 40
    assert found.total[0] * PLAN.grid(1).width == pytest.approx(fine)


def constant(codes):
    return np.where(codes["a"] > 0, 1.0, -1.0)[:, None]


def test_what_is_clipped_does_not_depend_on_who_is_beside_whom():
    """Sums that leave the range on the way are clipped once, at the end."""
    plan = Training(rate=1.0, steps=1, clip=1.0, noise_multiplier=2.0**-4)
    many = 2**19 + 2**12
    codes = {name: np.zeros(2 * many, int) for name in "abc"}
    codes["a"][:many] = 1
    grid = plan.grid(1)
    function = RowFunction(constant, {"a": 4, "b": 3, "c": 2}, (), 1024)
    cells = int(grid.cells_of(np.ones((1, 1)))[0, 0])
    for extra, expected in ((1, cells), (-5, -5 * cells), (many, 2**61), (-many, -(2**61))):
        taken = {n: c[max(-extra, 0) : many + min(many - extra, many)] for n, c in codes.items()}
        gradients = _RowGradients(lambda taken=taken: taken, function, (), grid)
        assert gradients.total.tolist() == [expected], extra


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("names", [["a"], ["c"], ["a", "b"]])
def test_rows_without_what_must_be_observed_are_not_read(names, merged):
    """They do not reach the function, whatever it would do; the charge says so in its gate.

    Names that can be read once, or groups that are changed afterwards, change nothing.
    """
    door, budget, keeper = door_to(rows := table(60, seed=4), missing="observed")
    if merged:
        groups = {"a": np.array([0, 1, 1]), "b": np.arange(2), "c": np.arange(2)}
        door = door.merged(groups)
        groups["a"][:] = 0
    given = list(names)
    training = door.train(PLAN, ones, (), observed=iter(given) if merged else given)
    given.clear()
    training.step()
    holes = [rows.codes(n) == SCHEMA[n].size for n in names if n != "c"]
    seen = ~np.logical_or.reduce(holes) if holes else np.ones(60, dtype=bool)
    assert len(keeper.exact) == seen.sum()
    assert keeper.exact.total[0] == seen.sum() * keeper.exact.each[0, 0]
    assert budget.events[0].gate == (frozenset(names) - {"c"} or None)


LOUD = Training(rate=1.0, steps=1, clip=1.0, noise_multiplier=2.0**16)


def halfway(codes, radius):
    """Of half a cell: the place in a block decides its rounding, by far less than is refused."""
    even = (np.arange(len(codes["a"])) + codes["a"]) % 2 == 0
    middle = (radius // 4 + 0.5) / radius
    found = np.where(even, middle + 2.0**-33, middle - 2.0**-33)
    return np.where(codes["b"] == 1, -1.0, found)[:, None]


@pytest.mark.parametrize("n", [300, 4000, 6000])
def test_the_slack_covers_what_rounding_does_to_any_number_of_rows(n):
    """A row at the front moves all others by a place, and each by a cell, all in its direction."""
    codes = {"a": np.arange(n) % 2, "b": np.zeros(n, int), "c": np.zeros(n, int)}
    more = {name: np.insert(c, 0, 1) for name, c in codes.items()}
    grid, facts = LOUD.grid(1), {"state": (np.float64(LOUD.grid(1).radius),), "epsilon": 1e9}
    one, other = (
        stepped(Table.from_codes(SCHEMA, rows), halfway, LOUD, **facts) for rows in (codes, more)
    )
    moved = one.exact.total[0] - other.exact.total[0]
    assert moved >= grid.cells - 1 + min(n, grid.beside) - 1
    assert one.law.shift(one.exact, other.exact) <= 1 / LOUD.noise_multiplier


def wide(codes):
    return np.zeros((len(codes["a"]), 2**22 + 1))


def default(codes, kept=[]):  # noqa: B006
    return ones(codes)


def closed(kept):
    return lambda codes: kept


class Method:
    def gradient(self, codes):
        return ones(codes)


class Stream:
    schema = SCHEMA

    def counts(self, cliques, *, rows):
        raise AssertionError


class Closed(MemorySource):
    @property
    def table(self):
        raise AssertionError


BROKEN = (
    lambda codes: np.ones((3, 2)),
    lambda codes: [["x"]] * len(codes["a"]),
    lambda codes: (),
    lambda codes: codes["income"],
)
REFUSED = [
    *(("gradient", {"gradient": f}) for f in BROKEN),
    *(
        ("plain function", {"gradient": f})
        for f in (closed([]), default, Method(), Method().gradient, np.sum)
    ),
    *(  # at 0, batch_norm gives every row 0
        ("this row only", {"gradient": f, "state": (np.zeros(1),), "plan": plan})
        for f in LOOKS
        for plan in (replace(PLAN, clip=1e-3), PLAN, replace(PLAN, clip=1e6))
    ),
    ("given", {"state": ([],)}),
    *(("rows_at_once", {"rows_at_once": n}) for n in (0, 2**10 + 1, 1.5, True)),
    ("not there: aa", {"observed": ("a", "aa")}),
    ("parameters", {"gradient": wide, "plan": LOUD, "rows_at_once": 1}),
    ("budget", {"plan": replace(PLAN, steps=10**9)}),
    ("streamed", {"source": Stream()}),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_training_that_is_refused_is_not_charged_and_reads_nothing(case):
    words, given = REFUSED[case]
    given = {"plan": PLAN, "gradient": ones, "state": (), "source": Closed(table(30)), **given}
    door, budget, keeper = door_to(None, source=given.pop("source"))
    kind = BudgetExceededError if words == "budget" else ParameterError
    with pytest.raises(kind, match=words) as refused:
        door.train(**given)
    assert "\n" not in str(refused.value)
    assert not budget.events
    assert not keeper.kept


def test_a_training_is_not_copied_and_takes_no_step_once_its_state_has_diverged():
    door, _, keeper = door_to(table(5))
    training = door.train(PLAN, writing, (np.zeros(1),))
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ParameterError, match="cannot be copied"):
            leave(training)
    with pytest.raises(ParameterError, match="diverged"):
        training.step(np.array([np.inf]))
    assert training.steps_left == 4
    assert not keeper.kept


def test_plans_that_are_none_and_costs_that_buy_none_are_refused():
    for name, values in {
        "rate": (0.0, 1.1, math.nan),
        "steps": (0, 2.5, True),
        "clip": (0.0, math.inf),
        "noise_multiplier": (0.01, 1e9, "1"),
    }.items():
        for value in values:
            with pytest.raises(ParameterError, match=name):
                replace(PLAN, **{name: value})
    facts = {"rate": 0.1, "steps": 1, "clip": 1.0}
    for words, currency, amount in (("never pure", "pure", 1.0), ("so little", "zcdp", 1e-12)):
        with pytest.raises(ParameterError, match=words):
            Training.worth(Cost(currency=currency, amount=amount), **facts)
    rich = Training.worth(Cost(currency="zcdp", amount=1e6), **facts)
    assert rich.noise_multiplier == 2.0**-4
