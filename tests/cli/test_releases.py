"""The model file is the release. A paid release is never lost, and its statements are true."""

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest

import missdp
from missdp import AllPairs, Table
from missdp.cli.main import main
from missdp.synth.base import Synthesizer
from missdp.words import in_a_line, sentences

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of another kind")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
SYNTHESIZE = "synthesize data.csv --schema schema.toml --epsilon 1 -o out.csv"
FIT = "fit data.csv --schema schema.toml --epsilon 1 -o m.json"
QUERY = "query data.csv --schema schema.toml --impute age --match smoker --epsilon 1 'mean(age)'"
NAMES = ["out.csv", "out.csv.synthetic.json", "out.model.json"]
TABLE = ["data.csv", "ledger.db", "schema.toml"]


@pytest.fixture(scope="module")
def base(bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    bench.set_up(folder)
    return folder


@pytest.fixture
def folder(base, tmp_path, monkeypatch):
    for path in (base / "plain").iterdir():
        shutil.copy2(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def replacing(base, folder):
    """A folder with an old release."""
    for path in (base / "old").iterdir():
        shutil.copy2(path, folder)
    return folder


@pytest.fixture
def forked(bench, folder, monkeypatch):
    """Run a command in a process of its own, after a hook there. Return the result of `run`."""
    monkeypatch.setattr("missdp.progress.MIN_SECONDS", 3600.0)  # a slow machine prints no stages
    return lambda hook, command: bench.ended(bench.forked(folder, shlex.split(command), hook))


@pytest.fixture
def on_a_small_disk(forked):
    """Run a command that may write so many bytes to a file. Return the result of `run`."""

    def limited(size):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return lambda size, command: forked(partial(limited, size), command)


@pytest.fixture
def no_fit(monkeypatch):
    """Make a fit fail. A wrong command must be rejected before its fit."""
    monkeypatch.setattr(Synthesizer, "fit", None)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# -- stops -------------------------------------------------------------------------------------
@pytest.mark.long
@posix
@pytest.mark.parametrize(
    ("template", "how", "each"),
    [
        pytest.param("plain", "SIGTERM", 1, marks=pytest.mark.slow),
        pytest.param("plain", "SIGKILL", 1, marks=pytest.mark.slow),
        pytest.param("old", "SIGKILL", 1, marks=pytest.mark.slow),
        ("old", "SIGKILL", 5),
    ],
)
def test_a_run_stopped_at_any_step_leaves_no_half_file(bench, base, template, how, each):
    old = base / "old" if template == "old" else None
    extra = ["--overwrite"] if old else []
    with bench.fresh(base, old) as folder:
        counts = bench.steps_of(folder, [*bench.RUN, "--epsilon", "1", *extra])
    steps = ("link", "replace", "fsync", "unlink")
    moments = [(step, k + 1) for step in steps for k in range(counts[step])]
    assert len(moments) >= 8
    for step, number in moments[::each]:
        hook = bench.stopping(step, number, True, getattr(signal, how))
        assert bench.stopped(base, old, hook) is None, (step, number)


@pytest.mark.long
@posix
def test_three_runs_at_once_lose_no_model(bench, base):
    assert bench.three_at_once(base, None) is None
    assert bench.three_at_once(base, base / "old") is None


def at(module, name, does):
    """Return a hook that has something done before a function is called."""

    def hook():
        real = getattr(sys.modules[module], name)

        def then(*arguments, **more):
            does()
            return real(*arguments, **more)

        setattr(sys.modules[module], name, then)

    return hook


def stop(times=1):
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGTERM)


@posix
@pytest.mark.parametrize(
    ("module", "name", "times", "code", "says"),
    [
        ("missdp.session.counted_rows", "ExactCounts", 1, 143, "Nothing was released, but"),
        ("missdp.synth.fitting", "warn_if_weak", 1, 143, None),
        ("missdp.synth.fitting", "rounded_rows", 1, 143, "the model of release"),
        ("missdp.synth.fitting", "rounded_rows", 2, 143, "Nothing was released, but"),
        ("missdp.cli.sample", "_number_of_rows", 1, 143, "the model of release"),
        ("missdp.cli.fit", "emit", 1, 143, "all of release"),
        ("missdp.cli.main", "_flush_or_drop", 1, 0, ""),
    ],
)
def test_a_signal_that_comes_once_noise_is_drawn_waits_for_the_model(
    folder, forked, module, name, times, code, says
):
    def prepared():
        import missdp.cli.sample  # noqa: F401 - imported by the command only later

        at(module, name, lambda: stop(times))()

    found, out, err = forked(prepared, SYNTHESIZE)
    model = folder / "out.model.json"
    assert found == code, err
    assert ("interrupted" in err) == (code != 0)
    assert says is None or says in err
    if says is not None:
        assert model.exists() == ("Nothing was released" not in err)
    assert (folder / "out.csv").exists() == (code == 0 or "all of release" in err)
    assert bool(out) == (code == 0)
    if model.exists():
        assert missdp.load(model).guarantee_.epsilon == 1.0


class Dying:
    """An object whose deletion is interrupted. Python only prints the exception, and continues."""

    def __del__(self):
        stop()


@posix
def test_a_stop_that_python_swallows_is_a_stop(forked):
    def swallowed():
        Dying()
        time.sleep(20)  # the stop comes again long before, however busy the machine is

    def hook():
        sys.unraisablehook = sys.__unraisablehook__  # not that of the tests
        at("missdp.synth.fitting", "release_kinds", swallowed)()

    code, out, err = forked(hook, SYNTHESIZE)
    assert (code, out, "missdp: interrupted" in err) == (143, "", True)
    assert "Traceback" not in err
    assert "Exception ignored" not in err


EARLY = """
import os, signal, sys

class Stop:
    def find_spec(self, name, *_):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Stop())
from missdp.cli.main import run
run()
"""


@posix
def test_stopped_while_it_starts(folder):
    command = [sys.executable, "-c", EARLY, *SYNTHESIZE.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "missdp: interrupted\n")
    assert sorted(os.listdir(folder)) == TABLE


@pytest.mark.long
@posix
def test_a_run_that_is_stopped_while_it_writes_leaves_no_half_written_file(folder, forked):
    def hook():
        import pyarrow.csv

        class Stopping(pyarrow.csv.CSVWriter):
            def write_table(self, table):
                super().write_table(table)
                os.kill(os.getpid(), signal.SIGINT)

        pyarrow.csv.CSVWriter = Stopping

    code, _, err = forked(hook, f"{SYNTHESIZE} --rows 500000")
    assert code == 130
    assert sorted(os.listdir(folder)) == sorted([*TABLE, "out.model.json"])
    assert "charged (epsilon = 1" in err
    assert "missdp sample out.model.json -o out.csv" in err


# -- refused in time ---------------------------------------------------------------------------
def test_an_answer_to_nowhere_is_refused_before_the_charge(folder, capsys, monkeypatch, no_fit):
    monkeypatch.setattr(sys, "stdout", None)
    for command in (SYNTHESIZE, FIT, QUERY, "demo"):
        assert main(shlex.split(command)) == 5
    err = capsys.readouterr().err
    assert err.count("standard output: it is closed") == 4
    assert "charged" not in err


@pytest.mark.long
@posix
def test_a_full_disk_in_sampling_leaves_old_files(replacing, on_a_small_disk):
    Path("more.parquet").write_text("old")
    before = contents(replacing)
    more = "sample out.model.json -o more.parquet --rows 150000 --overwrite"
    code, _, err = on_a_small_disk(2**16, more)
    assert (code, err.count("\n"), "File too large" in err) == (5, 1, True)
    assert contents(replacing) == before


@pytest.mark.parametrize("name", NAMES)
def test_existing_files_raise_before_the_charge(folder, fails, no_fit, name):
    Path(name).write_text("mine")
    err = fails(5, f"{name!r} exists. Use --overwrite", SYNTHESIZE)
    assert err.count("\n") == 1
    assert Path(name).read_text() == "mine"
    assert sorted(os.listdir()) == sorted([*TABLE, name])


# -- charged, and then something fails ---------------------------------------------------------
@pytest.mark.long
@posix
def test_a_disk_that_fills_up_later_leaves_the_model_and_says_how_to_go_on(
    folder, ok, on_a_small_disk, without_noise_line
):
    code, out, err = on_a_small_disk(2**18, f"{SYNTHESIZE} --rows 70000")
    assert (code, out) == (8, ""), err
    lines = without_noise_line(err).splitlines()[-3:]
    assert lines[0].startswith("missdp: cannot write 'out.csv'")
    assert os.strerror(errno.EFBIG) in lines[0]
    assert "charged (epsilon = 1, delta = 1e-06)" in lines[1]
    assert lines[2].endswith("missdp sample out.model.json -o out.csv")
    assert sorted(os.listdir(folder)) == sorted([*TABLE, "out.model.json"])
    ok(lines[2].split("missdp ")[1])
    assert len(pd.read_csv("out.csv")) > 200


@pytest.mark.parametrize("where", ["sample_blocks", "to_arrow"])
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("private"), OSError(28, "private")])
def test_any_later_failure_leaves_the_model(folder, fails, monkeypatch, where, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Table if where == "to_arrow" else AllPairs, where, fail)
    err = fails(8, "charged (epsilon = 1, delta = 1e-06)", f"{SYNTHESIZE} --json")
    assert "private" not in err.replace("private data", "").replace("private cells", "")
    assert missdp.load(folder / "out.model.json").guarantee_.epsilon == 1.0
    assert "out.model.json" in err


