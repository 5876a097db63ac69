"""Amplification in plain numbers: pure privacy over all masks, (ε, δ) for one requirement.

The mask mixture is log E[exp Σ_j w_j·1{all attributes of requirement j are observed}]. All steps of
a composition with one requirement share it. So one Bernoulli(p) draw per row decides whether they
read it. It is not a fresh subsample at each step, and p is never multiplied into the sampling rate
of DP-SGD. All proofs are in docs/referees/proofs.md. They include that loss distributions of
disjoint requirements may be composed, also under adaptive caps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from missdp.accounting.exact import boundary
from missdp.errors import ParameterError, UnprovenError, check_fraction, check_integer, check_number
from missdp.ground_truth.elimination import elimination_order, log_total
from missdp.required_attributes import RequiredAttributes, as_required_attributes
from missdp.types import Clique, Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Profile: TypeAlias = Callable[[float], float]
"""The δ of a composition at each ε >= 0."""

_OUTWARD = 1e-12
"""Outward rounding of an epsilon, plus a hundredth of it for each unit of cost."""


def check_observed(observed: Mapping[str, float]) -> dict[str, float]:
    """Return checked probabilities of being observed (one minus missing rate) by attribute."""
    return {a: check_fraction("an observed probability", p) for a, p in observed.items()}


def observation_probability(required: RequiredAttributes, observed: Mapping[str, float]) -> float:
    """Return the probability that all required attributes of a row are observed.

    Cells go missing independently of each other.

    Parameters
    ----------
    required : collection of str, or None
        Names of the attributes that must be observed for a row to be read. None: every row is read.
    observed : mapping of str to float
        Probability of being observed by attribute, in [0, 1]. Other attributes count as always
        observed (no amplification).

    Returns
    -------
    float
        From 0 to 1. Public.

    Raises
    ------
    ParameterError
        If ``required`` is one text or has elements other than names.

    Examples
    --------
    >>> from missdp.ground_truth import observation_probability
    >>> observation_probability({"age", "income", "sex"}, {"age": 0.5, "income": 0.5})
    0.25
    """
    return math.prod(observed.get(name, 1.0) for name in sorted(as_required_attributes(required)))


def amplified_epsilon(probability: float, epsilon: float) -> float:
    """Return the smaller epsilon of pure DP releases that read a row only with some probability.

    It is log(1 + p(e^ε - 1)) for releases of ε together that read a row with probability p.

    Parameters
    ----------
    probability : float
        At least p, from 0 to 1. The result rises with p. The probability of a row may depend on its
        values (missing at random, or not at random). This value must bound every row, and rows must
        lose values independently.
    epsilon : float
        ε >= 0 of all releases that read the row, together.

    Returns
    -------
    float
        From 0 to ε. Public.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Notes
    -----
    The output distribution with the row is the mixture (1-p)Q + pP. Q is the distribution without
    the row, and e^{-ε} Q <= P <= e^{ε} Q. So the ratio is at most 1 + p(e^ε - 1), and at least 1 -
    p(1 - e^{-ε}) >= 1/(1 + p(e^ε - 1)). The linear figure pε is smaller and is *not* a bound. It is
    the sampling theorem quoted as Theorem 5.3 by Mohapatra et al. (2024); arXiv:2602.01928 (2026)
    has it for rows that lose values independently.

    References
    ----------
    Mohapatra et al. (2024), Theorem 5.3, which quotes another number.
    Balle, Barthe & Gaboardi (2018), for the ratio of mixtures.

    Examples
    --------
    >>> from missdp.ground_truth import amplified_epsilon
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


