"""What packages export, and public names that stand elsewhere since the last release."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

_PRICING = """
    NEIGHBOURS Bound BoundedDonations CentralGaps ColumnImputer ConstantImputer CovarianceGap
    DPImputer Deduplicator ExtremeGaps FrameOverlap Imputer IncompleteRows LargestCluster
    LeastEigenvalue LeastRange LeastStandardDeviation MeanImputer MedianImputer MinMaxScaler
    ModelPaidApart NeighbourImputer NotFittedOnThisTable PCADimensionReducer PCARankReducer
    Price PriceStep PricedPipeline PrivateCovariance PrivateEstimator PrivateHistogram
    PrivateLinearRegression PrivateLogisticRegression PrivateMean Quantizer Refused
    RegressionImputer Released Response RowClipper RowDomain StableTransformer Stage
    StandardScaler StepCondition TableDistance TestPlan TrimmedMeanImputer TrimmedRange bounds
    calibrated column_names load_pipeline overall_curve packing_number plan_test plot_price
    price propose_test_release rows_of trace
"""

#: Old public name -> where it stands now. Kept for one release.
MOVED: dict[str, str] = {
    "missdp.mechanisms.asks.Ask": "missdp.mechanisms.Ask",
    "missdp.mechanisms.asks.ScaleRelease": "missdp.mechanisms.smooth.ScaleRelease",
    "missdp.mechanisms.choices.Score": "missdp.mechanisms.Score",
    "missdp.mechanisms.laws.Handle": "missdp.mechanisms.Session",
    "missdp.mechanisms.laws.Law": "missdp.mechanisms.session.Mechanism",
    "missdp.mechanisms.laws.Noise": "missdp.mechanisms.Noise",
    "missdp.mechanisms.laws.Total": "missdp.mechanisms.Total",
    "missdp.mechanisms.laws.Witness": "missdp.mechanisms.Witness",
    "missdp.accounting.GDPAccountant": "missdp.accounting.GDP",
    "missdp.accounting.PLDAccountant": "missdp.accounting.PLD",
    "missdp.accounting.PureAccountant": "missdp.accounting.PURE",
    "missdp.accounting.RDPAccountant": "missdp.accounting.RENYI",
    "missdp.accounting.ZCDPAccountant": "missdp.accounting.ZCDP",
    **{f"missdp.preprocess.{name}": f"missdp.pricing.{name}" for name in _PRICING.split()},
    "missdp.ground_truth.Parted": "missdp.synth.Synthesizer",
    "missdp.sources.SparkSource": "missdp.engines.SparkSource",
    "missdp.synth.sample_spark": "missdp.engines.sample_spark",
    "missdp.table.DuckDBRows": "missdp.engines.DuckDBRows",
    "missdp.table.SQLRows": "missdp.engines.SQLRows",
    "missdp.missingness.MAR": "missdp.evaluate.MAR",
    "missdp.missingness.MCAR": "missdp.evaluate.MCAR",
    "missdp.missingness.MNAR": "missdp.evaluate.MNAR",
    "missdp.missingness.DeclaredMechanism": "missdp.evaluate.DeclaredMechanism",
    "missdp.missingness.MissingMechanism": "missdp.evaluate.MissingMechanism",
    "missdp.missingness.SelfMasking": "missdp.evaluate.SelfMasking",
    "missdp.missingness.missing_mask": "missdp.evaluate.missing_mask",
    "missdp.missingness.missing_patterns": "missdp.evaluate.missing_patterns",
    "missdp.synth.epsilon_for_ground_truth": "missdp.ground_truth.epsilon_for_ground_truth",
    "missdp.synth.planned_ground_truth": "missdp.ground_truth.planned_ground_truth",
    **{
        f"missdp.synth.{name}": f"missdp.baselines.{name}"
        for name in ("DPAutoGAN", "DPCTGAN", "DPMisGAN", "Kamino", "PrivBayes")
    },
}


def exported(namespace: Mapping[str, object]) -> list[str]:
    """Return the names that a package imports to export them: not modules, nor these helpers."""
    return sorted(
        name
        for name, found in namespace.items()
        if not (name.startswith("_") or isinstance(found, ModuleType))
        and getattr(found, "__module__", None) != __name__
    )


def moved_from(package: str) -> Callable[[str], object]:
    """Return a module's ``__getattr__`` that finds names moved away from it, and warns."""

    def find(name: str) -> object:
        old = f"{package}.{name}"
        if old not in MOVED:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        new = MOVED[old]
        message = f"{old} is {new} now; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        home, _, last = new.rpartition(".")
        return getattr(import_module(home), last)

    return find


def _room_that_moved(package: str) -> ModuleType:
    """Return a module that has the names of a room of the last release, each with a warning."""
    module = ModuleType(package, "Names that stand elsewhere now; kept for one release.")
    vars(module)["__getattr__"] = moved_from(package)
    return module


for _package in (
    "missdp.mechanisms.asks",
    "missdp.mechanisms.choices",
    "missdp.mechanisms.laws",
    "missdp.missingness",
    "missdp.preprocess",
):
    sys.modules[_package] = _room_that_moved(_package)
