"""The examples of the help, which are those of docs/commands.md, run in the order of the page."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import missdp
from missdp.cli.app import COMMANDS, EXAMPLES
from missdp.cli.main import main
from missdp.synth.registry import _own_parameters

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\$ (.*)$", PAGE, re.M)


def test_every_command_has_an_example_and_the_page_shows_it(capsys):
    assert set(EXAMPLES) == set(COMMANDS)
    shown = [shlex.split(line) for line in LINES]
    for name, examples in EXAMPLES.items():
        assert main([name, "--help"]) == 0
        said = capsys.readouterr().out
        for example in examples:
            assert example in said
            assert [word.replace('"', "'") for word in shlex.split(example)] in shown
            assert example.split()[1] == name


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"smoker": rng.choice(["no", "yes"], 500), "age": rng.integers(18, 99, 500)}
    ).astype({"age": "Int64"})
    frame.to_csv("complete.csv", index=False)
    frame.mask(rng.random((500, 2)) < 0.2).to_csv("patients.csv", index=False)
    fields = [{"name": "smoker", "constraints": {"enum": ["no", "yes"]}}]
    Path("codebook.json").write_text(json.dumps({"fields": fields}))
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.S):
        Path("questions.toml" if "[[question]]" in text else "pipeline.toml").write_text(text)
    shutil.copy(Path(__file__).parents[1] / "data/old/fourth/mst-joint.json", "old.model.json")
    for line in LINES:
        if line == "missdp demo":  # run with the README's commands
            continue
        if "-o synthetic.csv" in line:  # each wants a name that is free
            for path in Path().glob("synthetic.*"):
                path.unlink()
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
        for name, value in re.findall(r"--set (rounds|degree)=(\d)", line):
            assert getattr(missdp.load("synthetic.model.json"), name) == int(value)
        if line.startswith("missdp schema draft"):  # a person declares every guess public
            schema = Path("patients.toml")
            schema.write_text(re.sub(r"undeclared = \[.*?\]\n", "", schema.read_text(), flags=re.S))
    drawn = len(pd.read_csv("more.csv"))
    assert drawn == 500


@pytest.mark.parametrize("name", sorted(missdp.synthesizers()))
def test_the_page_lists_the_parameters_that_can_be_set(name):
    (listed,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, re.M)
    own = _own_parameters(missdp.synthesizers()[name])
    assert set(re.findall(r"`(\w+)`", listed)) == set(own) - {"structural_zeros"}
