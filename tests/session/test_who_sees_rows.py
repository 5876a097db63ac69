"""Families and statistics import no rows, and reach for nothing behind the session.

The import contracts in pyproject.toml state this for whole modules. This module checks single names
and lines, and the worked example, which is in no package.
"""

import ast
from pathlib import Path

import pytest

from missdp import statistics
from missdp.synth import base
from synth.worked_example import SOURCE

ROOM = Path(base.__file__).parent
FILES = [*ROOM.glob("*.py"), *(ROOM.parent / "baselines").glob("*.py")]
BEFORE_THE_SESSION = {"__init__", "base", "fitting", "registry"}
# These modules change synthetic rows, so they may see tables. They must not see a session.
AFTER_RELEASE = {"denial_constraints", "placing", "sampling"}
TRUSTED = {"private_training"}  # computes gradients of private rows
# Trusted files of statistics: the kind of rows, its queries and its noise.
ROW_STATISTICS = ("table_rows", "row_queries", "imputed_rows", "smooth_sensitivity", "groups")
SHUT = ("missdp.sources", "missdp.table", "missdp.session")
SHUT += tuple(f"missdp.statistics.{name}" for name in ROW_STATISTICS)
# Names that may be imported from modules that themselves import forbidden modules.
OF_FAMILIES = {
    "missdp.session": (
        "Clique", "Dependences", "Expected", "FineCodes", "MissingKinds", "Marginal", "LevelMerge",
        "Misfits", "Noise", "Products", "Reads", "RowCount", "RowProducts", "Selection", "Session",
        "Total", "Tree", "UnitSums",
    ),
    "missdp.sources.filling": ("MarginallyFilledRow",),  # released values
    "missdp.session.dependences": ("DEPENDENCE_SENSITIVITY",),
    "missdp.session.scores": ("MISFIT_SENSITIVITY",),
    "missdp.session.training": ("SAMPLING_SLACK",),
    "missdp.session.noise": ("check_scale",),
    "missdp.session.mechanisms": ("Noise", "Selection"),
    "missdp.synth.base": ("Synthesizer",),
    "missdp.synth.registry": (),
    # Requests about the original rows. Code without rows can answer none of these requests.
    "missdp.session.frequent_values": ("FrequentValues", "OccurringValues"),
    "missdp.session.strategies": ("STRATEGIES", "Strategy", "strategy_named"),  # public facts
    "missdp.synth": ("Family", "Learned", "Synthesizer"),
    "missdp.synth.fitting": (),
}  # fmt: skip
OF_STATISTICS = {
    "missdp.statistics.row_queries": ("QUANTA", "RowCounts", "RowQuery", "RowSums", "freeze"),
    "missdp.statistics.imputed_rows": ("ImputedCells", "RowView", "Ways"),
    "missdp.session.measurement": ("Measurement", "Radius"),
    "missdp.session.session": ("Reservation", "Session"),
    "missdp.statistics.table_rows": ("EachLevel", "open_table", "smooth_epsilon"),
}  # fmt: skip


def read(paths):
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


FAMILIES = read(p for p in FILES if p.stem not in BEFORE_THE_SESSION | AFTER_RELEASE | TRUSTED)
FAMILIES["the worked example"] = SOURCE
STATISTICS = read(
    path
    for path in Path(statistics.__file__).parent.glob("*.py")
    if path.stem not in ("__init__", *ROW_STATISTICS)
)


def of_session(whose):
    last = whose.split(".")[-1] in ("prepared", "rows", "charged")
    return last or any(word in whose for word in ("session", "tables"))


def offences(source, public):
    """Return the forbidden imports and accesses of a family or a statistic, as lines."""
    found, tree = [], ast.parse(source)
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CH" in ast.dump(n.test)]
    skipped = {id(inner) for node in typing for inner in ast.walk(node)}
    for node in (node for node in ast.walk(tree) if id(node) not in skipped):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module == "missdp":
                found.append("a whole module")
            elif node.module in public:
                found += [a.name for a in node.names if a.name not in public[node.module]]
            elif node.module.startswith(SHUT):
                found.append(node.module)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            found += [ast.unparse(node)] * of_session(ast.unparse(node.value))
    return found


@pytest.mark.parametrize(
    ("files", "public"), [(FAMILIES, OF_FAMILIES), (STATISTICS, OF_STATISTICS)], ids=["f", "s"]
)
def test_they_see_sessions_only(files, public):
    assert len(files) > 5
    assert {name: found for name, text in files.items() if (found := offences(text, public))} == {}


def test_what_changes_synthetic_rows_sees_no_session():
    texts = read(path for path in FILES if path.stem in AFTER_RELEASE)
    assert len(texts) == len(AFTER_RELEASE)
    seen = ("missdp.session", "missdp.synth.base")
    assert [name for name, text in texts.items() if any(word in text for word in seen)] == []


PAST = """
import missdp
import missdp.table
from missdp import Table
from missdp.table import Table
from missdp.sources import MemorySource
from missdp.session import SecureNoise
from missdp.session.noise import NoiseSource
from missdp.statistics.table_rows import Table
from missdp.statistics.table_rows import ChosenRows
from missdp.statistics.imputed_rows import ImputedRows
from missdp.statistics.smooth_sensitivity import SmoothNoise
from missdp.session.exact_counts import ExactCounts
from missdp.synth.base import Table
from missdp.synth.fitting import _open_data
from missdp.synth import base
from missdp.synth.registry import read_document
from missdp.session import session
from missdp.session import CountedRows
from missdp.session import SecureNoise
from missdp.session import *
from missdp.session.session import Release
from . import fitting
session._source.counts([()])
self._session._counts
self.session._rows
self._tables._counts
session._answer(event, law, exact)
"""


@pytest.mark.parametrize("public", [OF_FAMILIES, OF_STATISTICS], ids=["families", "statistics"])
def test_reaching_past_a_session_is_seen(public):
    # No statistic imports a family.
    lines = [line for line in PAST.split("\n") if line]
    lines = [line for line in lines if public is OF_FAMILIES or "missdp.synth" not in line]
    assert [line for line in lines if not offences(line, public)] == []
