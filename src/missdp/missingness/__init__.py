"""Masks, patterns, and simulators that punch holes into complete tables."""

from missdp.missingness.declared import DeclaredMechanism
from missdp.missingness.fitted import MAR, MNAR, SelfMasking
from missdp.missingness.masks import missing_mask, missing_patterns
from missdp.missingness.mcar import MCAR
from missdp.missingness.mechanism import MissingMechanism

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
