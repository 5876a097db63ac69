"""Scores of numbers and relations: against another program, and where the answer is known."""

import importlib.util
import itertools
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Date, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.errors import DataError, MissingDependencyError, ParameterError
from missdp.evaluate import Fidelity, fidelity, plot_columns
from missdp.evaluate.align import to_text
from missdp.evaluate.distances import total_variation
from missdp.evaluate.fidelity import _by_chance, _sampled

ORACLE = Path(__file__).parents[3] / "shared" / "tools" / "fidelity.py"
SCHEMA = Schema(
    (
        Numeric(name="age", lower=0, upper=99, integer=True, nullable=True),
        Numeric(name="pay", lower=-10, upper=500, nullable=True),
        Numeric(name="debt", lower=0, upper=1e6, bins=3),
        Categorical(name="work", levels=("none", "part", "full"), nullable=True),
        Categorical(name="sex", levels=("f", "m")),
    )
)
REST = SCHEMA.subset([name for name in SCHEMA.names if name != "pay"])


def people(n, seed, holes=0.0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    pay = np.clip(np.round(rng.lognormal(3, 1, n) * (1 + age / 50)), -10, 500)
    debt = np.where(rng.random(n) < 0.6, 0.0, np.clip(rng.pareto(1, n) * 100, 0, 1e6))
    frame = pd.DataFrame({"age": age, "pay": pay, "debt": debt}).astype(float)
    frame["work"] = np.array(["none", "part", "full"])[np.clip(age // 30, 0, 2)]
    frame["sex"] = rng.choice(["f", "m"], n)
    for name in ("age", "pay", "work"):
        frame[name] = frame[name].mask(rng.random(n) < holes)
    return frame


def domain(a):
    if isinstance(a, Numeric):
        return {"kind": "numeric", "lower": a.lower, "upper": a.upper}
    return {"kind": "categorical", "levels": list(a.levels)}


def oracle():
    spec = importlib.util.spec_from_file_location("fidelity_of_shared", ORACLE)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not ORACLE.exists(), reason="needs the tool beside the repository")
@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.tuples(st.integers(60, 900), st.integers(60, 900)),
    holes=st.tuples(st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.3])),
    drop=st.sampled_from([(), ("age",), ("age", "pay"), ("work", "sex")]),
)
def test_scores_are_those_of_another_program(seed, rows, holes, drop):
    schema = SCHEMA.subset([name for name in SCHEMA.names if name not in drop])
    frames = [people(rows[k], seed + k, holes[k]).drop(columns=[*drop]) for k in (0, 1)]
    facts = {a.name: domain(a) for a in schema}
    levels = {n: {v: i for i, v in enumerate(f.get("levels", ()))} for n, f in facts.items()}
    coded = {name: codes for name, codes in levels.items() if codes}
    read = [
        frame.assign(**{n: frame[n].map(c).fillna(-1).astype(int) for n, c in coded.items()})
        for frame in frames
    ]
    expected = oracle().score(*read, facts)
    expected = {name: score for name, score in expected.items() if score == score}
    result = fidelity(*frames, schema=schema).scores
    assert list(result) == list(expected)
    assert result == pytest.approx(expected, abs=1e-9)


def test_scores_of_simple_tables():
    n = 400
    truth = people(n, 0)
    same = fidelity(truth, truth.sample(frac=1, random_state=1), schema=SCHEMA)
    best = {name: float(name == "slope") for name in same.scores}
    assert same.scores == pytest.approx(best, abs=1e-12)
    assert same.verdict.endswith("no further than by chance.")
    old = fidelity(truth, truth.assign(age=99), schema=SCHEMA)
    assert (old.truth["age"][0], old.synthetic["age"][0]) == (truth["age"].mean(), 99)
    assert old.ks["age"] == pytest.approx((truth["age"] < 99).mean())
    none = fidelity(truth, truth.assign(pay=np.nan), schema=SCHEMA)
    assert (none.ks["pay"], none.ks["age"]) == (1.0, 0.0)
    assert none.scores["mean"] == pytest.approx(1 / 3)
    assert np.isnan(none.synthetic["pay"]).all()
    assert Fidelity.from_json(none.to_json()).ks == none.ks


