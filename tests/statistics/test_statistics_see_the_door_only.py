"""The statistics import no rows and no noise, and reach for nothing behind the door.

The import contract in pyproject.toml says so of whole modules; this looks at single lines.
"""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import missdp.statistics

SOURCES = {
    path.name: path.read_text(encoding="utf-8")
    for path in Path(missdp.statistics.__file__).parent.glob("*.py")
}
OPEN = {f"missdp.mechanisms.{name}" for name in ("questions", "row_door", "smooth")}
SHUT = ("missdp.sources", "missdp.table", "missdp.mechanisms")


def offences(source):
    """Return what a statistic must not do, as lines."""
    found, tree = [], ast.parse(source)
    typing = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
    ]
    skipped = {id(inner) for node in typing for inner in ast.walk(node)}
    for node in (node for node in ast.walk(tree) if id(node) not in skipped):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == "missdp":
                found.append("from missdp")
            if node.module.startswith(SHUT) and node.module not in OPEN:
                found.append(node.module)
            if node.module in OPEN:
                public = import_module(node.module).__all__
                found += [a.name for a in node.names if a.name not in public]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            whose = ast.unparse(node.value).split(".")[-1]
            found += [ast.unparse(node)] * (whose in ("door", "prepared", "rows", "charged"))
    return found


def test_a_statistic_sees_the_door_only():
    assert {name: offences(source) for name, source in SOURCES.items() if offences(source)} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import missdp.table",
        "from missdp import Table",
        "from missdp.table import Table",
        "from missdp.mechanisms import SecureNoise",
        "from missdp.mechanisms.noise import noise_source",
        "from missdp.mechanisms.row_door import Table",
        "from missdp.mechanisms.row_door import PrivateRows",
        "from missdp.mechanisms.smooth import SmoothNoise",
        "self.door._rows",
        "door._answer(event, law, exact)",
    ],
)
def test_reaching_past_the_door_is_seen(line):
    assert offences(line)
