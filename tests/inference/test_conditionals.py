"""The law of each attribute given all others: right, exact in every bit, numbers only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.graphs import CHAIN as SIZES
from inference.graphs import chain as rows
from missdp.errors import ParameterError
from missdp.inference.conditionals import Conditionals, Factors, fit_conditionals
from missdp.inference.model import Levels
from refusing import refuses

LAWS = fit_conditionals(rows(), SIZES)


@pytest.mark.parametrize("hidden", [(0, 2), (1, 2), (2,), (0, 1, 2)])
def test_laws_given_some_are_those_of_the_rows(hidden):
    drawn = rows(200_000, seed=1)
    told = np.where(np.isin(np.arange(3), hidden), SIZES, drawn)
    for a in hidden:
        law = LAWS.given_some.of(a, told)
        groups = told @ [20, 5, 1]
        for group in np.unique(groups):
            here = groups == group
            right = np.bincount(drawn[here, a], minlength=SIZES[a]) / here.sum()
            np.testing.assert_allclose(law[here][0], right, atol=0.12)


def test_what_is_impossible_is_not_drawn_unless_nothing_else_is_possible():
    never = np.zeros((2, 3), dtype=bool)
    never[0, 1] = True
    both = fit_conditionals(rows(), SIZES, impossible={(0, 1): never})
    for laws in (both.given_all, both.given_some):
        assert laws.of(0, np.array([[2, 1, 0]]))[0, 0] < 1e-50
        assert laws.of(1, np.array([[0, 3, 0]]))[0, 1] < 1e-50
    table = {(a, 11): np.ones((2, 2), dtype=bool) for a in range(11)}
    laws = fit_conditionals(np.zeros((4, 12), dtype=np.int64), [2] * 12, impossible=table)
    law = laws.given_all.of(11, np.zeros((1, 12), dtype=np.int64))
    assert np.isfinite(law).all()
    assert law.sum() == pytest.approx(1)
    for n in (0, 1):  # hardly any rows still make laws
        law = fit_conditionals(rows()[:n], SIZES).given_some.of(2, np.array([[0, 0, 4]]))
        assert law.shape == (1, 4)
        assert (law > 0).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 2))
def test_a_law_is_bit_by_bit_that_of_the_row_alone(seed, n, a):
    rng = np.random.default_rng(seed)
    many = np.stack([rng.integers(0, size + 1, n) for size in SIZES], axis=1)
    for laws in (LAWS.given_all, LAWS.given_some):
        together = laws.of(a, many)
        order = rng.permutation(n)
        assert (laws.of(a, many[order]) == together[order]).all()
        for i in range(n):
            assert (laws.of(a, many[i : i + 1])[0] == together[i]).all()


class Looking(Factors):
    of = None


def test_a_fixed_copy_does_what_its_numbers_say_and_cannot_be_changed():
    some = LAWS.given_some
    looking = Looking(some.levels, some.odds, some.factors)
    fixed = Conditionals.fixed(Conditionals(LAWS.order, LAWS.given_all, looking), SIZES)
    assert type(fixed.given_some) is Factors
    row = np.array([[0, 0, 4]])
    assert (fixed.given_some.of(2, row) == some.of(2, row)).all()
    with pytest.raises(ValueError, match="read-only"):
        fixed.given_all.odds[0][0] = 3.0


ODDS, LEVELS = LAWS.given_all.odds, LAWS.given_all.levels
WRONG = [{"order": order} for order in ((0, 1), (0, 1, 1))]
WRONG += [{"odds": (*ODDS[:2], last)} for last in (np.zeros(4), np.full(4, np.nan))]
WRONG += [{"odds": ODDS[:2]}, {"odds": ("a", "b", "c")}, {"factors": 3}, {"given_some": None}]
WRONG += [{"factors": {pair: np.ones((4 if pair[1] else 3, 2))}} for pair in ((0, 0), (0, 7))]
WRONG += [{"factors": {(0, 1): one}} for one in (np.ones((3, 2)), -np.ones((4, 2)))]
WRONG += [{"factors": {(0, 1): np.full((4, 2), np.inf)}}, {"levels": LEVELS[:2]}]
WRONG += [{"levels": (*LEVELS[:2], Levels(np.array([0, 2, 3, 4]), np.ones(4)))}]
WRONG += [{"levels": (*LEVELS[:2], Levels(np.arange(4), np.array([0.0, 1, 1, 1])))}]


@pytest.mark.parametrize("change", WRONG)
def test_what_are_no_laws_of_the_attributes_is_refused(change):
    whole = {"order": LAWS.order, "given_all": LAWS.given_all, "given_some": LAWS.given_some}
    parts = {k: v for k, v in change.items() if k in ("odds", "factors", "levels")}
    with refuses(ParameterError, "distributions must match the attributes|is of the wrong type"):
        if parts:
            plain = {"levels": LEVELS, "odds": ODDS, "factors": {}}
            change = {"given_all": Factors(**{**plain, **parts})}
        Conditionals.fixed(Conditionals(**{**whole, **change}), SIZES)


@pytest.mark.long
def test_rare_levels_of_long_lists_are_merged_and_drawn_in_their_shares():
    rng = np.random.default_rng(0)
    common = rng.integers(0, 2, 20_000)
    rare = rng.choice(np.arange(2, 200), 20_000, p=np.arange(198, 0, -1) / (99 * 199))
    long = np.where(rng.random(20_000) < 0.3, rare, common)
    both = np.stack([long, (long == 1).astype(int)], axis=1)
    laws = fit_conditionals(both, [200, 2])
    assert laws.sizes == (200, 2)
    assert 3 < laws.given_all.levels[0].n_groups < 150
    law = laws.given_all.of(0, np.array([[200, 0]]))[0]
    shares = np.bincount(long[both[:, 1] == 0], minlength=200) / (both[:, 1] == 0).sum()
    np.testing.assert_allclose(law, shares, atol=0.01)
    assert laws.given_all.of(1, np.array([[1, 2], [199, 2]])).argmax(axis=1).tolist() == [1, 0]
