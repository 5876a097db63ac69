"""How the cost of amplification grows with attributes: mask mixture, partition search, Bell.

Algorithm 4 of Mohapatra et al. (2024) visits every partition of the attributes; the mask mixture is
a variable elimination whose cost follows the width of the marginals' graph. The marginals are of
two kinds: a degree-2 Bayesian network (width stays small) and random three-way sets (width grows).

    python bench/amplification_growth.py
"""

import argparse
import time

import numpy as np
from algorithm4 import sound_partition

from missdp.ground_truth import mask_mixture


def network(attributes, rng):
    """Each attribute with up to two of the three before it: marginals of a local network."""
    names = [f"a{i}" for i in range(attributes)]
    gates = []
    for i, name in enumerate(names):
        before = names[max(0, i - 3) : i]
        parents = rng.choice(before, size=min(2, len(before)), replace=False) if before else []
        gates.append({name, *parents})
    return names, gates


def random_sets(attributes, rng):
    """Twice as many random three-way marginals as attributes."""
    names = [f"a{i}" for i in range(attributes)]
    return names, [set(rng.choice(names, 3, replace=False)) for _ in range(2 * attributes)]


def bell(n):
    """Number of partitions of n things."""
    row = [1]
    for _ in range(n - 1):
        following = [row[-1]]
        for value in row:
            following.append(following[-1] + value)
        row = following
    return row[-1]


def seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=60, help="largest number of attributes")
    parser.add_argument("--search", type=int, default=20, help="largest for the partition search")
    options = parser.parse_args()
    header = "family    attrs  marginals  width  exact  mixture   time s | partition  time s"
    print(header + " | partitions to enumerate")
    for family in (network, random_sets):
        for attributes in (5, 10, 15, 20, 30, 40, 60):
            if attributes > options.most:
                continue
            rng = np.random.default_rng(attributes)
            names, gates = family(attributes, rng)
            observed = dict(zip(names, rng.uniform(0.6, 0.95, attributes).tolist(), strict=True))
            epsilons = [1 / len(gates)] * len(gates)
            took, bound = seconds(
                lambda g=gates, e=epsilons, o=observed: mask_mixture(g, e, observed=o)
            )
            line = (
                f"{family.__name__:11s} {attributes:3d}  {len(gates):9d}  {bound.width:5d}  "
                f"{bound.exact!s:5s}  {bound.epsilon:.5f}  {took:7.4f} |"
            )
            if attributes <= options.search:
                took, sound = seconds(
                    lambda g=gates, e=epsilons, o=observed: sound_partition(g, e, observed=o)
                )
                line += f"   {sound.cost:.5f}  {took:6.2f} |"
            else:
                line += "         -       - |"
            print(f"{line} {bell(attributes):.3g}")


if __name__ == "__main__":
    main()
