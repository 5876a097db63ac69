"""A fit spends all that it may, whatever the table, and pays for no choice that is none."""

import pytest

from missdp import PrivBayes
from missdp.accounting import (
    Budget,
    FilterEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    releases,
)
from missdp.synth import AIM, MST
from synth.tables import rows_of, schema_of

STRATEGIES = ("joint", "observed", "complete-rows", "impute-first")
SIZES = {"one": [3], "two": [3, 4], "three": [2, 3, 4], "wide": [40, 50, 60, 2]}
FAMILIES = {
    "PrivBayes": (PrivBayes, {"epsilon": 1.0}),
    "PrivBayes, zCDP": (PrivBayes, {"epsilon": 1.0, "delta": 1e-6}),
    "PrivBayes, no parents": (PrivBayes, {"epsilon": 1.0, "degree": 0}),
    "MST": (MST, {"epsilon": 1.0, "delta": 1e-6, "model_rows": 100}),
    "AIM": (AIM, {"epsilon": 1.0, "delta": 1e-6, "model_rows": 100, "rounds": 3}),
    "MST, pure": (MST, {"epsilon": 1.0, "delta": 0.0, "model_rows": 100}),
    "AIM, pure": (AIM, {"epsilon": 1.0, "delta": 0.0, "model_rows": 100, "rounds": 3}),
    "AIM, no room": (
        AIM,
        {"epsilon": 1.0, "delta": 1e-6, "model_rows": 100, "max_model_size": 1e-6},
    ),
    "AIM, little room": (
        AIM,
        {"epsilon": 1.0, "delta": 1e-6, "model_rows": 100, "max_model_size": 2e-4, "rounds": 2},
    ),
}


def table(sizes, n=200, seed=0):
    return rows_of(schema_of(sizes), n, seed)


def share_spent(part):
    """What the releases of a filter cost together, as a share of what they may cost."""
    budget = Budget.from_cost(part.cost, delta=1e-6 if part.cost.currency != "pure" else 0.0)
    budget.charge(*part.log)
    return 1 - budget.left.amount / part.cost.amount


def shares_spent(model):
    """The same for a fit, and for every part that it set aside."""
    (whole,) = model.guarantee_.events
    parts = [event for event in whole.log if isinstance(event, FilterEvent)]
    return [share_spent(part) for part in (whole, *parts)]


def choices(model):
    return [e for e in releases(model.guarantee_.events) if e.label == "selection of a marginal"]


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.parametrize("missing", STRATEGIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fit_spends_its_whole_plan_and_pays_for_no_choice_that_is_none(family, missing):
    make, options = FAMILIES[family]
    turn = (list(FAMILIES).index(family) + STRATEGIES.index(missing)) % 2
    for sizes in list(SIZES.values())[turn::2]:  # of each two families one strategy has each
        model = make(missing=missing, random_state=0, **options).fit(table(sizes))
        assert all(1 - 1e-6 < share <= 1 for share in shares_spent(model))
        assert len(sizes) != 2 or choices(model) == []


@pytest.mark.parametrize("missing", STRATEGIES)
def test_attributes_that_fit_nowhere_are_not_chosen_among(missing):
    """Two of four are so wide that they have no parents, and are none: one choice is left."""
    private = table([400, 2, 500, 2, 2], n=2000)
    model = PrivBayes(epsilon=2.0, missing=missing, random_state=0).fit(private)
    parents = {f.child: f.parents for f in model.network_.families}
    assert parents["c0"] == parents["c2"] == ()
    assert len(choices(model)) <= 2
    assert choices(model)[0].epsilon > 1.9 * 0.1 * 0.85 / 2
    assert {type(event) for event in choices(model)} == {PureEvent}  # permute-and-flip
    gaussian = PrivBayes(epsilon=9.0, delta=1e-6, random_state=0).fit(table([2] * 5, n=5000))
    assert {type(event) for event in choices(gaussian)} == {SelectionEvent}


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_what_is_set_aside_for_tables_does_not_depend_on_what_came_out():
    """It is amplified, so it must be known beforehand; what choices leave over is not in it."""
    sizes, found = [30, 40, 3, 2], set()
    for n, seed in [(0, 0), (5, 1), (300, 2), (20_000, 3)]:
        private = table(sizes, n=n, seed=seed)
        model = PrivBayes(epsilon=1.0, missing="observed", random_state=seed).fit(private)
        (whole,) = model.guarantee_.events
        found |= {e.cost.amount for e in whole.log if isinstance(e, FilterEvent)}
        assert all(1 - 1e-6 < share <= 1 for share in shares_spent(model))
    assert len(found) == 1


@pytest.mark.parametrize("family", ["PrivBayes", "PrivBayes, zCDP", "MST", "AIM", "AIM, pure"])
def test_imputation_costs_its_share_of_the_budget_in_its_own_currency(family):
    """A tenth of epsilon, spent on pure noise, would be a hundredth of rho or so."""
    make, options = FAMILIES[family]
    private = table(SIZES["three"])
    model = make(missing="impute-first", random_state=0, **options).fit(private)
    (whole,) = model.guarantee_.events
    gated = [event for event in whole.log if event.gate]
    assert len(gated) == 3
    kind = LaplaceEvent if whole.cost.currency == "pure" else GaussianEvent
    assert {type(event) for event in gated} == {kind}
    only = Budget.from_cost(whole.cost, delta=1e-6 if kind is GaussianEvent else 0.0)
    only.charge(*gated)
    assert 1 - only.left.amount / whole.cost.amount == pytest.approx(0.1)
