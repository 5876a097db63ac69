"""All files of a release belong together, what is paid for is never lost, what is said is true."""

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

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import missdp
from missdp import AllPairs, Categorical, Schema, Table
from missdp.cli import side_files
from missdp.cli.main import main
from missdp.cli.release_files import _ROOM, _ROOM_OF_PAIR, Release
from missdp.synth.base import Synthesizer
from missdp.words import in_a_line, sentences

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of another kind")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
SYNTHESIZE = "synthesize data.csv --schema schema.toml --epsilon 1 -o out.csv"
QUERY = "query data.csv --schema schema.toml --impute age --match smoker --epsilon 1 --mean age"
NAMES = ["g.json", "out.csv", "out.model.json", "out.release.json"]
TABLE = ["data.csv", "schema.toml"]


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
    """Run a command in a process of its own, after a hook there; return what `run` returns."""
    monkeypatch.setattr("missdp.progress.MIN_SECONDS", 3600.0)  # a slow machine prints no stages
    return lambda hook, command: bench.ended(bench.forked(folder, shlex.split(command), hook))


@pytest.fixture
def on_a_small_disk(forked):
    """Run a command that may write so many bytes to a file; return what `run` returns."""

    def limited(size):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return lambda size, command: forked(partial(limited, size), command)


@pytest.fixture
def no_fit(monkeypatch):
    """A fit would be something unexpected: what is refused is refused in time."""
    monkeypatch.setattr(Synthesizer, "fit", None)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def kept_model(folder):
    """The model that was kept beside a release that did not get into place."""
    (kept,) = folder.glob("out-*.model.json")
    assert missdp.load(kept).guarantee_.epsilon == 1.0
    return kept


def ids():
    texts = (Path(name).read_text() for name in NAMES if name != "out.csv")
    return {json.loads(text)["release"] for text in texts}


# -- stops -------------------------------------------------------------------------------------
@pytest.mark.long
@posix
@pytest.mark.parametrize(
    ("template", "how", "each"),
    [
        pytest.param("plain", "SIGTERM", 1, marks=pytest.mark.slow),
        pytest.param("old", "SIGKILL", 1, marks=pytest.mark.slow),
        ("old", "SIGKILL", 4),
    ],
)
def test_a_run_that_is_stopped_at_any_rename_leaves_no_mixture_and_says_what_is_true(
    bench, base, template, how, each
):
    old = base / "old" if template == "old" else None
    extra = ["--overwrite"] if old else []
    with bench.fresh(base, old) as folder:
        counts = bench.steps_of(folder, [*bench.RUN, "--epsilon", "1", *extra])
    moments = [(step, k + 1) for step in ("link", "replace") for k in range(counts[step])]
    assert len(moments) >= 8
    for step, number in moments[::each]:
        hook = bench.stopping(step, number, True, getattr(signal, how))
        assert bench.stopped(base, old, hook) is None, (step, number)


@pytest.mark.long
@posix
def test_three_runs_at_once_release_once(bench, base):
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
        ("missdp.synth.fitting", "whole_rows", 1, 143, "the model of release"),
        ("missdp.synth.fitting", "whole_rows", 2, 143, "Nothing was released, but"),
        ("missdp.cli.synthesize", "_rows_wanted", 1, 143, "the model of release"),
        ("missdp.cli.synthesize", "emit", 1, 143, "all of release"),
        ("missdp.cli.main", "_flush_or_drop", 1, 0, ""),
    ],
)
def test_a_signal_that_comes_once_noise_is_drawn_waits_for_the_model(
    bench, folder, forked, module, name, times, code, says
):
    hook = at(module, name, lambda: stop(times))
    found, out, err = forked(hook, f"{SYNTHESIZE} --guarantee g.json")
    kept = [*folder.glob("out-*.model.json")]
    assert found == code, err
    assert ("interrupted" in err) == (code != 0)
    assert says is None or says in err
    assert bool(kept) == ("the model of release" in err)
    assert (bench.whole(folder) is not None) == (code == 0 or "all of release" in err)
    assert bool(out) == (code == 0)


class Dying:
    """What an interruption cannot leave: Python only prints it, and goes on."""

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
        class Stopping(pyarrow.csv.CSVWriter):
            def write_table(self, table):
                super().write_table(table)
                os.kill(os.getpid(), signal.SIGINT)

        pyarrow.csv.CSVWriter = Stopping

    code, _, err = forked(hook, f"{SYNTHESIZE} --rows 500000")
    assert code == 130
    assert not Path("out.csv").exists()
    assert not [*Path().glob(".missdp-*.tmp")]
    assert "charged (epsilon = 1" in err
    assert f"missdp sample {kept_model(folder).name}" in err


