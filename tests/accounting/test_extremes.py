"""Whatever numbers it is asked about, accounting answers or refuses, and soon."""

import itertools
import math
import signal
from contextlib import contextmanager
from fractions import Fraction

import pytest

from missdp.accounting import (
    FAST_ACCOUNTANTS,
    ApproximateEvent,
    Budget,
    Cost,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    calibrate,
    delta_of,
    difference,
    epsilon_of,
    epsilon_under,
    gaussian_delta,
    gaussian_sigma,
    laplace_scale,
    replace_one_of,
    scale_for,
    share_of,
    zcdp_rho,
)
from missdp.accounting.exact import delta_from_mu, epsilon_from_mu, gdp_mu, mu_worth
from missdp.errors import MissDPError

TINY = (5e-324, 1e-310, 1e-300, 1e-17)
HUGE = (2.0**53, 1e17, 1e150, 1e300, 1.7e308, 10**18)
NUMBERS = (0.0, *TINY, 0.3, 1 - 2.0**-53, 1.0, 1.5, *HUGE)
ODD = (
    math.inf, -math.inf, math.nan, -1.0, 10**400, Fraction(1, 3), Fraction(1, 10**400), "1", None,
)  # fmt: skip
# What is too large to be computed is infinite, and numpy says so.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SECONDS = 5.0  # of computing; most take milliseconds, an endless loop would take all


