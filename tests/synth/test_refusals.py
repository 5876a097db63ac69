"""Foreseeable errors are typed, and are raised before any charge."""

import copy
import inspect
import math
import pickle
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import missdp
from missdp import AllPairs, Categorical, Filter, Numeric, PrivBayes, Schema, Table
from missdp.accounting import RefusalsNotPrivate
from missdp.errors import (
    BudgetExceededError,
    DataError,
    MissDPError,
    NotFittedError,
    ParameterError,
)
from missdp.synth import AIM, MST, workload
from missdp.synth.parameters import sampling_generator
from missdp.testing import RecordingNoise
from refusing import refuses
from synth.conformance import FIRST, make_table
from synth.tables import rows_of, schema_of

pytestmark = pytest.mark.usefixtures("one_turn")
extremes = st.sampled_from([1e-300, 1e-4, 1e-3, 0.1, 0.5, 0.99, 1 - 1e-12])
epsilons = st.sampled_from([1e-300, 1e-6, 1e-2, 1.0, 30.0, 1e3, 1e4, 1e5, 1e300])
deltas = st.sampled_from([5e-324, 1e-300, 1e-9, 0.1, 0.999999])


some = st.sampled_from
ANY = {
    "epsilon": epsilons,
    "imputer": some(["marginal", "random"]),
    "imputer_share": extremes,
    "n_rows": some(["noisy", 1, 20, 10**400, 2**60]),
    "delta": deltas,
    "random_state": st.just(0),
}
OF_NETWORKS = {
    "delta": st.just(0.0) | deltas,
    "structure_share": extremes,
    "theta": some([1e-300, 8.0, 1e300]),
    "degree": some(["auto", 0, 3, 6]),
}
OF_AIM = {
    "rounds": some(["auto", 1, 10**30]),
    "first_share": extremes,
    "selection_share": extremes,
    "workload": some([1, 2, 4, [1], [("c0",)], [("c0", "c1")], {("c0", "c1"): 1e-300}]),
}


@st.composite
def schemas(draw):
    size = st.sampled_from([1, 1, 2, 3, 40, 3000])
    sizes = draw(st.lists(size, min_size=1, max_size=5))
    return schema_of(sizes, [f"c{i}" for i in range(len(sizes)) if draw(st.booleans())])


@st.composite
def fits(draw):
    family = draw(st.sampled_from([AIM, MST, PrivBayes]))
    schema, fitted = draw(schemas()), ANY
    if family is PrivBayes:
        fitted = {**ANY, **OF_NETWORKS}
    elif family is AIM:
        fitted = {**ANY, **OF_AIM}
    options = {name: draw(values) for name, values in fitted.items()}
    return family, {"missing": draw(st.sampled_from(family.family.strategies)), **options}, schema


@settings(max_examples=25)
@given(fits(), st.integers(0, 12))
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_a_fit_succeeds_or_is_refused_uncharged(fit, n):
    family, options, schema = fit
    budget = Filter(1e6, 0.9999999)
    model = family(**options, budget=budget)
    try:
        model.fit(rows_of(schema, n))
    except MissDPError:
        assert not budget.events
        with pytest.raises(NotFittedError):
            _ = model.guarantee_
        return
    assert budget.events
    assert len(model.sample(3)) == 3


NONE = [None, True, "much", math.nan, -1]  # values that are not positive numbers
SHARE = [*NONE, 0.0, 1.0, 1e-300, 1 - 2**-53]
BAD = {
    "epsilon": [*NONE, 0, 1e-9, 1e5],
    "delta": [True, "much", math.nan, -1, 1.0],
    "missing": ["adaptive", "auto", None],
    "n_rows": [0, -1, 2.5, True, "many", 10**400],
    "bins": ["none", None],
    "random_state": [-1, "1", np.random.default_rng(5)],
    "clip": [*NONE, 0, math.inf, 2.0**-11, 2.0**21],
    "first_share": SHARE[1:],
    "selection_share": SHARE,
    "structure_share": SHARE,
    "constraints": [3, None, [1], "t1", ["t1&t2&EQ(t1.zzz,t2.zzz)"], {"t1&t2&EQ(t1.n,t2.n)"}],
    "coder_share": SHARE,
    "imputer": ["mode", "pairs"],
    "imputer_share": SHARE,
    "steps": [0, 1.5, True, "many"],
    "sampling_rate": [*NONE, 0, 1.5, 1e-9],
    "masks": ["some", None],
    "rounds": [0, "many", 1.5, 10**30],
    "workload": [
        *(0, 5, 9, True, 1.5, None, "name", [], ["name"], [()], [("name", "zzz")], [("name", 1)]),
        *([("name", "name")], {("name",): "x"}, {("name", "n"): 0.0}),
    ],
    "theta": [*NONE, 0, math.inf],
    "degree": [-1, 7, 1.5, True, "much"],
}
OURS = [
    f for n, f in missdp.synthesizers().items() if not n.startswith("dp-") or find_spec("torch")
]


