"""The ledger: what it grants, whom it refuses, and that nothing of it can be rewritten."""

import copy
import json
import os
import pickle
import sqlite3
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import pytest

from missdp.accounting import (
    ApproximateEvent,
    Budget,
    Cost,
    ExplicitSeed,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
)
from missdp.errors import (
    BudgetExceededError,
    DataError,
    LedgerError,
    MissDPError,
    ParameterError,
    SchemaError,
    UnprovenError,
)
from missdp.office import Ledger, Purpose, ledger

TENTH = [PureEvent(epsilon=0.1)]
ID = "0" * 31


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/budget.db"


@pytest.fixture
def office(url):
    made = Ledger(url, who="ada")
    made.create("patients", epsilon=1.0)
    return made


def states(office, request):
    return [line["state"] for line in office.history() if line["request"] == request]


def test_ten_tenths_fit_exactly_and_an_eleventh_charge_is_recorded_as_refused(office):
    for _ in range(10):
        office.start("patients", TENTH)
    with pytest.raises(BudgetExceededError, match="nothing was charged"):
        office.start("patients", [PureEvent(epsilon=1e-12)], request=ID + "a")
    assert office.row("patients").spent == 1
    last = office.history("patients")[-1]
    assert (last["state"], last["who"]) == ("refused", "ada")
    assert "does not fit" in last["reason"]
    assert office.verify()["patients"][0] == 12


