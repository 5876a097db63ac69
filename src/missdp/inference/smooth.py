"""Dependence in noisy tables of pairs, leaned on what is smooth: an empirical-Bayes prior.

Of a pair of ordered attributes people ask for a trend, a correlation, a regression: two or three
numbers among many cells. Written in functions of the mid-rank that are orthonormal under the
released margins, ``f_0 = 1, f_1, …`` of degree 0, 1, …, a table ``T`` of margins ``p`` and ``q``
has the coefficients

    C_kl = f_kᵀ (T − p qᵀ) g_l,     with noise of variance v_kl,

and its chi-squared dependence is the sum of their squares. They are taken for normal with variance
``s₁ ρ^(k + l − 2) + s₂``: smooth dependence, and what is left. Both strengths are those of greatest
likelihood for each pair, the decay ``ρ`` for all pairs together; where noise explains what is seen,
they are nearly 0. What is returned is the posterior mean (Efron and Morris 1973). Pairs that are
nearly functional have a prior of their own, if it is clearly likelier: `missdp.inference.sparse`.

Everything here is a function of released values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Pair
from missdp.inference.sparse import SparseTable, shared_margins, sparse_tables

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_DEGREES = 4  # polynomials; functions beyond are taken as they come
_DECAYS = np.array([0.15, 0.3, 0.5, 0.7])
_STEPS = 40
_LEAST_START = 0.1  # of the noise
_NEVER = 1e-12
_LEAST_SHARE = 1e-9
_TOLD = 0.05  # of the posterior variance: whoever fits a model to means is not to shrink them again


@dataclass(frozen=True, eq=False)
class _Basis:
    """Functions of the levels of an attribute: orthonormal under its margin, of mean 0."""

    margin: Floats
    functions: Floats  # one column each
    degrees: Floats  # of smoothness; infinite beyond polynomials

    @classmethod
    def of(cls, margin: Floats, noise: Floats, *, ordered: bool) -> _Basis:
        margin = np.maximum(margin, _LEAST_SHARE)
        margin = margin / margin.sum()
        root, size = np.sqrt(margin), len(margin)
        rank = 2 * np.cumsum(margin) - margin - 1
        degree = min(_DEGREES, size - 1) if ordered else 0
        powers = np.polynomial.legendre.legvander(rank, degree) * root[:, None]
        whole = np.linalg.qr(powers, mode="complete")[0][:, 1:] / root[:, None]
        rest = whole[:, degree:]  # in directions in which noise is independent
        whole[:, degree:] = rest @ np.linalg.eigh(rest.T @ (noise[:, None] * rest))[1]
        beyond = np.inf if ordered else 1.0
        degrees = np.append(np.arange(1.0, degree + 1), np.full(size - 1 - degree, beyond))
        return cls(margin, whole, degrees)

    @property
    def back(self) -> Floats:
        """What takes coefficients back to cells."""
        return np.asarray(self.margin[:, None] * self.functions)


@dataclass(frozen=True, eq=False)
class _Kept:
    """How much of each coefficient of a pair is kept: its prior variance over all of it."""

    one: _Basis
    other: _Basis
    kept: Floats
    noise: Floats

    def of(self, table: Floats, kept: Floats) -> Floats:
        """Return a table with so much of each of its coefficients."""
        values = self.one.functions.T @ table @ self.other.functions
        return np.asarray(self.one.back @ (kept * values) @ self.other.back.T)

    @property
    def told(self) -> Floats:
        """The noise to be reckoned with afterwards, of each cell."""
        spread = self.one.back**2 @ (self.kept * self.noise) @ (self.other.back**2).T
        return np.asarray(_TOLD * spread)


@dataclass(frozen=True, eq=False)
class Smoothing:
    """What noisy tables of pairs tell of dependence: means and variances, given what was released.

    Parameters
    ----------
    pairs, variances : mapping of Pair to array
        Tables less the product of their margins, and the variance of their noise.
    kept : mapping of Pair to _Kept
        Of the pairs that are smoothed.
    sparse : mapping of Pair to SparseTable
        Of the pairs that are nearly functional.
    margins : tuple of ndarray
        As those leave them.
    """

    pairs: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    kept: Mapping[Pair, _Kept]
    sparse: Mapping[Pair, SparseTable] = field(default_factory=dict)
    margins: tuple[Floats, ...] = ()

    @classmethod
    def of(
        cls,
        margins: Sequence[Floats],
        pairs: Mapping[Pair, Floats],
        variances: Mapping[Pair, Floats],
        ordered: Sequence[bool],
        *,
        flat: bool = True,
    ) -> Smoothing:
        """Find how much to keep; of pairs without order only if ``flat``.

        ``ordered`` tells the attributes whose levels have an order.
        """
        chosen = [
            (a, b)
            for a, b in pairs
            if min(len(margins[a]), len(margins[b])) > 1
            and (flat or any(ordered[c] and len(margins[c]) > 2 for c in (a, b)))
        ]
        bases: dict[int, _Basis] = {}
        for pair in chosen:
            for axis, a in enumerate(pair):
                if a not in bases:
                    noise = variances[pair].mean(axis=1 - axis)
                    bases[a] = _Basis.of(margins[a], noise, ordered=ordered[a])
        found, fits = {}, {pair: np.zeros(len(_DECAYS)) for pair in chosen}
        for a, b in chosen:
            one, other = bases[a].functions, bases[b].functions
            values, noise = one.T @ pairs[a, b] @ other, (one**2).T @ variances[a, b] @ other**2
            apart = bases[a].degrees[:, None] + bases[b].degrees - 2
            prior, fit = _prior(np.square(values), noise, _DECAYS[:, None, None] ** apart)
            found[a, b], fits[a, b] = (noise, prior), fit
        decay = int(np.argmax(sum(fits.values(), np.zeros(len(_DECAYS)))))
        kept = {
            (a, b): _Kept(bases[a], bases[b], prior[decay] / (prior[decay] + noise), noise)
            for (a, b), (noise, prior) in found.items()
        }
        rivals = {pair: float(fit[decay]) for pair, fit in fits.items()}
        sparse = sparse_tables(margins, pairs, variances, ordered, rivals)
        return cls(pairs, variances, kept, sparse, shared_margins(margins, sparse))

    @property
    def told(self) -> dict[Pair, Floats]:
        """The noise to be reckoned with by whoever fits a model to what is returned here."""
        smooth = {pair: kept.told for pair, kept in self.kept.items()}
        sparse = {pair: _TOLD * found.variance for pair, found in self.sparse.items()}
        return {**self.variances, **smooth, **sparse}

    def means(self) -> dict[Pair, Floats]:
        """Return the posterior mean of each pair's dependence."""
        smooth = {pair: kept.of(self.pairs[pair], kept.kept) for pair, kept in self.kept.items()}
        ends = self.margins
        sparse = {
            (a, b): found.table - np.outer(ends[a], ends[b])
            for (a, b), found in self.sparse.items()
        }
        return {**self.pairs, **smooth, **sparse}

    def allowed(self, known: Mapping[Pair, Bools]) -> dict[Pair, Bools]:
        """Return the cells of pairs that are possible, by what is known and what was found."""
        found = {c: t.possible for c, t in self.sparse.items() if not t.possible.all()}
        return {**known, **{c: t & known.get(c, True) for c, t in found.items()}}

    def drawn(self, noise: Mapping[Pair, Floats]) -> dict[Pair, Floats]:
        """Return a draw of the posterior, given a draw of the noise of each pair.

        Its mean is that of `means`, and its variance what is kept of that of the noise.
        """
        spread = {
            pair: kept.of(noise[pair], np.sqrt(kept.kept)) for pair, kept in self.kept.items()
        }
        for pair, found in self.sparse.items():
            spread[pair] = noise[pair] * np.sqrt(found.variance / self.variances[pair])
        means = self.means()
        return {pair: mean + spread.get(pair, noise[pair]) for pair, mean in means.items()}


