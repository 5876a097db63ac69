"""Families import no rows, and reach for nothing behind the door.

The import contract in pyproject.toml says so of whole modules; this looks at single names, and at
the worked example, which is in no package.
"""

import ast
from pathlib import Path

from missdp.mechanisms import door, noise
from missdp.synth import base
from synth.worked_example import SOURCE

ROOM = Path(base.__file__).parent
FILES = [*ROOM.glob("*.py"), *(ROOM.parent / "baselines").glob("*.py")]
BEFORE_THE_DOOR = {"__init__", "base", "open_levels", "parts", "registry", "sampling", "state"}
# They change synthetic rows, and so may see tables; they must not see a door.
AFTER_RELEASE = {"leaning", "placing", "selected"}
SOURCES = {
    path.name: path.read_text(encoding="utf-8")
    for path in FILES
    if path.stem not in BEFORE_THE_DOOR | AFTER_RELEASE
} | {"the worked example": SOURCE}
# What may be imported of modules that themselves import what families must not see.
PUBLIC = {module.__name__: module.__all__ for module in (door, noise)} | {
    "missdp.synth.base": ("MissingValues", "Synthesizer"),
    "missdp.synth.registry": (),
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


def test_families_see_the_door_only():
    assert {name: offences(text) for name, text in SOURCES.items() if offences(text)} == {}


def test_what_changes_synthetic_rows_sees_no_door():
    changing = [path for path in FILES if path.stem in AFTER_RELEASE]
    assert len(changing) == 3
    for path in changing:
        text = path.read_text(encoding="utf-8")
        assert "missdp.mechanisms" not in text
        assert "missdp.synth.base" not in text


def test_reaching_past_the_door_is_seen():
    for line in (
        "import missdp",
        "import missdp.table",
        "from missdp import Table",
        "from missdp.sources import MemorySource",
        "from missdp.mechanisms import RowDoor",
        "from missdp.sources.strategies import ExactCounts",
        "from missdp.synth.base import Table",
        "from missdp.synth.state import _open_data",
        "from missdp.synth import base",
        "from missdp.synth.registry import read_document",
        "from missdp.mechanisms import door",
        "from missdp.mechanisms.door import ExactCounts",
        "from missdp.mechanisms.door import *",
        "from . import state",
        "door._source.counts([()])",
        "self._door._counts",
        "training._codes()",
    ):
        assert offences(line)
