"""What is wrong is refused before anything is charged: a code, a reason, no file, no cell."""

import shlex
import shutil

import pytest

from missdp import Numeric, Schema
from missdp.mechanisms import Door

SYNTHESIZE = "synthesize data.csv --schema schema.toml -o out.csv --epsilon 1"
ASKED = "synthesize unread.csv --schema schema.toml -o out.csv"
TRUTH = f"{ASKED} --ground-truth-epsilon 1"
SIMULATE = "simulate complete.csv --schema schema.toml --rate 0.3 --seed 1 -o x.csv"
IMPUTE = "impute data.csv --schema schema.toml --model m.json -o filled.csv"
PRICE = "price m.json"
QUERY = "query data.csv --schema schema.toml --impute age --match größe --epsilon 1"
EVALUATE = "evaluate data.csv data.csv --schema schema.toml"
SAMPLE = "sample m.json -o x.csv"
PIPELINE = "price pipeline.toml"

# What is asked, the exit code, and what the refusal says.
REFUSED = [
    (f"{SYNTHESIZE} --epsilon 0", 2, "--epsilon must"),
    (f"{SYNTHESIZE} --delta 1", 2, "--delta must"),
    (f"{SYNTHESIZE} --delta 0 --method all-pairs", 2, "delta"),
    (f"{SYNTHESIZE} --seed -1", 2, "--seed must"),
    (f"{SYNTHESIZE} --missing guess", 2, "--missing must be one of"),
    (f"{SYNTHESIZE} --method guess", 2, "privbayes"),
    (f"{SYNTHESIZE} --method aim --set round=2", 2, "no parameter 'round'"),
    (f"{SYNTHESIZE} --method aim --set rounds=x", 2, "whole number"),
    (f"{SYNTHESIZE} --set workload=age,agee", 2, "'agee', which the schema does not have; did you"),
    (f"{SYNTHESIZE} --rows {10**15}", 2, "--rows must"),
    (f"{SYNTHESIZE} --rows {'9' * 30}", 2, "--rows must"),
    (f"{SYNTHESIZE} --public-rows {10**15}", 2, "--rows must"),
    (f"{SYNTHESIZE} --public-rows 0", 2, "--public-rows must"),
    (f"{SYNTHESIZE} --missing observed --keep-holes", 2, "joint"),
    (f"{SYNTHESIZE} --holes zeros", 2, "--holes"),
    (f"{SYNTHESIZE} --schema none.toml", 3, "none.toml"),
    (f"{SYNTHESIZE} --colour 1", 2, "colour"),
    *((f"{SYNTHESIZE} --memory '{size}'", 2, "--memory must be")
      for size in ("two", "-1GB", "1", "5XB", "1iB", "", "nanGB", "100MB")),
    *((f"{SYNTHESIZE} -o {name}", 5, says) for name, says in (
        (".", ".csv"), ("/proc/out.csv", "cannot write"), ("nowhere/out.csv", "folder"),
        ("out.xls", ".csv"), ("data.csv/out.csv", "cannot write"), ("data.csv", "same command"),
        ("x" * 300 + ".csv", "cannot write"),
        ("x" * 250 + ".csv", "cannot write"),  # the model beside it would have too long a name
    )),
    *((f"{SYNTHESIZE} --model {name}", 5, says) for name, says in (
        (".", "folder"), ("/proc/m.json", "cannot write"), ("out.csv", "same command"),
        ("/dev/full", "no"), ("schema.toml", "same command"), ("nowhere/m.json", "folder"),
    )),
    (f"{SYNTHESIZE} --guarantee /proc/g.json", 5, "cannot write"),
    (f"{SYNTHESIZE} --guarantee ./out.csv", 5, "same command"),
    (f"{SYNTHESIZE} --model n.json --guarantee n.json", 5, "same command"),
    (ASKED, 2, "either --epsilon or --ground-truth-epsilon"),
    (f"{TRUTH} --epsilon 1", 2, "either"),
    (TRUTH, 2, "--observed, --p-max or --row-independent"),
    (f"{ASKED} --epsilon 1 --p-max 0.5", 2, "--ground-truth-epsilon"),
    (f"{TRUTH} --p-max 0.5 --row-independent", 2, "one assumption"),
    (f"{TRUTH} --observed much", 2, "age=0.9"),
    (f"{TRUTH} --observed 1.5", 2, "between 0 and 1"),
    (f"{TRUTH} --observed nosuch=0.5", 2, "nosuch"),
    (f"{ASKED} --ground-truth-epsilon 0 --p-max 0.5", 2, "epsilon must be"),
    (f"{ASKED} --ground-truth-epsilon 99 --p-max 0.5 --method mst", 2, "between 0 and 64"),
    (f"{SIMULATE} --rate 1.0", 2, "--rate must"),
    (f"{SIMULATE} --mechanism guess", 2, "--mechanism must be one of"),
    (f"{SIMULATE} --seed -1", 2, "--seed must"),
    (f"{SIMULATE} -o nowhere/x.csv", 5, "folder"),
    (f"{SIMULATE} -o complete.csv", 5, "same command"),
    *((f"{command} -o other.csv", 5, "'other.csv' exists; pass --overwrite to replace it")
      for command in (SIMULATE, IMPUTE, SAMPLE)),
    (f"{SIMULATE} --output-schema schema.toml", 5, "same command"),
    ("schema draft data.csv -o data.csv --force", 5, "same command"),
    ("schema draft data.csv -o schema.toml", 5, "exists"),
    (f"{IMPUTE} --draws 0", 2, "--draws must be from 1"),
    (f"{IMPUTE} --seed -1", 2, "--seed must be"),
    (f"{IMPUTE} -o filled.txt", 5, "end the name in"),
    (f"{IMPUTE} -o data.csv", 5, "same command"),
    (f"{IMPUTE} --model absent.json", 3, "no model file"),
    (f"{IMPUTE} --schema other.toml", 3, "another schema"),
    (f"{SAMPLE} -o m.json", 5, ".csv"),
    (f"{SAMPLE} -o no/x.csv --keep-holes --holes codes", 5, "folder"),
    (f"{SAMPLE} --holes zeros", 2, "--holes"),
    (f"{SAMPLE} --memory 500MiB", 2, "--memory must be"),
    (f"{SAMPLE} --multiple 1", 2, "--multiple must"),
    (f"{SAMPLE} --multiple 1001", 2, "--multiple must"),
    (f"{SAMPLE} --multiple 3 --rows {10**12}", 2, "--rows must be at most"),
    (f"{SAMPLE} --multiple 3", 2, "multiple"),
    *((f"{c} schema.toml -o x.csv", 3, "not a missdp model") for c in ("sample", "dossier")),
    (f"{EVALUATE} --ways 0", 2, "--ways must be"),
    (f"{EVALUATE} --test data.csv", 2, "--test is for --f1"),
    ("evaluate other.csv data.csv --schema schema.toml", 3, "the private table: column 'größe'"),
    ("evaluate data.csv other.csv --schema schema.toml", 3, "the synthetic table: column 'größe'"),
    ("evaluate data.csv no.csv --schema schema.toml", 3, "no data file at 'no.csv'"),
    (f"{EVALUATE} --f1 --test other.csv", 3, "the held-out rows: column 'größe'"),
    (f"{PRICE} --ground-truth", 2, "assumption"),
    (f"{PRICE} --p-max 0.5", 2, "ground-truth"),
    (f"{PRICE} --delta 1e-6", 2, "pipelines"),
    (f"{PRICE} --ground-truth --p-max 1.5", 2, "--p-max must"),
    (f"{PRICE} --ground-truth --observed nosuch=.5", 2, "--observed names"),
    (f"{PRICE} --ground-truth --observed age=.5,age=.6", 2, "twice"),
    (f"{PRICE} --ground-truth --p-max 0.5 --row-independent", 2, "one assumption"),
    (f"{PRICE} --ground-truth --observed age=x", 2, "age=0.9"),
    (f"{PRICE} --ground-truth --observed age=2", 2, "age"),
    ("convert m.json -o other.csv", 5, "exists; pass --overwrite"),
    ("price none.json", 3, "no model file"),
    ("price .", 3, "cannot read"),
    (f"{PIPELINE} --ground-truth --row-independent", 2, "for saved models"),
    (f"{PIPELINE} --delta 2", 2, "--delta must"),
    (QUERY, 2, "exactly one"),
    (f"{QUERY} --mean age --by größe --uncertainty total", 2, "are of noise alone"),
    (f"{QUERY} --variance age --uncertainty total", 2, "are of noise alone"),
    (f"{QUERY} --questions q.toml --by größe", 2, "--by stand in the file of --questions"),
    (f"{QUERY} --mean age --count", 2, "exactly one"),
    (f"{QUERY} --proportion 'age >'", 2, "--proportion: expected"),
    (f"{QUERY} --mean age --where 'age >>> 3'", 2, "where"),
    (f"{QUERY} --mean age --where \"__import__('os')\"", 2, ""),
    (f"{QUERY} --mean größe", 2, "numeric"),
    (f"{QUERY} --mean nobody", 3, "nobody"),
    (f"{QUERY} --mean age --match nobody", 3, "nobody"),
    (f"{QUERY} --correlation age", 2, "2 attribute"),
]  # fmt: skip

PIPELINE_FILE = """
delta = 1e-6
[table]
rows = 1000
columns = 4
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


@pytest.fixture(scope="module")
def place(survey, tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    shutil.copytree(survey, folder, dirs_exist_ok=True)
    age = Numeric(name="age", lower=0, upper=120)
    Schema((Schema.from_toml(folder / "schema.toml")["größe"], age)).to_toml(folder / "other.toml")
    (folder / "other.csv").write_text("größe,age\nsecret,5\n", encoding="utf-8")
    (folder / "unread.csv").write_text("not read")
    (folder / "pipeline.toml").write_text(PIPELINE_FILE)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("command", "code", "says"), REFUSED, ids=lambda v: str(v)[-40:])
def test_it_is_refused(place, run, monkeypatch, command, code, says):
    monkeypatch.chdir(place)
    monkeypatch.setattr(Door, "__init__", None)  # to charge would be something unexpected
    before = contents(place)
    found, out, err = run(*shlex.split(command))
    assert (found, out) == (code, "")
    assert says in err
    assert err.startswith(("missdp: ", "Usage: "))
    assert not any(word in err for word in ("Traceback", "unexpected", "charged", "secret"))
    assert contents(place) == before
