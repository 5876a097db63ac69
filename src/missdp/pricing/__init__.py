"""Preprocessing priced end to end: impute, scale, reduce, and then a private estimator.

Replace one row of a table, and a fitted step moves other rows too: every filled cell depends on a
mean that moved. Each step here is a scikit-learn transformer with a proven bound on that movement;
none adds noise, so what it makes is as private as the table. A private estimator ends the pipeline
by one question about the rows, answered with noise. From both follows what the whole reveals.

Read the files in this order:

* ``domain``: what is publicly known of private rows, how tables become rows of numbers, and how far
  two tables are apart.
* ``steps``: what a step assumes, states and proves. ``imputers`` fill missing cells,
  ``transforms`` scale, reduce and merge rows; ``model_imputer`` fills by a released model
  (``completed_rows``: row by row, as the schema's rules have it).
* ``privacy_maps``: what a distance between tables means for outputs, and the best bound.
* ``questions``: a noisy vector, noisy gradients, or the last iterate of a hidden run.
* ``replace_one``: chains of steps, and the door that holds rows, charges and answers.
* ``estimators``, ``pipeline`` (and propose-test-release), ``prices`` (table, picture, TOML file).

All guarantees are under *replace-one* adjacency with a public number of rows, the setting in which
the stability of preprocessing is proven; they are never converted to add-remove.
"""

from missdp.pricing.domain import (
    NEIGHBOURS,
    RowDomain,
    TableDistance,
    column_names,
    rows_of,
)
from missdp.pricing.estimators import (
    PrivateCovariance,
    PrivateHistogram,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
)
from missdp.pricing.imputers import (
    ColumnImputer,
    ConstantImputer,
    Imputer,
    MeanImputer,
    MedianImputer,
    NeighbourImputer,
    RegressionImputer,
    TrimmedMeanImputer,
)
from missdp.pricing.model_imputer import (
    DPImputer,
)
from missdp.pricing.pipeline import (
    PricedPipeline,
    Refused,
    Released,
    calibrated,
    plan_test,
    propose_test_release,
)
from missdp.pricing.prices import (
    Price,
    PriceStep,
    load_pipeline,
    plot_price,
    price,
)
from missdp.pricing.privacy_maps import (
    Bound,
    Sensitivity,
    bounds,
    overall_curve,
)
from missdp.pricing.questions import (
    GradientSteps,
    Loss,
    NoiseKind,
    NoisyGradients,
    SecretStop,
    VectorQuery,
)
from missdp.pricing.replace_one import (
    PrivateEstimator,
    Stage,
    TestPlan,
    trace,
)
from missdp.pricing.steps import (
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
    ModelPaidApart,
    NotFittedOnThisTable,
    Response,
    RowClipper,
    StableTransformer,
    StepCondition,
    TrimmedRange,
)
from missdp.pricing.transforms import (
    Deduplicator,
    MinMaxScaler,
    PCADimensionReducer,
    PCARankReducer,
    Quantizer,
    StandardScaler,
    packing_number,
)

__all__ = [
    "NEIGHBOURS",
    "Bound",
    "BoundedDonations",
    "CentralGaps",
    "ColumnImputer",
    "ConstantImputer",
    "CovarianceGap",
    "DPImputer",
    "Deduplicator",
    "ExtremeGaps",
    "FrameOverlap",
    "GradientSteps",
    "Imputer",
    "IncompleteRows",
    "LargestCluster",
    "LeastEigenvalue",
    "LeastRange",
    "LeastStandardDeviation",
    "Loss",
    "MeanImputer",
    "MedianImputer",
    "MinMaxScaler",
    "ModelPaidApart",
    "NeighbourImputer",
    "NoiseKind",
    "NoisyGradients",
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
    "Response",
    "RowClipper",
    "RowDomain",
    "SecretStop",
    "Sensitivity",
    "StableTransformer",
    "Stage",
    "StandardScaler",
    "StepCondition",
    "TableDistance",
    "TestPlan",
    "TrimmedMeanImputer",
    "TrimmedRange",
    "VectorQuery",
    "bounds",
    "calibrated",
    "column_names",
    "load_pipeline",
    "overall_curve",
    "packing_number",
    "plan_test",
    "plot_price",
    "price",
    "propose_test_release",
    "rows_of",
    "trace",
]
