"""Empirical-Bayes priors for dependence in noisy tables of pairs: smooth, normal or sparse.

Trends, correlations and regressions of ordered attributes depend on two or three numbers among many
cells. Let the functions of the mid-rank ``f_0 = 1, f_1, …`` have degree 0, 1, …, and be orthonormal
under the released marginals. A table ``T`` of marginals ``p`` and ``q`` has the coefficients

    C_kl = f_kᵀ (T − p qᵀ) g_l,     with noise of variance v_kl,

and its chi-squared dependence is the sum of their squares. The coefficients are normal. Their
variance is ``a (ρ^(k + l − 2) + r)`` for smooth dependence, and ``a`` for dependence of any form.
`missdp.inference.shrinkage` estimates the frequencies of each decay ``ρ``, remainder ``r`` and
strength ``a``, and of independence, over all pairs together. A pair whose dependence is probably
smooth gets its posterior mean (Efron and Morris 1973). All other pairs keep their noisy cells.
These are shrunk later towards the model of all pairs and not towards independence. This matters if
one level has most rows, because its trend in ranks is nearly 0.

The mean of the prior is 0. If two ordered attributes are clearly correlated, it may be the
dependence of normal numbers. Their correlation is the one that explains all coefficients best, and
this mean is used if it is more likely. Strong trends have many coefficients that are each hidden by
noise. Negative cells are then filled so that the first coefficient stays.

If one attribute nearly determines another, a table has few full cells and many empty ones. A common
variance would leave noise in empty cells and shrink full ones. If it is clearly more likely, a
sparse prior is used. Each cell is empty, or a fraction of independence, or normal around
independence with one of several variances. The frequencies of these kinds maximise the likelihood
of each pair (Dempster, Laird and Rubin 1977). The posterior means are then scaled to the marginals.
If all mass outside the largest cell of each row is no more than noise, one attribute is a function
of the other. In rows with a clear largest cell, all other cells are then impossible. Noisy
marginals that contradict a function are averaged.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from missdp.inference.conditional_models import Pair
from missdp.inference.product_sums import Numbers
from missdp.inference.raking import centred_share, scaled_to
from missdp.inference.shrinkage import Mixture, NoisyTable, Shrinkage
from missdp.types import Flags, Floats

_DEGREES = 4  # degree of the polynomials
_DECAYS = (0.15, 0.4, 0.7)  # decays of smooth dependence
_REMAINDERS = (0.01, 0.1)  # variances of all coefficients, relative to the first
_USUAL_SIGNAL = 0.0006  # variance of dependence in a cell, relative to the share of its level
_NEVER = 1e-12  # smallest divisor
_RANK_DEGREE = 2.0  # degree of ranks if a number precedes them
_APART = 0.03  # share of a number outside its bins, below which bins add nothing
_MIN_SHARE = 1e-9  # smallest share of a level
_MIN_TREND = 0.3  # first coefficient from which dependence may be normal
# Correlations of normal dependence that are tried.
_CORRELATIONS = np.array([0.2, 0.35, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97, 0.985, 0.995])
_MIN_LOG_RATIO = 3.0  # log likelihood ratio from which a prior mean is used
_PLACES = 8  # integration points in each level
# Tolerance of a trend, steps towards it, and largest exponent of a tilt.
_TREND_TOLERANCE, _TILTS, _STEEPEST = 2e-3, 12, 30.0
_MIN_CELL = 1e-3  # smallest cell, relative to independence
# Share of the posterior variance that remains, since a later fit must not shrink means again.
_REMAINING_SHARE = 0.02


@dataclass(frozen=True, eq=False)
class _Basis:
    """Functions of the levels of an attribute, orthonormal under its marginal, with mean 0."""

    marginal: Floats
    functions: Floats  # one column per function
    degrees: Floats  # degree of smoothness, infinite beyond polynomials
    back: Floats  # matrix from coefficients to cells

    @classmethod
    def of(
        cls,
        marginal: Floats,
        noise: Floats,
        *,
        ordered: bool,
        number: tuple[Floats, float] | None = None,
    ) -> _Basis:
        marginal = np.maximum(marginal, _MIN_SHARE)
        marginal = marginal / marginal.sum()
        root, size = np.sqrt(marginal), len(marginal)
        rank = 2 * np.cumsum(marginal) - marginal - 1
        degree = min(_DEGREES, size - 1) if ordered else 0
        # A trend through nearly empty levels would have noise and no signal.
        powers = np.polynomial.legendre.legvander(rank, degree) * root[:, None]
        powers[:, 1:] *= (marginal / (marginal + noise / _USUAL_SIGNAL))[:, None]
        degree_list = np.arange(1.0, degree + 1)
        if number is not None:  # the first function, before the rank
            powers = np.insert(powers, 1, number[0] * root, axis=1)[:, :size]
            degree_list = np.insert(degree_list, 0, 1.0)[: size - 1]
            degree_list[1:2] = _RANK_DEGREE
        degree = len(degree_list)
        functions = np.linalg.qr(powers, mode="complete")[0][:, 1:] / root[:, None]
        rest = functions[:, degree:]  # rotated to independent noise
        centred = rest - rest.mean(axis=0)
        functions[:, degree:] = rest @ np.linalg.eigh(centred.T @ (noise[:, None] * centred))[1]
        rest_degree = np.inf if ordered else 1.0
        degrees = np.append(degree_list, np.full(size - 1 - degree, rest_degree))
        basis = cls(marginal, functions, degrees, marginal[:, None] * functions)
        return basis if number is None else basis._with_number_first(*number)

    def _with_number_first(self, mean: Floats, spread: float) -> _Basis:
        """Return a basis that starts with a number itself, and then with its bins.

        The first function of the basis is the mean of the number in each bin, ``e``. Let ``z`` be
        the number, of variance 1, and ``r`` its correlation with ``e``. Then ``z`` comes first. The
        second function replaces ``e`` by its part that is orthogonal to ``z``, ``(e - r z) / s``
        with ``s² = 1 - r²``. It is the information of bins beyond a straight line through the
        number.
        """
        share = float(self.marginal @ np.square(mean - self.marginal @ mean)) / max(spread, _NEVER)
        e, rest = self.functions[:, :1], self.functions[:, 1:]
        r = np.sqrt(min(1.0, share)) * np.sign(e[:, 0] @ (self.marginal * mean))
        s = max(np.sqrt(1 - r * r), _NEVER)
        functions = np.zeros((len(e) + 1, 2 + rest.shape[1]))
        functions[:-1, 1:] = np.hstack([e / s, rest])
        functions[-1, :2] = np.array([1.0, -r / s]) / np.sqrt(spread)
        back = np.hstack([r * self.back[:, :1], s * self.back[:, :1], self.back[:, 1:]])
        retained = np.ones(functions.shape[1], dtype=bool)
        retained[1] = s > _APART
        degrees = np.insert(self.degrees, 1, 1.0)
        return _Basis(self.marginal, functions[:, retained], degrees[retained], back[:, retained])

    @property
    def noise_weights(self) -> Floats:
        """Weights with which the variances of cells add up to those of coefficients.

        Rows and columns of the noise sum to 0, so a constant in a function meets no noise. Rare
        levels share such a constant, because ranks hardly differ there. The variances of cells are
        those of centred noise.
        """
        size, centred = len(self.marginal), self.functions.copy()
        centred[:size] -= centred[:size].mean(axis=0)
        centred[:size] /= math.sqrt(max(centred_share((size,)), _NEVER))
        return np.asarray(np.square(centred))

    @property
    def n_number_functions(self) -> int:
        """Number of leading functions that use the number itself: 0, 1 or 2."""
        return int((self.functions[len(self.marginal) :] != 0).sum())

    @property
    def first(self) -> tuple[Floats, float]:
        """The standardised mean of the first function in each level, and its correlation."""
        means = self.back[:, 0] / self.marginal
        # Bins without information have a share of 0.
        share = max(math.sqrt(float(self.marginal @ np.square(means))), _NEVER)
        return means / share, share

    def normal(self, other: _Basis, correlations: Floats) -> Floats:
        """Return the coefficients of tables with normal dependence, one for each correlation.

        Let ``e`` be the means of a number ``z`` in its levels, and ``r`` their correlation. Two
        numbers that depend linearly have approximately ``E[z z'] = E[e e'] / (r r')``. The second
        function ``(e - r z) / s`` has the remainder of ``E[e e']``.
        """
        tables = _normal_tables(self.marginal, other.marginal, correlations)
        (one, r), (two, r_two) = self.first, other.first
        coefficients = self.functions[: len(one)].T @ tables @ other.functions[: len(two)]
        coefficients[:, : self.n_number_functions] = 0.0
        coefficients[:, :, : other.n_number_functions] = 0.0
        between = one @ tables @ two
        coefficients[:, 0, 0] = correlation = np.clip(between / (r * r_two), -1.0, 1.0)
        if min(self.n_number_functions, other.n_number_functions) > 1:
            remainder = math.sqrt((1 - r**2) * (1 - r_two**2))
            coefficients[:, 1, 1] = (between - correlation * r * r_two) / remainder
        return np.asarray(coefficients)


def _normal_tables(one: Floats, other: Floats, correlations: Floats) -> Floats:
    """Return tables of these marginals whose ranks depend as those of normal numbers do."""
    # The product of the marginals is subtracted. There is one table for each correlation.
    from scipy.special import ndtr, ndtri

    below = np.cumsum(one) - one
    places = ndtri(below[:, None] + one[:, None] * (np.arange(_PLACES) + 0.5) / _PLACES)
    ends = ndtri(np.clip(np.cumsum(other)[:-1], _MIN_SHARE, 1 - _MIN_SHARE))
    r = correlations[:, None, None, None]
    below = ndtr((ends - r * places[:, :, None]) / np.sqrt(1 - np.square(r))).mean(axis=2)
    shares = np.diff(below, axis=2, prepend=0.0, append=1.0)
    return np.asarray(one[:, None] * (shares - other))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The noisy coefficients of a pair, and the mean of their prior."""

    one: _Basis
    other: _Basis
    values: Floats
    noise: Floats
    centre: Floats
    rows: float

    @classmethod
    def of(cls, one: _Basis, other: _Basis, table: Floats, variance: Floats, rows: float) -> _Fit:
        """Return the coefficients of a table less the product of its marginals."""
        values = one.functions.T @ table @ other.functions
        noise = one.noise_weights.T @ variance @ other.noise_weights
        return cls(one, other, values, noise, 0.0 * values, rows)

    @property
    def trend(self) -> float:
        """The first coefficient."""
        return float(self.values[0, 0])

    @property
    def table(self) -> NoisyTable:
        """The coefficients less the mean of their prior."""
        shapes = _shapes(self.one, self.other)
        sampling = np.full(self.values.shape, 1 / max(1.0, self.rows))
        return NoisyTable(self.values - self.centre, self.noise, shapes, sampling)

    def gains(self, centre: Floats) -> Floats:
        """Return the log likelihood ratio of noise around ``centre`` to noise around 0."""
        gains = np.square(self.values) - np.square(self.values - centre)
        return np.asarray((gains / np.maximum(self.noise, _NEVER)).sum(axis=(-2, -1)) / 2)


def _shapes(one: _Basis, other: _Basis) -> Floats:
    """Return the relative prior variances of coefficients: smooth ones, and equal ones last."""
    order = one.degrees[:, None] + other.degrees - 2
    if not order.any():  # no attribute has an order
        return np.ones((1, *order.shape))
    smooth = [decay**order + rest for decay in _DECAYS for rest in _REMAINDERS]
    return np.stack([*smooth, np.ones(order.shape)])


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The noisy coefficients of a pair, and their retained shares.

    The rest of each coefficient is that of the ``centre`` of the prior.
    """

    fit: _Fit
    shrinkage: Shrinkage

    @classmethod
    def of(cls, fit: _Fit, mixture: Mixture) -> _Posterior:
        """Return the posterior of a fit with which the mixture was not estimated."""
        return cls(fit, mixture.shrink(fit.table))

    def around_trend(self, mixture: Mixture) -> _Posterior:
        """Return the posterior with normal dependence as prior mean, if clearly more likely."""
        fit, trend = self.fit, self.fit.trend
        if abs(trend) < max(_MIN_TREND, _CLEAR_SD * math.sqrt(fit.noise[0, 0])):
            return self
        tried = fit.one.normal(fit.other, np.sign(trend) * _CORRELATIONS)
        candidate = _Posterior.of(replace(fit, centre=tried[fit.gains(tried).argmax()]), mixture)
        # The prior log probability of dependence guards against chance trends.
        better = candidate.likelihood - self.likelihood + mixture.dependent
        return candidate if better > _MIN_LOG_RATIO else self

    @property
    def likelihood(self) -> float:
        """Log likelihood ratio of the coefficients to noise around independence."""
        return self.shrinkage.likelihood + float(self.fit.gains(self.fit.centre))

    @property
    def is_smooth(self) -> bool:
        """Whether dependence is probably smooth, or normal."""
        shapes = self.shrinkage.shapes
        return bool(shapes[-1] < shapes[:-1].sum() or self.fit.centre.any())

    def scaled(self, table: Floats, shares: Floats) -> Floats:
        """Return a table with its coefficients multiplied by shares."""
        one, other = self.fit.one, self.fit.other
        values = one.functions.T @ table @ other.functions
        return np.asarray(one.back @ (shares * values) @ other.back.T)

    @property
    def mean(self) -> Floats:
        """The posterior mean of the table."""
        fit, retained = self.fit, self.shrinkage.retained
        coefficients = retained * fit.values + (1 - retained) * fit.centre
        return self._filled(fit.one.back @ coefficients @ fit.other.back.T)

    def _filled(self, table: Floats) -> Floats:
        """Return a table without negative cells. A clear trend stays as strong as it is."""
        (one, _), (other, _) = self.fit.one.first, self.fit.other.first
        ends = self.fit.one.marginal, self.fit.other.marginal
        lower, product = np.outer(*ends), np.outer(one, other)
        aim = float(np.clip((table * product).sum(), -1 + _TREND_TOLERANCE, 1 - _TREND_TOLERANCE))
        if abs(aim) < _MIN_TREND or (table + lower >= 0).all():
            return table
        start, tilt = np.maximum(table + lower, _MIN_CELL * lower), 0.0
        for _ in range(_TILTS):
            tilted = scaled_to(start * np.exp(np.clip(tilt * product, -_STEEPEST, _STEEPEST)), ends)
            trend = float((tilted * product).sum())
            if abs(aim - trend) < _TREND_TOLERANCE:
                break
            slope = float((tilted * np.square(product)).sum()) - trend**2
            step = (aim - trend) / max(slope * (1 - aim**2), _TREND_TOLERANCE)
            tilt += float(np.clip(step, -0.5, 0.5))
        return np.asarray(tilted - lower)

    @property
    def remaining_variance(self) -> Floats:
        """Variance of each cell that a later fit should allow for."""
        retained, fit = self.shrinkage.retained, self.fit
        spread = fit.one.back**2 @ (retained * fit.noise) @ (fit.other.back**2).T
        return np.asarray(_REMAINING_SHARE * spread)


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Posterior means and variances of dependence, given noisy tables of pairs.

    * ``pairs``, ``variances``: Tables less the product of their marginals, and the variance of
      their noise.
    * ``posteriors``: Posteriors of the pairs that are smoothed.
    * ``sparse``: Nearly functional pairs.
    * ``marginals``: Marginals that nearly functional pairs agree with.
    * ``strengths``: Variance of dependence relative to the product of marginals, of pairs that are
      not smoothed.
    * ``independent``: Posterior probability that the attributes of a pair are independent.
    """

    pairs: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    posteriors: Mapping[Pair, _Posterior]
    sparse: Mapping[Pair, _SparseTable] = field(default_factory=dict)
    marginals: tuple[Floats, ...] = ()
    strengths: Mapping[Pair, float] = field(default_factory=dict)
    independent: Mapping[Pair, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        marginals: Sequence[Floats],
        pairs: Mapping[Pair, Floats],
        variances: Mapping[Pair, Floats],
        ordered: Sequence[bool],
        *,
        rows: float,
        flat: bool = True,
        numbers: Numbers | None = None,
    ) -> Smoothing:
        """Estimate the smoothing of all pairs together.

        Parameters
        ----------
        marginals : sequence of ndarray
            One-way marginal of each attribute.
        pairs, variances : mapping of (int, int) to ndarray
            Tables less the product of their marginals, and the variance of their noise.
        ordered : sequence of bool
            Flags of attributes whose levels have an order.
        rows : float
            Number of counted rows.
        flat : bool, default True
            Whether pairs that are not probably smooth are smoothed, too.
        numbers : Numbers, optional
            Covariances of attributes that are numbers.

        Returns
        -------
        Smoothing
            Released values.
        """
        number_levels = {} if numbers is None else numbers.levels
        chosen = [(a, b) for a, b in pairs if min(len(marginals[a]), len(marginals[b])) > 1]
        noises: dict[int, list[Floats]] = {}
        for pair in chosen:
            for place, a in enumerate(pair):
                noises.setdefault(a, []).append(variances[pair].mean(axis=1 - place))
        noise = {a: np.mean(of_pairs, axis=0) for a, of_pairs in noises.items()}

        @cache
        def basis(a: int, number: bool) -> _Basis:
            moments = None
            if number and numbers and a in number_levels:
                moments = number_levels[a], numbers.spread[a]
            return _Basis.of(marginals[a], noise[a], ordered=ordered[a], number=moments)

        def fit(pair: Pair, numbers: Numbers | None) -> _Fit:
            table, variance = pairs[pair], variances[pair]
            if numbers is not None:
                table = numbers.with_numbers(pair, table, noise=False)
                variance = numbers.with_numbers(pair, variance, noise=True)
            one, other = (basis(a, numbers is not None) for a in pair)
            return _Fit.of(one, other, table, variance, rows)

        fits = {pair: fit(pair, numbers) for pair in chosen}
        tables = {pair: one.table for pair, one in fits.items()}
        mixture = Mixture.of(tables)
        posteriors = {p: _Posterior(fits[p], mixture.shrink(table)) for p, table in tables.items()}
        # These are posteriors with the prior mean 0.
        independent = {pair: one.shrinkage.independent for pair, one in posteriors.items()}
        for pair in chosen:
            if all(ordered[a] for a in pair):
                posteriors[pair] = posteriors[pair].around_trend(mixture)
        smooth = {pair: one for pair, one in posteriors.items() if flat or one.is_smooth}
        strengths = {
            pair: mixture.strength(one.shrinkage.retained, one.fit.noise)
            for pair, one in posteriors.items()
            if pair not in smooth
        }
        # Evidence of a trend in numbers is no evidence against a table with few full cells.
        without_numbers = {
            pair: _Posterior.of(fit(pair, None), mixture)
            for pair, one in posteriors.items()
            if number_levels.keys() & {*pair} and abs(one.fit.trend) > _STRONG_DEPENDENCE
        }
        rivals = {pair: one.likelihood for pair, one in (posteriors | without_numbers).items()}
        sparse = _sparse_tables(marginals, pairs, variances, ordered, rivals)
        ends = _shared_marginals(marginals, sparse)
        independent |= dict.fromkeys(sparse, 0.0)
        return cls(pairs, variances, smooth, sparse, ends, strengths, independent)

    @property
    def remaining_variance(self) -> dict[Pair, Floats]:
        """Variance of each cell that a later fit should allow for, by pair."""
        smooth = {pair: posterior.remaining_variance for pair, posterior in self.posteriors.items()}
        sparse = {pair: _REMAINING_SHARE * table.variance for pair, table in self.sparse.items()}
        return {**self.variances, **smooth, **sparse}

    def means(self) -> dict[Pair, Floats]:
        """Return the posterior mean of each pair's dependence."""
        smooth, ends = {c: one.mean for c, one in self.posteriors.items()}, self.marginals
        functional = {c: t.table - np.outer(*(ends[a] for a in c)) for c, t in self.sparse.items()}
        return {**self.pairs, **smooth, **functional}

    def allowed(self, public: Mapping[Pair, Flags]) -> dict[Pair, Flags]:
        """Return the possible cells of pairs, by public facts and nearly functional pairs."""
        functional = {c: t.possible for c, t in self.sparse.items() if not t.possible.all()}
        return {**public, **{c: t & public.get(c, True) for c, t in functional.items()}}

    def draw(
        self, noise: Mapping[Pair, Floats], numbers: Numbers | None = None
    ) -> dict[Pair, Floats]:
        """Return a draw of the posterior, given a draw of the noise of each pair and of numbers.

        Its mean is that of `means`. The noise of each coefficient is multiplied by the root of
        ``spread``.

        Parameters
        ----------
        noise : mapping of (int, int) to ndarray
            Drawn noise of each table.
        numbers : Numbers, optional
            Drawn noise of covariances.

        Returns
        -------
        dict of (int, int) to ndarray
            Tables less the product of their marginals.
        """
        spread = {}
        for pair, posterior in self.posteriors.items():
            table = noise[pair]
            if numbers is not None:
                table = numbers.with_numbers(pair, table, noise=False)
            spread[pair] = posterior.scaled(table, np.sqrt(posterior.shrinkage.spread))
        for pair, sparse_table in self.sparse.items():
            spread[pair] = noise[pair] * np.sqrt(sparse_table.variance / self.variances[pair])
        means = self.means()
        return {pair: mean + spread.get(pair, noise[pair]) for pair, mean in means.items()}


_CENTRE_SHARES = np.array([0.0, 0.05, 0.2, 0.5, 1.0])  # fractions of independence
# SDs of a cell, relative to the largest cell that marginals allow.
_SCALES = np.array([0.1, 0.3, 1.0])
_EMPTY = 0.9  # initial share of empty cells
_KIND_STEPS = 30  # steps of expectation and maximisation
_MIN_WEIGHT_CHANGE = 1e-4  # change of the shares of the kinds at which the steps end
_MIN_SPARSE_LOG_RATIO = 10.0  # log likelihood ratio from which the sparse prior is used
# Distance from independence of tables of ordered levels that may be functional.
_STRONG_DEPENDENCE = 0.5
_CLEAR_SD = 3.0  # SDs of noise of a clear cell
_FUNCTION_SD = 2.0  # SDs by which the sum of the largest cells may be below that of a function
_MIN_FUNCTIONAL_SD = 10.0  # SDs by which the sum must exceed that of independence
_MIN_WEIGHT = 1e-6  # smallest share of a kind
_MIN_CHANCE = 1e-300  # smallest probability


@dataclass(frozen=True, eq=False)
class _SparseTable:
    """Posterior of a nearly functional pair.

    * ``table``: Posterior mean of the share of the rows in each cell.
    * ``variance``: Posterior variance of each cell.
    * ``possible``: False in cells that are empty because one attribute is a function of the other.
    """

    table: Floats
    variance: Floats
    possible: Flags


def _sparse_tables(
    marginals: Sequence[Floats],
    pairs: Mapping[Pair, Floats],
    variances: Mapping[Pair, Floats],
    ordered: Sequence[bool],
    fits: Mapping[Pair, float],
) -> dict[Pair, _SparseTable]:
    """Return the pairs that the sparse prior explains clearly better than ``fits`` do.

    ``fits`` are log likelihoods. Dependence of ordered levels is smooth more often than sparse, so
    it must also be strong.
    """
    sparse = {}
    for (a, b), values in pairs.items():
        if min(values.shape) < 2:
            continue
        min_distance = _STRONG_DEPENDENCE if ordered[a] or ordered[b] else 0.0
        if float(np.abs(values).sum()) / 2 < min_distance:  # noise only increases the distance
            continue
        ends = marginals[a], marginals[b]
        lower = np.maximum(np.outer(*ends), _MIN_SHARE**2)
        noise = np.maximum(variances[a, b], _MIN_SHARE**2)
        degrees = centred_share(values.shape)  # marginals constrain the cells
        rival = max(fits.get((a, b), 0.0), degrees * _normal_fit(values, noise, lower))
        if rival <= _MIN_SPARSE_LOG_RATIO:  # close to independence
            continue
        largest = np.minimum.outer(*ends)
        mean, variance, fit = _sparse_posterior(values + lower, noise, lower, largest)
        if degrees * fit > rival + _MIN_SPARSE_LOG_RATIO:
            possible = _possible_cells(values + lower, noise, *ends)
            table = np.maximum(mean, _MIN_SHARE * lower) * possible
            table = _scaled_between(table, ends)
            if float(np.abs(table - lower).sum()) / 2 >= min_distance:
                sparse[a, b] = _SparseTable(table, variance * possible, possible)
    return sparse


def _shared_marginals(
    marginals: Sequence[Floats], sparse: Mapping[Pair, _SparseTable]
) -> tuple[Floats, ...]:
    """Return the marginals, changed to agree with nearly functional pairs."""
    sums: dict[int, list[Floats]] = {}
    for (a, b), pair in sparse.items():
        if not pair.possible.all():
            sums.setdefault(a, []).append(pair.table.sum(axis=1))
            sums.setdefault(b, []).append(pair.table.sum(axis=0))
    return tuple(np.mean(sums[a], axis=0) if a in sums else m for a, m in enumerate(marginals))


def _normal_fit(values: Floats, noise: Floats, lower: Floats) -> float:
    """Return the log likelihood ratio of a variance proportional to independence to none."""
    squares = np.square(values)
    share = max(0.0, float((squares - noise).sum())) / float(lower.sum())
    variance = noise + share * lower
    return 0.5 * float((squares / noise - squares / variance - np.log(variance / noise)).sum())


def _sparse_posterior(
    table: Floats, noise: Floats, lower: Floats, largest: Floats
) -> tuple[Floats, Floats, float]:
    """Return mean and variance of each cell, and the log likelihood ratio to independence."""
    parts, scales = _CENTRE_SHARES[:, None, None], _SCALES[:, None, None]
    centres = np.concatenate([parts * lower, np.ones_like(scales) * lower])
    spreads = np.concatenate([np.zeros_like(parts) * largest, np.square(scales * largest)])
    variances = spreads + noise
    logs = -0.5 * (np.square(table - centres) / variances + np.log(variances / noise))
    top = logs.max(axis=0)
    likelihood = np.exp(logs - top).reshape(len(logs), -1)
    weights = _kind_weights(likelihood)
    density = np.maximum(weights @ likelihood, _MIN_CHANCE)
    independent_fit = -0.5 * float((np.square(table - lower) / noise).sum())
    fit = float(np.log(density).sum() + top.sum()) - independent_fit
    chance = (weights[:, None] * likelihood / density).reshape(logs.shape)
    retained = spreads / variances
    means = centres + retained * (table - centres)
    mean = (chance * means).sum(axis=0)
    variance = (chance * (retained * noise + np.square(means - mean))).sum(axis=0)
    return mean, np.minimum(variance, noise), fit


def _kind_weights(likelihood: Floats) -> Floats:
    """Return the shares of the kinds of cells, by accelerated steps (Varadhan and Roland 2008)."""

    def step(weights: Floats) -> Floats:
        density = np.maximum(weights @ likelihood, _MIN_CHANCE)
        return np.asarray(weights * (likelihood @ (1 / density)) / likelihood.shape[1])

    weights = np.full(len(likelihood), (1 - _EMPTY) / (len(likelihood) - 1))
    weights[0] = _EMPTY
    for _ in range(_KIND_STEPS):
        one = step(weights)
        two = step(one)
        first, second = one - weights, two - 2 * one + weights
        size_first, size_second = float(np.linalg.norm(first)), float(np.linalg.norm(second))
        if size_first < _MIN_WEIGHT_CHANGE:
            break
        size = max(1.0, size_first / max(size_second, _MIN_WEIGHT * size_first, _MIN_CHANCE))
        extrapolated = np.maximum(weights + 2 * size * first + size**2 * second, _MIN_WEIGHT)
        weights = step(extrapolated / extrapolated.sum())
    return weights


def _possible_cells(table: Floats, noise: Floats, one: Floats, other: Floats) -> Flags:
    """Return the possible cells if one attribute is a function of the other."""
    of_rows = _possible_given_rows(table, noise, one, other)
    of_columns = _possible_given_rows(table.T, noise.T, other, one).T
    both: Flags = of_rows & of_columns
    if both.any(axis=0).all() and both.any(axis=1).all():
        return both
    return min(of_rows, of_columns, key=np.count_nonzero)  # the two functions contradict each other


def _possible_given_rows(table: Floats, noise: Floats, one: Floats, other: Floats) -> Flags:
    """Return the possible cells if the level of a row determines that of the column."""
    rows, best = np.arange(len(table)), table.argmax(axis=1)
    largest, std = table[rows, best], np.sqrt(noise[rows, best])
    plain = largest > _CLEAR_SD * std
    shortfall = float((one - largest)[plain].sum())
    excess = float((largest - one * other[best])[plain].sum())
    doubt = max(math.sqrt(float(np.square(std)[plain].sum())), _MIN_CHANCE)
    if shortfall > _FUNCTION_SD * doubt or excess < _MIN_FUNCTIONAL_SD * doubt:
        return np.ones(table.shape, dtype=bool)
    return np.asarray(~plain[:, None] | (np.arange(table.shape[1]) == best[:, None]))


def _scaled_between(table: Floats, ends: tuple[Floats, Floats]) -> Floats:
    """Return a table scaled to its marginals, or a compromise if it cannot have both."""
    by_other = scaled_to(table, ends)
    by_one = scaled_to(by_other.T, ends[::-1], sweeps=1).T
    mean = (by_one + by_other) / 2
    return np.asarray(mean / mean.sum())
