"""Rows are filled one by one: what a row becomes is a function of it, of laws, and of its draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.inference.conditionals import fit_conditionals
from missdp.schema import Categorical, NotApplicable, Schema
from missdp.sources import MemorySource
from missdp.sources.filling import (
    DRAWS,
    ROWS_AT_ONCE,
    _fill_codes,
    _fill_modelled,
    filled_given_all,
)
from missdp.sources.modelled import Modelled
from missdp.table import Table

SIZES = (2, 3, 4)
PLAIN = Schema(
    tuple(
        Categorical(name=n, levels=tuple(range(s)), nullable=True)
        for n, s in zip("abc", SIZES, strict=True)
    )
)


def complete(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(0, 3, n))
    return np.stack([a, b, np.where(rng.random(n) < 0.5, b, rng.integers(0, 4, n))], axis=1)


LAWS = fit_conditionals(complete(), SIZES)


def holey(rng, n, rate=0.4):
    rows = complete(n, int(rng.integers(2**32)))
    return np.where(rng.random(rows.shape) < rate, SIZES, rows)


@settings(max_examples=80)
@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.sampled_from(["random", "likely"]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_what_a_row_becomes_depends_on_nothing_else(seed, n, filling, rate):
    rng = np.random.default_rng(seed)
    rows, uniforms = holey(rng, n, rate), rng.random((n, DRAWS, 3))
    uniforms[rng.random(uniforms.shape) < 0.2] = rng.choice([0.0, np.nextafter(1.0, 0.0)])

    def fill(r, u):
        return _fill_codes(LAWS, r, u, filling=filling)

    found, hole = fill(rows, uniforms), rows == SIZES
    assert (found[~hole] == rows[~hole]).all()
    assert (found < SIZES).all()
    order = rng.permutation(n)  # in another order
    assert (fill(rows[order], uniforms[order]) == found[order]).all()
    one = int(rng.integers(n))  # without one, and beside another: neighbours
    rest = np.delete(np.arange(n), one)
    assert (fill(rows[rest], uniforms[rest]) == found[rest]).all()
    changed = rows.copy()
    if seed % 2:  # differing in holes alone
        changed[one] = np.where(changed[one] == SIZES, 0, SIZES)
    else:
        changed[one] = holey(rng, 1)[0]
    assert (fill(changed, uniforms)[rest] == found[rest]).all()


def test_holes_have_their_law_given_the_rest():
    n = 60_000
    rng = np.random.default_rng(0)
    rows = complete(n, 1)
    lost = np.where(rng.random(rows.shape) < 0.5, SIZES, rows)
    found = _fill_codes(LAWS, lost, rng.random((n, DRAWS, 3)))
    for a, c in ((0, 1), (0, 2), (1, 2)):
        shape = (SIZES[a], SIZES[c])
        told, true = (
            np.bincount(r[:, a] * shape[1] + r[:, c], minlength=shape[0] * shape[1]) / n
            for r in (found, rows)
        )
        assert np.abs(told - true).sum() / 2 < 0.03


@pytest.mark.parametrize("filling", ["random", "likely"])
def test_a_level_that_is_never_drawn_is_not(filling):
    rows = np.full((400, 3), SIZES)
    uniforms = np.random.default_rng(0).random((400, DRAWS, 3))
    found = _fill_codes(LAWS, rows, uniforms, never={1: 2, 2: 0}, filling=filling)
    assert not (found[:, 1] == 2).any()
    assert not (found[:, 2] == 0).any()
    sure = fit_conditionals(np.zeros((9, 1), dtype=np.int64), [2])
    alone = _fill_codes(sure, np.array([[2]]), np.full((1, DRAWS, 1), 0.5), never={0: 0})
    assert alone.tolist() == [[1]]


def test_rows_of_a_source_are_filled_in_blocks_with_random_numbers_row_by_row():
    n = ROWS_AT_ONCE + 50
    rng = np.random.default_rng(0)
    rows = holey(rng, n)
    tables = [
        Table.from_codes(PLAIN, dict(zip("abc", part.T, strict=True)))
        for part in (rows, rows[:-30], np.vstack([rows[:20], rows[:1], rows[21:]]))
    ]
    found = []
    for table in tables:
        seeded = np.random.default_rng(5)
        source = filled_given_all(MemorySource(table), LAWS, seeded, Modelled(PLAIN))
        found.append(np.stack([source.table.codes(name) for name in "abc"], axis=1))
    assert not source.schema.nullable
    assert (found[1] == found[0][:-30]).all()
    assert (np.delete(found[2], 20, axis=0) == np.delete(found[0], 20, axis=0)).all()


JOBS = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True),
        Categorical(name="old", levels=("no", "yes"), nullable=True),
        Categorical(name="hours", levels=("few", "many"), nullable=True),
    ),
    rules=(NotApplicable("hours", unless="work = 'yes' and old = 'yes'"),),
)


def test_what_is_not_applicable_is_so_where_rules_say_and_nowhere_else():
    rng = np.random.default_rng(0)
    n, modelled = 4000, Modelled(JOBS)
    work, old = rng.integers(0, 2, (2, n))
    applies = (work == 1) & (old == 1)
    hours = np.where(applies, rng.random(n) < 0.7, 2).astype(np.int64)
    rows = np.stack([work, old, hours], axis=1)
    sizes = [a.size for a in modelled.schema]
    assert sizes == [2, 2, 3]
    laws = fit_conditionals(rows, sizes)
    lost = np.where(rng.random(rows.shape) < 0.6, sizes, rows)
    found = _fill_modelled(laws, lost, rng.random((n, DRAWS, 3)), modelled)
    kept = lost[:, 2] == 2  # observed to be not applicable
    here = (found[:, 0] == 1) & (found[:, 1] == 1)
    lacking = here & (found[:, 2] == 2)
    assert not (lacking & ~kept).any()
    both = np.isin(lost[:, 0], (2,)) & np.isin(lost[:, 2], (3,))
    assert 0.35 < (found[both, 0] == 0).mean() < 0.65  # the hole did not rule that out
