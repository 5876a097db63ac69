"""Commands show how far they are: bars in a terminal, and lines elsewhere."""

import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from missdp import AllPairs, Schema
from missdp.cli.main import main

SHOWN = {
    "schema init data.csv -o draft.toml": "reading the rows",
    "schema check schema.toml data.csv": "reading the rows",
    "query data.csv --schema schema.toml --impute age --match größe 'mean(age)' --epsilon 1": (
        "filling missing values"
    ),
    "estimate fit.model.json mean(age) sd(age)": "estimating",
    "plan schema.toml --rows 300 --epsilon 1 --method mst": "rehearsing epsilon 1",
}


@pytest.mark.long
@pytest.mark.parametrize("command", SHOWN)
def test_commands_draw_bars_in_a_terminal(folder, command, monkeypatch, capsys):
    if command.startswith("estimate"):
        schema = Schema.from_toml("schema.toml")
        AllPairs(epsilon=9.0, random_state=0).fit("data.csv", schema=schema).save("fit.model.json")
    file = io.StringIO()
    drawn = Console(file=file, force_terminal=True, width=200)
    monkeypatch.setattr("rich.console.Console", lambda **_: drawn)
    assert main(shlex.split(command)) == 0
    assert SHOWN[command] in file.getvalue()
    capsys.readouterr()


@pytest.mark.long
def test_a_process_prints_stages_where_it_is_piped(folder):
    script = Path("run.py")
    script.write_text(
        "import sys, threading, missdp.progress\n"
        "missdp.progress.MIN_SECONDS = 0.0\n"
        "threading.Timer.start = threading.Timer.run\n"  # at once, also on a busy machine
        "from missdp.cli.main import run\n"
        "sys.argv = ['missdp', 'schema', 'init', 'data.csv', '-o', 'draft.toml']\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "run.py"], capture_output=True, text=True, check=True)
    assert "missdp: reading the rows" in done.stderr.splitlines()
