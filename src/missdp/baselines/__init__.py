"""More synthesizers: for comparison, for pure privacy, and for constraints between rows.

The core neither needs nor imports them: the registry finds them by entry points, as it finds those
of other packages, and they use nothing that another package could not.

* `privbayes`: a Bayesian `network`, learned and kept to rules.
* `kamino`: attribute by attribute, under constraints between rows (`denial_constraints`,
  `placing`).
* `dp_misgan`, `dp_autogan`, `dp_ctgan`: adversarial families, fitted with PyTorch.
"""

from missdp.baselines.dp_autogan import DPAutoGAN
from missdp.baselines.dp_ctgan import DPCTGAN
from missdp.baselines.dp_misgan import DPMisGAN
from missdp.baselines.kamino import Kamino
from missdp.baselines.privbayes import PrivBayes

__all__ = ["DPCTGAN", "DPAutoGAN", "DPMisGAN", "Kamino", "PrivBayes"]
