"""Estimates and their intervals from released values of a model, without private rows.

Statistics of the private rows themselves are in `missdp.statistics`.
"""

from missdp.estimate.interval_estimates import Estimates
from missdp.estimate.intervals import estimate, regress
from missdp.estimate.sensitivity_analysis import SensitivityAnalysis, sensitivity

__all__ = ["Estimates", "SensitivityAnalysis", "estimate", "regress", "sensitivity"]
