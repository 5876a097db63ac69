"""Every wrong argument raises one typed error with a message of one line. No budget is changed."""

import itertools
import json
import math
import signal
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import accounting as acc
from missdp.accounting.exact import delta_from_mu, epsilon_from_mu, gdp_mu, mu_from_epsilon
from missdp.accounting.loss_distributions import composed_epsilon
from missdp.accounting.measures import gdp_cost, pure_cost, zcdp_cost
from missdp.accounting.renyi import rdp_curve
from missdp.errors import BudgetExceededError, MissDPError, ParameterError, UnprovenError
from missdp.profiles import delta_of
from missdp.synth.split import difference, share_of

# A number that is too large to compute is infinite, and numpy warns about it.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
GAUSSIAN, HALF = acc.GaussianEvent(sensitivity=1, sigma=5), acc.PureEvent(epsilon=0.5)
NOTHING = acc.PureEvent(epsilon=0.0)
NATIVE = acc.PureEvent(epsilon=1, adjacency="replace-one")
SAMPLED = acc.SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=1)
NO_NUMBER = (math.nan, math.inf, -math.inf, -1.0, "much", None, [1.0], 10**400)
TINY, HUGE = (5e-324, 1e-310, 1e-300, 1e-17), (2.0**53, 1e17, 1e150, 1e300, 1.7e308, 10**18)
SOME = (0.0, *TINY, 0.3, 1 - 2.0**-53, 1.0, 1.5, *HUGE, Fraction(1, 3), Fraction(1, 10**400))
# Seconds of computing. Most cases take milliseconds. An endless loop would take all of them.
SECONDS = 5.0


def spend(epsilon, delta, privacy_measure):
    budget = acc.Filter(epsilon, delta, measure=privacy_measure)
    budget.charge(acc.GaussianEvent(sensitivity=1, sigma=1e6))
    return budget.remaining, budget.remaining_epsilon


