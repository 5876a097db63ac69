"""Table 1 of Mohapatra et al. (2024), recomputed: what marginals cost for the ground truth.

    python bench/papers/a_table1.py            # about 4 CPU seconds
    python bench/papers/a_table1.py --short    # the first rate of each
    python bench/papers/a_table1.py --row      # the line of docs/referees/claims.md

(It is Table 2 of the longer version.) PrivBayesE's own marginals at each missing rate, epsilon 1
split evenly: the published figure; what comes out if sets of attributes are compared as text, as
the public code does ("a1" is then found in "a10"); a correct Algorithm 4 at its linear cost, which
is no bound; the same search at the sound cost; that search without Lemma 5.10's pruning; the exact
mask mixture; a guarantee for any Bayesian network over the same attributes (every attribute is the
child of one marginal); and one gate of all attributes (complete rows only), linear and sound.

All but "any network" are *ex-post* figures: the data chose the marginals, and they would be true
had these been fixed in advance. "Any network" is attained by the one without edges, each attribute
by itself, which a release may choose. None covers the private choice of the network itself.
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

    A block of several attributes, written without commas, is never found in a marginal, written
    with them: the best partition has one attribute in each block. A block costs 1 - rate for each
    name found in its own name, and serves every marginal in whose text it is found.
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
    """Return the exact loss of the network of as many marginals, each of one attribute."""
    alone = [{name} for name in map(str, range(len(required_sets)))]
    observed = {name: 1 - rate for (name,) in alone}
    return mask_mixture(
        alone, [1 / len(required_sets)] * len(required_sets), observed=observed
    ).epsilon


def row(name="adult", rate=0.4):
    """Return the table's line among all published claims; each figure names its assumption."""
    _, linear, sound, _, exact, network, *_ = figures(name, rate)
    published = PUBLISHED[name][RATES.index(rate)]
    alone = without_edges(marginals(name, rate), rate)
    cells = [
        f"Table 1 (A, 2 in the longer version), {DATA[name]}, {rate:g} missing",
        f"{published:g}",
        f"{alone:.4f}, if the data chose the network without edges. Of the network that they "
        f"chose, had it been fixed, the algorithm gives {linear:.3f}, soundly {sound:.3f}",
        f"{network:.4f} for any network, {exact:.3f} had that network been fixed",
    ]
    return f"| {' | '.join(cells)} |".replace(" 0.", " .")


def claims(by):
    published = {cell: PUBLISHED[cell[0]][RATES.index(cell[1])] for cell in by}
    gaps = [abs(found[1] - published[cell]) for cell, found in by.items()]
    text = [abs(found[0] - published[cell]) for cell, found in by.items()]
    yield Claim(
        "the ten figures are the costs of the best partitions (Algorithm 4)",
        f"a correct search finds others, {min(gaps):.3f} to {max(gaps):.3f} away; a search that "
        f"compares names as text finds all ten within {max(text):.3f}",
        False,
    )
    higher = [found[2] - found[1] for found in by.values()]
    yield Claim(
        "a marginal that a row enters with probability p costs pε (Proposition 5.4)",
        "it costs log(1 + p(e^ε − 1)); with it the same search is "
        f"{min(higher):.3f} to {max(higher):.3f} "
        "higher",
        False,
    )
    beyond = sum(
        without_edges(marginals(*cell), cell[1]) > most + 0.005 for cell, most in published.items()
    )
    yield Claim(
        "the figure is what the release guarantees, whatever network it chooses (section 6.2.3)",
        f"the network without edges loses more than the published figure in {beyond} of {len(by)}",
        False,
    )
    unpruned = sum(f[3] < f[2] - 0.0005 for f in by.values())
    yield Claim(
        "partitions with an empty group can be left out (Lemma 5.10)",
        f"the best partition has one in {unpruned} of {len(by)}",
        False,
    )
    yield Claim(
        "the cost falls almost linearly as more is missing",
        f"so does every column; the exact mask mixture is below the published figure in "
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
            *(f"{value:.3f}" for value in found[:6]),
            *(f"{value:.4f}" for value in found[6:]),
        ]
        for (name, rate), found in by.items()
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
