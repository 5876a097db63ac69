"""The search for larger marginals selects exclusive ors, and its exact answers are charged."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from missdp import AIM, AllPairs, Categorical, Filter, Schema, Table
from missdp.accounting import (
    LaplaceEvent,
    MissingCompletelyAtRandom,
    PureEvent,
    SelectionEvent,
    releases,
)
from missdp.errors import ParameterError
from missdp.ground_truth import planned_ground_truth
from missdp.inference.raking import scaled_to_smaller
from missdp.schema import SurveyWeight, Unit
from missdp.session import Expected, Misfits, Selection
from missdp.session.counted_rows import CountedRows
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.sources import MemorySource, strategy_named
from missdp.synth.higher_order import search_candidates
from missdp.testing import RecordingNoise, ReplayedNoise, audit_synthesizer, undercharges
from refusing import refused

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning")
NAMES, TEN = tuple("abcde"), tuple("abcdefghij")
FITS = [(AllPairs, 1e-6), (AIM, 1e-6), (AIM, 0.0)]


def schema_of(names=NAMES, *, unit=None, weight=None):
    attributes = (Categorical(name=n, levels=("0", "1"), nullable=True) for n in names)
    return Schema(tuple(attributes), unit=unit, weight=weight)


def codes_of(rows, parity, *, missing=0.0, seed=0, names=NAMES):
    """Independent bits, of which the last is the parity of as many others. 2 is missing."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (rows, len(names)))
    if parity:
        bits[:, -1] = bits[:, :parity].sum(axis=1) % 2
    return np.where(rng.random(bits.shape) < missing, 2, bits)


def table_of(codes, names=NAMES):
    columns = {name: codes[:, i].astype(np.uint8) for i, name in enumerate(names)}
    return Table.from_codes(schema_of(names), columns)


def fitted(codes, family=AllPairs, **options):
    options = {"epsilon": 1.0, "random_state": 0, "workload": "auto"} | options
    names = TEN[: codes.shape[1]]
    return family(**options).fit(table_of(codes, names))


def drawn(model, rows=4_000):
    table = model.sample_table(rows, random_state=0)
    return np.stack([table.codes(name) for name in model.modelled_.names], axis=1)


def parity_holds(bits, parity):
    return np.mean(bits[:, :parity].sum(axis=1) % 2 == bits[:, -1])


# Rows


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("parity", [2, 3])
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_auto_parity_is_learned(family, parity, missing):
    model = fitted(codes_of(8_000, parity, missing=missing), family)
    assert parity_holds(drawn(model), parity) > 0.9


@pytest.mark.parametrize("parity", [2, 3])
def test_auto_pure_fit_learns_a_parity(parity):
    model = fitted(codes_of(20_000, parity), AIM, delta=0.0)
    assert parity_holds(drawn(model), parity) > 0.9
    events = {type(event) for event in releases(model.guarantee_.events[0])}
    assert events == {LaplaceEvent, SelectionEvent}
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 0.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("parity", "missing", "least"), [(2, 0.0, 0.95), (3, 0.0, 0.9), (2, 0.2, 0.9), (3, 0.2, 0.8)]
)
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_auto_boosting_on_synthetic_rows_predicts(family, parity, missing, least):
    codes = codes_of(20_000, parity, missing=missing, names=TEN)
    truth = codes_of(10_000, parity, seed=1, names=TEN)
    bits = drawn(fitted(codes, family), 20_000)
    boosting = HistGradientBoostingClassifier(random_state=0).fit(bits[:, :-1], bits[:, -1])
    assert boosting.score(truth[:, :-1], truth[:, -1]) >= least


@pytest.mark.parametrize(("family", "delta"), FITS)
def test_auto_independent_columns_select_nothing(family, delta):
    model = fitted(codes_of(8_000, 0), family, delta=delta, random_state=1)
    assert not model.tables_.higher_order


def test_auto_selecting_nothing_costs_no_accuracy():
    """The rest of the search releases pairs again, so noise grows by the cost of one selection."""
    codes = codes_of(8_000, 0)
    searched, plain = (fitted(codes, workload=w).tables_.products.std for w in ("auto", 2))
    assert plain < searched < 1.005 * plain


