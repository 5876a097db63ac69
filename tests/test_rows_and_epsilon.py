"""docs/epsilon-and-rows.md says what was measured, and the measurement runs."""

import json
from pathlib import Path

import pytest
from rows_and_epsilon import EPSILONS, FAMILIES, RESULTS, ROWS, main, mean_of, short, tables

PAGE = (Path(__file__).parents[1] / "docs" / "epsilon-and-rows.md").read_text(encoding="utf-8")
FOUND = json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_tables_of_the_page_are_what_was_measured():
    for text in tables(FOUND):
        assert text in PAGE


def test_what_the_page_says_of_the_numbers_is_so():
    plain = FOUND["without privacy"]
    assert f"{plain['independent']['2-way']:.3f}"[1:] in PAGE
    assert f"{plain['all levels alike']['2-way']:.3f}"[1:] in PAGE
    for rows in ROWS:
        for epsilon in EPSILONS:
            two = {f: mean_of(FOUND, rows, f"{epsilon:g} {f}", "2-way") for f in FAMILIES}
            closest = min(two, key=two.get)
            if rows * epsilon >= 3_000:
                assert closest == "all-pairs"
            if rows * epsilon >= 300:
                assert two["all-pairs"] < 7 / 6 * two[closest]
            else:
                assert closest in ("margins", "mst")
            if two[closest] < plain["independent"]["2-way"]:
                assert rows * epsilon >= 3_000
            if rows * epsilon >= 10_000 or rows == 30_000:
                assert two[closest] < plain["independent"]["2-way"]
            if rows * epsilon <= 10:
                assert two[closest] > plain["all levels alike"]["2-way"]


@pytest.mark.filterwarnings("ignore")
def test_the_short_setting_runs():
    found = short()
    assert {"100 0 1 aim", "1000 0 1 query", "without privacy"} <= found.keys()
    assert found["1000 0 1 margins"]["1-way"] < found["100 0 1 margins"]["1-way"]


def test_it_prints_the_tables(capsys):
    main(["--tables"])
    assert capsys.readouterr().out.strip() == "\n\n".join(tables(FOUND))
