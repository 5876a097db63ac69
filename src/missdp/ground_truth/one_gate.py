"""Amplification by one gate: closed forms, privacy profiles and loss distributions.

All steps of a composition behind one gate share the same gate, so one Bernoulli(p) draw per row
decides whether they read it. That is not a fresh subsample at each step: p is never multiplied
into the sampling rate of DP-SGD.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth.gates import check_epsilons, check_observed, check_probability

if TYPE_CHECKING:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

__all__ = [
    "amplified_epsilon",
    "distinct_targets_bound",
    "gate_loss_distribution",
    "gated_delta",
    "gated_epsilon",
    "largest_gate_probability",
]


def amplified_epsilon(probability: float, epsilon: float) -> float:
    r"""Return the loss log(1 + p(e^ε - 1)) of a pure mechanism that reads a row with probability p.

    Parameters
    ----------
    probability : float
        p in [0, 1]; an upper bound is enough, the result rises with p. It may depend on the row
        (MAR, MNAR), as long as p bounds it for every row and rows go missing independently: this
        is the bound behind ``BoundedObservation(p_max)``.
    epsilon : float
        ε >= 0 of everything that reads the row, together.

    Returns
    -------
    float

    Notes
    -----
    The law with the row is the mixture (1-p)Q + pP of the law Q without it and a law P with
    e^{-ε} Q <= P <= e^{ε} Q. So the ratio is at most 1 + p(e^ε - 1), and at least
    1 - p(1 - e^{-ε}) >= 1/(1 + p(e^ε - 1)). The linear figure pε is smaller and is *not* a bound.
    It is the sampling theorem quoted as Theorem 5.3 by Mohapatra et al. (2024); arXiv:2602.01928
    (2026) has it for rows that lose values independently.

    Examples
    --------
    >>> round(amplified_epsilon(0.5, 1.0), 4)
    0.6201
    """
    p = check_probability(probability, name="probability")
    (cost,) = check_epsilons([epsilon], count=1, name="epsilon")
    if p == 0.0 or cost == 0.0:
        return 0.0
    if p == 1.0:
        return cost
    if cost < 600.0:
        return math.log1p(p * math.expm1(cost))
    # e^cost may overflow: log(1 + p(e^c - 1)) = c + log(p + (1 - p)e^{-c}).
    return cost + math.log(p + (1.0 - p) * math.exp(-cost))


def largest_gate_probability(
    attributes: Collection[str],
    observed: Mapping[str, float],
    *,
    smallest: int,
    always: Collection[str] = (),
) -> float:
    """Return the largest probability that a gate is open, over all that the data might choose.

    Parameters
    ----------
    attributes : collection of str
        Every attribute that a gate might hold. It has to be the whole list: an attribute left out
        here could be the one with the smallest missing rate.
    observed : mapping of str to float
        π_a; attributes that are not named count as always observed.
    smallest : int
        Every gate holds at least this many attributes, whatever the data.
    always : collection of str
        Attributes that every gate holds, whatever the data.

    Returns
    -------
    float
        Product of π over ``always`` and over the largest π elsewhere, ``smallest`` factors in all.

    Examples
    --------
    >>> rates = {"a": 0.5, "b": 0.75, "c": 0.5}
    >>> largest_gate_probability({"a", "b", "c"}, rates, smallest=2)
    0.375
    >>> largest_gate_probability({"a", "b", "c", "d"}, rates, smallest=2)
    0.75
    """
    if isinstance(attributes, str) or isinstance(always, str):
        raise ParameterError("attributes and always are sets of names, not one string")
    rates = check_observed(observed)
    fixed, universe = frozenset(always), frozenset(attributes) | frozenset(always)
    if not 0 <= smallest <= len(universe):
        raise ParameterError("smallest must be between 0 and the number of attributes")
    free = sorted((rates.get(name, 1.0) for name in universe - fixed), reverse=True)
    chosen = [rates.get(name, 1.0) for name in fixed] + free[: max(0, smallest - len(fixed))]
    return math.prod(sorted(chosen))


def distinct_targets_bound(
    epsilons: Sequence[float], *, attributes: Collection[str], observed: Mapping[str, float]
) -> float:
    """Return a bound for data-chosen gates where each measurement has a target of its own.

    Bayesian networks are the case: every attribute is the child of exactly one measurement, in
    an order that the data chose, and a measurement's gate holds its child.

    Parameters
    ----------
    epsilons : sequence of float
        ε_j of the pure measurements, at most one for each attribute.
    attributes : collection of str
        Every attribute that may be a target.
    observed : mapping of str to float
        π_a; attributes that are not named count as always observed.

    Returns
    -------
    float
        Σ_j log(1 + π_(j)(e^{ε_(j)} - 1)) with both sorted: the largest ε meets the largest π.

    Notes
    -----
    Every structure's mixture is at most that of the gates {target_j}, which are disjoint, hence
    Σ_j log(1 + π_target(j)(e^{ε_j} - 1)). Its summand has increasing differences in (π, ε), so by
    the rearrangement inequality the sorted pairing is the worst of all assignments.

    Examples
    --------
    >>> round(distinct_targets_bound([0.5, 0.5], attributes={"a", "b"}, observed={"a": 0.5}), 4)
    0.7809
    """
    costs = sorted(check_epsilons(epsilons, count=len(epsilons)), reverse=True)
    rates = check_observed(observed)
    doors = sorted((rates.get(name, 1.0) for name in frozenset(attributes)), reverse=True)
    if len(costs) > len(doors):
        raise ParameterError("distinct targets need at least one attribute for each measurement")
    return math.fsum(
        amplified_epsilon(door, cost) for door, cost in zip(doors, costs, strict=False)
    )


_FLOOR = 8.0
"""Losses below -8 are rounded up to it before densities are converted (see `_present`)."""


def gated_delta(epsilon: float, *, probability: float, profile: Callable[[float], float]) -> float:
    r"""Return the privacy profile, at one ε̄, of a composition behind one gate.

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
    """Return the smallest ε̄ at which `gated_delta` is at most ``delta``, rounded up.

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
    r"""Return the privacy loss distribution of a composition behind one gate.

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

    *Caps in Gaussian DP* compose in the same way, in any order and however they are spent. Let what
    reads every row have the cap u, and what is behind the gate the cap g, and let φ be convex. With
    ratios a (gate shut) and b (gate open) so far, and G_u, G_g the ratios of Gaussian answers that
    spend what is left of the caps, V = E φ(a G_u + b G_u G_g) never rises in the mean: a release
    that costs c multiplies a and b, or b alone, by ratios that are dominated by those of a Gaussian
    answer with c; given G_g, the sum is a convex combination of a and b G_g times such ratios, so
    Jensen's inequality lets the Gaussian one take their place, and Gaussian answers add up. At the
    end V is at least φ(a + b). So the pair is dominated by two Gaussian answers, one behind the
    gate. A gated release may be counted as one that reads every row: that only widens its event.
    With caps g_1, g_2, ... behind several gates it is the same, with a ratio for each mask, V = E
    φ(Σ_m P(m) r_m G_u Π_{j: m opens j} G_j): what multiplies some of the r_m is dominated by its
    Gaussian answer given all other G, and one whose law depends on m is by Jensen's inequality.

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
