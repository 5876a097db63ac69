"""Commands that charge a ledger: first, once, and found again whatever kills them."""

import json
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

from missdp import PrivBayes, Schema, load
from missdp.accounting import Budget, Guarantee, MissingCompletelyAtRandom, PureEvent
from missdp.cli.charges import _Charged
from missdp.cli.release_files import Release
from missdp.errors import DataError, LedgerError, ParameterError, SchemaError
from missdp.mechanisms import Door, RowDoor, SecureNoise
from missdp.office import Ledger, Purpose, ledger
from missdp.schema import Categorical
from missdp.sources import MemorySource, strategy_named
from missdp.synth.base import Synthesizer
from missdp.table import Table
from missdp.table.streams import FileRows

URL = "sqlite:///budget.db"
ID = "0123456789abcdef" * 2
FIT = (
    *("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-6"),
    *("-o", "out.csv", "--method", "privbayes"),
)
QUERY = (
    *("query", "data.csv", "--schema", "schema.toml", "--impute", "age", "--match", "größe"),
    *("--mean", "age", "--epsilon", "0.25"),
)
DEMO = Schema((Categorical(name="a", levels=("x", "y")),))
PAID = ("--budget", URL, "--table", "patients-2026")


@pytest.fixture
def office(folder):
    made = Ledger(URL, who="head")
    made.create("patients-2026", epsilon=3.0)
    return made


def spent(office):
    return office.row("patients-2026").spent


def read_when(office, monkeypatch):
    """Note what the ledger holds whenever a file is read."""
    seen = []

    def watched(real):
        def read(self, *given):
            seen.append([line["state"] for line in office.history()])
            return real(self, *given)

        return read

    for name in ("columns", "check", "about", "batches"):
        monkeypatch.setattr(FileRows, name, watched(getattr(FileRows, name)))
    return seen


def test_a_request_stands_for_the_rows_that_it_names(run, office):
    with duckdb.connect("data.duckdb") as database:
        database.execute("CREATE TABLE answers AS FROM read_csv('data.csv', all_varchar=true)")
    asked = [one if one != "data.csv" else "data.duckdb" for one in QUERY]
    paid = ("--budget", f"{URL}#patients-2026")
    chosen = ("--select", "SELECT * FROM answers")
    code, out, _ = run("budget", "request", *asked, *chosen, *paid, "--json")
    assert code == 0
    again = (*paid, "--request", json.loads(out)["request"])
    for other in (("--select", "SELECT * FROM answers LIMIT 9"), ("--table", "answers")):
        code, _, err = run(*asked, *other, *again)
        assert (code, "for something else" in err, spent(office)) == (2, True, 0)
    assert run(*asked, *chosen, *again)[0] == 0


def test_a_release_says_which_line_paid_for_it_and_the_line_what_was_released(run, office):
    code, out, _ = run(
        *(*FIT, "--delta", "0", "--guarantee", "g.json", *PAID, "--purpose", "report"),
        *("--ticket", "T-7"),
    )
    assert code == 0
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
    heads = [("--head", name) for name in ("out.release.json", "g.json", "lines.jsonl")]
    verify = ("budget", "verify", "--budget", URL)
    assert run(*verify, *heads[0], *heads[1], *heads[2])[0] == 0
    office.export_lines("lines.jsonl")
    old = Ledger("sqlite:///old.db")
    lines = Path("lines.jsonl").read_text().splitlines(keepends=True)
    Path("old.jsonl").write_text(lines[0])
    old.import_lines("old.jsonl")
    for head in heads:
        code, _, err = run("budget", "verify", "--budget", "sqlite:///old.db", *head)
        assert (code, "was cut or restored" in err) == (9, True)
    Path("out.release.json").write_text(json.dumps(note))  # written otherwise
    code, _, err = run("budget", "verify", "--budget", URL, "--head", "out.release.json")
    assert (code, "was changed" in err) == (9, True)
    Path("out.release.json").write_text(json.dumps({**note, "release": "f" * 32}))
    code, _, err = run("budget", "verify", "--budget", URL, "--head", "out.release.json")
    assert (code, "lacks the release" in err) == (9, True)


