"""Privacy maps: bounds on outputs by the distance of two tables, and the best bound."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from missdp.accounting import Event, PureEvent, RDPEvent, ZCDPEvent, proven_epsilon
from missdp.accounting.renyi import rdp_curve
from missdp.errors import UnprovenError
from missdp.pricing.domain import TableDistance, require
from missdp.types import Floats


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Largest change of a query's exact answer when rows of its table are replaced or shifted.

    The norm is Euclidean for Gaussian noise, and the sum of absolute values (L1) for Laplace noise.
    The author of a `VectorQuery` proves these constants.

    Parameters
    ----------
    replaced : float
        Largest change of the answer for one replaced row, above 0, in the units of the answer.
    l12 : float, default infinity
        Largest change of the answer per unit of the summed Euclidean shift of rows. At least 0.
    frobenius : float, default infinity
        Largest change of the answer per unit of the Frobenius norm of the shift of rows (the
        root of the sum of squares). At least 0.

    Raises
    ------
    ParameterError
        If a constant is out of range.

    Examples
    --------
    >>> from missdp.pricing import Sensitivity, TableDistance
    >>> moved = TableDistance(replaced=1, shifted_rows=100, max_shift=0.01)
    >>> Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0).shift(moved)
    1.1
    """

    replaced: float
    l12: float = math.inf
    frobenius: float = math.inf

    def __post_init__(self) -> None:
        valid = self.replaced > 0 and self.l12 >= 0 and self.frobenius >= 0
        require(valid, "sensitivities must be above 0, Lipschitz constants at least 0")

    def shift(self, distance: TableDistance) -> float:
        """Return a bound on the change of a query's exact answer between two tables.

        Replaced rows and shifted rows both count.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables.

        Returns
        -------
        float
            Public upper bound in the norm of the sensitivity, in the units of the answer. It is at
            least 0, and may be infinite.
        """
        movement = 0.0
        if distance.shifted_rows:
            movement = min(self.l12 * distance.shift_l12, self.frobenius * distance.shift_frobenius)
        return self.replaced * distance.replaced + movement

    def largest_shift(self, distance: TableDistance) -> float:
        """Return the smaller of two bounds on the change of a query's answer between two tables.

        One bound is `shift`. The other bound counts every shifted row as replaced.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables.

        Returns
        -------
        float
            Public upper bound in the norm of the sensitivity, in the units of the answer. At least
            0.
        """
        return min(self.shift(distance), self.shift(distance.forget_movement()))


def _unproven(_: TableDistance) -> float:
    return math.inf


