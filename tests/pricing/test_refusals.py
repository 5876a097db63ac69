"""Refusals come before the charge and depend on public facts. Rows are read one by one."""

from __future__ import annotations

import math
import pickle
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from missdp import MST, Categorical, Numeric, Schema, Table, errors
from missdp import pricing as mp
from missdp.accounting import Composition, ExplicitSeed, Filter, FixedSchedule, proven_epsilon
from missdp.datasets import yrbss
from missdp.errors import (
    BudgetExceededError,
    DataError,
    NotFittedError,
    ParameterError,
    SchemaError,
    UnprovenError,
)
from missdp.pricing import private_estimator, propose_test_release, rows_of
from missdp.pricing.standardised_rows import StandardisedRows
from missdp.schema import NotApplicable
from pricing.cases import CHAINS, ESTIMATORS, KINDS
from pricing.stability_cases import extreme_pair
from refusing import refuses


class Awkward:
    """Neither a number nor to be compared, in its own way: as a tensor of two numbers is."""

    def __float__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


ODD = ["odd", None, pd.NA, np.array([1, 2]), 10**400, float("inf"), [1], Awkward()]


SHAPES = ("covariance", "histogram", "logistic, sgd")


@pytest.mark.parametrize("name", sorted(set(CHAINS) - {"none"}))
def test_no_table_of_the_declared_shape_is_refused(name, monkeypatch):
    """In the collection or far from it: a fit, or a private test, always has an outcome."""
    rng, chain = np.random.default_rng(0), CHAINS[name]
    if name in ("round", "dedup"):
        chain = [mp.ConstantImputer(), chain[1]]
    steps = [(str(i), step) for i, step in enumerate(chain)]
    tables = [np.full((6, 3), cell) for cell in (np.nan, np.inf, 1e300, 1e-310)]
    tables += [[["a", None, 1]] * 6, [[Awkward(), None, 1], *[[0.1, 0.2, 0.3]] * 5]]
    tables += [t for seed in range(6) for t in extreme_pair(seed, d=3) if len(t) == 6]
    more = {"rows": 6, "columns": 3, "complete": False, "random_state": 0, "delta": 0.01}
    for estimator in [e for kind, e in ESTIMATORS.items() if kind in SHAPES]:
        total = mp.PricedPipeline(steps, estimator, **more)
        assert total.guarantee().epsilon > 0
        facts, question = total.facts_and_query()
        bound = facts.bounds(question)[0]
        monkeypatch.setattr(StandardisedRows, "price", lambda *_, bound=bound: bound)
        for table in tables:
            y = rng.choice(np.array([0, 1, None, "odd", ODD[-1]], dtype=object), 6)
            fitted = clone(estimator)
            private_estimator.release(fitted, facts, question, (table, y), None, 0)
            for fact in ("mean_", "covariance_", "counts_", "coef_"):
                assert np.isfinite(getattr(fitted, fact, 0.0)).all()


NO_NUMBERS = {"budget", "random_state", "steps", "estimator", "complete", "classes", "frame"}


NUMBERS = [(k, f.name) for k in KINDS for f in fields(k) if f.name not in NO_NUMBERS]
MAY_BE = {("value", -1e-3), ("max_neighbours", None), ("max_donations", None)}
MAY_BE |= {("cells_per_row", None), ("fit_intercept", True)}
NEVER = [math.nan, math.inf, -math.inf, "loud", True, (1,), None, -1e-3]
# An optional number has None as the default.
MAY_BE |= {(f"{k.__name__}.{f.name}", None) for k in KINDS for f in fields(k) if f.default is None}
WRONG = [
    (kind, name, bad, None)
    for kind, name in NUMBERS
    for bad in NEVER
    if not MAY_BE & {(name, bad), (f"{kind.__name__}.{name}", bad)}
]
FEWER, LOUD = [0, 1], mp.PrivateLogisticRegression
WRONG += [
    (mp.PrivateHistogram, "edges", [1, 0], None),
    (mp.PrivateHistogram, "edges", "ab", None),
    (mp.PrivateHistogram, "column", 3, None),
    (mp.PrivateMean, "noise_multiplier", 1e-300, None),
    *((LOUD, "radius", 1.0, y) for y in (FEWER, 7)),
    *((LOUD, "classes", bad, [0] * 6) for bad in ((0, 1, 2), (1, 1))),
    *((mp.PricedPipeline, name, bad, None) for name, bad in (("rows", 5), ("columns", 2))),
    (mp.PricedPipeline, "complete", "yes", None),
]
CELL = 0.123456789


