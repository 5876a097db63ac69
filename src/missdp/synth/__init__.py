"""Synthesizers: private synthetic tables from incomplete tables."""

from missdp.synth.aim import AIM
from missdp.synth.base import Synthesizer
from missdp.synth.mst import MST
from missdp.synth.privbayes import PrivBayes

__all__ = ["AIM", "MST", "PrivBayes", "Synthesizer"]
