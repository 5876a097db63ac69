"""What gates amplify, in plain numbers: pure privacy by all masks, (ε, δ) by one gate.

The mask mixture is log E[exp Σ_j w_j·1{all attributes of gate j are observed}]. All steps of a
composition behind one gate share it, so one Bernoulli(p) draw per row decides whether they read it:
not a fresh subsample at each step, and p is never multiplied into the sampling rate of DP-SGD. Why
loss distributions of disjoint gates may be composed, adaptive caps among them, and all other
proofs: docs/referees/proofs.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from missdp.accounting.exact import boundary
from missdp.errors import ParameterError, UnprovenError, check_fraction, check_integer, check_number
from missdp.ground_truth.elimination import elimination_order, log_total
from missdp.required_attributes import RequiredAttributes, as_required_attributes
from missdp.types import Clique, Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_OUTWARD = 1e-12
"""Added to a computed epsilon, with a hundredth of it for each unit of cost: outward rounding."""


def check_observed(observed: Mapping[str, float]) -> dict[str, float]:
    """Check observed probabilities π (one minus the missing rate) by attribute name."""
    return {a: check_fraction("an observed probability", p) for a, p in observed.items()}


def gate_probability(required: RequiredAttributes, observed: Mapping[str, float]) -> float:
    """Return the probability that all attributes of a gate are observed, under independent masks.

    Parameters
    ----------
    required : collection of str, or None
    observed : mapping of str to float
        Attributes without a stated probability count as always observed (no amplification).

    Examples
    --------
    >>> gate_probability({"age", "income", "sex"}, {"age": 0.5, "income": 0.5})
    0.25
    """
    return math.prod(observed.get(name, 1.0) for name in sorted(as_required_attributes(required)))


def amplified_epsilon(probability: float, epsilon: float) -> float:
    r"""Return the loss log(1 + p(e^ε - 1)) of a pure mechanism that reads a row with probability p.

    Parameters
    ----------
    probability : float
        p in [0, 1]; an upper bound is enough, the result rises with p. It may depend on the row
        (MAR, MNAR), as long as p bounds it for every row and rows go missing independently.
    epsilon : float
        ε >= 0 of everything that reads the row, together.

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
    p, cost = check_fraction("probability", probability), check_number("epsilon", epsilon)
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

    Examples
    --------
    >>> rates = {"a": 0.5, "b": 0.75, "c": 0.5}
    >>> largest_gate_probability({"a", "b", "c"}, rates, smallest=2)
    0.375
    >>> largest_gate_probability({"a", "b", "c", "d"}, rates, smallest=2)
    0.75
    """
    fixed, rates = as_required_attributes(always), check_observed(observed)
    others = as_required_attributes(attributes) - fixed
    if not 0 <= smallest <= len(fixed | others):
        raise ParameterError("smallest must be between 0 and the number of attributes")
    free = sorted((rates.get(name, 1.0) for name in others), reverse=True)
    return gate_probability(fixed, rates) * math.prod(free[: max(0, smallest - len(fixed))])


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
    costs = sorted((check_number("epsilons", cost) for cost in epsilons), reverse=True)
    rates = check_observed(observed)
    doors = sorted((rates.get(name, 1.0) for name in frozenset(attributes)), reverse=True)
    if len(costs) > len(doors):
        raise ParameterError("distinct targets need at least one attribute for each measurement")
    return math.fsum(map(amplified_epsilon, doors, costs))


@dataclass(frozen=True, kw_only=True)
class MaskMixture:
    """An (ε̄, δ̄) bound for the ground truth, and whether it is the exact mask mixture.

    Attributes
    ----------
    epsilon, delta : float
        The bound. Always valid, exact or not.
    relaxed : tuple of str
        Attributes that were treated as always observed, because too many gates overlap.

    Examples
    --------
    >>> bound = mask_mixture([{"a"}], [1.0], observed={"a": 0.5})
    >>> bound.exact, bound.relaxed
    (True, ())
    """

    epsilon: float
    delta: float
    relaxed: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether nothing was relaxed."""
        return not self.relaxed


