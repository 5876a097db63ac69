"""The list of commands: quick to show, and the same as what is there."""

import subprocess
import sys

import pytest

from missdp.cli.app import COMMANDS, command_named
from missdp.cli.main import main

HEAVY = {
    "dp_accounting", "duckdb", "narwhals", "numpy", "pandas", "pyarrow", "rich", "scipy", "sklearn",
}  # fmt: skip


def imported(code):
    """Return which of what takes long to import some code brings along, in a process of its own."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return HEAVY & {*done.stdout.splitlines()[-1].split()}


HELP = "from missdp.cli.main import main; [main([*words, '--help']) for words in {}]"
SLIM = ["synthesize"], ["sample"], ["price"], ["impute"], ["schema"]


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        (f"import missdp; {HELP.format(([],))}; main(['--version'])", set()),
        ("from missdp import AllPairs; AllPairs(epsilon=1.0)", {"numpy"}),
        (
            f"from missdp import Schema, Table, load, Budget, Guarantee; {HELP.format(SLIM)}",
            {"numpy"},
        ),
    ],
)
def test_what_takes_long_is_imported_where_it_is_used(code, needed):
    assert imported(code) == needed


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("missdp s", {"schema", "synthesize", "sample", "sensitivity", "simulate"})],
)
def test_names_are_completed_without_importing_anything_heavy(typed, offered, monkeypatch):
    for name, value in (("_MISSDP_COMPLETE", "complete_bash"), ("COMP_WORDS", typed)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", "1")
    code = "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); " + (
        "from missdp.cli.app import app; app(args=[], prog_name='missdp')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *found, heavy = done.stdout.split()
    assert set(found) == offered
    assert heavy == "False"


def test_options_of_a_command_are_completed(monkeypatch):
    for name, value in (("_MISSDP_COMPLETE", "complete_bash"), ("COMP_CWORD", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_WORDS", "missdp synthesize --met")
    code = "from missdp.cli.app import app; app(args=[], prog_name='missdp')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--method"]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_list_is_there(name, capsys):
    assert command_named(name).name == name
    assert main([name, "--help"]) == 0
    assert f" {name} " in capsys.readouterr().out.splitlines()[0]


def test_an_unknown_command_is_refused(capsys):
    assert main(["synthesise"]) == 2
    assert "synthesise" in capsys.readouterr().err
