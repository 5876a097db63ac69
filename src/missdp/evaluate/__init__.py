"""How close a synthetic table is to the truth. Curator only.

Everything here reads the private truth and adds no noise: results are **not** differentially
private. Do not publish them, and do not choose what to publish by them, without a mechanism.
"""

from missdp.evaluate.classifiers import ClassifierF1, classifier_f1, holdout
from missdp.evaluate.learners import LEARNERS
from missdp.evaluate.marginals import MarginalDistance, marginal_distance
from missdp.evaluate.missing import MissingFidelity, missing_fidelity
from missdp.evaluate.progress import Progress, progress_bar

__all__ = [
    "LEARNERS",
    "ClassifierF1",
    "MarginalDistance",
    "MissingFidelity",
    "Progress",
    "classifier_f1",
    "holdout",
    "marginal_distance",
    "missing_fidelity",
    "progress_bar",
]
