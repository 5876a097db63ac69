"""What adversarial families have in common, and how torch is found."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from missdp.accounting import Budget
from missdp.baselines.networks import margins_only
from missdp.errors import MissingDependencyError, replacing
from missdp.inference.row_model import RowModel
from missdp.mechanisms.door import Door, Total
from missdp.synth.all_pairs import PairsSynthesizer
from missdp.synth.learn_pairs import Crude

_BATCH = 512
_MOST_CELLS = 1 << 23  # of all pairs, that are fitted together


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralSynthesizer(PairsSynthesizer):
    """Base of adversarial families: margins first, at which the generator starts, then critics.

    A child says in `_steps_planned` how many steps its private training takes, 0 if nothing is
    trained step by step, and implements `_trained`.
    """

    strategies: ClassVar[tuple[str, ...]] = ("observed", "complete-rows", "impute-first")
    fixed_gates: ClassVar[bool] = True
    usual_steps: ClassVar[int] = 800

    missing: str = "observed"
    steps: int | None = None
    batch: int | None = None

    @property
    def _steps_planned(self) -> int:
        """Number of steps of private training."""
        return self.usual_steps if self.steps is None else int(self.steps)

    @property
    def _batch(self) -> int:
        return _BATCH if self.batch is None else int(self.batch)

    def _check_parameters(self) -> Budget:
        import_torch()
        self._check_training(steps=self.steps, batch=self.batch)
        return super()._check_parameters()

    @property
    def _most_cells(self) -> int:
        return super()._most_cells if self._steps_planned else _MOST_CELLS

    def _fit(self, door: Door) -> Total:
        door, total = self._opened_rows(door)
        crude = self._crude(door, total)
        if len(door.schema) == 1:
            self.model_ = self._alone(crude)
        else:
            if self._steps_planned:
                self._training(0.0)
            with _one_torch_thread():
                self.model_ = self._trained(door, crude)
        self._report("done", 1.0)
        return self._counted(door, crude, total)

    def _training(self, done: float) -> None:
        """Report how much of the training is done."""
        self._report("training", 0.1 + 0.85 * done)

    def _grouped(self, door: Door, crude: Crude) -> Door:
        """Return a door to rows on groups of levels."""
        return door.merged(crude.groups(door.schema.names))

    def _alone(self, crude: Crude) -> RowModel:
        """Return the model of a single attribute, of which the margin says everything."""
        return margins_only(crude, self._never_missing(crude))

    @abc.abstractmethod
    def _trained(self, door: Door, crude: Crude) -> RowModel:
        """Return the model of several attributes, for all that is left of the budget."""


def import_torch() -> ModuleType:
    """Return the module torch.

    Raises
    ------
    MissingDependencyError
        If it is not installed.
    """
    absent = MissingDependencyError(
        "adversarial families need PyTorch, an extra: pip install 'missdp[neural]'"
    )
    with replacing(ImportError, by=absent):
        import torch
    return torch


@contextlib.contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Keep torch to one thread: its count belongs to the thread that calls, so none need wait."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def torch_device() -> str:
    """Return where generators are fitted: on a CUDA device if torch sees one, else on the CPU."""
    return "cuda" if import_torch().cuda.is_available() else "cpu"
