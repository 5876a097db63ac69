"""A fit spends its complete budget. Fits and other releases share one budget."""

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant

from missdp import AIM, MST, Filter, PrivBayes
from missdp.accounting import (
    Cost,
    FilterEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    releases,
)
from missdp.accounting.exact import delta_from_mu
from missdp.errors import BudgetExceededError, UnprovenError
from missdp.session import CountedRows, Marginal, Noise, SecureNoise, Session
from missdp.sources import MemorySource, strategy_named
from missdp.synth import aim
from refusing import refuses
from synth.tables import rows_of, schema_of

STRATEGIES = ("joint", "observed", "complete-rows", "impute-first")
SIZES = {"one": [3], "two": [3, 4], "three": [2, 3, 4], "wide": [40, 50, 60, 2]}
GAUSSIAN = {"delta": 1e-6}
FAMILIES = {
    "PrivBayes": (PrivBayes, {}),
    "PrivBayes, zCDP": (PrivBayes, {"delta": 1e-6}),
    "PrivBayes, no parents": (PrivBayes, {"degree": 0}),
    "MST": (MST, GAUSSIAN),
    "AIM": (AIM, GAUSSIAN | {"rounds": 3}),
    "MST, pure": (MST, GAUSSIAN | {"delta": 0.0}),
    "AIM, pure": (AIM, GAUSSIAN | {"delta": 0.0, "rounds": 3}),
}


def made(family, **more):
    make, options = FAMILIES[family]
    return make(**{"epsilon": 1.0, "random_state": 0, **options, **more})


def private(sizes, n=200, seed=0):
    return rows_of(schema_of(sizes), n, seed)


def spent_of(cost, events):
    """Return the joint cost of releases, as a share of their largest allowed cost."""
    budget = Filter.from_cost(cost, delta=1e-6 if cost.privacy_measure != "pure" else 0.0)
    budget.charge(*events)
    return 1 - budget.remaining.amount / cost.amount


def all_is_spent(model):
    """Whether a fit spent all of its budget, and of every part that it set aside."""
    (whole,) = model.guarantee_.events
    parts = [whole, *(event for event in whole.log if isinstance(event, FilterEvent))]
    return all(1 - 1e-6 < spent_of(part.cost, part.log) <= 1 for part in parts)