def released(kind, facts, budget, y, *, tested):
    """A user's calls of a step, an estimator or a pipeline: a fit with its charge."""
    rows = np.full((6, 3), CELL)
    shape = {"rows": 6, "columns": 3, "delta": 0.01}
    steps, end = [], mp.PrivateMean(noise_multiplier=4.0)
    if kind is mp.PricedPipeline:
        shape |= facts
    elif issubclass(kind, mp.StableTransformer):
        shape["complete"] = "Imputer" not in kind.__name__
        steps = [("step", kind(**facts))]
    elif not tested:
        return kind(**{"budget": budget, "delta": 0.01, **facts}).fit(rows, y)
    else:
        end = kind(**facts)
    total = mp.PricedPipeline(**{"steps": steps, "estimator": end, "budget": budget, **shape})
    if tested and not steps:
        return propose_test_release(total, rows, y, test_epsilon=1.0)
    return total.fit(rows, y)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_good_parameters_are_charged_for(kind):
    budget = Filter(1e9, 0.5, measure="zcdp", adjacency="replace-one")
    if kind is mp.PrivateLinearRegression:  # no measure of a filter has a bound for its samples
        priced = mp.PricedPipeline([], kind(**KINDS[kind]), rows=6, columns=3, delta=0.01)
        plan = [priced.bounds()[0].event]
        budget = Composition(plan, delta=0.5, adjacency="replace-one")
    released(kind, KINDS[kind], budget, [0, 1] * 3, tested=False)
    assert len(budget.events) == 1


@given(one=st.sampled_from(WRONG), tested=st.booleans())
@settings(max_examples=150, deadline=None)
def test_invalid_input_raises_one_line_before_the_charge(one, tested):
    kind, name, bad, y = one
    assume(not (tested and name in ("radius", "delta")))  # a pipeline does not use its estimator's
    budget = Filter(1e9, 0.5, adjacency="replace-one")
    with refuses((ParameterError, DataError)) as caught:
        released(kind, KINDS[kind] | {name: bad}, budget, y or [0, 1] * 3, tested=tested)
    assert budget.events == ()
    assert str(CELL)[:5] not in str(caught.value)


@given(odd=st.sampled_from(ODD), frame=st.booleans())
def test_one_odd_label_changes_no_other_row(odd, frame):
    """NumPy reads [1, "odd"] as text throughout: then no label equals 1 any more."""
    plain, strange = [1, 0, 1, 1, 0], [1, 0, 1, 1, odd]
    if frame:
        plain, strange = pd.Series(plain), pd.Series(strange, dtype=object)
    for kind in (mp.PrivateLogisticRegression, mp.PrivateLinearRegression):
        model = kind(noise_multiplier=9.0)
        model.check_target(strange, 5)
        reader = model.question(mp.RowDomain(rows=5, columns=1)).loss
        first, second = reader.read(plain), reader.read(strange)
        np.testing.assert_array_equal(first[:4], second[:4])
        assert np.isfinite(second).all()


def test_attribute_of_an_unfitted_estimator_raises(monkeypatch):
    bare = mp.PricedPipeline([], mp.PrivateMean(noise_multiplier=4.0), rows=6, columns=3)
    step, zeros = mp.PCARankReducer(n_components=1, min_gap=0.1), np.zeros((6, 3))
    for unfitted in (bare, bare.estimator, step):
        for name in ("guarantee_", "estimator_", "coef_", "mean_", "n_features_in_"):
            assert not hasattr(unfitted, name)
            with pytest.raises(NotFittedError, match=name):
                getattr(unfitted, name)
    for options in (step.get_feature_names_out, partial(step.transform, zeros)):
        with pytest.raises(NotFittedError):
            options()
    estimator = mp.PrivateMean(noise_multiplier=4.0, random_state=0).fit(zeros)
    monkeypatch.setattr(mp.PrivateMean, "keep", None)
    with pytest.raises(TypeError):
        estimator.fit(zeros)
    assert not hasattr(estimator, "guarantee_")  # a broken fit leaves none of an earlier one


