"""Estimates and their intervals from what a model released, without private rows.

Statistics of the private rows themselves are in `missdp.statistics`.
"""

from missdp.estimate.answers import Estimates, estimate, regress
from missdp.estimate.sensitivity import SensitivityAnalysis, sensitivity

__all__ = ["Estimates", "SensitivityAnalysis", "estimate", "regress", "sensitivity"]
