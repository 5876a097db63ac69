"""Public facts about dates: how they are written, compared, cut, and refused.

The difference of dates in a row follows from this row alone, and written dates are read back
unchanged.
"""

import datetime as dt
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Date, DateTime, Difference, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.engines import SparkSource
from missdp.errors import DataError, SchemaError
from missdp.schema import Always, Binning, Layout, Never, NotApplicable
from missdp.sources import DuckDBSource, MemorySource
from missdp.synth.search_grid import with_pending_bins, with_search_grid
from refusing import refuses

YEARS = {"lower": "2018-01-01", "upper": "2024-12-31"}
ALL = Schema(
    (
        Date(name="day", nullable=True, edges=("2018-01-01", "2020-01-01", "2024-12-31"), **YEARS),
        Date(name="week", lower="2018-01-01", upper="2025-01-06", step="week"),
        Date(name="quarter", lower="2018-01", upper="2024-10", step="quarter", format="%Y-%m"),
        Date(name="year", lower="1900", upper="2024", step="year", spikes=("2000",)),
        DateTime(name="hour", lower="2018-01-01", upper="2018-12-31T23:00", step="hour"),
        DateTime(
            name="utc", lower="2018-01-01T01:00", upper="2018-12-31T00:45",
            step="15min", timezone="Europe/Berlin",
        ),
    ),
    (Always("day <= week"), Never("year < '1918' and hour >= '2018-06-01T12:00'")),
)  # fmt: skip


def test_facts_are_written_as_dates_and_read_again(tmp_path):
    ALL.to_toml(tmp_path / "schema.toml")
    text = (tmp_path / "schema.toml").read_text()
    for fact in ('lower = "2018-01-01"', 'step = "3 month"', 'format = "%Y-%m"'):
        assert fact in text
    assert "resolution" not in text
    assert Schema.from_toml(tmp_path / "schema.toml") == ALL == Schema.from_dict(ALL.to_dict())
    by_type = Date(name="a", lower=dt.date(2018, 1, 1), upper=np.datetime64("2024-12-31"))
    assert by_type == Date(name="a", **YEARS) == replace(by_type)
    cut = replace(by_type, bins=Binning(edges=(17532.0, 17600.5, 20088.0)))
    assert Schema.from_dict(Schema((cut,)).to_dict())["a"] == cut
    assert cut.bin_labels == ("[2018-01-01, 2018-03-11)", "[2018-03-11, 2024-12-31)")


LATE = dt.datetime(2018, 1, 1, 5)
WRONG = [
    *(({"lower": bad}, "is not a date like") for bad in ("2018-02-30", "2018", LATE)),
    *(({"lower": None}, "must be a date"), ({"upper": 1e9}, "year 1 to 9999")),
    ({"upper": "2017-01-01"}, "below upper"),
    *(({"step": bad}, "step must be one of") for bad in ("hour", "0 days", 2.0)),
    *(({"step": "week"}, "whole multiple of step"), ({"integer": False}, "number of its steps")),
    *(({"format": 3}, "format must be text"), ({"format": "%d.%q"}, "format is made of")),
    *(({"format": "%d.%m"}, "format lacks a part"), ({"format": "%d.%d.%m.%Y"}, "twice")),
    *(
        ({"format": "%tm"}, "cannot represent the step"),
        ({"timezone": "Europe/Atlantis"}, "unknown"),
    ),
    ({"missing_codes": ("2020-01-01",), "nullable": True}, "outside"),
    ({"edges": ("2018-01-01", "2020-01-01")}, "start at lower and end at upper"),
]


@pytest.mark.parametrize(("facts", "why"), WRONG)
def test_wrong_facts_are_refused(facts, why):
    with refuses(SchemaError, why):
        (DateTime if "timezone" in facts else Date)(**{"name": "a", **YEARS, **facts})


UNLIKE_UNITS = [
    *(Never(f"day < {value}") for value in ("3", "true", "'2020'", "'01.02.2020'")),
    *(Never("quarter < '2020-01-02'"), Always("day <= hour"), Always("day <= number")),
    *(Always("hour < day"), Always("hour - day = number")),
]


@pytest.mark.parametrize("rule", UNLIKE_UNITS)
def test_rules_compare_dates_with_dates_of_their_unit(rule):
    number = Numeric(name="number", lower=0, upper=9, integer=True)
    with refuses(SchemaError):
        Schema((*ALL.attributes, number), (rule,))


def test_rules_about_dates_hold_in_rows_that_are_read():
    came, left = Date(name="came", nullable=True, **YEARS), Date(name="left", **YEARS)
    rules = Always("came <= left"), Never("came = '2020-05-05'")
    given_ = {
        "came": ["2020-01-02", "2020-01-01", "2020-05-05"],
        "left": ["2020-01-01", "2020-01-01", "2020-06-06"],
    }
    found = Table.read(given_, Schema((came, left), rules)).to_arrow().to_pydict()
    assert found["came"] == [None, dt.date(2020, 1, 1), None]


