"""What an attacker finds, beside what is claimed: mu of every family and strategy.

The attacker sees every answer of a fit and uses the likelihood ratio (`missdp.testing`). The last
columns repeat the audit with noise of 0.7 times its scale, which must be flagged.

    python bench/audit_mu.py [--trials 400] [--family aim ...]
"""

from __future__ import annotations

import argparse

from missdp import AIM, MST, PrivBayes
from missdp.testing import audit_synthesizer, examples

# Structures that are public where they can be: then nearly all is spent on what one row moves.
FIXED = {"degree": 1, "structure_share": 1e-3, "delta": 0.0}
GRAPHICAL = {"delta": 1e-6, "model_rows": 100}
CASES = {
    "histograms": (examples.Histograms, {}),
    "histograms-gaussian": (examples.Histograms, {"delta": 1e-6}),
    "privbayes": (PrivBayes, FIXED),
    "privbayes-gaussian": (PrivBayes, {**FIXED, "delta": 1e-6}),
    "aim": (AIM, {**GRAPHICAL, "rounds": 1}),
    "mst": (MST, GRAPHICAL),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--family", nargs="*", choices=CASES, default=list(CASES))
    given = parser.parse_args()
    print("| family | strategy | claimed | found | ratio | at least | flagged", end=" | ")
    print("x 0.7: found | at least | flagged |")
    print("|---" * 10 + "|")
    for name in given.family:
        family, parameters = CASES[name]
        for strategy in family.strategies:
            options = {"parameters": parameters, "strategies": [strategy], "trials": given.trials}
            sound = audit_synthesizer(family, **options)[strategy]
            weak = audit_synthesizer(family, **options, scale=0.7)[strategy]
            print(
                f"| {name} | {strategy} | {sound.mu_claim:.2f} | {sound.mu_emp:.2f} | "
                f"{sound.ratio:.2f} | {sound.mu_low:.2f} | {'yes' if sound.flagged else 'no'} | "
                f"{weak.mu_emp:.2f} | {weak.mu_low:.2f} | {'yes' if weak.flagged else 'no'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
