"""Draw docs/img/ground_truth.svg: the ground-truth ε of three accounts against the missing rate.

The script needs matplotlib, which is no dependency of the package.

    python bench/papers/a_accounts.py
"""

import matplotlib as mpl
import numpy as np
from a_shared import HERE  # also for the folder of `algorithm4`
from algorithm4 import paper_approximation
from matplotlib import pyplot as plt

from missdp.ground_truth import mask_mixture

GATES = [{"a", "b"}, {"b", "c"}, {"c", "d"}, {"a", "d"}]
TARGET = HERE.parents[1] / "docs" / "img" / "ground_truth.svg"


def main():
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "missdp"  # equal drawings give equal files
    mpl.rcParams["svg.fonttype"] = "none"
    rates = np.linspace(0.0, 0.9, 37)
    rows = {"complete rows": [set("abcd")] * 4, "four overlapping marginals": GATES}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, (title, required_sets) in zip(axes, rows.items(), strict=True):
        linear, sound, exact = [], [], []
        for rate in rates:
            observed = dict.fromkeys("abcd", 1 - rate)
            figures = paper_approximation(required_sets, [0.25] * 4, observed=observed)
            linear.append(figures.linear_epsilon)
            sound.append(figures.sound.cost)
            exact.append(mask_mixture(required_sets, [0.25] * 4, observed=observed).epsilon)
        axis.plot(rates, linear, "--", color="#b2182b", label="linear approximation (no bound)")
        axis.plot(rates, sound, color="#4393c3", label="best partition, sound")
        axis.plot(rates, exact, color="#053061", linewidth=2, label="mask mixture, exact")
        axis.set(title=title, xlabel="missing rate of every attribute", ylim=(0, 1.02))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("ε for the ground truth, at ε = 1")
    axes[1].legend(frameon=False, fontsize=8)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, metadata={"Date": None})
    print(TARGET.name)


if __name__ == "__main__":
    main()
