"""Every refusal of docs/troubleshooting.md, in the order of the page, met as a user meets it."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from missdp import AllPairs, Categorical, Filter, Kamino, Numeric, PrivBayes, Schema, Table, load
from missdp.accounting import Cost, DataDependentDomain, Guarantee
from missdp.cli.rows import check_free
from missdp.evaluate import combine_estimates
from missdp.files import check_outputs
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.serialization import seal
from missdp.statistics import CustomQuery, KNNImputation, Statistic, open_table, run_queries
from missdp.synth.registry import synthesizer_named
from missdp.table import draft_schema
from missdp.table.memory import memory_limit

AGE = Numeric(name="age", lower=0, upper=99, integer=True, nullable=True, missing_codes=(-9,))
SEX = Categorical(name="sex", levels=("f", "m"))
SCHEMA = Schema((AGE, SEX))
ROWS = pd.DataFrame({"age": [30, 40, None, 60] * 10, "sex": ["f", "m"] * 20})


def schema(**changes):
    """The schema, with other facts about ``age``."""
    return Schema((replace(AGE, **changes), SEX))


def toml(text):
    Path("s.toml").write_text(text, encoding="utf-8")
    return Schema.from_toml("s.toml")


def reads(**columns):
    return Table.read(ROWS.assign(**columns), SCHEMA)


def reads_csv(text):
    Path("rows.csv").write_bytes(text.encode("latin-1"))
    return Table.read("rows.csv", SCHEMA)


def reads_long_cell():
    pq.write_table(pa.table({"age": ["1"], "sex": ["f" * 10**8]}), "rows.parquet")
    with memory_limit("512MiB"):
        return Table.read("rows.parquet", SCHEMA)


def fits(rows=ROWS, **parameters):
    return AllPairs(**{"epsilon": 1.0, **parameters}).fit(rows, schema=SCHEMA)


def asks(epsilon=1.0, **question):
    asked = Statistic(**{"kind": "mean", "of": ("age",)} | question)
    filled = KNNImputation(impute="age", match_on="sex")
    return run_queries(reads(), filled, [asked], epsilon=epsilon, budget=Filter(1.0))


def oldest(rows):
    return rows.values("age").max()


def asks_a_query_of_filled_rows():
    filled = KNNImputation(impute="age", match_on="sex").change(SCHEMA)
    session = open_table(reads(), budget=Filter(1.0)).apply(filled)
    query = CustomQuery(function=oldest, reads={"age"}, sensitivity=99)
    return session.measure(query, Cost(privacy_measure="pure", amount=1.0))


def model_of_another_release():
    document = {"family": "MST", "release": "0" * 32}
    Path("out.model.json").write_text(json.dumps(document))
    check_free([Path("out.model.json")])


def existing_rows():
    Path("out.csv").touch()
    check_free([Path("out.csv")])


def fits_and_asks_of_the_truth():
    model = fits(budget=None)
    return model.ground_truth_guarantee(DataDependentDomain(attributes=["age"]))


def wide():
    many = Schema(tuple(Numeric(name=f"x{i}", lower=0, upper=1, bins=100) for i in range(120)))
    return AllPairs(epsilon=1.0).fit(
        pd.DataFrame({name: [0.5] for name in many.names}), schema=many
    )


def loads_edited(edit):
    """Open a saved model after it was edited."""
    PrivBayes(epsilon=1.0).fit(ROWS, schema=SCHEMA).save("m.json")
    document = json.loads(Path("m.json").read_text(encoding="utf-8"))
    del document["sha256"]
    Path("m.json").write_text(json.dumps(edit(document)), encoding="utf-8")
    load("m.json")


CASES = [
    # the schema
    lambda: toml("format = 1\n[[attribute]\n"),
    lambda: toml('format = 1\n[[attribute]]\nname = "sex"\nkind = "text"\n'),
    lambda: toml('format = 1\n[[attribute]]\nname = "a"\nkind = "categorical"\nlevls = ["x"]\n'),
    lambda: schema(lower=99, upper=0),
    lambda: schema(missing_codes=(50,)),
    lambda: Categorical(name="sex", levels=("f", "f")),
    lambda: Schema((AGE, AGE)),
    lambda: SCHEMA["agee"],
    lambda: schema(refused=(-9,)),
    lambda: schema(nullable=False),
    lambda: schema(outside="drop"),
    lambda: AllPairs(epsilon=1.0).fit(ROWS, schema=draft_schema(ROWS)),
    lambda: AllPairs(epsilon=1.0).fit(ROWS),
    lambda: Schema((AGE, SEX), (Never("age >= 0"),)),
    lambda: Schema((AGE, SEX), (Never("agee < 5"),)),
    lambda: Schema((AGE, SEX), (Never("how old? < 5"),)),
    lambda: Schema((AGE, SEX), (Always("age <= sex"),)),
    lambda: Schema((AGE, SEX), (NotApplicable("age", unless="sex = 'x'"),)),
    lambda: Schema((AGE, SEX), (Determined("sex", by="age", map=((1, "f"),)),)),
    lambda: Schema((AGE, SEX), (Always("age + = 5"),)),
    # the table
    lambda: reads(age=140),
    lambda: reads(sex="female"),
    lambda: reads(sex=None),
    lambda: reads(name="Ann"),
    lambda: Table.read(ROWS[["age"]], SCHEMA),
    lambda: Table.read(pd.concat([ROWS, ROWS], axis=1), SCHEMA),
    lambda: reads_csv("age;sex;sex\n1;f;f\n"),
    lambda: Table.read("nothing.csv", SCHEMA),
    lambda: (Path("rows.xls").touch(), Table.read("rows.xls", SCHEMA)),
    lambda: reads_csv("age,sex\n1,f,2\n"),
    lambda: reads_csv("age,sex\n1,\xe9\n"),
    lambda: reads_long_cell(),
    lambda: reads_csv("age,sex\n1," + "f" * 5000 + "\n"),
    lambda: Table.read([[1, "f"]], SCHEMA),
    lambda: Table.read([{"age": 30, "sex": "f", "Ann": 1}], SCHEMA),
    lambda: draft_schema({"age": [], "sex": []}),
    # the fit
    lambda: fits(epsilon=0),
    lambda: fits(epsilon=1e9),
    lambda: fits(delta=0.0),
    lambda: fits(delta=1.5),
    lambda: fits(missing="drop"),
    lambda: fits(n_rows=0),
    lambda: fits(random_state="lucky"),
    lambda: synthesizer_named("gan"),
    lambda: Kamino(epsilon=1.0, constraints="t1&EQ(t1.sex,'f')").fit(reads()),
    lambda: wide(),
    lambda: fits(budget=Filter(0.5, 1e-6)),
    # after the fit
    lambda: AllPairs(epsilon=1.0).sample(10),
    lambda: PrivBayes(epsilon=1.0).fit(ROWS, schema=SCHEMA).sample(10, multiple=2),
    lambda: PrivBayes(epsilon=1.0).fit(ROWS, schema=SCHEMA).sample(5, where="age < 5 and age > 9"),
    lambda: fits(missing="complete-rows").sample(10, missing_values="keep"),
    lambda: load("nothing.json"),
    lambda: (Path("m.json").write_text("{}"), load("m.json")),
    lambda: loads_edited(lambda document: document | {"n_rows": 7}),
    lambda: loads_edited(lambda d: seal(d | {"parameters": d["parameters"] | {"epsilon": 0.1}})),
    lambda: loads_edited(lambda document: document | {"format": 2}),
    lambda: combine_estimates([0.5], [0.1]),
    lambda: check_outputs([Path("no/such/folder.csv")]),
    existing_rows,
    model_of_another_release,
    # questions
    lambda: asks(of=("sex",)),
    lambda: asks(where="age >> 5"),
    lambda: asks(kind="median"),
    lambda: asks(kind="variance", uncertainty="worst-case"),
    lambda: asks(by="sex", uncertainty="worst-case"),
    lambda: asks(epsilon=2.0),
    # guarantees
    lambda: Guarantee(1.0).compose(Guarantee(1.0).to_replace_one()),
    lambda: Guarantee(1.0, protects="ground-truth"),
    fits_and_asks_of_the_truth,
    asks_a_query_of_filled_rows,
    lambda: Guarantee(0.1, events=Guarantee(1.0).events),
    lambda: memory_limit("100MB").__enter__(),
]