@pytest.mark.parametrize("times", [1_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_costs_of_a_trillionth_sum_exactly(office, times):
    row = office.row("patients")
    for _ in range(times):
        row = row.charged(Fraction(1, 10**12), Fraction(0), 0, "")
    office.start("patients", [PureEvent(epsilon=1e-12)] * times)
    assert row.spent == office.row("patients").spent == Fraction(times, 10**12)


def test_a_request_is_charged_and_drawn_once(office):
    started = office.start("patients", TENTH, request=ID + "1")
    for again in (TENTH, [PureEvent(epsilon=0.2)]):
        with pytest.raises(LedgerError, match="started before and is spent"):
            office.start("patients", again, request=ID + "1")
    office.finish(started.request, "f" * 64)
    with pytest.raises(LedgerError, match="started before and is released"):
        office.start("patients", TENTH, request=ID + "1")
    with pytest.raises(LedgerError, match="is released and cannot be released"):
        office.finish(started.request, "f" * 64)
    assert office.row("patients").spent == Fraction(1, 10)
    assert states(office, ID + "1") == ["started", "released"]


def test_what_comes_after_started_says_neither_when_nor_why(office):
    office.start("patients", TENTH, request=ID + "1")
    assert office.refuse(ID + "1", reason="a secret") == "abandoned"
    (line,) = (one for one in office.history() if one["state"] == "abandoned")
    assert set(line) == {"root", "number", "previous", "request", "state", "who"}
    assert office.row("patients").spent == Fraction(1, 10)  # no refund


def test_another_person_approves_and_the_approved_request_is_the_one_that_runs(url):
    ada, bob = Ledger(url, who="ada"), Ledger(url, who="bob")
    ada.create("patients", epsilon=1.0, approval=True)
    what = Purpose("report", "T-1", parameters={"method": "aim"})
    with pytest.raises(LedgerError, match="needs the approval of another person") as caught:
        ada.start("patients", TENTH, what)
    request = str(caught.value).split()[-1]
    with pytest.raises(LedgerError, match="not approved"):
        ada.start("patients", TENTH, what, request=request)
    with pytest.raises(LedgerError, match="another person"):
        ada.approve(request)
    bob.approve(request)
    with pytest.raises(ParameterError, match="something else"):
        ada.start("patients", TENTH, replace(what, parameters={"method": "mst"}), request=request)
    ada.start("patients", TENTH, what, request=request)
    assert states(ada, request) == ["requested", "approved", "started"]
    other = ada.request("patients", TENTH, what)
    assert bob.refuse(other, reason="not needed") == "refused"
    with pytest.raises(LedgerError, match="was refused"):
        ada.start("patients", TENTH, what, request=other)
    ada.verify()


def test_an_approval_covers_what_is_charged_not_only_its_parameters(url):
    ada, bob = Ledger(url, who="ada"), Ledger(url, who="bob")
    ada.create("patients", epsilon=1.0, approval=True)
    with pytest.raises(LedgerError, match="needs the approval") as caught:
        ada.start("patients", TENTH, Purpose())
    request = str(caught.value).split()[-1]
    bob.approve(request)
    for events, what in (
        ([PureEvent(epsilon=0.9)], Purpose()),
        (TENTH, Purpose(purpose="another")),
        (TENTH, Purpose(ticket="another")),
        (TENTH, Purpose(file="another")),
        (TENTH, Purpose(conditions=(ExplicitSeed(),))),
    ):
        with pytest.raises(ParameterError, match="something else"):
            ada.start("patients", events, what, request=request)


def test_a_budget_in_python_waits_for_approval_too(url):
    ada, bob = Ledger(url, who="ada"), Ledger(url, who="bob")
    ada.create("patients", epsilon=1.0, approval=True)
    with pytest.raises(LedgerError, match="needs the approval") as caught:
        ada.budget("patients", purpose="report").charge(*TENTH)
    request = str(caught.value).split()[-1]
    bob.approve(request)
    with pytest.raises(ParameterError, match="something else"):
        ada.budget("patients", request=request).charge(*TENTH)
    budget = ada.budget("patients", purpose="report", request=request)
    budget.charge(*TENTH)
    with pytest.raises(LedgerError, match="needs the approval"):  # of the next one anew
        budget.charge(*TENTH)
    assert ada.row("patients").spent == Fraction(1, 10)


def test_a_part_is_charged_to_the_whole_and_both_hold(office):
    office.create("patients/bob", epsilon=0.25)
    office.start("patients/bob", TENTH)
    assert [row.spent for row in office.rows().values()] == [Fraction(1, 10)] * 2
    with pytest.raises(BudgetExceededError, match="'patients/bob'"):
        office.start("patients/bob", [PureEvent(epsilon=0.2)])
    office.start("patients", [PureEvent(epsilon=0.85)])
    with pytest.raises(BudgetExceededError, match="'patients'"):
        office.start("patients/bob", TENTH)
    office.verify()


def test_schemas_of_a_table_spend_one_budget_and_a_new_one_is_said(office):
    office.start("patients", TENTH, Purpose(schema="a" * 64))
    with pytest.raises(SchemaError, match="--new-schema"):
        office.start("patients", TENTH, Purpose(schema="b" * 64))
    office.start("patients", TENTH, Purpose(schema="b" * 64, new_schema=True))
    for known in "ab":
        office.start("patients", TENTH, Purpose(schema=known * 64))
    assert office.row("patients").spent == Fraction(4, 10)


def test_an_epoch_has_its_own_budget_only_if_no_unit_is_in_two(url):
    office = Ledger(url)
    office.create("visits-2025", epsilon=1.0, table="visits")
    with pytest.raises(ParameterError, match="'visits-2025', which goes on"):
        office.create("visits-2026", epsilon=1.0, table="visits", disjoint_epochs=True)
    office.create("a", epsilon=1.0, table="t", disjoint_epochs=True)
    office.create("b", epsilon=1.0, table="t", disjoint_epochs=True)
    with pytest.raises(ParameterError, match="there already"):
        office.create("a", epsilon=2.0)


def test_failures_add_up_beside_the_amount(url):
    office = Ledger(url)
    office.create("visits", epsilon=1.0, delta=1e-6, failure=1e-8)
    office.start("visits", [ApproximateEvent(epsilon=0.1, delta=6e-9)])
    row = office.row("visits")
    assert (row.spent, row.failed) == (Fraction(1, 200), Fraction(6, 10**9))
    with pytest.raises(BudgetExceededError):
        office.start("visits", [ApproximateEvent(epsilon=0.1, delta=6e-9)])
    budget = office.budget("visits")
    assert budget.spent.delta == pytest.approx(1e-6 + 1e-8)
    for currency in ("gdp", "renyi"):
        office.create(currency, epsilon=1.0, delta=1e-6, currency=currency)
        with pytest.raises(UnprovenError, match="'zcdp'"):
            office.start(currency, [ApproximateEvent(epsilon=0.1, delta=1e-12)])
    with pytest.raises(ParameterError, match="failure"):
        office.create("pure", epsilon=1.0, failure=1e-9)
    office.verify()


def test_what_does_not_convert_is_refused_by_name_and_recorded(office):
    with pytest.raises(UnprovenError, match="ZCDPEvent"):
        office.start("patients", [ZCDPEvent(rho=0.01)], request=ID + "2")
    with pytest.raises(UnprovenError, match="replace-one"):
        office.start("patients", [PureEvent(epsilon=0.1, adjacency="replace-one")])
    with pytest.raises(ParameterError, match="'household'"):
        office.start("patients", TENTH, Purpose(unit="household"))
    assert states(office, ID + "2") == ["refused"]
    assert office.row("patients").spent == 0


def test_add_remove_releases_cost_double_where_rows_are_replaced(url):
    office = Ledger(url)
    office.create("visits", epsilon=1.0, adjacency="replace-one")
    office.start("visits", TENTH)
    assert office.row("visits").spent == Fraction(2, 10)
    office.verify()
    office.create("stays", epsilon=1.0, delta=1e-6, failure=1e-8, adjacency="replace-one")
    budget = office.budget("stays")
    budget.charge(PureEvent(epsilon=0.1))
    assert (budget.spent.epsilon, budget.spent.adjacency) == (1.0, "replace-one")


# A budget for everything that takes one
def test_it_is_a_budget(office):
    budget = office.budget("patients", purpose="report", ticket="T-1")
    assert isinstance(budget, Budget)
    assert budget.spent.epsilon == 0
    budget.charge(LaplaceEvent(sensitivity=1, scale=4.0), PureEvent(epsilon=0.1))
    part = budget.reserve(Budget(0.25, schedule="adaptive"), label="fit")
    part.charge(PureEvent(epsilon=0.2))  # costs the whole nothing more
    assert budget.left.amount == budget.remaining_epsilon == 0.4
    assert [event.kind for event in budget.events] == ["LaplaceEvent", "PureEvent", "PureEvent"]
    assert budget.spent.epsilon == 1.0
    assert budget.can_afford(PureEvent(epsilon=0.4))
    assert not budget.can_afford(PureEvent(epsilon=0.41))
    with pytest.raises(BudgetExceededError):
        budget.charge(PureEvent(epsilon=0.41))
    with pytest.raises(ParameterError, match="Condition"):
        budget.charge(*TENTH, conditions=["no condition"])
    assert office.history()[1]["purpose"] == "report"


def test_two_processes_see_what_each_other_spent(office, url):
    mine, theirs = office.budget("patients"), Ledger(url, who="bob").budget("patients")
    mine.charge(PureEvent(epsilon=0.6))
    assert theirs.remaining_epsilon == 0.4
    with pytest.raises(BudgetExceededError):
        theirs.charge(PureEvent(epsilon=0.6))


def test_copies_are_the_budget_itself_and_nothing_is_pickled(office):
    budget = office.budget("patients")
    assert copy.copy(budget) is copy.deepcopy(budget) is budget
    with pytest.raises(ParameterError, match="pickled"):
        pickle.dumps(budget)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("currency", "delta"), [("gdp", 1e-6), ("zcdp", 1e-9), ("pure", 0.0)])
def test_a_budget_holds_one_release_worth_all_of_it_and_no_more(url, epsilon, currency, delta):
    made = Ledger(url, who="head")
    made.create("once", epsilon=epsilon, delta=delta, currency=currency)
    made.create("once/eve", epsilon=epsilon)
    whole = Cost.worth(currency, epsilon, delta)
    made.start("once/eve", [whole.event()], Purpose())
    assert made.row("once").facts.cost.epsilon(delta) <= epsilon
    with pytest.raises(BudgetExceededError, match=f"of {currency}, and (0|.*e-[12].) is left"):
        made.start("once", [replace(whole, amount=whole.amount / 100).event()], Purpose())


def test_a_fork_makes_its_own(office, url):
    budget = office.budget("patients")
    budget.charge(*TENTH)
    if (child := os.fork()) == 0:
        code = 1
        try:
            budget.charge(*TENTH)
        except BudgetExceededError:
            office.start("patients", TENTH)  # a connection of its own
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    budget.charge(*TENTH)
    assert office.row("patients").spent == Fraction(3, 10)


def test_threads_spend_it_once(office):
    budget, granted = office.budget("patients"), []

    def spend():
        for _ in range(4):
            try:
                budget.charge(*TENTH)
            except BudgetExceededError:
                continue
            granted.append(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(granted), office.row("patients").spent) == (10, 1)


@pytest.mark.parametrize("currency", ["zcdp", "renyi", "gdp"])
def test_budgets_in_other_currencies_never_grant_more_than_they_say(url, currency):
    office = Ledger(url)
    office.create("visits", epsilon=1.0, delta=1e-6, currency=currency)
    office.create("visits/ada", epsilon=0.5)
    budget = office.budget("visits/ada")
    noise = GaussianEvent(sensitivity=1, sigma=25.0)
    times = 0
    while budget.can_afford(noise):
        budget.charge(noise)
        times += 1
    assert times > 1
    assert budget.spent.epsilon <= 0.5
    assert 0 <= budget.remaining_epsilon < 0.5
    office.verify()


# Trust
@pytest.fixture
def signed(office):
    office.create("patients/bob", epsilon=0.5)
    office.start("patients/bob", TENTH, request=ID + "1")
    office.finish(ID + "1", "f" * 64)
    return office


TABLES = {
    "lines": ("root", "number", "request", "state", "schema_hash", "time", "body", "hash"),
    "budgets": ("name", "root", "epochs_of", "facts", "spent", "failed", "last", "head"),
}


def opened(url):
    return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)


