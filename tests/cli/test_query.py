"""``missdp query``."""

import errno
import json
import tempfile
import tracemalloc
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from missdp import Budget, Categorical, Numeric, Ordinal, Schema, Table, shelf
from missdp.accounting import Guarantee
from missdp.cli.main import main
from missdp.datasets import yrbss
from missdp.schema import NotApplicable, Order
from missdp.statistics import Estimate, ImputedStatistics, run_query, statistics
from missdp.table import FileRows
from missdp.table.encode import Column, code_dtype

COMMAND = import_module("missdp.cli.query")

FIXED = "--impute strength_training_7d --match age,gender,grade --epsilon 2 --tie-breaks 2"
MEAN = ("--mean", "strength_training_7d")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Ask about every fourth respondent: reading all of them takes most of the time."""
    path = tmp_path_factory.mktemp("yrbss") / "few.parquet"
    rows = pq.read_table(yrbss().path)
    pq.write_table(rows.take(np.arange(0, rows.num_rows, 4)), path)
    return ("query", str(path), "--schema", str(yrbss().schema_path), *FIXED.split())


@pytest.mark.parametrize("kind", ["noise", "worst-case"])
def test_a_mean_with_an_error_bar_and_a_guarantee(ok, kind, few):
    more = ("--where", "age >= 15 and age < 17", "--uncertainty", kind)
    answer = json.loads(ok(*few, *MEAN, *more, "--json"))
    assert Estimate.from_dict(answer).to_dict().items() <= answer.items()
    low, high = answer["interval"]
    assert 0 <= low <= answer["value"] <= high <= 7
    assert 2.3 < answer["value"] < 3.5
    assert answer["guarantee"]["epsilon"] == pytest.approx(2.0)
    if kind == "worst-case":
        low, high = answer["imputation_interval"]
        assert low <= answer["value"] <= high
        assert high - low > 0.3  # some 9 % of the answers are missing, and an answer is 0 to 7


QUESTIONS = [
    ("--count", "--where", "strength_training_7d >= 3"),
    ("--proportion", "strength_training_7d >= 3"),
    ("--sum", "strength_training_7d"),
    ("--variance", "strength_training_7d"),
    ("--standard-deviation", "strength_training_7d"),
    ("--correlation", "strength_training_7d,physically_active_7d"),
    ("--histogram", "strength_training_7d"),
    (*MEAN, "--no-error-bar"),
    (*MEAN, "--uncertainty", "worst-case"),
]


FACTS = Schema(
    (
        Ordinal(name="age", levels=(20, 40, 60), nullable=True, not_applicable=(-1,),
                unknown=(-8,)),
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        Numeric(name="hours", lower=0, upper=80, nullable=True, refused=(-7,)),
        Numeric(name="pay", lower=0, upper=10, nullable=True, not_applicable=("none",)),
    ),
    (NotApplicable("hours", unless="work = 'yes'"),),
)  # fmt: skip


@pytest.fixture(name="ruled")
def _ruled(tmp_path):
    def made(rows):
        lines = [",".join(map(str, row)) for row in rows]
        FACTS.to_toml(tmp_path / "facts.toml")
        (tmp_path / "rows.csv").write_text("\n".join(["age,work,hours,pay", *lines]))
        return (
            "query", tmp_path / "rows.csv", "--schema", tmp_path / "facts.toml",
            "--impute", "hours", "--match", "age", "--epsilon", "10", "--tie-breaks", "2",
        )  # fmt: skip

    return made


ROWS = [
    *[(20, "yes", 30, 5), (20, "yes", -7, 5), (-1, "no", 9, "none"), (40, "R", "", "none")] * 200,
    *[(-1, "yes", 30, 5), (-8, "yes", "", "none"), (-8, "yes", 30, 5)] * 200,
]


def test_nothing_is_promised_about_rows_that_may_not_be_there(ok, ruled):
    """One time in twenty noise looks as if there were rows: seven times hardly ever."""
    for question in (("--mean", "hours"), ("--proportion", "hours > 3"), ("--variance", "hours")):
        told = (ok(*ruled([]), *question, "--epsilon", "1") for _ in range(7))
        said = "Even whether there are such rows at all cannot be told"
        assert any(said in out and "half as wide" not in out for out in told)


def test_brackets_say_which_of_two_things_they_are(run, ruled, tmp_path):
    """Groups have intervals of noise alone, everybody one of the population's value."""
    ask, mean = ruled(ROWS), 'statistic = "mean"\nof = "hours"\n'
    (tmp_path / "q.toml").write_text(f'[[question]]\n{mean}[[question]]\n{mean}by = "work"\n')
    whole = run(*ask, "--mean", "hours")[1]
    groups = run(*ask, "--mean", "hours", "--by", "work")[1]
    both = run(*ask, "--questions", tmp_path / "q.toml")[1]
    assert "Of epsilon" in both
    assert "noise alone" not in whole
    assert "mean(hours, by work)  [noise alone]" in groups
    assert both.count("noise alone") == 1
    assert run(*ask, "--questions", tmp_path / "q.toml", "--uncertainty", "total")[0] == 2