@settings(max_examples=120)
@given(st.data())
def test_a_bad_parameter_is_refused_in_one_line_and_uncharged(data):
    """Whatever the family and the parameter: nothing is spent, learned or quoted."""
    family = data.draw(st.sampled_from(OURS))
    name = data.draw(st.sampled_from([n for n in inspect.signature(family).parameters if n in BAD]))
    value = data.draw(st.sampled_from(BAD[name]))
    schema = Schema(
        (
            Categorical(name="name", levels=("secret", "other"), nullable=True),
            Categorical(name="n", levels=(0, 1, 2), nullable=True),
            Numeric(name="x", lower=0, upper=1, bins=2),
        )
    )
    table = Table.from_codes(
        schema, {"name": [0, 1, 2] * 9, "n": [0, 1, 3] * 9, "x": [0, 1, 1] * 9}
    )
    budget = Filter(1e6, 0.9)
    given = {"epsilon": 1.0, "delta": 1e-6, "budget": budget}
    given |= {"missing": "impute-first"} if name.startswith("imputer") else {}
    model = family(**given | {name: value})
    with refuses(ParameterError) as refused:
        model.fit(table)
    assert not budget.events
    assert "secret" not in str(refused.value)
    assert not hasattr(model, "guarantee_")


TRAINED = {
    "dp-autogan": {"coder_share": 1e-4},
    "dp-ctgan": {"first_share": 0.99},
    "dp-misgan": {"first_share": 0.99},
}


@pytest.mark.parametrize("name", [n for n in TRAINED if missdp.synthesizers()[n] in OURS])
def test_training_for_which_too_little_is_left_is_refused_before_anything_is_charged(name):
    budget, options = Filter(10.0, 1e-3), TRAINED[name]
    model = missdp.synthesizers()[name](
        epsilon=1e-3, delta=1e-6, steps=100_000, sampling_rate=1.0, budget=budget, **options
    )
    with refuses(ParameterError, "no noise up to .* keeps this training within epsilon"):
        model.fit(rows_of(schema_of([2] * 3), 30))
    assert not budget.events


def test_too_many_marginals_and_attributes_too_large_to_release_are_refused(monkeypatch):
    budget, delta = Filter(10.0, 1e-3), {"delta": 1e-6}
    many, large = (rows_of(schema_of(sizes), 30) for sizes in ([2] * 200, [60] * 3))
    for family, options in ((AIM, {"workload": 3}), (PrivBayes, {"degree": 3})):
        with refuses(ParameterError):
            family(epsilon=1.0, budget=budget, **options).fit(many)
    monkeypatch.setattr(workload, "MAX_TOTAL_CELLS", 150)
    monkeypatch.setattr("missdp.baselines.privbayes._MAX_TOTAL_CELLS", 150)
    for family, options in ((AIM, delta), (MST, delta), (PrivBayes, {})):
        with refuses(ParameterError, "coarser|fewer levels"):
            family(epsilon=1.0, budget=budget, **options).fit(large)
    assert not budget.events


families = pytest.mark.parametrize("family", [pytest.param(f, id=f.name) for f, _ in FIRST])


def build(family, **options):
    return family.build(**{"epsilon": 1.0, "random_state": 0, **family.options, **options})


def test_a_generator_may_sample_but_its_stream_is_not_used():
    model = build(FIRST[-1][0], random_state=5).fit(make_table())
    one, two = (model.sample(50, random_state=np.random.default_rng(5)) for _ in range(2))
    assert one.equals(two)
    stream = np.random.default_rng(5).random(64)
    drawn = sampling_generator(np.random.default_rng(5)).random(64)
    assert not np.isin(drawn, stream).any()


