"""Small networks that draw rows: released arrays of weights, and sampling in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.inference.marginals import NoisyMarginals
from missdp.inference.model import Draws, Levels, split_rows
from missdp.serialization import Record
from missdp.types import Floats, Ints

LEAK = 0.2
"""Slope of leaky activations below 0."""

_BLOCK = 1 << 14  # rows that are drawn together
_ROUNDS = 12  # rounds of calibration
_ROWS = 20_000  # rows that are drawn in a round of calibration
_MAX_CHANGE = 1.5  # largest change of a score in a round
_NEAR = 2e-3  # total variation at which calibration stops
_MIN_SHARE = 1e-6  # smallest share of a level, and of missing or observed cells


def log_odds(rates: Floats) -> Floats:
    """Return the log odds of rates, which are clipped near 0 and 1."""
    from scipy.special import logit

    return np.asarray(logit(np.clip(rates, _MIN_SHARE, 1 - _MIN_SHARE)))


@dataclass(frozen=True, eq=False)
class Layers(Record):
    """Linear maps in sequence, with a leaky activation between them.

    After the map at position ``tanh``, if there is any, the activation is the hyperbolic tangent.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    tanh: int = -1

    def __call__(self, inputs: Floats) -> Floats:
        """Return the outputs for each row of inputs."""
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            inputs = inputs @ weight + bias
            if k < len(self.weights) - 1:
                leaky = np.maximum(inputs, LEAK * inputs)
                inputs = np.tanh(inputs) if k == self.tanh else leaky
        return inputs

    def compose(self, other: Layers) -> Layers:
        """Return a network that feeds the hyperbolic tangent of the outputs to another network."""
        weights, biases = (*self.weights, *other.weights), (*self.biases, *other.biases)
        return Layers(weights, biases, len(self.weights) - 1)

    def shift_outputs(self, by: Floats) -> Layers:
        """Return the network with numbers added to its outputs."""
        return replace(self, biases=(*self.biases[:-1], self.biases[-1] + by))