@pytest.mark.parametrize("anywhere", [True, False])
def test_a_model_that_cannot_be_saved_there_is_saved_elsewhere(
    folder, fails, told, monkeypatch, anywhere
):
    account = "--ledger sqlite:///ledger.db --account patients"

    def refuse(source, target, *, named, **more):
        here = Path(target).parent == folder and Path(target).name == "m.json"
        if here or not anywhere:
            raise OSError(errno.EBUSY, "busy")
        named(source, target, **more)

    for step in ("link", "replace"):  # either gives a file its name
        given = partial(refuse, named=getattr(os, step))
        monkeypatch.setattr(f"missdp.files.os.{step}", given)
    (folder / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    err = fails(8, "busy", f"{FIT} --method privbayes --delta 0 {account}")
    assert not Path("m.json").exists()
    assert not [*folder.glob(".missdp-*")]
    kept = [*(folder / "tmp").rglob("m.json")]
    assert len(kept) == anywhere
    assert ("could not be saved" in err) == (not anywhere)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    (shown,) = told("ledger show --ledger sqlite:///ledger.db")["accounts"]
    assert shown["spent"] == 1
    assert len(shown["started"]) == (not anywhere)  # never refunded
    for path in kept:
        assert os.path.relpath(path) in err
        assert missdp.load(path).guarantee_.epsilon == 1.0


def test_a_model_that_another_run_wrote_meanwhile_is_not_replaced(folder, fails, monkeypatch):
    real = AllPairs.fit

    def fit(self, *given, **named):
        Path("m.json").write_text("theirs")
        return real(self, *given, **named)

    monkeypatch.setattr(AllPairs, "fit", fit)
    err = fails(8, "another process wrote it", FIT)
    assert Path("m.json").read_text() == "theirs"
    assert "Draw rows from it at no cost" in err


def test_an_empty_file_is_only_written_if_asked_for(folder, ok, monkeypatch, fails):
    monkeypatch.setattr("missdp.synth.fitting.rounded_rows", lambda *_, **__: 0)
    fails(8, "--rows", SYNTHESIZE)
    sample = "sample out.model.json -o out.csv"
    fails(2, "--rows", sample)
    assert not Path("out.csv").exists()
    ok(f"{sample} --rows 0")
    assert Path("out.csv").exists()


# -- planned -----------------------------------------------------------------------------------
def test_a_dry_run_reads_and_charges_nothing_and_states_the_guarantee_of_the_fit(folder, told):
    before = contents(folder)
    planned = told(f"{FIT} --delta 1e-6 --dry-run")
    assert contents(folder) == before
    fitted = told(f"{FIT} --delta 1e-6", quiet=True)
    assert planned["guarantee"]["epsilon"] == fitted["guarantee"]["epsilon"]
    assert planned["guarantee"]["conditions"] == fitted["guarantee"]["conditions"]


def test_a_dry_run_of_spark_starts_no_session(folder, told, monkeypatch):
    """It states the guarantee of a fit in Spark before Spark is started."""
    pytest.importorskip("pyspark")
    monkeypatch.setattr("missdp.engines.spark_rows", None)
    planned = told(f"{FIT} --engine spark --dry-run")
    assert (planned["guarantee"]["epsilon"], planned["account"]) == (1.0, None)


# -- printing fails ----------------------------------------------------------------------------
@pytest.mark.long
@needs_full
@pytest.mark.parametrize("as_json", ["", "--json"])
def test_an_unprintable_answer_goes_to_standard_error(folder, capsys, monkeypatch, as_json):
    with FULL.open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main(shlex.split(f"{QUERY} {as_json}"))
        monkeypatch.undo()
        err = capsys.readouterr().err
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert code == 8
    for said in ("standard output: No space left", "mean(age): ", "1-differentially private"):
        assert said in err
    assert "Traceback" not in err
    if not as_json:
        with FULL.open("w") as full:
            command = [sys.executable, "-m", "missdp", *shlex.split(QUERY)]
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder
            )
        assert (done.returncode, "mean(age): " in done.stderr) == (8, True)
        assert not any(word in done.stderr for word in ("Traceback", "Exception ignored"))


