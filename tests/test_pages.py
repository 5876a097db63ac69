"""The documentation as pages: names that are links, each described once, nothing from a network."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"(?<![`:\w])`([A-Za-z_][\w.]*(?:\(\))?)`(?![`_])")
FILES = [
    path
    for path in sorted((ROOT / "src").rglob("*.py"))
    if NAME.search(path.read_text(encoding="utf-8"))
]


def extension(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


built_pages, names = extension("built_pages"), extension("names")


def documented(tree):
    """Docstrings with the name of the class that they are in, if any."""
    yield None, ast.get_docstring(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            parts = [node, *(n for n in node.body if isinstance(n, ast.FunctionDef))]
            yield from ((node.name, ast.get_docstring(part)) for part in parts)
        elif isinstance(node, ast.FunctionDef):
            yield None, ast.get_docstring(node)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_names_in_single_backticks_mean_something(path):
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    module = ".".join(part for part in parts if part != "__init__")
    if "neural" in parts:  # needs an extra
        pytest.importorskip("torch")
    for kind, told in documented(ast.parse(text)):
        scope = getattr(importlib.import_module(module), kind) if kind else None
        for name in NAME.findall(told or ""):
            assert names.meanings(name, module, scope), f"`{name}` in {kind or module}"


def test_every_public_name_is_described_on_one_page():
    pages = {p.stem: p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "api").glob("*.md")}
    told = {}
    for page, text in pages.items():
        for room, listed in re.findall(r"\.\. room:: ([\w.]+)\n((?:.|\n)*?)```", text):
            known = importlib.import_module(room)
            for name in listed.split() or known.__all__:
                assert (room, name) not in told, f"{name}: {page} and {told[room, name]}"
                told[room, name] = page
    for room in names.ROOMS[1:]:
        missing = set(importlib.import_module(room).__all__) - {n for r, n in told if r == room}
        assert missing <= {"examples"}, f"{room}: {missing}"


GOOD = """<link rel="stylesheet" href="a.css"><link rel="next" href="https://x.org">
<body id="top"><a href="https://x.org">away</a><a href="#top">up</a><img src="b.svg">"""


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ('<script src="https://cdn.org/m.js"></script>', "fetches https://cdn.org/m.js"),
        ('<link rel="stylesheet" href="//fonts.org/f.css">', "fetches //fonts.org/f.css"),
        ('<img src="http://x.org/i.png">', "fetches http://x.org/i.png"),
        ('<p style="background: url(https://x.org/i.png)">', "fetches https://x.org/i.png"),
        ('<a href="#gone">', "#gone leads nowhere"),
        ('<a href="b.html">', "b.html leads nowhere"),
        ('<a href="a.html#gone">', "a.html#gone leads nowhere"),
    ],
)
def test_pages_that_fetch_or_lead_nowhere_are_found(tmp_path, fault, told):
    (tmp_path / "a.html").write_text(GOOD, encoding="utf-8")
    assert built_pages.faults(tmp_path) == []
    (tmp_path / "a.html").write_text(GOOD + fault, encoding="utf-8")
    assert [found for found in built_pages.faults(tmp_path) if told in found]


def test_styles_that_fetch_are_found(tmp_path):
    style = tmp_path / "a.css"
    style.write_text("@import 'local.css'; .a { background: url(b.png) }", encoding="utf-8")
    assert built_pages.faults(tmp_path) == []
    style.write_text("@import 'https://x.org/f.css';", encoding="utf-8")
    assert built_pages.faults(tmp_path) == ["a.css fetches https://x.org/f.css"]


# Files of other projects that pages link to, as they were found in a clone at the commit named:
# git cat-file -e COMMIT:PATH
SEEN = {
    "google/dpsynth/blob/cf8075f319b96c2e009e4ea6bb55378faccbbc80/": {
        "dpsynth/domain.py",
        "dpsynth/local_mode/vectorized_transformations.py",
    },
}


def test_files_of_other_projects_are_there_at_the_commit_that_is_named():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    linked = set(re.findall(r"https://github\.com/([^/]+/[^/]+/(?:blob|tree|raw)/[^)\s#]+)", text))
    assert linked == {start + path for start, paths in SEEN.items() for path in paths}
