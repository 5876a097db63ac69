"""The dossier: from released facts only, whole or not at all, and inert whatever names hold."""

import csv
import hashlib
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
from missdp.accounting import RowIndependentMissingness, TakenFromFile
from missdp.cli.main import main
from missdp.errors import DataError, OutputError, ParameterError, SchemaError, UnprovenError
from missdp.evaluate import marginal_distance
from missdp.ground_truth import ground_truth_guarantee
from missdp.office.dossier import FILES, About, from_measurements, write_dossier
from missdp.office.facts import Facts
from missdp.office.measurements import RECORD
from missdp.schema import SurveyWeight, Unit
from missdp.schema.rules import Impossible
from missdp.testing import check_non_interference
from refusing import refused, refuses

SCHEMA = Schema(
    (
        Categorical(name="smoker", levels=("no", "yes"), nullable=True, label="Smokes?"),
        Categorical(name="ill", levels=("no", "yes"), labels={"yes": "ill last year"}),
        Numeric(name="age", lower=0, upper=80, integer=True, bins=4, nullable=True, units="years"),
    ),
    (Impossible("age < 20 and smoker = 'yes'"),),
)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    smoker, ill = (rng.choice(["no", "yes"], 400) for _ in range(2))
    table = pd.DataFrame({"smoker": smoker, "ill": ill, "age": rng.integers(0, 81, 400)})
    gone = rng.random(table.shape) < [0.2, 0.0, 0.1]
    return table.astype({"age": "Int64"}).mask(gone)


@pytest.fixture(scope="module")
def models():
    fitted = (AllPairs(epsilon=2.0), AIM(epsilon=2.0, model_rows=2000), PrivBayes(epsilon=2.0))
    return {type(m).__name__: m.fit(rows(), schema=SCHEMA) for m in fitted}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    place = tmp_path_factory.mktemp("dossier") / "d"
    write_dossier(models["AllPairs"], place, about=About(title="Made up", curator="An office"))
    return place


@pytest.fixture
def written(models, tmp_path):
    """Write the dossier of a model, or of that of a family; return its folder."""

    def made(model, name="d", **more):
        write_dossier(models[model] if isinstance(model, str) else model, tmp_path / name, **more)
        return tmp_path / name

    return made


