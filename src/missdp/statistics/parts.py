"""Parts of every statistic: its cost, the imputation, and the door.

The functions at the end are what the door runs: plain functions of each row alone. Everything else
here is public, or released.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.accounting.weak import warn_if_weak
from missdp.errors import DataError, ParameterError, SchemaError, number
from missdp.mechanisms.asks import Ask, Noisy
from missdp.mechanisms.questions import QUANTA, Counts, Preparation, Question, Rows, Sums
from missdp.mechanisms.row_door import Charged, RowDoor
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.bound import not_everywhere
from missdp.schema.predicates import Predicate, parse_where
from missdp.statistics.estimates import Estimate, Interval, Names, clip, corners

__all__ = [
    "Imputation",
    "Parts",
    "check_range",
    "cost_of",
    "members",
    "members_of_both",
    "share",
]


# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40


def cost_of(epsilon: float | None, rho: float | None) -> Cost:
    """Return what a question may spend: pure DP ``epsilon``, or zCDP ``rho``.

    Raises
    ------
    ParameterError
        If both or neither are given, or what is given is out of range.

    Examples
    --------
    >>> cost_of(0.5, None)
    Cost(currency='pure', amount=0.5, order=None)
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError("give epsilon, or rho, and not both")
    amount = number("epsilon or rho", epsilon if rho is None else rho, most=1e9, open_end=True)
    return Cost(currency="zcdp" if rho is not None else "pure", amount=amount)


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole.

    Examples
    --------
    >>> share(Cost(currency="pure", amount=1.0), 0.25).amount <= 0.25
    True
    """
    return replace(cost, amount=cost.amount * part * _SHARE)


_CLOSEST = 1e-150
_TIMES = tuple(2 ** (k / 2) for k in range(1, 81))  # by which noise might be less


def check_range(attribute: AnyAttribute) -> None:
    """Refuse bounds whose squares floating point cannot hold; a public fact.

    Raises
    ------
    SchemaError
        If the attribute is numeric and its bounds are closer than 1e-150.
    """
    if isinstance(attribute, Numeric) and attribute.upper - attribute.lower < _CLOSEST:
        raise SchemaError(
            f"the bounds of {attribute.name!r} are too close for statistics; use another unit"
        )


class Imputation(ABC):
    """How holes are filled, as far as privacy is concerned. Public."""

    @abstractmethod
    def check(self, schema: Schema) -> object:
        """Refuse a schema it does not fit."""

    def fills(self) -> frozenset[str]:
        """Attributes that are filled, by default none; numeric ones need values, not bins only."""
        return frozenset()

    def shared(self) -> frozenset[str]:
        """Attributes whose filled values depend on other rows without noise; by default none."""
        return frozenset()

    def step(self, name: str, schema: Schema) -> float:
        """Largest move of a filled value per exchanged donor, as a share of the range."""
        del name, schema
        return 0.0

    def releases(self, schema: Schema) -> tuple[tuple[Ask, Question], ...]:
        """What filling itself releases first; by default nothing."""
        del schema
        return ()

    @abstractmethod
    def preparation(
        self, schema: Schema, released: Sequence[NDArray[np.float64]] = ()
    ) -> Preparation:
        """Return how a door prepares its rows, given what was released."""


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Public facts of a session, and its one door to the rows.

    Parameters
    ----------
    door : RowDoor
        To the imputed rows.
    imputation : Imputation
    confidence : float
        Of error bars.
    """

    door: RowDoor
    imputation: Imputation
    confidence: float

    @property
    def schema(self) -> Schema:
        """Public facts about the rows."""
        return self.door.schema

    # Words

    def where(self, text: str | None, *, named: str = "where") -> Predicate:
        """Parse a subpopulation."""
        chosen = parse_where(text, self.schema, named=named)
        self._check_values(chosen.names)
        return chosen

    def numeric(self, name: str) -> Numeric:
        """Return a numeric attribute; refuse others."""
        attribute = self.schema[name]
        if not isinstance(attribute, Numeric):
            raise SchemaError(f"{name!r} is not numeric; ask for proportions or a histogram")
        check_range(attribute)
        self._check_values([name])
        return attribute

    def _check_values(self, names: Iterable[str]) -> None:
        """Refuse, before anything is charged, to compare values of a table that has bins only."""
        for name in names:
            if isinstance(self.schema[name], Numeric) and name not in self.door.valued:
                raise DataError(f"attribute {name!r} has no numeric values in this table")

    # How far a donor moves things

    def depends(self, chosen: Predicate) -> bool:
        """Whether membership reads imputed values that depend on other rows."""
        return bool(chosen.names & self.imputation.shared())

    def moved(self, name: str) -> float:
        """How far the value of one donee that exchanges a donor moves."""
        attribute = self.numeric(name)
        if name not in self.imputation.shared():
            return 0.0
        return (attribute.upper - attribute.lower) * self.imputation.step(name, self.schema)

    def change(self, name: str, chosen: Predicate, limit: float) -> float:
        """How far one donee that exchanges a donor moves a sum of values within ``limit``."""
        # A donee that enters or leaves the subpopulation brings or takes its whole value.
        return max(self.moved(name), limit) if self.depends(chosen) else self.moved(name)

    # Releases to come

    def count_ask(self, label: str, cost: Cost, *chosen: Predicate, known: Names = ()) -> Ask:
        """A count of a subpopulation, or of the rows in it in which attributes are known."""
        reads = frozenset(self._holes(known)).union(*(part.names for part in chosen))
        return Ask(label=label, cost=cost, reads=reads)

    def sum_ask(
        self, label: str, name: str, chosen: Predicate, cost: Cost, *, known: Names = ()
    ) -> Ask:
        """A sum, refused here if there is nothing to add up."""
        self.numeric(name)
        reads = chosen.names.union({name}, self._holes(known))
        return Ask(label=f"{label} of {name}", cost=cost, reads=reads, own=QUANTA, moves=2)

    def begin(self, *asks: Ask) -> tuple[Charged, ...]:
        """Charge for all releases of an answer, before anything is read."""
        warn_if_weak(self.door.guarantee(*asks).epsilon)
        return self.door.begin(*asks)

    # Answers

    def one(self, charged: Charged, question: Question) -> Noisy:
        """Return a released number."""
        return self.door.answer(charged, question).each()[0]

    def size(self, charged: Charged, chosen: Predicate, known: Names) -> Noisy:
        """Return the released number of rows of a subpopulation in which attributes are known."""
        about = self.applicable(known)
        given = (chosen, self._holes(known), about)
        reads = chosen.names.union(given[1])
        question = Counts(
            function=_known_members, reads=reads, given=given, applies=frozenset(about)
        )
        return self.one(charged, question)

    def total(
        self,
        charged: Charged,
        name: str,
        chosen: Predicate,
        known: Names,
        *,
        centre: float,
        limit: float,
    ) -> Noisy:
        """Return a released sum of values less a centre, each within the limit."""
        change = self.change(name, chosen, limit)
        return self.products(charged, (name,), (centre,), chosen, known, limit=limit, change=change)

    def products(
        self,
        charged: Charged,
        names: Names,
        centres: tuple[float, ...],
        chosen: Predicate,
        known: Names,
        *,
        limit: float,
        change: float,
    ) -> Noisy:
        """Return a released sum of products of deviations, each within the limit."""
        about = self.applicable(known)
        question = Sums(
            function=_products,
            reads=chosen.names.union(names, self._holes(known)),
            applies=frozenset(about),
            given=(chosen, self._holes(known), about, names, centres),
            bound=limit,
            change=change,
        )
        return self.one(charged, question)

    def confidence_of_each(self, pieces: int) -> float:
        """Return the confidence that each of several numbers needs so that all hold together."""
        scale = self.door.scale
        left = (1 - self.confidence) - (0.0 if scale is None else scale.failure)
        return 1 - left / pieces

    def single(
        self, label: str, noisy: Noisy, asks: list[Ask], bounds: Interval, about: Names = ()
    ) -> Estimate:
        """Return one released number, within public bounds."""
        each = self.confidence_of_each(1)

        def interval(times: float) -> Interval | None:
            return corners(lambda n: n, [noisy.within(each, times=times)], bounds)

        return self.estimate(label, clip(noisy.value, bounds), interval, asks, bounds, about)

    def quotient(
        self,
        label: str,
        noisy: tuple[Noisy, Noisy],
        asks: list[Ask],
        bounds: tuple[float, float],
        shift: Callable[[float], float],
        about: Iterable[str],
    ) -> Estimate:
        """Return the shifted quotient of two released numbers, within public bounds."""
        part, whole = noisy

        def ratio(top: float, bottom: float) -> float:
            return shift(top / max(bottom, 1.0))

        def interval(times: float) -> Interval | None:
            each = self.confidence_of_each(2)
            known = [part.within(each, times=times), whole.within(each, times=times)]
            return corners(ratio, known, bounds)

        value = clip(ratio(part.value, whole.value), bounds)
        return self.estimate(label, value, interval, asks, bounds, about)

    def estimate(
        self,
        name: str,
        value: float,
        interval: Callable[[float], Interval | None],
        asks: list[Ask],
        bounds: Interval,
        about: Iterable[str] = (),
    ) -> Estimate:
        """Put an answer, its guarantee, and the attributes that it is of, together.

        ``interval(times)`` is the interval if noise were that many times less, within ``bounds``.
        """
        found = interval(1.0)
        note = self.without_interval(asks) if found is None else ""
        if found == bounds:
            half = (bounds[1] - bounds[0]) / 2
            boxes = ((times, interval(times)) for times in _TIMES)
            enough = next((t for t, box in boxes if box and box[1] - box[0] <= half), _TIMES[-1])
            # Noise for filled cells falls with the square of epsilon, about: so does its scale.
            needed = self._worth(asks, math.sqrt(enough) if self._rough(asks) else enough)
            note = (
                "The interval is the whole range: noise is as large as what it is added to. It "
                f"would be half as wide with an {needed}"
            )
        return Estimate(
            name=name, value=value, interval=found, confidence=self.confidence, note=note,
            guarantee=self.door.guarantee(*asks), applicable=self.applicable(about),
        )  # fmt: skip

    def without_interval(self, asks: Sequence[Ask]) -> str:
        """Return why an answer has no interval, and about which epsilon would help; public."""
        scale = self.door.scale
        if scale is None:
            return (
                "No noise interval: the answer reads filled cells, so the scale of its noise is "
                f"private, and was not paid for. That takes an {self._worth(asks, 0.25)} more "
                "(ScaleRelease, or --error-bar)"
            )
        # A question may be no rougher than the released scale; its beta is epsilon / 3 at most.
        short = (max(3, a.dimension + 1) * scale.beta / a.epsilon for a in self._rough(asks))
        needed = self._worth(asks, 1.1 * max(1.0, *short))
        return (
            f"No noise interval: the question is too cheap beside the scale. It takes an {needed}"
        )

    def _rough(self, asks: Sequence[Ask]) -> list[Ask]:
        """Return the releases whose noise follows a private bound."""
        filled = self.imputation.shared() if self.door.needs_scale else frozenset()
        return [ask for ask in asks if ask.reads & filled and not ask.observed]

    def _worth(self, asks: Sequence[Ask], times: float) -> str:
        """Return so many times what an answer costs, the released scale apart, in words."""
        costs = [ask.cost for ask in asks if isinstance(ask.cost, Cost)]
        whole = math.fsum(cost.amount for cost in costs)
        name, power = ("rho", 2) if costs[0].currency == "zcdp" else ("epsilon", 1)
        return f"{name} of about {float(f'{whole * times**power:.2g}'):g}"

    def applicable(self, names: Iterable[str]) -> Names:
        """Return those attributes that are not applicable to some rows."""
        return not_everywhere(self.schema, sorted({*names}))

    def _holes(self, names: Names) -> Names:
        """Return those attributes that may be missing after imputation."""
        return tuple(name for name in names if name not in self.imputation.fills())


# What the door runs


def members(rows: Rows, chosen: Predicate, about: Names) -> NDArray[np.bool_]:
    """Return the rows of a subpopulation, of those to which all of some attributes apply."""
    found = chosen.select(rows)
    for name in about:
        found = found & rows.applies(name)[0]
    return found


def members_of_both(
    rows: Rows, first: Predicate, second: Predicate, about: Names
) -> NDArray[np.bool_]:
    """Return the rows of two subpopulations at once."""
    return np.asarray(members(rows, first, about) & second.select(rows))


def _known_members(rows: Rows, chosen: Predicate, names: Names, about: Names) -> NDArray[np.bool_]:
    found = members(rows, chosen, about)
    for name in names:
        found = found & ~rows.mask(name)
    return found


def _products(
    rows: Rows,
    chosen: Predicate,
    known: Names,
    about: Names,
    names: Names,
    centres: tuple[float, ...],
) -> NDArray[np.float64]:
    factors = (rows.values(n) - c for n, c in zip(names, centres, strict=True))
    return np.where(_known_members(rows, chosen, known, about), math.prod(factors), 0.0)
