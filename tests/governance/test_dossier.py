"""The dossier holds released facts only. It is complete or absent, and inert for all names."""

import csv
import hashlib
import html
import html.parser
import io
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import AIM, MST, AllPairs, Categorical, Numeric, PrivBayes, Schema, Table, load
from missdp.accounting import PublicDomain
from missdp.cli.main import main
from missdp.conditions import BinsFromRelease
from missdp.errors import OutputError, ParameterError, SchemaError
from missdp.governance.dossier import FILES, About, write_dossier
from missdp.governance.facts import ModelSummary, _cramers_v
from missdp.governance.pages import _labelled
from missdp.schema import Layout, NotApplicable, SurveyWeight, Unit
from missdp.schema.rules import Determined, Never
from missdp.synth import SmallTableWarning
from missdp.testing import check_non_interference
from refusing import refused, refuses

SCHEMA = Schema(
    (
        Categorical(name="smoker", levels=("no", "yes"), nullable=True, label="Smokes?"),
        Categorical(name="ill", levels=("no", "yes"), labels={"yes": "ill last year"}),
        Numeric(name="age", lower=0, upper=80, integer=True, bins=4, nullable=True, units="years"),
    ),
    (Never("age < 20 and smoker = 'yes'"),),
)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    smoker, ill = (rng.choice(["no", "yes"], 400) for _ in range(2))
    table = pd.DataFrame({"smoker": smoker, "ill": ill, "age": rng.integers(0, 81, 400)})
    gone = rng.random(table.shape) < [0.2, 0.0, 0.1]
    return table.astype({"age": "Int64"}).mask(gone)


@pytest.fixture(scope="module")
def models():
    # With a seed: by fresh noise, a share in the report would be far off once in a thousand times.
    fitted = (family(epsilon=2.0, random_state=0) for family in (AllPairs, AIM, PrivBayes))
    return {type(m).__name__: m.fit(rows(), schema=SCHEMA) for m in fitted}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    place = tmp_path_factory.mktemp("dossier") / "d"
    write_dossier(models["AllPairs"], place, about=About(title="Made up", curator="An office"))
    return place


@pytest.fixture
def written(models, tmp_path):
    """Write the dossier of a model or of the model of a family. Return its folder."""

    def made(model, name="d", **more):
        write_dossier(models[model] if isinstance(model, str) else model, tmp_path / name, **more)
        return tmp_path / name

    return made


