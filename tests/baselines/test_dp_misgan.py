"""Released generators draw rows and holes by their law; DP-MisGAN, and what its critic learns."""

import subprocess
import sys
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from missdp import DPMisGAN, Table
from missdp.baselines.fit_classes import ClassTable, PairMoments, fit_classes
from missdp.baselines.networks import Layers, NetworkModel
from missdp.inference.model import Levels
from missdp.synth.learn_pairs import release_pairs
from missdp.testing import TINY, audit_synthesizer, canary
from synth.conformance import make_table
from synth.tables import schema_of
from synth.test_learn_pairs import SCHEMA as THREE
from synth.test_learn_pairs import margins
from synth.test_learn_pairs import private as three

QUICK = {"classes": 5, "fits": 1}


def test_a_saved_model_is_sampled_in_a_process_that_never_imports_torch(tmp_path):
    model, path = DPMisGAN(epsilon=1.0, **QUICK).fit(make_table()), str(tmp_path / "m.json")
    model.save(path)
    code = (
        "import sys, missdp; m = missdp.load(sys.argv[1]); "
        "print(m.sample(5, random_state=0).to_csv()); assert 'torch' not in sys.modules"
    )
    facts = {"capture_output": True, "check": True, "encoding": "utf-8"}
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", code, path], **facts)
    assert done.stdout.strip() == model.sample(5, random_state=0).to_csv().strip()


@pytest.mark.slow
def test_the_claim_survives_an_attack():
    found = audit_synthesizer(
        DPMisGAN,
        parameters=QUICK | {"epsilon": 2.0, "delta": 1e-3},
        strategies=["observed"],
        tables=canary(TINY, 8),
        trials=200,
    )["observed"]
    assert not found.flagged


def test_clipping_is_undone_by_rows_of_the_same_law():
    door, crude = margins(three(), 1e8)
    table = three()
    codes = np.stack([table.codes(name) for name in THREE.names], axis=1).astype(int)
    clipped = PairMoments.of(release_pairs(door, crude, clip=0.5))
    single, products = clipped.corrected(codes)
    blocks = np.concatenate([b[codes[:, a]] for a, b in enumerate(clipped.blocks)], axis=1)
    whole = np.where(clipped.known, blocks.T @ blocks / len(codes), 0.0)
    assert clipped.known.sum() == 2 * sum(
        a.shape[1] * b.shape[1] for a, b in combinations(clipped.blocks, 2)
    )
    assert np.abs(products - whole).max() < 0.005 < 0.05 < np.abs(clipped.products - whole).max()
    assert single == pytest.approx(blocks.mean(axis=0), abs=0.005)


SCHEMA = schema_of(dict.fromkeys("abcd", 3), "abc")


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


def fit(moments, *, classes, conditional=True):
    return fit_classes(
        moments, classes=classes, fits=1, conditional=conditional, always={},
        rng=np.random.default_rng(0), report=lambda done: None,
    )  # fmt: skip


@cache
def moments_of(mechanism):
    return PairMoments.of(release_pairs(*margins(private(mechanism), 1.0)))


def pair(codes, one, other):
    cells = codes[one] * 4 + codes[other]
    return np.bincount(cells, minlength=16).reshape(4, 4)[:3, :3] / len(cells)


def distance(model, seed=9, keep_holes=False):
    columns = model.sample(30_000, np.random.default_rng(seed), keep_holes=keep_holes)
    drawn, true = dict(zip("abcd", columns, strict=True)), complete(100_000, 77)
    pairs = [("a", "d"), ("a", "b"), ("c", "d")]
    return max(np.abs(pair(drawn, *p) - pair(true, *p)).sum() / 2 for p in pairs)


@pytest.mark.slow
def test_pairs_are_learned_and_conditional_holes_undo_the_bias_of_values_missing_at_random():
    alone = margins(private("mcar"), 4.0)[1]
    learned = distance(fit(moments_of("mcar"), classes=12))
    assert learned < 0.03 < 0.2 < distance(NetworkModel.independent(alone, {}))
    assert distance(fit(moments_of("mar"), classes=12)) < 0.04
    # Holes that depend on nothing leave that bias.
    assert distance(fit(moments_of("mar"), conditional=False, classes=4)) > 0.05


# Released generators: rows and holes drawn in NumPy, calibrated, with the law of their tables
SIZES = [3, 4, 2]
WIDTH = sum(SIZES)


def levels():
    plain = [Levels(np.arange(k), np.ones(k)) for k in SIZES]
    plain[1] = Levels(np.array([0, 1, 1, 2, 3]), np.array([1, 0.5, 0.5, 1, 1]))
    return tuple(plain)


def network(*, sees_values=True, conditions=False, always=None, rng=None):
    rng = rng or np.random.default_rng(0)
    inputs = 2 + sees_values * WIDTH
    laws = tuple(rng.dirichlet(np.ones(k)) for k in SIZES) if conditions else ()
    return NetworkModel(
        levels=levels(),
        values=Layers.random([4 + conditions * WIDTH, 8, WIDTH], rng),
        masks=Layers.random([inputs, 6, 2], rng),
        holed=(0, 2),
        sees_values=sees_values,
        always=always or {},
        conditions=laws,
        asked=np.array([1.0, 0.0, 3.0]) if conditions else np.zeros(0),
        n_rows=12.0,
    )


