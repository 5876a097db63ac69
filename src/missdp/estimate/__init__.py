"""Estimates and their intervals from what a model released, without rows."""

from missdp.estimate.answers import Estimates, estimate, regress
from missdp.estimate.sensitivity import SensitivityAnalysis, sensitivity

__all__ = ["Estimates", "SensitivityAnalysis", "estimate", "regress", "sensitivity"]
