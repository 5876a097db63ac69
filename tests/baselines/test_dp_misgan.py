"""DP-MisGAN as a family: parameters, holes, guarantees, and what an attacker sees."""

import builtins
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import missdp
from missdp import Budget, DPMisGAN
from missdp.accounting import MissingCompletelyAtRandom, RowIndependentMissingness
from missdp.errors import BudgetExceededError, MissingDependencyError, ParameterError
from missdp.schema import Categorical, Schema
from missdp.synth import SmallTableWarning
from missdp.testing import TINY, audit_synthesizer, canary, check_synthesizer
from synth.conformance import make_table

QUICK = {"classes": 5, "fits": 1}
TRAINED = QUICK | {"critic": "trained", "steps": 3, "batch": 100}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"critic": "oracle"}, "critic must be one of"),
        ({"critic": ["kernel"]}, "critic must be one of"),
        ({"masks": "some"}, "masks must be one of"),
        ({"classes": 0}, "classes must be a whole number from 1"),
        ({"classes": True}, "classes must be a whole number"),
        ({"fits": 2.5}, "fits must be a whole number"),
        ({"critic": "trained", "steps": 0}, "steps must be a whole number"),
        ({"critic": "trained", "batch": "many"}, "batch must be a whole number"),
        ({"delta": 0.0}, "delta must be above 0"),
        ({"missing": "joint"}, "missing must be one of"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_charged(given, match):
    budget = Budget(10.0, 1e-5)
    with pytest.raises(ParameterError, match=match):
        DPMisGAN(epsilon=1.0, budget=budget, **given).fit(make_table())
    assert not budget.events


def test_without_torch_it_says_what_to_install_and_charges_nothing(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name == "torch":
            raise ImportError("no torch")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    budget = Budget(10.0, 1e-5)
    with pytest.raises(MissingDependencyError, match=r"missdp\[neural\]") as caught:
        DPMisGAN(epsilon=1.0, budget=budget, **QUICK).fit(make_table())
    assert caught.value.__context__ is None
    assert not budget.events


@pytest.mark.parametrize("options", [QUICK, TRAINED], ids=["kernel", "trained"])
def test_holes_are_sampled_as_often_as_they_were(options):
    table = make_table(3000)
    model = DPMisGAN(epsilon=20.0, delta=1e-6, random_state=0, **options).fit(table)
    kept, filled = (model.sample(3000, missing_values=m, random_state=0) for m in ("keep", "fill"))
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


def test_one_attribute_and_tiny_tables():
    schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    rows = pd.DataFrame({"a": ["x", None, "x", "y"] * 200})
    model = DPMisGAN(epsilon=5.0, **QUICK).fit(rows, schema=schema)
    assert model.sample(2000)["a"].value_counts()["x"] / 2000 == pytest.approx(2 / 3, abs=0.08)
    for n in (0, 1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallTableWarning)
            made = DPMisGAN(epsilon=1.0, **QUICK).fit(make_table().take(np.arange(n)))
        assert len(made.sample()) >= 1


def test_ground_truth_is_row_independent_and_refused_otherwise():
    model = DPMisGAN(epsilon=1.0, **QUICK).fit(make_table())
    known = model.ground_truth_guarantee(RowIndependentMissingness())
    assert (known.epsilon, known.protects) == (1.0, "ground-truth")
    mcar = MissingCompletelyAtRandom({"größe": 0.5, "alter": 0.5, "ok": 0.5, "score": 1.0})
    assert model.ground_truth_guarantee(mcar).epsilon == 1.0  # every row is read
    with pytest.raises(missdp.errors.UnprovenError):
        model.ground_truth_guarantee(None)


def test_complete_rows_are_amplified_by_their_one_gate():
    model = DPMisGAN(epsilon=1.0, missing="complete-rows", n_rows=400, **QUICK).fit(make_table())
    mcar = MissingCompletelyAtRandom({"größe": 0.5, "alter": 0.5, "ok": 0.5, "score": 1.0})
    assert model.ground_truth_guarantee(mcar).epsilon < 0.5


@pytest.mark.parametrize("options", [QUICK, TRAINED], ids=["kernel", "trained"])
def test_noise_costs_all_of_the_budget_and_no_more(options):
    budget = Budget(1.0, 1e-6)
    model = DPMisGAN(epsilon=1.0, delta=1e-6, budget=budget, **options).fit(make_table())
    assert model.guarantee_.epsilon <= 1.0
    assert budget.spent.epsilon <= 1.0
    with pytest.raises(BudgetExceededError):
        DPMisGAN(epsilon=0.1, delta=1e-6, budget=budget, **options).fit(make_table())


def test_an_interrupted_fit_stays_charged_and_leaves_no_model():
    budget = Budget(3.0, 1e-6)

    def stop(stage, done):
        if stage == "training" and done > 0.2:
            raise KeyboardInterrupt

    model = DPMisGAN(epsilon=1.0, delta=1e-6, budget=budget, progress=stop, **TRAINED)
    with pytest.raises(KeyboardInterrupt):
        model.fit(make_table())
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-6)
    assert not hasattr(model, "model_")


def test_the_global_state_of_torch_is_left_alone():
    import torch

    before = torch.random.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    DPMisGAN(epsilon=1.0, **QUICK).fit(make_table())
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1:] == (torch.get_num_threads(), torch.get_default_dtype())


def test_the_kit_finds_nothing_wrong():
    report = check_synthesizer(
        DPMisGAN, parameters=QUICK, strategies=["observed"], audit_trials=0, trials=4
    )
    assert report.passed


@pytest.mark.slow
@pytest.mark.parametrize("options", [QUICK, TRAINED], ids=["kernel", "trained"])
def test_the_kit_finds_nothing_wrong_with_any_strategy(options):
    assert check_synthesizer(DPMisGAN, parameters=options, audit_trials=0).passed


@pytest.mark.slow
@pytest.mark.parametrize("options", [QUICK, TRAINED], ids=["kernel", "trained"])
def test_the_claim_survives_an_attack(options):
    given = options | {"epsilon": 2.0, "delta": 1e-3}
    if "critic" in options:
        given |= {"steps": 8, "batch": 1, "n_rows": 9}
    found = audit_synthesizer(
        DPMisGAN,
        parameters=given,
        strategies=["observed"],
        tables=canary(TINY, 8),
        trials=48 if "critic" in options else 200,
    )["observed"]
    assert not found.flagged