def max_observation_probability(
    attributes: Collection[str],
    observed: Mapping[str, float],
    *,
    smallest: int,
    always: Collection[str] = (),
) -> float:
    """Return the largest probability that a row is observed on attributes that the data chose.

    A requirement is a set of attributes that a row must have observed to be read. The result bounds
    all requirements that the data may choose. Cells go missing independently.

    Parameters
    ----------
    attributes : collection of str
        Every attribute that a requirement might contain. The list must be complete: an omitted
        attribute could have the smallest missing rate.
    observed : mapping of str to float
        Probability of being observed by attribute, in [0, 1]. Other attributes count as always
        observed.
    smallest : int
        Every requirement contains at least this number of attributes, for all data. From 0 to the
        number of attributes.
    always : collection of str, default ()
        Attributes that every requirement contains, for all data.

    Returns
    -------
    float
        Upper bound on the probability, from 0 to 1. Public.

    Raises
    ------
    ParameterError
        If ``smallest`` or a probability is out of range.

    Examples
    --------
    >>> from missdp.ground_truth import max_observation_probability
    >>> rates = {"a": 0.5, "b": 0.75, "c": 0.5}
    >>> max_observation_probability({"a", "b", "c"}, rates, smallest=2)
    0.375
    >>> max_observation_probability({"a", "b", "c", "d"}, rates, smallest=2)
    0.75
    """
    fixed, rates = as_required_attributes(always), check_observed(observed)
    others = as_required_attributes(attributes) - fixed
    if not 0 <= smallest <= len(fixed | others):
        raise ParameterError("smallest must be between 0 and the number of attributes")
    free = sorted((rates.get(name, 1.0) for name in others), reverse=True)
    return observation_probability(fixed, rates) * math.prod(free[: max(0, smallest - len(fixed))])


def distinct_targets_bound(
    epsilons: Sequence[float], *, attributes: Collection[str], observed: Mapping[str, float]
) -> float:
    """Return a bound on epsilon before values went missing, if releases share no target attribute.

    A target is an attribute that a release requires and shares with no other release. The
    attributes that releases require were chosen from the data. Bayesian networks are an example:
    every attribute is the child of exactly one measurement, in an order that the data chose. A row
    is read only if the child is observed.

    Parameters
    ----------
    epsilons : sequence of float
        ε_j >= 0 of the pure DP releases, at most one for each attribute.
    attributes : collection of str
        Every attribute that may be a target.
    observed : mapping of str to float
        Probability π_a of being observed by attribute, in [0, 1]. Other attributes count as always
        observed.

    Returns
    -------
    float
        Σ_j log(1 + π_(j)(e^{ε_(j)} - 1)) with both sorted: the largest ε meets the largest π.
        Public and at least 0.

    Raises
    ------
    ParameterError
        If there are more measurements than attributes, or if a number is out of range.

    Notes
    -----
    The mixture of every structure is at most the mixture of the requirements {target_j}. They are
    disjoint, hence Σ_j log(1 + π_target(j)(e^{ε_j} - 1)). Its summand has increasing differences in
    (π, ε). By the rearrangement inequality, the sorted pairing is the worst of all assignments.

    References
    ----------
    Mohapatra et al. (2024), for the guarantee of the table before values went missing.

    Examples
    --------
    >>> from missdp.ground_truth import distinct_targets_bound
    >>> round(distinct_targets_bound([0.5, 0.5], attributes={"a", "b"}, observed={"a": 0.5}), 4)
    0.7809
    """
    costs = sorted((check_number("epsilons", cost) for cost in epsilons), reverse=True)
    rates = check_observed(observed)
    probabilities = sorted((rates.get(name, 1.0) for name in frozenset(attributes)), reverse=True)
    if len(costs) > len(probabilities):
        raise ParameterError("distinct targets need at least as many attributes as measurements")
    return math.fsum(map(amplified_epsilon, probabilities, costs))


@dataclass(frozen=True, kw_only=True)
class MaskMixture:
    """Epsilon and delta of several releases for the table before values went missing.

    `mask_mixture` returns it. The mask of a row states which of its cells are missing. The bound
    averages over masks.

    Attributes
    ----------
    epsilon, delta : float
        The bound, under add-remove adjacency. Epsilon is at least 0, and delta is in [0, 1]. It is
        valid in any case. Public.
    relaxed : tuple of str
        Names of attributes that were treated as always observed, because too many requirements
        overlap. The bound is larger than necessary if there are any.

    Examples
    --------
    >>> from missdp.ground_truth import mask_mixture
    >>> bound = mask_mixture([{"a"}], [1.0], observed={"a": 0.5})
    >>> bound.exact, bound.relaxed
    (True, ())
    """

    epsilon: float
    delta: float
    relaxed: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """True if a bound on epsilon averages exactly over all patterns of missing cells.

        Returns
        -------
        bool
            False if attributes were treated as always observed. The bound is then valid but larger.
            Public.
        """
        return not self.relaxed