# -- refused in time ---------------------------------------------------------------------------
@posix
def test_a_disk_without_room_for_the_model_is_refused_before_the_charge(folder, on_a_small_disk):
    code, _, err = on_a_small_disk(100_000, SYNTHESIZE)
    assert (code, ".model.json" in err, "charged" in err) == (5, True, False)
    assert sorted(os.listdir(folder)) == TABLE


def test_an_answer_to_nowhere_is_refused_before_the_charge(folder, capsys, monkeypatch, no_fit):
    monkeypatch.setattr(sys, "stdout", None)
    for command in (SYNTHESIZE, QUERY, "demo"):
        assert main(command.split()) == 5
    err = capsys.readouterr().err
    assert err.count("standard output: it is closed") == 3
    assert "charged" not in err


@pytest.mark.long
@posix
def test_a_disk_that_fills_up_while_rows_are_sampled_leaves_what_was_there(
    replacing, on_a_small_disk
):
    Path("more.parquet").write_text("old")
    before = contents(replacing)
    more = "sample out.model.json -o more.parquet --rows 150000 --overwrite"
    code, _, err = on_a_small_disk(2**16, more)
    assert (code, err.count("\n"), "File too large" in err) == (5, 1, True)
    assert contents(replacing) == before


@pytest.mark.parametrize("name", NAMES)
def test_what_is_there_is_refused_before_the_charge(folder, fails, no_fit, name):
    Path(name).write_text("mine")
    err = fails(5, f"{name!r} exists. Use --overwrite", f"{SYNTHESIZE} --guarantee g.json")
    assert err.count("\n") == 1
    assert Path(name).read_text() == "mine"
    assert sorted(os.listdir()) == sorted([*TABLE, name])


# -- charged, and then something fails ---------------------------------------------------------
@pytest.mark.long
@posix
def test_a_disk_that_fills_up_later_leaves_the_model_and_says_how_to_go_on(
    folder, monkeypatch, ok, on_a_small_disk, without_noise_line
):
    monkeypatch.setattr("missdp.cli.release_files._ROOM", 2**16)
    code, out, err = on_a_small_disk(2**18, f"{SYNTHESIZE} --rows 70000")
    assert (code, out) == (8, ""), err
    _, first, second, third = without_noise_line(err).splitlines()
    assert first.startswith("missdp: cannot write 'out-")
    assert os.strerror(errno.EFBIG) in first
    assert "charged (epsilon = 1, delta = 1e-06)" in second
    kept = kept_model(folder).name
    assert third.endswith(f"missdp sample {kept} -o out.csv")
    assert sorted(os.listdir(folder)) == sorted([*TABLE, kept])
    ok(third.split("missdp ")[1])
    assert len(pd.read_csv("out.csv")) > 200


@pytest.mark.parametrize("where", ["sample_blocks", "to_arrow"])
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("private"), OSError(28, "private")])
def test_any_later_failure_leaves_the_model(folder, fails, monkeypatch, where, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Table if where == "to_arrow" else AllPairs, where, fail)
    err = fails(8, "charged (epsilon = 1, delta = 1e-06)", f"{SYNTHESIZE} --json")
    assert "private" not in err.replace("private data", "").replace("private cells", "")
    monkeypatch.undo()
    assert kept_model(folder).name in err


