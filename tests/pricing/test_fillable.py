"""What may be not applicable is never filled: refused before anything is charged or read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp import pricing as mp
from missdp.accounting import Budget
from missdp.errors import SchemaError
from missdp.pricing import propose_test_release, rows_of
from missdp.schema import NotApplicable

HOURS = Numeric(name="hours", lower=0, upper=80, nullable=True, refused=(-7,))
WORK = Categorical(name="work", levels=("no", "yes"))
RULED = Schema((WORK, HOURS), (NotApplicable("hours", unless="work = 'yes'"),))
CODED = Schema((WORK, Numeric(name="hours", lower=0, upper=80, not_applicable=(-1,))))
FREE = Schema((WORK, HOURS))
FRAME = pd.DataFrame({"work": ["no", "yes", "yes", "yes"] * 10, "hours": [40, 20, -7, None] * 10})
REFUSED = "'hours' is not applicable to some rows.*Table.subset"


def table(schema: Schema = RULED) -> Table:
    frame = FRAME if schema is not CODED else FRAME.assign(hours=[-1, 20, 30, 40] * 10)
    return Table.read(frame, schema)


def pipeline(budget: Budget, *, complete: bool = False) -> mp.PricedPipeline:
    steps = [] if complete else [("impute", mp.ConstantImputer())]
    return mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=5.0), rows=40, columns=3, radius=2.0,
        complete=complete, budget=budget,
    )  # fmt: skip


@pytest.mark.parametrize("schema", [RULED, CODED])
@pytest.mark.parametrize("complete", [False, True])
def test_a_pipeline_refuses_before_it_charges(schema, complete):
    budget = Budget(10.0, 1e-5, adjacency="replace-one")
    with pytest.raises(SchemaError, match=REFUSED):
        pipeline(budget, complete=complete).fit(table(schema))
    with pytest.raises(SchemaError, match=REFUSED):
        propose_test_release(pipeline(budget, complete=complete), table(schema), test_epsilon=0.1)
    with pytest.raises(SchemaError, match=REFUSED):
        mp.PrivateMean(noise_multiplier=5.0, budget=budget).fit(table(schema))
    assert budget.events == ()


FILLING = [
    mp.ConstantImputer(),
    mp.MeanImputer(max_incomplete=30),
    mp.MedianImputer(max_incomplete=30, central_gap=0.1),
    mp.TrimmedMeanImputer(max_incomplete=5, trim=6, trimmed_range=0.5),
    mp.RegressionImputer(target=1, max_incomplete=1, least_eigenvalue=0.01),
    mp.NeighbourImputer(n_neighbors=2, max_incomplete=30),
]


@pytest.mark.parametrize("step", FILLING, ids=lambda step: type(step).__name__)
def test_every_step_that_fills_refuses(step):
    with pytest.raises(SchemaError, match=REFUSED):
        step.fit(table())
    with pytest.raises(SchemaError, match=REFUSED):
        step.fit(rows_of(table(FREE))).transform(table())


def test_a_complete_domain_fills_with_0_and_refuses():
    assert not mp.RowDomain.of(RULED, rows=40).complete
    assert not mp.RowDomain.of(CODED, rows=40).complete  # what is not applicable is no number
    with pytest.raises(SchemaError, match=REFUSED):
        mp.RowDomain(rows=40, columns=3).enforce(table())


def test_predictions_fill_with_0_and_refuse():
    fitted = mp.PrivateLinearRegression(noise_multiplier=9.0)
    fitted.coef_ = np.zeros(3)
    assert fitted.predict(table(FREE)).tolist() == [0.0] * 40
    with pytest.raises(SchemaError, match=REFUSED):
        fitted.predict(table())
