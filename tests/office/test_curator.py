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
from missdp.cli.papers import _refit_of
from missdp.errors import DataError, OutputError, ParameterError
from missdp.evaluate.align import align
from missdp.office.curator import curator_report
from missdp.office.dossier import write_dossier
from missdp.office.risk import Attack, Membership, allowed, attacks, membership
from missdp.schema import Impossible, SurveyWeight, Unit

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
    rules=(Impossible("age < 20 and smoker = 'yes'"),),
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 99, n)
    pay = np.clip(age / 2 + rng.normal(20, 15, n), 0, 100)
    frame = pd.DataFrame(
        {
            "smoker": rng.choice(["no", "yes"], n),
            "region": rng.choice([*"abcdefgh"], n),
            "job": rng.choice([*"klmnopqr"], n),
            "age": age,
            "pay": pay,
        }
    )
    return frame.assign(
        smoker=frame.smoker.mask(rng.random(n) < 0.2), pay=frame.pay.mask(rng.random(n) < 0.3)
    )


@pytest.fixture(scope="module")
def model():
    return AllPairs(epsilon=2.0, delta=1e-6, random_state=0).fit(people(1500, 1), schema=SCHEMA)


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.said = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        self.said.append(data)


def inert(text):
    page = Page(text)
    assert not page.tags & {"script", "iframe", "object", "link", "form", "a", "svg", "base"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert all(v.startswith("data:") for _, name, v in page.attributes if name in ("src", "href"))
    assert "default-src 'none'" in text
    assert "http://" not in text
    assert "https://" not in text
    return " ".join(page.said)


def test_the_page_shows_both_tables_and_says_whose_it_is(tmp_path, model):
    real = people(1500, 1)
    made = model.sample(1500, missing_values="keep", random_state=0)
    path = tmp_path / "curator.html"
    verdict = curator_report(
        real, made, path, schema=SCHEMA, guarantee=model.guarantee_, control=people(1500, 2)
    )
    text = path.read_text()
    said = inert(text)
    assert text.count("CURATOR ONLY") == 3  # title, banner, watermark
    complete = int(real.notna().all(axis=1).sum())
    assert f"1,500 real rows, of which {complete:,} are complete" in said
    for part in (*verdict, "region × job", "never age < 20", "2-differentially", "complete rows"):
        assert part.replace("2-differentially", "differentially") in said, part
    holes = int((real.pay.isna() & real.smoker.notna()).sum())
    assert f"{holes:,}" in said  # rows in which pay alone is missing
    assert not any("ATTACKED" in line for line in verdict)


def test_a_release_that_copies_rows_is_flagged_and_others_are_not(tmp_path):
    """Half the released rows are copies; the control has as many rows, from the same people."""
    real, other, third = (people(800, seed) for seed in (1, 2, 3))
    planted = pd.concat([real[:400], third[:400]], ignore_index=True)
    for control, released, found in ((other, planted, True), (other, third, False)):
        verdict = curator_report(
            real, released, tmp_path / "page.html", schema=SCHEMA, control=control
        )
        assert any("ATTACKED: copies" in line for line in verdict) == found
    tables = [align(real, frame, SCHEMA)[1] for frame in (real, other, planted)]
    each = attacks(*tables, np.random.default_rng(0))
    assert [attack.found for attack in each] == [True] * 4


def test_attacks_on_rows_like_all_others_succeed_no_more_often_than_by_chance():
    real, other, third = (align(people(800, s), people(800, s), SCHEMA)[0] for s in (4, 5, 6))
    found = attacks(real, other, third, np.random.default_rng(0))
    assert not any(attack.found for attack in found)
    assert Attack("none", 0, 0, 0).excess == 0
    with pytest.raises(DataError, match="need rows"):
        attacks(real, other.take(np.zeros(0, int)), third, np.random.default_rng(0))


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


@pytest.mark.parametrize(
    ("unit", "weight"),
    [
        (Unit("person"), None),
        (Unit("person", max_rows=9), None),
        (Unit("person", max_rows=9), SurveyWeight("wt", upper=9.0)),
        (None, SurveyWeight("wt", upper=9.0)),
    ],
)
def test_attacks_are_on_one_row_of_each_unit_and_on_no_row_twice(tmp_path, unit, weight):
    """Rows of people who come often, or count much, are no evidence that a release copies them."""
    names = ("region", "job", "other")
    plain = Schema(tuple(Categorical(name=n, levels=tuple("abklmnopqr")) for n in names))
    schema = replace(plain, unit=unit, weight=weight)
    apart = [fact.column for fact in (unit, weight) if fact is not None]
    real, control, made = (visits(seed)[[*apart, *names]] for seed in (1, 2, 3))
    page = tmp_path / "page.html"
    verdict = curator_report(real, made[[*names]], page, schema=schema, control=control)
    assert "No attack does better" in verdict[-1]
    said = inert(page.read_text())
    assert ("on one row of each person of the table" in " ".join(said.split())) == bool(unit)
    guarantee = Guarantee(1.0, conditions=(WeightsOfRows("wt"),))
    if unit is not None:
        event = UnitEvent(unit="person", rows=9, capacity=PureEvent(epsilon=0.1))
        guarantee = Guarantee.from_events(event)
    given = {"guarantee": guarantee, "refit": lambda rows: rows, "refits": 16}
    with pytest.raises(ParameterError, match="membership is measured for rows"):
        curator_report("absent.csv", made, page, schema=schema, **given)


def test_membership_on_refits_finds_copies_and_not_what_the_guarantee_allows(tmp_path):
    """The other release answers at random whether the row is there, and is as good as epsilon 1."""
    rows, rng = people(120, 1), np.random.default_rng(0)
    seen = {}

    def honest(table):
        seen[len(table)] = table
        says = (len(table) == len(rows)) == (rng.random() < np.e / (1 + np.e))
        return seen[len(rows)] if says else seen.get(len(rows) - 1, table.take(np.arange(0)))

    said = {}
    for name, refit in (("copies", lambda table: table), ("random", honest)):
        how = {"guarantee": Guarantee(1.0), "refit": refit, "refits": 80}
        verdict = curator_report(rows, rows, tmp_path / "page.html", schema=SCHEMA, **how)
        said[name] = [line for line in verdict if "membership" in line]
        assert inert((tmp_path / "page.html").read_text()).count("said: with the row") == 1
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
    rows = align(people(50, 1), people(50, 1), SCHEMA)[0]
    for guarantee, says in (
        (Guarantee(1.0), "at least 16"),
        (Guarantee(1.0, conditions=(WeightsOfRows("wt"),)), "these have weights"),
    ):
        with pytest.raises(ParameterError, match=says):
            membership(lambda t: t, rows, guarantee, refits=15)


def test_f1_from_real_rows_stands_beside(tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("xgboost")
    few = Schema(SCHEMA.attributes[:2])
    rows = people(400, 1)[["smoker", "region"]]
    curator_report(
        rows, people(400, 2)[["smoker", "region"]], tmp_path / "p.html", schema=few, f1=True
    )
    assert "learned from real rows" in inert((tmp_path / "p.html").read_text())


def test_rows_of_a_person_do_not_teach_of_the_person(tmp_path, monkeypatch):
    """Five rows each, alike: 150 rows of 150 people are split, not 750."""
    seen = []

    def split(table, **facts):
        seen.append(len(table))
        return table, table

    monkeypatch.setattr("missdp.evaluate.holdout", split)
    pytest.importorskip("sklearn")
    pytest.importorskip("xgboost")
    few = Schema(SCHEMA.attributes[:2], unit=Unit("who", max_rows=5))
    rows = people(150, 1)[["smoker", "region"]]
    rows = pd.concat([rows.assign(who=np.arange(150))] * 5)
    curator_report(
        rows, people(60, 2)[["smoker", "region"]], tmp_path / "p.html", schema=few, f1=True
    )
    assert seen == [150]


def test_a_dossier_and_a_curators_page_never_share_a_folder(tmp_path, model):
    rows = people(50, 1)
    (tmp_path / "in").mkdir()
    curator_report(rows, rows, tmp_path / "in" / "page.html", schema=SCHEMA)
    for place in (tmp_path / "in", tmp_path / "in" / "dossier"):
        with pytest.raises(OutputError, match="for the curator only"):
            write_dossier(model, place, overwrite=True)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["page.html"]
    write_dossier(model, tmp_path / "out")
    for page in (tmp_path / "page.html", tmp_path / "out" / "page.html"):
        with pytest.raises(OutputError, match="curator only"):
            curator_report(rows, rows, page, schema=SCHEMA)


@pytest.mark.parametrize("name", ["t.release.json", "m.model.json", "release.json"])
def test_it_is_not_written_beside_what_was_released(tmp_path, name):
    (tmp_path / name).write_text("{}")
    rows = people(50, 1)
    with pytest.raises(OutputError, match="curator only"):
        curator_report(rows, rows, tmp_path / "page.html", schema=SCHEMA)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(OutputError, match="curator only"):
        curator_report(rows, rows, tmp_path / "link" / "page.html", schema=SCHEMA)
    here = tmp_path / "other" / "page.html"
    with pytest.raises(OutputError, match="curator only"):
        curator_report(rows, rows, here, schema=SCHEMA, released=[tmp_path / "other" / "t.csv"])
    assert not list(tmp_path.rglob("page.html"))


def test_names_and_levels_are_inert(tmp_path):
    schema = Schema(
        (
            *(Categorical(name=f"{e}{i}", levels=("x", e)) for i, e in enumerate(EVIL)),
            Numeric(name="<b>n</b>", lower=0, upper=1),
        )
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {a.name: rng.choice(list(a.levels), 60) for a in schema if a.name != "<b>n</b>"}
    ).assign(**{"<b>n</b>": rng.random(60)})
    curator_report(frame, frame[::-1], tmp_path / "page.html", schema=schema, control=frame)
    said = inert((tmp_path / "page.html").read_text())
    assert "49" not in [word.strip("0") for word in said.split() if word.startswith("49")]
    assert all(e in said for e in EVIL[:4])


def test_the_command_writes_the_page_elsewhere(tmp_path, capsys, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    model.save("synthetic.model.json")
    people(600, 1).to_csv("people.csv", index=False)
    people(300, 2).to_csv("others.csv", index=False)
    given = ["report", "synthetic.model.json", "--private", "people.csv"]
    assert main([*given, "-o", "page.html"]) == 5
    assert "another folder" in capsys.readouterr().err
    (tmp_path / "curator").mkdir()
    assert main([*given, "--control", "others.csv", "-o", "curator/page.html", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["curator_only"]
    assert len(said["verdict"]) == 4
    assert main([*given, "-o", "curator/page.html"]) == 5  # it is there
    assert main([*given, "-o", "curator/page.html", "--overwrite", "--refits", "7"]) == 2
    assert "at least 16" in capsys.readouterr().err
    once, again = (_refit_of(model)(align(people(50, 1), people(50, 1), SCHEMA)[0]) for _ in "ab")
    assert len(once)  # with fresh noise, though the model was seeded
    assert not once.to_native().equals(again.to_native())
    assert main([*given, "-o", "curator/page.html", "--overwrite"]) == 0
    assert "CURATOR ONLY" in capsys.readouterr().out
    assert main([*given, "--synthetic", "others.csv", "-o", "curator/file.html"]) == 0
