"""Synthesizers: private synthetic tables from incomplete tables.

* `base`: what every family is: one charged fit, free sampling; `state` runs a fit and keeps it in a
  file, `sampling` draws rows in blocks, and `parts` says which `caps` its
  parts are kept within, which `missdp.ground_truth` amplifies;
  `registry` knows all families by name.
* `aim`: AIM and MST, graphical models, learned in `learn_graphical` for marginals of a `workload`.
* `all_pairs`: all two-way tables at once, as `learn_pairs` releases them, and rows that hold them.
* `noisy_counts`: what all families make of noisy counts, imputation first included.

Other families, for comparison and for what they alone can do, are in `missdp.baselines`.
"""

from missdp.aliases import moved_from
from missdp.synth.aim import AIM, MST
from missdp.synth.all_pairs import AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.noisy_counts import SmallTableWarning
from missdp.synth.registry import load, synthesizers

__all__ = [
    "AIM",
    "MST",
    "AllPairs",
    "SmallTableWarning",
    "Synthesizer",
    "load",
    "synthesizers",
]

__getattr__ = moved_from(__name__)