def contents(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_all_files_are_there_with_their_hashes(folder):
    found = contents(folder)
    said = json.loads(found.pop("release.json"))
    assert {*found} == {*said["files"]} == {*FILES} - {"release.json"}
    for name, content in found.items():
        assert hashlib.sha256(content).hexdigest() == said["files"][name]
    assert said["synthetic"] is True
    assert said["guarantee"]["epsilon"] == 2.0


@pytest.mark.parametrize("family", ["AllPairs", "AIM", "PrivBayes"])
def test_a_model_that_saw_rows_and_its_file_make_the_same_bytes(models, written, family, tmp_path):
    """What a fit left in memory beyond the model's file cannot show, nor can time or place."""
    models[family].save(tmp_path / "m.json")
    (tmp_path / "elsewhere").mkdir()
    places = written(family, "a"), written(tmp_path / "m.json", "elsewhere/b")
    places += (written(load(tmp_path / "m.json"), "c"),)
    assert contents(places[0]) == contents(places[1]) == contents(places[2])


@pytest.mark.parametrize("family", [AllPairs, AIM, MST])
def test_other_rows_of_which_the_same_is_released_make_the_same_bytes(family):
    """A fit to other, fewer rows is given the answers of the first: all files stay as they are."""

    def written(witness, table):
        model = family(epsilon=2.0, delta=1e-6, random_state=witness).fit(table)
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
    assert not any(tmp_path.iterdir())


def test_a_folder_is_replaced_only_if_it_is_a_dossier_and_that_was_asked_for(models, tmp_path):
    place, model = tmp_path / "d", models["PrivBayes"]
    place.mkdir()
    write_dossier(model, place)  # an empty folder is nobody's
    refused(OutputError, "exists", write_dossier, model, place)
    write_dossier(model, place, overwrite=True, about=About(title="again"))
    assert b"again" in (place / "report.html").read_bytes()
    (place / "notes.txt").write_text("mine")
    refused(OutputError, "of no dossier", write_dossier, model, place, overwrite=True)
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
    read, release = reader(folder), models["AllPairs"].pairs_
    values, stds = read("share", "smoker")
    assert values.loc["yes"] == release.crude.margins[0][1]
    assert stds.loc["yes"] == pytest.approx(release.crude.std / release.crude.rows)
    values, stds = read("product", "smoker", "ill")
    found = release.products.pairs["smoker", "ill"]
    assert values.loc["yes", "no"] == found[1, 0]
    assert stds.loc["yes", "no"] == pytest.approx(release.products.std)
    values, _ = read("pair", "smoker", "age")
    assert values.sum() == pytest.approx(1.0, abs=0.3)
    assert {cell for cell, _ in values.index} == {"no", "yes", "(missing)"}


def test_measurements_of_marginals(models, written):
    model, place = models["AIM"], written("AIM")
    clique = max(model.marginals_, key=len)
    named = [model.modelled_.names[a] for a in clique]
    values, stds = reader(place)("completed share", *named)
    table = model.marginals_[clique]
    assert np.array_equal(values.to_numpy(), table[0].ravel())
    assert np.allclose(stds.to_numpy(), table[1].ravel())
    stamped = pyarrow.parquet.read_schema(place / "measurements.parquet").metadata
    assert b"2" in stamped[b"missdp.guarantee"]


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
    assert ("does not keep what was missing" in page) == (not model._applied_strategy.models_holes)


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
    assert main(["dossier", "m.json", "-o", "f", "--tipping", f"age={question}"]) == 0
    assert (tmp_path / "f" / "report.html").read_text() == page
    assert main(["dossier", "m.json", "-o", "g", "--tipping", "age"]) == 2


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


def test_the_command_keeps_the_ledger_line_of_the_release(tmp_path, monkeypatch, capsys):
    def run(command):
        return main(command.split())

    monkeypatch.chdir(tmp_path)
    rows().to_csv("t.csv", index=False)
    SCHEMA.to_toml("t.toml")
    ledger = "--budget sqlite:///b.db"
    assert run(f"budget create t --epsilon 20 --delta 1e-6 {ledger}") == 0
    asked = f"synthesize t.csv --schema t.toml --epsilon 1 --method privbayes {ledger} --table t"
    assert run(f"{asked} -o s.csv") == 0
    capsys.readouterr()
    assert run("dossier s.model.json -o d --title Patients --json") == 0
    assert json.loads(capsys.readouterr().out)["output"] == "d"
    said, side = (json.loads(Path(p).read_text()) for p in ("d/release.json", "s.release.json"))
    assert (said["release"], said["ledger"]) == (side["release"], side["ledger"])
    assert said["ledger"]["head"]
    assert run("dossier s.model.json -o d") == 5
    assert run("dossier s.model.json -o d --overwrite") == 0
    assert run("dossier s.model.json -o e --published May") == 2
    assert run("dossier absent.json -o e") == 3
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
    """What a browser would make of a page: its elements, and names and values of attributes."""

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
    assert len(cells) % 5 == 0
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
    release = models["AllPairs"].pairs_
    assert "Published by <bdi>An office</bdi>" in page
    assert page.count('<section class="card">') == 3
    shares = re.search(r"<bdi>smoker</bdi></h3>.*?</table>", page, re.DOTALL)[0]
    shown = dict(re.findall(r"<bdi>(no|yes)</bdi>.*?([\d.]+) %</td>", shares))
    margin = release.crude.margins[0][:2]
    assert float(shown["yes"]) / 100 == pytest.approx(margin[1] / margin.sum(), abs=0.1)
    stds = release.margin_stds[0][:2] / margin.sum()
    half = [float(x) for x in re.findall(r"± ([\d.]+)</td>", shares)]
    assert half == pytest.approx(196 * stds, rel=0.35)  # rounded up to a digit or two
    assert "smoker = &#39;yes&#39;" in page  # the rule
    assert "<caption>in years</caption>" in page
    assert "2 may be missing" in page  # which is declared; whether any is, has noise


def test_levels_that_are_merged_stand_where_the_first_of_them_is():
    """As a spike at the lower end of its bin, which few rows have."""
    pay = Numeric(name="pay", lower=0, upper=4000, bins=4, spikes=(1000.0,))
    values = np.repeat([100.0, 1000.0, 1500.0, 2500.0], [500, 2, 500, 2])
    model = AIM(epsilon=1.0, random_state=0).fit(
        pd.DataFrame({"pay": values}), schema=Schema((pay,))
    )
    (column,) = Facts(model).columns
    assert column.levels == ("0 to 1000", "1000 and 2 more, merged", "1000 to 2000")
    assert column.shares == pytest.approx([0.5, 0.0, 0.5], abs=0.05)


def test_how_far_cells_are_off_is_not_noise_alone(written):
    """A model puts back what clipping takes: of many rows that is unsure by more than the noise."""
    frame = pd.concat([rows(seed).fillna({"smoker": "no", "age": 40}) for seed in range(5)])
    facts = Schema(SCHEMA.attributes)
    model = AllPairs(epsilon=1e4, clip=0.5, random_state=0).fit(frame, schema=facts)
    table = Facts(model).pair_tables[0, 1][0][:2, :2]
    truth = pd.crosstab(frame["smoker"], frame["ill"]).to_numpy() / len(frame)
    off = float(np.sqrt(np.square(table - truth).mean()))
    std = Facts(model).pairs[0, 1].std
    assert 1e-3 < off < 2 * std
    page = (written(model) / "how-to-use.md").read_text()
    told = float(re.search(r"off by about\s+([\d,]+) rows", page)[1].replace(",", ""))
    assert 0.2 * std < told / len(frame) < 5 * std


def test_the_report_of_a_family_without_measurements_states_no_noise(written):
    page = (written("PrivBayes") / "report.html").read_text()
    assert "±" not in re.sub(r"<small>± .*?</small>|<h3>The risk.*", "", page, flags=re.DOTALL)
    assert "this family keeps no measurements" in page


# Synthesizers from published measurements
@pytest.mark.parametrize("family", ["AllPairs", "AIM"])
def test_a_released_synthesizer_comes_back_from_its_measurements(models, written, family, tmp_path):
    model, file = models[family], written(family) / "measurements.parquet"
    for schema in (None, model.schema_, SCHEMA):
        again = from_measurements(file, schema)
        assert type(again) is type(model)
        assert again.guarantee_ == model.guarantee_.with_conditions(TakenFromFile())
        kept = [m.sample(300, missing_values="keep", random_state=7) for m in (model, again)]
        assert kept[0].equals(kept[1])
    again.save(tmp_path / "m.json")
    assert TakenFromFile() in load(tmp_path / "m.json").guarantee_.conditions
    assert "no signature" in again.guarantee_.in_words()


def test_a_record_that_unpacks_to_too_much_is_refused(folder, monkeypatch):
    monkeypatch.setattr("missdp.office.measurements._MOST_TEXT", 100)
    said = "holds a record that is no model"
    refused(DataError, said, from_measurements, folder / "measurements.parquet")


def nudged(table, name):
    """The table with one number of a column larger by as little as can be."""
    values = table[name].to_numpy().copy()
    values[3] = np.nextafter(values[3], np.inf)
    return table.set_column(table.column_names.index(name), name, pyarrow.array(values))


def with_record_of(table, models, folder):
    write_dossier(models["AIM"], folder / "other")
    other = pyarrow.parquet.read_schema(folder / "other" / "measurements.parquet").metadata
    return table.replace_schema_metadata({**table.schema.metadata, RECORD: other[RECORD]})


EDITS = {
    "value": lambda table, *_: nudged(table, "value"),
    "variance": lambda table, *_: nudged(table, "variance"),
    "order": lambda table, *_: table.take([1, 0, *range(2, len(table))]),
    "column": lambda table, *_: table.append_column("note", table["kind"]),
    "record": with_record_of,
    "metadata": lambda table, *_: table.replace_schema_metadata(None),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_not_the_release(models, folder, tmp_path, monkeypatch, edit):
    table = pyarrow.parquet.read_table(folder / "measurements.parquet")
    file, schema = tmp_path / "edited.parquet", models["AllPairs"].schema_
    pyarrow.parquet.write_table(table, file)
    monkeypatch.setattr("missdp.office.measurements._fitted", lambda *_: "fitted anew")
    assert isinstance(from_measurements(file, schema), AllPairs)  # written again, not edited
    pyarrow.parquet.write_table(EDITS[edit](table, models, tmp_path), file)
    assert from_measurements(file, schema) == "fitted anew"
    refused(SchemaError, "no sealed record", from_measurements, file)


def test_no_guarantee_is_known_of_numbers_that_were_edited_or_of_another_schema(
    models, folder, tmp_path
):
    table = pyarrow.parquet.read_table(folder / "measurements.parquet")
    file, schema = tmp_path / "edited.parquet", models["AllPairs"].schema_
    pyarrow.parquet.write_table(nudged(table, "value"), file)
    found = from_measurements(file, schema)
    for ask in (
        lambda: found.guarantee_,
        lambda: found.save(tmp_path / "m.json"),
        lambda: write_dossier(found, tmp_path / "d"),
        lambda: ground_truth_guarantee(found, RowIndependentMissingness()),
    ):
        refused(UnprovenError, "no guarantee is known", ask)
    assert [*tmp_path.iterdir()] == [file]
    drawn = found.sample_table(4000, missing_values="keep", random_state=0)
    assert Table.from_codes(schema, {a.name: drawn.codes(a.name) for a in schema})
    far = marginal_distance(models["AllPairs"].sample(4000), drawn, k=2, schema=schema)
    assert far.mean < 0.2
    relabelled = {"ill": replace(SCHEMA["ill"], label="another one")}
    other = replace(schema, attributes=tuple(relabelled.get(a.name, a) for a in schema))
    found = from_measurements(folder / "measurements.parquet", other)
    refused(UnprovenError, "no guarantee is known", lambda: found.guarantee_)


def test_marginals_that_mbi_measured_make_a_model_without_a_guarantee(tmp_path):
    """Pairs in any order, also with a last cell for missing values; nothing is unpickled."""
    schema, counts = Schema(tuple(SCHEMA[n] for n in ("ill", "smoker"))), np.zeros((3, 2))
    counts[:2, :2], counts[2] = [[500.0, 100.0], [100.0, 500.0]], [150.0, 50.0]
    file, saved = tmp_path / "m.npz", {"clique_0": ["smoker", "ill"], "stddev_0": 4.0}
    np.savez(file, values_0=counts.ravel(), **saved)
    model = from_measurements(file, schema)
    drawn = model.sample_table(20_000, missing_values="keep", random_state=0)
    smoker, ill = (drawn.codes(name) for name in ("smoker", "ill"))
    assert model.n_rows_ == 1400
    assert np.mean(smoker == 2) == pytest.approx(200 / 1400, abs=0.02)
    assert np.mean(ill[smoker < 2] == smoker[smoker < 2]) == pytest.approx(1000 / 1200, abs=0.03)
    refused(UnprovenError, "no guarantee is known", lambda: model.guarantee_)
    for wrong, said in (
        ({"values_0": np.ones(5), **saved}, "no marginal of the levels"),
        ({"values_0": counts.ravel(), **saved, "clique_0": ["smoker", "x"]}, "not in the schema"),
        ({"values_0": counts.sum(1), **saved, "clique_0": ["smoker"]}, "no measurement is about"),
        ({"values_0": np.array([print], dtype=object), **saved}, "holds no measurements"),
        ({"leaf_0": counts}, "holds no measurements"),
    ):
        np.savez(file, **wrong)
        refused(DataError, said, from_measurements, file, schema)
    (tmp_path / "m.parquet").write_text("no parquet")
    for name in ("m.parquet", "absent.npz"):
        refused(DataError, "holds no measurements", from_measurements, tmp_path / name, schema)
