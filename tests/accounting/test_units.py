"""The cost of a fit for a unit with several rows.

It is compared with closed forms, and checked in every class that adds costs up.
"""

import math
from dataclasses import replace

import pytest
from scipy.stats import norm

from missdp import accounting as acc
from missdp.accounting.events import unit_of
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth import AmplifiedEvent
from missdp.profiles import delta_of
from missdp.required_attributes import FixedRequirements

ROWS = (1, 2, 5, 50)


def of_patients(rows, capacity, **facts):
    return acc.UnitEvent(unit="patient", rows=rows, capacity=capacity, **facts)


@pytest.mark.long
@pytest.mark.parametrize("rows", ROWS)
def test_a_group_costs_what_theorems_on_groups_say(rows):
    assert acc.epsilon_of(of_patients(rows, acc.PureEvent(epsilon=0.125)), 0.0) == rows * 0.125
    (of_unit,) = of_patients(rows, acc.ZCDPEvent(rho=0.25)).flatten()
    assert of_unit.rho == rows**2 * 0.25
    # N(0, 1) beside N(rows mu, 1), by the normal distribution itself.
    mu, epsilon = 0.1 * rows, 1.0
    expected = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
        -mu / 2 - epsilon / mu
    )
    of_row = acc.GaussianEvent(sensitivity=0.1, sigma=1.0, discrete=False)
    stated = delta_of(of_patients(rows, of_row), epsilon)
    assert expected <= stated <= expected * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("privacy_measure", ["pure", "zcdp", "gdp"])
def test_what_is_left_for_rows_is_worth_no_more_than_the_budget(rows, privacy_measure):
    delta = 0.0 if privacy_measure == "pure" else 1e-6
    whole = acc.Filter(1.0, delta, measure=privacy_measure)
    budget = whole._for_units("patient", rows)
    parts = rows if privacy_measure == "pure" else rows**2
    assert budget.remaining.amount == pytest.approx(whole.remaining.amount / parts, rel=1e-12)
    least = acc.LaplaceEvent(sensitivity=1, scale=1000.0 * rows)
    budget.charge(least)
    spent = budget.spent
    assert (spent.epsilon, spent.unit, spent.max_rows) == (1.0, "patient", rows)
    assert acc.epsilon_of(spent.events, delta) <= 1.0
    assert acc.epsilon_of(spent.events, delta) >= 1.0 - 1e-6
    assert spent.events[0].log == (least,)
    assert acc.Guarantee.from_json(spent.to_json()) == spent
    if rows == 1:
        assert budget.remaining == (whole.charge(least), whole.remaining)[1]


# A release of noise for which the cost of a unit is known in closed form, by measure.
RELEASES = {
    "pure": lambda k: acc.PureEvent(epsilon=0.0625 * k),
    "zcdp": lambda k: acc.ZCDPEvent(rho=0.0001 * k**2),
    "gdp": lambda k: acc.GaussianEvent(sensitivity=float(k), sigma=40.0, discrete=False),
}


@pytest.mark.parametrize("rows", ROWS[:3])
@pytest.mark.parametrize("counts_as", ["rows", "one"])
@pytest.mark.parametrize("measure", RELEASES)
def test_remaining_epsilon_of_unit_filter_is_total_less_cost_of_unit(measure, rows, counts_as):
    delta = 0.0 if measure == "pure" else 1e-6
    budget = acc.Filter(1.0, delta, measure=measure)._for_units(
        "patient", rows, counts_as=counts_as
    )
    assert 1 - 1e-9 <= budget.remaining_epsilon <= 1.0
    budget.charge(RELEASES[measure](1))
    of_unit = RELEASES[measure](rows if counts_as == "rows" else 1)
    spent = acc.epsilon_of(of_unit, delta)
    assert budget.remaining_epsilon == pytest.approx(1.0 - spent, rel=1e-6)
    assert budget.remaining_epsilon <= 1.0 - spent + 1e-12


def test_per_row_below_one_row_raises_error():
    for rows in (0, -1, 1.5):
        with pytest.raises(ParameterError, match="rows must be a whole number"):
            acc.Cost(privacy_measure="pure", amount=1.0).per_row(rows)


