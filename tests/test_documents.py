"""Examples of README and pages run in the order of the page, and tables are as measured."""

import contextlib
import importlib
import io
import json
import re
import shlex
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

import compare
import numpy as np
import pandas as pd
import pytest
from rows_and_epsilon import RESULTS, short, tables
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from missdp.cli.app import COMMANDS as COMMAND_NAMES
from missdp.cli.app import command_named
from missdp.cli.main import EXIT_CODES, main
from missdp.cli.options import EVERYWHERE
from missdp.errors import MissDPError
from refusals_met import CASES
from refusing import refuses

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "referees").glob("*.md")),
    *sorted((DOCS / "developers").glob("*.md")),
    *sorted((ROOT / "tests" / "claims").glob("*.md")),
    *sorted((ROOT / "bench" / "papers").glob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)).removeprefix("docs/") for page in PAGES]
FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE
# Pages without Python: tables of contents, lists, the architecture, measurements.
SILENT = {
    *(
        "referees/index.md",
        "referees/judged-by-others.md",
        "referees/claims.md",
        "referees/measured.md",
        "referees/papers.md",
    ),
    *("referees/references.md", "referees/papers-knn.md", "bench/papers/prices.md"),
    *("app.md", "index.md", "changelog.md", "commands.md", "glossary.md", "troubleshooting.md"),
    *("developers/architecture.md", "developers/index.md", "developers/style.md"),
    *("referees/how-claims-are-tested.md", "referees/known-limitations.md", "referees/methods.md"),
    *("referees/threat-model.md", "referees/read-this.md"),
}
# The last section of a page, which needs an extra and Java.
SPARK = "## Spark"
# Pages that take more than two seconds.
SLOW = (
    *("developers/testing.md", "missing-values.md", "ground-truth.md", "analysis-tutorial.md"),
    *("tutorial.md", "multiple-tables.md", "units-and-weights.md", "planning.md"),
    *("ledger.md", "synthesizers.md", "publishing.md", "estimates.md", "guarantee.md"),
    *("tests/claims/synthesis.md", "referees/proofs.md"),
)


def read(name):
    return (DOCS / name).read_text(encoding="utf-8")


TROUBLE = read("troubleshooting.md")