@dataclass(frozen=True, eq=False)
class NetworkModel(Record):
    """Released generator networks, which draw rows and their missing cells from random numbers.

    The families DPCTGAN, DPAutoGAN and DPMisGAN fit it. All values are released. Drawing rows needs
    no PyTorch.

    Parameters
    ----------
    levels : tuple of Levels
        Groups of merged rare levels, one entry for each modelled attribute in schema order.
    values : Layers
        Network from random numbers (and a level, if there are conditions) to scores of all levels.
    masks : Layers
        Network from random numbers (and the values, if it sees them) to the log odds of missing.
    may_miss : tuple of int
        Positions of the attributes that may be missing.
    sees_values : bool
        Whether ``masks`` sees the values of the row.
    always : dict of int to int
        Map from the position of an attribute to a group of levels that is never missing.
    conditions : ndarray of float
        Relative frequency of each level as a condition of a row. Empty without conditions.
    n_rows : float
        Released number of counted rows.
    """

    levels: tuple[Levels, ...]
    values: Layers
    masks: Layers
    may_miss: tuple[int, ...]
    sees_values: bool
    always: dict[int, int]
    conditions: Floats
    n_rows: float

    @cached_property
    def starts(self) -> Ints:
        """First position of the levels of each attribute among all levels."""
        return np.cumsum([0, *(level.n_groups for level in self.levels)])

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        keep_missing: bool,
        draws: Draws = "independent",  # noqa: ARG002 (rows of networks are independent)
    ) -> list[Ints]:
        """Draw synthetic rows with or without missing cells from the networks, as codes of levels.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Draws the rows.
        keep_missing : bool
            Whether cells may be missing. If False, rows are complete.
        draws : {"even", "independent"}, default "independent"
            Has no effect on generator networks.

        Returns
        -------
        list of ndarray of int64, shape (n,)
            Codes of the rows, one array for each attribute in schema order. The code of a missing
            cell is the number of levels. Released.
        """
        rows = np.zeros((n, len(self.levels)), dtype=np.int64)
        missing = np.zeros(rows.shape, dtype=bool)
        for start in range(0, n, _BLOCK):
            part = slice(start, min(n, start + _BLOCK))
            rows[part] = self.drawn(part.stop - start, rng)[0]
            if keep_missing:
                rates = self.missing(rows[part], rng)
                missing[part, list(self.may_miss)] = rng.random(rates.shape) < rates
        return split_rows(self.levels, rows, missing, rng)

    def drawn(self, n: int, rng: np.random.Generator) -> tuple[Ints, list[Floats]]:
        """Draw complete rows. Return them and the distributions of each attribute."""
        from scipy.special import softmax

        inputs = rng.standard_normal((n, len(self.values.weights[0])))
        conditions = np.full(n, -1)
        if width := len(self.conditions):
            conditions = rng.choice(width, size=n, p=self.conditions / self.conditions.sum())
            inputs[:, -width:] = np.eye(width)[conditions]
        scores = np.split(self.values(inputs), self.starts[1:-1], axis=1)
        shares = [softmax(part, axis=1) for part in scores]
        rows = np.zeros((n, len(shares)), dtype=np.int64)
        for a, (start, end) in enumerate(pairwise(self.starts)):
            fixed = (conditions >= start) & (conditions < end)
            rows[:, a] = np.where(fixed, conditions - start, _spread(shares[a], rng))
        return rows, shares

    def missing(self, rows: Ints, rng: np.random.Generator) -> Floats:
        """Return the chance that each cell that may be missing is missing, in complete rows."""
        from scipy.special import expit

        width = len(self.masks.weights[0]) - int(self.starts[-1]) * self.sees_values
        inputs = rng.standard_normal((len(rows), width))
        if self.sees_values:
            shown = np.zeros((len(rows), int(self.starts[-1])))
            np.put_along_axis(shown, rows + self.starts[:-1], 1.0, axis=1)
            inputs = np.concatenate([inputs, shown], axis=1)
        rates = np.asarray(expit(self.masks(inputs)))
        for k, a in enumerate(self.may_miss):
            rates[rows[:, a] == self.always.get(a, -1), k] = 0.0
        return rates

    def calibrated(
        self, marginals: Sequence[Floats], rates: Floats, rng: np.random.Generator
    ) -> NetworkModel:
        """Return the model with these marginals of observed cells and rates of missing ones.

        One number is added to the score of each level in all rows, so the network keeps the
        dependence that it learned. Marginals are among the rows in which the attribute is observed.
        """
        model, target = self, np.concatenate(marginals)
        for _ in range(_ROUNDS):
            current, lost = model._simulated(rng)
            off = np.add.reduceat(np.abs(target - current), self.starts[:-1]) / 2
            if max([*off, *np.abs(rates - lost)]) < _NEAR:
                break
            by = np.log(np.maximum(target, _MIN_SHARE) / np.maximum(current, _MIN_SHARE))
            gap = log_odds(rates) - log_odds(lost)
            model = replace(
                model,
                values=model.values.shift_outputs(np.clip(by, -_MAX_CHANGE, _MAX_CHANGE)),
                masks=model.masks.shift_outputs(np.clip(gap, -_MAX_CHANGE, _MAX_CHANGE)),
            )
        return model

    def _simulated(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return marginals of the model's observed cells, and its rates of missing ones."""
        rows, distributions = self.drawn(_ROWS, rng)
        lost = self.missing(rows, rng)
        weights = np.ones(rows.shape)
        weights[:, list(self.may_miss)] = np.maximum(1 - lost, _MIN_SHARE)
        marginals: list[Floats] = []
        for shares, weight, codes in zip(distributions, weights.T, rows.T, strict=True):
            # Drawn rows are needed if weights depend on them. Otherwise shares have less variance.
            drawn = np.bincount(codes, weights=weight, minlength=shares.shape[1])
            marginals.append((drawn if self.sees_values else weight @ shares) / weight.sum())
        return np.concatenate(marginals), lost.mean(axis=0)


def _spread(shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw a level for each row, so that counts vary less than those of independent rows."""
    n = len(shares)
    upto = np.cumsum(shares, axis=1)
    upto /= np.maximum(upto[:, -1:], _MIN_SHARE)
    uniform = (rng.permutation(n) + rng.random(n)) / max(1, n)
    return np.asarray((uniform[:, None] >= upto[:, :-1]).sum(axis=1))


def public_marginals(one_way: NoisyMarginals) -> tuple[list[Floats], Floats, tuple[int, ...]]:
    """Return marginals and shares of observed cells, and the attributes that may be missing."""
    sizes = [level.n_groups for level in one_way.levels]
    pairs = [*zip(one_way.one_way, sizes, strict=True)]
    marginals = [np.maximum(marginal[:size], _MIN_SHARE) for marginal, size in pairs]
    may_miss = tuple(a for a, (marginal, size) in enumerate(pairs) if len(marginal) > size)
    return [marginal / marginal.sum() for marginal in marginals], one_way.observed, may_miss
