"""Table 1 of Mohapatra et al. (2024), recomputed: ground-truth loss of marginals.

    python bench/papers/a_table1.py            # about 4 CPU seconds
    python bench/papers/a_table1.py --short    # the first rate of each
    python bench/papers/a_table1.py --row      # the line of docs/referees/claims.md

The table is Table 2 of the longer version. It has PrivBayesE's marginals at each missing rate, with
epsilon 1 split evenly. The columns are:

* published: the published figure.
* as text: sets of attributes are compared as text, as in the public code ("a1" is a part of "a10").
* linear: a correct Algorithm 4 at its linear cost, which is no bound.
* sound: this search at the sound cost.
* unpruned: this search at the sound cost without Lemma 5.10's pruning.
* exact: the exact mask mixture.
* any network: a guarantee for any Bayesian network over these attributes (every attribute is the
  child of one marginal).
* complete rows: all attributes are required, at the linear and at the sound cost.

All columns except "any network" are *ex-post* figures: the data chose the marginals, and the
figures would be true for marginals that are fixed in advance. A network without edges, with single
attributes, attains "any network", and a release may choose this network. No figure covers the
private choice of the network.
"""

import json
import sys
from functools import cache

from a_shared import DATA, SHARED, Claim, claims_table, markdown, options
from algorithm4 import paper_approximation, sound_partition

from missdp.ground_truth import amplified_epsilon, distinct_targets_bound, mask_mixture

RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
PUBLISHED = {
    "adult": (0.88, 0.77, 0.65, 0.47, 0.44),
    "br2000": (0.83, 0.68, 0.55, 0.41, 0.31),
}
HEAD = [
    "",
    "missing",
    "published",
    "as text",
    "linear",
    "sound",
    "unpruned",
    "exact",
    "any network",
]
HEAD += ["complete rows: linear", "sound"]


def marginals(name, rate):
    path = SHARED / name / "privbayese_marginals" / f"{name}_1_{rate}.txt"
    return [frozenset(line.split()) for line in path.read_text().splitlines() if line.strip()]


def as_text(name, required_sets, rate):
    """Return the figure of a search that looks for names inside other names.

    The text of a block has no commas, and the text of a marginal has commas. Blocks of several
    attributes are therefore never found, and the best partition has one attribute in each block. A
    block costs 1 - rate for each name inside its name. It serves every marginal that contains its
    name as text.
    """
    names = list(json.loads((SHARED / name / "domain.json").read_text()))
    blocks = {a: (1 - rate) ** sum(other in a for other in names) for a in names}
    texts = [",".join(names[int(place)] for place in required) for required in required_sets]
    return sum(min(cost for a, cost in blocks.items() if a in text) for text in texts) / len(
        required_sets
    )


@cache
def figures(name, rate):
    """Return the figures of a cell of the table, in the order of its head."""
    required_sets = marginals(name, rate)
    observed = {attribute: 1 - rate for required in required_sets for attribute in required}
    epsilons = [1 / len(required_sets)] * len(required_sets)
    paper = paper_approximation(required_sets, epsilons, observed=observed)
    every = (1 - rate) ** len(observed)
    return (
        as_text(name, required_sets, rate),
        paper.linear_epsilon,
        paper.sound.cost,
        sound_partition(required_sets, epsilons, observed=observed).cost,
        mask_mixture(required_sets, epsilons, observed=observed).epsilon,
        distinct_targets_bound(epsilons, attributes=observed.keys(), observed=observed),
        every,
        amplified_epsilon(every, 1.0),
    )


def without_edges(required_sets, rate):
    """Return the exact loss of a network with marginals of single attributes."""
    singles = [{name} for name in map(str, range(len(required_sets)))]
    observed = {name: 1 - rate for (name,) in singles}
    return mask_mixture(
        singles, [1 / len(required_sets)] * len(required_sets), observed=observed
    ).epsilon


def row(name="adult", rate=0.4):
    """Return the table's line for the page of claims, where each figure names its assumption."""
    _, linear, sound, _, exact, network, *_ = figures(name, rate)
    published = PUBLISHED[name][RATES.index(rate)]
    loss = without_edges(marginals(name, rate), rate)
    cells = [
        f"Table 1 (A, 2 in the longer version), {DATA[name]}, {rate:g} missing",
        f"{published:g}",
        f"{loss:.4f}, if the data chose the network without edges. Of the network that they "
        f"chose, had it been fixed, the algorithm gives {linear:.3f}, soundly {sound:.3f}",
        f"{network:.4f} for any network, {exact:.3f} had that network been fixed",
    ]
    return f"| {' | '.join(cells)} |".replace(" 0.", " .")


def claims(by):
    published = {cell: PUBLISHED[cell[0]][RATES.index(cell[1])] for cell in by}
    gaps = [abs(values[1] - published[cell]) for cell, values in by.items()]
    text = [abs(values[0] - published[cell]) for cell, values in by.items()]
    yield Claim(
        "the ten figures are the costs of the best partitions (Algorithm 4)",
        f"a correct search finds others, {min(gaps):.3f} to {max(gaps):.3f} away. A search that "
        f"compares names as text finds all ten within {max(text):.3f}",
        False,
    )
    higher = [values[2] - values[1] for values in by.values()]
    yield Claim(
        "a marginal that a row enters with probability p costs pε (Proposition 5.4)",
        "the cost is log(1 + p(e^ε − 1)), with which this search is "
        f"{min(higher):.3f} to {max(higher):.3f} "
        "higher",
        False,
    )
    exceeding = sum(
        without_edges(marginals(*cell), cell[1]) > limit + 0.005
        for cell, limit in published.items()
    )
    yield Claim(
        "the release guarantees the figure for any network that it chooses (section 6.2.3)",
        "the network without edges loses more than the published figure in "
        f"{exceeding} of {len(by)}",
        False,
    )
    unpruned = sum(f[3] < f[2] - 0.0005 for f in by.values())
    yield Claim(
        "partitions with an empty group can be omitted (Lemma 5.10)",
        f"the best partition has an empty group in {unpruned} of {len(by)}",
        False,
    )
    yield Claim(
        "the cost falls almost linearly as more is missing",
        f"every column falls likewise, and the exact mask mixture is below the published figure in "
        f"{sum(f[4] < published[cell] for cell, f in by.items())} of {len(by)}",
        True,
    )


def page(measured=None, rates=RATES):  # noqa: ARG001
    by = {(name, rate): figures(name, rate) for name in DATA for rate in rates}
    lines = [
        [
            DATA[name],
            f"{100 * rate:.0f} %",
            f"{PUBLISHED[name][RATES.index(rate)]:.2f}",
            *(f"{value:.3f}" for value in values[:6]),
            *(f"{value:.4f}" for value in values[6:]),
        ]
        for (name, rate), values in by.items()
    ]
    shown = claims_table(claims(by)) if len(rates) == len(RATES) else []
    return [*shown, "", *markdown(HEAD, lines)]


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    options(__doc__, [a for a in argv if a not in ("--short", "--row")])
    if "--row" in argv:
        print(row())
        return
    print("\n".join(page(rates=RATES[:1] if "--short" in argv else RATES)))


if __name__ == "__main__":
    main()
