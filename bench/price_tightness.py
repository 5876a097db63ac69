"""How close adversarial neighbours come to each stability map (1 is tight).

Run: python bench/price_tightness.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pricing"))

import stability_cases as cases
import test_tightness as pairs

from missdp.pricing import NEIGHBOURS, TableDistance

PAIRS = {
    "mean, one cell a row": (cases.mean_one_cell_case, pairs.single_cell_pair),
    "mean": (cases.mean_case, pairs.two_cell_pair),
    "median": (cases.median_case, pairs.gap_pair),
    "trimmed mean": (cases.trimmed_case, pairs.trim_pair),
    "k-NN": (cases.neighbours_case, pairs.donor_pair),
    "standard scaling": (cases.standard_case, pairs.spread_pair),
    "standard scaling, floor": (cases.standard_floor_case, pairs.spread_pair),
    "min-max scaling": (cases.min_max_case, pairs.extreme_pair),
    "PCA, covariance": (cases.pca_case, pairs.steepest_pair),
    "PCA, second moment": (cases.pca_second_case, pairs.turning_pair),
    "deduplication": (cases.deduplicate_case, pairs.spoiled_pair),
    "quantisation": (cases.quantize_case, pairs.spoiled_pair),
}


def main() -> None:
    print("| step | movement of a row: true / bound | rows that move: true / bound |")
    print("|---|---|---|")
    for name, (case, make) in PAIRS.items():
        pair = make()
        step, domain = case(pair)
        bound = step.stability(NEIGHBOURS, domain)
        true = TableDistance.between(*(clone(step).fit_transform(t) for t in pair), replaced=1)
        each, rows = true.moved_max / bound.moved_max, true.moved_rows / bound.moved_rows
        print(f"| {name} | {each:.3f} | {rows:.3f} |")


if __name__ == "__main__":
    main()
