"""The curator's report: what it shows, where it stands, what it finds; labels are inert."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Numeric, Schema
from missdp.accounting import Guarantee, PureEvent, UnitEvent, WeightsOfRows
from missdp.cli.main import main
from missdp.errors import DataError, OutputError, ParameterError
from missdp.evaluate.align import align
from missdp.office.curator import curator_report
from missdp.office.dossier import write_dossier
from missdp.office.risk import Attack, Membership, allowed, attacks, membership, refit_of
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


def tables(n, *seeds):
    """Rows as attacks and refits get them."""
    return [align(people(n, seed), people(n, seed), SCHEMA)[0] for seed in seeds]


@pytest.fixture(scope="module")
def model():
    return AllPairs(epsilon=2.0, delta=1e-6, random_state=0).fit(people(1500, 1), schema=SCHEMA)


@pytest.fixture
def shown(tmp_path):
    """Write a report; return its verdict and what it says, and see that nothing in it runs."""

    def found(real, made, schema=SCHEMA, **more):
        verdict = curator_report(real, made, tmp_path / "page.html", schema=schema, **more)
        text = (tmp_path / "page.html").read_text()
        assert text.count("CURATOR ONLY") == 3  # title, banner, watermark
        return verdict, " ".join(Page(text).said)

    return found


class Page(HTMLParser):
    """What a page says, which is inert."""

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
    verdict, said = shown(real, made, guarantee=model.guarantee_, control=people(1500, 2))
    complete = int(real.notna().all(axis=1).sum())
    assert f"1,500 real rows, of which {complete:,} are complete" in said
    for part in (*verdict, "region × job", "never age < 20", "differentially", "complete rows"):
        assert part in said, part
    holes = int((real.pay.isna() & real.smoker.notna()).sum())
    assert f"{holes:,}" in said  # rows in which pay alone is missing
    assert not any("ATTACKED" in line for line in verdict)


@pytest.mark.long
def test_a_release_that_copies_rows_is_flagged_and_others_are_not(shown):
    """Half the released rows are copies; the control has as many rows, from the same people."""
    real, other, third = (people(800, seed) for seed in (1, 2, 3))
    planted = pd.concat([real[:400], third[:400]], ignore_index=True)
    for control, released, found in ((other, planted, True), (other, third, False)):
        verdict, _ = shown(real, released, control=control)
        assert any("ATTACKED: copies" in line for line in verdict) == found
    aligned = [align(real, frame, SCHEMA)[1] for frame in (real, other, planted)]
    each = attacks(*aligned, np.random.default_rng(0))
    assert [attack.found for attack in each] == [True] * 4


def test_attacks_on_rows_like_all_others_succeed_no_more_often_than_by_chance():
    real, other, third = tables(800, 4, 5, 6)
    found = attacks(real, other, third, rng := np.random.default_rng(0))
    assert not any(attack.found for attack in found)
    assert Attack("none", 0, 0, 0).excess == 0
    refused(DataError, "need rows", attacks, real, other.take(np.zeros(0, int)), third, rng)


def visits(seed):
    """Return rows of 300 people: women come once and alike, men nine times and as chance has it."""
    rng = np.random.default_rng(seed)
    men = np.arange(300) % 2 == 0
    person = np.repeat(np.arange(300), np.where(men, 9, 1))
    frame = pd.DataFrame({"person": person, "wt": np.where(men, 1.0, 9.0)[person]})
    random = rng.choice([*"klmnopqr"], (len(frame), 2))
    return frame.assign(
        region=np.where(men[person], "a", "b"),
        job=np.where(men[person], random[:, 0], "k"),
        other=np.where(men[person], random[:, 1], "k"),
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("unit", "weight"),
    [
        (Unit("person"), None),
        (Unit("person", max_rows=9), None),
        (Unit("person", max_rows=9), SurveyWeight("wt", upper=9.0)),
        (None, SurveyWeight("wt", upper=9.0)),
    ],
)
def test_attacks_are_on_one_row_of_each_unit_and_on_no_row_twice(shown, tmp_path, unit, weight):
    """Rows of people who come often, or count much, are no evidence that a release copies them."""
    names = ("region", "job", "other")
    plain = Schema(tuple(Categorical(name=n, levels=tuple("abklmnopqr")) for n in names))
    schema = replace(plain, unit=unit, weight=weight)
    apart = [fact.column for fact in (unit, weight) if fact is not None]
    real, control, made = (visits(seed)[[*apart, *names]] for seed in (1, 2, 3))
    verdict, said = shown(real, made[[*names]], schema, control=control)
    assert "No attack does better" in verdict[-1]
    assert ("on one row of each person of the table" in " ".join(said.split())) == bool(unit)
    guarantee = Guarantee(1.0, conditions=(WeightsOfRows("wt"),))
    if unit is not None:
        event = UnitEvent(unit="person", rows=9, capacity=PureEvent(epsilon=0.1))
        guarantee = Guarantee.from_events(event)
    asked = {"guarantee": guarantee, "refit": lambda rows: rows, "refits": 16, "schema": schema}
    refused(ParameterError, "membership is measured for rows", curator_report, "absent.csv", made,
            tmp_path / "page.html", **asked)  # fmt: skip


@pytest.mark.long
def test_membership_on_refits_finds_copies_and_not_what_the_guarantee_allows(shown):
    """The other release answers at random whether the row is there, and is as good as epsilon 1."""
    rows, rng = people(120, 1), np.random.default_rng(0)
    seen = {}

    def honest(table):
        seen[len(table)] = table
        says = (len(table) == len(rows)) == (rng.random() < np.e / (1 + np.e))
        return seen[len(rows)] if says else seen.get(len(rows) - 1, table.take(np.arange(0)))

    said = {}
    for name, refit in (("copies", lambda table: table), ("random", honest)):
        verdict, text = shown(rows, rows, guarantee=Guarantee(1.0), refit=refit, refits=80)
        said[name] = [line for line in verdict if "membership" in line]
        assert text.count("said: with the row") == 1
    assert said["copies"] == [
        "BROKEN GUARANTEE: A test of membership gained 100% on 40 refits (true less false "
        "positives; 53% to 100%); the guarantee allows 46%."
    ]
    assert len(said["random"]) == 1
    assert "BROKEN" not in said["random"][0]


def test_what_a_test_of_membership_gains_is_bounded_as_the_guarantee_says():
    """A randomised answer with exactly this guarantee gains all that is allowed, and no more."""
    assert allowed(Guarantee(1.0)) == pytest.approx(np.tanh(0.5))
    assert allowed(Guarantee(1.0, 0.1)) == pytest.approx((np.e - 1 + 0.2) / (np.e + 1))
    assert allowed(Guarantee(800.0)) == 1.0
    n, p = 10_000, np.e / (1 + np.e)
    tight = Membership(n, round(p * n), round((1 - p) * n), allowed(Guarantee(1.0)))
    assert not tight.broken
    assert Membership(n, round(p * n) + 300, round((1 - p) * n) - 300, tight.bound).broken
    (rows,) = tables(50, 1)
    weighed = Guarantee(1.0, conditions=(WeightsOfRows("wt"),))
    for guarantee, says in ((Guarantee(1.0), "at least 16"), (weighed, "these have weights")):
        refused(ParameterError, says, membership, lambda t: t, rows, guarantee, refits=15)


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
    _, said = shown(frame, frame[::-1], schema, control=frame)
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
    code, out, _ = run("curator/page.html --control others.csv --json")
    said = json.loads(out)
    assert (code, said["curator_only"], len(said["verdict"])) == (0, True, 4)
    assert run("curator/page.html")[0] == 5  # it is there
    code, _, err = run("curator/page.html --overwrite --refits 7")
    assert (code, "at least 16" in err) == (2, True)
    once, again = (refit_of(model)(rows) for rows in tables(50, 1, 1))
    assert len(once)  # with fresh noise, though the model was seeded
    assert not once.to_native().equals(again.to_native())
    code, out, _ = run("curator/page.html --overwrite")
    assert (code, "CURATOR ONLY" in out) == (0, True)
    released = "evaluate people.csv others.csv --schema synthetic.model.json"
    assert main(f"{released} --html curator/file.html".split()) == 0