RULED = [
    ("--count", "--where", "pay > 3"),
    ("--proportion", "hours >= 3 or pay > 2", "--uncertainty", "worst-case"),
    ("--sum", "hours"),
    ("--variance", "hours", "--where", "pay > 3"),
    ("--standard-deviation", "pay"),
    ("--correlation", "hours,pay"),
    ("--histogram", "age"),
    ("--mean", "hours", "--group", "work", "--k", "3"),
    ("--mean", "hours", "--match", "pay"),
    ("--mean", "pay", "--impute", "hours,pay"),
]


@pytest.mark.parametrize("rows", [[(-1, "no", "", "none")] * 30, [(-8, "R", -7, "")] * 30])
def test_questions_about_nobody_are_answered(ok, ruled, rows):
    for question in RULED[::2]:
        assert "differentially private" in ok(*ruled(rows), *question, quiet=True)


@pytest.fixture(name="held")
def _held(monkeypatch):
    """Answer each question of the rows that were read, and of all of them, with the same draws."""
    seeded = partial(ImputedStatistics, random_state=1)
    monkeypatch.setattr(statistics, "ImputedStatistics", seeded)
    answer, held = COMMAND.run_queries, []

    def both(rows, request, *, budget, undeclared, data, schema):
        whole = Table.read(data, Schema.from_toml(schema))
        lean = answer(rows, request, budget=budget, undeclared=undeclared)
        full = answer(whole, request, budget=type(budget)(99.0), undeclared=undeclared)
        assert [a.to_dict() for a in lean] == [a.to_dict() for a in full]
        held.append({n: rows.column(n).values is not None for n in rows.schema.names})
        return lean

    def use(ask):
        monkeypatch.setattr(COMMAND, "run_queries", partial(both, data=ask[1], schema=ask[3]))
        return held

    return use


@pytest.mark.parametrize("question", [*QUESTIONS, (*MEAN, "--where", "physically_active_7d > 2")])
def test_only_what_a_question_reads_is_held_and_answers_stay_the_same(ok, held, question, few):
    found = held(few)
    out = ok(*few, *question, quiet=True)
    assert "differentially private" in out
    lines = [line for line in out.splitlines() if line.startswith("No noise interval: ")]
    assert len(lines) == ("--no-error-bar" in question)
    assert all(line.endswith("tells it (ScaleRelease(), or --error-bar).") for line in lines)
    active = any("physically" in word for word in question)
    matched = {"age": False, "gender": False, "grade": False}  # matched by bins, without values
    also = {"physically_active_7d": True} if active else {}
    assert found == [{**matched, "strength_training_7d": True, **also}]


@pytest.mark.parametrize("question", RULED)
def test_what_rules_read_is_held_too(ok, held, ruled, question):
    ask = ruled(ROWS)
    held(ask)
    ok(*ask, *question, quiet=True)


def test_a_cell_that_does_not_fit_is_refused_also_where_no_question_reads_it(run, ruled):
    ask = ruled([*ROWS, (20, "perhaps", 30, 5)])
    code, out, err = run(*ask, "--impute", "pay", "--mean", "pay")
    assert (code, out) == (3, "")
    assert "'work'" in err
    assert "perhaps" not in err


