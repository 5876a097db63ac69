"""Whatever a fit shows was released; estimators see answers only; and nothing is left out."""

from __future__ import annotations

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

import missdp.pricing as room
from missdp import pricing as mp
from missdp.accounting import Budget, Condition, Guarantee
from missdp.aliases import MOVED
from missdp.errors import MissDPError, ParameterError
from missdp.mechanisms.noise import SeededNoise
from missdp.pricing import estimators, propose_test_release
from missdp.pricing import replace_one as prices
from missdp.pricing.prices import _MECHANISMS, _STEPS
from pricing import stability_cases
from pricing.cases import CHAINS, ESTIMATORS, released, target
from pricing.witnesses import Different, Tape

ROWS, COLUMNS = 12, 3
EVERY = [("none", name) for name in ESTIMATORS] + [("chain", name) for name in ESTIMATORS]
EVERY += [(chain, name) for chain in CHAINS for name in ("mean", "histogram")]


@pytest.fixture(autouse=True)
def _priced_once(monkeypatch):
    """Prices are functions of public facts: compute each once."""
    monkeypatch.setattr(prices, "bounds", lru_cache(prices.bounds))


def tables() -> list[tuple[object, np.ndarray]]:
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
        except (MissDPError, Different) as error:
            shown = (type(error), str(error))
    return shown, [(w.category, str(w.message)) for w in warned]


def interferes(fit) -> bool:
    """Whether fits on other tables show more of the rows than they were answered."""
    (first, *others), tape = tables(), Tape()
    shown = outcome(lambda t: fit(t, *first), tape)
    for other in others:
        again = Tape(repeat=tape)
        if outcome(lambda t, other=other: fit(t, *other), again) != shown:
            return True
        if len(again.passed) != len(tape.passed):
            return True
    return False


def seen(estimator) -> tuple[object, ...]:
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


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_an_estimator_shows_was_released(name):
    assert not interferes(alone(ESTIMATORS[name]))


@pytest.mark.parametrize(("chain", "name"), dict.fromkeys(EVERY))
def test_what_a_pipeline_shows_was_released(chain, name):
    assert not interferes(chained(chain, ESTIMATORS[name]))


@pytest.mark.parametrize("chain", ["none", "mean", "round", "dedup", "chain", "median"])
@pytest.mark.parametrize("name", ["mean", "logistic, gd"])
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
        self.coef_ = self.coef_ + door._gradients(question)(self.coef_, None)


class Telling(mp.PrivateMean):
    """Warns of a table without a value."""

    def fit(self, X, y=None):
        if not np.any(np.nan_to_num(np.asarray(X, dtype=float))):
            warnings.warn("all rows are zero", stacklevel=1)
        return super().fit(X, y)


class Refusing(mp.PrivateMean):
    """Refuses a table with holes, by a message."""

    def fit(self, X, y=None):
        if np.isnan(np.asarray(X, dtype=float)).any():
            raise ParameterError("the table has holes")
        return super().fit(X, y)


class Adapting(mp.PrivateMean):
    """Chooses its noise by the rows."""

    def fit(self, X, y=None):
        spread = float(np.nanstd(np.asarray(X, dtype=float)))
        self.noise_multiplier = 4.0 + round(np.nan_to_num(spread), 3)
        return super().fit(X, y)


LEAKY = [Storing, Noting, Telling, Refusing, Adapting]


