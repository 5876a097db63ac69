"""Preprocessing whose effect on neighbouring tables is bounded: imputing, scaling, PCA, clusters.

Each transformation is a scikit-learn transformer with a stability map: how far apart it can leave
two tables that were one row apart. Nothing here adds noise, so nothing here may be released.
"""

from missdp.mechanisms.row_domain import RowDomain
from missdp.mechanisms.table_distance import NEIGHBOURS, TableDistance
from missdp.transforms.base import StableTransformer
from missdp.transforms.chain import Stage, trace
from missdp.transforms.clip import RowClipper
from missdp.transforms.clusters import Deduplicator, Quantizer, packing_number
from missdp.transforms.conditions import (
    BoundedDonations,
    CentralGaps,
    CovarianceGap,
    ExtremeGaps,
    FrameOverlap,
    IncompleteRows,
    LargestCluster,
    LeastEigenvalue,
    LeastRange,
    LeastStandardDeviation,
    NotFittedOnThisTable,
    TrimmedRange,
)
from missdp.transforms.impute import ColumnImputer, ConstantImputer, MeanImputer
from missdp.transforms.impute_neighbours import NeighbourImputer
from missdp.transforms.impute_order import MedianImputer, TrimmedMeanImputer
from missdp.transforms.impute_regression import RegressionImputer
from missdp.transforms.pca import PCADimensionReducer, PCARankReducer
from missdp.transforms.scale import MinMaxScaler, StandardScaler

__all__ = [
    "NEIGHBOURS",
    "BoundedDonations",
    "CentralGaps",
    "ColumnImputer",
    "ConstantImputer",
    "CovarianceGap",
    "Deduplicator",
    "ExtremeGaps",
    "FrameOverlap",
    "IncompleteRows",
    "LargestCluster",
    "LeastEigenvalue",
    "LeastRange",
    "LeastStandardDeviation",
    "MeanImputer",
    "MedianImputer",
    "MinMaxScaler",
    "NeighbourImputer",
    "NotFittedOnThisTable",
    "PCADimensionReducer",
    "PCARankReducer",
    "Quantizer",
    "RegressionImputer",
    "RowClipper",
    "RowDomain",
    "StableTransformer",
    "Stage",
    "StandardScaler",
    "TableDistance",
    "TrimmedMeanImputer",
    "TrimmedRange",
    "packing_number",
    "trace",
]
