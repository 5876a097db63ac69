"""Heads trained on the private rows: noisy steps of clipped gradients, all planned in advance.

A head is a multinomial logistic regression of one attribute on the earlier ones (see
`missdp.inference.heads`). What a row lacks of its context is filled in by the heads themselves,
with the mean of their law: a function of that row and of released weights. A head learns nothing
from a row in which its own attribute is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from missdp.inference.clipping import independent_rows
from missdp.inference.heads import Heads, Pair
from missdp.mechanisms.door import Door, Training
from missdp.synth.learn_pairs import Crude
from missdp.types import Floats, Ints

_NOISE = 0.2  # that training adds to a weight
_RARE = 1e-12
_LEAST = 1e-7  # share of a level
_LEAST_SEEN = 0.02  # share of the rows
_SHORTEST = 1e-3
_LONGEST = 2000.0  # all steps of a weight together
_STABLE = 1.0  # a step, where curvature is 1
_LEAST_WHOLE, _MOST_WHOLE = 0.5, 0.95  # share of independent rows that is not clipped
_HALF = 500.0  # rows over noise, where half of them are not
_PER_DECADE = 0.6
_ROUNDS = 100  # of calibration
_POINTS = 4096
_NUMBERS_AT_ONCE = 1 << 22  # of the gradients of a block of rows: 32 MB
_MOST_AT_ONCE = 128
_SETTLING = 0.5  # of the steps, before weights are averaged


def _whole(training: Training, rows: float) -> float:
    """Return the share of independent rows whose first gradient is not clipped.

    Clipping costs a bias that stays however large the budget is, and a longer norm costs noise. So
    the share grows with the rows that steps read over the noise, in norms.
    """
    signal = training.rate * rows * math.sqrt(training.steps) / training.noise_multiplier
    share = _LEAST_WHOLE + _PER_DECADE * math.log10(max(signal, 1.0) / _HALF)
    return min(max(share, _LEAST_WHOLE), _MOST_WHOLE)


def _step(t: int, steps: int, std: float, curvature: Floats) -> Floats:
    """Return the lengths of a step, if gradients have noise of this standard deviation.

    Steps get shorter and shorter. All together they add as much noise to a weight as is wanted, as
    far as it is not forgotten on the way. Where there is hardly any noise, a step over the lowest
    point to a higher one is what is to be feared: no weight goes further than its curvature allows.
    """
    length = _NOISE * math.sqrt(3 * steps) / (2 * std)
    longest = 2 * min(length, _LONGEST) / steps
    return np.minimum(longest, _STABLE / curvature) * (1 - t / steps)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where attributes lie among all levels; margins are without what is missing."""

    order: tuple[int, ...]
    margins: tuple[Floats, ...]

    @cached_property
    def starts(self) -> Ints:
        return np.cumsum([0, *(len(margin) for margin in self.margins)])

    @property
    def width(self) -> int:
        return int(self.starts[-1])

    @property
    def state(self) -> tuple[Floats, Floats, Ints, Ints]:
        centres = np.concatenate(self.margins)
        return np.log(np.maximum(centres, _RARE)), centres, self.starts, np.array(self.order)

    def span(self, a: int) -> slice:
        return slice(int(self.starts[a]), int(self.starts[a + 1]))

    def learned(self, a: int) -> tuple[Ints, Ints]:
        """Return the positions of an attribute's levels, each with those that tell of them."""
        place, levels = self.order.index(a), np.arange(self.width)
        told = [levels[self.span(c)] for c in self.order[:place]]
        earlier = np.concatenate([levels[:0], *told])
        drawn = levels[self.span(a)]
        return np.repeat(drawn, len(earlier)), np.tile(earlier, len(drawn))

    def curvature(self, left: Ints, right: Ints) -> Floats:
        """Return bounds for the second derivatives of the mean log-likelihood, without their sign.

        A weight has that of the mean of ``p (1 - p) x²`` over rows, with the law ``p`` of the level
        that is drawn and the centred indicator ``x`` of the other one: at most the share of either
        level, whatever goes with what, as far as the law keeps its margin.
        """
        shares = np.concatenate(self.margins)
        return np.minimum(shares[left], shares[right])


