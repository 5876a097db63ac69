"""Sources of private rows, which count rows. Sources never add noise.

* `in_memory`: tables in memory. `streamed`: streamed rows, and DuckDB. `opening`: the source for an
  input. Engines that need an extra are in `missdp.engines`.
* `filling`: row functions that fill missing cells from a released model.

`missdp.table` reads files and cells. `missdp.session.row_kernel` maps rows, and
`missdp.session.counting` counts them.
"""

from missdp.exports import exported_names
from missdp.session.counting import Clique as Clique
from missdp.session.counting import Counts as Counts
from missdp.session.counting import MarginalSource as MarginalSource
from missdp.session.counting import Reads as Reads
from missdp.session.counting import Rows as Rows
from missdp.session.row_weights import RowWeight as RowWeight
from missdp.session.row_weights import weighted_source as weighted_source
from missdp.session.strategies import STRATEGIES as STRATEGIES
from missdp.session.strategies import Strategy as Strategy
from missdp.session.strategies import strategy_named as strategy_named
from missdp.sources.in_memory import MemorySource as MemorySource
from missdp.sources.in_memory import check_readable as check_readable
from missdp.sources.opening import counting_engine as counting_engine
from missdp.sources.opening import is_source as is_source
from missdp.sources.opening import open_source as open_source
from missdp.sources.streamed import DuckDBSource as DuckDBSource

__all__ = exported_names(globals())
