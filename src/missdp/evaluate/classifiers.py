"""F1 of classifiers that are trained on synthetic rows and tested on true ones.

There are two classifiers, a linear one and a forest, with their library's defaults and an explicit
seed. Other classifiers can be given. The nine classifiers of Mohapatra et al. (2024) are in
``bench/nine_learners.py``.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from missdp.errors import (
    DataError,
    ParameterError,
    check_integer,
    did_you_mean,
    import_optional,
    names_of,
)
from missdp.evaluate.align import align, column_lines
from missdp.progress import Progress, progress_callback
from missdp.schema import AnyAttribute, Categorical, Schema
from missdp.serialization import Record
from missdp.table import Table
from missdp.threads import one_blas_thread

_MAX_ONE_HOT = 64  # largest number of levels with an indicator each
_Task: TypeAlias = tuple[
    NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]
]


def _features(table: Table, names: Iterable[str]) -> NDArray[np.float64]:
    """Encode attributes as numbers, shape ``(n, f)``.

    Unordered levels become one indicator each, if there are at most 64. Ordered levels, bins and
    longer lists of levels become one number in [-1, 1]. Missing cells of all kinds are 0 and have
    an additional indicator. Cells that are not applicable have an indicator too, if there may be
    any.
    """
    return np.hstack([_block(table.schema[name], table.codes(name)) for name in names])


def _block(attribute: AnyAttribute, codes: NDArray[np.unsignedinteger]) -> NDArray[np.float64]:
    first = attribute.missing_code
    merged = np.minimum(codes, first)
    if isinstance(attribute, Categorical) and attribute.size <= _MAX_ONE_HOT:
        return np.asarray(np.eye(first + 1)[merged], dtype=np.float64)
    place = 2.0 * merged / max(attribute.size - 1, 1) - 1.0
    none = [merged == code for code in range(attribute.size, first + 1)]
    return np.column_stack([np.where(merged >= attribute.size, 0.0, place), *none])


def _balanced_split(attribute: AnyAttribute, counts: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Split levels into two classes as equally frequent as possible: True for the rarer one.

    Ordered levels and bins are split at one point, and other levels by an exact subset sum. Returns
    None if there is only one level.
    """
    if np.count_nonzero(counts) < 2:
        return None
    upper = _subset(counts) if isinstance(attribute, Categorical) else _ordered_split(counts)
    return upper if 2 * counts[upper].sum() <= counts.sum() else ~upper


