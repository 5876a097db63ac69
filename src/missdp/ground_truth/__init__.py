"""Amplification by missingness: what a release costs for the table before values went missing.

`ground_truth_guarantee` applies the best proven bound to events; `mask_mixture` works on plain
numbers (gates, epsilons, observed probabilities).
"""

from missdp.ground_truth.amplified import (
    AmplifiedEvent,
    ExPostLoss,
    GroundTruthPrice,
    ex_post_loss,
    ground_truth_guarantee,
    ground_truth_price,
)
from missdp.ground_truth.gates import (
    ChosenGates,
    DataChosenGates,
    FixedGates,
    Gate,
    NoiseKind,
    ObservedRateBound,
    gate_probability,
    observed_rate_bound,
)
from missdp.ground_truth.jointly import Parted, joint
from missdp.ground_truth.mixture import MaskMixture, mask_mixture
from missdp.ground_truth.one_gate import (
    amplified_epsilon,
    distinct_targets_bound,
    gate_loss_distribution,
    gated_delta,
    gated_epsilon,
    largest_gate_probability,
)
from missdp.ground_truth.partition import Block, GroupCost, Partition, RenyiCost, best_partition

__all__ = [
    "AmplifiedEvent",
    "Block",
    "ChosenGates",
    "DataChosenGates",
    "ExPostLoss",
    "FixedGates",
    "Gate",
    "GroundTruthPrice",
    "GroupCost",
    "MaskMixture",
    "NoiseKind",
    "ObservedRateBound",
    "Parted",
    "Partition",
    "RenyiCost",
    "amplified_epsilon",
    "best_partition",
    "distinct_targets_bound",
    "ex_post_loss",
    "gate_loss_distribution",
    "gate_probability",
    "gated_delta",
    "gated_epsilon",
    "ground_truth_guarantee",
    "ground_truth_price",
    "joint",
    "largest_gate_probability",
    "mask_mixture",
    "observed_rate_bound",
]
