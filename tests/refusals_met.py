"""Messages of errors by how they start, each with a case that raises it as a user meets it."""

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
    many = Schema(tuple(Numeric(name=f"x{i}", lower=0, upper=1, bins=125) for i in range(96)))
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


CASES = {
    # the schema
    (
        "'s.toml' is not valid TOML (line 2, column 12). Write [[attribute]] with two "
        "brackets at either end."
    ): lambda: toml("format = 1\n[[attribute]\n"),
    "attribute 'sex': unknown kind 'text'. Known kinds: ": lambda: toml(
        'format = 1\n[[attribute]]\nname = "sex"\nkind = "text"\n'
    ),
    "attribute 'a': unknown field 'levls'. Did you mean 'levels'?": lambda: toml(
        'format = 1\n[[attribute]]\nname = "a"\nkind = "categorical"\nlevls = ["x"]\n'
    ),
    "attribute 'age': lower must be below upper": lambda: schema(lower=99, upper=0),
    "attribute 'age': missing_codes that are numbers must lie outside [lower, upper]": lambda: (
        schema(missing_codes=(50,))
    ),
    "attribute 'sex': levels must be distinct": lambda: Categorical(name="sex", levels=("f", "f")),
    "attribute names must be distinct. Repeated: ['age']": lambda: Schema((AGE, AGE)),
    "the schema has no attribute 'agee'": lambda: SCHEMA["agee"],
    "attribute 'age': a code is of two kinds": lambda: schema(refused=(-9,)),
    "attribute 'age': missing_codes need nullable = true": lambda: schema(nullable=False),
    "attribute 'age': outside must be one of 'error', 'clamp', 'missing' or 'other'": lambda: (
        schema(outside="drop")
    ),
    "the schema marks facts read from the private data as not yet declared public": lambda: (
        AllPairs(epsilon=1.0).fit(ROWS, schema=draft_schema(ROWS))
    ),
    "fit: data without a schema": lambda: AllPairs(epsilon=1.0).fit(ROWS),
    "rule 'never age >= 0' leaves no row at all": lambda: Schema((AGE, SEX), (Never("age >= 0"),)),
    "rule 'never agee < 5': the schema has no attribute 'agee'": lambda: Schema(
        (AGE, SEX), (Never("agee < 5"),)
    ),
    "rule 'never how old? < 5': cannot read '? < 5'": lambda: Schema(
        (AGE, SEX), (Never("how old? < 5"),)
    ),
    (
        "rule 'age <= sex': 'age' and 'sex' cannot be compared: all must be numeric, all "
        "dates in one unit, or all ordinal with the same levels"
    ): lambda: Schema((AGE, SEX), (Always("age <= sex"),)),
    "rule \"age is not applicable unless sex = 'x'\": 'x' is not a level of 'sex'": lambda: Schema(
        (AGE, SEX), (NotApplicable("age", unless="sex = 'x'"),)
    ),
    "rule 'sex follows from age': the map lacks a value for": lambda: Schema(
        (AGE, SEX), (Determined("sex", by="age", map=((1, "f"),)),)
    ),
    "rule 'age + = 5': cannot read '= 5'": lambda: Schema((AGE, SEX), (Always("age + = 5"),)),
    # the table
    (
        "column 'age' contains a value that is not a whole number in [0, 99], or a cell that "
        "cannot be read."
    ): lambda: reads(age=140),
    "column 'sex' contains a value that is not one of its 2 declared levels": lambda: reads(
        sex="female"
    ),
    "column 'sex' has missing cells but is not declared nullable": lambda: reads(sex=None),
    "the data has columns that the schema does not declare: ['name']": lambda: reads(name="Ann"),
    "the schema declares column 'sex', which the data does not have.": lambda: Table.read(
        ROWS[["age"]], SCHEMA
    ),
    "column names must be distinct. Repeated: ['age', 'sex']": lambda: Table.read(
        pd.concat([ROWS, ROWS], axis=1), SCHEMA
    ),
    "column names must be distinct. Repeated: ['sex']": lambda: reads_csv("age;sex;sex\n1;f;f\n"),
    "no data file at 'nothing.csv'": lambda: Table.read("nothing.csv", SCHEMA),
    "cannot read 'rows.xls': the suffix must be one of": lambda: (
        Path("rows.xls").touch(),
        Table.read("rows.xls", SCHEMA),
    ),
    (
        "cannot parse 'rows.csv' as CSV: there is no header line, a row has too many or too "
        "few fields"
    ): lambda: reads_csv("age,sex\n1,f,2\n"),
    "cannot parse 'rows.csv' as CSV: line 2 is not UTF-8. State the encoding of the file": lambda: (
        reads_csv("age,sex\n1,\xe9\n")
    ),
    "cannot read 'rows.parquet': a cell exceeds the limit of memory": lambda: reads_long_cell(),
    (
        "column 'sex' contains a value that is not one of its 2 declared levels, or a cell "
        "that cannot be read."
    ): lambda: reads_csv("age,sex\n1," + "f" * 5000 + "\n"),
    "cannot read a table from 'list'": lambda: Table.read([[1, "f"]], SCHEMA),
    "a record has a key that the schema does not declare": lambda: Table.read(
        [{"age": 30, "sex": "f", "Ann": 1}], SCHEMA
    ),
    "the data has no rows to draft a schema from": lambda: draft_schema({"age": [], "sex": []}),
    # the fit
    "epsilon must be between 1e-6 and 10,000; got 0.": lambda: fits(epsilon=0),
    "epsilon must be between 1e-6 and 10,000; got 1e+09.": lambda: fits(epsilon=1e9),
    "delta must be above 0: the noise is Gaussian": lambda: fits(delta=0.0),
    "delta must be at least 0 and below 1": lambda: fits(delta=1.5),
    (
        "missing must be one of ['joint', 'observed', 'complete-rows', 'impute-first'], not 'drop'"
    ): lambda: fits(missing="drop"),
    "n_rows must be 'noisy' or an integer from 1 to 2**53": lambda: fits(n_rows=0),
    "random_state must be None or an integer, at least 0": lambda: fits(random_state="lucky"),
    "unknown synthesizer 'gan'": lambda: synthesizer_named("gan"),
    "constraint \"t1&EQ(t1.sex,'f')\": it must begin with t1&t2& and compare both rows": lambda: (
        Kamino(epsilon=1.0, constraints="t1&EQ(t1.sex,'f')").fit(reads())
    ),
    (
        "the measured pairs of attributes have 71,250,000 cells, more than the 60,000,000 that "
        "one release can have"
    ): lambda: wide(),
    "the fit does not fit into Filter(epsilon=0.5, delta=1e-06": lambda: fits(
        budget=Filter(0.5, 1e-6)
    ),
    # after the fit
    "this AllPairs is not fitted yet. Call fit first.": lambda: AllPairs(epsilon=1.0).sample(10),
    "PrivBayes has no model of its own uncertainty": lambda: (
        PrivBayes(epsilon=1.0).fit(ROWS, schema=SCHEMA).sample(10, multiple=2)
    ),
    (
        "where: 0 of 1,000,000 rows drawn from the model match the condition, and 5 matching "
        "rows were requested."
    ): lambda: (
        PrivBayes(epsilon=1.0).fit(ROWS, schema=SCHEMA).sample(5, where="age < 5 and age > 9")
    ),
    "missing='complete-rows' does not model missing cells": lambda: fits(
        missing="complete-rows"
    ).sample(10, missing_values="keep"),
    "there is no model file 'nothing.json'": lambda: load("nothing.json"),
    "'m.json' is not a missdp model.": lambda: (Path("m.json").write_text("{}"), load("m.json")),
    "'m.json' was changed after it was written (checksum mismatch).": lambda: loads_edited(
        lambda document: document | {"n_rows": 7}
    ),
    "the guarantee of the model does not match its parameters": lambda: loads_edited(
        lambda d: seal(d | {"parameters": d["parameters"] | {"epsilon": 0.1}})
    ),
    "the file is not of format 5, the only one that is read": lambda: loads_edited(
        lambda document: document | {"format": 2}
    ),
    "there must be one estimate and one variance for each of 2+ tables": lambda: combine_estimates(
        [0.5], [0.1]
    ),
    "cannot write 'no/such/folder.csv': the folder does not exist": lambda: check_outputs(
        [Path("no/such/folder.csv")]
    ),
    "'out.csv' exists. Use --overwrite": existing_rows,
    "'out.model.json' is the model of release": model_of_another_release,
    # questions
    "'sex' is not numeric": lambda: asks(of=("sex",)),
    "where: cannot read '> 5'": lambda: asks(where="age >> 5"),
    "statistic must be one of 'count', 'proportion', 'mean', 'sum', 'variance'": lambda: asks(
        kind="median"
    ),
    "worst-case bounds exist for count, proportion, mean, sum only": lambda: asks(
        kind="variance", uncertainty="worst-case"
    ),
    "worst-case bounds exist without groups only": lambda: asks(by="sex", uncertainty="worst-case"),
    "the question costs more than the remaining budget": lambda: asks(epsilon=2.0),
    # guarantees
    "cannot compose guarantees for the ground truth, or under different adjacencies": lambda: (
        Guarantee(1.0).compose(Guarantee(1.0).to_replace_one())
    ),
    (
        "a guarantee for the ground truth needs a condition that rows lose values "
        "independently of each other"
    ): lambda: Guarantee(1.0, protects="ground-truth"),
    (
        "no guarantee for the ground truth is proven unless rows lose values "
        "independently of each other"
    ): fits_and_asks_of_the_truth,
    "a CustomQuery cannot read cells that are filled from other rows": asks_a_query_of_filled_rows,
    "epsilon is smaller than the events prove": lambda: Guarantee(
        0.1, events=Guarantee(1.0).events
    ),
    "memory must be at least 512MiB": lambda: memory_limit("100MB").__enter__(),
}