def contents(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.long
def test_all_files_are_there_with_their_hashes(folder):
    found = contents(folder)
    said = json.loads(found.pop("release.json"))
    assert {*found} == {*said["files"]} == {*FILES} - {"release.json"}
    for name, content in found.items():
        assert hashlib.sha256(content).hexdigest() == said["files"][name]
    assert said["synthetic"] is True
    assert said["guarantee"]["epsilon"] == 2.0


@pytest.mark.long
@pytest.mark.parametrize("family", ["AllPairs", "AIM", "PrivBayes"])
def test_a_model_that_saw_rows_and_its_file_make_the_same_bytes(models, written, family, tmp_path):
    """The dossier shows neither time, place, nor data that a fit left only in memory."""
    models[family].save(tmp_path / "m.json")
    (tmp_path / "elsewhere").mkdir()
    places = written(family, "a"), written(tmp_path / "m.json", "elsewhere/b")
    places += (written(load(tmp_path / "m.json"), "c"),)
    assert contents(places[0]) == contents(places[1]) == contents(places[2])


@pytest.mark.long
@pytest.mark.parametrize("family", [AllPairs, AIM, MST])
def test_other_rows_of_which_the_same_is_released_make_the_same_bytes(family):
    """A fit to other, fewer rows is given the answers of the first: all files stay as they are."""

    def written(table):
        model = family(epsilon=2.0, delta=1e-6).fit(table)
        with tempfile.TemporaryDirectory() as folder:
            write_dossier(model, Path(folder) / "d", about=About(title="Made up"))
            return contents(Path(folder) / "d")

    tables = [Table.read(frame, SCHEMA) for frame in (rows(), rows(1).head(300))]
    check_non_interference(written, tables={"two tables": tables})


def test_a_schema_made_from_rows_is_refused(tmp_path):
    drafted = Categorical(name="x", levels=("a", "b"), undeclared=("levels",))
    data = pd.DataFrame({"x": ["a", "b"] * 50})
    model = PrivBayes(epsilon=1.0).fit(data, schema=Schema((drafted,)), undeclared="accept")
    refused(SchemaError, "x were read from the private table", write_dossier, model, tmp_path / "d")
    public = Categorical(name="x", levels=("a", "b"))
    layout = Layout(decimal=",", undeclared=("decimal",))
    model.fit(data, schema=Schema((public,), file=layout), undeclared="accept")
    said = r"\[file\] were read from the private table"
    refused(SchemaError, said, write_dossier, model, tmp_path / "d")
    assert not any(tmp_path.iterdir())


def test_a_folder_is_replaced_only_if_it_is_a_dossier_and_that_was_asked_for(models, tmp_path):
    place, model = tmp_path / "d", models["PrivBayes"]
    place.mkdir()
    write_dossier(model, place)  # an empty folder is nobody's
    refused(OutputError, "exists", write_dossier, model, place)
    write_dossier(model, place, overwrite=True, about=About(title="again"))
    assert b"again" in (place / "report.html").read_bytes()
    (place / "notes.txt").write_text("mine")
    refused(OutputError, "not part of a dossier", write_dossier, model, place, overwrite=True)
    (tmp_path / "file").write_text("")
    for other in (tmp_path / "file", tmp_path / "absent" / "d"):
        refused(OutputError, None, write_dossier, model, other, overwrite=True)
    assert (place / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("broken", ["write_bytes", "rename"])
def test_a_failure_leaves_what_was_there(models, tmp_path, monkeypatch, broken):
    place, model = tmp_path / "d", models["PrivBayes"]
    write_dossier(model, place)
    before, calls, own = contents(place), [], getattr(Path, broken)

    def fail(self, *args):
        calls.append(self)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return own(self, *args)

    monkeypatch.setattr(Path, broken, fail)
    refused(OutputError, "No space", write_dossier, model, place, overwrite=True)
    monkeypatch.undo()
    assert contents(place) == before
    assert [*tmp_path.iterdir()] == [place]


def reader(folder):
    """The function that the page shows, of ten lines at most."""
    page = (folder / "how-to-use.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    body = code[code.index("def ") :].strip().splitlines()
    assert len(body) <= 10
    found = {}
    exec(code, found)
    return lambda *asked: found["read_measured"](folder / "measurements.parquet", *asked)


def test_measurements_are_those_of_the_model_with_their_noise(models, folder):
    read, release = reader(folder), models["AllPairs"].tables_
    values, stds = read("share", "smoker")
    assert values.loc["yes"] == release.marginals.one_way[0][1]
    assert stds.loc["yes"] == pytest.approx(release.marginals.std / release.marginals.rows)
    values, stds = read("product", "smoker", "ill")
    found = release.products.pairs["smoker", "ill"]
    assert values.loc["yes", "no"] == found[1, 0]
    assert stds.loc["yes", "no"] == pytest.approx(release.products.std)
    values, _ = read("pair", "smoker", "age")
    assert values.sum() == pytest.approx(1.0, abs=0.3)
    assert {cell for cell, _ in values.index} == {"no", "yes", "(missing)"}


def test_measurements_of_marginals(models, written):
    model, place = models["AIM"], written("AIM")
    read, released = reader(place), model.tables_
    for at, name in enumerate(model.modelled_.names):
        values, stds = read("share", name)
        assert np.array_equal(values.to_numpy(), released.one_way[at])
        assert stds.to_numpy() == pytest.approx(released.std / released.rows)
    assert {*read("share", "smoker")[0].index} == {"no", "yes", "(missing)"}
    for clique, counts in released.counts.items():
        values, stds = read("count", *(model.modelled_.names[a] for a in clique))
        assert np.array_equal(values.to_numpy(), counts.ravel())
        assert stds.to_numpy() == pytest.approx(released.stds[clique])
    stamped = pyarrow.parquet.read_schema(place / "measurements.parquet").metadata
    assert b"2" in stamped[b"missdp.guarantee"]


def test_measurements_of_merged_levels_and_of_missing_cells(written):
    """The noise of a merged level is the noise of all its levels. Masks have four cells."""
    letters = Categorical(name="letter", levels=tuple("abcdef"), nullable=True)
    schema, rng = Schema((letters, SCHEMA["smoker"])), np.random.default_rng(0)
    letter, smoker = rng.choice(["a", "b"], 4000), rng.choice(["no", "yes"], 4000)
    frame = pd.DataFrame({"letter": letter, "smoker": smoker}).mask(rng.random((4000, 2)) < 0.3)
    model = AIM(epsilon=2.0, random_state=0).fit(frame, schema=schema)
    masks = {(0, 1): np.array([[2800.0, 1.0], [-2.0, 1200.0]])}
    tables = replace(model.tables_, masks=masks, masks_std=3.0)
    model.adopt(replace(model.fitted_, tables=tables))
    read, released = reader(written(model)), model.tables_
    values, stds = read("share", "letter")
    assert values.index.to_list() == ["a", "b", "c and 3 more, merged", "(missing)"]
    assert stds.to_numpy() == pytest.approx(released.std / released.rows * np.array([1, 1, 2, 1]))
    values, stds = read("mask", "letter", "smoker")
    assert values.loc["(missing)", "(missing)"] == 1200.0
    assert values.loc["(observed)", "(missing)"] == 1.0
    assert (stds == 3.0).all()


@pytest.mark.parametrize(
    ("family", "missing", "names"),
    [
        (AllPairs, "complete-rows", ["smoker"]),
        (AIM, "observed", ["smoker", "ill"]),
        (AIM, "impute-first", ["ill", "age"]),
        (PrivBayes, "complete-rows", ["age"]),
    ],
)
def test_every_strategy_and_few_attributes_have_a_dossier(family, missing, names, written):
    schema = Schema(tuple(SCHEMA[name] for name in names))
    model = family(epsilon=3.0, missing=missing).fit(rows()[names], schema=schema)
    page = (written(model) / "report.html").read_text()
    assert ("does not keep what was missing" in page) == (
        not model.applied_strategy.models_missingness
    )


@pytest.mark.long
def test_the_report_says_where_conclusions_turn_if_asked(models, written, tmp_path, monkeypatch):
    question, model = "mean(age) by ill", models["AllPairs"]
    page = (written(model, tipping=[("age", question)]) / "report.html").read_text()
    steps = [x / 10 for x in range(-5, 6)]
    found = model.sensitivity(question, attribute="age", shifts=steps)
    section, own = page[page.index("because of what they are") :], found.estimates[5]
    shown = zip(own.labels, own.shown()["estimate"], found.tipping, strict=True)
    for label, value, turn in shown:
        said = "holds from -0.5 to 0.5" if turn is None else f"{turn:+.2g}"
        row = rf"<bdi>{label}</bdi></th><td[^>]*>{value}</td><td[^>]*>[^<]*</td><td[^>]*>{said}<"
        assert re.search(row, section), label
    with refuses(ParameterError, "never missing"):
        written(model, "e", tipping=[("ill", "share(ill = 'yes')")])
    assert not (tmp_path / "e").exists()
    monkeypatch.chdir(tmp_path)
    model.save("m.json")
    assert main(["publish", "m.json", "-o", "f", "--tipping", f"age={question}"]) == 0
    assert (tmp_path / "f" / "report.html").read_text() == page
    assert main(["publish", "m.json", "-o", "g", "--tipping", "age"]) == 2


def test_what_is_maintained_is_what_was_measured(written):
    for family, how in (("AllPairs", {"measured"}), ("PrivBayes", {"modelled"})):
        text = (written(family, family) / "maintained.csv").read_text()
        lines = [*csv.DictReader(io.StringIO(text))]
        pairs = {line["attributes"]: line for line in lines if not line["rule"]}
        assert {*pairs} == {"smoker; ill", "smoker; age", "ill; age"}
        assert {line["maintained"] for line in pairs.values()} == how
        assert len(lines) == 3 + len(SCHEMA.rules)


def test_the_registry_entry_leaves_to_people_what_is_theirs(folder):
    entry = yaml.safe_load((folder / "registry.yaml").read_text())
    assert (entry["url_slug"], entry["status"], entry["tier"]) == ("made-up", "Draft", 3)
    found = entry["deployment"]
    assert found["basic"]["data_curators"] == ["An office"]
    assert found["basic"]["data_product_region"] == "TODO"
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-6}


@pytest.mark.long
@pytest.mark.parametrize("about", [About(), About(title="Of “x”: #1", published="2026-11-27")])
def test_the_registry_entry_is_one_by_the_registrys_own_schema(models, written, about):
    jsonschema = pytest.importorskip("jsonschema")
    of_registry = Path(__file__).parent / "registry" / "deployments-schema.yaml"
    known = yaml.safe_load(of_registry.read_text("utf-8"))
    formats = jsonschema.Draft7Validator.FORMAT_CHECKER
    validator = jsonschema.Draft7Validator(known, format_checker=formats)
    of_people = Schema(SCHEMA.attributes, unit=Unit("who", max_rows=3))
    people = AIM(epsilon=2.0, delta=0).fit(rows().assign(who=np.arange(400) // 2), schema=of_people)
    for name, model in {**models, "units": people}.items():
        entry = yaml.safe_load((written(model, name, about=about) / "registry.yaml").read_text())
        assert [error.message for error in validator.iter_errors(entry)] == []
        entry["deployment"]["basic"]["publication_date"] = "May"
        assert len([*validator.iter_errors(entry)]) == 1


@pytest.mark.parametrize("seed", [None, 1])
def test_answers_say_what_is_not_met(seed, written):
    model = PrivBayes(epsilon=1.0, delta=0, n_rows=400, random_state=seed)
    text = (written(model.fit(rows(), schema=SCHEMA)) / "answers.md").read_text()
    assert "| Is the number of rows protected? | not met |" in text
    assert ("seeded" in text) == (seed is not None)
    assert f"come from? | {'met' if seed is None else 'not met'} |" in text


@pytest.mark.long
def test_the_command_keeps_the_ledger_line_of_the_release(tmp_path, monkeypatch, capsys):
    def run(command):
        return main(command.split())

    monkeypatch.chdir(tmp_path)
    rows().to_csv("t.csv", index=False)
    SCHEMA.to_toml("t.toml")
    ledger = "--ledger sqlite:///b.db"
    assert run(f"ledger create --account t --epsilon 20 --delta 1e-6 {ledger}") == 0
    asked = f"synthesize t.csv --schema t.toml --epsilon 1 --method privbayes {ledger} --account t"
    assert run(f"{asked} -o s.csv") == 0
    capsys.readouterr()
    assert run("publish s.model.json -o d --title Patients --json") == 0
    assert json.loads(capsys.readouterr().out)["output"] == "d"
    said, side = (json.loads(Path(p).read_text()) for p in ("d/release.json", "s.model.json"))
    assert (said["release"], said["ledger"]) == (side["release"], side["ledger"])
    assert said["ledger"]["head"]
    assert run("publish s.model.json -o d") == 5
    assert run("publish s.model.json -o d --overwrite") == 0
    assert run("publish s.model.json -o e --published May") == 2
    assert run("publish absent.json -o e") == 3
    assert not Path("e").exists()


# Names and labels that try to be more than text
NASTY = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "=1+cmd|'/C'!A0",
    "{{ 7*7 }}{% raw %}",
    "x" * 10_000,
    "a\nb\t| c",
    "[x](javascript:alert(1))",
    "\ufffe\x85",
    "</style></svg><b>",
    "www.evil.example",
    "-->🧪\u200d&lt;b&gt;",
)
TEXTS = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=30)).filter(
    lambda text: text.strip() and not any("\ud800" <= c <= "\udfff" for c in text)
)


class Elements(html.parser.HTMLParser):
    """Collects the elements of a page as a browser does, with their attributes and values."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs


def made_of(names, labels, levels, about):
    """A model of two attributes with these names."""
    one = Categorical(name=names[0], levels=levels, nullable=True, label=labels[0])
    other = Numeric(name=names[1], lower=0, upper=10, bins=2, label=labels[1], units=labels[0])
    unit, weight = f"unit {about}", f"weight {about}"
    data = pd.DataFrame({names[0]: [*levels] * 20, names[1]: [1.0, 9.0] * 20})
    data = data.assign(**{unit: range(40), weight: 1.0})
    whose = {"unit": Unit(unit), "weight": SurveyWeight(weight, upper=1.0)}
    model = MST(epsilon=5.0, delta=1e-6).fit(data, schema=Schema((one, other), **whose))
    return model, About(title=about, audience=about, curator=about, region=about)


def check_inert(names, labels, levels, about, place):
    try:
        model, said = made_of(names, labels, levels, about)
    except SchemaError:  # two levels that are one, and the like
        if levels != ("no", "yes"):
            check_inert(names, labels, ("no", "yes"), about, place)
        return
    write_dossier(model, place, about=said, overwrite=True)
    found = contents(place)
    entry = yaml.safe_load(found["registry.yaml"].decode())
    assert entry["tier"] == 3
    assert {*entry["deployment"]["basic"]} >= {"name", "description"}
    maintained = csv.reader(io.StringIO(found["maintained.csv"].decode()))
    cells = [cell for row in maintained for cell in row]
    assert len(cells) % 6 == 0
    assert not any(cell.startswith(("=", "+", "@", "\t")) for cell in cells)
    page = Elements(found["report.html"].decode())
    assert page.names.count("script") == page.names.count("style") == 1
    assert not {"img", "iframe", "object", "link", "form", "image", "use"} & {*page.names}
    assert not [key for key, _ in page.attributes if key.startswith("on")]
    assert {v for k, v in page.attributes if k in ("href", "src", "xlink:href")} == {"#main"}
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", found["report.html"].decode())
    assert len(found["report.html"]) < 100_000
    for name in ("answers.md", "how-to-use.md"):
        text = found[name].decode()
        assert not re.search(r"(?<!\\)<(?!=)[a-zA-Z/!]", text)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f]", text)


@pytest.mark.parametrize("nasty", NASTY)
def test_nasty_names_are_inert(nasty, tmp_path):
    check_inert((nasty, f"{nasty}2"), (nasty, nasty), (nasty, f"{nasty}3"), nasty, tmp_path / "d")


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.lists(TEXTS, min_size=7, max_size=7))
def test_any_names_are_inert_in_a_thousand_schemas(tmp_path_factory, texts):
    *names, one, other, level, more, about = texts
    place = tmp_path_factory.mktemp("fuzzed") / "d"
    check_inert(tuple(names), (one, other), (level, more), about, place)


def test_the_report_shows_what_was_released_with_its_noise(models, folder):
    page = (folder / "report.html").read_text()
    release = models["AllPairs"].tables_
    assert "Published by <bdi>An office</bdi>" in page
    assert page.count('<section class="card">') == 3
    shares = re.search(r"<bdi>Smokes\?</bdi></h3>.*?</table>", page, re.DOTALL)[0]
    shown = dict(re.findall(r"<bdi>(no|yes)</bdi>.*?([\d.]+) %</td>", shares))
    margin = release.marginals.one_way[0][:2]
    assert float(shown["yes"]) / 100 == pytest.approx(margin[1] / margin.sum(), abs=0.1)
    stds = release.marginal_stds[0][:2] / margin.sum()
    half = [float(x) for x in re.findall(r"± ([\d.]+)</td>", shares)]
    assert half == pytest.approx(196 * stds, rel=0.35)  # rounded up to a digit or two
    assert "age &lt; 20 and “Smokes?” = &#39;yes&#39;" in page  # the rule
    assert "<caption>in years</caption>" in page
    # The schema declares it. The actual number of missing cells has noise.
    assert "2 may be missing" in page


APART = Schema(tuple(Categorical(name=f"c{i}", levels=tuple("abcdef")) for i in range(8)))


def pairs_apart(rows, *, related):
    """Independent columns, but for the first two if they are to be related."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({name: rng.choice([*"abcdef"], rows) for name in APART.names})
    if related:
        frame["c1"] = frame["c1"].where(rng.random(rows) < 0.4, frame["c0"])
    return frame


@pytest.fixture(scope="module", params=["AllPairs", "AIM", "MST"])
def apart(request):
    family = {"AllPairs": AllPairs, "AIM": AIM, "MST": MST}[request.param]

    def fitted(rows, *, related):
        model = family(epsilon=1.0, delta=1e-6, random_state=1)
        return model.fit(pairs_apart(rows, related=related), schema=APART)

    return fitted


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_relations_of_independent_columns_are_marked(apart, written):
    place = written(apart(1300, related=False))
    page = (place / "report.html").read_text()
    assert "No relation stands out from the noise." in page
    assert 'data-l="strength"' not in page
    cells = re.findall(r'<td class="(n|n h|s\d.*?)">(.*?)</td>', page)
    assert len(cells) == 56
    assert all(kind[0] == "n" and text.endswith("*") for kind, text in cells)
    lines = csv.DictReader(io.StringIO((place / "maintained.csv").read_text()))
    assert {line["stands out from noise"] for line in lines} == {"no"}


@pytest.mark.long
def test_only_relations_that_stand_out_are_listed(apart, written):
    facts = ModelSummary(model := apart(3000, related=True))
    assert [pair for pair, one in facts.pairs.items() if one.clear] == [(0, 1)]
    page = (written(model) / "report.html").read_text()
    assert re.findall(r'<th scope="row"><bdi>(c\d and c\d)</bdi>', page) == ["c0 and c1"]
    assert "Of 28 relations, 27 do not stand out from the noise and are not listed" in page
    assert "most relations between columns are noise" not in page


@pytest.mark.long
def test_a_relation_that_is_zero_in_the_model_does_not_stand_out():
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=1)
    facts = ModelSummary(model.fit(pairs_apart(3000, related=True), schema=APART))
    facts.__dict__["strengths"] = np.zeros((8, 8))  # the cached value
    assert not any(one.clear for one in facts.pairs.values())


