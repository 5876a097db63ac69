"""Who chose the gates: facts about a release that decide which amplification bound is valid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from missdp.accounting.conditions import Condition
from missdp.errors import ParameterError

__all__ = ["DataChosenGates", "FixedGates"]


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
