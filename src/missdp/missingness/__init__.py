"""Masks, patterns, and simulators that punch holes into complete tables."""

from missdp.missingness.mechanism import MissingMechanism, missing_mask, missing_patterns
from missdp.missingness.simulators import MAR, MCAR, MNAR, DeclaredMechanism, SelfMasking

__all__ = [
    "MAR",
    "MCAR",
    "MNAR",
    "DeclaredMechanism",
    "MissingMechanism",
    "SelfMasking",
    "missing_mask",
    "missing_patterns",
]
