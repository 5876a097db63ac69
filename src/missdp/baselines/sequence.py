"""In which order attributes are drawn: a function of public facts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from missdp.schema import Schema
from missdp.schema.denial import PairDenial

__all__ = ["drawing_order"]


def drawing_order(schema: Schema, denials: Iterable[PairDenial]) -> tuple[int, ...]:
    """Return the positions of the attributes in the order in which they are drawn.

    Few levels come first, as they tell most for the least noise; but what a functional dependency
    determines comes after all that determines it, as far as dependencies do not go in circles.

    Parameters
    ----------
    schema : Schema
        What is modelled.
    denials : iterable of PairDenial
        Hard ones count, if they say that a functional dependency holds.

    Examples
    --------
    >>> from missdp.schema import Categorical, Denial
    >>> schema = Schema(
    ...     (
    ...         Categorical(name="city", levels=("Bonn", "Köln")),
    ...         Categorical(name="zip", levels=("53111", "50667", "50668")),
    ...     ),
    ...     rules=(Denial("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"),),
    ... )
    >>> drawing_order(schema, ()), drawing_order(schema, schema.rulebook.pairs)
    ((0, 1), (1, 0))
    """
    place = {name: i for i, name in enumerate(schema.names)}
    waits: list[set[int]] = [set() for _ in place]
    for denial in denials:
        known = denial.dependency if denial.holds == "always" else None
        if known is not None and place.keys() >= {*known[0], known[1]}:
            waits[place[known[1]]] |= {place[name] for name in known[0]}
    left = {a: (attribute.size, a) for a, attribute in enumerate(schema)}
    order: list[int] = []
    while left:
        free = [left[a] for a in left if not waits[a] & left.keys()]
        _, a = heapq.nsmallest(1, free or left.values())[0]
        order.append(a)
        del left[a]
    return tuple(order)