class Unreadable:
    shape = (4, 2)

    def __array__(self, *args, **kwargs):
        raise AssertionError("the rows were read")

    __len__ = __array__


WORK = Categorical(name="work", levels=("no", "yes"))
HOURS = Numeric(name="hours", lower=0, upper=80, nullable=True, refused=(-7,))
FRAME = pd.DataFrame({"work": ["no", "yes", "yes", "yes"], "hours": [40.0, 20, -7, None]})
RULED = Table.read(FRAME, Schema((WORK, HOURS), (NotApplicable("hours", unless="work = 'yes'"),)))
CODED = Table.read(
    FRAME.assign(hours=[-1, 20, 30, 40]),
    Schema((WORK, Numeric(name="hours", lower=0, upper=80, not_applicable=(-1,)))),
)
MARKED = Schema((replace(WORK, undeclared=("levels",)), HOURS))
FREE = Table.read(FRAME, Schema((WORK, HOURS)))
BINS = Schema((WORK, Numeric(name="hours", lower=0, upper=80)))
ABSENT = "'hours' is not applicable to some rows.*Table.subset"
ROWS = [
    (RULED, SchemaError, ABSENT),
    (CODED, SchemaError, ABSENT),
    (Table.read(FRAME, MARKED), SchemaError, "'work'"),
    (Table.from_codes(BINS, {"work": [0, 1] * 2, "hours": [0] * 4}), DataError, "no numeric"),
    *((np.zeros(shape), DataError, "declared shape") for shape in ((5, 3), (4, 2), (4,))),
    *(([[0.1] * 3] * 3 + [last], DataError, None) for last in ([0.1], [0.1] * 4, 0.1)),
]
LOOK = mp.PrivateMean(noise_multiplier=5.0)


@given(wrong=st.sampled_from(ROWS), complete=st.booleans(), tested=st.booleans())
def test_other_rows_are_refused_before_the_charge(wrong, complete, tested):
    rows, error, reported = wrong
    budget = Filter(10.0, 1e-5, measure="zcdp", adjacency="replace-one")
    steps = [] if complete else [("impute", mp.ConstantImputer())]
    facts = {"rows": 4, "columns": 3, "complete": complete, "budget": budget}
    total = mp.PricedPipeline(steps, mp.PrivateMean(noise_multiplier=5.0), **facts)
    release = partial(propose_test_release, total, test_epsilon=0.1) if tested else total.fit
    with pytest.raises(error, match=reported):
        release(rows)
    if error is SchemaError:
        for options in (
            LOOK.set_params(budget=budget).fit,
            rows_of if reported == "'work'" else LOOK.fit,
        ):
            with pytest.raises(SchemaError, match=reported):
                options(rows)
    assert budget.events == ()
    assert len(total.fit(FREE).guarantee_.events) == len(budget.events) == 1


FILLING = [kind(**facts) for kind, facts in KINDS.items() if "Imputer" in kind.__name__]


def test_imputer_raises_for_cells_that_are_not_applicable():
    assert not any(mp.RowDomain.of(t.schema, rows=4).complete for t in (RULED, CODED))
    fitted = mp.PrivateLinearRegression(noise_multiplier=9.0)
    fitted.coef_, fitted.intercept_ = np.zeros(3), 0.0
    assert fitted.predict(FREE).tolist() == [0.0] * 4
    filling = [step.fit for step in FILLING]
    filling += [clone(step).fit(rows_of(FREE)).transform for step in FILLING]
    for fill in (*filling, fitted.predict, mp.RowDomain(rows=4, columns=3).enforce):
        with pytest.raises(SchemaError, match=ABSENT):
            fill(RULED)


