"""Public facts about dates: how they are written, compared, cut, and refused."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from missdp import Date, DateTime, Numeric, Schema, Table
from missdp.errors import SchemaError
from missdp.schema import Denial, Equation, Impossible, Order
from missdp.schema.open_domains import on_grid, pending
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
    (Order("day <= week"), Impossible("year < '1918' and hour >= '2018-06-01T12:00'")),
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
    cut = replace(by_type, edges=(17532.0, 17600.5, 20088.0), cuts_from="release x")
    assert Schema.from_dict(Schema((cut,)).to_dict())["a"] == cut
    assert cut.interval_names == ("[2018-01-01, 2018-03-11)", "[2018-03-11, 2024-12-31)")


WRONG = [
    ({"lower": "2018-02-30"}, "is no date like"),
    ({"lower": "2018"}, "is no date like"),
    ({"lower": dt.datetime(2018, 1, 1, 5)}, "is no date like"),
    ({"lower": None}, "must be dates"),
    ({"upper": 1e9}, "year 1 to 9999"),
    ({"upper": "2017-01-01"}, "below upper"),
    ({"step": "hour"}, "step must be one of"),
    ({"step": "0 days"}, "step must be one of"),
    ({"step": 2.0}, "step must be one of"),
    ({"step": "week"}, "whole multiple of step"),
    ({"integer": False}, "whole number of its steps"),
    ({"format": 3}, "format must be text"),
    ({"format": "%d.%q"}, "format is made of"),
    ({"format": "%d.%m"}, "format lacks a part"),
    ({"format": "%d.%d.%m.%Y"}, "twice"),
    ({"format": "%tm"}, "no place for the step"),
    ({"missing_codes": ("2020-01-01",), "nullable": True}, "outside"),
    ({"edges": ("2018-01-01", "2020-01-01")}, "start at lower and end at upper"),
]


@pytest.mark.parametrize(("facts", "why"), WRONG)
def test_wrong_facts_are_refused(facts, why):
    with refuses(SchemaError, why):
        Date(**{"name": "a", **YEARS, **facts})


def test_an_unknown_zone_is_refused():
    with refuses(SchemaError, "timezone is unknown"):
        DateTime(name="a", timezone="Europe/Atlantis", **YEARS)


@pytest.mark.parametrize(
    "rule",
    [
        Denial("t1&LT(t1.day,t1.hour)"),
        *(Impossible(f"day < {value}") for value in ("3", "true", "'2020'", "'01.02.2020'")),
        *(Impossible("quarter < '2020-01-02'"), Order("day <= hour"), Order("day <= number")),
        Equation("hour - day = number"),
    ],
    ids=lambda rule: rule.text,
)
def test_rules_compare_dates_with_dates_of_their_unit(rule):
    number = Numeric(name="number", lower=0, upper=9, integer=True)
    with refuses(SchemaError):
        Schema((*ALL.attributes, number), (rule,))


def test_rules_hold_in_rows_that_are_read():
    ends = {"nullable": True, **YEARS}
    schema = Schema(
        (Date(name="came", **ends), Date(name="left", **ends)),
        (Order("came <= left"), Impossible("came = '2020-05-05'")),
    )
    given = {
        "came": ["2020-01-02", "2020-01-01", "2020-05-05"],
        "left": ["2020-01-01", "2020-01-01", "2020-06-06"],
    }
    found = Table.read(given, schema).to_arrow().to_pydict()
    assert found["came"] == [None, dt.date(2020, 1, 1), None]


def test_the_grid_of_dates_is_even_also_around_1970():
    born = Date(name="born", lower="1920-01-01", upper="2020-12-31")
    grid = on_grid(pending(Schema((born,)), ["born"]))["born"]
    widths = np.diff(grid.edges)
    assert len(widths) == 4096
    assert widths.min() >= 8
    assert widths.max() <= 10
