"""Estimates and their intervals from what a model released, without rows."""

from missdp.estimate.answers import Estimates, estimate, regress

__all__ = ["Estimates", "estimate", "regress"]
