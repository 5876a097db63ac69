"""Numbers in the text of Mohapatra et al. (2024): the utility that complete rows lose, MCAR.

    python bench/papers/a_decay.py                         # from the cells of the docs: seconds
    python bench/papers/a_decay.py --output /tmp/papers-a  # measured again: 11 CPU minutes
    python bench/papers/a_decay.py --output /tmp/short --short

Relative growth of the two-way distance (and fall of F1) from nothing missing to complete rows, at
epsilon 1. The published data have no 5 %. These missing cells are drawn here, once for each seed.
"""

import sys

from a_figure3 import f1_cells, pairs
from a_shared import DATA, QUICK, Cell, Claim, canvas, claims_table, markdown, run, save

FILES = {"5 %": "simulated_mcar_0.05", "10 %": "mcar_0.1", "20 %": "mcar_0.2"}


def cells(short=False):
    for data in ("adult",) if short else DATA:
        for family in ("PrivBayes",) if short else QUICK:
            yield Cell("distance", data, "truth", family)
            for file in FILES.values():
                yield Cell("distance", data, file, family, "complete-rows")


def cells_once(short=False):
    """F1, which the third figure measures, too."""
    if short:
        return
    for data in DATA:
        yield from f1_cells(data)


def growth(measured, data, family, rate):
    """Return the relative growth of the distance."""
    none = measured.mean("two_way", data=data, file="truth", family=family)
    settings = {"data": data, "family": family, "missing": "complete-rows"}
    return measured.mean("two_way", file=FILES[rate], **settings) / none - 1


def span(values):
    return f"{100 * min(values):.0f} to {100 * max(values):.0f} %"


def claims(measured):
    by = {
        rate: [growth(measured, data, family, rate) for data in DATA for family in QUICK]
        for rate in FILES
    }
    yield Claim(
        "5 to 23 % less utility with 5 % missing or less", f"{span(by['5 %'])} at 5 %", False
    )
    yield Claim(
        "10 to 190 % with 20 % missing or less",
        f"{span(by['10 %'])} at 10 %, {span(by['20 %'])} at 20 %",
        False,
    )
    losses = [1 - c / none for _, _, rate, _, c, none in pairs(measured, "f1") if rate == 0.1]
    yield Claim("F1 lower by 4 to 18.5 % with 10 % missing", f"lower by {span(losses)}", None)
    gains = [1 - a / c for *_, a, c, _ in pairs(measured, "two_way")]
    yield Claim(
        "adaptive strategies improve utility by 15 to 72 % (at most)",
        f"two-way distance {span(gains)} lower at 10 to 30 %",
        max(gains) >= 0.15,
    )


def page(measured):
    lines = []
    for data, title in DATA.items():
        for family in QUICK:
            grown = [f"{100 * growth(measured, data, family, rate):.0f} %" for rate in FILES]
            lines.append([title, family, *grown])
    head = ["growth of two-way distance, complete rows", "", *FILES]
    return [*claims_table(claims(measured)), "", *markdown(head, lines)]


def draw(measured, folder):
    figure, axes = canvas(6.5, 3.4, 1, 1)
    for i, rate in enumerate(FILES):
        shown = [100 * growth(measured, data, family, rate) for data in DATA for family in QUICK]
        axes[0][0].bar(
            [j + 0.27 * (i - 1) for j in range(len(shown))], shown, 0.27, label=f"{rate} missing"
        )
    names = [f"{family}\n{title}" for title in DATA.values() for family in QUICK]
    axes[0][0].set_xticks(range(len(names)), names, fontsize=6)
    axes[0][0].set(yscale="log", ylabel="growth of two-way distance, %")
    save(figure, "decay", folder)


def main(argv=None):
    run(sys.modules[__name__], argv)


if __name__ == "__main__":
    main()
