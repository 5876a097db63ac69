"""Wall and CPU time of commands with a user's defaults, over those with `OMP_NUM_THREADS=1`.

Every command runs in a process of its own, both ways in turns, on the bundled survey; the middle of
the runs counts. `--load 4` keeps four other processes busy meanwhile.

    python bench/one_thread.py [--runs 3] [--load 0] [--only kamino impute]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from missdp.datasets import yrbss

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PRIVATE = "rows.parquet --schema facts.toml"
FIT = "synthesize rows.parquet --schema facts.toml --epsilon 1 -o {out}.csv --method"
COMMANDS = {
    "draft": "schema draft rows.parquet -o {out}.toml",
    **{name: f"{FIT} {name}" for name in ("all-pairs", "aim", "mst", "kamino")},
    "privbayes": f"{FIT} privbayes --delta 0",
    "sample": "sample aim.model.json -o {out}.csv --rows 20000",
    "multiple": "sample aim.model.json -o {out}.csv --multiple 3",
    "impute": "impute rows.parquet --schema facts.toml --model all-pairs.model.json -o {out}.csv",
    "evaluate": "evaluate rows.parquet all-pairs.csv --schema facts.toml",
    "price": "price all-pairs.model.json --ground-truth --row-independent",
    "demo": "demo --output {out}.csv",
}


def timed(command, folder, one):
    """Wall and CPU seconds of a command."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "missdp", *command.split()],
        cwd=folder,
        env=environment | ({"OMP_NUM_THREADS": "1"} if one else {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: missdp {command}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    options = parser.parse_args()
    busy = [sys.executable, "-c", "while True: pass"]
    with tempfile.TemporaryDirectory() as name:
        folder, survey = Path(name), yrbss()
        shutil.copy(survey.path, folder / "rows.parquet")
        shutil.copy(survey.schema_path, folder / "facts.toml")
        for needed in ("all-pairs", "aim"):
            timed(COMMANDS[needed].format(out=needed), folder, one=True)
        loads = [subprocess.Popen(busy) for _ in range(options.load)]
        try:
            print(f"{'':<11}{'wall s':>8}{'one':>8}{'ratio':>7}{'cpu s':>9}{'one':>8}{'ratio':>7}")
            for label in options.only:
                runs = {False: [], True: []}
                for turn in range(options.runs):
                    for one in (turn % 2 == 0, turn % 2 == 1):
                        runs[one].append(
                            timed(COMMANDS[label].format(out=f"{label}-{turn}-{one}"), folder, one)
                        )
                text = f"{label:<11}"
                for k in (0, 1):
                    ours, one = (
                        statistics.median(run[k] for run in runs[w]) for w in (False, True)
                    )
                    text += f"{ours:>{8 + k}.2f}{one:>8.2f}{ours / one:>7.2f}"
                print(text, flush=True)
        finally:
            for load in loads:
                load.kill()


if __name__ == "__main__":
    main()
