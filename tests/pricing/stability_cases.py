"""Pairs of tables, and each step with the tightest collection parameters a pair allows."""

from functools import cache, partial

import numpy as np
import pandas as pd
from table_distances import distance_between

from missdp import AllPairs, Numeric, Schema
from missdp import pricing as mp
from missdp.pricing.domain import clip_rows


def random_rows(rng, n, d):
    """Rows in the unit ball: corners, clusters, coarse grids and plain Gaussians."""
    kind = rng.integers(4)
    if kind == 0:
        rows = rng.choice([-1.0, 0.0, 1.0], size=(n, d))
    elif kind == 1:
        rows = rng.normal(size=(4, d))[rng.integers(4, size=n)] + 0.05 * rng.normal(size=(n, d))
    elif kind == 2:
        rows = rng.integers(-4, 5, size=(n, d)) / 4
    else:
        rows = rng.normal(size=(n, d)) * rng.uniform(0.1, 1.5, size=d)
    return clip_rows(rows, 1.0)


def complete_pair(seed, *, replaced=1, moving=False, d=None):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 30)), int(rng.integers(1, 4)) if d is None else d
    x = random_rows(rng, n, d)
    y = x.copy()
    y[rng.choice(n, replaced, replace=False)] = random_rows(rng, replaced, d)
    if moving:
        chosen = rng.choice(n, int(rng.integers(1, n)), replace=False)
        size = 10 ** rng.uniform(-3, -0.5)
        y[chosen] = clip_rows(y[chosen] + size * rng.normal(size=(chosen.size, d)), 1.0)
    return x, y


