import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, MissingDependencyError, ParameterError, SchemaError
from missdp.evaluate import LEARNERS, MCAR, classifier_f1, holdout
from missdp.evaluate.classifiers import _balanced_split, _features

SCHEMA = Schema(
    (
        Categorical(name="c", levels=("p", "q", "r")),
        Ordinal(name="o", levels=(1, 2, 3, 4)),
        Numeric(name="n", lower=0, upper=8, bins=8),
        Categorical(name="noise", levels=("u", "v")),
    )
)
FAST = ("LogisticRegression", "BernoulliNB", "DecisionTree")


def linked(n, seed):
    """Columns c, o and n determine each other up to 5 % noise; "noise" is a coin."""
    rng = np.random.default_rng(seed)
    o = rng.integers(0, 4, n)
    n_bin = np.where(rng.random(n) < 0.05, rng.integers(0, 8, n), 2 * o + rng.integers(0, 2, n))
    c = np.where(rng.random(n) < 0.05, rng.integers(0, 3, n), np.minimum(o, 2))
    coin = rng.integers(0, 2, n)
    return Table.from_codes(SCHEMA, {"c": c, "o": o, "n": n_bin, "noise": coin})


def shuffled(table, seed):
    """The same one-way marginals, all dependence destroyed."""
    rng = np.random.default_rng(seed)
    return Table.from_codes(
        table.schema, {n: rng.permutation(table.codes(n)) for n in table.schema.names}
    )


TRUTH = linked(1500, 0)


def test_every_learner_tells_a_faithful_table_from_a_shuffled_one():
    """All nine learn the link; none learns it from a table without dependence."""
    good = classifier_f1(TRUTH, linked(600, 1), random_state=0, attributes=("o",))
    bad = classifier_f1(TRUTH, shuffled(TRUTH, 2), random_state=0, attributes=("o",), max_rows=600)
    assert list(good.by_learner) == list(LEARNERS)
    assert len(LEARNERS) == 9
    for name in LEARNERS:
        assert good.scores["o"][name] > 0.9
        assert bad.scores["o"][name] < 0.75


def test_scores_are_f1_of_the_rarer_class_on_the_test_rows(monkeypatch):
    """Recomputed by hand for a learner that copies one feature."""

    class CopyCoin:
        def fit(self, X, y):
            pass

        def predict(self, X):
            return X[:, -3].astype(int)  # the indicator of noise == "u"

    monkeypatch.setitem(LEARNERS, "MLP", lambda _: CopyCoin())
    fit, test = holdout(TRUTH, random_state=5)
    found = classifier_f1(fit, fit, test=test, random_state=0, attributes=("c",), learners=("MLP",))
    # p and q have a quarter of the rows each, r has half of them: which half is rarer decides.
    r = int(np.sum(fit.codes("c") == 2))
    positive = [2] if 2 * r <= len(fit) else [0, 1]
    y = np.isin(test.codes("c"), positive)
    guess = test.codes("noise") == 0
    hits = np.sum(y & guess)
    assert found.mean == pytest.approx(2 * hits / (y.sum() + guess.sum()))
    assert found.held_out
    assert not classifier_f1(fit, fit, random_state=0, attributes=("c",), learners=FAST).held_out


@pytest.mark.slow
def test_seeds_decide_and_a_score_does_not_depend_on_the_selection():
    made = linked(400, 1)
    options = {"learners": ("RandomForest", "Bagging"), "max_rows": 100}
    options["attributes"] = ("noise", "n")
    one = classifier_f1(TRUTH, made, random_state=3, **options)
    assert one == classifier_f1(TRUTH, made, random_state=3, **options)
    assert one != classifier_f1(TRUTH, made, random_state=4, **options)
    options |= {"learners": ("Bagging",), "attributes": ("n",)}
    alone = classifier_f1(TRUTH, made, random_state=3, **options)
    assert alone.scores["n"]["Bagging"] == one.scores["n"]["Bagging"]


def test_the_row_cap_is_kept(monkeypatch):
    seen = []

    class Spy:
        def fit(self, X, y):
            seen.append((len(X), 0))

        def predict(self, X):
            seen.append((0, len(X)))
            return np.ones(len(X))

    monkeypatch.setitem(LEARNERS, "MLP", lambda _: Spy())
    options = {"random_state": 0, "learners": ("MLP",), "attributes": ("o",)}
    classifier_f1(TRUTH, linked(900, 1), max_rows=100, **options)
    classifier_f1(TRUTH, linked(900, 1), **options)
    assert seen == [(100, 0), (0, 100), (900, 0), (0, 450)]


def test_degenerate_targets():
    constant = Table.from_codes(
        SCHEMA, {"c": [1] * 60, "o": [0, 1] * 30, "n": [0, 2] * 30, "noise": [0, 1] * 30}
    )
    found = classifier_f1(constant, constant, random_state=0, learners=FAST)
    assert found.skipped == ("c",)
    assert list(found.scores) == ["o", "n", "noise"]
    assert "skipped, one value only: c" in str(found)
    # A synthetic table with one class is the synthetic table's fault: it scores, badly.
    poor = Table.from_codes(SCHEMA, {"c": [1] * 9, "o": [1] * 9, "n": [0] * 9, "noise": [0] * 9})
    test = constant.take(np.arange(20))  # half of the test rows in either class
    scores = classifier_f1(constant, poor, test=test, random_state=0, learners=FAST).scores
    for name in ("o", "n", "noise"):
        assert len(set(scores[name].values())) == 1
        assert scores[name]["BernoulliNB"] in (0.0, pytest.approx(2 / 3))
    nothing = constant.subset(["c", "noise"]).take(np.arange(20))
    nothing = Table.from_codes(nothing.schema, {"c": [1] * 20, "noise": [0] * 20})
    empty = classifier_f1(nothing, nothing, random_state=0, learners=FAST)
    assert empty.scores == {}
    assert np.isnan(empty.mean)
    assert empty.to_dict()["mean"] is None


