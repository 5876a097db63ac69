"""How close adversarial neighbours come to each stability map (1 is tight).

Run: python bench/price_tightness.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pricing"))

from test_tightness import WORST, shares


def main() -> None:
    print("| step | movement of a row: true / bound | rows that move: true / bound |")
    print("|---|---|---|")
    for name, (case, pair, _) in WORST.items():
        each, rows = shares(case, pair)
        print(f"| {name} | {each:.3f} | {rows:.3f} |")


if __name__ == "__main__":
    main()
