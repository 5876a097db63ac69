"""Draw docs/img/demo.svg: what dropping incomplete rows does to the survey, and what missdp does.

python bench/demo_picture.py        (needs matplotlib)
"""

import json
import subprocess
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

RUNS = 10


def shares():
    """Shares of Hispanic respondents over several runs of the demo."""
    found = {"answered": [], "complete_rows": [], "dropped_dp": [], "missdp": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            out = subprocess.run(
                ["missdp", "demo", "--json", "--overwrite", "-o", f"{folder}/demo.csv"],
                capture_output=True,
                check=True,
                text=True,
            )
            row = json.loads(out.stdout)["comparison"][0]
            for key, values in found.items():
                values.append(100 * row[key])
    return found


def main():
    found = shares()
    labels = ["all answers\n(exact)", "rows dropped\n(private)", "missdp\n(private)"]
    keys = ["answered", "dropped_dp", "missdp"]
    colours = ["#9aa5b1", "#d9822b", "#1f77b4"]
    mpl.rcParams["svg.hashsalt"] = "missdp"
    figure, axis = plt.subplots(figsize=(7, 2.6))
    for i, (key, colour) in enumerate(zip(keys, colours, strict=True)):
        mean = sum(found[key]) / RUNS
        axis.barh(i, mean, color=colour, height=0.6)
        if key != "answered":
            axis.plot(found[key], [i] * RUNS, "k|", markersize=9)
        axis.text(max(found[key]) + 0.4, i, f"{mean:.1f} %", va="center")
    axis.set_yticks(range(3), labels)
    axis.invert_yaxis()
    axis.set_xlim(0, 32)
    axis.set_xlabel("share of Hispanic respondents, % (marks: ten runs, epsilon = 1)")
    axis.set_title("A survey with missing answers: dropping rows halves a minority", loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    target = Path(__file__).parents[1] / "docs" / "img" / "demo.svg"
    figure.savefig(target, metadata={"Date": None})
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
