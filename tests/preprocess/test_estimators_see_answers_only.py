"""Private estimators import no rows, no door and no noise; of what holds rows, the base class only.

The import contract in pyproject.toml says so of whole modules; this looks at single names.
"""

import ast
from pathlib import Path

import pytest

from missdp.preprocess import estimators

SOURCE = Path(estimators.__file__).read_text(encoding="utf-8")
NAMES = {
    "missdp.preprocess.replace_one": {"PrivateEstimator"},
    "missdp.preprocess.domain": {"FloatArray", "RowDomain", "as_rows", "clip_rows"},
}
SHUT = ("missdp.sources", "missdp.table", "missdp.mechanisms")


def offences(source):
    """Return what an estimator must not import."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level or module in ("missdp", "missdp.preprocess") or module.startswith(SHUT):
                found.append(module or "a whole module")
            if module in NAMES:
                found += [a.name for a in node.names if a.name not in NAMES[module]]
    return found


def test_estimators_see_answers_only():
    assert offences(SOURCE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from missdp.preprocess.replace_one import HeldRows",
        "from missdp.preprocess.replace_one import ReplaceOneDoor",
        "from missdp.preprocess.domain import rows_of",
        "from missdp.preprocess import replace_one",
        "from missdp.mechanisms import SecureNoise",
        "from missdp import Table",
        "from .replace_one import HeldRows",
    ],
)
def test_reaching_for_rows_is_seen(line):
    assert offences(line)
