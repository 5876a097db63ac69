"""A ledger in PostgreSQL behaves as one in SQLite. Killed writers of both leave it exact."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from missdp.accounting import PureEvent
from missdp.cli.main import main
from missdp.errors import BudgetExceededError, LedgerError, ParameterError
from missdp.governance import Ledger
from refusing import refused

pytestmark = pytest.mark.short
BENCH = Path(__file__).parents[2] / "bench"
TENTH = [PureEvent(epsilon=0.1)]
ID = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def psycopg():
    return pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def sql(psycopg):
    """Run statements on the database of a URL, each by itself."""

    def ran(url, *statements):
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    return ran


@pytest.fixture(scope="module")
def database(server, sql):
    """Make a fresh database of a server, and return its URL."""
    names = iter(f"ledger_{number}" for number in range(99))

    def made():
        name = next(names)
        sql(server, f"CREATE DATABASE {name}")
        return server.replace("/postgres?", f"/{name}?")

    return made


@pytest.fixture(scope="module")
def written(database):
    url = database()
    office = Ledger(url, who="ada")
    office.create("patients", epsilon=1.0)
    office.start("patients", TENTH)
    return url


def test_it_is_the_same_ledger(database):
    office = Ledger(database(), who="ada")
    refused(LedgerError, "no ledger in this database", office.rows)
    office.create("patients", epsilon=1.0)
    office.create("patients/bob", epsilon=0.3)
    started = office.start("patients/bob", TENTH, request=ID)
    refused(LedgerError, "started before", office.start, "patients", TENTH, request=ID)
    office.finish(ID, "f" * 64)
    more = [PureEvent(epsilon=0.21)]
    refused(BudgetExceededError, None, office.start, "patients/bob", more)
    office.budget("patients").charge(PureEvent(epsilon=0.9))
    assert [row.spent for row in office.rows().values()] == [1, Fraction(1, 10)]
    assert office.verify(started.head)["patients"][0] == 6


def test_a_commit_is_on_the_disk_whatever_the_server_does_by_default(database, sql):
    url = database()
    sql(url, "ALTER ROLE CURRENT_USER SET synchronous_commit = off")
    office = Ledger(url)
    office.create("patients", epsilon=1.0)
    with office._store.transaction() as run:
        assert run._connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    sql(url, "ALTER ROLE CURRENT_USER RESET synchronous_commit")


def test_a_fork_has_connections_of_its_own(database):
    office = Ledger(database())
    office.create("patients", epsilon=1.0)
    office.start("patients", TENTH)
    if (child := os.fork()) == 0:
        code = 1
        try:
            office.start("patients", TENTH)
            office.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    office.start("patients", TENTH)  # on the connection that was open before
    assert office.row("patients").spent == Fraction(3, 10)
    office.verify()


def test_the_server_refuses_to_rewrite_it(written, psycopg, sql):
    for statement in (
        *("UPDATE lines SET body = 'x'", "DELETE FROM lines", "TRUNCATE lines"),
        *("DELETE FROM budgets", "TRUNCATE budgets", "UPDATE budgets SET facts = 'x'"),
        "UPDATE budgets SET spent = '0/1', spent_floor = '0'",
        "UPDATE budgets SET last = last + 1",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="ledger"):
            sql(written, statement)
        Ledger(written).verify()


def test_a_role_that_may_charge_can_rewrite_nothing(database, psycopg, sql):
    head = Ledger(url := database(), who="head")
    head.create("patients", epsilon=1.0)
    sql(url, "CREATE ROLE ada LOGIN")
    theirs = url.replace("postgres@", "ada@")
    refused(LedgerError, "has no permission", Ledger(theirs).rows)
    refused(ParameterError, "a role must be", head.grant, 'ada"; DROP TABLE lines')
    head.grant("ada")
    ada = Ledger(theirs, who="ada")
    ada.start("patients", TENTH, request=ID)
    ada.finish(ID, "f" * 64)
    assert ada.verify()["patients"][0] == 3
    refused(LedgerError, "has no permission", ada.create, "visits", epsilon=1.0)
    for statement in (
        *("UPDATE lines SET body = 'x'", "DELETE FROM lines", "TRUNCATE lines"),
        *("DELETE FROM budgets", "UPDATE budgets SET facts = 'x'"),
        "UPDATE ledger SET version = 0",
        *("DROP TRIGGER lines_update ON lines", "ALTER TABLE lines DISABLE TRIGGER ALL"),
        *("DROP TABLE lines", "INSERT INTO budgets SELECT * FROM budgets"),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql(theirs, statement)
    with pytest.raises(psycopg.errors.RaiseException, match="not rewritten"):
        sql(theirs, "UPDATE budgets SET spent = '0/1', spent_floor = '0'")


def test_a_lock_is_waited_for_and_a_refusal_shows_no_password(written, psycopg):
    with psycopg.connect(written) as other:
        other.execute("SELECT * FROM budgets FOR UPDATE")
        refused(LedgerError, "locked", Ledger(written, wait=0.2).start, "patients", TENTH)
    unreachable = Ledger("postgresql://ada:SECRET@/nowhere?host=/nowhere", wait=2)
    refused(LedgerError, "address, role and password", unreachable.rows)
    said = refused(ParameterError, "is named by a URL", Ledger, "postgresql://SECRET:x@[::1")
    assert "SECRET" not in said
    assert Ledger(written).row("patients").spent == Fraction(1, 10)


def test_only_the_server_gets_the_password(server, psycopg, sql, capsys, monkeypatch):
    rules = Path(server.partition("host=")[2]) / "data" / "pg_hba.conf"
    sql(server, "CREATE ROLE locked LOGIN PASSWORD 'RIGHT'")
    rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
    sql(server, "SELECT pg_reload_conf()")
    theirs = server.replace("postgres@", "locked@")
    for _ in range(200):  # until the server has read it
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(theirs):
            time.sleep(0.1)
            continue
        break
    wrong, right = (theirs.replace("@", f":{word}@") for word in ("SECRET", "RIGHT"))
    for url, variable in ((wrong, ""), (theirs, ""), (theirs, "SECRET")):
        monkeypatch.setenv("PGPASSWORD", variable)
        assert main(["ledger", "show", "--ledger", url]) == 9
        said = "".join(capsys.readouterr())
        assert ("address, role and password" in said, said.count("\n")) == (True, 1)
        assert "SECRET" not in said
    assert main(["ledger", "show", "--ledger", right]) == 9
    assert "no ledger in this database" in capsys.readouterr().err


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_two_who_create_at_once_give_a_table_one_budget(database, sql, monkeypatch, isolation):
    url, role = database(), "ALTER ROLE CURRENT_USER {} default_transaction_isolation {}"
    sql(url, role.format("SET", f"= '{isolation}'"))
    Ledger(url).create("patients", epsilon=1.0)
    looked, look, done = threading.Event(), Ledger._refuse_existing, []

    def slowly(self, run, made):
        look(self, run, made)
        looked.set()
        time.sleep(0.5)

    def create(name):
        with contextlib.suppress(ParameterError):
            Ledger(url).create(name, epsilon=1.0, table="visits")
            done.append(name)

    monkeypatch.setattr(Ledger, "_refuse_existing", slowly)
    first = threading.Thread(target=create, args=("visits-2025",))
    first.start()
    assert looked.wait(200)
    create("visits-2026")
    first.join()
    assert done == ["visits-2025"]
    Ledger(url).verify()
    sql(url, role.format("RESET", ""))


def writers(**facts):
    """Return the results of writers of a ledger. They are forked in a process without threads."""
    code = "import json, sys, ledger; print(json.dumps(ledger.run(**json.loads(sys.argv[1]))))"
    command = [sys.executable, "-c", code, json.dumps(facts)]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCH), *sys.path])}
    done = subprocess.run(command, env=place, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kind", "charges"),
    [
        ("sqlite", 8),
        pytest.param("sqlite", 24, marks=pytest.mark.slow),
        pytest.param("postgresql", 24, marks=pytest.mark.slow),
    ],
)
def test_killed_writers_overspend_lose_double_and_draw_twice_nothing(
    tmp_path, kind, charges, request
):
    made = request.getfixturevalue("database") if kind == "postgresql" else None
    url = made() if made else f"sqlite:///{tmp_path}/budget.db"
    got = writers(url=url, writers=4, charges=charges, kills=True)
    # Three quarters of the requested charges succeed.
    assert got["charged"] == 3 * charges
    assert [got[what] for what in ("overspent", "lost", "doubled", "drawn twice")] == [0] * 4


@pytest.mark.long
def test_compute_then_charge_gives_free_answers_and_is_told_from_it(tmp_path):
    url = f"sqlite:///{tmp_path}/budget.db"
    assert writers(url=url, writers=2, charges=12, late=True)["lost"] == 6
