"""Synthesizers: private synthetic tables from incomplete tables."""

from missdp.synth.aim import AIM
from missdp.synth.base import Synthesizer
from missdp.synth.mst import MST
from missdp.synth.noisy_counts import SmallTableWarning
from missdp.synth.privbayes import PrivBayes
from missdp.synth.registry import load, synthesizers

__all__ = [
    "AIM",
    "MST",
    "PrivBayes",
    "SmallTableWarning",
    "Synthesizer",
    "load",
    "synthesizers",
]
