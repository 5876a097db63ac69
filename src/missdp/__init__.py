"""Differential privacy for tables with missing values."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from missdp.accounting import Composition as Composition
    from missdp.accounting import Filter as Filter
    from missdp.accounting import Guarantee as Guarantee
    from missdp.baselines import DPCTGAN as DPCTGAN
    from missdp.baselines import DPAutoGAN as DPAutoGAN
    from missdp.baselines import DPMisGAN as DPMisGAN
    from missdp.baselines import Kamino as Kamino
    from missdp.baselines import PrivBayes as PrivBayes
    from missdp.pricing import DPImputer as DPImputer
    from missdp.schema import Categorical as Categorical
    from missdp.schema import Date as Date
    from missdp.schema import DateTime as DateTime
    from missdp.schema import Difference as Difference
    from missdp.schema import Numeric as Numeric
    from missdp.schema import OpenCategorical as OpenCategorical
    from missdp.schema import Ordinal as Ordinal
    from missdp.schema import Schema as Schema
    from missdp.synth import AIM as AIM
    from missdp.synth import MST as MST
    from missdp.synth import AllPairs as AllPairs
    from missdp.synth import load as load
    from missdp.synth import synthesizers as synthesizers
    from missdp.table import Table as Table

__version__ = "0.4.0"

# Packages of the exported names. They are imported at first use. So a command can be stopped
# quietly, and shows its help, before large packages are imported.
_EXPORTS = {
    "accounting": "Composition Filter Guarantee",
    "baselines": "DPAutoGAN DPCTGAN DPMisGAN Kamino PrivBayes",
    "pricing": "DPImputer",
    "schema": "Categorical Date DateTime Difference Numeric OpenCategorical Ordinal Schema",
    "synth": "AIM AllPairs MST load synthesizers",
    "table": "Table",
}
_PACKAGE_OF = {name: package for package, names in _EXPORTS.items() for name in names.split()}
_PACKAGES = {
    *_EXPORTS,
    *("datasets", "engines", "errors", "evaluate", "ground_truth", "inference", "session"),
    *("sources", "statistics", "testing"),
}
__all__ = ["__version__", *sorted(_PACKAGE_OF)]


def __getattr__(name: str) -> Any:
    """Import a name, or a package such as ``missdp.evaluate``, at first use."""
    if name in _PACKAGE_OF:
        value = getattr(import_module(f"missdp.{_PACKAGE_OF[name]}"), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return import_module(f"missdp.{name}")
    raise AttributeError(f"module 'missdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGE_OF, *_PACKAGES})
