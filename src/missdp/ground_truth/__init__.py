"""Amplification by missingness: guarantees for the table before values went missing.

`ground_truth_guarantee` applies the best proven bound to events or to a fitted model.
`mask_mixture` works with plain numbers: required attributes, epsilons and probabilities of being
observed.

Its claims rest on this package, on `missdp.accounting`, and on three files: `missdp.conditions`
(conditions that hold for every draw of the missing cells), `missdp.profiles` (the delta at an
epsilon) and `missdp.calibration.gdp_selection`.
"""

from missdp.exports import exported_names
from missdp.ground_truth.guarantees import AmplifiedEvent as AmplifiedEvent
from missdp.ground_truth.guarantees import epsilon_for_ground_truth as epsilon_for_ground_truth
from missdp.ground_truth.guarantees import ground_truth_guarantee as ground_truth_guarantee
from missdp.ground_truth.guarantees import joint as joint
from missdp.ground_truth.guarantees import planned_ground_truth as planned_ground_truth
from missdp.ground_truth.mixture import MaskMixture as MaskMixture
from missdp.ground_truth.mixture import amplified_epsilon as amplified_epsilon
from missdp.ground_truth.mixture import amplified_loss_distribution as amplified_loss_distribution
from missdp.ground_truth.mixture import amplified_profile_delta as amplified_profile_delta
from missdp.ground_truth.mixture import amplified_profile_epsilon as amplified_profile_epsilon
from missdp.ground_truth.mixture import distinct_targets_bound as distinct_targets_bound
from missdp.ground_truth.mixture import mask_mixture as mask_mixture
from missdp.ground_truth.mixture import max_observation_probability as max_observation_probability
from missdp.ground_truth.mixture import observation_probability as observation_probability
from missdp.required_attributes import ChosenRequirements as ChosenRequirements
from missdp.required_attributes import DataChosenRequirements as DataChosenRequirements
from missdp.required_attributes import FixedRequirements as FixedRequirements
from missdp.required_attributes import RequiredAttributes as RequiredAttributes

__all__ = exported_names(globals())
