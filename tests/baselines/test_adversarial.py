"""What adversarial families with trained critics promise beside what all families do."""

import sys

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant

from missdp import Budget, Table
from missdp.accounting import SampledGaussianEvent, releases
from missdp.baselines.dp_autogan import DPAutoGAN
from missdp.baselines.dp_ctgan import DPCTGAN
from missdp.baselines.dp_misgan import DPMisGAN
from missdp.errors import MissingDependencyError, NotFittedError
from missdp.evaluate import marginal_distance
from missdp.testing import SCHEMA, check_habits, check_synthesizer
from missdp.testing.findings import Subject
from missdp.testing.made_up import made_up
from refusing import refuses
from synth.tables import rows_of, schema_of
from testing.ruled import gates

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")

FAMILIES = {
    "misgan": (DPMisGAN, {"critic": "mlp"}),
    "autogan": (DPAutoGAN, {}),
    "ctgan": (DPCTGAN, {}),
}
FEW = {"steps": 2, "batch": 100}
QUICK = {"epsilon": 1.0, "delta": 1e-6, "steps": 4, "batch": 100}
ROWS = made_up(SCHEMA, 500)
every_family = pytest.mark.parametrize("name", FAMILIES)
# Strategies differ in the door, and in whether there are holes at all.
few_cases = pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("misgan", "observed"),
        ("autogan", "observed"),
        ("ctgan", "observed"),
        ("misgan", "complete-rows"),
        ("ctgan", "impute-first"),
    ],
)


def made(name, **parameters):
    family, own = FAMILIES[name]
    return family(**{**QUICK, **own, **parameters})


def test_what_is_claimed_is_what_dp_accounting_finds_and_all_of_it_is_spent():
    model = made("autogan", n_rows=500, steps=8).fit(ROWS)
    trained = [e for e in releases(model.guarantee_.events) if isinstance(e, SampledGaussianEvent)]
    assert [e.steps for e in trained] == [4, 8]
    assert all(e.rate == 100 / 500 for e in trained)
    (whole,) = model.guarantee_.events
    theirs = RdpAccountant(orders=list(whole.capacity.orders))
    for event in releases(model.guarantee_.events):
        if event in trained:
            step = PoissonSampledDpEvent(event.rate, GaussianDpEvent(event.noise_multiplier))
            theirs.compose(SelfComposedDpEvent(step, event.steps))
        else:
            theirs.compose(GaussianDpEvent(event.sigma / event.sensitivity))
    assert theirs.get_epsilon(1e-6) == pytest.approx(1.0, abs=1e-3)
    assert model.guarantee_.epsilon == 1.0


@every_family
def test_a_fit_that_is_interrupted_stays_on_record(name):
    budget, shares = Budget(3.0, 1e-6), []

    def stop(stage, done):
        shares.append(done)
        if stage == "training" and done > 0.5:
            raise KeyboardInterrupt

    model = made(name, budget=budget, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROWS)
    assert budget.spent.epsilon >= 1.0
    assert shares == sorted(shares)
    with refuses(NotFittedError):
        model.sample(3)


def test_networks_are_trained_in_one_thread_and_random_numbers_of_torch_left_alone(monkeypatch):
    family, settings = FAMILIES["ctgan"]
    state = torch.random.get_rng_state()
    real, seen, before = family._trained, [], torch.get_num_threads()

    def spy(*given):
        seen.append(torch.get_num_threads())
        return real(*given)

    monkeypatch.setattr(family, "_trained", spy)
    try:
        torch.set_num_threads(3)
        family(**QUICK, **settings, random_state=0).fit(ROWS)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [1]
    assert (torch.random.get_rng_state() == state).all()


@every_family
def test_without_torch_nothing_is_charged(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    budget = Budget(3.0, 1e-6)
    with refuses(MissingDependencyError, r"missdp\[neural\]"):
        made(name, budget=budget).fit(ROWS)
    assert budget.spent.epsilon == 0


# What rows say
def chained(n, holes):
    """Four levels that hang together; holes where the first is high, as MAR has them."""
    rng = np.random.default_rng(0)
    truth = rows_of(schema_of(dict.fromkeys("abcd", 4), "bcd"), n, holes=0, common=0.9)
    often = holes * (0.4 + 0.4 * truth.codes("a"))
    return truth, truth.with_missing({name: rng.random(n) < often for name in "bcd"})


@pytest.mark.slow
@few_cases
def test_a_family_is_nearer_to_the_truth_than_where_it_started(name, strategy):
    """That is independent attributes, with the margins of what is read."""
    truth, rows = chained(20_000, 0.3)
    model = made(name, epsilon=3.0, steps=500, batch=256, missing=strategy)
    drawn, rng = model.fit(rows).sample_table(20_000, random_state=0), np.random.default_rng(0)
    if strategy == "complete-rows":
        rows = rows.take(~np.any([rows.mask(n) for n in rows.schema.names], axis=0))
    seen = {n: rows.codes(n)[~rows.mask(n)].astype(int) for n in rows.schema.names}
    start = {n: rng.choice(codes, 20_000) for n, codes in seen.items()}
    ours, begun = (
        [marginal_distance(truth, table, k=k).mean for k in (1, 2)]
        for table in (drawn, Table.from_codes(truth.schema, start))
    )
    assert ours[1] < begun[1]
    assert ours[0] < begun[0] + 0.01


# DPMisGAN is one of the families of tests/synth/conformance.py.
@pytest.mark.slow
@few_cases
def test_the_kit_finds_nothing(name, strategy):
    family, own = FAMILIES[name]
    given = {"parameters": own | FEW, "strategies": [strategy]}
    check_synthesizer(family, **given, audit_trials=20, trials=6)


# DPMisGAN is one of the families of tests/synth/conformance.py.
@pytest.mark.parametrize("name", [pytest.param("autogan", marks=pytest.mark.slow), "ctgan"])
def test_some_habits_of_all_families(name):
    family, own = FAMILIES[name]
    given = {"parameters": own | FEW, "strategies": ["observed"]}
    check_habits(family, **given, habits=["save_and_load", "keeping_holes"])
    gates(Subject(family, "observed", own | FEW, SCHEMA))
