"""Whatever a fit shows was released; estimators see answers only; and nothing is left out."""

import ast
import dataclasses
import gc
import importlib
import inspect
import pickle
import types
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from missdp import pricing as mp
from missdp.accounting import Budget, Condition, Guarantee
from missdp.aliases import MOVED
from missdp.errors import MissDPError, ParameterError
from missdp.mechanisms.exact_noise import SeededNoise
from missdp.pricing import estimators, propose_test_release
from missdp.pricing import replace_one as prices
from missdp.pricing.prices import _MECHANISMS, _STEPS
from missdp.testing.findings import Differs
from pricing import stability_cases
from pricing.cases import CHAINS, ESTIMATORS, released, target
from pricing.witnesses import Tape

ROWS, COLUMNS = 12, 3


@pytest.fixture(autouse=True)
def _priced_once(monkeypatch):
    """Prices are functions of public facts: compute each once."""
    monkeypatch.setattr(prices, "bounds", lru_cache(prices.bounds))


def tables():
    """Rows and targets in the collection and far from it, of one shape."""
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(ROWS, COLUMNS)) * 0.4
    holes = np.where(rng.random((ROWS, COLUMNS)) < 0.5, np.nan, rng.normal(size=(ROWS, COLUMNS)))
    odd = [["a", None, 1e300]] * ROWS
    found = [plain, holes, np.full((ROWS, COLUMNS), np.nan), np.zeros((ROWS, COLUMNS)), odd]
    return [(x, target(ROWS, seed)) for seed, x in enumerate(found)]


def outcome(fit, tape):
    """Everything that anyone sees of a fit."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            shown = fit(tape)
        except (MissDPError, Differs) as error:
            shown = (type(error), str(error))
    return shown, [(w.category, str(w.message)) for w in warned]


def interferes(fit):
    """Whether fits on other tables show more of the rows than they were answered."""
    (first, *others), tape = tables(), Tape()
    shown = outcome(lambda t: fit(t, *first), tape)
    for other in others:
        again = Tape(repeat=tape)
        if outcome(lambda t, other=other: fit(t, *other), again) != shown:
            return True
        if len(again.kept) != len(tape.kept):
            return True
    return False


def seen(estimator):
    hidden = {"guarantee_", *estimator.get_params()}
    public = {k: v for k, v in vars(estimator).items() if k not in hidden}
    plain = clone(estimator).set_params(random_state=0)
    return (
        {k: v.tobytes() if isinstance(v, np.ndarray) else repr(v) for k, v in public.items()},
        estimator.guarantee_.to_dict(),
        repr(plain),
    )


def alone(estimator):
    def fit(tape, x, y):
        budget = Budget(1e6, 0.1, adjacency="replace-one")
        model = clone(estimator).set_params(random_state=tape, delta=0.01, budget=budget)
        model.fit(x, y)
        assert len(budget.events) == 1
        return seen(model), [event.to_dict() for event in budget.events]

    return fit


def chained(name, estimator, **more):
    steps = [(str(i), step) for i, step in enumerate(CHAINS[name])]
    facts = {"rows": ROWS, "columns": COLUMNS, "complete": not steps, "delta": 0.01} | more

    def fit(tape, x, y):
        whole = mp.PricedPipeline(steps, clone(estimator), random_state=tape, **facts).fit(x, y)
        return seen(whole.estimator_), whole.guarantee_.to_dict()

    return fit


# Estimators that leak
class Storing(mp.PrivateMean):
    """Keeps the mean of the rows."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.raw_ = float(np.nanmean(np.asarray(X, dtype=float)))
        return self


SEEN = []


def noting(rows):
    SEEN.append(float(rows.mean()))
    return rows.mean(axis=0)


class Noting(mp.PrivateMean):
    """Carries the mean of the rows out of its query."""

    def question(self, domain):
        return replace(super().question(domain), function=noting)

    def keep(self, question, answer):
        super().keep(question, answer)
        self.raw_ = SEEN[-1]


class Reaching(mp.PrivateLogisticRegression):
    """Reaches for exact gradients."""

    def keep(self, question, answer):
        super().keep(question, answer)
        door = inspect.getclosurevars(answer._answer).nonlocals["self"]
        self.coef_ = self.coef_ + door._exact(question)(self.coef_, None)