def test_a_query_is_charged_once_and_a_retry_shows_the_saved_answer(run, office, monkeypatch):
    monkeypatch.setenv("MISSDP_BUDGET", f"{URL}#patients-2026")
    code, out, _ = run(*QUERY, "--json", "--request", ID)
    assert (code, json.loads(out)["ledger"]["request"]) == (0, ID)
    Path("answer.json").write_text(out)
    assert run("budget", "verify", "--budget", URL, "--head", "answer.json")[0] == 0
    Path("answer.json").write_text(json.dumps({**json.loads(out), "value": 5.0}))
    assert run("budget", "verify", "--budget", URL, "--head", "answer.json")[0] == 9
    Path("data.csv").unlink()  # nothing is read
    code, again, _ = run(*QUERY, "--json", "--request", ID)
    assert (code, json.loads(again)) == (0, json.loads(out))
    code, text, _ = run(*QUERY, "--request", ID)
    assert (code, f"{json.loads(out)['value']:.6g}" in text, ID in text) == (0, True, True)
    for other in (("--where", "age > 5"), ("--purpose", "another")):
        assert run(*QUERY, *other, "--request", ID)[0] == 2
    assert spent(office) == Fraction(1, 4)


def test_a_query_that_is_killed_before_its_answer_is_saved_is_spent(run, office, monkeypatch):
    office.close()
    killed((_Charged, "finish", "before"), *QUERY, *PAID, "--request", ID)
    code, out, err = run(*QUERY, *PAID, "--request", ID)
    assert (code, out, "nothing is charged or drawn again" in err) == (9, "", True)
    assert spent(office) == Fraction(1, 4)


def test_the_hash_of_parameters_tells_no_seed(run, office):
    for seed in (1, 2):
        assert run("budget", "request", *FIT, "--delta", "0", "--seed", seed, *PAID)[0] == 0
    first, second = office.history()[1:]
    assert first["parameters"] == second["parameters"]
    assert first["file"] == "out.csv"
    assert [one["kind"] for one in first["conditions"]] == ["PublicDomain", "ExplicitSeed"]


def test_nothing_is_read_before_it_is_charged(office, run, monkeypatch):
    seen = read_when(office, monkeypatch)
    for command in ((*FIT, "--delta", "0"), QUERY):
        assert run(*command, *PAID)[0] == 0
        assert seen
        assert all("started" in states for states in seen)
        assert {states.count("started") for states in seen} == {1 if command[0] != "query" else 2}
        seen.clear()


def test_data_that_does_not_fit_stays_charged_and_the_ledger_says_no_more(office, run):
    Path("data.csv").write_text("größe,age\nXXL,5\n")
    code, _, err = run(*QUERY, *PAID)
    assert (code, "XXL" in err) == (3, False)
    assert spent(office) == Fraction(1, 4)
    assert [line["state"] for line in office.history()] == ["created", "started"]


def test_what_is_refused_is_charged_nothing_and_recorded(office, run):
    code, _, err = run(*FIT, "--delta", "0", "--epsilon", "5", *PAID)
    assert (code, "nothing was charged" in err) == (4, True)
    code, _, err = run(*FIT, *PAID)  # Gaussian noise, and the budget is pure
    assert code == 6
    assert "'pure'" in err
    assert [line["state"] for line in office.history()] == ["created", "refused", "refused"]
    assert spent(office) == 0
    assert not list(Path().glob("out*"))