def test_a_relation_that_a_rule_implies_stands_out_without_a_measurement():
    rng, levels = np.random.default_rng(0), {"asked": ("no", "yes"), "x": ("0", "1")}
    levels |= {"answer": ("a", "b"), "y": ("0", "1")}
    schema = Schema(
        tuple(Categorical(name=name, levels=of) for name, of in levels.items()),
        rules=(NotApplicable("answer", unless="asked = 'yes'"),),
    )
    frame = pd.DataFrame({name: rng.choice(of, 4000) for name, of in levels.items()})
    frame["answer"] = frame["answer"].where(frame["asked"] == "yes", None)
    model = AIM(epsilon=1.0, delta=1e-6, rounds=1, random_state=0).fit(frame, schema=schema)
    assert ("asked", "answer") not in model.measured_
    facts = ModelSummary(model)
    assert [pair for pair, one in facts.pairs.items() if one.clear] == [(0, 2)]


def test_pages_say_that_most_relations_are_noise(written):
    model = AllPairs(epsilon=0.3, delta=1e-6, random_state=1)
    with pytest.warns(SmallTableWarning, match="most relations between columns are noise") as said:
        model.fit(pairs_apart(900, related=True), schema=APART)
    place = written(model)
    for name in ("report.html", "how-to-use.md"):
        assert str(said[0].message) in html.unescape((place / name).read_text())


