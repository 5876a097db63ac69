"""Synthesizer families by the name a person types."""

from __future__ import annotations

from collections.abc import Callable

from missdp.errors import DataError
from missdp.synth import AIM, MST, PrivBayes
from missdp.synth.base import Synthesizer

__all__ = ["FAMILIES", "family_of"]

FAMILIES: dict[str, Callable[..., Synthesizer]] = {
    "privbayes": PrivBayes,
    "aim": AIM,
    "mst": MST,
}
_CLASSES: dict[str, type[Synthesizer]] = {"PrivBayes": PrivBayes, "AIM": AIM, "MST": MST}


def family_of(class_name: str) -> type[Synthesizer]:
    """Return the class that a saved model belongs to.

    Raises
    ------
    DataError
        If no such class is known.
    """
    if class_name not in _CLASSES:
        raise DataError(f"unknown synthesizer family; there are {sorted(_CLASSES)}")
    return _CLASSES[class_name]
