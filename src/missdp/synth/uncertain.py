"""Models that vary by the uncertainty of a released model, for several synthetic tables.

A statistic ``y`` was released with noise of variance ``v``, and shrunk by a prior of variance
``t``. The posterior of the private table is ``N(f y, f v)`` with ``f = t / (t + v)``. A table with
new noise that is shrunk again would vary by ``f² v`` only. This is too little if relations are
weak. So each draw is the sum of three terms. The first is ``f y``. The second is ``√f`` times the
difference that new noise makes. The third is the difference that other rows of the population, with
other missing values, make. It is not shrunk. Then a model is fitted to the sum, which must not be
shrunk again.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from missdp.errors import ParameterError
from missdp.inference.completion import ModelFacts, PairTables, complete_with_rows
from missdp.inference.conditional_models import Pair
from missdp.inference.fit_conditional_models import fit_conditional_models
from missdp.inference.model import cell_index
from missdp.inference.models import PairModel, targets
from missdp.inference.smoothing import Smoothing
from missdp.session.strategies import strategy_named
from missdp.synth.fitted import Fitted
from missdp.synth.learn_pairs import PairRelease, model_facts, released_covariances
from missdp.types import Clique, Floats, Ints

_ROWS = 20_000  # rows of the model that represent the private rows
_FEWER = 6_000  # rows with which tables are completed


def resample_pairs(fitted: Fitted, rng: np.random.Generator) -> Iterator[PairModel]:
    """Return an endless iterator of models that vary around the model of a fit.

    Parameters
    ----------
    fitted : Fitted
        Has a `PairModel`, and the tables to which it was fitted.
    rng : numpy.random.Generator
        Draws the variation.

    Returns
    -------
    iterator of PairModel
        Released models.

    Raises
    ------
    ParameterError
        If missing cells were filled before rows were counted.
    """
    strategy = strategy_named(fitted.parameters["missing"])
    if strategy.fills:
        raise ParameterError(
            "missing='impute-first' fills values before rows are counted, so the uncertainty of "
            "these values is unknown. Fit with missing='joint'."
        )
    release, selective = PairRelease.of(fitted.tables), strategy.models_missingness
    facts = model_facts(fitted.modelled, release.levels, selective=selective)
    return posterior_models(release, fitted.model, facts, rng, design=fitted.design)


def posterior_models(
    release: PairRelease,
    model: PairModel,
    facts: ModelFacts,
    rng: np.random.Generator,
    *,
    design: float,
) -> Iterator[PairModel]:
    """Yield models that vary around a fitted model, without end.

    Parameters
    ----------
    release : PairRelease
        The release to which the model was fitted.
    model : PairModel
        The fitted model.
    facts : ModelFacts
        Public facts, and released levels.
    rng : numpy.random.Generator
        Draws the variation.
    design : float
        Design effect: variance of sums, relative to independent rows that count as one.

    Yields
    ------
    PairModel
        Released models.
    """
    rows = model.row_model.sample(_ROWS, rng)
    start = model.masks if facts.selective else None
    complete = partial(complete_with_rows, facts=facts, rows=rows[:_FEWER], start=start)
    missing = model.masks.draw(rows, rng)
    observed = np.where(missing, release.marginals.sizes, rows)
    bias, retained = release.clipping_bias(observed), release.retained_shares(observed)[1]
    tables = release.tables(bias)
    completed = complete(tables)
    numbers = released_covariances(release, bias, completed, rows, missing)
    smoothing = Smoothing.of(
        completed.marginals,
        completed.pairs,
        completed.variances,
        facts.ordered,
        rows=completed.n_rows,
        numbers=numbers,
    )
    possible = smoothing.allowed(facts.allowed)
    while True:
        again = release.redraw_noise(rng)
        noisy = add_noise(tables, again.tables(bias), retained)
        noise = complete(noisy)
        as_many = _of_other_rows(noisy, observed, rng, noisy.n_rows / design)
        other = complete(as_many)
        more = released_covariances(again, bias, noise, rows, missing)
        off = more.difference_from(numbers) if more and numbers else None
        pairs = smoothing.draw({c: t - completed.pairs[c] for c, t in noise.pairs.items()}, off)
        pairs = {c: t + other.pairs[c] - noise.pairs[c] for c, t in pairs.items()}
        drawn = replace(other, pairs=pairs, variances=smoothing.remaining_variance)
        together = again.marginals.higher_order_targets(drawn.masks, rows)
        parts = drawn.marginals, pairs, drawn.variances
        row_model = fit_conditional_models(
            *parts,
            rng=rng,
            allowed=possible,
            order=release.order,
            higher_order=together,
            ridge=release.ridge,
        )
        targets_of_rows = targets(drawn, row_model.sample(_ROWS, rng), larger=together)
        yield replace(model, row_model=row_model, tables=targets_of_rows, masks=drawn.masks)


def add_noise(tables: PairTables, other: PairTables, retained: Mapping[Pair, float]) -> PairTables:
    """Return tables with redrawn noise, scaled by clipping. Complete attributes stay complete.

    Parameters
    ----------
    tables : PairTables
        The released tables.
    other : PairTables
        The tables with redrawn noise.
    retained : mapping of (int, int) to float
        Share of each pair that clipping retains.

    Returns
    -------
    PairTables
        Released values.
    """
    redrawn = {c: t + (other.tables[c] - t) / retained[c] for c, t in tables.tables.items()}
    marginals = list[Floats]()
    for before, marginal, size in zip(tables.marginals, other.marginals, tables.sizes, strict=True):
        never = before[size:].sum() == 0
        marginal = np.where(np.arange(len(marginal)) < size, marginal, 0.0) if never else marginal
        marginals.append(marginal / marginal.sum())
    return replace(tables, marginals=tuple(marginals), tables=redrawn)


def _of_other_rows(
    tables: PairTables, rows_of_model: Ints, rng: np.random.Generator, n_rows: float
) -> PairTables:
    """Return the tables of a sample of other rows from the population of these rows."""
    n = len(rows_of_model)
    times = rng.poisson(n_rows / n, n) / max(1.0, n_rows) if n else np.zeros(0)
    weights = times - times.mean()

    def resampled(clique: tuple[int, ...], table: Floats) -> Floats:
        return table + weighted_counts(rows_of_model, clique, table.shape, weights)

    marginals = [np.maximum(resampled((a,), m), 0.0) for a, m in enumerate(tables.marginals)]
    return replace(
        tables,
        marginals=tuple(marginal / marginal.sum() for marginal in marginals),
        tables={pair: resampled(pair, table) for pair, table in tables.tables.items()},
    )


def weighted_counts(rows: Ints, clique: Clique, shape: tuple[int, ...], weights: Floats) -> Floats:
    """Return sums of weights by the codes of some columns. Codes beyond the shape are not counted.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, d)
        Codes.
    clique : tuple of int
        Columns, in the order of the axes.
    shape : tuple of int
        Number of codes of each column that are counted.
    weights : ndarray of float64, shape (n,)
        Weight of each row.

    Returns
    -------
    ndarray of float64
        The sums, of the given shape.
    """
    return weighted_cells(cells_of_rows(rows, clique, shape), shape, weights)


def cells_of_rows(rows: Ints, clique: Clique, shape: tuple[int, ...]) -> Ints:
    """Return the position of the cell of each row in a flat table, the size of it if outside.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, d)
        Codes.
    clique : tuple of int
        Columns, in the order of the axes.
    shape : tuple of int
        Number of codes of each column that are inside.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions.
    """
    inside = np.all([rows[:, a] < size for a, size in zip(clique, shape, strict=True)], axis=0)
    return np.where(inside, cell_index(rows.T, clique, shape, len(rows)), math.prod(shape))


def weighted_cells(cells: Ints, shape: tuple[int, ...], weights: Floats) -> Floats:
    """Return sums of weights by cell.

    Parameters
    ----------
    cells : ndarray of int64, shape (n,)
        Position of the cell of each row: see `cells_of_rows`.
    shape : tuple of int
        Shape of the table.
    weights : ndarray of float64, shape (n,)
        Weight of each row.

    Returns
    -------
    ndarray of float64
        The sums, of the given shape.
    """
    size = math.prod(shape)
    sums = np.bincount(cells, weights, size + 1)[:size].reshape(shape)
    return np.asarray(sums, dtype=np.float64)
