"""The list of commands: quick to show, and the same as what is there."""

import subprocess
import sys

import pytest

from missdp.cli.app import COMMANDS, command_named
from missdp.cli.main import main

QUICK = """
import sys
from missdp.cli.main import main
assert main({arguments!r}) == 0
heavy = {{"numpy", "pandas", "scipy", "sklearn", "duckdb", "pyarrow", "dp_accounting", "pydantic"}}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_what_reads_nothing_imports_nothing_heavy(arguments):
    done = subprocess.run(
        [sys.executable, "-c", QUICK.format(arguments=arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("missdp s", {"schema", "synthesize", "sample", "simulate"}), ("missdp --ver", {"--version"})],
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


def test_importing_the_package_imports_nothing_heavy():
    code = "import missdp, sys; print('numpy' in sys.modules, 'typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_list_is_there(name, capsys):
    assert command_named(name).name == name
    assert main([name, "--help"]) == 0
    assert f" {name} " in capsys.readouterr().out.splitlines()[0]


def test_an_unknown_command_is_refused(capsys):
    assert main(["synthesise"]) == 2
    assert "synthesise" in capsys.readouterr().err