def _ordered_split(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    below = np.cumsum(counts)[:-1]
    at = int(np.argmin(np.abs(2 * below - counts.sum())))
    return np.asarray(np.arange(len(counts)) > at)


def _subset(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Levels whose counts add up as closely as possible to half of all rows."""
    half = int(counts.sum()) // 2
    window = (1 << (half + 1)) - 1
    reach = [1]
    for count in counts:
        reach.append((reach[-1] | reach[-1] << int(count)) & window)
    rest = reach[-1].bit_length() - 1
    chosen = np.zeros(len(counts), dtype=bool)
    for i in range(len(counts) - 1, -1, -1):
        if not reach[i] >> rest & 1:
            chosen[i] = True
            rest -= int(counts[i])
    return chosen


_PURPOSE = "F1 scores of classifiers"  # other numbers of an evaluation need no extra


Learners: TypeAlias = Mapping[str, Callable[[int], Any]]


def _logistic_regression(seed: int) -> Any:
    library = import_optional("sklearn.linear_model", purpose=_PURPOSE)
    return library.LogisticRegression(random_state=seed)


def _random_forest(seed: int) -> Any:
    library = import_optional("sklearn.ensemble", purpose=_PURPOSE)
    return library.RandomForestClassifier(random_state=seed, n_jobs=1)


LEARNERS: Learners = {
    "LogisticRegression": _logistic_regression,
    "RandomForest": _random_forest,
}
"""Classifiers of `classifier_f1` by name, as functions that make a new classifier.

Each function takes a seed (int, at least 0) and returns an unfitted classifier of scikit-learn,
with the defaults of the library. It raises MissingDependencyError if scikit-learn is not installed.
"""


def check_learners(learners: Iterable[str] | Learners | None = None) -> Learners:
    """Return the learners, or raise for unknown learners and absent libraries."""
    available = learners if isinstance(learners, Mapping) else LEARNERS
    names = _each_once("learner", LEARNERS if learners is None else learners)
    if unknown := [name for name in names if name not in available]:
        near = did_you_mean(unknown[0], available)
        raise ParameterError(f"unknown learners {unknown}. There are {list(available)}{near}")
    chosen = {name: available[name] for name in names}
    for make in chosen.values():
        make(0)
    return chosen


@dataclass(frozen=True)
class ClassifierF1(Record):
    """F1 scores of classifiers that were trained on a synthetic table and tested on true rows.

    The score is the F1 score in [0, 1] (harmonic mean of precision and recall) of the rarer class.
    High scores mean that synthetic rows train classifiers well. `classifier_f1` returns it.
    **Private**: scores are computed from the truth without noise.

    Parameters
    ----------
    scores : dict of str to dict of str to float
        By target attribute and then by learner (classifier), the F1 score in [0, 1].
    skipped : tuple of str
        Target attributes without a score, because they take one value in the truth or in no test
        row.
    held_out : bool
        True if the caller states that the generator never had the test rows. It is not checked.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.evaluate import ClassifierF1
    >>> scores = {"LogisticRegression": 0.5, "RandomForest": 0.7}
    >>> found = ClassifierF1({"a": scores}, (), held_out=True)
    >>> found.mean, found.by_learner
    (0.6, {'LogisticRegression': 0.5, 'RandomForest': 0.7})
    """

    scores: dict[str, dict[str, float]]
    skipped: tuple[str, ...]
    held_out: bool

    derived: ClassVar[tuple[str, ...]] = ("mean", "by_learner", "by_attribute")

    @property
    def mean(self) -> float:
        """Return the mean F1 score of classifiers over all target attributes and learners.

        Returns
        -------
        float
            In [0, 1]. NaN if every attribute was skipped. Private.
        """
        cells = [score for row in self.scores.values() for score in row.values()]
        return float(np.mean(cells)) if cells else float("nan")

    @property
    def by_learner(self) -> dict[str, float]:
        """Return the mean F1 score of each learner (classifier) over all target attributes.

        Returns
        -------
        dict of str to float
            Scores in [0, 1], by the name of the learner. Empty if every attribute was skipped.
            Private.
        """
        rows = list(self.scores.values())
        names = rows[0] if rows else ()
        return {name: float(np.mean([row[name] for row in rows])) for name in names}

    @property
    def by_attribute(self) -> dict[str, float]:
        """Return the mean F1 score of each target attribute over all learners (classifiers).

        Returns
        -------
        dict of str to float
            Scores in [0, 1], by the name of the attribute. Private.
        """
        return {name: float(np.mean(list(row.values()))) for name, row in self.scores.items()}

    def __str__(self) -> str:
        held = "held out" if self.held_out else "not held out from the generator"
        lines = [f"F1 over {len(self.scores)} targets, test rows {held}"]
        rows = {**self.by_learner, "mean": self.mean}.items()
        lines += column_lines([(name, f"{score:.3f}") for name, score in rows])
        if self.skipped:
            lines.append(f"  skipped, one value only: {', '.join(self.skipped)}")
        return "\n".join(lines)


def holdout(table: Table, *, random_state: int, share: float = 0.3) -> tuple[Table, Table]:
    """Split a private table at random into rows to fit a synthesizer on, and rows to test on.

    Scores on rows that the synthesizer never had are not too high. Rows keep their private status.

    Parameters
    ----------
    table : Table
        The true table. Private.
    random_state : int
        Seed of the split, at least 0.
    share : float, default 0.3
        Share of test rows, strictly between 0 and 1. Their number is rounded.

    Returns
    -------
    tuple of (Table, Table)
        Rows to fit on, and rows to pass as ``test`` to :func:`classifier_f1`. Both in random order.
        Private.

    Raises
    ------
    ParameterError
        If ``share`` is not between 0 and 1, or ``random_state`` is not valid.
    DataError
        If ``table`` is not a `Table`.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import holdout
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> fit, test = holdout(Table.from_codes(schema, {"a": [0, 1] * 5}), random_state=0)
    >>> len(fit), len(test)
    (7, 3)
    """
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise ParameterError(f"share must be between 0 and 1, not {share!r}")
    if not isinstance(table, Table):
        raise DataError("only a Table can be split. Use Table.read(data, schema)")
    random_state = check_integer("random_state", random_state, min_value=0)
    order = np.random.default_rng(random_state).permutation(len(table))
    size = round(share * len(table))
    return table.take(order[size:]), table.take(order[:size])


@one_blas_thread()
def classifier_f1(
    truth: Any,
    synthetic: Any,
    *,
    random_state: int,
    test: Any = None,
    schema: Schema | None = None,
    attributes: Iterable[str] | None = None,
    learners: Iterable[str] | Learners | None = None,
    max_rows: int = 5_000,
    progress: Progress | bool | None = None,
) -> ClassifierF1:
    """Score classifiers that are trained on synthetic rows and tested on true rows.

    Each classifier predicts one attribute from the others. Each attribute in turn is the target,
    split into two classes as balanced as possible in the truth. Rows in which the target is missing
    or not applicable are left out. Missing features have an indicator. Curator only: the result is
    exact, not private. Do not publish it without a mechanism (noise that is charged to a budget).

    Parameters
    ----------
    truth : Table, or any table or file that Table.read takes
        The private table. A frame or a file needs ``schema``, or a Table on the other side.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic table, with the attributes of the private table.
    random_state : int
        Seed of the row draws and of every learner, at least 0. A score does not depend on which
        other attributes and learners are requested.
    test : table, optional
        True rows that the synthesizer was not fitted on (see :func:`holdout`). Private. The default
        is 30 % of the truth, on which the synthesizer was probably fitted. Then scores are too
        high.
    schema : Schema, optional
        The declared domain of both tables. By default the schema of the first Table. Needed if
        neither is a Table.
    attributes : iterable of str, optional
        Target attributes. By default all attributes.
    learners : iterable of str or mapping of str to callable, optional
        Names of `LEARNERS` (by default both, which need the extra ``learners``), or other
        classifiers by name. Each callable takes a seed and returns a fresh classifier with ``fit``
        and ``predict``.
    max_rows : int, default 5000
        Largest number of rows to train on, and of rows to test on, at least 1. More rows are
        sampled at random.
    progress : callable or bool, optional
        Called with the name of a stage and the share that is done, in [0, 1]. True shows a bar.

    Returns
    -------
    ClassifierF1
        F1 score in [0, 1] for each target and learner. Targets with nothing to learn are named as
        skipped. Private.

    Raises
    ------
    ParameterError
        If a parameter has no valid value, a learner is unknown, or no table states a schema.
    DataError, SchemaError
        If a table has no rows to train on or to test on, or there is only one attribute. Also if a
        table does not fit the schema.
    MissingDependencyError
        If scikit-learn is not installed.

    References
    ----------
    Mohapatra, Zong, Kerschbaum, He (2024), "Differentially private data generation with missing
    data", PVLDB 17(8), section 6.1.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import classifier_f1
    >>> import numpy as np
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "ab"))
    >>> codes = np.arange(200) % 2
    >>> table = Table.from_codes(schema, {"a": codes, "b": codes})
    >>> classifier_f1(table, table, random_state=0, learners=("RandomForest",)).mean
    1.0
    """
    chosen = check_learners(learners)
    max_rows = check_integer("max_rows", max_rows)
    random_state = check_integer("random_state", random_state, min_value=0)
    real, made = align(truth, synthetic, schema)
    targets = _targets(real.schema, attributes)
    held = holdout(real, random_state=random_state)[1]
    if test is not None:
        held = align(real, test, None)[1]
    if not len(made) or not len(held):
        raise DataError("classifiers need rows to train on and rows to test on")
    train = _cap(made, max_rows, (random_state, 1))
    held = _cap(held, max_rows, (random_state, 2))
    with progress_callback(progress) as shown:
        scores = _scores(real, train, held, targets, chosen, random_state, shown)
    skipped = tuple(name for name in targets if name not in scores)
    return ClassifierF1(scores, skipped, held_out=test is not None)


def _scores(
    real: Table,
    train: Table,
    held: Table,
    targets: Sequence[str],
    chosen: Learners,
    random_state: int,
    progress: Progress | None,
) -> dict[str, dict[str, float]]:
    """Return the score of every learner on every target."""
    done, scores = 0, dict[str, dict[str, float]]()
    for name in targets:
        task, place = _task(real, train, held, name), real.schema.names.index(name)
        for learner, make in chosen.items():
            if task is not None:  # one seed for each target and learner, for any choice of others
                key = (random_state, 3, place, zlib.crc32(learner.encode()))
                seed = int(np.random.SeedSequence(key).generate_state(1)[0])
                scores.setdefault(name, {})[learner] = _score(make(seed), task)
            done += 1
            if progress is not None:
                progress("training classifiers", done / (len(targets) * len(chosen)))
    return scores


def _task(truth: Table, train: Table, test: Table, name: str) -> _Task | None:
    """Return features and classes to train on and to test on, if there is anything to learn."""
    attribute = truth.schema[name]
    counts = np.bincount(truth.codes(name), minlength=attribute.extended_size)[: attribute.size]
    positive = _balanced_split(attribute, counts)
    tables = [table.take(~table.mask(name)) for table in (train, test)]
    if positive is None or not len(tables[1]):
        return None
    others = [other for other in truth.schema.names if other != name]
    one, two = ((_features(t, others), positive[t.codes(name)].astype(np.int64)) for t in tables)
    return *one, *two


def _score(model: Any, task: _Task) -> float:
    not_converged = import_optional("sklearn.exceptions", purpose=_PURPOSE).ConvergenceWarning
    f1_score = import_optional("sklearn.metrics", purpose=_PURPOSE).f1_score
    train_x, train_y, test_x, test_y = task
    classes = np.unique(train_y)
    if len(classes) < 2:  # one class only: a constant guess
        guess = np.full(len(test_y), classes[0] if len(classes) else 0)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", not_converged)
            model.fit(train_x, train_y)
            guess = model.predict(test_x)
    return float(f1_score(test_y, guess, zero_division=0.0))


def _cap(table: Table, max_rows: int, key: tuple[int, int]) -> Table:
    if len(table) <= max_rows:
        return table
    rng = np.random.default_rng(key)
    return table.take(rng.choice(len(table), max_rows, replace=False))


def _targets(schema: Schema, attributes: Iterable[str] | None) -> tuple[str, ...]:
    if len(schema) < 2:
        raise DataError("classifiers need at least two attributes: one to predict from another")
    named = _each_once("target attribute", schema.names if attributes is None else attributes)
    return tuple(schema[name].name for name in named)


def _each_once(label: str, names: Iterable[str]) -> tuple[str, ...]:
    unique = names_of(f"{label}s", names)
    if not unique or len(set(unique)) != len(unique):
        raise ParameterError(f"name at least one {label}, each once")
    return unique
