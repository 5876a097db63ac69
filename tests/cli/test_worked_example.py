"""The table printed on docs/worked-example.md is one that its commands print, to within noise."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "worked-example.md").read_text(encoding="utf-8")
(PRINTED,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
# What the patients were made up with, for women and men.
TRUTH = {
    "smokes, %": (25, 25),
    "cigarettes a day, of smokers": (15.5, 15.5),
    "height, cm": (166, 179),
    "weight, kg": (67.4, 79.1),
}


def test_the_rows_are_those_of_the_code():
    code = re.findall(r'^\.\.\.     "(.*?)": lambda t:', PAGE, re.MULTILINE)
    shown = [line.split("  ")[0] for line in PRINTED.splitlines()[1:]]
    assert code == list(TRUTH)
    assert [line[: len(name)] for line, name in zip(shown, TRUTH, strict=True)] == list(TRUTH)


@pytest.mark.parametrize(("name", "truth"), TRUTH.items())
def test_the_numbers_are_near_the_truth_and_inside_their_intervals(name, truth):
    (line,) = (part for part in PRINTED.splitlines() if part.startswith(name))
    cells = re.findall(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", line)
    for (estimate, low, high), true in zip(cells, truth, strict=True):
        assert float(low) <= float(estimate) <= float(high)
        assert abs(float(estimate) - true) < 0.05 * true
