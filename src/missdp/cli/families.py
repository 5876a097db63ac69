"""Synthesizer families by the name a person types."""

from __future__ import annotations

from collections.abc import Callable

from missdp.synth import PrivBayes
from missdp.synth.base import Synthesizer

__all__ = ["FAMILIES"]

FAMILIES: dict[str, Callable[..., Synthesizer]] = {"privbayes": PrivBayes}