def test_a_column_that_no_question_reads_must_be_there_all_the_same(run, ruled):
    ask = ruled(ROWS)
    text = ask[1].read_text().replace("work", "labour", 1)
    ask[1].write_text(text)
    code, out, err = run(*ask, "--impute", "pay", "--mean", "pay")
    assert (code, out) == (3, "")
    assert "work" in err


@pytest.mark.parametrize(
    "question",
    [
        ("--proportion", "hours > 3", "--group", "labour"),
        ("--count", "--group", "labour"),
        ("--match", "labour", "--mean", "hours"),
        ("--histogram", "labour"),
        ("--match", " , ", "--impute", "", "--count"),
        ("--match", "", "--count"),
        ("--match", "", "--group", "`age", "--count"),
        ("--mean", "pay", "--where", "labour > 3"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_as_if_all_were_read(
    run, monkeypatch, ruled, question
):
    ask = ruled(ROWS)
    lean = run(*ask, *question)
    monkeypatch.setattr(COMMAND, "_read", lambda rows, facts, _: Table.read(rows, facts))
    assert lean == run(*ask, *question)
    assert lean[0] in {2, 3}


def test_rules_that_are_accepted_are_not_refused_by_a_question_about_some(run, tmp_path):
    """Of very many rules the last are not looked at: there, p is never at most q."""
    bounds = {f"{side}{k}": (0, 480) for k in range(17) for side in "ab"}
    bounds |= {"u": (0, 249), "v": (0, 249), "p": (300, 400), "q": (0, 200)}
    pairs = [*((f"a{k}", f"b{k}") for k in range(17)), ("u", "v"), ("p", "q")]
    facts = Schema(
        tuple(
            Numeric(name=name, lower=low, upper=high, integer=True, bins=2, nullable=True)
            for name, (low, high) in bounds.items()
        ),
        tuple(Order(f"{one} <= {two}") for one, two in pairs),
    )
    facts.to_toml(tmp_path / "facts.toml")
    (tmp_path / "rows.csv").write_text(",".join(bounds) + "\n" + "," * (len(bounds) - 1) + "\n")
    code, _, err = run("query", tmp_path / "rows.csv", "--schema", tmp_path / "facts.toml",
        "--impute", "p", "--match", "q", "--count", "--epsilon", "1",
    )  # fmt: skip
    assert (code, err) == (0, "")


def test_names_with_commas_stand_in_backticks(run, ok, tmp_path):
    facts = Schema(
        (
            Numeric(name="height, cm", lower=100, upper=220, nullable=True),
            Numeric(name="a,b", lower=0, upper=9, nullable=True),
            Ordinal(name="grade", levels=(1, 2), nullable=True),
        )
    )
    facts.to_toml(tmp_path / "facts.toml")
    rows = "".join(f"{170 + k % 9},{k % 10},{k % 2 + 1}\n" for k in range(500))
    (tmp_path / "rows.csv").write_text('"height, cm","a,b",grade\n' + rows + ",,\n")
    ask = (
        "query", tmp_path / "rows.csv", "--schema", tmp_path / "facts.toml", "--epsilon", "5",
        "--impute", "`height, cm`, `a,b`",
    )  # fmt: skip
    out = ok(*ask, "--match", "grade", "--mean", "`height, cm`", "--json", quiet=True)
    assert 165 < json.loads(out)["value"] < 185
    ok(*ask, "--match", "grade", "--correlation", "`height, cm`,`a,b`", quiet=True)
    for odd in ("`grade", "grade`", "`grade` x", "a`b"):
        code, out, err = run(*ask, "--match", odd, "--count")
        assert (code, out) == (2, "")
        assert "backticks" in err


# -- the limit of memory -------------------------------------------------------------------------
@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setattr(statistics, "ImputedStatistics", partial(ImputedStatistics, random_state=1))


@pytest.fixture
def on_disk(monkeypatch):
    """Count the arrays that are put on disk, however short."""
    kept, reserve = [], shelf._reserve
    monkeypatch.setattr(shelf, "_LEAST", 1)
    monkeypatch.setattr(shelf, "_reserve", lambda file, size: kept.append(reserve(file, size)))
    return kept


@pytest.mark.parametrize("question", [QUESTIONS[k] for k in (0, 5, 8)])
def test_rows_that_do_not_fit_are_kept_on_disk_and_nobody_can_tell(
    run, monkeypatch, seeded, on_disk, question, few
):
    monkeypatch.setattr(FileRows, "about", lambda rows: 1_000)
    held = run(*few, *question, "--k", "3", "--memory", "1GB")
    assert (held[0], on_disk) == (0, [])
    for about in (10_000_000, None):  # unknown: as many as there may be
        on_disk.clear()
        monkeypatch.setattr(FileRows, "about", lambda rows, about=about: about)
        assert run(*few, *question, "--k", "3", "--memory", "1GB") == held
        assert len(on_disk) > 10
    on_disk.clear()
    monkeypatch.setattr(FileRows, "about", lambda rows: 10_000_000)
    assert run(*few, *question, "--k", "3", "--memory", "99GB") == held
    assert on_disk == []


@pytest.mark.parametrize("question", RULED[1::4])
def test_so_are_rows_that_follow_rules(run, monkeypatch, seeded, on_disk, ruled, question):
    ask = ruled(ROWS)
    held = run(*ask, *question)
    assert on_disk == []
    monkeypatch.setattr(FileRows, "about", lambda rows: 10**12)
    assert run(*ask, *question) == held
    assert len(on_disk) > 10


@pytest.mark.parametrize("taken", [0, 1, 9])
def test_a_full_disk_is_told_and_so_is_what_counts_as_charged(run, monkeypatch, taken, few):
    kept = []

    def full(*_):
        kept.append(1)
        if len(kept) > taken:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shelf, "_LEAST", 1)
    monkeypatch.setattr(shelf.tempfile, "TemporaryFile", partial(reserved, full))
    monkeypatch.setattr(FileRows, "about", lambda rows: 10**12)
    code, out, err = run(*few, *MEAN)
    assert (code, out) == (5, "")
    assert err.startswith("missdp: cannot write a temporary file: No space left on device")
    # Nothing was charged while the table was read.
    assert ("epsilon = 2 counts as charged" in err) == (taken == 9)


def reserved(refuse, *, opened=tempfile.TemporaryFile, **more):
    refuse()
    return opened(**more)


def made_up(rows):
    """Rows of which nearly all lack what is filled: nothing takes more memory."""
    rng, columns = np.random.default_rng(0), {}
    for a in (facts := yrbss().table().schema):
        codes = rng.integers(0, a.size, rows).astype(code_dtype(a))
        if "strength" in a.name or "physically" in a.name:
            codes[rng.random(rows) < 0.95] = a.size
        columns[a.name] = Column(codes, np.zeros(rows) if isinstance(a, Numeric) else None)
    return Table(facts, columns)


# What is looked at in one go takes the same however many rows there are.
BLOCKS = (
    "mechanisms.questions.PART_ROWS", "mechanisms.row_door.PART_ROWS",
    "statistics.donors._ROWS", "statistics.imputation._AT_ONCE",
)  # fmt: skip


# Many sums, of many donors; the worst case.
@pytest.mark.parametrize(("question", "k"), [(QUESTIONS[5], 10), (QUESTIONS[8], 1)])
def test_no_row_takes_more_memory_than_is_reckoned(monkeypatch, question, k, few):
    asked = []

    def answered(rows, requests, **_):
        asked.extend(requests)
        words = {"to_dict": dict, "in_words": lambda **_: ""}
        return [SimpleNamespace(**words, guarantee=Guarantee.from_events([]))]

    monkeypatch.setattr(COMMAND, "run_queries", answered)
    monkeypatch.setattr(COMMAND, "_read", lambda *_: None)
    for name in BLOCKS:
        monkeypatch.setattr(f"missdp.{name}", 1_000)
    both = ("--impute", "strength_training_7d,physically_active_7d", "--match", "grade")
    assert main([str(a) for a in (*few, *question, *both, "--k", k)]) == 0
    peaks = []
    for rows in (1_000, 4_000):
        table = made_up(rows)
        tracemalloc.start()
        run_query(table, asked[0], budget=Budget(9.0))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 3_000 < COMMAND._row_bytes(asked[0])
