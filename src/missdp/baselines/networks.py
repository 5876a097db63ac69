"""Small networks that draw rows, as released: arrays of weights, and sampling in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.inference.masks import RowModel
from missdp.inference.model import Levels, finite, split_rows
from missdp.record import Record
from missdp.synth.learn_pairs import Crude
from missdp.types import Floats, Ints

START = 0.1
"""Factor of the last weights of a generator, small enough for it to be near the margins."""

LEAK = 0.2
"""Slope of leaky activations below 0."""

_AT_ONCE = 1 << 14  # rows
_ROUNDS = 12  # of calibration
_ROWS = 20_000
_STEP = 1.5
_NEAR = 2e-3  # total variation that is near enough
_LEAST = 1e-6  # share of a level


@dataclass(frozen=True, eq=False)
class Layers(Record):
    """Linear maps one after the other, each but the last followed by a bend: leaky, or tanh."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    bends: tuple[str, ...]

    def _coheres(self) -> bool:
        ends = [*(len(weight) for weight in self.weights), len(self.biases[-1])]
        return (
            [weight.shape for weight in self.weights] == [*pairwise(ends)]
            and [bias.shape for bias in self.biases] == [(end,) for end in ends[1:]]
            and len(self.bends) == len(self.weights) - 1
            and finite((*self.weights, *self.biases))
        )

    def __call__(self, inputs: Floats) -> Floats:
        """Return what comes out for each row of inputs."""
        found: Floats = through(np, self.bends, self.parameters, inputs)
        return found

    @property
    def parameters(self) -> list[Floats]:
        """Weights and biases, in turn."""
        pairs = zip(self.weights, self.biases, strict=True)
        return [array for pair in pairs for array in pair]

    def with_parameters(self, parameters: Sequence[Floats]) -> Layers:
        """Return the same network with other weights and biases, in turn."""
        return Layers(tuple(parameters[::2]), tuple(parameters[1::2]), self.bends)

    def lifted(self, by: Floats) -> Layers:
        """Return the network with something added to what comes out."""
        return replace(self, biases=(*self.biases[:-1], self.biases[-1] + by))

    @classmethod
    def random(
        cls,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        last: float = 1.0,
        out: Floats | None = None,
    ) -> Layers:
        """Return a network with random weights.

        ``sizes`` are those of the inputs and of what each map gives, ``last`` a factor of the
        weights of the last map, and ``out`` what comes out if these are 0.
        """
        weights, biases = [], []
        for k, (n, m) in enumerate(pairwise(sizes)):
            final = k == len(sizes) - 2
            scale = np.sqrt((1.0 if final else 2.0) / max(1, n)) * (last if final else 1.0)
            weights.append(scale * rng.standard_normal((n, m)))
            biases.append(out.copy() if final and out is not None else np.zeros(m))
        return cls(tuple(weights), tuple(biases), ("leaky",) * (len(sizes) - 2))

    @classmethod
    def same(cls, rates: Floats) -> Layers:
        """Return a network whose masks have these missing rates, whatever number it is given."""
        from scipy.special import logit

        lost = logit(np.clip(rates, _LEAST, 1 - _LEAST))
        return cls((np.zeros((1, len(rates))),), (lost,), ())


