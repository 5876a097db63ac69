"""Generators fitted to what a critic of pairs tells: signal is learned, and noise is not."""

import numpy as np
import pytest

from baselines.test_critics_of_pairs import opened
from missdp import Categorical, Schema, Table
from missdp.accounting import Cost
from missdp.baselines.fit_classes import _logits, fit_classes, independent_classes
from missdp.baselines.pair_moments import moments_of
from missdp.synth.learn_pairs import release_pairs

LEVELS = ("u", "v", "w")
SCHEMA = Schema(
    (
        *(Categorical(name=name, levels=LEVELS, nullable=True) for name in "abc"),
        Categorical(name="d", levels=LEVELS),
    )
)


def complete(n, seed):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    return {a.name: np.where(rng.random(n) < 0.7, hidden, rng.integers(0, 3, n)) for a in SCHEMA}


def private(mechanism, n=20_000, seed=0):
    rng = np.random.default_rng(seed + 1)
    codes = complete(n, seed)
    chance = 0.3 if mechanism == "mcar" else np.choose(codes["d"], [0.05, 0.3, 0.7])
    codes["a"] = np.where(rng.random(n) < chance, 3, codes["a"])
    return Table.from_codes(SCHEMA, codes)


def fitted(table, amount=1.0, *, conditional=True, seed=0):
    door, crude = opened(Cost(currency="gdp", amount=amount), seed, table)
    moments = moments_of(release_pairs(door, crude))
    return fit_classes(
        moments,
        classes=12,
        fits=2,
        conditional=conditional,
        always={},
        rng=np.random.default_rng(seed),
        report=lambda done: None,
    )


def pair(codes, one, other):
    cells = codes[one] * 4 + codes[other]
    return np.bincount(cells, minlength=16).reshape(4, 4)[:3, :3] / len(cells)


def distance(model, seed=9, keep_holes=False):
    columns = model.sample(60_000, np.random.default_rng(seed), keep_holes=keep_holes)
    drawn, true = dict(zip("abcd", columns, strict=True)), complete(200_000, 77)
    pairs = [("a", "d"), ("a", "b"), ("c", "d")]
    return max(np.abs(pair(drawn, *p) - pair(true, *p)).sum() / 2 for p in pairs)


def test_pairs_of_complete_rows_are_learned():
    model = fitted(private("mcar"))
    assert (
        distance(model)
        < 0.03
        < 0.2
        < distance(
            independent_classes(opened(Cost(currency="gdp", amount=4.0), 0, private("mcar"))[1], {})
        )
    )


def test_holes_that_depend_on_values_are_told_from_those_that_do_not():
    ranges = {
        mechanism: np.ptp(fitted(private(mechanism)).observed[:, 0])
        for mechanism in ("mcar", "mar")
    }
    assert ranges["mcar"] < 0.02  # of two fits, each with one chance for all classes
    assert ranges["mar"] > 0.3


def test_conditional_holes_undo_the_bias_of_values_missing_at_random():
    table = private("mar")
    assert distance(fitted(table)) < 0.04
    assert distance(fitted(table, conditional=False)) > 0.05


def test_holes_of_rows_are_as_often_as_in_private_rows():
    table = private("mar")
    columns = fitted(table).sample(60_000, np.random.default_rng(3), keep_holes=True)
    for level, expected in enumerate((0.05, 0.3, 0.7)):
        assert np.mean(columns[0][columns[3] == level] == 3) == pytest.approx(expected, abs=0.06)
    assert max(columns[3]) == 2


def test_what_is_no_more_than_noise_is_not_learned():
    """Where attributes are independent, most generators stay at their margins."""
    rng = np.random.default_rng(0)
    codes = {
        a.name: rng.permutation(c) for a, c in zip(SCHEMA, complete(500, 0).values(), strict=True)
    }
    table = Table.from_codes(SCHEMA, codes)
    stayed = []
    for seed in range(6):
        door, crude = opened(Cost(currency="gdp", amount=0.01), seed, table)
        model = fit_classes(
            moments_of(release_pairs(door, crude)),
            classes=200,
            fits=1,
            conditional=True,
            always={},
            rng=np.random.default_rng(0),
            report=lambda done: None,
        )
        heads = zip(model.heads, independent_classes(crude, {}).heads, strict=True)
        stayed.append(all(np.abs(model.shares @ m - one[0]).max() < 0.01 for m, one in heads))
        assert np.ptp(model.observed, axis=0).max() < 1e-6
    assert sum(stayed) >= 4


def test_classes_start_at_the_margins():
    margin = np.array([0.7, 0.299, 0.001])
    logits = _logits(margin, 50, np.random.default_rng(0))
    law = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert law.mean(axis=0) == pytest.approx(margin, rel=1e-3)
    assert law.std(axis=0).max() > 0.05
