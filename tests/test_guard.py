"""The guard reports slower and less accurate code, and gives no alarm for noise."""

import io
import json
import re
import sys
import tarfile
from importlib.machinery import PathFinder
from pathlib import Path

import guard
import guard_tables
import numpy as np
import pandas as pd
import pytest
from guard import Cell

SCRIPT = Path(guard.__file__)
LEVEL = {"pairs": 0.02, "slope": 0.9, "sd": 0.06, "missing": 0.003}
SPREAD = {"pairs": 0.03, "slope": 0.02, "sd": 0.13, "missing": 0.2}  # relative, of a single fit
CELLS = [
    Cell("AllPairs", table, state, bins)
    for table in ("adult", "br2000", "yrbss", "hmeq")
    for state in ("complete", "mcar")
    for bins in ("declared", "private")
]
COMMITS = ("one", "two")


def drawn(rng, times=1.0, seeds=10, of=LEVEL):
    """Values of each figure by seed, around a level: errors are so many times as large."""
    found = {}
    for figure, level in of.items():
        noise = 1 + SPREAD[figure] * rng.standard_normal(seeds)
        values = 1 - (1 - level * noise) * times if figure == "slope" else level * noise * times
        found[figure] = dict(enumerate(values))
    return found


def alike(found, times):
    """The same values with the same noise, but so many times as large."""
    return {
        f: {s: v if f == "slope" else v * times for s, v in values.items()}
        for f, values in found.items()
    }


def failures(now, recorded):
    return [(v.name, v.figure) for v in guard.accuracy(now, recorded) if v.failed]


@pytest.fixture
def record():
    rng = np.random.default_rng(1)
    return {cell: {commit: drawn(rng) for commit in COMMITS} for cell in CELLS}


@pytest.mark.long
def test_noise_alone_rarely_fails():
    rng, alarms = np.random.default_rng(0), {"first": 0, "both": 0}
    for _ in range(60):
        recorded = {c: {k: drawn(rng, seeds=20) for k in COMMITS} for c in CELLS}
        now = {c: drawn(rng, seeds=20) for c in CELLS}
        first = (
            {c: _first(f) for c, f in now.items()},
            {c: {k: _first(f) for k, f in known.items()} for c, known in recorded.items()},
        )
        if failures(*first):
            alarms["first"] += 1
            alarms["both"] += bool(failures(now, recorded))
    assert alarms["first"] <= 6  # of 60
    assert alarms["both"] <= 1


def _first(found):
    return {f: {s: v for s, v in values.items() if s < 10} for f, values in found.items()}


def test_equal_results_pass(record):
    now = {cell: record[cell][guard.better(record[cell], "pairs")] for cell in CELLS}
    assert not [v for v in failures(now, record) if v[1] == "pairs"]


@pytest.mark.parametrize(("times", "fails"), [(1.04, False), (1.06, True)])
def test_a_loss_in_one_cell_fails_above_5_per_cent(record, times, fails):
    now = {c: {"pairs": _best(record[c], "pairs")} for c in CELLS}
    now[CELLS[3]] = alike(now[CELLS[3]], times)
    assert failures(now, _only(record, "pairs")) == [(str(CELLS[3]), "pairs")] * fails


@pytest.mark.parametrize(("times", "fails"), [(1.01, False), (1.03, True)])
def test_a_loss_everywhere_fails_above_2_per_cent(record, times, fails):
    now = {c: alike({"pairs": _best(record[c], "pairs")}, times) for c in CELLS}
    means = [(f"AllPairs, {bins} bins, mean of 8", "pairs") for bins in ("declared", "private")]
    assert failures(now, _only(record, "pairs")) == means * fails


def _best(commits, figure):
    return commits[guard.better(commits, figure)][figure]


def _only(record, figure):
    return {c: {k: {figure: f[figure]} for k, f in known.items()} for c, known in record.items()}


@pytest.mark.parametrize(("times", "fails"), [(1.0, False), (1.08, True)])
def test_other_noise_needs_more_loss(times, fails):
    rng = np.random.default_rng(3)
    recorded = {c: {"one": drawn(rng)} for c in CELLS}
    now = {c: drawn(rng, times) for c in CELLS}
    means = [v for v in failures(now, recorded) if v[1] == "pairs" and "mean" in v[0]]
    assert bool(means) == fails


