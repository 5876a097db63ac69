"""Figure 4 of Mohapatra et al. (2024): adaptive against complete rows, by missing mechanism.

    python bench/papers/a_figure4.py                         # from the cells of the docs: seconds
    python bench/papers/a_figure4.py --output /tmp/papers-a  # measured again: 7 CPU minutes
    python bench/papers/a_figure4.py --output /tmp/short --short

10 % missing, epsilon 1, two-way distance. "MAR, same rows" is MAR at twice the rate, which leaves
about as many complete rows as MCAR 10 %.
"""

import sys

from a_figure3 import ways
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
    table,
)

FILES = {"MCAR": "mcar_0.1", "MAR": "mar_0.1", "MAR, same rows": "mar_0.2", "MNAR": "mnar_0.1"}


def cells(short=False):
    for data in ("adult",) if short else DATA:
        for family in ("PrivBayes",) if short else QUICK:
            yield Cell("distance", data, "truth", family)
            for file in FILES.values():
                for missing in ways(family):
                    yield Cell("distance", data, file, family, missing)


def cells_once(short=False):  # noqa: ARG001
    return ()


def value(measured, data, family, kind, missing):
    file = FILES[kind] if kind else "truth"
    return measured.mean("two_way", data=data, file=file, family=family, missing=missing)


def claims(measured):
    pairs = [
        (kind, *(value(measured, data, family, kind, m) for m in ("observed", "complete-rows")))
        for data in DATA
        for family in QUICK
        for kind in FILES
    ]
    better, same = how_many(a < c for _, a, c in pairs)
    yield Claim("adaptive beats complete rows under every mechanism", f"better in {better}", same)
    rows = {
        (data, kind): int((~table(data, file).incomplete_rows()).sum())
        for data in DATA
        for kind, file in FILES.items()
    }
    counts = ". ".join(
        f"{title}: " + ", ".join(f"{kind} {rows[data, kind]:,}" for kind in FILES)
        for data, title in DATA.items()
    )
    more = all(rows[data, "MAR"] > max(rows[data, "MCAR"], rows[data, "MNAR"]) for data in DATA)
    yield Claim("at 10 %, MAR leaves more complete rows than the others", counts, more)
    worse = [
        value(measured, data, family, "MAR, same rows", "complete-rows")
        / value(measured, data, family, "MAR", "complete-rows")
        for data in DATA
        for family in QUICK
    ]
    beside = [
        value(measured, data, family, "MAR, same rows", "complete-rows")
        / value(measured, data, family, "MCAR", "complete-rows")
        for data in DATA
        for family in QUICK
    ]
    yield Claim(
        "MAR with as few complete rows is poor, too (complete rows)",
        f"{min(worse):.1f} to {max(worse):.1f} times the error of MAR at half the rate",
        min(worse) > 1,
    )
    more, same = how_many(w > b for w, b in zip(worse, beside, strict=True))
    yield Claim(
        "so the number of complete rows matters more than the mechanism",
        f"with as many complete rows, MAR has {min(beside):.1f} to {max(beside):.1f} times the "
        f"error of MCAR. The loss by fewer rows is larger in {more}",
        same,
    )
    chosen = [
        value(measured, data, family, kind, "observed")
        / value(measured, data, family, kind, "joint")
        for data in DATA
        for family in ("PrivBayes", "AIM")
        for kind in ("MAR", "MAR, same rows", "MNAR")
    ]
    yield Claim(
        "(not published) values and missing cells modelled together",
        f"adaptive has {min(chosen):.2f} to {max(chosen):.2f} times the error of `joint` under MAR "
        "and MNAR (PrivBayes and AIM)",
        "new",
    )


def page(measured):
    head = ["", "", "nothing missing", *FILES]
    lines = []
    for data, title in DATA.items():
        for family in QUICK:
            shown = []
            for kind in FILES:
                names = ways(family)
                figures = [small(value(measured, data, family, kind, name)) for name in names]
                shown.append(" / ".join(["–"] * (3 - len(figures)) + figures))
            lines.append([title, family, small(value(measured, data, family, "", "")), *shown])
    return [
        *claims_table(claims(measured)),
        "",
        "Two-way distance, `joint` / adaptive / complete rows:",
        "",
        *markdown(head, lines),
    ]


def draw(measured, folder):
    figure, axes = canvas(9, 3.4, 1, 2)
    for axis, (data, title) in zip(axes[0], DATA.items(), strict=True):
        for i, family in enumerate(QUICK):
            for missing, hatch in (("observed", ""), ("complete-rows", "///")):
                shown = [value(measured, data, family, kind, missing) for kind in FILES]
                shift = 0.1 * (2 * i + bool(hatch) - 3.5)
                name = f"{family}, complete rows" if hatch else ADAPTIVE[family]
                axis.bar(
                    [j + shift for j in range(len(FILES))],
                    shown,
                    0.1,
                    color="white" if hatch else COLOURS[family],
                    edgecolor=COLOURS[family],
                    hatch=hatch,
                    label=name,
                )
        least = min(value(measured, data, family, "", "") for family in QUICK)
        axis.axhline(least, color="red", linewidth=1)
        axis.set_xticks(range(len(FILES)), [k.replace(", ", ",\n") for k in FILES], fontsize=8)
        axis.set(title=f"{title}, 10 % missing", ylabel="two-way distance")
    save(figure, "figure4", folder)


def main(argv=None):
    run(sys.modules[__name__], argv)


if __name__ == "__main__":
    main()
