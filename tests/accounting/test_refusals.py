"""Whatever is wrong is refused with one typed error of one line, and no budget is changed."""

import itertools
import json
import math
import signal
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp.accounting import (
    FAST_ACCOUNTANTS,
    PLD,
    PURE,
    ApproximateEvent,
    Assumption,
    BoundedObservation,
    Budget,
    ComposedEvent,
    Condition,
    Cost,
    DataDependentDomain,
    DatasetCollection,
    EigenGap,
    Event,
    ExplicitSeed,
    FilterEvent,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    MissingCompletelyAtRandom,
    PureEvent,
    RDPEvent,
    RowIndependentMissingness,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    calibrate,
    delta_of,
    difference,
    epsilon_of,
    epsilon_under,
    flatten,
    gaussian_delta,
    gaussian_sigma,
    laplace_scale,
    replace_one_of,
    scale_for,
    share_of,
    to_dp_event,
    zcdp_rho,
)
from missdp.accounting.costs import gdp_cost, pure_cost, rdp_curve, zcdp_cost
from missdp.accounting.exact import delta_from_mu, epsilon_from_mu, gdp_mu, mu_worth
from missdp.errors import BudgetExceededError, MissDPError, ParameterError, UnprovenError

# What is too large to be computed is infinite, and numpy says so.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
GAUSSIAN, HALF = GaussianEvent(sensitivity=1, sigma=5), PureEvent(epsilon=0.5)
NATIVE = PureEvent(epsilon=1, adjacency="replace-one")
SAMPLED = SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=1)
NO_NUMBER = (math.nan, math.inf, -math.inf, -1.0, "much", None, [1.0], 10**400)
TINY, HUGE = (5e-324, 1e-310, 1e-300, 1e-17), (2.0**53, 1e17, 1e150, 1e300, 1.7e308, 10**18)
SOME = (0.0, *TINY, 0.3, 1 - 2.0**-53, 1.0, 1.5, *HUGE, Fraction(1, 3), Fraction(1, 10**400))
SECONDS = 5.0  # of computing; most take milliseconds, an endless loop would take all


def unit_noise(scale):
    return [LaplaceEvent(sensitivity=1, scale=scale)]


def spend(epsilon, delta, currency):
    budget = Budget(epsilon, delta, schedule="adaptive", currency=currency)
    budget.charge(GaussianEvent(sensitivity=1, sigma=1e6))
    return budget.left, budget.remaining_epsilon


