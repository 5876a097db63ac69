"""Statistics on k-NN-imputed data with smooth sensitivity (Clifton et al. 2022, corrected)."""

from missdp.mechanisms.asks import ScaleRelease
from missdp.schema.predicates import parse_where
from missdp.statistics.estimates import Estimate, Histogram
from missdp.statistics.imputation import CappedKNN, CompleteRows, KNNImputation, ReleasedModel
from missdp.statistics.statistics import ImputedStatistics, QueryRequest, run_query

__all__ = [
    "CappedKNN",
    "CompleteRows",
    "Estimate",
    "Histogram",
    "ImputedStatistics",
    "KNNImputation",
    "QueryRequest",
    "ReleasedModel",
    "ScaleRelease",
    "parse_where",
    "run_query",
]