def mask_mixture(
    required_sets: Sequence[RequiredAttributes],
    epsilons: Sequence[float],
    deltas: Sequence[float] | None = None,
    *,
    observed: Mapping[str, float],
    treewidth_limit: int = 20,
) -> MaskMixture:
    r"""Return a bound on the loss of gated mechanisms when cells go missing completely at random.

    Mechanism j reads a row only if all attributes of gate S_j are observed in it, and is
    (ε_j, δ_j)-DP under add-remove adjacency. With independent masks of known observed
    probabilities π, and ε(m) = Σ_j ε_j·1[S_j observed in mask m], the composition is (ε̄, δ̄)-DP
    for the ground truth with ε̄ = log E_m[exp ε(m)] and δ̄ = Σ_j δ_j·Π_{a ∈ S_j} π_a.

    Parameters
    ----------
    required_sets : sequence of (collection of str, or None)
        S_j. Fixed in advance: not chosen by looking at the data. ``None``: every row is read.
    epsilons : sequence of float
        ε_j >= 0, one for each gate.
    deltas : sequence of float, optional
        δ_j in [0, 1]; all zero by default.
    observed : mapping of str to float
        π_a in [0, 1], or upper bounds on it (the result rises with every π_a). Attributes that
        are not named count as always observed.
    treewidth_limit : int
        Most variables that one is summed out beside. Beyond it some attributes are treated as
        always observed, which is an upper bound; the result then says so.

    Notes
    -----
    It needs masks that are independent across rows and attributes and of the values, and gates
    fixed in advance. The mechanisms may be composed adaptively, and may read other parts of the
    row and its mask, once the gate is open. For replace-one adjacency double the result, do not put
    replace-one epsilons in. The mask-mixture theorem (docs/referees/proofs.md) sharpens Theorem
    5.6 and Algorithm 4 of Mohapatra et al. (2024); pure mechanisms that attain their ε_j attain it.

    Examples
    --------
    The running example of Mohapatra et al.: State, Occupation, Gender, Gender x Income, at 1/4.

    >>> bound = mask_mixture(
    ...     [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}],
    ...     [0.25] * 4,
    ...     observed={"State": 0.75, "Gender": 0.75, "Income": 0.75},
    ... )
    >>> round(bound.epsilon, 6), bound.exact
    (0.792473, True)
    """
    sets, rates = (
        [as_required_attributes(required) for required in required_sets],
        check_observed(observed),
    )
    costs = [check_number("epsilons", cost) for cost in epsilons]
    slips = [check_fraction("deltas", slip) for slip in deltas or [0.0] * len(sets)]
    if not len(sets) == len(costs) == len(slips):
        raise ParameterError("epsilons and deltas need one value for each gate")
    limit = check_integer("treewidth_limit", treewidth_limit)
    chances = [gate_probability(required, rates) for required in sets]
    weights: defaultdict[frozenset[str], float] = defaultdict(float)
    for required, cost, chance in zip(sets, costs, chances, strict=True):
        if chance > 0.0:
            weights[frozenset(name for name in required if rates.get(name, 1.0) < 1.0)] += cost
    every_row = weights.pop(frozenset(), 0.0)
    mean, relaxed = _log_mean(weights, rates, limit) if weights else (0.0, ())
    epsilon = every_row + mean + (_OUTWARD * (1.0 + 0.01 * math.fsum(costs)) if weights else 0.0)
    delta = math.fsum(slip * chance for slip, chance in zip(slips, chances, strict=True))
    return MaskMixture(
        epsilon=min(epsilon, math.fsum(costs)), delta=min(delta, 1.0), relaxed=relaxed
    )


def _log_mean(
    weights: Mapping[frozenset[str], float], rates: Mapping[str, float], limit: int
) -> tuple[float, tuple[str, ...]]:
    """Return log E exp Σ_j w_j·1[gate j observed], and the attributes that were relaxed.

    The logarithm of the normaliser of a graphical model whose variables are 1 where attributes are
    observed; those that occur in exactly the same gates are one variable.
    """
    alike: dict[frozenset[int], list[str]] = defaultdict(list)
    for name in sorted(frozenset[str]().union(*weights)):
        alike[frozenset(i for i, required in enumerate(weights) if name in required)].append(name)
    names, costs = list(alike.values()), list(weights.values())
    chance = [math.prod(rates[name] for name in group) for group in names]
    scopes = [tuple(v for v, at in enumerate(alike) if i in at) for i in range(len(costs))]
    # What is lost if a variable is treated as always observed; it only steers the choice.
    loss = [(1 - p) * sum(costs[i] for i in at) for p, at in zip(chance, alike, strict=True)]
    relaxed: list[int] = []
    steps = elimination_order(len(names), scopes)
    while max(len(near) for _, near in steps) > limit:
        relaxed.append(min(set(chain(*scopes)), key=loss.__getitem__))
        scopes = [tuple(v for v in scope if v != relaxed[-1]) for scope in scopes]
        steps = elimination_order(len(names), scopes)
    tables: dict[Clique, Floats] = {
        (v,): np.array([math.log1p(-p), math.log(p)]) for v, p in enumerate(chance)
    }
    for scope, cost in zip(scopes, costs, strict=True):
        tables.setdefault(scope, np.zeros((2,) * len(scope)))[(1,) * len(scope)] += cost
    left_out = sorted(chain(*(names[v] for v in relaxed)))
    return log_total(tables, steps), tuple(left_out)


_INTERVAL = 1e-4
_TAIL = 1e-15  # mass of losses that are not told apart from infinite ones


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
    is nowhere positive: δ̄ = 0. Otherwise δ̄(ε̄) = c·δ(log(p e^ε̄/c)), exactly.

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
    p, epsilon = check_fraction("probability", probability), check_number("epsilon", epsilon)
    if p == 0.0:
        return 0.0
    if epsilon > 700.0:
        return p * profile(epsilon)
    inner, factor = _removing(np.array([epsilon]), p)
    add = p * profile(float(_adding(epsilon, p)))
    return max(add, float(factor[0]) * profile(float(inner[0])) if factor[0] > 0.0 else 0.0)


