"""Selection: exact probabilities, proven sensitivities, charges first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from missdp.accounting import Budget, ExplicitSeed, PureEvent, SelectionEvent
from missdp.errors import BudgetExceededError, DataError, ParameterError
from missdp.mechanisms import (
    SecureNoise,
    SeededNoise,
    exponential_mechanism,
    generalised_exponential_mechanism,
    normalised_scores,
)

RUNS = 6_000


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


def test_open_dp_agrees_on_the_price():
    """The privacy maps of OpenDP's own measurements give the events' epsilon and rho."""
    import opendp.prelude as dp

    from missdp.accounting.curves import zcdp_rho_of

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
