"""Whatever a fit shows was released: answers of one table, repeated for a fit on another one.

The answers of the door are kept during a fit, and repeated, in their order, during a fit on another
table. Every outcome (model, samples, saved file, progress, warnings) must be the same, bit by bit:
what differs came from the rows by another way.
"""

import copy
import warnings
from typing import Any

import numpy as np
import pytest

from missdp import Schema, Table
from missdp.errors import ParameterError
from missdp.mechanisms import Noise, Score, Witness
from synth.conformance import CASES, IDS, SCHEMA, make_frame
from synth.worked_example import Independent


class Different(Exception):  # noqa: N818
    """A question depends on the rows."""


class Tape(Witness):
    """Keep answers in their order with the questions they answer, or repeat what was kept."""

    def __init__(self):
        super().__init__(0)
        self.kept: list[tuple[Any, Any]] = []
        self.position = None
        self.reads = True

    def __deepcopy__(self, memo):
        return self

    def answer(self, event, law, exact):
        return copy.copy(
            self._next((event, law), lambda: super(Tape, self).answer(event, law, exact), exact)
        )

    def generator(self):
        seed = self._next("generator", lambda: int(np.random.default_rng().integers(2**62)), None)
        return np.random.default_rng(seed)

    def _next(self, question, compute, exact):
        if self.position is None:
            self.kept.append((question, compute()))
            return self.kept[-1][1]
        if self.reads and exact is not None:
            exact()  # and forgotten: what a score carries away is then this table's
        asked, answer = self.kept[self.position]
        if asked != question:
            raise Different
        self.position += 1
        return answer


def outcome(model, table, path):
    """Everything that anyone sees of a fit."""
    progress = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.set_params(progress=lambda *shown: progress.append(shown)).fit(table)
    model.save(path)
    kept = ("fill", "keep") if model.missing == "joint" else ("fill",)
    samples = [model.sample(60, missing_values=k, random_state=3).to_csv() for k in kept]
    said = [str(w.message) for w in warned] + [repr(model.set_params(progress=None))]
    public = {k: repr(v) for k, v in vars(model).items() if k not in model.get_params()}
    public = {k: v for k, v in public.items() if " object at 0x" not in v}
    return path.read_text(), samples, model.sample(random_state=4).shape, progress, said, public


def interferes(tmp_path, model, one, other):
    """Whether a fit shows more of the rows than it was answered."""
    tape = Tape()
    model.set_params(random_state=tape)
    first = outcome(model, one, tmp_path / "m.json")
    tape.position = 0
    try:
        second = outcome(model, other, tmp_path / "m.json")
    except Different:
        return True
    return first != second or tape.position != len(tape.kept)


def tables(schema: Schema = SCHEMA):
    frame = make_frame(300, seed=1).assign(score=0.1)
    return Table.read(make_frame(400), schema), Table.read(frame, schema)


@pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
def test_what_a_fit_shows_was_released(family, strategy, tmp_path):
    model = family.build(epsilon=1.0, missing=strategy, **family.options)
    one, other = tables()
    assert not interferes(tmp_path, model, one, other)


@pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_repeated_answers_read_nothing(family, strategy, monkeypatch):
    model = family.build(epsilon=1.0, missing=strategy, **family.options)
    tape = Tape()
    model.set_params(random_state=tape)
    model.fit(Table.read(make_frame(0), SCHEMA))
    tape.position, tape.reads = 0, False

    def read(*_, **__):
        raise AssertionError("rows were counted without an answer")

    monkeypatch.setattr("missdp.sources.MemorySource.counts", read)
    model.fit(tables()[1])
    assert tape.position == len(tape.kept)


class Counting(Independent):
    """Publishes the exact counts of an attribute."""

    def _fit(self, door):
        total = super()._fit(door)
        self.counts_["score"] = next(door._counts.each([("score",)]))[1]
        return total


class Telling(Independent):
    """Warns of an attribute that is constant in the private rows."""

    def _fit(self, door):
        total = super()._fit(door)
        if np.count_nonzero(next(door._counts.each([("score",)]))[1]) == 1:
            warnings.warn("the attribute is constant", stacklevel=1)
        return total


SEEN = []


def noting(counts):
    SEEN.append(float(counts.max()))
    return 0.0


class Noting(Independent):
    """Carries a count out of a score."""

    def _fit(self, door):
        door.select([("score",)], Score(noting, sensitivity=1.0), epsilon=1e-3)
        total = super()._fit(door)
        self.counts_["score"][0] = SEEN[-1]
        return total


class Choosing(Independent):
    """Chooses its noise by the private number of rows."""

    def _fit(self, door):
        scale = 40.0 + next(door._counts.each([("score",)]))[1].sum()
        door.marginal(("score",), Noise("laplace", float(scale)))
        return super()._fit(door)


@pytest.mark.parametrize("leaky", [Counting, Telling, Noting, Choosing])
def test_a_family_that_leaks_is_found(leaky, tmp_path):
    assert interferes(tmp_path, leaky(epsilon=1.0), *tables())


def score_with_default(counts, kept=[]):  # noqa: B006
    kept.append(counts)
    return 0.0


def test_a_score_is_a_plain_function():
    kept = []

    class Method:
        def score(self, counts):
            self.kept = counts
            return 0.0

    for bad in (lambda c: float(kept.append(c) or 0), Method().score, score_with_default, len):
        with pytest.raises(ParameterError, match="plain function"):
            Score(bad, sensitivity=1.0)


def write(counts, target):
    target[0] = counts[0]
    return 0.0


def test_a_score_cannot_write_where_it_is_given_something():
    counts, target = np.arange(3), np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        Score(write, sensitivity=1.0).of(counts, (target,))
    with pytest.raises(ParameterError, match="arrays, numbers"):
        Score(write, sensitivity=1.0).of(counts, ([0],))
