"""Statistics on k-NN-imputed data with smooth sensitivity (Clifton et al. 2022, corrected)."""

from missdp.knn.estimates import Estimate, Histogram
from missdp.knn.imputation import KNNImputation
from missdp.knn.imputers import CappedKNN, CompleteRows, ReleasedModel
from missdp.knn.predicates import parse_where
from missdp.knn.query import QueryRequest, run_query
from missdp.knn.statistics import ImputedStatistics
from missdp.mechanisms.smooth_scale import ScaleRelease

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
