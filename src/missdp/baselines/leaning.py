"""Synthetic rows that violate denial constraints about as often as they were released to.

A model draws rows without looking at constraints between them. If pairs violate one too often, or
too seldom, by more than the noise of the released rate can be, the law of the rows is tilted: a
value ``v`` of the attribute that is drawn last gets weight ``p(v) exp(-w violations(v))``, where
``p`` is the model's law given the rest of the row.

It is done in small steps that leave most rows alone. Each row is offered one draw from ``p``, and
takes it with a probability that grows with the violations that it saves; none if it saves none.
What flows from ``a`` to ``b`` is then proportional to ``p(a) p(b) max(0, violations(a) -
violations(b))``, and the net flow to ``b`` to ``p(b)`` times the mean of the violations less those
of ``b``, which is the derivative of that tilt by ``w``. How far a step goes is found by bisection
on what its offers would save, less a price for changing rows; after a step that overshot, the next
one goes half as far. Several constraints are led to their rates together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from missdp.baselines.placing import Redraw, redrawn_from_others
from missdp.schema import PairDenial
from missdp.sources.partners import observed_on, violating_partners
from missdp.synth.sampling import followed, put
from missdp.table import Table
from missdp.types import Floats

_NEAR = 0.1  # of a rate: what need not be mended, however little noise there was
_SURE = 2.0  # standard deviations
_LEAST = 1e-4  # rate
_STEPS = 30
_AT_ONCE = 0.6  # of what is lacking, since all rows move at once
_SLOW = 0.9  # of what was lacking is left: another attribute is tried
_IN_VAIN = 8  # steps
_DEAR = 0.2  # what it costs to change all rows, in squares of rates
_MOST_SEEN = 50_000  # rows that violations are counted among
_WEIGHTS = 50  # halvings
_ROUNDING = 1e-9  # of the largest gain


def leaned(
    rows: Table,
    denials: Sequence[PairDenial],
    rates: Sequence[tuple[float, float]],
    rng: np.random.Generator,
    *,
    redraw: Redraw | None = None,
    order: Sequence[str] = (),
) -> Table:
    """Return synthetic rows changed so that pairs violate constraints as often as was released.

    Rows stay as they are where the rates are met already, within a tenth or two standard
    deviations of the noise. Else they are led as far as to two standard deviations from the rate:
    a model that has seen all pairs of attributes is seldom far off, and noise may be.
    """
    if len(rows) < 2 or not denials:
        return rows
    seen = _Seen.of(denials, np.zeros(len(denials)), rows, rng)
    known = zip(seen.shares.tolist(), rates, strict=True)
    aims = np.array([_aimed(share, *rate) for share, rate in known])
    place = {name: i for i, name in enumerate(order)}
    draw = redraw or redrawn_from_others(rows)
    tried: dict[str, int] = {}
    before, pace, vain = replace(seen, aims=aims), 1.0, 0
    for _ in range(_STEPS):
        worst = denials[int(np.argmax(before.lacking))]
        names = [n for n in worst.names if n not in rows.schema.rulebook.derives]
        names.sort(key=lambda name: (tried.get(name, 0), -place.get(name, len(place))))
        if not names or vain == _IN_VAIN or not before.lacking.any():
            break
        moved = _stepped(rows, before, draw, names[0], pace, rng)
        after = _Seen.of(denials, aims, moved, rng)
        better = bool((after.lacking**2).sum() < (before.lacking**2).sum())
        if after.lacking.max() > _SLOW * before.lacking.max():
            tried[names[0]] = tried.get(names[0], 0) + 1
        rows, before = (moved, after) if better else (rows, before)
        pace, vain = (min(1.0, 2 * pace), 0) if better else (pace / 2, vain + 1)
    return rows


def _aimed(share: float, rate: float, std: float) -> float:
    """Return what a share is led to: as near to where the model has it as the release allows.

    Examples
    --------
    >>> _aimed(0.5, 0.25, 0.0), _aimed(0.5, 0.25, 0.0625), _aimed(0.5, 0.25, 0.25)
    (0.25, 0.375, 0.5)
    """
    if abs(share - rate) <= max(_NEAR * rate, _SURE * std):
        return share
    return float(rate + np.clip(share - rate, -_SURE * std, _SURE * std))


@dataclass(frozen=True, eq=False)
class _Seen:
    """How often constraints are violated by rows: by each row, and over all."""

    denials: Sequence[PairDenial]
    aims: Floats
    among: Table
    partners: list[Floats]
    shares: Floats

    @classmethod
    def of(
        cls, denials: Sequence[PairDenial], aims: Floats, rows: Table, rng: np.random.Generator
    ) -> _Seen:
        """Count."""
        among = rows
        if len(rows) > _MOST_SEEN:
            among = rows.take(rng.choice(len(rows), size=_MOST_SEEN, replace=False))
        partners, shares = [], []
        for denial in denials:
            mine = _partners(denial, rows, among)
            seen = observed_on(denial.names, rows)
            partners.append(mine)
            shares.append(float(mine.sum() / max(1, seen.sum())))
        return cls(denials, aims, among, partners, np.array(shares))

    @property
    def unit(self) -> Floats:
        """In what distances from rates are measured."""
        return np.maximum(self.aims, _LEAST)

    @property
    def excess(self) -> Floats:
        """By how much each share is too large, in units of its rate."""
        return np.asarray((self.shares - self.aims) / self.unit)

    @property
    def lacking(self) -> Floats:
        """How far each share is from its rate, in the same units; 0 if it is near enough."""
        return np.asarray(np.maximum(0.0, np.abs(self.excess) - _NEAR))


def _partners(denial: PairDenial, rows: Table, among: Table) -> Floats:
    """Return the share of rows, of those with a value of all that is compared, as a partner."""
    seen = observed_on(denial.names, among)
    found = violating_partners(denial, rows, among)
    return np.asarray(found / max(1, int(seen.sum())))


def _stepped(
    rows: Table,
    before: _Seen,
    redraw: Redraw,
    name: str,
    pace: float,
    rng: np.random.Generator,
) -> Table:
    """Offer every row another value of one attribute, and let some take it, at a pace up to 1."""
    drawn, broken = followed(redraw(rows, (name,), rng))
    saved = [
        (mine - _partners(denial, drawn, before.among)) / unit
        for denial, mine, unit in zip(before.denials, before.partners, before.unit, strict=True)
    ]
    excess = before.excess
    gain = np.sum([e * s for e, s in zip(excess, saved, strict=True)], axis=0)
    gain = np.where(broken, 0.0, np.maximum(gain, 0.0))
    gain[gain < _ROUNDING * gain.max()] = 0.0
    if not gain.any():
        return rows
    # A row's violations are those of its partners, too, so a pair is saved twice.
    scale = 2 / len(rows)
    weight = _weight(gain, [scale * s for s in saved], _AT_ONCE * excess)
    takes = np.flatnonzero(rng.random(len(rows)) < pace * np.minimum(1.0, weight * gain))
    return put(rows, takes, drawn, takes, rows.schema.rulebook.reached((name,)))


def _weight(gain: Floats, saved: list[Floats], wanted: Floats) -> float:
    """Return by how much gains weigh so that what is saved comes near to what is wanted.

    The squares of what is left, and the price of changing rows, fall at first as the weight goes up
    from 0. They are followed to where they fall no more.
    """
    price = _DEAR / len(gain)

    def slope(weight: float) -> float:
        chance, more = np.minimum(1.0, weight * gain), gain * (weight * gain < 1.0)
        left = [want - float(chance @ part) for want, part in zip(wanted, saved, strict=True)]
        falls = [rest * float(more @ part) for rest, part in zip(left, saved, strict=True)]
        return float(price * more.sum() - 2 * sum(falls))

    low, high = 0.0, 1.0 / float(gain[gain > 0].min())
    if slope(high * (1 - 1e-9)) < 0:
        return high
    for _ in range(_WEIGHTS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low
