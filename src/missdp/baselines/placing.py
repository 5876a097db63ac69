"""Synthetic rows between which denial constraints hold: always, or about as often as released.

Rows are drawn without looking at each other. Where no two may violate anything, they are then
placed beside each other, all at once:

1. What has a direct solution gets it. Under a functional dependency, rows that agree in what
   determines get one value, that of most of them. Under a pair of strict orders within groups (who
   is higher in rank earns no less), the values of one attribute change rows within each group, so
   that both go up together; its margin stays as it was.
2. Rows that still violate something are sorted out, those with most conflicts first, and some of
   their cells are drawn again from the model, given their other cells: first the attribute that is
   drawn last, in the end all that the constraints are about. Draws that violate nothing are kept.
3. Rows for which no draw fits take the cells that constraints are about from a kept row. A row that
   equals a kept one conflicts with no other.

Only where two equal rows violate a constraint (a key) can rows be left over. Drawing goes on for
them, in the end of anything in the domain; if some are still left, an error says how many fit.

Where a rate was released, and the rows' own is off by more than its noise, their law is tilted: a
value ``v`` of the attribute that is drawn last gets weight ``p(v) exp(-w violations(v))``, where
``p`` is the model's law given the rest of the row, in small steps. Each row is offered one draw
from ``p``, and takes it with a probability that grows with the violations that it saves. What flows
from ``a`` to ``b`` is proportional to ``p(a) p(b) max(0, violations(a) - violations(b))``; the net
flow to ``b`` is the derivative of that tilt by ``w``. How far a step goes is found by bisection on
what its offers would save, less a price for changing rows; after one that overshot, the next one
goes half as far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.inference.heads import Heads
from missdp.inference.heads import redraw as redraw_cells
from missdp.inference.model import Levels
from missdp.schema import Numeric, PairDenial, Schema
from missdp.sources.partners import (
    observed_on,
    violates_itself,
    violating_pairs,
    violating_partners,
)
from missdp.synth.sampling import followed, put
from missdp.table import Table
from missdp.types import Flags, Floats, Ints

Rows: TypeAlias = Table
"""Synthetic rows."""


_TURNS = 2  # draws of the same attributes
_MOST_TURNS = 60  # where no row can take another one's cells
_IN_VAIN = 5  # turns
_ROUNDS = 60  # in each of which at least one row is kept


Redraw: TypeAlias = Callable[[Table, tuple[str, ...], np.random.Generator], Table]
"""Draws some attributes of rows again from the model's law, given the rows' other cells."""


def placed(
    rows: Table,
    denials: Sequence[PairDenial],
    rng: np.random.Generator,
    *,
    redraw: Redraw | None = None,
    order: Sequence[str] = (),
) -> Table:
    """Return synthetic rows changed so that no two of them violate a denial constraint."""
    for group in _connected(rows.schema, denials):
        rows = _Placing(tuple(group), rng, redraw or _redrawn_from_others(rows), order).of(rows)
    if any(violating_pairs(denial, rows) for denial in denials):  # no group touches another one
        raise DataError("synthetic rows still violate what the schema says about two rows")
    return rows


def _redrawn_from_others(table: Table) -> Redraw:
    """Return what takes cells from rows of a table, chosen at random: where there is no model."""

    def redraw(rows: Table, names: tuple[str, ...], rng: np.random.Generator) -> Table:
        where = np.arange(len(rows))
        return put(rows, where, table, rng.integers(0, len(table), len(rows)), names)

    return redraw


@dataclass(frozen=True)
class _Placing:
    """How rows are placed under constraints that hang together by attributes."""

    denials: tuple[PairDenial, ...]
    rng: np.random.Generator
    redraw: Redraw
    order: Sequence[str] = field(default=())

    @property
    def _names(self) -> tuple[str, ...]:
        """What the constraints are about, as the model draws it."""
        place = {name: i for i, name in enumerate(self.order)}
        names = dict.fromkeys(name for denial in self.denials for name in denial.names)
        return tuple(sorted(names, key=lambda name: place.get(name, len(place))))

    def _reach(self, rows: Table) -> frozenset[str]:
        """What rules link with it: in no other attribute is a row changed."""
        return rows.schema.rulebook.reached(self._names)

    def of(self, rows: Table) -> Table:
        """Return the rows placed."""
        if not _conflicts(self.denials, rows).any():
            return rows
        rows = self._arranged(rows)
        kept = _without_conflicts(self.denials, rows, self.rng)
        fixed = rows.schema.rulebook.derives
        names = tuple(n for n in self._names if n not in fixed) or rows.schema.names
        for many in range(1, len(names) + 1):
            for _ in range(_TURNS):
                if kept.all():
                    return rows
                rows, kept = self._again(rows, kept, names[-many:], self.redraw)
        return rows if kept.all() else self._copied(rows, kept, names)

    # What has a direct solution

    def _arranged(self, rows: Table) -> Table:
        """Return rows that obey every constraint with a direct solution, as far as they agree."""
        changed = rows
        targets: set[str] = {*rows.schema.rulebook.derives}
        for denial in _after_what_determines(self.denials):
            if denial.dependency is not None and denial.dependency[1] not in targets:
                changed = self._agreeing(changed, *denial.dependency)
                targets.add(denial.dependency[1])
            elif (pair := _strict_orders(denial)) is not None:
                free = [name for name in self._names if name in pair[1:3] and name not in targets]
                if free:
                    changed = self._in_step(changed, pair, moved=free[-1])
                    targets.add(free[-1])
        changed, broken = followed(changed)
        back = np.flatnonzero(broken)
        return put(changed, back, rows, back, rows.schema.names)

    def _agreeing(
        self, rows: Table, given: tuple[str, ...], name: str, sure: Flags | None = None
    ) -> Table:
        """Give rows that agree in some attributes one value: of a sure one, or of most of them."""
        seen = np.flatnonzero(observed_on((*given, name), rows))
        part = rows.take(seen)
        group = _keys([_cells(part, other) for other in given], seen.size)
        both = _keys([group, part.codes(name)], seen.size)
        times = np.bincount(both)[both] if seen.size else both
        first = np.zeros(seen.size) if sure is None else sure[seen]
        # The last of each group in this order is a sure one, or has its most frequent code.
        line = np.lexsort((self.rng.random(seen.size), both, times, first, group))
        last = np.searchsorted(group[line], group, side="right") - 1
        return put(rows, seen, part, line[last], (name,))

    def _in_step(
        self, rows: Table, pair: tuple[tuple[str, ...], str, str, bool], *, moved: str
    ) -> Table:
        """Let the values of one attribute go up with the other one's, or down, within groups."""
        given, one, two, up = pair
        fixed = one if moved == two else two
        seen = np.flatnonzero(observed_on((*given, one, two), rows))
        part = rows.take(seen)
        group = _keys([_cells(part, other) for other in given], seen.size)
        height = _keys([_cells(part, moved)], seen.size) * (1 if up else -1)
        chance = self.rng.random(seen.size)
        places = np.lexsort((chance, height, _cells(part, fixed), group))
        source = np.lexsort((chance, height, group))
        return put(rows, seen[places], part, source, (moved,))

    # What is left is drawn again

    def _again(
        self, rows: Table, kept: Flags, names: tuple[str, ...], redraw: Redraw
    ) -> tuple[Table, Flags]:
        """Draw attributes of the rows that are not kept again, and keep those that fit."""
        lacking = np.flatnonzero(~kept)
        drawn = redraw(rows.take(lacking), names, self.rng)
        others = rows.take(kept)
        drawn, broken = followed(self._determined(drawn, others, names))
        fits = np.flatnonzero(~broken & (_conflicts(self.denials, drawn, others) == 0))
        part = drawn.take(fits)
        fits = fits[_without_conflicts(self.denials, part, self.rng)]
        rows = put(rows, lacking[fits], drawn, fits, self._reach(rows))
        kept = kept.copy()
        kept[lacking[fits]] = True
        return rows, kept

    def _determined(self, drawn: Table, others: Table, names: tuple[str, ...]) -> Table:
        """Give what is determined by a dependency the value that it has in kept rows."""
        rows, place = Table.joined([others, drawn]), np.arange(len(others) + len(drawn))
        for denial in _after_what_determines(self.denials):
            if denial.dependency is not None and denial.dependency[1] in names:
                rows = self._agreeing(rows, *denial.dependency, place < len(others))
        return rows.take(place[len(others) :])

    def _copied(self, rows: Table, kept: Flags, drawn: tuple[str, ...]) -> Table:
        """Let rows that are not kept take cells from kept ones."""
        names = self._names
        lacking, chosen = _donors(self.denials, rows, kept, names, self.rng)
        if not lacking.size:
            return self._on_and_on(rows, kept, drawn)
        whole = put(rows, lacking, rows, chosen, self._reach(rows))
        found = put(rows, lacking, rows, chosen, names)
        for name in names:  # holes stay: what is not there violates nothing
            hole = np.flatnonzero(rows.mask(name) & ~kept)
            found = put(found, hole, rows, hole, (name,))
        found, broken = followed(found)
        # Where other cells do not fit, all that rules link with these are taken, too.
        back = np.flatnonzero((broken | (_conflicts(self.denials, found) > 0)) & ~kept)
        return put(found, back, whole, back, rows.schema.names)

    def _on_and_on(self, rows: Table, kept: Flags, names: tuple[str, ...]) -> Table:
        """Draw rows that are not kept again as long as it helps."""
        for redraw in (self.redraw, _anything):
            vain = 0
            for _ in range(_MOST_TURNS):
                before = int(kept.sum())
                rows, kept = self._again(rows, kept, names, redraw)
                if kept.all():
                    return rows
                vain = 0 if kept.sum() > before else vain + 1
                if vain == _IN_VAIN:
                    break
        texts = ", ".join(denial.text for denial in self.denials)
        raise DataError(
            f"only {int(kept.sum())} of {len(kept)} synthetic rows can be placed, since two equal "
            f"rows violate what the schema says about two rows: {texts}. Draw fewer rows, enlarge "
            "the domains, or declare that it holds mostly"
        )


