"""Gates: which attributes of a row must be observed before a mechanism reads the row.

A *gate* is a set of attribute names. ``None`` and the empty set both mean "every row is read". The
functions here check what the user states and reduce it to the smallest problem with the same
answer, over small integers instead of names.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from missdp.errors import ParameterError

__all__ = [
    "FactorGraph",
    "Gate",
    "as_gate",
    "check_epsilons",
    "check_observed",
    "check_probability",
    "factor_graph",
    "gate_probability",
]

Gate = Collection[str] | None


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
    """Probability that all attributes of a gate are observed, under independent masks.

    Attributes without a stated probability count as always observed (no amplification).

    Examples
    --------
    >>> gate_probability({"age", "income", "sex"}, {"age": 0.5, "income": 0.5})
    0.25
    """
    return math.prod(observed.get(name, 1.0) for name in sorted(as_gate(gate)))


@dataclass(frozen=True, kw_only=True)
class FactorGraph:
    """The reduced problem: binary variables that are 1 when observed, and AND-shaped factors.

    Attributes
    ----------
    constant : float
        Sum of the epsilons of mechanisms that read every row.
    names : tuple of tuple of str
        The attributes behind each variable: those that occur in exactly the same gates are one.
    observed : tuple of float
        Probability that each variable is 1, strictly between 0 and 1.
    scopes : tuple of frozenset of int
        Distinct, non-empty gates over the variables.
    weights : tuple of float
        Summed epsilon of the mechanisms that share each scope.

    Examples
    --------
    >>> graph = factor_graph([{"a", "b"}, None], [0.5, 0.25], {"a": 0.5, "b": 0.5})
    >>> graph.constant, graph.names, graph.observed
    (0.25, (('a', 'b'),), (0.25,))
    """

    constant: float
    names: tuple[tuple[str, ...], ...]
    observed: tuple[float, ...]
    scopes: tuple[frozenset[int], ...]
    weights: tuple[float, ...]

    @property
    def total(self) -> float:
        """Cost with nothing missing."""
        return self.constant + math.fsum(self.weights)


def factor_graph(
    gates: Sequence[Gate], epsilons: Sequence[float], observed: Mapping[str, float]
) -> FactorGraph:
    """Reduce gated mechanisms to the smallest factor graph with the same mask mixture.

    Attributes that are always observed drop out, a mechanism gated by an attribute that is never
    observed drops out whole, mechanisms with the same gate are summed, and attributes that occur
    in exactly the same gates become one variable (they can only act together).

    Examples
    --------
    >>> factor_graph([{"a"}, {"a"}], [0.5, 0.5], {"a": 0.75}).weights
    (1.0,)
    """
    rates = check_observed(observed)
    constant = 0.0
    weight_of: defaultdict[frozenset[str], float] = defaultdict(float)
    for gate, epsilon in zip(gates, epsilons, strict=True):
        live = frozenset(name for name in as_gate(gate) if rates.get(name, 1.0) < 1.0)
        if any(rates[name] == 0.0 for name in live):
            continue
        if live:
            weight_of[live] += epsilon
        else:
            constant += epsilon
    ordered = sorted(weight_of, key=lambda gate: (len(gate), sorted(gate)))
    uses: defaultdict[str, list[int]] = defaultdict(list)
    for index, gate in enumerate(ordered):
        for name in gate:
            uses[name].append(index)
    alike: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in sorted(uses):
        alike[tuple(uses[name])].append(name)
    names = tuple(tuple(group) for group in alike.values())
    scopes: list[set[int]] = [set() for _ in ordered]
    for variable, where in enumerate(alike):
        for index in where:
            scopes[index].add(variable)
    return FactorGraph(
        constant=constant,
        names=names,
        observed=tuple(math.prod(rates[name] for name in group) for group in names),
        scopes=tuple(frozenset(scope) for scope in scopes),
        weights=tuple(weight_of[gate] for gate in ordered),
    )
