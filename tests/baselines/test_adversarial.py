"""The promises of adversarial families with trained critics, beyond those of all families."""

import subprocess
import sys

import numpy as np
import pytest

from missdp import Composition, Filter, Table
from missdp.baselines.dp_autogan import DPAutoGAN
from missdp.baselines.dp_ctgan import DPCTGAN
from missdp.baselines.dp_misgan import DPMisGAN
from missdp.errors import MissingDependencyError, NotFittedError
from missdp.evaluate import marginal_distance
from missdp.testing import SCHEMA, check_synthesizer
from missdp.testing.example_tables import example_table
from refusing import refuses
from synth.conformance_checks import FittedSubject, check_conformance
from synth.tables import rows_of, schema_of
from testing.ruled import required_sets

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from missdp.baselines import games  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")

FAMILIES = {
    "misgan": (DPMisGAN, {}),
    "misgan, independent masks": (DPMisGAN, {"masks": "independent"}),
    "autogan": (DPAutoGAN, {}),
    "ctgan": (DPCTGAN, {}),
}
FEW = {"steps": 2, "sampling_rate": 0.2}
QUICK = {"epsilon": 1.0, "delta": 1e-6, "steps": 4, "sampling_rate": 0.2}
ROWS = example_table(SCHEMA, 500)
every_family = pytest.mark.parametrize("name", FAMILIES)
# Strategies differ in the session, and in whether there are missing values at all.
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


@every_family
def test_a_fit_that_is_interrupted_stays_on_record(name):
    events, shares = made(name).planned_events(ROWS.schema), []
    budget = Composition(events, 1.0, 1e-6)

    def stop(stage, done):
        shares.append(done)
        if stage == "training" and done > 0.5:
            raise KeyboardInterrupt

    model = made(name, budget=budget, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROWS)
    assert budget.spent.epsilon == 1.0
    assert not budget.can_afford(*events)
    assert shares == sorted(shares)
    with refuses(NotFittedError):
        model.sample(3)


def test_networks_are_trained_in_one_thread_and_random_numbers_of_torch_left_alone(monkeypatch):
    family, settings = FAMILIES["ctgan"]
    state = torch.random.get_rng_state()
    real, seen, before = games.ConditionalGame.result, [], torch.get_num_threads()

    def spy(game):
        seen.append(torch.get_num_threads())
        return real(game)

    monkeypatch.setattr(games.ConditionalGame, "result", spy)
    try:
        torch.set_num_threads(3)
        family(**QUICK, **settings, random_state=0).fit(ROWS)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [1]
    assert (torch.random.get_rng_state() == state).all()


@pytest.mark.parametrize("package", ["torch", "opacus"])
@every_family
def test_without_torch_or_opacus_nothing_is_charged(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    budget = Filter(3.0, 1e-6)
    with refuses(MissingDependencyError, r"missdp\[neural\]"):
        made(name, budget=budget).fit(ROWS)
    assert budget.spent.epsilon == 0


# Values of rows
def chained(n, holes):
    """Return four dependent attributes.

    Values go missing where the first attribute is high, as under MAR.
    """
    rng = np.random.default_rng(0)
    truth = rows_of(schema_of(dict.fromkeys("abcd", 4), "bcd"), n, holes=0, common=0.9)
    often = holes * (0.4 + 0.4 * truth.codes("a"))
    return truth, truth.with_missing({name: rng.random(n) < often for name in "bcd"})


@pytest.mark.slow
@few_cases
def test_a_family_is_nearer_to_the_truth_than_where_it_started(name, strategy):
    """The start is independent attributes with the marginals of the rows that are read."""
    truth, rows = chained(20_000, 0.3)
    model = made(name, epsilon=3.0, steps=500, missing=strategy)
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
def test_some_conformance_of_all_families(name):
    family, own = FAMILIES[name]
    given = {"parameters": own | FEW, "strategies": ["observed"]}
    check_conformance(family, **given, checks=["save_and_load", "keeping_holes"])
    required_sets(FittedSubject(family, "observed", own | FEW, SCHEMA))


def test_saved_model_is_sampled_in_a_process_without_torch(tmp_path):
    model, path = made("misgan").fit(ROWS), str(tmp_path / "m.json")
    model.save(path)
    code = (
        "import sys, missdp; m = missdp.load(sys.argv[1]); "
        "print(m.sample(5, random_state=0).to_csv()); "
        "assert not {'torch', 'opacus'} & {*sys.modules}"
    )
    facts = {"capture_output": True, "check": True, "encoding": "utf-8"}
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", code, path], **facts)
    assert done.stdout.strip() == model.sample(5, random_state=0).to_csv().strip()