def test_family_without_measurements_marks_no_relation(models, written):
    place = written("PrivBayes")
    assert all(one.clear is None for one in ModelSummary(models["PrivBayes"]).pairs.values())
    assert (
        "which relations stand out from the noise is not known"
        in (place / "report.html").read_text()
    )


def test_strengths_of_drawn_rows_are_corrected_for_chance():
    table = np.random.default_rng(0).multinomial(400, np.full(400, 1 / 400)).reshape(20, 20)
    assert _cramers_v(table.astype(float), drawn=False) > 0.2
    assert _cramers_v(table.astype(float), drawn=True) < 0.1
    assert _cramers_v(400 * np.eye(20), drawn=True) == pytest.approx(1.0)


LABELLED = Schema(
    (
        Categorical(name="smk", levels=("no", "yes"), nullable=True, label="Smokes daily"),
        Categorical(name="ill", levels=("no", "yes"), label="Illness"),
        Categorical(name="ill2", levels=("no", "yes"), label="Illness"),
        Categorical(name="rich", levels=("no", "yes"), label="Earns much"),
    ),
    (Determined("rich", by="ill", map=(("no", "no"), ("yes", "yes"))),),
)


def labelled_rows(rows=300):
    rng = np.random.default_rng(0)
    cells = {n: rng.choice(["no", "yes"], rows) for n in ("smk", "ill", "ill2")}
    return pd.DataFrame(cells | {"rich": cells["ill"], "w": rng.uniform(0.5, 2.0, rows)})


