"""The R code of docs/multiple-tables.md gives our numbers, and so do the tables for referees."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from combining_rules import RESULTS, main, table

from missdp.evaluate import combine_estimates

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "multiple-tables.md").read_text(encoding="utf-8")
FUNCTION, USE = re.findall(r"```r\n(.*?)```", PAGE, re.DOTALL)
CASES = [
    ([0.50, 0.52, 0.48, 0.51], [1e-4] * 4),  # an ordinary case
    ([1.0, 1.1], [9.0, 9.0]),  # the variance would be negative
    ([3.0, 3.0, 3.0], [0.5, 0.5, 0.5]),  # no spread at all
    (list(np.sin(np.arange(20.0))), list(np.linspace(0.01, 0.2, 20))),
]


def ours(q, u, confidence=0.95):
    found = combine_estimates(q, u)
    return [found.estimate, found.variance, found.degrees, *found.interval(confidence)]


def in_r(code, folder):
    (folder / "code.R").write_text("options(digits = 15, width = 250)\n" + code, encoding="utf-8")
    done = subprocess.run(
        ["Rscript", "--vanilla", "code.R"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text):
    return [float(x) for x in re.findall(r"(?<![\w.])-?\d+\.?\d*(?:e[+-]\d+)?", text)]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R (apt-get install r-base-core)")
def test_r_gives_our_numbers(tmp_path):
    rng = np.random.default_rng(0)
    frames = []
    for i in range(1, 21):
        height = rng.uniform(1.4, 2.0, 200)
        gender = rng.choice(["female", "male"], 200)
        weight = 60 * height - 30 + 5 * (gender == "male") + rng.normal(0, 9, 200)
        frame = pd.DataFrame({"gender": gender, "height": height, "weight": weight})
        frame.to_csv(tmp_path / f"table-{i:02}.csv", index=False)
        frames.append(frame)

    calls = "".join(
        f"print(unname(combine(c({', '.join(map(repr, map(float, q)))}), "
        f"c({', '.join(map(repr, map(float, u)))}))))\n"
        for q, u in CASES
    )
    lines = in_r(FUNCTION + calls, tmp_path)
    found = np.array(numbers(re.sub(r"\[\d+\]", "", lines))).reshape(len(CASES), 5)
    assert found == pytest.approx(np.array([ours(q, u) for q, u in CASES]), rel=1e-9, abs=1e-9)

    shown = in_r(FUNCTION + USE, tmp_path).splitlines()
    q = [f["weight"].mean() for f in frames]
    u = [f["weight"].var(ddof=1) / len(f) for f in frames]
    assert numbers(shown[1]) == pytest.approx(ours(q, u), rel=1e-8)
    share = np.array([(f["gender"] == "female").mean() for f in frames])
    assert numbers(shown[3]) == pytest.approx(ours(share, share * (1 - share) / 200), rel=1e-8)
    parts = [[f["weight"][f["gender"] == g] for g in ("female", "male")] for f in frames]
    gap = [m.mean() - w.mean() for w, m in parts]
    u = [sum(x.var(ddof=1) / len(x) for x in pair) for pair in parts]
    assert numbers(shown[5]) == pytest.approx(ours(gap, u), rel=1e-8)


def test_what_was_measured_stands_on_the_page(capsys):
    main(["--tables"])
    shown = capsys.readouterr().out.strip()
    assert shown in (DOCS / "referees" / "measured.md").read_text(encoding="utf-8")
    assert shown == table(json.loads(RESULTS.read_text(encoding="utf-8")))
    held, width = np.array(
        [[float(cell) for cell in line.split("|")[-3:-1]] for line in shown.splitlines()[2:]]
    ).T.reshape(2, 2, 3)  # by size of the tables, and by rule: ours, pool, pool.syn
    assert (held[:, 0] > 0.93).all()
    assert (width[:, 1] > width[:, 0]).all()
    assert (held[:, 2] < 0.9).all()
    assert width[1, 0] < 1.15
