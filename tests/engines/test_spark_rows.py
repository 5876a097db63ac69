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


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(sampling, "_CELLS", 1000)
    monkeypatch.setattr(sampling, "_ROWS", (100, 200))


@pytest.mark.parametrize("n", [0, 700])
def test_rows_are_those_of_the_seed_however_many_blocks(spark, model, n):
    given = {"missing_values": "keep", "random_state": 7}
    frame = sample_spark(model, spark, n, holes="codes", **given)
    wanted = model.sample_table(n, **given).to_arrow(holes="codes")
    assert (frame.rdd.getNumPartitions() > 3) == (n == 700)
    assert frame.toArrow().to_pydict() == wanted.to_pydict()
    assert frame.columns == list(RULED.names)


def test_a_task_that_is_run_again_draws_the_same_rows(spark, model):
    model = copy.copy(model)
    model.random_state = None
    frame = sample_spark(model, spark, 300)  # no seed: one is drawn, once
    rows = frame.toArrow()
    assert frame.toArrow().equals(rows)
    assert not sample_spark(model, spark, 300).toArrow().equals(rows)
    assert rows.slice(0, 100).to_pylist() != rows.slice(100, 100).to_pylist()  # another block


def test_what_sampling_refuses_is_refused_at_once(spark, model):
    with pytest.raises(NotFittedError):
        sample_spark(AllPairs(epsilon=1.0), spark)
    for name, bad in (("n", -1), ("n", 1.5), ("n", True), ("missing_values", "?"), ("holes", "?")):
        with pytest.raises(ParameterError, match=f"{name} must be"):
            sample_spark(model, spark, **{name: bad})


def test_a_saved_model_is_enough_and_rows_that_must_fit_to_each_other_are_one_block(
    spark, tmp_path
):
    schema = Schema(
        tuple(Categorical(name=n, levels=tuple("abc")) for n in ("team", "town")),
        rules=(Denial("t1&t2&EQ(t1.team,t2.team)&IQ(t1.town,t2.town)"),),
    )
    together = Kamino(epsilon=5.0, random_state=0).fit(made_up(schema, 200))
    assert together.draws_together(schema)
    fitted = PrivBayes(epsilon=5.0, random_state=0).fit(made_up(RULED, 300))
    fitted.save(tmp_path / "model.json")
    loaded = PrivBayes.load(tmp_path / "model.json")
    for model, drawn in ((together, together), (loaded, fitted)):
        found = sample_spark(model, spark, 250, random_state=3).toArrow()
        assert found.to_pydict() == drawn.sample_table(250, random_state=3).to_arrow().to_pydict()
