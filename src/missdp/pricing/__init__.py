"""Preprocessing priced end to end: impute, scale, reduce, and then a private estimator.

Replace one row of a table, and a fitted step moves other rows too: every filled cell depends on a
mean that moved. Each step here is a scikit-learn transformer with a proven bound on that movement;
none adds noise, so what it makes is as private as the table. A private estimator ends the pipeline
by one question about the rows, answered with noise. From both follows what the whole reveals.

Read the files in this order:

* `domain`: what is publicly known of private rows, and how arrays and tables are read as rows.
* `maps`: how far two tables are apart, and what that means for the outputs of a mechanism.
* `steps`: what a step must state and prove. The steps: `impute` (by columns), `near_rows` (by
  neighbours and clusters), `scale` (and principal components), and `model_imputer`, by a released
  model (`completed_rows` fills tables, `encoded_rows` rows of numbers).
* `vector_query`: a noisy vector computed from rows. `gradient_steps` asks for noisy gradients,
  whose privacy maps are in `gradient_maps`.
* `chain`: a chain of steps, and the best bound on what a question after it reveals.
* `replace_one`: the door that holds rows, charges and answers, and who may ask there.
* `estimators`, `pipeline` (and propose-test-release), `prices` (table, picture, TOML file).

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
    TestPlan,
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