@needs_full
def test_nobody_hears_anything_and_it_still_ends_well(folder, capsys, monkeypatch):
    with FULL.open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["sample", "none.json", "-o", "x.csv"]) == 3
        assert main(["sample", "none.json", "--colour"]) == 2
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["--help"]) == 5
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


# -- files that replace other files ------------------------------------------------------------
def test_a_release_that_is_replaced_has_a_new_id_everywhere(replacing, told):
    old = missdp.load("out.model.json").release_
    document = told(f"{SYNTHESIZE} --overwrite -o out.parquet --delta 1e-6", quiet=True)
    model = missdp.load("out.model.json")
    metadata = pyarrow.parquet.read_schema("out.parquet").metadata
    label = json.loads(Path("out.parquet.synthetic.json").read_text())
    found = {document["release"], label["release"], metadata[b"missdp.release"].decode()}
    assert found == {model.release_} != {old}
    assert len(document["release"]) == 32
    assert (label["synthetic"], metadata[b"missdp.synthetic"]) == (True, b"yes")
    promised = metadata[b"missdp.guarantee"].decode()
    assert promised == in_a_line(model.guarantee_)
    assert promised.startswith(sentences(model.guarantee_)[0])
    assert " ".join(model.guarantee_.conditions[0].statement().split()) in promised


