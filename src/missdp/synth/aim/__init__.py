"""AIM: adaptive and iterative mechanism for synthetic data, from complete or incomplete tables."""

from missdp.synth.aim.estimator import AIM

__all__ = ["AIM"]
