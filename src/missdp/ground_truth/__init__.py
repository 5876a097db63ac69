"""Amplification by missingness: what a release costs for the table before values went missing.

Closed forms and the mask mixture work on plain numbers (gates, epsilons, observed
probabilities); `ground_truth_guarantee` applies the best proven bound to events.
"""

from missdp.ground_truth.bounds import (
    GroupCost,
    LinearCost,
    PureCost,
    RenyiCost,
    adaptive_structure_bound,
    amplified_epsilon,
    column_wise_bound,
    complete_rows_bound,
    distinct_targets_bound,
    largest_gate_probability,
)
from missdp.ground_truth.gates import DataChosenGates, FixedGates, Gate, gate_probability
from missdp.ground_truth.guarantee import (
    AmplifiedEvent,
    ExPostLoss,
    GroundTruthPrice,
    ex_post_loss,
    ground_truth_guarantee,
    ground_truth_price,
)
from missdp.ground_truth.mixture import MaskMixture, mask_mixture
from missdp.ground_truth.observed_rate import (
    NoiseKind,
    ObservedRateBound,
    observed_rate_bound,
)
from missdp.ground_truth.paper import (
    PaperApproximation,
    paper_approximation,
    sound_partition,
)
from missdp.ground_truth.partition import Block, Partition, best_partition
from missdp.ground_truth.profile import (
    GaussianPartition,
    gate_loss_distribution,
    gated_delta,
    gated_epsilon,
    gaussian_partition,
)

__all__ = [
    "AmplifiedEvent",
    "Block",
    "DataChosenGates",
    "ExPostLoss",
    "FixedGates",
    "Gate",
    "GaussianPartition",
    "GroundTruthPrice",
    "GroupCost",
    "LinearCost",
    "MaskMixture",
    "NoiseKind",
    "ObservedRateBound",
    "PaperApproximation",
    "Partition",
    "PureCost",
    "RenyiCost",
    "adaptive_structure_bound",
    "amplified_epsilon",
    "best_partition",
    "column_wise_bound",
    "complete_rows_bound",
    "distinct_targets_bound",
    "ex_post_loss",
    "gate_loss_distribution",
    "gate_probability",
    "gated_delta",
    "gated_epsilon",
    "gaussian_partition",
    "ground_truth_guarantee",
    "ground_truth_price",
    "largest_gate_probability",
    "mask_mixture",
    "observed_rate_bound",
    "paper_approximation",
    "sound_partition",
]
