"""Pipelines priced end to end: preprocessing without noise, then a private estimator.

All guarantees here are under *replace-one* adjacency with a public number of rows, the setting
in which the stability of preprocessing is proven; they are never converted to add-remove.
"""

from missdp.mechanisms.rdp_bounds import Bound, bounds, overall_curve
from missdp.pipelines.describe import load_pipeline
from missdp.pipelines.estimators import (
    PrivateCovariance,
    PrivateHistogram,
    PrivateMean,
)
from missdp.pipelines.linear import PrivateLinearRegression, PrivateLogisticRegression
from missdp.pipelines.pipeline import PricedPipeline, PrivateEstimator, calibrated
from missdp.pipelines.plot import plot_price
from missdp.pipelines.price import Price, PriceStep, price
from missdp.pipelines.ptr import (
    Refused,
    Released,
    TestPlan,
    plan_test,
    propose_test_release,
)

__all__ = [
    "Bound",
    "Price",
    "PriceStep",
    "PricedPipeline",
    "PrivateCovariance",
    "PrivateEstimator",
    "PrivateHistogram",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMean",
    "Refused",
    "Released",
    "TestPlan",
    "bounds",
    "calibrated",
    "load_pipeline",
    "overall_curve",
    "plan_test",
    "plot_price",
    "price",
    "propose_test_release",
]
