"""The ledger: its grants, its rejections, and that no entry of it can be rewritten."""

import contextlib
import copy
import json
import math
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from missdp.accounting import (
    ApproximateEvent,
    Cost,
    Filter,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
)
from missdp.errors import (
    BudgetExceededError,
    LedgerError,
    MissDPError,
    ParameterError,
    SchemaError,
    UnprovenError,
)
from missdp.governance import Ledger, Purpose, ledger
from refusing import refused, refuses

TENTH = [PureEvent(epsilon=0.1)]
ONE, TWO, NINE = ("0" * 31 + digit for digit in "129")


def pure(epsilon, **more):
    return [PureEvent(epsilon=epsilon, **more)]


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
    refused(BudgetExceededError, "Nothing was charged", office.start, "patients", pure(1e-12))
    assert office.row("patients").spent == 1
    last = office.history("patients")[-1]
    assert (last["state"], last["who"]) == ("refused", "ada")
    assert "does not fit" in last["reason"]
    assert office.verify()["patients"][0] == 12


@pytest.mark.parametrize("times", [1_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_costs_of_a_trillionth_sum_exactly(office, times):
    row = office.row("patients")
    for _ in range(times):
        row = row.charged(Fraction(1, 10**12), Fraction(0))
    office.start("patients", pure(1e-12) * times)
    assert row.spent == office.row("patients").spent == Fraction(times, 10**12)


def test_a_request_is_charged_and_drawn_once(office):
    office.start("patients", TENTH, request=ONE)
    for again in (TENTH, pure(0.2)):
        said = "started before and is spent"
        refused(LedgerError, said, office.start, "patients", again, request=ONE)
    office.finish(ONE, "f" * 64)
    said = "started before and is released"
    refused(LedgerError, said, office.start, "patients", TENTH, request=ONE)
    refused(LedgerError, "is released and cannot be released", office.finish, ONE, "f" * 64)
    assert office.row("patients").spent == Fraction(1, 10)
    assert states(office, ONE) == ["started", "released"]


def test_what_comes_after_started_says_neither_when_nor_why(url, office, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, zone):
            return datetime.now(zone) + timedelta(minutes=5)

    office.start("patients", TENTH, request=ONE)
    office.abandon(ONE)
    (line,) = (one for one in office.history() if one["state"] == "abandoned")
    assert set(line) == {"root", "number", "previous", "request", "state", "who"}
    assert office.row("patients").spent == Fraction(1, 10)  # no refund
    office.start("patients", TENTH, request=TWO)
    monkeypatch.setattr(ledger, "datetime", Later)
    office.finish(TWO, "f" * 64)
    started, released = opened(url).execute("SELECT time FROM lines ORDER BY number DESC LIMIT 2")
    assert started == released
    office.start("patients", TENTH)
    office.verify()


def test_a_part_is_charged_to_the_whole_and_both_hold(office):
    office.create("patients/bob", epsilon=0.25)
    office.start("patients/bob", TENTH)
    assert [row.spent for row in office.rows().values()] == [Fraction(1, 10)] * 2
    refused(BudgetExceededError, "'patients/bob'", office.start, "patients/bob", pure(0.2))
    office.start("patients", pure(0.85))
    refused(BudgetExceededError, "'patients'", office.start, "patients/bob", TENTH)
    office.verify()


def test_schemas_of_a_table_spend_one_budget_and_a_new_one_is_said(office):
    office.start("patients", TENTH, Purpose(schema="a" * 64))
    unknown = Purpose(schema="b" * 64)
    refused(SchemaError, "--new-schema", office.start, "patients", TENTH, unknown)
    office.start("patients", TENTH, replace(unknown, new_schema=True))
    for known in "ab":
        office.start("patients", TENTH, Purpose(schema=known * 64))
    assert office.row("patients").spent == Fraction(4, 10)


def test_an_epoch_has_its_own_budget_only_if_no_unit_is_in_two(office):
    office.create("visits-2025", epsilon=1.0, table="visits")
    other = {"epsilon": 1.0, "disjoint_epochs": True}
    said = "'visits-2025', which goes on"
    refused(ParameterError, said, office.create, "visits-2026", table="visits", **other)
    for name in "ab":
        office.create(name, table="t", **other)
    refused(ParameterError, "exists already", office.create, "a", epsilon=2.0)


def test_failures_add_up_beside_the_amount(office):
    may_fail = [ApproximateEvent(epsilon=0.1, delta=6e-9)]
    office.create("visits", epsilon=1.0, delta=1e-6, failure=1e-8)
    office.start("visits", may_fail)
    row = office.row("visits")
    assert (row.spent, row.failed) == (Fraction(1, 200), Fraction(6, 10**9))
    refused(BudgetExceededError, "of failure", office.start, "visits", may_fail)
    assert office.budget("visits").spent.delta == pytest.approx(1e-6 + 1e-8)
    office.create("gdp", epsilon=1.0, delta=1e-6, privacy_measure="gdp")
    refused(UnprovenError, "'zcdp'", office.start, "gdp", may_fail)
    refused(ParameterError, "failure", office.create, "pure", epsilon=1.0, failure=1e-9)
    office.verify()


def test_what_does_not_convert_is_refused_by_name_and_recorded(office):
    for kind, says, events, what in (
        (UnprovenError, "create --delta", [ZCDPEvent(rho=0.01)], Purpose()),
        (UnprovenError, "replace-one", pure(0.1, adjacency="replace-one"), Purpose()),
        (ParameterError, "'household'", TENTH, Purpose(unit="household")),
    ):
        refused(kind, says, office.start, "patients", events, what)
    assert [line["state"] for line in office.history()] == ["created", *["refused"] * 3]
    assert office.row("patients").spent == 0


def test_add_remove_releases_cost_double_where_rows_are_replaced(office):
    office.create("visits", epsilon=1.0, adjacency="replace-one")
    office.start("visits", TENTH)
    assert office.row("visits").spent == Fraction(2, 10)
    office.verify()
    office.create("stays", epsilon=1.0, delta=1e-6, failure=1e-8, adjacency="replace-one")
    budget = office.budget("stays")
    budget.charge(*TENTH)
    assert (budget.spent.epsilon, budget.spent.adjacency) == (1.0, "replace-one")


# A budget for everything that takes one
def test_it_is_a_budget(office, url):
    budget = office.budget("patients", purpose="report", ticket="T-1")
    assert isinstance(budget, Filter)
    assert budget.spent.epsilon == 0
    budget.charge(LaplaceEvent(sensitivity=1, scale=4.0), *TENTH)
    part = budget.reserve(Filter(0.25), label="fit")
    part.charge(PureEvent(epsilon=0.2))  # costs the whole nothing more
    assert budget.remaining.amount == budget.remaining_epsilon == 0.4
    assert [event.kind for event in budget.events] == ["LaplaceEvent", "PureEvent", "PureEvent"]
    assert budget.spent.epsilon == 1.0
    theirs = Ledger(url, who="bob").budget("patients")  # of another process
    assert theirs.remaining_epsilon == 0.4
    for one in (budget, theirs):
        assert one.can_afford(PureEvent(epsilon=0.4))
        assert not one.can_afford(PureEvent(epsilon=0.41))
        refused(BudgetExceededError, "does not fit", one.charge, PureEvent(epsilon=0.41))
    refused(ParameterError, "Condition", budget.charge, *TENTH, conditions=["no condition"])
    assert office.history()[1]["purpose"] == "report"
    assert copy.copy(budget) is copy.deepcopy(budget) is budget
    refused(ParameterError, "pickled", pickle.dumps, budget)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(
    ("privacy_measure", "delta"), [("gdp", 1e-6), ("zcdp", 1e-9), ("pure", 0.0)]
)
def test_a_budget_holds_one_release_worth_all_of_it_and_no_more(
    url, epsilon, privacy_measure, delta
):
    made = Ledger(url, who="head")
    made.create("once", epsilon=epsilon, delta=delta, privacy_measure=privacy_measure)
    made.create("once/eve", epsilon=epsilon)
    whole = Cost.from_epsilon(privacy_measure, epsilon, delta)
    made.start("once/eve", [whole.event()], Purpose())
    assert made.row("once").facts.cost.epsilon(delta) <= epsilon
    more = [replace(whole, amount=whole.amount / 100).event()]
    said = f"of {privacy_measure}, and (0|.*e-[12].) is left"
    refused(BudgetExceededError, said, made.start, "once", more, Purpose())


def test_a_fork_makes_its_own(office):
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


@pytest.mark.parametrize("privacy_measure", ["zcdp", "gdp"])
def test_budgets_in_other_currencies_never_grant_more_than_they_say(url, privacy_measure):
    office = Ledger(url)
    office.create("visits", epsilon=1.0, delta=1e-6, privacy_measure=privacy_measure)
    office.create("visits/ada", epsilon=0.5)
    budget, noise, times = office.budget("visits/ada"), GaussianEvent(sensitivity=1, sigma=25.0), 0
    while budget.can_afford(noise):
        budget.charge(noise)
        times += 1
    assert times > 1
    assert budget.spent.epsilon <= 0.5
    assert 0 <= budget.remaining_epsilon < 0.5
    office.verify()


# Trust
def test_a_file_is_open_in_transactions_only(url, tmp_path):
    made = Ledger(url, who="ada")
    made.create("patients", epsilon=1.0)
    made.start("patients", TENTH, request=ONE)
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]


READS = "import sys; from missdp.governance import Ledger; print(Ledger(sys.argv[1]).verify())"


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_charges_of_a_fork_are_seen_by_others_when_its_parent_is_gone(url, tmp_path):
    """Locks of SQLite belong to a process. A child must not use a connection of its parent."""
    code = f"""
import os, time
from missdp.governance import Ledger
from missdp.accounting import PureEvent
ledger = Ledger({url!r})
ledger.create("patients", epsilon=1.0)
ledger.row("patients")
if os.fork() == 0:
    time.sleep(0.5)  # by then the parent is gone
    own = Ledger({url!r})
    for request in "ab":
        own.start("patients", (PureEvent(epsilon=0.5),), request=request * 32)
        os.system({f"{sys.executable} -c '{READS}' {url}"!r} + " > /dev/null")
    open({str(tmp_path / "done")!r}, "w").close()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    for _ in range(3000):  # so long only if the machine is busy
        if (tmp_path / "done").exists():
            break
        time.sleep(0.1)
    others = Ledger(url)
    assert others.row("patients").spent == 1
    with pytest.raises(BudgetExceededError):
        others.start("patients", TENTH)


@pytest.mark.long
def test_a_copy_of_the_file_loses_no_charge(url, tmp_path):
    ledger = Ledger(url, who="ada")
    ledger.create("patients", epsilon=1.0)
    ledger.row("patients")
    shutil.copy(tmp_path / "budget.db", tmp_path / "copy.db")
    colleague = [sys.executable, "-c", READS, url]
    assert b"(1, " in subprocess.run(colleague, check=True, capture_output=True).stdout
    ledger.start("patients", TENTH, request=ONE)
    assert b"(2, " in subprocess.run(colleague, check=True, capture_output=True).stdout


def test_an_empty_file_becomes_a_ledger_with_a_log(url, tmp_path):
    (tmp_path / "budget.db").touch()
    Ledger(url).create("patients", epsilon=1.0)
    with contextlib.closing(sqlite3.connect(tmp_path / "budget.db")) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_url_is_read_in_one_way(tmp_path):
    own, official = tmp_path / "mine", tmp_path / "official.db"
    refused(ParameterError, "is named by a URL", Ledger, f"sqlite:///{own}?/../official.db")
    assert Ledger(f"sqlite:///{official}").is_at(f"sqlite:///{tmp_path}/x/../official.db")


def test_a_sum_that_its_floor_contradicts_is_refused(office, url, tmp_path):
    """As a role could lower it that may charge: triggers hold floors, and sums are read."""
    office.start("patients", TENTH, request=ONE)
    with contextlib.closing(sqlite3.connect(tmp_path / "budget.db")) as file, file:
        file.execute(
            "INSERT INTO lines SELECT root, number + 1, 'f' || request, state, schema_hash, time, "
            "body, 'x' FROM lines ORDER BY number DESC LIMIT 1"
        )
        file.execute("UPDATE budgets SET spent = '0/1', last = last + 1, head = 'x'")
    refused(LedgerError, "was changed", office.start, "patients", TENTH, request=TWO)
    refused(LedgerError, "was changed", office.row, "patients")


@pytest.fixture
def signed(office):
    office.create("patients/bob", epsilon=0.5)
    office.start("patients/bob", TENTH, request=ONE)
    office.finish(ONE, "f" * 64)
    return office


TABLES = {
    "lines": ("root", "number", "request", "state", "schema_hash", "time", "body", "hash"),
    "budgets": ("name", "root", "epochs_of", "facts", "spent", "failed", "last", "head"),
}


def opened(url):
    return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)


def test_the_database_itself_refuses_to_be_rewritten(signed, url):
    for statement in (
        *(f"UPDATE {table} SET {name} = 'x'" for table in TABLES for name in TABLES[table]),
        "DELETE FROM lines",
        "DELETE FROM budgets",
        "UPDATE budgets SET spent = '0/1', spent_floor = '0'",
        "UPDATE budgets SET spent_floor = '9' || spent_floor",
        "UPDATE budgets SET spent_floor = '9' || spent_floor, last = last + 1",
    ):
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


def test_whatever_is_changed_behind_its_back_is_found(signed, url):
    signed.close()
    here = opened(url)  # somebody who may drop triggers
    for (name,) in [*here.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
        here.execute(f"DROP TRIGGER {name}")
    here.backup(kept := sqlite3.connect(":memory:"))
    for statement in (
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
        'UPDATE budgets SET facts = replace(facts, \'"unit":"row"\', \'"unit":"x"\')',
        "DELETE FROM budgets WHERE name = 'patients/bob'",
        "UPDATE lines SET request = 'x', state = 'y' WHERE number = 3",
        "UPDATE lines SET schema_hash = 'x', time = 'y' WHERE number = 3",
        "UPDATE budgets SET epochs_of = 'x'",
        "UPDATE budgets SET spent_floor = '0'",
    ):
        here.execute(statement)
        refused(LedgerError, "was changed", signed.verify)
        kept.backup(here)
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
    refused(LedgerError, "truncated or restored", old.verify, head)


# Durability
def test_a_commit_is_on_the_disk_before_it_returns(office):
    with office._store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_charge_is_in_no_transaction_of_its_caller(office):
    with contextlib.suppress(ZeroDivisionError), office._store.transaction(reads=True):
        office.start("patients", TENTH)
        raise ZeroDivisionError
    assert office.row("patients").spent == Fraction(1, 10)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_failed_commit_counts_as_charged_and_grants_nothing(office, monkeypatch, recorded):
    commit = Connection.commit

    def failing(connection):
        if recorded:  # and the answer is lost
            commit(connection)
        raise OperationalError("COMMIT", None, sqlite3.OperationalError("SECRET"))

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "commit", failing)
        refused(LedgerError, "counts as charged", office.start, "patients", TENTH, request=ONE)
    assert office.row("patients").spent == (Fraction(1, 10) if recorded else 0)
    if recorded:
        refused(LedgerError, "started before", office.start, "patients", TENTH, request=ONE)
    office.start("patients", TENTH, request=TWO)
    office.verify()


# Bad input
def test_a_file_that_is_no_ledger_is_refused(tmp_path, url):
    (tmp_path / "budget.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    refused(LedgerError, "damaged", Ledger(url).rows)
    refused(LedgerError, "no ledger at", Ledger(f"sqlite:///{tmp_path}/none.db").rows)
    assert not (tmp_path / "none.db").exists()
    for wrong in ("budget.db", "mysql://x:SECRET@y", "sqlite://"):
        refused(ParameterError, "URL", Ledger, wrong)


@pytest.mark.parametrize(
    ("pragma", "says"), [("max_page_count = 1", "disk is full"), ("query_only = 1", "read-only")]
)
def test_a_full_disk_or_a_read_only_one_charges_nothing(office, pragma, says):
    engine = office._store._engine
    event.listen(engine, "connect", lambda opened, _: opened.execute(f"PRAGMA {pragma}"))
    many, long = pure(1e-6) * 500, Purpose(purpose="x" * 500)
    with refuses(LedgerError, says):  # the page that is open takes a few lines
        assert [office.start("patients", many, long) for _ in range(9)] == []
    started = [line for line in office.history() if line["state"] == "started"]
    assert office.row("patients").spent == len(started) * 500 * Fraction(1, 10**6)
    office.verify()


BAD = [
    *(("create", (name,), {"epsilon": 1.0}) for name in ("a b", "a/b/c", "none/b")),
    *(("create", ("a",), {"epsilon": epsilon}) for epsilon in (0.0, float("nan"))),
    *(
        ("create", ("a",), {"epsilon": 1.0, name: value})
        for name, value in (
            *(
                ("delta", 1.0),
                ("privacy_measure", "zcdp"),
                ("privacy_measure", "gold"),
                ("adjacency", "none"),
            ),
            ("unit", "two\nlines"),
        )
    ),
    ("start", ("patiens", TENTH), {}),
    ("start", ("patients", TENTH), {"request": "my request"}),
    ("budget", ("patients",), {"purpose": "x" * 501}),
    ("budget", ("patients/eve",), {}),
    ("history", ("none",), {}),
    ("abandon", (NINE,), {}),
    ("finish", (NINE, "x"), {}),
    ("verify", ("0" * 64,), {}),
]


def test_bad_input_is_one_typed_error_and_nothing_is_recorded(office):
    before = json.dumps(office.history())
    for call, arguments, given in BAD:
        refused(MissDPError, None, getattr(office, call), *arguments, **given)
        assert json.dumps(office.history()) == before, call


def test_remaining_releases_epsilon_of_zero_raises_error(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db", who="ada")
    ledger.create("table", epsilon=1.0)
    for epsilon in (0, 0.0, -1.0, math.nan):
        with refuses(ParameterError, "epsilon must be"):
            ledger.budget("table").remaining_releases(epsilon)
