"""Commands charge a ledger first and only once. After any kill the charge is still there."""

import hashlib
import json
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from missdp import AIM, AllPairs, PrivBayes, Schema, load
from missdp.accounting import Filter, PureEvent
from missdp.cli.charge import Charged
from missdp.cli.main import main
from missdp.errors import BudgetExceededError, DataError, LedgerError, ParameterError, SchemaError
from missdp.governance import Ledger, Purpose, ledger
from missdp.schema import Categorical, Unit
from missdp.session import CountedRows, SecureNoise, Session
from missdp.sources import MemorySource, strategy_named
from missdp.statistics import open_table
from missdp.table import Table
from missdp.table.read_files import DataFile

URL = "sqlite:///budget.db"
SYNTHESIZE = "synthesize data.csv --schema schema.toml -o out.csv --epsilon 1 --delta 0"
FIT = "fit data.csv --schema schema.toml -o out.json --method privbayes --epsilon 1 --delta 0"
ASK = "--schema schema.toml --impute age --match größe 'mean(age)' --epsilon 0.25"
QUERY = f"query data.csv {ASK}"
PAID = f"--ledger {URL} --account patients-2026"
VERIFY = f"ledger verify --ledger {URL} --head"
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
    """Record the content of the ledger at each time that a file is read."""
    seen = []

    def watched(real):
        def read(self, *given):
            seen.append(states(office))
            return real(self, *given)

        return read

    for name in READING:
        monkeypatch.setattr(DataFile, name, watched(getattr(DataFile, name)))
    return seen


def backed_up(copy="old.db"):
    """Return a copy of the ledger as it is now, as a backup has it."""
    with closing(sqlite3.connect("budget.db")) as here, closing(sqlite3.connect(copy)) as there:
        here.backup(there)
    return Ledger(f"sqlite:///{copy}")


def test_a_model_states_the_line_that_paid_for_it(ok, told, fails, office):
    backed_up()
    document = told(f"{FIT} {PAID} --purpose report")
    model = load("out.json")
    line = model.ledger_
    assert line == document["ledger"]
    assert line["request"] == model.release_ == document["release"]
    assert line["head"] in ok(f"{FIT} {PAID} --overwrite -o other.json") or line["lines"] == 2
    started, released = office.history()[1:3]
    assert (started["state"], started["purpose"]) == ("started", "report")
    assert (released["state"], released["request"]) == ("released", model.release_)
    assert released["output"] == hashlib.sha256(Path("out.json").read_bytes()).hexdigest()
    assert office.verify(line["head"])["patients-2026"][0] == 5
    assert spent(office) == 2
    ok(f"{VERIFY} out.json --head {line['head']}")
    for head in ("out.json", line["head"]):
        fails(
            9, "was truncated or restored", f"ledger verify --ledger sqlite:///old.db --head {head}"
        )
    text = json.loads(Path("out.json").read_text())
    Path("out.json").write_text(json.dumps(text))  # written otherwise
    fails(9, "was changed", f"{VERIFY} out.json")
    Path("out.json").write_text(json.dumps({**text, "release": "f" * 32}))
    fails(9, "lacks the release", f"{VERIFY} out.json")


def test_rows_of_a_paid_model_are_free(ok, told, office):
    document = told(f"{SYNTHESIZE} {PAID}")
    assert document["ledger"] == load("out.model.json").ledger_
    label = json.loads(Path("out.csv.synthetic.json").read_text())
    assert label["release"] == document["release"] == document["ledger"]["request"]
    ok("sample out.model.json -o more.csv --rows 5")
    assert (spent(office), states(office)) == (1, ["created", "started", "released"])


def test_an_answer_is_stored_in_the_ledger_and_verified(ok, told, fails, office, monkeypatch):
    monkeypatch.setenv("MISSDP_LEDGER", URL)
    monkeypatch.setenv("MISSDP_ACCOUNT", "patients-2026")
    answer = told(QUERY)
    Path("answer.json").write_text(json.dumps(answer))
    ok("ledger verify --head answer.json")
    Path("answer.json").write_text(json.dumps({**answer, "value": 5.0}))
    fails(9, "was changed", "ledger verify --head answer.json")
    (released,) = (line for line in told("ledger log")["lines"] if line["state"] == "released")
    assert released["answer"]["document"]["value"] == answer["value"]
    assert spent(office) == Fraction(1, 4)


