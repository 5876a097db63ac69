"""Figure 3 of Mohapatra et al. (2024): adaptive against complete rows by missing rate, MCAR.

    python bench/papers/a_figure3.py                         # from the cells of the docs: seconds
    python bench/papers/a_figure3.py --output /tmp/papers-a  # measured again: 17 CPU minutes
    python bench/papers/a_figure3.py --output /tmp/short --short

Epsilon is 1. F1 is the mean over nine learners and two targets, of 5,000 rows. A fifth of the true
rows is held out of the fit, too. The published F1 has all targets, and no rows are held out. F1 and
DPAutoGAN are single fits.
"""

import sys

import numpy as np
from a_shared import (
    ADAPTIVE,
    COLOURS,
    DATA,
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

RATES = (0.1, 0.2, 0.3)


def ways(family):
    also = ("joint",) if family in ("PrivBayes", "AIM") else ()
    return (*also, "observed", "complete-rows")


def cells(short=False):
    """Yield the cells of distances."""
    for data in ("adult",) if short else DATA:
        for family in ("PrivBayes",) if short else QUICK:
            yield Cell("distance", data, "truth", family)
            for rate in RATES[1:2] if short else RATES:
                for missing in ways(family):
                    yield Cell("distance", data, f"mcar_{rate}", family, missing)


def cells_once(short=False):
    """Yield the cells of F1 and of slower families, which are fitted once."""
    if short:
        return
    yield from f1_cells("adult")
    for rate in RATES:
        yield Cell("distance", "adult", f"mcar_{rate}", "DPAutoGAN", "complete-rows")
    yield from f1_cells("br2000")


def f1_cells(data):
    yield Cell("f1", data, "truth", "truth")
    for family in QUICK:
        yield Cell("f1", data, "truth", family)
        for rate in RATES:
            for missing in ("observed", "complete-rows"):
                yield Cell("f1", data, f"mcar_{rate}", family, missing)


def value(measured, what, data, family, rate, missing):
    file = f"mcar_{rate}" if rate else "truth"
    return measured.maybe(what, data=data, file=file, family=family, missing=missing)


def pairs(measured, what, families=QUICK):
    """Data, family, rate, and the figures of adaptive, complete rows and nothing missing."""
    for data in DATA:
        for family in families:
            none = value(measured, what, data, family, 0, "")
            for rate in RATES:
                both = [
                    value(measured, what, data, family, rate, missing)
                    for missing in ("observed", "complete-rows")
                ]
                if not np.isnan([*both, none]).any():
                    yield data, family, rate, *both, none


def percent(values):
    return f"{round(100 * min(values))} to {round(100 * max(values))} %"


def claims(measured):
    metrics = {"one_way": ("one-way", 68), "two_way": ("two-way", 66), "f1": ("F1", 24)}
    for what, (name, published) in metrics.items():
        entries = list(pairs(measured, what))
        sign = 1 if what == "f1" else -1
        better, same = how_many(sign * (a - c) > 0 for *_, a, c, _ in entries)
        by = {
            rate: percent([sign * (a - c) / c for _, _, r, a, c, _ in entries if r == rate])
            for rate in RATES
        }
        yield Claim(
            f"{name}: adaptive is better than complete rows, by up to {published} %",
            f"better in {better}: by {by[0.1]} at 10 %, {by[0.2]} at 20 %, {by[0.3]} at 30 %",
            same,
        )
    for what, name in (("two_way", "two-way"), ("f1", "F1")):
        tenth = [
            (1 - a / none) if what == "f1" else (a / none - 1)
            for _, _, rate, a, _, none in pairs(measured, what)
            if rate == 0.1
        ]
        level, same = how_many(loss <= 0.05 for loss in tenth)
        yield Claim(
            f"{name}: with 10 % missing, adaptive is often level with nothing missing",
            f"within 5 % in {level} ({percent(tenth)} worse)",
            same,
        )
    # The text excludes F1 on BR2000 from its claim.
    for what, name, winner, out in (
        ("two_way", "two-way: PrivBayesE is generally best", "PrivBayes", ()),
        ("f1", "F1: KaminoI is best, but for BR2000,", "Kamino", ("br2000",)),
    ):
        pick = max if what == "f1" else min
        best = {data: [] for data in DATA}
        for data, entries in best.items():
            for rate in RATES:
                by = {
                    f: value(measured, what, data, f, rate, "observed")
                    for f in ("PrivBayes", "Kamino", "DPMisGAN")
                }
                if not np.isnan(list(by.values())).any():
                    entries.append(pick(by, key=by.get))
        counts = (
            f"{DATA[data]}: "
            + ", ".join(f"{ADAPTIVE[f]} {entries.count(f)}" for f in by)
            + f" of {len(entries)}"
            for data, entries in best.items()
        )
        yield Claim(
            f"{name} of the three adaptive ones",
            ". ".join(counts),
            how_many(b == winner for data in best if data not in out for b in best[data])[1],
        )


def table_of(measured, what, families):
    """Adaptive / complete rows by rate, and complete rows only for a baseline."""
    head = ["", "", "nothing missing", *(f"{100 * rate:.0f} %" for rate in RATES)]
    lines = []
    for data, title in DATA.items():
        for family in families:
            if family not in QUICK and data != "adult":
                continue
            digits = 3 if what == "f1" else 4
            is_baseline = family == "DPAutoGAN"
            none = "" if is_baseline else small(value(measured, what, data, family, 0, ""), digits)
            shown = []
            for rate in RATES:
                names = ("complete-rows",) if is_baseline else ("observed", "complete-rows")
                values = [value(measured, what, data, family, rate, name) for name in names]
                shown.append(" / ".join(["–"] * is_baseline + [small(v, digits) for v in values]))
            lines.append([title, family, none, *shown])
    return markdown(head, lines)


def page(measured):
    real = {
        title: small(measured.maybe("f1", data=data, file="truth", family="truth"), 3)
        for data, title in DATA.items()
    }
    return [
        *claims_table(claims(measured)),
        "",
        "Two-way distance, adaptive / complete rows:",
        "",
        *table_of(measured, "two_way", (*QUICK, "DPAutoGAN")),
        "",
        "F1, adaptive / complete rows. Classifiers that are trained on true rows reach "
        + " and ".join(f"{v} ({k})" for k, v in real.items())
        + ":",
        "",
        *table_of(measured, "f1", QUICK),
    ]


def draw(measured, folder):
    figure, axes = canvas(9, 6, 2, 2)
    for at, (what, label) in enumerate((("two_way", "two-way distance"), ("f1", "F1"))):
        for axis, (data, title) in zip(axes[at], DATA.items(), strict=True):
            for family in QUICK:
                for missing, style in (("observed", "-"), ("complete-rows", ":")):
                    shown = [value(measured, what, data, family, r, missing) for r in RATES]
                    name = ADAPTIVE[family] if style == "-" else f"{family}, complete rows"
                    axis.plot(
                        RATES, shown, style, color=COLOURS[family], marker="o", ms=3, label=name
                    )
            none = [value(measured, what, data, family, 0, "") for family in QUICK]
            best = np.nanmax(none) if what == "f1" else min(none)
            axis.axhline(best, color="red", linewidth=1)
            axis.set(title=title, ylabel=label, xlabel="missing, completely at random")
            if what == "two_way":
                ticks = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
                axis.set_yscale("log")
                axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
                axis.minorticks_off()
            axis.set_xticks(RATES, [f"{100 * rate:.0f} %" for rate in RATES])
    save(figure, "figure3", folder)


def main(argv=None):
    run(sys.modules[__name__], argv)


if __name__ == "__main__":
    main()