@given(name=st.sampled_from(sorted(ESTIMATORS)))
def test_a_budget_that_cannot_be_charged_is_refused_by_name_before_anything_is_read(name):
    """One under add-remove. An estimator's own in a pipeline, which would take it for paid."""
    budget, facts = Filter(1e6, 1e-3), {"rows": 4, "columns": 2}
    other = Filter(8.0, 1e-5, adjacency="replace-one")
    single, paid = (clone(ESTIMATORS[name]).set_params(budget=b) for b in (budget, other))
    total = mp.PricedPipeline([], ESTIMATORS[name], budget=budget, **facts)
    inside = mp.PricedPipeline([], paid, **facts)
    named = rf"{type(single).__name__}.*adjacency='replace-one'"
    for release, error, reported in (
        (single.fit, UnprovenError, named),
        (total.fit, UnprovenError, named),
        (partial(propose_test_release, total, test_epsilon=1.0), UnprovenError, named),
        (inside.fit, ParameterError, "give it to the pipeline"),
        (partial(propose_test_release, inside, test_epsilon=1.0), ParameterError, "pipeline"),
    ):
        with refuses(error, reported):
            release(Unreadable(), Unreadable())
    assert not budget.events
    assert not other.events


# One budget for estimators, pipelines, tests and synthesizers
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 2)) * 0.5, RNG.integers(0, 2, 300)


def pipeline(**more):
    facts = {"rows": 300, "columns": 2, "random_state": 0} | more
    scale = mp.StandardScaler(min_std=0.2)
    return mp.PricedPipeline([("scale", scale)], mp.PrivateMean(noise_multiplier=90.0), **facts)


def test_rows_whose_schema_names_a_ledger_are_paid_for_there():
    names = ("a", "b")
    schema = Schema(tuple(Numeric(name=n, lower=-9, upper=9) for n in names), ledger="#patients")
    table = Table.read(dict(zip(names, X.T.tolist(), strict=True)), schema)
    for removed in (None, Filter(9.0, 1e-5, adjacency="replace-one")):
        for request in (*map(clone, ESTIMATORS.values()), pipeline()):
            with pytest.raises(errors.LedgerError, match="without which nothing is read"):
                request.set_params(budget=removed).fit(table, Y)
    with pytest.raises(errors.LedgerError):
        propose_test_release(pipeline(), table, test_epsilon=0.5)


def test_pipelines_tests_and_fits_share_a_composition():
    facts = {"rows": 300, "columns": 2, "random_state": 0}
    quiet = (clone(e).set_params(noise_multiplier=60.0) for e in ESTIMATORS.values())
    priced = [mp.PricedPipeline([], estimator, **facts) for estimator in quiet]
    tested, table = pipeline(), yrbss().table()
    fit = MST(epsilon=0.2, delta=1e-6, random_state=0)
    plan = [one.bounds()[0].event for one in priced]
    plan += [*mp.plan_test(tested, test_epsilon=0.5).charges, *fit.planned_events(table.schema)]
    budget = Composition(plan, 8.0, 1e-5, adjacency="replace-one")
    for one in priced:
        one.set_params(budget=budget).fit(X, Y)
    for one in priced:
        with refuses(BudgetExceededError, "charged before"):
            one.fit(X, Y)
    propose_test_release(tested.set_params(budget=budget), X, test_epsilon=0.5)
    # A guarantee under add-remove costs its proven conversion.
    fit.set_params(budget=budget).fit(table)
    spent = budget.spent
    assert spent.epsilon == 8.0 >= proven_epsilon(plan, 1e-5, "replace-one", enough=8.0)
    assert len(budget.events) == len(plan)
    assert spent.adjacency == "replace-one"
    assert {ExplicitSeed(), FixedSchedule()} <= {*spent.conditions}


def test_estimators_share_a_filter_in_its_measure():
    budget = Filter(8.0, 1e-5, adjacency="replace-one", measure="zcdp")
    for estimator in ESTIMATORS.values():
        quiet = clone(estimator).set_params(budget=budget, noise_multiplier=60.0, random_state=0)
        remaining, charged = budget.remaining, len(budget.events)
        if getattr(estimator, "method", "") == "sgd":
            reported = rf"{type(estimator).__name__} cannot.*measure"
            with pytest.raises(UnprovenError, match=reported):
                quiet.fit(X, Y)
            assert budget.remaining == remaining
            continue
        quiet.fit(X, Y)
        cost = float(remaining.price(budget.events[-1]))
        assert remaining.amount - budget.remaining.amount == pytest.approx(cost, rel=1e-6)
        assert len(budget.events) == charged + 1
    before = budget.events
    with pytest.raises(BudgetExceededError):
        propose_test_release(pipeline(budget=budget), X, test_epsilon=0.5)
    assert budget.events == before


