"""The two mechanisms of counts and scores: `Noise` and `Selection`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import (
    Cost,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    scale_for,
)
from missdp.calibration import gdp_noise
from missdp.errors import DataError, UnprovenError, check_choice, replacing
from missdp.session.noise import NoiseSource, SelectionMethod, check_scale
from missdp.types import Floats, Ints

CountNoise = Literal["laplace", "gaussian"]
"""The noise of released counts."""


# Counts beyond this are clipped, which moves no two neighbours further apart, so that adding
# noise cannot wrap around.
_MAX_COUNT = 2**61


def _as_counts(values: ArrayLike) -> Ints:
    """Return int64 counts; refuse, without naming a value, what is not finite and whole."""
    refusal = DataError("counts must form one array of whole numbers")
    with replacing(TypeError, ValueError, by=refusal):
        array = np.asarray(values)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.rint(array)).any():
            raise DataError("counts must be finite whole numbers")
    elif array.dtype.kind not in "iub":
        raise DataError(f"counts must be whole numbers, got dtype {array.dtype}")
    if array.dtype.kind == "u":
        return np.minimum(array.astype(np.uint64), _MAX_COUNT).astype(np.int64)
    wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return np.clip(wide, -_MAX_COUNT, _MAX_COUNT).astype(np.int64)


# More noise than exact arithmetic asks for, so that shares of a budget that sum to 1 fit into it.
_ROOM = 1 + 1e-12


@dataclass(frozen=True)
class Noise:
    """How much noise each released count gets.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Laplace noise is pure DP; Gaussian noise is zCDP.
    scale : float
        The Laplace scale, or the Gaussian sigma; above 0.
    steps : int, default 1
        Number of steps in one row, if rows count different amounts. Exact counts and noise are then
        whole numbers of steps, and the noise has ``steps`` times the scale. A row moves a count by
        at most ``steps`` steps, so the cost does not depend on ``steps``. Released counts are
        rounded to whole rows.

    Examples
    --------
    >>> Noise("laplace", 2.0).variance
    8.0
    """

    kind: CountNoise
    scale: float
    steps: int = 1

    def __post_init__(self) -> None:
        check_choice("noise", self.kind, get_args(CountNoise))
        object.__setattr__(self, "scale", check_scale("scale", self.scale))
        check_scale("scale", self.scale * self.steps)

    @classmethod
    def from_cost(cls, cost: Cost, *, sensitivity: float = 1.0) -> Noise:
        """Return the noise with which whole numbers cost at most this, if a row moves them so far.

        The sensitivity is in L1 norm for a cost in pure epsilon, else in L2 norm.

        >>> Noise.from_cost(Cost(privacy_measure="zcdp", amount=0.125)).scale > 2
        True
        """
        if cost.privacy_measure == "pure":
            scale = scale_for(sensitivity, cost.amount) if cost.amount else math.inf
            return cls("laplace", scale * _ROOM)
        if cost.privacy_measure == "gdp":
            return cls("gaussian", gdp_noise(cost.amount, sensitivity=sensitivity) * _ROOM)
        # Gaussian noise has rho = sensitivity^2 / (2 sigma^2).
        sigma = sensitivity * math.sqrt(1 / (2 * cost.amount)) if cost.amount else math.inf
        return cls("gaussian", sigma * _ROOM)

    @property
    def norm(self) -> float:
        """The norm of the sensitivity: 1 for Laplace noise, 2 for Gaussian noise."""
        return 1 if self.kind == "laplace" else 2

    @property
    def variance(self) -> float:
        """Variance of the noise of one count."""
        return 2 * self.scale**2 if self.kind == "laplace" else self.scale**2

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one count."""
        return math.sqrt(self.variance)

    @property
    def error(self) -> float:
        """Mean absolute noise of one count."""
        return self.scale if self.kind == "laplace" else math.sqrt(2 / math.pi) * self.scale

    def radius(self, level: float) -> float:
        """Return the half-width that holds the noise of one count with this probability."""
        from scipy.special import ndtri

        if self.kind == "laplace":
            return 1 - self.scale * math.log1p(-level)
        return 1 - self.scale * float(ndtri((1 - level) / 2))

    def draw(self, exact: Ints, source: NoiseSource) -> Ints:
        """Return counts plus noise."""
        counts = _as_counts(exact)
        draw = source.discrete_laplace if self.kind == "laplace" else source.discrete_gaussian
        found = np.asarray(counts + draw(self._scale, counts.shape), dtype=np.int64)
        return found if self.steps == 1 else np.rint(found / self.steps).astype(np.int64)

    def event(self, sensitivity: float, *, required: Iterable[str] | None, label: str) -> Event:
        """Return the fact that numbers which a row moves so far are released with this noise."""
        moved = sensitivity * self.steps
        facts: dict[str, Any] = {"required": required, "label": label, "sensitivity": moved}
        if self.kind == "laplace":
            return LaplaceEvent(scale=self._scale, **facts)
        return GaussianEvent(sigma=self._scale, **facts)

    @property
    def _scale(self) -> float:
        """In steps."""
        return self.scale * self.steps


"""How one of several candidates is selected privately."""


@dataclass(frozen=True)
class Selection:
    """The candidate with the largest score after adding noise to each.

    Parameters
    ----------
    epsilon : float
        Above 0.
    sensitivity : float
        How far one row can move a score.
    method : {"exponential", "permute-and-flip"}
        ``"exponential"``: Gumbel noise. The range of the privacy loss is bounded, which costs less
        in zCDP and in Gaussian DP than epsilon-DP alone. ``"permute-and-flip"``: exponential noise.
        It selects better candidates, but only epsilon-DP is proven.
    """

    epsilon: float
    sensitivity: float
    method: SelectionMethod = "exponential"

    norm: ClassVar[float] = math.inf  # of the sensitivity: the largest change of one score

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(SelectionMethod))
        for name in ("epsilon", "sensitivity"):  # of 64 bits, whatever was passed
            object.__setattr__(self, name, float(getattr(self, name)))
        check_scale("2 * sensitivity / epsilon", self.scale)

    @property
    def scale(self) -> float:
        """Of the noise, rounded up: it keeps the promise."""
        return scale_for(self.sensitivity, self.epsilon, count=2)

    def event(self, sensitivity: float, *, required: Iterable[str] | None, label: str) -> Event:
        """Return the fact that one of several candidates is selected, whose scores move so far."""
        if sensitivity > self.sensitivity:
            raise UnprovenError("a score is more sensitive than its selection")
        kind = SelectionEvent if self.method == "exponential" else PureEvent
        return kind(epsilon=self.epsilon, required=required, label=label)  # type: ignore[arg-type]

    def draw(self, exact: Floats, source: NoiseSource) -> int:
        """Return the position of the candidate that is selected."""
        return source.noisy_max(exact, self.scale, method=self.method)
