"""Preprocessing priced end to end: impute, scale, reduce, and then a private estimator.

Replace one row of a table, and a fitted step moves other rows too: every filled cell depends on a
mean that moved. Each step here is a scikit-learn transformer with a proven bound on this movement.
No step adds noise, so the output of a step is as private as the table. A private estimator ends the
pipeline with one query about the rows, which a session answers with noise. Both together give the
price of the pipeline.

Read the files in this order:

* ``domain``: public facts about private rows, the rows of numbers of a table, and the distance of
  two tables.
* ``steps``: the base class of steps, with their conditions. ``imputers`` fill missing cells, and
  ``model_imputer`` fills them by a released model. ``transforms`` scale, reduce and merge rows.
* ``privacy_maps``: bounds on outputs by the distance of two tables, and the best bound.
* ``queries``: queries for a noisy vector or noisy gradients, and the mechanisms that draw them.
* ``chains``: the distance of neighbours along a chain of steps, and the price of a query after it.
* ``private_test``: the mechanism of propose-test-release.
* ``standardised_rows``: the private rows on which a `missdp.session.Session` is opened.
* ``private_estimator``, ``estimators``, ``pipeline``, ``prices``.

The trusted files are the files from ``domain`` to ``pipeline``, together with `missdp.session` and
`missdp.accounting`. Rows are read in ``standardised_rows``, which calls queries, steps and
``domain``.

All guarantees are under *replace-one* adjacency with a public number of rows. The stability of
preprocessing is proven in this setting. Guarantees are never converted to add-remove. Proofs are in
the docstrings of steps, privacy maps, queries, estimators and `plan_test`. Differences from
published proofs are in tests/claims/preprocessing.md.
"""

from missdp.exports import exported_names
from missdp.pricing.chains import Stage as Stage
from missdp.pricing.chains import StandardisedFacts as StandardisedFacts
from missdp.pricing.chains import trace as trace
from missdp.pricing.domain import NEIGHBOURS as NEIGHBOURS
from missdp.pricing.domain import RowDomain as RowDomain
from missdp.pricing.domain import TableDistance as TableDistance
from missdp.pricing.domain import column_names as column_names
from missdp.pricing.domain import rows_of as rows_of
from missdp.pricing.estimators import PrivateCovariance as PrivateCovariance
from missdp.pricing.estimators import PrivateHistogram as PrivateHistogram
from missdp.pricing.estimators import PrivateLinearRegression as PrivateLinearRegression
from missdp.pricing.estimators import PrivateLogisticRegression as PrivateLogisticRegression
from missdp.pricing.estimators import PrivateMean as PrivateMean
from missdp.pricing.imputers import ColumnImputer as ColumnImputer
from missdp.pricing.imputers import ConstantImputer as ConstantImputer
from missdp.pricing.imputers import Imputer as Imputer
from missdp.pricing.imputers import MeanImputer as MeanImputer
from missdp.pricing.imputers import MedianImputer as MedianImputer
from missdp.pricing.imputers import NeighbourImputer as NeighbourImputer
from missdp.pricing.imputers import RegressionImputer as RegressionImputer
from missdp.pricing.imputers import TrimmedMeanImputer as TrimmedMeanImputer
from missdp.pricing.model_imputer import DPImputer as DPImputer
from missdp.pricing.pipeline import FailedTest as FailedTest
from missdp.pricing.pipeline import PassedTest as PassedTest
from missdp.pricing.pipeline import PricedPipeline as PricedPipeline
from missdp.pricing.pipeline import calibrate as calibrate
from missdp.pricing.pipeline import plan_test as plan_test
from missdp.pricing.pipeline import propose_test_release as propose_test_release
from missdp.pricing.prices import CheaperChange as CheaperChange
from missdp.pricing.prices import Price as Price
from missdp.pricing.prices import PriceStep as PriceStep
from missdp.pricing.prices import price as price
from missdp.pricing.privacy_maps import Bound as Bound
from missdp.pricing.privacy_maps import Sensitivity as Sensitivity
from missdp.pricing.privacy_maps import bounds as bounds
from missdp.pricing.private_estimator import PrivateEstimator as PrivateEstimator
from missdp.pricing.private_test import TestPlan as TestPlan
from missdp.pricing.queries import GradientQuery as GradientQuery
from missdp.pricing.queries import Loss as Loss
from missdp.pricing.queries import NoiseKind as NoiseKind
from missdp.pricing.queries import VectorQuery as VectorQuery
from missdp.pricing.standardised_rows import StandardisedRows as StandardisedRows
from missdp.pricing.standardised_rows import open_session as open_session
from missdp.pricing.steps import BoundedDonations as BoundedDonations
from missdp.pricing.steps import CentralGaps as CentralGaps
from missdp.pricing.steps import CovarianceGap as CovarianceGap
from missdp.pricing.steps import ExtremeGaps as ExtremeGaps
from missdp.pricing.steps import FrameOverlap as FrameOverlap
from missdp.pricing.steps import IncompleteRows as IncompleteRows
from missdp.pricing.steps import LargestCluster as LargestCluster
from missdp.pricing.steps import MinEigenvalue as MinEigenvalue
from missdp.pricing.steps import MinRange as MinRange
from missdp.pricing.steps import MinStandardDeviation as MinStandardDeviation
from missdp.pricing.steps import ModelPaidApart as ModelPaidApart
from missdp.pricing.steps import NotFittedOnThisTable as NotFittedOnThisTable
from missdp.pricing.steps import Response as Response
from missdp.pricing.steps import RowClipper as RowClipper
from missdp.pricing.steps import SeededFilling as SeededFilling
from missdp.pricing.steps import StableTransformer as StableTransformer
from missdp.pricing.steps import StepCondition as StepCondition
from missdp.pricing.steps import TrimmedRange as TrimmedRange
from missdp.pricing.transforms import Deduplicator as Deduplicator
from missdp.pricing.transforms import MinMaxScaler as MinMaxScaler
from missdp.pricing.transforms import PCADimensionReducer as PCADimensionReducer
from missdp.pricing.transforms import PCARankReducer as PCARankReducer
from missdp.pricing.transforms import Quantizer as Quantizer
from missdp.pricing.transforms import StandardScaler as StandardScaler
from missdp.pricing.transforms import packing_number as packing_number

__all__ = exported_names(globals())
