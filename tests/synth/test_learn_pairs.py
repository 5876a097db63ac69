"""Estimates of the tables of all pairs from marginals and sums of products, and their noise."""

from dataclasses import replace

import numpy as np
import pytest

from missdp import Table
from missdp.accounting import Cost, Filter
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.model import Levels
from missdp.inference.product_sums import ClippingBias
from missdp.session import CountedRows, Noise, RowProducts, SeededNoise, Session
from missdp.sources import MemorySource, strategy_named
from missdp.synth.learn_pairs import (
    PairRelease,
    _block,
    _decoder,
    _plan_products,
    centred_blocks,
    measure_one_way,
)
from synth.tables import schema_of

ALONE = 1.6
SIZES = (3, 2, 4)
SCHEMA = schema_of(dict(zip("abc", SIZES, strict=True)), "ab")


def private(n=2000, seed=0):
    """Return a table of correlated levels, with missing values that depend on the levels."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    codes = {
        a.name: np.minimum((np.clip(hidden + 0.2 * rng.normal(size=n), 0, 1) * a.size), a.size - 1)
        for a in SCHEMA
    }
    codes = {name: c.astype(np.int64) for name, c in codes.items()}
    codes["a"][rng.random(n) < 0.5 * hidden] = 3
    codes["b"][rng.random(n) < 0.3] = 2
    return Table.from_codes(SCHEMA, codes)


def margins(table, amount, seed=0, missing="joint"):
    """A session with so much to spend, and the margins that took a tenth of it."""
    budget = Filter.from_cost(Cost(privacy_measure="gdp", amount=amount), delta=1e-6)
    noise = SeededNoise(seed)
    session = Session(
        CountedRows.from_source(MemorySource(table), strategy_named(missing)),
        budget=budget,
        noise=noise,
    )
    return session, measure_one_way(
        session, Noise.from_cost(Cost(privacy_measure="gdp", amount=0.1 * amount / 3)), {}
    )


def release(table, *, amount=1e6, clip=20.0, seed=0, missing="joint"):
    session, (one_way, _) = margins(table, amount, seed, missing)
    plan = RowProducts(
        dict(zip("abc", centred_blocks(one_way), strict=True)), clip=clip, first_order_weight=ALONE
    )
    return PairRelease(one_way, session.measure(plan, session.remaining).value, plan)


def truth(table):
    """Shares of all cells of every pair, "missing" included."""
    found = {}
    for i, a in enumerate("abc"):
        for j, b in enumerate("abc"):
            if i < j:
                shape = table.schema[a].extended_size, table.schema[b].extended_size
                cells = table.codes(a).astype(int) * shape[1] + table.codes(b)
                share = np.bincount(cells, minlength=shape[0] * shape[1]) / len(table)
                found[i, j] = share.reshape(shape)
    return found


def nothing(found):
    """As if clipping had taken nothing."""
    widths = [block.shape[1] for block in found.blocks]
    pairs = {(i, j): np.zeros((widths[i], widths[j])) for i in range(3) for j in range(i + 1, 3)}
    return ClippingBias([np.zeros(width) for width in widths], pairs)


@pytest.mark.parametrize(
    ("margin", "nullable"),
    [([0.2, 0.3, 0.5], False), ([0.2, 0.3, 0.5], True), ([1.0], False), ([0.9, 0.1], True)],
)
def test_blocks_of_deviations_are_taken_back_to_deviations(margin, nullable):
    margin = np.array(margin)
    size = len(margin) - nullable
    block = _block(margin, size)
    back = _decoder(block, size)
    for rows in (margin, np.eye(len(margin))[0], np.eye(len(margin))[-1]):
        moved = rows - margin  # sums to 0, as any difference of two laws
        assert back @ block.T @ moved == pytest.approx(moved, abs=1e-12)


def test_without_noise_the_tables_are_those_of_the_rows():
    table = private()
    found, wanted = release(table).initial_tables(), truth(table)
    for pair, cells in wanted.items():
        assert found.tables[pair] == pytest.approx(cells, abs=2e-3)
        ends = cells.sum(axis=1), cells.sum(axis=0)
        assert found.marginals[pair[0]] == pytest.approx(ends[0], abs=2e-3)
        assert found.marginals[pair[1]] == pytest.approx(ends[1], abs=2e-3)
        assert not np.allclose(cells, np.outer(*ends), atol=0.02)  # there is something to find
    assert found.rates.tolist() == pytest.approx(
        [wanted[0, 1][3].sum(), wanted[0, 1][:, 2].sum(), 0], abs=2e-3
    )


def test_counts_of_masks_tell_what_noise_hides_in_products():
    table = private()
    wanted = truth(table)[0, 1]
    quarters = len(table) * np.add.reduceat(np.add.reduceat(wanted, [0, 3], 0), [0, 2], 1)
    noisy = release(table, amount=0.05, seed=1)
    before, n = noisy.initial_tables(), noisy.rows
    masks = {(0, 1): quarters + 3.0}  # the same in all cells
    counted = replace(noisy.marginals, masks=masks, masks_std=1e-3)
    known = replace(noisy, marginals=counted)
    after = known.initial_tables()
    assert abs(before.tables[0, 1][3, 2] - wanted[3, 2]) > 0.02
    # The count from all quarters together.
    count = quarters[1, 1] + 3 + (n - (quarters + 3).sum()) / 4
    assert after.tables[0, 1][3, 2] == pytest.approx(count / n, abs=1e-6)
    assert after.variances[0, 1][3, 2] == pytest.approx(0.75 * (1e-3 / n) ** 2, rel=0.01)
    loose = replace(known, marginals=replace(counted, masks_std=1e6)).initial_tables()
    assert loose.tables[0, 1] == pytest.approx(before.tables[0, 1], abs=5e-3)
    # Values that are missing together do not occur with observed values.
    for axis in (0, 1):
        ends = after.marginals[0], after.marginals[1]
        assert after.tables[0, 1].sum(axis=1 - axis) == pytest.approx(ends[axis], abs=1e-6)
    assert known.restricted_to([1, 2]).marginals.masks == {}
    few = replace(counted, numbers=(False, True, True)).restricted_to([0, 1])
    assert few.masks[0, 1] is masks[0, 1]
    assert few.numbers == (False, True)
    again = known.redraw_noise(np.random.default_rng(0)).marginals.masks[0, 1] - masks[0, 1]
    assert 2e-4 < again.std() < 3e-3


def test_what_was_clipped_is_put_back_if_the_model_is_right():
    table = private()
    tight = release(table, clip=0.5)
    rows = np.stack([table.codes(name) for name in "abc"], axis=1).astype(np.int64)
    wanted = truth(table)
    found = tight.tables(tight.clipping_bias(rows))
    for pair, cells in wanted.items():
        assert found.tables[pair] == pytest.approx(cells, abs=2e-3)
    biased = tight.tables(nothing(tight))  # the test has power
    assert max(np.abs(biased.tables[p] - wanted[p]).max() for p in wanted) > 0.02


def test_variances_are_those_of_the_noise():
    table = private(1000)
    rows = np.stack([table.codes(name) for name in "abc"], axis=1).astype(np.int64)
    noisy = [release(table, amount=0.3, clip=3.0, seed=s) for s in range(60)]
    drawn = [one.tables(one.clipping_bias(rows)) for one in noisy]
    wanted = truth(table)
    for pair, cells in wanted.items():
        error = np.array([d.tables[pair] - cells for d in drawn])
        # The variances exclude the errors that the marginals determine, so the test removes them.
        shape = [SIZES[v] for v in pair]
        inner = error[:, : shape[0], : shape[1]]
        centred = inner - inner.mean(axis=1, keepdims=True) - inner.mean(axis=2, keepdims=True)
        centred = centred + inner.mean(axis=(1, 2), keepdims=True)
        claimed = np.mean([d.variances[pair][: shape[0], : shape[1]] for d in drawn], axis=0)
        assert np.square(centred).mean() / claimed.mean() == pytest.approx(1.0, abs=0.25)
    holes = np.array([d.tables[0, 1][3, 2] - wanted[0, 1][3, 2] for d in drawn])
    claimed = np.mean([d.variances[0, 1][3, 2] for d in drawn])
    assert holes.var() / claimed == pytest.approx(1.0, abs=0.5)


def test_a_rate_of_holes_that_noise_explains_is_none():
    full = private(1000)
    codes = {name: np.minimum(full.codes(name), full.schema[name].size - 1) for name in "abc"}
    table = Table.from_codes(SCHEMA, {n: c.astype(np.int64) for n, c in codes.items()})
    rates = np.array([release(table, amount=0.3, seed=s).initial_tables().rates for s in range(20)])
    assert (rates[:, :2] == 0).mean() > 0.85  # one-sided, at two standard deviations
    assert (rates[:, 2] == 0).all()
    assert release(private(1000), amount=0.3).initial_tables().rates[:2].min() > 0.1


@pytest.mark.parametrize("missing", ["observed", "complete-rows"])
def test_rows_are_counted_that_the_strategy_reads(missing):
    table = private()
    _, (found, total) = margins(table, 1e3, missing=missing)
    complete = ~(table.mask("a") | table.mask("b"))
    wanted = complete.sum() if missing == "complete-rows" else len(table)
    assert total.value == pytest.approx(wanted, abs=3)
    observed = found.one_way[0][:3] / found.one_way[0][:3].sum()
    rows = complete if missing == "complete-rows" else ~table.mask("a")
    share = np.bincount(table.codes("a")[rows], minlength=3)[:3] / rows.sum()
    assert observed == pytest.approx(share, abs=5e-3)


@pytest.mark.parametrize(("rows", "factor"), [(1000.0, 1.0), (250.0, 2.0), (1.0, 8.0)])
def test_margins_get_more_of_a_vector_where_rows_are_few_for_the_noise(rows, factor):
    levels = tuple(Levels.from_counts(np.full(size, 100.0), threshold=0.0) for size in SIZES)
    margins = tuple(np.full(size, 1 / size) for size in SIZES)
    one_way = NoisyMarginals(levels, margins, 1.0, rows, (False,) * len(SIZES))
    for mu in (1.0, 0.5):  # a rule about rows times mu
        few = replace(one_way, rows=rows / mu) if rows > 1 else one_way
        for clip in ("auto", 2.0):
            plan = _plan_products("abc", few, Cost(privacy_measure="gdp", amount=mu**2), clip=clip)
            assert plan.first_order_weight == pytest.approx(ALONE * factor)