@contextmanager
def in_time(what):
    def stop(number, frame):
        raise AssertionError(f"{what} takes more than {SECONDS:.0f} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answer_or_refusal(what, function, *given):
    """Any error of another kind, and any call that takes too long, fails the test."""
    with in_time(f"{what} of {given}"):
        try:
            return function(*given)
        except MissDPError:
            return None


def unit_noise(scale):
    return [LaplaceEvent(sensitivity=1, scale=scale)]


def spend(epsilon, delta, currency):
    budget = Budget(epsilon, delta, schedule="adaptive", currency=currency)
    budget.charge(GaussianEvent(sensitivity=1, sigma=1e6))
    return budget.left, budget.remaining_epsilon


ONE = {
    "calibrate to epsilon": lambda x: calibrate(unit_noise, x),
    "calibrate from": lambda x: calibrate(unit_noise, 1.0, start=x),
    "calibrate to within": lambda x: calibrate(unit_noise, 1.0, tolerance=x),
    "count of laplace_scale": lambda x: laplace_scale(1.0, count=x),
    "count of gaussian_sigma": lambda x: x != 1 and gaussian_sigma(1.0, 1e-6, count=x),
    "count of scale_for": lambda x: scale_for(1.0, 1.0, count=x),
} | {
    f"{name} in {currency}": what
    for currency in ("pure", "zcdp", "gdp", "renyi")
    for name, what in {
        "worth of epsilon": lambda x, c=currency: Cost.worth(c, x, 1e-6),
        "worth of delta": lambda x, c=currency: Cost.worth(c, 1.0, x),
        "epsilon of": lambda x, c=currency: Cost(currency=c, amount=x).epsilon(1e-6),
        "spending epsilon": lambda x, c=currency: spend(x, 1e-6, c),
        "spending delta": lambda x, c=currency: spend(1.0, x, c),
    }.items()
}

TWO = {
    "zcdp_rho": zcdp_rho,
    "replace_one_of": replace_one_of,
    "scale_for": scale_for,
    "share_of": share_of,
    "difference": difference,
    "laplace_scale": lambda e, s: laplace_scale(e, sensitivity=s),
    "gaussian_delta": lambda e, s: gaussian_delta(e, sigma=s),
    "gaussian_sigma, continuous": lambda e, d: gaussian_sigma(e, d, discrete=False),
    "gaussian_sigma": lambda e, s: gaussian_sigma(e, 1e-6, sensitivity=s),
    "gaussian_sigma at delta": lambda e, d: gaussian_sigma(e, d, sensitivity=3.0),
}
FEW = (5e-324, 1e-17, 0.3, 1 - 2.0**-53, 1e17, 1e300)


@pytest.mark.parametrize("name", ONE)
def test_every_number_is_answered_or_refused_in_time(name):
    for number in (*NUMBERS, *ODD):
        answer_or_refusal(name, ONE[name], number)


@pytest.mark.parametrize("name", TWO)
def test_all_pairs_of_numbers_are_answered_or_refused_in_time(name):
    for pair in itertools.product((*FEW, *ODD), repeat=2):
        answer_or_refusal(name, TWO[name], *pair)


@pytest.mark.parametrize("function", [mu_worth, epsilon_from_mu, delta_from_mu])
def test_gaussian_dp_is_converted_in_time(function):
    for one, other in itertools.product((*NUMBERS, math.inf), repeat=2):
        with in_time(f"{function.__name__} of {one}, {other}"):
            assert function(float(one), float(other)) >= 0 or math.isnan(one + other)


@pytest.mark.parametrize("number", [*NUMBERS, Fraction(1, 10**700), Fraction(10**700)])
def test_a_mu_is_found_in_time_however_long_its_square(number):
    for long in (Fraction(0), Fraction(1, 3**2000), Fraction(number) / 10**400):
        with in_time(f"gdp_mu of {number}"):
            assert gdp_mu(Fraction(number) + long) >= 0


EVENTS = {
    "pure": lambda x: PureEvent(epsilon=x),
    "selection": lambda x: SelectionEvent(epsilon=x),
    "zcdp": lambda x: ZCDPEvent(rho=x),
    "approximate": lambda x: ApproximateEvent(epsilon=x, delta=1e-7),
    "approximate delta": lambda x: ApproximateEvent(epsilon=0.1, delta=x),
    "rdp": lambda x: RDPEvent(orders=(2.0,), epsilons=(x,)),
    "rdp order": lambda x: RDPEvent(orders=(x,), epsilons=(1.0,)),
    "sampled": lambda x: SampledGaussianEvent(rate=0.1, noise_multiplier=x, steps=10),
    "sampled rate": lambda x: SampledGaussianEvent(rate=x, noise_multiplier=2.0, steps=10),
    "sampled steps": lambda x: SampledGaussianEvent(rate=0.1, noise_multiplier=2.0, steps=x),
    "laplace": lambda x: LaplaceEvent(sensitivity=1, scale=x),
    "laplace, both": lambda x: LaplaceEvent(sensitivity=x, scale=x, discrete=False),
    "laplace, wide": lambda x: LaplaceEvent(sensitivity=x, scale=7.5),
    "gauss": lambda x: GaussianEvent(sensitivity=1, sigma=x),
    "gauss, both": lambda x: GaussianEvent(sensitivity=x, sigma=x, discrete=False),
    "gauss, wide": lambda x: GaussianEvent(sensitivity=x, sigma=7.5),
}
ASKED = {
    "epsilon": lambda e: epsilon_of([e] * 3, 1e-6, accountants=FAST_ACCOUNTANTS),
    "delta": lambda e: delta_of([e], 1.0),
    "guarantee": lambda e: Guarantee.from_events([e], delta=1e-6).in_words(),
    "replaced": lambda e: epsilon_under([e], 1e-6, "replace-one"),
} | {
    f"charge in {currency}": lambda e, c=currency: Budget(
        1.0, 0.0 if c == "pure" else 1e-6, schedule="adaptive", currency=c
    ).charge(e)
    for currency in ("pure", "zcdp", "gdp", "renyi")
}


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_is_accounted_or_refused_in_time(name):
    for number in (0.0, 5e-324, 1e-300, 1e-17, 1e17, 1.7e308, *ODD):
        event = answer_or_refusal(f"a {name} event", EVENTS[name], number)
        for what, ask in ASKED.items() if event is not None else ():
            answer_or_refusal(f"{what} of a {name} event", ask, event)
