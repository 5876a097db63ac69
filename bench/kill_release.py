"""Stop `missdp synthesize` at every moment, fill its disk, run three at once, check the files.

``python bench/kill_release.py`` forks a run for each moment: before and after each call that
changes files (open, write, fsync, rename, ...), and at random times. Runs are stopped by SIGKILL,
SIGTERM or SIGINT, with and without a release to be replaced. `wrong_with` checks the conditions
that must hold afterwards. The script needs Linux. The full disk also needs root, for a tmpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import missdp
from missdp import Categorical, Numeric, Schema, files
from missdp.cli import main as command
from missdp.cli.app import command_named
from missdp.cli.provenance import label_of, sha256_of
from missdp.governance import Ledger

STEPS = ("open", "write", "fsync", "replace", "unlink", "link")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LEDGER = ["--ledger", "sqlite:///ledger.db", "--account", "patients"]
RUN = [
    "synthesize",
    "data.csv",
    "--schema",
    "schema.toml",
    "-o",
    "out.csv",
    "--delta",
    "0",
    *LEDGER,
]
NAMES = ("out.csv", "out.model.json", "out.csv.synthetic.json")
OLD, NEW = 3.0, 1.0  # epsilons by which releases are distinguished


def prepare(folder: Path) -> None:
    """Write a small private table, its schema and its ledger, and import a run's modules."""
    schema = Schema(
        (
            Categorical(name="smoker", levels=("no", "yes"), nullable=True),
            Numeric(name="age", lower=0, upper=99, integer=True, bins=5, nullable=True),
        )
    )
    schema.to_toml(folder / "schema.toml")
    rng = np.random.default_rng(0)
    rows = {"smoker": rng.choice(["no", "yes"], 300), "age": rng.integers(0, 99, 300)}
    frame = pd.DataFrame(rows).astype({"age": "Int64"}).mask(rng.random((300, 2)) < 0.1)
    frame.to_csv(folder / "data.csv", index=False)
    Ledger(f"sqlite:///{folder}/ledger.db").create("patients", epsilon=20.0)
    for name in ("synthesize", "guarantee", "sample", "evaluate", "query"):
        command_named(name)