class Refusing(mp.PrivateMean):
    """Refuses a table with holes, by a message."""

    def fit(self, X, y=None):
        if np.isnan(np.asarray(X, dtype=float)).any():
            raise ParameterError("the table has holes")
        return super().fit(X, y)


class TellingScaler(mp.StandardScaler):
    """A step that fails on what it learned."""

    def _learn(self, table):
        if np.ptp(table) == 0:
            raise ValueError("a constant table")
        return super()._learn(table)


class WarningScaler(mp.StandardScaler):
    """A step that warns of what it learned; nobody hears it."""

    def _learn(self, table):
        if np.ptp(table) == 0:
            warnings.warn("a constant table", stacklevel=1)
        return super()._learn(table)


@pytest.mark.parametrize("name", [*ESTIMATORS, Storing, Noting, Refusing, Reaching])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_an_estimator_shows_was_released(name, monkeypatch):
    if name in ESTIMATORS:
        assert not interferes(alone(ESTIMATORS[name]))
        return
    few = tables()[:4]
    monkeypatch.setattr("pricing.test_non_interference.tables", lambda: few)
    more = {"n_iter": 3} if name is Reaching else {}
    assert interferes(alone(name(noise_multiplier=30.0, **more)))


# Every chain before one estimator, and one chain before every kind of question.
KINDS = ("histogram", "logistic, gd", "logistic, sgd", "linear, iteration")
CASES = [*(("chain", name) for name in KINDS), *((chain, "mean") for chain in CHAINS)]


@pytest.mark.parametrize(("chain", "name"), [*CASES, (TellingScaler, ""), (WarningScaler, "")])
def test_what_a_pipeline_shows_was_released(chain, name, monkeypatch):
    if not name:
        step = chain(least_std=0.2)
        monkeypatch.setitem(CHAINS, "telling", [*CHAINS["mean"], step])
        chain, name = "telling", "mean"
        assert interferes(chained(chain, ESTIMATORS[name])) == isinstance(step, TellingScaler)
    else:
        assert not interferes(chained(chain, ESTIMATORS[name]))


TESTED = [(chain, "mean") for chain in ("none", "mean", "round", "dedup", "chain", "median")]


@pytest.mark.parametrize(("chain", "name"), [*TESTED, ("chain", "logistic, gd")])
def test_what_a_test_shows_was_released(chain, name):
    """Passed, refused, or not testable at all: the outcome is that of the repeated answers."""
    steps = [(str(i), step) for i, step in enumerate(CHAINS[chain])]
    kinds = set()

    def fit(tape, x, y, epsilon):
        whole = mp.PricedPipeline(
            steps, clone(ESTIMATORS[name]), rows=ROWS, columns=COLUMNS, complete=not steps,
            delta=0.01, random_state=tape,
        )  # fmt: skip
        found = propose_test_release(whole, x, y, test_epsilon=epsilon)
        kinds.add(type(found).__name__)
        told = seen(found.estimator) if isinstance(found, mp.Released) else None
        return told, found.guarantee.to_dict()

    for epsilon in (0.5, 8.0):
        assert not interferes(lambda t, x, y, epsilon=epsilon: fit(t, x, y, epsilon))
    expected = {"none": {"Released"}, "mean": {"Released"}, "median": set()}
    assert kinds >= expected.get(chain, {"Refused"})


# What is left of the rows after a fit
def reachable(start):
    """Every object that can be reached from one, what functions close over too; modules aside."""
    found, queue = {}, [start]
    skip = (type, types.ModuleType, types.BuiltinFunctionType, Budget)
    while queue:
        one = queue.pop()
        if id(one) in found or isinstance(one, skip):
            continue
        found[id(one)] = one
        function = isinstance(one, types.FunctionType)
        queue += (one.__closure__ or ()) if function else gc.get_referents(one)
    return list(found.values())


class Hoarding(mp.PrivateLogisticRegression):
    """Keeps what releases gradients."""

    def keep(self, question, answer):
        super().keep(question, answer)
        self.kept_ = answer


