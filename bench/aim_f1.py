"""Classifiers trained on synthetic rows, tested on rows that no synthesizer saw.

Adult: 30 % of the rows are held out of everything; the others have holes (file given), and each
synthesizer is fitted to them.  Numerics in 10 declared bins.  Mean F1 of the rarer class over
targets and learners, mean over runs; each run has its own split and secure noise.  "Truth" trains
on the complete rows behind the holes.

    python bench/aim_f1.py --files mcar_0.2 mar_0.35 --attributes income sex marital-status

To be done within minutes, the defaults are five targets and four quick learners (and not the nine
learners on all targets of the papers), so figures compare with each other only.

Measured (one run, MCAR 20 % / MAR 35 % / MNAR 20 %): truth .758; AIM auto .747 / .732 / .738;
adaptive .738 / .696 / .739; complete rows .584 / .501 / .572; MST .703 / .658 / .701; PrivBayes
joint .603 / .583 / .590.
"""

import argparse
import statistics

import numpy as np
from _data import SHARED, table

from missdp import PrivBayes
from missdp.evaluate import classifier_f1
from missdp.synth import AIM, MST

LEARNERS = ["LogisticRegression", "DecisionTree", "BernoulliNB", "RandomForest"]
TARGETS = ["income", "sex", "marital-status", "hours-per-week", "education-num"]
TEST_SHARE = 0.3


def synthesizers(epsilon, delta):
    given = {"epsilon": epsilon, "delta": delta}
    return {
        "AIM auto": AIM(**given),
        "AIM adaptive": AIM(**given, missing="adaptive"),
        "AIM complete-rows": AIM(**given, missing="complete-rows"),
        "MST auto": MST(**given),
        "PrivBayes joint": PrivBayes(**given, missing="joint"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", nargs="+", default=["truth", "mcar_0.2", "mar_0.35", "mnar_0.2"])
    parser.add_argument("--attributes", nargs="+", default=TARGETS)
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=1, help="runs of each")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth = table("adult", "truth", nullable=False)
    targets = options.attributes
    print(f"targets {', '.join(targets)}; {options.seeds} runs")
    print(f"{'file':<10}{'trained on':<20}{'F1':>7}")
    for file in options.files:
        incomplete = table("adult", file)
        found = {}
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(truth))
            size = round(TEST_SHARE * len(truth))
            test, real = truth.take(order[:size]), truth.take(order[size:])
            private = incomplete.take(order[size:])
            tables = {"truth": real}
            for name, model in synthesizers(options.epsilon, options.delta).items():
                tables[name] = model.fit(private).sample_table()
            for name, synthetic in tables.items():
                score = classifier_f1(
                    real,
                    synthetic,
                    test=test,
                    random_state=seed,
                    attributes=targets,
                    learners=options.learners,
                )
                found.setdefault(name, []).append(score.mean)
        for name, scores in found.items():
            print(f"{file:<10}{name:<20}{statistics.mean(scores):>7.3f}", flush=True)


if __name__ == "__main__":
    main()
