"""Mechanisms: the only place where private numbers become released ones.

Everything here charges its budget before it computes, and draws discrete noise from a
`NoiseSource`: `SecureNoise` for releases, `SeededNoise` for tests.

* `session`: charge, compute, draw: the one function by which numbers leave, for all sessions.
* `exact_noise`, `noise`: exact draws from words of bits, where those come from, and the noise of
  counts and of scores. `smooth`: noise that follows a private bound.
* `door`: the session of synthesizers. `queries`, `products` and `pair_rates` say what it can be
  asked; the plan and the steps of private training are in `training`, and its clipped gradients of
  single rows in `row_gradients`.
* `row_door`: the session of statistics; `questions` say what is asked of rows, and `private_rows`
  how rows are prepared and seen.
"""

from missdp.accounting.conditions import Undeclared, domain_conditions
from missdp.mechanisms.door import Door
from missdp.mechanisms.noise import (
    CountNoise,
    Noise,
    NoiseSource,
    SecureNoise,
    SeededNoise,
    Selection,
    SelectionMethod,
    SelectionNoise,
    noise_source,
)
from missdp.mechanisms.private_rows import Filled, Preparation, Prepared
from missdp.mechanisms.queries import Kinds, Marginal, RowCount, Score, Scores, Tree
from missdp.mechanisms.questions import Ask, Counts, Query, Sums
from missdp.mechanisms.row_door import RowDoor
from missdp.mechanisms.session import Measurement, Session, Total, Witness
from missdp.mechanisms.training import PrivateTraining, Training

__all__ = [
    "Ask",
    "CountNoise",
    "Counts",
    "Door",
    "Filled",
    "Kinds",
    "Marginal",
    "Measurement",
    "Noise",
    "NoiseSource",
    "Preparation",
    "Prepared",
    "PrivateTraining",
    "Query",
    "RowCount",
    "RowDoor",
    "Score",
    "Scores",
    "SecureNoise",
    "SeededNoise",
    "Selection",
    "SelectionMethod",
    "SelectionNoise",
    "Session",
    "Sums",
    "Total",
    "Training",
    "Tree",
    "Undeclared",
    "Witness",
    "domain_conditions",
    "noise_source",
]