@pytest.mark.parametrize(
    ("name", "piped"),
    [
        *((name, False) for name in (*ESTIMATORS, "hoarding")),
        *((n, True) for n in (*KINDS, "hoarding")),
    ],
)
def test_a_fitted_estimator_keeps_no_rows(name, piped):
    rows = 997  # no released vector is that long
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, COLUMNS)), rng.integers(0, 2, rows)
    hoarding = Hoarding(noise_multiplier=30.0, n_iter=3, method="sgd")
    estimator = clone(ESTIMATORS.get(name, hoarding)).set_params(random_state=0)
    steps = [("scale", mp.StandardScaler(least_std=0.2)), ("clip", mp.RowClipper(radius=1.0))]
    if piped:
        fitted = mp.PricedPipeline(
            steps, estimator, rows=rows, columns=COLUMNS, random_state=0, delta=0.01
        ).fit(x, y)
    else:
        fitted = estimator.fit(x, y)
    objects = reachable(fitted)
    arrays = [one for one in objects if isinstance(one, np.ndarray)]
    assert all(rows not in array.shape for array in arrays)
    assert not any(isinstance(one, (SeededNoise, np.random.Generator)) for one in objects) or (
        name == "hoarding"
    )
    if name == "hoarding":
        model = fitted.estimator_ if piped else fitted
        with pytest.raises(ParameterError, match="charged for"):
            model.kept_.at(np.zeros(COLUMNS))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learn_habits_of_a_fitted_estimator(name):
    x, y = tables()[0]
    fitted = clone(ESTIMATORS[name]).set_params(random_state=0, delta=0.01).fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert released(again) == released(fitted) != {}
    assert again.guarantee_ == fitted.guarantee_
    fresh = clone(fitted)
    assert isinstance(fresh, BaseEstimator)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "guarantee_")
    assert released(fresh.fit(x, y)) == released(fitted)
    assert isinstance(fitted.guarantee_, Guarantee)


CALLS = {
    "missdp.pricing.replace_one": {"PrivateEstimator"},
    "missdp.pricing.domain": {
        *("RowDomain", "as_rows", "check_fillable", "clip_rows"),
        *("count", "one_of", "real", "require"),
    },
    "missdp.pricing.questions": {
        *("GradientSteps", "Loss", "NoiseKind", "Question", "SecretStop", "VectorQuery")
    },
}


def offences(source):
    """Return what an estimator must not do, beyond what the contracts of imports forbid."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            known = CALLS.get(node.module or "", {a.name for a in node.names})
            found += [a.name for a in node.names if a.name not in known]
            found += ["a whole module"] if node.level or node.module == "missdp.pricing" else []
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = ast.unparse(node.value) in ("self", "super()")
            found += [] if own else [ast.unparse(node)]
    return found


def test_estimators_see_answers_only():
    assert offences(Path(estimators.__file__).read_text(encoding="utf-8")) == []
    for line in (
        "from missdp.pricing.replace_one import ReplaceOneDoor",
        "from missdp.pricing import replace_one",
        "answer._gradients()",
    ):
        assert offences(line)


def exported(base):
    found = {getattr(mp, name) for name in mp.__all__}
    found = {kind for kind in found if inspect.isclass(kind) and issubclass(kind, base)}
    return found - {base, mp.Imputer, mp.ColumnImputer, mp.StepCondition}


def test_nothing_that_is_exported_is_left_out():
    pair = stability_cases.complete_pair(0, d=3)
    public = {n: f for n, f in vars(stability_cases).items() if not n.startswith("_")}
    tried = {type(case(pair)[0]) for name, case in public.items() if name.endswith("_case")}
    steps, ends = exported(mp.StableTransformer), exported(mp.PrivateEstimator)
    assert steps == tried | {mp.RowClipper, mp.ConstantImputer} == set(_STEPS.values())
    assert ends == set(_MECHANISMS.values()) == {type(e) for e in ESTIMATORS.values()}
    for kind in steps | ends:
        init = [f for f in dataclasses.fields(kind) if f.init]
        assert all(f.kw_only for f in init)
        assert {f.name for f in init} == set(kind._get_param_names())
        assert (kind.__eq__, kind.__hash__) == (object.__eq__, object.__hash__)
    for kind in exported(Condition):  # a sentence with its numbers
        facts = {field.name: 40 + i for i, field in enumerate(dataclasses.fields(kind))}
        text = kind(**facts).statement()
        assert text.endswith(".")
        assert "{" not in text
        assert all(str(fact) in text for fact in facts.values())


def test_what_pricing_was_called_leads_there_with_a_warning():
    for old, new in MOVED.items():
        room, name = old.rsplit(".", 1)
        if room == "missdp.preprocess":
            with pytest.warns(DeprecationWarning, match=f"{new} now"):
                assert getattr(importlib.import_module(room), name) is getattr(mp, name)