@pytest.mark.parametrize(("parity", "selects"), [(0, False), (2, True)])
@pytest.mark.parametrize(("family", "delta"), FITS)
def test_auto_fit_spends_its_budget(family, delta, parity, selects):
    """The rest of the search is spent on pairs, whether or not a marginal was selected."""
    model = fitted(codes_of(20_000, parity), family, delta=delta)
    assert bool(model.tables_.higher_order) == selects
    (event,) = model.guarantee_.events
    spent = sum(event.cost.price(e) for e in releases(event))
    assert 0.999 * event.cost.amount < spent <= event.cost.amount


@pytest.mark.parametrize("missing", ["observed", "complete-rows", "impute-first"])
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_auto_other_strategies_find_a_parity(family, missing):
    model = fitted(codes_of(8_000, 2, missing=0.05), family, missing=missing)
    assert any({0, 1, 4} <= {*clique} for clique in model.tables_.higher_order)


def test_auto_aim_lists_the_selected_marginals():
    model = fitted(codes_of(8_000, 2), AIM)
    assert any({"a", "b", "e"} <= {*names} for names in model.measured_)


@pytest.mark.parametrize(("family", "delta"), FITS)
def test_auto_two_columns_need_no_search(family, delta):
    codes = codes_of(500, 0)[:, :2]
    searched, plain = (
        drawn(fitted(codes, family, delta=delta, workload=w), 200) for w in ("auto", 2)
    )
    assert np.array_equal(searched, plain)


def test_auto_candidates_are_limited_by_attributes():
    assert len(search_candidates([2] * 12)) == math.comb(12, 3) + math.comb(12, 4)
    assert len(search_candidates([2] * 60)) == math.comb(50, 3) + math.comb(12, 4)


def test_scaled_to_smaller_larger_tables_keep_pairs():
    rng = np.random.default_rng(0)
    pair, triple = rng.random((2, 3)), rng.random((2, 3, 2))
    pair /= pair.sum()
    scaled = scaled_to_smaller({(0, 1, 2): triple}, {(0, 1): pair})[0, 1, 2]
    assert np.allclose(scaled.sum(axis=2), pair)


# Privacy

ROWS = {
    "all observed": [0, 1, 0, 1, 1],
    "one missing": [0, 2, 0, 1, 1],
    "all missing": [2, 2, 2, 2, 2],
}


def log_chances(codes, strategy, expected, selection):
    """Exact log probabilities of a selection by the exponential mechanism."""
    rows = CountedRows.from_source(MemorySource(table_of(codes)), strategy_named(strategy))
    scores = Misfits(tuple(expected), expected).exact(rows) / selection.scale
    return scores - np.logaddexp.reduce(scores)


