"""Shrinkage of noisy tables, with a prior that is estimated over all tables together.

A table of dependence has coefficients ``v_i`` with noise of variance ``s_i²``. Their prior is a
mixture, common to all tables of one fit (empirical Bayes):

    v_i ~ N(0, s_i² + c_i)            with probability π₀: the columns are independent, and only the
                                      sampling of the rows, of variance ``c_i``, relates them.
    v_i ~ N(0, s_i² + c_i + a b_i)    with probability w(b, a): dependence of strength ``a`` and
                                      shape ``b``, for each of a grid of strengths and some shapes.

The weights ``π₀`` and ``w`` maximise the likelihood of all tables (Dempster, Laird and Rubin 1977).
Pseudo-tables, ten of independent columns and one of dependent columns, keep ``π₀`` from being
estimated too low. This and the grid of strengths are as in adaptive shrinkage (Stephens 2017). If
most tables are noise, ``π₀`` is near 1 and chance excesses are not believed. If most tables are
dependent, weak relations are believed, too. A table is assessed by the weights of all other tables.

The posterior mean of coefficient ``i`` is ``v_i`` times its ``retained`` share,

    Σ P(b, a | v) (a b_i + c_i) / (s_i² + c_i + a b_i).

There are three additional rules. Under independence nothing is retained, not even sampling
variation. If independence has a probability of 0.2 or more, nothing is retained, since many small
remainders of noise would add up. If the noise has less than a tenth of the variance of sampling,
the released value is kept. Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from missdp.types import Floats

Name = TypeVar("Name", bound=Hashable)

_MIN_VARIANCE = 1e-30  # smallest variance that is divided by
_STRENGTH_FACTOR = 3.0  # ratio of neighbours on the grid of strengths
_WEAKEST = 0.03  # weakest strength, relative to the noise
_MAX_STRENGTHS = 40  # strengths on the grid
_STRONGEST = 1.0  # strongest dependence: a coefficient is a correlation
_MIN_INDEPENDENT = 10.0  # pseudo-tables of independent columns (Stephens 2017)
_STEPS = 25  # steps of expectation and maximisation
_MAX_INDEPENDENCE = 0.2  # probability of independence from which nothing is retained
_NEGLIGIBLE = 0.1  # variance of noise relative to sampling, below which noise is negligible
_MIN_PROBABILITY = 1e-3  # probability of a component that contributes to the posterior mean


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy coefficients of one table, and the prior variances of the true ones.

    Attributes
    ----------
    values : ndarray of shape (...)
        Released coefficients of dependence: 0 if columns are independent.
    noise : ndarray of shape (...)
        Variance of the noise of each coefficient.
    shapes : ndarray of shape (n_shapes, ...)
        Relative prior variance of each coefficient, by shape.
    sampling : ndarray of shape (...)
        Variance of each coefficient in a sample of rows whose columns are independent.
    degrees : float
        Degrees of freedom of a coefficient, at most 1. Constraints on coefficients reduce them.

    Raises
    ------
    ValueError
        If the table is empty, or if a number is infinite or nan.
    """

    values: Floats
    noise: Floats
    shapes: Floats
    sampling: Floats
    degrees: float = 1.0

    def __post_init__(self) -> None:
        numbers = self.values, self.noise, self.shapes, self.sampling, np.asarray(self.degrees)
        if not all(each.size for each in numbers):
            raise ValueError("a table of coefficients must not be empty")
        if not all(np.isfinite(each).all() for each in numbers):
            raise ValueError("a table of coefficients must have finite numbers only")


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Posterior of one table.

    Attributes
    ----------
    retained : ndarray of shape (...)
        Share of each coefficient that its posterior mean retains, from 0 to 1.
    spread : ndarray of shape (...)
        Share of each coefficient that the posterior mean would retain without the rule for
        independence. Draws use it as the relative variance of noise: a lower bound, since it leaves
        out which component is true.
    shapes : ndarray of shape (n_shapes,)
        Posterior probability of each shape of dependence.
    independent : float
        Posterior probability that the columns are independent.
    likelihood : float
        Log likelihood ratio of the mixture to noise alone.
    """

    retained: Floats
    spread: Floats
    shapes: Floats
    independent: float
    likelihood: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """The prior that all tables of a fit share.

    Attributes
    ----------
    strengths : ndarray of shape (n_strengths,)
        Grid of strengths of dependence.
    tables : dict
        By number of shapes, an array of shape (n_shapes, n_strengths): the expected number of
        tables of each component, pseudo-tables included.
    independent, total : float
        Expected number of tables of independent columns, and number of all tables, both with
        pseudo-tables.
    likelihoods : dict
        Cached log likelihoods of the tables that the mixture was estimated with.
    """

    strengths: Floats
    tables: Mapping[int, Floats]
    independent: float
    total: float
    likelihoods: Mapping[NoisyTable, tuple[float, Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Mapping[Name, NoisyTable]) -> Mixture:
        """Return the mixture with the largest likelihood of the tables."""
        strengths = _grid(tables)
        likelihoods = {table: _likelihoods(table, strengths) for table in tables.values()}
        groups: dict[int, list[tuple[float, Floats]]] = {}
        for table, each in likelihoods.items():
            groups.setdefault(len(table.shapes), []).append(each)
        logs = {n: np.stack([logs for _, logs in pairs]) for n, pairs in groups.items()}
        nulls = {n: np.array([null for null, _ in pairs]) for n, pairs in groups.items()}
        pseudo = {n: np.full(of.shape[1:], 1 / of[0].size) for n, of in logs.items()}
        mixture = cls(strengths, pseudo, _MIN_INDEPENDENT, _MIN_INDEPENDENT + 1)
        for _ in range(_STEPS):
            n_independent, n_tables = _MIN_INDEPENDENT, dict(pseudo)
            for n in logs:
                p_independent, rest = mixture._responsibilities(nulls[n], logs[n])
                n_independent += float(p_independent.sum())
                n_tables[n] = pseudo[n] + rest.sum(axis=0)
            total = _MIN_INDEPENDENT + 1 + len(tables)
            mixture = cls(strengths, n_tables, n_independent, total)
        return replace(mixture, likelihoods=likelihoods)

    def _responsibilities(self, log_nulls: Floats, logs: Floats) -> tuple[Floats, Floats]:
        """Return, by table, the probability of independence and of each component."""
        weights = self.tables[logs.shape[1]]
        top = np.maximum(log_nulls, logs.max(axis=(1, 2)))
        independent = self.independent * np.exp(log_nulls - top)
        dependent = (self.total - self.independent) * weights / weights.sum()
        each = dependent * np.exp(logs - top[:, None, None])
        total = independent + each.sum(axis=(1, 2))
        return independent / total, each / total[:, None, None]

    def _without(self, log_null: float, log_components: Floats) -> Mixture:
        """Return the mixture without one table, so that no table is evidence for itself."""
        p_independent, each = self._responsibilities(np.array([log_null]), log_components[None])
        n, n_pseudo = len(log_components), 1 / log_components.size
        rest = {**self.tables, n: np.maximum(self.tables[n] - each[0], n_pseudo)}
        independent = max(_MIN_INDEPENDENT, self.independent - float(p_independent[0]))
        return Mixture(self.strengths, rest, independent, max(_MIN_INDEPENDENT + 1, self.total - 1))

    def shrink(self, table: NoisyTable) -> Shrinkage:
        """Return the posterior of one table, given the prior that all other tables estimate.

        The mixture was estimated with this table, or with another table of as many shapes. The
        contribution of this table is subtracted from the mixture.
        """
        cached = self.likelihoods.get(table)
        log_null, log_components = cached or _likelihoods(table, self.strengths)
        rest = self._without(log_null, log_components)
        both = rest._responsibilities(np.array([log_null]), log_components[None])
        p_independent, each = float(both[0][0]), both[1][0]
        spread, likely = np.zeros(table.values.shape), each > _MIN_PROBABILITY
        if likely.any():  # components that are left out do not reduce the share
            shape, strength = np.nonzero(likely)
            weights = (1 - p_independent) * each[likely] / each[likely].sum()
            scales = self.strengths[strength].reshape(-1, *[1] * table.values.ndim)
            priors = scales * table.shapes[shape] + table.sampling
            shares = priors / (priors + table.noise + _MIN_VARIANCE)
            spread = np.tensordot(weights, shares, axes=1)
        # A value with negligible noise keeps its sampling variation.
        exact = table.noise <= _NEGLIGIBLE * table.sampling
        retained = np.where(exact, 1.0, spread if p_independent < _MAX_INDEPENDENCE else 0.0)
        weights = rest.tables[len(log_components)]
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights / weights.sum())
        independent = np.log(rest.independent / rest.total) + log_null
        terms = [independent, *(rest.dependent + log_weights + log_components).ravel()]
        squares, noise = np.square(table.values), table.noise + _MIN_VARIANCE
        log_noise_only = -0.5 * table.degrees * float((squares / noise + np.log(noise)).sum())
        likelihood = float(np.logaddexp.reduce(terms)) - log_noise_only
        return Shrinkage(retained, spread, each.sum(axis=1), p_independent, likelihood)

    @property
    def dependent(self) -> float:
        """Log probability that two columns are dependent."""
        return float(np.log(max(_MIN_VARIANCE, 1 - self.independent / self.total)))

    def strength(self, retained: Floats, noise: Floats) -> float:
        """Return the strength of dependence of any form that retains this share on average."""
        strengths = self.strengths[:, None]
        curve = (strengths / (strengths + noise.ravel() + _MIN_VARIANCE)).mean(axis=1)
        return float(np.interp(retained.mean(), [0.0, *curve], [0.0, *self.strengths]))


def _grid(tables: Mapping[Name, NoisyTable]) -> Floats:
    """Return a grid of strengths from the noise level to the largest strength of a table."""
    noise_levels, signal_levels = [], []
    for table in tables.values():
        size = table.shapes[-1] + _MIN_VARIANCE
        noise_levels.append(1 / float((size / (table.noise + _MIN_VARIANCE)).mean()))
        signal_levels.append(float((np.square(table.values) / size).mean()))
    if not noise_levels:
        return np.ones(1)
    top = min(_STRONGEST, 4 * max(*signal_levels, *noise_levels))
    bottom = min(top, _WEAKEST * min(noise_levels))
    steps = math.ceil(math.log(top / bottom, _STRENGTH_FACTOR)) + 1
    steps = min(_MAX_STRENGTHS, max(1, steps))
    bottom = max(bottom, top / _STRENGTH_FACTOR ** (steps - 1))
    return np.asarray(bottom * _STRENGTH_FACTOR ** np.arange(steps))


def _likelihoods(table: NoisyTable, strengths: Floats) -> tuple[float, Floats]:
    """Return log likelihoods, up to a constant, of independence and of each component."""
    squares, noise = np.square(table.values).ravel(), table.noise.ravel() + _MIN_VARIANCE
    sampling = table.sampling.ravel()

    def log_likelihood(prior: Floats) -> Floats:
        # Likelihoods relative to noise would lose all digits if noise is small.
        variance = prior + noise
        loss = squares / variance + np.log(variance)
        return np.asarray(-0.5 * table.degrees * loss.sum(axis=-1))

    log_null = float(log_likelihood(sampling))
    shapes = table.shapes.reshape(len(table.shapes), 1, -1)
    likelihoods = [log_likelihood(strengths[:, None] * shape + sampling) for shape in shapes]
    return log_null, np.stack(likelihoods)
