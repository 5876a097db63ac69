"""The page on other libraries shows what was measured, and nothing else."""

import importlib.util
import json
from pathlib import Path

import pytest

from missdp.testing import differing_facts, hole_pairs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench():
    path = ROOT / "bench" / "holes_elsewhere.py"
    spec = importlib.util.spec_from_file_location("holes_elsewhere", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(bench):
    return json.loads(bench.RESULTS.read_text(encoding="utf-8"))


def test_the_tables_of_the_page_are_the_measured_ones(bench, results):
    page = (ROOT / "docs" / "holes-elsewhere.md").read_text(encoding="utf-8")
    assert all(table in page for table in bench.tables(results))
    for library, found in results.items():
        assert f"{bench.DISTRIBUTIONS.get(library, library)} {found['version']}" in page
        assert found["date"] in page
        assert all(
            set(pairs) == {p.name for p in hole_pairs(9)} for pairs in found["told"].values()
        )


def test_every_library_was_run_in_the_version_that_is_installed(bench, results):
    assert list(results) == list(bench.LIBRARIES)
    for library, (requirements, *_) in bench.LIBRARIES.items():
        if requirements:
            assert requirements[0].endswith(f"=={results[library]['version']}")


def test_nothing_is_told_by_ours(bench, results):
    assert not any(told for pairs in results["missdp"]["told"].values() for told in pairs.values())
    run, _ = bench.with_missdp("AllPairs")
    pair = bench.cut_down(hole_pairs()[3])
    assert not differing_facts(run, pair, repeats=2)