def test_where_nothing_is_proven_for_several_rows_it_is_refused():
    of_order, pure = acc.RDPEvent(orders=(8.0,), epsilons=(0.1,)), acc.PureEvent(epsilon=1.0)
    with pytest.raises(ParameterError, match="capacity of a filter must be"):
        of_patients(2, of_order)
    with pytest.raises(UnprovenError, match="with required attributes"):
        of_patients(2, pure, required={"age"})
    for unit in ("", "row"):
        with pytest.raises(ParameterError, match="name of the column"):
            acc.UnitEvent(unit=unit, rows=2, capacity=pure)
    used = acc.Filter(1.0)
    used.charge(pure)
    for other in (used, acc.Filter(1.0, 1e-6, measure="pure", failure=1e-7)):
        with pytest.raises(ParameterError, match="fresh Filter"):
            other._for_units("patient", 2)


def test_releases_that_protect_different_units_are_never_added_up():
    patients = acc.Guarantee.from_events(of_patients(5, acc.PureEvent(epsilon=0.1)))
    rows = acc.Guarantee.from_events(acc.FilterEvent(capacity=acc.PureEvent(epsilon=0.1)))
    homes = acc.UnitEvent(unit="household", rows=5, capacity=acc.PureEvent(epsilon=0.1))
    for other in (rows, acc.Guarantee.from_events(homes)):
        with pytest.raises(UnprovenError, match="different units"):
            patients.compose(other)
    budget = acc.Filter(2.0)
    budget.reserve(acc.Filter(1.0)._for_units("patient", 5))
    with pytest.raises(UnprovenError, match="'patient', 'row'"):
        budget.charge(acc.PureEvent(epsilon=0.1))
    assert budget.remaining_epsilon == pytest.approx(1.0, rel=1e-12)
    budget.reserve(acc.Filter(1.0)._for_units("patient", 3))
    assert (budget.spent.epsilon, budget.spent.unit) == (2.0, "patient")
    with pytest.raises(UnprovenError, match="different units"):
        acc.Composition([of_patients(5, acc.PureEvent(epsilon=0.1)), acc.PureEvent(epsilon=0.1)])
    assert patients.compose(patients).epsilon == 1.0
    assert unit_of(()) == ("row", 1)


def test_words_and_conversions_are_those_of_the_unit():
    stated = acc.Guarantee.from_events(of_patients(5, acc.PureEvent(epsilon=0.1)))
    words = " ".join(stated.in_words().split())
    assert "Adding all rows of one patient to the table, or removing them, of which" in words
    assert "one person's row" not in words
    replaced = stated.to_replace_one()
    assert replaced.epsilon == 1.0
    assert "Replacing all rows of one patient" in replaced.in_words()
    known = (acc.MissingCompletelyAtRandom({"age": 0.5}),)
    with pytest.raises(UnprovenError, match="nothing is proven of units"):
        replace(stated, protects="ground-truth", conditions=known)


def test_parts_are_of_the_unit_of_what_they_are_parts_of():
    log = (of_patients(5, acc.PureEvent(epsilon=0.1)),)
    outer = acc.FilterEvent(capacity=acc.PureEvent(epsilon=1.0), log=log)
    assert unit_of([outer]) == ("patient", 1)
    known = {"assumption": acc.BoundedObservation(0.5), "structure": FixedRequirements()}
    assert unit_of([AmplifiedEvent(events=log, **known)]) == ("patient", 5)
    part = acc.Filter(2.0).reserve(acc.Filter(1.0))
    of_two = acc.Filter(0.5)._for_units("patient", 2)
    for mixed in (
        lambda: acc.Filter(2.0).charge(acc.PureEvent(epsilon=0.1), *log),
        lambda: acc.Guarantee.from_events([outer, acc.PureEvent(epsilon=0.1)]),
        lambda: part.reserve(of_two),
    ):
        with pytest.raises(UnprovenError, match="different units"):
            mixed()
    assert part.events == ()
