import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nine_learners import NINE

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, MissingDependencyError, ParameterError, SchemaError
from missdp.evaluate import LEARNERS, MCAR, classifier_f1, holdout
from missdp.evaluate.classifiers import _balanced_split, _features
from refusing import refuses

SCHEMA = Schema(
    (
        Categorical(name="c", levels=("p", "q", "r")),
        Ordinal(name="o", levels=(1, 2, 3, 4)),
        Numeric(name="n", lower=0, upper=8, bins=8),
        Categorical(name="noise", levels=("u", "v")),
    )
)
FAST = {name: NINE[name] for name in ("LogisticRegression", "BernoulliNB", "DecisionTree")}


def linked(n, seed):
    """Columns c, o and n determine each other up to 5 % noise. "noise" is a coin."""
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


@pytest.mark.long
def test_learner_scores_a_faithful_table_above_a_shuffled_one():
    facts = {"random_state": 0, "attributes": ("o",), "learners": NINE}
    good = classifier_f1(TRUTH, linked(600, 1), **facts)
    bad = classifier_f1(TRUTH, shuffled(TRUTH, 2), **facts, max_rows=600)
    assert list(good.by_learner) == list(NINE)
    assert len(NINE) == 9
    for name in NINE:
        assert good.scores["o"][name] > 0.9
        assert bad.scores["o"][name] < 0.75


class CopyCoin:
    """Guesses the indicator of noise == "u", and notes how many rows it sees."""

    observed = ()

    def fit(self, X, y):
        CopyCoin.observed += (len(X),)

    def predict(self, X):
        CopyCoin.observed += (len(X),)
        return X[:, -3].astype(int)


def test_scores_are_f1_of_the_rarer_class_on_the_test_rows_of_which_few_may_be_enough():
    """Recomputed by hand for a learner that copies one feature."""
    fit, test = holdout(TRUTH, random_state=5)
    options = {"random_state": 0, "attributes": ("c",), "learners": {"coin": lambda _: CopyCoin()}}
    result = classifier_f1(fit, fit, test=test, **options)
    # p and q have a quarter of the rows each, r has half of them: which half is rarer decides.
    r = int(np.sum(fit.codes("c") == 2))
    y = np.isin(test.codes("c"), [2] if 2 * r <= len(fit) else [0, 1])
    guess = test.codes("noise") == 0
    assert result.mean == pytest.approx(2 * np.sum(y & guess) / (y.sum() + guess.sum()))
    assert result.held_out
    CopyCoin.observed = ()
    assert not classifier_f1(TRUTH, linked(900, 1), **options).held_out
    classifier_f1(TRUTH, linked(900, 1), max_rows=100, **options)
    assert CopyCoin.observed == (900, 450, 100, 100)


@pytest.mark.slow
def test_seeds_decide_and_a_score_does_not_depend_on_the_selection():
    def scores(seed=3, learners=("RandomForest", "Bagging"), attributes=("noise", "n")):
        reference = {name: NINE[name] for name in learners}
        facts = {"random_state": seed, "learners": reference, "attributes": attributes}
        return classifier_f1(TRUTH, linked(400, 1), max_rows=100, **facts)

    one = scores()
    assert one == scores() != scores(seed=4)
    single = scores(learners=("Bagging",), attributes=("n",))
    assert single.scores["n"]["Bagging"] == one.scores["n"]["Bagging"]


