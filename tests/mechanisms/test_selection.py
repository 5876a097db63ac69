"""Selection: exact probabilities, proven sensitivities, charges first."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from missdp.accounting import Budget, ExplicitSeed, PureEvent, SelectionEvent
from missdp.accounting.exact import exact
from missdp.errors import BudgetExceededError, DataError, ParameterError
from missdp.mechanisms import (
    SecureNoise,
    SeededNoise,
    exponential_mechanism,
    generalised_exponential_mechanism,
    normalised_scores,
)
from missdp.mechanisms.choices import Best

RUNS = 6_000

scores = st.lists(st.floats(-9, 9), min_size=1, max_size=5)


def select(scores, *, mechanism=exponential_mechanism, budget=None, source=None, **more):
    if mechanism is exponential_mechanism:
        more.setdefault("sensitivity", 1.0)
    return mechanism(
        scores,
        epsilon=more.pop("epsilon", 1.0),
        budget=Budget(1.0) if budget is None else budget,
        source=SeededNoise(1) if source is None else source,
        **more,
    )


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(2)], ids=["secure", "seeded"])
def test_probabilities_are_those_of_the_exponential_mechanism(source):
    scores, epsilon, sensitivity = np.array([0.0, 4.0, 6.0, -3.0]), 0.8, 1.7
    budget = Budget(1e9)
    wins = [
        select(scores, epsilon=epsilon, sensitivity=sensitivity, budget=budget, source=source)
        for _ in range(RUNS)
    ]
    observed = np.bincount(wins, minlength=4)
    expected = RUNS * softmax(epsilon * scores / (2 * sensitivity))
    assert stats.chisquare(observed, expected).pvalue > 1e-6
    for wrong in (0.7, 1.3, 2.0):  # 2.0: the factor of monotone scores, not claimed here
        expected = RUNS * softmax(wrong * epsilon * scores / (2 * sensitivity))
        assert stats.chisquare(observed, expected).pvalue < 1e-6


class Recorder(SeededNoise):
    """Notes the scale and the scores it is asked to draw with."""

    def noisy_max(self, scores, scale, *, noise="gumbel"):
        self.scores, self.scale = np.asarray(scores), scale
        return 0


@given(
    st.integers(1, 2_000).map(lambda n: n / 100)
    | st.sampled_from([8.46])
    | st.floats(2**-6, 20, width=16).map(np.float16)
    | st.floats(2**-6, 20, width=32).map(np.float32),
    st.sampled_from([1.0, 0.7, np.float32(0.7), np.float16(1.3), 3]),
)
@example(8.46, 0.7)
@example(np.float16(0.3), 1.0)
def test_the_scale_is_never_below_what_the_charged_epsilon_needs(epsilon, sensitivity):
    """Epsilon as the ledger reads it, in decimal; numbers of 16 and 32 bits included."""
    source, budget = Recorder(1), Budget(1e9)
    select([0.0, 1.0], epsilon=epsilon, sensitivity=sensitivity, source=source, budget=budget)
    (event,) = budget.events
    assert Fraction(source.scale) >= 2 * Fraction(float(sensitivity)) / exact(event.epsilon)


def test_permute_and_flip_errs_less_and_is_charged_as_pure():
    scores, budget, source = np.array([0.0, 3.0, 3.5]), Budget(1e9), SeededNoise(3)
    mean = {
        method: np.mean(
            [
                scores[select(scores, budget=budget, source=source, method=method)]
                for _ in range(RUNS)
            ]
        )
        for method in ("exponential", "permute-and-flip")
    }
    assert mean["permute-and-flip"] > mean["exponential"]
    assert type(budget.events[0]) is SelectionEvent
    assert type(budget.events[-1]) is PureEvent


def flip_law(scores, scale):
    """The law of permute-and-flip by going through all orders (McKenna & Sheldon 2020)."""
    coins, law = np.exp((scores - scores.max()) / scale), np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        nobody = 1.0
        for i in order:
            law[i] += nobody * coins[i] / len(orders)
            nobody *= 1 - coins[i]
    return law


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(2)], ids=["secure", "seeded"])
def test_probabilities_are_those_of_permute_and_flip(source):
    scores, epsilon, sensitivity = np.array([0.0, 4.0, 6.0, -3.0]), 0.8, 1.7
    facts = {"epsilon": epsilon, "sensitivity": sensitivity, "method": "permute-and-flip"}
    budget = Budget(1e9)
    wins = [select(scores, budget=budget, source=source, **facts) for _ in range(RUNS)]
    observed = np.bincount(wins, minlength=4)
    scale = 2 * sensitivity / epsilon
    assert stats.chisquare(observed, RUNS * flip_law(scores, scale)).pvalue > 1e-6
    for wrong in (0.7 * scale, 1.4 * scale):
        assert stats.chisquare(observed, RUNS * flip_law(scores, wrong)).pvalue < 1e-6
    assert stats.chisquare(observed, RUNS * softmax(scores / scale)).pvalue < 1e-6


@given(scores, st.integers(0, 4), st.floats(0.1, 10))
def test_log_ratios_of_permute_and_flip_are_those_of_its_law(scores, answer, scale):
    here = np.array(scores)
    there = here + np.resize([1.0, -1.0], here.size)
    law, i = Best(scale, "exponential"), answer % here.size
    found = law.log_ratio(i, here, there)
    assert found == pytest.approx(
        np.log(flip_law(here, scale)[i] / flip_law(there, scale)[i]), abs=1e-6
    )
    assert abs(found) <= 2 / scale + 1e-9


def test_the_range_of_permute_and_flip_is_not_bounded():
    """So a selection event, which costs a fourth of it in zCDP, does not pay for it."""
    epsilon, scores = 1.0, np.array([0.0, 0.0, 0.0, 0.0])
    law, others = Best(2 / epsilon, "exponential"), np.array([1.0, -1.0, -1.0, -1.0])
    ratios = [law.log_ratio(i, others, scores) for i in range(4)]
    assert max(ratios) - min(ratios) > 1.05 * epsilon
    assert law.exceeds(PureEvent(epsilon=epsilon), scores, others) is None
    assert "selection" in law.exceeds(SelectionEvent(epsilon=epsilon), scores, others)
    assert law.exceeds(PureEvent(epsilon=0.9 * epsilon), scores, others) is not None


def test_open_dp_agrees_on_the_price():
    """The privacy maps of OpenDP's own measurements give the events' epsilon and rho."""
    import opendp.prelude as dp

    from missdp.accounting.costs import zcdp_rho_of

    dp.enable_features("contrib")
    epsilon, sensitivity = 0.7, 3.0
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    scale = 2 * sensitivity / epsilon
    exponential = dp.m.make_noisy_max(*space, dp.max_divergence(), scale)
    gumbel = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale)
    assert exponential.map(sensitivity) == pytest.approx(epsilon)
    rho = zcdp_rho_of(SelectionEvent(epsilon=epsilon))
    assert gumbel.map(sensitivity) == pytest.approx(rho)


@pytest.mark.parametrize("mechanism", [exponential_mechanism, generalised_exponential_mechanism])
def test_the_charge_comes_first(mechanism):
    more = {} if mechanism is exponential_mechanism else {"sensitivities": [1.0, 2.0]}
    budget, seen = Budget(1.0), []

    def scores():
        seen.append(budget.events)
        return [0.0, 1.0]

    select(scores, mechanism=mechanism, budget=budget, label="pick", gate=["x"], **more)
    assert seen == [(SelectionEvent(epsilon=1.0, label="pick", gate={"x"}),)]
    assert ExplicitSeed() in budget.spent.conditions
    with pytest.raises(BudgetExceededError):
        select(scores, mechanism=mechanism, budget=budget, **more)
    assert len(seen) == 1


@pytest.mark.parametrize("mechanism", [exponential_mechanism, generalised_exponential_mechanism])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), "31337x", None])
def test_bad_scores_are_refused_without_being_named_and_stay_charged(mechanism, bad):
    more = {} if mechanism is exponential_mechanism else {"sensitivities": [1.0, 2.0]}
    budget = Budget(1.0)
    with pytest.raises(DataError) as refused:
        select(lambda: [31337.0 if bad is None else 0.0, bad], mechanism=mechanism, budget=budget,
               **more)  # fmt: skip
    assert "31337" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert budget.remaining_epsilon == 0


@pytest.mark.parametrize(
    "more",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": True},
        {"sensitivity": 0},
        {"sensitivity": float("inf")},
        {"sensitivity": 1e30},
        {"method": "best"},
        {"gate": "age"},
    ],
)
def test_bad_parameters_are_refused_first(more):
    called = []
    with pytest.raises(ParameterError):
        select(lambda: called.append(1), **more)
    assert called == []


@pytest.mark.parametrize(
    "more",
    [
        {"sensitivities": []},
        {"sensitivities": [1.0, 0.0]},
        {"sensitivities": [1.0, float("nan")]},
        {"sensitivities": [1.0, 1e200]},
        {"sensitivities": [[1.0]]},
        {"sensitivities": [1.0], "failure": 0},
        {"sensitivities": [1.0], "failure": 1},
        {"sensitivities": [1.0], "epsilon": -1},
    ],
)
def test_bad_parameters_of_the_generalised_mechanism_are_refused_first(more):
    called = []
    with pytest.raises(ParameterError):
        select(lambda: called.append(1), mechanism=generalised_exponential_mechanism, **more)
    assert called == []


vectors = st.integers(1, 6).flatmap(
    lambda k: st.tuples(
        st.lists(st.floats(-50, 50), min_size=k, max_size=k),
        st.lists(st.floats(0.1, 9), min_size=k, max_size=k),
        st.lists(st.floats(-1, 1), min_size=k, max_size=k),
    )
)


@given(vectors, st.floats(0, 20))
def test_normalised_scores_have_sensitivity_one(drawn, penalty):
    """Move every score by up to its own sensitivity: no normalised score moves by more than 1."""
    scores, widths, moves = map(np.array, drawn)
    before = normalised_scores(scores, widths, penalty=penalty)
    after = normalised_scores(scores + moves * widths, widths, penalty=penalty)
    assert np.abs(after - before).max() <= 1 + 1e-9
    assert before.max() == 0


@given(
    st.floats(0, 2.0**54) | st.floats(0, 1e5),
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([0.1, 0.3, 1.0]),
)
@example(2.0**52, (0.7, -0.7), (1, 2), 0.3)
def test_rounding_of_normalised_scores_is_paid_for(size, places, widths, epsilon):
    """In exact arithmetic: no score used moves further than half of scale times epsilon."""
    widths = np.array(widths, dtype=float)
    scores = np.floor(size * np.array(places))
    used = []
    for sign in (0, 1, -1):
        moved = scores + sign * widths * (1, -1)
        moves = [abs(Fraction(a) - Fraction(b)) for a, b in zip(moved, scores, strict=True)]
        if any(move > width for move, width in zip(moves, widths, strict=True)):
            continue  # not representable: these are no neighbours
        source = Recorder(1)
        generalised_exponential_mechanism(
            moved, sensitivities=widths, epsilon=epsilon, budget=Budget(1e9), source=source
        )
        used.append(source.scores)
        for a, b in zip(used[0], used[-1], strict=True):
            assert abs(Fraction(a) - Fraction(b)) * 2 <= Fraction(source.scale) * exact(epsilon)


def test_normalised_sensitivity_one_is_attained():
    before = normalised_scores(np.array([0.0, 9.0]), np.array([1.0, 2.0]), penalty=0.0)
    after = normalised_scores(np.array([-1.0, 11.0]), np.array([1.0, 2.0]), penalty=0.0)
    assert after[0] - before[0] == pytest.approx(-1)


def test_normalised_scores_in_blocks_equal_the_definition():
    generator = np.random.default_rng(0)
    scores, widths = generator.normal(size=1100) * 30, generator.uniform(0.5, 4, 1100)
    shifted = scores - 2.0 * widths
    plain = ((shifted[:, None] - shifted) / (widths[:, None] + widths)).min(axis=1)
    np.testing.assert_array_equal(normalised_scores(scores, widths, penalty=2.0), plain)


def test_one_noisy_candidate_does_not_spoil_the_choice():
    """With one candidate of sensitivity 1000, the ordinary mechanism guesses; this one does not."""
    scores, widths = np.array([60.0, 0.0, 0.0]), np.array([1.0, 1.0, 1000.0])
    budget, source = Budget(1e9), SeededNoise(8)
    ordinary = [
        select(scores, sensitivity=1000.0, budget=budget, source=source) for _ in range(400)
    ]
    general = [
        select(
            scores,
            mechanism=generalised_exponential_mechanism,
            sensitivities=widths,
            budget=budget,
            source=source,
        )
        for _ in range(400)
    ]
    assert np.mean(np.array(ordinary) == 0) < 0.5
    assert np.mean(np.array(general) == 0) > 0.95


def test_scores_and_sensitivities_must_match():
    with pytest.raises(DataError, match="one score per sensitivity"):
        select([1.0], mechanism=generalised_exponential_mechanism, sensitivities=[1.0, 2.0])
