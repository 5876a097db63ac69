"""Examples 5.5 to 5.13 of Mohapatra et al. (2024): ground-truth loss of small sets of marginals.

    python bench/papers/a_examples.py          # a second

State, Gender and Income are missing with probability 1/4 each, Occupation is never missing. Epsilon
1 is split evenly. Published figures charge pε for a marginal that a row enters with probability p.
The loss is log(1 + p(e^ε − 1)). The mask mixture adds these losses up for each set of observed
attributes.
"""

import sys

from a_shared import Claim, claims_table, markdown, options
from algorithm4 import paper_approximation, sound_partition

from missdp.ground_truth import mask_mixture

S, O, G, I = "State", "Occupation", "Gender", "Income"  # noqa: E741
OBSERVED = {S: 0.75, O: 1.0, G: 0.75, I: 0.75}
# Marginals, and the published figure as a share of epsilon.
EXAMPLES = {
    "5.5, complete rows": ([{S, O, G, I}] * 4, 0.421),
    "5.7, disjoint marginals": ([{S}, {O}, {G, I}], 0.77),
    "5.8 and 5.11, overlapping marginals": ([{S}, {O}, {G}, {G, I}], 0.81),
    "5.13, attributes one by one": ([{S}, {O}, {G}, {I}], 0.9375),
}


def figures():
    """Return the linear, sound and exact figure of every example."""
    by_name = {}
    for name, (required_sets, _) in EXAMPLES.items():
        even = [1 / len(required_sets)] * len(required_sets)
        paper = paper_approximation(required_sets, even, observed=OBSERVED)
        sound = sound_partition(required_sets, even, observed=OBSERVED).cost
        exact = mask_mixture(required_sets, even, observed=OBSERVED).epsilon
        by_name[name] = (paper.linear_epsilon, sound, exact)
    return by_name


def claims():
    by_name = figures()
    linear = {name: values[0] for name, values in by_name.items()}
    three = list(EXAMPLES)[:3]
    same = all(abs(linear[name] - EXAMPLES[name][1]) < 0.0051 for name in three)
    yield Claim(
        "Examples 5.5 to 5.11: .421, .77 and .81 of epsilon",
        ", ".join(f"{linear[name]:.4f}" for name in three) + " at the linear cost",
        same,
    )
    yield Claim(
        "these are bounds on the loss",
        "sound: " + ", ".join(f"{by_name[name][1]:.4f}" for name in three),
        False,
    )
    name = "5.13, attributes one by one"
    yield Claim(
        "Example 5.13: .9375, since one attribute only may be amplified (Theorem 5.12)",
        f"every attribute amplifies its own model: {by_name[name][2]:.4f}, and proven",
        False,
    )


def page(measured=None):  # noqa: ARG001
    lines = [
        [name, f"{EXAMPLES[name][1]:g}", *(f"{value:.4f}" for value in values)]
        for name, values in figures().items()
    ]
    head = [
        "example",
        "published",
        "linear cost, no bound",
        "best partition, sound",
        "exact mixture",
    ]
    return [*claims_table(claims()), "", *markdown(head, lines)]


def main(argv=None):
    options(__doc__, argv)
    print("\n".join(page()))


if __name__ == "__main__":
    sys.exit(main())
