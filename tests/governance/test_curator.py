"""The curator's report: its content, its place, its findings. Labels are inert."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Numeric, Schema
from missdp.cli.main import main
from missdp.errors import OutputError, SchemaError
from missdp.governance.curator import curator_report
from missdp.governance.dossier import write_dossier
from missdp.schema import Never, SurveyWeight, Unit
from refusing import refused

pytest.importorskip("jinja2")

EVIL = (
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    '" onmouseover="alert(1)',
    "</table><img src=x onerror=alert(1)>",
    "\u202egnirts",
    "=HYPERLINK(1)",
    "x" * 300,
)
SCHEMA = Schema(
    (
        Categorical(name="smoker", levels=("no", "yes"), nullable=True),
        Categorical(name="region", levels=tuple("abcdefgh")),
        Categorical(name="job", levels=tuple("klmnopqr")),
        Numeric(name="age", lower=18, upper=98, integer=True, bins=16),
        Numeric(name="pay", lower=0, upper=100, bins=20, nullable=True),
    ),
    rules=(Never("age < 20 and smoker = 'yes'"),),
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 99, n)
    pay = np.clip(age / 2 + rng.normal(20, 15, n), 0, 100)
    known = (["no", "yes"], [*"abcdefgh"], [*"klmnopqr"])
    smoker, region, job = (rng.choice(levels, n) for levels in known)
    frame = pd.DataFrame({"smoker": smoker, "region": region, "job": job, "age": age, "pay": pay})
    return frame.assign(
        smoker=frame.smoker.mask(rng.random(n) < 0.2), pay=frame.pay.mask(rng.random(n) < 0.3)
    )


@pytest.fixture(scope="module")
def model():
    return AllPairs(epsilon=2.0, delta=1e-6, random_state=0).fit(people(1500, 1), schema=SCHEMA)


@pytest.fixture
def shown(tmp_path):
    """Write a report. Return its verdict and its text, and check that nothing in it runs."""

    def found(real, made, schema=SCHEMA, **more):
        verdict = curator_report(real, made, tmp_path / "page.html", schema=schema, **more)
        text = (tmp_path / "page.html").read_text()
        assert text.count("CURATOR ONLY") == 3  # title, banner, watermark
        return verdict, " ".join(Page(text).said)

    return found


class Page(HTMLParser):
    """Collects the text of a page, which is inert."""

    def __init__(self, text):
        super().__init__()
        self.said = []
        self.feed(text)
        assert "default-src 'none'" in text
        assert "http://" not in text
        assert "https://" not in text

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "iframe", "object", "link", "form", "a", "svg", "base")
        assert not [name for name, _ in attrs if name.startswith("on")]
        assert all(v.startswith("data:") for name, v in attrs if name in ("src", "href"))

    def handle_data(self, data):
        self.said.append(data)


@pytest.mark.long
def test_the_page_shows_both_tables_and_says_whose_it_is(shown, model):
    real, made = people(1500, 1), model.sample(1500, missing_values="keep", random_state=0)
    verdict, said = shown(real, made, guarantee=model.guarantee_)
    complete = int(real.notna().all(axis=1).sum())
    assert f"1,500 real rows, of which {complete:,} are complete" in said
    for part in (*verdict, "region × job", "never age < 20", "differentially", "complete rows"):
        assert part in said, part
    lacking = int((real.pay.isna() & real.smoker.notna()).sum())
    assert f"{lacking:,}" in said  # rows in which pay alone is missing


@pytest.mark.long
@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"unit": Unit("who", max_rows=2)}, "120 real rows"),
        ({"weight": SurveyWeight("wt", upper=9.0)}, "as often as they count"),
    ],
)
def test_rows_of_the_page_take_part_as_in_a_fit(shown, facts, says):
    names = ["smoker", "region"]
    rows = pd.concat([people(60, 1)[names].assign(who=np.arange(60), wt=9.0)] * 5)
    rows = rows[[*names, "who" if "unit" in facts else "wt"]]
    _, said = shown(rows, people(60, 2)[names], replace(Schema(SCHEMA.attributes[:2]), **facts))
    assert says in said
    assert ("at most 2 of each who, drawn for this page" in said) == ("unit" in facts)


@pytest.mark.long
def test_f1_from_real_rows_stands_beside_and_is_not_learned_of_a_person_twice(shown, monkeypatch):
    """Five rows each, alike: 150 rows of 150 people are split, not 750."""
    pytest.importorskip("sklearn")
    names, few, seen = ["smoker", "region"], Schema(SCHEMA.attributes[:2]), []
    _, said = shown(people(400, 1)[names], people(400, 2)[names], few, f1=True)
    assert "learned from real rows" in said

    def split(table, **facts):
        seen.append(len(table))
        return table, table

    monkeypatch.setattr("missdp.evaluate.holdout", split)
    rows = pd.concat([people(150, 1)[names].assign(who=np.arange(150))] * 5)
    shown(rows, people(60, 2)[names], replace(few, unit=Unit("who", max_rows=5)), f1=True)
    assert seen == [150]


@pytest.mark.long
def test_a_dossier_and_a_curators_page_never_share_a_folder(tmp_path, model):
    rows = people(50, 1)
    (tmp_path / "in").mkdir()
    curator_report(rows, rows, tmp_path / "in" / "page.html", schema=SCHEMA)
    for place in (tmp_path / "in", tmp_path / "in" / "dossier"):
        refused(OutputError, "for the curator only", write_dossier, model, place, overwrite=True)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["page.html"]
    write_dossier(model, tmp_path / "out")
    for page in (tmp_path / "page.html", tmp_path / "out" / "page.html"):
        refused(OutputError, "curator only", curator_report, rows, rows, page, schema=SCHEMA)


@pytest.mark.parametrize("name", ["t.csv.synthetic.json", "m.model.json", "release.json"])
def test_it_is_not_written_beside_what_was_released(tmp_path, name):
    (tmp_path / name).write_text("{}")
    rows, other = people(50, 1), tmp_path / "other"
    other.mkdir()
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    for folder, released in ((tmp_path, []), (tmp_path / "link", []), (other, [other / "t.csv"])):
        refused(OutputError, "curator only", curator_report, rows, rows, folder / "page.html",
                schema=SCHEMA, released=released)  # fmt: skip
    assert not list(tmp_path.rglob("page.html"))


@pytest.mark.long
def test_names_and_levels_are_inert(shown):
    levels = (Categorical(name=f"{e}{i}", levels=("x", e)) for i, e in enumerate(EVIL))
    schema = Schema((*levels, Numeric(name="<b>n</b>", lower=0, upper=1)))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({a.name: rng.choice(list(a.levels), 60) for a in schema.attributes[:-1]})
    frame = frame.assign(**{"<b>n</b>": rng.random(60)})
    _, said = shown(frame, frame[::-1], schema)
    assert "49" not in [word.strip("0") for word in said.split() if word.startswith("49")]
    assert all(e in said for e in EVIL[:4])


@pytest.mark.long
def test_the_command_writes_the_page_elsewhere(tmp_path, capsys, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    model.save("synthetic.model.json")
    people(600, 1).to_csv("people.csv", index=False)
    people(300, 2).to_csv("others.csv", index=False)

    def run(more):
        code = main(f"evaluate people.csv synthetic.model.json --html {more}".split())
        return code, *capsys.readouterr()

    code, _, err = run("page.html")
    assert (code, "another folder" in err) == (5, True)
    (tmp_path / "curator").mkdir()
    code, out, _ = run("curator/page.html --json")
    said = json.loads(out)
    assert (code, said["curator_only"], len(said["verdict"])) == (0, True, 3)
    assert run("curator/page.html")[0] == 5  # it is there
    code, _, err = run("curator/page.html --overwrite --control others.csv")
    assert (code, "--control is for" in err) == (2, True)
    code, out, _ = run("curator/page.html --overwrite")
    assert (code, "CURATOR ONLY" in out) == (0, True)
    released = "evaluate people.csv others.csv --schema synthetic.model.json"
    assert main(f"{released} --html curator/file.html".split()) == 0


def test_curator_report_of_another_type_of_schema_raises_error(tmp_path):
    path = tmp_path / "curator.html"
    for schema in (3, "people.toml"):
        refused(SchemaError, "schema must be", curator_report, {}, {}, path, schema=schema)
