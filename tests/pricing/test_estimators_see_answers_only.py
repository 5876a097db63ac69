"""Private estimators import no rows, no door and no noise, and reach for nothing behind an answer.

The import contract in pyproject.toml says so of whole modules; this looks at single names.
"""

import ast
from pathlib import Path

import pytest

from missdp.pricing import estimators

SOURCE = Path(estimators.__file__).read_text(encoding="utf-8")
NAMES = {
    "missdp.pricing.replace_one": {"PrivateEstimator"},
    "missdp.pricing.domain": {
        *("FloatArray", "RowDomain", "as_rows", "check_fillable", "clip_rows"),
        *("count", "one_of", "real"),
    },
    "missdp.pricing.questions": {
        *("GradientSteps", "Loss", "NoiseKind", "Question", "SecretStop", "VectorQuery"),
    },
}
SHUT = ("missdp.sources", "missdp.table", "missdp.mechanisms")


def offences(source):
    """Return what an estimator must not do, as lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level or module in ("missdp", "missdp.pricing") or module.startswith(SHUT):
                found.append(module or "a whole module")
            if module in NAMES:
                found += [a.name for a in node.names if a.name not in NAMES[module]]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = ast.unparse(node.value) in ("self", "super()")
            found += [] if own else [ast.unparse(node)]
    return found


def test_estimators_see_answers_only():
    assert offences(SOURCE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from missdp.pricing.replace_one import PreparedRows",
        "from missdp.pricing.replace_one import ReplaceOneDoor",
        "from missdp.pricing.domain import rows_of",
        "from missdp.pricing import replace_one",
        "from missdp.mechanisms import SecureNoise",
        "from missdp import Table",
        "from .replace_one import PreparedRows",
        "from missdp.pricing.questions import row_gradients",
        "answer._gradients()",
        "import_ = question.x._y",
    ],
)
def test_reaching_for_rows_is_seen(line):
    assert offences(line)