def forked(folder: Path, arguments: list[str], hook: Callable[[], None] = lambda: None) -> int:
    """Start a command in a separate process, as the console script does. Return its number."""
    signal.pthread_sigmask(signal.SIG_BLOCK, files.STOP_SIGNALS)  # while Python forks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which are idle here
        child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, files.STOP_SIGNALS)
        return child
    code = 70
    try:
        os.chdir(folder)
        name = f".said-{os.getpid()}"
        for stream in (1, 2):
            os.dup2(os.open(f"/tmp/{name}-{stream}", os.O_CREAT | os.O_WRONLY, 0o600), stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
        command._on_stop(command._stop_at_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, files.STOP_SIGNALS)
        sys.stdout, sys.stderr = (open(k, "w", encoding="utf-8", closefd=False) for k in (1, 2))  # noqa: SIM115
        sys.argv = ["missdp", *arguments]
        hook()
        command.run()
    except SystemExit as done:
        code = int(done.code or 0)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def ended(child: int) -> tuple[int, str, str]:
    """Wait for a run. Return its exit code (negative: killed) and its output."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = []
    for stream in (1, 2):
        path = Path(f"/tmp/.said-{child}-{stream}")
        texts.append(path.read_text(encoding="utf-8") if path.exists() else "")
        path.unlink(missing_ok=True)
    return code, texts[0], texts[1]


def stopping(step: str, number: int, after: bool, how: int) -> Callable[[], None]:
    """Return a hook that stops its process at the n-th call of one function of ``os``."""

    def hook() -> None:
        real, calls = getattr(os, step), Counter[str]()

        def counted(*arguments: object, **more: object) -> object:
            calls[step] += 1
            now = calls[step] == number
            if now and not after:
                os.kill(os.getpid(), how)
            try:
                return real(*arguments, **more)
            finally:
                if now and after:
                    os.kill(os.getpid(), how)

        setattr(os, step, counted)

    return hook


def steps_of(folder: Path, arguments: list[str]) -> Counter[str]:
    """Return the number of a run's calls of each function that changes files."""
    said = folder.parent / f"{folder.name}.calls"

    def hook() -> None:
        calls: Counter[str] = Counter()
        for step in STEPS:
            real = getattr(os, step)

            def counted(*arguments: object, _real=real, _step=step, **more: object) -> object:
                calls[_step] += 1
                return _real(*arguments, **more)

            setattr(os, step, counted)
        leave = os._exit

        def tell(code: int) -> None:
            said.write_text(json.dumps(calls))
            leave(code)

        os._exit = tell  # type: ignore[assignment]

    code, _, err = ended(forked(folder, arguments, hook))
    if code:
        raise SystemExit(f"the run failed: {err}")
    counts = Counter(json.loads(said.read_text()))
    said.unlink()
    return counts


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the files of the release in place."""
    return {name: (folder / name).read_bytes() for name in NAMES if (folder / name).is_file()}


def charged(folder: Path) -> list[dict[str, object]]:
    """Return the lines of the ledger about the release of the stopped run."""
    ledger = Ledger(f"sqlite:///{folder}/ledger.db")
    ledger.verify()
    lines = ledger.history("patients")
    ledger.close()
    started = [line for line in lines if line["state"] == "started"]
    new = [line["request"] for line in started if Fraction(line["cost"]) < OLD - 1]
    return [line for line in lines if line["request"] in new]


def broken(folder: Path, old: dict[str, bytes]) -> str | None:
    """Return a text about a file that is incomplete, uncharged, or of another release."""
    lines = charged(folder)
    started = {line["request"] for line in lines if line["state"] == "started"}
    if (folder / "out.model.json").exists():
        model = missdp.load(folder / "out.model.json")  # raises an error if it is half written
        if model.guarantee_.epsilon == NEW and model.release_ not in started:
            return "a model is there that was never charged"
        if model.guarantee_.epsilon != NEW and contents(folder).get("out.model.json") != old.get(
            "out.model.json"
        ):
            return "the old model is not as it was"
    rows = folder / "out.csv"
    if rows.exists() and rows.read_bytes() != old.get("out.csv"):
        if not (folder / "out.model.json").exists():
            return "rows are there without their model"
        if rows.read_bytes()[-1:] != b"\n":
            return "half a table is there"
    label = label_of(rows)
    if label.exists():
        document = json.loads(label.read_bytes())  # raises an error if it is half written
        matches = document["sha256"] == sha256_of(rows)
        mixed = document["release"] != missdp.load(folder / "out.model.json").release_
        if matches and mixed and old.get("out.csv") != rows.read_bytes():
            return "a label is of another release than the rows"
    return None


def wrong_with(folder: Path, old: dict[str, bytes], code: int, err: str) -> str | None:
    """Return the problem after a stopped run, and after the command that evaluates its files."""
    said_model = re.search(r"the model of release (\w+), in '(.*?)'", err)
    if said_model and not (folder / said_model[2]).exists():
        return "a model was said to be there, and is not"
    if wrong := broken(folder, old):
        return wrong
    present = contents(folder)
    is_new = present.get("out.model.json", b"") not in (b"", old.get("out.model.json"))
    look_code, _, words = 0, "", ""
    if "out.csv" in present:
        look = ["evaluate", "data.csv", "out.csv", "--schema", "schema.toml"]
        look_code, _, words = ended(forked(folder, look))
        mixed = is_new and present["out.csv"] == old.get("out.csv")
        if mixed and "has release" not in words:
            return "rows of another release than the model were not noticed"
    if "Traceback" in err + words or "unexpected" in err + words:
        return f"an error that nobody foresaw: {err} {words}"
    if code == 0 and not (is_new and len(present) == 3):
        return "it said that all is done"
    if "Nothing was released" in err and is_new:
        return "it said that nothing was released"
    if code > 0 and code not in (130, 143):
        return f"exit code {code}: {err}"
    if code in (130, 143) and "missdp: interrupted" not in err:
        return "it was stopped without a word"
    if code in (130, 143) and is_new and "released before" not in err:
        return "it hid what is released"
    ends = [line["state"] for line in charged(folder)]
    if code < 0 and ends not in ([], ["started"], ["started", "released"]):
        return f"the ledger holds {ends}"
    return f"a look at it failed: {words}" if look_code != 0 else None


@contextlib.contextmanager
def fresh(base: Path, template: Path | None) -> Iterator[Path]:
    """Yield a new folder with the private table, and the old release of a template."""
    with tempfile.TemporaryDirectory(dir=base, prefix="run-") as name:
        folder = Path(name)
        for path in (template or base / "plain").iterdir():
            subprocess.run(["cp", "-p", path, folder / path.name], check=True)
        yield folder


def stopped(
    base: Path,
    template: Path | None,
    hook: Callable[[], None],
    *,
    later: tuple[float, int] | None = None,
) -> str | None:
    """Stop one run, by its hook or after some seconds. Return the problem, or None."""
    with fresh(base, template) as folder:
        old = contents(folder)
        extra = ["--overwrite"] if template else []
        child = forked(folder, [*RUN, "--epsilon", str(NEW), *extra], hook)
        if later:
            time.sleep(later[0])
            os.kill(child, later[1])
        code, _, err = ended(child)
        return wrong_with(folder, old, code, err)


def moments(counts: Counter[str]) -> list[tuple[str, int, bool, int]]:
    """Return all moments and signals by which a run can be stopped."""
    return [
        (step, number, after, how)
        for step, count in sorted(counts.items())
        for number in range(1, count + 1)
        for after in (False, True)
        for how in SIGNALS
    ]


def set_up(base: Path) -> Path:
    """Make the folders that runs start from. Return the folder with an old release."""
    for name in ("plain", "old"):
        (base / name).mkdir()
        prepare(base / name)
    code, _, err = ended(forked(base / "old", [*RUN, "--epsilon", str(OLD)]))
    if code:
        raise SystemExit(err)
    return base / "old"


def three_at_once(base: Path, template: Path | None) -> str | None:
    """Start three runs with equal file names. Return the problem, or None.

    All may be charged. Without ``--overwrite`` one model is in place, and the others are saved
    elsewhere. No charged model is lost or replaced.
    """
    with fresh(base, template) as folder:
        extra = ["--overwrite"] if template else []
        children = []
        for _ in range(3):
            children.append(forked(folder, [*RUN, "--epsilon", str(NEW), *extra]))
            time.sleep(random.choice([0, 0.01, 0.1, 0.3]))
        done = [ended(child) for child in children]
        codes = sorted(code for code, _, _ in done)
        if not codes.count(0) or {*codes} - {0, 5, 8}:
            return f"exit codes {codes}: {[err for _, _, err in done]}"
        if not template and codes.count(0) != 1:
            return "a release was replaced unasked"
        charges = {line["request"] for line in charged(folder) if line["state"] == "started"}
        models = codes.count(0)
        for code, _, err in done:
            if code == 8:
                named = re.search(r"the model of release (\w+), in '(.*?)'", err)
                if named is None or missdp.load(named[2]).release_ not in charges:
                    return f"a model that was paid for is lost: {err}"
                models += 1
        return None if models == len(charges) else f"{len(charges)} charges, {models} models"


def full_disk(base: Path, size: int, filled: bool, template: Path | None) -> tuple[str, str | None]:
    """Run on a disk of this size in bytes, which may be filled up after noise is drawn."""
    with fresh(base, template) as start, tempfile.TemporaryDirectory(dir="/tmp") as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
        try:
            folder = Path(place)
            for path in start.iterdir():
                subprocess.run(["cp", "-p", path, folder / path.name], check=True)
            old = contents(folder)

            def filling(module: str, name: str) -> None:
                real = getattr(sys.modules[module], name)

                def fill(*arguments: object) -> object:
                    with contextlib.suppress(OSError), open("filler", "ab", buffering=0) as file:
                        while True:
                            file.write(b"x" * 4096)
                    return real(*arguments)

                setattr(sys.modules[module], name, fill)

            def hook() -> None:
                filling("missdp.session.session", "mark_noise_drawn")

            arguments = [*RUN, "--epsilon", str(NEW), "--rows", "20000"]
            arguments += ["--overwrite"] if template else []
            code, _, err = ended(forked(folder, arguments, hook if filled else lambda: None))
            (folder / "filler").unlink(missing_ok=True)
            if wrong := broken(folder, old):
                return "?", wrong
            if code in (2, 3, 5, 9) and "released before" not in err and contents(folder) == old:
                return "refused, or nothing released", None
            named = re.search(r"the model of release (\w+), in '(.*?)'", err)
            if code == 8 and named is not None:
                model = missdp.load(folder / named[2])
                return "model saved", None if model.guarantee_.epsilon == NEW else "another model"
            return ("done", None) if code == 0 else ("?", f"exit code {code}: {err}")
        finally:
            subprocess.run(["umount", place], check=True)


def main() -> None:
    """Print the number of stops of each kind, and the problem after each stop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--random", type=int, default=200, help="stops at random times, of each kind"
    )
    parser.add_argument("--every", type=int, default=1, help="take every n-th of the moments")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kill-release-") as name:
        base = Path(name)
        old = set_up(base)

        def note(kind: str, wrong: str | None) -> None:
            counts[kind] += 1
            if wrong:
                counts[f"{kind}: WRONG"] += 1
                print(f"{kind}: {wrong}", flush=True)

        for template in (None, old):
            which = "replacing" if template else "new"
            with fresh(base, template) as folder:
                extra = ["--overwrite"] if template else []
                calls = steps_of(folder, [*RUN, "--epsilon", str(NEW), *extra])
            print(which, dict(calls), flush=True)
            every = moments(calls)
            random.shuffle(every)
            for step, number, after, how in every[:: options.every]:
                wrong = stopped(base, template, stopping(step, number, after, how))
                note(f"{which}, {signal.Signals(how).name} at {step}", wrong)
            start = time.monotonic()
            with fresh(base, template) as folder:
                ended(forked(folder, [*RUN, "--epsilon", str(NEW), *extra]))
            takes = time.monotonic() - start
            for _ in range(options.random):
                how = random.choice(SIGNALS)
                later = (random.uniform(0, 1.1 * takes), how)
                wrong = stopped(base, template, lambda: None, later=later)
                note(f"{which}, {signal.Signals(how).name} at a random time", wrong)
            for _ in range(max(1, options.random // 10)):
                note(f"{which}, three at once", three_at_once(base, template))
            for size in [2**k for k in range(17, 26)]:
                for filled in (False, True):
                    kind, wrong = full_disk(base, size, filled, template)
                    note(f"{which}, disk {'filled up' if filled else 'small'}, {kind}", wrong)
    for kind, count in sorted(counts.items()):
        print(f"{count:6}  {kind}")


if __name__ == "__main__":
    main()
