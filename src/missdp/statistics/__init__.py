"""Statistics on k-NN-imputed data with smooth sensitivity (Clifton et al. 2022, corrected)."""

from missdp.schema.where import parse_where
from missdp.statistics.answers import Estimate, Histogram, Statistic
from missdp.statistics.imputation import KNNImputation
from missdp.statistics.statistics import (
    ImputedStatistics,
    QueryRequest,
    ScaleRelease,
    run_queries,
    run_query,
)

__all__ = [
    "Estimate",
    "Histogram",
    "ImputedStatistics",
    "KNNImputation",
    "QueryRequest",
    "ScaleRelease",
    "Statistic",
    "parse_where",
    "run_queries",
    "run_query",
]
