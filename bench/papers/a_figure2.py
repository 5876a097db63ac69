"""Figure 2 of Mohapatra et al. (2024): missing values, MCAR 20 %, two-way distance.

    python bench/papers/a_figure2.py                         # from the cells of the docs: seconds
    python bench/papers/a_figure2.py --output /tmp/papers-a  # measured again: 9 CPU minutes
    python bench/papers/a_figure2.py --output /tmp/short --short

As published: epsilon 1 (3 for the adversarial family), and delta 1e-6 (0 for PrivBayes, which is
shown with 1e-6, too). A quarter, half or three quarters of the budget go to the released mean that
fills first. The mean of the three is shown. Filling from a private model first is omitted.
"""

import statistics
import sys

from a_shared import (
    COLOURS,
    DATA,
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

SHARES = (0.25, 0.5, 0.75)
SHOWN = ("PrivBayes", "PrivBayes, delta 1e-6", "AIM", "Kamino", "DPMisGAN")
PUBLISHED_WAYS = ("adaptive", "complete rows", "random first", "mean first")


def epsilon_of(family):
    return 3.0 if family == "DPMisGAN" else 1.0


def strategies(family):
    """Name, and settings of the cells whose mean is shown."""
    if family not in ("Kamino", "DPMisGAN"):
        yield "joint", [{"missing": "joint"}]
    yield "adaptive", [{"missing": "observed"}]
    yield "complete rows", [{"missing": "complete-rows"}]
    yield "random first", [{"missing": "impute-first", "imputer": "random"}]
    mean_first = {"missing": "impute-first", "imputer": "mean"}
    yield "mean first", [mean_first | {"share": share} for share in SHARES]


def cells(short=False):
    datasets, families = (("adult",), ("PrivBayes",)) if short else (DATA, SHOWN)
    for data in datasets:
        for family in families:
            settings = {"data": data, "family": family, "epsilon": epsilon_of(family)}
            yield Cell("distance", file="truth", **settings)
            for _, variants in strategies(family):
                for variant in variants:
                    yield Cell("distance", file="mcar_0.2", **settings, **variant)


def cells_once(short=False):  # noqa: ARG001
    return ()


def row(measured, data, family, what="two_way"):
    """Return the figures of all strategies, and the figure with nothing missing."""
    settings = {"data": data, "family": family, "epsilon": epsilon_of(family)}
    by_strategy = {"nothing missing": measured.mean(what, file="truth", **settings)}
    for name, variants in strategies(family):
        by_strategy[name] = statistics.mean(
            measured.mean(what, file="mcar_0.2", **settings, **variant) for variant in variants
        )
    return by_strategy


def claims(measured):
    rows = [row(measured, data, family) for data in DATA for family in SHOWN]
    ways = [[w for w in PUBLISHED_WAYS if w in by_strategy] for by_strategy in rows]
    orders = [sorted(w, key=by_strategy.get) for w, by_strategy in zip(ways, rows, strict=True)]
    best, same = how_many(order[0] == "adaptive" for order in orders)
    yield Claim("adaptive is generally best", f"best in {best}", same)
    second, same = how_many(order[1] == "complete rows" for order in orders)
    yield Claim("complete rows are often second", f"second in {second}, of four ways", same)
    worse, same = how_many(
        by_strategy["random first"] > 1.5 * by_strategy["adaptive"] for by_strategy in rows
    )
    yield Claim(
        "filling at random is ineffective",
        f"more than half as much error again as adaptive in {worse}",
        same,
    )


def page(measured):
    head = ["", "", "nothing missing", "joint", *PUBLISHED_WAYS]
    lines = []
    for data, title in DATA.items():
        for family in SHOWN:
            by_strategy = row(measured, data, family)
            cells = [small(by_strategy[name]) if name in by_strategy else "" for name in head[2:]]
            lines.append([title, family, *cells])
    return [*claims_table(claims(measured)), "", *markdown(head, lines)]


def draw(measured, folder):
    figure, axes = canvas(9, 3.4, 1, 2)
    for axis, (data, title) in zip(axes[0], DATA.items(), strict=True):
        for i, family in enumerate(SHOWN):
            by_strategy = row(measured, data, family)
            shown = [by_strategy.get(name, float("nan")) for name in PUBLISHED_WAYS]
            places = [j + 0.16 * (i - 2) for j in range(len(shown))]
            axis.bar(places, shown, 0.16, color=COLOURS[family], label=family)
        smallest = min(row(measured, data, f)["nothing missing"] for f in SHOWN)
        axis.axhline(smallest, color="red", linewidth=1)
        ticks = [name.replace(" ", "\n") for name in PUBLISHED_WAYS]
        axis.set_xticks(range(len(shown)), ticks, fontsize=8)
        axis.set(title=f"{title}, MCAR 20 %", ylabel="two-way distance")
    save(figure, "figure2", folder)


def main(argv=None):
    run(sys.modules[__name__], argv)


if __name__ == "__main__":
    main()
