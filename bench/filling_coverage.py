r"""Coverage of Rubin's 95 % intervals of means, from tables that `DPImputer` filled ten times.

The bundled survey's complete rows are the population. Each repetition draws 4,000 of them. Cells of
all columns except gender go missing, completely at random (20 %) or by gender (35 % on average).
Then a model is fitted, cells are filled, and estimates are pooled. Do the intervals hold the means
of the population?

    python bench/filling_coverage.py --family AllPairs --epsilon 1 --missing gender \
        --repetitions 120

A repetition takes about a second. docs/referees/measured.md has the results.
"""

import argparse

import numpy as np
from combining_rules import rubin
from scipy.special import expit

import missdp
from missdp import DPImputer, Table
from missdp.datasets import yrbss

NAMES = ("gender", "grade", "age", "height", "weight")
ROWS, FILLINGS = 4000, 10


def numbers(table, name):
    if table.schema[name].kind == "numeric":
        return table.values(name)
    return (table.codes(name) == 0).astype(float)


def with_missing(frame, gender, mechanism, rng):
    rate = (
        0.2 if mechanism == "random" else 0.7 * expit(1.5 * (gender - gender.mean()) / gender.std())
    )
    frame = frame.copy()
    for name in NAMES[1:]:
        frame[name] = frame[name].astype(object).mask(rng.random(len(frame)) < rate)
    return frame


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", default="AllPairs")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--missing", choices=["random", "gender"], default="gender")
    parser.add_argument("--repetitions", type=int, default=100)
    options = parser.parse_args()
    survey = yrbss().table().subset(NAMES)
    everyone = survey.take(~survey.incomplete_rows())
    frame, gender = everyone.to_native(), numbers(everyone, "gender")
    truth = {name: numbers(everyone, name).mean() for name in NAMES[1:]}
    rng, held = np.random.default_rng(7), []
    for repetition in range(1, options.repetitions + 1):
        rows = rng.integers(0, len(everyone), ROWS)
        incomplete = with_missing(
            frame.iloc[rows].reset_index(drop=True), gender[rows], options.missing, rng
        )
        private = Table.read(incomplete, survey.schema)
        model = getattr(missdp, options.family)(epsilon=options.epsilon, delta=1e-6).fit(private)
        filled = DPImputer(model=model).transform(private, multiple=FILLINGS)
        held.append([])
        for name, mean in truth.items():
            values = [numbers(table, name) for table in filled]
            q = np.array([v.mean() for v in values])
            u = np.array([v.var(ddof=1) / ROWS for v in values])
            held[-1].append(abs(q.mean() - mean) <= rubin(q, u))
        if repetition % 10 == 0 or repetition == options.repetitions:
            shares = zip(truth, np.mean(held, axis=0), strict=True)
            print(
                repetition, ", ".join(f"{name} {share:.2f}" for name, share in shares), flush=True
            )


if __name__ == "__main__":
    main()