def _prior(squares: Floats, noise: Floats, shape: Floats) -> tuple[Floats, Floats]:
    """Return the variance of each coefficient, and how likely it makes them all, by decay.

    In logarithms, and relative to no dependence at all.

    The strengths climb by multiplicative steps (Févotte, Bertin and Durrieu 2009), which keep them
    positive and never lower the likelihood.
    """
    noise = np.maximum(noise, _NEVER * squares.max(initial=_NEVER))
    start = max(float((squares - noise).mean()), _LEAST_START * float(noise.mean()))
    smooth = np.full((len(shape), 1, 1), start)
    flat = smooth.copy()
    for _ in range(_STEPS):
        whole = smooth * shape + flat + noise
        pull, push = squares / np.square(whole), 1 / whole
        smooth = smooth * _step(shape * pull, shape * push)
        flat = flat * _step(pull, push)
    prior = smooth * shape + flat
    whole = prior + noise
    gain = squares / noise - squares / whole - np.log(whole / noise)
    return prior, np.asarray(0.5 * gain.sum(axis=(1, 2)))


def _step(pull: Floats, push: Floats) -> Floats:
    up, down = (part.sum(axis=(1, 2), keepdims=True) for part in (pull, push))
    return np.asarray(np.sqrt(up / np.maximum(down, _NEVER)))
