"""Preprocessing whose effect on neighbouring tables is bounded: imputing, scaling, PCA, clusters.

Each transformation is a scikit-learn transformer with a stability map: how far apart it can leave
two tables that were one row apart. Nothing here adds noise, so nothing here may be released.

Pipelines priced end to end: preprocessing without noise, then a private estimator.

All guarantees here are under *replace-one* adjacency with a public number of rows, the setting
in which the stability of preprocessing is proven; they are never converted to add-remove.
"""

from missdp.preprocess.costs import Bound, Stage, bounds, overall_curve, trace
from missdp.preprocess.domain import (
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
    RowDomain,
    TrimmedRange,
)
from missdp.preprocess.estimators import (
    PrivateCovariance,
    PrivateHistogram,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
)
from missdp.preprocess.impute import (
    ColumnImputer,
    MeanImputer,
    MedianImputer,
    RegressionImputer,
    TrimmedMeanImputer,
)
from missdp.preprocess.maps import NEIGHBOURS, TableDistance
from missdp.preprocess.near_rows import Deduplicator, NeighbourImputer, Quantizer, packing_number
from missdp.preprocess.pipeline import (
    PricedPipeline,
    Refused,
    Released,
    TestPlan,
    calibrated,
    plan_test,
    propose_test_release,
)
from missdp.preprocess.prices import Price, PriceStep, load_pipeline, plot_price, price
from missdp.preprocess.replace_one import PrivateEstimator
from missdp.preprocess.scale import (
    MinMaxScaler,
    PCADimensionReducer,
    PCARankReducer,
    StandardScaler,
)
from missdp.preprocess.steps import ConstantImputer, RowClipper, StableTransformer

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
