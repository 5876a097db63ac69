"""docs/architecture.md is about this house, and its limits hold."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "missdp"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DRAWN = PAGE.split("```text")[1].split("```")[0]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads(PROJECT)["tool"]["importlinter"]["contracts"]
ORDER = PAGE.split("```text")[2].split("```")[0]


def test_every_room_is_drawn_and_every_drawn_one_is_there():
    drawn = set(re.findall(r"^  ([a-z_]+(?:/|\.py))", DRAWN, flags=re.M))
    rooms = {f"{path.parent.name}/" for path in HOUSE.glob("*/__init__.py")}
    files = {path.name for path in HOUSE.glob("*.py") if not path.name.startswith("__")}
    assert drawn == rooms | files


def test_imports_go_the_way_that_is_drawn():
    layers = CONTRACTS[0]["layers"]
    kept = [layer.replace("missdp.", "") for layer in layers]
    assert [layer.strip() for layer in ORDER.split(">")] == kept


def test_contracts_name_what_is_there_and_say_why_something_is_ignored():
    keys = ("layers", "source_modules", "forbidden_modules")
    entries = [entry for one in CONTRACTS for key in keys for entry in one.get(key, ())]
    for name in {name for entry in entries for name in re.findall(r"[\w.]+", entry)}:
        path = ROOT / "src" / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), name
    ignored = [line for line in PROJECT.splitlines() if " -> missdp" in line]
    assert len(ignored) == sum(len(one.get("ignore_imports", ())) for one in CONTRACTS) <= 20
    assert [line for line in ignored if not re.search(r"\", # \w.+", line)] == []


def test_files_that_the_page_names_are_there():
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE)
    assert len(named) > 5
    for name in named:
        assert (HOUSE / name).exists() or (ROOT / name).exists(), name


def test_every_test_file_mirrors_a_room():
    rooms = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    found = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert found <= rooms | {"data", "__pycache__"}
