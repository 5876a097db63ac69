"""Table 2 of Mohapatra et al. 2024, recomputed: what marginals cost for the ground truth.

Published figure, a correct Algorithm 4 at its linear cost, the same search at the sound cost, the
sound search without Lemma 5.10's pruning, the exact mask mixture, and complete rows only.

    python bench/amplification_table2.py [--data ../shared/data]

All are *ex-post* figures: the data chose the marginals. The last column is a guarantee instead,
for any Bayesian network over the same attributes (every attribute is the child of one marginal).
None covers the private choice of the network itself.
"""

import argparse
import time
from pathlib import Path

from algorithm4 import paper_approximation, sound_partition

from missdp.ground_truth import amplified_epsilon, distinct_targets_bound, mask_mixture

HERE = Path(__file__).resolve().parents[2] / "shared" / "data"
PUBLISHED = {
    "adult": (0.88, 0.77, 0.65, 0.47, 0.44),
    "br2000": (0.83, 0.68, 0.55, 0.41, 0.31),
}


def marginals(folder, name, rate):
    path = folder / name / "privbayese_marginals" / f"{name}_1_{rate}.txt"
    return [frozenset(line.split()) for line in path.read_text().splitlines() if line.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE)
    folder = parser.parse_args().data
    print(
        "data    missing  published  linear  sound  unpruned   exact    rows: linear  sound"
        "  any network  seconds"
    )
    for name, published in PUBLISHED.items():
        for rate, figure in zip((0.1, 0.2, 0.3, 0.4, 0.5), published, strict=True):
            gates = marginals(folder, name, rate)
            observed = {attribute: 1 - rate for gate in gates for attribute in gate}
            epsilons = [1 / len(gates)] * len(gates)
            start = time.perf_counter()
            paper = paper_approximation(gates, epsilons, observed=observed)
            free = sound_partition(gates, epsilons, observed=observed).cost
            exact = mask_mixture(gates, epsilons, observed=observed).epsilon
            any_network = distinct_targets_bound(
                epsilons, attributes=observed.keys(), observed=observed
            )
            every = (1 - rate) ** len(observed)
            rows = amplified_epsilon(every, 1.0)
            took = time.perf_counter() - start
            print(
                f"{name:7s} {rate:7.1f}  {figure:9.2f}  {paper.linear_epsilon:6.3f}  "
                f"{paper.sound.cost:5.3f}  {free:8.3f}  {exact:6.3f}  "
                f"{every:13.4f} {rows:6.4f}  {any_network:11.3f}  {took:7.2f}"
            )


if __name__ == "__main__":
    main()
