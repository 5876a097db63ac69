"""Ratio of the movement of adversarial neighbours to each stability map's bound (1 is tight).

Run: python bench/price_tightness.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pricing"))

from test_stability import WORST, apart


def main() -> None:
    print("| step | movement of a row: true / bound | rows that move: true / bound |")
    print("|---|---|---|")
    for name, (case, pair, _) in WORST.items():
        true, bound = apart(case, pair)
        each, rows = true.max_shift / bound.max_shift, true.shifted_rows / bound.shifted_rows
        print(f"| {name} | {each:.3f} | {rows:.3f} |")


if __name__ == "__main__":
    main()
