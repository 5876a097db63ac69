"""Statistics of private rows, with missing values filled from nearest neighbours, and their noise.

* `questions`: what can be asked; `answers`: how each is answered; `statistics`: what users call.
* `imputation`, `donors`: who is filled from whom, and how far that moves an answer (smooth
  sensitivity; Clifton et al. 2022, corrected).
* `estimates`, `worst_case`: noise, sampling and missing cells in an interval.

Estimates that need no private rows, from a released model, are in `missdp.estimate`.
"""

from missdp.aliases import exported
from missdp.schema.language import parse_where as parse_where
from missdp.statistics.asking import Statistic as Statistic
from missdp.statistics.estimates import Estimate as Estimate
from missdp.statistics.estimates import Histogram as Histogram
from missdp.statistics.imputation import KNNImputation as KNNImputation
from missdp.statistics.statistics import ImputedStatistics as ImputedStatistics
from missdp.statistics.statistics import QueryRequest as QueryRequest
from missdp.statistics.statistics import ScaleRelease as ScaleRelease
from missdp.statistics.statistics import run_queries as run_queries
from missdp.statistics.statistics import run_query as run_query

__all__ = exported(globals())
