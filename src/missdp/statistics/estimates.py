"""What an answer is: released numbers, their intervals, and what they promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from missdp.accounting import Guarantee
from missdp.record import Record
from missdp.schema import Level
from missdp.statistics.worst_case import Interval, Names

__all__ = ["Estimate", "Histogram"]


@dataclass(frozen=True, kw_only=True)
class Estimate(Record):
    """A released statistic.

    Parameters
    ----------
    name : str
        The question.
    value : float
        The answer, within its public bounds.
    interval : (float, float) or None
        Where the noiseless answer on the imputed table, averaged over equally near donors, lies
        with probability at least ``confidence`` over the noise. It costs nothing where the
        scale of the noise is public: for answers that read no cell filled from other rows. For all
        others it is None unless it was asked for with a `ScaleRelease`. It covers neither
        sampling nor the uncertainty of the imputed values.
    confidence : float
        Of the interval, and of ``imputation_interval``; each alone, not both at once.
    guarantee : Guarantee
        What this answer promises, with the releases that it shares with others, as of the scale;
        the budget holds the total.
    total_interval : (float, float) or None
        Where the value of the population that the rows were sampled from lies with probability
        about ``confidence``, if values are missing at random given what is matched on: over noise,
        sampling and imputation. By estimates of their sizes, not by bounds: an approximation,
        as usual for means of many rows. None for variances, correlations and groups, and where the
        scale of the noise was not paid for.
    imputation_interval : (float, float) or None
        Where the statistic of the complete table lies with probability at least ``confidence``
        over the noise: the same rows, every missing cell that the question reads holding *some*
        value of its public domain (or none, where a rule leaves open whether its attribute
        applies), whatever the reason that it is missing. It relies neither on
        the imputation nor on ``interval``, always holds ``value``, and does not cover sampling.
        For means and proportions it speaks of complete tables whose subpopulation has a row. None
        unless paid for with ``uncertainty="worst-case"``.
    applicable : tuple of str
        Attributes that the question is of and that do not apply to everybody: it is answered for
        the rows to which they surely apply. Public.
    note : str
        A line on why there is no noise interval, or why it is the whole range, and about which
        epsilon would help; from public facts and released numbers only. Empty if it is of use.
    """

    name: str
    value: float
    interval: Interval | None
    confidence: float
    guarantee: Guarantee
    total_interval: Interval | None = None
    imputation_interval: Interval | None = None
    applicable: Names = ()
    note: str = ""

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; ``applicable`` and ``note`` only where they say something."""
        return _without_nothing(super().to_dict())


@dataclass(frozen=True, kw_only=True)
class Histogram(Record):
    """Released counts per level; ``intervals`` hold all at once with probability ``confidence``.

    ``applicable`` and ``note`` as in `Estimate`.
    """

    name: str
    levels: tuple[Level | str, ...]
    values: tuple[float, ...]
    intervals: tuple[Interval, ...] | None
    confidence: float
    guarantee: Guarantee
    applicable: Names = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; ``applicable`` and ``note`` only where they say something."""
        return _without_nothing(super().to_dict())


def _without_nothing(shown: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in shown.items() if v or k not in ("applicable", "note")}
