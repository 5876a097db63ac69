"""All files of a release belong together, whatever stops the run, and whatever is said is true."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import missdp
from missdp import Categorical, Schema
from missdp.cli import side_files
from missdp.cli.release_files import _ROOM, _ROOM_OF_PAIR, Release
from missdp.synth.base import Synthesizer
from missdp.table import Table

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of another kind")
SYNTHESIZE = ("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", 1, "-o", "out.csv")
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


def ids():
    texts = (Path(name).read_text() for name in NAMES if name != "out.csv")
    return {json.loads(text)["release"] for text in texts}


# -- stops -------------------------------------------------------------------------------------
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
        ("missdp.mechanisms.door", "ExactCounts", 1, 143, "Nothing was released, but"),
        ("missdp.synth.state", "warn_if_weak", 1, 143, None),
        ("missdp.synth.state", "whole_rows", 1, 143, "the model of release"),
        ("missdp.synth.state", "whole_rows", 2, 143, "Nothing was released, but"),
        ("missdp.cli.synthesize", "_rows_wanted", 1, 143, "the model of release"),
        ("missdp.cli.synthesize", "emit", 1, 143, "all of release"),
        ("missdp.cli.main", "_flush_or_drop", 1, 0, ""),
    ],
)
def test_a_signal_that_comes_once_noise_is_drawn_waits_for_the_model(
    bench, folder, module, name, times, code, says
):
    hook = at(module, name, lambda: stop(times))
    found, out, err = bench.ended(bench.forked(folder, [*bench.RUN, "--epsilon", "1"], hook))
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
def test_a_stop_that_python_swallows_is_a_stop(bench, folder):
    def swallowed():
        Dying()
        time.sleep(20)  # the stop comes again long before, however busy the machine is

    def hook():
        sys.unraisablehook = sys.__unraisablehook__  # not that of the tests
        at("missdp.synth.state", "release_kinds", swallowed)()

    code, out, err = bench.ended(bench.forked(folder, [*bench.RUN, "--epsilon", "1"], hook))
    assert (code, out) == (143, "")
    assert "missdp: interrupted" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


# -- names that are taken ------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_what_is_there_is_refused_before_the_charge(folder, run, monkeypatch, name):
    monkeypatch.setattr(Synthesizer, "fit", None)
    Path(name).write_text("mine")
    code, _, err = run(*SYNTHESIZE, "--guarantee", "g.json")
    assert (code, err) == (
        5,
        f"missdp: {name!r} exists; pass --overwrite to replace it, or name another output\n",
    )
    assert Path(name).read_text() == "mine"
    assert sorted(os.listdir()) == sorted([*TABLE, name])


@posix
def test_the_claim_of_a_run_holds_until_it_ends(folder, run, ok):
    schema = Schema.from_toml("schema.toml")
    with Release(Path("out.csv"), model=Path("m.json")).claimed(schema):
        assert json.loads(Path("out.release.json").read_text())["state"] == "begun"
        for other in (("-o", "out.csv"), ("-o", "o.csv", "--model", "m.json")):
            for more in ((), ("--overwrite",)):
                code, _, err = run(*SYNTHESIZE, *other, *more)
                assert (code, "has not ended" in err, "charged" in err) == (5, True, False)
        shutil.copytree(folder, folder / "killed")
    assert sorted(os.listdir()) == sorted([*TABLE, "killed"])
    os.chdir("killed")
    for path in Path().glob(".missdp-*"):
        path.unlink()
    for command in (SYNTHESIZE, ("price", "m.json")):
        code, _, err = run(*command)
        assert "only the claim of release" in err
        assert "killed and kept no model; if it had begun to read private rows" in err
        assert code in (3, 5)
    ok(*SYNTHESIZE, "--overwrite", "--model", "m.json")
    assert sorted(os.listdir()) == sorted([*TABLE, "m.json", "out.csv", "out.release.json"])


def test_all_of_an_old_release_is_replaced(replacing, ok):
    old = ids()
    more = ("--overwrite", "-o", "out.parquet", "--json", "--delta", 1e-6)
    out = ok(*SYNTHESIZE, *more, quiet=True)
    names = ["out.model.json", "out.parquet", "out.release.json"]
    assert sorted(os.listdir()) == sorted([*TABLE, *names])
    document, side = json.loads(out), json.loads(Path("out.release.json").read_text())
    metadata = pyarrow.parquet.read_schema("out.parquet").metadata
    found = {document["release"], side["release"], metadata[b"missdp.release"].decode()}
    assert found == {missdp.load("out.model.json").release_}
    assert len(document["release"]) == 32
    assert not found & old
    assert side["synthetic"] is True
    assert metadata[b"missdp.synthetic"] == b"yes"
    promised = missdp.load("out.model.json").guarantee_
    for said in (side["guarantee"], metadata[b"missdp.guarantee"].decode()):
        assert said == promised.in_a_line
        assert said.startswith(promised.sentences[0])
        assert " ".join(promised.conditions[0].statement().split()) in said


def test_permissions_of_what_is_replaced_are_kept(replacing, ok):
    Path("out.csv").chmod(0o640)
    ok(*SYNTHESIZE, "--overwrite", "--guarantee", "g.json")
    assert Path("out.csv").stat().st_mode & 0o777 == 0o640
    assert len(ids()) == 1


def test_an_input_is_not_removed_with_an_old_release(replacing, fails):
    before = Path("out.csv").read_bytes()
    command = ("synthesize", "out.csv", *SYNTHESIZE[2:-1], "out.parquet", "--overwrite")
    fails(5, "same command", *command)
    assert Path("out.csv").read_bytes() == before


# -- failures on the way into place ----------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_if_one_file_cannot_take_its_place_all_is_as_it_was(replacing, fails, monkeypatch, name):
    before = {path.name: path.read_bytes() for path in replacing.iterdir()}
    replace = os.replace

    def refuse(source, target):
        if Path(target).resolve() == replacing / name and "old-" not in str(source):
            raise OSError(16, "busy")
        replace(source, target)

    monkeypatch.setattr("os.replace", refuse)
    err = fails(
        8, "everything is where it was", *SYNTHESIZE, "--overwrite", "--guarantee", "g.json"
    )
    now = {path.name: path.read_bytes() for path in replacing.iterdir()}
    new = {path for path in now if path not in before}
    (kept,) = (path for path in new if path.endswith(".model.json"))
    assert f"missdp sample {kept} -o {kept.replace('.model.json', '.csv')}" in err
    assert len(new) == 2  # and the guarantee
    assert before == {path: now[path] for path in now if path not in new}


def test_what_somebody_else_wrote_meanwhile_stays(folder, fails, monkeypatch):
    written = missdp.cli.synthesize.write_rows
    monkeypatch.setattr(
        "missdp.cli.synthesize.write_rows",
        lambda *a, **k: (Path("out.csv").write_text("mine"), written(*a, **k))[1],
    )
    fails(8, "'out.csv' was written by somebody else meanwhile", *SYNTHESIZE)
    assert Path("out.csv").read_text() == "mine"
    (kept,) = folder.glob("out-*.model.json")
    assert sorted(os.listdir()) == sorted([*TABLE, "out.csv", kept.name])


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_a_side_file_from_elsewhere_moves_nothing_of_other_folders(tmp_path, monkeypatch):
    """Whoever unpacks a stranger's folder and looks at it loses no file by that."""
    here = tmp_path / "unpacked"
    here.mkdir()
    monkeypatch.chdir(here)
    victim, other = tmp_path / "victim.json", tmp_path / "new.json"
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


