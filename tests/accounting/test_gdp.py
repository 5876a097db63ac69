"""Gaussian DP: the costs of events in mu squared, and their epsilon and delta."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from accounting_oracles import gaussian_pair, hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri_exp
from scipy.stats import norm

from missdp import accounting as acc
from missdp.accounting.exact import delta_from_mu, epsilon_from_mu, gdp_mu, mu_from_epsilon
from missdp.accounting.measures import gdp_cost
from missdp.calibration import gdp_noise, selection_epsilon
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError

EPSILONS = np.linspace(0.0, 6.0, 25)


def mu_of(event):
    return gdp_mu(gdp_cost(event))


def test_without_the_four_discrete_noise_would_break_the_bound():
    """The tests of exact laws have power: the continuous law is too rosy for discrete noise."""
    sigma, worst = 0.8, 0.0
    p, q = gaussian_pair(sigma, (1,))
    for epsilon in EPSILONS:
        worst = max(worst, hockey_stick(p, q, epsilon) - delta_from_mu(1 / sigma, epsilon))
    assert worst > 0.01
    for none in (
        acc.GaussianEvent(sensitivity=2, sigma=2.0),
        acc.GaussianEvent(sensitivity=1, sigma=0.57),
    ):
        with pytest.raises(UnprovenError, match="has no Gaussian DP bound"):
            gdp_cost(none)


@pytest.mark.parametrize("sigma", [0.578, 0.7, 1.0, 1.04, 1.05, 1.3, 1.9, 4.0, 30.0])
def test_a_count_that_moves_by_one_loses_no_more_than_its_bound(sigma):
    """The worst pair of neighbouring thresholds, far into the tail."""
    reach = math.ceil(min(37 * sigma, 25 * sigma + 40))
    mass = -(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2)
    tails = np.logaddexp.accumulate(mass[::-1])[::-1]
    scores = -ndtri_exp((tails - tails[0])[reach:])  # from the middle on: symmetric below
    needed = np.diff(scores)[: int(0.6 * reach)].max()  # but for where the tail was cut
    mu = mu_of(acc.GaussianEvent(sensitivity=1, sigma=sigma))
    assert 1 / sigma < needed <= mu * (1 + 1e-9)
    assert mu <= needed * (1.001 if sigma > 4 else 1.45)
    p, q = gaussian_pair(sigma, (1,))
    for epsilon in EPSILONS:
        assert hockey_stick(p, q, epsilon) <= delta_from_mu(mu, epsilon) + 1e-12


@pytest.mark.parametrize("amount", [1e-12, 1e-6, 1e-3, 0.3, 2.0, 3.9, 4.1, 30.0])
def test_a_selection_costs_what_it_is_made_for(amount):
    epsilon = selection_epsilon(acc.Cost(privacy_measure="gdp", amount=amount))
    cost = gdp_cost(acc.SelectionEvent(epsilon=epsilon))
    assert 0.999999 * amount < cost <= amount
    assert epsilon == pytest.approx(
        2 * (norm.logcdf(amount**0.5 / 2) - norm.logsf(amount**0.5 / 2))
    )


def test_counts_and_selections_together_are_worth_more_than_in_zcdp():
    """Composed by Google's accountant from the exact laws, for each range that t may say."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    amount = acc.Cost.for_counts(1.0, 1e-6).amount
    assert amount / 2 > 1.14 * acc.Cost.from_epsilon("zcdp", 1.0, 1e-6).amount
    sigma = gdp_noise(0.9 * amount / 5)
    epsilon = selection_epsilon(acc.Cost(privacy_measure="gdp", amount=0.1 * amount / 5))
    noise = pld.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-3)
    for t in (0.3, 0.5, 0.7):  # randomised response with losses t epsilon and (t - 1) epsilon
        up, down = math.exp(t * epsilon), math.exp((t - 1) * epsilon)
        low = (1 - down) / (up - down)
        choice = pld.from_two_probability_mass_functions(
            {0: math.log(low), 1: math.log1p(-low)},
            {0: math.log(low * up), 1: math.log1p(-low * up)},
            value_discretization_interval=1e-3,
        )
        both = noise.self_compose(5).compose(choice.self_compose(5))
        assert 0.9 < both.get_epsilon_for_delta(1e-6) <= 1.0 + 5e-3


