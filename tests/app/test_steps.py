"""The five steps without a browser: each form, its command, and its errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from missdp import Schema, load
from missdp.cli.main import main

pytestmark = pytest.mark.long
PLAIN = "questionnaire of 2024"


@pytest.fixture
def ready(client):
    """A client whose page has a saved schema."""
    client.enter()
    client.do("data", "read", data="people.csv")
    client.do("schema", "all", public=PLAIN)
    assert "Saved people.toml" in client.do("schema", "save", path="people.toml")
    return client


def test_draft_is_shown_and_not_saved(client, folder):
    client.enter()
    assert "3 columns: 2 are drafted, 1 is never read" in client.do(
        "data", "read", pick="people.csv"
    )
    shown = client.page("schema")
    assert "from the data: lower, upper, integer, nullable" in shown
    assert [path.name for path in folder.iterdir()] == ["people.csv"]
    assert "missdp schema init people.csv -o people.toml" in client.page("data")


def test_number_of_rows_is_typed_and_never_filled_in(ready):
    field = re.search(r'<input type="text" name="rows" value="(.*?)"', ready.page("plan"))
    assert field[1] == ""
    assert "type the number of rows" in ready.do("plan", "make", rows="")


def test_reason_declares_a_column_public(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    form = {"name": "age", "kind": "numeric", "lower": "0", "upper": "120", "nullable": "true"}
    client.do("schema", "row", **form, missing_codes="999, x")
    assert "age" in space.schema.schema.undeclared
    client.do("schema", "row", **form, missing_codes="999, x", public=PLAIN)
    age = space.schema.schema["age"]
    assert (age.lower, age.upper, age.missing_codes) == (0, 120, (999, "x"))
    assert "age" not in space.schema.schema.undeclared
    assert f"# Public because: {PLAIN}" in space.schema.toml


def test_wrong_facts_stay_in_the_form_and_change_nothing(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    before = space.schema.toml
    form = {"name": "age", "kind": "numeric", "lower": "90", "upper": "10", "text": "yes"}
    shown = client.do("schema", "row", **form)
    assert 'role="alert"' in shown
    assert "attribute &#39;age&#39;" in shown
    assert 'name="lower" value="90"' in shown
    assert space.schema.toml == before


def test_kind_of_a_person_becomes_the_unit(ready, space):
    form = {"name": "remarks", "kind": "unit", "max_rows": "3"}
    ready.do("schema", "row", **form)
    assert space.schema.schema.unit.column == "remarks"
    ready.do("schema", "row", name="remarks", kind="ignore")
    assert space.schema.schema.unit is None


def test_rules_are_tried_added_and_removed(ready, space):
    tried = ready.send("POST", "/schema/try", "rule=never&text=agee%3E3").text
    assert "agee" in json.loads(tried)["problem"]
    tried = ready.send("POST", "/schema/try", "rule=never&text=age+%3E+85").text
    assert json.loads(tried)["problem"] == ""
    ready.do("schema", "rule", rule="not_applicable", names="age", text="smoker = 'yes'")
    assert len(space.schema.schema.rules) == 1
    ready.do("schema", "remove", place="0")
    assert space.schema.schema.rules == ()


def test_an_edit_of_the_file_is_an_edit_of_the_page(ready, space):
    path = Path("people.toml")
    path.write_text(path.read_text().replace("upper = 90.0", "upper = 95.0"))
    assert 'name="upper" value="95"' in ready.page("schema")
    assert space.saved == path
    path.write_text("nonsense")
    assert "not valid TOML" in ready.page("schema")
    ready.do("schema", "text", toml=space.schema.toml.replace("95.0", "96.0"))
    assert "exists. Tick the box" in ready.do("schema", "save", path="people.toml")
    ready.do("schema", "save", path="people.toml", overwrite="yes")
    assert Schema.from_toml(path)["age"].upper == 96


def test_a_form_of_an_old_tab_is_refused(ready, space):
    before = space.schema.toml
    assert "another tab" in ready.do("schema", "all", version="0", public="x")
    assert space.schema.toml == before


def test_from_schema_to_dossier_as_on_the_command_line(ready, space, folder):
    assert "The data fit the schema" in ready.do("schema", "check")
    shown = ready.do("plan", "make", rows="400", epsilon="1, 2", means="age")
    assert "Take ε = 2" in shown
    assert "Width of the 95 % interval of the mean of age" in shown
    ready.do("plan", "choose", epsilon="2.0")
    account = {"ledger": "sqlite:///l.db", "account": "people", "privacy-measure": "gdp"}
    shown = ready.do("release", "account", **account, total="3", total_delta="1e-5")
    assert "people: budget ε 3" in shown
    shown = ready.do("release", "state", **account, epsilon="2")
    assert "(2, 1e-06)-differentially private" in shown
    assert space.account["accounts"][0]["spent"] == 0
    command = "missdp fit people.csv --schema people.toml --epsilon 2 -o people.model.json"
    command += " --ledger sqlite:///l.db --account people"
    assert command in shown
    assert "tick the box" in ready.do("release", "confirm", command=command)
    assert "state the guarantee again" in ready.do("release", "confirm", confirmed="1", command="x")
    shown = ready.do("release", "confirm", confirmed="yes", command=command)
    assert "Released: people.model.json" in shown
    assert "state the guarantee again" in ready.do(
        "release", "confirm", confirmed="1", command=command
    )
    assert load("people.model.json").ledger_["budget"] == "people"
    ready.do("look", "rows", output="people.synthetic.csv")
    assert ready.send("GET", "/file/rows", Origin="").text.startswith('"smoker","age"')
    ready.do("look", "dossier", folder="d", title="People")
    assert "People" in ready.send("GET", "/file/report", Origin="").text
    assert ready.send("GET", "/file/dossier", Origin="").status == 200
    assert "to" in ready.do("look", "estimate", question="mean(age) by smoker")
    ready.do("look", "estimate", question="nowhere(age)")
    assert "nowhere" in space.problem.message
    ready.do("look", "compare")
    answer = ready.send("GET", "/file/curator", Origin="")
    assert "CURATOR ONLY" in answer.text
    assert "sandbox" in answer.getheader("Content-Security-Policy")
    texts = [p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "people.csv"]
    assert not any(b"secret" in text or b"CURATOR ONLY" in text for text in texts)


def test_a_release_beyond_the_budget_is_refused(ready, space):
    account = {"ledger": "sqlite:///l.db", "account": "people", "privacy-measure": "gdp"}
    ready.do("release", "account", **account, total="1", total_delta="1e-6")
    shown = ready.do("release", "state", **account, epsilon="5")
    assert "The budget is too small" in shown
    assert (space.planned, Path("people.model.json").exists()) == (None, False)


def test_undeclared_facts_refuse_a_release(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    client.do("schema", "save", path="people.toml")
    assert "The schema or the data do not fit" in client.do("release", "state", epsilon="1")
    assert space.planned is None


def test_a_missing_file_is_a_problem(client):
    client.enter()
    assert "no data file" in client.do("data", "read", data="absent.csv")


def test_a_killed_server_leaves_a_charge_and_no_model(folder, account):
    """The command of a killed server stops as a command whose terminal is closed."""
    assert main(["schema", "init", "people.csv", "-o", "s.toml", "-q"]) == 0
    text = Path("s.toml").read_text()
    Path("s.toml").write_text(re.sub(r"undeclared = \[.*?\]\n", "", text))
    code = (
        "import sys, time; from missdp.app.jobs import Job; "
        "job = Job('release', sys.argv[1:], print, print); print('started', flush=True)\n"
        "while True:\n time.sleep(0.05); print(job.stage, flush=True)"
    )
    words = ["fit", "people.csv", "--schema", "s.toml", "--epsilon", "1", "-o", "m.json"]
    command = [sys.executable, "-c", code, *words, *account]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if line.strip() not in ("started", "starting"):
                break
        server.send_signal(signal.SIGKILL)
    time.sleep(3)
    started = subprocess.run(
        [sys.executable, "-m", "missdp", "ledger", "show", "--ledger", "sqlite:///l.db", "--json"],
        capture_output=True, text=True, check=True, env={**os.environ},
    )  # fmt: skip
    (shown,) = json.loads(started.stdout)["accounts"]
    if Path("m.json").exists():  # noise was drawn, so the charged model was saved first
        assert shown["started"] == []
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]
    assert not re.search(r"m\.json", " ".join(open_commands()))


def open_commands():
    """Command lines of running processes."""
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    here = os.getcwd()
    return [
        line for line in shown.stdout.splitlines() if "missdp.app.child" in line and here in line
    ]