def _anything(rows: Table, names: tuple[str, ...], rng: np.random.Generator) -> Table:
    """Draw any level or value of the domain."""
    codes = {
        a.name: rng.integers(0, a.size, len(rows)) if a.name in names else rows.codes(a.name)
        for a in rows.schema
    }
    drawn, every = Table.from_codes(rows.schema, codes).with_values(rng), np.arange(len(rows))
    return put(rows, every, drawn, every, names)


def _after_what_determines(denials: Sequence[PairDenial]) -> list[PairDenial]:
    """Return constraints in an order in which what a dependency reads is settled before it."""
    waiting, done = list(denials), list[PairDenial]()
    while waiting:
        open_ = {d.dependency[1] for d in waiting if d.dependency is not None}
        ready = [d for d in waiting if d.dependency is None or not open_ & {*d.dependency[0]}]
        first = (ready or waiting)[0]
        done.append(first)
        waiting.remove(first)
    # Orders come last: they move values, and do not choose them.
    return sorted(done, key=lambda denial: denial.dependency is None)


def _strict_orders(denial: PairDenial) -> tuple[tuple[str, ...], str, str, bool] | None:
    """Return what a constraint says if it is that two attributes go up together, or do not.

    That is, in what rows agree, the two attributes, and whether one goes up with the other.
    """
    if denial.first or denial.second or any(one != two for _, one, two in denial.between):
        return None
    given = tuple(name for sign, name, _ in denial.between if sign == "==")
    orders = [(sign, name) for sign, name, _ in denial.between if sign != "=="]
    names = {name for _, name in orders} | {*given}
    if len(orders) != 2 or len(names) != len(given) + 2:
        return None
    (sign, one), (other, two) = orders
    if not {sign, other} <= {"<", ">"}:
        return None
    return given, one, two, sign != other