def freed(url):
    """Return a connection for somebody who may drop triggers."""
    found = opened(url)
    for (name,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        found.execute(f"DROP TRIGGER {name}")
    return found


@pytest.mark.parametrize(
    "statement",
    [
        *(f"UPDATE {table} SET {name} = 'x'" for table in TABLES for name in TABLES[table]),
        "DELETE FROM lines",
        "DELETE FROM budgets",
        "UPDATE budgets SET spent = '0/1', spent_floor = '0'",
        "UPDATE budgets SET spent_floor = '9' || spent_floor",
        "UPDATE budgets SET spent_floor = '9' || spent_floor, last = last + 1",
    ],
)
def test_the_database_itself_refuses_to_be_rewritten(signed, url, statement):
    with pytest.raises(sqlite3.IntegrityError, match="not rewritten"):
        opened(url).execute(statement)
    signed.verify()


@pytest.mark.parametrize("sums", ["spent_floor", "failed_floor"])
def test_a_line_does_not_let_sums_fall(signed, url, sums):
    here = opened(url)
    here.execute("BEGIN")
    here.execute(
        "INSERT INTO lines SELECT root, number + 1, 'x', 'y', '', '', '', 'z' FROM lines "
        "WHERE root = 'patients' ORDER BY number DESC LIMIT 1"
    )
    change = "UPDATE budgets SET last = last + 1, head = 'z', {} WHERE name = 'patients'"
    with pytest.raises(sqlite3.IntegrityError, match="not rewritten"):
        here.execute(change.format(f"{sums} = '-'"))
    here.execute(change.format(f"{sums} = '9' || {sums}"))  # else it were refused for that
    here.execute("ROLLBACK")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lines SET body = replace(body, 'ada', 'eve') WHERE number = 3",
        "UPDATE lines SET body = replace(body, '\"epsilon\":0.1', '\"epsilon\":0.01')",
        "UPDATE lines SET hash = 'f' || substr(hash, 2)",
        "DELETE FROM lines WHERE number = 2",
        "DELETE FROM lines WHERE number = 4",
        "DELETE FROM lines",
        "UPDATE lines SET number = 9 - number WHERE number > 2",
        "UPDATE lines SET body = 'no JSON'",
        "UPDATE budgets SET spent = '0/1'",
        "UPDATE budgets SET spent = 'x'",
        "UPDATE budgets SET failed = '1/2'",
        "UPDATE budgets SET head = ''",
        "UPDATE budgets SET facts = replace(facts, '\"amount\":1.0', '\"amount\":9.0')",
        "UPDATE budgets SET facts = replace(facts, '\"approval\":false', '\"approval\":true')",
        "DELETE FROM budgets WHERE name = 'patients/bob'",
        "UPDATE lines SET request = 'x', state = 'y' WHERE number = 3",
        "UPDATE lines SET schema_hash = 'x', time = 'y' WHERE number = 3",
        "UPDATE budgets SET epochs_of = 'x'",
        "UPDATE budgets SET spent_floor = '0'",
    ],
)
def test_whatever_is_changed_behind_its_back_is_found(signed, url, statement):
    signed.close()
    freed(url).execute(statement)
    with pytest.raises(LedgerError, match="was changed"):
        signed.verify()


