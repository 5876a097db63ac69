"""Evaluation of a synthetic table against the truth. Curator only.

Comparisons of tables read the private truth and add no noise: their results are **not**
differentially private. Do not publish the results, and do not choose releases by them, without a
mechanism. `combine_estimates` reads estimates from released tables only, and may be published.
Simulators of missing values (`MCAR`, `MAR`, `MNAR`, ...) remove cells of complete tables, for
experiments.
"""

from missdp.evaluate.classifiers import LEARNERS as LEARNERS
from missdp.evaluate.classifiers import ClassifierF1 as ClassifierF1
from missdp.evaluate.classifiers import classifier_f1 as classifier_f1
from missdp.evaluate.classifiers import holdout as holdout
from missdp.evaluate.combine import Combined as Combined
from missdp.evaluate.combine import combine_estimates as combine_estimates
from missdp.evaluate.distances import MarginalDistance as MarginalDistance
from missdp.evaluate.distances import MissingFidelity as MissingFidelity
from missdp.evaluate.distances import MissingnessByKind as MissingnessByKind
from missdp.evaluate.distances import marginal_distance as marginal_distance
from missdp.evaluate.distances import missing_fidelity as missing_fidelity
from missdp.evaluate.distances import missing_mask as missing_mask
from missdp.evaluate.distances import missing_patterns as missing_patterns
from missdp.evaluate.distances import missingness_by_kind as missingness_by_kind
from missdp.evaluate.fidelity import Fidelity as Fidelity
from missdp.evaluate.fidelity import fidelity as fidelity
from missdp.evaluate.fidelity import plot_columns as plot_columns
from missdp.evaluate.simulators import MAR as MAR
from missdp.evaluate.simulators import MCAR as MCAR
from missdp.evaluate.simulators import MNAR as MNAR
from missdp.evaluate.simulators import DeclaredMechanism as DeclaredMechanism
from missdp.evaluate.simulators import MissingMechanism as MissingMechanism
from missdp.evaluate.simulators import SelfMasking as SelfMasking
from missdp.evaluate.violations import RuleViolations as RuleViolations
from missdp.evaluate.violations import rule_violations as rule_violations
from missdp.exports import exported_names
from missdp.progress import Progress as Progress
from missdp.progress import progress_bar as progress_bar

__all__ = exported_names(globals())
