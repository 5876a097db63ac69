"""Additional synthesizers: for comparison, for pure privacy, and for constraints between rows.

The core does not import them. The registry finds them by entry points, as it finds families of
other packages. They use only interfaces that other packages can use.

* `privbayes`: a Bayesian `network` that is learned privately and obeys rules.
* `kamino`: rows drawn attribute by attribute, with constraints between rows (`denial_constraints`,
  `placing`).
* `dp_misgan`, `dp_autogan`, `dp_ctgan`: adversarial families, fitted with PyTorch. `adversarial`,
  ``games``, ``networks`` and ``private_training`` have their common parts.
"""

from missdp.baselines.dp_autogan import DPAutoGAN
from missdp.baselines.dp_ctgan import DPCTGAN
from missdp.baselines.dp_misgan import DPMisGAN
from missdp.baselines.kamino import Kamino
from missdp.baselines.privbayes import PrivBayes

__all__ = ["DPCTGAN", "DPAutoGAN", "DPMisGAN", "Kamino", "PrivBayes"]