def test_the_grid_of_dates_is_even_also_around_1970():
    born = Date(name="born", lower="1920-01-01", upper="2020-12-31")
    grid = with_search_grid(with_pending_bins(Schema((born,)), ["born"]))["born"]
    widths = np.diff(grid.bin_edges)
    assert (len(widths), widths.min() >= 8, widths.max() <= 10) == (4096, True, True)


# -- differences -----------------------------------------------------------------------------------
YEAR = {"lower": "2020-01-01", "upper": "2020-12-31", "nullable": True, "outside": "missing"}
IN, OUT = Date(name="in", **YEAR), Date(name="out", **YEAR)
STAY = Difference(name="stay", later="out", earlier="in", lower=0, upper=60, outside="missing")
SCHEMA = Schema((IN, OUT, STAY), (Always("`in` <= out"),))

dates = st.dates(dt.date(2019, 12, 1), dt.date(2021, 1, 31))
cells = st.none() | dates.map(str) | st.sampled_from(["2020-02-30", "1.2.2020", "", "x"])
near = st.dates(dt.date(2020, 3, 1), dt.date(2020, 4, 1)).map(str)
tables = st.lists(st.tuples(cells | near, cells | near), min_size=1, max_size=6)


def read(pairs):
    return Table.read({"in": [p[0] for p in pairs], "out": [p[1] for p in pairs]}, SCHEMA)


def shown(table):
    names = SCHEMA.names
    return [*zip(*(table.codes(n) for n in names), *(table.values(n) for n in names), strict=True)]


@pytest.mark.long
@given(pairs=tables)
def test_a_row_with_dates_depends_on_itself_alone(pairs):
    """The sensitivity of every count rests on this: one row more or less is one count."""
    assert shown(read(pairs)) == [shown(read([pair]))[0] for pair in pairs]


@given(pair=st.tuples(cells | near, cells | near))
def test_a_difference_is_that_of_its_dates(pair):
    table = read([pair])
    day = {name: None if table.mask(name)[0] else table.values(name)[0] for name in ("in", "out")}
    both = [d for d in day.values() if d is not None]
    apart = both[1] - both[0] if len(both) == 2 else -1
    assert table.mask("stay")[0] == (not 0 <= apart <= 60)
    if 0 <= apart <= 60:
        assert table.values("stay")[0] == apart
    either = table.mask("in or out")[0], table.values("in or out")[0]
    assert either == ((False, both[0]) if both else (True, SCHEMA["in or out"].lower))
    assert {*table.to_arrow().column_names} == {"in", "out"}


@pytest.mark.long
@settings(max_examples=20)
@given(pairs=tables)
def test_rows_that_stream_are_counted_as_those_in_memory(tmp_path, pairs):
    data = pa.table({"in": [p[0] for p in pairs], "out": [p[1] for p in pairs]})
    csv.write_csv(data, tmp_path / "rows.csv")
    streamed, held = DuckDBSource(tmp_path / "rows.csv", SCHEMA), MemorySource(read(pairs))
    for clique in [("stay",), ("in", "stay"), ("stay", "in or out"), ("out",)]:
        found = (s.counts([clique], rows="extended")[clique] for s in (streamed, held))
        np.testing.assert_array_equal(*found)


def test_hidden_dates_hide_their_difference():
    table = read([("2020-03-01", "2020-03-04")] * 2)
    hidden = table.with_missing({"out": np.array([True, False])})
    assert hidden.mask("stay").tolist() == [True, False]


@pytest.mark.parametrize("unchecked", [True, False])
def test_a_refusal_quotes_no_cell(tmp_path, unchecked):
    strict = Schema((IN, OUT, Difference(name="stay", later="out", earlier="in", lower=0, upper=9)))
    data = pa.table({"in": ["2020-03-01"], "out": ["2020-03-20"]})
    csv.write_csv(data, tmp_path / "rows.csv")
    source = DuckDBSource(tmp_path / "rows.csv", strict)
    reading = source.check if unchecked else partial(Table.read, data, strict)
    with pytest.raises(DataError, match=r"column 'stay' .* \[0, 9\]") as refused:
        reading()
    assert "03" not in str(refused.value)