def _adding(epsilon: float | Floats, p: float) -> Floats:
    """Return at which ε of the ungated profile the one with the row against without is known."""
    return np.asarray(np.log1p(np.expm1(epsilon) / p))


def _removing(epsilon: Floats, p: float) -> tuple[Floats, Floats]:
    """Return the same for the other direction, and its factor: 0 where it is nowhere positive."""
    shrunk = np.maximum(0.0, 1.0 + np.expm1(-epsilon) / p)
    factor = np.maximum(0.0, 1.0 - (1.0 - p) * np.exp(np.minimum(epsilon, 700.0)))
    factor = np.where(shrunk > 0.0, factor, 0.0)
    return -np.log(np.where(shrunk > 0.0, shrunk, 1.0)), factor


def gated_epsilon(delta: float, *, probability: float, profile: Callable[[float], float]) -> float:
    """Return the smallest ε̄ at which `gated_delta` is at most ``delta``, rounded up.

    Parameters
    ----------
    delta : float
        Target δ̄ in (0, 1), or 0 for a profile that reaches 0.
    probability, profile
        As for :func:`gated_delta`.

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
    goal = check_fraction("delta", delta)

    def fits(epsilon: float) -> bool:
        return gated_delta(epsilon, probability=probability, profile=profile) <= goal

    if fits(0.0):
        return 0.0
    high = 0.5
    while not fits(high):
        high *= 2.0
        if high > 1000.0:
            raise UnprovenError("the privacy profile never falls to this delta")
    return boundary(fits, 0.0, high)[1]


def gate_loss_distribution(
    loss: PrivacyLossDistribution, probability: float, *, interval: float = _INTERVAL
) -> PrivacyLossDistribution:
    r"""Return the privacy loss distribution of a composition behind one gate.

    Parameters
    ----------
    loss : dp_accounting PrivacyLossDistribution
        Of the ungated composition, pessimistic, for add-remove adjacency.
    probability : float
        p, as for :func:`gated_delta`.
    interval : float
        The grid of ``loss``, and of what is returned.

    Returns
    -------
    dp_accounting PrivacyLossDistribution
        Pessimistic; compose it with those of other gates that share no attribute with this one.

    Notes
    -----
    The two profiles of `gated_delta` are computed on a grid and joined by straight lines in e^ε,
    which lie above them, since divergences are convex in e^ε. At ε < 0 each follows from the
    other: the divergence at e^ε is 1 - e^ε plus e^ε times that of the other direction at e^{-ε}.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution as pld
    >>> gaussian = pld.from_gaussian_mechanism(1.0)
    >>> gated = gate_loss_distribution(gaussian, 0.5)
    >>> gated.get_epsilon_for_delta(1e-6) < gaussian.get_epsilon_for_delta(1e-6)
    True
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    p = check_fraction("probability", probability)
    if p == 1.0:
        return loss
    if p == 0.0:
        return privacy_loss_distribution.identity(interval)
    known = _profile(loss, interval)
    largest = interval * (len(known) - 1)
    steps = math.ceil(np.logaddexp(math.log1p(-p), math.log(p) + largest) / interval) + 1
    if known[-1]:  # then the shut gate may tell as well, by at most -log(1 - p)
        steps = max(steps, math.ceil(-math.log1p(-p) / interval) + 1)
    epsilons = interval * np.arange(steps + 1)
    inner, factor = _removing(epsilons, p)
    present = p * _between(known, interval, _adding(epsilons, p))
    absent = factor * _between(known, interval, inner)

    def dots(ahead: Floats, behind: Floats) -> pld_pmf.PLDPmf:
        below = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * behind[:0:-1]
        deltas = np.clip(np.append(below, ahead), 0.0, 1.0)
        # Rounding must not make a divergence rise with ε.
        deltas = np.maximum.accumulate(deltas[::-1])[::-1]
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            interval, -steps, steps, deltas
        )

    return privacy_loss_distribution.PrivacyLossDistribution(
        dots(present, absent), dots(absent, present)
    )


@lru_cache(maxsize=8)
def _profile(loss: PrivacyLossDistribution, interval: float) -> Floats:
    """Return δ on the grid, up to the largest finite loss."""
    outright = float(loss.get_delta_for_epsilon(math.inf))
    largest = float(loss.get_epsilon_for_delta(min(1.0, outright + _TAIL)))
    epsilons = interval * np.arange(math.ceil(largest / interval) + 2)
    return np.asarray(np.maximum(0.0, loss.get_delta_for_epsilon(epsilons)))


def _between(known: Floats, interval: float, epsilons: Floats) -> Floats:
    """Return δ at any ε: between two losses of the grid it is a straight line in e^ε."""
    place = np.minimum(np.floor(epsilons / interval), len(known) - 2).astype(int)
    part = np.expm1(epsilons - interval * place) / math.expm1(interval)
    slope = known[place + 1] - known[place]
    return np.asarray(known[place] + np.clip(part, 0.0, 1.0) * slope)