@dataclass(frozen=True, kw_only=True)
class PrivacyMap:
    """Upper bounds on the privacy loss of a mechanism, as functions of the distance of two tables.

    They cover replaced and shifted rows at once, and are infinite where nothing is proven. They
    hold for every pair of tables whose rows lie in the domain that the map was built for.
    `gaussian`, `laplace` and `subsampled` build maps.

    Parameters
    ----------
    rho : callable, optional
        Function of a `TableDistance` that returns a bound in zero-concentrated DP (zCDP).
    pure : callable, optional
        Function of a `TableDistance` that returns a bound in pure DP.
    renyi : callable, optional
        Function of an order above 1 and a `TableDistance` that bounds the Rényi divergence. By
        default it follows from ``rho`` and ``pure``.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), Definition 3 and Table 1. The curve of rows that are only
    replaced is the mechanism's RDP. The curve of rows that only move is its smooth RDP.
    `_theorem_two` combines these.
    """

    rho: Callable[[TableDistance], float] = _unproven
    pure: Callable[[TableDistance], float] = _unproven
    renyi: Callable[[float, TableDistance], float] | None = None

    def curve(self, alpha: float, distance: TableDistance) -> float:
        """Return a bound on the Rényi divergence of a mechanism's outputs on two tables.

        Parameters
        ----------
        alpha : float
            Order of the divergence, above 1.
        distance : TableDistance
            Public upper bound on the difference between the two tables.

        Returns
        -------
        float
            Public upper bound, possibly infinite.
        """
        if self.renyi is not None:
            return self.renyi(alpha, distance)
        rho, pure = self.rho(distance), self.pure(distance)
        if math.isinf(pure):
            return alpha * rho
        worst = rdp_curve(PureEvent(epsilon=pure), np.array([alpha]))
        return min(alpha * rho, float(worst[0]))

    @classmethod
    def gaussian(
        cls, *, sensitivity: Sensitivity, sigma: float, steps: int = 1, slack: float = 0.0
    ) -> PrivacyMap:
        """Return privacy bounds for Gaussian noise on one query or on adaptively chosen queries.

        Two Gaussians of equal variance have D_alpha = alpha shift^2 / (2 sigma^2). The shift is at
        most h Delta + min(L12 tau, LF phi). This direct bound is tighter than the triangle
        inequality (Theorem 2 of Hu, Sanyal & Schölkopf 2024). The discrete Gaussian obeys this
        bound, too (Canonne et al. 2020).

        Parameters
        ----------
        sensitivity : Sensitivity
            Sensitivity of each query, in Euclidean norm.
        sigma : float
            Standard deviation of the noise on each coordinate, in the units of the answer.
        steps : int, default 1
            Number of queries.
        slack : float, default 0.0
            Increase of shift / sigma by rounding to a grid.

        Returns
        -------
        PrivacyMap
            Public.

        Examples
        --------
        >>> from missdp.pricing import Sensitivity
        >>> from missdp.pricing.privacy_maps import PrivacyMap
        >>> from missdp.pricing import NEIGHBOURS
        >>> PrivacyMap.gaussian(sensitivity=Sensitivity(replaced=1.0), sigma=2.0).rho(NEIGHBOURS)
        0.125
        """

        def rho(distance: TableDistance) -> float:
            shift = sensitivity.shift(distance)
            return steps * (shift / sigma + slack) ** 2 / 2 if shift > 0 else 0.0

        return cls(rho=rho)

    @classmethod
    def laplace(cls, *, sensitivity: Sensitivity, scale: float, slack: float = 0.0) -> PrivacyMap:
        """Return privacy bounds for Laplace noise on every coordinate of one query.

        The bound is pure DP of shift / scale, and the Rényi curve of any mechanism with this
        guarantee. The curve of continuous Laplace noise is lower, but it is not proven for discrete
        noise.

        Parameters
        ----------
        sensitivity : Sensitivity
            Sensitivity of the query, in summed absolute value (L1).
        scale : float
            Scale of the noise on each coordinate, in the units of the answer.
        slack : float, default 0.0
            Increase of shift / scale by rounding to a grid.

        Returns
        -------
        PrivacyMap
            Public.
        """

        def pure(distance: TableDistance) -> float:
            shift = sensitivity.shift(distance)
            return shift / scale + slack if shift > 0 else 0.0

        return cls(pure=pure)

    @classmethod
    def subsampled(
        cls, *, lipschitz: float, smoothness: float, rows: int, batch: int, sigma: float,
        steps: int, slack: float = 0.0,
    ) -> PrivacyMap:  # fmt: skip
        """Return privacy bounds for DP-SGD, whose steps average gradients of sampled rows.

        Samples are fresh, uniform and without replacement.

        *Replaced rows*: subsampled Rényi DP for replace-one (Wang, Balle & Kasiviswanathan 2019,
        Theorem 9), which bounds the base mechanism only through its Rényi curve. *Moved rows*:
        couple the two runs by the same sample J. The function p^alpha q^(1 - alpha) is jointly
        convex. So exp((alpha - 1) D) of the mixtures is at most the mean over J of exp((alpha - 1)
        D_J). Here D_J = alpha s_J^2 / (2 sigma^2) with s_J = mu Delta H_J / b, and H_J, the number
        of moved rows in the sample, is hypergeometric. The same coupling with a replaced row in the
        sample is the direct bound. No order is excluded.

        Parameters
        ----------
        lipschitz : float
            Largest Euclidean norm of one row's gradient.
        smoothness : float
            Lipschitz constant mu of one row's gradient in the row.
        rows : int
            Public number of all rows.
        batch : int
            Number of rows of a sample.
        sigma : float
            Standard deviation of the noise on each coordinate of the sample's mean gradient.
        steps : int
            Number of steps.
        slack : float, default 0.0
            Increase of shift / sigma by rounding to a grid.

        Returns
        -------
        PrivacyMap
            Public.

        Examples
        --------
        >>> from missdp.pricing.privacy_maps import PrivacyMap
        >>> from missdp.pricing import NEIGHBOURS
        >>> sgd = PrivacyMap.subsampled(
        ...     lipschitz=1.0, smoothness=1.0, rows=1000, batch=10, sigma=1.0, steps=100
        ... )
        >>> sgd.curve(4.0, NEIGHBOURS) < 0.01
        True
        """
        one_row = 2 * lipschitz / (batch * sigma) + slack

        def coupled(alpha: float, distance: TableDistance) -> float:
            from scipy.special import logsumexp

            replaced = min(distance.replaced, rows)
            shifted = min(distance.shifted_rows, rows - replaced)
            a, h, log_weight = _sample_counts(rows, replaced, shifted, batch)
            # The summed movement of any sample is at most tau.
            movement = np.minimum(distance.max_shift * h, distance.shift_l12)
            shift = (2 * lipschitz * a + smoothness * movement) / (batch * sigma)
            shift = np.where(shift > 0, shift + slack, 0.0)
            exponent = alpha * (alpha - 1) * shift**2 / 2
            return float(logsumexp(exponent + log_weight)) / (alpha - 1)

        def curve(alpha: float, distance: TableDistance) -> float:
            bound = coupled(alpha, distance)
            if distance.shifted_rows == 0 and distance.replaced == 1:
                amplified = _subsampled_gaussian_curve(alpha, batch / rows, 1 / one_row)
                bound = min(bound, amplified)
            return steps * bound

        return cls(renyi=curve)


