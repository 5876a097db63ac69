"""Statistics of private rows, with missing values filled from nearest neighbours, and their noise.

* `statistics`: the class that users call. `tasks`: one question. `answers`: how it is answered.
* `imputation`, `donors`: donors and recipients, and the smooth sensitivity of imputed tables
  (Clifton et al. 2022, corrected).
* `table_rows`, `row_queries`, `imputed_rows`: the private rows of a session on a table, and their
  queries. `smooth_sensitivity`, `groups`: noise that follows a private bound, and groups in
  parallel.
* `estimates`, `worst_case`: noise, sampling and missing cells in an interval.

Estimates that need no private rows, from a released model, are in `missdp.estimate`.
"""

from missdp.exports import exported_names
from missdp.schema.expressions import parse_where as parse_where
from missdp.statistics.estimates import Estimate as Estimate
from missdp.statistics.estimates import LevelEstimates as LevelEstimates
from missdp.statistics.imputation import KNNImputation as KNNImputation
from missdp.statistics.row_queries import CustomQuery as CustomQuery
from missdp.statistics.row_queries import RowCounts as RowCounts
from missdp.statistics.row_queries import RowSums as RowSums
from missdp.statistics.statistics import ImputedStatistics as ImputedStatistics
from missdp.statistics.statistics import check_queries as check_queries
from missdp.statistics.statistics import close_levels as close_levels
from missdp.statistics.statistics import needed_attributes as needed_attributes
from missdp.statistics.statistics import read_imputation as read_imputation
from missdp.statistics.statistics import read_questions as read_questions
from missdp.statistics.statistics import run_queries as run_queries
from missdp.statistics.table_rows import EachLevel as EachLevel
from missdp.statistics.table_rows import ObservedOn as ObservedOn
from missdp.statistics.table_rows import TableFacts as TableFacts
from missdp.statistics.table_rows import TableRows as TableRows
from missdp.statistics.table_rows import open_table as open_table
from missdp.statistics.tasks import Statistic as Statistic

__all__ = exported_names(globals())
