"""The loss of a structure that the data chose: a description of one outcome, not a guarantee."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from missdp.accounting.conditions import BoundedObservation, MissingCompletelyAtRandom
from missdp.accounting.events import Event, flatten
from missdp.ground_truth.candidates import Bound, best_bound
from missdp.ground_truth.ground_truth import incomplete_guarantee
from missdp.ground_truth.structure import FixedGates

__all__ = ["ExPostLoss", "ex_post_loss"]


@dataclass(frozen=True, kw_only=True)
class ExPostLoss:
    """The loss of one structure, as if it had been fixed in advance; **not** a guarantee.

    It cannot be composed, converted, or turned into a :class:`~missdp.accounting.Guarantee`.

    Attributes
    ----------
    epsilon, delta : float
        Bound on the loss of the events that were passed, for the structure they have.
    method : str
        How it was computed, in words.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom, PureEvent
    >>> print(ex_post_loss(PureEvent(epsilon=1.0, gate={"a"}),
    ...                    MissingCompletelyAtRandom({"a": 0.5})))
    ex-post loss 0.620115 of the structure that was chosen (mask mixture); not a guarantee
    """

    epsilon: float
    delta: float
    method: str

    def __str__(self) -> str:
        delta = f" (delta {self.delta:.6g})" if self.delta else ""
        return (
            f"ex-post loss {self.epsilon:.6g}{delta} of the structure that was chosen "
            f"({self.method}); not a guarantee"
        )


def ex_post_loss(
    events: Event | Iterable[Event],
    assumption: MissingCompletelyAtRandom | BoundedObservation,
    *,
    delta: float = 0.0,
) -> ExPostLoss:
    """Loss of the structure that the data chose, as if it had been fixed in advance.

    Parameters
    ----------
    events : Event or iterable of Event
        The measurements, under add-remove adjacency. What chose their gates is not covered
        unless its events are passed too.
    assumption : MissingCompletelyAtRandom or BoundedObservation
        How values went missing.
    delta : float, default 0.0
        δ at which to evaluate.

    Returns
    -------
    ExPostLoss
        A description of one outcome. Reporting it as a guarantee for a data-chosen structure is
        wrong: another outcome of the same release may lose more. For a guarantee, see
        :func:`ground_truth_guarantee` with :class:`DataChosenGates`.

    Notes
    -----
    It replaces the figure of Mohapatra et al. (2024), §6.2.3, which is given as a guarantee there.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom, PureEvent
    >>> chosen = [PureEvent(epsilon=0.5, gate={"a"}), PureEvent(epsilon=0.5, gate={"b"})]
    >>> round(ex_post_loss(chosen, MissingCompletelyAtRandom({"a": 0.5, "b": 0.5})).epsilon, 4)
    0.5619
    """
    plain = incomplete_guarantee(events, delta)
    parts = flatten(plain.events)
    found = best_bound(parts, plain.delta, assumption, FixedGates())
    if found is None or found.epsilon > plain.epsilon:
        found = Bound(epsilon=plain.epsilon, delta=plain.delta, method="no amplification")
    return ExPostLoss(epsilon=found.epsilon, delta=found.delta, method=found.method)
