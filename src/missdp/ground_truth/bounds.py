"""Closed-form bounds for the ground truth: one gate, one column each, and data-chosen gates.

What a group of mechanisms behind one gate costs, as a convex function of its weight.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from missdp.errors import ParameterError
from missdp.ground_truth.gates import (
    Gate,
    check_epsilons,
    check_observed,
    check_probability,
    gate_probability,
)

__all__ = [
    "GroupCost",
    "LinearCost",
    "PureCost",
    "RenyiCost",
    "adaptive_structure_bound",
    "amplified_epsilon",
    "column_wise_bound",
    "complete_rows_bound",
    "distinct_targets_bound",
    "largest_gate_probability",
]


def amplified_epsilon(probability: float, epsilon: float) -> float:
    r"""Privacy loss log(1 + p(e^ε - 1)) of a pure mechanism that reads a row with probability p.

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
    It is the sampling theorem quoted as Theorem 5.3 by Mohapatra et al. (2024).

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


def complete_rows_bound(epsilon: float, *, observed: Mapping[str, float]) -> float:
    """Bound for mechanisms that read only rows with every attribute observed.

    Parameters
    ----------
    epsilon : float
        Total ε of the release for the incomplete table.
    observed : mapping of str to float
        π_a of the attributes that must be observed.

    Returns
    -------
    float
        log(1 + p(e^ε - 1)) with p = Π π_a. It does not matter how many mechanisms there are or
        how they were chosen, provided that *all* of them read complete rows only.

    Notes
    -----
    Replaces the linear figure of Proposition 5.4 of Mohapatra et al. (2024).

    Examples
    --------
    >>> rates = {"State": 0.75, "Gender": 0.75, "Income": 0.75, "Occupation": 1.0}
    >>> round(complete_rows_bound(1.0, observed=rates), 6)
    0.545169
    """
    rates = check_observed(observed)
    return amplified_epsilon(math.prod(rates.values()), epsilon)


def column_wise_bound(
    targets: Sequence[str], epsilons: Sequence[float], *, observed: Mapping[str, float]
) -> float:
    """Bound for column-wise models whose i-th model reads a row only if its target is observed.

    Parameters
    ----------
    targets : sequence of str
        Target attribute of each model. The other inputs of a row are its observed values, or
        values imputed from the row and from earlier outputs.
    epsilons : sequence of float
        ε of each model.
    observed : mapping of str to float
        π_a; attributes that are not named count as always observed.

    Returns
    -------
    float
        Σ_a log(1 + π_a(e^{ε_a} - 1)), where ε_a sums the models with target a.

    Notes
    -----
    The mask mixture with gates {target}: *every* target amplifies, where Theorem 5.12 of
    Mohapatra et al. (2024) amplifies one.

    Examples
    --------
    >>> rates = {"State": 0.75, "Gender": 0.75, "Income": 0.75}
    >>> models = ["State", "Occupation", "Gender", "Income"]
    >>> round(column_wise_bound(models, [0.25] * 4, observed=rates), 6)
    0.829337
    """
    costs = check_epsilons(epsilons, count=len(targets))
    rates = check_observed(observed)
    by_target: dict[str, float] = {}
    for target, cost in zip(targets, costs, strict=True):
        by_target[target] = by_target.get(target, 0.0) + cost
    return math.fsum(
        amplified_epsilon(rates.get(target, 1.0), cost) for target, cost in by_target.items()
    )


