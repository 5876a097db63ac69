"""The five steps without a browser: each form, its command, and its errors."""

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd
import pytest

from missdp import AllPairs, Schema, load
from missdp.cli.main import main

pytestmark = pytest.mark.long
PLAIN = "questionnaire of 2024"


def edit(client, column=None, changes=(), **fields):
    """Send the form of the schema as the browser shows it, with some changes. Save it."""
    page, action = client.page("schema"), fields.pop("action", "save")
    form = FormFields.of(page, "/schema/save") | fields
    if column is not None:
        begin = place_of(column, page)
        form |= {f"{begin}.{name}": text for name, text in dict(changes).items()}
        form = {name: text for name, text in form.items() if text is not None}
    return client.do("schema", action, **form)


def place_of(column, page):
    """Return the place of a column in the form of the schema."""
    return re.search(rf'id="column-(\d+)"[^>]*>\s*<summary><bdi>{column}<', page)[1]


class FormFields(HTMLParser):
    """The fields of a form of a page with their values, as a browser would send them."""

    @classmethod
    def of(cls, page, action):
        parser = cls()
        parser.action, parser.fields, parser.inside, parser.name = action, {}, 0, None
        parser.feed(page)
        return parser.fields

    def handle_starttag(self, tag, pairs):
        facts = dict(pairs)
        if tag == "form":
            self.inside += facts["action"] == self.action
        if self.inside != 1:  # only the first form with the action
            return
        if tag in ("select", "textarea"):
            self.name = facts["name"]
            self.fields.setdefault(self.name, "")
        elif tag == "option" and "selected" in facts:
            self.fields[self.name] = facts["value"]
        elif tag == "input" and (facts.get("type") != "checkbox" or "checked" in facts):
            self.fields[facts["name"]] = facts.get("value", "")

    def handle_data(self, data):
        if self.inside == 1 and self.name is not None and self.lasttag == "textarea":
            self.fields[self.name] += data

    def handle_endtag(self, tag):
        if tag in ("select", "textarea"):
            self.name = None
        if tag == "form" and self.inside == 1:
            self.inside = 2


@pytest.fixture
def ready(client):
    """A client whose page has a saved schema."""
    client.enter()
    client.do("data", "read", data="people.csv")
    assert "Saved people.toml" in edit(client, path="people.toml", reason=PLAIN)
    return client


def test_draft_is_shown_and_not_saved(client, folder):
    client.enter()
    assert "Columns: 3. Never read, unless you change that: 1." in client.do(
        "data", "read", pick="people.csv"
    )
    shown = client.page("schema")
    marks = "smallest possible value, largest possible value, whole numbers only, cells may be"
    assert f"from the data: {marks} missing" in " ".join(shown.split())
    assert [path.name for path in folder.iterdir()] == ["people.csv"]
    assert "missdp schema init people.csv -o people.toml" in client.page("data")


def test_number_of_rows_is_typed_and_never_filled_in(ready):
    assert FormFields.of(ready.page("plan"), "/plan/make")["rows"] == ""
    assert "--rows" in ready.do("plan", "make", rows="", epsilon="1")