def test_degenerate_targets_and_missing_cells():
    options = {"random_state": 0, "learners": FAST}
    columns = {"c": [1] * 60, "o": [0, 1] * 30, "n": [0, 2] * 30, "noise": [0, 1] * 30}
    constant = Table.from_codes(SCHEMA, columns)
    result = classifier_f1(constant, constant, **options)
    assert result.skipped == ("c",)
    assert list(result.scores) == ["o", "n", "noise"]
    assert "skipped, one value only: c" in str(result)
    # A synthetic table with one class is the synthetic table's fault: it scores, badly.
    poor = Table.from_codes(SCHEMA, {"c": [1] * 9, "o": [1] * 9, "n": [0] * 9, "noise": [0] * 9})
    test = constant.take(np.arange(20))  # half of the test rows in either class
    scores = classifier_f1(constant, poor, test=test, **options).scores
    for name in ("o", "n", "noise"):
        assert len(set(scores[name].values())) == 1
        assert scores[name]["BernoulliNB"] in (0.0, pytest.approx(2 / 3))
    nothing = Table.from_codes(SCHEMA.subset(["c", "noise"]), {"c": [1] * 20, "noise": [0] * 20})
    empty = classifier_f1(nothing, nothing, **options)
    assert (empty.scores, empty.to_dict()["mean"]) == ({}, None)
    incomplete = MCAR(rate=0.2).apply(TRUTH, random_state=0)
    assert classifier_f1(incomplete, incomplete, attributes=("o",), **options).mean > 0.8
    gone = MCAR(rate={"o": 0.999999}).apply(linked(50, 1), random_state=0)
    assert classifier_f1(TRUTH, gone, attributes=("o",), **options).mean == 0.0


REFUSED = [
    ({"learners": ("Oracle",)}, ParameterError, "unknown learners"),
    ({"learners": ()}, ParameterError, "at least one learner"),
    *(({"learners": bad}, ParameterError, "learners") for bad in (3, [["x"]])),
    *(({"max_rows": bad}, ParameterError, "max_rows") for bad in (0, "x", 2.5)),
    *(({"random_state": bad}, ParameterError, "random_state") for bad in ("x", -1)),
    ({"attributes": ("o", "o")}, ParameterError, "target"),
    ({"attributes": 3}, ParameterError, "attributes"),
    ({"attributes": ("nope",)}, SchemaError, "nope"),
    ({"schema": 3}, ParameterError, "schema"),
    ({"truth": TRUTH.subset(["o"]), "synthetic": TRUTH.subset(["o"])}, DataError, "two attrib"),
    ({"synthetic": TRUTH.take(np.arange(0))}, DataError, "rows to train"),
]


def test_bad_requests_are_refused():
    reference = {"truth": TRUTH, "synthetic": TRUTH, "random_state": 0, "learners": FAST}
    for facts, kind, says in REFUSED:
        with refuses(kind, says):
            classifier_f1(**reference | facts)
    shares = [{"share": share} for share in (0.0, 1.0, -1.0, np.nan, "x")]
    for facts in ({"table": "x"}, {"random_state": "x"}, *shares):
        with refuses((ParameterError, DataError)):
            holdout(**{"table": TRUTH, "random_state": 0, **facts})
    ids = Schema((Ordinal(name="id", levels=tuple(range(200))),))
    fit, test = holdout(Table.from_codes(ids, {"id": np.arange(200)}), random_state=1)
    assert (len(fit), len(test)) == (140, 60)  # without overlap
    assert sorted([*fit.codes("id"), *test.codes("id")]) == list(range(200))


def test_a_missing_library_is_named_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingDependencyError, match=r"missdp\[learners\]"):
        classifier_f1(TRUTH, TRUTH, random_state=0)
    result = classifier_f1(TRUTH, TRUTH, random_state=0, learners=("LogisticRegression",))
    assert [*LEARNERS] == ["LogisticRegression", "RandomForest"]
    assert [*result.by_learner] == ["LogisticRegression"]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_splits_are_as_balanced_as_possible(counts):
    array, names = np.array(counts), tuple(range(len(counts)))
    subsets = [np.array(s) for s in itertools.product([False, True], repeat=len(counts))]
    cuts = [np.arange(len(counts)) >= at for at in range(1, len(counts))]
    for kind, allowed in ((Categorical, subsets), (Ordinal, cuts)):
        split = _balanced_split(kind(name="a", levels=names), array)
        if np.count_nonzero(array) < 2:
            assert split is None
            continue
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
