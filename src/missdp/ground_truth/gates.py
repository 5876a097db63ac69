"""Gates and observed rates: which attributes must be observed in a row, and how often they are.

A *gate* is a set of attribute names. ``None`` and the empty set both mean "every row is read". Who
chose the gates decides which amplification bound is valid. A raw missing rate is private data:
printing it, or a bound computed from it, is a leak. The counts from which a rate is bounded here
have been through a mechanism, and the noise is part of the uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from missdp.accounting.conditions import NAMES, Assumption, Condition
from missdp.errors import ParameterError
from missdp.record import COUNT, FRACTION

__all__ = [
    "ChosenGates",
    "DataChosenGates",
    "FixedGates",
    "Gate",
    "NoiseKind",
    "ObservedRateBound",
    "Structure",
    "as_gate",
    "check_epsilons",
    "check_observed",
    "check_probability",
    "gate_probability",
    "observed_rate_bound",
]


Gate = Collection[str] | None
"""Attributes that a row must have observed to be read; None or empty if every row is."""


def as_gate(gate: Gate) -> frozenset[str]:
    """Return the gate as a frozen set of attribute names; ``None`` becomes the empty set.

    Parameters
    ----------
    gate : collection of str, or None
        Attributes that must be observed in a row. A bare string is refused: it would be read
        as a set of letters.

    Returns
    -------
    frozenset of str

    Raises
    ------
    ParameterError
        If the gate is a string or holds something other than attribute names.

    Examples
    --------
    >>> sorted(as_gate(["income", "age"]))
    ['age', 'income']
    >>> as_gate(None)
    frozenset()
    """
    if gate is None:
        return frozenset()
    if isinstance(gate, str):
        raise ParameterError("a gate is a set of attribute names, not one string; write {'name'}")
    names = frozenset(gate)
    if not all(isinstance(name, str) for name in names):
        raise ParameterError("a gate holds attribute names (strings)")
    return names


def check_probability(value: float, *, name: str) -> float:
    """Return ``value`` as a float in [0, 1], or refuse it.

    Examples
    --------
    >>> check_probability(0.25, name="observed")
    0.25
    """
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ParameterError(f"{name} must be a probability between 0 and 1")
    return number


def check_observed(observed: Mapping[str, float]) -> dict[str, float]:
    """Check observed probabilities π (one minus the missing rate) by attribute name.

    Examples
    --------
    >>> check_observed({"age": 0.75})
    {'age': 0.75}
    """
    return {
        name: check_probability(value, name="an observed probability")
        for name, value in observed.items()
    }


def check_epsilons(epsilons: Iterable[float], *, count: int, name: str = "epsilons") -> list[float]:
    """Check a list of ``count`` finite, non-negative privacy parameters.

    Examples
    --------
    >>> check_epsilons([0.5, 0.25], count=2)
    [0.5, 0.25]
    """
    values = [float(value) for value in epsilons]
    if len(values) != count:
        raise ParameterError(f"{name} needs one value for each gate")
    if not all(math.isfinite(value) and value >= 0.0 for value in values):
        raise ParameterError(f"{name} must be finite and not negative")
    return values


def gate_probability(gate: Gate, observed: Mapping[str, float]) -> float:
    """Return the probability that all attributes of a gate are observed, under independent masks.

    Attributes without a stated probability count as always observed (no amplification).

    Examples
    --------
    >>> gate_probability({"age", "income", "sex"}, {"age": 0.5, "income": 0.5})
    0.25
    """
    return math.prod(observed.get(name, 1.0) for name in sorted(as_gate(gate)))


@dataclass(frozen=True)
class FixedGates(Condition):
    """The sets of attributes behind the gates were fixed without looking at the data.

    Examples
    --------
    >>> print(FixedGates())
    Which attributes each mechanism needs observed was fixed before the data was looked at.
    """

    holds_for_every_mask: ClassVar[bool] = True
    sentence: ClassVar[str] = (
        "Which attributes each mechanism needs observed was fixed before the data was looked at."
    )


@dataclass(frozen=True, kw_only=True)
class DataChosenGates(Condition):
    """The gates were chosen from the data, by mechanisms that are among the events.

    Parameters
    ----------
    attributes : iterable of str
        Every attribute that a gate could have held: normally all columns of the schema.
    smallest : int, default 0
        Every gate holds at least this many attributes, whatever the data. 0: nothing is known.
    always : iterable of str, default ()
        Attributes that every gate holds, whatever the data.
    distinct_targets : bool, default False
        Whether each gated mechanism has an attribute of its own in its gate, whatever the data,
        as the children of a Bayesian network are.

    Raises
    ------
    ParameterError
        If the facts contradict each other.

    Examples
    --------
    >>> print(DataChosenGates(attributes=["a", "b", "c"], smallest=2))
    The attributes that mechanisms need observed were chosen from the data among a, b, c; whatever the data, each needs at least 2 of them.
    """  # noqa: E501

    attributes: tuple[str, ...] = field(metadata=NAMES)
    smallest: int = field(default=0, metadata=COUNT)
    always: tuple[str, ...] = field(default=(), metadata=NAMES)
    distinct_targets: bool = False

    holds_for_every_mask: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smallest > len(self.attributes):
            raise ParameterError("smallest must be at most the number of attributes")
        if not isinstance(self.distinct_targets, bool):
            raise ParameterError("distinct_targets must be True or False")
        if not set(self.always) <= set(self.attributes):
            raise ParameterError("always must be among the attributes")

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        facts = []
        if self.smallest:
            facts.append(f"each needs at least {self.smallest} of them")
        if self.always:
            facts.append(f"each needs {', '.join(self.always)}")
        if self.distinct_targets:
            facts.append("each needs one that is its own")
        known = f"; whatever the data, {' and '.join(facts)}" if facts else ""
        return (
            "The attributes that mechanisms need observed were chosen from the data among "
            f"{', '.join(self.attributes)}{known}."
        )

    def check(self, gates: Sequence[frozenset[str]]) -> None:
        """Refuse gates that contradict the stated facts.

        Raises
        ------
        ParameterError
            If a gate is too small, misses an attribute of ``always``, holds an undeclared one, or
            no choice of distinct targets exists.
        """
        for gate in gates:
            if not gate <= set(self.attributes):
                raise ParameterError("a gate holds an attribute that is not among the attributes")
            if len(gate) < self.smallest or not gate >= set(self.always):
                raise ParameterError("a gate contradicts what is stated for every choice of gates")
        if self.distinct_targets and not self._matched(gates):
            raise ParameterError("the gates do not have distinct targets")

    def _matched(self, gates: Sequence[frozenset[str]]) -> bool:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        if not gates:
            return True
        holds = np.array([[name in gate for name in self.attributes] for gate in gates], dtype=int)
        return bool((maximum_bipartite_matching(csr_array(holds), perm_type="column") >= 0).all())


def _sets(_: str, values: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(tuple(sorted(as_gate(tuple(v)))) for v in values))


@dataclass(frozen=True, kw_only=True)
class ChosenGates(Condition):
    """Marginals were chosen from the data, one after the other, with noise chosen as well.

    Nothing but caps is known: of what is labelled `chosen`, of what is labelled `selections`, which
    are selections by the exponential mechanism, and of everything else, whose gates were fixed.

    Parameters
    ----------
    among : iterable of iterable of str
        For each marginal that might have been chosen, the attributes that a row must have observed
        to be read. Empty: every row is.
    largest_share : float, default 1.0
        No marginal got more than this share of the cap, whatever the data.

    Examples
    --------
    >>> print(ChosenGates(among=[("a", "b"), ("b", "c")]))
    Marginals were chosen from the data among 2 that were fixed in advance, up to a cap.
    """

    among: tuple[tuple[str, ...], ...] = field(metadata={"check": _sets})
    largest_share: float = field(default=1.0, metadata=FRACTION)

    holds_for_every_mask: ClassVar[bool] = True
    chosen: ClassVar[str] = "marginals that were chosen"
    selections: ClassVar[str] = "selections of marginals"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.among or not self.largest_share:
            raise ParameterError("among and largest_share must not be empty, nor zero")

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        share = f"; none gets more than {self.largest_share:.4g} of it"
        return (
            f"Marginals were chosen from the data among {len(self.among)} that were fixed in "
            f"advance, up to a cap{share if self.largest_share < 1 else ''}."
        )

    def check(self, gates: Sequence[frozenset[str]]) -> None:
        """Nothing in the gates of caps can contradict what is stated."""


Structure = FixedGates | DataChosenGates | ChosenGates


NoiseKind = Literal["laplace", "discrete-laplace", "gaussian", "discrete-gaussian"]
"""The kinds of noise of which the loss behind a gate is known."""


@dataclass(frozen=True, kw_only=True)
class ObservedRateBound:
    """An upper bound on an observed probability, with the confidence it was computed at.

    Attributes
    ----------
    attribute : str
        The attribute.
    upper : float
        Upper bound on π, in [0, 1].
    confidence : float
        Probability with which the procedure gives a valid bound.
    conditions : tuple of Condition
        The confidence and the model behind it, to be carried by every guarantee that uses the
        bound: ``ground_truth_guarantee(..., conditions=bound.conditions)``.

    Examples
    --------
    >>> bound = observed_rate_bound(
    ...     2000.0, 10_000.0, attribute="income", scale=10.0, total_scale=10.0
    ... )
    >>> print(bound.conditions[0])
    The observed probability of income is at most 0.813 with confidence 0.95 (one-sided; from noisy counts, rows losing the value independently at one rate).
    """  # noqa: E501

    attribute: str
    upper: float
    confidence: float
    conditions: tuple[Condition, ...]


def observed_rate_bound(
    noisy_missing_count: float,
    noisy_total: float,
    *,
    attribute: str,
    scale: float,
    total_scale: float,
    noise: NoiseKind = "discrete-laplace",
    confidence: float = 0.95,
) -> ObservedRateBound:
    """Bound from above the probability that an attribute is observed, from released counts.

    Parameters
    ----------
    noisy_missing_count : float
        Released noisy number of rows in which the attribute is missing. Never a raw count.
    noisy_total : float
        Released noisy number of rows. Never a raw count.
    attribute : str
        Name of the attribute.
    scale, total_scale : float
        Noise parameter of either count (b of the Laplace, σ of the Gaussian laws), above 0.
    noise : {"laplace", "discrete-laplace", "gaussian", "discrete-gaussian"}
        Law of both noises.
    confidence : float
        In (0, 1), for this attribute alone: for several attributes at joint confidence 1 - β give
        each 1 - β/k.

    Returns
    -------
    ObservedRateBound

    Raises
    ------
    ParameterError
        If a parameter is out of its range, in particular a noise scale of 0.

    Notes
    -----
    The failure probability β = 1 - confidence is split in three. Except with probability β/3 each,
    the true missing count is at least the noisy one less a quantile of its noise, the true total
    at most the noisy one plus a quantile, and, given those, the missing probability is at least
    Clopper and Pearson's lower limit, which rises with the count and falls with the total. What
    comes out is post-processing of released values; the counts' own privacy cost is charged where
    they are released. A guarantee that uses the bound holds under it, so with that confidence.

    Examples
    --------
    >>> bound = observed_rate_bound(
    ...     2000.0, 10_000.0, attribute="income", scale=10.0, total_scale=10.0
    ... )
    >>> 0.8 < bound.upper < 0.83
    True
    """
    if not 0.0 < confidence < 1.0:
        raise ParameterError("confidence must be inside (0, 1)")
    if not (math.isfinite(noisy_missing_count) and math.isfinite(noisy_total)):
        raise ParameterError("the noisy counts must be finite")
    share = (1.0 - confidence) / 3.0
    missing = math.ceil(noisy_missing_count - _quantile(noise, scale, share))
    total = math.floor(noisy_total + _quantile(noise, total_scale, share))
    upper = _observed_upper(missing, total, share)
    # Rounding the printed figure up keeps the sentence true.
    shown = min(1.0, math.ceil(upper * 1000.0) / 1000.0)
    text = (
        f"The observed probability of {attribute} is at most {shown:g} with confidence "
        f"{confidence:g} (one-sided; from noisy counts, rows losing the value independently at "
        "one rate)."
    )
    return ObservedRateBound(
        attribute=attribute,
        upper=upper,
        confidence=confidence,
        conditions=(Assumption(text),),
    )


def _observed_upper(missing: int, total: int, share: float) -> float:
    """One minus the Clopper-Pearson lower limit; 1 where the counts say nothing."""
    from scipy import special

    if missing <= 0 or total <= 0:
        return 1.0
    if missing >= total:
        missing = total
    return float(1.0 - special.betaincinv(missing, total - missing + 1, share))


def _quantile(noise: NoiseKind, scale: float, share: float) -> float:
    """Return q with P(noise > q) <= share; by symmetry also P(noise < -q) <= share."""
    from scipy import special

    if noise not in get_args(NoiseKind):
        raise ParameterError(f"noise must be one of {', '.join(get_args(NoiseKind))}")
    if not (math.isfinite(scale) and scale > 0.0):
        raise ParameterError("a noise scale must be above 0: a count without noise is private")
    if noise == "laplace":
        return max(0.0, -scale * math.log(2.0 * share))
    if noise == "discrete-laplace":
        # P(X >= k) = e^{-k/b}/(1 + e^{-1/b}) for integers k >= 1; q is the largest k not refused.
        tail = -scale * (math.log(share) + math.log1p(math.exp(-1.0 / scale)))
        return max(0.0, float(math.ceil(tail)) - 1.0)
    normal = max(0.0, float(-special.ndtri(share)) * scale)
    # Canonne, Kamath & Steinke 2020: P(X >= k) <= P(N >= k - 1) for the discrete Gaussian.
    return normal if noise == "gaussian" else normal + 1.0
