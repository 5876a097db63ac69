"""Mechanisms: the only place where private numbers become released ones.

Everything here charges its budget before it computes, and draws discrete noise from a
`NoiseSource`: `SecureNoise` for releases, `SeededNoise` for tests.

* `session`: charge, compute, draw: the one function by which numbers leave, for all sessions.
* `exact_noise`, `noise`: exact draws from words of bits, where those come from, and the noise of
  counts and of scores. `smooth`: noise that follows a private bound, and may tell its scale.
* `door`: the session of synthesizers. `queries` and `products` say what it can be asked;
  `training` is private training, from its plan to the clipped gradients of single rows.
* `row_door`: the session of statistics; `questions` say what is asked of rows, and how they are
  prepared and seen.
"""

from missdp.accounting.conditions import Undeclared as Undeclared
from missdp.accounting.conditions import domain_conditions as domain_conditions
from missdp.aliases import exported
from missdp.mechanisms.door import Door as Door
from missdp.mechanisms.exact_noise import NoiseSource as NoiseSource
from missdp.mechanisms.exact_noise import SecureNoise as SecureNoise
from missdp.mechanisms.exact_noise import SeededNoise as SeededNoise
from missdp.mechanisms.exact_noise import SelectionNoise as SelectionNoise
from missdp.mechanisms.exact_noise import noise_source as noise_source
from missdp.mechanisms.noise import CountNoise as CountNoise
from missdp.mechanisms.noise import Noise as Noise
from missdp.mechanisms.noise import Selection as Selection
from missdp.mechanisms.noise import SelectionMethod as SelectionMethod
from missdp.mechanisms.queries import Kinds as Kinds
from missdp.mechanisms.queries import Marginal as Marginal
from missdp.mechanisms.queries import RowCount as RowCount
from missdp.mechanisms.queries import Score as Score
from missdp.mechanisms.queries import Scores as Scores
from missdp.mechanisms.queries import Tree as Tree
from missdp.mechanisms.questions import Ask as Ask
from missdp.mechanisms.questions import Counts as Counts
from missdp.mechanisms.questions import Filled as Filled
from missdp.mechanisms.questions import Preparation as Preparation
from missdp.mechanisms.questions import Prepared as Prepared
from missdp.mechanisms.questions import Query as Query
from missdp.mechanisms.questions import Sums as Sums
from missdp.mechanisms.row_door import RowDoor as RowDoor
from missdp.mechanisms.session import Measurement as Measurement
from missdp.mechanisms.session import Session as Session
from missdp.mechanisms.session import Total as Total
from missdp.mechanisms.session import Witness as Witness
from missdp.mechanisms.training import PrivateTraining as PrivateTraining
from missdp.mechanisms.training import Training as Training

__all__ = exported(globals())
