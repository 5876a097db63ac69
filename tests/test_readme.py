"""The README's commands, run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", README, flags=re.M | re.S)


def shell(command, folder):
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    source = os.environ.get("PYTHONPATH", "")  # a checkout that is not the installed one
    return subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_there_are_two_commands_and_then_your_own_table():
    assert len(BLOCKS) == 4
    install, tests, *_ = BLOCKS
    assert install.strip().endswith("&& missdp demo")
    assert tests.strip() == "pytest -n 2"
    # CI runs both as they stand in the README.
    ci = (ROOT / ".ci" / "run").read_text()
    assert 'eval "$(readme 1)"' in ci
    assert 'eval "$(readme 2)"' in ci


def test_the_main_job(tmp_path):
    out = shell("missdp demo", tmp_path)
    assert out.returncode == 0, out.stderr
    assert "Hispanic respondents" in out.stdout
    assert "differentially private" in out.stdout
    assert (tmp_path / "yrbss_synthetic.csv").exists()


def test_your_own_table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"smoker": rng.choice(["no", "yes"], 500), "age": rng.integers(18, 99, 500)}
    )
    frame = frame.astype({"age": "Int64"}).mask(rng.random((500, 2)) < 0.2)
    frame.to_csv(tmp_path / "patients.csv", index=False)
    draft, synthesize, evaluate = BLOCKS[2].strip().splitlines()
    assert shell(draft, tmp_path).returncode == 0
    refused = shell(synthesize, tmp_path)
    assert refused.returncode == 3
    assert not (tmp_path / "synthetic.csv").exists()
    # "Complete it by hand": here, declare every guess public.
    schema = tmp_path / "patients.toml"
    schema.write_text(re.sub(r"undeclared = \[.*?\]\n", "", schema.read_text(), flags=re.S))
    for command in (synthesize, evaluate):
        out = shell(command, tmp_path)
        assert out.returncode == 0, out.stderr
    assert (tmp_path / "synthetic.csv").exists()
    assert (tmp_path / "synthetic.model.json").exists()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    for command in BLOCKS[3].strip().splitlines():
        out = shell(command, tmp_path)
        assert out.returncode == 0, out.stderr
        assert "differentially private" in out.stdout or "epsilon" in out.stdout


PIPELINE = """
delta = 1e-6
[table]
rows = 1000
columns = 4
[[step]]
kind = "pca-rank"
n_components = 2
least_gap = 0.2
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


def test_every_link_leads_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
