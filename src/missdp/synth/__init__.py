"""Synthesizers: private synthetic tables from incomplete tables.

* `base`: the synthesizer: one charged fit, free sampling. `family` is what a family declares, and
  `fitted` what a fit leaves behind, which is the model's file.
* `fitting` runs a fit, phase by phase. `split` divides its budget into parts, within which it is
  kept. `first_parts` releases those that all families have, and `steps` those of several.
* `parameters` are checked; `sampling` draws rows; `registry` knows all families by name.
* `aim` and `mst`: marginals of a `workload`, selected one by one; `adaptive` is what both share.
* `all_pairs`: all two-way tables at once, with the `coordinates` of numbers; `learn_pairs` releases
  them, and fits the model of rows of all three families.
* `noisy_counts`: what all families make of noisy counts. `relation_noise`: whether noise hides how
  columns are related, and `relations`, what helps. `impute_first`; and models that vary as the
  released one is `uncertain`.

Other families, for comparison and for what they alone can do, are in `missdp.baselines`.
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
    """Import a family when it is first asked for: the command shows its help without them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = family = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return family
