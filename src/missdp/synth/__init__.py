"""Synthesizers: private synthetic tables from incomplete tables.

* `base`: what every family is: one charged fit, free sampling; `state` runs a fit and keeps it in a
  file, `sampling` draws rows in blocks, and `before_holes` says what a fit guarantees for the table
  before values went missing, by `caps` of its parts (`asked_of_truth` goes the other way);
  `registry` knows all families by name.
* `aim`: AIM and MST, graphical models, learned in `learn_graphical` for marginals of a `workload`.
* `all_pairs`: all two-way tables at once, as `learn_pairs` releases them, and rows that hold them.
* `noisy_counts`: what all families make of noisy counts, imputation first included.

Other families, for comparison and for what they alone can do, are in `missdp.baselines`.
"""

from typing import Any

from missdp.aliases import moved_from
from missdp.synth.aim import AIM, MST
from missdp.synth.all_pairs import AllPairs
from missdp.synth.asked_of_truth import epsilon_for_ground_truth, planned_ground_truth
from missdp.synth.base import Synthesizer
from missdp.synth.noisy_counts import SmallTableWarning
from missdp.synth.registry import load, synthesizers

__all__ = [
    "AIM",
    "MST",
    "AllPairs",
    "SmallTableWarning",
    "Synthesizer",
    "epsilon_for_ground_truth",
    "load",
    "planned_ground_truth",
    "sample_spark",
    "synthesizers",
]


def __getattr__(name: str) -> Any:
    """Import what needs an engine when it is asked for; find names that moved away."""
    if name == "sample_spark":
        from missdp.synth.spark_rows import sample_spark

        return sample_spark
    return moved_from(__name__)(name)
