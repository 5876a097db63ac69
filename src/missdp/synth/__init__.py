"""Synthesizers: private synthetic tables from incomplete tables.

* `base`: what every family is: one charged fit, free sampling; `state` is what a fit leaves behind,
  in memory and in a file, and `parts` its `caps`, part by part, which `missdp.ground_truth`
  amplifies; `registry` knows all families by name.
* `aim`, `mst`: graphical models, learned in `learn_graphical` for the marginals of a `workload`.
* `all_pairs`: all two-way tables at once, as `learn_pairs` releases them, and rows that hold them.
* `columnwise`: Kamino, attribute by attribute, and what holds between two rows.
* `neural`: adversarial families, fitted with PyTorch.
* `privbayes`: a Bayesian `network`, learned in `learn_network`.
* `row_blocks`: rows drawn in blocks.
* `noisy_counts`: what all families make of noisy counts, imputation first included.
"""

from missdp.aliases import moved_from
from missdp.synth.aim import AIM
from missdp.synth.all_pairs import AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.columnwise.kamino import Kamino
from missdp.synth.mst import MST
from missdp.synth.neural.dp_autogan import DPAutoGAN
from missdp.synth.neural.dp_ctgan import DPCTGAN
from missdp.synth.neural.dp_misgan import DPMisGAN
from missdp.synth.noisy_counts import SmallTableWarning
from missdp.synth.privbayes import PrivBayes
from missdp.synth.registry import load, synthesizers

__all__ = [
    "AIM",
    "DPCTGAN",
    "MST",
    "AllPairs",
    "DPAutoGAN",
    "DPMisGAN",
    "Kamino",
    "PrivBayes",
    "SmallTableWarning",
    "Synthesizer",
    "load",
    "synthesizers",
]

__getattr__ = moved_from(__name__)
