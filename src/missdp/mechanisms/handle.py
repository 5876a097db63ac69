"""What every door has: a budget that is charged first, and answers that come from one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np

from missdp.accounting import Budget, Condition, Cost, Event
from missdp.errors import ParameterError
from missdp.mechanisms.answers import Law, Witness
from missdp.mechanisms.noise import NoiseSource

__all__ = ["Handle"]


class Handle:
    """A budget and a source of noise; private rows are added by those who inherit from it.

    Whatever leaves goes through `_release`, or through `_charge` and `_answer` in this order. A
    handle cannot be copied or pickled.

    Parameters
    ----------
    budget : Budget
    noise : NoiseSource
    conditions : iterable of Condition
        What every release rests on, beside the noise.
    """

    def __init__(
        self, *, budget: Budget, noise: NoiseSource, conditions: Iterable[Condition] = ()
    ) -> None:
        self._budget, self._noise = budget, noise
        self._conditions = (*conditions, *noise.conditions)

    @property
    def left(self) -> Cost:
        """What can still be spent."""
        return self._budget.left

    def share(self, part: float) -> Cost:
        """Return a share of what can still be spent.

        Parameters
        ----------
        part : float in (0, 1]
        """
        if isinstance(part, bool) or not 0 < part <= 1:
            raise ParameterError("a share must be above 0 and at most 1")
        return replace(self.left, amount=self.left.amount * part)

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing; its draws protect nothing."""
        return self._noise.generator()

    def _release(self, event: Event, law: Law, exact: Callable[[], Any]) -> Any:
        """Charge for an event, then compute what is exact and draw the answer."""
        self._charge(event)
        return self._answer(event, law, exact)

    def _charge(self, *events: Event) -> None:
        self._budget.charge(*events, conditions=self._conditions)

    def _answer(self, event: Event, law: Law, exact: Callable[[], Any]) -> Any:
        """Return the answer to what was charged. This is the one place where numbers leave."""
        if self._budget is not None:  # a fork holds a second copy of what was charged for once
            self._budget.check_process()
        if isinstance(self._noise, Witness):
            return self._noise.answer(event, law, exact)
        return law.draw(exact(), self._noise)

    def _with(self, **changes: Any) -> Self:
        """Return another handle on the same rows, with the same noise."""
        another = object.__new__(type(self))
        another.__dict__.update(self.__dict__ | changes)
        return another

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            "a door cannot be copied or pickled: private rows are behind it. Keep what it answered"
        )