def test_a_cut_or_restored_ledger_is_found_by_a_head(signed, url, tmp_path):
    signed.close()
    backup = tmp_path / "old.db"
    with opened(url) as here, sqlite3.connect(backup) as there:
        here.backup(there)
    head = signed.start("patients", TENTH).head
    assert signed.verify(head)["patients"] == (5, head)
    old = Ledger(f"sqlite:///{backup}")
    old.verify()  # by itself it seems whole
    with pytest.raises(LedgerError, match="cut or restored"):
        old.verify(head)


def test_export_and_import_are_the_same_ledger(signed, tmp_path):
    assert signed.export_lines(tmp_path / "lines.jsonl") == 4
    other = Ledger(f"sqlite:///{tmp_path}/other.db", who="eve")
    assert other.import_lines(tmp_path / "lines.jsonl") == 4
    assert other.verify() == signed.verify()
    assert other.rows() == signed.rows()
    with pytest.raises(LedgerError, match="started before"):
        other.start("patients/bob", TENTH, request=ID + "1")
    with pytest.raises(ParameterError, match="empty ledger"):
        other.import_lines(tmp_path / "lines.jsonl")
    text = (tmp_path / "lines.jsonl").read_text()
    for wrong in ("no JSON", "{}", '{"body": 1, "hash": 2}'):
        (tmp_path / "wrong").write_text(wrong)
        with pytest.raises((DataError, LedgerError)):
            Ledger(f"sqlite:///{tmp_path}/third.db").import_lines(tmp_path / "wrong")
    (tmp_path / "wrong").write_text(text.replace("ada", "eve"))
    with pytest.raises(LedgerError, match="was changed"):
        Ledger(f"sqlite:///{tmp_path}/third.db").import_lines(tmp_path / "wrong")