# Conventions of scikit-learn, and nothing private in the visible state of a fitted step
STEPS = [kind(**facts) for kind, facts in KINDS.items() if issubclass(kind, mp.StableTransformer)]


@pytest.mark.parametrize("step", STEPS, ids=lambda s: type(s).__name__)
def test_nothing_learned_is_shown_pickled_or_cloned(step):
    fitted, secret = clone(step), str(CELL)[:6]
    fitted.fit_transform(np.full((40, 3), CELL))
    check_is_fitted(fitted)
    assert {k for k in vars(fitted) if k.endswith("_")} == {"n_features_in_"}
    assert secret not in repr(fitted) + repr(vars(fitted)["_private"]) + fitted._repr_html_()
    assert "_private" not in vars(pickle.loads(pickle.dumps(fitted)))
    # Nor by picklers that take closures as well: they ask the object for the same state.
    assert "_private" not in fitted.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[2]
    again = clone(fitted)
    assert again.get_params() == step.get_params()
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(again)


def test_steps_work_in_a_scikit_learn_pipeline_and_quote_no_value_that_they_cannot_take():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, size=(40, 3))
    missing = np.where(np.arange(120).reshape(40, 3) == 10, np.nan, rows)
    reduce = mp.PCADimensionReducer(n_components=2, min_gap=0.01, min_overlap=0.1)
    scale = mp.StandardScaler(min_std=0.05)
    chain = make_pipeline(mp.MeanImputer(max_incomplete=5), scale, reduce)
    assert clone(chain).fit(missing).transform(missing).shape == (40, 2)
    assert chain.fit_transform(missing).shape == (40, 2)
    assert list(chain.get_feature_names_out()) == ["x0", "x1"]
    missing[0] = CELL
    for step, data in ((scale, missing), (mp.RowClipper(), [CELL] * 2)):
        with pytest.raises(DataError) as caught:
            step.fit(data)
        assert str(CELL)[:4] not in str(caught.value)
    with pytest.raises(UnprovenError, match="fit_transform"):
        mp.Quantizer(eta=0.1, max_cluster=2).fit(rows).transform(rows)


def test_imputed_values_equal_expected_values():
    nan = np.nan
    x = np.array([[0.1, 0.2], [0.3, nan], [nan, 0.4], [0.5, 0.9]])
    column = np.array([[0.0], [0.1], [0.2], [0.6], [9.0], [nan]])
    rows = np.array([[0.0, 0.0], [0.1, 0.5], [0.9, 0.7], [0.05, nan]])
    for step, table, expected in (
        (mp.MeanImputer(max_incomplete=2), x, [0.5, 0.3]),
        (mp.MedianImputer(max_incomplete=2, central_gap=1), x, [0.4, 0.3]),
        (mp.TrimmedMeanImputer(max_incomplete=1, trim=1, trimmed_range=1), column, [0.3]),
        (mp.NeighbourImputer(max_incomplete=1, n_neighbors=2), rows, [0.25]),
        (mp.MeanImputer(max_incomplete=2), np.full((3, 2), nan), [0] * 6),
    ):
        np.testing.assert_allclose(step.fit_transform(table)[np.isnan(table)], expected)


@pytest.mark.parametrize("multiplier", [0.0, -1.0, math.nan, 1e11, "a"])
def test_noise_multiplier_out_of_range_raises_error_when_set(multiplier):
    estimator = mp.PrivateMean(noise_multiplier=4.0)
    pipeline = mp.PricedPipeline([], estimator, rows=6, columns=3)
    with refuses(ParameterError, "noise_multiplier must be"):
        mp.PrivateMean(noise_multiplier=multiplier)
    with refuses(ParameterError, "noise_multiplier must be"):
        estimator.set_params(noise_multiplier=multiplier)
    with refuses(ParameterError, "noise_multiplier must be"):
        pipeline.with_noise(multiplier)


def test_price_largest_noise_multiplier_is_stated():
    loud = mp.PricedPipeline([], mp.PrivateMean(noise_multiplier=1e10), rows=6, columns=3)
    assert mp.price(loud).cheapest_change is None
