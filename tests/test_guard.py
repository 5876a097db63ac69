"""The guard of CI sees what is slower or less accurate, and is not alarmed by one odd seed."""

import importlib.util
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from missdp import PrivBayes

SCRIPT = Path(__file__).parents[1] / "bench" / "guard.py"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("guard", SCRIPT)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def exit_code(module, monkeypatch):
    """Exit code of the guard with one subject in the place of the real ones."""

    def run(once, seeds=1, **changes):
        monkeypatch.setattr(module, "SUBJECTS", {"privbayes": (once, seeds)})
        # Collecting what thousands of other tests left behind would take minutes.
        monkeypatch.setattr(module, "gc", SimpleNamespace(collect=lambda: None))
        changes.setdefault("beside", lambda commit, names: {})
        for name, value in changes.items():
            monkeypatch.setattr(module, name, value)
        return module.main([])

    return run


@pytest.mark.parametrize(
    ("slower", "worse", "code"),
    [(1.0, 1.0, 0), (1.05, 1.05, 0), (1.15, 1.0, 1), (1.0, 1.15, 1)],
)
@pytest.mark.parametrize("odd", [None, 0])
def test_fifteen_per_cent_are_seen_and_an_odd_seed_is_not(
    exit_code, tmp_path, slower, worse, code, odd
):
    recorded = {"time": [2.0] * 18, "error": [0.5] * 18}
    (tmp_path / "guard.json").write_text(json.dumps({"subjects": {"privbayes": recorded}}))

    def once(seed):
        spoiled = 1.2 if seed == odd else 1.0
        return 2.0 * slower, 0.5 * worse * spoiled

    assert (
        exit_code(
            once, REFERENCE=tmp_path / "guard.json",
            workload=lambda: 1.0,
        )
        == code
    )  # fmt: skip


def test_rounds_that_look_worse_by_chance_are_outvoted(exit_code, tmp_path):
    recorded = {"time": [2.0] * 18, "error": [0.5] * 18}
    (tmp_path / "guard.json").write_text(json.dumps({"subjects": {"privbayes": recorded}}))
    run = {"REFERENCE": tmp_path / "guard.json", "workload": lambda: 1.0}
    assert exit_code(lambda seed: (2.0, 0.5 * (1.15 if seed < 9 else 1.0)), **run) == 0
    assert exit_code(lambda seed: (2.0, 0.5 * 1.15), **run) == 1
    assert exit_code(lambda seed: (2.6 if seed < 4 else 2.0, 0.5), **run) == 0  # a busy moment
    assert exit_code(lambda seed: (2.6 if seed < 5 else 2.0, 0.5), **run) == 0  # and a longer one
    assert exit_code(lambda seed: (2.3, 0.5), **run) == 1


def test_another_processor_has_another_ratio(exit_code, tmp_path):
    recorded = {"time": [2.0] * 18, "error": [0.5] * 18}
    document = {"subjects": {"privbayes": recorded}, "measured": {"processor": "another"}}
    (tmp_path / "guard.json").write_text(json.dumps(document))
    run = {"REFERENCE": tmp_path / "guard.json", "workload": lambda: 1.0}
    assert exit_code(lambda seed: (2.6, 0.5), **run) == 0
    assert exit_code(lambda seed: (3.2, 0.5), **run) == 1
    assert exit_code(lambda seed: (2.0, 0.6), **run) == 1


@pytest.mark.parametrize(("ratio", "code"), [(1.05, 0), (1.15, 1)])
def test_what_looks_slow_is_judged_beside_the_code_that_was_recorded(
    exit_code, tmp_path, ratio, code
):
    recorded = {"time": [2.0] * 18, "error": [0.5] * 18}
    document = {"subjects": {"privbayes": recorded}, "measured": {"commit": "abc"}}
    (tmp_path / "guard.json").write_text(json.dumps(document))

    def beside(commit, names):
        assert (commit, names) == ("abc", ["privbayes"])
        return {"privbayes": ratio}

    run = {"REFERENCE": tmp_path / "guard.json", "workload": lambda: 1.0, "beside": beside}
    assert exit_code(lambda seed: (3.0, 0.5), **run) == code
    assert exit_code(lambda seed: (3.0, 0.6), **run) == 1  # errors are not


def test_the_recorded_code_is_known_to_git(module, monkeypatch):
    assert module.beside("no such commit", ["query"]) == {}
    if not (SCRIPT.parents[1] / ".git").exists():
        return  # an unpacked archive: the guard then judges by what is recorded
    commit = json.loads(module.REFERENCE.read_text())["measured"]["commit"]
    seen = []
    monkeypatch.setattr(
        module,
        "timed",
        lambda place, names: (
            seen.append((place / "bench" / "guard.py").exists()) or {names[0]: {"time": 2.0}}
        ),
    )
    assert module.beside(commit, ["query"]) == {"query": 1.0}
    assert seen == [True] * 2 * module.TURNS


def test_recorded_code_that_cannot_run_decides_nothing(module, monkeypatch, tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "guard.py").write_text("import a_package_that_nobody_has\n")
    assert module.timed(tmp_path, ["query"]) is None
    monkeypatch.setattr(module, "timed", lambda place, names: None)
    commit = json.loads(module.REFERENCE.read_text())["measured"]["commit"]
    assert module.beside(commit, ["query"]) == {}


def test_a_noisier_family_fails(exit_code, module):
    make = module.synthesis(lambda seed: PrivBayes(epsilon=0.3, random_state=seed))
    assert exit_code(make, seeds=6, ROUNDS=2) == 1


def test_a_slower_family_fails(exit_code, module):
    quick = module.SUBJECTS["privbayes"][0]

    def slow(seed):
        start = time.process_time()
        _, error = quick(seed)
        spent = time.process_time() - start
        while time.process_time() - start < 1.8 * spent:
            pass
        return time.process_time() - start, error

    assert exit_code(slow, seeds=6, ROUNDS=2) == 1


def test_every_subject_has_a_reference_of_all_rounds(module):
    recorded = json.loads(module.REFERENCE.read_text())["subjects"]
    assert set(recorded) == set(module.SUBJECTS)
    for subject in recorded.values():
        assert {len(values) for values in subject.values()} == {2 * module.ROUNDS}
