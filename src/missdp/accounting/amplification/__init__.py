"""Amplification by missingness: what a release costs for the table before values went missing.

Closed forms and the mask mixture work on plain numbers (gates, epsilons, observed
probabilities); `ground_truth_guarantee` applies the best proven bound to events.
"""

from missdp.accounting.amplification.amplified import AmplifiedEvent
from missdp.accounting.amplification.bounds import (
    adaptive_structure_bound,
    amplified_epsilon,
    column_wise_bound,
    complete_rows_bound,
    distinct_targets_bound,
    largest_gate_probability,
)
from missdp.accounting.amplification.costs import GroupCost, LinearCost, PureCost, RenyiCost
from missdp.accounting.amplification.ex_post import ExPostLoss, ex_post_loss
from missdp.accounting.amplification.gates import Gate, gate_probability
from missdp.accounting.amplification.gaussian import GaussianPartition, gaussian_partition
from missdp.accounting.amplification.ground_truth import (
    GroundTruthPrice,
    ground_truth_guarantee,
    ground_truth_price,
)
from missdp.accounting.amplification.mixture import MaskMixture, mask_mixture
from missdp.accounting.amplification.observed_rate import (
    NoiseKind,
    ObservedRateBound,
    observed_rate_bound,
)
from missdp.accounting.amplification.paper import (
    PaperApproximation,
    paper_approximation,
    sound_partition,
)
from missdp.accounting.amplification.partition import Block, Partition, best_partition
from missdp.accounting.amplification.profile import (
    gate_loss_distribution,
    gated_delta,
    gated_epsilon,
)
from missdp.accounting.amplification.structure import DataChosenGates, FixedGates

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
