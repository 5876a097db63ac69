"""The search for larger marginals selects exclusive ors, and its exact answers are charged."""

import math

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Schema, Table
from missdp.accounting import SelectionEvent
from missdp.inference.raking import scaled_to_smaller
from missdp.schema import SurveyWeight, Unit
from missdp.session import Expected, Misfits, Selection
from missdp.session.counted_rows import CountedRows
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.sources import MemorySource, strategy_named
from missdp.synth.higher_order import search_candidates
from missdp.testing import RecordingNoise, ReplayedNoise, audit_synthesizer, undercharges

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning")
NAMES = tuple("abcde")


def schema_of(*, unit=None, weight=None):
    attributes = (Categorical(name=n, levels=("0", "1"), nullable=True) for n in NAMES)
    return Schema(tuple(attributes), unit=unit, weight=weight)


def codes_of(rows, parity, *, missing=0.0, seed=0):
    """Independent bits, of which the last is the parity of as many others. 2 is missing."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (rows, len(NAMES)))
    if parity:
        bits[:, -1] = bits[:, :parity].sum(axis=1) % 2
    return np.where(rng.random(bits.shape) < missing, 2, bits)


def table_of(codes):
    columns = {name: codes[:, i].astype(np.uint8) for i, name in enumerate(NAMES)}
    return Table.from_codes(schema_of(), columns)


def fitted(codes, **options):
    options = {"epsilon": 1.0, "random_state": 0, "workload": "auto"} | options
    return AllPairs(**options).fit(table_of(codes))


# Rows


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("parity", [2, 3])
def test_auto_parity_is_learned(parity, missing):
    model = fitted(codes_of(8_000, parity, missing=missing))
    rows = model.sample_table(4_000, random_state=0)
    bits = np.stack([rows.codes(name) for name in NAMES], axis=1)
    assert np.mean(bits[:, :parity].sum(axis=1) % 2 == bits[:, -1]) > 0.9


def test_auto_independent_columns_select_nothing():
    model = fitted(codes_of(8_000, 0))
    assert not model.tables_.higher_order


def test_auto_selecting_nothing_costs_no_accuracy():
    """The rest of the search releases pairs again, so noise grows by the cost of one selection."""
    codes = codes_of(8_000, 0)
    searched, plain = (fitted(codes, workload=w).tables_.products.std for w in ("auto", 2))
    assert plain < searched < 1.005 * plain


@pytest.mark.parametrize("missing", ["observed", "complete-rows", "impute-first"])
def test_auto_other_strategies_find_a_parity(missing):
    model = fitted(codes_of(8_000, 2, missing=0.05), missing=missing)
    assert (0, 1, 4) in {c if len(c) == 3 else (0, 1, 4) for c in model.tables_.higher_order}


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
    ("unit", "weight"),
    [
        (None, None),
        (Unit("person", max_rows=3), None),
        (None, SurveyWeight("wt", upper=4.0)),
        (Unit("person", max_rows=3), SurveyWeight("wt", upper=4.0)),
    ],
)
def test_auto_one_unit_changes_no_answer_by_more_than_its_event(unit, weight, holes):
    """All exact answers of a fit, with and without one unit, given equal released values."""
    schema, size = schema_of(unit=unit, weight=weight), 3 if unit else 1
    codes = codes_of(3_000, 2, missing=0.1)
    frame = pd.DataFrame(np.array(["0", "1", None], dtype=object)[codes], columns=[*NAMES])
    more = pd.DataFrame({n: ["1"] * size for n in NAMES})
    more = more.assign(b=None) if holes else more
    frame["person"], more["person"] = np.arange(len(frame)) // 3, 9_999
    frame["wt"], more["wt"] = np.random.default_rng(1).uniform(0, 4, len(frame)), 9.0
    unread = [n for n, fact in (("person", unit), ("wt", weight)) if fact is None]
    options = {"epsilon": 8.0, "delta": 1e-6, "workload": "auto"}
    with RecordingNoise(1) as first:
        model = AllPairs(**options).fit(frame.drop(columns=unread), schema=schema)
    with ReplayedNoise(first) as again:
        both = pd.concat([frame, more]).drop(columns=unread)
        AllPairs(**options).fit(both, schema=schema)
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
    noisy = [(one, a) for (one, _), a in zip(pairs, apart, strict=True) if not _is_selection(one)]
    assert sum(np.square(a).sum() / one.event.sigma**2 for one, a in noisy) <= claim.sensitivity**2


def _is_selection(answer):
    return isinstance(answer.event, SelectionEvent)


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
