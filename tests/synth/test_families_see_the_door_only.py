"""Families import no rows, and reach for nothing behind the door.

The import contract in pyproject.toml says so of whole modules; this looks at single names, and at
the worked example, which is in no package.
"""

import ast
from pathlib import Path

import pytest

from missdp.mechanisms import door, noise
from missdp.synth import base, registry
from synth.worked_example import SOURCE

ROOM = Path(base.__file__).parent
FILES = [*ROOM.glob("*.py"), *(ROOM.parent / "baselines").glob("*.py")]
BEFORE_THE_DOOR = {"__init__", "base", "before_holes", "registry", "restore", "state"}
# They change synthetic rows, and so may see tables; they must not see a door.
AFTER_RELEASE = {"conflicts", "leaning", "placing", "row_blocks", "rows_again", "spark_rows"}
SOURCES = {
    path.name: path.read_text(encoding="utf-8")
    for path in FILES
    if path.stem not in BEFORE_THE_DOOR | AFTER_RELEASE
} | {"the worked example": SOURCE}
# What may be imported of modules that themselves import what families must not see.
PUBLIC = {module.__name__: module.__all__ for module in (base, door, noise, registry)} | {
    "missdp.synth.sampling": ("kinds_share",),
    "missdp.synth.state": ("is_declared", "is_number", "is_whole"),
}
SHUT = ("missdp.sources", "missdp.table", "missdp.mechanisms")


def offences(source):
    """Return what a family must not do, as lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module in ("missdp", "missdp.mechanisms", "missdp.synth"):
                found.append("a whole module")
            elif node.module in PUBLIC:
                found += [a.name for a in node.names if a.name not in PUBLIC[node.module]]
            elif node.module.startswith(SHUT):
                found.append(node.module)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            whose = ast.unparse(node.value)
            if (
                "door" in whose
                or "training" in whose
                or whose in ("self._tables", "self._merged", "tables")
            ):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_a_family_sees_the_door_only(name):
    assert offences(SOURCES[name]) == []


@pytest.mark.parametrize("name", sorted(AFTER_RELEASE))
def test_what_changes_synthetic_rows_sees_no_door(name):
    (path,) = (path for path in FILES if path.stem == name)
    text = path.read_text(encoding="utf-8")
    assert "missdp.mechanisms" not in text
    assert "missdp.synth.base" not in text


@pytest.mark.parametrize(
    "line",
    [
        "import missdp",
        "import missdp.table",
        "from missdp import Table",
        "from missdp.sources import MemorySource",
        "from missdp.mechanisms import release_counts",
        "from missdp.sources.strategies import ExactCounts",
        "from missdp.synth.base import Table",
        "from missdp.synth.state import open_data",
        "from missdp.synth import base",
        "from missdp.synth import state",
        "from missdp.synth.registry import read_document",
        "from missdp.mechanisms import door",
        "from missdp.mechanisms.door import ExactCounts",
        "from missdp.mechanisms.door import MemorySource",
        "from missdp.mechanisms.door import *",
        "from . import state",
        "from ..table import Table",
        "from .state import open_data",
        "door._source.counts([()])",
        "self._door._counts",
        "training._codes()",
    ],
)
def test_reaching_past_the_door_is_seen(line):
    assert offences(line)
