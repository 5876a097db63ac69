"""What follows from a strategy is asked of it: nothing compares its name."""

import ast
from pathlib import Path

import pytest

import missdp
from missdp import AIM, MST, PrivBayes
from missdp.sources import STRATEGIES

ROOT = Path(missdp.__file__).parent
# "observed" is also which rows a source counts, and a word of the evaluation.
NAMES = set(STRATEGIES) - {"observed"}


def compared(source):
    """Return the names of strategies that a text compares something with."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
            found += [text for text in texts if text in NAMES]
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
            found += [node.value.value] if node.value.value in NAMES else []
    return found


def test_no_module_compares_the_name_of_a_strategy():
    assert [path.name for path in ROOT.rglob("*.py") if compared(path.read_text("utf-8"))] == []
    assert compared("x = strategy.name == 'joint'")
    assert compared("x = missing in ('complete-rows', 'other')")


@pytest.mark.parametrize("family", [AIM, MST, PrivBayes])
def test_the_default_is_the_first_strategy_of_a_family(family):
    model = family(epsilon=1.0, delta=1e-6)
    assert model.missing == family.strategies[0]
    assert set(family.strategies) <= set(STRATEGIES)