@pytest.mark.parametrize(("slope", "fails"), [(0.87, False), (1.03, False), (0.83, True)])
def test_slopes_fail_if_a_twentieth_is_lost(slope, fails):
    cell, noise = CELLS[0], np.linspace(-0.001, 0.001, 10)
    recorded = {cell: {"one": {"slope": dict(enumerate(0.9 + noise))}}}
    now = {cell: {"slope": dict(enumerate(slope + noise))}}
    assert bool(failures(now, recorded)) == fails


def test_errors_too_small_to_see_do_not_fail():
    cell = CELLS[0]
    recorded = {cell: {"one": {"missing": {s: 1e-5 * (s + 1) for s in range(10)}}}}
    assert not failures({cell: {"missing": {s: 3e-5 * (s + 1) for s in range(10)}}}, recorded)
    assert failures({cell: {"missing": {s: 2e-3 + 1e-5 * s for s in range(10)}}}, recorded)


def test_the_better_commit_counts_by_cell_and_figure():
    rng = np.random.default_rng(5)
    worse, good = drawn(rng, 1.3), drawn(rng)
    one, two = CELLS[:2]
    mixed = {"pairs": good["pairs"], "sd": worse["sd"]}
    other = {"pairs": worse["pairs"], "sd": good["sd"]}
    recorded = {one: {"a": mixed, "b": other}, two: {"a": other, "b": mixed}}
    now = {c: {"pairs": good["pairs"], "sd": good["sd"]} for c in (one, two)}
    against = {(v.name, v.figure): v.against for v in guard.accuracy(now, recorded)}
    assert [against[str(c), f] for c in (one, two) for f in ("pairs", "sd")] == list("abba")


def test_a_figure_that_is_lost_or_has_few_seeds_fails(record):
    cell = CELLS[0]
    without = {f: v for f, v in record[cell]["one"].items() if f != "missing"}
    assert (str(cell), "missing") in failures({cell: without}, record)
    few = {f: {s: v[s] for s in (0, 1)} for f, v in record[cell]["one"].items()}
    assert (str(cell), "pairs") in failures({cell: few}, record)


@pytest.mark.parametrize(
    ("seconds", "memory", "failed"),
    [
        ((1.05, 1.08, 1.02), 1.2, []),
        ((1.0, 1.9, 1.0), 1.0, []),
        ((1.2, 1.15, 1.0), 1.0, ["seconds"]),
        ((1.0, 1.0, 1.0), 1.3, ["memory"]),
    ],
)
def test_slower_or_larger_code_fails_by_its_median(seconds, memory, failed):
    turns = [((5.0 * k, 300.0), (5.0 * k * s, 300.0 * memory)) for k, s in enumerate(seconds, 1)]
    assert [v.figure for v in guard.cost(turns) if v.failed] == failed


def test_what_looks_slower_is_timed_again(monkeypatch):
    now = iter([1.3, 1.3, 1.3, *[1.0] * guard.MORE_TURNS])

    def timed(code, cell, turn):
        return (1.0, 1.0) if code == "then" else (next(now), 1.0)

    monkeypatch.setattr(guard, "timed", timed)
    found = guard.compare_cost("now", "then", CELLS[:1])
    assert [v.failed for v in found] == [False, False]
    assert not list(now)


@pytest.mark.parametrize(("slow", "failed"), [(9, True), (8, False)])
def test_time_that_is_measured_again_fails_by_a_lower_bound_of_the_median(slow, failed):
    # Of eleven turns three or more are below the median with a probability of 97 %.
    assert guard.TURNS + guard.MORE_TURNS == 11
    turns = [((1.0, 1.0), (1.2 if k < slow else 1.0, 1.0)) for k in range(11)]
    seconds, memory = guard.cost(turns)
    assert (seconds.failed, memory.failed) == (failed, False)


