"""Every Python snippet of the README and the documentation, run in the order of its page."""

import contextlib
import io
import re
import shlex
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from missdp.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE
PYTHON = PythonCodeBlockParser(doctest_optionflags=FLAGS)
SYBIL = Sybil(parsers=[PYTHON], path=str(ROOT))
# Pages without Python: tables of contents, lists, the plan of the house, what was measured.
SILENT = {
    "index.md",
    *(page.name for page in PAGES if page.name.startswith("measured")),
    "papers.md",
    "papers-prices.md",
    "papers-knn.md",
    "commands.md",
    "api.md",
    "architecture.md",
    "glossary.md",
    "references.md",
}


# Pages about what an extra brings, by its module.
NEEDS = {"adversarial.md": "torch", "spark.md": "pyspark"}


def run_commands(example):
    """Run the commands of a block, and compare what each says with what follows it."""
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


# Pages whose commands run between their snippets.
WORKED = {
    "worked-example.md": Sybil(
        parsers=[
            PYTHON,
            CodeBlockParser(language="console", evaluator=run_commands),
            CodeBlockParser(language="toml", evaluator=write_file),
        ],
        path=str(ROOT),
    )
}


@pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets(page, tmp_path, monkeypatch, request):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    if page.name == "spark.md":
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    examples = list(WORKED.get(page.name, SYBIL).parse(page))
    assert bool(examples) == (page.name not in SILENT)
    for example in examples:
        example.evaluate()


NAME = r"[A-ZÁÉÖÜŁ][\w’\-]+"
CITED = re.compile(rf"({NAME}(?:, {NAME})*(?: (?:&|and) {NAME}| et al\.)?),? \(?((?:19|20)\d\d)\)?")
# A name, then a number that is no year of a work.
NOT_CITED = {"Prevention", "Seed"}


def test_every_work_that_the_package_cites_is_in_the_references():
    entries = (ROOT / "docs" / "references.md").read_text(encoding="utf-8").split("\n* ")
    cited = 0
    for file in sorted((ROOT / "src").rglob("*.py")):
        text = re.sub(r"\s+", " ", file.read_text(encoding="utf-8")).replace("'s ", " ")
        for names, year in CITED.findall(text):
            found = set(re.findall(NAME, names)) - {"After", "AIME", "DP", "PrivBayesE"}
            if not found or found & NOT_CITED:
                continue
            cited += 1
            known = [e for e in entries if f"({year})" in e and all(n in e for n in found)]
            assert known, f"{file.name}: {names} {year}"
    assert cited > 90