@pytest.mark.parametrize("leaky", LEAKY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_estimator_that_leaks_is_found(leaky, monkeypatch):
    monkeypatch.setattr("pricing.test_non_interference.tables", lambda: tables()[:4])
    assert interferes(alone(leaky(noise_multiplier=4.0)))


def test_a_model_that_reaches_for_gradients_is_found():
    assert interferes(alone(Reaching(noise_multiplier=30.0, n_iter=3)))


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


@pytest.mark.parametrize(("step", "tells"), [(TellingScaler, True), (WarningScaler, False)])
def test_a_step_that_tells_is_found(monkeypatch, step, tells):
    monkeypatch.setitem(CHAINS, "telling", [*CHAINS["mean"], step(least_std=0.2)])
    assert interferes(chained("telling", ESTIMATORS["mean"])) == tells


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


@pytest.mark.parametrize("name", [*ESTIMATORS, "hoarding"])
@pytest.mark.parametrize("piped", [False, True])
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


SOURCE = Path(estimators.__file__).read_text(encoding="utf-8")
NAMES = {
    "missdp.pricing.replace_one": {"PrivateEstimator"},
    "missdp.pricing.domain": {
        *("Floats", "RowDomain", "as_rows", "check_fillable", "clip_rows"),
        *("count", "one_of", "real"),
    },
    "missdp.pricing.questions": {
        *("GradientSteps", "Loss", "NoiseKind", "Question", "SecretStop", "VectorQuery"),
    },
}
SHUT = ("missdp.sources", "missdp.table", "missdp.mechanisms")


def offences(source):
    """Return what an estimator must not do, as lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("missdp")]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level or module in ("missdp", "missdp.pricing") or module.startswith(SHUT):
                found.append(module or "a whole module")
            if module in NAMES:
                found += [a.name for a in node.names if a.name not in NAMES[module]]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = ast.unparse(node.value) in ("self", "super()")
            found += [] if own else [ast.unparse(node)]
    return found


def test_estimators_see_answers_only():
    assert offences(SOURCE) == []
    for line in (
        "from missdp.pricing.replace_one import ReplaceOneDoor",
        "from missdp.pricing import replace_one",
        "from missdp.mechanisms import SecureNoise",
        "from .replace_one import PreparedRows",
        "answer._gradients()",
    ):
        assert offences(line)


FREE = {room.RowClipper, room.ConstantImputer}


def exported(base):
    found = {vars(room)[name] for name in room.__all__}
    found = {kind for kind in found if inspect.isclass(kind) and issubclass(kind, base)}
    return found - {base, room.Imputer, room.ColumnImputer, room.StepCondition}


def test_every_step_is_tried_with_random_neighbours():
    pair = stability_cases.complete_pair(0, d=3)
    public = {n: f for n, f in vars(stability_cases).items() if not n.startswith("_")}
    tried = {type(case(pair)[0]) for name, case in public.items() if name.endswith("_case")}
    assert exported(mp.StableTransformer) == tried | FREE


def test_every_step_and_estimator_has_a_word_for_files():
    assert set(_STEPS.values()) == exported(mp.StableTransformer)
    assert set(_MECHANISMS.values()) == exported(mp.PrivateEstimator)
    assert exported(mp.PrivateEstimator) == {type(estimator) for estimator in ESTIMATORS.values()}


def test_what_pricing_was_called_leads_there_with_a_warning():
    for old, new in MOVED.items():
        room, name = old.rsplit(".", 1)
        if room == "missdp.preprocess":
            with pytest.warns(DeprecationWarning, match=f"{new} now"):
                assert getattr(importlib.import_module(room), name) is getattr(mp, name)


@pytest.mark.parametrize(
    "kind", sorted(exported(mp.StableTransformer) | exported(mp.PrivateEstimator), key=str)
)
def test_parameters_are_fields_by_name_and_objects_are_themselves(kind):
    init = [f for f in dataclasses.fields(kind) if f.init]
    assert all(f.kw_only for f in init)
    assert {f.name for f in init} == set(kind._get_param_names())
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


@pytest.mark.parametrize("kind", sorted(exported(Condition), key=str))
def test_a_condition_is_a_sentence_with_its_numbers(kind):
    facts = {field.name: 40 + i for i, field in enumerate(dataclasses.fields(kind))}
    text = kind(**facts).statement()
    assert text.endswith(".")
    assert "{" not in text
    assert all(str(fact) in text for fact in facts.values())
