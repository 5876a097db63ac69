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
"""Name of the distribution of the noise that is added to counts: Laplace or Gaussian."""


# Rows. Larger counts are clipped, which moves no two neighbours further apart. So adding noise
# cannot overflow.
_MAX_COUNT = 2**61


def _as_counts(values: ArrayLike) -> Ints:
    """Return int64 counts, or raise an error without values unless they are finite integers."""
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


# Factor of the noise above the exact value, so that shares of a budget that sum to 1 fit into it.
_NOISE_FACTOR = 1 + 1e-12


@dataclass(frozen=True)
class Noise:
    """Discrete Laplace or Gaussian noise that is added to counts before they are released.

    Pass it to `Session.measure` with a query for counts. Laplace noise is charged as pure DP, and
    Gaussian noise as zCDP or Gaussian DP.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        The distribution of the noise.
    scale : float
        The Laplace scale, or the Gaussian sigma, in rows. Above 0, at most 2**40.
    steps : int, default 1
        Number of parts into which one row is divided, if rows have survey weights. Exact counts and
        noise are then whole numbers of these parts, and the noise has ``steps`` times the scale. A
        row changes a count by at most ``steps`` parts, so the cost does not depend on ``steps``.
        Released counts are rounded to whole rows.

    Raises
    ------
    ParameterError
        If the kind is unknown, or ``scale`` or ``scale * steps`` is out of range.

    Notes
    -----
    The noise has exactly the stated discrete distribution. With sensitivity s, Laplace noise costs
    ``s / scale`` in pure epsilon. Gaussian noise costs ``s**2 / (2 scale**2)`` in rho of zCDP.
    Sensitivities hold under add-remove adjacency.

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy", NeurIPS.

    Examples
    --------
    >>> from missdp.session import Noise
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
        """Return the smallest noise with which a release of counts costs at most a given amount.

        Parameters
        ----------
        cost : Cost
            The cost of the release. Pure epsilon gives Laplace noise, and zCDP and Gaussian DP give
            Gaussian noise.
        sensitivity : float, default 1.0
            Largest change of the counts by one row, in rows, above 0. In L1 norm for a cost in
            pure epsilon, otherwise in L2 norm.

        Returns
        -------
        Noise
            The noise, with its scale in rows. Public.

        Raises
        ------
        ParameterError
            If ``sensitivity`` is not a finite number above 0, or the cost is 0 or so small that the
            scale exceeds 2**40.

        Examples
        --------
        >>> from missdp.accounting import Cost
        >>> from missdp.session import Noise
        >>> Noise.from_cost(Cost(privacy_measure="zcdp", amount=0.125)).scale > 2
        True
        """
        if cost.privacy_measure == "pure":
            scale = scale_for(sensitivity, cost.amount) if cost.amount else math.inf
            return cls("laplace", scale * _NOISE_FACTOR)
        if cost.privacy_measure == "gdp":
            return cls("gaussian", gdp_noise(cost.amount, sensitivity=sensitivity) * _NOISE_FACTOR)
        # Gaussian noise has rho = sensitivity^2 / (2 sigma^2).
        sigma = sensitivity * math.sqrt(1 / (2 * cost.amount)) if cost.amount else math.inf
        return cls("gaussian", sigma * _NOISE_FACTOR)

    @property
    def norm(self) -> float:
        """Return the norm in which the sensitivity of counts is measured for this noise.

        Returns
        -------
        float
            1 for Laplace noise (L1), 2 for Gaussian noise (L2). Public.
        """
        return 1 if self.kind == "laplace" else 2

    @property
    def variance(self) -> float:
        """Return the variance of the noise of one released count.

        Returns
        -------
        float
            In squared rows: twice the squared Laplace scale, or the squared Gaussian sigma.
            Public. It is the variance of continuous noise, which is close for scales from 1 on.
        """
        return 2 * self.scale**2 if self.kind == "laplace" else self.scale**2

    @property
    def std(self) -> float:
        """Return the standard deviation of the noise of one released count.

        Returns
        -------
        float
            In rows. Public.
        """
        return math.sqrt(self.variance)

    @property
    def error(self) -> float:
        """Return the mean absolute noise of one released count.

        Returns
        -------
        float
            In rows: the Laplace scale, or ``sqrt(2 / pi)`` times the Gaussian sigma. Public.
        """
        return self.scale if self.kind == "laplace" else math.sqrt(2 / math.pi) * self.scale

    def radius(self, level: float) -> float:
        """Return the half-width of an interval around 0 that holds the noise of one released count.

        Parameters
        ----------
        level : float
            Probability that the interval holds the noise, above 0 and below 1.

        Returns
        -------
        float
            In rows, including one row for the discreteness of the noise. Public.
        """
        from scipy.special import ndtri

        if self.kind == "laplace":
            return 1 - self.scale * math.log1p(-level)
        return 1 - self.scale * float(ndtri((1 - level) / 2))

    def draw(self, exact: Ints, source: NoiseSource) -> Ints:
        """Return exact counts plus independent random noise.

        Only a session calls it, after the charge.

        Parameters
        ----------
        exact : ndarray of int64, of any shape
            Exact counts, in steps. A row counts at most ``steps`` steps. Without weights, a step is
            a row. Private.
        source : NoiseSource
            The source of random draws.

        Returns
        -------
        ndarray of int64, in the shape of ``exact``
            Noisy counts, divided by ``steps`` and rounded to whole rows. Possibly
            negative. Released.

        Raises
        ------
        DataError
            If the counts are not finite whole numbers. The message quotes none of them.
        """
        counts = _as_counts(exact)
        draw = source.discrete_laplace if self.kind == "laplace" else source.discrete_gaussian
        noisy = np.asarray(counts + draw(self._scale, counts.shape), dtype=np.int64)
        return noisy if self.steps == 1 else np.rint(noisy / self.steps).astype(np.int64)

    def event(self, sensitivity: float, *, required: Iterable[str] | None, label: str) -> Event:
        """Return the accounting event of a release of counts with Laplace or Gaussian noise.

        Nothing is read or charged.

        Parameters
        ----------
        sensitivity : float
            Largest change of the counts by one row, in rows. In L1 norm for Laplace noise, in L2
            norm for Gaussian noise.
        required : iterable of str or None
            Attributes that a row must have observed to be counted. None: every row is counted.
        label : str
            Public name of the release.

        Returns
        -------
        Event
            A `LaplaceEvent` or a `GaussianEvent`. Public.

        Raises
        ------
        ParameterError
            If ``sensitivity * steps`` is below 1.
        """
        scaled = sensitivity * self.steps
        facts: dict[str, Any] = {"required": required, "label": label, "sensitivity": scaled}
        if self.kind == "laplace":
            return LaplaceEvent(scale=self._scale, **facts)
        return GaussianEvent(sigma=self._scale, **facts)

    @property
    def _scale(self) -> float:
        """The scale in steps."""
        return self.scale * self.steps


@dataclass(frozen=True)
class Selection:
    """Private selection of the candidate with the largest noisy score.

    Pass it to `Session.measure` with a query for scores, such as `Misfits`. Only the position of
    the selected candidate is released.

    Parameters
    ----------
    epsilon : float
        Pure epsilon of the selection, above 0.
    sensitivity : float
        Largest change of a score by one row, in the unit of the scores, above 0.
    method : {"exponential", "permute-and-flip"}, default "exponential"
        ``"exponential"``: Gumbel noise. The range of the privacy loss is bounded, which costs less
        in zCDP and in Gaussian DP than an arbitrary epsilon-DP mechanism. ``"permute-and-flip"``:
        exponential noise (McKenna & Sheldon 2020). It selects better candidates, but only
        epsilon-DP is proven.

    Raises
    ------
    ParameterError
        If the method is unknown, or a number is out of range.

    Notes
    -----
    The selection is epsilon-DP under the adjacency for which the sensitivity holds. A session
    charges epsilon before scores are computed.

    References
    ----------
    Durfee, Rogers (2019), "Practical differentially private top-k selection with pay-what-you-get
    composition", NeurIPS, for the bounded range.

    McKenna, Sheldon (2020), "Permute-and-flip: a new mechanism for differentially private
    selection", NeurIPS.

    Examples
    --------
    >>> from missdp.session import Selection
    >>> Selection(epsilon=0.5, sensitivity=1.0).scale
    4.0
    """

    epsilon: float
    sensitivity: float
    method: SelectionMethod = "exponential"

    norm: ClassVar[float] = math.inf  # norm of the sensitivity: the largest change of one score

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(SelectionMethod))
        for name in ("epsilon", "sensitivity"):  # any number is stored as a 64-bit float
            object.__setattr__(self, name, float(getattr(self, name)))
        check_scale("2 * sensitivity / epsilon", self.scale)

    @property
    def scale(self) -> float:
        """Return the scale of the noise that is added to each score of the selection.

        Returns
        -------
        float
            ``2 * sensitivity / epsilon`` in the unit of the scores, rounded up so that the
            stated epsilon holds. Public.
        """
        return scale_for(self.sensitivity, self.epsilon, count=2)

    def event(self, sensitivity: float, *, required: Iterable[str] | None, label: str) -> Event:
        """Return the accounting event of a private selection of one candidate by its noisy score.

        Nothing is read or charged.

        Parameters
        ----------
        sensitivity : float
            Largest change of a score by one row, in the unit of the scores. At most the
            sensitivity of the selection.
        required : iterable of str or None
            Attributes that a row must have observed to be read. None: every row is read.
        label : str
            Public name of the release.

        Returns
        -------
        Event
            A `SelectionEvent` for the exponential mechanism, a `PureEvent` for permute-and-flip.

        Raises
        ------
        UnprovenError
            If the scores are more sensitive than the selection states.
        """
        if sensitivity > self.sensitivity:
            raise UnprovenError("a score is more sensitive than its selection")
        kind = SelectionEvent if self.method == "exponential" else PureEvent
        return kind(epsilon=self.epsilon, required=required, label=label)  # type: ignore[arg-type]

    def draw(self, exact: Floats, source: NoiseSource) -> int:
        """Return the position of the candidate that is selected at random by its score.

        Only a session calls it, after the charge.

        Parameters
        ----------
        exact : ndarray of float64, shape (n_candidates,)
            Exact scores. Private.
        source : NoiseSource
            The source of random draws.

        Returns
        -------
        int
            Position of the selected candidate, from 0. Released.

        Raises
        ------
        ParameterError
            If there is no candidate.
        DataError
            If a score is not finite.
        """
        return source.noisy_max(exact, self.scale, method=self.method)
