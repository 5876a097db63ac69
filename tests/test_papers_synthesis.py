"""The scripts on Mohapatra et al. (2024): they run, and the page holds what they measured."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FEW_COMPLETE = pytest.mark.filterwarnings(
    "ignore:by what was released:missdp.synth.noisy_counts.SmallTableWarning"
)
PAPERS = ROOT / "bench" / "papers"
PAGE = ROOT / "docs" / "papers-synthesis.md"

pytestmark = pytest.mark.skipif(
    not (ROOT.parent / "shared" / "data").exists(), reason="needs the data folder"
)
FIGURES = ["a_figure2", "a_figure3", "a_figure4", "a_figure5", "a_decay"]
OTHERS = ["a_figure1", "a_examples", "a_table1", "a_complete_rows"]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module


@pytest.mark.parametrize("name", [*FIGURES, *OTHERS])
def test_the_page_holds_what_was_measured(script, name):
    text = PAGE.read_text(encoding="utf-8")
    assert f"% begin {name}\n" in text
    assert script("a_page").filled(text, only=name) == text


def test_every_measured_cell_is_of_a_figure_and_was_measured_once(script):
    shared = script("a_shared")
    lines = (PAPERS / "results" / "a_cells.csv").read_text(encoding="utf-8").splitlines()[1:]
    found = shared.Measured(shared.RESULTS, fit=False).found
    assert len(found) == len(lines)
    wanted = set()
    for name in FIGURES:
        cells = [*script(name).cells(), *script(name).cells_once()]
        wanted |= {cell for seed in range(3) for cell in shared.with_seeds(cells, seed + 1)}
    assert set(found) <= wanted


@FEW_COMPLETE
def test_a_short_run_measures_its_cells_once(script, tmp_path, capsys):
    shared = script("a_shared")
    for _ in range(2):
        shared.Measured(tmp_path)  # reads what is there
        script("a_figure2").main(["--output", str(tmp_path), "--short", "--seeds", "1"])
    lines = (tmp_path / "a_cells.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 1 + len(list(script("a_figure2").cells(short=True)))
    found = shared.Measured(tmp_path, short=True, fit=False)
    given = {"data": "adult", "file": "mcar_0.2", "family": "PrivBayes"}
    dropped = found.mean("two_way", **given, missing="complete-rows")
    assert found.mean("two_way", **given, missing="observed") < dropped
    assert "PrivBayes" in capsys.readouterr().err


@FEW_COMPLETE
@pytest.mark.parametrize("name", ["a_figure3", "a_figure4", "a_figure5", "a_decay"])
def test_other_figures_have_a_short_run(script, tmp_path, name):
    script(name).main(["--output", str(tmp_path), "--short", "--seeds", "1"])
    assert (tmp_path / "a_cells.csv").exists()


def test_a_short_run_does_not_mix_with_what_the_page_states(script):
    with pytest.raises(SystemExit):
        script("a_figure2").main(["--short"])


def test_names_compared_as_text_give_the_published_table(script):
    table = script("a_table1")
    for name, figures in table.PUBLISHED.items():
        for rate, published in zip(table.RATES, figures, strict=True):
            found = table.as_text(name, table.marginals(name, rate), rate)
            assert abs(found - published) < 0.012


def test_the_line_among_all_claims_is_what_the_script_computes(script):
    claims = (ROOT / "docs" / "published-claims.md").read_text(encoding="utf-8")
    assert script("a_table1").row() in claims.splitlines()


def test_the_network_without_edges_attains_what_any_network_loses(script):
    table = script("a_table1")
    for name, figures in table.PUBLISHED.items():
        for rate, published in zip(table.RATES, figures, strict=True):
            alone = table.without_edges(table.marginals(name, rate), rate)
            assert alone == pytest.approx(table.figures(name, rate)[5])
            assert alone > published + 0.02


def test_every_script_is_named_on_the_page_with_its_line():
    text = PAGE.read_text(encoding="utf-8")
    for path in PAPERS.glob("a_*.py"):
        if path.stem not in ("a_shared", "a_accounts"):
            assert f"python bench/papers/{path.name}" in text, path.name
    for image in re.findall(r"\]\((img/[^)]+)\)", text):
        assert (PAGE.parent / image).exists()
