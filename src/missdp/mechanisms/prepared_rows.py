"""Rows of public number on their way to a question: what is public about them, and they themselves.

Rows are brought into their domain, then pass preprocessing steps that were fitted on them. What a
question costs follows from public facts alone: how far the steps let neighbouring tables part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition, DeclaredRowCount, Guarantee, PublicDomain
from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.gradient_losses import Loss
from missdp.mechanisms.gradient_steps import GradientSteps, RowGradients, SecretStop
from missdp.mechanisms.rdp_bounds import Bound, bounds
from missdp.mechanisms.row_domain import RowDomain, Target
from missdp.mechanisms.row_questions import Question
from missdp.mechanisms.table_distance import NEIGHBOURS, TableDistance

__all__ = ["PreparedRows", "PrivateRows", "Step"]

FloatArray = NDArray[np.float64]


class Step(Protocol):
    """A preprocessing step at its place in a chain: public facts, and what it does to rows."""

    @property
    def name(self) -> str:
        """Public name."""

    @property
    def domain(self) -> RowDomain:
        """What rows are like before it."""

    @property
    def domain_after(self) -> RowDomain:
        """What rows are like after it."""

    @property
    def distance_after(self) -> TableDistance:
        """How far two tables are apart after it, that were one replaced row apart at the start."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What that rests on."""

    def run(self, table: FloatArray) -> FloatArray:
        """Fit the step on the table, apply it, and forget what was learned; private."""

    def margin(self, table: FloatArray) -> float:
        """Return a lower bound on the replacements before the conditions fail; private."""


@dataclass(frozen=True, kw_only=True)
class PreparedRows:
    """Public facts about rows on their way to a question, and what follows for its price.

    Parameters
    ----------
    raw : RowDomain
        What rows are brought into first.
    label : str
        Who asks: public name for events and refusals.
    delta : float
        At which guarantees are stated and the best bound is chosen.
    steps : tuple of Step, default ()
        Preprocessing, in order.
    assumed : tuple of Condition, default ()
        What every answer rests on besides.

    Examples
    --------
    >>> from missdp.mechanisms.row_questions import Query
    >>> facts = PreparedRows(raw=RowDomain(rows=100, columns=2), label="mean", delta=1e-6)
    >>> query = Query.mean(facts.domain, multiplier=5.0)
    >>> facts.bounds(query)[0].name
    'direct'
    """

    raw: RowDomain
    label: str
    delta: float
    steps: tuple[Step, ...] = ()
    assumed: tuple[Condition, ...] = ()

    @property
    def domain(self) -> RowDomain:
        """What rows are like where a question reads them."""
        domain = self.steps[-1].domain_after if self.steps else self.raw
        if not domain.complete:
            raise ParameterError("the estimator takes complete rows; put an imputation before it")
        return domain

    @property
    def distance(self) -> TableDistance:
        """How far neighbours are apart there."""
        return self.steps[-1].distance_after if self.steps else NEIGHBOURS

    def bounds(self, question: Question) -> tuple[Bound, ...]:
        """Return every bound on what the answer reveals, the best first."""
        if question.domain != self.domain:
            raise ParameterError("the question is about rows of another domain than these")
        return bounds(question.privacy_map, self.distance, self.delta, label=self.label)

    def conditions(self, question: Question, *, tested: bool = False) -> tuple[Condition, ...]:
        """Return what an answer rests on; without the steps' conditions if these are tested."""
        steps = () if tested else dict.fromkeys(c for step in self.steps for c in step.conditions)
        shape = (DeclaredRowCount(self.raw.rows), PublicDomain())
        return (*shape, *self.assumed, *question.conditions, *steps)

    def guarantee(self, question: Question, bound: Bound) -> Guarantee:
        """Return the guarantee of an answer that is charged with this bound's event."""
        return Guarantee.from_events(
            [bound.event],
            delta=self.delta,
            adjacency="replace-one",
            conditions=self.conditions(question),
        )


class PrivateRows:
    """The rows, where they are brought into their domain and prepared; only a door holds one."""

    def __init__(self, values: Any, target: Any, facts: PreparedRows) -> None:
        self._values, self._target, self._facts = values, target, facts
        self._final: FloatArray | None = None
        self._read: tuple[Target, FloatArray] | None = None
        self._gradients: tuple[object, RowGradients] | None = None
        self._open = True

    def final(self) -> FloatArray:
        """Return the rows as questions read them."""
        if self._final is None:
            for _ in self._prepared():
                pass
        assert self._final is not None
        return self._final

    def margin(self) -> FloatArray:
        """Return the smallest distance to failure along the chain, at most n."""
        margin = float(self._facts.raw.rows)
        for step, table in self._prepared():
            with _hidden(step):
                margin = min(margin, step.margin(table))
        return np.array([margin])

    def target(self, reader: Target | None) -> FloatArray | None:
        """Return the target as numbers."""
        self._check_open()
        if reader is None:
            return None
        if self._read is None or self._read[0] is not reader:
            with replacing(Exception, by=DataError("the target cannot be read")):
                self._read = (reader, reader.read(self._target))
        return self._read[1]

    def gradients(self, question: GradientSteps | SecretStop) -> RowGradients:
        """Return the gradients of a loss at every row."""
        if self._gradients is None or self._gradients[0] is not question:
            target = self.target(question.target)
            assert target is not None
            loss: Loss = question.loss
            self._gradients = (question, RowGradients(loss, self.final(), target))
        return self._gradients[1]

    def forget(self) -> None:
        """Drop everything private."""
        self._open = False
        self._values = self._target = self._final = self._read = self._gradients = None

    def _prepared(self) -> Iterator[tuple[Step, FloatArray]]:
        """Yield each step with the table that reaches it; keep what the last one leaves."""
        self._check_open()
        facts, table = self._facts, self._facts.raw.enforce(self._values)
        for step in facts.steps:
            yield step, table
            with _hidden(step):
                table = step.run(table)
        # The bound on row norms after the steps is proven; this guards against rounding only.
        self._final = facts.domain.enforce(table) if facts.steps else table

    def _check_open(self) -> None:
        if not self._open:
            raise ParameterError("the door is closed: its rows are forgotten")


@contextmanager
def _hidden(step: Step) -> Iterator[None]:
    """Keep errors and numerical warnings of a step from telling of rows."""
    failed = DataError(f"step {step.name!r} failed")
    with replacing(Exception, by=failed), np.errstate(all="ignore"):
        yield