def test_differences_are_written_and_read_in_their_unit(tmp_path):
    ends = {"lower": "1920-01-01", "upper": "2020-12-31"}
    hours = {"lower": "2020-01-01T00:00", "upper": "2020-12-31T23:45", "step": "15min"}
    years = {"lower": 18, "upper": 100.5, "unit": "year"}
    wait = {"lower": 0, "upper": 8, "unit": "hour", "edges": (0, 0.25, 8)}
    schema = Schema(
        (
            *(IN, OUT, STAY, Date(name="born", **ends), DateTime(name="came", **hours)),
            DateTime(name="left", nullable=True, **hours),
            Difference(name="age", later="in", earlier="born", **years),
            Difference(name="wait", later="left", earlier="came", **wait),
        ),
        (Never("age < 18.5 and stay > 30"),),
    )
    assert schema["age"].computes == "born"  # of the two, that with wider bounds
    assert (schema["age"].lower, schema["wait"].upper, schema["wait"].step) == (6575, 480, 15)
    assert schema["wait"].bin_labels == ("[0, 0.25)", "[0.25, 8)")
    schema.to_toml(tmp_path / "schema.toml")
    assert "upper = 100.5" in (tmp_path / "schema.toml").read_text()
    again = Schema.from_toml(tmp_path / "schema.toml"), Schema.from_dict(schema.to_dict())
    assert again == (schema, schema)
    assert schema.subset(("in", "out", "stay")).names == (*("in", "out", "stay"), "in or out")
    alone = schema.subset(("age", "in"))
    assert type(alone["age"]) is Numeric


OTHER = Date(name="month", lower="2020-01", upper="2020-12", step="month")
UNLIKE = [
    *(({"later": "in"}, "must be two dates"), ({"later": "month"}, "one step")),
    *(({"later": bad}, f"later = {bad!r} is not a date") for bad in ("nobody", "sex")),
    *(({"unit": bad}, "cannot be counted") for bad in ("hour", "month")),
    *(({"unit": "fortnight"}, "one of"), ({"computes": "month"}, "one of its two dates")),
    *(({"missing_codes": (-9,), "nullable": True}, "no codes"), ({"upper": -1}, "below upper")),
]


@pytest.mark.parametrize(("facts", "why"), UNLIKE)
def test_wrong_facts_of_differences_are_refused(facts, why):
    sex = Categorical(name="sex", levels=("f", "m"))
    stay = {"name": "stay", "later": "out", "earlier": "in", "lower": 0, "upper": 60}
    with pytest.raises(SchemaError, match=why):
        Schema((IN, OUT, OTHER, sex, Difference(**{**stay, **facts})))


def test_differences_that_cannot_be_inverted_raise():
    known, sure = (Date(name=n, lower="2020-01-01", upper="2020-12-31") for n in ("known", "sure"))
    some = {"lower": 0, "upper": 9, "outside": "missing"}
    sex = Categorical(name="sex", levels=("f", "m"))
    routed = NotApplicable("out", unless="sex = 'f'")
    for given_, why in (
        ((known, sure, Difference(name="d", later="known", earlier="sure", **some)), "be nullable"),
        (
            (*SCHEMA, Difference(name="d", later="in or out", earlier="in", **some)),
            "later = .in or out. is not a date",
        ),
        ((IN, OUT, STAY, Difference(name="d", later="out", earlier="in", **some)), "two rules"),
    ):
        with refuses(SchemaError, why):
            Schema(given_)
    with refuses(SchemaError, "apply to every row"):
        Schema((IN, OUT, sex, STAY), (routed,))


def test_either_date_observed_does_not_require_one_date():
    assert "in or out" in SCHEMA.rule_set.rule_filled
    assert all(a.imputed_before for a in SCHEMA.subset(("in or out", "stay")))


MOMENT = DateTime(name="in", lower="2020-01-01", upper="2020-02-01", timezone="UTC")
FOR_SPARK = [
    (SCHEMA, "Spark counts no differences of dates: ['stay', 'in or out']"),
    (Schema((MOMENT,)), "no moments with a time zone: ['in']"),
    (Schema((OUT,), keys=("in",)), "makes no keys"),
    (Schema((OUT,), file=Layout(encoding="latin-1")), "text as UTF-8"),
]


@pytest.mark.parametrize(("schema", "said"), FOR_SPARK)
def test_spark_names_unsupported_attributes(schema, said, tmp_path, capsys):
    columns = {"__module__": "pyspark.sql.frames", "columns": ["in", "out"]}
    frame = type("DataFrame", (), columns)
    with pytest.raises(SchemaError, match=re.escape(said)):
        SparkSource(frame(), schema)
    schema.to_toml(tmp_path / "s.toml")
    given = ["fit", "x.parquet", "--engine", "spark", "--epsilon", "1", "-o"]
    assert main([*given, str(tmp_path / "o.json"), "--schema", str(tmp_path / "s.toml")]) == 3
    assert "Spark" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.parametrize("unit", ["month", "quarter"])
def test_format_value_difference_in_months_outside_schema_raises_error(unit):
    stay = Difference(name="stay", later="out", earlier="in", lower=0, upper=60, unit=unit)
    with refuses(SchemaError, "outside a Schema with its two dates"):
        stay.format_value(3.0)
