"""Mechanisms: the only place where private counts become released ones.

Everything here charges its budget before it computes, and draws discrete noise from a
`NoiseSource`: `SecureNoise` for releases, `SeededNoise` for tests.
"""

from missdp.accounting.conditions import Undeclared, domain_conditions
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.door import Door, Score
from missdp.mechanisms.laws import Noise, Total, Witness
from missdp.mechanisms.noise import (
    CountNoise,
    NoiseSource,
    SecureNoise,
    SeededNoise,
    SelectionNoise,
    noise_source,
)
from missdp.mechanisms.questions import Counts, Preparation, Prepared, Query, Sums
from missdp.mechanisms.release import (
    SelectionMethod,
    exponential_mechanism,
    generalised_exponential_mechanism,
    noisy_total,
    normalised_scores,
    release_counts,
)
from missdp.mechanisms.row_door import RowDoor
from missdp.mechanisms.training import PrivateTraining, Training

__all__ = [
    "Ask",
    "CountNoise",
    "Counts",
    "Door",
    "Noise",
    "NoiseSource",
    "Preparation",
    "Prepared",
    "PrivateTraining",
    "Query",
    "RowDoor",
    "Score",
    "SecureNoise",
    "SeededNoise",
    "SelectionMethod",
    "SelectionNoise",
    "Sums",
    "Total",
    "Training",
    "Undeclared",
    "Witness",
    "domain_conditions",
    "exponential_mechanism",
    "generalised_exponential_mechanism",
    "noise_source",
    "noisy_total",
    "normalised_scores",
    "release_counts",
]
