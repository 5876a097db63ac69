"""Sessions: the only code that releases numbers about private rows. Each is charged for first.

Read `session` first: `Session.measure` charges, computes and draws. The other files define queries,
mechanisms and kinds of rows.

* `counted_rows`, `counted_queries`, `total_queries`, `scores`, `dependences`, `products`,
  `row_weights`: rows of codes, and queries that count them. Synthesizers measure these.
* `row_kernel`: one row in, one row out. `counting`, `exact_counts`: rows counted. `held_rows`,
  `strategies`: which rows. `modelled_rows`, `observed_rows`, `filled_rows`, `merged_rows`: rows in
  another form.
* `mechanisms`, `noise`: the noise of counts and of scores, and exact draws from random bits.
* `frequent_values`: levels of open columns. `training`: the steps of private training.
* `fit`: the phases of a fit, which open sessions and state the guarantee.
* `measurement`: released values. `redaction`: errors while private rows are read.

Two optional packages define other kinds of rows, with their proofs: `missdp.statistics`
(single rows with imputed cells) and `missdp.pricing` (standardised rows).
"""

from missdp.exports import exported_names
from missdp.inference.product_sums import Products as Products
from missdp.session.counted_queries import Marginal as Marginal
from missdp.session.counted_queries import Tree as Tree
from missdp.session.counted_rows import CountedFacts as CountedFacts
from missdp.session.counted_rows import CountedRows as CountedRows
from missdp.session.counted_rows import FineCodes as FineCodes
from missdp.session.counted_rows import LevelMerge as LevelMerge
from missdp.session.counted_rows import Recoding as Recoding
from missdp.session.counting import Clique as Clique
from missdp.session.counting import Reads as Reads
from missdp.session.dependences import Dependences as Dependences
from missdp.session.measurement import Measurement as Measurement
from missdp.session.measurement import Total as Total
from missdp.session.mechanisms import CountNoise as CountNoise
from missdp.session.mechanisms import Noise as Noise
from missdp.session.mechanisms import Selection as Selection
from missdp.session.noise import NoiseSource as NoiseSource
from missdp.session.noise import SecureNoise as SecureNoise
from missdp.session.noise import SeededNoise as SeededNoise
from missdp.session.noise import SelectionMethod as SelectionMethod
from missdp.session.products import RowProducts as RowProducts
from missdp.session.scores import Expected as Expected
from missdp.session.scores import Misfits as Misfits
from missdp.session.session import Reservation as Reservation
from missdp.session.session import Session as Session
from missdp.session.total_queries import MissingKinds as MissingKinds
from missdp.session.total_queries import RowCount as RowCount
from missdp.session.total_queries import UnitSums as UnitSums
from missdp.session.training import TrainingPlan as TrainingPlan

__all__ = exported_names(globals())
