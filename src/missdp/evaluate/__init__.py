"""Evaluation: how close a synthetic table is to the truth. Curator only.

What compares tables reads the private truth and adds no noise: results are **not** differentially
private. Do not publish them, and do not choose what to publish by them, without a mechanism.
`combine_estimates` reads estimates from released tables only, and may be published. Simulators of
missing values (`MCAR`, `MAR`, `MNAR`, ...) punch holes into complete tables, for experiments.
"""

from missdp.evaluate.classifiers import LEARNERS, ClassifierF1, classifier_f1, holdout
from missdp.evaluate.combine import Combined, combine_estimates
from missdp.evaluate.distances import (
    MarginalDistance,
    MissingFidelity,
    marginal_distance,
    missing_fidelity,
)
from missdp.evaluate.fidelity import Fidelity, fidelity
from missdp.evaluate.kinds import MissingnessByKind, missingness_by_kind
from missdp.evaluate.masks import missing_mask, missing_patterns
from missdp.evaluate.pictures import plot_columns
from missdp.evaluate.simulators import (
    MAR,
    MCAR,
    MNAR,
    DeclaredMechanism,
    MissingMechanism,
    SelfMasking,
)
from missdp.evaluate.violations import (
    PairViolations,
    RuleViolations,
    pair_violations,
    rule_violations,
)
from missdp.progress import Progress, progress_bar

__all__ = [
    "LEARNERS",
    "MAR",
    "MCAR",
    "MNAR",
    "ClassifierF1",
    "Combined",
    "DeclaredMechanism",
    "Fidelity",
    "MarginalDistance",
    "MissingFidelity",
    "MissingMechanism",
    "MissingnessByKind",
    "PairViolations",
    "Progress",
    "RuleViolations",
    "SelfMasking",
    "classifier_f1",
    "combine_estimates",
    "fidelity",
    "holdout",
    "marginal_distance",
    "missing_fidelity",
    "missing_mask",
    "missing_patterns",
    "missingness_by_kind",
    "pair_violations",
    "plot_columns",
    "progress_bar",
    "rule_violations",
]
