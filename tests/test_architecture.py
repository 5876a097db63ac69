"""The architecture page is right, and links and names lead somewhere. Tests list all offenders."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import missdp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "missdp"
FILES = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
PAGE = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def loaded(name):
    spec = importlib.util.spec_from_file_location(Path(name).name, ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


built_pages, names = loaded("docs/extensions/built_pages"), loaded("docs/extensions/names")


def test_page_shows_the_packages_contracts_and_tests():
    figure = PAGE.split("```text\n")[1].split("```")[0]
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    files = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    listed = re.findall(r"^\| `([a-z_]+(?:/|\.py))` \|", PAGE, flags=re.M)
    assert sorted(listed) == sorted(packages | files)
    contracts = tomllib.loads(PROJECT)["tool"]["importlinter"]["contracts"]
    layers = [layer.replace("missdp.", "") for layer in contracts[0]["layers"]]
    assert [re.split(r"\s{2,}", line.strip())[0] for line in figure.splitlines()] == layers
    keys = ("layers", "source_modules", "forbidden_modules")
    entries = [entry for one in contracts for key in keys for entry in one.get(key, ())]
    modules = {name for entry in entries for name in re.findall(r"[\w.]+", entry)}
    paths = {name: ROOT / "src" / name.replace(".", "/") for name in modules}
    assert [n for n, p in paths.items() if not (p.is_dir() or p.with_suffix(".py").exists())] == []
    ignored = [line for line in PROJECT.splitlines() if " -> missdp" in line]
    assert len(ignored) == sum(len(one.get("ignore_imports", ())) for one in contracts) <= 20
    assert [line for line in ignored if not re.search(r"\", # \w.+", line)] == []
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE)
    assert [n for n in named if not ((PACKAGE / n).exists() or (ROOT / n).exists())] == []
    tested = {f"{path.name}/" for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert tested <= packages | {"claims/", "data/", "__pycache__/"}


@pytest.mark.long
def test_no_error_is_raised_while_another_is_handled():
    """An error raised in an ``except`` block keeps the one that it replaces in its context."""
    raised = [
        f"{path.name}:{node.lineno}"
        for path, text in FILES.items()
        for handler in ast.walk(ast.parse(text))
        if isinstance(handler, ast.ExceptHandler)
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise) and node.exc is not None
    ]
    assert raised == [], "use missdp.errors.replacing, or raise outside the except block"


def documented(tree):
    """Docstrings with the name of the class that they are in, if any."""
    yield None, ast.get_docstring(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            parts = [node, *(n for n in node.body if isinstance(n, ast.FunctionDef))]
            yield from ((node.name, ast.get_docstring(part)) for part in parts)
        elif isinstance(node, ast.FunctionDef):
            yield None, ast.get_docstring(node)


@pytest.mark.long
def test_names_in_single_backticks_mean_something():
    name = re.compile(r"(?<![`:\w])`([A-Za-z_][\w.]*(?:\(\))?)`(?![`_])")
    lost = []
    for path, text in FILES.items():
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        if "neural" in parts and importlib.util.find_spec("torch") is None:
            continue
        for kind, told in documented(ast.parse(text)) if name.search(text) else ():
            scope = getattr(importlib.import_module(module), kind) if kind else None
            found = name.findall(told or "")
            lost += [f"`{n}` in {module}" for n in found if not names.meanings(n, module, scope)]
    assert lost == []


def test_every_public_name_is_described_on_one_page():
    pages = {p.stem: p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "api").glob("*.md")}
    told, twice = {}, []
    for page, text in pages.items():
        for package, listed in re.findall(r"\.\. public-names:: ([\w.]+)\n((?:.|\n)*?)```", text):
            known = importlib.import_module(package)
            for name in listed.split() or known.__all__:
                twice += [(package, name, page)] if (package, name) in told else []
                told[package, name] = page
    assert twice == []
    public = {(r, n) for r in names.PACKAGES[1:] for n in importlib.import_module(r).__all__}
    assert public - set(told) == set()


def test_there_is_one_version_and_extras_that_are_named_exist():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, day = re.findall(r"^## (\d[\d.]*) - (\S+)$", changes, flags=re.M)[0]
    released = "" if day == "unreleased" else f"date-released: {day}\n"
    assert f"\nversion: {version}\n{released}license" in citation
    assert missdp.__version__ == version
    extras = set(tomllib.loads(PROJECT)["project"]["optional-dependencies"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(",".join(re.findall(r"['.`]\[([a-z,]+)\]['`]", readme)).split(","))
    assert {"stat", "excel", "ledger", "spark", "plot", "report"} <= named <= extras


def test_an_index_shows_links_that_lead_somewhere_or_none():
    shown = loaded("hatch_build").long_description
    for source in (None, "https://forge.example/missdp"):
        text = shown((ROOT / "README.md").read_text(encoding="utf-8"), source, "1.2")
        targets = re.findall(r"\]\(([^)]+)\)", text)
        assert bool(targets) == (source is not None)
        assert [t for t in targets if not re.match(rf"{source}/(blob|raw)/v1.2/\w", t)] == []
        assert ("docs/img/report.png" in text) == (source is not None)


def test_nothing_is_uploaded_while_an_owner_has_something_to_decide(tmp_path):
    check = loaded(".ci/release")
    assert check.undecided() != []
    for name in (*check.MARKED, "RELEASING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = text.replace(check.MARK, "decided").replace("- [ ]", "- [x]")
        text = re.sub(r"(?m)^(## .*) - unreleased$", r"\1 - 2026-01-31", text)
        urls = "".join(f'\n{url} = "https://forge.example"' for url in check.URLS)
        text = text.replace("[project.urls]", f"[project.urls]{urls}")
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert check.undecided(tmp_path) == []
    faults = {
        "SECURITY.md": ("decided", check.MARK),
        "CODE_OF_CONDUCT.md": ("decided", check.MARK),
        "RELEASING.md": ("- [x]", "- [ ]"),
        "pyproject.toml": ("\nSource = ", "\nHome = "),
        "CHANGELOG.md": (" - 2026-01-31\n", " - unreleased\n"),
    }
    for name, fault in faults.items():
        kept = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(kept.replace(*fault), encoding="utf-8")
        assert [line for line in check.undecided(tmp_path) if line.startswith(f"{name}: ")], name
        (tmp_path / name).write_text(kept, encoding="utf-8")


def test_links_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages += [*(ROOT / "tests" / "claims").glob("*.md"), *(ROOT / "bench" / "papers").glob("*.md")]
    lost = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert lost == []
    # Files of other projects, as they were found in a clone: git cat-file -e COMMIT:PATH
    seen = "google/dpsynth/blob/cf8075f319b96c2e009e4ea6bb55378faccbbc80/dpsynth/"
    text = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs").rglob("*.md"))
    linked = re.findall(r"https://github\.com/([^/]+/[^/]+/(?:blob|tree|raw)/[^)\s#]+)", text)
    known = ("domain.py", "local_mode/vectorized_transformations.py")
    assert set(linked) == {seen + path for path in known}


def test_every_work_that_the_package_cites_is_in_the_references():
    references = ROOT / "docs" / "referees" / "references.md"
    entries = references.read_text(encoding="utf-8").split("\n* ")
    word = r"[A-ZÁÉÖÜŁ][\w’\-]+"
    work = rf"({word}(?:, {word})*(?: (?:&|and) {word}| et al\.)?),? \(?((?:19|20)\d\d)\)?"
    cited, unknown = 0, []
    for path, text in FILES.items():
        for who, year in re.findall(work, re.sub(r"\s+", " ", text).replace("'s ", " ")):
            found = set(re.findall(word, who)) - {"After", "AIME", "DP", "PrivBayesE"}
            if not found or found & {"Prevention", "Seed"}:  # a number that is no year of a work
                continue
            cited += 1
            if not any(f"({year})" in e and all(n in e for n in found) for e in entries):
                unknown.append(f"{path.name}: {who} {year}")
    assert unknown == []
    assert cited > 20


@pytest.mark.long
def test_public_names_are_there_and_nothing_heavy_is_imported_before_it_is_needed():
    assert [name for name in missdp.__all__ if not hasattr(missdp, name)] == []
    assert set(missdp.__all__) <= set(dir(missdp))
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = missdp.nothing_here
    code = (
        "import sys, missdp, missdp.cli.main\n"
        "assert not {'numpy', 'click'} & set(sys.modules)\n"
        "missdp.evaluate.MCAR(rate=0.1); missdp.evaluate.LEARNERS\n"
        "import missdp.testing\n"
        "assert not {'pytest', 'hypothesis', 'polars'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


GOOD = """<link rel="stylesheet" href="a.css"><link rel="next" href="https://x.org">
<body id="top"><a href="https://x.org">away</a><a href="#top">up</a><img src="b.svg">"""
FETCHED = (
    '<script src="https://cdn.org/m.js"></script>',
    '<link rel="stylesheet" href="//fonts.org/f.css">',
    '<img src="http://x.org/i.png">',
    '<p style="background: url(https://x.org/i.png)">',
)
LOST = ("#gone", "b.html", "a.html#gone")


def test_built_pages_that_fetch_or_lead_nowhere_are_found(tmp_path):
    faults = {fault: f"fetches {re.search('(https?:)?//[a-z./]+', fault)[0]}" for fault in FETCHED}
    faults |= {f'<a href="{target}">': f"{target} leads nowhere" for target in LOST}
    for fault, told in faults.items():
        (tmp_path / "a.html").write_text(GOOD + fault, encoding="utf-8")
        assert [found for found in built_pages.faults(tmp_path) if told in found], fault
    (tmp_path / "a.html").write_text(GOOD, encoding="utf-8")
    assert built_pages.faults(tmp_path) == []
    style = "@import 'https://x.org/f.css'; .a { background: url(b.png) }"
    (tmp_path / "a.css").write_text(style, encoding="utf-8")
    assert built_pages.faults(tmp_path) == ["a.css fetches https://x.org/f.css"]


def test_source_runs_no_text_as_python():
    """Schemas, rules and questions are parsed; only calls by these plain names could run them."""
    calls = (
        (path, node)
        for path, text in FILES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    names = {"eval", "exec", "compile", "__import__"}
    assert [f"{path}:{node.lineno}" for path, node in calls if node.func.id in names] == []
