"""Families and statistics import no rows, and reach for nothing behind the door.

The import contracts in pyproject.toml say so of whole modules; this looks at single names and
lines, and at the worked example, which is in no package.
"""

import ast
from pathlib import Path

import pytest

from missdp import statistics
from missdp.mechanisms import door
from missdp.synth import base
from synth.worked_example import SOURCE

ROOM = Path(base.__file__).parent
FILES = [*ROOM.glob("*.py"), *(ROOM.parent / "baselines").glob("*.py")]
BEFORE_THE_DOOR = {"__init__", "base", "registry", "state"}
# They change synthetic rows, and so may see tables; they must not see a door.
AFTER_RELEASE = {"placing", "sampling"}
SHUT = ("missdp.sources", "missdp.table", "missdp.mechanisms")
# What may be imported of modules that themselves import what must not be seen.
OF_FAMILIES = {
    "missdp.mechanisms.door": door.__all__,
    "missdp.mechanisms.exact_noise": ("NoiseSource", "check_scale", "noise_source"),
    "missdp.mechanisms.noise": ("Noise", "Selection"),
    "missdp.synth.base": ("MissingValues", "Synthesizer"),
    "missdp.synth.registry": (),
    # What is asked of rows as they came: who has none can ask nothing.
    "missdp.mechanisms.open_levels": ("FrequentValues", "OccurringValues"),
    "missdp.synth.state": ("is_declared", "is_number", "is_whole"),
}
OF_STATISTICS = {
    "missdp.mechanisms.questions": [
        "QUANTA", "Ask", "Counts", "Filled", "Preparation", "Prepared", "Query", "Question", "Rows",
        "Sums", "Ways",
    ],
    "missdp.mechanisms.row_door": ("Charged", "Measurement", "Noisy", "RandomState", "RowDoor"),
    "missdp.mechanisms.smooth": ("ReleasedScale", "ScaleRelease"),
}  # fmt: skip


def read(paths):
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


FAMILIES = read(p for p in FILES if p.stem not in BEFORE_THE_DOOR | AFTER_RELEASE)
FAMILIES["the worked example"] = SOURCE
STATISTICS = read(Path(statistics.__file__).parent.glob("*.py"))


def of_door(whose):
    last = whose.split(".")[-1] in ("prepared", "rows", "charged")
    return last or any(word in whose for word in ("door", "training", "tables"))


def offences(source, public):
    """Return what a family or a statistic must not do, as lines."""
    found, tree = [], ast.parse(source)
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CH" in ast.dump(n.test)]
    skipped = {id(inner) for node in typing for inner in ast.walk(node)}
    for node in (node for node in ast.walk(tree) if id(node) not in skipped):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module in ("missdp", "missdp.mechanisms", "missdp.synth"):
                found.append("a whole module")
            elif node.module in public:
                found += [a.name for a in node.names if a.name not in public[node.module]]
            elif node.module.startswith(SHUT):
                found.append(node.module)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            found += [ast.unparse(node)] * of_door(ast.unparse(node.value))
    return found


@pytest.mark.parametrize(
    ("files", "public"), [(FAMILIES, OF_FAMILIES), (STATISTICS, OF_STATISTICS)], ids=["f", "s"]
)
def test_they_see_the_door_only(files, public):
    assert len(files) > 5
    assert {name: found for name, text in files.items() if (found := offences(text, public))} == {}


def test_what_changes_synthetic_rows_sees_no_door():
    texts = read(path for path in FILES if path.stem in AFTER_RELEASE)
    assert len(texts) == len(AFTER_RELEASE)
    seen = ("missdp.mechanisms", "missdp.synth.base")
    assert [name for name, text in texts.items() if any(word in text for word in seen)] == []


PAST = """
import missdp
import missdp.table
from missdp import Table
from missdp.table import Table
from missdp.sources import MemorySource
from missdp.mechanisms import SecureNoise
from missdp.mechanisms.exact_noise import noise_source
from missdp.mechanisms.row_door import Table
from missdp.mechanisms.row_door import _PrivateRows
from missdp.mechanisms.smooth import SmoothNoise
from missdp.sources.strategies import ExactCounts
from missdp.synth.base import Table
from missdp.synth.state import _open_data
from missdp.synth import base
from missdp.synth.registry import read_document
from missdp.mechanisms import door
from missdp.mechanisms.door import ExactCounts
from missdp.mechanisms.door import *
from . import state
door._source.counts([()])
self._door._counts
self.door._rows
self._tables._counts
training._codes()
door._answer(event, law, exact)
"""


@pytest.mark.parametrize("public", [OF_FAMILIES, OF_STATISTICS], ids=["families", "statistics"])
def test_reaching_past_the_door_is_seen(public):
    # No statistic imports a family, and a family may name what noise is public.
    fine = "missdp.synth" if public is OF_STATISTICS else "import noise_source"
    lines = [line for line in PAST.split("\n") if line and fine not in line]
    assert [line for line in lines if not offences(line, public)] == []
