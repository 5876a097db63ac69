"""PrivBayes: a Bayesian network chosen and filled in privately."""

from missdp.synth.privbayes.estimator import PrivBayes

__all__ = ["PrivBayes"]