def choices(model):
    return [e for e in releases(model.guarantee_.events) if e.label == "selection of a marginal"]


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_selection_budget_lasts_until_the_last_round(delta, monkeypatch):
    """Counts of missing pairs have a part of the plan, which no fit spends if nothing is missing.

    Selections then share less than their share of the rest. Once, the last rounds had none left.
    """
    monkeypatch.setattr(aim.Rounds, "anneal", lambda rounds: None)
    complete = rows_of(schema_of(SIZES["three"]), 200, holes=0.0)
    model = made("AIM", delta=delta, rounds=40).fit(complete)
    assert all_is_spent(model)
    costs = [event.epsilon for event in choices(model)]
    assert len(costs) == 40
    assert min(costs) > 0.5 * max(costs)


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.parametrize("missing", STRATEGIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fit_spends_its_whole_plan_and_pays_for_no_choice_that_is_none(family, missing):
    turn = (list(FAMILIES).index(family) + STRATEGIES.index(missing)) % 2
    for sizes in list(SIZES.values())[turn::2]:  # of each two families one strategy has each
        model = made(family, missing=missing).fit(private(sizes))
        assert all_is_spent(model)
        assert len(sizes) != 2 or choices(model) == []


@pytest.mark.long
@pytest.mark.parametrize("missing", STRATEGIES)
def test_attributes_that_fit_nowhere_are_not_chosen_among(missing):
    """Two of four are so wide that they have no parents, and are none: one choice is left."""
    model = PrivBayes(epsilon=2.0, missing=missing, random_state=0)
    model.fit(private([400, 2, 500, 2, 2], n=2000))
    parents = {f.child: f.parents for f in model.network_.families}
    assert parents["c0"] == parents["c2"] == ()
    assert len(choices(model)) <= 2
    assert choices(model)[0].epsilon > 1.9 * 0.1 * 0.85 / 2
    assert {type(event) for event in choices(model)} == {PureEvent}  # permute-and-flip
    if missing == "joint":
        model = PrivBayes(epsilon=9.0, delta=1e-6, random_state=0).fit(private([2] * 5, n=5000))
        assert {type(event) for event in choices(model)} == {SelectionEvent}


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_what_is_set_aside_for_tables_does_not_depend_on_what_came_out():
    """The reserved part is amplified, so it must be known beforehand.

    It does not contain the rest that choices leave.
    """
    found = set()
    for n, seed in [(0, 0), (5, 1), (300, 2), (20_000, 3)]:
        model = PrivBayes(epsilon=1.0, missing="observed", random_state=seed)
        model.fit(private([30, 40, 3, 2], n=n, seed=seed))
        (whole,) = model.guarantee_.events
        found |= {e.cost.amount for e in whole.log if isinstance(e, FilterEvent)}
        assert all_is_spent(model)
    assert len(found) == 1


@pytest.mark.parametrize("family", ["PrivBayes", "PrivBayes, zCDP", "MST", "AIM", "AIM, pure"])
def test_imputation_costs_its_share_of_the_budget_in_its_own_measure(family):
    """A tenth of epsilon, spent on pure noise, would be a hundredth of rho or so."""
    (whole,) = made(family, missing="impute-first").fit(private([2, 3, 4])).guarantee_.events
    gated = [event for event in whole.log if event.required]
    assert len(gated) == 3
    kind = LaplaceEvent if whole.cost.privacy_measure == "pure" else GaussianEvent
    assert {type(event) for event in gated} == {kind}
    assert spent_of(whole.cost, gated) == pytest.approx(0.1)


# -- one budget for all --------------------------------------------------------------------------
TABLE = rows_of(schema_of(dict.fromkeys("abc", 3), "a"), 300)


def test_eight_fits_cost_what_they_are_capped_by_and_not_eight_epsilons():
    budget = Filter(3.0, 1e-5)
    for _ in range(8):
        made("MST", budget=budget).fit(TABLE)
    squared = Cost.from_epsilon("gdp", 1.0, 1e-6).amount
    assert [event.cost.amount for event in budget.events] == pytest.approx([squared] * 8, rel=1e-12)
    spent = 3.0 - budget.remaining_epsilon
    assert delta_from_mu((8 * squared) ** 0.5, spent) <= 1e-5
    assert delta_from_mu((8 * squared) ** 0.5, spent - 1e-3) > 1e-5
    assert 2.7 < spent < 2.85
    assert budget.spent.epsilon == 3.0
    before = budget.events
    made("MST", budget=budget).fit(TABLE)
    with refuses(BudgetExceededError):
        made("AIM", budget=budget).fit(TABLE)
    assert budget.events[:8] == before
    assert len(budget.events) == 9


def test_families_and_marginals_share_one_budget():
    budget = Filter(4.0, 1e-5, measure="zcdp")
    asked = {"AIM": 0.5, "MST": 0.5, "PrivBayes": 0.3}
    fits = [made(f, epsilon=epsilon, budget=budget).fit(TABLE) for f, epsilon in asked.items()]
    budget.charge(GaussianEvent(sensitivity=1, sigma=20.0))
    mine = budget.reserve(Filter.from_cost(Cost(privacy_measure="zcdp", amount=0.02), delta=1e-6))
    rows = CountedRows.from_source(MemorySource(TABLE), strategy_named("joint"))
    session = Session(rows, budget=mine, noise=SecureNoise())
    session.measure(Marginal(("a",)), Noise.from_cost(session.remaining))
    rhos = [Cost.from_epsilon("gdp", 0.5, 1e-6).amount / 2] * 2 + [0.3**2 / 2, 1 / 800, 0.02]
    oracle = RdpAccountant(np.linspace(3, 90, 2000).tolist())
    oracle.compose(ZCDpEvent(sum(rhos)))
    assert session.remaining.amount < 1e-6
    assert budget.cost.amount - budget.remaining.amount == pytest.approx(sum(rhos), rel=1e-9)
    assert 4.0 - budget.remaining_epsilon == pytest.approx(oracle.get_epsilon(1e-5), rel=1e-4)
    for fit, event in zip(fits, budget.events, strict=False):
        assert isinstance(event, FilterEvent)
        assert event.capacity == fit.guarantee_.events[0].capacity


def test_a_replace_one_budget_pays_for_fits_and_an_add_remove_one_refuses_the_reverse():
    budget = Filter(2.0, adjacency="replace-one")
    made("PrivBayes", epsilon=0.4, budget=budget).fit(TABLE)
    assert budget.remaining_epsilon == 1.2
    fact = GaussianEvent(sensitivity=2, sigma=9, adjacency="replace-one", label="PrivateRidge")
    shared = Filter(2.0, 1e-5)
    with refuses(UnprovenError, "PrivateRidge"):
        shared.charge(fact)
    assert not shared.events


@pytest.mark.parametrize(
    ("family", "given", "told"),
    [
        ("MST", {"epsilon": 5.0}, "needs a delta of 1e-06, and the delta of the budget is 0"),
        ("MST", {"epsilon": 0.5, "delta": 1e-6}, "Use a smaller epsilon"),
        ("PrivBayes", {"epsilon": 0.5}, "Use a smaller epsilon"),
        ("PrivBayes", {"epsilon": 1.0, "delta": 1e-6}, "measure='pure'"),
    ],
)
def test_what_a_budget_lacks_is_said(family, given, told):
    with refuses(BudgetExceededError, told):
        made(family, budget=Filter(**given)).fit(TABLE)