def test_holes_are_where_they_may_be_and_never_at_what_is_never_missing():
    rows = network(always={0: 1}).sample(2000, np.random.default_rng(0), keep_holes=True)
    sizes = [len(level.groups) for level in levels()]
    holes = np.stack([r == k for r, k in zip(rows, sizes, strict=True)], axis=1)
    assert holes[:, [0, 2]].mean(axis=0).min() > 0.05
    assert not holes[:, 1].any()
    complete = network(always={0: 1}).sample(2000, np.random.default_rng(0), keep_holes=False)
    assert all(r.max() < k for r, k in zip(complete, sizes, strict=True))
    # A row whose value is never missing keeps it: as many as complete rows have.
    assert abs((rows[0] == 1).mean() - (complete[0] == 1).mean()) < 0.04


def test_conditions_are_met():
    made = network(conditions=True)
    laws, given = made.laws(5000, np.random.default_rng(0))
    rows = made.picked(laws, given, np.random.default_rng(0))
    about = np.searchsorted(made.starts, given, side="right") - 1
    assert abs((about == 0).mean() - 0.25) < 0.03
    assert not (about == 1).any()
    assert (rows[np.arange(5000), about] == given - made.starts[about]).all()
    found = np.bincount(given[about == 2] - made.starts[2], minlength=2) / (about == 2).sum()
    assert np.abs(found - made.conditions[2]).max() < 0.03


@pytest.mark.parametrize("sees_values", [False, True])
def test_calibrated_models_have_the_margins_of_what_is_observed_and_the_rates_of_holes(sees_values):
    rng = np.random.default_rng(3)
    margins = [rng.dirichlet(np.full(k, 3.0)) for k in SIZES]
    rates = np.array([0.3, 0.1])
    made = network(sees_values=sees_values).calibrated(margins, rates, rng)
    rows = np.stack(made.sample(40_000, rng, keep_holes=True), axis=1)
    for a, margin in ((0, margins[0]), (2, margins[2])):
        seen = rows[rows[:, a] < SIZES[a], a]
        assert abs(1 - len(seen) / 40_000 - rates[a // 2]) < 0.015
        assert np.abs(np.bincount(seen, minlength=SIZES[a]) / len(seen) - margin).max() < 0.015
    joined = np.array([0, 1, 1, 2, 3])[rows[:, 1]]
    assert np.abs(np.bincount(joined, minlength=4) / 40_000 - margins[1]).max() < 0.015


def levels_of(*sizes):
    return tuple(Levels(np.arange(size), np.ones(size)) for size in sizes)


def some(always=None):
    rng = np.random.default_rng(0)
    heads = tuple(rng.dirichlet(np.ones(size), 3) for size in (2, 4))
    observed = np.array([[1.0, 0.2], [0.5, 0.9], [0.7, 0.4]])
    shares = np.array([0.2, 0.5, 0.3])
    return ClassTable(levels_of(2, 4), shares, heads, observed, always or {}, 100.0)


def law(model):
    """Probability of every row, holes included, by adding up over classes."""
    found = np.zeros((3, 5))
    for k, share in enumerate(model.shares):
        parts = []
        for a, head in enumerate(model.heads):
            seen = np.full(head.shape[1], model.observed[k, a])
            if a in model.always:
                seen[model.always[a]] = 1.0
            parts.append(np.append(head[k] * seen, (head[k] * (1 - seen)).sum()))
        found += share * np.outer(*parts)
    return found


@pytest.mark.parametrize("always", [{}, {1: 2}], ids=["any", "never missing"])
def test_rows_have_the_law_of_the_table(always):
    model, rng = some(always), np.random.default_rng(1)
    one, other = model.sample(200_000, rng, keep_holes=True)
    counts = np.bincount(one * 5 + other, minlength=15).reshape(3, 5)
    expected = law(model) * 200_000
    assert chisquare(counts.ravel(), expected.ravel()).pvalue > 1e-4
    wrong = np.roll(expected, 1, axis=1)
    assert chisquare(counts.ravel(), wrong.ravel()).pvalue < 1e-6


def test_draws_are_closer_than_chance_and_each_row_has_the_same_law():
    model = some()
    expected = sum(s * h for s, h in zip(model.shares, model.heads[1], strict=True))
    rng = np.random.default_rng(2)
    tables = [model.sample(300, rng, keep_holes=False)[1] for _ in range(400)]
    shares = np.array([np.bincount(table, minlength=4) / 300 for table in tables])
    assert shares.mean(axis=0) == pytest.approx(expected, abs=0.01)
    independent = rng.multinomial(300, expected, size=400) / 300
    assert np.abs(shares - expected).mean() < np.abs(independent - expected).mean() / 3
    first = np.bincount([table[0] for table in tables], minlength=4)
    assert chisquare(first, 400 * expected).pvalue > 1e-4
