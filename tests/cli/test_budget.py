"""Commands that charge a ledger: first, once, and found again whatever kills them."""

import json
import shlex
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from missdp import AIM, AllPairs, PrivBayes, Schema, load
from missdp.accounting import Filter, Guarantee, MissingCompletelyAtRandom, PureEvent
from missdp.cli.charges import _Charged
from missdp.cli.main import main
from missdp.cli.release_files import Release
from missdp.errors import BudgetExceededError, DataError, LedgerError, ParameterError, SchemaError
from missdp.office import Ledger, Purpose, ledger
from missdp.schema import Categorical, Unit
from missdp.session import CountedRows, SecureNoise, Session
from missdp.sources import MemorySource, strategy_named
from missdp.statistics import open_table
from missdp.synth.base import Synthesizer
from missdp.table import Table
from missdp.table.read_files import DataFile

URL = "sqlite:///budget.db"
ID = "0123456789abcdef" * 2
FIT = "synthesize data.csv --schema schema.toml -o out.csv --method privbayes --epsilon 1 --delta 0"
ASK = "--schema schema.toml --impute age --match größe --mean age --epsilon 0.25"
QUERY = f"query data.csv {ASK}"
PAID = f"--budget {URL}#patients-2026"
VERIFY = f"budget verify --budget {URL} --head"
READING = ("_readable", "approximate_length")


@pytest.fixture
def office(folder):
    made = Ledger(URL, who="head")
    made.create("patients-2026", epsilon=3.0)
    return made


def spent(office):
    return office.row("patients-2026").spent


def states(office, name=""):
    return [line["state"] for line in office.history(name)]


def read_when(office, monkeypatch):
    """Note what the ledger holds whenever a file is read."""
    seen = []

    def watched(real):
        def read(self, *given):
            seen.append(states(office))
            return real(self, *given)

        return read

    for name in READING:
        monkeypatch.setattr(DataFile, name, watched(getattr(DataFile, name)))
    return seen


def test_a_request_stands_for_the_rows_that_it_names(told, ok, fails, office):
    with duckdb.connect("data.duckdb") as database:
        database.execute("CREATE TABLE answers AS FROM read_csv('data.csv', all_varchar=true)")
    asked, paid = f"query data.duckdb {ASK}", f"--budget {URL}#patients-2026"
    chosen = "--select 'SELECT * FROM answers'"
    again = f"{paid} --request {told(f'budget request {asked} {chosen} {paid}')['request']}"
    for other in ("--select 'SELECT * FROM answers LIMIT 9'", "--table answers"):
        fails(2, "for something else", f"{asked} {other} {again}")
    assert spent(office) == 0
    ok(f"{asked} {chosen} {again}")


def test_a_release_says_which_line_paid_for_it_and_the_line_what_was_released(ok, fails, office):
    out = ok(f"{FIT} --guarantee g.json {PAID} --purpose report --ticket T-7")
    note = json.loads(Path("out.release.json").read_text())
    assert note["ledger"]["head"] in out
    assert note["ledger"]["request"] == note["release"]
    started, released = office.history()[1:]
    assert (started["state"], started["purpose"], started["ticket"]) == ("started", "report", "T-7")
    assert (released["state"], released["request"]) == ("released", note["release"])
    assert office.verify(note["ledger"]["head"])["patients-2026"][0] == 3
    assert spent(office) == 1
    assert Guarantee.from_json(Path("g.json").read_text()).epsilon == 1
    assert json.loads(Path("g.json").read_text())["ledger"] == note["ledger"]
    office.export_lines("lines.jsonl")
    heads = ("out.release.json", "g.json", "lines.jsonl")
    ok(f"{VERIFY} {' --head '.join(heads)}")
    old = Ledger("sqlite:///old.db")
    Path("old.jsonl").write_text(Path("lines.jsonl").read_text().splitlines(keepends=True)[0])
    old.import_lines("old.jsonl")
    for head in heads:
        fails(9, "was cut or restored", f"budget verify --budget sqlite:///old.db --head {head}")
    Path("out.release.json").write_text(json.dumps(note))  # written otherwise
    fails(9, "was changed", f"{VERIFY} out.release.json")
    Path("out.release.json").write_text(json.dumps({**note, "release": "f" * 32}))
    fails(9, "lacks the release", f"{VERIFY} out.release.json")