def page_of(written, schema, *, name="d"):
    columns = [*schema.names, *(["w"] if schema.weight else [])]
    model = AllPairs(epsilon=2.0).fit(labelled_rows()[columns], schema=schema)
    folder = written(model, name)
    return {p.name: p.read_text() for p in folder.iterdir() if p.suffix in (".html", ".md")}


def test_report_with_labels_shows_labels(written):
    page = page_of(written, LABELLED)["report.html"]
    headings = re.findall(r'class="card"><h3><bdi>(.*?)</bdi>', page)
    plain_headings = [heading.replace("<wbr>", "") for heading in headings]
    assert plain_headings == ["Smokes daily", "Illness (ill)", "Illness (ill2)"]
    assert 'data-name="Smokes daily"' in page
    assert "<bdi>Earns much</bdi>" in page  # follows from others
    assert "<caption>column smk</caption>" in page
    assert not re.search(r"<bdi>(smk|rich)</bdi>", page)


def test_report_conditions_name_attributes_by_label(models):
    facts = ModelSummary(models["AllPairs"])
    found = _labelled(BinsFromRelease(("smoker", "age"), "0" * 32), facts)
    assert found.attributes == ("Smokes?", "age")
    untouched = PublicDomain()
    assert _labelled(untouched, facts) is untouched


