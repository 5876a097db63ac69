"""What can be foreseen is refused before anything is charged, with a typed error."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from missdp import Budget, Categorical, Numeric, PrivBayes, Schema, Table
from missdp.errors import (
    BudgetExceededError,
    DataError,
    MissDPError,
    NotFittedError,
    ParameterError,
    SchemaError,
)
from missdp.evaluate import combine_estimates
from missdp.mechanisms.laws import Witness
from missdp.synth import AIM, MST, workload
from missdp.synth import learn_network as plan
from missdp.synth.aim import GraphicalSynthesizer
from missdp.synth.state import sampling_generator
from synth.conformance import CASES, FAMILIES, IDS, make_table

extremes = st.sampled_from([1e-300, 1e-12, 1e-3, 0.1, 0.5, 0.999, 1 - 1e-12])
epsilons = st.sampled_from([1e-300, 1e-6, 1e-2, 1.0, 30.0, 1e3, 1e4, 1e5, 1e300])
deltas = st.sampled_from([5e-324, 1e-300, 1e-9, 0.1, 0.999999])
names = st.integers(1, 5).map(lambda k: [f"c{i}" for i in range(k)])


@st.composite
def schemas(draw):
    attributes = []
    for name in draw(names):
        size = draw(st.sampled_from([1, 1, 2, 3, 40, 3000]))
        levels = tuple(f"l{i}" for i in range(size))
        attributes.append(Categorical(name=name, levels=levels, nullable=draw(st.booleans())))
    return Schema(tuple(attributes))


@st.composite
def fits(draw):
    family = draw(st.sampled_from([AIM, MST, PrivBayes]))
    schema = draw(schemas())
    options = {
        "epsilon": draw(epsilons),
        "missing": draw(st.sampled_from(family.strategies)),
        "imputer": draw(st.sampled_from(["marginal", "random"])),
        "imputer_share": draw(extremes),
        "n_rows": draw(st.sampled_from(["noisy", 1, 20, 10**400, 2**60])),
        "delta": draw(deltas),
        "random_state": 0,
    }
    if family is PrivBayes:
        options["delta"] = draw(st.just(0.0) | deltas)
        options |= {
            "structure_share": draw(extremes),
            "theta": draw(st.sampled_from([1e-300, 8.0, 1e300])),
            "degree": draw(st.sampled_from(["auto", 0, 3, 6])),
        }
    else:
        options |= {
            "model_rows": draw(st.sampled_from([100, 10**9])),
            "shrink": draw(st.sampled_from([1e-300, 0.2, 1e5, math.inf, None])),
            "ridge": draw(st.sampled_from([0.3, 1e300, "1"])),
        }
    if family is AIM:
        options |= {
            "rounds": draw(st.sampled_from(["auto", 1, 10**30])),
            "first_share": draw(extremes),
            "selection_share": draw(extremes),
            "max_model_size": draw(st.sampled_from([1e-300, 1e-3, 1.0, 1e300])),
            "workload": draw(
                st.sampled_from(
                    [
                        1,
                        2,
                        4,
                        9,
                        [1],
                        [("c0",)],
                        [("c0", "c1")],
                        "c0",
                        None,
                        {("c0",): "x"},
                        [()],
                        [("c0", 1)],
                        {("c0", "c1"): math.nan},
                        [None],
                        {("c0", "c1"): 1e-300},
                    ]
                )
            ),
        }
    return family, options, schema


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(fits(), st.integers(0, 12))
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_a_fit_succeeds_or_is_refused_uncharged(fit, n):
    family, options, schema = fit
    rng = np.random.default_rng(n)
    table = Table.from_codes(schema, {a.name: rng.integers(0, a.extended_size, n) for a in schema})
    budget = Budget(1e6, 0.9999999)
    model = family(**options, budget=budget)
    try:
        model.fit(table)
    except MissDPError:
        assert not budget.events
        with pytest.raises(NotFittedError):
            _ = model.guarantee_
        return
    assert budget.events
    assert len(model.sample(3)) == 3


def wide(d, n=30, levels=2):
    schema = Schema(
        tuple(
            Categorical(name=f"c{i}", levels=tuple(range(levels)), nullable=True) for i in range(d)
        )
    )
    rng = np.random.default_rng(0)
    return Table.from_codes(schema, {a.name: rng.integers(0, levels + 1, n) for a in schema})


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.parametrize(
    ("family", "options"),
    [
        (AIM, {"delta": 1e-6, "rounds": 3, "model_rows": 100}),
        (AIM, {"delta": 1e-6, "rounds": 2, "model_rows": 100, "missing": "observed"}),
        (PrivBayes, {}),
    ],
)
def test_more_attributes_than_letters(family, options):
    model = family(epsilon=5.0, random_state=0, **options).fit(wide(60))
    assert model.sample(4).shape == (4, 60)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
@pytest.mark.parametrize("family", [AIM, PrivBayes])  # MST takes one round per attribute
@pytest.mark.parametrize("missing", ["joint", "observed", "complete-rows", "impute-first"])
def test_two_hundred_attributes(family, missing):
    options = {} if family is PrivBayes else {"delta": 1e-6, "model_rows": 100}
    if family is AIM:
        options["rounds"] = 1
    model = family(epsilon=1.0, missing=missing, random_state=0, **options).fit(wide(200))
    assert model.sample(4).shape == (4, 200)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        (AIM, {"delta": 1e-6, "workload": 4}),
        (AIM, {"delta": 1e-6, "workload": 3}),
        (PrivBayes, {"degree": 6}),
        (PrivBayes, {"degree": 3}),
    ],
)
def test_too_many_marginals_are_refused_quickly(family, options):
    budget = Budget(10.0, 1e-3)
    with pytest.raises(ParameterError):
        family(epsilon=1.0, budget=budget, **options).fit(wide(200))
    assert not budget.events


def test_attributes_too_large_to_release_are_refused(monkeypatch):
    monkeypatch.setattr(workload, "MAX_TOTAL_CELLS", 150)
    monkeypatch.setattr(plan, "MAX_TOTAL_CELLS", 150)
    for family, options in ((AIM, {"delta": 1e-6}), (MST, {"delta": 1e-6}), (PrivBayes, {})):
        budget = Budget(10.0, 1e-3)
        with pytest.raises(ParameterError, match="coarser"):
            family(epsilon=1.0, budget=budget, **options).fit(wide(3, levels=60))
        assert not budget.events


families = pytest.mark.parametrize("family", [pytest.param(f, id=f.name) for f in FAMILIES])


def build(family, **options):
    return family.build(**{"epsilon": 1.0, "random_state": 0, **family.options, **options})


@pytest.mark.parametrize("text", [{"name": "\ud800"}, {"levels": ("a", "\udc00")}])
def test_half_a_surrogate_pair_is_no_text(text):
    with pytest.raises(SchemaError):
        Categorical(**{"name": "x", "levels": ("a", "b"), **text})


@families
def test_a_generator_is_no_seed_of_a_fit(family):
    budget = Budget(10.0, 1e-3)
    with pytest.raises(ParameterError, match="random_state"):
        build(family, random_state=np.random.default_rng(5), budget=budget).fit(make_table())
    assert not budget.events


@families
def test_a_generator_may_sample_but_its_stream_is_not_used(family):
    model = build(family, random_state=5).fit(make_table())
    one, two = (model.sample(50, random_state=np.random.default_rng(5)) for _ in range(2))
    assert one.equals(two)
    stream = np.random.default_rng(5).random(64)
    drawn = sampling_generator(np.random.default_rng(5)).random(64)
    assert not np.isin(drawn, stream).any()


@families
def test_several_tables_only_where_their_intervals_hold(family):
    model = build(family).fit(make_table())
    if issubclass(family.build, GraphicalSynthesizer):
        assert len(model.sample(3, multiple=2)) == 2
        return
    for ask in (model.uncertain_models, lambda m: model.sample(3, multiple=m)):
        with pytest.raises(ParameterError) as refused:
            ask(2)  # at once, not when the first model is asked for
        name, _, rest = str(refused.value).partition(" ")
        assert name == family.build.__name__
        assert "use AIM for means and shares" in rest
        assert "no family's intervals hold for regression coefficients yet" in rest
        assert "AllPairs" not in rest
        assert "\n" not in rest


@families
def test_an_unfitted_model_says_so(family):
    model = build(family)
    for name in ("guarantee_", "n_rows_", "schema_"):
        with pytest.raises(NotFittedError, match=name):
            getattr(model, name)
        assert not hasattr(model, name)
    with pytest.raises(AttributeError):
        _ = model.nonsense


class Failing(Witness):
    """Fails once ``left`` answers were given."""

    def __init__(self, left=None):
        super().__init__(0)
        self.seen, self.left = 0, left

    def answer(self, event, law, exact):
        if self.seen == self.left:
            raise DataError("disk on fire")
        self.seen += 1
        return super().answer(event, law, exact)


@pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
def test_a_failed_fit_leaves_nothing_and_a_refused_one_everything(family, strategy):
    model = build(family, missing=strategy).fit(make_table())
    before, sample = set(vars(model)), model.sample(20, random_state=1)
    model.set_params(epsilon=1e300)
    with pytest.raises(ParameterError):
        model.fit(make_table())
    assert model.sample(20, random_state=1).equals(sample)
    model.set_params(epsilon=1.0, budget=Budget(0.5, 1e-5))
    with pytest.raises(BudgetExceededError):
        model.fit(make_table())
    assert model.sample(20, random_state=1).equals(sample)
    model.set_params(budget=None)

    whole = Failing()
    model.set_params(random_state=whole).fit(make_table())
    model.set_params(random_state=Failing(whole.seen - 1))  # the last answer fails
    with pytest.raises(DataError):
        model.fit(make_table())
    assert set(vars(model)) == set(model.get_params())
    assert before > set(vars(model))


@families
def test_a_model_fitted_within_a_budget_travels_without_it(family):
    budget = Budget(3.0, 1e-4)
    model = build(family, budget=budget)
    with pytest.raises(ParameterError, match="pickled"):
        pickle.dumps(model)  # not fitted: it would be fitted elsewhere, uncharged
    model.fit(make_table())
    again = pickle.loads(pickle.dumps(model))
    assert again.budget is None
    assert again.guarantee_ == model.guarantee_
    assert again.sample(9, random_state=2).equals(model.sample(9, random_state=2))
    assert pickle.loads(pickle.dumps(again)).guarantee_ == model.guarantee_
    for copied in (copy.copy(model), copy.deepcopy(model)):
        assert copied.budget is budget
    with pytest.raises(ParameterError, match="budget"):
        again.fit(make_table())
    assert again.guarantee_ == model.guarantee_
    again.set_params(budget=Budget(2.0, 1e-4)).fit(make_table())
    assert again.budget.events


@pytest.mark.parametrize(
    "bad",
    [
        ([1.0, math.nan], [1.0, 1.0]),
        ([1.0, 2.0], [1.0, math.nan]),
        ([1.0, 2.0], [1.0, -1e-9]),
        ([1.0, math.inf], [1.0, 1.0]),
        (["a", "b"], [1.0, 1.0]),
        ([None, 1.0], [1.0, 1.0]),
    ],
)
def test_estimates_that_are_no_numbers_are_refused(bad):
    with pytest.raises(ParameterError) as caught:
        combine_estimates(*bad)
    assert caught.value.__context__ is None


def test_a_numeric_attribute_may_be_alone():
    schema = Schema((Numeric(name="x", lower=0, upper=1, bins=3),))
    table = Table.from_codes(schema, {"x": [0, 1, 2] * 100})
    assert AIM(epsilon=1.0, delta=1e-6, random_state=0).fit(table).sample(3).shape == (3, 1)
