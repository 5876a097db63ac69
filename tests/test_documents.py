"""Every Python snippet of the README and the documentation, run in the order of its page."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SYBIL = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    path=str(ROOT),
)
# Pages without Python: a table of contents, lists, the plan of the house.
SILENT = {"index.md", "api.md", "architecture.md", "glossary.md", "references.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = list(SYBIL.parse(page))
    assert bool(examples) == (page.name not in SILENT)
    for example in examples:
        example.evaluate()