@lru_cache(maxsize=64)
def _sample_counts(
    rows: int, replaced: int, shifted: int, batch: int
) -> tuple[Floats, Floats, Floats]:
    """Numbers of replaced and of moved rows in a sample, with the logarithm of their mass."""
    parts = []
    for a, log_a in zip(*_hypergeometric(rows, replaced, batch), strict=True):
        h, log_h = _hypergeometric(rows - replaced, shifted, batch - int(a))
        parts.append((np.full(h.size, a), h, log_a + log_h))
    in_sample, others, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    return in_sample, others, weights + 1e-9  # a guard far above rounding in the masses


def _hypergeometric(rows: int, marked: int, drawn: int) -> tuple[Floats, Floats]:
    """Numbers of marked rows among those drawn without replacement, with their log-masses.

    From the mode on, neighbours by their ratio, and all together 1: factorials of large numbers
    would lose more digits than the masses have.
    """
    from scipy.special import logsumexp

    k = np.arange(max(0, drawn - (rows - marked)), min(marked, drawn) + 1, dtype=np.float64)
    here = k[:-1]
    up = np.log((marked - here) * (drawn - here)) - np.log(
        (here + 1) * (rows - marked - drawn + here + 1)
    )
    mode = int(np.count_nonzero(up > 0))
    below, above = -np.cumsum(up[:mode][::-1])[::-1], np.cumsum(up[mode:])
    log_mass = np.concatenate([below, [0.0], above])
    return k, log_mass - float(logsumexp(log_mass))


@lru_cache(maxsize=4096)
def _subsampled_gaussian_curve(alpha: float, rate: float, multiplier: float) -> float:
    """Return the RDP of a Gaussian mechanism on a sample without replacement, replace-one.

    Theorem 9 of Wang, Balle & Kasiviswanathan 2019, or no amplification, whichever is less. The
    order is rounded up to the next integer. Above 512 the bound is the one without sampling.
    ``rate`` is the sample size over the number of rows, ``multiplier`` the noise over replace-one
    sensitivity.
    """
    from scipy.special import gammaln, logsumexp

    plain = alpha / (2 * multiplier**2)
    order = max(2, math.ceil(alpha))
    if order > 512 or rate >= 1:
        return plain
    j = np.arange(2, order + 1)
    log_choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    two = 1 / multiplier**2  # The divergence of order 2.
    base = np.log(2) + j * (j - 1) / (2 * multiplier**2)
    base[0] = min(math.log(4) + math.log(math.expm1(two)) if two < 700 else math.inf, base[0])
    terms = j * math.log(rate) + log_choose + base
    return min(plain, float(np.logaddexp(0.0, logsumexp(terms))) / (order - 1))