def _connected(schema: Schema, denials: Iterable[PairDenial]) -> list[list[PairDenial]]:
    """Return denial constraints by groups that share no attribute and that no rule links."""
    reached = schema.rulebook.reached
    groups: list[list[PairDenial]] = []
    for denial in denials:
        mine = reached(denial.names)
        near = [group for group in groups if any(mine & reached(d.names) for d in group)]
        joined = [*(d for group in near for d in group), denial]
        first = groups.index(near[0]) if near else len(groups)
        groups = [*groups[:first], joined, *(g for g in groups[first:] if g not in near)]
    return groups


def _conflicts(denials: Sequence[PairDenial], rows: Table, among: Table | None = None) -> Ints:
    """Count for each row the rows that it violates denial constraints with, once for each."""
    found = np.zeros(len(rows), dtype=np.int64)
    for denial in denials:
        found += violating_partners(denial, rows, among)
    return found


def _without_conflicts(
    denials: Sequence[PairDenial], rows: Table, rng: np.random.Generator
) -> Flags:
    """Tell which rows are kept, no two of which violate anything: few conflicts go first.

    Rows that no row of fewer conflicts conflicts with are kept, those that conflict with them are
    not, and so on with the others (a parallel form of the greedy choice of an independent set).
    """
    kept = np.zeros(len(rows), dtype=bool)
    left = np.arange(len(rows))
    for _ in range(_ROUNDS):
        part = rows.take(left)
        many = _conflicts(denials, part)
        ranks = np.empty(len(left), dtype=np.int64)
        ranks[np.lexsort((rng.random(len(left)), many))] = np.arange(len(left))
        ahead = np.zeros(len(left), dtype=np.int64)
        for denial in denials if many.any() else ():
            ahead += violating_partners(denial, part, ranks=ranks)
        free = ahead == 0
        kept[left[free]] = True
        rest = left[~free]
        if not rest.size:
            break
        left = rest[_conflicts(denials, rows.take(rest), part.take(free)) == 0]
        if not left.size:
            break
    return kept