def test_another_person_approves_a_command(office, run):
    office.create("patients-2027", epsilon=1.0, approval=True)
    paid = ("--budget", f"{URL}#patients-2027")
    code, out, _ = run("budget", "request", *QUERY, *paid, "--json")
    assert code == 0
    (filed, one) = (json.loads(out)["request"], ("--request", json.loads(out)["request"]))
    assert run(*QUERY, *paid, *one)[0] == 9
    assert run("budget", "approve", filed, "--budget", URL)[0] == 9  # the same person
    assert run("budget", "approve", filed, "--budget", URL, "--as", "bob")[0] == 0
    assert run(*QUERY, *paid, *one, "--epsilon", "0.5")[0] == 2
    for other in (("--where", "age > 5"), ("--purpose", "x"), ("--ticket", "x")):
        assert run(*QUERY, *paid, *one, *other)[0] == 2
    assert run(*QUERY, *paid, *one)[0] == 0
    code, _, err = run(*FIT, "--delta", "0", *paid)  # files the request by itself
    assert (code, "needs the approval" in err) == (9, True)
    asked = err.split()[-1]
    assert run("budget", "refuse", asked, "--budget", URL, "--reason", "too much")[0] == 0
    assert run(*FIT, "--delta", "0", *paid, "--request", asked)[0] == 9
    assert office.row("patients-2027").spent == Fraction(1, 4)


def test_show_history_export_and_import(office, run):
    office.create("patients-2026/ada", epsilon=1.0)
    assert run(*QUERY, "--budget", f"{URL}#patients-2026/ada", "--purpose", "age report")[0] == 0
    code, out, _ = run("budget", "show", "--budget", URL)
    assert (code, "8.3% of 3 pure" in out, "age report, 0.25" in out) == (0, True, True)
    found = json.loads(run("budget", "show", "--budget", URL, "--json")[1])["budgets"]
    assert [one["left"] for one in found] == [2.75, 0.75]
    for name, shown in (("patients-2026", 2), ("patients-2026/ada", 1)):
        one = json.loads(run("budget", "show", name, "--budget", URL, "--json")[1])["budgets"]
        assert [budget["budget"] for budget in one] == [b["budget"] for b in found[-shown:]]
    assert run("budget", "show", "patients", "--budget", URL)[0] == 2
    out = run("budget", "show", "--budget", URL, "--report")[1]
    assert out.count("fixed in advance: epsilon 0.25 (a report; grants nothing)") == 2
    assert "age report" in run("budget", "history", "patients-2026", "--budget", URL)[1]
    assert run("budget", "export", "-o", "lines.jsonl", "--budget", URL)[0] == 0
    assert run("budget", "import", "lines.jsonl", "--budget", "sqlite:///b.db")[0] == 0
    assert Ledger("sqlite:///b.db").verify() == office.verify()


def test_show_tells_what_all_is_worth_before_values_went_missing(office, run, survey):
    fit = (*FIT, "--delta", "0", "--missing", "observed", "--model", "a.json")
    assert run(*fit, *PAID)[0] == 0
    assert run(*QUERY, *PAID)[0] == 0
    show = ("budget", "show", "--budget", URL)
    code, out, _ = run(*show, "--model", "a.json", "--observed", "0.5", "--json")
    (found,) = json.loads(out)["budgets"]
    own = load("a.json").ground_truth_guarantee(
        MissingCompletelyAtRandom({"größe": 0.5, "age": 0.5})
    )
    assert (code, found["ground_truth"]["assumption"]["kind"]) == (0, "MissingCompletelyAtRandom")
    # The query sees rows whatever they lack: its charge is not made smaller.
    assert own.epsilon + 0.25 <= found["ground_truth"]["epsilon"] + 1e-9 < 1.25
    assert "a report; grants nothing" in run(*show, "--model", "a.json", "--observed", "0.5")[1]
    other = ("--model", survey / "m.json", "--observed", "0.5")
    for wrong in (("--model", "a.json"), ("--observed", "0.5"), other):
        assert run(*show, *wrong)[0] == 2


def with_another_schema(office, _):
    office.start("patients-2026", [PureEvent(epsilon=0.5)], Purpose(schema="a" * 64))


def spent_already(office, _):
    office.start("patients-2026", [PureEvent(epsilon=3.0)])


def with_approval(office, _):
    office.create("visits", epsilon=1.0, approval=True)


def asked_for(office, _):
    with_approval(office, _)
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


