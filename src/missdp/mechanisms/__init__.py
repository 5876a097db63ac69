"""Mechanisms: the only place where private counts become released ones.

Everything here charges its budget before it computes, and draws discrete noise from a
`NoiseSource`: `SecureNoise` for releases, `SeededNoise` for tests.
"""

from missdp.mechanisms.answers import Noise, Score, Total, Witness
from missdp.mechanisms.asks import Ask, Undeclared, domain_conditions
from missdp.mechanisms.door import Door
from missdp.mechanisms.noise import (
    NoiseSource,
    SecureNoise,
    SeededNoise,
    SelectionNoise,
    noise_source,
)
from missdp.mechanisms.questions import Counts, Query, Sums
from missdp.mechanisms.release import (
    CountNoise,
    SelectionMethod,
    exponential_mechanism,
    generalised_exponential_mechanism,
    noisy_total,
    normalised_scores,
    release_counts,
)
from missdp.mechanisms.row_door import Preparation, Prepared, RowDoor
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
