"""Synthesizers: private synthetic tables from incomplete tables."""

from missdp.synth.base import Synthesizer
from missdp.synth.privbayes import PrivBayes

__all__ = ["PrivBayes", "Synthesizer"]
