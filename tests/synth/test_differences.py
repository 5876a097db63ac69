"""Models of dates and of the time between them: a hospital's stays and ages."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, AllPairs, Categorical, Date, Difference, PrivBayes, Schema, Table, load
from missdp.accounting import MissingCompletelyAtRandom, RowIndependentMissingness
from missdp.errors import UnprovenError
from missdp.evaluate import fidelity, missing_fidelity
from missdp.ground_truth import joint
from missdp.schema import Always, Never
from missdp.synth.sampling import enforce_rules
from missdp.table.encode import CodedColumn

WARDS = ("surgery", "medicine", "paediatrics")
STAY = {"name": "stay", "later": "discharge", "earlier": "admission", "lower": 0, "upper": 60}
AGE = {"name": "age", "later": "admission", "earlier": "birth", "lower": 0, "upper": 105}
DATES = Schema(
    (
        Date(name="admission", lower="2018-01-01", upper="2024-12-31", nullable=True),
        Date(name="discharge", lower="2018-01-01", upper="2024-12-31", nullable=True),
        Date(name="birth", lower="1910-01-01", upper="2024-12-31"),
        Categorical(name="ward", levels=WARDS),
    ),
    (Always("admission <= discharge"), Always("birth <= admission")),
)
SCHEMA = Schema((*DATES, Difference(**STAY), Difference(**AGE, unit="year")), DATES.rules)


def hospital(n):
    """Return stays and ages by ward.

    Admissions increase from year to year, and two dates have missing values.
    """
    rng = np.random.default_rng(0)
    ward = rng.choice(WARDS, n, p=[0.4, 0.4, 0.2])
    came = np.datetime64("2018-01-01") + (rng.beta(1.3, 1, n) * 2450).astype(int)
    stay = np.minimum(60, rng.gamma(1.2, np.where(ward == "medicine", 6, 3))).astype(int)
    age = np.where(ward == "paediatrics", rng.uniform(0, 17, n), rng.normal(60, 18, n).clip(18, 99))
    rows = {"admission": came, "discharge": came + stay, "birth": came - (age * 365.2).astype(int)}
    data = pd.DataFrame({k: v.astype("datetime64[s]") for k, v in rows.items()} | {"ward": ward})
    data.loc[rng.random(n) < 0.08, "discharge"] = pd.NaT
    data.loc[rng.random(n) < 0.04, "admission"] = pd.NaT
    return data


def between(data):
    stay = (data["discharge"] - data["admission"]).dropna().dt.days.to_numpy()
    return stay, (data["admission"] - data["birth"]).dropna().dt.days.to_numpy()


def ks(one, two):
    both = np.union1d(one, two)
    left, right = (np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (one, two))
    return float(np.abs(left - right).max())


@pytest.fixture(scope="module")
def data():
    return hospital(15_000)


@pytest.fixture(scope="module")
def model(data):
    return AllPairs(epsilon=1, delta=1e-6, random_state=0).fit(data, schema=SCHEMA)


def check_dates(stays, ages):
    assert 0 <= stays.min() <= stays.max() <= 60
    assert ages.min() >= 0


@pytest.mark.long
def test_stays_and_ages_are_kept_and_no_row_breaks_a_rule(data, model):
    drawn = model.sample(15_000, missing_values="keep", random_state=1)
    assert list(drawn.columns) == list(data.columns)
    assert list(drawn.dtypes.astype(str)) == ["datetime64[s]"] * 3 + ["string"]
    check_dates(*between(drawn))
    assert max(map(ks, between(data), between(drawn))) <= 0.03
    for name in ("admission", "discharge", "birth"):
        found, true = (t[name].dropna().astype(np.int64).to_numpy() for t in (drawn, data))
        assert ks(found, true) <= 0.03, name
        assert abs(drawn[name].isna().mean() - data[name].isna().mean()) < 0.02, name
    alone = [(t["admission"].isna() & t["discharge"].notna()).mean() for t in (drawn, data)]
    assert alone[0] == pytest.approx(alone[1], rel=0.25)
    filled = model.sample(15_000, random_state=2)
    assert not filled.isna().any(axis=None)
    means = [between(t[t["ward"] == "medicine"])[0].mean() for t in (filled, data)]
    assert means[0] == pytest.approx(means[1], rel=0.1)


def test_tables_with_differences_are_compared(data, model):
    truth = Table.read(data[:5000], SCHEMA)
    drawn = model.sample_table(5000, missing_values="keep", random_state=0)
    assert fidelity(truth, drawn).ks["stay"] < 0.05
    found = missing_fidelity(truth, drawn)
    assert found.synthetic_rates["age"] == found.synthetic_rates["admission"]
    assert found.synthetic_rates == pytest.approx(found.truth_rates, abs=0.02)


def test_a_saved_model_draws_the_same_and_its_cuts_are_written_for_another_table(tmp_path, model):
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.schema_ == model.schema_
    one, other = (m.sample(50, random_state=0) for m in (again, model))
    pd.testing.assert_frame_equal(one, other)
    cut = SCHEMA.with_bins(model.bins_)
    assert cut["stay"].bins == model.bins_["stay"]
    cut.to_toml(tmp_path / "cut.toml")
    assert Schema.from_toml(tmp_path / "cut.toml") == cut


@pytest.mark.parametrize(
    ("family", "missing"),
    [(AIM, "joint"), *((PrivBayes, m) for m in ("observed", "complete-rows", "impute-first"))],
)
def test_other_families_compute_dates_back(family, missing):
    dates = (replace(SCHEMA["admission"], nullable=False), *DATES.attributes[1:])
    rules = (Never("ward = 'surgery' and stay = 0"),)
    schema = Schema((*dates, Difference(**STAY), Difference(**AGE, unit="year")), rules)
    model = family(epsilon=5, missing=missing, random_state=0)
    model.fit(hospital(500).dropna(subset="admission"), schema=schema)
    drawn = model.sample(500, random_state=0)
    check_dates(*between(drawn))
    assert (between(drawn[drawn["ward"] == "surgery"])[0] > 0).all()
    assert model.modelled_.names == ("admission", "ward", "stay", "age")


def test_nothing_is_promised_for_the_ground_truth(model):
    for assumption in (RowIndependentMissingness(), MissingCompletelyAtRandom({"discharge": 0.9})):
        with pytest.raises(UnprovenError, match="stay"):
            model.ground_truth_guarantee(assumption)
        with pytest.raises(UnprovenError, match="stay"):
            joint([model], assumption)


def test_a_drawn_row_without_its_base_has_the_other_date_and_no_difference():
    """As a model may draw it: no admission, but a stay, and a date for either."""
    read = Table.read(hospital(50).dropna(), SCHEMA)
    columns = {name: read.column(name) for name in SCHEMA.names}
    gone = np.full(len(read), SCHEMA["admission"].missing_code, dtype=np.uint8)
    columns["admission"] = CodedColumn(gone, np.full(len(read), SCHEMA["admission"].lower))
    drawn, broken = enforce_rules(Table(SCHEMA, columns))
    assert not broken.any()
    assert drawn.mask("stay").all()
    assert drawn.values("discharge").tolist() == read.values("admission or discharge").tolist()
    assert drawn.values("birth").tolist() == read.values("birth").tolist()