def test_a_query_is_charged_once_and_a_retry_shows_the_saved_answer(
    ok, told, fails, office, monkeypatch
):
    monkeypatch.setenv("MISSDP_BUDGET", f"{URL}#patients-2026")
    asked = f"{QUERY} --request {ID}"
    found = told(asked)
    assert found["ledger"]["request"] == ID
    Path("answer.json").write_text(json.dumps(found))
    ok(f"{VERIFY} answer.json")
    Path("answer.json").write_text(json.dumps({**found, "value": 5.0}))
    fails(9, "was changed", f"{VERIFY} answer.json")
    Path("data.csv").unlink()  # nothing is read
    assert told(asked) == found
    text = ok(asked)
    assert f"{found['value']:.6g}" in text
    assert ID in text
    for other in ("--where 'age > 5'", "--purpose another"):
        fails(2, "", f"{asked} {other}")
    assert spent(office) == Fraction(1, 4)


@pytest.mark.long
def test_a_query_that_is_killed_before_its_answer_is_saved_is_spent(fails, office):
    office.close()
    killed((_Charged, "finish", "before"), f"{QUERY} {PAID} --request {ID}")
    fails(9, "nothing is charged or drawn again", f"{QUERY} {PAID} --request {ID}")
    assert spent(office) == Fraction(1, 4)


def test_the_hash_of_parameters_tells_no_seed(ok, office):
    for seed in (1, 2):
        ok(f"budget request {FIT} --seed {seed} {PAID}")
    first, second = office.history()[1:]
    assert first["parameters"] == second["parameters"]
    assert first["file"] == "out.csv"
    kinds = {one["kind"] for one in first["conditions"]}
    assert kinds == {"PublicDomain", "RowFunctionsTested", "RefusalsNotPrivate", "ExplicitSeed"}


def test_nothing_is_read_before_it_is_charged(office, ok, monkeypatch):
    seen = read_when(office, monkeypatch)
    for command, times in ((FIT, 1), (QUERY, 2)):
        ok(f"{command} {PAID}")
        assert {found.count("started") for found in seen} == {times}
        seen.clear()


def test_data_that_does_not_fit_stays_charged_and_the_ledger_says_no_more(office, fails):
    Path("data.csv").write_text("größe,age\nXXL,5\n")
    assert "XXL" not in fails(3, "", f"{QUERY} {PAID}")
    assert spent(office) == Fraction(1, 4)
    assert states(office) == ["created", "started"]


def test_what_is_refused_is_charged_nothing_and_recorded(office, fails):
    fails(4, "nothing was charged", f"{FIT} --epsilon 5 {PAID}")
    fails(6, "'pure'", f"{FIT} --delta 1e-6 {PAID}")  # Gaussian noise, and the budget is pure
    assert states(office) == ["created", "refused", "refused"]
    assert spent(office) == 0
    assert not list(Path().glob("out*"))


def test_another_person_approves_a_command(office, ok, told, fails):
    office.create("patients-2027", epsilon=1.0, approval=True)
    paid = f"--budget {URL}#patients-2027"
    filed = told(f"budget request {QUERY} {paid}")["request"]
    one, approve = f"{paid} --request {filed}", f"budget approve {filed} --budget {URL}"
    fails(9, "not approved", f"{QUERY} {one}")
    fails(9, "another person", approve)
    ok(f"{approve} --as bob")
    for other in ("--epsilon 0.5", "--where 'age > 5'", "--purpose x", "--ticket x"):
        fails(2, "for something else", f"{QUERY} {one} {other}")
    ok(f"{QUERY} {one}")
    asked = fails(9, "needs the approval", f"{FIT} {paid}").split()[-1]  # filed by itself
    ok(f"budget refuse {asked} --budget {URL} --reason 'too much'")
    fails(9, "was refused", f"{FIT} {paid} --request {asked}")
    assert office.row("patients-2027").spent == Fraction(1, 4)