def test_the_file_of_a_project_names_the_account(ok, told, office, monkeypatch):
    Path("missdp.toml").write_text(
        f'schema = "schema.toml"\nledger = "{URL}"\naccount = "patients-2026"\ndelta = 0\n'
    )
    office.create("other", epsilon=1.0)
    Path("below").mkdir()
    monkeypatch.chdir("below")
    ok("fit ../data.csv --epsilon 1 --method privbayes -o m.json")
    model = load("m.json")
    assert (model.delta, model.ledger_["budget"]) == (0.0, "patients-2026")
    (shown,) = told("ledger show")["accounts"]
    assert shown["spent"] == 1
    assert "missdp.toml: schema, ledger, account, delta" in ok("version --verbose")
    ok("fit ../data.csv --epsilon 1 --method privbayes -o n.json --account other")
    assert load("n.json").ledger_["budget"] == "other"


@pytest.mark.long
def test_a_query_that_is_killed_before_its_answer_is_saved_is_spent(ok, office):
    office.close()
    killed((Charged, "finish", "before"), f"{QUERY} {PAID}")
    assert spent(office) == Fraction(1, 4)
    assert "started, not finished, spent" in ok(f"ledger show --ledger {URL}")


def test_the_hash_of_parameters_tells_no_seed(ok, office):
    for seed in (1, 2):
        ok(f"{FIT} --seed {seed} {PAID} --overwrite")
    first, second = (line for line in office.history() if line["state"] == "started")
    assert first["parameters"] == second["parameters"]
    assert first["file"] == "out.json"
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


def test_a_refused_release_is_not_charged(office, fails):
    fails(4, "Nothing was charged", f"{FIT} --epsilon 5 {PAID}")
    fails(
        6, "create --delta", f"{FIT} --delta 1e-6 {PAID}"
    )  # Gaussian noise, and the budget is pure
    assert states(office) == ["created", "refused", "refused"]
    assert spent(office) == 0
    assert not list(Path().glob("out*"))


def test_create_show_and_log(office, ok, told, fails):
    create = f"ledger create --account t --ledger {URL} --epsilon 1"
    ok(f"{create} --delta 1e-6 --failure 1e-9")
    fails(2, "exists already", create)
    fails(2, "", f"{create.replace(' t ', ' u ')} --epsilon 0")
    fails(2, "--account is required", create.replace("--account t ", ""))
    office.create("patients-2026/ada", epsilon=1.0)
    ok(f"{QUERY} --ledger {URL} --account patients-2026/ada --purpose 'age report'")
    show = f"ledger show --account patients-2026 --ledger {URL}"
    out = ok(show)
    assert "8.3% of 3 pure" in out
    assert "age report, 0.25" in out
    found = told(show)["accounts"]
    assert [one["left"] for one in found] == [2.75, 0.75]
    assert told(show.replace("2026", "2026/ada"))["accounts"] == found[1:]
    assert len(told(f"ledger show --ledger {URL}")["accounts"]) == 3
    fails(2, "", show.replace("-2026", ""))
    assert "age report" in ok(f"ledger log --account patients-2026 --ledger {URL}")


def test_a_release_that_will_not_end_is_abandoned_and_stays_spent(office, ok, told, fails):
    started = office.start("patients-2026", [PureEvent(epsilon=0.5)])
    at = f"--ledger {URL}"
    assert f"release {started.request}: started, not finished" in ok(f"ledger show {at}")
    assert told(f"ledger show {at}")["accounts"][0]["started"] == [started.request]
    ok(f"ledger abandon {started.request} {at}")
    (shown,) = told(f"ledger show {at}")["accounts"]
    assert (shown["started"], shown["abandoned"]) == ([], [started.request])
    assert shown["spent"] == 0.5
    fails(9, "cannot be abandoned", f"ledger abandon {started.request} {at}")
    fails(9, "no request", f"ledger abandon {'0' * 32} {at}")
    office.verify()


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


