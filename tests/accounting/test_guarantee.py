"""Guarantees: claims are checked, conditions never lost, words complete."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from accounting_strategies import conditions, pure_events
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import accounting as acc
from missdp.accounting.exact import add_remove_share, float_up
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.ground_truth import FixedRequirements, ground_truth_guarantee

GAUSSIAN = acc.GaussianEvent(sensitivity=1, sigma=5)
LAPLACE = acc.LaplaceEvent(sensitivity=1, scale=2)


def test_epsilon_at_recomputes_and_keeps_the_statement():
    guarantee = acc.Guarantee.from_events([GAUSSIAN] * 2, delta=1e-6)
    assert guarantee.epsilon_at(1e-9) > guarantee.epsilon > guarantee.epsilon_at(1e-3)
    assert guarantee.epsilon_at(1e-6) == guarantee.epsilon
    stated = acc.Guarantee(0.5, 1e-6)
    assert stated.epsilon_at(1e-6) == 0.5
    assert 0.49 < stated.epsilon_at(1e-5) <= 0.5
    assert math.isinf(stated.epsilon_at(1e-7))
    looser = acc.Guarantee(5.0, 1e-6, events=[GAUSSIAN])
    assert looser.epsilon_at(1e-6) == 5.0
    assert looser.epsilon_at(1e-7) == 5.0  # never below the statement at a smaller delta
    assert looser.epsilon_at(1e-5) == acc.epsilon_of(GAUSSIAN, 1e-5)


def test_numbers_below_what_the_events_prove_are_refused():
    """Also those of a file that somebody edited, and whichever accountant is the tightest."""
    for event, delta in ((LAPLACE, 0.0), (GAUSSIAN, 1e-6), (LAPLACE, 1e-3)):
        true = acc.epsilon_of(event, delta)
        saved = acc.Guarantee(true, delta, events=[event]).to_dict()
        for claim in (0.0, true / 10, math.nextafter(true, 0)):
            for state in (
                lambda: acc.Guarantee(claim, delta, events=[event]),  # noqa: B023
                lambda: acc.Guarantee.from_dict({**saved, "epsilon": claim}),  # noqa: B023
            ):
                with pytest.raises(ParameterError, match="smaller than the events prove"):
                    state()
    with pytest.raises(ParameterError, match="needs the events"):
        acc.Guarantee.from_dict({**saved, "delta": 0.0, "epsilon": 0.1, "events": []})


def test_amplified_numbers_are_recomputed_from_what_they_rest_on():
    known = acc.MissingCompletelyAtRandom({"a": 0.5})
    for adjacency in ("add-remove", "replace-one"):
        plain = acc.Guarantee.from_events(
            [acc.PureEvent(epsilon=1.0, required={"a"})], adjacency=adjacency
        )
        truth = ground_truth_guarantee(plain, known, structure=FixedRequirements())
        assert truth.epsilon < plain.epsilon
        assert acc.Guarantee.from_json(truth.to_json()) == truth
        assert truth.to_replace_one().epsilon <= 2 * truth.epsilon
        saved = truth.to_dict()
        with pytest.raises(ParameterError, match="smaller than the events prove"):
            acc.Guarantee.from_dict({**saved, "epsilon": truth.epsilon * 0.99})
        with pytest.raises(ParameterError):  # for the incomplete table nothing is amplified
            acc.Guarantee(
                truth.epsilon, 0.0, adjacency, "incomplete", truth.conditions, truth.events
            )
        fewer = [c for c in saved["conditions"] if c["kind"] != "FixedSchedule"]
        with pytest.raises(ParameterError, match="condition is missing"):
            acc.Guarantee.from_dict({**saved, "conditions": fewer})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.lists(pure_events, max_size=2), st.lists(conditions, max_size=2)),
             min_size=1, max_size=3)
)  # fmt: skip
def test_composing_adds_events_and_unites_conditions(parts):
    guarantees = [acc.Guarantee.from_events(events, conditions=held) for events, held in parts]
    whole = guarantees[0].compose(*guarantees[1:])
    assert set(whole.conditions) == {c for _, held in parts for c in held}
    assert whole.events == tuple(e for events, _ in parts for e in events)
    assert whole.epsilon == pytest.approx(sum(g.epsilon for g in guarantees))
    assert whole.delta == 0
    for condition in whole.conditions:
        flat = " ".join(whole.in_words().split())
        assert " ".join(condition.statement().split()) in flat


def test_a_typed_guarantee_enters_later_compositions_with_its_whole_cost():
    typed = acc.Guarantee(1.0, 1e-7)
    whole = acc.Guarantee(0.5).compose(typed).compose(acc.Guarantee.from_events(LAPLACE))
    assert whole.epsilon == pytest.approx(2.0, abs=1e-3)
    assert whole.epsilon_at(1e-7) == pytest.approx(2.0, abs=1e-3)
    assert whole.epsilon_at(1e-8) == math.inf


def test_mixed_guarantees_do_not_compose():
    facts = {"conditions": [acc.RowIndependentMissingness()], "events": [LAPLACE]}
    truth, plain = acc.Guarantee(1, protects="ground-truth", **facts), acc.Guarantee(1)
    for one, other in ((truth, plain), (plain, plain.to_replace_one())):
        with pytest.raises(UnprovenError, match="cannot compose"):
            one.compose(other)


@pytest.mark.long
def test_replace_one_is_group_privacy():
    converted = acc.Guarantee(1.0, 1e-6, conditions=[acc.ExplicitSeed()]).to_replace_one()
    assert converted.epsilon == 2
    assert converted.delta == pytest.approx((1 + math.e) * 1e-6)
    assert converted.conditions == (acc.ExplicitSeed(),)
    assert converted.to_replace_one() is converted
    with pytest.raises(UnprovenError, match="reaches 1"):
        acc.Guarantee(10, 1e-4).to_replace_one()
    sampled = acc.SampledGaussianEvent(rate=0.05, noise_multiplier=1.0, steps=5)
    guarantee = acc.Guarantee.from_events(sampled, delta=1e-7).to_replace_one()
    assert guarantee.epsilon_at(guarantee.delta) <= guarantee.epsilon
    assert guarantee.epsilon_at(1e-7) > guarantee.epsilon


@pytest.mark.parametrize("epsilon", [1.0, 50.0, 720.0, 1e6])
def test_replace_one_is_sound_at_any_size(epsilon):
    """(1 + e^epsilon) delta does not fit into a float above 709."""
    event = acc.ApproximateEvent(epsilon=epsilon, delta=1e-310)
    share = add_remove_share(epsilon, 1e-6)
    if epsilon > 700:
        with pytest.raises(UnprovenError, match="reaches 1"):
            event.to_replace_one()
        assert share <= 1e-6 * math.exp(-700)
    else:
        assert event.to_replace_one().delta >= 1e-310 * math.exp(epsilon)
        assert acc.replace_one_of(epsilon, share)[1] <= 1e-6


def test_no_way_around_conditions_that_a_draw_of_the_mask_may_break():
    limited = acc.Guarantee.from_events(
        LAPLACE, conditions=[acc.DatasetCollection(max_missing=1, n=10)]
    )
    for change in ({"conditions": (*limited.conditions, acc.RowIndependentMissingness())}, {}):
        with pytest.raises(UnprovenError):
            replace(limited, protects="ground-truth", **change)
    truth = ground_truth_guarantee(LAPLACE, acc.RowIndependentMissingness())
    with pytest.raises(UnprovenError, match="averages over draws"):
        truth.with_conditions(*limited.conditions)
    assert (
        truth.with_conditions(acc.Assumption("It rains."), acc.PublicDomain()).epsilon
        == truth.epsilon
    )


@given(st.lists(st.floats(1e-9, 1e-2), min_size=2, max_size=6))
def test_deltas_add_up_exactly_and_are_never_rounded_down(deltas):
    events = [acc.ApproximateEvent(epsilon=0.1, delta=delta) for delta in deltas]
    true = sum(Fraction(repr(delta)) for delta in deltas)
    whole = float_up(true)
    assert math.isfinite(acc.epsilon_of(events, whole))
    less = math.nextafter(whole, 0)
    acc.Filter(1.0, whole, measure="pure", failure=whole).charge(*events)
    with pytest.raises(BudgetExceededError):
        acc.Filter(1.0, whole, measure="pure", failure=less).charge(*events)
    full = acc.Filter(1.0, whole, measure="pure", failure=whole)
    full.charge(acc.ApproximateEvent(epsilon=0.1, delta=whole))
    assert not full.can_afford(acc.ApproximateEvent(epsilon=0.0, delta=1e-30))
    assert (full.spent.epsilon, full.spent.delta) == (1.0, whole)


def test_words_round_up_and_say_which_table_is_meant():
    """The best guess of randomised response is right with probability (e^eps + d) / (e^eps + 1)."""
    known = acc.MissingCompletelyAtRandom({"a": 0.5})
    truth = ground_truth_guarantee(acc.PureEvent(epsilon=1.0), known)
    said = " ".join(acc.Guarantee(0.123412, 1.00001e-6).in_words().split())
    for part in ("(0.1235, 1.001e-06)-differentially private", "no condition", "at most 1.132"):
        assert part in said
    right = 0.1 + 0.9 * math.e / (1 + math.e)
    assert f"{math.ceil(right * 1e4) / 1e2:.4g} %" in acc.Guarantee(1.0, 0.1).in_words()
    assert "at most e^1000." in acc.Guarantee(1000.0).in_words()
    assert "before values went missing" in str(truth)
    assert "missing cells included" not in str(truth)


def test_amplified_epsilons_are_never_added():
    """Two releases read a row under the *same* mask: log E[e^2m] exceeds twice log E[e^m]."""
    known = acc.MissingCompletelyAtRandom({"a": 0.5})
    event = acc.PureEvent(epsilon=1.0, required={"a"})
    truth = ground_truth_guarantee(event, known, structure=FixedRequirements())
    assert truth.epsilon == pytest.approx(math.log1p(0.5 * math.expm1(1.0)))
    assert math.log1p(0.5 * math.expm1(2.0)) > 2 * truth.epsilon
    with pytest.raises(UnprovenError, match="for the ground truth"):
        truth.compose(truth)


def test_ground_truth_without_a_condition_raises():
    with pytest.raises(UnprovenError, match="independently of each other"):
        acc.Guarantee(1.0, protects="ground-truth")