def largest_gate_probability(
    attributes: Collection[str],
    observed: Mapping[str, float],
    *,
    smallest: int,
    always: Collection[str] = (),
) -> float:
    """Largest probability that a gate is open, over all gates that the data might choose.

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


def adaptive_structure_bound(
    epsilons: Sequence[float],
    *,
    attributes: Collection[str],
    observed: Mapping[str, float],
    smallest: int,
    always: Collection[str] = (),
    selection_epsilon: float = 0.0,
    selection_gate: Gate = None,
) -> float:
    r"""Guarantee for pure measurements whose gates a private selection chose from the data.

    Parameters
    ----------
    epsilons : sequence of float
        ε_j of the measurements; each is pure.
    attributes, observed, smallest, always
        As for :func:`largest_gate_probability`: facts that hold for *every* structure that the
        selection could have chosen, not facts of the chosen one.
    selection_epsilon : float
        ε of the selection. It is added whole...
    selection_gate : collection of str, or None
        ...unless the selection reads only rows complete on this *fixed* set.

    Returns
    -------
    float
        The bound; a guarantee, unlike the mask mixture of the structure that was chosen.

    Notes
    -----
    For one output the structure is known, so its likelihood ratio is at most
    e^{ε_sel}·E_m[exp Σ ε_j·1(S_j observed)]. Hölder's inequality with weights ε_j/E, E = Σ ε_j,
    bounds the expectation by Π (1 + P(S_j)(e^E - 1))^{ε_j/E} <= 1 + p*(e^E - 1), where p* is the
    largest probability of a gate that could have been chosen. The other direction follows from
    Jensen's inequality. A gated selection takes part in Hölder's inequality with its own
    probability; the smaller of the two results is returned. Only for pure mechanisms: the
    argument compares densities, output by output.

    Examples
    --------
    >>> rates = dict.fromkeys("abcd", 0.5)
    >>> bound = adaptive_structure_bound(
    ...     [0.25, 0.25], attributes="a b c d".split(), observed=rates, smallest=2,
    ...     selection_epsilon=0.5,
    ... )
    >>> round(bound, 4)
    0.6503
    """
    costs = check_epsilons(epsilons, count=len(epsilons))
    (selecting,) = check_epsilons([selection_epsilon], count=1, name="selection_epsilon")
    best = largest_gate_probability(attributes, observed, smallest=smallest, always=always)
    measuring = math.fsum(costs)
    bound = selecting + amplified_epsilon(best, measuring)
    total = selecting + measuring
    if total > 0.0:
        door = gate_probability(selection_gate, check_observed(observed))
        joint = (
            selecting * amplified_epsilon(door, total) + measuring * amplified_epsilon(best, total)
        ) / total
        bound = min(bound, joint)
    return bound


def distinct_targets_bound(
    epsilons: Sequence[float], *, attributes: Collection[str], observed: Mapping[str, float]
) -> float:
    """Guarantee for data-chosen gates where each measurement has a target attribute of its own.

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


class GroupCost(Protocol):
    """A cost c(p, w) that is 0 at w = 0, convex in w, linear in w at p = 1, and rises with p.

    ``p`` is the probability that the gate is open, ``w`` the summed weight of its mechanisms.
    """

    def value(self, probability: float, weight: float) -> float:
        """Return c(p, w)."""
        ...

    def slope(self, probability: float, weight: float) -> float:
        """Return the derivative of c(p, w) in w."""
        ...


@dataclass(frozen=True)
class LinearCost:
    """The paper's p·ε: **not** a bound on any privacy loss.

    Examples
    --------
    >>> LinearCost().value(0.5, 1.0)
    0.5
    """

    def value(self, probability: float, weight: float) -> float:
        """Return p·w."""
        return probability * weight

    def slope(self, probability: float, weight: float) -> float:  # noqa: ARG002
        """Return p."""
        return probability


@dataclass(frozen=True)
class PureCost:
    """The sound log(1 + p(e^ε - 1)) of pure mechanisms; weights are epsilons.

    Examples
    --------
    >>> round(PureCost().value(0.5, 1.0), 4)
    0.6201
    """

    def value(self, probability: float, weight: float) -> float:
        """Return log(1 + p(e^w - 1))."""
        return amplified_epsilon(probability, weight)

    def slope(self, probability: float, weight: float) -> float:
        """Return p/(p + (1 - p)e^{-w})."""
        if probability == 0.0:
            return 0.0
        return probability / (probability + (1.0 - probability) * math.exp(-weight))


@dataclass(frozen=True)
class RenyiCost:
    """Rényi divergence of integer order of a gated Gaussian group; weights are 1/σ².

    It only ranks partitions; what is reported comes from loss distributions.

    Parameters
    ----------
    order : int
        Rényi order, at least 2.

    Examples
    --------
    >>> RenyiCost(2).value(1.0, 0.5)
    0.5
    """

    order: int

    def value(self, probability: float, weight: float) -> float:
        """Return log E[(1 - p + p·l)^α]/(α - 1) for the Gaussian likelihood ratio l."""
        return self._moment(probability, weight)[0]

    def slope(self, probability: float, weight: float) -> float:
        """Return the derivative in the weight."""
        return self._moment(probability, weight)[1]

    def _moment(self, p: float, w: float) -> tuple[float, float]:
        alpha = self.order
        if p == 0.0:
            return 0.0, 0.0
        if p == 1.0:
            return alpha * w / 2.0, alpha / 2.0
        terms = [
            math.log(math.comb(alpha, k))
            + (alpha - k) * math.log1p(-p)
            + k * math.log(p)
            + k * (k - 1) * w / 2.0
            for k in range(alpha + 1)
        ]
        top = max(terms)
        shares = [math.exp(term - top) for term in terms]
        total = math.fsum(shares)
        slope = math.fsum(k * (k - 1) / 2.0 * share for k, share in enumerate(shares)) / total
        return max(0.0, top + math.log(total)) / (alpha - 1), slope / (alpha - 1)
