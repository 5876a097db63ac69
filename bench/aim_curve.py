"""Accuracy and time of AIM, by the number of planned selections.

Adult, numerics in 10 declared bins.  Mean total variation to the complete truth over all 2-way
marginals of the synthetic rows, and CPU seconds of fit plus sample. All figures are means over runs
with the secure noise source.

    python bench/aim_curve.py --files truth mcar_0.2 --seeds 2
"""

import argparse
import statistics

from _data import SHARED, table
from aim_missing import one_run

# Name, family, rounds per attribute.
SETTINGS = [
    ("MST", "mst", None),
    ("AIM 1 round per attribute", "aim", 1),
    ("AIM 3 rounds per attribute (default)", "aim", 3),
    ("AIM 8 rounds per attribute", "aim", 8),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", nargs="+", default=["truth", "mcar_0.2"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=2, help="runs of each")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth = table("adult", "truth", nullable=False)
    attributes = len(truth.schema)
    print(f"{'file':<10}{'setting':<44}{'2-way':>8}{'cpu s':>8}")
    for file in options.files:
        private = table("adult", file)
        for name, family, rounds in SETTINGS:
            more = {} if rounds is None else {"rounds": rounds * attributes}
            runs = [
                one_run(
                    family, private, truth, epsilon=options.epsilon, delta=options.delta, **more
                )
                for _ in range(options.seeds)
            ]
            two, seconds = (statistics.mean(r[i] for r in runs) for i in (1, 2))
            print(f"{file:<10}{name:<44}{two:>8.4f}{seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