# Functions that take a number, and the numbers that each of them rejects. Every function also
# rejects values that are not numbers.
NUMBERS = {
    "epsilon of a budget": (lambda x: acc.Filter(x), (0.0,)),
    "delta of a budget": (lambda x: acc.Filter(1.0, x), (1.0, 1.5)),
    "epsilon of a guarantee": (lambda x: acc.Guarantee(x), ()),
    "delta of a guarantee": (lambda x: acc.Guarantee(1.0, x), (1.0,)),
    "epsilon": (lambda x: acc.PureEvent(epsilon=x), ()),
    "rho": (lambda x: acc.ZCDPEvent(rho=x), ()),
    "delta": (lambda x: acc.ApproximateEvent(epsilon=1, delta=x), (1.0,)),
    "scale": (lambda x: acc.LaplaceEvent(sensitivity=1, scale=x), (0.0,)),
    "sensitivity": (lambda x: acc.LaplaceEvent(sensitivity=x, scale=1), (0.0, 0.5)),
    "sigma": (lambda x: acc.GaussianEvent(sensitivity=1, sigma=x), (0.0,)),
    "rate": (lambda x: acc.SampledGaussianEvent(rate=x, noise_multiplier=1, steps=1), (1.1,)),
    "steps": (lambda x: acc.SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=x), (0, 1.5)),
    "order": (lambda x: acc.RDPEvent(orders=[x], epsilons=[1]), (1.0,)),
    "p_max": (lambda x: acc.BoundedObservation(x), (1.1,)),
    "observed": (lambda x: acc.MissingCompletelyAtRandom({"a": x}), (1.2,)),
    "max_missing": (lambda x: acc.DatasetCollection(max_missing=x, n=10), (1.5,)),
    "k": (lambda x: acc.EigenGap(x, 0.1), (0, 1.5)),
    "at_least": (lambda x: acc.EigenGap(1, x), (0.0,)),
    "amount of a budget": (lambda x: acc.Filter.from_cost(x), (1.0,)),
    "epsilon of a rho": (lambda x: acc.zcdp_rho(x, 1e-6), (0.0,)),
    "delta of a rho": (lambda x: acc.zcdp_rho(1, x), (0.0, 1.0)),
    "epsilon of a scale": (lambda x: acc.scale_for(1.0, x), (0.0,)),
    "count of scales": (lambda x: acc.scale_for(1.0, 1.0, count=x), (0, 1.5)),
    "failure of a budget": (lambda x: acc.Filter(1.0, 0.5, failure=x), (0.6, 1.0)),
    "epsilon of a plan": (lambda x: x is None or acc.Composition([NOTHING], x), ()),
    "delta of a plan": (lambda x: acc.Composition([HALF], 1.0, x), (1.0,)),
    "epsilon in pure": (lambda x: acc.Cost(privacy_measure="pure", amount=x).epsilon(1e-6), ()),
}
for c in ("zcdp", "gdp"):
    NUMBERS |= {
        f"worth of epsilon in {c}": (lambda x, c=c: acc.Cost.from_epsilon(c, x, 1e-6), ()),
        f"worth of delta in {c}": (lambda x, c=c: acc.Cost.from_epsilon(c, 1.0, x), ()),
        f"spending epsilon in {c}": (lambda x, c=c: spend(x, 1e-6, c), ()),
        f"spending delta in {c}": (lambda x, c=c: spend(1.0, x, c), ()),
        f"epsilon in {c}": (lambda x, c=c: acc.Cost(privacy_measure=c, amount=x).epsilon(1e-6), ()),
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
        lambda: acc.Filter(1, adjacency="swap"),
        lambda: acc.Filter(1.0, measure="gold"),
        lambda: acc.Filter(1.0, measure="zcdp"),
        lambda: acc.Guarantee(1, adjacency="swap"),
        lambda: acc.Guarantee(1, protects="nothing"),
        lambda: acc.PureEvent(epsilon=1, adjacency="swap"),
        lambda: acc.LaplaceEvent(sensitivity=1, scale=1, discrete="no"),
        lambda: acc.Assumption("  "),
    ],
    "kinds": [
        lambda: acc.Guarantee(1, conditions=["seeded"]),
        lambda: acc.Guarantee(1, events=["laplace"]),
        lambda: acc.PureEvent(epsilon=1, required="age"),
        lambda: acc.DataDependentDomain("age"),
        lambda: acc.MissingCompletelyAtRandom([("a", 1), ("a", 0.5)]),
        lambda: acc.flatten(["pure"]),
        lambda: acc.Composition(["pure"], 1.0),
        lambda: acc.RDPEvent(orders=[2, 2], epsilons=[1, 1]),
        lambda: acc.RDPEvent(orders=[2], epsilons=[1, 1]),
        lambda: acc.RDPEvent(orders=[], epsilons=[]),
    ],
    "claims": [
        lambda: acc.Guarantee(1, 0.0, events=[GAUSSIAN]),
        lambda: acc.Guarantee(1, 0.0, events=[acc.ApproximateEvent(epsilon=1, delta=1e-9)]),
        lambda: acc.FilterEvent(capacity=acc.GaussianEvent(sensitivity=1, sigma=10.0)),
    ],
    "privacy measures": [
        lambda: acc.Cost(privacy_measure="renyi", amount=1.0),
        lambda: acc.Filter.from_cost(acc.Cost(privacy_measure="pure", amount=0.0)),
        lambda: acc.Filter.from_cost(acc.Cost(privacy_measure="zcdp", amount=0.1)),
    ],
    "JSON": [
        lambda: acc.Condition.from_json("{"),
        lambda: acc.Condition.from_json(HALF.to_json()),
        lambda: acc.SelectionEvent.from_json(HALF.to_json()),
        *(lambda t=t: acc.Guarantee.from_json(t) for t in ("{", "[]", "{}", '{"epsilon": 1}')),
        *(
            lambda c=change: acc.Guarantee.from_dict({**acc.Guarantee(1).to_dict(), **c})
            for change in ({"format": 9}, {"extra": 1}, {"events": None}, {"conditions": 5})
        ),
        *(
            lambda d=data: acc.Event.from_json(json.dumps(d))
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


class StrangeEvent(acc.Event):
    """An event without any known property."""


TRUTH = {"epsilon": 1, "protects": "ground-truth"}
LIMITED = [acc.RowIndependentMissingness(), acc.DatasetCollection(max_missing=1, n=9)]
TABLE, RHO = acc.RDPEvent(orders=[2], epsilons=[1]), acc.ZCDPEvent(rho=0.1)
UNPROVEN = {
    "PLD accounting refuses a ZCDPEvent": lambda: composed_epsilon([RHO], 1e-6),
    "a composition of these events: PureEvent, StrangeEvent": lambda: acc.epsilon_of(
        [HALF, StrangeEvent()], 1e-6
    ),
    "nothing is proven for a plan of 1 releases": lambda: acc.Composition([GAUSSIAN], 1.0),
    "nothing is proven for a plan of 0 releases": lambda: acc.Composition([], 1.0),
    "no pure DP bound is proven for StrangeEvent": lambda: pure_cost(StrangeEvent()),
    "no zCDP bound is proven for StrangeEvent": lambda: zcdp_cost(StrangeEvent()),
    "no Gaussian DP bound is proven for StrangeEvent": lambda: gdp_cost(StrangeEvent()),
    "no Rényi DP bound is proven for StrangeEvent": lambda: rdp_curve(StrangeEvent()),
    "mix adjacencies": lambda: acc.epsilon_of([HALF, NATIVE], 0.0),
    "hides which value a row has": lambda: acc.proven_epsilon([NATIVE], 0.0, "add-remove"),
    "no proven replace-one form": SAMPLED.to_replace_one,
    "RDPEvent has no proven": TABLE.to_replace_one,
    "under add-remove only": lambda: replace(SAMPLED, adjacency="replace-one"),
    "cannot rest on replace-one": lambda: acc.Guarantee(1, events=[NATIVE]),
    "e.g. RowIndependentMissingness": lambda: acc.Guarantee(
        **TRUTH, conditions=[acc.ExplicitSeed()]
    ),
    "averages over draws": lambda: acc.Guarantee(**TRUTH, conditions=LIMITED),
    "state a larger delta": lambda: acc.Guarantee.from_events(GAUSSIAN),
}


@pytest.mark.parametrize("words", UNPROVEN)
def test_what_is_not_proven_is_refused_by_name(words):
    with pytest.raises(UnprovenError, match=words):
        UNPROVEN[words]()


REFUSED = (
    acc.PureEvent(epsilon=5.0), GAUSSIAN, acc.ZCDPEvent(rho=1e-9), NATIVE, StrangeEvent(), SAMPLED,
    acc.ApproximateEvent(epsilon=0.01, delta=0.5), acc.RDPEvent(orders=[8], epsilons=[1e-9]),
)  # fmt: skip


@given(
    st.sampled_from(REFUSED),
    st.lists(st.just(acc.PureEvent(epsilon=0.01)), max_size=2),
    st.booleans(),
    st.sampled_from(["secret", ""]),
)
def test_a_budget_refuses_all_of_a_charge_and_says_public_facts_only(bad, more, fixed, label):
    first = acc.PureEvent(epsilon=0.123456)
    budget = acc.Composition([first, *more], 1.0) if fixed else acc.Filter(1.0)
    budget.charge(acc.PureEvent(epsilon=0.123456, label=label))
    before = budget.events, budget.spent
    with pytest.raises(MissDPError) as refused:
        budget.charge(*more, bad)
    assert isinstance(refused.value, BudgetExceededError | UnprovenError)
    assert (budget.events, budget.spent) == before
    said = repr(budget) + str(refused.value)
    assert "0.123456" not in said
    assert "\n" not in said
    assert not label or label not in said
    with pytest.raises(ParameterError):
        budget.charge(HALF, conditions=["seeded"])
    assert budget.events == before[0]


def test_only_fresh_filters_can_be_set_aside_and_no_guarantee_is_edited():
    total, part, used, itself = acc.Filter(3.0), *(acc.Filter(1.0) for _ in range(3))
    fails = acc.Filter(1.0, 0.1, measure="pure", failure=0.1)
    total.reserve(part)
    used.charge(HALF)
    for whole, wrong in ((total, part), (total, fails), (total, used), (itself, itself)):
        before = whole.events
        with pytest.raises(ParameterError, match="fresh"):
            whole.reserve(wrong)
        assert whole.events == before
    with pytest.raises(FrozenInstanceError):
        acc.Guarantee(1).epsilon = 0.1


# For every pair of numbers, accounting returns a result or raises an error, and does so soon.
TWO = {
    "zcdp_rho": acc.zcdp_rho,
    "replace_one_of": acc.replace_one_of,
    "scale_for": acc.scale_for,
    "share_of": share_of,
    "difference": difference,
}


@pytest.mark.parametrize("name", TWO)
def test_all_pairs_of_numbers_are_answered_or_refused_in_time(name):
    few = (5e-324, 1e-17, 0.3, 1 - 2.0**-53, 1e17, 1e300)
    for pair in itertools.product((*few, *NO_NUMBER), repeat=2):
        answer_or_refusal(name, TWO[name], *pair)


@pytest.mark.parametrize("function", [mu_from_epsilon, epsilon_from_mu, delta_from_mu])
def test_gaussian_dp_is_converted_in_time(function):
    for one, other in itertools.product((*map(float, SOME), math.inf), repeat=2):
        with in_time(f"{function.__name__} of {one}, {other}"):
            assert function(one, other) >= 0 or math.isnan(one + other)


def test_a_mu_is_found_in_time_however_long_its_square():
    for number in (*map(Fraction, SOME), Fraction(1, 10**700), Fraction(10**700)):
        for long in (Fraction(0), Fraction(1, 3**2000), number / 10**400):
            with in_time(f"gdp_mu of {number}"):
                assert gdp_mu(number + long) >= 0


EVENTS = {
    "pure": lambda x: acc.PureEvent(epsilon=x),
    "selection": lambda x: acc.SelectionEvent(epsilon=x),
    "zcdp": lambda x: acc.ZCDPEvent(rho=x),
    "approximate": lambda x: acc.ApproximateEvent(epsilon=x, delta=1e-7),
    "approximate delta": lambda x: acc.ApproximateEvent(epsilon=0.1, delta=x),
    "rdp": lambda x: acc.RDPEvent(orders=(2.0,), epsilons=(x,)),
    "rdp order": lambda x: acc.RDPEvent(orders=(x,), epsilons=(1.0,)),
    "sampled": lambda x: acc.SampledGaussianEvent(rate=0.1, noise_multiplier=x, steps=10),
    "sampled rate": lambda x: acc.SampledGaussianEvent(rate=x, noise_multiplier=2.0, steps=10),
    "sampled steps": lambda x: acc.SampledGaussianEvent(rate=0.1, noise_multiplier=2.0, steps=x),
    "laplace": lambda x: acc.LaplaceEvent(sensitivity=1, scale=x),
    "laplace, both": lambda x: acc.LaplaceEvent(sensitivity=x, scale=x, discrete=False),
    "laplace, wide": lambda x: acc.LaplaceEvent(sensitivity=x, scale=7.5),
    "gauss": lambda x: acc.GaussianEvent(sensitivity=1, sigma=x),
    "gauss, both": lambda x: acc.GaussianEvent(sensitivity=x, sigma=x, discrete=False),
    "gauss, wide": lambda x: acc.GaussianEvent(sensitivity=x, sigma=7.5),
}
ASKED = {
    "epsilon": lambda e: acc.epsilon_of([e] * 3, 1e-6),
    "delta": lambda e: delta_of([e], 1.0),
    "guarantee": lambda e: acc.Guarantee.from_events([e], delta=1e-6).in_words(),
    "replaced": lambda e: acc.proven_epsilon([e], 1e-6, "replace-one"),
    "charge in pure": lambda e: acc.Filter(1.0).charge(e),
    **{
        f"charge in {c}": lambda e, c=c: acc.Filter(1.0, 1e-6, measure=c).charge(e)
        for c in ("zcdp", "gdp")
    },
}


@pytest.mark.long
@pytest.mark.parametrize("name", EVENTS)
def test_every_event_is_accounted_or_refused_in_time(name):
    for number in (0.0, 5e-324, 1e-17, 1e17, 1.7e308, *NO_NUMBER):
        event = answer_or_refusal(f"a {name} event", EVENTS[name], number)
        for what, ask in ASKED.items() if isinstance(event, acc.Event) else ():
            answer_or_refusal(f"{what} of a {name} event", ask, event)
