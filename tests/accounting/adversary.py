"""The best an adaptive analyst can do against a filter: backward induction, no accountant used.

Every mechanism has finitely many outputs whose losses log(P/Q) are multiples of h, so that the
state is a whole number (the loss so far) and what is left of the capacity, in whole units.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

H = Fraction(1, 10)


@dataclass(frozen=True)
class Step:
    """A mechanism: losses in units of H with their probabilities under P, and what it costs."""

    losses: tuple[int, ...]
    chances: tuple[float, ...]
    cost: int


def two_outcomes(up, down):
    """The pair with losses ``up`` and ``-down``: of range ``up + down``."""
    a, b = math.exp(up * H), math.exp(-down * H)
    q = (1 - b) / (a - b)
    return (up, -down), (a * q, 1 - a * q)


def discrete_gaussian(share):
    """Unit shift, sigma^2 = 1 / (2 share H): its loss at x is (2x - 1) share H."""
    x = np.arange(-80, 82)
    mass = np.exp(-((x - 1.0) ** 2) * float(share * H))
    mass /= mass.sum()
    kept = mass > 1e-12
    losses = tuple(int(v) for v in (2 * x[kept] - 1) * share)
    return losses, tuple(mass[kept].tolist())


def true_delta(steps, capacity, epsilons, *, reach=250):
    """Largest delta, at each epsilon, that any adaptive choice of steps within capacity attains."""
    losses = np.arange(-reach, reach + 1)
    stop = np.maximum(0.0, -np.expm1(np.asarray(epsilons)[:, None] - losses * float(H)))
    values = [stop]
    for left in range(1, capacity + 1):
        best = stop.copy()
        for step in steps:
            if step.cost <= left:
                # Losses beyond the table count as its ends, which are worth nearly 0 and 1.
                mean = np.zeros_like(stop)
                wide = np.pad(values[left - step.cost], ((0, 0), (reach, reach)), mode="edge")
                for loss, chance in zip(step.losses, step.chances, strict=True):
                    start = reach + min(max(loss, -reach), reach)
                    mean += chance * wide[:, start : start + losses.size]
                np.maximum(best, mean, out=best)
        values.append(best)
    return values[capacity][:, reach]
