"""Points in a relation to each query are counted as by looking at every pair, and sooner."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.errors import ParameterError
from missdp.inference.dominance import MOST_DIFFERENT, related

SIGNS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def by_hand(points, queries, signs):
    found = np.ones((len(queries[0]), len(points[0])), dtype=bool)
    for one, two, sign in zip(points, queries, signs, strict=True):
        found &= SIGNS[sign](two[:, np.newaxis], one[np.newaxis])
    return found.sum(axis=1)


@st.composite
def cases(draw):
    signs = draw(st.lists(st.sampled_from(list(SIGNS)), min_size=1, max_size=6))
    n, m = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    values = draw(st.sampled_from([1, 2, 5, 1000]))  # all equal, many ties, hardly any
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([np.int64, np.float64]))
    points = [rng.integers(0, values, n).astype(kind) for _ in signs]
    queries = [rng.integers(-1, values + 1, m).astype(kind) for _ in signs]
    return points, queries, signs


@settings(max_examples=150)
@given(cases())
def test_points_are_counted_as_by_hand(case):
    assert related(*case).tolist() == by_hand(*case).tolist()


def test_numbers_that_hardly_differ_are_told_apart():
    one = np.array([0.1 + 0.2, 0.3, np.nextafter(0.3, 1), -1e300, 1e300])
    for sign in SIGNS:
        assert (
            related((one,), (one,), (sign,)).tolist() == by_hand((one,), (one,), (sign,)).tolist()
        )


def test_what_cannot_be_counted_is_refused():
    one = np.zeros(2)
    for signs, why in (
        (("=",), "by ..=.."),
        ((), "there is one"),
        (("==", "=="), "there is one"),
        (("!=",) * (MOST_DIFFERENT + 1), "at most"),
    ):
        columns = (one,) * (1 if why == "there is one" else len(signs))
        with pytest.raises(ParameterError, match=why):
            related(columns, columns, signs)
