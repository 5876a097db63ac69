"""Counts leave only after the charge, with the noise the charge says, and never through errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from missdp.accounting import (
    Assumption,
    Budget,
    ExplicitSeed,
    GaussianEvent,
    LaplaceEvent,
    gaussian_delta,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError
from missdp.mechanisms import SecureNoise, SeededNoise, noisy_total, release_counts

RUNS = 20_000


def release(counts, *, budget=None, source=None, noise="laplace", scale=1.0, **more):
    return release_counts(
        counts,
        noise=noise,
        scale=scale,
        sensitivity=more.pop("sensitivity", 1),
        budget=Budget(1.0) if budget is None else budget,
        source=SeededNoise(3) if source is None else source,
        **more,
    )


def test_the_charge_comes_before_the_computation():
    budget, seen = Budget(1.0), []

    def counts():
        seen.append(budget.events)
        return [1, 2]

    release(counts, budget=budget, label="a", gate=["x"])
    expected = LaplaceEvent(sensitivity=1, scale=1.0, label="a", gate={"x"})
    assert seen == [(expected,)]


def test_a_refused_release_computes_and_draws_nothing():
    class Untouchable:
        conditions = ()

        def __getattr__(self, name):
            raise AssertionError(name)

    budget, called = Budget(0.5), []
    with pytest.raises(BudgetExceededError):
        release(lambda: called.append(1), budget=budget, source=Untouchable())
    assert called == []
    assert budget.events == ()


def test_a_computation_that_fails_stays_charged():
    budget = Budget(1.0)
    with pytest.raises(ZeroDivisionError):
        release(lambda: 1 // 0, budget=budget)
    assert budget.remaining_epsilon == 0
    budget = Budget(1.0)
    with pytest.raises(DataError):
        release(lambda: [0.5], budget=budget)
    assert budget.remaining_epsilon == 0


def test_the_event_states_the_noise_that_was_added():
    budget = Budget(9.0, 1e-6)
    release([1], budget=budget, noise="gaussian", scale=7.5, sensitivity=2**0.5)
    release([1], budget=budget, noise="laplace", scale=2.5, conditions=[Assumption("One.")])
    assert budget.events == (
        GaussianEvent(sensitivity=2**0.5, sigma=7.5),
        LaplaceEvent(sensitivity=1, scale=2.5),
    )
    assert {Assumption("One."), ExplicitSeed()} <= set(budget.spent.conditions)


def test_secure_noise_leaves_no_condition():
    budget = Budget(1.0)
    release([5], budget=budget, source=SecureNoise())
    assert budget.spent.conditions == ()


@pytest.mark.parametrize(
    "counts",
    [
        [1.0, float("nan")],
        [float("inf")],
        [31337.5],
        ["31337"],
        [None, 31337],
        [[1], [2, 31337]],
        [31337 + 0j],
        np.array(["2031-03-07"], dtype="datetime64[D]"),
    ],
    ids=str,
)
def test_what_is_no_count_is_refused_without_being_named(counts):
    with pytest.raises(DataError) as refused:
        release(counts)
    assert "31337" not in str(refused.value)
    assert "2031" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"noise": "cauchy"}, "noise"),
        ({"scale": 0}, "scale"),
        ({"scale": 2.0**41}, "scale"),
        ({"noise": "gaussian", "scale": -1}, "scale"),
        ({"sensitivity": 0.2}, "sensitivity"),
        ({"gate": "age"}, "gate"),
        ({"adjacency": "swap"}, "adjacency"),
    ],
)
def test_bad_parameters_are_refused_before_the_counts_are_computed(more, name):
    called = []
    with pytest.raises(ParameterError, match=name):
        release(lambda: called.append(1), **more)
    assert called == []


@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.uint16, np.int64, np.uint64, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
        elements=st.integers(0, 1),
    )
)
def test_shape_and_dtype_depend_on_public_facts_only(counts):
    released = release(counts, scale=1.0)
    assert released.shape == counts.shape
    assert released.dtype == np.int64


@pytest.mark.parametrize(
    "value", [2**63 - 1, -(2**63), np.uint64(2**64 - 1), 1e300, -1e300], ids=str
)
def test_huge_counts_do_not_wrap_around(value):
    released = release(np.array([value] * 50), scale=1.0)
    assert (np.sign(released) == np.sign(float(value))).all()
    assert (np.abs(released.astype(float)) > 2**60).all()


def test_noise_is_centred_on_the_counts():
    counts = np.arange(RUNS)
    noise = release(counts, scale=1.0) - counts
    assert abs(noise.mean()) < 6 * noise.std() / RUNS**0.5
    assert noise.var() == pytest.approx(stats.dlaplace(1.0).var(), rel=0.1)


def observed_loss(noise, scale, epsilon, source):
    """Lower confidence bound on P(A) - e^eps P'(A) over the events A = {output <= t}.

    The two neighbours are one cell of 100 rows and of 101; every entry of the vector is an
    independent run.
    """

    def runs(count):
        budget = Budget(1e9, 0.5)
        return release(np.full(RUNS, count), noise=noise, scale=scale, budget=budget, source=source)

    here, there = runs(100), runs(101)
    best = -math.inf
    for t in range(85, 103):
        a, b = int((here <= t).sum()), int((there <= t).sum())
        low = stats.beta.ppf(1e-7, a, RUNS - a + 1) if a else 0.0
        high = stats.beta.ppf(1 - 1e-7, b + 1, RUNS - b)
        best = max(best, low - math.exp(epsilon) * high)
    return best


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(11)], ids=["secure", "seeded"])
def test_audit_laplace(source):
    """No event tells neighbours apart by more than e^eps; noise 30 % too small is caught."""
    assert observed_loss("laplace", 1.0, 1.0, source) <= 0
    assert observed_loss("laplace", 0.7, 1.0, source) > 0.02


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(12)], ids=["secure", "seeded"])
def test_audit_gaussian(source):
    delta = gaussian_delta(0.5, sigma=1.5)
    assert observed_loss("gaussian", 1.5, 0.5, source) <= delta
    assert observed_loss("gaussian", 1.05, 0.5, source) > delta


def test_noisy_total_spends_epsilon_and_is_never_negative():
    budget = Budget(2.0)
    source = SeededNoise(4)
    totals = [
        noisy_total(0, epsilon=0.01, budget=budget, source=source, gate={"a"}, label="rows")
        for _ in range(50)
    ]
    assert min(totals) == 0 < max(totals)
    assert all(type(total) is int for total in totals)
    assert budget.spent.epsilon == pytest.approx(0.5)
    assert budget.events[0] == LaplaceEvent(sensitivity=1, scale=100.0, gate={"a"}, label="rows")


def test_noisy_total_has_the_noise_it_says():
    source, budget = SeededNoise(5), Budget(1e9)
    noise = np.array(
        [noisy_total(10**6, epsilon=0.5, budget=budget, source=source) for _ in range(300)]
    )
    assert stats.kstest(noise - 1e6, stats.laplace(scale=2).cdf).pvalue > 1e-6
    wrong = stats.laplace(scale=0.5)
    assert stats.kstest(noise - 1e6, wrong.cdf).pvalue < 1e-6


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True])
def test_noisy_total_refuses_bad_epsilons(epsilon):
    with pytest.raises(ParameterError):
        noisy_total(1, epsilon=epsilon, budget=Budget(1), source=SeededNoise(0))


def test_noisy_total_is_one_number():
    with pytest.raises(DataError, match="one number"):
        noisy_total(lambda: [1, 2], epsilon=1.0, budget=Budget(1), source=SeededNoise(0))