Curve = Callable[[float], float]
# About 2 % apart, and every integer up to 64, where subsampled curves are evaluated.
_GRID: list[float] = sorted(
    {*(1 + np.geomspace(1e-3, 8e3, 600)).tolist(), *(float(a) for a in range(2, 65))}
)


def _tabulated(curve: Curve) -> Curve:
    """Return the curve with orders rounded up to a grid, infinite beyond. The curve is monotone."""

    @cache
    def at(place: int) -> float:
        return curve(_GRID[place]) if place < len(_GRID) else math.inf

    return lambda alpha: at(bisect.bisect_left(_GRID, alpha))


ORDERS: list[float] = np.unique(
    np.r_[1.1:3.0:0.1, 3.0:12.0:0.5, np.geomspace(12, 4096, 40)].round(3)
).tolist()


def _theorem_two(alpha: float, replaced: Curve, shifted: Curve) -> float:
    """Combine RDP and smooth RDP by the weak triangle inequality, with the best split.

    D_alpha(1 | 2) <= (c alpha - 1) / (c (alpha - 1)) D_{c alpha}(1 | 3)
    + D_{(c alpha - 1) / (c - 1)}(3 | 2) for every c > 1 and every distribution 3 (Mironov 2017).
    The table in between may have the replaced rows of one side and the moved rows of the other, or
    the other way about, in *either* direction. The better bound counts.
    """
    split = partial(_split, alpha, replaced, shifted)
    grid = 1 + np.exp(np.linspace(-7.0, 7.0, 57))
    values = [split(float(c)) for c in grid]
    best = int(np.argmin(values))
    low, high = grid[max(0, best - 1)], grid[min(grid.size - 1, best + 1)]
    return min(values[best], *(split(float(c)) for c in np.linspace(low, high, 33)))


def _split(alpha: float, replaced: Curve, shifted: Curve, c: float) -> float:
    """Return the bound of `_theorem_two` at one split."""
    first, second = c * alpha, (c * alpha - 1) / (c - 1)
    w = (c * alpha - 1) / (c * (alpha - 1))
    return min(w * replaced(first) + shifted(second), w * shifted(first) + replaced(second))


@dataclass(frozen=True)
class Bound:
    """One proven upper bound on the privacy loss of a preprocessing pipeline with its estimator.

    `PricedPipeline.bounds` and `bounds` return the bounds of a pipeline, the smallest epsilon
    first. All values are public.

    Parameters
    ----------
    name : {"direct", "theorem 2", "group privacy"}
        Name of the derivation. The name "direct" stands for a bound on replaced and shifted
        rows at once. The name "theorem 2" stands for the weak triangle inequality of Rényi
        divergences (Hu, Sanyal & Schölkopf 2024). It combines a bound on replaced rows with a
        bound on shifted rows. The name "group privacy" stands for a bound that counts every
        shifted row as replaced.
    epsilon : float
        Epsilon at the requested delta, at least 0 and possibly infinite.
    event : Event
        Accounting event of the noisy release that a budget is charged, under replace-one adjacency.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> from missdp.pricing import Bound
    >>> Bound("direct", 1.0, PureEvent(epsilon=1.0, adjacency="replace-one")).epsilon
    1.0
    """

    name: str
    epsilon: float
    event: Event