# What takes a number, and which numbers it refuses besides those that are none.
NUMBERS = {
    "epsilon of a budget": (lambda x: Budget(x), (0.0,)),
    "delta of a budget": (lambda x: Budget(1.0, x), (1.0, 1.5)),
    "epsilon of a guarantee": (lambda x: Guarantee(x), ()),
    "delta of a guarantee": (lambda x: Guarantee(1.0, x), (1.0,)),
    "epsilon": (lambda x: PureEvent(epsilon=x), ()),
    "rho": (lambda x: ZCDPEvent(rho=x), ()),
    "delta": (lambda x: ApproximateEvent(epsilon=1, delta=x), (1.0,)),
    "scale": (lambda x: LaplaceEvent(sensitivity=1, scale=x), (0.0,)),
    "sensitivity": (lambda x: LaplaceEvent(sensitivity=x, scale=1), (0.0, 0.5)),
    "sigma": (lambda x: GaussianEvent(sensitivity=1, sigma=x), (0.0,)),
    "rate": (lambda x: SampledGaussianEvent(rate=x, noise_multiplier=1, steps=1), (1.1,)),
    "steps": (lambda x: SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=x), (0, 1.5)),
    "order": (lambda x: RDPEvent(orders=[x], epsilons=[1]), (1.0,)),
    "p_max": (lambda x: BoundedObservation(x), (1.1,)),
    "observed": (lambda x: MissingCompletelyAtRandom({"a": x}), (1.2,)),
    "max_missing": (lambda x: DatasetCollection(max_missing=x, n=10), (1.5,)),
    "k": (lambda x: EigenGap(x, 0.1), (0, 1.5)),
    "at_least": (lambda x: EigenGap(1, x), (0.0,)),
    "amount of a budget": (lambda x: Budget.from_cost(x), (1.0,)),
    "epsilon of a rho": (lambda x: zcdp_rho(x, 1e-6), (0.0,)),
    "delta of a rho": (lambda x: zcdp_rho(1, x), (0.0, 1.0)),
    "count of sigmas": (lambda x: x != 1 and gaussian_sigma(1, 1e-6, count=x), (0, 1.5)),
    "shift of sigmas": (lambda x: gaussian_sigma(1, 1e-6, sensitivity=x), (0.5,)),
    "epsilon of a scale": (laplace_scale, (0.0,)),
    "count of scales": (lambda x: laplace_scale(1.0, count=x), (0, 1.5)),
    "epsilon of a delta": (lambda x: gaussian_delta(x, sigma=1), ()),
    "calibrate to epsilon": (lambda x: calibrate(unit_noise, x), (0.0,)),
    "calibrate from": (lambda x: calibrate(unit_noise, 1.0, start=x), (0.0,)),
    "calibrate to within": (lambda x: calibrate(unit_noise, 1.0, tolerance=x), (0.0,)),
} | {
    f"{name} in {currency}": (what, ())
    for currency in ("pure", "zcdp", "gdp", "renyi")
    for name, what in {
        "worth of epsilon": lambda x, c=currency: Cost.worth(c, x, 1e-6),
        "worth of delta": lambda x, c=currency: c == "pure" or Cost.worth(c, 1.0, x),
        "epsilon of": lambda x, c=currency: Cost(
            currency=c, amount=x, order=2.0 if c == "renyi" else None
        ).epsilon(1e-6),
        "spending epsilon": lambda x, c=currency: c == "pure" or spend(x, 1e-6, c),
        "spending delta": lambda x, c=currency: c == "pure" or spend(1.0, x, c),
    }.items()
}


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
    """Any error of another kind, of several lines, or that takes too long, fails the test."""
    with in_time(f"{what} of {given}"):
        try:
            found = function(*given)
        except MissDPError as refused:
            found = refused
    assert not isinstance(found, MissDPError) or "\n" not in str(found)
    return found


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_is_answered_or_refused_in_one_line_and_in_time(name):
    build, more = NUMBERS[name]
    for number in SOME:
        answer_or_refusal(name, build, number)
    for bad in (*NO_NUMBER, *more):
        found = answer_or_refusal(name, build, bad)
        assert isinstance(found, ParameterError) or found is True, (bad, found)