# A whole run, with a child that answers at once.


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Exit code and text of the guard, whose children answer with values of a function."""
    rng = np.random.default_rng(11)
    base, asked = {}, []

    def run(values, seconds=lambda code: 5.0, arguments=(), table="yrbss"):
        def child(code, jobs):
            for job in jobs:
                cell = Cell(*(job[k] for k in Cell._fields))
                key = cell, job["seed"]
                if key not in base:
                    base[key] = {f: v[0] for f, v in drawn(rng, seeds=1).items()}
                asked.append((code.hash, *key))
                figures = {
                    f: values(code.hash, cell, f, job["seed"], v) for f, v in base[key].items()
                }
                yield job | {"figures": figures | {"seconds": seconds(code.hash), "peak": 300.0}}

        then = guard.Code(tmp_path, "then")
        monkeypatch.setattr(guard, "child", child)
        monkeypatch.setattr(guard, "code_of", lambda commit, into: then)
        monkeypatch.setattr(guard, "code_in", lambda folder: guard.Code(folder, "now"))
        monkeypatch.setattr(guard, "RECORD", tmp_path / "guard.json")
        common = ["--cache", str(tmp_path / "fits.jsonl"), "--only", "AllPairs", "--tables", table]
        if not guard.RECORD.exists():
            guard.main([*common, "--pin", "abc"])
        return guard.main([*common, *arguments])

    run.asked = asked
    return run


def test_equal_code_passes(run, capsys):
    assert run(lambda code, cell, figure, seed, value: value) == 0
    assert "0 worse" in capsys.readouterr().out


def test_worse_code_fails_and_names_the_cell(run, capsys):
    def values(code, cell, figure, seed, value):
        lost = code == "now" and figure == "pairs" and cell.bins == "declared"
        return value * (1.07 if lost else 1)

    assert run(values) == 1
    worse = [line for line in capsys.readouterr().out.splitlines() if "WORSE" in line]
    assert len(worse) == 3  # both cells and their mean
    assert all("declared" in line and " pairs " in line for line in worse)


def test_bad_luck_is_outvoted_by_new_seeds(run, capsys):
    def values(code, cell, figure, seed, value):
        return value * (1.06 if code == "now" and seed < 10 and figure == "pairs" else 1)

    assert run(values, arguments=["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {s for code, _, s in run.asked if code == "then"} == set(range(20))
    assert not any(v["failed"] for v in found["verdicts"])


def test_slower_code_fails_in_a_run(run, capsys):
    equal = lambda code, cell, figure, seed, value: value  # noqa: E731
    assert run(equal, seconds=lambda code: 5.8 if code == "now" else 5.0) == 1
    assert "seconds" in capsys.readouterr().out
    assert run(equal, seconds=lambda code: 5.8, arguments=["--no-cost"]) == 0


def test_a_killed_run_goes_on_where_it_was(run):
    equal = lambda code, cell, figure, seed, value: value  # noqa: E731
    run(equal, arguments=["--no-cost"])
    once = len(run.asked)
    run(equal, arguments=["--no-cost"])
    assert len(run.asked) == once


def test_an_epsilon_is_compared_with_a_commit_at_once(run, capsys):
    equal = lambda code, cell, figure, seed, value: value  # noqa: E731
    arguments = ["--against", "def", "--epsilon", "0.3", "--no-cost"]
    assert run(equal, arguments=arguments) == 0
    assert "yrbss complete declared 0.3" in capsys.readouterr().out


def test_tables_that_are_absent_are_skipped_with_a_reason(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(guard_tables, "SHARED", tmp_path / "shared")
    with pytest.raises(guard_tables.AbsentError, match="there is no folder"):
        guard_tables.read("hmeq")
    record = tmp_path / "guard.json"
    record.write_text(json.dumps({"cells": {}, "timed_against": {"AllPairs": "abc"}}))
    monkeypatch.setattr(guard, "RECORD", record)
    monkeypatch.setattr(guard, "child", lambda code, jobs: guard_tables.results(jobs))
    monkeypatch.setattr(guard, "code_in", lambda folder: guard.Code(folder, "now"))
    monkeypatch.setattr(guard, "code_of", lambda commit, into: None)
    arguments = ["--only", "AllPairs", "--tables", "hmeq", "--cache", str(tmp_path / "fits")]
    assert guard.main(arguments) == 0
    text = capsys.readouterr().out
    assert "AllPairs hmeq own declared: skipped: hmeq: there is no folder" in text


def test_without_shared_data_other_tables_are_guarded(monkeypatch, tmp_path):
    options = guard.parsed([])
    monkeypatch.setattr(guard, "SHARED", tmp_path)
    assert {c.table for c in guard.cells_of(options)} == {*guard.FULL, "waves", "parity"}
    monkeypatch.setattr(guard, "SHARED", tmp_path / "shared")
    invented = {"waves", "parity"}
    assert {c.table for c in guard.cells_of(options)} == {"yrbss", "generated"} | invented
    short = list(guard.cells_of(guard.parsed(["--short"])))
    assert {c.family for c in short} == set(guard.FAMILIES)
    assert {c.table for c in short} == {"yrbss"} | invented
    assert {c.family for c in short if c.table == "parity"} == {"search"}
    blocks = [c for c in short if c.table == "waves"]
    assert [c.family for c in blocks] == ["AllPairs", "AIM", "MST"]
    assert not {*blocks} & {*guard.timed_cells(short)}


def test_cells_of_waves_are_missing_in_blocks():
    _, private, truth = guard_tables.read("waves", "own")
    missing = private.isna()
    assert truth is private
    for wave, rate in enumerate((0.2, 0.4, 0.5)):
        block = missing[[name for name in missing if name.startswith(f"w{wave}")]]
        assert abs(block.all(axis=1).mean() - rate) < 0.01


def test_code_is_known_by_what_it_runs(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one\n")
    first = guard.code_in(tmp_path).hash
    assert guard.code_in(tmp_path).hash == first
    (tmp_path / "src" / "a.py").write_text("two\n")
    assert guard.code_in(tmp_path).hash != first


def test_a_commit_that_git_lacks_is_no_code(tmp_path):
    assert guard.code_of("no-such-commit", tmp_path) is None


def test_a_commit_is_taken_from_git(monkeypatch, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as files:
        one = tarfile.TarInfo("src/a.py")
        files.addfile(one, io.BytesIO())
    said = {"rev-parse": b"abcdef\n", "archive": packed.getvalue()}
    monkeypatch.setattr(guard, "git", lambda what, *_: said[what])
    assert guard.code_of("a-branch", tmp_path).folder == tmp_path / "abcdef"
    assert (tmp_path / "abcdef" / "src" / "a.py").exists()


def test_a_cache_that_was_cut_off_goes_on(tmp_path):
    names = ("family", "table", "state", "bins", "epsilon", "rows", "seed")
    job = dict.fromkeys(names, 1) | {"code": "now", "version": guard.VERSION, "figures": {}}
    lines = [json.dumps(job | {"numpy": version}) for version in (np.__version__, "1.0")]
    (tmp_path / "fits").write_text("\n".join([*lines, lines[0][:20]]))
    assert len(guard.Fits(tmp_path / "fits").results) == 1


def test_a_cell_that_is_not_recorded_fails(capsys):
    cell = next(iter(guard.cells_of(guard.parsed(["--short"]))))
    assert guard.report([], {}, [cell], {str(cell): {}}, as_json=False) == 0
    assert guard.report([], {}, [cell], {}, as_json=False) == 1
    assert f"{cell}: not recorded" in capsys.readouterr().out


# Figures


@pytest.fixture
def table():
    facts = {
        "sex": {"kind": "categorical", "levels": ["f", "m"]},
        "pay": {"kind": "numeric", "lower": 0, "upper": 10},
        "age": {"kind": "numeric", "lower": 0, "upper": 5, "integer": True},
    }
    pay = np.linspace(0.5, 9.5, 20)
    frame = pd.DataFrame({"sex": ["f", "m"] * 10, "pay": pay, "age": np.arange(20) // 4 * 1.0})
    return facts, frame


@pytest.mark.parametrize("bins", ["declared", "private"])
def test_a_table_has_no_errors_against_itself(table, bins):
    facts, frame = table
    found = guard_tables.figures(facts, frame, frame, None, bins, level=False)
    assert found == pytest.approx({"pairs": 0, "rank": 0, "slope": 1, "sd": 0})


def test_figures_see_what_they_are_for(table):
    facts, frame = table
    turned = frame.assign(pay=frame["pay"].to_numpy()[::-1], sex="f")
    found = guard_tables.figures(facts, frame, turned, None, "declared", level=False)
    assert found["slope"] == pytest.approx(-1, abs=0.01)
    assert found["sd"] == pytest.approx(0)
    # All of one sex: half of each two-way table that has it, and all others are at odds.
    alone = guard_tables.coded(turned, facts, guard_tables.cuts_of(facts, frame, "declared"))
    truth = guard_tables.coded(frame, facts, guard_tables.cuts_of(facts, frame, "declared"))
    assert guard_tables.pair_distance(truth[:1] * 2, alone[:1] * 2, keep=False) == 0.5


def test_missing_cells_count_as_a_level_and_by_their_share(table):
    facts, frame = table
    holed = frame.assign(sex=[None] * 10 + ["f", "m"] * 5)
    cuts = guard_tables.cuts_of(facts, frame, "declared")
    one, two = (guard_tables.coded(f, facts, cuts)[::2] for f in (frame, holed))
    assert guard_tables.pair_distance(one, two, keep=True) == 0.5
    assert guard_tables.missing_error(frame, holed) == pytest.approx(0.5 / 3)


def test_whole_numbers_have_a_bin_each_where_they_are_few(table):
    facts, frame = table
    assert guard_tables.bins_of(facts["age"]) == 6
    codes, size = guard_tables.coded(frame, facts, guard_tables.cuts_of(facts, frame, "declared"))[
        2
    ]
    assert size == 6
    assert codes.tolist() == frame["age"].tolist()


def test_declared_bins_are_those_of_the_schema():
    facts, _, truth = guard_tables.read("yrbss", "complete")
    schema = guard_tables.schema_of(facts, "declared")
    codes = guard_tables.coded(truth, facts, guard_tables.cuts_of(facts, truth, "declared"))
    for (name, fact), (mine, size) in zip(facts.items(), codes, strict=True):
        if fact["kind"] == "numeric":
            assert size == schema[name].size
            ours = schema[name].encode_values(truth[name].to_numpy())
            assert np.mean(np.asarray(ours) == mine) > 0.999  # ends of bins are rounded


# The record


def test_the_record_has_ten_seeds_of_two_commits():
    document = json.loads(guard.RECORD.read_text("utf-8"))
    both = {"95f2562f", "13a1c517"}
    assert both <= document["measured"].keys()
    for known in document["cells"].values():
        for values in known.values():
            assert {len(v) for f, v in values.items() if f != "seconds"} == {guard.SEEDS}
    everywhere = guard.parsed(["--tables", *guard.ANYWHERE])
    for cell in [*guard.cells_of(guard.parsed(["--short"])), *guard.cells_of(everywhere)]:
        newer = cell.family in ("search", "estimate") or cell.table == "waves"
        if newer:  # than these commits
            assert document["cells"][str(cell)]
        else:
            assert both <= document["cells"][str(cell)].keys(), cell
    assert document["timed_against"].keys() == set(guard.FAMILIES) - {"search"}
    # A clone may lack such a commit. The guard says so, and compares no times then.
    assert all(re.fullmatch("[0-9a-f]{8}", c) for c in document["timed_against"].values())


@pytest.mark.slow
def test_a_noisier_family_fails(monkeypatch, tmp_path):
    whole = guard_tables.model_of
    monkeypatch.setattr(guard_tables, "model_of", lambda f, epsilon, s: whole(f, epsilon / 3, s))
    monkeypatch.setattr(guard, "child", lambda code, jobs: guard_tables.results(jobs))
    monkeypatch.setattr(guard, "code_of", lambda commit, into: None)
    arguments = ["--only", "PrivBayes", "--tables", "generated", "--no-cost"]
    assert guard.main([*arguments, "--cache", str(tmp_path / "fits")]) == 1


def test_no_script_hides_a_package():
    """The tests put ``bench/`` first on the path: ``coverage.py`` there once hid a package."""
    elsewhere = [p for p in sys.path if Path(p).name not in ("bench", "tests")]
    hidden = [p.stem for p in SCRIPT.parent.glob("*.py") if PathFinder.find_spec(p.stem, elsewhere)]
    assert not hidden