def test_create_show_history_export_and_import(office, ok, told, fails):
    create = f"budget create t --budget {URL} --epsilon 1"
    ok(f"{create} --delta 1e-6 --failure 1e-9")
    fails(2, "exists already", create)
    for wrong in ("--epsilon 0", "--epoch-of t --disjoint-epochs"):
        fails(2, "", f"{create.replace(' t ', ' u ')} {wrong}")
    office.create("patients-2026/ada", epsilon=1.0)
    ok(f"{QUERY} --budget {URL}#patients-2026/ada --purpose 'age report'")
    show = f"budget show patients-2026 --budget {URL}"
    out = ok(show)
    assert "8.3% of 3 pure" in out
    assert "age report, 0.25" in out
    found = told(show)["budgets"]
    assert [one["left"] for one in found] == [2.75, 0.75]
    assert told(show.replace("2026", "2026/ada"))["budgets"] == found[1:]
    assert len(told(f"budget show --budget {URL}")["budgets"]) == 3
    fails(2, "", show.replace("-2026", ""))
    out = ok(f"{show} --report")
    assert out.count("fixed in advance: epsilon 0.25 (a report; grants nothing)") == 2
    assert "age report" in ok(f"budget history patients-2026 --budget {URL}")
    ok(f"budget export -o lines.jsonl --budget {URL}")
    ok("budget import lines.jsonl --budget sqlite:///b.db")
    assert Ledger("sqlite:///b.db").verify() == office.verify()


JOBS = """
[[attribute]]
name = "age"
kind = "ordinal"
levels = [1, 2]

[[attribute]]
name = "income"
kind = "numeric"
lower = 0
upper = 100
nullable = true

[[attribute]]
name = "job"
kind = "categorical"
nullable = true
"""
TWO_QUESTIONS = """
[[question]]
statistic = "count"

[[question]]
statistic = "mean"
of = "income"
by = "job"
"""


@pytest.mark.parametrize("asked", ["--mean income --by job", "--questions two.toml"])
def test_a_question_refused_by_public_facts_is_not_charged(office, fails, monkeypatch, asked):
    Path("jobs.toml").write_text(f"{JOBS}levels = {[f'j{k}' for k in range(60)]}\n")
    Path("jobs.csv").write_text("age,income,job\n1,1,j0\n2,,j1\n2,5,\n" * 20)
    Path("two.toml").write_text(TWO_QUESTIONS)
    before, looks = states(office), read_when(office, monkeypatch)
    filled = "--impute income,job --match age --epsilon 0.2"
    command = f"query jobs.csv --schema jobs.toml {filled} {asked} {PAID}"
    assert "noise alone" in fails(2, "group of 10,000 rows", command)
    assert (states(office), spent(office), looks) == (before, 0, [])


def test_show_tells_what_all_is_worth_before_values_went_missing(office, ok, told, fails, survey):
    ok(f"{FIT} --missing observed --model a.json {PAID}")
    ok(f"{QUERY} {PAID}")
    show, known = f"budget show --budget {URL}", "--model a.json --observed 0.5"
    (found,) = told(f"{show} {known}")["budgets"]
    own = load("a.json").ground_truth_guarantee(
        MissingCompletelyAtRandom({"größe": 0.5, "age": 0.5})
    )
    assert found["ground_truth"]["assumption"]["kind"] == "MissingCompletelyAtRandom"
    # The query sees rows whatever they lack: its charge is not made smaller.
    assert own.epsilon + 0.25 <= found["ground_truth"]["epsilon"] + 1e-9 < 1.25
    assert "a report; grants nothing" in ok(f"{show} {known}")
    for wrong in ("--model a.json", "--observed 0.5", f"--model {survey}/m.json --observed 0.5"):
        fails(2, "", f"{show} {wrong}")


def with_another_schema(office, _):
    office.start("patients-2026", [PureEvent(epsilon=0.5)], Purpose(schema="a" * 64))


def spent_already(office, _):
    office.start("patients-2026", [PureEvent(epsilon=3.0)])


def asked_for(office, _):
    office.create("visits", epsilon=1.0, approval=True)
    office.request("visits", [PureEvent(epsilon=0.5)], request=ID)