def mask_mixture(
    required_sets: Sequence[RequiredAttributes],
    epsilons: Sequence[float],
    deltas: Sequence[float] | None = None,
    *,
    observed: Mapping[str, float],
    treewidth_limit: int = 20,
) -> MaskMixture:
    """Return a bound on epsilon and delta if the cells of a row go missing completely at random.

    Release j reads a row only if all attributes of its requirement S_j are observed in it. It is
    (ε_j, δ_j)-DP under add-remove adjacency. The mask of a row states which cells are missing.
    Masks are independent with known probabilities π of being observed. Let ε(m) = Σ_j ε_j·1[S_j
    observed in mask m]. Then all releases together are (ε̄, δ̄)-DP for the table before values went
    missing, with ε̄ = log E_m[exp ε(m)] and δ̄ = Σ_j δ_j·Π_{a ∈ S_j} π_a.

    Parameters
    ----------
    required_sets : sequence of (collection of str, or None)
        S_j, fixed in advance: not chosen by the data. ``None``: every row is read.
    epsilons : sequence of float
        ε_j >= 0, one for each requirement.
    deltas : sequence of float, optional
        δ_j in [0, 1], all zero by default.
    observed : mapping of str to float
        π_a in [0, 1] by attribute, or upper bounds on it (the result rises with every π_a). Other
        attributes count as always observed.
    treewidth_limit : int, default 20
        Largest number of neighbours of a variable that is summed out, at least 1. With more, some
        attributes are treated as always observed. This is an upper bound, and the result states
        them.

    Returns
    -------
    MaskMixture
        Epsilon and delta for the table before values went missing, under add-remove adjacency. Also
        the attributes that were treated as always observed. Public.

    Raises
    ------
    ParameterError
        If a number is out of range, or if the lists differ in length.

    Notes
    -----
    Masks must be independent across rows and attributes and of the values, and requirements must be
    fixed in advance. The mechanisms may be composed adaptively. They may read other parts of the
    row and its mask if the requirement is met. For replace-one adjacency, double the result.
    Replace-one epsilons are not valid inputs. The mask-mixture theorem (docs/referees/proofs.md)
    sharpens Theorem 5.6 and Algorithm 4 of Mohapatra et al. (2024). Pure mechanisms with losses ε_j
    attain it.

    References
    ----------
    Mohapatra et al. (2024), Theorem 5.6 and Algorithm 4.

    Examples
    --------
    The running example of Mohapatra et al.: State, Occupation, Gender, Gender x Income, at 1/4.

    >>> from missdp.ground_truth import mask_mixture
    >>> bound = mask_mixture(
    ...     [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}],
    ...     [0.25] * 4,
    ...     observed={"State": 0.75, "Gender": 0.75, "Income": 0.75},
    ... )
    >>> round(bound.epsilon, 6), bound.exact
    (0.792473, True)
    """
    sets, rates = [*map(as_required_attributes, required_sets)], check_observed(observed)
    costs = [check_number("epsilons", cost) for cost in epsilons]
    failures = [
        check_number("deltas", value, max_value=1.0) for value in deltas or [0.0] * len(sets)
    ]
    if not len(sets) == len(costs) == len(failures):
        raise ParameterError("epsilons and deltas need one value for each required set")
    limit = check_integer("treewidth_limit", treewidth_limit)
    chances = [observation_probability(required, rates) for required in sets]
    weights: defaultdict[frozenset[str], float] = defaultdict(float)
    for required, cost, chance in zip(sets, costs, chances, strict=True):
        if chance > 0.0:
            weights[frozenset(name for name in required if rates.get(name, 1.0) < 1.0)] += cost
    every_row = weights.pop(frozenset(), 0.0)
    mean, relaxed = _log_mean(weights, rates, limit) if weights else (0.0, ())
    epsilon = every_row + mean + (_OUTWARD * (1.0 + 0.01 * math.fsum(costs)) if weights else 0.0)
    delta = math.fsum(failure * p for failure, p in zip(failures, chances, strict=True))
    return MaskMixture(
        epsilon=min(epsilon, math.fsum(costs)), delta=min(delta, 1.0), relaxed=relaxed
    )