@pytest.mark.parametrize("asked", ["'mean(income) by job'", "'count()' 'mean(income) by job'"])
def test_a_question_refused_by_public_facts_is_not_charged(office, fails, monkeypatch, asked):
    Path("jobs.toml").write_text(f"{JOBS}levels = {[f'j{k}' for k in range(60)]}\n")
    Path("jobs.csv").write_text("age,income,job\n1,1,j0\n2,,j1\n2,5,\n" * 20)
    before, looks = states(office), read_when(office, monkeypatch)
    filled = "--impute income,job --match age --epsilon 0.2"
    command = f"query jobs.csv --schema jobs.toml {filled} {asked} {PAID}"
    assert "noise alone" in fails(2, "group of 10,000 rows", command)
    assert (states(office), spent(office), looks) == (before, 0, [])


def with_another_schema(office, _):
    office.start("patients-2026", [PureEvent(epsilon=0.5)], Purpose(schema="a" * 64))


def spent_already(office, _):
    office.start("patients-2026", [PureEvent(epsilon=3.0)])


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


AT = f"{QUERY} --ledger"
ACCOUNT = "--account patients-2026"
REFUSED = {
    "no account named": (2, "--ledger requires --account", untouched, f"{AT} {URL}"),
    "unknown account": (2, "Did you mean", untouched, f"{AT} {URL} --account patients-2025"),
    "no ledger": (2, "require --ledger", untouched, f"{QUERY} --purpose report"),
    "wrong URL": (2, "URL", untouched, f"{AT} mysql://u:SECRET@h/d {ACCOUNT}"),
    "absent": (9, "no ledger at", untouched, f"{AT} sqlite:///none.db {ACCOUNT}"),
    "other schema": (3, "--new-schema", with_another_schema, f"{QUERY} {PAID}"),
    "exhausted": (4, "does not fit", spent_already, f"{QUERY} {PAID}"),
    "clock going back": (9, "clock", with_a_late_clock, f"{QUERY} {PAID}"),
    "corrupt": (9, "damaged", damaged, f"{QUERY} {PAID}"),
    "locked": (9, "locked", locked, f"{QUERY} {PAID}"),
    "wrong password": (
        9, "password", untouched, f"{AT} postgresql://a:SECRET@/d?host=/nowhere {ACCOUNT}",
    ),
    "newer version": (9, "newer version", of_a_newer_version, f"{QUERY} {PAID}"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_ledger_errors_are_one_line_and_an_exit_code(office, fails, case, monkeypatch):
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
            for paid in ("", f"--ledger {URL} --account visits"):
                fails(9, refused, f"{command} {paid}")
        if named.startswith(URL):
            fails(9, refused, f"{AT} sqlite:///other.db --account patients-2026")
        for budget in (None, Filter(9.0), office.budget("visits")):
            with pytest.raises(LedgerError, match=refused):
                PrivBayes(epsilon=1.0, budget=budget).fit("data.csv", schema=schema)
        assert "started" not in states(office)
    ok(f"{AT} {URL} --account patients-2026/eve")
    table = Table.read("data.csv", schema)
    for taken in (None, Filter(9.0)):
        with pytest.raises(LedgerError):
            PrivBayes(epsilon=1.0, budget=taken).fit(table)
    own, noise = Filter(0.5), SecureNoise()
    rows = CountedRows.from_source(MemorySource(table), strategy_named("joint"))
    with pytest.raises(LedgerError):
        open_table(table, budget=own)
    with pytest.raises(LedgerError):
        Session(rows, budget=own, noise=noise)
    budget = office.budget("patients-2026")
    model = PrivBayes(epsilon=1.0, budget=budget).fit(table)
    # Statistics that are already released are free.
    assert not model.schema_.ledger
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
    with pytest.raises(ParameterError, match="the remaining budget is too small for"):
        least.fit("data.csv", schema=replace(schema, unit=Unit("who", max_rows=1_000_000)))
    assert office.row("people").spent == 0


# Any kill of a run: no output without its charge, and a charge is never undone.
BOUNDARIES = {
    "before the charge": ("Ledger", "start", "before"),
    "after the charge": ("Ledger", "start", "after"),
    "before the model is saved": ("fit", "write_atomically", "before"),
    "after the model is saved": ("fit", "write_atomically", "after"),
    "before it is recorded": ("Charged", "finish", "before"),
    "after it is recorded": ("Charged", "finish", "after"),
}
SAVED = {"after the model is saved", "before it is recorded", "after it is recorded"}
QUICK = {"after the charge", "after the model is saved"}


DYING = """
import os, signal, sys
from importlib import import_module
from missdp.cli.charge import Charged
from missdp.cli.main import main
from missdp.governance import Ledger

owner, name, when, *arguments = sys.argv[1:]
fit = import_module("missdp.cli.fit")
owner = {"Charged": Charged, "Ledger": Ledger, "fit": fit}[owner]
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
    owner = getattr(owner, "__name__", owner)
    started = (sys.executable, "-c", DYING, owner, name, when, *shlex.split(command))
    assert subprocess.run(started, check=False).returncode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize(
    "boundary",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BOUNDARIES],
)
def test_a_killed_run_stays_charged_and_the_ledger_shows_it(office, ok, told, fails, boundary):
    office.close()
    killed(BOUNDARIES[boundary], f"{FIT} {PAID}")
    charged = boundary != "before the charge"
    assert spent(office) == charged
    assert Path("out.json").exists() == (boundary in SAVED)
    (shown,) = told(f"ledger show --ledger {URL}")["accounts"]
    recorded = boundary == "after it is recorded"
    assert len(shown["started"]) == (charged and not recorded)
    if boundary in SAVED:  # the model is whole, states its charge, and gives rows for free
        assert load("out.json").ledger_["request"] == office.history()[1]["request"]
        ok("sample out.json -o more.csv --rows 5")
        ok(f"{VERIFY} out.json")
        fails(5, "which was charged", f"{FIT} {PAID}")
    for request in shown["started"]:
        ok(f"ledger abandon {request} --ledger {URL}")
        assert told(f"ledger show --ledger {URL}")["accounts"][0]["abandoned"] == [request]
    ok(f"{FIT} {PAID} --overwrite")  # another release, which is charged by itself
    assert spent(office) == charged + 1
    office.verify()


OLDER = "the ledger was lost, or is an older copy: it lacks line"


@pytest.mark.parametrize("command", [f"{FIT} --overwrite", QUERY])
def test_older_ledger_beside_a_release_is_refused(ok, fails, office, command):
    old = backed_up()
    ok(f"{FIT} {PAID}")
    older = "--ledger sqlite:///old.db --account patients-2026"
    fails(
        9,
        f"{OLDER} 2 of the account 'patients-2026', which 'out.json'",
        f"{command} {older}",
    )
    assert (spent(old), states(old)) == (0, ["created"])
    ok(f"{command} {PAID}")  # the newest copy still pays


def test_older_ledger_beside_a_saved_answer_is_refused(told, fails, office):
    backed_up()
    Path("answer.json").write_text(json.dumps(told(f"{QUERY} {PAID}")))
    fails(9, OLDER, f"{FIT} --ledger sqlite:///old.db --account patients-2026")


def test_other_budgets_of_a_folder_are_not_compared(ok, office):
    ok(f"{FIT} {PAID}")
    Ledger("sqlite:///visits.db").create("visits", epsilon=3.0)
    Path("broken.json").write_text('{"ledger": 1')
    Path("list.json").write_text('["ledger"]')
    ok(f"{QUERY} --ledger sqlite:///visits.db --account visits")


def test_files_beside_the_schema_are_looked_at(ok, fails, office, tmp_path):
    backed_up()
    ok(f"{FIT} {PAID}")
    Path("elsewhere").mkdir()
    Path("data.csv").rename("elsewhere/data.csv")
    other = QUERY.replace("data.csv", "elsewhere/data.csv")
    fails(9, OLDER, f"{other} --ledger sqlite:///old.db --account patients-2026")


STATING_NOTHING = [
    {"lines": 10**23}, {"lines": 2**63}, {"lines": 0}, {"lines": -1}, {"lines": True},
    {"lines": 1.0}, {"lines": "1"}, {"head": "x"}, {"head": "A" * 64}, {"head": 7},
]  # fmt: skip


@pytest.mark.parametrize("wrong", STATING_NOTHING)
def test_a_file_that_states_no_line_stops_no_charge(told, fails, office, wrong):
    line = {"budget": "patients-2026", "request": "b" * 32, "lines": 99, "head": "a" * 64}
    Path("stray.json").write_text(json.dumps({"ledger": line}))
    fails(9, f"{OLDER} 99", f"{QUERY} {PAID}")
    Path("stray.json").write_text(json.dumps({"ledger": line | wrong}))
    told(f"{QUERY} {PAID}")
    assert spent(office) == 0.25


def test_create_over_a_lost_ledger_is_refused(ok, fails, office):
    ok(f"{FIT} {PAID}")
    Path("budget.db").rename("away.db")
    create = "ledger create --account patients-2026 --epsilon 3"
    fails(9, f"{OLDER} 2", f"{create} --ledger {URL}")
    assert not Path("budget.db").exists()
    fails(9, f"{OLDER} 2", f"ledger create --account patients-2026/eve --epsilon 1 --ledger {URL}")
    said = ok(f"ledger create --account visits --epsilon 3 --ledger {URL}")
    assert "Created a new ledger" in said
    again = ok(f"ledger create --account more --epsilon 3 --ledger {URL}")
    assert "Created a new ledger" not in again


@pytest.mark.parametrize("command", [FIT, QUERY])
def test_release_without_a_ledger_says_so(folder, command, capsys):
    assert main(shlex.split(command)) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "no ledger recorded" in line]
    assert len(lines) == 1
    assert "missdp ledger create" in lines[0]


def test_release_with_a_ledger_does_not_say_so(office, capsys):
    assert main(shlex.split(f"{QUERY} {PAID}")) == 0
    assert "no ledger recorded" not in capsys.readouterr().err


def test_unit_of_an_account_is_that_of_the_schema(ok, folder):
    schema = Schema.from_toml("schema.toml")
    replace(schema, unit=Unit("person", max_rows=2)).to_toml("visits.toml")
    made = f"ledger create --account visits --epsilon 3 --ledger {URL} --schema visits.toml"
    ok(made)
    assert Ledger(URL).row("visits").facts.unit == "person"
    ok(f"ledger create --account patients --epsilon 3 --ledger {URL} --schema schema.toml")
    assert Ledger(URL).row("patients").facts.unit == "row"


@pytest.mark.parametrize("privacy_measure", ["gdp", "zcdp", "pure"])
def test_show_says_how_many_releases_fit(told, ok, folder, privacy_measure):
    delta = 0.0 if privacy_measure == "pure" else 1e-6
    made = Ledger(URL, who="head")
    made.create("table", epsilon=2.5, delta=delta, privacy_measure=privacy_measure)
    model = (PrivBayes if privacy_measure == "pure" else AllPairs)(epsilon=1.0, delta=delta)
    events = model.planned_parts(Schema.from_toml("schema.toml"))[0].events
    (shown,) = told(f"ledger show --ledger {URL}")["accounts"]
    more = shown["releases_of_epsilon_1"]
    assert more >= 1
    for left in range(more, 0, -1):
        assert made.budget("table").remaining_releases() == left
        made.start("table", events)
    with pytest.raises(BudgetExceededError):
        made.start("table", events)
    assert "allows no release of epsilon 1" in ok(f"ledger show --ledger {URL}")


def test_show_takes_the_name_of_an_account(told, folder):
    for name in ("patients", "staff"):
        Ledger(URL, who="head").create(name, epsilon=1.0)
    at = f"--ledger {URL} --account staff"
    (shown,) = told(f"ledger show {at}")["accounts"]
    assert shown["account"] == "staff"
    assert {line["root"] for line in told(f"ledger log {at}")["lines"]} == {"staff"}
    assert len(told(f"ledger show --ledger {URL}")["accounts"]) == 2
