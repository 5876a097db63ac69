"""Required attributes: sets of attributes that a row must have observed to be read.

A *required set* is a set of attribute names. ``None`` and the empty set both mean "every row is
read". Proofs for the table before values went missing (`missdp.ground_truth`) depend on the choice
of the required sets: fixed in advance, or from the data.
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
"""Names of attributes that a row must have observed to be read. None or empty: no attribute."""


def as_required_attributes(required: RequiredAttributes) -> frozenset[str]:
    """Return the attributes that a row must have observed to be read, as a set of names.

    Parameters
    ----------
    required : collection of str or None
        The names. None: every row is read.

    Returns
    -------
    frozenset of str
        Empty if every row is read.

    Raises
    ------
    ParameterError
        If it is one text, or an element is not a text.
    """
    if required is None:
        return frozenset()
    if isinstance(required, str):
        raise ParameterError("required attributes are a set, not one string. Write {'name'}.")
    names = frozenset(required)
    if not all(isinstance(name, str) for name in names):
        raise ParameterError("required attributes must be names (strings)")
    return names


@dataclass(frozen=True)
class FixedRequirements(Condition):
    """Condition of a guarantee: the attributes that mechanisms require were fixed without the data.

    Required attributes are attributes that a row must have observed to be read. Pass the condition
    as ``structure=`` to `missdp.ground_truth.ground_truth_guarantee`. It is stated with the
    guarantee and not checked.

    Examples
    --------
    >>> from missdp.ground_truth import FixedRequirements
    >>> FixedRequirements().holds_for_every_mask
    True
    """

    holds_for_every_mask = True
    sentence = (
        "Which attributes each mechanism needs observed was fixed before the data was looked at."
    )


@dataclass(frozen=True, kw_only=True)
class DataChosenRequirements(Condition):
    """Condition of a guarantee: the attributes that mechanisms require were chosen from the data.

    Required attributes are attributes that a row must have observed to be read. The mechanisms that
    chose them are among the charged events. Pass the condition as ``structure=`` to
    `missdp.ground_truth.ground_truth_guarantee`. The limits must hold for all data. They are stated
    with the guarantee. `check` finds events that contradict them.

    Parameters
    ----------
    attributes : iterable of str
        Every attribute that a required set could have: normally all columns of the schema.
    smallest : int, default 0
        Smallest number of attributes of a required set, for all data, from 0 to the number of
        attributes. 0 states no limit.
    always : iterable of str, default ()
        Attributes of every required set, for all data.
    distinct_targets : bool, default False
        Whether each required set has an attribute that no other set claims, for all data. An
        example is the children of a Bayesian network.

    Raises
    ------
    ParameterError
        If ``smallest`` exceeds the number of attributes, ``always`` has other attributes, or a
        field has the wrong type.

    Examples
    --------
    >>> from missdp.ground_truth import DataChosenRequirements
    >>> DataChosenRequirements(attributes=("age", "sex"), smallest=1).attributes
    ('age', 'sex')
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
        """Return the assumption that the data chose the required attributes, as a text.

        Returns
        -------
        str
            The text that a printed guarantee states, one or two sentences. Public.
        """
        facts = []
        if self.smallest:
            facts.append(f"each needs at least {self.smallest} of them")
        if self.always:
            facts.append(f"each needs {', '.join(self.always)}")
        if self.distinct_targets:
            facts.append("each needs one that is its own")
        stated = f" For all data, {' and '.join(facts)}." if facts else ""
        return (
            "The attributes that mechanisms need observed were chosen from the data among "
            f"{', '.join(self.attributes)}.{stated}"
        )

    def check(self, required_sets: Sequence[frozenset[str]]) -> None:
        """Raise an error if the attributes that mechanisms required contradict the stated limits.

        Parameters
        ----------
        required_sets : sequence of frozenset of str
            For each mechanism, the attributes that a row must have observed to be read. Public or
            released.

        Raises
        ------
        ParameterError
            If a set has an unlisted attribute, is too small, or lacks an attribute of ``always``.
            If the sets have no distinct targets although these are stated.
        """
        for required in required_sets:
            if not required <= set(self.attributes):
                raise ParameterError("a required set has a name that is not among the attributes")
            if len(required) < self.smallest or not required >= set(self.always):
                raise ParameterError("a required set contradicts the facts stated for all data")
        if self.distinct_targets and not _have_targets(required_sets):
            raise ParameterError("the required sets do not have distinct targets")


def _have_targets(required_sets: Sequence[frozenset[str]]) -> bool:
    """Whether each set can have an exclusive attribute, by one augmenting path for each set."""
    owner: dict[str, int] = {}

    def give(index: int, tried: set[str]) -> bool:
        for name in required_sets[index] - tried:
            tried.add(name)
            if name not in owner or give(owner[name], tried):
                owner[name] = index
                return True
        return False

    return all(give(index, set()) for index in range(len(required_sets)))


def _sorted_sets(required_sets: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(required_sets))


@dataclass(frozen=True, kw_only=True)
class ChosenRequirements(Condition):
    """Condition of a guarantee: marginals were chosen from the data, within a fixed privacy cost.

    A marginal is a table of counts over some attributes. A cap is the largest privacy cost of some
    events. Three caps are known: of events labelled `chosen`, of events labelled `selections`, and
    of all other events. Selections use the exponential mechanism. The required attributes of other
    events were fixed. The condition is stated with the guarantee and not checked.

    Parameters
    ----------
    among : iterable of iterable of str
        For each candidate marginal, the attributes that a row must have observed to be read. An
        empty inner collection stands for every row.
    largest_share : float, default 1.0
        Largest share of the cap that a single marginal gets, for all data. Above 0 and at most 1. 1
        states no limit.

    Attributes
    ----------
    chosen : str
        Class attribute: the label of events of chosen marginals.
    selections : str
        Class attribute: the label of events of selections.

    Raises
    ------
    ParameterError
        If ``among`` is empty, or ``largest_share`` is out of range.

    Examples
    --------
    >>> from missdp.ground_truth import ChosenRequirements
    >>> print(ChosenRequirements(among=(("age",), ("age", "sex")), largest_share=0.5))
    Marginals were chosen from the data among 2 that were fixed in advance, up to a cap; none
    gets more than 0.5 of it.
    """

    among: Annotated[tuple[Names, ...], BeforeValidator(as_tuple), AfterValidator(_sorted_sets)]
    largest_share: Probability = 1.0

    holds_for_every_mask = True
    chosen = "marginals that were chosen"
    selections = "selections of marginals"

    def __post_init__(self) -> None:
        if not self.among or not self.largest_share:
            raise ParameterError("among and largest_share must not be empty, nor zero")

    def statement(self) -> str:
        """Return the assumption that the data chose marginals among candidates, as one sentence.

        Returns
        -------
        str
            The sentence that a printed guarantee states. Public.
        """
        share = f"; none gets more than {self.largest_share:.4g} of it"
        return (
            f"Marginals were chosen from the data among {len(self.among)} that were fixed in "
            f"advance, up to a cap{share if self.largest_share < 1 else ''}."
        )


Structure = FixedRequirements | DataChosenRequirements | ChosenRequirements
