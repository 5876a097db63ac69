"""Synthesizer families by the name a person types."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from missdp.errors import DataError, replacing
from missdp.synth import AIM, MST, PrivBayes
from missdp.synth.base import Synthesizer

__all__ = ["FAMILIES", "load_model"]

FAMILIES: dict[str, Callable[..., Synthesizer]] = {
    "privbayes": PrivBayes,
    "aim": AIM,
    "mst": MST,
}
_CLASSES: dict[str, type[Synthesizer]] = {"PrivBayes": PrivBayes, "AIM": AIM, "MST": MST}


def load_model(path: Path) -> Synthesizer:
    """Read a saved model of any family.

    Raises
    ------
    DataError
        If the file is not a saved model, or belongs to an unknown family.
    """
    refusal = DataError(f"{str(path)!r} is not a saved missdp model")
    if not os.path.exists(path):
        raise DataError(f"there is no model file {str(path)!r}")
    with replacing(OSError, ValueError, KeyError, TypeError, RecursionError, by=refusal):
        family = json.loads(path.read_text(encoding="utf-8"))["family"]
    if not isinstance(family, str) or family not in _CLASSES:
        raise DataError(f"unknown synthesizer family; there are {sorted(_CLASSES)}")
    return _CLASSES[family].load(path)