def with_a_late_clock(_, monkeypatch):
    class Past(datetime):
        @classmethod
        def now(cls, zone):
            return datetime.now(zone) - timedelta(minutes=5)

    monkeypatch.setattr(ledger, "datetime", Past)


def damaged(office, _):
    office.close()
    Path("budget.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)


def locked(office, monkeypatch):
    office.close()
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "wait", 0.1)
    other = sqlite3.connect("budget.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def of_a_newer_version(office, _):
    office.close()
    sqlite3.connect("budget.db", isolation_level=None).execute("UPDATE ledger SET version = 2")


def untouched(*_):
    pass


AT = f"{QUERY} --budget"
REFUSED = {
    "no budget named": (2, "must name a budget", untouched, f"{AT} {URL}"),
    "unknown table": (2, "Did you mean", untouched, f"{AT} {URL}#patients-2025"),
    "wrong id": (2, "32 hexadecimal", untouched, f"{QUERY} {PAID} --request mine"),
    "no ledger": (2, "are for --budget", untouched, f"{QUERY} --purpose report"),
    "wrong URL": (2, "URL", untouched, f"{AT} mysql://u:SECRET@h/d#t"),
    "absent": (9, "no ledger at", untouched, f"{AT} sqlite:///none.db#t"),
    "other schema": (3, "--new-schema", with_another_schema, f"{QUERY} {PAID}"),
    "exhausted": (4, "does not fit", spent_already, f"{QUERY} {PAID}"),
    "no approver": (9, "needs the approval", asked_for, f"{AT} {URL}#visits"),
    "own request": (
        9,
        "another person",
        asked_for,
        f"budget approve {ID} --budget {URL} --as head",
    ),
    "clock going back": (9, "clock", with_a_late_clock, f"{QUERY} {PAID}"),
    "corrupt": (9, "damaged", damaged, f"{QUERY} {PAID}"),
    "locked": (9, "locked", locked, f"{QUERY} {PAID}"),
    "wrong password": (9, "password", untouched, f"{AT} postgresql://a:SECRET@/d?host=/nowhere#t"),
    "newer version": (9, "newer version", of_a_newer_version, f"{QUERY} {PAID}"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_one_line_and_an_exit_code_and_nothing_is_read(
    office, fails, case, monkeypatch
):
    code, says, prepare, command = REFUSED[case]
    if "postgresql" in command:
        pytest.importorskip("psycopg")
    held = prepare(office, monkeypatch)
    monkeypatch.setattr(DataFile, "_readable", lambda *_: pytest.fail("rows were read"))
    readable = case not in ("corrupt", "newer version")
    count = len(office.charges("patients-2026")) if readable else 0
    err = fails(code, says, command)
    assert err.count("\n") == 1
    assert "SECRET" not in err
    if held is not None:
        held.execute("ROLLBACK")
    if readable:
        office.verify()
        assert len(office.charges("patients-2026")) == count
        assert {*states(office, "patients-2026")[1 + count :]} <= {"refused"}


@pytest.mark.parametrize("named", [f"{URL}#patients-2026", "#patients-2026"])
def test_without_the_ledger_that_a_schema_names_nothing_is_read(
    office, ok, fails, named, monkeypatch
):
    text = Path("schema.toml").read_text()
    Path("schema.toml").write_text(text.replace("format = 1", f'format = 1\nledger = "{named}"'))
    office.create("patients-2026/eve", epsilon=1.0)
    office.create("visits", epsilon=1.0)
    Ledger("sqlite:///other.db").create("patients-2026", epsilon=1.0)
    refused, schema = "without which nothing is read", Schema.from_toml("schema.toml")
    with monkeypatch.context() as patched:
        for name in READING:
            patched.setattr(DataFile, name, lambda *_: pytest.fail("rows were read"))
        for command in (FIT, QUERY):
            for paid in ("", f"--budget {URL}#visits"):
                fails(9, refused, f"{command} {paid}")
        if named.startswith(URL):
            fails(9, refused, f"{AT} sqlite:///other.db#patients-2026")
        for budget in (None, Filter(9.0), office.budget("visits")):
            with pytest.raises(LedgerError, match=refused):
                PrivBayes(epsilon=1.0, budget=budget).fit("data.csv", schema=schema)
        assert "started" not in states(office)
    ok(f"{AT} {URL}#patients-2026/eve")
    table = Table.read("data.csv", schema)
    for taken in (None, Filter(9.0)):
        with pytest.raises(LedgerError):
            PrivBayes(epsilon=1.0, budget=taken).fit(table)
    own, noise = Filter(0.5), SecureNoise()
    rows = CountedRows.of(MemorySource(table), strategy_named("joint"))
    with pytest.raises(LedgerError):
        open_table(table, budget=own)
    with pytest.raises(LedgerError):
        Session(rows, budget=own, noise=noise)
    budget = office.budget("patients-2026")
    model = PrivBayes(epsilon=1.0, budget=budget).fit(table)
    assert not model.schema_.ledger  # what is released is free
    budget.reserve(own)
    open_table(table, budget=own)
    Session(rows, budget=own, noise=noise)


def test_a_ledger_in_a_schema_tells_no_password():
    demo = Schema((Categorical(name="a", levels=("x", "y")),))
    for wrong in ("budget.db", "postgresql://eve:SECRET@host/d#t", 5):
        with pytest.raises(SchemaError, match="URL#NAME") as caught:
            replace(demo, ledger=wrong)
        assert "SECRET" not in str(caught.value)
    named = replace(demo, ledger="postgresql://eve@host/d#t")
    assert named == demo
    assert Schema.from_dict(named.to_dict()).ledger == named.ledger


def test_a_fit_to_a_path_reads_nothing_before_it_is_charged(office, monkeypatch):
    seen, schema = read_when(office, monkeypatch), Schema.from_toml("schema.toml")
    budget = office.budget("patients-2026")
    with pytest.raises(ParameterError):  # by public facts alone: nothing is charged
        PrivBayes(epsilon=1.0, missing="no", budget=budget).fit("data.csv", schema=schema)
    assert (seen, spent(office)) == ([], 0)
    PrivBayes(epsilon=1.0, budget=budget).fit("data.csv", schema=schema)
    assert {found[-1] for found in seen} == {"started"}
    assert spent(office) == 1
    Path("data.csv").write_text("größe,age\nXXL,5\n")
    with pytest.raises(DataError):
        PrivBayes(epsilon=0.5, budget=budget).fit("data.csv", schema=schema)
    assert spent(office) == Fraction(3, 2)
    office.create("people", epsilon=1.0, unit="who")
    least = AIM(epsilon=1e-6, delta=0.0, budget=office.budget("people"))
    with pytest.raises(ParameterError, match="too little is left of the budget for"):
        least.fit("data.csv", schema=replace(schema, unit=Unit("who", max_rows=1_000_000)))
    assert office.row("people").spent == 0


# Whatever kills a run: no output without its charge, no charge or draw twice
BOUNDARIES = {
    "before the charge": (Ledger, "start", "before"),
    "after the charge": (Ledger, "start", "after"),
    "before the model is kept": (Release, "keep", "before"),
    "after the model is kept": (Release, "keep", "after"),
    "before files are in place": (Release, "commit", "before"),
    "after files are in place": (Release, "commit", "after"),
    "after it is recorded": (_Charged, "finish", "after"),
}

KEPT = {"after the model is kept", "before files are in place"}
WHOLE = {"after files are in place", "after it is recorded"}
QUICK = {"before the charge", "after the model is kept", "after files are in place"}


DYING = """
import os, signal, sys
from missdp.cli.charges import _Charged
from missdp.cli.main import main
from missdp.cli.release_files import Release
from missdp.office import Ledger

owner, name, when, *arguments = sys.argv[1:]
owner = {kind.__name__: kind for kind in (_Charged, Ledger, Release)}[owner]
real = getattr(owner, name)

def dying(*given, **named):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    found = real(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
    return found

setattr(owner, name, dying)
main(arguments)
"""


def killed(where, command):
    """Run a command in a process of its own that is killed at a boundary.

    A fork would do no good: libraries that read tables have threads here, and crash in its child.
    """
    owner, name, when = where
    started = (sys.executable, "-c", DYING, owner.__name__, name, when, *shlex.split(command))
    assert subprocess.run(started, check=False).returncode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize(
    "boundary",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BOUNDARIES],
)
def test_a_run_that_is_killed_is_charged_once_and_draws_once(office, run, boundary, monkeypatch):
    office.close()
    command = f"{FIT} {PAID} --request {ID}"
    killed(BOUNDARIES[boundary], command)
    charged = spent(office)
    outputs = {path for path in Path().glob("out*") if path.stat().st_size > 2000}
    assert charged == (0 if boundary == "before the charge" else 1)
    assert charged or not outputs  # no output without its charge
    drawn, real = [], Synthesizer.fit
    monkeypatch.setattr(Synthesizer, "fit", lambda *a, **k: drawn.append(1) or real(*a, **k))
    code, out, err = run(command)
    if boundary == "before the charge":
        assert (code, "--overwrite" in err) == (5, True)  # the claim of a dead run stands there
        assert run(f"{command} --overwrite")[0] == 0
        assert drawn == [1]
    elif boundary in WHOLE:
        assert (code, "charged once" in out) == (0, True)
        released = office.history()[-1]
        assert released["state"] == "released"
        guarantee = load("out.model.json").guarantee_  # whoever recorded it
        assert released["conditions"] == [one.to_dict() for one in guarantee.conditions]
    else:
        for _ in range(2):
            assert (code, "started before and is spent" in err) == (9, True)
            model = Path(f"out-{ID}.model.json")
            assert model.exists() == (str(model) in err) == (boundary in KEPT)
            code, _, err = run(f"{command} --overwrite")
        assert not model.exists() or run(f"sample {model} -o more.csv --rows 5")[0] == 0
    assert spent(office) == 1
    assert len(drawn) == (boundary == "before the charge")
    office.verify()


OLDER = "the ledger was lost, or is an older copy: it lacks line"


def restored_to(lines, copy="old.db"):
    """Make a copy of the ledger that has its first lines only, as a backup has."""
    Ledger(URL).export_lines("all.jsonl")
    text = Path("all.jsonl").read_text().splitlines(keepends=True)
    Path("some.jsonl").write_text("".join(text[:lines]))
    made = Ledger(f"sqlite:///{copy}")
    made.import_lines("some.jsonl")
    return made


@pytest.mark.parametrize("command", [f"{FIT} --overwrite", QUERY, f"budget request {QUERY}"])
def test_older_ledger_beside_a_release_is_refused(ok, fails, office, command):
    ok(f"{FIT} {PAID}")
    old = restored_to(1)
    older = "--budget sqlite:///old.db#patients-2026"
    fails(
        9,
        f"{OLDER} 2 of the budget 'patients-2026', which 'out.release.json'",
        f"{command} {older}",
    )
    assert (spent(old), states(old)) == (0, ["created"])
    ok(f"{command} {PAID}")  # the newest copy still pays


def test_older_ledger_beside_a_saved_answer_is_refused(told, fails, office):
    Path("answer.json").write_text(json.dumps(told(f"{QUERY} {PAID}")))
    restored_to(1)
    fails(9, OLDER, f"{FIT} --budget sqlite:///old.db#patients-2026")


def test_other_budgets_of_a_folder_are_not_compared(ok, office):
    ok(f"{FIT} {PAID}")
    Ledger("sqlite:///visits.db").create("visits", epsilon=3.0)
    Path("broken.json").write_text('{"ledger": 1')
    Path("list.json").write_text('["ledger"]')
    ok(f"{QUERY} --budget sqlite:///visits.db#visits")


def test_files_beside_the_schema_are_looked_at(ok, fails, office, tmp_path):
    ok(f"{FIT} {PAID}")
    restored_to(1)
    Path("elsewhere").mkdir()
    Path("data.csv").rename("elsewhere/data.csv")
    other = QUERY.replace("data.csv", "elsewhere/data.csv")
    fails(9, OLDER, f"{other} --budget sqlite:///old.db#patients-2026")


STATING_NOTHING = [
    {"lines": 10**23}, {"lines": 2**63}, {"lines": 0}, {"lines": -1}, {"lines": True},
    {"lines": 1.0}, {"lines": "1"}, {"head": "x"}, {"head": "A" * 64}, {"head": 7},
]  # fmt: skip


@pytest.mark.parametrize("wrong", STATING_NOTHING)
def test_a_file_that_states_no_line_stops_no_charge(told, office, wrong):
    line = {"budget": "patients-2026", "lines": 99, "head": "a" * 64} | wrong
    Path("stray.json").write_text(json.dumps({"ledger": line}))
    told(f"{QUERY} {PAID}")
    assert spent(office) == 0.25


def test_create_over_a_lost_ledger_is_refused(ok, fails, office):
    ok(f"{FIT} {PAID}")
    Path("budget.db").rename("away.db")
    create = "budget create patients-2026 --epsilon 3"
    fails(9, f"{OLDER} 2", f"{create} --budget {URL}")
    assert not Path("budget.db").exists()
    fails(9, f"{OLDER} 2", f"budget create patients-2026/eve --epsilon 1 --budget {URL}")
    said = ok(f"budget create visits --epsilon 3 --budget {URL}")
    assert "Made a new ledger" in said
    assert "Made a new ledger" not in ok(f"budget create more --epsilon 3 --budget {URL}")


@pytest.mark.parametrize("command", [FIT, QUERY])
def test_release_without_a_ledger_says_so(folder, command, capsys):
    assert main(shlex.split(command)) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "no ledger recorded" in line]
    assert len(lines) == 1
    assert "missdp budget create" in lines[0]


def test_release_with_a_ledger_does_not_say_so(office, capsys):
    assert main(shlex.split(f"{QUERY} {PAID}")) == 0
    assert "no ledger recorded" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [FIT, QUERY, f"budget request {QUERY}"])