def run_commands(example):
    """Run the commands of a block, and compare each output with the text that follows it."""
    for part in re.split(r"^\$ ", example.parsed, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main(shlex.split(command)[1:])
        same = OutputChecker().check_output(expected, said.getvalue(), FLAGS)
        assert same, f"{command}\nexpected:\n{expected}\ngot:\n{said.getvalue()}"


def write_file(example):
    """Write a block into the file that its first line names."""
    Path(example.parsed.splitlines()[0].removeprefix("# ")).write_text(example.parsed, "utf-8")


PYTHON = PythonCodeBlockParser(doctest_optionflags=FLAGS)
SYBIL = Sybil(parsers=[PYTHON], path=str(ROOT))
# Pages whose commands run between their snippets.
CONSOLE = CodeBlockParser(language="console", evaluator=run_commands)
FILES = CodeBlockParser(language="toml", evaluator=write_file)
WORKED = Sybil(parsers=[PYTHON, CONSOLE, FILES], path=str(ROOT))
COMMANDS = (
    "tutorial.md",
    "analysis-tutorial.md",
    "ledger.md",
    "preprocessing.md",
)


def snippets(page, name, folder, monkeypatch):
    """Yield the examples of a page, to be run in a folder that holds the files that it shows."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    text = page.read_text(encoding="utf-8")
    for file, source in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL):
        (folder / file).write_text(source, encoding="utf-8")  # to be imported further down
    yield from (WORKED if name in COMMANDS else SYBIL).parse(page)


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "name"),
    [
        pytest.param(page, name, id=name, marks=[pytest.mark.slow] * (name in SLOW))
        for page, name in zip(PAGES, NAMES, strict=True)
    ],
)
def test_snippets(page, name, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    before = text.partition(SPARK)[0].count("\n")
    found = [e for e in snippets(page, name, tmp_path, monkeypatch) if e.line <= before]
    assert bool(found) == (name not in SILENT)
    for example in found:
        example.evaluate()
    drawn = {path.name for path in tmp_path.glob("example-*")}
    assert drawn == set(re.findall(r"\(img/(example-.*?)\)", text))


def test_threat_model_names_tests_that_exist():
    """Each statement in a table has one, and so has each list item about trust."""
    text = read("referees/threat-model.md")
    named = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(set(named)) > 20
    assert [name for name in named if not (ROOT / name).is_file()] == []
    statements = [line for line in text.splitlines() if line.startswith("| ")]
    for line in statements:
        if line.strip("| ").rpartition("|")[2].strip() != "test":  # a heading
            assert "`tests/" in line.rpartition(" | ")[2], line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")
def test_snippets_about_spark(tmp_path, monkeypatch, request):
    pytest.importorskip("pyspark")
    request.getfixturevalue("spark")
    for example in snippets(DOCS / "data-sources.md", "data-sources.md", tmp_path, monkeypatch):
        example.evaluate()


def test_the_landing_page_leads_to_every_page():
    chooser, _, trees = read("index.md").partition("```{toctree}")
    led = {*re.findall(r"\]\(([\w/-]+\.md)", chooser)}
    pages = {str(path.relative_to(DOCS)) for path in DOCS.glob("*.md")} - {"index.md"}
    assert pages - led == set()
    listed = {f"{page}.md" for page in re.findall(r"^[\w/-]+$", trees, re.M)}
    assert pages - listed == set()
    assert {"data-sources.md#spark", "data-sources.md#databases"} <= {
        *re.findall(r"\]\(([^)]+)\)", chooser)
    }


def commands_on(text):
    """Commands that a page shows: lines of a console, and whole commands in backticks."""
    blocks = "\n".join(re.findall(r"^```console\n(.*?)^```", text, re.M | re.S))
    lines = re.findall(r"^(?:\$ )?(missdp [a-z].*)$", blocks, re.M)
    lines = [line for line in lines if not line.endswith("\\")]
    return lines + re.findall(r"`(missdp [a-z][^`]*)`", text)


@pytest.mark.parametrize("page", ["README.md", *(str(path.relative_to(ROOT)) for path in PAGES)])
def test_commands_and_options_on_pages_exist(page):
    for line in commands_on((ROOT / page).read_text(encoding="utf-8")):
        words = shlex.split(line, comments=True)[1:]
        assert words[0] in COMMAND_NAMES, line
        command = command_named(words[0])
        if hasattr(command, "commands") and len(words) > 1 and not words[1].startswith("-"):
            assert words[1] in command.commands, line
            command = command.commands[words[1]]
        known = {name for one in (*command.params, *EVERYWHERE) for name in one.opts}
        used = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help"}
        assert used <= known, line


# The README's commands, run as they stand there.
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", README, flags=re.M | re.S)


@pytest.mark.long
def test_the_commands_of_the_readme(tmp_path, monkeypatch, capsys):
    """The first two are those of `.ci/run`. The output of the demo is tested with the command."""
    install, tests, own = (block.strip() for block in BLOCKS)
    assert install.endswith("&& missdp demo")
    assert tests == "pytest -n 2"
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'eval "$(readme 1)"' in ci
    assert 'eval "$(readme 2)"' in ci
    rng = np.random.default_rng(0)
    columns = {"smoker": rng.choice(["no", "yes"], 500), "age": rng.integers(18, 99, 500)}
    frame = pd.DataFrame(columns).astype({"age": "Int64"}).mask(rng.random((500, 2)) < 0.2)
    frame.to_csv(tmp_path / "patients.csv", index=False)
    draft, synthesize, evaluate, *after = own.splitlines()
    monkeypatch.chdir(tmp_path)

    def run(command):
        assert command.startswith("missdp ")
        return main(shlex.split(command, comments=True)[1:]), capsys.readouterr()

    assert run(draft)[0] == 0
    assert run(synthesize)[0] == 3
    assert not (tmp_path / "synthetic.csv").exists()
    # "Complete it by hand": here, declare every guess public.
    schema = tmp_path / "patients.toml"
    schema.write_text(re.sub(r"undeclared = \[.*?\]\n", "", schema.read_text(), flags=re.S))
    for command in (synthesize, evaluate, *after):
        code, said = run(command)
        assert code == 0, (command, said.err)
        guaranteed = command.split()[1] in ("synthesize", "estimate")
        assert not guaranteed or "differentially private" in said.out
    assert (tmp_path / "synthetic.csv").exists()
    assert (tmp_path / "synthetic.model.json").exists()
    assert (tmp_path / "dossier" / "report.html").exists()


# docs/troubleshooting.md quotes the messages that are really raised, and the messages keep silent.
CELLS = ("140", "female", "Ann", "\xe9")  # of private rows, in the cases


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_messages_of_errors_start_as_listed(tmp_path, monkeypatch):
    """Also that no message quotes a cell, and that exit codes are those of the page."""
    monkeypatch.chdir(tmp_path)
    rows = r"^\| `(.*?)` \| (\d) \| [^|]+ \|$"
    codes = {start: int(code) for start, code in re.findall(rows, TROUBLE, re.MULTILINE)}
    wrong = {}
    for start, case in CASES.items():
        for path in tmp_path.iterdir():
            path.unlink()
        with refuses(MissDPError) as raised:
            case()
        error, message = raised.value, str(raised.value)
        quoted = any(cell in message for cell in CELLS) or "\n" in message
        attached = error.__cause__ or error.__context__
        code = next((c for kind, c in EXIT_CODES.items() if isinstance(error, kind)), None)
        if not message.startswith(start) or quoted or attached or codes.get(start, code) != code:
            wrong[start] = message, code
    assert wrong == {}


def test_troubleshooting_quotes_messages_that_are_raised():
    messages = TROUBLE.partition("## Warnings")[0]
    shown = re.findall(r"^\| `(.*?)` \|", messages, re.MULTILINE)
    assert len(shown) == len(set(shown)) == 25
    assert set(shown) <= set(CASES)


# Figures of pages were measured, and the scripts run.
PAPERS = ROOT / "bench" / "papers"
PRICES = ("b_table1", "b_table2", "b_table3", "b_table4", "b_figure2", "b_figure3", "c_figures4_6")
FIGURES = ("a_figure2", "a_figure3", "a_figure4", "a_figure5", "a_decay")
OTHERS = ("a_figure1", "a_examples", "a_table1", "a_complete_rows")
needs_data = pytest.mark.skipif(
    not (ROOT.parent / "shared" / "data").exists(), reason="needs the data folder"
)
few_complete = pytest.mark.filterwarnings(
    "ignore:by released counts:missdp.synth.noisy_counts.SmallTableWarning"
)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module


def test_the_tables_of_pages_are_the_kept_results(script):
    kept = script("_tables").results
    for name in PRICES:
        page = read("referees/papers-knn.md" if name[0] == "c" else "../bench/papers/prices.md")
        shown = [table in page for table in script(name).tables(kept(name))]
        assert all(shown) and f"bench/papers/{name}.py" in page, name  # noqa: PT018
    scripts = {path.name for path in PAPERS.glob("[a-c]_*.py")}
    named = set(re.findall(r"`([abc]_\w+\.py)`", read("referees/papers.md")))
    assert {f"{name}.py" for name in PRICES} <= named <= scripts
    others = json.loads(compare.RESULTS.read_text(encoding="utf-8"))
    assert compare.summary(others) in read("comparison.md")
    assert "\n\n".join(compare.shown(others)) in read("referees/measured.md")
    judged = read("referees/judged-by-others.md")
    assert [t for t in compare.real_missing.shown(others) if t not in judged] == []
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    pages = read("planning.md") + read("referees/measured.md")
    assert [table for table in tables(measured) if table not in pages] == []


@pytest.mark.slow
@needs_data
def test_the_page_on_synthesis_holds_what_was_measured(script):
    page, shared = read("../bench/papers/synthesis.md"), script("a_shared")
    for name in (*FIGURES, *OTHERS):
        assert f"% begin {name}\n" in page, name
        assert script("a_page").filled(page, only=name) == page, name
    lines = (PAPERS / "results" / "a_cells.csv").read_text(encoding="utf-8").splitlines()[1:]
    found, wanted = shared.Measured(shared.RESULTS, fit=False).results, set()
    for name in FIGURES:
        cells = [*script(name).cells(), *script(name).cells_once()]
        wanted |= {*shared.with_seeds(cells, 3)}
    assert len(found) == len(lines)
    assert set(found) <= wanted
    named = {path for path in PAPERS.glob("a_*.py") if f"python bench/papers/{path.name}" in page}
    unnamed = {path.stem for path in PAPERS.glob("a_*.py")} - {path.stem for path in named}
    assert unnamed <= {"a_shared", "a_accounts"}
    with pytest.raises(SystemExit):
        script("a_figure2").main(["--short"])  # would mix with the cells of the page


@pytest.mark.slow
@needs_data
def test_the_published_table_of_marginals_and_what_any_network_loses(script):
    table = script("a_table1")
    assert table.row() in read("referees/claims.md").splitlines()
    for name, figures in table.PUBLISHED.items():
        for rate, published in zip(table.RATES, figures, strict=True):
            marginals = table.marginals(name, rate)
            assert abs(table.as_text(name, marginals, rate) - published) < 0.012
            alone = table.without_edges(marginals, rate)
            assert alone == pytest.approx(table.figures(name, rate)[5])
            assert alone > published + 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scripts_of_prices_in_short(script):
    """Each computes its table, and finds the loss of a published entry again."""
    kept = script("_tables").results
    found = script("b_table1").measure(True)
    for entry in found["entries"]:
        assert entry["rdp"] <= entry["printed_rdp"] * (1 + 1e-9)
        assert entry["srdp"] <= entry["printed_srdp"] * (1 + 1e-9)
        assert entry["srdp"] < entry["group"]
    assert found["gd_pair"] == pytest.approx(4 * found["gd_theorem"])
    assert found["sampled_least_c"]["1.1"] > 1.5
    bench = script("b_table2")
    found = bench.measure(True)
    assert all(b["gd_found"] > 1.3 * b["gd_printed"] for b in found["beaten"])
    assert all(b["sum_found"] > 1.3 * b["sum_printed"] for b in found["beaten"])
    assert bench.tables(found) == bench.tables(kept("b_table2"))
    above = [c for c in found["cells"] if c["factors"][0] and c["factors"][3] > c["factors"][0]]
    assert [(c["mechanism"], c["step"]) for c in above] == [("DP-GD", "standard scaling")]
    z = np.linspace(-6, 6, 4001)
    for reach in (0.5, 1.0):  # the tent is bounded, and not steeper than one
        values = bench.tent(z, reach)
        assert np.abs(values).max() <= reach
        assert np.abs(np.diff(values)).max() <= (z[1] - z[0]) * (1 + 1e-9)
    for found in (script("b_table3").measure(True)["search"], kept("b_table3")["search"]):
        by = {row["model"]: row for row in found}
        assert all(row["ours"] <= 1 + 1e-9 for row in found)
        assert by["mean, two columns"]["printed"] > 1.15
        assert by["mean, one column"]["printed"] <= 1 + 1e-9
    for checks in (script("b_figure2").measure(True)["checks"], kept("b_figure2")["checks"]):
        failed = [text for text, holds in checks if not holds]
        assert failed == ["the same with 1000 rows, at 95 % missing"]
    bench, results = script("c_figures4_6"), kept("c_figures4_6")
    failed = [text for text, holds in bench.checks(results["simulated"]) if not holds]
    assert failed == ["ours errs less than theirs in all five"]  # four, and a tie within .1 %
    assert bench.true_loss(0.5) > 0.9  # the published noise, where it is not proven
    for epsilon in (2 * bench.LN2, 2.0, 6 * bench.LN2):
        assert bench.true_loss(epsilon) <= epsilon
    below = results["broken_below"] - 0.05
    assert bench.true_loss(below) > below


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_longer_scripts_in_short(script, tmp_path):
    found = script("b_figure3").measure(True)
    runs = {r["method"]: r["loss"] for r in found["sound"]["runs"]}
    assert runs["no preprocessing"] < runs["priced PCA"]
    assert found["sound"]["propose_test_release"] == "refused"
    assert {r["columns"] for r in found["recipe"]} == {"combinations", "noise"}
    bench = script("b_table4")
    assert "| published | 5 | 0.85 | 0.90 |" in bench.tables(bench.measure(True))[0]
    bench = script("c_figures4_6")
    assert len(bench.tables(bench.measure(True))) == 4
    found = short()
    assert {"100 0 1 aim", "1000 0 1 query", "without privacy"} <= found.keys()
    assert found["1000 0 1 margins"]["1-way"] < found["100 0 1 margins"]["1-way"]


@needs_data
@few_complete
@pytest.mark.slow
def test_figures_have_a_short_run_that_measures_each_cell_once(script, tmp_path):
    shared = script("a_shared")
    for name in ("a_figure2", *FIGURES):
        script(name).main(["--output", str(tmp_path), "--short", "--seeds", "1"])
        lines = (tmp_path / "a_cells.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(set(lines))
    found = shared.Measured(tmp_path, short=True, fit=False)
    given = {"data": "adult", "file": "mcar_0.2", "family": "PrivBayes"}
    dropped = found.mean("two_way", **given, missing="complete-rows")
    assert found.mean("two_way", **given, missing="observed") < dropped


# Notebooks hold no outputs, and run from top to bottom in a kernel of their own.
BOOKS = {"ledger-and-dossier": "dossier/report.html", "main-job": "survey.model.json"}


def test_notebooks_hold_no_outputs():
    assert {book.stem for book in (DOCS / "notebooks").glob("*.ipynb")} == {*BOOKS}
    for name in BOOKS:
        for cell in json.loads(read(f"notebooks/{name}.ipynb"))["cells"]:
            assert not cell.get("outputs"), name
            assert cell.get("execution_count") is None, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", BOOKS)
def test_notebooks_run(name, tmp_path):
    from nbclient import NotebookClient
    from nbformat import reads

    book, folder = reads(read(f"notebooks/{name}.ipynb"), 4), {"metadata": {"path": str(tmp_path)}}
    done = NotebookClient(book, timeout=600, resources=folder).execute()
    assert all(cell.get("execution_count") for cell in done.cells if cell.cell_type == "code")
    assert (tmp_path / BOOKS[name]).stat().st_size > 1000