def test_a_column_without_a_value_in_the_truth_does_not_drown_the_others():
    """The verdict concerns only the other columns, and states this."""
    truth, made = people(500, 0), people(500, 1)
    rest = fidelity(truth.drop(columns="pay"), made.drop(columns="pay"), schema=REST)
    result = fidelity(truth.assign(pay=np.nan), made, schema=SCHEMA)
    assert result.scores["two_way_worst"] == rest.scores["two_way_worst"] < 1
    assert result.by_chance == rest.by_chance
    assert result.verdict == f"{rest.verdict} Without a value in the real table: pay."
    assert Fidelity.from_json(result.to_json()).without_values == ("pay",)
    nothing = people(500, 0).assign(**dict.fromkeys(SCHEMA.names, np.nan))
    none = Schema(tuple(replace(a, nullable=True) for a in SCHEMA))
    assert fidelity(nothing, made, schema=none).scores["two_way_deciles"] == 1


def test_scores_include_errors_inside_bins():
    """The distance on ten equal bins is next to nothing, and everything else is lost."""
    truth = people(4000, 1)
    rng = np.random.default_rng(0)
    bins = np.minimum((truth["debt"] / 1e5).astype(int), 9)
    binned = truth.assign(debt=(bins + rng.random(4000)) * 1e5)
    result = fidelity(truth, binned, schema=SCHEMA)
    assert result.scores["two_way_equal"] < 1e-3
    assert result.ks["debt"] > 0.9
    assert result.scores["two_way_deciles"] > 0.3
    assert "times as far" in result.verdict


@pytest.mark.parametrize(
    ("sizes", "off"), [((200, 200), 0.04), ((3000, 3000), 0.04), ((2000, 500), 0.1)]
)
def test_by_chance_equals_distance_of_samples(sizes, off):
    """Check tables of few frequent cells and of many rare cells, by a simulation of 4,000 pairs."""
    rng = np.random.default_rng(3)
    for shares in ([0.5, 0.5], [0.9, 0.1, 0.0], rng.dirichlet(np.full(300, 0.2))):
        truth = rng.multinomial(sizes[0], shares)
        p = truth / truth.sum()
        pairs = zip(*(rng.multinomial(size, p, 4000) for size in sizes), strict=True)
        drawn = [total_variation(*pair) for pair in pairs]
        assert _by_chance(truth, sizes[1]) == pytest.approx(np.mean(drawn), rel=off)


def test_the_verdict_is_about_samples_of_this_size():
    """Two samples are as far apart as the line states. Columns drawn by themselves are not."""
    truth = Table.read(people(3000, 5), SCHEMA)
    rng = np.random.default_rng(0)
    draws = [truth.take(rng.integers(3000, size=3000)) for _ in range(6)]
    pairs = [fidelity(a, b) for a, b in zip(draws[::2], draws[1::2], strict=True)]
    far = np.mean([result.scores["two_way_deciles"] for result in pairs])
    assert far == pytest.approx(fidelity(truth, truth).by_chance, rel=0.1)
    apart = people(3000, 5).apply(lambda column: column.sample(frac=1, random_state=rng).to_numpy())
    result = fidelity(people(3000, 5), apart, schema=SCHEMA)
    ratio = result.scores["two_way_deciles"] / result.by_chance
    assert ratio > 2
    assert result.verdict.endswith(f"apart: {ratio:.1f} times as far.")


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 60), max_size=6), most=st.integers(1, 80))
def test_the_same_rows_are_sampled_however_a_table_comes(cuts, most):
    table = Table.read(people(60, 0), SCHEMA)
    at = [0, *sorted(cuts), 60]
    blocks = [table.take(np.arange(low, high)) for low, high in itertools.pairwise(at)]
    one, two = _sampled(iter([table]), most), _sampled(iter(blocks), most)
    assert len(one) == min(most, 60)
    for name in SCHEMA.names:
        assert np.array_equal(one.codes(name), two.codes(name))
    rows = pd.DataFrame({"debt": one.values("debt"), "age": one.values("age")})
    total = pd.DataFrame({"debt": table.values("debt"), "age": table.values("age")})
    assert len(rows.merge(total.drop_duplicates())) == len(rows)


@given(share=st.floats(0, 1), rows=st.integers(1, 10**9))
def test_digits_are_those_that_the_rows_support(share, rows):
    text = to_text(share, rows)
    unit = 10.0 ** -len(text.partition(".")[2])
    error = 0.5 / rows**0.5
    assert abs(float(text) - share) <= unit / 2 + 1e-12
    assert unit <= max(error, 0.1)  # the digit is no coarser than the error
    assert unit > error / 10 or unit == 0.1  # nor is there another one


