"""Synthesizers: private synthetic tables from incomplete tables.

* `base`: the synthesizer, with one charged fit and free sampling. `family` declares a family, and
  `fitted` is the record of a fit and the content of the model's file.
* `fitting`: runs a fit, phase by phase. `split` divides its budget into parts and checks them.
  `first_parts` makes the releases that all families have, and `shared_steps` those of several
  families.
* `parameters`: checks of parameters. `sampling` draws rows, and `registry` lists all families by
  name.
* `aim` and `mst`: marginals of a `workload`, selected one by one. `adaptive` has their common
  steps.
* `all_pairs`: all two-way tables at once, with `numeric_scores`. `learn_pairs` releases them, and
  fits the model of rows of all three families.
* `noisy_counts`: estimates from noisy counts. `relation_noise` tests whether noise hides relations
  between columns, and `relations` names remedies. `impute_first` fills missing cells before a fit.
  `uncertain` draws models that vary by the uncertainty of a fit.

Other families, for comparison and for additional tasks, are in `missdp.baselines`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Learned, Request
from missdp.synth.fitted import Fitted
from missdp.synth.noisy_counts import SmallTableWarning
from missdp.synth.registry import load, synthesizers

if TYPE_CHECKING:
    from missdp.synth.aim import AIM
    from missdp.synth.all_pairs import AllPairs
    from missdp.synth.mst import MST

__all__ = [
    "AIM",
    "MST",
    "AllPairs",
    "Family",
    "Fitted",
    "Learned",
    "Request",
    "SmallTableWarning",
    "Synthesizer",
    "load",
    "synthesizers",
]

_HOMES = {"AIM": "aim", "MST": "mst", "AllPairs": "all_pairs"}


def __getattr__(name: str) -> object:
    """Import a family when it is first used, since the help of commands does not need families."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = family = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return family
