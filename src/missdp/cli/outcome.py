"""What a run has spent and released so far, so that no later failure hides it.

One command runs per process; `start` forgets the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["lines", "released", "released_anything", "spending", "start", "warned", "warning_texts"]


@dataclass
class _Outcome:
    cost: str = ""
    released: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


_runs = [_Outcome()]


def start() -> None:
    """Begin a run: nothing is spent and nothing is out."""
    _runs[:] = [_Outcome()]


def spending(epsilon: float, delta: float = 0.0) -> None:
    """Say that from now on private cells are read, at this cost in all."""
    _runs[0].cost = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")


def released(what: str) -> None:
    """Say what is out, and where it is or how to go on from it."""
    _runs[0].released.append(what)


def released_anything() -> bool:
    """Return whether a failure from here on would hide a release."""
    return bool(_runs[0].released)


def warned(text: str) -> None:
    """Keep a warning for the JSON document."""
    if text not in _runs[0].warnings:
        _runs[0].warnings.append(text)


def warning_texts() -> list[str]:
    """Return the warnings of this run, in order."""
    return list(_runs[0].warnings)


def lines(*, in_doubt: bool) -> list[str]:
    """Return what a message about a failure has to add.

    Parameters
    ----------
    in_doubt : bool
        Whether the run may have stopped between charging and releasing. A refusal on purpose comes
        before the charge, an interruption at any moment.
    """
    now = _runs[0]
    if now.released:
        return [f"This was released before, and is charged ({now.cost}):", *now.released]
    if now.cost and in_doubt:
        return [f"Nothing was released, but {now.cost} counts as charged: private cells were read."]
    return []
