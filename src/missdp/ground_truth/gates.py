"""Gates: which attributes of a row must be observed before a mechanism reads the row.

A *gate* is a set of attribute names. ``None`` and the empty set both mean "every row is read". The
functions here check what the user states and reduce it to the smallest problem with the same
answer, over small integers instead of names.

Who chose the gates: facts about a release that decide which amplification bound is valid.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from missdp.accounting.conditions import Condition
from missdp.errors import ParameterError

__all__ = [
    "DataChosenGates",
    "FactorGraph",
    "FixedGates",
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


@dataclass(frozen=True)
class FixedGates(Condition):
    """The sets of attributes behind the gates were fixed without looking at the data.

    Examples
    --------
    >>> print(FixedGates())
    Which attributes each mechanism needs observed was fixed before the data was looked at.
    """

    holds_for_every_mask: ClassVar[bool] = True

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            "Which attributes each mechanism needs observed was fixed before the data was "
            "looked at."
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

    attributes: tuple[str, ...]
    smallest: int = 0
    always: tuple[str, ...] = ()
    distinct_targets: bool = False

    holds_for_every_mask: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", _names(self.attributes))
        object.__setattr__(self, "always", _names(self.always))
        if int(self.smallest) != self.smallest or not 0 <= self.smallest <= len(self.attributes):
            raise ParameterError("smallest must be a whole number, at most that of the attributes")
        object.__setattr__(self, "smallest", int(self.smallest))
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
        if not gates:
            return True
        holds = np.array([[name in gate for name in self.attributes] for gate in gates], dtype=int)
        return bool((maximum_bipartite_matching(csr_array(holds), perm_type="column") >= 0).all())


def _names(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ParameterError("attribute names must be a collection, not one string")
    return tuple(sorted({str(value) for value in values}))