def train_heads(
    door: Door,
    crude: Crude,
    order: Sequence[int],
    *,
    steps: int,
    batch: int,
    report: Callable[[float], None],
) -> Heads:
    """Return heads trained one after the other, with all that is left of a door's budget."""
    kept = [m[: lv.n_groups] for m, lv in zip(crude.margins, crude.levels, strict=True)]
    layout = _Layout(tuple(order), tuple(map(_positive, kept)))
    observed = np.clip(crude.observed, _LEAST_SEEN, 1.0)
    weights = np.zeros((layout.width, layout.width))
    waiting = [(a, *layout.learned(a)) for a in order]
    waiting = [(a, left, right) for a, left, right in waiting if len(left)]
    for k, (a, left, right) in enumerate(waiting):
        name, rows = door.schema.names[a], max(1.0, crude.rows * float(observed[a]))
        label = f"heads of {name}"
        part = door.reserve(door.share(1 / (len(waiting) - k)), label=label)
        rate = min(1.0, batch / rows)
        setting = Training.worth(part.left, rate=rate, steps=steps, clip=1.0)
        setting = replace(setting, clip=_clip(layout, a, _whole(setting, rows)))
        training = part.train(
            setting,
            _gradient,
            (weights, *layout.state, left, right),
            rows_at_once=max(1, min(_MOST_AT_ONCE, _NUMBERS_AT_ONCE // len(left))),
            observed=(name,),
            label=label,
        )
        std = training.noise_std / (setting.rate * rows)
        curvature = layout.curvature(left, right)
        mean, first = np.zeros(len(left)), int(_SETTLING * steps)
        for t in range(steps):
            found = training.step(weights, *layout.state, left, right)
            weights[left, right] += _step(t, steps, std, curvature) * found / (setting.rate * rows)
            mean += weights[left, right] * ((t >= first) / (steps - first))
            report((k + (t + 1) / steps) / len(waiting))
        weights[left, right] = mean
    return _heads(layout, weights)


def _positive(margin: Floats) -> Floats:
    found = np.maximum(margin, _LEAST)
    return np.asarray(found / found.sum())


def _gradient(
    codes: Mapping[str, Ints],
    weights: Floats,
    biases: Floats,
    centres: Floats,
    starts: Ints,
    order: Ints,
    left: Ints,
    right: Ints,
) -> Floats:
    """Return the gradient of each row's log-likelihood: residuals times centred contexts."""
    columns = list(codes.values())
    rows = len(columns[0])
    context = np.zeros((rows, len(centres)))
    residual = np.zeros((rows, len(centres)))
    for a in order:
        start, end = starts[a], starts[a + 1]
        scores = biases[start:end] + context @ weights[start:end].T
        law = np.exp(scores - scores.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        seen = np.flatnonzero(columns[a] < end - start)
        known = law.copy()
        known[seen] = 0.0
        known[seen, columns[a][seen]] = 1.0
        context[:, start:end] = known - centres[start:end]
        residual[:, start:end] = known - law
    return np.asarray(residual[:, left] * context[:, right])


def _clip(layout: _Layout, a: int, quantile: float) -> float:
    """Return a quantile of the norms of gradients at the start, of rows as margins have them."""
    rows = independent_rows(layout.margins, _POINTS)
    squares = [
        np.square(np.eye(len(m)) - m).sum(axis=1)[rows[:, c]] for c, m in enumerate(layout.margins)
    ]
    earlier = layout.order[: layout.order.index(a)]
    total = squares[a] * np.array([squares[c] for c in earlier]).sum(axis=0)
    return max(_SHORTEST, float(np.sqrt(np.quantile(total, quantile))))


def _heads(layout: _Layout, weights: Floats) -> Heads:
    """Return the heads in the form in which rows are drawn: levels' weights, centred."""
    found: dict[Pair, Floats] = {}
    for k, a in enumerate(layout.order):
        for c in layout.order[:k]:
            block = weights[layout.span(a), layout.span(c)]
            if block.any():
                found[a, c] = block - (block @ layout.margins[c])[:, None]
    biases = [np.log(np.maximum(margin, _RARE)) for margin in layout.margins]
    if len(layout.order) > 1:
        # Only the laws that have more than one context are calibrated to margins as rows are drawn.
        c, a = layout.order[:2]
        if (a, c) in found:
            biases[a] = _calibrated(layout.margins[a], layout.margins[c], found[a, c])
    return Heads(layout.order, layout.margins, tuple(biases), found)


def _calibrated(margin: Floats, given: Floats, weights: Floats) -> Floats:
    """Return biases with which a head has its margin, if its context has its own one."""
    from scipy.special import softmax

    bias = np.log(np.maximum(margin, _RARE))
    for _ in range(_ROUNDS):
        law = softmax(bias[:, None] + weights, axis=0)
        bias += np.log(np.maximum(margin, _RARE) / np.maximum(law @ given, _RARE))
    return np.asarray(bias)
