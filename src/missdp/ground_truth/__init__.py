"""Amplification by missingness: what a release costs for the table before values went missing.

Closed forms and the mask mixture work on plain numbers (gates, epsilons, observed
probabilities); `ground_truth_guarantee` applies the best proven bound to events.
"""

from missdp.ground_truth.amplified import AmplifiedEvent
from missdp.ground_truth.bounds import (
    adaptive_structure_bound,
    amplified_epsilon,
    column_wise_bound,
    complete_rows_bound,
    distinct_targets_bound,
    largest_gate_probability,
)
from missdp.ground_truth.costs import GroupCost, LinearCost, PureCost, RenyiCost
from missdp.ground_truth.ex_post import ExPostLoss, ex_post_loss
from missdp.ground_truth.gates import Gate, gate_probability
from missdp.ground_truth.gaussian import GaussianPartition, gaussian_partition
from missdp.ground_truth.ground_truth import (
    GroundTruthPrice,
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
    gate_loss_distribution,
    gated_delta,
    gated_epsilon,
)
from missdp.ground_truth.structure import DataChosenGates, FixedGates

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
