"""Amplification by missingness: what a release costs for the table before values went missing.

`ground_truth_guarantee` applies the best proven bound to events or to a fitted model, and
`mask_mixture` works on plain numbers (gates, epsilons, observed probabilities).
"""

from missdp.accounting.gates import ChosenGates, DataChosenGates, FixedGates, Gate
from missdp.aliases import moved_from
from missdp.ground_truth.guarantees import (
    AmplifiedEvent,
    epsilon_for_ground_truth,
    ground_truth_guarantee,
    joint,
    planned_ground_truth,
)
from missdp.ground_truth.mixture import (
    MaskMixture,
    amplified_epsilon,
    distinct_targets_bound,
    gate_probability,
    largest_gate_probability,
    mask_mixture,
)
from missdp.ground_truth.one_gate import gate_loss_distribution, gated_delta, gated_epsilon

__all__ = [
    "AmplifiedEvent",
    "ChosenGates",
    "DataChosenGates",
    "FixedGates",
    "Gate",
    "MaskMixture",
    "amplified_epsilon",
    "distinct_targets_bound",
    "epsilon_for_ground_truth",
    "gate_loss_distribution",
    "gate_probability",
    "gated_delta",
    "gated_epsilon",
    "ground_truth_guarantee",
    "joint",
    "largest_gate_probability",
    "mask_mixture",
    "planned_ground_truth",
]

__getattr__ = moved_from(__name__)