def test_bins_without_values_are_refused():
    table = Table.from_codes(SCHEMA, {name: [0, 1] for name in SCHEMA.names})
    with pytest.raises(DataError, match="no numeric values"):
        fidelity(table, table)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_toml("schema.toml")
    people(500, 0, 0.2).to_csv("real.csv", index=False)
    people(500, 1, 0.2).to_csv("made.csv", index=False)
    return tmp_path


EVALUATE = ["evaluate", "real.csv", "made.csv", "--schema", "schema.toml"]


def test_the_command_ends_with_a_verdict_and_rounds(files, capsys):
    assert main(EVALUATE) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("Verdict: two-way tables of the synthetic and the real rows are 0.")
    assert not [line for line in lines if re.search(r"\b0\.\d{3}", line)]  # .02 is the error
    assert any(re.match(r"  debt +real  +[\d,]+ ", line) for line in lines)
    assert main([*EVALUATE, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["fidelity"]
    expected = fidelity(files / "real.csv", files / "made.csv", schema=SCHEMA)
    assert document["scores"] == expected.scores
    assert document["verdict"] == lines[-1]


@pytest.mark.long
def test_pictures_are_complete_files_of_every_column(files, capsys, monkeypatch):
    assert main([*EVALUATE, "--plot", "columns.svg"]) == 0
    made = people(50, 0)[["pay", "sex"]]
    for suffix, start in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        if suffix != "svg":
            plot_columns(made, made, f"columns.{suffix}", schema=SCHEMA.subset(("pay", "sex")))
        assert Path(f"columns.{suffix}").read_bytes().startswith(start)
    drawn = Path("columns.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in SCHEMA.names)
    assert "CURATOR ONLY" in drawn
    capsys.readouterr()
    Path("real.svg").mkdir()
    for wrong, code in (("columns.gif", 2), ("made.csv/columns.svg", 5), ("real.svg", 5)):
        assert main([*EVALUATE, "--plot", wrong]) == code
        assert capsys.readouterr().out == ""  # refused before anything is read
    odd = Schema((Categorical(name="pay $x^", levels=("$a_", "b"), nullable=True),))
    table = Table.from_codes(odd, {"pay $x^": [2, 2, 2]})
    plot_columns(table, table, "odd.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"missdp\[plot\]"):
        plot_columns(table, table, "odd.svg")


@pytest.mark.slow
def test_bench_scores_any_table_with_missing_cells(tmp_path):
    """Fits without bins, on a table with missing cells, are scored against the table without."""
    truth = people(400, 0)
    truth.to_parquet(tmp_path / "truth.parquet")
    facts = {a.name: domain(a) for a in SCHEMA}
    facts["age"] |= {"integer": True, "step": 1}
    (tmp_path / "domain.json").write_text(json.dumps(facts))
    bench = Path(__file__).parents[2] / "bench" / "fidelity.py"
    run = subprocess.run(
        [sys.executable, str(bench), "truth.parquet", "domain.json", "--missing", "mar:0.3",
         "--methods", "mst", "no-such", "--json", "out.json"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    fitted, refused = json.loads((tmp_path / "out.json").read_text())
    same = fidelity(truth, truth, schema=SCHEMA)
    assert fitted["scores"].keys() == same.scores.keys()
    assert 0 < fitted["scores"]["ks"] < 1
    assert (refused["method"], refused["scores"]) == ("no-such", {})
    assert f"{same.by_chance:.4f}" in run.stdout


def test_dates_are_shown_as_dates():
    schema = Schema((Date(name="day", lower="2024-01-01", upper="2024-12-31"),))
    days = pd.DataFrame({"day": ["2024-03-01", "2024-03-02", "2024-03-03", None]})
    result = fidelity(days, days, schema=schema)
    _, real, made = str(result).split("mean", 2)[2].splitlines()[-3:]
    assert real.split()[2:5] == ["2024-03-02", "0.8", "2024-03-01"]
    assert made.split()[2:5] == ["2024-03-02", "0.8", "2024-03-01"]
    assert result.truth["day"][0] == 19784


@pytest.mark.parametrize("rows", [0, -1, 1.5])
def test_plot_columns_max_rows_below_one_raises_error(rows, tmp_path):
    table, path = people(50, 0)[["pay", "sex"]], tmp_path / "columns.svg"
    with pytest.raises(ParameterError, match="max_rows must be a whole number"):
        plot_columns(table, table, path, schema=SCHEMA.subset(("pay", "sex")), max_rows=rows)
    assert not path.exists()
