"""A noise that keeps what passed through a door, and repeats it for another table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from missdp.accounting import Budget
from missdp.mechanisms import Witness


class Passed(NamedTuple):
    event: Any
    law: Any
    exact: Any
    answer: Any


class Different(Exception):  # noqa: N818
    """A question depends on the rows."""


class Tape(Witness):
    """Keep every answer with what was behind it; or, for another table, repeat what was kept."""

    def __init__(self, repeat: Tape | None = None, budget: Budget | None = None):
        super().__init__(0)
        self.passed: list[Passed] = []
        self.repeated, self.budget = repeat, budget

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self

    def answer(self, event, law, exact):
        if self.budget is not None and event not in self.budget.events:
            raise Different("not charged before")
        behind = exact()
        if self.repeated is None:
            answer = law.draw(behind, self)
        else:
            place = len(self.passed)
            if place == len(self.repeated.passed):
                raise Different("another answer")
            kept = self.repeated.passed[place]
            if (kept.event, kept.law) != (event, law):
                raise Different("another question")
            answer = np.copy(kept.answer)
        self.passed.append(Passed(event, law, behind, answer))
        return answer

    def generator(self):
        return np.random.default_rng(5)  # samples of rows are the same for both tables

    def reads(self) -> list[tuple[Any, int]]:
        """What was charged for, in order, and how often the rows were read for it."""
        found: list[tuple[Any, int]] = []
        for one in self.passed:
            again = found and found[-1][0] is one.event
            found[-1:] = [(one.event, found[-1][1] + 1)] if again else [*found[-1:], (one.event, 1)]
        return found
