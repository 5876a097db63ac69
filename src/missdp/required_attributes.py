"""Gates: which attributes a row must have observed to be read, and who chose them.

A *gate* is a set of attribute names. ``None`` and the empty set both mean "every row is read". Who
chose the gates decides what `missdp.ground_truth` can prove for the table before values went
missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic.dataclasses import dataclass

from missdp.conditions import Condition, Names
from missdp.errors import ParameterError
from missdp.validation import Count, Probability, as_tuple

RequiredAttributes = Collection[str] | None
"""Attributes that a row must have observed to be read; None or empty if every row is."""


def as_required_attributes(required: RequiredAttributes) -> frozenset[str]:
    """Return the gate as a set of names, empty for ``None``; a string would be a set of letters."""
    if required is None:
        return frozenset()
    if isinstance(required, str):
        raise ParameterError("a gate is a set of attribute names, not one string; write {'name'}")
    names = frozenset(required)
    if not all(isinstance(name, str) for name in names):
        raise ParameterError("a gate holds attribute names (strings)")
    return names


@dataclass(frozen=True)
class FixedRequirements(Condition):
    """The sets of attributes behind the gates were fixed without looking at the data."""

    holds_for_every_mask = True
    sentence = (
        "Which attributes each mechanism needs observed was fixed before the data was looked at."
    )


@dataclass(frozen=True, kw_only=True)
class DataChosenRequirements(Condition):
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
    """

    attributes: Names
    smallest: Count = 0
    always: Names = ()
    distinct_targets: bool = False

    holds_for_every_mask = True

    def __post_init__(self) -> None:
        if self.smallest > len(self.attributes):
            raise ParameterError("smallest must be at most the number of attributes")
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

    def check(self, required_sets: Sequence[frozenset[str]]) -> None:
        """Refuse gates that contradict the stated facts."""
        for required in required_sets:
            if not required <= set(self.attributes):
                raise ParameterError("a gate holds an attribute that is not among the attributes")
            if len(required) < self.smallest or not required >= set(self.always):
                raise ParameterError("a gate contradicts what is stated for every choice of gates")
        if self.distinct_targets and not _have_targets(required_sets):
            raise ParameterError("the gates do not have distinct targets")


def _have_targets(required_sets: Sequence[frozenset[str]]) -> bool:
    """Whether each gate can be given an attribute of its own: augmenting paths, one per gate."""
    owner: dict[str, int] = {}

    def give(index: int, tried: set[str]) -> bool:
        for name in required_sets[index] - tried:
            tried.add(name)
            if name not in owner or give(owner[name], tried):
                owner[name] = index
                return True
        return False

    return all(give(index, set()) for index in range(len(required_sets)))


def _in_order(required_sets: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(required_sets))


@dataclass(frozen=True, kw_only=True)
class ChosenRequirements(Condition):
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
    """

    among: Annotated[tuple[Names, ...], BeforeValidator(as_tuple), AfterValidator(_in_order)]
    largest_share: Probability = 1.0

    holds_for_every_mask = True
    chosen = "marginals that were chosen"
    selections = "selections of marginals"

    def __post_init__(self) -> None:
        if not self.among or not self.largest_share:
            raise ParameterError("among and largest_share must not be empty, nor zero")

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        share = f"; none gets more than {self.largest_share:.4g} of it"
        return (
            f"Marginals were chosen from the data among {len(self.among)} that were fixed in "
            f"advance, up to a cap{share if self.largest_share < 1 else ''}."
        )


Structure = FixedRequirements | DataChosenRequirements | ChosenRequirements
