"""Whatever is wrong is refused with one typed error of one line, and no budget is changed."""

import json
import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp.accounting import (
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
    epsilon_of,
    epsilon_under,
    flatten,
    gaussian_delta,
    gaussian_sigma,
    laplace_scale,
    to_dp_event,
    zcdp_rho,
)
from missdp.accounting.costs import gdp_cost, pure_cost, rdp_curve, zcdp_cost
from missdp.errors import BudgetExceededError, MissDPError, ParameterError, UnprovenError

GAUSSIAN, HALF = GaussianEvent(sensitivity=1, sigma=5), PureEvent(epsilon=0.5)
NATIVE = PureEvent(epsilon=1, adjacency="replace-one")
SAMPLED = SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=1)
NO_NUMBER = (math.nan, math.inf, -math.inf, -1.0, "much", None, [1.0], 10**400)

# What takes a number, and what it takes: any other number is refused.
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
    "amount": (lambda x: Cost(currency="pure", amount=x), ()),
    "amount of a budget": (lambda x: Budget.from_cost(x), (1.0,)),
    "epsilon of a rho": (lambda x: zcdp_rho(x, 1e-6), (0.0,)),
    "delta of a rho": (lambda x: zcdp_rho(1, x), (0.0, 1.0)),
    "count of sigmas": (lambda x: gaussian_sigma(1, 1e-6, count=x), (0, 1.5)),
    "shift of sigmas": (lambda x: gaussian_sigma(1, 1e-6, sensitivity=x), (0.5,)),
    "epsilon of a scale": (laplace_scale, (0.0,)),
    "epsilon of a delta": (lambda x: gaussian_delta(x, sigma=1), ()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_out_of_range_is_refused_in_one_line(name):
    build, more = NUMBERS[name]
    for bad in (*NO_NUMBER, *more):
        with pytest.raises(ParameterError) as refused:
            build(bad)
        assert "\n" not in str(refused.value)


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
