"""DP-MisGAN as a family, and what its critic of pairs knows and learns."""

import sys
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from missdp import DPMisGAN, Table
from missdp.baselines.fit_classes import PairMoments, fit_classes
from missdp.baselines.networks import NetworkModel, known_margins
from missdp.synth.learn_pairs import release_pairs
from missdp.testing import TINY, audit_synthesizer, canary
from synth.conformance import make_table
from synth.tables import schema_of
from synth.test_learn_pairs import SCHEMA as THREE
from synth.test_learn_pairs import margins
from synth.test_learn_pairs import private as three

QUICK = {"classes": 5, "fits": 1}


@pytest.mark.slow
def test_holes_are_sampled_as_often_as_they_were():
    table = make_table(1500)
    model = DPMisGAN(epsilon=4.0, delta=1e-6, random_state=0, classes=3, fits=1).fit(table)
    kept, filled = (model.sample(1500, missing_values=m, random_state=0) for m in ("keep", "fill"))
    assert not filled.isna().any().any()
    rates = kept.isna().mean()
    for name in ("größe", "alter", "ok"):
        assert rates[name] == pytest.approx(0.2, abs=0.05)
    assert rates["score"] == 0


def test_a_saved_model_is_sampled_in_a_process_that_never_imports_torch(tmp_path):
    import subprocess

    model = DPMisGAN(epsilon=1.0, **QUICK).fit(make_table())
    model.save(tmp_path / "m.json")
    code = (
        "import sys, missdp; m = missdp.load(sys.argv[1]); "
        "print(m.sample(5, random_state=0).to_csv()); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.json")],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
        env={**__import__("os").environ, "PYTHONIOENCODING": "utf-8"},
    )
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


@pytest.mark.slow
def test_what_is_no_more_than_noise_is_not_learned():
    """Where attributes are independent, most generators stay at their margins."""
    rng = np.random.default_rng(0)
    codes = {
        a.name: rng.permutation(c) for a, c in zip(SCHEMA, complete(500, 0).values(), strict=True)
    }
    table = Table.from_codes(SCHEMA, codes)
    stayed = []
    for seed in range(6):
        door, crude = margins(table, 0.01, seed)
        model = fit(PairMoments.of(release_pairs(door, crude)), classes=200)
        heads = zip(model.heads, known_margins(crude)[0], strict=True)
        stayed.append(all(np.abs(model.shares @ m - one).max() < 0.01 for m, one in heads))
        assert np.ptp(model.observed, axis=0).max() < 1e-6
    assert sum(stayed) >= 4