def test_holes_on_either_side_are_handled():
    holed = MCAR(rate=0.2).apply(TRUTH, random_state=0)
    found = classifier_f1(holed, holed, random_state=0, attributes=("o",), learners=FAST)
    assert found.mean > 0.8
    gone = MCAR(rate={"o": 0.999999}).apply(linked(50, 1), random_state=0)
    assert classifier_f1(TRUTH, gone, random_state=0, attributes=("o",), learners=FAST).mean == 0.0


@pytest.mark.parametrize(
    ("facts", "kind", "says"),
    [
        ({"learners": ("Oracle",)}, ParameterError, "unknown learners"),
        ({"learners": ()}, ParameterError, "at least one learner"),
        ({"learners": 3}, ParameterError, "learners"),
        ({"learners": [["x"]]}, ParameterError, "learners"),
        ({"max_rows": 0}, ParameterError, "max_rows"),
        ({"max_rows": "x"}, ParameterError, "max_rows"),
        ({"max_rows": 2.5}, ParameterError, "max_rows"),
        ({"random_state": "x"}, ParameterError, "random_state"),
        ({"random_state": -1}, ParameterError, "random_state"),
        ({"attributes": ("o", "o")}, ParameterError, "target"),
        ({"attributes": 3}, ParameterError, "attributes"),
        ({"attributes": ("nope",)}, SchemaError, "nope"),
        ({"schema": 3}, ParameterError, "schema"),
        ({"truth": TRUTH.subset(["o"]), "synthetic": TRUTH.subset(["o"])}, DataError, "two attrib"),
        ({"synthetic": TRUTH.take(np.arange(0))}, DataError, "rows to train"),
    ],
)
def test_bad_requests_are_refused(facts, kind, says):
    known = {"truth": TRUTH, "synthetic": TRUTH, "random_state": 0, "learners": FAST}
    with pytest.raises(kind, match=says) as caught:
        classifier_f1(**known | facts)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "facts",
    [{"table": "x"}, {"random_state": "x"}, *({"share": s} for s in (0.0, 1.0, -1.0, np.nan, "x"))],
)
def test_a_split_needs_a_table_a_share_and_a_seed(facts):
    with pytest.raises((ParameterError, DataError)):
        holdout(**{"table": TRUTH, "random_state": 0, **facts})


def test_a_missing_library_is_named_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match=r"missdp\[learners\]"):
        classifier_f1(TRUTH, TRUTH, random_state=0)
    classifier_f1(TRUTH, TRUTH, random_state=0, learners=("BernoulliNB",))


def test_holdout_splits_without_overlap():
    codes = np.arange(200)
    schema = Schema((Ordinal(name="id", levels=tuple(range(200))),))
    fit, test = holdout(Table.from_codes(schema, {"id": codes}), random_state=1)
    assert (len(fit), len(test)) == (140, 60)
    assert sorted([*fit.codes("id"), *test.codes("id")]) == list(codes)


COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=6)


@settings(max_examples=60)
@given(COUNTS)
def test_splits_are_as_balanced_as_possible(counts):
    array = np.array(counts)
    names = tuple(range(len(counts)))
    subsets = [
        np.array(s, dtype=bool) for s in itertools.product([False, True], repeat=len(counts))
    ]
    cuts = [np.arange(len(counts)) >= at for at in range(1, len(counts))]
    for attribute, allowed in (
        (Categorical(name="a", levels=names), subsets),
        (Ordinal(name="a", levels=names), cuts),
    ):
        split = _balanced_split(attribute, array)
        if np.count_nonzero(array) < 2:
            assert split is None
            continue
        assert split is not None
        best = min(abs(2 * array[s].sum() - array.sum()) for s in allowed)
        assert array.sum() - 2 * array[split].sum() == best  # the rarer class is positive
        assert any(np.array_equal(split, s) or np.array_equal(~split, s) for s in allowed)


def test_features_are_fixed_by_the_schema():
    table = MCAR(rate=0.3).apply(TRUTH, random_state=0)
    encoded = _features(table, SCHEMA.names)
    assert encoded.shape == (len(table), 4 + 2 + 2 + 3)
    few = _features(table.take(np.arange(3)), SCHEMA.names)
    np.testing.assert_array_equal(few, encoded[:3])
    assert encoded.min() == -1.0
    assert encoded.max() == 1.0
    np.testing.assert_array_equal(encoded[:, 5], table.mask("o"))
    long = Schema((Categorical(name="c", levels=tuple(range(100)), nullable=True),))
    codes = Table.from_codes(long, {"c": [0, 99, 100]})
    np.testing.assert_array_equal(_features(codes, ["c"]), [[-1, 0], [1, 0], [0, 1]])
