"""Every text that the package raises or warns with is short, plain, and made of public facts."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "missdp"
sys.path.insert(0, str(ROOT / ".ci"))
try:
    import readability
finally:
    sys.path.pop(0)

MAX_CHARACTERS = 420  # of all constant parts of one message
# Packages whose functions hold private cells while they run.
PRIVATE = ("table", "sources", "engines", "session", "statistics", "pricing", "codebooks")
# Names that hold cells, codes, counts or rows there. A message never shows one.
CELLS = {
    "cell", "cells", "value", "values", "row", "rows", "codes", "column_values", "counts", "count",
    "exact", "totals", "record", "records", "batch", "chunk", "array", "data", "table", "frame",
    "private", "line", "lines", "text", "texts",
}  # fmt: skip
# Interpolations with such a name that were read one by one, and why they are public.
PUBLIC = {
    ("table/frames.py", "lines"): "names of columns that the schema does not declare",
    ("table/decode.py", "values"): "an option of the caller",
    ("table/read_files.py", "line"): "the number of a line that is not in the declared encoding",
    ("engines/databases.py", "table"): "the name of a table in a database",
    ("codebooks/book.py", "value.code"): "a code book is public",
    ("codebooks/redcap.py", "line[_NAME]"): "a code book is public",
    ("session/mechanisms.py", "array.dtype"): "a data type",
}


class Text(NamedTuple):
    """The constant parts of a message, and the expressions between them."""

    place: str
    constant: str
    shown: list[str]


def messages() -> Iterator[Text]:
    """Yield the texts of all errors and warnings of the package."""
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if name == "warn" or name.endswith(("Error", "Warning")):
                for argument in node.args[:1]:
                    parts = list(ast.walk(argument))
                    constant = "".join(
                        n.value
                        for n in parts
                        if isinstance(n, ast.Constant) and isinstance(n.value, str)
                    )
                    shown = [
                        ast.unparse(n.value) for n in parts if isinstance(n, ast.FormattedValue)
                    ]
                    if constant or shown:
                        place = f"{path.relative_to(SRC)}:{node.lineno}"
                        yield Text(place, constant, shown)


TEXTS = [*messages()]


def test_most_texts_of_the_package_are_collected():
    assert len(TEXTS) > 500


def test_messages_are_short_and_plain():
    problems = []
    for text in TEXTS:
        if len(text.constant) > MAX_CHARACTERS:
            problems.append((text.place, "is too long"))
        for sentence in readability.sentences([(1, text.constant)]):
            problems += [(text.place, problem) for problem in readability.problems_of(sentence)]
    assert problems == []


def names_in(expression: str) -> set[str]:
    """Return the variables that an expression shows."""
    return {n.id for n in ast.walk(ast.parse(expression, mode="eval")) if isinstance(n, ast.Name)}


def test_every_exception_to_the_rule_is_in_use():
    shown = {(text.place.partition(":")[0], e) for text in TEXTS for e in text.shown}
    assert set(PUBLIC) <= shown


@pytest.mark.parametrize(("shown", "found"), [("cell", True), ("row[0]", True), ("name", False)])
def test_rule_finds_variables_that_hold_cells(shown, found):
    assert bool(names_in(shown) & CELLS) == found


@pytest.mark.parametrize("package", PRIVATE)
def test_messages_show_no_variable_that_may_hold_cells(package):
    shown = {
        (text.place.partition(":")[0], expression)
        for text in TEXTS
        if text.place.startswith(f"{package}/")
        for expression in text.shown
        if names_in(expression) & CELLS and not expression.startswith("type(")
    }
    assert shown - set(PUBLIC) == set()
