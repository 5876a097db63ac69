"""Ground-truth guarantees of every family, strategy and assumption, and of events of every kind.

    python bench/guarantee_cases.py                 # compare with results/guarantee_cases.json
    python bench/guarantee_cases.py --store         # write this file again

Nothing is fitted. A guarantee may get worse by 2 %. A guarantee that gets better must have a proof.
The script lists both kinds.
"""

import argparse
import itertools
import json
import sys
import warnings
from pathlib import Path

import missdp
from missdp import Categorical, Numeric, Schema
from missdp.accounting import (
    ApproximateEvent,
    BoundedObservation,
    FilterEvent,
    GaussianEvent,
    LaplaceEvent,
    MissingCompletelyAtRandom,
    ObservedAtMost,
    PureEvent,
    RDPEvent,
    RowIndependentMissingness,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.errors import MissDPError
from missdp.ground_truth import (
    ChosenRequirements,
    DataChosenRequirements,
    FixedRequirements,
    ground_truth_guarantee,
    joint,
    planned_ground_truth,
)

STORED = Path(__file__).parent / "results" / "guarantee_cases.json"
RATES = dict(zip("abcdef", (0.9, 0.8, 0.7, 0.6, 0.8, 0.5), strict=True))


def schema(*, never=0, wide=False):
    """Six attributes, the last without bins. The first ``never`` of them are never missing."""
    names = "abcdef" if not wide else [f"q{i}" for i in range(14)]
    attributes = [
        Categorical(name=n, levels=("x", "y", "z"), nullable=i >= never)
        for i, n in enumerate(names)
    ]
    if not wide:
        attributes[-1] = Numeric(name="f", lower=0, upper=100, nullable=True)
    return Schema(tuple(attributes))


def assumptions(of):
    """Every assumption that a user can state about a table with this schema."""
    rates = {n: RATES.get(n, 0.8) for n in of.nullable}
    return {
        "row-independent": RowIndependentMissingness(),
        "mcar .9": MissingCompletelyAtRandom(dict.fromkeys(of.nullable, 0.9)),
        "mcar .5": MissingCompletelyAtRandom(dict.fromkeys(of.nullable, 0.5)),
        "mcar mixed": MissingCompletelyAtRandom(rates),
        "at most": ObservedAtMost(rates),
        "bounded .8": BoundedObservation(0.8),
        "bounded .3": BoundedObservation(0.3),
    }


def options(family):
    """Settings of a family that change which rows its releases read."""
    cases = {
        "PrivBayes": [{}, {"delta": 0.0}],
        "AllPairs": [{}, {"workload": 3}],
    }
    return cases.get(family, [{}])


def planned():
    """Yield name and guarantee of fits of every family, from their parameters."""
    tables = {"all": schema(), "one never": schema(never=1), "wide": schema(wide=True)}
    for family in sorted(missdp.synthesizers().values(), key=lambda f: f.__name__):
        strategies = list(family.family.strategies)
        for strategy, (shape, of), settings, epsilon in itertools.product(
            strategies, tables.items(), options(family.__name__), (1.0, 0.3)
        ):
            if epsilon != 1.0 and shape != "all":
                continue
            model = family(epsilon=epsilon, missing=strategy, **{"delta": 1e-6, **settings})
            for label, assumption in assumptions(of).items():
                name = f"{family.__name__} {settings} {strategy} {shape} {epsilon} {label}"
                yield name, lambda m=model, s=of, a=assumption: planned_ground_truth(m, s, a)


def gaussian(required, sigma=4.0, **more):
    return GaussianEvent(sensitivity=1, sigma=sigma, required=required, **more)


def cap(mu, required=None, label=""):
    capacity = GaussianEvent(sensitivity=mu, sigma=1.0, discrete=False)
    return FilterEvent(capacity=capacity, required=required, label=label)


PAIRS = [*itertools.combinations("abcdef", 2)]
EVENTS = {
    "pure, overlapping": [PureEvent(epsilon=0.25, required=g) for g in ({"a"}, {"b"}, {"c", "b"})],
    "pure, disjoint": [PureEvent(epsilon=0.3, required={n}) for n in "abcd"],
    "pure, pairs": [PureEvent(epsilon=1 / 15, required=set(p)) for p in PAIRS],
    "pure, a chain": [PureEvent(epsilon=0.02, required={f"v{i}", f"v{i + 1}"}) for i in range(40)],
    "pure beside selection": [
        SelectionEvent(epsilon=0.5),
        LaplaceEvent(sensitivity=1, scale=4.0, required={"a", "b"}),
        LaplaceEvent(sensitivity=1, scale=4.0, required={"b", "c"}),
    ],
    "pure beside gaussian": [PureEvent(epsilon=1.0, required={"c"}), ZCDPEvent(rho=0.05)],
    "approximate": [ApproximateEvent(epsilon=1.0, delta=1e-7, required={"a"})],
    "laplace, continuous": [
        LaplaceEvent(sensitivity=1, scale=4.0, required={n}, discrete=False) for n in "abc"
    ],
    "gaussian, one gate": [gaussian({"a", "b"})],
    "gaussian, disjoint": [gaussian({n}) for n in "abcd"],
    "gaussian, continuous": [gaussian({n}, discrete=False) for n in "abcd"],
    "gaussian, nested": [gaussian({"a"}), gaussian({"a", "b"}), gaussian({"c"})],
    "gaussian, shared core": [gaussian({"f", n}) for n in "abcd"],
    "gaussian, a chain": [gaussian(set(p)) for p in itertools.pairwise("abcdef")],
    "gaussian, all pairs": [gaussian(set(p), 8.0) for p in PAIRS],
    "gaussian beside every row": [gaussian({"a"}), gaussian({"b", "c"}), gaussian(None)],
    "gaussian and pure": [gaussian({"a"}), PureEvent(epsilon=0.3, required={"c"})],
    "dp-sgd": [SampledGaussianEvent(rate=0.05, noise_multiplier=1.0, steps=100, required={"a"})],
    "dp-sgd, two": [
        SampledGaussianEvent(rate=0.05, noise_multiplier=1.0, steps=100, required={n}) for n in "ab"
    ],
    "zcdp": [ZCDPEvent(rho=0.1, required={"a"})],
    "zcdp, two gates": [ZCDPEvent(rho=0.1, required={"a"}), ZCDPEvent(rho=0.1, required={"b"})],
    "renyi": [RDPEvent(orders=[2, 8, 32], epsilons=[0.1, 0.4, 1.6], required={n}) for n in "ab"],
    "caps": [cap(0.1, {"a"}), cap(0.1, {"b"}), cap(0.15)],
}
STRUCTURES = {
    "fixed": FixedRequirements(),
    "chosen": DataChosenRequirements(attributes=[*"abcdef"], smallest=1),
    "chosen, shared": DataChosenRequirements(attributes=[*"abcdef"], always=["f"]),
    "targets": DataChosenRequirements(attributes=[*"abcdef"], smallest=1, distinct_targets=True),
}


def events():
    """Yield name and guarantee of events that users state themselves."""
    by_label = assumptions(schema()) | {
        "mcar chain": MissingCompletelyAtRandom({f"v{i}": 0.7 for i in range(41)})
    }
    for (kind, these), (who, structure), (label, assumption) in itertools.product(
        EVENTS.items(), STRUCTURES.items(), by_label.items()
    ):
        pure = kind.startswith("pure") and kind != "pure beside gaussian"
        for delta in (0.0, 1e-6) if pure else (1e-6, 1e-3):
            yield (
                f"events {kind}; {who}; {label}; {delta}",
                lambda e=these, a=assumption, s=structure, d=delta: ground_truth_guarantee(
                    e, a, structure=s, delta=d
                ),
            )
    caps = [cap(0.05, label=ChosenRequirements.selections), *(cap(0.05, {n}) for n in "abcdef")]
    caps.append(cap(0.2, {"a", "b"}, ChosenRequirements.chosen))
    for share, (label, assumption) in itertools.product((1.0, 0.2), by_label.items()):
        structure = ChosenRequirements(among=PAIRS, largest_share=share)
        yield (
            f"events chosen marginals; share {share}; {label}",
            lambda a=assumption, s=structure: ground_truth_guarantee(
                caps, a, structure=s, delta=1e-6
            ),
        )


def together():
    """Yield name and guarantee of two releases of one table together."""
    by_label = assumptions(schema())
    for one, two in itertools.combinations_with_replacement(
        ("pure, overlapping", "gaussian, one gate", "zcdp, two gates", "caps"), 2
    ):
        for label, assumption in by_label.items():
            if label == "row-independent":
                continue

            def both(one=one, two=two, a=assumption):
                delta = {"pure, overlapping": 0.0}
                return joint(
                    [
                        ground_truth_guarantee(
                            EVENTS[k], a, structure=FixedRequirements(), delta=delta.get(k, 1e-6)
                        )
                        for k in (one, two)
                    ],
                    a,
                )

            yield f"joint {one} + {two}; {label}", both


def table():
    """Return the epsilon of each case, or the class of its error."""
    epsilons = {}
    for name, guarantee in itertools.chain(planned(), events(), together()):
        try:
            epsilons[name] = guarantee().epsilon
        except MissDPError as refusal:
            epsilons[name] = type(refusal).__name__
    return epsilons


def compare(before, after):
    """Print cases that differ by more than rounding. Return whether one is worse by over 2 %."""
    worse = 0
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, float) and isinstance(new, float):
            ratio = new / old if old else float("inf")
            if abs(ratio - 1) < 1e-6:
                continue
            worse += ratio > 1.02
            print(f"{ratio:8.4f}  {old:.6g} -> {new:.6g}  {name}")
        else:
            worse += 1
            print(f"{old} -> {new}  {name}")
    print(f"{len(after)} cases, {worse} worse by more than 2 %")
    return bool(worse)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help="write the table again")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    epsilons = table()
    if arguments.store:
        STORED.write_text(json.dumps(epsilons, indent=0) + "\n")
        print(f"{len(epsilons)} cases")
        return 0
    return compare(json.loads(STORED.read_text()), epsilons)


if __name__ == "__main__":
    sys.exit(main())
