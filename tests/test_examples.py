"""Examples of docstrings work when they are pasted into an empty interpreter."""

import ast
import builtins
import doctest
import importlib
import pkgutil

import pytest

import missdp

FOR_EXTRAS = ("torch", "pyspark", "starlette", "opacus", "sqlalchemy")


def unbound(examples):
    """Names that examples use, and neither import nor define."""
    nodes = [*ast.walk(ast.parse("".join(example.source for example in examples)))]
    bound, used = {*dir(builtins)}, set()
    for node in nodes:
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return used - bound


def packages():
    found = {info.name.split(".")[1] for info in pkgutil.walk_packages(missdp.__path__, "missdp.")}
    return sorted(found - {"__main__"})


def modules(package):
    """Modules of a package that need no extra which is absent."""
    root = f"missdp.{package}"
    yield root
    path = getattr(importlib.import_module(root), "__path__", [])
    yield from (info.name for info in pkgutil.walk_packages(path, f"{root}."))


def test_unbound_names_are_found():
    (test,) = doctest.DocTestFinder().find(
        type("T", (), {"__doc__": ">>> import math\n>>> x = math.pi\n>>> f(x)"}), "T", module=False
    )
    assert unbound(test.examples) == {"f"}


@pytest.mark.parametrize("package", packages())
def test_examples_import_what_they_use(package):
    finder, incomplete = doctest.DocTestFinder(exclude_empty=True), {}
    for name in modules(package):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert error.name.partition(".")[0] in FOR_EXTRAS  # noqa: PT017
            continue
        for test in finder.find(module, name):
            if test.examples and (names := unbound(test.examples)):
                incomplete[test.name] = sorted(names)
    assert incomplete == {}
