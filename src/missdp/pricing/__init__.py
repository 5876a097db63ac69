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

from missdp.pricing.assumptions import (
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
    StepCondition,
    TrimmedRange,
)
from missdp.pricing.chain import Bound, Stage, bounds, overall_curve, trace
from missdp.pricing.domain import (
    RowDomain,
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
from missdp.pricing.impute import (
    ColumnImputer,
    MeanImputer,
    MedianImputer,
    RegressionImputer,
    TrimmedMeanImputer,
)
from missdp.pricing.maps import NEIGHBOURS, TableDistance
from missdp.pricing.model_imputer import DPImputer
from missdp.pricing.near_rows import Deduplicator, NeighbourImputer, Quantizer, packing_number
from missdp.pricing.pipeline import (
    PricedPipeline,
    Refused,
    Released,
    TestPlan,
    calibrated,
    plan_test,
    propose_test_release,
)
from missdp.pricing.prices import Price, PriceStep, load_pipeline, plot_price, price
from missdp.pricing.replace_one import PrivateEstimator
from missdp.pricing.scale import (
    MinMaxScaler,
    PCADimensionReducer,
    PCARankReducer,
    StandardScaler,
)
from missdp.pricing.steps import (
    ConstantImputer,
    Imputer,
    Response,
    RowClipper,
    StableTransformer,
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
    "Imputer",
    "IncompleteRows",
    "LargestCluster",
    "LeastEigenvalue",
    "LeastRange",
    "LeastStandardDeviation",
    "MeanImputer",
    "MedianImputer",
    "MinMaxScaler",
    "ModelPaidApart",
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
    "Response",
    "RowClipper",
    "RowDomain",
    "StableTransformer",
    "Stage",
    "StandardScaler",
    "StepCondition",
    "TableDistance",
    "TestPlan",
    "TrimmedMeanImputer",
    "TrimmedRange",
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
