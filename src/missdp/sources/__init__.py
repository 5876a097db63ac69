"""Exact, private counts of many cliques in one pass. They never add noise, and read no files.

* `counts`: tables in memory; `streamed`: rows that stream, and DuckDB; engines that need an extra
  are in `missdp.engines`. How files and cells are read is in `missdp.table`.
* `strategies`: which rows with missing values count where. `modelled`: what a family sees of them.
* `filling`: rows filled from a released model. `partners`: pairs of rows.
"""

from missdp.aliases import exported, moved_from
from missdp.sources.counts import Clique as Clique
from missdp.sources.counts import Counts as Counts
from missdp.sources.counts import MarginalSource as MarginalSource
from missdp.sources.counts import MemorySource as MemorySource
from missdp.sources.counts import Reads as Reads
from missdp.sources.counts import Rows as Rows
from missdp.sources.counts import RowWeight as RowWeight
from missdp.sources.counts import readable as readable
from missdp.sources.counts import weighing as weighing
from missdp.sources.strategies import STRATEGIES as STRATEGIES
from missdp.sources.strategies import Strategy as Strategy
from missdp.sources.strategies import is_source as is_source
from missdp.sources.strategies import open_source as open_source
from missdp.sources.strategies import strategy_named as strategy_named
from missdp.sources.streamed import DuckDBSource as DuckDBSource

__all__ = exported(globals())

__getattr__ = moved_from(__name__)
