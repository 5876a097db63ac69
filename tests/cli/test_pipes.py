"""`-` for standard input and output."""

import io
import json
import sys
import tempfile
from pathlib import Path

import pytest

from missdp.cli import options
from missdp.cli.main import main
from missdp.cli.options import _as_file
from missdp.schema import Schema

ROWS = "pay,sex\n" + "".join(f"{k % 50},{'fm'[k % 2]}\n" for k in range(300))


@pytest.fixture
def run(tmp_path, monkeypatch, capfdbinary):
    """Run a command on rows from standard input; return its code and what it printed where."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    Path("tmp").mkdir()

    def called(*arguments, rows=ROWS):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
        code = main(list(arguments))
        assert list(Path("tmp").iterdir()) == []  # no private row is left
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return called


def files_in(folder):
    """Files that have a name there."""
    return [path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_nlink]


def test_drafts_rows_and_models_go_through_pipes(run, monkeypatch):
    code, draft, said = run("schema", "draft", "-", "-o", "-")
    assert code == 0
    assert "Wrote standard output: 2 attributes" in said
    Path("s.toml").write_text(draft)
    Schema.from_toml("s.toml").declare_public().to_toml("s.toml")
    assert run("schema", "check", "s.toml", "-")[0] == 0
    given = ("--schema", "s.toml", "--epsilon", "9", "--seed", "0")
    assert run("synthesize", "-", *given, "-o", "out.csv")[0] == 0
    model = "out.model.json"
    code, printed, said = run("sample", model, "-o", "-", "--rows", "5", "--seed", "0")
    assert (code, printed.splitlines()[0], len(printed.splitlines())) == (0, '"pay","sex"', 6)
    assert "Wrote standard output: 5 synthetic rows." in said
    assert run("sample", model, "-o", "rows.csv", "--rows", "5", "--seed", "0")[0] == 0
    assert Path("rows.csv").read_text() == printed
    impute = ("impute", "-", "--schema", "s.toml", "--model", model, "-o", "-")
    with monkeypatch.context() as patched:
        left = []  # by a run that is killed while it prints
        as_always = options._print
        patched.setattr(
            options, "_print", lambda file: (left.extend(files_in("tmp")), as_always(file))
        )
        code, printed, said = run(*impute, rows=ROWS)
    assert (code, len(printed.splitlines())) == (0, 301)
    assert left == []
    assert "PRIVATE" in said.upper()
    code, printed, said = run("sample", model, "-o", "-", "--rows", "2", "--json")
    assert (len(printed.splitlines()), json.loads(said)["output"]) == (3, "standard output")


REFUSED = [
    (("synthesize", "-", "--schema", "s.toml", "--epsilon", "1", "-o", "-"), 5, "missdp sample"),
    (("schema", "draft", "-", "--parts", "-o", "d.toml"), 2, "not for standard input"),
    (("sample", "m.json", "-o", "-", "--multiple", "2"), 2, "several tables"),
    (("schema", "draft", "-", "-o", "d.toml"), 3, "not a well-formed CSV"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), REFUSED)
def test_what_cannot_go_through_a_pipe_is_one_line(run, arguments, code, said):
    found, out, err = run(*arguments, rows='a,b\n"secret')
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1
    assert "secret" not in err


def test_a_copy_of_standard_input_has_no_name_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"age\n7\n")))
    with _as_file("-") as name:
        (there,) = Path(name).parent.iterdir()
        assert there.read_bytes() == b"age\n7\n"
        assert there.is_symlink()  # into this process: what is behind it ends with that
        assert not there.stat().st_nlink
    assert not Path(name).parent.exists()