@families
def test_several_tables_only_where_their_intervals_hold(family):
    model = build(family).fit(make_table())
    if issubclass(family.build, (AIM, MST, AllPairs)):
        assert len(model.sample(3, multiple=2)) == 2
        return
    for ask in (model.uncertain_models, lambda m: model.sample(3, multiple=m)):
        with refuses(ParameterError) as refused:
            ask(2)  # at once, not when the first model is asked for
        assert str(refused.value).startswith(family.build.__name__)
        assert "use AllPairs, AIM or MST" in str(refused.value)


class Failing(RecordingNoise):
    """Fails once ``left`` answers were given."""

    def __init__(self, left=None):
        super().__init__(0)
        self.seen, self.left = 0, left

    def answer(self, event, law, exact):
        if self.seen == self.left:
            raise DataError("disk on fire")
        self.seen += 1
        return super().answer(event, law, exact)


@families
def test_a_failed_fit_leaves_nothing_and_a_refused_one_everything(family):
    model = build(family, missing=family.strategies[-1]).fit(make_table())
    sample = model.sample(20, random_state=1)
    for wrong, error in (
        ({"epsilon": 1e300}, ParameterError),
        ({"epsilon": 1.0, "budget": Filter(0.5, 1e-5)}, BudgetExceededError),
    ):
        with pytest.raises(error):
            model.set_params(**wrong).fit(make_table())
        assert model.sample(20, random_state=1).equals(sample)
    model.set_params(budget=None)

    with Failing() as whole:
        model.fit(make_table())
    with refuses(DataError, "disk on fire"), Failing(whole.seen - 1):  # the last answer fails
        model.fit(make_table())
    for name in ("fitted_", "guarantee_", "model_", "schema_"):
        with refuses(NotFittedError, "not fitted yet"):
            getattr(model, name)


def test_a_model_fitted_within_a_budget_travels_without_it():
    budget = Filter(3.0, 1e-4, measure="pure")
    model = build(FIRST[0][0], budget=budget)
    with refuses(ParameterError, "pickled"):
        pickle.dumps(model)  # not fitted: it would be fitted elsewhere, uncharged
    model.fit(make_table())
    again = pickle.loads(pickle.dumps(model))
    assert again.budget is None
    assert again.guarantee_ == model.guarantee_
    assert again.sample(9, random_state=2).equals(model.sample(9, random_state=2))
    assert pickle.loads(pickle.dumps(again)).guarantee_ == model.guarantee_
    for copied in (copy.copy(model), copy.deepcopy(model)):
        assert copied.budget is budget
    with refuses(ParameterError, "budget"):
        again.fit(make_table())
    assert again.guarantee_ == model.guarantee_
    again.set_params(budget=Filter(2.0, 1e-4, measure="pure")).fit(make_table())
    assert again.budget.events


def test_every_copy_of_a_model_without_its_budget_refuses_to_be_fitted_again():
    model = AllPairs(epsilon=1.0, budget=Filter(3.0, 1e-4)).fit(make_table())
    again = pickle.loads(pickle.dumps(model))
    copies = [
        copy.copy(again),
        copy.deepcopy(again),
        pickle.loads(pickle.dumps(again)),
        *again.uncertain_models(2),
    ]
    for copied in copies:
        with refuses(ParameterError, "has lost its shared budget"):
            copied.fit(make_table())


def test_a_fit_that_failed_does_not_forget_that_the_budget_is_elsewhere():
    model = AllPairs(epsilon=1.0, budget=Filter(3.0, 1e-4)).fit(make_table())
    again = pickle.loads(pickle.dumps(model))

    def failing(stage, share):
        raise RuntimeError(stage)

    again.set_params(budget=Filter(3.0, 1e-4), progress=failing)
    with pytest.raises(RuntimeError):
        again.fit(make_table())
    again.set_params(budget=None, progress=None)
    with refuses(ParameterError, "has lost its shared budget"):
        again.fit(make_table())


def test_a_csv_file_may_be_refused_for_a_row_and_the_guarantee_says_so(tmp_path):
    loose = {"levels": ("x", "y"), "nullable": True, "outside": "missing"}
    schema = Schema(tuple(Categorical(name=name, **loose) for name in "ab"))
    frame = pd.DataFrame({"a": ["x", "y"] * 500, "b": ["x", "y"] * 500})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    for name, condition in (("rows.csv", True), ("rows.parquet", False)):
        model = AllPairs(epsilon=1.0).fit(tmp_path / name, schema=schema)
        assert (RefusalsNotPrivate() in model.guarantee_.conditions) is condition
