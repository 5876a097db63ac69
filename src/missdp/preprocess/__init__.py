"""Preprocessing whose effect on neighbouring tables is bounded: imputing, scaling, PCA, clusters.

Each transformation is a scikit-learn transformer with a stability map: how far apart it can leave
two tables that were one row apart. Nothing here adds noise, so nothing here may be released.

Pipelines priced end to end: preprocessing without noise, then a private estimator.

All guarantees here are under *replace-one* adjacency with a public number of rows, the setting
in which the stability of preprocessing is proven; they are never converted to add-remove.
"""

from missdp.preprocess.clusters import Deduplicator, Quantizer, packing_number
from missdp.preprocess.conditions import (
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
from missdp.preprocess.costs import Bound, bounds, overall_curve
from missdp.preprocess.describe import load_pipeline
from missdp.preprocess.domain import NEIGHBOURS, RowDomain, TableDistance
from missdp.preprocess.estimators import PrivateCovariance, PrivateHistogram, PrivateMean
from missdp.preprocess.impute import (
    ColumnImputer,
    ConstantImputer,
    MeanImputer,
    MedianImputer,
    TrimmedMeanImputer,
)
from missdp.preprocess.impute_rows import NeighbourImputer, RegressionImputer
from missdp.preprocess.linear import PrivateLinearRegression, PrivateLogisticRegression
from missdp.preprocess.pipeline import PricedPipeline, PrivateEstimator, calibrated
from missdp.preprocess.price import Price, PriceStep, plot_price, price
from missdp.preprocess.ptr import Refused, Released, TestPlan, plan_test, propose_test_release
from missdp.preprocess.scale import (
    MinMaxScaler,
    PCADimensionReducer,
    PCARankReducer,
    StandardScaler,
)
from missdp.preprocess.steps import RowClipper, StableTransformer, Stage, trace

__all__ = [
    "NEIGHBOURS",
    "Bound",
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
    "Price",
    "PriceStep",
    "PricedPipeline",
    "PrivateCovariance",
    "PrivateEstimator",
    "PrivateHistogram",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMean",
    "Quantizer",
    "Refused",
    "RegressionImputer",
    "Released",
    "RowClipper",
    "RowDomain",
    "StableTransformer",
    "Stage",
    "StandardScaler",
    "TableDistance",
    "TestPlan",
    "TrimmedMeanImputer",
    "TrimmedRange",
    "bounds",
    "calibrated",
    "load_pipeline",
    "overall_curve",
    "packing_number",
    "plan_test",
    "plot_price",
    "price",
    "propose_test_release",
    "trace",
]