@given(st.floats(1e-4, 30.0), st.floats(1e-12, 0.1))
def test_conversions_agree_and_round_outwards(epsilon, delta):
    mu = mu_from_epsilon(epsilon, delta)
    assert delta_from_mu(mu, epsilon) <= delta
    assert delta_from_mu(mu * (1 + 1e-6), epsilon) > delta
    back = epsilon_from_mu(mu, delta)
    assert back <= epsilon * (1 + 1e-9)
    assert back >= epsilon * (1 - 1e-3)


def test_delta_is_that_of_an_independent_computation():
    from mpmath import mp, mpf, ncdf

    mp.dps = 60
    for mu, epsilon in product(
        (1e-6, 1e-3, 0.05, 0.24, 1.0, 5.0, 20.0), (0.0, 1e-3, 0.5, 2.0, 40.0)
    ):
        m, e = mpf(mu), mpf(epsilon)
        true = ncdf(m / 2 - e / m) - mp.exp(e) * ncdf(-m / 2 - e / m)
        found = delta_from_mu(mu, epsilon)
        assert found >= true
        if true > mpf(10) ** -250:
            assert found <= float(true) * (1 + 1e-6) + 1e-300


def test_a_budget_in_mu_squared_takes_all_it_can_and_no_more():
    budget = acc.Filter(1.0, 1e-6, measure="gdp")
    assert budget.remaining.amount / 2 > 1.14 * acc.Cost.from_epsilon("zcdp", 1.0, 1e-6).amount
    noise = gdp_noise(budget.remaining.amount / 2)
    budget.charge(acc.GaussianEvent(sensitivity=1, sigma=noise * (1 + 1e-12)))
    budget.charge(acc.SelectionEvent(epsilon=0.01), acc.PureEvent(epsilon=0.01))
    doubled = budget.filter().to_replace_one()
    assert doubled.capacity.sensitivity == 2 * budget.filter().capacity.sensitivity
    assert acc.FilterEvent.from_json(doubled.to_json()) == doubled
    with pytest.raises(BudgetExceededError):
        budget.charge(acc.GaussianEvent(sensitivity=1, sigma=noise))
    with pytest.raises(UnprovenError):
        budget.charge(acc.ZCDPEvent(rho=1e-9))
    assert not budget.can_afford(acc.ApproximateEvent(epsilon=1e-9, delta=1e-9))
    assert budget.spent.epsilon == 1.0
    assert budget.spent.epsilon_at(1e-9) > 1.0
    with pytest.raises(ParameterError):
        acc.Filter(1.0, measure="gdp")


def test_costs_of_gaussians_are_exact():
    assert gdp_cost(acc.GaussianEvent(sensitivity=3, sigma=5.0)) == Fraction(9, 21)
    assert gdp_cost(acc.GaussianEvent(sensitivity=3, sigma=5.0, discrete=False)) == Fraction(9, 25)
    assert gdp_cost(acc.PureEvent(epsilon=0.0)) == 0
    assert gdp_cost(acc.SelectionEvent(epsilon=0.0)) == 0


@pytest.mark.parametrize("power", [-4000, -2200, -2150, -1000, 0, 1000, 2046, 2048, 4000])
def test_mu_of_squares_beyond_floating_point_is_rounded_up(power):
    """A square of 1e-400 vanishes in floating point.

    An earlier version searched for its root step by step from 0.
    """
    for factor in (Fraction(1), Fraction(4, 3), Fraction(1) + Fraction(1, 2**200)):
        squared = factor * Fraction(2) ** power
        mu = gdp_mu(squared)
        assert mu == math.inf or Fraction(mu) ** 2 >= squared
        assert mu < math.inf or squared > Fraction(2) ** 2047
        lower = math.nextafter(mu, 0.0)
        assert lower == 0 or mu == math.inf or Fraction(lower) ** 2 < squared
