"""Privacy profiles and loss distributions of a composition that one mask draw opens or shuts.

All steps of the composition share the same gate, so one Bernoulli(p) draw per row decides whether
they read it. That is not a fresh subsample at each step: p is never multiplied into the sampling
rate of DP-SGD.

Gaussian measurements behind overlapping gates: best partition, priced by loss distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth.bounds import RenyiCost
from missdp.ground_truth.gates import Gate, check_epsilons, check_probability
from missdp.ground_truth.partition import Block, Partition, best_partition

if TYPE_CHECKING:
    import dp_accounting
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

__all__ = [
    "GaussianPartition",
    "candidate_partitions",
    "gate_loss_distribution",
    "gated_delta",
    "gated_epsilon",
    "gaussian_partition",
]


_FLOOR = 8.0
"""Losses below -8 are rounded up to it before densities are converted (see `_present`)."""


def gated_delta(epsilon: float, *, probability: float, profile: Callable[[float], float]) -> float:
    r"""Privacy profile for the ground truth of a composition gated by one set.

    Parameters
    ----------
    epsilon : float
        ε̄ >= 0 at which to evaluate.
    probability : float
        p in [0, 1]: the probability that the gate is open, or an upper bound on it.
    profile : callable
        δ(ε) for ε >= 0 of the ungated composition, non-increasing, valid in both directions of
        add-remove adjacency.

    Returns
    -------
    float
        δ̄(ε̄), the larger of the two directions.

    Notes
    -----
    Let Q be the output law without the row, P the law when the gate is open, and
    P̄ = (1-p)Q + pP the law with the row.

    *Add direction* (P̄ against Q). P̄ - e^ε̄ Q = p[P - (1 + (e^ε̄ - 1)/p) Q], so taking the positive
    part gives δ̄(ε̄) = p·δ(log(1 + (e^ε̄ - 1)/p)), exactly.

    *Remove direction* (Q against P̄). Q - e^ε̄ P̄ = cQ - p e^ε̄ P with c = 1 - (1-p)e^ε̄. If c <= 0 it
    is nowhere positive: δ̄ = 0. Otherwise δ̄(ε̄) = c·δ(log(p e^ε̄/c)), exactly, where
    p e^ε̄/c = 1/(1 + (e^{-ε̄} - 1)/p) >= 1.

    Both rise with p: with L = dP/dQ they are expectations under Q of a convex function of
    1 + p(L - 1), whose mean is 1. So an upper bound on p is enough, row by row, and mechanisms
    inside may be gated further. Source: Balle, Barthe & Gaboardi 2018.

    Examples
    --------
    >>> import math
    >>> step = lambda e: 0.0 if e >= 1.0 else 1 - math.exp(e - 1.0)   # a pure 1-DP profile
    >>> gated_delta(math.log(1 + 0.5 * (math.e - 1)), probability=0.5, profile=step)
    0.0
    """
    p = check_probability(probability, name="probability")
    if not epsilon >= 0.0:
        raise ParameterError("epsilon must not be negative")
    if p == 0.0:
        return 0.0
    if epsilon > 700.0:
        return p * profile(epsilon)
    add = p * profile(math.log1p(math.expm1(epsilon) / p))
    rest = 1.0 - (1.0 - p) * math.exp(epsilon)
    if rest <= 0.0:
        return add
    shrunk = 1.0 + math.expm1(-epsilon) / p
    remove = rest * profile(-math.log(shrunk)) if shrunk > 0.0 else 0.0
    return max(add, remove)


def gated_epsilon(delta: float, *, probability: float, profile: Callable[[float], float]) -> float:
    """Smallest ε̄ with ``gated_delta(ε̄) <= delta``, rounded up.

    Parameters
    ----------
    delta : float
        Target δ̄ in (0, 1), or 0 for a profile that reaches 0.
    probability, profile
        As for :func:`gated_delta`.

    Returns
    -------
    float

    Raises
    ------
    UnprovenError
        If the profile does not fall to ``delta`` below ε̄ = 1000.

    Examples
    --------
    >>> import math
    >>> pure = lambda e: max(0.0, 1 - math.exp(e - 1.0))
    >>> round(gated_epsilon(0.0, probability=0.5, profile=pure), 4)
    0.6201
    """
    goal = check_probability(delta, name="delta")

    def fits(epsilon: float) -> bool:
        return gated_delta(epsilon, probability=probability, profile=profile) <= goal

    if fits(0.0):
        return 0.0
    high = 0.5
    while not fits(high):
        high *= 2.0
        if high > 1000.0:
            raise UnprovenError(
                "the privacy profile never falls to this delta; choose a larger one"
            )
    low = 0.0 if high == 0.5 else high / 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def gate_loss_distribution(
    loss: privacy_loss_distribution.PrivacyLossDistribution, probability: float
) -> privacy_loss_distribution.PrivacyLossDistribution:
    r"""Privacy loss distribution for the ground truth of a composition gated by one set.

    Parameters
    ----------
    loss : dp_accounting PrivacyLossDistribution
        Of the ungated composition, pessimistic, for add-remove adjacency.
    probability : float
        p, as for :func:`gated_delta`.

    Returns
    -------
    dp_accounting PrivacyLossDistribution
        Pessimistic; compose it with those of other gates that share no attribute with this one.

    Notes
    -----
    *Why distributions of disjoint gates may be composed.* Let mechanism j have likelihood ratio
    l_j (row read against row absent), dominated in the convex order under the absent law by l*_j
    (this is what a dominating pair means), and let it read the row when the mask is in E_j. The
    ratio of the whole release is L = Σ_m P(m) Π_j l_j^{1(m ∈ E_j)}, and both directions of δ are
    expectations of convex functions of L under the absent law. Take the last mechanism, given the
    outputs before it: by Jensen over the masks that open it, its l_j (which may depend on the
    mask through other cells of the row) may be replaced by l*_j; and since L is then
    A + B·l*_j with A + B fixed and E[l*_j] = 1, widening E_j only raises B and so the expectation.
    The law of l*_j no longer depends on the past, so the step repeats for the mechanism before.
    Hence δ is at most that of independent l*_j with any fixed wider events, such as
    {A_l observed} for A_l a subset of every gate of group l. With disjoint A_l, independent masks
    make L a product of (1 - p_l) + p_l·Π l*_j: one gated composition per group, composed.

    Losses move to log(1 - p + p e^x), and masses are split between the two neighbouring grid
    points so that both laws keep their mass, which is again pessimistic.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution as pld
    >>> gaussian = pld.from_gaussian_mechanism(1.0)
    >>> gated = gate_loss_distribution(gaussian, 0.5)
    >>> gated.get_epsilon_for_delta(1e-6) < gaussian.get_epsilon_for_delta(1e-6)
    True
    """
    from dp_accounting.pld import privacy_loss_distribution

    p = check_probability(probability, name="probability")
    if p == 1.0:
        return loss
    if p == 0.0:
        return privacy_loss_distribution.identity(loss._pmf_remove._discretization)
    return privacy_loss_distribution.PrivacyLossDistribution(
        _present(loss._pmf_remove.to_dense_pmf(), p), _absent(loss._pmf_add.to_dense_pmf(), p)
    )


def _present(pmf: pld_pmf.DensePLDPmf, p: float) -> pld_pmf.DensePLDPmf:
    """Law with the row against without: masses p·P + (1-p)·Q, where Q = e^{-x}·P.

    Far below zero the masses of P are rounding noise of a Fourier transform, and e^{-x} would
    blow them up. Rounding such losses up to -8 is pessimistic; the mass of Q that P then no
    longer accounts for sits where P is zero, at loss log(1-p).
    """
    losses, masses = _support(pmf)
    losses = np.maximum(losses, -_FLOOR)
    absent = masses * np.exp(-losses)
    lost = max(0.0, 1.0 - float(absent.sum()))
    moved = np.append(_shift(losses, p), math.log1p(-p))
    mixed = np.append(p * masses + (1.0 - p) * absent, (1.0 - p) * lost)
    return _regrid(moved, mixed, pmf._discretization, p * pmf._infinity_mass)


def _absent(pmf: pld_pmf.DensePLDPmf, p: float) -> pld_pmf.DensePLDPmf:
    """Law without the row against with: masses stay, losses become -log(1 - p + p e^{-y})."""
    losses, masses = _support(pmf)
    # Where the open gate could not have produced the output, the shut gate still could.
    moved = np.append(-_shift(-losses, p), -math.log1p(-p))
    return _regrid(moved, np.append(masses, pmf._infinity_mass), pmf._discretization, 0.0)


def _support(
    pmf: pld_pmf.DensePLDPmf,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    masses = np.maximum(np.asarray(pmf._probs, dtype=np.float64), 0.0)
    return (pmf._lower_loss + np.arange(masses.size)) * pmf._discretization, masses


def _shift(losses: npt.NDArray[np.float64], p: float) -> npt.NDArray[np.float64]:
    return np.asarray(np.logaddexp(math.log1p(-p), math.log(p) + losses))


def _regrid(
    losses: npt.NDArray[np.float64],
    masses: npt.NDArray[np.float64],
    step: float,
    infinity_mass: float,
) -> pld_pmf.DensePLDPmf:
    """Split each mass between its two grid neighbours, keeping Σ mass and Σ mass·e^{-loss}."""
    below = np.floor(losses / step)
    upper_share = np.clip(np.expm1(-(losses - below * step)) / math.expm1(-step), 0.0, 1.0)
    lowest = int(below.min())
    cells = (below - lowest).astype(np.int64)
    size = int(cells.max()) + 2
    probs = np.bincount(cells, masses * (1.0 - upper_share), minlength=size)
    probs += np.bincount(cells + 1, masses * upper_share, minlength=size)
    from dp_accounting.pld import pld_pmf

    return pld_pmf.DensePLDPmf(
        step, lowest, probs, infinity_mass=infinity_mass, pessimistic_estimate=True
    )


_ORDERS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, kw_only=True)
class GaussianPartition:
    """An (ε̄, δ̄) bound for Gaussian measurements, and the partition that gives it.

    Attributes
    ----------
    epsilon, delta : float
        The bound.
    blocks : tuple of Block
        The groups; the bound holds for any partition, this is the best one that was tried.
    event : dp_accounting.DpEvent
        The composition that was accounted.

    Examples
    --------
    >>> bound = gaussian_partition([{"a"}], [2.0], observed={"a": 0.5}, delta=1e-6)
    >>> [sorted(block.attributes) for block in bound.blocks]
    [['a']]
    """

    epsilon: float
    delta: float
    blocks: tuple[Block, ...]
    event: dp_accounting.DpEvent


def candidate_partitions(
    gates: Sequence[Gate], precisions: Sequence[float], *, observed: Mapping[str, float]
) -> Iterator[Partition]:
    """Yield partitions that are best for some Rényi order, without repeats.

    Parameters
    ----------
    gates : sequence of (collection of str, or None)
        Gate of each mechanism.
    precisions : sequence of float
        1/σ² of each Gaussian measurement, or a like figure for another mechanism (such as 2ρ).
    observed : mapping of str to float
        π_a.

    Yields
    ------
    Partition
        Valid each; the ranking is a heuristic for the smallest ε at a given δ, so the search
        stops within 0.1 % of the best cost.

    Examples
    --------
    >>> len(list(candidate_partitions([{"a"}, {"b"}], [1, 1], observed={"a": 0.5, "b": 0.5})))
    1
    """
    seen: set[frozenset[tuple[frozenset[str], tuple[int, ...]]]] = set()
    for order in _ORDERS:
        found = best_partition(
            gates, precisions, observed=observed, cost=RenyiCost(order), tolerance=1e-3, seconds=3.0
        )
        key = frozenset((block.attributes, block.members) for block in found.blocks)
        if key not in seen:
            seen.add(key)
            yield found


def gaussian_partition(
    gates: Sequence[Gate],
    noise_multipliers: Sequence[float],
    *,
    observed: Mapping[str, float],
    delta: float,
) -> GaussianPartition:
    """Bound the loss for the ground truth of gated Gaussian measurements under MCAR.

    Parameters
    ----------
    gates : sequence of (collection of str, or None)
        Gates fixed in advance.
    noise_multipliers : sequence of float
        Standard deviation of the (continuous) noise over the L2 sensitivity, > 0.
    observed : mapping of str to float
        π_a, or upper bounds on it.
    delta : float
        Target δ̄ in (0, 1).

    Returns
    -------
    GaussianPartition

    Notes
    -----
    Measurements with one gate are one Gaussian mechanism with 1/σ_eff² = Σ 1/σ_j², whose gate is
    open with probability p: a Poisson-sampled Gaussian, once. Groups with disjoint gates compose
    (proof at :func:`gate_loss_distribution`). Every partition gives a valid bound; integer
    programs find the best one at several Rényi orders, and the smallest ε̄ of these is returned.

    Examples
    --------
    >>> bound = gaussian_partition(
    ...     [{"a"}, {"a", "b"}], [4.0, 4.0], observed={"a": 0.5, "b": 0.5}, delta=1e-6
    ... )
    >>> 0.0 < bound.epsilon < 1.62
    True
    """
    from dp_accounting.pld import pld_privacy_accountant

    sigmas = check_epsilons(noise_multipliers, count=len(gates), name="noise_multipliers")
    if not all(sigma > 0.0 for sigma in sigmas):
        raise ParameterError("noise_multipliers must be above 0")
    if not 0.0 < delta < 1.0:
        raise ParameterError("delta must be inside (0, 1)")
    precisions = [sigma**-2 for sigma in sigmas]
    best: GaussianPartition | None = None
    for partition in candidate_partitions(gates, precisions, observed=observed):
        event = _event(partition, precisions)
        accountant = pld_privacy_accountant.PLDAccountant()
        accountant.compose(event)
        epsilon = float(accountant.get_epsilon(delta))
        if best is None or epsilon < best.epsilon:
            best = GaussianPartition(
                epsilon=epsilon, delta=delta, blocks=partition.blocks, event=event
            )
    if best is None:  # pragma: no cover - there is always at least one order
        raise ParameterError("no partition to price")
    return best


def _event(partition: Partition, precisions: Sequence[float]) -> dp_accounting.DpEvent:
    import dp_accounting

    parts = []
    for block in partition.blocks:
        precision = math.fsum(precisions[j] for j in block.members)
        inner = dp_accounting.GaussianDpEvent(1.0 / math.sqrt(precision))
        if block.probability == 1.0:
            parts.append(inner)
        elif block.probability > 0.0:
            parts.append(dp_accounting.PoissonSampledDpEvent(block.probability, inner))
    return dp_accounting.ComposedDpEvent(parts)
