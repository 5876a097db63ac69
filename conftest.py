"""Every Python snippet of the README and the documentation is a test."""

import os
from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run a document's snippets in a folder of their own."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("snippets"))
    yield
    os.chdir(before)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    patterns=["README.md", "docs/*.md"],
    fixtures=["scratch"],
).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the snippets of one document together, in order, when tests run in parallel."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.xdist_group(item.path.name))