def incomplete_pair(seed, *, replaced=1, moving=False, d=None, target=False):
    """A pair with equal masks except in replaced rows, or (``target``) only in column 0."""
    rng = np.random.default_rng(seed)
    x, y = complete_pair(int(rng.integers(2**32)), replaced=replaced, moving=moving, d=d)
    n, d = x.shape
    rows = rng.choice(n, int(rng.integers(1, n // 3 + 1)), replace=False)
    mask = np.zeros((n, d), dtype=bool)
    mask[rows] = rng.random((rows.size, d)) < 0.6
    far = np.sqrt(((x - y) ** 2).sum(axis=1))
    changed = np.argsort(far)[::-1][:replaced]
    other = mask.copy()
    other[changed] = rng.random((replaced, d)) < 0.5
    mask[changed] = rng.random((replaced, d)) < 0.5
    if target:
        mask[:, 1:] = other[:, 1:] = False
    return np.where(mask, np.nan, x), np.where(other, np.nan, y)


def extreme_pair(seed, *, replaced=1, moving=False, d=None, is_missing=True):
    """Tables at the edge of a collection: tiny, tied, constant, next to nothing observed.

    Every observed cell may be in the replaced rows. Columns may be missing altogether. Half of the
    replaced rows differ in their missing cells.
    """
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 8)), int(rng.integers(1, 4)) if d is None else d
    values = [0.0, -1.0, 1.0, 0.5][: int(rng.integers(1, 5))]
    rows = rng.choice(values, size=(n, d)) if rng.random() < 0.7 else random_rows(rng, n, d)
    x = clip_rows(rows, 1.0)
    y, changed = x.copy(), rng.choice(n, min(replaced, n), replace=False)
    y[changed] = clip_rows(rng.choice([-1.0, 0.0, 1.0], size=(changed.size, d)), 1.0)
    if moving:
        y = clip_rows(y + rng.choice([0.0, 1e-3, 0.3]) * rng.normal(size=(n, d)), 1.0)
    if not is_missing:
        return x, y
    mask = rng.random((n, d)) < rng.choice([0.2, 0.9, 1.0])
    mask[changed] = rng.random((changed.size, d)) < rng.choice([0.0, 0.5])
    other = mask.copy()
    if rng.random() < 0.5:
        other[changed] = rng.random((changed.size, d)) < 0.5
    return np.where(mask, np.nan, x), np.where(other, np.nan, y)


def distance_of(pair, replaced):
    return distance_between(*pair, replaced=replaced)


def incomplete(pair):
    return max(1, max(int(np.isnan(t).any(axis=1).sum()) for t in pair))


def _domain(pair, **facts):
    return mp.RowDomain(rows=pair[0].shape[0], columns=pair[0].shape[1], **facts)


def _columns(pair):
    return [np.sort(c[~np.isnan(c)]) for t in pair for c in t.T]


def _case(name, make, **facts):
    def case(pair):
        return make(pair), _domain(pair, **facts)

    case.__name__ = name
    return case


def _mean(pair, **more):
    return mp.MeanImputer(max_incomplete=incomplete(pair), **more)


def _cluster(kind, pair):
    return kind(eta=0.1, max_cluster=max(_largest_cluster(t, 0.1) for t in pair))


def median_case(pair):
    ranks, gaps = 5, [0.0]
    for column in _columns(pair):
        middle = (column.size - 1) / 2
        for i, gap in enumerate(np.diff(column)):
            # The gap between ranks i and i + 1 (from 0) touches the window around the middle.
            if min(abs(i - middle), abs(i + 1 - middle)) <= ranks:
                gaps.append(float(gap))
    facts = {"central_gap": max(gaps), "central_ranks": ranks}
    step = mp.MedianImputer(max_incomplete=incomplete(pair), **facts)
    return step, _domain(pair, complete=False)


def trimmed_case(pair, trim=2):
    spans = [float(c[-trim] - c[trim - 1]) for c in _columns(pair) if c.size >= 2 * trim]
    facts = {"trim": trim, "trimmed_range": max([0.0, *spans])}
    step = mp.TrimmedMeanImputer(max_incomplete=incomplete(pair), **facts)
    return step, _domain(pair, complete=False)


def regression_case(pair):
    lower = []
    for table in pair:
        X = np.nan_to_num(table[~np.isnan(table[:, 0])][:, 1:], nan=0.0)
        lower.append(float(np.linalg.eigvalsh(X.T @ X / table.shape[0])[0]))
    ridge, lower = 0.05 if min(lower) < 0.02 else 0.0, max(0.0, min(lower)) * (1 - 1e-9)
    facts = {"target": 0, "regularization": ridge, "min_eigenvalue": lower}
    step = mp.RegressionImputer(max_incomplete=incomplete(pair), **facts)
    return step, _domain(pair, complete=False)


@cache
def model_of(d):
    names = "abc"[:d]
    facts = [Numeric(name=n, lower=-1, upper=1, bins=4, nullable=True) for n in names]
    rng = np.random.default_rng(d)
    rows = rng.uniform(-1, 1, (400, 1)) + 0.2 * rng.normal(size=(400, d))
    frame = pd.DataFrame(np.clip(rows, -1, 1), columns=list(names))
    return AllPairs(epsilon=5.0, delta=1e-6, random_state=0).fit(frame, schema=Schema(tuple(facts)))


def model_case(pair):
    step = mp.DPImputer(model=model_of(pair[0].shape[1]), random_state=1)
    return step, _domain(pair, complete=False)


def neighbours_case(pair):
    k, upper = max(1, min(3, len(pair[0]) - incomplete(pair))), 0
    for table in pair:
        missing = np.isnan(table)
        donors = table[~missing.any(axis=1)]
        used = np.zeros(donors.shape[0], dtype=int)
        for row, is_missing in zip(table, missing, strict=True):
            if is_missing.any():
                gaps = ((donors[:, ~is_missing] - row[~is_missing]) ** 2).sum(axis=1)
                used[np.argsort(gaps, kind="stable")[:k]] += 1
        upper = max(upper, int(used.max(initial=0)))
    step = mp.NeighbourImputer(n_neighbors=k, max_incomplete=incomplete(pair), max_donations=upper)
    return step, _domain(pair, complete=False)


def standard_case(pair):
    lower = min(float(t.std(axis=0).min()) for t in pair)
    return mp.StandardScaler(min_std=max(lower, 0.05) * (1 - 1e-9)), _domain(pair)


def min_max_case(pair):
    ranks, columns = 3, _columns(pair)
    gap = max(
        float(np.diff(c)[part].max()) for c in columns for part in (slice(3), slice(-3, None))
    )
    lower = max(min(float(np.ptp(c)) for c in columns), 1e-3)
    facts = {"min_range": lower, "extreme_gap": gap, "extreme_ranks": ranks}
    return mp.MinMaxScaler(**facts), _domain(pair)


def _gap(table, k, moment):
    rows = table - table.mean(axis=0) if moment == "covariance" else table
    matrix = rows.T @ rows / (len(rows) - (moment == "covariance"))
    values = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    return float(values[k - 1] - values[k])


def pca_case(pair, moment="covariance"):
    lower = min(_gap(t, 1, moment) for t in pair) * (1 - 1e-9)
    step = mp.PCARankReducer(n_components=1, min_gap=max(lower, 1e-6), moment=moment)
    return step, _domain(pair)


def pca_second_case(pair):
    return pca_case(pair, "second")


def pca_dimension_case(pair):
    lower = min(_gap(t, 1, "covariance") for t in pair) * (1 - 1e-9)
    largest = [np.linalg.eigh(np.cov(t.T))[1][:, -1] for t in pair]
    overlap = max(min(abs(float(vector[0])) for vector in largest), 1e-6) * (1 - 1e-9)
    facts = {"n_components": 1, "min_gap": max(lower, 1e-6), "min_overlap": overlap}
    return mp.PCADimensionReducer(**facts), _domain(pair)


def _largest_cluster(table, eta):
    gaps = np.sqrt(((table[:, None] - table[None]) ** 2).sum(axis=2))
    near, wide = (gaps <= eta).sum(axis=1), (gaps <= 3 * eta).sum(axis=1)
    return int(near[near == wide].max(initial=1))


mean_case = _case("mean", _mean, complete=False)
mean_one_cell_case = _case("one cell", partial(_mean, cells_per_row=1), complete=False)
constant_case = _case("constant", lambda _: mp.ConstantImputer(value=-0.5), complete=False)
clip_case = _case("clip", lambda _: mp.RowClipper(radius=0.3), complete=False)
standard_floor_case = _case("floor", lambda _: mp.StandardScaler(min_std=0.4, below="floor"))
deduplicate_case = _case("deduplicate", partial(_cluster, mp.Deduplicator))
quantize_case = _case("quantize", partial(_cluster, mp.Quantizer))
