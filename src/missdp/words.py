"""A guarantee in words: sentences, warnings, and its meaning for one person.

Risk
----
Let P be the distribution of the release with the person's row, and Q its distribution without the
row. Let L = log P/Q be the privacy loss of an outcome. Take an observer whose belief about the
other rows does not depend on this row. By Bayes' rule the release multiplies this observer's odds
that the row is in the table by e^L. If delta is 0, L lies in [-epsilon, epsilon] for all outcomes.
Otherwise L has no certain bound, and the probability of L > t is *not* delta. By definition,
delta(s) = E_P[max(0, 1 - e^(s - L))], so that for s < t

    delta(s) >= E_P[1 - e^(s - L); L > t] >= (1 - e^(s - t)) P(L > t).

Hence P(L > t) is at most the smallest delta(s) / (1 - e^(s - t)) of all s < t. This bound cannot be
improved. Merge all outcomes whose loss is above the best s into one outcome. It has loss t with
exactly this probability, and a synthetic table is such a coarse view of the noisy answers. The tail
of the loss of the worst-case pair of distributions is smaller, and coarse views exceed it.

Both directions. Without the row, Q(L > t) <= e^(-t) P(L > t). So the bound on the probability that
the odds are raised beyond e^t holds in either case. Adjacency is symmetric, so delta(s) also bounds
the loss of Q relative to P. The same steps with -L in place of L bound the probability that the
odds are lowered beyond e^(-t). The two exceptions are stated separately. The probability of either
exception is at most the sum of their probabilities.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.accounting.events import ROW, Adjacency
from missdp.accounting.exact import mu_from_epsilon
from missdp.accounting.unit_costs import unit_counts_once
from missdp.errors import ParameterError, UnprovenError, WeakGuaranteeWarning, check_fraction
from missdp.serialization import Record
from missdp.validation import NonNegative, Probability

if TYPE_CHECKING:
    from missdp.accounting import Guarantee

_WIDTH = 92  # characters of a line
_PRINTABLE = 700.0  # privacy loss above which e^loss is not a floating-point number
_SMALLEST = math.log(1e-5)  # logarithm of the share of the chance at which the search starts
_CLAIM = {
    "add-remove": "this person's row is in the table",
    "replace-one": "this person's row is the one, and not the other, of two that it may be",
}
_KNOWLEDGE = {
    "incomplete": "all other rows",
    "ground-truth": "all other rows, but not which values went missing in this one",
}


def format_number(value: float, *, digits: int = 4, up: bool = True) -> str:
    """Return a finite number as text with few significant digits, rounded up or down.

    Parameters
    ----------
    value : float
        A finite number.
    digits : int, default 4
        Significant digits.
    up : bool, default True
        Whether to round up. An upper bound must be rounded up, and a lower bound down.

    Returns
    -------
    str
        The number in decimal.

    Examples
    --------
    >>> from missdp.words import format_number
    >>> format_number(0.123412), format_number(0.123412, up=False)
    ('0.1235', '0.1234')
    """
    # Rounding to 12 digits first gives 0.3 for 0.1 + 0.2. Its relative error is 1e-12.
    rounded = Decimal(f"{value:.12g}")
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{float(Context(prec=digits, rounding=rounding).plus(rounded)):.{digits}g}"


@dataclass(frozen=True, kw_only=True)
class Risk(Record):
    """Bounds on the change that a release can cause in an observer's odds on one person's row.

    `Guarantee.explain` returns it. The odds are on the statement that the row is in the table.
    ``print`` shows the bounds as sentences. All values are public.

    Parameters
    ----------
    prior : float
        Probability, before the release, that the row is in the table, in [0, 1].
    loss : float
        The odds are multiplied or divided by at most the exponential of this loss, at least 0.
    chance : float
        Probability, over the noise, that the odds are raised further. This is also the probability
        that they are lowered further. It is 0 if neither is possible.
    noise : float
        Standard deviation of the noise with which a count of people has the same guarantee, in
        people.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation.
    knowledge : str
        Knowledge of the observer, in words. By default all other rows.
    unit : str, default "row"
        The unit of protection: ``"row"``, or the column that identifies the rows of a person.

    Attributes
    ----------
    highest, lowest : float
        Bounds of the probability after the release.

    Examples
    --------
    >>> from missdp.words import Risk
    >>> from missdp.accounting import Guarantee
    >>> risk = Risk.from_guarantee(Guarantee(1.0), prior=0.1)
    >>> round(risk.lowest, 3), round(risk.highest, 3), risk.chance
    (0.039, 0.232, 0.0)
    """

    prior: Probability
    loss: NonNegative
    chance: Probability
    noise: NonNegative
    adjacency: Adjacency = "add-remove"
    knowledge: str = _KNOWLEDGE["incomplete"]
    unit: str = ROW

    derived: ClassVar[tuple[str, ...]] = ("lowest", "highest")

    @classmethod
    def from_guarantee(
        cls, guarantee: Guarantee, *, prior: float = 0.5, chance: float = 1e-3
    ) -> Risk:
        """Return bounds on the change of an observer's odds on a row, from a privacy guarantee.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee of the release.
        prior : float, default 0.5
            Probability, before the release, that the row is in the table. Between 0 and 1, both
            excluded.
        chance : float, default 0.001
            Probability of a larger change, for a delta above 0. Between 0 and 1, both excluded.

        Returns
        -------
        Risk
            The bounds. Public.

        Raises
        ------
        ParameterError
            If ``prior`` or ``chance`` is out of range.
        UnprovenError
            If no bound is proven that holds except with probability ``chance``.
        """
        for name, value in (("prior", prior), ("chance", chance)):
            if not 0 < check_fraction(name, value) < 1:
                raise ParameterError(f"{name} must be above 0 and below 1")
        pure = guarantee.delta == 0
        return cls(
            prior=prior,
            loss=guarantee.epsilon if pure else _exceeded_loss(guarantee, chance),
            chance=0.0 if pure else chance,
            noise=_noise(guarantee),
            adjacency=guarantee.adjacency,
            knowledge=_KNOWLEDGE[guarantee.protects],
            unit=guarantee.unit,
        )

    @property
    def highest(self) -> float:
        """Return the largest probability, after the release, that a person's row is in the table.

        Returns
        -------
        float
            From 0 to 1. It may be exceeded with probability ``chance``.
        """
        return self._after(self.loss)

    @property
    def lowest(self) -> float:
        """Return the smallest probability, after the release, that a person's row is in the table.

        Returns
        -------
        float
            From 0 to 1. The probability may be smaller with probability ``chance``.
        """
        return self._after(-self.loss)

    def _after(self, loss: float) -> float:
        raised = math.log(self.prior) - math.log1p(-self.prior) + loss
        return 1 / (1 + math.exp(-raised)) if raised > -_PRINTABLE else 0.0

    @property
    def _claim(self) -> str:
        claim = _CLAIM[self.adjacency]
        if self.unit == ROW:
            return claim
        several = claim.replace("row is", "rows are").replace("that it may", "that they may")
        return several.replace("person", self.unit)

    def __str__(self) -> str:
        times = f"e^{format_number(self.loss)}"
        if self.loss < _PRINTABLE:
            times = format_number(math.exp(self.loss))
        unless = f", except with probability {format_number(self.chance)}" if self.chance else ""
        high, is_row = format_number(100 * self.highest), self.unit == ROW
        low = format_number(100 * self.lowest, up=False)
        lines = [
            f"Suppose that someone who knows {self.knowledge} gives a probability of "
            f"{100 * self.prior:.4g} % to this: {self._claim}.",
            f"The release raises these odds by a factor of at most {times}, so to at most "
            f"{high} %{unless}.",
            f"It lowers them by a factor of at most {times}, so to at least {low} %{unless}.",
        ]
        if self.noise:
            people = format_number(self.noise, digits=2, up=False)
            once = "of people" if is_row else f"in which each {self.unit} counts once and"
            lines.append(
                f"A count {once} that is released with noise of about ± {people} (its standard "
                "deviation) has the same guarantee."
            )
        whose = "person all the same, with the row or without it"
        if not is_row:
            whose = f"{self.unit} all the same, with its rows or without them"
        lines.append(f"What a release shows of people in general can be applied to this {whose}.")
        return "\n".join(line for sentence in lines for line in textwrap.wrap(sentence, _WIDTH))


def _exceeded_loss(guarantee: Guarantee, chance: float) -> float:
    """Return a privacy loss that is exceeded with at most this probability, in either direction.

    The result is the smallest t with delta(s) / (1 - e^(s - t)) at ``chance`` for some s. The
    search is approximate, but each s that it tries proves a valid t.
    """
    from scipy.optimize import minimize_scalar

    def proven(delta: float) -> float:
        try:
            epsilon = guarantee.epsilon_at(delta)
        except UnprovenError:
            return math.inf
        return epsilon - math.log1p(-delta / chance)

    stated = [delta for delta in (0.0, guarantee.delta) if delta < chance]
    search: Any = minimize_scalar(
        lambda share: min(proven(chance * math.exp(share)), _PRINTABLE),
        bounds=(_SMALLEST, -1e-3),
        method="bounded",
        options={"maxiter": 20, "xatol": 0.02},
    )
    loss = min(proven(chance * math.exp(float(search.x))), *map(proven, stated), math.inf)
    if math.isinf(loss):
        raise UnprovenError(
            f"no bound is proven that holds with probability 1 - {chance:g}. State a larger chance."
        )
    return float(np.nextafter(loss * (1 + 1e-12), math.inf))


def _noise(guarantee: Guarantee) -> float:
    """Return the standard deviation of the noise of a count with this epsilon and delta."""
    if guarantee.epsilon == 0:
        return 0.0
    if guarantee.delta == 0:
        return math.sqrt(2) / guarantee.epsilon
    mu = mu_from_epsilon(guarantee.epsilon, guarantee.delta)
    return 1 / mu if mu else math.inf


# Sentences

_CHANGE = {
    "add-remove": "Adding one person's row to the table, or removing it",
    "replace-one": "Replacing one person's row of the table by any other row",
}


_PROTECTED = {
    "incomplete": "the table the curator holds, including which of its cells are missing",
    "ground-truth": "the table as it was before values went missing",
}


def in_words(guarantee: Guarantee) -> str:
    """Return a privacy guarantee as plain sentences, with all of its conditions.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.

    Returns
    -------
    str
        Several lines of at most 92 characters. Public.
    """
    lines = [line for text in sentences(guarantee) for line in textwrap.wrap(text, _WIDTH)]
    return "\n".join([*lines, *_conditions(guarantee)])


def in_a_line(guarantee: Guarantee) -> str:
    """Return a privacy guarantee with all of its conditions in one line, for labels.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.

    Returns
    -------
    str
        A text without line breaks. Public.

    Examples
    --------
    >>> from missdp.words import in_a_line
    >>> from missdp.accounting import Guarantee
    >>> in_a_line(Guarantee(1.0))[-25:]
    'It rests on no condition.'
    """
    return " ".join([_statement(guarantee), *map(str.strip, _conditions(guarantee))])


def sentences(guarantee: Guarantee) -> tuple[str, str, str, str]:
    """Return the sentences that state a privacy guarantee, without its conditions.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.

    Returns
    -------
    tuple of str
        Four texts: the statement, its effect on probabilities, its effect on guesses, and the
        protected table. Public.
    """
    protected = f"What is protected: {_PROTECTED[guarantee.protects]}."
    return _statement(guarantee), _odds(guarantee), _guess(guarantee), protected


def _statement(guarantee: Guarantee) -> str:
    epsilon = format_number(guarantee.epsilon)
    if guarantee.delta == 0:
        name = f"{epsilon}-differentially private (pure)"
    else:
        name = f"({epsilon}, {format_number(guarantee.delta)})-differentially private"
    return f"The release is {name} under {guarantee.adjacency} adjacency."


def _odds(guarantee: Guarantee) -> str:
    if guarantee.epsilon <= _PRINTABLE:
        factor = format_number(math.exp(guarantee.epsilon))
    else:
        factor = f"e^{format_number(guarantee.epsilon)}"
    excess = f", and by {format_number(guarantee.delta)} beyond that" if guarantee.delta else ""
    # The ground truth has no missing cells.
    whose = "its" if guarantee.unit == ROW else "their"
    missing = f", {whose} missing cells included," if guarantee.protects == "incomplete" else ""
    change = f"{_change(guarantee)}{missing}"
    if not missing and guarantee.adjacency == "add-remove":
        change += ","
    return (
        f"{change} changes the probability of any outcome by a factor of at most {factor}{excess}."
    )


def _change(guarantee: Guarantee) -> str:
    if guarantee.unit == ROW:
        return _CHANGE[guarantee.adjacency]
    read = f", of which at most {guarantee.max_rows} are read" if guarantee.max_rows > 1 else ""
    if read and unit_counts_once(guarantee.events):
        read += " and count as one together"
    if guarantee.adjacency == "add-remove":
        return f"Adding all rows of one {guarantee.unit} to the table, or removing them{read}"
    return f"Replacing all rows of one {guarantee.unit}{read} by those of another"


def _guess(guarantee: Guarantee) -> str:
    # The probability is half of 1 + total variation, which is at most (e^eps - 1 + 2 delta) /
    # (e^eps + 1).
    odds = math.exp(-min(guarantee.epsilon, _PRINTABLE))
    chance = min(1.0, (1 + guarantee.delta * odds) / (1 + odds))
    return (
        "Someone who sees only this release, and to whom both tables seemed equally likely "
        "before, guesses which of them was used correctly with probability at most "
        f"{format_number(100 * chance)} %."
    )


def _conditions(guarantee: Guarantee) -> list[str]:
    if not guarantee.conditions:
        return ["It rests on no condition."]
    count = len(guarantee.conditions)
    lines = [
        "It rests on this condition:" if count == 1 else f"It rests on these {count} conditions:"
    ]
    for condition in guarantee.conditions:
        lines += textwrap.wrap(
            condition.statement(), _WIDTH, initial_indent="- ", subsequent_indent="  "
        )
    return lines


def warn_if_weak(epsilon: float, delta: float = 0.0, *, n: int | None = None) -> None:
    """Warn if the epsilon or delta of a guarantee is too large for useful protection.

    The limits are an epsilon above 10, and a delta of at least 1/n.

    Parameters
    ----------
    epsilon : float
        The epsilon of the guarantee.
    delta : float, default 0.0
        The delta of the guarantee.
    n : int, optional
        A *declared or released* number of rows, never the private number: a warning would reveal
        it. Without it, delta is not checked.

    Warns
    -----
    WeakGuaranteeWarning
        If a limit is exceeded.
    """
    if epsilon > 10:
        warnings.warn(
            f"epsilon = {format_number(epsilon)} is above 10: someone who knows all other rows may "
            "learn almost surely what a person answered. Values of about 1 are usual.",
            WeakGuaranteeWarning,
            stacklevel=3,
        )
    if n is not None and delta > 0 and delta * n >= 1:
        warnings.warn(
            f"delta = {format_number(delta)} is at least 1/n (n = {n}): publishing each row in "
            "full with this probability would keep the same promise. State a delta far below 1/n.",
            WeakGuaranteeWarning,
            stacklevel=3,
        )