def test_finished_columns_are_closed_and_come_last(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    assert columns(client) == [("smoker", True), ("age", True), ("remarks", True)]
    edit(client, "smoker", {"public": PLAIN})
    assert columns(client) == [("age", True), ("remarks", True), ("smoker", False)]
    edit(client, "smoker", {"label": "smokes daily"}, action="keep")
    assert columns(client)[0] == ("smoker", True)  # it has a change that is not saved


def columns(client):
    """Return the columns of the page, and whether their fields are shown."""
    found = re.findall(r'id="column-\d+"( open)?>\s*<summary><bdi>(\w+)<', client.page("schema"))
    return [(name, is_open == " open") for is_open, name in found]


def test_reason_declares_a_column_public(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    facts = {"lower": "0", "upper": "120", "missing_codes": "999, x"}
    edit(client, "age", facts)
    assert "age" in space.schema.checked[0].undeclared
    edit(client, "age", {"public": PLAIN})
    age = space.schema.checked[0]["age"]
    assert (age.lower, age.upper, age.missing_codes) == (0, 120, (999, "x"))
    assert "age" not in space.schema.checked[0].undeclared
    assert f"# Public because: {PLAIN}" in Path("people.toml").read_text()


def test_wrong_facts_stay_in_the_form_and_change_nothing(client, space, folder):
    client.enter()
    client.do("data", "read", data="people.csv")
    before = space.schema.toml
    shown = edit(client, "age", {"lower": "90", "upper": "10"})
    assert 'role="alert"' in shown
    assert "attribute &#39;age&#39;" in shown
    assert '.lower" value="90"' in shown
    assert space.schema.toml == before
    assert not (folder / "people.toml").exists()


def test_an_edit_without_a_change_changes_no_byte(ready):
    path = Path("people.toml")
    for text in (path.read_text(), HAND_WRITTEN):
        path.write_text(text)
        assert "Saved people.toml" in edit(ready)
        assert path.read_text() == text


HAND_WRITTEN = """\
# Survey of 2024, by Ada.
format = 1

# Code book, page 3.
# Public because: the code book
[[attribute]]
name = "age"  # in years
kind = "numeric"
lower = 0     # by law
upper = 120
spikes = [18, 65]

# Question 2: why is this ignored? It names persons.
[[attribute]]
name = "remarks"
kind = "ignore"

# Question 3.
[[attribute]]
kind = "categorical"
name = "smoker"
levels = [
    "no",  # never smoked
    "yes",
]

# By definition.
[[rule]]
never = "age < 12 and smoker = 'yes'"  # checked
"""


def test_an_edit_changes_its_line_only_and_keeps_comments(ready):
    path = Path("people.toml")
    path.write_text(HAND_WRITTEN)
    edit(ready, "age", {"lower": "1", "public": "the new code book"})
    expected = HAND_WRITTEN.replace("lower = 0     # by law", "lower = 1     # by law")
    expected = expected.replace("because: the code book", "because: the new code book")
    assert path.read_text() == expected
    edit(ready, "age", {"more": "spikes = [18, 65]\nbins = 20"})
    assert path.read_text() == expected.replace("65]\n", "65]\nbins = 20\n")


def test_wrong_further_facts_are_a_problem_of_their_column(ready, space):
    before = space.schema.toml
    assert "the further facts of age" in edit(ready, "age", {"more": "bins = "})
    assert "colour" in edit(ready, "age", {"more": "colour = 3"})
    assert space.schema.toml == before


def test_numbers_become_categories_with_their_whole_numbers(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    changes = {"kind": "categorical", "lower": "1", "upper": "3"}
    shown = edit(client, "age", changes, action="keep")
    assert "1\n2\n3</textarea>" in shown
    edit(client)
    age = space.schema.checked[0]["age"]
    assert (age.kind, age.levels) == ("categorical", (1, 2, 3))
    assert set(age.undeclared) >= {"levels", "nullable"}


@pytest.mark.parametrize(
    ("lower", "upper"), [("1", "99"), ("0.5", ""), ("x", "3"), ("-inf", "inf"), ("3", "1")]
)
def test_other_bounds_become_no_levels(client, lower, upper):
    client.enter()
    client.do("data", "read", data="people.csv")
    changes = {"kind": "categorical", "lower": lower, "upper": upper}
    shown = edit(client, "age", changes, action="keep")
    assert re.search(r'levels" rows="4" spellcheck="false">\s*</textarea>', shown)


def test_further_facts_of_the_former_kind_are_not_kept(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    place = place_of("age", client.page("schema"))
    changes = {"kind": "weight", "more": "step = 2"}
    edit(client, "age", changes, action="keep", changed=place)
    assert "why its facts are public" in edit(client)
    edit(client, "age", {"public": "by design"})
    assert space.schema.checked[0].weight.upper == 90


def test_the_commands_of_an_edit_give_the_same_file(ready):
    before = Path("people.toml").read_text()
    shown = edit(ready, "age", {"upper": "119", "public": "the law"})
    after = Path("people.toml").read_text()
    line = "missdp schema set people.toml age upper=119 --public 'the law'"
    assert html.unescape(shown).count(line) == 1
    Path("people.toml").write_text(before)
    assert main(shlex.split(line)[1:]) == 0
    assert Path("people.toml").read_text() == after


def test_marks_of_the_data_stay_until_a_reason_is_stated(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    edit(client, "age", {"upper": "120", "nullable": None})
    assert set(space.schema.checked[0]["age"].undeclared) == {
        *("lower", "upper", "integer", "nullable")
    }


def test_private_reasons_of_a_draft_are_not_in_a_declared_file(ready):
    text = Path("people.toml").read_text()
    assert "smallest and the largest cell" not in text
    assert "distinct values" not in text
    assert text.count("# Public because: ") == 3


def test_kind_of_a_person_becomes_the_unit(ready, space):
    edit(ready, "remarks", {"kind": "unit", "max_rows": "3"})
    unit = space.schema.checked[0].unit
    assert (unit.column, unit.max_rows) == ("remarks", 3)
    edit(ready, "remarks", {"kind": "ignore"})
    assert space.problem["message"] == ""
    assert space.schema.checked[0].unit is None
    assert space.schema.checked[0].ignore == ("remarks",)


def test_rules_are_tried_added_and_removed(ready, space):
    def tried(condition):
        form = {"version": space.version, "rule": "never", "condition": condition}
        return json.loads(ready.send("POST", "/schema/try", urlencode(form)).text)["problem"]

    assert "agee" in tried("agee>3")
    assert "is not a level" in tried("smoker = 3")
    assert tried("age > 85") == ""
    assert space.schema.checked[0].rules == ()
    edit(ready, rule="not_applicable", names="age", condition="smoker = 'yes'")
    table = 'by = ["age"]\nmap = []'
    assert "the new rule" in edit(ready, rule="determined", names="smoker", condition="by = ")
    assert "map" in edit(ready, rule="determined", names="smoker", condition=table)
    edit(ready, rule="never", names="", condition="")
    assert len(space.schema.checked[0].rules) == 1
    (place,) = re.findall(r'name="(\d+).drop"', ready.page("schema"))
    edit(ready, **{f"{place}.drop": "true"})
    assert space.schema.checked[0].rules == ()


def test_a_form_that_is_typed_is_not_lost_and_stops_later_steps(ready, space):
    place = place_of("age", ready.page("schema"))
    form = FormFields.of(ready.page("schema"), "/schema/save") | {f"{place}.upper": "119"}
    ready.send("POST", "/schema/try", urlencode(form))
    assert f'name="{place}.upper" value="119"' in ready.page("schema")
    assert "not saved" in ready.do("plan", "make", rows="400")
    assert space.job is None or not space.is_busy
    edit(ready)
    assert space.schema.checked[0]["age"].upper == 119


def test_an_edit_of_the_file_is_an_edit_of_the_page(ready, space):
    path = Path("people.toml")
    path.write_text(path.read_text().replace("upper = 90.0", "upper = 95.0"))
    assert 'upper" value="95"' in ready.page("schema")
    assert space.saved == path
    path.write_text("nonsense")
    assert "not valid TOML" in ready.page("schema")
    assert "exists. Tick the box" in edit(ready, "age", {"upper": "96"})
    edit(ready, "age", {"upper": "96"}, overwrite="yes")
    assert Schema.from_toml(path)["age"].upper == 96


def test_a_form_is_tried_and_not_lost(ready, space):
    before = space.schema.toml
    form = FormFields.of(ready.page("schema"), "/schema/save")
    age = place_of("age", ready.page("schema"))
    for text, problem in (("old", "attribute 'age'"), ("91", "")):
        tried = ready.send("POST", "/schema/try", urlencode(form | {"version": 9999}))
        assert "another tab" in json.loads(tried.text)["problem"]
        typed = form | {f"{age}.upper": text}
        tried = ready.send("POST", "/schema/try", urlencode(typed))
        assert problem in json.loads(tried.text)["problem"]
        assert f'value="{text}"' in ready.page("schema")
    assert space.schema.toml == before


def test_a_check_that_arrives_after_the_save_reports_no_problem_on_the_page(ready, space):
    """The check of the last letter was sent before the click on the button."""
    form = FormFields.of(ready.page("schema"), "/schema/save")
    edit(ready, reason="x")
    tried = ready.send("POST", "/schema/try", urlencode(form))
    assert "another tab" in json.loads(tried.text)["problem"]
    page = ready.page("schema")
    assert "This step stopped" not in page
    assert "Saved." in page
    assert not space.typed


def test_a_stated_guarantee_is_forgotten_when_other_fields_are_sent(ready, space):
    """A release was confirmed without the ledger that was typed after its statement."""
    fields = {"epsilon": "1", "output": "m.json"}
    assert "Confirm the release" in ready.do("release", "state", **fields)
    command = space.commands["release/state"]
    ready.do("release", "show", **fields, ledger="sqlite:///l.db", account="a")
    assert "Confirm the release" not in ready.page("release")
    refused = ready.do("release", "confirm", command=command, confirmed="true")
    assert "state the guarantee again" in refused
    assert not Path("m.json").exists()


def test_a_form_of_an_old_tab_is_refused(ready, space):
    before = space.schema.toml
    assert "another tab" in edit(ready, version="0", reason="x")
    assert space.schema.toml == before


def test_from_schema_to_dossier_as_on_the_command_line(ready, space, folder):
    shown = ready.do("schema", "check")
    assert space.problem["message"] == ""
    assert "The data fit the schema" in shown
    shown = ready.do("plan", "make", rows="400", epsilon="1, 2", mean="age")
    assert "Take ε = 2" in shown
    assert '<th scope="row">Mean of age</th>' in shown
    ready.do("release", "keep", epsilon="2.0")
    account = {"ledger": "sqlite:///l.db", "account": "people", "privacy-measure": "gdp"}
    shown = ready.do(
        "release", "account", **account, **{"total-epsilon": "3", "total-delta": "1e-5"}
    )
    assert "people: budget ε 3" in shown
    shown = ready.do("release", "state", **account, epsilon="2", output="people.model.json")
    assert "(2, 1e-06)-differentially private" in shown
    assert space.results["release/show"]["accounts"][0]["spent"] == 0
    command = "missdp fit people.csv --schema people.toml --epsilon 2 --output people.model.json"
    command += " --ledger sqlite:///l.db --account people"
    assert command in shown
    assert "tick the box" in ready.do("release", "confirm", command=command)
    assert "state the guarantee again" in ready.do("release", "confirm", confirmed="1", command="x")
    # Another program changes the schema between the stated guarantee and its confirmation.
    schema = Path("people.toml")
    schema.write_text(schema.read_text("utf-8") + "\n# changed\n", "utf-8")
    assert "state the guarantee again" in ready.do(
        "release", "confirm", confirmed="yes", command=command
    )
    ready.do("release", "state", **account, epsilon="2", output="people.model.json")
    shown = ready.do("release", "confirm", confirmed="yes", command=command)
    assert "Released: people.model.json" in shown
    assert "state the guarantee again" in ready.do(
        "release", "confirm", confirmed="1", command=command
    )
    assert load("people.model.json").ledger_["budget"] == "people"
    ready.do("look", "rows", output="people.synthetic.csv")
    assert ready.send("GET", "/file/rows", Origin="").text.startswith('"smoker","age"')
    ready.do("look", "dossier", output="d", title="People")
    assert "People" in ready.send("GET", "/file/report", Origin="").text
    assert ready.send("GET", "/file/dossier", Origin="").status == 200
    assert " to " in ready.do("look", "estimate", questions="mean(age) by smoker")
    ready.do("look", "estimate", questions="nowhere(age)")
    assert "nowhere" in space.problem["message"]
    ready.do("look", "compare")
    answer = ready.send("GET", "/file/compare", Origin="")
    assert "CURATOR ONLY" in answer.text
    assert "sandbox" in answer.getheader("Content-Security-Policy")
    texts = [p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "people.csv"]
    assert not any(b"secret" in text or b"CURATOR ONLY" in text for text in texts)


def test_a_statement_that_fails_leaves_no_former_statement(ready, space):
    assert "Confirm the release" in ready.do("release", "state", epsilon="1", output="m.json")
    shown = ready.do("release", "state", epsilon="no", output="m.json")
    assert "--epsilon must be a number" in shown
    assert "Confirm the release" not in shown


def test_suggested_ledger_is_not_created_silently(ready):
    shown = FormFields.of(ready.page("release"), "/release/state")
    assert (shown["ledger"], shown["account"]) == ("sqlite:///ledger.db", "people")
    page = ready.do("release", "state", **shown | {"epsilon": "1"})
    assert "no ledger at" in page
    assert "<details open><summary>Create this account" in page
    assert not Path("ledger.db").exists()
    page = ready.do("release", "state", **shown | {"epsilon": "1", "ledger": "", "account": ""})
    assert "No ledger records this spending" in page


def test_downloaded_estimates_are_those_of_the_command(ready, capsys):
    ready.do("release", "state", epsilon="1", output="m.json")
    command = ready.space.commands["release/state"]
    ready.do("release", "confirm", command=command, confirmed="true")
    questions = ["mean(age) by smoker", "share(smoker is missing)"]
    shown = ready.do("look", "estimate", questions="\n".join(questions))
    assert all(f"<h3>{question}</h3>" in shown for question in questions)
    capsys.readouterr()
    assert main(["estimate", "m.json", *questions, "--json"]) == 0
    downloaded = json.loads(ready.send("GET", "/file/estimate", Origin="").text)
    assert downloaded == json.loads(capsys.readouterr().out)
    low = downloaded["answers"][0]["shown"][0]["low"]
    assert f"({low} to " in shown


@pytest.mark.parametrize(("strategy", "missing"), [("joint", True), ("observed", False)])
def test_strategy_of_the_model_decides_about_missing_values(ready, folder, strategy, missing):
    schema = Schema.from_toml("people.toml")
    model = AllPairs(epsilon=1.0, missing=strategy, random_state=0).fit("people.csv", schema=schema)
    model.save("other.model.json")
    fields = FormFields.of(ready.do("look", "open", model="other.model.json"), "/look/rows")
    assert fields.get("keep-missing") == ("true" if missing else None)
    ready.do("look", "rows", **fields)
    assert pd.read_csv("people.synthetic.csv").isna().to_numpy().any() == missing


def test_a_release_beyond_the_budget_is_refused(ready, space):
    account = {"ledger": "sqlite:///l.db", "account": "people", "privacy-measure": "gdp"}
    ready.do("release", "account", **account, **{"total-epsilon": "1", "total-delta": "1e-6"})
    shown = ready.do("release", "state", **account, epsilon="5", output="m.json")
    assert "cannot pay for this release" in shown
    assert ("release/state" in space.results, Path("m.json").exists()) == (False, False)


def test_undeclared_facts_refuse_a_release(client, space):
    client.enter()
    client.do("data", "read", data="people.csv")
    edit(client, path="people.toml")
    assert "undeclared" in client.do("release", "state", epsilon="1", output="m.json")
    assert "release/state" not in space.results


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
        "job = Job(sys.argv[1:], print); print('started', flush=True)\n"
        "while True:\n time.sleep(0.05); print(job.stage, flush=True)"
    )
    model = str(folder / "m.json")  # by its whole path, which the list of processes shows
    words = ["fit", "people.csv", "--schema", "s.toml", "--epsilon", "1", "-o", model]
    command = [sys.executable, "-c", code, *words, *account]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if line.strip() not in ("started", "starting"):
                break
        server.send_signal(signal.SIGKILL)
    for _ in range(1200):  # so long only if the machine is busy
        if not open_commands(model):
            break
        time.sleep(0.1)
    started = subprocess.run(
        [sys.executable, "-m", "missdp", "ledger", "show", "--ledger", "sqlite:///l.db", "--json"],
        capture_output=True, text=True, check=True, env={**os.environ},
    )  # fmt: skip
    (shown,) = json.loads(started.stdout)["accounts"]
    if Path("m.json").exists():  # noise was drawn, so the charged model was saved first
        assert shown["started"] == []
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]
    assert not open_commands(model)


def open_commands(path):
    """Command lines of running processes that write a path."""
    shown = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True)
    return [
        line for line in shown.stdout.splitlines() if "missdp.app.child" in line and path in line
    ]
