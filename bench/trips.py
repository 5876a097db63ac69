"""The number of files that one answer passes through: files, and calls from file to file.

Five commands run on the bundled survey. A file counts if one of its functions runs. Code that runs
only during imports does not count, since each command is run once before it is recorded. An edge is
a pair of files with a call from a function of the first file to a function of the second, directly
or through another library or generated code.

    python bench/trips.py [--json] [--list aim]
    PYTHONPATH=/tmp/older/src python bench/trips.py   # another checkout, with this counter

The first measurement is commit 8dbbf03, and later runs should not be worse. This counter gives
equal figures there, except for two edges of the query, which had another question.
"""

import argparse
import contextlib
import inspect
import io
import json
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import missdp
from missdp.cli.main import main as missdp_command
from missdp.datasets import yrbss

FIRST = {"privbayes": (34, 84), "aim": (43, 102), "query": (46, 111), "price": (26, 49)}
PIPELINE = """
delta = 1e-6
[table]
rows = 1000
columns = 4
complete = false
[[step]]
kind = "impute-mean"
max_incomplete = 30
[[step]]
kind = "pca-rank"
n_components = 2
min_gap = 0.2
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


class Watch:
    """Files of a folder whose functions run, and the calls between them."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.edges, self.files = set(), set()
        self._names = {}

    def _file(self, frame):
        """Name of the frame's file, if the frame is a function of the folder."""
        code = frame.f_code
        if code not in self._names:
            path = code.co_filename
            # A function has fast locals. The bodies of modules and classes do not.
            ours = code.co_flags & inspect.CO_OPTIMIZED and path.startswith(self.folder)
            self._names[code] = str(Path(path).relative_to(self.folder)) if ours else None
        return self._names[code]

    def _record(self, frame, event, _argument):
        if event != "call" or (called := self._file(frame)) is None:
            return
        self.files.add(called)
        caller = frame.f_back
        while caller is not None and self._file(caller) is None:
            caller = caller.f_back
        if caller is not None and self._file(caller) != called:
            self.edges.add((self._file(caller), called))

    def of(self, run):
        """Record a run, after a first run that imports all modules."""
        run()
        sys.setprofile(self._record)
        threading.setprofile(self._record)
        try:
            run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self


def commands(folder):
    """The commands, each as a list of words."""
    survey, pipeline = yrbss(), folder / "pipeline.toml"
    pipeline.write_text(PIPELINE)
    table = [survey.path, "--schema", survey.schema_path, "--epsilon", 1]
    about = "strength_training_7d"
    match = ["--match", "age,gender,grade", "--where", "age >= 15"]
    out = ["-o", folder / "out.csv", "--overwrite"]
    return {
        "all-pairs": ["synthesize", *table, *out, "--method", "all-pairs"],
        "privbayes": ["synthesize", *table, *out, "--method", "privbayes"],
        "aim": ["synthesize", *table, *out, "--method", "aim", "--delta", 1e-6],
        "query": ["query", *table, "--impute", about, *match, f"mean({about})"],
        "price": ["price", pipeline],
    }


def done(words):
    """Run one command without its output."""
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        code = missdp_command([str(word) for word in words])
    if code != 0:
        raise SystemExit(f"missdp {words[0]} failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", metavar="RUN", help="list the files of this run")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    package = Path(missdp.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        chosen = commands(Path(folder))
        if options.list:
            watches = Watch(package).of(lambda: done(chosen[options.list]))
            print("\n".join(sorted(watches.files)))
            return
        watches = {
            name: Watch(package).of(lambda words=words: done(words))
            for name, words in chosen.items()
        }
    if options.json:
        rows = {n: {"files": len(w.files), "edges": len(w.edges)} for n, w in watches.items()}
        print(json.dumps(rows, indent=2))
        return
    print(f"{'run':<12}{'files':>6}{'edges':>7}{'first':>10}")
    for name, watch in watches.items():
        files, edges = len(watch.files), len(watch.edges)
        first = FIRST.get(name)
        worse = first is not None and (files > first[0] or edges > first[1])
        said = "{}/{}".format(*first) if first else ""
        print(f"{name:<12}{files:>6}{edges:>7}{said:>10}{'  worse' if worse else ''}")


if __name__ == "__main__":
    main()
