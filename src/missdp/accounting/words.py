"""A guarantee in plain sentences, and guarantees that are true and promise next to nothing."""

from __future__ import annotations

import math
import textwrap
import warnings
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from missdp.errors import WeakGuaranteeWarning

if TYPE_CHECKING:
    from missdp.accounting.guarantee import Guarantee

__all__ = ["guarantee_in_words", "rounded_up", "warn_if_weak", "weaknesses"]


_WIDTH = 92


_PRINTABLE = 700.0  # beyond, e^epsilon is no floating-point number


_CHANGE = {
    "add-remove": "Adding one person's row to the table, or removing it",
    "replace-one": "Replacing one person's row of the table by any other row",
}


_PROTECTED = {
    "incomplete": "the table the curator holds, including which of its cells are missing",
    "ground-truth": "the table as it was before values went missing",
}


def rounded_up(value: float, *, digits: int = 4) -> str:
    """Return ``value`` with ``digits`` significant digits, rounded up: never a rosier number.

    Examples
    --------
    >>> rounded_up(0.12341), rounded_up(2.0), rounded_up(1e-6)
    ('0.1235', '2', '1e-06')
    """
    # 12 digits first, so that 0.1 + 0.2 reads 0.3; the error of 1e-12 is relative.
    near = Decimal(f"{value:.12g}")
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).plus(near)):.{digits}g}"


def guarantee_in_words(guarantee: Guarantee) -> str:
    """Return the sentences of `Guarantee.in_words`."""
    sentences = [_statement(guarantee), _odds(guarantee), _guess(guarantee)]
    sentences.append(f"What is protected: {_PROTECTED[guarantee.protects]}.")
    lines = [line for sentence in sentences for line in _wrap(sentence)]
    return "\n".join([*lines, *_conditions(guarantee)])


def _statement(guarantee: Guarantee) -> str:
    epsilon = rounded_up(guarantee.epsilon)
    if guarantee.delta == 0:
        name = f"{epsilon}-differentially private (pure)"
    else:
        name = f"({epsilon}, {rounded_up(guarantee.delta)})-differentially private"
    return f"The release is {name} under {guarantee.adjacency} adjacency."


def _odds(guarantee: Guarantee) -> str:
    if guarantee.epsilon <= _PRINTABLE:
        factor = rounded_up(math.exp(guarantee.epsilon))
    else:
        factor = f"e^{rounded_up(guarantee.epsilon)}"
    beyond = f", and by {rounded_up(guarantee.delta)} beyond that" if guarantee.delta else ""
    # Before values went missing there were no missing cells.
    holes = ", its missing cells included," if guarantee.protects == "incomplete" else ""
    change = _CHANGE[guarantee.adjacency]
    change = f"{change}{holes}" if holes else change.removesuffix(",")
    return (
        f"{change} changes the probability of any outcome by a factor of at most {factor}{beyond}."
    )


def _guess(guarantee: Guarantee) -> str:
    # Half of 1 + total variation, which is at most (e^eps - 1 + 2 delta) / (e^eps + 1).
    odds = math.exp(-min(guarantee.epsilon, _PRINTABLE))
    chance = min(1.0, (1 + guarantee.delta * odds) / (1 + odds))
    return (
        "Someone who sees only this release, and to whom both tables seemed equally likely "
        "before, guesses which of them was used correctly with probability at most "
        f"{rounded_up(100 * chance)} %."
    )


def _conditions(guarantee: Guarantee) -> list[str]:
    if not guarantee.conditions:
        return ["It rests on no condition."]
    count = len(guarantee.conditions)
    head = "It rests on this condition:" if count == 1 else f"It rests on these {count} conditions:"
    lines = [head]
    for condition in guarantee.conditions:
        lines += textwrap.wrap(
            condition.statement(), _WIDTH, initial_indent="- ", subsequent_indent="  "
        )
    return lines


def _wrap(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, _WIDTH)


_LARGE_EPSILON = 10.0


def weaknesses(epsilon: float, delta: float = 0.0, *, n: int | None = None) -> tuple[str, ...]:
    """Return what makes a guarantee next to worthless, in sentences; usually nothing.

    Parameters
    ----------
    epsilon, delta : float
        Of the guarantee.
    n : int, optional
        The number of rows, *declared or released*, never the private one: whether there is a
        sentence would tell.

    Examples
    --------
    >>> weaknesses(1.0, 1e-9, n=1000)
    ()
    >>> for sentence in weaknesses(12.0, 0.01, n=1000):
    ...     print(sentence)
    epsilon = 12 is above 10: someone who knows all other rows may learn almost surely what a
    person answered; values of about 1 are usual
    delta = 0.01 is at least 1/n (n = 1000): publishing each row in full with this probability
    would keep the same promise; state a delta far below 1/n
    """
    found = []
    if epsilon > _LARGE_EPSILON:
        found.append(
            f"epsilon = {rounded_up(epsilon)} is above {_LARGE_EPSILON:g}: someone who knows all "
            "other rows may learn almost surely what a person answered; values of about 1 are usual"
        )
    if n is not None and delta > 0 and delta * n >= 1:
        found.append(
            f"delta = {rounded_up(delta)} is at least 1/n (n = {n}): publishing each row in full "
            "with this probability would keep the same promise; state a delta far below 1/n"
        )
    return tuple(found)


def warn_if_weak(epsilon: float, delta: float = 0.0, *, n: int | None = None) -> None:
    """Warn of every one of the `weaknesses`."""
    for sentence in weaknesses(epsilon, delta, n=n):
        warnings.warn(sentence, WeakGuaranteeWarning, stacklevel=3)
