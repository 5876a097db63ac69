"""Doors whose answers are kept, with what was behind them, for audits."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from missdp.mechanisms.answers import Answers


@dataclass(frozen=True)
class Counted:
    released: np.ndarray
    exact: np.ndarray
    scale: float


class Recording(Answers):
    """Answers as ever, and keeps each with what was behind it."""

    def __init__(self, noise: Any, kept: list[Counted]):
        super().__init__(noise)
        self._kept = kept

    def noisy(self, exact, noise):
        behind = np.array(exact())
        released = super().noisy(lambda: behind, noise)
        self._kept.append(Counted(released, behind, noise.scale))
        return released


def record(monkeypatch) -> list[Counted]:
    """Have every door keep its counts in the list that is returned."""
    kept: list[Counted] = []
    monkeypatch.setattr("missdp.mechanisms.door.Answers", lambda noise: Recording(noise, kept))
    return kept