def bounds(
    mechanism: PrivacyMap, distance: TableDistance, delta: float, *, label: str = ""
) -> tuple[Bound, ...]:
    """Return every finite bound on the privacy loss of a mechanism after preprocessing.

    Parameters
    ----------
    mechanism : PrivacyMap
        Bounds of the mechanism that ends the pipeline, as functions of the distance of two tables.
        The property ``privacy_map`` of a query has them.
    distance : TableDistance
        Public upper bound on the difference between neighbouring tables after preprocessing.
    delta : float
        The delta, in [0, 1). At 0 only pure DP counts.
    label : str, default ""
        Public name for the accounting events.

    Returns
    -------
    tuple of Bound
        Public, with the smallest epsilon first. *Direct* bounds replaced and shifted rows at
        once, where the mechanism has this bound. *Theorem 2* combines RDP and smooth RDP by the
        weak triangle inequality with optimised splits. *Group privacy* counts every shifted row
        as replaced.

    Raises
    ------
    UnprovenError
        If no bound is finite.
    ParameterError
        If delta is out of range.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), Theorem 2.
    Mironov (2017), for the weak triangle inequality.

    Examples
    --------
    >>> from missdp.pricing import RowDomain, TableDistance, VectorQuery, bounds
    >>> domain = RowDomain(rows=100, columns=1, radius=0.5)
    >>> query = VectorQuery.mean(domain, multiplier=1.0, noise="laplace")
    >>> moved = TableDistance(replaced=1, shifted_rows=10, max_shift=0.05)
    >>> [(bound.name, round(bound.epsilon, 3)) for bound in bounds(query.privacy_map, moved, 0.0)]
    [('direct', 1.5), ('group privacy', 11.0)]
    """
    derived = {"direct": _direct_events(mechanism, distance, label)}
    if distance.shifted_rows:
        derived["theorem 2"] = _theorem_events(mechanism, distance, label)
        coarse = distance.forget_movement()
        derived["group privacy"] = _direct_events(mechanism, coarse, label)
    finite: list[Bound] = []
    for name, events in derived.items():
        proven = [event for event in events if delta != 0 or isinstance(event, PureEvent)]
        priced = [Bound(name, proven_epsilon(e, delta, "replace-one"), e) for e in proven]
        best = min(priced, key=lambda bound: bound.epsilon, default=None)
        finite += [best] if best is not None and best.epsilon < math.inf else []
    if not finite:
        raise UnprovenError(
            "no finite bound is known for this mechanism after this preprocessing"
            + (" at delta 0: state a delta" if delta == 0 else "")
        )
    return tuple(sorted(finite, key=lambda bound: bound.epsilon))


def _curves(mechanism: PrivacyMap, distance: TableDistance) -> tuple[Curve, Curve]:
    """Return the curves of rows that are replaced only, and of rows that move only."""
    replaced, shifted = TableDistance(replaced=distance.replaced), replace(distance, replaced=0)
    return lambda a: mechanism.curve(a, replaced), lambda a: mechanism.curve(a, shifted)


def _direct_events(mechanism: PrivacyMap, distance: TableDistance, label: str) -> list[Event]:
    facts: dict[str, Any] = {"label": label, "adjacency": "replace-one"}
    rho, pure = mechanism.rho(distance), mechanism.pure(distance)
    events: list[Event] = [ZCDPEvent(rho=rho, **facts)] if math.isfinite(rho) else []
    events += [PureEvent(epsilon=pure, **facts)] if math.isfinite(pure) else []
    return events or _rdp_events(lambda a: mechanism.curve(a, distance), label)


def _theorem_events(mechanism: PrivacyMap, distance: TableDistance, label: str) -> list[Event]:
    replaced, shifted = map(_tabulated, _curves(mechanism, distance))
    if math.isinf(shifted(2.0)):
        return []
    return _rdp_events(lambda a: _theorem_two(a, replaced, shifted), label)


def _rdp_events(curve: Curve, label: str) -> list[Event]:
    finite = {a: e for a in ORDERS if math.isfinite(e := curve(a))}
    if not finite:
        return []
    orders, epsilons = tuple(finite), tuple(finite.values())
    return [RDPEvent(orders=orders, epsilons=epsilons, label=label, adjacency="replace-one")]