def test_permissions_of_replaced_files_stay(replacing, ok, fails):
    Path("out.csv").chmod(0o640)
    ok(f"{SYNTHESIZE} --overwrite")
    assert Path("out.csv").stat().st_mode & 0o777 == 0o640
    before = Path("out.csv").read_bytes()
    again = f"{SYNTHESIZE.replace('data.csv', 'out.csv')} --overwrite"
    fails(5, "same command", again)
    assert Path("out.csv").read_bytes() == before


# -- messages of commands ----------------------------------------------------------------------
@pytest.mark.long
def test_rows_of_another_release_are_noticed(replacing, run, ok):
    looks = (
        "evaluate data.csv out.csv --schema schema.toml",
        "evaluate data.csv out.csv --schema out.model.json",
    )
    assert not any("release" in run(look)[2] for look in looks)
    ok(f"{SYNTHESIZE} -o new.csv")
    other, own = (missdp.load(f"{n}.model.json").release_ for n in ("new", "out"))
    for source in ("new.csv", "new.csv.synthetic.json"):
        shutil.copyfile(source, source.replace("new", "out"))
    for look in looks:
        code, _, err = run(look)
        assert code == 0
        assert f"'out.csv' was drawn from release {other}, but" in err
        assert f"has release {own}" in err
    Path("new.csv").write_text(Path("new.csv").read_text().replace("no", "yes"))
    changed = run("evaluate data.csv new.csv --schema schema.toml")[2]
    assert "'new.csv' was changed after it was drawn" in changed


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_nothing_of_a_release_is_said_before_its_model_is_on_the_disk(folder, ok, monkeypatch):
    pd.read_csv("data.csv").head(0).to_csv("data.csv", index=False)
    heard = []
    monkeypatch.setattr(
        "missdp.cli.print_error", lambda text: heard.append((text, Path("out.model.json").exists()))
    )
    ok(SYNTHESIZE)
    ((text, kept),) = (one for one in heard if "too small" in one[0])
    assert ("the table is too small" in text, kept) == (True, True)