def through(library: Any, bends: Sequence[str], parameters: Sequence[Any], inputs: Any) -> Any:
    """Return what a network gives for inputs; the library is NumPy, or torch with its tensors."""
    for k, (weight, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
        inputs = inputs @ weight + bias
        if k < len(bends):
            leaky = bends[k] == "leaky"
            inputs = library.maximum(inputs, LEAK * inputs) if leaky else library.tanh(inputs)
    return inputs


def random_critic(inputs: int, hidden: int, rng: np.random.Generator) -> list[Floats]:
    """Return random parameters of a critic: two hidden layers, and one number; biases are 0."""
    *below, last, bias = Layers.random([inputs, hidden, hidden, 1], rng).parameters
    return [*below, last[:, 0], bias]


@dataclass(frozen=True, eq=False)
class NetworkModel(RowModel):
    """Networks that draw rows and their missing cells from noise; released values.

    ``values`` leads from noise, and a level of one attribute if there are ``conditions``, to scores
    of all levels; ``masks`` from noise, and the values if it sees them, to the log odds of missing.
    """

    levels: tuple[Levels, ...]  # how those of each attribute are grouped
    values: Layers
    masks: Layers
    holed: tuple[int, ...]  # attributes that may be missing
    sees_values: bool
    always: dict[int, int]  # by attribute, a group of levels that is never missing
    conditions: tuple[Floats, ...]  # law of the levels of each attribute
    asked: Floats  # how often the condition is about each attribute
    n_rows: float  # that were counted

    def _coheres(self) -> bool:
        sizes, d = [level.n_groups for level in self.levels], len(self.levels)
        inputs, masked = len(self.values.weights[0]), len(self.masks.weights[0])
        laws = (*self.conditions, *([self.asked] if self.conditions else []))
        return (
            len(self.values.biases[-1]) == sum(sizes)
            and len(self.masks.biases[-1]) == len(self.holed)
            and masked >= sum(sizes) * self.sees_values
            and {*self.holed, *self.always} <= {*range(d)}
            and [law.shape for law in laws] == ([(n,) for n in (*sizes, d)] if laws else [])
            and inputs >= sum(sizes) * bool(laws)
            and finite(laws, least=0.0)
            and all(abs(law.sum() - 1) < 1e-8 for law in self.conditions)
            and (not laws or bool(self.asked.any()))
        )

    @cached_property
    def starts(self) -> Ints:
        """Where the levels of each attribute start among all."""
        return np.cumsum([0, *(level.n_groups for level in self.levels)])

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = np.zeros((n, len(self.levels)), dtype=np.int64)
        holes = np.zeros(rows.shape, dtype=bool)
        for start in range(0, n, _AT_ONCE):
            part = slice(start, min(n, start + _AT_ONCE))
            laws, given = self.laws(part.stop - start, rng)
            rows[part] = self.picked(laws, given, rng)
            if keep_holes:
                lost = self.missing(rows[part], rng)
                holes[part, list(self.holed)] = rng.random(lost.shape) < lost
        return split_rows(self.levels, rows, holes, rng)

    def laws(self, n: int, rng: np.random.Generator) -> tuple[list[Floats], Ints]:
        """Return each attribute's laws for rows, and the level that each row must have (or -1)."""
        from scipy.special import softmax

        inputs = rng.standard_normal((n, len(self.values.weights[0])))
        given = np.full(n, -1)
        if self.conditions:
            about = rng.choice(len(self.levels), size=n, p=self.asked / self.asked.sum())
            for a, law in enumerate(self.conditions):
                of = np.flatnonzero(about == a)
                given[of] = self.starts[a] + rng.choice(len(law), size=len(of), p=law)
            inputs[:, -int(self.starts[-1]) :] = 0.0
            inputs[np.arange(n), given - int(self.starts[-1])] = 1.0
        scores = np.split(self.values(inputs), self.starts[1:-1], axis=1)
        return [softmax(part, axis=1) for part in scores], given

    def picked(self, laws: Sequence[Floats], given: Ints, rng: np.random.Generator) -> Ints:
        """Draw a level of each attribute, but for what the condition says."""
        rows = np.zeros((len(given), len(laws)), dtype=np.int64)
        for a, law in enumerate(laws):
            rows[:, a] = _spread(law, rng)
            asked = (given >= self.starts[a]) & (given < self.starts[a + 1])
            rows[asked, a] = given[asked] - self.starts[a]
        return rows

    def missing(self, rows: Ints, rng: np.random.Generator) -> Floats:
        """Return the probability of each cell that may be missing to be so, in complete rows."""
        from scipy.special import expit

        width = len(self.masks.weights[0]) - int(self.starts[-1]) * self.sees_values
        inputs = rng.standard_normal((len(rows), width))
        if self.sees_values:
            seen = np.zeros((len(rows), int(self.starts[-1])))
            seen[np.arange(len(rows))[:, None], rows + self.starts[:-1]] = 1.0
            inputs = np.concatenate([inputs, seen], axis=1)
        lost = expit(self.masks(inputs))
        for k, a in enumerate(self.holed):
            if a in self.always:
                lost[rows[:, a] == self.always[a], k] = 0.0
        return np.asarray(lost)

    def calibrated(
        self, margins: Sequence[Floats], rates: Floats, rng: np.random.Generator
    ) -> NetworkModel:
        """Return the model with given margins of observed cells and given rates of missing ones.

        What is added to the scores of each level, the same in all rows, leaves what the network has
        learned of dependence. Margins are among the rows in which an attribute is observed.
        """
        from scipy.special import logit

        model = self
        targets = [
            np.maximum(margin, _LEAST) / np.maximum(margin, _LEAST).sum() for margin in margins
        ]
        wanted = logit(np.clip(rates, _LEAST, 1 - _LEAST))
        for _ in range(_ROUNDS):
            found, lost = _margins(model, rng)
            off = [np.abs(a - b).sum() / 2 for a, b in zip(targets, found, strict=True)]
            if max([*off, *np.abs(rates - lost)]) < _NEAR:
                break
            by = [
                np.log(a) - np.log(np.maximum(b, _LEAST))
                for a, b in zip(targets, found, strict=True)
            ]
            gap = wanted - logit(np.clip(lost, _LEAST, 1 - _LEAST))
            model = replace(
                model,
                values=model.values.lifted(np.clip(np.concatenate(by), -_STEP, _STEP)),
                masks=model.masks.lifted(np.clip(gap, -_STEP, _STEP)),
            )
        return model

    @classmethod
    def start(
        cls,
        crude: Crude,
        values: Layers,
        masks: Layers,
        *,
        sees_values: bool,
        always: dict[int, int],
    ) -> NetworkModel:
        """Return a model of networks before any training, calibrated to nothing yet."""
        holed = known_margins(crude)[2]
        return cls(
            levels=crude.levels,
            values=values,
            masks=masks,
            holed=holed,
            sees_values=sees_values,
            always={a: level for a, level in always.items() if a in holed},
            conditions=(),
            asked=np.zeros(0),
            n_rows=crude.rows,
        )

    @classmethod
    def independent(cls, crude: Crude, always: dict[int, int]) -> NetworkModel:
        """Return a model of independent attributes, with the released margins."""
        margins, rates, _ = known_margins(crude)
        scores = np.log(np.concatenate(margins))
        values = Layers((np.zeros((1, len(scores))),), (scores,), ())
        return cls.start(crude, values, Layers.same(rates), sees_values=False, always=always)


def _margins(model: NetworkModel, rng: np.random.Generator) -> tuple[list[Floats], Floats]:
    """Return margins of a model's observed cells, and its rates of holes, by simulation."""
    laws, given = model.laws(_ROWS, rng)
    rows = model.picked(laws, given, rng)
    lost = model.missing(rows, rng)
    weight = np.ones((_ROWS, len(laws)))
    weight[:, list(model.holed)] = np.maximum(1 - lost, _LEAST)
    drawn = rows.T if model.sees_values else [None] * len(laws)
    found = [
        _margin(law, w, codes) / w.sum()
        for law, w, codes in zip(laws, weight.T, drawn, strict=True)
    ]
    return found, lost.mean(axis=0)


def _margin(law: Floats, weight: Floats, codes: Ints | None) -> Floats:
    """Add up weights by level: of what was drawn, if weights depend on that."""
    if codes is None:
        return weight @ law
    return np.asarray(np.bincount(codes, weights=weight, minlength=law.shape[1]), dtype=np.float64)


def _spread(laws: Floats, rng: np.random.Generator) -> Ints:
    """Draw a level from each row's law, so that counts vary less than those of independent rows."""
    n = len(laws)
    upto = np.cumsum(laws, axis=1)
    upto /= np.maximum(upto[:, -1:], _LEAST)
    uniform = (rng.permutation(n) + rng.random(n)) / max(1, n)
    return np.asarray((uniform[:, None] >= upto[:, :-1]).sum(axis=1))


def known_margins(crude: Crude) -> tuple[list[Floats], Floats, tuple[int, ...]]:
    """Return margins of what is observed, rates of what is missing, and which may be missing."""
    margins, rates = [], []
    for margin, level in zip(crude.margins, crude.levels, strict=True):
        known = np.maximum(margin[: level.n_groups], _LEAST)
        margins.append(known / known.sum())
        rates.append(float(margin[level.n_groups :].sum()))
    holed = tuple(a for a, rate in enumerate(rates) if len(crude.margins[a]) > len(margins[a]))
    return margins, np.array(rates)[list(holed)], holed


def observed_shares(crude: Crude) -> Floats:
    """Return the released share of the rows in which each attribute is observed."""
    margins, rates, holed = known_margins(crude)
    observed = np.ones(len(margins))
    observed[list(holed)] = 1 - rates
    return observed
