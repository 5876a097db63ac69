"""Private training of networks: DP-SGD (Abadi et al. 2016) with gradients of rows by Opacus.

Trusted: the privacy of the adversarial families rests on this file. It clips the gradient of each
row, over all parameters together. The session samples the rows of a step, sums their gradients
and adds Gaussian noise. Division by the expected sample, the gradient of generated rows and the
optimizer see that noisy sum only.

* Opacus computes the gradients of single rows (`GradSampleModule`), and clips and adds them
  (`DPOptimizer.clip_and_accumulate`). Its ``make_private`` is not used: it would derive the
  sampling rate and the divisor from the private number of rows.
* Samples and noise are drawn by the session (`missdp.session.training`), from the operating
  system's cryptographic generator. It answers as many steps as were charged, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer

from missdp.errors import ParameterError
from missdp.session.redaction import no_warnings
from missdp.session.training import TrainingRows
from missdp.types import Floats, Ints

_CLIP = 1.0  # L2 norm of one row's gradient, whose unit does not matter with Adam
_BLOCK = 256  # rows whose gradients are in memory together
_LEARNING_RATE, _BETAS = 5e-3, (0.5, 0.9)  # parameters of Adam

RowLoss = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""Returns the loss of each row, a function of this row only, from the codes of rows."""


class ClippingOptimizer(DPOptimizer):  # type: ignore[misc]
    """Opacus' optimizer, for which a row whose gradient is not finite counts as 0."""

    def clip_and_accumulate(self) -> None:
        """Clip the gradient of each row to the clip norm, and add it to the sum."""
        sums = [parameter.summed_grad for parameter in self.params]
        before = [None if total is None else total.clone() for total in sums]
        super().clip_and_accumulate()
        if all(torch.isfinite(parameter.summed_grad).all() for parameter in self.params):
            return
        # A gradient that is not finite, or whose norm is not, leaves a sum that is not finite.
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in self.grad_samples]).norm(dim=0)
        for parameter, total in zip(self.params, before, strict=True):
            parameter.grad_sample = parameter.grad_sample.detach().clone()
            parameter.grad_sample[~torch.isfinite(norms)] = 0.0
            parameter.summed_grad = total
        super().clip_and_accumulate()


class OpacusGradients:
    """The clipped gradients of all rows at the weights of one step. Private."""

    def __init__(self, total: Callable[[Ints], Floats], rows: int) -> None:
        self._total, self._rows = total, rows

    def __len__(self) -> int:
        return self._rows

    def sum(self, rows: Ints) -> Floats:
        """Return the sum of the clipped gradients of some rows, all parameters in one vector."""
        return self._total(rows)


class PrivateTraining:
    """A network whose parameters are trained on private rows, in as many steps as were charged.

    Parameters
    ----------
    rows : TrainingRows
        The private rows, from a session that was charged.
    network : torch.nn.Module
        Holds every parameter whose gradient sees private rows. All are clipped together.
    loss : callable
        The loss of each row; see `RowLoss`. It reads no parameters but those of the network.
    expected_batch : float
        The sampling rate times a released or declared number of rows. Sums are divided by it.
    """

    def __init__(
        self, rows: TrainingRows, network: torch.nn.Module, loss: RowLoss, *, expected_batch: float
    ) -> None:
        self._rows, self._loss, self._expected = rows, loss, expected_batch
        self._module = GradSampleModule(network, loss_reduction="sum")
        # Hooks are active for private rows only. Otherwise Opacus would clip generated rows, too.
        self._module.remove_hooks()
        self._optimizer = ClippingOptimizer(
            torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE, betas=_BETAS),
            noise_multiplier=rows.event.noise_multiplier,
            max_grad_norm=_CLIP,
            expected_batch_size=None,
            loss_reduction="sum",
        )
        self.parameters = self._optimizer.params

    def step(self, public_loss: Callable[[], torch.Tensor] | None = None) -> None:
        """Take one step against the noisy gradient of the rows and the gradient of a public loss.

        Parameters
        ----------
        public_loss : callable, optional
            Returns the loss of generated rows. They follow from released values, so their gradient
            needs no noise.
        """
        noisy = self._rows.release(self._exact) / self._expected
        parts = torch.from_numpy(noisy).split([p.numel() for p in self.parameters])
        public: Sequence[Any] = [0.0] * len(self.parameters)
        if public_loss is not None:
            public = torch.autograd.grad(public_loss(), self.parameters)
        for parameter, part, more in zip(self.parameters, parts, public, strict=True):
            parameter.grad = part.view_as(parameter) + more
        self._optimizer.original_optimizer.step()

    def _exact(self) -> OpacusGradients:
        return OpacusGradients(self._sum, len(next(iter(self._rows.codes().values()))))

    def _sum(self, rows: Ints) -> Floats:
        """Return the sum of the clipped gradients of these rows, and delete all gradients."""
        optimizer = self._optimizer
        optimizer.zero_grad(set_to_none=True)
        self._module.add_hooks(loss_reduction="sum")
        with no_warnings():
            for start in range(0, len(rows), _BLOCK):
                self._accumulate(rows[start : start + _BLOCK].astype(np.int64))
        self._module.remove_hooks()
        sums = [
            torch.zeros_like(p) if p.summed_grad is None else p.summed_grad for p in self.parameters
        ]
        optimizer.zero_grad(set_to_none=True)
        return torch.cat([total.detach().flatten() for total in sums]).numpy()

    def _accumulate(self, block: Ints) -> None:
        """Add the clipped gradients of a few rows to the sum."""
        codes = self._rows.codes()
        losses = self._loss({n: torch.from_numpy(c[block]).long() for n, c in codes.items()})
        if not {*_leaves(losses)} <= {*self.parameters}:
            raise ParameterError(
                "a loss of private rows reaches parameters outside the network, which get no noise"
            )
        torch.autograd.backward(losses.sum())
        self._optimizer.clip_and_accumulate()
        for parameter in self.parameters:
            parameter.grad_sample = None


def _leaves(losses: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield every parameter that the gradient of a loss reaches."""
    waiting, visited = [losses.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in visited:
            visited.add(node)
            waiting += [below for below, _ in node.next_functions]
            if hasattr(node, "variable"):
                yield node.variable
