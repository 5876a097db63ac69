"""Mechanisms: the only place where private numbers become released ones.

Everything here charges its budget before it computes, and draws discrete noise from a
`NoiseSource`: `SecureNoise` for releases, `SeededNoise` for tests.

* `exact_noise`, `noise`: exact draws from words of bits, and where those come from.
* `laws`: how exact numbers become answers, and what is common to all doors.
* `door`: for synthesizers: marginals, selections, and private training, whose plan and steps are
  in `training` and whose clipped gradients of single rows are in `row_gradients`.
* `row_door`: for statistics: `questions` say what is asked of rows and how rows are prepared,
  `asks` which noise that gets and what is charged.
* `smooth`, `smooth_laws`: noise that follows a private bound: its proof and parameters, its draws.
"""

from missdp.accounting.conditions import Undeclared, domain_conditions
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.choices import SelectionMethod
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
from missdp.mechanisms.questions import Counts, Filled, Preparation, Prepared, Query, Sums
from missdp.mechanisms.row_door import RowDoor
from missdp.mechanisms.training import PrivateTraining, Training

__all__ = [
    "Ask",
    "CountNoise",
    "Counts",
    "Door",
    "Filled",
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
    "noise_source",
]
