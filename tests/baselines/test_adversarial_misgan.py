"""DP-MisGAN as a family: parameters, holes, guarantees, and what an attacker sees."""

import sys

import pytest

import missdp
from missdp import DPMisGAN
from missdp.accounting import MissingCompletelyAtRandom, RowIndependentMissingness
from missdp.testing import TINY, audit_synthesizer, canary
from synth.conformance import make_table

QUICK = {"classes": 5, "fits": 1}


def test_holes_are_sampled_as_often_as_they_were():
    table = make_table(1500)
    model = DPMisGAN(epsilon=20.0, delta=1e-6, random_state=0, **QUICK).fit(table)
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


def test_ground_truth_is_row_independent_and_refused_otherwise():
    model = DPMisGAN(epsilon=1.0, **QUICK).fit(make_table())
    known = model.ground_truth_guarantee(RowIndependentMissingness())
    assert (known.epsilon, known.protects) == (1.0, "ground-truth")
    mcar = MissingCompletelyAtRandom({"größe": 0.5, "alter": 0.5, "ok": 0.5, "score": 1.0})
    assert model.ground_truth_guarantee(mcar).epsilon == 1.0  # every row is read
    with pytest.raises(missdp.errors.UnprovenError):
        model.ground_truth_guarantee(None)


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
