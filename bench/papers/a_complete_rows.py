"""Section 4.1 of Mohapatra et al. (2024): the number and the bias of complete rows.

    python bench/papers/a_complete_rows.py          # seconds, without fits and without privacy

The script prints two-way distances to the truth: of the complete rows without noise, and of as many
rows drawn at random from the truth (mean of five draws). The difference of these distances is bias.
"""

import sys

import numpy as np
from a_shared import DATA, Claim, claims_table, markdown, options, small, table, truth_of

from missdp.evaluate import marginal_distance

FILES = ("mcar_0.1", "mcar_0.2", "mcar_0.3", "mar_0.1", "mar_0.2", "mar_0.3")
FILES += ("mnar_0.1", "mnar_0.2", "mnar_0.3")
DRAWS = 5


def complete_rows(data, file):
    """Return the number of complete rows, their distance, and the distance of random rows."""
    truth, incomplete = truth_of(data, False), table(data, file)
    complete = np.flatnonzero(~incomplete.incomplete_rows())
    rng = np.random.default_rng(0)
    drawn = [
        marginal_distance(truth, truth.take(rng.permutation(len(truth))[: len(complete)]), k=2).mean
        for _ in range(DRAWS)
    ]
    return (
        len(complete),
        marginal_distance(truth, truth.take(complete), k=2).mean,
        float(np.mean(drawn)),
    )


def claims(by):
    adult = {file: by["adult", file][0] for file in FILES}
    yield Claim(
        "Adult's 32,000 rows: about 5,000 complete with MAR 20 %, 1,000 with MCAR or MNAR 20 %",
        f"MAR {adult['mar_0.2']:,}, MCAR {adult['mcar_0.2']:,}, MNAR {adult['mnar_0.2']:,}, of "
        "30,162 (the published files hold the originally complete rows)",
        True,
    )
    shares = {}
    for kind in ("mcar", "mar", "mnar"):
        ratios = [
            one / two for (_, file), (_, one, two) in by.items() if file.startswith(kind + "_")
        ]
        shares[kind] = ratios
    yield Claim(
        "complete rows are biased under MAR and MNAR, not under MCAR",
        "error over that of as many random rows: "
        + ", ".join(f"{k.upper()} {min(v):.1f} to {max(v):.1f}" for k, v in shares.items()),
        max(shares["mcar"]) < 1.2 and min(shares["mar"] + shares["mnar"]) > 1.2,
    )


def page(measured=None):  # noqa: ARG001
    by = {(data, file): complete_rows(data, file) for data in DATA for file in FILES}
    lines = []
    for (data, file), (rows, biased, drawn) in by.items():
        kind, rate = file.split("_")
        name = f"{kind.upper()} {100 * float(rate):.0f} %"
        lines.append([DATA[data], name, f"{rows:,}", small(biased), small(drawn)])
    head = ["", "missing", "complete rows", "their distance", "of as many random rows"]
    return [*claims_table(claims(by)), "", *markdown(head, lines)]


def main(argv=None):
    options(__doc__, argv)
    print("\n".join(page()))


if __name__ == "__main__":
    sys.exit(main())
