"""Figure 5 of Mohapatra et al. (2024): adaptive against complete rows by epsilon, Adult, MCAR 10 %.

    python bench/papers/a_figure5.py                         # from the cells of the docs: seconds
    python bench/papers/a_figure5.py --output /tmp/papers-a  # measured again: 9 CPU minutes
    python bench/papers/a_figure5.py --output /tmp/short --short

The figures are two-way distances. The published figure has also a run without privacy, which this
library cannot do. The last epsilon is 100 instead.
"""

import itertools
import sys

from a_figure3 import ways
from a_shared import (
    ADAPTIVE,
    COLOURS,
    QUICK,
    Cell,
    Claim,
    canvas,
    claims_table,
    how_many,
    markdown,
    run,
    save,
    small,
)

EPSILONS = (0.5, 1.0, 3.0, 5.0, 10.0, 100.0)
FILE = {"data": "adult", "file": "mcar_0.1"}
ADAPTIVE_ONES = ("PrivBayes", "Kamino", "DPMisGAN")


def cells(short=False):
    for family in ("PrivBayes",) if short else QUICK:
        for epsilon in EPSILONS[1:3] if short else EPSILONS:
            for missing in ways(family):
                yield Cell("distance", **FILE, family=family, missing=missing, epsilon=epsilon)


def cells_once(short=False):  # noqa: ARG001
    return ()


def curve(measured, family, missing):
    return [
        measured.mean("two_way", **FILE, family=family, missing=missing, epsilon=epsilon)
        for epsilon in EPSILONS
    ]


def claims(measured):
    curves = {f: curve(measured, f, "observed") for f in QUICK}
    every = [*curves.values(), *(curve(measured, f, "complete-rows") for f in QUICK)]
    falls, same = how_many(b < a for c in every for a, b in itertools.pairwise(c))
    not_so = [ADAPTIVE[f] for f, c in curves.items() if sorted(c, reverse=True) != c]
    less = f"in {falls} steps" + (f", not for {', '.join(not_so)}" if not_so else "")
    yield Claim("more epsilon, less error, for all", less, same)
    for family in ("PrivBayes", "Kamino"):
        wins, same = how_many(
            a < b for a, b in zip(curves[family], curves["DPMisGAN"], strict=True)
        )
        yield Claim(
            f"{ADAPTIVE[family]} is better than the GAN at every epsilon", f"at {wins}", same
        )
    ratios = [a / b for a, b in zip(curves["PrivBayes"], curves["Kamino"], strict=True)]
    crossed = [r < 1 for r in ratios]
    small_ones, large = crossed[:2], crossed[2:]
    yield Claim(
        "PrivBayesE is better up to epsilon 1, KaminoI above",
        f"PrivBayesE has {ratios[0]:.2f}, {ratios[1]:.2f} times its error at .5 and 1, "
        f"{min(ratios[2:]):.2f} to {max(ratios[2:]):.2f} times above",
        True if all(small_ones) and not any(large) else None if not any(large) else False,
    )


def page(measured):
    head = ["two-way distance", *(f"ε {epsilon:g}" for epsilon in EPSILONS)]
    lines = []
    for family in QUICK:
        for missing in ways(family):
            name = {
                "joint": f"{family}, `joint`",
                "observed": ADAPTIVE[family],
                "complete-rows": f"{family}, complete rows",
            }[missing]
            lines.append([name, *map(small, curve(measured, family, missing))])
    return [*claims_table(claims(measured)), "", *markdown(head, lines)]


def draw(measured, folder):
    figure, axes = canvas(6.5, 3.8, 1, 1)
    axis = axes[0][0]
    for family in QUICK:
        for missing in ("observed", "complete-rows"):
            adaptive = missing == "observed"
            axis.plot(
                EPSILONS,
                curve(measured, family, missing),
                "-" if adaptive else ":",
                color=COLOURS[family],
                marker="o",
                ms=3,
                label=ADAPTIVE[family] if adaptive else f"{family}, complete rows",
            )
    axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="two-way distance")
    axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ticks = (0.005, 0.01, 0.02, 0.05, 0.1)
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_title("Adult, MCAR 10 %")
    save(figure, "figure5", folder)


def main(argv=None):
    run(sys.modules[__name__], argv)


if __name__ == "__main__":
    main()