WRONG = {
    "words": [
        lambda: Budget(1, adjacency="swap"),
        lambda: Budget(1, schedule="whenever"),
        lambda: Budget(1.0, currency="pure"),
        lambda: Budget(1.0, schedule="adaptive", currency="gold"),
        lambda: Budget(1.0, schedule="adaptive", currency="zcdp"),
        lambda: Guarantee(1, adjacency="swap"),
        lambda: Guarantee(1, protects="nothing"),
        lambda: PureEvent(epsilon=1, adjacency="swap"),
        lambda: LaplaceEvent(sensitivity=1, scale=1, discrete="no"),
        lambda: Assumption("  "),
    ],
    "kinds": [
        lambda: Guarantee(1, conditions=["seeded"]),
        lambda: Guarantee(1, events=["laplace"]),
        lambda: PureEvent(epsilon=1, gate="age"),
        lambda: DataDependentDomain("age"),
        lambda: MissingCompletelyAtRandom([("a", 1), ("a", 0.5)]),
        lambda: ComposedEvent(events=["pure"]),
        lambda: flatten(["pure"]),
        lambda: epsilon_of([GAUSSIAN], 1e-6, accountants=[]),
        lambda: RDPEvent(orders=[2, 2], epsilons=[1, 1]),
        lambda: RDPEvent(orders=[2], epsilons=[1, 1]),
        lambda: RDPEvent(orders=[], epsilons=[]),
    ],
    "claims": [
        lambda: Guarantee(1, 0.0, events=[GAUSSIAN]),
        lambda: Guarantee(1, 0.0, events=[ApproximateEvent(epsilon=1, delta=1e-9)]),
        lambda: FilterEvent(capacity=GaussianEvent(sensitivity=1, sigma=10.0)),
        lambda: calibrate(lambda s: [GaussianEvent(sensitivity=1, sigma=s)], 1.0, 0.0),
    ],
    "currencies": [
        lambda: Cost(currency="renyi", amount=1.0),
        lambda: Cost(currency="pure", amount=1.0, order=2.0),
        lambda: Cost(currency="renyi", amount=1.0, order=1.0),
        lambda: Cost.at_order(8.0, 1.0, 0.0),
        lambda: Budget.from_cost(Cost(currency="pure", amount=0.0)),
        lambda: Budget.from_cost(Cost(currency="zcdp", amount=0.1)),
        lambda: Budget(1.0).left,
        lambda: Budget(1.0).filter(),
    ],
    "JSON": [
        lambda: Condition.from_json("{"),
        lambda: Condition.from_json(HALF.to_json()),
        lambda: SelectionEvent.from_json(HALF.to_json()),
        *(lambda t=text: Guarantee.from_json(t) for text in ("{", "[]", "{}", '{"epsilon": 1}')),
        *(
            lambda c=change: Guarantee.from_dict({**Guarantee(1).to_dict(), **c})
            for change in ({"format": 9}, {"extra": 1}, {"events": None}, {"conditions": 5})
        ),
        *(
            lambda d=data: Event.from_json(json.dumps(d))
            for data in (
                {"kind": "Nonsense"}, {"kind": "PureEvent"}, {"epsilon": 1}, [],
                {"kind": "PureEvent", "epsilon": 1, "surprise": 2},
                {"kind": ["PureEvent"], "epsilon": 1}, {"kind": "ExplicitSeed"},
            )
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_malformed_is_refused(what):
    for build in WRONG[what]:
        with pytest.raises(ParameterError):
            build()


class StrangeEvent(Event):
    """Of which nothing is known."""


UNPROVEN = {
    "PLD accounting refuses a ZCDPEvent": lambda: PLD.epsilon([ZCDPEvent(rho=0.1)], 1e-6),
    "basic composition refuses ZCDPEvent": lambda: epsilon_of(
        [ZCDPEvent(rho=0.1)], 1e-6, accountants=[PURE]
    ),
    "no pure DP bound is proven for StrangeEvent": lambda: pure_cost(StrangeEvent()),
    "no zCDP bound is proven for StrangeEvent": lambda: zcdp_cost(StrangeEvent()),
    "no Gaussian DP bound is proven for StrangeEvent": lambda: gdp_cost(StrangeEvent()),
    "no Rényi DP bound is proven for StrangeEvent": lambda: rdp_curve(StrangeEvent()),
    "mix adjacencies": lambda: epsilon_of([HALF, NATIVE], 0.0),
    "hides which value a row has": lambda: epsilon_under([NATIVE], 0.0, "add-remove"),
    "no proven replace-one form": SAMPLED.to_replace_one,
    "RDPEvent has no proven": RDPEvent(orders=[2], epsilons=[1]).to_replace_one,
    "has no proven replace-one": ComposedEvent(events=[SAMPLED]).to_replace_one,
    "under add-remove only": lambda: SampledGaussianEvent(
        rate=0.1, noise_multiplier=1, steps=1, adjacency="replace-one"
    ),
    "share one adjacency": lambda: ComposedEvent(events=[NATIVE]),
    "cannot rest on replace-one": lambda: Guarantee(1, events=[NATIVE]),
    "e.g. RowIndependentMissingness": lambda: Guarantee(
        1, protects="ground-truth", conditions=[ExplicitSeed()]
    ),
    "averages over draws": lambda: Guarantee(
        1,
        protects="ground-truth",
        conditions=[RowIndependentMissingness(), DatasetCollection(max_missing=1, n=9)],
    ),
    "state a larger delta": lambda: Guarantee.from_events(GAUSSIAN),
    "no event for a ApproximateEvent": lambda: to_dp_event(ApproximateEvent(epsilon=1, delta=0.1)),
    "no event for a RDPEvent": lambda: to_dp_event(
        ComposedEvent(events=[RDPEvent(orders=[2], epsilons=[1])])
    ),
}


@pytest.mark.parametrize("words", UNPROVEN)
def test_what_is_not_proven_is_refused_by_name(words):
    with pytest.raises(UnprovenError, match=words):
        UNPROVEN[words]()


REFUSED = (
    PureEvent(epsilon=5.0), GAUSSIAN, ZCDPEvent(rho=1e-9), NATIVE, StrangeEvent(), SAMPLED,
    ApproximateEvent(epsilon=0.01, delta=0.5), RDPEvent(orders=[8], epsilons=[1e-9]),
)  # fmt: skip


@given(
    st.sampled_from(REFUSED),
    st.lists(st.just(PureEvent(epsilon=0.01)), max_size=2),
    st.sampled_from(["fixed", "adaptive"]),
    st.sampled_from(["secret", ""]),
)
def test_a_budget_refuses_all_of_a_charge_and_says_public_facts_only(bad, more, schedule, label):
    budget = Budget(1.0, schedule=schedule)
    budget.charge(PureEvent(epsilon=0.123456, label=label))
    before = budget.events, budget.spent, budget.remaining_epsilon
    with pytest.raises(MissDPError) as refused:
        budget.charge(*more, bad)
    assert isinstance(refused.value, BudgetExceededError | UnprovenError)
    assert (budget.events, budget.spent, budget.remaining_epsilon) == before
    said = repr(budget) + str(refused.value)
    assert "0.123456" not in said
    assert "\n" not in said
    assert not label or label not in said
    with pytest.raises(ParameterError):
        budget.charge(HALF, conditions=["seeded"])
    assert budget.events == before[0]


def test_only_fresh_adaptive_budgets_can_be_set_aside():
    total, part = Budget(3.0), Budget(1.0, schedule="adaptive")
    total.reserve(part)
    used = Budget(1.0, schedule="adaptive")
    used.charge(HALF)
    itself = Budget(1.0, schedule="adaptive")
    for whole, wrong in ((total, part), (total, Budget(1.0)), (total, used), (itself, itself)):
        before = whole.events
        with pytest.raises(ParameterError, match="fresh"):
            whole.reserve(wrong)
        assert whole.events == before


def test_a_guarantee_cannot_be_edited():
    with pytest.raises(FrozenInstanceError):
        Guarantee(1).epsilon = 0.1


# Whatever numbers it is asked about, accounting answers or refuses, and soon
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


@pytest.mark.parametrize("name", TWO)
def test_all_pairs_of_numbers_are_answered_or_refused_in_time(name):
    for pair in itertools.product((*FEW, *NO_NUMBER), repeat=2):
        answer_or_refusal(name, TWO[name], *pair)


@pytest.mark.parametrize("function", [mu_worth, epsilon_from_mu, delta_from_mu])
def test_gaussian_dp_is_converted_in_time(function):
    for one, other in itertools.product((*map(float, SOME), math.inf), repeat=2):
        with in_time(f"{function.__name__} of {one}, {other}"):
            assert function(float(one), float(other)) >= 0 or math.isnan(one + other)


@pytest.mark.parametrize("number", [*SOME, Fraction(1, 10**700), Fraction(10**700)])
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
    for number in (0.0, 5e-324, 1e-17, 1e17, 1.7e308, *NO_NUMBER):
        event = answer_or_refusal(f"a {name} event", EVENTS[name], number)
        for what, ask in ASKED.items() if isinstance(event, Event) else ():
            answer_or_refusal(f"{what} of a {name} event", ask, event)