@pytest.mark.parametrize("anywhere", [True, False])
def test_a_model_that_cannot_be_saved_there_is_saved_elsewhere(
    folder, fails, monkeypatch, anywhere
):
    def refuse(source, target, *, named, **more):
        here = Path(target).parent == folder and Path(target).name.endswith(".model.json")
        if here or not anywhere:
            raise OSError(errno.EBUSY, "busy")
        named(source, target, **more)

    for step in ("link", "replace"):  # either gives a file its name
        given = partial(refuse, named=getattr(os, step))
        monkeypatch.setattr(f"missdp.files.os.{step}", given)
    (folder / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    err = fails(8, "busy", f"{SYNTHESIZE} --model m.json --guarantee g.json")
    assert sorted(os.listdir(folder)) == [*TABLE, "tmp"]
    kept = [*(folder / "tmp").rglob("*.model.json")]
    assert len(kept) == anywhere
    assert ("could not be saved" in err) == (not anywhere)
    for path in kept:
        assert os.path.relpath(path) in err
        assert missdp.load(path).guarantee_.epsilon == 1.0


def test_an_empty_file_is_only_written_if_asked_for(folder, ok, monkeypatch, fails):
    monkeypatch.setattr("missdp.synth.fitting.whole_rows", lambda *_, **__: 0)
    fails(8, "--rows", SYNTHESIZE)
    sample = f"sample {kept_model(folder)} -o out.csv"
    fails(2, "--rows", sample)
    assert not Path("out.csv").exists()
    ok(f"{sample} --rows 0")
    assert Path("out.csv").exists()


@pytest.mark.parametrize("name", NAMES)
def test_if_one_file_cannot_take_its_place_all_is_as_it_was(replacing, fails, monkeypatch, name):
    before, replace = contents(replacing), os.replace

    def refuse(source, target):
        if Path(target).resolve() == replacing / name and "old-" not in str(source):
            raise OSError(16, "busy")
        replace(source, target)

    monkeypatch.setattr("os.replace", refuse)
    asked = f"{SYNTHESIZE} --overwrite --guarantee g.json"
    err, now = fails(8, "everything is where it was", asked), contents(replacing)
    kept = kept_model(replacing).name
    assert f"missdp sample {kept} -o {kept.replace('.model.json', '.csv')}" in err
    assert len(now) == len(before) + 2  # and the guarantee
    assert before.items() <= now.items()


def test_what_somebody_else_wrote_meanwhile_stays(folder, fails, monkeypatch):
    written = missdp.cli.synthesize.write_rows
    monkeypatch.setattr(
        "missdp.cli.synthesize.write_rows",
        lambda *a, **k: (Path("out.csv").write_text("mine"), written(*a, **k))[1],
    )
    fails(8, "'out.csv' was written by somebody else meanwhile", SYNTHESIZE)
    assert Path("out.csv").read_text() == "mine"
    assert sorted(os.listdir()) == sorted([*TABLE, "out.csv", kept_model(folder).name])


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_a_side_file_from_elsewhere_moves_nothing_of_other_folders(tmp_path, monkeypatch):
    """Whoever unpacks a stranger's folder and looks at it loses no file by that."""
    here, victim, other = (tmp_path / n for n in ("unpacked", "victim.json", "new.json"))
    here.mkdir()
    monkeypatch.chdir(here)
    victim.write_text("mine")
    facts = side_files.size_and_time(victim)
    for files in ({"model": "../victim.json"}, {"model": "../new.json"}, {}):
        said = {"release": "1" * 32, "name": "out", "state": "whole", "sha256": "", "files": files}
        said["replaces"] = {"../victim.json": facts}
        Path(f"out-{'1' * 32}.release.json").write_text(json.dumps(said))
        Path(f"out-{'1' * 32}.model.json").write_text("evil")
        side_files.settle(here)
        assert victim.read_text() == "mine"
        assert not other.exists()


# -- printing fails ----------------------------------------------------------------------------
@pytest.mark.long
@needs_full
@pytest.mark.parametrize("as_json", ["", "--json"])
def test_an_answer_that_cannot_be_printed_is_told_on_the_other_stream(
    folder, capsys, monkeypatch, as_json
):
    with FULL.open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main(f"{QUERY} {as_json}".split())
        monkeypatch.undo()
        err = capsys.readouterr().err
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert code == 8
    for said in ("standard output: No space left", "mean(age): ", "1-differentially private"):
        assert said in err
    assert "Traceback" not in err
    if not as_json:
        with FULL.open("w") as full:
            command = [sys.executable, "-m", "missdp", *QUERY.split()]
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


# -- what takes the place of what --------------------------------------------------------------
@pytest.mark.long
@posix
def test_the_claim_of_a_run_holds_until_it_ends(folder, fails, ok):
    schema = Schema.from_toml("schema.toml")
    with Release(Path("out.csv"), model=Path("m.json")).claimed(schema):
        assert json.loads(Path("out.release.json").read_text())["state"] == "begun"
        for other in ("", "-o o.csv --model m.json"):
            for more in ("", "--overwrite"):
                assert "charged" not in fails(5, "has not ended", f"{SYNTHESIZE} {other} {more}")
        shutil.copytree(folder, folder / "killed")
    assert sorted(os.listdir()) == sorted([*TABLE, "killed"])
    os.chdir("killed")
    for path in Path().glob(".missdp-*"):
        path.unlink()
    for code, command in ((5, SYNTHESIZE), (3, "price m.json")):
        err = fails(code, "only the claim of release", command)
        assert "killed and kept no model; if it had begun to read private rows" in err
    ok(f"{SYNTHESIZE} --overwrite --model m.json")
    assert sorted(os.listdir()) == sorted([*TABLE, "m.json", "out.csv", "out.release.json"])


def test_all_of_an_old_release_is_replaced(replacing, told):
    old = ids()
    document = told(f"{SYNTHESIZE} --overwrite -o out.parquet --delta 1e-6", quiet=True)
    names = ["out.model.json", "out.parquet", "out.release.json"]
    assert sorted(os.listdir()) == sorted([*TABLE, *names])
    side, model = json.loads(Path("out.release.json").read_text()), missdp.load("out.model.json")
    metadata = pyarrow.parquet.read_schema("out.parquet").metadata
    found = {document["release"], side["release"], metadata[b"missdp.release"].decode()}
    assert found == {model.release_}
    assert len(document["release"]) == 32
    assert not found & old
    assert (side["synthetic"], metadata[b"missdp.synthetic"]) == (True, b"yes")
    promised = model.guarantee_
    for said in (side["guarantee"], metadata[b"missdp.guarantee"].decode()):
        assert said == in_a_line(promised)
        assert said.startswith(sentences(promised)[0])
        assert " ".join(promised.conditions[0].statement().split()) in said


def test_permissions_of_what_is_replaced_are_kept_and_inputs_not_removed(replacing, ok, fails):
    Path("out.csv").chmod(0o640)
    ok(f"{SYNTHESIZE} --overwrite --guarantee g.json")
    assert Path("out.csv").stat().st_mode & 0o777 == 0o640
    assert len(ids()) == 1
    before = Path("out.csv").read_bytes()
    again = f"{SYNTHESIZE.replace('data.csv', 'out.csv')} --overwrite -o out.parquet"
    fails(5, "same command", again)
    data = "data.csv --schema schema.toml"
    for other in (
        "sample out.model.json",
        f"impute {data} --model out.model.json",
        f"simulate {data} --rate 0.1 --seed 1",
    ):
        fails(5, "it is the table of release", f"{other} -o out.csv")
    assert Path("out.csv").read_bytes() == before


# -- what commands say -------------------------------------------------------------------------
@pytest.mark.long
def test_commands_say_when_files_of_two_releases_are_mixed(replacing, run, ok):
    looks = (
        "evaluate data.csv out.csv --schema schema.toml",
        "price out.model.json",
        "sample out.model.json -o more.csv --overwrite",
        "impute data.csv --schema schema.toml -o f.csv --overwrite --model out.model.json",
    )
    assert not any("mixed" in run(look)[2] for look in looks)
    ok(f"{SYNTHESIZE} -o new.csv --guarantee new.json")
    other = missdp.load("new.model.json").release_
    for source, target in (("new.csv", "out.csv"), ("new.model.json", "out.model.json"),
                           ("new.json", "g.json")):  # fmt: skip
        before = Path(target).read_bytes()
        shutil.copyfile(source, target)
        for look in looks:
            code, _, err = run(look)
            assert code == 0
            assert f"'out.release.json' is of release {min(ids() - {other})}, but {target!r}" in err
            assert (f"{target!r} is of release {other}" in err) == (target != "out.csv")
        Path(target).write_bytes(before)
    assert not any("mixed" in run(look)[2] for look in looks)


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_nothing_of_a_release_is_said_before_its_model_is_on_the_disk(folder, ok, monkeypatch):
    pd.read_csv("data.csv").head(0).to_csv("data.csv", index=False)
    heard = []
    monkeypatch.setattr(
        "missdp.cli.complain", lambda text: heard.append((text, [*folder.glob("out-*.model.json")]))
    )
    ok(SYNTHESIZE)
    ((text, kept),) = heard
    assert ("the table is too small" in text, len(kept)) == (True, 1)


@pytest.mark.parametrize(
    ("method", "columns", "levels"),
    [
        ("all-pairs", 8, 4),
        ("privbayes", 3, 60),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("aim", 8, 4), ("kamino", 3, 60))),
    ],
)
def test_a_model_takes_no_more_than_the_room_set_aside(tmp_path, method, columns, levels):
    names = tuple(f"level {k}" for k in range(levels))
    schema = Schema(
        tuple(Categorical(name=f"a{k}", levels=names, nullable=True) for k in range(columns))
    )
    rng = np.random.default_rng(0)
    rows = Table.from_codes(schema, {a.name: rng.integers(0, levels + 1, 500) for a in schema})
    model = missdp.synthesizers()[method](epsilon=10.0, delta=1e-6, random_state=0).fit(rows)
    model.save(tmp_path / "m.json")
    # Names and events, which the room for ordinary surveys is far more than enough for, apart.
    of_pairs = _ROOM_OF_PAIR * (columns * (levels + 1)) ** 2
    assert (tmp_path / "m.json").stat().st_size < of_pairs + _ROOM / 64
