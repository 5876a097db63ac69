"""Weights of rows: exact sums, the largest effect of one unit, and errors."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import AIM, MST, AllPairs, Categorical, Numeric, PrivBayes, Schema, Table, load
from missdp.accounting import (
    Filter,
    MissingCompletelyAtRandom,
    SelectionEvent,
    WeightsOfRows,
)
from missdp.errors import DataError, ParameterError, SchemaError, UnprovenError
from missdp.governance.dossier import write_dossier
from missdp.pricing import RowDomain
from missdp.schema import OpenCategorical, SurveyWeight, Unit
from missdp.schema.layout import STEPS
from missdp.session import Dependences, Noise, SeededNoise, Selection, Total, UnitSums
from missdp.sources import MemorySource
from missdp.statistics import open_table
from missdp.synth.first_parts import EffectiveSize
from missdp.table import units as of_units
from missdp.table.units import rows_of_units, unit_sums
from missdp.testing import RecordingNoise, ReplayedNoise, undercharges
from synth.test_units import BY_THE_ROW, EVERY_ROW, FAMILIES, ILL, SEX, broken

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning")

OLD = Categorical(name="old", levels=("no", "yes"), nullable=True)
ALL = (SEX, ILL, OLD)
SURVEY = SurveyWeight("wt", upper=4.0)


def schema_of(most=None, counts="rows", weight=None, attributes=(SEX, ILL)):
    unit = None if most is None else Unit("person", max_rows=most, counts_as=counts)
    return Schema(attributes, unit=unit, weight=weight)


def visits(schema, rows=1200, *, more=0, holes=False):
    """Return rows of people with up to three rows each, and rows of an additional person.

    The columns follow the schema.
    """
    each = 3 if schema.unit is None else min(schema.unit.max_rows, 3)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "person": np.arange(rows) // each,
            "wt": rng.uniform(0, 8, rows),
            "sex": rng.choice(["f", "m"], rows),
            "ill": rng.choice(["no", "yes"], rows),
        }
    )
    one = {"person": [9999] * more, "wt": [9.0] * more, "sex": ["m"] * more}
    frame = pd.concat([frame, pd.DataFrame(one | {"ill": [None if holes else "yes"] * more})])
    frame = frame.assign(old=frame["ill"]) if "old" in schema.names else frame
    apart = {"person": schema.unit, "wt": schema.weight}
    unread = [name for name, fact in apart.items() if fact is None]
    return frame.drop(columns=unread).sample(frac=1, random_state=1)


def moved(family, schema, *, more, holes=False, missing="joint"):
    """Return the effect of one unit on all answers, the claim, and answers beyond their event."""
    facts = {"epsilon": 1.0, "missing": missing}
    with RecordingNoise(1) as kept:
        model = family(**facts).fit(visits(schema), schema=schema)
    beside = visits(schema, more=more, holes=holes)
    with ReplayedNoise(kept) as again:
        family(**facts).fit(beside, schema=schema)
    squares, exceeding = 0.0, []
    for one, other in zip(kept.answers, again.answers, strict=True):
        apart = np.asarray(one.exact, dtype=float) - np.asarray(other.exact, dtype=float)
        if not isinstance(one.event, SelectionEvent):
            squares += float((apart**2).sum()) / one.event.sigma**2
        exceeding.append(undercharges(one.mechanism, one.event, one.exact, other.exact))
    (claim,) = model.guarantee_.events[0].flatten()
    assert family is AllPairs or any(type(e.event) is SelectionEvent for e in kept.answers)
    # The cost of selections does not appear in the sum of squares.
    least = 0.9 if family is AllPairs else 0.8
    return math.sqrt(squares), claim.sensitivity, [e for e in exceeding if e], least


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("most", [1, 3, 10])
@pytest.mark.parametrize("counts", ["rows", "one"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_unit_moves_all_answers_by_what_is_claimed_and_hardly_less(family, counts, most, holes):
    schema = schema_of(most, counts, attributes=ALL)
    found, claim, exceeding, least = moved(family, schema, more=most + 4, holes=holes)
    assert found <= claim
    assert counts == "rows" or not exceeding  # rows are charged by the row
    if not holes:  # as many alike rows as a unit may have attain it
        assert found >= least * claim


@pytest.mark.parametrize("missing", ["observed", "complete-rows", "impute-first"])
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_whatever_becomes_of_missing_values_a_unit_moves_no_more(family, missing):
    schema = schema_of(3, "one", SURVEY, attributes=ALL)
    for holes in (False, True):
        found, claim, exceeding, _ = moved(family, schema, more=5, holes=holes, missing=missing)
        assert found <= claim
        assert not exceeding


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_of_the_largest_weight_moves_what_one_row_does(family):
    for most, counts, more in ((None, "rows", 1), (3, "rows", 5), (3, "one", 5)):
        schema = schema_of(most, counts, SURVEY, attributes=ALL)
        found, claim, exceeding, least = moved(family, schema, more=more)
        assert least * claim <= found <= claim
        assert (counts, most) == ("rows", 3) or not exceeding  # which are charged by the row


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_audits_find_what_would_be_wrong(family, monkeypatch):
    rounded = "missdp.table.units._weights_of_units"
    with broken(monkeypatch, {rounded: lambda units: -(-STEPS // np.bincount(units)[units])}):
        assert moved(family, schema_of(3, "one", attributes=ALL), more=3)[2]
    for most, wrong in ((2, EVERY_ROW), (4, BY_THE_ROW)):
        with broken(monkeypatch, wrong):
            schema = schema_of(most, weight=SURVEY, attributes=ALL)
            found, claim, *_ = moved(family, schema, more=5)
            assert found > 1.5 * claim
    with broken(monkeypatch, {"numpy.minimum": lambda one, _: one}):  # weights are not bounded
        assert of_units.survey_shares(np.array([9.0], dtype=object), SURVEY) > STEPS


CELLS = st.sampled_from([0, 1, 2])  # the last one is missing
ROWS = st.lists(
    st.tuples(st.integers(-1, 3), CELLS, CELLS, st.sampled_from([None, -1.0, 0.0, 0.7, 4.0, 50.0])),
    min_size=1,
    max_size=12,
)


@pytest.mark.long
@given(ROWS, st.integers(1, 4), st.sampled_from(["rows", "one"]), st.booleans())
def test_no_unit_moves_counts_by_more_than_its_bound(rows, most, counts, weighed):
    """Exactly, in small worlds: with each unit left out, and rows that were chosen before."""
    table = pd.DataFrame(rows, columns=["person", "sex", "ill", "wt"])
    unit = Unit("person", max_rows=most, counts_as=counts)
    kept = table.groupby("person").head(most).reset_index(drop=True)

    def counted(frame):
        cells = {"sex": frame["sex"].to_numpy(), "ill": frame["ill"].to_numpy()}
        found = Table.from_codes(Schema((SEX, ILL)), cells)
        units = np.unique(frame["person"], return_inverse=True)[1].astype(np.int64)
        chunk = np.array(frame["wt"].where(frame["wt"].notna(), None), dtype=object)
        survey = of_units.survey_shares(chunk, SURVEY) if weighed else None
        found._weights = of_units._row_weights(units, unit, survey)
        each = 1 if found._weights is None else STEPS
        counts = MemorySource(found).counts([("sex",), ("sex", "ill"), ()], rows="extended")
        sums = unit_sums(units, found._weights, unit.bound)
        return [sums / STEPS, *(c / each for c in counts.values())]

    whole = counted(kept)
    for person in set(kept["person"]):
        others = counted(kept[kept["person"] != person])
        apart = [np.abs(a - b) for a, b in zip(whole, others, strict=True)]
        assert all(gap.sum() <= unit.bound for gap in apart[1:])
        assert (apart[0] <= unit.bound).all()


def test_noise_is_of_rows_whatever_the_steps():
    for kind in ("laplace", "gaussian"):
        noise = Noise(kind, 5.0, steps=STEPS)
        drawn = noise.draw(np.full(20_000, 7 * STEPS), SeededNoise(1))
        assert drawn.mean() == pytest.approx(7, abs=0.3)
        assert drawn.std() == pytest.approx(noise.std, rel=0.05)
        assert noise.event(1.0, required=None, label="").sensitivity == STEPS


def test_sums_are_those_of_the_weights():
    frame = pd.DataFrame(
        {"sex": ["f", "f", "m", None], "ill": ["no", "yes", "yes", "no"], "wt": [1, 2, 9, None]}
    )
    schema = schema_of(weight=SurveyWeight("wt", upper=4, default=3))
    counts = MemorySource(Table.read(frame, schema)._of_rows()).counts([("sex",)], rows="extended")
    assert (counts[("sex",)] / STEPS).tolist() == [0.75, 1.0, 0.75]
    rng = np.random.default_rng(0)
    large = pd.DataFrame({"sex": rng.choice(["f", "m"], 4000), "ill": "no"})
    large["wt"] = np.where(large["sex"] == "f", 4.0, 1.0)
    for family in FAMILIES:
        model = family(epsilon=500.0, random_state=1).fit(large, schema=schema)
        share = (large["wt"] * (large["sex"] == "f")).sum() / large["wt"].sum()
        assert (model.sample(5000, random_state=1)["sex"] == "f").mean() == pytest.approx(
            share, abs=0.03
        )
        assert model.population_ == pytest.approx(large["wt"].sum(), rel=0.01)
        size = large["wt"].sum() ** 2 / (large["wt"] ** 2).sum()
        assert model.effective_size_ == pytest.approx(size, rel=0.02)
        assert model.n_rows_ == round(model.effective_size_)


def test_how_many_rows_come_out_is_what_the_target_says():
    frame = visits(schema_of(3), rows=3000)
    kept = AllPairs(epsilon=50.0, random_state=1).fit(frame, schema=schema_of(3))
    assert kept.n_rows_ == pytest.approx(3000, rel=0.02)
    assert kept.effective_size_ == pytest.approx(1000, rel=0.02)
    assert len(kept.sample(multiple=2, random_state=1)[0]) == round(kept.effective_size_)
    units = AllPairs(epsilon=50.0, random_state=1).fit(frame, schema=schema_of(3, "one"))
    assert units.n_rows_ == pytest.approx(1000, rel=0.02)
    assert "count as one together" in str(units.guarantee_).replace("\n", " ")


@pytest.mark.long
def test_rows_of_a_unit_that_are_alike_make_intervals_wider():
    people = visits(schema_of(1), rows=2000).assign(person=np.arange(2000))
    alone = AllPairs(epsilon=20.0, random_state=1).fit(people, schema=schema_of(1))
    alike = pd.concat([people] * 4)
    several = AllPairs(epsilon=20.0, random_state=1).fit(alike, schema=schema_of(4))
    errors = [m.estimate("share(ill == 'yes')").sampling[0] for m in (alone, several)]
    assert errors[1] == pytest.approx(errors[0], rel=0.15)


def test_a_model_keeps_what_its_rows_counted(tmp_path):
    schema = schema_of(3, "one", SURVEY)
    model = AIM(epsilon=1.0).fit(visits(schema), schema=schema)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.population_, again.n_rows_) == (model.population_, model.n_rows_)
    assert again.guarantee_ == model.guarantee_
    assert WeightsOfRows("wt") in again.guarantee_.conditions
    assert "person" not in model.sample(3)
    assert "wt" not in model.sample(3)


WITH = schema_of(weight=SURVEY)


def test_some_columns_of_a_table_count_as_the_rows_do():
    part = Table.read(visits(WITH), WITH).subset(["sex"])
    assert part.schema.weight == SURVEY
    assert AllPairs(epsilon=9.0).fit(part).population_ == pytest.approx(3600, rel=0.1)


def test_what_is_not_proven_is_refused_by_name():
    frame, table = visits(WITH), Table.read(visits(WITH), WITH)
    opened = schema_of(weight=SURVEY, attributes=(OpenCategorical(name="sex"), ILL))
    rates = MissingCompletelyAtRandom({"sex": 0.5, "ill": 0.5})

    def fit(data=frame, family=AIM, schema=WITH, **more):
        return family(epsilon=1.0, **more).fit(data, schema=schema)

    for error, says, does in (
        (UnprovenError, "PrivBayes is proven", lambda: fit(family=PrivBayes)),
        (ParameterError, "n_rows cannot be declared", lambda: fit(n_rows=9)),
        (UnprovenError, "Declare these levels", lambda: fit(schema=opened)),
        (UnprovenError, "count by the weight 'wt'", lambda: fit().ground_truth_guarantee(rates)),
        (SchemaError, "each row as one", lambda: open_table(table, budget=Filter(1.0))),
        (SchemaError, "each row as one", lambda: RowDomain.of(WITH, rows=2)),
        (DataError, "not weighed", lambda: fit(table.take([0, 1]), schema=None)),
        (DataError, "the data does not have", lambda: fit(frame.drop(columns="wt"))),
        (SchemaError, "weighs rows", lambda: schema_of(weight=SurveyWeight("sex", upper=1))),
        (SchemaError, "above 0", lambda: SurveyWeight("wt", upper=0)),
        (SchemaError, "from 0 to", lambda: SurveyWeight("wt", upper=1, default=2)),
        (SchemaError, "cannot weigh", lambda: schema_of(2, weight=SurveyWeight("person", upper=1))),
    ):
        with pytest.raises(error, match=says):
            does()


@pytest.mark.parametrize("wrong", [0.0, -3.0, np.nan, np.inf, "none"])
def test_weights_that_are_none_count_nothing(wrong):
    frame = visits(WITH).astype({"wt": object}).assign(wt=wrong)
    assert not rows_of_units(frame, WITH).unit_weights.any()
    assert AllPairs(epsilon=1.0).fit(frame, schema=WITH).n_rows_ >= 1


ONE = '[unit]\ncolumn = "p"\ncounts_as = "one"\n'


def test_people_write_weights_in_a_file(tmp_path):
    attribute = '[[attribute]]\nname = "sex"\nkind = "categorical"\nlevels = ["f", "m"]\n'

    def read(text):
        (tmp_path / "s.toml").write_text(f"{text}\n{attribute}")
        return Schema.from_toml(tmp_path / "s.toml")

    for text, unit, weight in (
        ('[weight]\ncolumn = "wt"\nupper = 4.0', None, SURVEY),
        (f'{ONE}[weight]\ncolumn = "wt"\nupper = 4', Unit("p", counts_as="one"), SURVEY),
        (ONE, Unit("p", counts_as="one"), None),
    ):
        schema = read(text)
        assert (schema.unit, schema.weight) == (unit, weight)
        schema.to_toml(tmp_path / "again.toml")
        assert Schema.from_toml(tmp_path / "again.toml") == schema
        assert Schema.from_dict(schema.to_dict()) == schema
    for text, says in (
        ('weight = "unit"', r"weight must be a table: write \[weight\] and its fields"),
        (
            '[weight]\ncolumn = ["a", "b"]\nupper = 4.0',
            r"\[weight\]: column must be the name of a column",
        ),
        ('[weight]\ncolumn = "wt"', r"\[weight\]: upper is required"),
        ("weight_upper = 4.0", r"'upper' in the table \[weight\]"),
    ):
        with pytest.raises(SchemaError, match=says):
            read(text)
    german = read('[weight]\ncolumn = "wt"\nupper = 4\n[file]\ndelimiter = ";"\ndecimal = ","')
    (tmp_path / "t.csv").write_text("sex;wt\nf;1,5\nm;3\n")
    rows = rows_of_units(tmp_path / "t.csv", german)
    assert (rows.unit_weights / STEPS).tolist() == [0.375, 0.75]


def sums_of(session):
    found = session.measure(UnitSums(), Noise("gaussian", 50.0))
    return Total(float(np.sum(found.value)), 1.0)


def steps_of(session):
    session.measure(Dependences((("sex",), ("ill",))), Selection(0.1, 2.1))
    return Total(9.0, 1.0)


def test_a_family_of_strangers_gets_nothing_that_is_not_proven():
    named = Schema((Numeric(name="_sums", lower=0, upper=9), SEX))
    for asks, schema, says in (
        (sums_of, named, "does not identify units"),
        (steps_of, schema_of(3, "one"), "not proven where rows count different"),
    ):
        family = replace(AIM.family, fit=lambda session, plan, request, asks=asks: asks(session))
        strange = type("Strange", (AIM,), {"family": family})
        columns = [*schema.names, *(["person"] if schema.unit is not None else [])]
        with pytest.raises(ParameterError, match=says):
            strange(epsilon=1.0).fit(visits(schema).assign(_sums=7.0)[columns], schema=schema)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.booleans())
def test_what_is_of_full_units_lies_between_what_the_sums_tell(counts, weighed):
    """Without noise, the interval contains the exact share of weight in units at the bound."""
    most = 1 if weighed else 4
    each = np.array(counts) / 4 if weighed else np.array(counts, dtype=float)
    size = EffectiveSize(
        total=each.sum(),
        square=(each**2).sum() / most,
        std=0.0,
        bound=float(most),
        weight=SURVEY if weighed else None,
    )
    low, high = size.full
    assert low - 1e-9 <= each[each == most].sum() / each.sum() <= high + 1e-9
    if not weighed and set(counts) <= {1, 4}:
        assert high == pytest.approx(each[each == most].sum() / each.sum())


def test_noise_hides_how_many_units_are_full():
    size = EffectiveSize(total=300.0, square=250.0, std=90.0, bound=3.0, weight=None)
    assert size.full == (0.0, 1.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (schema_of(3), "of the rows that took part belong to a person with 3 rows"),
        (schema_of(weight=SURVEY), "may belong to rows with the largest weight that counts"),
        (schema_of(3, "one"), "The number of rows of a person left out is unknown"),
        (schema_of(1), "The number of rows of a person left out is unknown"),
        (schema_of(3, "one", SURVEY), "left out and the weight cut off are unknown"),
        (schema_of(), "No row was left out because of its unit"),
    ],
)
def test_what_was_left_out_is_said_as_far_as_it_was_released(schema, says, tmp_path):
    model = MST(epsilon=5.0, random_state=1).fit(visits(schema), schema=schema)
    assert says in model.left_out_
    if schema.unit is not None:
        write_dossier(model, tmp_path / "d")
        assert says in (tmp_path / "d" / "how-to-use.md").read_text()
        assert says in (tmp_path / "d" / "report.html").read_text()
