"""Kamino: conditional models, constraints between rows, its charges, and its disclosures."""

import json

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Filter, Kamino, Numeric, Ordinal, Schema, Table, load
from missdp.baselines import kamino, placing
from missdp.baselines.denial_constraints import count_conflicts, read_constraints
from missdp.errors import DataError, ParameterError
from missdp.evaluate import MCAR, marginal_distance
from missdp.schema import NotApplicable, OpenCategorical
from missdp.serialization import seal, unseal
from missdp.sources import DuckDBSource
from missdp.synth.registry import read_settings
from missdp.testing import (
    TINY,
    audit_synthesizer,
    canary,
    check_non_interference,
    check_sensitivity,
)
from refusing import refuses

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")

ONE_STATE = "t1&t2&EQ(t1.town,t2.town)&IQ(t1.state,t2.state)"
PAY_FOLLOWS_RANK = "t1&t2&LT(t1.rank,t2.rank)&GT(t1.pay,t2.pay)"
BOTH = [ONE_STATE, PAY_FOLLOWS_RANK]
ATTRIBUTES = (
    Categorical(name="town", levels=tuple("abcdef"), nullable=True),
    Categorical(name="state", levels=("N", "S", "W"), nullable=True),
    Ordinal(name="rank", levels=(1, 2, 3, 4), nullable=True),
    Numeric(name="pay", lower=0, upper=100, bins=8, nullable=True),
)
SCHEMA = Schema(ATTRIBUTES)


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    rank = np.minimum(3, rng.poisson(1.2, n) * (1 + town // 4) // 1)
    frame = pd.DataFrame(
        {
            "town": np.array(list("abcdef"))[town],
            "state": np.array(["N", "N", "S", "S", "W", "W"])[town],
            "rank": rank + 1,
            "pay": np.clip(20 * rank + rng.normal(15, 8, n), 0, 100),
        }
    )
    return Table.read(frame, SCHEMA)


def with_holes(table, rate=0.2, seed=1):
    return MCAR(rate=rate).apply(table, random_state=seed)


def check_by_hand(rows):
    """Both constraints hold, by pandas."""
    frame = rows.to_native()
    assert frame.groupby("town", observed=True)["state"].nunique().max() <= 1
    pays = frame.groupby(frame["rank"].astype(int))["pay"].agg(["min", "max"]).sort_index()
    assert (pays["max"].cummax().shift(fill_value=-1) <= pays["min"]).all()


@pytest.mark.long
def test_conditional_models_are_closer_than_independence():
    """Twice as close as rows whose columns are drawn independently of each other."""
    truth = people(6000)
    model = Kamino(epsilon=6.0, random_state=3).fit(with_holes(truth))
    drawn = model.sample_table(6000, random_state=0)
    rng = np.random.default_rng(0)
    shuffled = Table.from_codes(
        truth.schema, {n: rng.permutation(truth.codes(n)) for n in truth.schema.names}
    )
    ours = marginal_distance(truth, drawn, k=2).mean
    independent = marginal_distance(truth, shuffled, k=2).mean
    assert ours < 0.5 * independent
    assert marginal_distance(truth, drawn, k=1).mean < 0.05


# -- constraints -----------------------------------------------------------------------------------
def test_constraints_hold_between_any_two_rows():
    table = with_holes(people(400))  # the private rows violate the second constraint
    model = Kamino(epsilon=1.0, constraints=BOTH, random_state=3).fit(table)
    for n in (1, 2, 500):
        check_by_hand(model.sample_table(n))


@pytest.mark.long
def test_hundred_thousand_rows_violate_no_constraint():
    model = Kamino(epsilon=1.0, constraints=BOTH, random_state=3).fit(with_holes(people(5000)))
    rows = model.sample_table(100_000, random_state=0)
    assert len(rows) == 100_000
    check_by_hand(rows)
    for constraint in read_constraints(BOTH, SCHEMA):
        assert not count_conflicts(constraint, rows).any()


def test_constraints_and_rules_of_single_rows_hold_together():
    job = Categorical(name="job", levels=("x", "y"), not_applicable=("-",))
    frame = people(500).to_native()
    frame["job"] = np.where(frame["state"] == "N", np.where(frame["rank"] > 1, "x", "y"), "-")
    schema = Schema((*ATTRIBUTES, job), (NotApplicable("job", unless="state = 'N'"),))
    stated = [ONE_STATE, "t1&t2&EQ(t1.job,t2.job)&IQ(t1.rank,t2.rank)"]
    model = Kamino(epsilon=3.0, constraints=stated, random_state=0).fit(frame, schema=schema)
    rows = model.sample_table(300)
    for constraint in read_constraints(stated, schema):
        assert not count_conflicts(constraint, rows).any()
    drawn = rows.to_native()
    assert (drawn["job"].isna() == (drawn["state"] != "N")).all()


def test_constraints_hold_on_streams_and_found_levels(tmp_path):
    frame = with_holes(people(3000)).to_native()
    frame.to_parquet(tmp_path / "x.parquet")
    source = DuckDBSource(tmp_path / "x.parquet", SCHEMA)
    check_by_hand(Kamino(epsilon=1.0, constraints=BOTH).fit(source).sample_table(50))
    schema = Schema((OpenCategorical(name="town", nullable=True), *ATTRIBUTES[1:]))
    model = Kamino(epsilon=9.0, delta=1e-5, constraints=BOTH, random_state=0)
    check_by_hand(model.fit(frame, schema=schema).sample_table(200))
    assert model.schema_["town"].size > 1


def test_drawing_order_follows_dependencies():
    constraints = read_constraints("t1&t2&EQ(t1.pay,t2.pay)&IQ(t1.state,t2.state)", SCHEMA)
    names = [SCHEMA.names[a] for a in kamino._drawing_order(SCHEMA, constraints)]
    assert names.index("pay") < names.index("state")
    circle = (
        *constraints,
        *read_constraints("t1&t2&EQ(t1.state,t2.state)&IQ(t1.pay,t2.pay)", SCHEMA),
    )
    assert sorted(kamino._drawing_order(SCHEMA, circle)) == [0, 1, 2, 3]


def test_wrong_constraints_raise_before_the_charge():
    budget, table = Filter(9, 1e-5), people(50)
    for stated, told in (
        (3, "constraints must be a list of texts"),
        ([ONE_STATE, "t1&t2&EQ(t1.tonw,t2.town)"], "'tonw'. Did you mean 'town'"),
        ("t1&EQ(t1.town,'a')", "rules of the schema"),
    ):
        with refuses(ParameterError, told):
            Kamino(epsilon=1.0, delta=1e-6, budget=budget, constraints=stated).fit(table)
    assert not budget.events


def test_a_released_model_holds_its_constraints(tmp_path):
    path, table = tmp_path / "m.json", people(300)
    for stated in (BOTH, "\n".join(BOTH), tuple(BOTH)):
        model = Kamino(epsilon=1.0, constraints=stated, random_state=0).fit(table)
        assert model.fitted_.parameters["constraints"] == tuple(BOTH)
        model.save(path)
        for again in (Kamino.load(path), load(path)):
            assert again.constraints == tuple(BOTH)
            rows = again.sample_table(200, random_state=3)
            assert rows.to_native().equals(model.sample_table(200, random_state=3).to_native())
            check_by_hand(rows)
    model.set_params(constraints=())  # of the next fit
    check_by_hand(model.sample_table(200))


@pytest.mark.parametrize("value", [3, {"a": "b"}, [3], ["t1"], ["t1&t2&EQ(t1.no,t2.no)"], None])
def test_a_model_file_with_wrong_constraints_raises(tmp_path, value):
    path = tmp_path / "m.json"
    Kamino(epsilon=1.0, constraints=BOTH, random_state=0).fit(people(50)).save(path)
    document = unseal(json.loads(path.read_text(encoding="utf-8")))
    document["parameters"]["constraints"] = value
    path.write_text(json.dumps(seal(document)), encoding="utf-8")
    with refuses((DataError, ParameterError)):
        Kamino.load(path).sample(3)


def test_constraints_are_read_from_the_command_line():
    found = read_settings(
        Kamino, [f"constraints={ONE_STATE};{PAY_FOLLOWS_RANK}", "first_share=0.1"]
    )
    model = Kamino(epsilon=1.0, **found)
    assert model.public_parameters()["constraints"] == tuple(BOTH)
    assert model.draws_together
    assert not Kamino(epsilon=1.0).draws_together


# -- privacy ---------------------------------------------------------------------------------------
def test_constraints_do_not_change_the_charge():
    table = with_holes(people(300))
    for missing in Kamino.family.strategies:
        budgets = [Filter(9, 1e-4), Filter(9, 1e-4)]
        models = [
            Kamino(epsilon=1.0, missing=missing, constraints=stated, budget=budget, random_state=0)
            for stated, budget in zip(((), BOTH), budgets, strict=True)
        ]
        for model in models:
            model.fit(table)
        assert models[0].guarantee_ == models[1].guarantee_
        assert budgets[0].events == budgets[1].events


def test_placing_is_post_processing(monkeypatch):
    """A fit counts no conflict, and rows follow from the released model and the seed alone."""

    def refused(*args, **kwargs):
        raise AssertionError("a fit looked at pairs of rows")

    with monkeypatch.context() as patch:
        patch.setattr(placing, "count_conflicts", refused)
        patch.setattr(placing, "violates_itself", refused)
        patch.setattr(kamino, "place_rows", refused)
        model = Kamino(epsilon=1.0, constraints=BOTH, random_state=0).fit(people(200))
    plain = Kamino(epsilon=1.0, constraints=ONE_STATE, random_state=0).fit(people(200))
    assert (
        model.model_.row_model.marginals[0].tolist() == plain.model_.row_model.marginals[0].tolist()
    )
    seen = []
    monkeypatch.setattr(
        kamino, "place_rows", lambda rows, *args, **more: seen.append((rows, args, more)) or rows
    )
    model.sample_table(30, random_state=0)
    ((rows, _, more),) = seen
    replayed = placing.place_rows(
        rows, read_constraints(BOTH, SCHEMA), np.random.default_rng(0), **more
    )
    check_by_hand(replayed)


@pytest.mark.long
@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(missing, marks=[pytest.mark.slow] * (place > 0))
        for place, missing in enumerate(Kamino.family.strategies)
    ],
)
def test_a_fit_with_constraints_passes_the_privacy_checks(missing):
    given = {"strategies": [missing], "schema": SCHEMA, "parameters": {"constraints": BOTH}}
    assert check_non_interference(Kamino, **given, pairs=("two tables", "one missing cell")).passed
    assert check_sensitivity(Kamino, trials=4, **given).passed


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Kamino.family.strategies)
def test_the_claim_survives_an_attack(strategy):
    found = audit_synthesizer(
        Kamino,
        parameters={"epsilon": 2.0},
        strategies=[strategy],
        tables=canary(TINY, 8),
        trials=200,
    )
    assert not found[strategy].flagged