# -- what commands say -------------------------------------------------------------------------
def test_commands_say_when_files_of_two_releases_are_mixed(replacing, run, ok):
    looks = [
        ("evaluate", "data.csv", "out.csv", "--schema", "schema.toml"),
        ("price", "out.model.json"),
        ("sample", "out.model.json", "-o", "more.csv", "--overwrite"),
        ("impute", *SYNTHESIZE[1:4], "-o", "f.csv", "--overwrite", "--model", "out.model.json"),
    ]
    assert not any("mixed" in run(*look)[2] for look in looks)
    ok(*SYNTHESIZE, "-o", "new.csv", "--guarantee", "new.json")
    other = missdp.load("new.model.json").release_
    for source, target in (("new.csv", "out.csv"), ("new.model.json", "out.model.json"),
                           ("new.json", "g.json")):  # fmt: skip
        before = Path(target).read_bytes()
        shutil.copyfile(source, target)
        for look in looks:
            code, _, err = run(*look)
            assert code == 0
            assert f"'out.release.json' is of release {min(ids() - {other})}, but {target!r}" in err
            assert (f"{target!r} is of release {other}" in err) == (target != "out.csv")
        Path(target).write_bytes(before)
    assert not any("mixed" in run(*look)[2] for look in looks)


def test_other_rows_do_not_take_the_place_of_a_released_table(replacing, fails):
    before = Path("out.csv").read_bytes()
    model, data = "out.model.json", ("data.csv", "--schema", "schema.toml")
    for command in (
        ("sample", model),
        ("impute", *data, "--model", model),
        ("simulate", *data, "--rate", 0.1, "--seed", 1),
    ):
        fails(5, "it is the table of release", *command, "-o", "out.csv")
        assert Path("out.csv").read_bytes() == before


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_nothing_of_a_release_is_said_before_its_model_is_on_the_disk(folder, ok, monkeypatch):
    pd.read_csv("data.csv").head(0).to_csv("data.csv", index=False)
    heard = []
    monkeypatch.setattr(
        "missdp.cli.complain", lambda text: heard.append((text, [*folder.glob("out-*.model.json")]))
    )
    ok(*SYNTHESIZE)
    ((text, kept),) = heard
    assert "the table is too small" in text
    assert len(kept) == 1


# -- room ----------------------------------------------------------------------------------------
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