@pytest.mark.parametrize("strategy", ["joint", "observed"])
@pytest.mark.parametrize("row", ROWS)
def test_selection_exact_loss_is_at_most_epsilon_and_reaches_it(row, strategy):
    """The row raises the score of one triple and lowers that of another."""
    codes, added = codes_of(40, 2, missing=0.2), np.array([ROWS[row]])
    every = np.ones((2, 2, 2), dtype=bool)
    expected = {
        (): Expected(np.zeros(()), np.zeros((), dtype=bool), -1.0, 1.0),
        ("a", "b", "e"): Expected(np.zeros((2, 2, 2)), every, 0.0, 1.0),
        ("a", "c", "e"): Expected(np.full((2, 2, 2), 60.0), every, 440.0, 1.0),
    }
    selection = Selection(1.0, MISFIT_SENSITIVITY)
    before, after = (
        log_chances(c, strategy, expected, selection) for c in (codes, np.append(codes, added, 0))
    )
    loss = np.abs(after - before).max()
    assert loss <= selection.epsilon
    if row == "all observed":  # the coefficient of monotone scores would exceed the charge
        assert 2 * loss > 1.2 * selection.epsilon
    if row == "all missing":
        assert loss == 0


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(
    ("family", "delta"), [FITS[0], *(pytest.param(*f, marks=pytest.mark.long) for f in FITS[1:])]
)
@pytest.mark.parametrize(
    ("unit", "weight"),
    [
        (None, None),
        (Unit("person", max_rows=3), None),
        pytest.param(None, SurveyWeight("wt", upper=4.0), marks=pytest.mark.long),
        (Unit("person", max_rows=3), SurveyWeight("wt", upper=4.0)),
    ],
)
def test_auto_one_unit_changes_no_answer_by_more_than_its_event(family, delta, unit, weight, holes):
    """All exact answers of a fit, with and without one unit, given equal released values."""
    schema, size = schema_of(unit=unit, weight=weight), 3 if unit else 1
    codes = codes_of(3_000, 2, missing=0.1)
    frame = pd.DataFrame(np.array(["0", "1", None], dtype=object)[codes], columns=[*NAMES])
    more = pd.DataFrame({n: ["1"] * size for n in NAMES})
    more = more.assign(b=None) if holes else more
    frame["person"], more["person"] = np.arange(len(frame)) // 3, 9_999
    frame["wt"], more["wt"] = np.random.default_rng(1).uniform(0, 4, len(frame)), 9.0
    unread = [n for n, fact in (("person", unit), ("wt", weight)) if fact is None]
    options = {"epsilon": 8.0 if delta else 32.0, "delta": delta, "workload": "auto"}
    with RecordingNoise(1) as first:
        model = family(**options).fit(frame.drop(columns=unread), schema=schema)
    with ReplayedNoise(first) as again:
        both = pd.concat([frame, more]).drop(columns=unread)
        family(**options).fit(both, schema=schema)
    pairs = list(zip(first.answers, again.answers, strict=True))
    apart = [np.subtract(a.exact, b.exact, dtype=np.float64) for a, b in pairs]
    assert model.tables_.higher_order
    chosen = [a for (one, _), a in zip(pairs, apart, strict=True) if _is_selection(one)]
    # The audit has power: the unit changes scores.
    assert 0.3 < max(np.abs(a).max() for a in chosen) <= size * MISFIT_SENSITIVITY
    if unit is None:
        assert not [
            e for a, b in pairs if (e := undercharges(a.mechanism, a.event, a.exact, b.exact))
        ]
        return
    (claim,) = model.guarantee_.events[0].flatten()
    loss = sum(_loss(one, a, claim) for (one, _), a in zip(pairs, apart, strict=True))
    most = claim.epsilon if isinstance(claim, PureEvent) else claim.sensitivity**2
    assert (0.1 if holes else 0.3) * most < loss <= most  # the audit has power


def _loss(answer, apart, claim):
    """Loss of an answer in the measure of the claim. In Gaussian DP, selections are left out."""
    event = answer.event
    if isinstance(claim, PureEvent):
        if _is_selection(answer):
            return event.epsilon * np.abs(apart).max() / MISFIT_SENSITIVITY
        return np.abs(apart).sum() / event.scale
    return 0.0 if _is_selection(answer) else np.square(apart).sum() / event.sigma**2


def _is_selection(answer):
    return isinstance(answer.event, SelectionEvent)


def test_auto_delta_of_zero_is_refused_uncharged():
    budget = Filter(1.0, 1e-6)
    fit = AllPairs(epsilon=1.0, delta=0.0, workload="auto", budget=budget).fit
    refused(ParameterError, "delta must be above 0", fit, table_of(codes_of(100, 2)))
    assert budget.remaining == Filter(1.0, 1e-6).remaining


def test_auto_ground_truth_follows_from_public_caps():
    """Selections of the search count as selections, and outputs decide nothing."""
    rates, guarantees = MissingCompletelyAtRandom(dict.fromkeys(NAMES, 0.6)), []
    for parity, rows in ((0, 2_000), (2, 8_000)):
        model = fitted(codes_of(rows, parity, missing=0.1), AIM, missing="observed")
        assert model.fitted_.limits.cover(model.guarantee_.events[0])
        assert bool(model.tables_.higher_order) == bool(parity)
        guarantees.append(model.ground_truth_guarantee(rates))
    assert guarantees[0] == guarantees[1]
    assert guarantees[0].epsilon < 0.9
    planned = planned_ground_truth(model, schema_of(), rates)
    assert planned.epsilon == pytest.approx(guarantees[0].epsilon, rel=1e-9)


@pytest.mark.long
def test_auto_audit_stays_below_the_claim():
    """All releases of many fits together bound the knowledge about one row by the claim."""
    codes = codes_of(600, 2)
    tables = table_of(codes), table_of(np.append(codes, [[1, 1, 1, 1, 1]], axis=0))
    options = {"epsilon": 11.0, "delta": 1e-6, "workload": "auto"}
    audit = audit_synthesizer(
        AllPairs, parameters=options, strategies=["joint"], tables=tables, trials=20
    )["joint"]
    assert not audit.flagged
    assert not audit.blind
