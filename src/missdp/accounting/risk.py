"""What a guarantee means for one person: how far a release can move somebody's belief.

Let P be the law of what is released with the person's row and Q without it, and L = log P/Q the
privacy loss of an outcome. By Bayes' rule the release multiplies the odds that the row is in the
table by e^L, for whoever thinks that the other rows are the same with it and without it. If delta
is 0, L lies in [-epsilon, epsilon] whatever comes out. Otherwise nothing bounds L surely, and L > t
has a probability that is *not* delta: delta(s) = E_P[max(0, 1 - e^(s - L))], so that for s < t

    delta(s) >= E_P[1 - e^(s - L); L > t] >= (1 - e^(s - t)) P(L > t).

Hence P(L > t) is at most the smallest delta(s) / (1 - e^(s - t)) of all s < t. This cannot be
improved: merging into one outcome everything whose loss is above the best s gives an outcome of
loss t with this very probability, and a synthetic table is such a coarse view of the noisy answers.
The tail of the loss of the worst-case pair of laws itself is smaller, and coarse views exceed it.

Both directions. Without the row, Q(L > t) <= e^(-t) P(L > t): the bound of how seldom the odds are
raised beyond e^t holds in either case. Adjacency is symmetric, so delta(s) also bounds what Q loses
to P, and the same steps with -L for L bound how seldom the odds are lowered beyond e^(-t). The two
exceptions are stated one by one; that neither occurs has the sum of their probabilities against it.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from missdp.accounting.accountants import gaussian_sigma
from missdp.accounting.events import Adjacency
from missdp.accounting.exact import printed
from missdp.accounting.filters import ROW
from missdp.errors import ParameterError, UnprovenError
from missdp.record import FRACTION, NONNEGATIVE, Record, check_fraction

if TYPE_CHECKING:
    from missdp.accounting.guarantee import Guarantee

_WIDTH = 92
_PRINTABLE = 700.0  # beyond, e^loss is no floating-point number
_SMALLEST = math.log(1e-5)  # share of the chance that the search starts at
_WHO = {
    "add-remove": "this person's row is in the table",
    "replace-one": "this person's row is the one, and not the other, of two that it may be",
}
_KNOWN = {
    "incomplete": "all other rows",
    "ground-truth": "all other rows, but not which values went missing in this one",
}


@dataclass(frozen=True, kw_only=True)
class Risk(Record):
    """How far a release can move the odds that somebody gives a person's row.

    Parameters
    ----------
    prior : float
        Probability, before the release, that the row is in the table.
    loss : float
        Odds are multiplied or divided by at most the exponential of this.
    chance : float
        Probability, over the noise, that they are raised further; that they are lowered further
        has this probability as well. 0 if they never are.
    noise : float
        Standard deviation of the noise with which a count of people has the same guarantee.
    adjacency : {"add-remove", "replace-one"}
    known : str
        What the somebody knows besides.
    unit : str, default "row"
        Whose rows are meant together, if not each row by itself.

    Attributes
    ----------
    highest, lowest : float
        Bounds of the probability after the release.

    Examples
    --------
    >>> from missdp.accounting import Guarantee
    >>> risk = Risk.of(Guarantee(1.0), prior=0.1)
    >>> round(risk.lowest, 3), round(risk.highest, 3), risk.chance
    (0.039, 0.232, 0.0)
    """

    prior: float = field(metadata=FRACTION)
    loss: float = field(metadata=NONNEGATIVE)
    chance: float = field(metadata=FRACTION)
    noise: float = field(metadata=NONNEGATIVE)
    adjacency: Adjacency = "add-remove"
    known: str = _KNOWN["incomplete"]
    unit: str = ROW

    derived: ClassVar[tuple[str, ...]] = ("lowest", "highest")

    @classmethod
    def of(cls, guarantee: Guarantee, *, prior: float = 0.5, chance: float = 1e-3) -> Risk:
        """Return what a guarantee means for a named prior; see `Guarantee.explain`."""
        for name, value in (("prior", prior), ("chance", chance)):
            if not 0 < check_fraction(name, value) < 1:
                raise ParameterError(f"{name} must be above 0 and below 1")
        pure = guarantee.delta == 0
        return cls(
            prior=prior,
            loss=guarantee.epsilon if pure else _loss_beyond(guarantee, chance),
            chance=0.0 if pure else chance,
            noise=_noise(guarantee),
            adjacency=guarantee.adjacency,
            known=_KNOWN[guarantee.protects],
            unit=guarantee.unit,
        )

    @property
    def highest(self) -> float:
        """Probability that the row is in the table, after the release, at most."""
        return self._after(self.loss)

    @property
    def lowest(self) -> float:
        """Probability that the row is in the table, after the release, at least."""
        return self._after(-self.loss)

    def _after(self, loss: float) -> float:
        raised = math.log(self.prior) - math.log1p(-self.prior) + loss
        return 1 / (1 + math.exp(-raised)) if raised > -_PRINTABLE else 0.0

    @property
    def _claim(self) -> str:
        who = _WHO[self.adjacency]
        if self.unit == ROW:
            return who
        several = who.replace("row is", "rows are").replace("that it may", "that they may")
        return several.replace("person", self.unit)

    def __str__(self) -> str:
        times = f"e^{printed(self.loss)}"
        if self.loss < _PRINTABLE:
            times = printed(math.exp(self.loss))
        unless = f", except with probability {printed(self.chance)}" if self.chance else ""
        high, alone = printed(100 * self.highest), self.unit == ROW
        low = printed(100 * self.lowest, up=False)
        lines = [
            f"Suppose that someone who knows {self.known} gives a probability of "
            f"{100 * self.prior:.4g} % to this: {self._claim}.",
            f"The release raises these odds by a factor of at most {times}, so to at most "
            f"{high} %{unless}.",
            f"It lowers them by a factor of at most {times}, so to at least {low} %{unless}.",
        ]
        if self.noise:
            people = printed(self.noise, digits=2, up=False)
            once = "of people" if alone else f"in which each {self.unit} counts once and"
            lines.append(
                f"A count {once} that is released with noise of about ± {people} (its standard "
                "deviation) has the same guarantee."
            )
        whose = "person all the same, with the row or without it"
        if not alone:
            whose = f"{self.unit} all the same, with its rows or without them"
        lines.append(f"What a release shows of people in general can be applied to this {whose}.")
        return "\n".join(line for sentence in lines for line in textwrap.wrap(sentence, _WIDTH))


def _loss_beyond(guarantee: Guarantee, chance: float) -> float:
    """Return a privacy loss that is exceeded with at most this probability, in either direction.

    The smallest t with delta(s) / (1 - e^(s - t)) at ``chance`` for some s, as far as the search
    finds it: each s that it tries proves a t.
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
    found = min(proven(chance * math.exp(float(search.x))), *map(proven, stated), math.inf)
    if math.isinf(found):
        raise UnprovenError(
            f"nothing is proven of what happens with probability 1 - {chance:g}; state a larger "
            "chance"
        )
    return float(np.nextafter(found * (1 + 1e-12), math.inf))


def _noise(guarantee: Guarantee) -> float:
    """Return the standard deviation of the noise of a count with the same epsilon and delta."""
    if guarantee.epsilon == 0:
        return 0.0
    if guarantee.delta == 0:
        return math.sqrt(2) / guarantee.epsilon
    return gaussian_sigma(guarantee.epsilon, guarantee.delta, discrete=False)