def test_as_names_who_is_charged(ok, fails, office, command):
    ok(f"{command} {PAID} --as eve")
    assert {line["who"] for line in office.history()[1:]} == {"eve"}
    fails(2, "are for --budget", f"{QUERY} --as eve")


def test_unit_of_a_budget_is_that_of_the_schema(ok, fails, folder):
    schema = Schema.from_toml("schema.toml")
    replace(schema, unit=Unit("person", max_rows=2)).to_toml("visits.toml")
    made = f"budget create visits --epsilon 3 --budget {URL} --schema visits.toml"
    fails(2, "the unit of the schema", f"{made} --unit row")
    ok(made)
    assert Ledger(URL).row("visits").facts.unit == "person"
    ok(f"budget create patients --epsilon 3 --budget {URL} --schema schema.toml")
    assert Ledger(URL).row("patients").facts.unit == "row"


@pytest.mark.parametrize("currency", ["gdp", "zcdp", "pure"])
def test_show_says_how_many_releases_fit(told, ok, folder, currency):
    delta = 0.0 if currency == "pure" else 1e-6
    made = Ledger(URL, who="head")
    made.create("table", epsilon=2.5, delta=delta, currency=currency)
    model = (PrivBayes if currency == "pure" else AllPairs)(epsilon=1.0, delta=delta)
    events = model.planned_parts(Schema.from_toml("schema.toml"))[0].events
    (shown,) = told(f"budget show --budget {URL}")["budgets"]
    more = shown["releases_of_epsilon_1"]
    assert more >= 1
    for left in range(more, 0, -1):
        assert made.budget("table").releases_left() == left
        made.start("table", events)
    with pytest.raises(BudgetExceededError):
        made.start("table", events)
    assert "pays for no release of epsilon 1" in ok(f"budget show --budget {URL}")


def test_show_takes_the_name_from_the_url(told, folder):
    for name in ("patients", "staff"):
        Ledger(URL, who="head").create(name, epsilon=1.0)
    (shown,) = told(f"budget show --budget {URL}#staff")["budgets"]
    assert shown["budget"] == "staff"
    assert {line["root"] for line in told(f"budget history --budget {URL}#staff")["lines"]} == {
        "staff"
    }
    assert len(told(f"budget show --budget {URL}")["budgets"]) == 2
