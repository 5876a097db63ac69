"""The Kamino synthesizer: attribute by attribute, under constraints between rows.

A head is a multinomial logistic regression of one attribute on the earlier ones (see
`missdp.inference.heads`). Heads may be trained on the private rows: noisy steps of clipped
gradients, all planned in advance. What a row lacks of its context is then filled in by the heads
themselves, with the mean of their law: a function of that row and of released weights. A head
learns nothing from a row in which its own attribute is missing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from missdp.accounting import Budget
from missdp.baselines.placing import Rows, leaned, placed, redrawn
from missdp.errors import ParameterError
from missdp.inference.heads import Heads, Pair
from missdp.inference.masks import MaskModel
from missdp.inference.model import finite
from missdp.inference.models import PairModel
from missdp.inference.products import independent_rows
from missdp.mechanisms.door import Door, Reads, Total, Training
from missdp.schema import Schema
from missdp.schema.denial import PairDenial
from missdp.synth.all_pairs import PairsSynthesizer
from missdp.synth.learn_pairs import Crude, fit_pairs
from missdp.synth.split import Part
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

    Clipping costs a bias, and a longer norm noise: so it grows with rows read over noise, in norms.
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


def _train_heads(
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


HeadsFrom: TypeAlias = Literal["moments", "sequential"]

_STEPS = 40  # of each head
_NOMINAL_HEADS = 10
_RATES = "rates of constraints"


@dataclass(kw_only=True, eq=False, repr=False)
class Kamino(PairsSynthesizer):
    """Synthetic tables drawn attribute by attribute, that obey constraints between rows.

    Every attribute has a head, a multinomial logistic regression on the earlier ones, and rows are
    drawn head by head. What a denial constraint of the schema forbids between two rows does not
    occur between synthetic rows; one that holds mostly occurs about as often as it was released
    to. Accounted in Gaussian DP or, for heads trained on rows, in Rényi DP; add-remove adjacency.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` (KaminoI) learns a head from the rows in which its attribute is observed, and
        fills in what they lack of its context by the earlier heads, or counts it as 0.
        ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing cells privately
        before.
    heads : {"moments", "sequential"}, default "moments"
        What heads are learned from. ``"moments"``: one noisy release of all pairs of attributes,
        to which rows are raked as well (that of `AllPairs`). ``"sequential"``: noisy gradients of
        one head after the other, as in the original; rows without its attribute are not read,
        which amplifies the guarantee for the ground truth, and noise is larger.
    steps : int, optional
        Steps of training of each head, by default 40.
    batch : int, default 2048
        Table that a step of training is expected to read.
    pair_share : float from 0.0001 to 0.99, default 0.02
        Share of the budget for each constraint that holds mostly.
    clip : "auto" or float, default "auto"
        For ``"moments"``: L2 norm to which the vector of each row is clipped.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way margins, at which all heads start: by default 0.08, or
        0.15 if heads are trained, which leaves margins as they are.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : PairModel
        The released model.
    pair_rates_ : dict of str to (float, float)
        For each constraint that holds mostly, the released share of the pairs of rows that violate
        it, and the standard deviation of its noise.

    References
    ----------
    Ge, Mohapatra, He, Ilyas (2021), "Kamino: constraint-aware differentially private data
    synthesis", PVLDB 14(10); Mohapatra et al. (2024) for ``"observed"``. Both publications account
    for less than they release; see ``docs/families.md``.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Kamino, Schema
    >>> from missdp.schema import Denial
    >>> schema = Schema(
    ...     (
    ...         Categorical(name="town", levels=("Bonn", "Köln", "Ulm"), nullable=True),
    ...         Categorical(name="state", levels=("BW", "NW")),
    ...     ),
    ...     rules=(Denial("t1&t2&EQ(t1.town,t2.town)&IQ(t1.state,t2.state)"),),
    ... )
    >>> town, state = ["Bonn", "Köln", None, "Ulm"] * 50, ["NW", "NW", "NW", "BW"] * 50
    >>> people = pd.DataFrame({"town": town, "state": state})
    >>> rows = Kamino(epsilon=1.0).fit(people, schema=schema).sample()
    >>> int(rows.groupby("town", observed=True)["state"].nunique().max())
    1
    """

    strategies: ClassVar[tuple[str, ...]] = ("observed", "complete-rows", "impute-first")

    missing: str = "observed"
    heads: HeadsFrom = "moments"
    steps: int | None = None
    batch: int = 2048
    pair_share: float = 0.02

    released: ClassVar[tuple[str, ...]] = ("model_", "pair_rates_")
    fixed_gates: ClassVar[bool] = True
    model_: PairModel = field(init=False)
    pair_rates_: dict[str, tuple[float, float]] = field(init=False)

    def _check_parameters(self) -> Budget:
        if not (isinstance(self.heads, str) and self.heads in get_args(HeadsFrom)):
            raise ParameterError(f"heads must be one of {list(get_args(HeadsFrom))}")
        self._check_training(steps=self.steps, batch=self.batch)
        self._check_share("pair_share")
        return super()._check_parameters()

    def _check_schema(self, schema: Schema) -> None:
        soft = len(self._denials("mostly"))
        if soft * self.pair_share >= 0.5:
            raise ParameterError(
                f"{soft} constraints that hold mostly would take half of the budget or more; lower "
                "pair_share"
            )
        super()._check_schema(schema)

    @property
    def _trained(self) -> bool:
        return self.heads != "moments"

    @property
    def _steps_planned(self) -> int:
        return self._steps * _NOMINAL_HEADS * self._trained

    @property
    def _batch(self) -> int:
        return int(self.batch)

    def _reads(self, schema: Schema) -> Reads:
        soft = any(denial.holds == "mostly" for denial in schema.rulebook.pairs)
        return "rows" if soft else super()._reads(schema)

    def _split_rest(self, schema: Schema) -> list[Part]:
        """Heads that are trained alone share evenly what is left; the first attribute has none."""
        soft, rest = len(self._denials("mostly")), super()._split_rest(schema)
        if self._trained:
            order = _drawing_order(schema, self.schema_.rulebook.pairs)
            heads = self._gates([(schema.names[a],) for a in order[1:]], schema)
            rest = [Part("heads", 1.0, heads, kind="training", count=self._steps)]
        every_row = self._gates([()], schema) * soft
        return [Part(_RATES, soft * self.pair_share, every_row, count=2), *rest] if soft else rest

    @property
    def _steps(self) -> int:
        return _STEPS if self.steps is None else int(self.steps)

    def _denials(self, holds: str) -> list[PairDenial]:
        return [d for d in self.schema_.rulebook.pairs if d.holds == holds]

    def _fit(self, door: Door) -> Total:
        door, total = self._opened_rows(door)
        crude = self._crude(door, total)
        self.pair_rates_ = self._released_rates(door)
        order = _drawing_order(self._planned, self.schema_.rulebook.pairs)
        fitted = self._train if self._trained else self._fit_moments
        self.model_ = fitted(door, crude, order)
        self._report("done", 1.0)
        return self._counted(door, crude, total)

    def _released_rates(self, door: Door) -> dict[str, tuple[float, float]]:
        """Release how often two rows violate each constraint that holds mostly."""
        costs, found = self._split.costs(_RATES), {}
        for denial, cost in zip(self._denials("mostly"), costs, strict=True):
            rate = door.pair_rate(denial, cost)
            found[denial.text] = (rate.rate, rate.std)
        return found

    def _fit_moments(self, door: Door, crude: Crude, order: tuple[int, ...]) -> PairModel:
        release = self._all_pairs(door, crude)
        self._report("fitting", 0.3)
        return fit_pairs(
            release,
            order=order,
            selective=False,
            always=self._never_missing(crude),
            told=self._modelled.told,
            allowed=self._allowed(crude),
            rng=door.generator(),
        )

    def _train(self, door: Door, crude: Crude, order: tuple[int, ...]) -> PairModel:
        self._report("training", 0.1)
        law = _train_heads(
            door.merged(crude.groups(door.schema.names)),
            crude,
            order,
            steps=self._steps,
            batch=self._batch,
            report=lambda done: self._report("training", 0.1 + 0.8 * done),
        )
        law = replace(law, allowed=self._allowed(crude))
        rates = np.clip(1 - crude.observed, 0.0, 1.0)
        masks = MaskModel(rates, self._never_missing(crude), told=self._modelled.told)
        return PairModel(crude.levels, law, {}, masks, crude.rows)

    def _draws_schema(self) -> bool:
        named = {*self.pair_rates_} == {denial.text for denial in self._denials("mostly")}
        return (
            super()._draws_schema() and named and finite(map(np.array, self.pair_rates_.values()))
        )

    def draws_together(self, schema: Schema) -> bool:
        """Whether all rows are drawn at once: where constraints compare two of them."""
        return bool(schema.rulebook.pairs)

    def _finished(self, table: Rows, rng: np.random.Generator) -> Rows:
        """Return rows between which constraints hold."""
        soft, hard = self._denials("mostly"), self._denials("always")
        order = [self.modelled_.names[a] for a in self.model_.law.order]
        again = self._redrawn if self._modelled.plain_rows else None
        if soft:
            rates = [self.pair_rates_[denial.text] for denial in soft]
            table = leaned(table, soft, rates, rng, redraw=again, order=order)
        if hard:
            table = placed(table, hard, rng, redraw=again, order=order)
        return table

    def _redrawn(self, rows: Rows, names: tuple[str, ...], rng: np.random.Generator) -> Rows:
        return redrawn(self.model_.law, self.model_.levels, rows, names, rng)


def _drawing_order(schema: Schema, denials: Iterable[PairDenial]) -> tuple[int, ...]:
    """Return the positions of the attributes in the order in which they are drawn.

    Few levels come first, as they tell most for the least noise; but what a functional dependency
    determines comes after all that determines it, as far as dependencies do not go in circles.
    """
    place = {name: i for i, name in enumerate(schema.names)}
    waits: list[set[int]] = [set() for _ in place]
    for denial in denials:
        known = denial.dependency if denial.holds == "always" else None
        if known is not None and place.keys() >= {*known[0], known[1]}:
            waits[place[known[1]]] |= {place[name] for name in known[0]}
    left = {a: (attribute.size, a) for a, attribute in enumerate(schema)}
    order: list[int] = []
    while left:
        free = [left[a] for a in left if not waits[a] & left.keys()]
        _, a = heapq.nsmallest(1, free or left.values())[0]
        order.append(a)
        del left[a]
    return tuple(order)