def _log_mean(
    weights: Mapping[frozenset[str], float], rates: Mapping[str, float], limit: int
) -> tuple[float, tuple[str, ...]]:
    """Return log E exp Σ_j w_j·1[requirement j observed], and the attributes that were relaxed.

    It is the log normaliser of a graphical model whose variables are 1 if attributes are observed.
    Attributes with equal memberships are one variable.
    """
    alike: dict[frozenset[int], list[str]] = defaultdict(list)
    for name in sorted(frozenset[str]().union(*weights)):
        alike[frozenset(i for i, required in enumerate(weights) if name in required)].append(name)
    names, costs = list(alike.values()), list(weights.values())
    chance = [math.prod(rates[name] for name in group) for group in names]
    scopes = [tuple(v for v, at in enumerate(alike) if i in at) for i in range(len(costs))]
    # Loss if a variable is treated as always observed. It only steers the choice.
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
    relaxed_names = sorted(chain(*(names[v] for v in relaxed)))
    return log_total(tables, steps), tuple(relaxed_names)


_INTERVAL = 1e-4
_TAIL = 1e-15  # mass of losses that are treated as infinite


def amplified_profile_delta(epsilon: float, *, probability: float, profile: Profile) -> float:
    """Return the delta of releases at a given epsilon, for the table before values went missing.

    All releases share one requirement: a set of attributes that a row must have observed to be
    read. A privacy profile is delta as a function of epsilon. The result is the profile for the
    table before values went missing.

    Parameters
    ----------
    epsilon : float
        ε̄ >= 0 at which to evaluate.
    probability : float
        p in [0, 1]: the probability that a row meets the requirement, or an upper bound on it.
    profile : callable
        δ(ε) for ε >= 0 of all releases together if they read every row. It is non-increasing, and
        valid in both directions of add-remove adjacency.

    Returns
    -------
    float
        δ̄(ε̄), the larger of the two directions, from 0 to 1. Public.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Notes
    -----
    Let Q be the output distribution without the row, P the distribution if the requirement is met,
    and P̄ = (1-p)Q + pP the distribution with the row.

    *Add direction* (P̄ against Q). P̄ - e^ε̄ Q = p[P - (1 + (e^ε̄ - 1)/p) Q], so taking the
    positive part gives δ̄(ε̄) = p·δ(log(1 + (e^ε̄ - 1)/p)), exactly.

    *Remove direction* (Q against P̄). Q - e^ε̄ P̄ = cQ - p e^ε̄ P with c = 1 - (1-p)e^ε̄. If c <= 0
    it is nowhere positive: δ̄ = 0. Otherwise δ̄(ε̄) = c·δ(log(p e^ε̄/c)), exactly.

    Both rise with p: with L = dP/dQ they are expectations under Q of a convex function of 1 + p(L -
    1), whose mean is 1. So an upper bound on p is enough, row by row, and mechanisms inside may
    have additional requirements.

    References
    ----------
    Balle, Barthe & Gaboardi (2018).

    Examples
    --------
    >>> from missdp.ground_truth import amplified_profile_delta
    >>> import math
    >>> step = lambda e: 0.0 if e >= 1.0 else 1 - math.exp(e - 1.0)   # a pure 1-DP profile
    >>> amplified_profile_delta(math.log(1 + 0.5 * (math.e - 1)), probability=0.5, profile=step)
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
    """Return the ε at which the plain profile determines the profile of adding the row."""
    return np.asarray(np.log1p(np.expm1(epsilon) / p))


def _removing(epsilon: Floats, p: float) -> tuple[Floats, Floats]:
    """Return the ε of the plain profile for removing the row, and its factor, perhaps 0."""
    shrunk = np.maximum(0.0, 1.0 + np.expm1(-epsilon) / p)
    factor = np.maximum(0.0, 1.0 - (1.0 - p) * np.exp(np.minimum(epsilon, 700.0)))
    factor = np.where(shrunk > 0.0, factor, 0.0)
    return -np.log(np.where(shrunk > 0.0, shrunk, 1.0)), factor


def amplified_profile_epsilon(delta: float, *, probability: float, profile: Profile) -> float:
    """Return the epsilon of releases at a given delta, for the table before values went missing.

    It is the smallest ε̄ at which `amplified_profile_delta` is at most ``delta``, rounded up.

    Parameters
    ----------
    delta : float
        Target δ̄ in (0, 1), or 0 for a profile that reaches 0.
    probability : float
        p in [0, 1]: the probability that a row has all required attributes observed, or an upper
        bound on it.
    profile : callable
        δ(ε) for ε >= 0 of all releases together if they read every row. It is non-increasing, and
        valid in both directions of add-remove adjacency.

    Returns
    -------
    float
        At least 0. Public.

    Raises
    ------
    UnprovenError
        If the profile does not fall to ``delta`` below ε̄ = 1000.
    ParameterError
        If a number is out of range.

    References
    ----------
    Balle, Barthe & Gaboardi (2018).

    Examples
    --------
    >>> from missdp.ground_truth import amplified_profile_epsilon
    >>> import math
    >>> pure = lambda e: max(0.0, 1 - math.exp(e - 1.0))
    >>> round(amplified_profile_epsilon(0.0, probability=0.5, profile=pure), 4)
    0.6201
    """
    goal = check_fraction("delta", delta)

    def fits(epsilon: float) -> bool:
        return amplified_profile_delta(epsilon, probability=probability, profile=profile) <= goal

    if fits(0.0):
        return 0.0
    high = 0.5
    while not fits(high):
        high *= 2.0
        if high > 1000.0:
            raise UnprovenError("the privacy profile never falls to this delta")
    return boundary(fits, 0.0, high)[1]


def amplified_loss_distribution(
    loss: PrivacyLossDistribution, probability: float, *, interval: float = _INTERVAL
) -> PrivacyLossDistribution:
    """Return the privacy loss distribution of releases, for the table before values went missing.

    All releases share one requirement: a set of attributes that a row must have observed to be
    read.

    Parameters
    ----------
    loss : dp_accounting PrivacyLossDistribution
        Distribution of all releases together if they read every row, pessimistic, for add-remove
        adjacency.
    probability : float
        p in [0, 1]: the probability that a row meets the requirement, or an upper bound on it.
    interval : float, default 1e-4
        Distance of two privacy losses on the grid of ``loss`` and of the result, above 0 and at
        most 1.

    Returns
    -------
    dp_accounting PrivacyLossDistribution
        A pessimistic distribution. Compose it with distributions of releases whose requirements
        share no attribute with this requirement. Public.

    Raises
    ------
    ParameterError
        If the probability or the interval is out of range.

    Notes
    -----
    The two profiles of `amplified_profile_delta` are computed on a grid and joined by straight
    lines in e^ε. The lines are upper bounds, since divergences are convex in e^ε. At ε < 0 each
    profile follows from the other: the divergence at e^ε is 1 - e^ε plus e^ε times the
    divergence of the other direction at e^{-ε}.

    References
    ----------
    Balle, Barthe & Gaboardi (2018).

    Examples
    --------
    >>> from missdp.ground_truth import amplified_loss_distribution
    >>> from dp_accounting.pld import privacy_loss_distribution as pld
    >>> gaussian = pld.from_gaussian_mechanism(1.0)
    >>> amplified = amplified_loss_distribution(gaussian, 0.5)
    >>> amplified.get_epsilon_for_delta(1e-6) < gaussian.get_epsilon_for_delta(1e-6)
    True
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    p = check_fraction("probability", probability)
    interval = check_number("interval", interval, max_value=1.0, exclude_min=True)
    if p == 1.0:
        return loss
    if p == 0.0:
        return privacy_loss_distribution.identity(interval)
    profile = _profile(loss, interval)
    largest = interval * (len(profile) - 1)
    steps = math.ceil(np.logaddexp(math.log1p(-p), math.log(p) + largest) / interval) + 1
    if profile[-1]:  # an unmet requirement then has a loss, too, at most -log(1 - p)
        steps = max(steps, math.ceil(-math.log1p(-p) / interval) + 1)
    epsilons = interval * np.arange(steps + 1)
    inner, factor = _removing(epsilons, p)
    present = p * _between(profile, interval, _adding(epsilons, p))
    absent = factor * _between(profile, interval, inner)

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


def _between(profile: Floats, interval: float, epsilons: Floats) -> Floats:
    """Return δ at any ε. Between two losses of the grid it is a straight line in e^ε."""
    place = np.minimum(np.floor(epsilons / interval), len(profile) - 2).astype(int)
    part = np.expm1(epsilons - interval * place) / math.expm1(interval)
    slope = profile[place + 1] - profile[place]
    return np.asarray(profile[place] + np.clip(part, 0.0, 1.0) * slope)
