"""What the base keeps whatever a family does: conditions are recorded, inputs are read alike.

A fit that fails stays charged, progress shows no number, and a table without rows is one.
"""

from dataclasses import replace

import numpy as np
import pytest

from missdp import AllPairs, Table
from missdp.accounting import (
    Budget,
    DataDependentDomain,
    DeclaredRowCount,
    Guarantee,
    PublicDomain,
    releases,
)
from missdp.errors import DataError, OutputError, ParameterError, SchemaError
from missdp.testing import SCHEMA, made_up
from missdp.testing.findings import Guarded
from refusing import refuses
from synth.conformance import DAILY, FIRST, NEURAL, subject
from synth.worked_example import Independent

FAMILIES = pytest.mark.parametrize("family", [Independent, AllPairs])


@FAMILIES
def test_what_was_read_from_the_data_or_declared_becomes_a_condition(family, tmp_path):
    """Also if parameters are numbers of NumPy."""
    frame, budget = made_up(SCHEMA, 300).to_native("pandas"), Budget(100.0, 0.5)
    marked = replace(SCHEMA["größe"], undeclared=("levels",))
    schema = replace(SCHEMA, attributes=(marked, *SCHEMA.attributes[1:]))
    asked = {"epsilon": np.float32(0.7), "n_rows": np.int64(123), "random_state": np.int64(3)}
    model = family(**asked, budget=budget)
    with refuses(SchemaError, "undeclared"):
        model.fit(frame, schema=schema)
    assert not budget.events
    model.fit(frame, schema=schema, undeclared="accept")
    for conditions in (model.guarantee_.conditions, budget.spent.conditions):
        assert DataDependentDomain(attributes=("größe",)) in conditions
        assert DeclaredRowCount(n=123) in conditions
        # What was read from the data is not public, and the rest still has to be.
        assert PublicDomain() not in conditions
        assert any(isinstance(condition, PublicDomain) for condition in conditions)
    assert model.guarantee_.epsilon <= float(np.float32(0.7)) * (1 + 1e-9)
    drawn = (len(model.sample()), len(model.sample(np.int64(3))))
    assert (model.n_rows_, *drawn) == (123, 123, 3)
    model.save(tmp_path / "m.json")
    assert family.load(tmp_path / "m.json").guarantee_ == model.guarantee_


@FAMILIES
def test_frames_and_files_give_the_same_model_as_tables(family, tmp_path):
    table = made_up(SCHEMA, 300)
    frame, arrow = table.to_native("pandas"), table.to_arrow()
    frame.to_csv(tmp_path / "x.csv", index=False)
    wanted = family(epsilon=1.0, random_state=0).fit(table).sample(50)
    for data, kind in ((arrow, type(arrow)), (tmp_path / "x.csv", type(frame))):
        out = family(epsilon=1.0, random_state=0).fit(data, schema=SCHEMA).sample(50)
        assert type(out) is kind
        one, other = Table.read(out, SCHEMA), Table.read(wanted, SCHEMA)
        assert all((one.codes(n) == other.codes(n)).all() for n in SCHEMA.names)


def fail():
    raise DataError("the disk is on fire")


@pytest.mark.parametrize(
    ("family", "strategy"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[0].name in NEURAL)) for case in FIRST],
)
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.usefixtures("one_turn")
def test_a_failed_fit_stays_charged_and_progress_is_a_fraction(family, strategy):
    on, budget, seen = subject(family, strategy), Budget(1.0, 1e-3), []
    with refuses(DataError, "on fire"):
        on.build(budget=budget).fit(Guarded(made_up(SCHEMA, 60), fail))
    assert budget.events
    on.build(progress=lambda *shown: seen.append(shown)).fit(made_up(SCHEMA, 60))
    assert all(0 <= done <= 1 for _, done in seen)
    assert not [stage for stage, _ in seen if any(ch.isdigit() for ch in stage)]


@pytest.mark.parametrize(("family", "strategy"), DAILY)
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.usefixtures("one_turn")
def test_a_model_of_no_rows_costs_what_was_asked_and_refuses_bad_questions(
    family, strategy, tmp_path
):
    on = subject(family, strategy)
    budget = Budget(2 * on.epsilon, min(0.5, 2 * on.delta))
    model = on.build(budget=budget).fit(made_up(SCHEMA, 0))
    most, found = on.epsilon * (1 + 1e-9), model.guarantee_
    assert 0.95 * on.epsilon < found.epsilon <= most
    assert budget.spent.epsilon <= most
    assert Guarantee.from_events(releases(found.events), delta=on.delta).epsilon <= most
    drawn, wanted = model.sample(), made_up(SCHEMA, 9).to_native("pandas")
    assert len(drawn) == model.n_rows_ >= 1
    assert (drawn.dtypes == wanted.dtypes).all()
    for n in (-1, 1.5, True, "3"):
        with refuses(ParameterError, "whole number of rows"):
            model.sample(n)
    for seed in (-1, "x", 1.5, True):
        with refuses(ParameterError, "random_state"):
            model.sample(3, random_state=seed)
    with refuses(OutputError):
        model.save(tmp_path / "nowhere" / "model.json")
