"""Differential privacy for the tables people really have: the ones with holes."""

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

# Where names live. They are imported when they are first asked for, so that the command can be
# stopped quietly, and shows its help, before anything heavy is read.
_HOMES = {
    "accounting": "Composition Filter Guarantee",
    "baselines": "DPAutoGAN DPCTGAN DPMisGAN Kamino PrivBayes",
    "pricing": "DPImputer",
    "schema": "Categorical Date DateTime Difference Numeric OpenCategorical Ordinal Schema",
    "synth": "AIM AllPairs MST load synthesizers",
    "table": "Table",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_PACKAGES = {
    *_HOMES,
    *("datasets", "engines", "errors", "evaluate", "ground_truth", "inference", "session"),
    *("sources", "statistics", "testing"),
}
__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    """Import a name, or a package (e.g. ``missdp.evaluate``), when first asked for."""
    if name in _HOME_OF:
        found = getattr(import_module(f"missdp.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in _PACKAGES:
        return import_module(f"missdp.{name}")
    raise AttributeError(f"module 'missdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_PACKAGES})