APPROVE = ("budget", "approve", ID, "--budget", URL)
VISITS = ("--budget", f"{URL}#visits")
NOWHERE = ("--budget", "postgresql://ada:SECRET@/d?host=/nowhere#t")
REFUSED = {
    "no budget named": (2, "--table NAME", untouched, (*QUERY, "--budget", URL)),
    "unknown table": (2, "did you mean", untouched, (*QUERY, "--budget", f"{URL}#patients-2025")),
    "wrong id": (2, "32 hexadecimal", untouched, (*QUERY, *PAID, "--request", "mine")),
    "no ledger": (2, "are for --budget", untouched, (*QUERY, "--purpose", "report")),
    "wrong URL": (2, "URL", untouched, (*QUERY, "--budget", "mysql://u:SECRET@h/d#t")),
    "absent": (9, "absent", untouched, (*QUERY, "--budget", "sqlite:///none.db#t")),
    "other schema": (3, "--new-schema", with_another_schema, (*QUERY, *PAID)),
    "exhausted": (4, "does not fit", spent_already, (*QUERY, *PAID)),
    "no approver": (9, "needs the approval", with_approval, (*QUERY, *VISITS)),
    "the same person approves": (9, "another person", asked_for, (*APPROVE, "--as", "head")),
    "clock going back": (9, "clock", with_a_late_clock, (*QUERY, *PAID)),
    "corrupt": (9, "damaged", damaged, (*QUERY, *PAID)),
    "locked": (9, "locked", locked, (*QUERY, *PAID)),
    "wrong address or password": (9, "password", untouched, (*QUERY, *NOWHERE)),
    "newer version": (9, "newer version", of_a_newer_version, (*QUERY, *PAID)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_one_line_and_an_exit_code_and_nothing_is_read(
    office, run, case, monkeypatch
):
    code, says, prepare, arguments = REFUSED[case]
    if "postgresql" in str(arguments):
        pytest.importorskip("psycopg")
    held = prepare(office, monkeypatch)
    monkeypatch.setattr(FileRows, "columns", lambda *_: pytest.fail("rows were read"))
    count = len(office.charges("patients-2026")) if case not in ("corrupt", "newer version") else 0
    found, out, err = run(*arguments)
    assert (found, out, says in err, err.count("\n")) == (code, "", True, 1), err
    assert "SECRET" not in err
    if held is not None:
        held.execute("ROLLBACK")
    if case not in ("corrupt", "newer version"):
        office.verify()
        assert len(office.charges("patients-2026")) == count
        assert {line["state"] for line in office.history("patients-2026")[1 + count :]} <= {
            "refused"
        }


def test_create_says_what_is_wrong(folder, run):
    create = ("budget", "create", "t", "--budget", URL)
    assert run(*create, "--epsilon", "1", "--delta", "1e-6", "--failure", "1e-9")[0] == 0
    assert run(*create, "--epsilon", "1")[0] == 2
    assert run("budget", "create", "u", "--epsilon", "0", "--budget", URL)[0] == 2
    epoch = ("budget", "create", "t2", "--epsilon", "1", "--budget", URL, "--epoch-of", "t")
    assert run(*epoch, "--disjoint-epochs")[0] == 2


@pytest.mark.parametrize("named", [f"{URL}#patients-2026", "#patients-2026"])
def test_without_the_ledger_that_a_schema_names_nothing_is_read(office, run, named, monkeypatch):
    text = Path("schema.toml").read_text()
    Path("schema.toml").write_text(text.replace("format = 1", f'format = 1\nledger = "{named}"'))
    office.create("patients-2026/eve", epsilon=1.0)
    office.create("visits", epsilon=1.0)
    other = Ledger("sqlite:///other.db")
    other.create("patients-2026", epsilon=1.0)
    with monkeypatch.context() as patched:
        for name in ("columns", "check", "about", "batches"):
            patched.setattr(FileRows, name, lambda *_: pytest.fail("rows were read"))
        for command in ((*FIT, "--delta", "0"), QUERY):
            for paid in ((), ("--budget", f"{URL}#visits")):
                code, _, err = run(*command, *paid)
                assert (code, "without which nothing is read" in err) == (9, True)
        if named.startswith(URL):
            assert run(*QUERY, "--budget", "sqlite:///other.db#patients-2026")[0] == 9
        schema = Schema.from_toml("schema.toml")
        for budget in (None, Budget(9.0), office.budget("visits")):
            with pytest.raises(LedgerError, match="without which nothing is read"):
                PrivBayes(epsilon=1.0, budget=budget).fit("data.csv", schema=schema)
        assert not [line for line in office.history() if line["state"] == "started"]
    assert run(*QUERY, "--budget", f"{URL}#patients-2026/eve")[0] == 0
    table = Table.read("data.csv", schema)
    budget = office.budget("patients-2026")
    for taken in (None, Budget(9.0)):
        with pytest.raises(LedgerError):
            PrivBayes(epsilon=1.0, budget=taken).fit(table)
    own, noise = Budget(0.5, schedule="adaptive"), SecureNoise()
    with pytest.raises(LedgerError):
        RowDoor(table, budget=own)
    with pytest.raises(LedgerError):
        Door(MemorySource(table), strategy_named("joint"), budget=own, noise=noise)
    model = PrivBayes(epsilon=1.0, budget=budget).fit(table)
    assert not model.schema_.ledger  # what is released is free
    budget.reserve(own)
    RowDoor(table, budget=own)
    Door(MemorySource(table), strategy_named("joint"), budget=own, noise=noise)


def test_a_ledger_in_a_schema_tells_no_password():
    for wrong in ("budget.db", "postgresql://eve:SECRET@host/d#t", 5):
        with pytest.raises(SchemaError, match="URL#NAME") as caught:
            replace(DEMO, ledger=wrong)
        assert "SECRET" not in str(caught.value)
    named = replace(DEMO, ledger="postgresql://eve@host/d#t")
    assert named == DEMO
    assert Schema.from_dict(named.to_dict()).ledger == named.ledger


def test_a_fit_to_a_path_reads_nothing_before_it_is_charged(office, monkeypatch):
    seen, schema = read_when(office, monkeypatch), Schema.from_toml("schema.toml")
    budget = office.budget("patients-2026")
    with pytest.raises(ParameterError):  # by public facts alone: nothing is charged
        PrivBayes(epsilon=1.0, missing="no", budget=budget).fit("data.csv", schema=schema)
    assert (seen, spent(office)) == ([], 0)
    PrivBayes(epsilon=1.0, budget=budget).fit("data.csv", schema=schema)
    assert seen
    assert {states[-1] for states in seen} == {"started"}
    assert spent(office) == 1
    Path("data.csv").write_text("größe,age\nXXL,5\n")
    with pytest.raises(DataError):
        PrivBayes(epsilon=0.5, budget=budget).fit("data.csv", schema=schema)
    assert spent(office) == Fraction(3, 2)


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


def killed(where, *arguments):
    """Run a command in a process of its own that is killed at a boundary.

    A fork would do no good: libraries that read tables have threads here, and crash in its child.
    """
    owner, name, when = where
    command = (sys.executable, "-c", DYING, owner.__name__, name, when, *map(str, arguments))
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "boundary",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BOUNDARIES],
)
def test_a_run_that_is_killed_is_charged_once_and_draws_once(office, run, boundary, monkeypatch):
    office.close()
    arguments = (*FIT, "--delta", "0", *PAID, "--request", ID)
    killed(BOUNDARIES[boundary], *arguments)
    charged = spent(office)
    outputs = {path for path in Path().glob("out*") if path.stat().st_size > 2000}
    assert charged == (0 if boundary == "before the charge" else 1)
    assert charged or not outputs  # no output without its charge
    drawn = []
    real = Synthesizer.fit
    monkeypatch.setattr(Synthesizer, "fit", lambda *a, **k: drawn.append(1) or real(*a, **k))
    code, out, err = run(*arguments)
    if boundary == "before the charge":
        assert (code, "--overwrite" in err) == (5, True)  # the claim of a dead run stands there
        assert run(*arguments, "--overwrite")[0] == 0
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
            code, _, err = run(*arguments, "--overwrite")
        assert not model.exists() or run("sample", model, "-o", "more.csv", "--rows", "5")[0] == 0
    assert spent(office) == 1
    assert len(drawn) == (boundary == "before the charge")
    office.verify()
