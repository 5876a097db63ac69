"""What holes alone cost, without any privacy noise: error of available-case marginals.

For each incomplete file, the mean total variation between the true 2-way marginals and those of the
rows observed on both attributes (no synthesizer, no noise).  Errors of independent origin add up in
squares, roughly: `floor` is what a synthesizer with the error `--base` on the complete table would
have if holes cost it nothing but this, relative to that base.

    python bench/missing_error.py --files mcar_0.1 mcar_0.2 --base 0.0128
"""

import argparse
import itertools

import numpy as np
from _data import SHARED, table


def available_case_error(truth, private):
    """Mean distance over all pairs of attributes."""
    names = truth.schema.names
    gaps = []
    for a, b in itertools.combinations(names, 2):
        sizes = [truth.schema[n].size for n in (a, b)]
        seen = ~(private.mask(a) | private.mask(b))
        shares = [
            np.bincount(np.ravel_multi_index((t.codes(a)[rows], t.codes(b)[rows]), sizes))
            for t, rows in ((truth, slice(None)), (private, seen))
        ]
        longest = max(map(len, shares))
        one, two = (np.pad(s, (0, longest - len(s))) / s.sum() for s in shares)
        gaps.append(0.5 * np.abs(one - two).sum())
    return float(np.mean(gaps))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--files", nargs="+", default=["mcar_0.1", "mcar_0.2", "mcar_0.3"])
    parser.add_argument("--base", type=float, help="2-way error of a synthesizer without holes")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth = table(options.dataset, "truth")
    print(f"{'file':<10}{'2-way':>8}{'floor':>8}")
    for file in options.files:
        error = available_case_error(truth, table(options.dataset, file))
        floor = f"{np.hypot(1, error / options.base):>8.3f}" if options.base else ""
        print(f"{file:<10}{error:>8.4f}{floor}")


if __name__ == "__main__":
    main()
