"""Ask for a guarantee for the ground truth: the epsilon of the incomplete table that gives it.

Everything here follows from parameters, a schema and an assumption about how values go missing;
nothing private is read.
"""

from __future__ import annotations

from typing import Any

from missdp.accounting import Condition, Guarantee
from missdp.errors import ParameterError
from missdp.record import check_positive
from missdp.schema import Schema
from missdp.synth.base import Synthesizer
from missdp.synth.before_holes import check_names, split, truth_of_parts

__all__ = ["epsilon_for_ground_truth", "planned_ground_truth"]

_MOST = 64.0
_PRECISE = 1e-4


def planned_ground_truth(
    synthesizer: Synthesizer, schema: Schema, assumption: Condition
) -> Guarantee:
    """Return what a fit with these parameters will guarantee for the ground truth, at most.

    Parameters
    ----------
    synthesizer : Synthesizer
        Parameters; it need not be fitted, and is not changed.
    schema : Schema
        Of the private table.
    assumption : Condition
        How values go missing; see :meth:`~missdp.synth.base.Synthesizer.ground_truth_guarantee`.

    Returns
    -------
    Guarantee
        Without the conditions that the fit adds. What the fit states afterwards is never larger.

    Examples
    --------
    >>> from missdp import MST
    >>> from missdp.accounting import MissingCompletelyAtRandom
    >>> from missdp.datasets import yrbss
    >>> from missdp.synth import planned_ground_truth
    >>> schema = yrbss().schema()
    >>> known = MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, 0.7))
    >>> planned = MST(epsilon=1.0, missing="complete-rows")
    >>> round(planned_ground_truth(planned, schema, known).epsilon, 1)
    0.2
    """
    again = type(synthesizer)(**_parameters(synthesizer))
    again.schema_ = again._to_be_cut(schema, schema.names)
    check_names(assumption, schema)
    budget = again._check_parameters()
    whole = Guarantee(budget.epsilon, again._delta, events=(budget.filter(),))
    return truth_of_parts(whole, split(whole, again._caps()), assumption)


def epsilon_for_ground_truth(
    epsilon: float, synthesizer: Synthesizer, schema: Schema, assumption: Condition
) -> float:
    """Return the epsilon to fit with, for a guarantee of ``epsilon`` for the ground truth.

    Parameters
    ----------
    epsilon : float
        What is wanted for the table before values went missing, above 0.
    synthesizer : Synthesizer
        All other parameters; its own epsilon counts for nothing.
    schema : Schema
        Of the private table.
    assumption : Condition
        How values go missing. State it from other sources than the private table.

    Returns
    -------
    float
        At least ``epsilon``, and ``epsilon`` itself where nothing is amplified; at most 64. Found
        by bisection, to a relative 1e-4, and never too large: the guarantee of the fit for the
        ground truth is at most what was asked.

    Examples
    --------
    >>> from missdp import MST
    >>> from missdp.accounting import MissingCompletelyAtRandom
    >>> from missdp.datasets import yrbss
    >>> from missdp.synth import epsilon_for_ground_truth
    >>> schema = yrbss().schema()
    >>> known = MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, 0.7))
    >>> wanted = MST(epsilon=1.0, missing="complete-rows")
    >>> found = epsilon_for_ground_truth(1.0, wanted, schema, known)
    >>> found > 2
    True
    """
    goal = check_positive("epsilon", epsilon)
    if goal > _MOST:
        raise ParameterError(f"epsilon must be at most {_MOST:g}")

    def fits(candidate: float) -> bool:
        planned = type(synthesizer)(**_parameters(synthesizer) | {"epsilon": candidate})
        return planned_ground_truth(planned, schema, assumption).epsilon <= goal

    low = high = goal
    while high < _MOST and fits(high := min(_MOST, 1.5 * low)):
        low = high
    if not fits(low * (1 + _PRECISE)):
        return low
    while high - low > _PRECISE * low:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _parameters(synthesizer: Synthesizer) -> dict[str, Any]:
    return synthesizer._public_parameters()