# Bad input
def test_when_a_release_ended_is_nowhere(url, office, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, zone):
            return datetime.now(zone) + timedelta(minutes=5)

    office.start("patients", TENTH, request=ID + "1")
    monkeypatch.setattr(ledger, "datetime", Later)
    office.finish(ID + "1", "f" * 64)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        started, released = connection.execute(
            "SELECT time FROM lines ORDER BY number DESC LIMIT 2"
        )
    assert started == released
    office.start("patients", TENTH)
    office.verify()


def test_a_file_that_is_no_ledger_is_refused(tmp_path, url):
    (tmp_path / "budget.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(url).rows()
    with pytest.raises(LedgerError, match="absent"):
        Ledger(f"sqlite:///{tmp_path}/none.db").rows()
    assert not (tmp_path / "none.db").exists()
    for wrong in ("budget.db", "mysql://x:SECRET@y", "sqlite://"):
        with pytest.raises(ParameterError, match="URL") as caught:
            Ledger(wrong)
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("pragma", "says"), [("max_page_count = 1", "disk is full"), ("query_only = 1", "read-only")]
)
def test_a_full_disk_or_a_read_only_one_charges_nothing(office, pragma, says):
    office._store._here.opened.connection.execute(f"PRAGMA {pragma}")
    many, long = [PureEvent(epsilon=1e-6)] * 500, Purpose(purpose="x" * 500)
    with pytest.raises(LedgerError, match=says):  # the page that is open takes a few lines
        assert [office.start("patients", many, long) for _ in range(9)] == []
    found = office.row("patients").spent
    started = [line for line in office.history() if line["state"] == "started"]
    assert found == len(started) * 500 * Fraction(1, 10**6)
    office.verify()


@pytest.mark.parametrize(
    ("call", "arguments", "given"),
    [
        ("create", ("a b",), {"epsilon": 1.0}),
        ("create", ("a/b/c",), {"epsilon": 1.0}),
        ("create", ("none/b",), {"epsilon": 1.0}),
        ("create", ("a",), {"epsilon": 0.0}),
        ("create", ("a",), {"epsilon": float("nan")}),
        ("create", ("a",), {"epsilon": 1.0, "delta": 1.0}),
        ("create", ("a",), {"epsilon": 1.0, "currency": "zcdp"}),
        ("create", ("a",), {"epsilon": 1.0, "currency": "gold"}),
        ("create", ("a",), {"epsilon": 1.0, "adjacency": "none"}),
        ("create", ("a",), {"epsilon": 1.0, "unit": "two\nlines"}),
        ("start", ("patiens", TENTH), {}),
        ("start", ("patients", TENTH), {"request": "my request"}),
        ("budget", ("patients",), {"purpose": "x" * 501}),
        ("budget", ("patients/eve",), {}),
        ("history", ("none",), {}),
        ("approve", (ID + "9",), {}),
        ("refuse", (ID + "9",), {}),
        ("finish", (ID + "9", "x"), {}),
        ("verify", ("0" * 64,), {}),
    ],
)
def test_bad_input_is_one_typed_error_and_nothing_is_recorded(office, call, arguments, given):
    before = json.dumps(office.history())
    with pytest.raises(MissDPError) as caught:
        getattr(office, call)(*arguments, **given)
    assert "\n" not in str(caught.value)
    assert json.dumps(office.history()) == before
