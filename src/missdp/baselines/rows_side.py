"""Generators of complete rows against one critic that takes holes in expectation.

Real rows have holes, generated ones have none. So that holes alone do not tell them apart,
generated rows are shown with holes at the released rates, whatever the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.contest import Blocks, leaky_score, through
from missdp.baselines.networks import NetworkModel

__all__ = ["RowsSide"]

Floats = NDArray[np.float64]


class RowsSide:
    """A generator of complete rows.

    Parameters
    ----------
    model : NetworkModel
        As the generator starts. With conditions, the critic is shown them, too.
    blocks : Blocks
    batch : int
        Rows generated at once.
    observed : ndarray
        Released share of the rows in which each attribute is observed.
    frozen : int
        Number of maps at the end that are not learned.
    """

    def __init__(
        self, model: NetworkModel, blocks: Blocks, batch: int, observed: Floats, *, frozen: int = 0
    ) -> None:
        self._model, self._blocks, self._batch = model, blocks, batch
        self._torch = blocks.torch
        arrays = model.values.parameters
        cut = len(arrays) - 2 * frozen
        self._frozen = [self._torch.tensor(array) for array in arrays[cut:]]
        self.parameters: list[Any] = self._torch.learned(arrays[:cut])
        self._observed = self._torch.tensor(observed) if (observed < 1).any() else None

    def model_of(self, parameters: Sequence[Floats]) -> NetworkModel:
        """Return the model with these parameters in place of those that are learned."""
        arrays = [*parameters, *self._model.values.parameters[len(parameters) :]]
        return replace(self._model, values=self._model.values.with_parameters(arrays))

    def fake_loss(self, critic: Sequence[Any]) -> Any:
        """Return the critic's mean loss on a fresh batch of generated rows."""
        with self._torch.torch.no_grad():
            made = self._generated(soft=False)
        return self._torch.torch.nn.functional.softplus(self._scores(critic, *made)).mean()

    def loss(self, critic: Sequence[Any]) -> Any:
        """Return the generator's loss."""
        made = self._generated(soft=True)
        return self._torch.torch.nn.functional.softplus(-self._scores(critic, *made)).mean()

    def _generated(self, *, soft: bool) -> tuple[Any, Any, Any]:
        """Return indicators of rows, which cells are shown, and the level of each condition."""
        torch, layers = self._torch.torch, self._model.values
        seen = self._shown()
        width = self._blocks.starts[-1] if self._model.conditions else 0
        inputs = self._torch.normal(self._batch, len(layers.weights[0]) - width)
        parameters = [*self.parameters, *self._frozen]
        if not width:
            scores = through(torch, layers, parameters, inputs)
            return self._blocks.drawn(scores, soft=soft), seen, None
        about, given = self._conditions(seen)
        asked = torch.zeros_like(inputs[:, :1]).expand(-1, width).clone()
        asked.scatter_(1, given[:, None], 1.0)
        scores = through(torch, layers, parameters, torch.cat([inputs, asked], dim=1))
        rows = self._blocks.drawn(scores, soft=soft)
        free = (self._blocks.whose[None, :] != about[:, None]).to(rows.dtype)
        return rows * free + asked, seen, given

    def _shown(self) -> Any:
        if self._observed is None:
            return None
        uniform = self._torch.uniform(self._batch, len(self._blocks.sizes))
        return (uniform < self._observed).to(uniform.dtype)

    def _conditions(self, seen: Any) -> tuple[Any, Any]:
        """Draw an attribute that is shown for each row, and a level by its margin."""
        torch, starts = self._torch.torch, self._blocks.starts
        uniform = self._torch.uniform(self._batch, len(self._blocks.sizes))
        about = (uniform if seen is None else uniform + seen).argmax(dim=1)
        # One level of each attribute by its margin, of which that of the condition is taken.
        every = self._blocks.drawn(
            torch.log(self._blocks.margins).expand(self._batch, starts[-1]), soft=False
        )
        of = (self._blocks.whose[None, :] == about[:, None]).to(every.dtype)
        return about, (every * of).argmax(dim=1)

    def _scores(self, critic: Sequence[Any], rows: Any, seen: Any, given: Any) -> Any:
        more: Any = 0.0
        if given is not None:
            more, critic = critic[0][given], critic[1:]
        hidden = self._blocks.expected(rows, seen, critic[0], critic[1], more)
        return leaky_score(self._torch.torch, hidden, critic[2:])