def test_report_sentences_are_separated_by_blanks(written):
    page = page_of(written, LABELLED)["report.html"]
    assert "noise. Not shown, since they follow" in page
    assert not re.search(
        r"[a-z]\.[A-Z]", re.sub(r"<style>.*?</style>|<script>.*", "", page, flags=re.S)
    )


def test_report_tells_rows_and_effective_sizes_apart(written):
    plain_pages = page_of(written, LABELLED, name="rows")
    assert "effective sample size" not in plain_pages["report.html"]
    assert re.search(r"</b>rows <small>± \d+, noise", plain_pages["report.html"])
    weighed = page_of(written, replace(LABELLED, weight=SurveyWeight("w", upper=2.0)), name="w")
    report = weighed["report.html"]
    assert "</b>rows <small>" not in report
    assert "</b>effective sample size <small>the number of rows was not released" in report
    assert "effective rows (" in report  # noise of a cell
    assert "an effective sample size of about" in weighed["how-to-use.md"]
    assert "effective sample size (the number of rows was not released)" in weighed["answers.md"]


def test_report_of_units_shows_both_sizes(written):
    whole = replace(LABELLED, unit=Unit("person", max_rows=3))
    frame = labelled_rows().drop(columns="w").assign(person=np.arange(300) // 3)
    page = (written(AllPairs(epsilon=2.0).fit(frame, schema=whole)) / "report.html").read_text()
    assert re.search(r"</b>rows <small>", page)
    assert "</b>effective sample size <small>independent rows that tell as much" in page


def test_levels_that_are_merged_stand_where_the_first_of_them_is():
    """As a spike at the lower end of its bin, which few rows have."""
    pay = Numeric(name="pay", lower=0, upper=4000, bins=4, spikes=(1000.0,))
    values = np.repeat([100.0, 1000.0, 1500.0, 2500.0], [500, 2, 500, 2])
    model = AIM(epsilon=1.0, random_state=0).fit(
        pd.DataFrame({"pay": values}), schema=Schema((pay,))
    )
    (column,) = ModelSummary(model).columns
    assert column.levels == ("0 to 1000", "1000 and 2 more, merged", "1000 to 2000")
    assert column.shares == pytest.approx([0.5, 0.0, 0.5], abs=0.05)


def test_bins_are_in_the_order_of_their_lower_ends():
    """A spike within a wide bin comes after the bin."""
    pay = Numeric(name="pay", lower=0, upper=4000, bins=2, spikes=(0.0, 500.0, 3000.0))
    values = np.repeat([0.0, 500.0, 3000.0, 100.0, 2500.0], [300, 200, 100, 400, 500])
    model = AIM(epsilon=10.0, random_state=0).fit(
        pd.DataFrame({"pay": values}), schema=Schema((pay,))
    )
    (column,) = ModelSummary(model).columns
    bins = ("other 0 to 2000", "500", "other 2000 to 4000", "3000")
    assert column.levels == ("0", *bins)
    assert column.shares == pytest.approx(np.array([3, 4, 2, 5, 1]) / 15, abs=0.02)


def test_how_far_cells_are_off_is_not_noise_alone(written):
    """A model adds the clipping bias back.

    With many rows, this bias is less certain than the noise.
    """
    frame = pd.concat([rows(seed).fillna({"smoker": "no", "age": 40}) for seed in range(5)])
    facts = Schema(SCHEMA.attributes)
    model = AllPairs(epsilon=1e4, clip=0.5, random_state=0).fit(frame, schema=facts)
    table = ModelSummary(model).pair_tables[0, 1][0][:2, :2]
    truth = pd.crosstab(frame["smoker"], frame["ill"]).to_numpy() / len(frame)
    off = float(np.sqrt(np.square(table - truth).mean()))
    std = ModelSummary(model).pairs[0, 1].std
    assert 1e-3 < off < 2 * std
    page = (written(model) / "how-to-use.md").read_text()
    stated = float(re.search(r"off by about\s+([\d,]+) rows", page)[1].replace(",", ""))
    assert 0.2 * std < stated / len(frame) < 5 * std


def test_the_report_of_a_family_without_measurements_states_no_noise(written):
    page = (written("PrivBayes") / "report.html").read_text()
    assert "±" not in re.sub(r"<small>± .*?</small>|<h3>The risk.*", "", page, flags=re.DOTALL)
    assert "this family keeps no measurements" in page
