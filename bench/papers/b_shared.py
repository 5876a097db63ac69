"""The exponential mechanism of Tables 1 and 2 of Hu et al. (2024); no estimator uses it."""

from __future__ import annotations

from missdp.pricing import Sensitivity, TableDistance
from missdp.pricing.privacy_maps import PrivacyMap


def exponential_map(*, sensitivity: Sensitivity, epsilon: float) -> PrivacyMap:
    """The exponential mechanism with mass proportional to exp(score * epsilon / (2 Delta)).

    ``sensitivity`` is that of the scores, in maximum norm; ``sensitivity.replaced`` is Delta. If
    every score moves by at most s, log-ratios of probabilities lie in an interval of length
    epsilon s / Delta: pure DP of that size and, by bounded range, an eighth of its square in zCDP
    (Cesar & Rogers 2021).
    """

    def pure(distance: TableDistance) -> float:
        return epsilon * sensitivity.shift(distance) / sensitivity.replaced

    return PrivacyMap(pure=pure, rho=lambda distance: pure(distance) ** 2 / 8)