def _cells(table: Table, name: str) -> NDArray[Any]:
    """Values of a numeric attribute, else codes."""
    numeric = isinstance(table.schema[name], Numeric)
    return table.values(name) if numeric else table.codes(name).astype(np.int64)


def _keys(columns: Sequence[NDArray[Any]], n: int) -> Ints:
    """Return one number for each row, the same for rows that agree in all columns."""
    found = np.zeros(n, dtype=np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + codes, return_inverse=True)[1]
    return found


def _donors(
    denials: Sequence[PairDenial],
    rows: Table,
    kept: Flags,
    names: Sequence[str],
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Return for rows that are not kept a kept one that they may take cells from.

    What equals a kept row in all that is compared conflicts with no kept row, unless two equal rows
    do. A row gets one that agrees with it in as many of the first attributes as can be, and that
    has a value of all of them if any has.
    """
    able = kept.copy()
    for denial in denials:
        able &= ~violates_itself(denial, rows)
    whole = able & observed_on(names, rows)
    able = whole if whole.any() else able
    lacking, possible = np.flatnonzero(~kept), np.flatnonzero(able)
    if not possible.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    chosen = rng.choice(possible, size=lacking.size)
    open_ = np.ones(lacking.size, dtype=bool)
    for depth in range(len(names) - 1, 0, -1):
        found = _keys([rows.codes(name) for name in names[:depth]], len(rows))
        line = possible[np.argsort(found[possible], kind="stable")]
        wanted = found[lacking]
        first = np.searchsorted(found[line], wanted, side="left")
        many = np.searchsorted(found[line], wanted, side="right") - first
        hit = open_ & (many > 0)
        chosen[hit] = line[(first + np.floor(rng.random(lacking.size) * many).astype(int))[hit]]
        open_ &= ~hit
    return lacking, chosen


def redrawn(
    law: Heads,
    levels: tuple[Levels, ...],
    rows: Table,
    names: tuple[str, ...],
    rng: np.random.Generator,
) -> Table:
    """Return rows with some attributes drawn anew given the rest, numbers in the bins drawn."""
    schema = rows.schema
    place = {name: i for i, name in enumerate(schema.names)}
    known = zip(schema.names, levels, strict=True)
    groups = np.stack([level.groups[rows.codes(name)] for name, level in known], axis=1)
    drawn = redraw_cells(law, groups, tuple(place[n] for n in names), rng)
    codes = {n: levels[place[n]].split(drawn[:, place[n]], rng) for n in names}
    again = Table.from_codes(schema.subset(names), codes).with_values(rng)
    every = np.arange(len(rows))
    return put(rows, every, again, every, names)


_NEAR = 0.1  # of a rate: what need not be mended, however little noise there was
_SURE = 2.0  # standard deviations
_LEAST = 1e-4  # rate
_STEPS = 30
_AT_ONCE = 0.6  # of what is lacking, since all rows move at once
_SLOW = 0.9  # of what was lacking is left: another attribute is tried
_STEPS_IN_VAIN = 8  # steps
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
    draw = redraw or _redrawn_from_others(rows)
    tried: dict[str, int] = {}
    before, pace, vain = replace(seen, aims=aims), 1.0, 0
    for _ in range(_STEPS):
        worst = denials[int(np.argmax(before.lacking))]
        names = [n for n in worst.names if n not in rows.schema.rulebook.derives]
        names.sort(key=lambda name: (tried.get(name, 0), -place.get(name, len(place))))
        if not names or vain == _STEPS_IN_VAIN or not before.lacking.any():
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
    """Return what a share is led to: as near to where the model has it as the release allows."""
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
