"""Rows that tasks of Spark draw are those that the same seed gives in memory."""

import copy

import pytest

from missdp import AllPairs, Categorical, Kamino, PrivBayes, Schema
from missdp.engines import sample_spark
from missdp.errors import NotFittedError, ParameterError
from missdp.schema import Denial
from missdp.synth import sampling
from missdp.testing import RULED, made_up

pytestmark = pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")


@pytest.fixture(scope="module")
def model():
    table = made_up(RULED, 400, seed=1)
    return AllPairs(epsilon=5.0, random_state=0, progress=lambda *_: None).fit(table)


@pytest.mark.parametrize("n", [0, 1, 700])
def test_rows_are_those_of_the_seed_however_many_blocks(spark, model, n, monkeypatch):
    monkeypatch.setattr(sampling, "_CELLS", 1000)
    monkeypatch.setattr(sampling, "_ROWS", (100, 200))
    given = {"missing_values": "keep", "random_state": 7}
    frame = sample_spark(model, spark, n, holes="codes", **given)
    wanted = model.sample_table(n, **given).to_arrow(holes="codes")
    assert (frame.rdd.getNumPartitions() > 3) == (n == 700)
    assert frame.toArrow().to_pydict() == wanted.to_pydict()
    assert frame.columns == list(RULED.names)


def test_a_task_that_is_run_again_draws_the_same_rows(spark, model, monkeypatch):
    monkeypatch.setattr(sampling, "_ROWS", (100, 200))
    monkeypatch.setattr(sampling, "_CELLS", 1000)
    model = copy.copy(model)
    model.random_state = None
    frame = sample_spark(model, spark, 300)  # no seed: one is drawn, once
    assert frame.toArrow().equals(frame.toArrow())
    other = sample_spark(model, spark, 300).toArrow()
    assert not frame.toArrow().equals(other)
    blocks = frame.toArrow().slice(0, 100).to_pylist(), frame.toArrow().slice(100, 100).to_pylist()
    assert blocks[0] != blocks[1]


def test_what_sampling_refuses_is_refused_at_once(spark, model):
    with pytest.raises(NotFittedError):
        sample_spark(AllPairs(epsilon=1.0), spark)
    for bad in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="n must be"):
            sample_spark(model, spark, bad)
    with pytest.raises(ParameterError, match="missing_values"):
        sample_spark(model, spark, missing_values="guess")
    with pytest.raises(ParameterError, match="holes"):
        sample_spark(model, spark, holes="guess")


def test_rows_that_must_fit_to_each_other_are_one_block(spark, monkeypatch):
    monkeypatch.setattr(sampling, "_ROWS", (10, 20))
    monkeypatch.setattr(sampling, "_CELLS", 10)
    names = ("team", "town")
    schema = Schema(
        tuple(Categorical(name=n, levels=tuple("abc")) for n in names),
        rules=(Denial("t1&t2&EQ(t1.team,t2.team)&IQ(t1.town,t2.town)"),),
    )
    model = Kamino(epsilon=5.0, random_state=0).fit(made_up(schema, 200))
    assert model.draws_together(schema)
    frame = sample_spark(model, spark, 60, random_state=3)
    assert (
        frame.toArrow().to_pydict() == model.sample_table(60, random_state=3).to_arrow().to_pydict()
    )


def test_a_saved_model_is_enough(spark, tmp_path):
    fitted = PrivBayes(epsilon=5.0, random_state=0).fit(made_up(RULED, 300))
    fitted.save(tmp_path / "model.json")
    loaded = PrivBayes.load(tmp_path / "model.json")
    frame = sample_spark(loaded, spark, 40, random_state=1)
    assert (
        frame.toArrow().to_pydict()
        == fitted.sample_table(40, random_state=1).to_arrow().to_pydict()
    )
