"""AIM: accounting, correctness when values are missing at random, and its options."""

import itertools

import numpy as np
import pytest
from scipy.special import expit

from missdp import Budget, Categorical, Schema, Table
from missdp.accounting import GaussianEvent, SelectionEvent, releases
from missdp.mechanisms import Noise
from missdp.synth import AIM
from missdp.testing import Recorder

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema(
    tuple(Categorical(name=n, levels=tuple(range(4)), nullable=n in "bd") for n in NAMES)
)


def population(n, seed=0):
    """A chain a - b - c - d."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])]
    for _ in NAMES[1:]:
        move = rng.choice(4, n, p=[0.6, 0.3, 0.05, 0.05])
        columns.append((columns[-1] + move) % 4)
    return dict(zip(NAMES, columns, strict=True))


def with_holes(codes, slope, seed=1):
    """Values of b and d missing at random: more so the larger a is."""
    rng = np.random.default_rng(seed)
    chance = expit(slope * (codes["a"] - 1.0) - 0.5)
    out = dict(codes)
    for name in "bd":
        out[name] = np.where(rng.random(len(chance)) < chance, 4, codes[name])
    return Table.from_codes(SCHEMA, out)


def errors(model, codes):
    out = []
    for i, j in itertools.combinations(range(4), 2):
        truth = np.zeros((4, 4))
        np.add.at(truth, (codes[NAMES[i]], codes[NAMES[j]]), 1 / len(codes["a"]))
        out.append(0.5 * np.abs(model.model_.marginal((i, j)) - truth).sum())
    return float(np.mean(out))


def fit(table, **options):
    options = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0, "model_rows": 5000, **options}
    return AIM(**options).fit(table)


def test_joint_is_right_when_values_are_missing_at_random():
    codes = population(30_000)
    table = with_holes(codes, slope=1.5)
    found = {
        m: errors(fit(table, missing=m), codes) for m in ("joint", "observed", "complete-rows")
    }
    complete = errors(fit(Table.from_codes(SCHEMA, codes)), codes)
    assert found["joint"] < 0.5 * found["observed"] < 0.5 * found["complete-rows"]
    assert found["joint"] < complete + 0.01


def test_holes_that_always_coincide_do_not_mislead():
    codes = population(30_000)
    rng = np.random.default_rng(2)
    hole = rng.random(30_000) < expit(1.0 * (codes["a"] - 1.0) - 0.5)
    table = Table.from_codes(
        SCHEMA, {k: np.where(hole & (k in "bd"), 4, v) for k, v in codes.items()}
    )
    model = fit(table, missing="joint")
    assert errors(model, codes) < 0.02
    assert errors(model, codes) < 0.5 * errors(fit(table, missing="observed"), codes)


def test_kept_holes_follow_the_mechanism():
    codes = population(30_000)
    table = with_holes(codes, slope=1.5)
    model = fit(table, missing="joint")
    kept = model.sample_table(30_000, missing_values="keep", random_state=0)
    for level in range(4):
        real = table.mask("d")[codes["a"] == level].mean()
        drawn = kept.mask("d")[kept.codes("a") == level].mean()
        assert drawn == pytest.approx(real, abs=0.08)
    assert not kept.mask("a").any()


def test_what_is_charged_is_what_is_measured():
    witness = Recorder(0)
    model = fit(with_holes(population(2000), 1.0), epsilon=1.0, random_state=witness)
    kept = [answer.law for answer in witness.kept if isinstance(answer.law, Noise)]
    events = releases(model.guarantee_.events)
    charged = [(e.label, e.sigma) for e in events if isinstance(e, GaussianEvent)]
    assert [sigma for _, sigma in charged] == [law.scale for law in kept]
    assert [label for label, _ in charged[:4]] == [f"marginal {n}" for n in NAMES]
    selections = [e for e in events if isinstance(e, SelectionEvent)]
    assert len(selections) == len(charged) - 4
    assert {f"marginal {' x '.join(c)}" for c in model.measured_} == {
        label for label, _ in charged[4:]
    }


def population_table():
    return Table.from_codes(SCHEMA, population(2000))


def test_an_interrupted_fit_stays_charged_and_progress_never_goes_back():
    budget, seen = Budget(1.0, 1e-6), []

    def interrupt(stage, done):
        seen.append(done)
        if done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(population_table(), epsilon=1.0, budget=budget, progress=interrupt)
    assert not budget.can_afford(*budget.events)
    assert budget.spent.epsilon == pytest.approx(1.0)
    seen.clear()
    fit(population_table(), progress=lambda _, done: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_the_workload_decides_what_may_be_measured():
    model = fit(population_table(), workload={("a", "b"): 2.0, ("c", "d"): 1.0})
    assert set(model.measured_) == {("a", "b"), ("c", "d")}
    assert fit(population_table(), workload=1).measured_ == ()
    triple = fit(population_table(), workload=[("a", "b", "c")], epsilon=20.0)
    assert ("a", "b", "c") in triple.measured_


def test_the_model_stays_within_its_size():
    small = fit(population_table(), max_model_size=100 * 8 / 2**20)
    assert small.model_.law.tree.cells <= 100
