"""Coverage of 95 % intervals from m synthetic tables, with and without noise and missing values.

The population has five related attributes, with values missing at random. The estimates are 20
proportions (cells of one- and two-way marginals) and the five means. Their true values come from
the population.  Each repetition draws a private table, fits AIM, and asks: how often does the
interval hold the population's value?

    python bench/aim_coverage.py --repetitions 100 --tables 20

Measured with 100 repetitions, 20 tables, 5,000 rows, epsilon 1, "joint". Noise-aware intervals
covered .974 of the proportions (.95 to 1.00) and .964 of the means (.93 to .99). Naive intervals
from a single table covered .865 and .858.
"""

import argparse

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from missdp import Categorical, Schema, Table
from missdp.evaluate.combine import combine_estimates
from missdp.synth import AIM

NAMES = ("a", "b", "c", "d", "e")
LEVELS = 4
SCHEMA = Schema(
    tuple(Categorical(name=n, levels=tuple(range(LEVELS)), nullable=n in "bd") for n in NAMES)
)
STEP_SHARES = (0.6, 0.3, 0.05, 0.05)
CELLS = [((v,), (k,)) for v in range(5) for k in (0, 1)]
CELLS += [((v, v + 1), (k, k)) for v in range(4) for k in (0, 1)]
CELLS += [((0, 2), (1, 1)), ((1, 3), (0, 0))]


def draw(n, rng):
    columns = [rng.choice(LEVELS, n, p=[0.4, 0.3, 0.2, 0.1])]
    for _ in NAMES[1:]:
        columns.append((columns[-1] + rng.choice(LEVELS, n, p=STEP_SHARES)) % LEVELS)
    return np.stack(columns, axis=1)


def with_missing(rows, rng):
    chance = expit(0.8 * (rows[:, 0] - 1.0) - 1.0)
    codes = {n: rows[:, v] for v, n in enumerate(NAMES)}
    for n in "bd":
        codes[n] = np.where(rng.random(len(rows)) < chance, LEVELS, codes[n])
    return Table.from_codes(SCHEMA, codes)


def share(rows, cell):
    attributes, levels = cell
    return np.all(rows[:, attributes] == levels, axis=1).mean()


def estimates(rows):
    """20 proportions and 5 means, with their variances in a simple sample."""
    shares = np.array([share(rows, cell) for cell in CELLS])
    values = np.concatenate([shares, rows.mean(axis=0)])
    variances = np.concatenate([np.maximum(shares * (1 - shares), 1e-9), rows.var(axis=0)])
    return values, variances / len(rows)


def to_rows(frame):
    return frame[list(NAMES)].to_numpy(dtype=np.int64)


def line(aware, naive, gaps):
    by_target = np.mean(aware, axis=0)
    parts = [
        f"{part.mean():.3f} ({part.min():.2f}-{part.max():.2f})"
        for part in (by_target[: len(CELLS)], by_target[len(CELLS) :])
    ]
    plain = np.mean(naive, axis=0)
    plains = [f"{part.mean():.3f}" for part in (plain[: len(CELLS)], plain[len(CELLS) :])]
    bias = np.abs(np.mean(gaps, axis=0)) / np.std(gaps, axis=0)
    return (
        "".join(f"{part:>20}" for part in parts)
        + "".join(f"{part:>9}" for part in plains)
        + (f"{bias.mean():>9.2f}")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--strategies", nargs="+", default=["joint", "observed"])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    everyone = draw(2_000_000, rng)
    truth = estimates(everyone)[0]
    print(f"{'':<17}{'noise-aware: mean (least-most)':^40}{'naive':^18}")
    print(
        f"{'strategy':<12}{'reps':>5}{'proportions':>20}{'means':>20}{'props':>9}{'means':>9}"
        f"{'bias/se':>9}"
    )
    for strategy in options.strategies:
        aware, naive, gaps = [], [], []
        for repetition in range(1, options.repetitions + 1):
            model = AIM(epsilon=options.epsilon, delta=1e-6, missing=strategy).fit(
                with_missing(draw(options.rows, rng), rng)
            )
            tables = [to_rows(t) for t in model.sample(options.rows, multiple=options.tables)]
            q, u = (np.array(part) for part in zip(*map(estimates, tables), strict=True))
            intervals = [combine_estimates(q[:, j], u[:, j]).interval() for j in range(len(truth))]
            aware.append(
                [low <= t <= high for (low, high), t in zip(intervals, truth, strict=True)]
            )
            one, variance = estimates(to_rows(model.sample(options.rows)))
            naive.append(np.abs(one - truth) <= norm.ppf(0.975) * np.sqrt(variance))
            gaps.append(one - truth)
            if repetition % 10 == 0 or repetition == options.repetitions:
                print(f"{strategy:<12}{repetition:>5}" + line(aware, naive, gaps), flush=True)


if __name__ == "__main__":
    main()
