"""Shared code of the scripts on Mohapatra et al. (2024): cells to measure, and their file.

A cell is one synthesizer fitted once to one incomplete table. Each cell is measured once and
appended to `a_cells.csv` in the folder of `--output`. A stopped run therefore continues from the
last cell. The default folder holds the cells of the documentation. A run on it fits nothing.
Adult and BR2000 are read as everywhere in `bench`: declared domains, numerics in 10 declared bins.
"""

import argparse
import csv
import statistics
import sys
import time
import warnings
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # for `_data`

from _data import SHARED, table  # noqa: E402
from nine_learners import NINE  # noqa: E402

from missdp import AIM, Kamino, PrivBayes  # noqa: E402
from missdp.baselines import DPAutoGAN, DPMisGAN  # noqa: E402
from missdp.errors import WeakGuaranteeWarning  # noqa: E402
from missdp.evaluate import (  # noqa: E402
    MCAR,
    classifier_f1,
    marginal_distance,
)

RESULTS = HERE / "results"
IMAGES = HERE.parents[1] / "docs" / "img"
DATA = {"adult": "Adult", "br2000": "BR2000"}
TARGETS = {"adult": ("income", "sex"), "br2000": ("a1", "a2")}
HELD_OUT, SHORT_ROWS, MOST_SEEDS = 0.2, 1500, 10
FAMILIES = {
    "PrivBayes": (PrivBayes, {"delta": 0.0}),
    "PrivBayes, delta 1e-6": (PrivBayes, {}),
    "AIM": (AIM, {}),
    "Kamino": (Kamino, {}),
    "DPMisGAN": (DPMisGAN, {}),
    "DPAutoGAN": (DPAutoGAN, {}),
}
QUICK = ("PrivBayes", "AIM", "Kamino", "DPMisGAN")
# Published names of the adaptive variants.
ADAPTIVE = {
    "PrivBayes": "PrivBayesE",
    "PrivBayes, delta 1e-6": "PrivBayesE, delta 1e-6",
    "AIM": "AIME",
    "Kamino": "KaminoI",
    "DPMisGAN": "DP-MisGAN",
}
COLOURS = {
    "PrivBayes": "#b2182b",
    "PrivBayes, delta 1e-6": "#ef8a62",
    "AIM": "#e08214",
    "Kamino": "#2166ac",
    "DPMisGAN": "#1b7837",
    "DPAutoGAN": "#762a83",
}


@dataclass(frozen=True, order=True)
class Cell:
    """One fit. `what` is "distance" or "f1", and `missing` is "" where nothing is missing."""

    what: str
    data: str
    file: str
    family: str
    missing: str = ""
    imputer: str = ""
    share: float = 0.0
    epsilon: float = 1.0
    seed: int = 0


KEYS = [field.name for field in fields(Cell)]
MEASURED = ("one_way", "two_way", "f1", "seconds")


def options(text, argv, **more):
    """Read the options of the command line that all scripts have."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the cells")
    parser.add_argument("--seeds", type=int, default=2, help="fits of each cell")
    parser.add_argument("--short", action="store_true", help="few cells of few rows: seconds")
    for name, settings in more.items():
        parser.add_argument(f"--{name}", **settings)
    parsed = parser.parse_args(argv)
    if parsed.short and parsed.output == RESULTS:
        parser.error("--short measures other cells: name another --output")
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    parsed.output.mkdir(parents=True, exist_ok=True)
    return parsed


# Measuring


@cache
def truth_of(data, short):
    rows = table(data, "truth", nullable=False)
    return rows.take(np.arange(SHORT_ROWS)) if short else rows


def private_of(cell, short):
    """Return the incomplete table of a cell, with rows in the order of the truth."""
    if cell.file == "truth":
        return truth_of(cell.data, short)
    if cell.file.startswith("simulated_"):
        rate = float(cell.file.rsplit("_", 1)[1])
        return MCAR(rate=rate).apply(truth_of(cell.data, short), random_state=cell.seed)
    rows = table(cell.data, cell.file)
    return rows.take(np.arange(SHORT_ROWS)) if short else rows


def fitted(cell, private, rows):
    """Fit and draw as many rows as the truth has."""
    made, settings = FAMILIES[cell.family]
    parameters = {"epsilon": cell.epsilon, "delta": 1e-6, "random_state": cell.seed}
    parameters |= {"missing": cell.missing} if cell.missing else {}
    parameters |= (
        {"imputer": cell.imputer, "imputer_share": cell.share or 0.5} if cell.imputer else {}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)  # about large epsilons, as published
        return (
            made(**(parameters | settings)).fit(private).sample_table(rows, random_state=cell.seed)
        )


def measure(cell, *, short=False):
    """Return one-way and two-way distance or F1, and the CPU seconds of fit and sample."""
    if cell.family.startswith("DP"):
        import torch

        torch.set_num_threads(1)
    truth, private, test = truth_of(cell.data, short), private_of(cell, short), None
    if cell.what == "f1":
        order = np.random.default_rng(cell.seed).permutation(len(truth))
        held, training = np.split(order, [round(HELD_OUT * len(truth))])
        truth, private, test = truth.take(training), private.take(training), truth.take(held)
    start = time.process_time()
    made = truth if cell.family == "truth" else fitted(cell, private, len(truth))
    seconds = time.process_time() - start
    one = two = f1 = None
    if test is None:
        one, two = (marginal_distance(truth, made, k=k).mean for k in (1, 2))
    else:
        f1 = classifier_f1(
            truth,
            made,
            test=test,
            attributes=TARGETS[cell.data],
            random_state=cell.seed,
            learners=NINE,
        ).mean
    return one, two, f1, seconds


class Measured:
    """The measured cells of a folder. Other cells are measured on request."""

    def __init__(self, folder, *, short=False, fit=True):
        self.path, self.short, self.fit = folder / "a_cells.csv", short, fit
        self.results = {}
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as stream:
                for row in csv.DictReader(stream):
                    cell = Cell(
                        **{k: row[k] for k in KEYS[:6]},
                        share=float(row["share"]),
                        epsilon=float(row["epsilon"]),
                        seed=int(row["seed"]),
                    )
                    self.results[cell] = {k: float(row[k]) if row[k] else None for k in MEASURED}

    def need(self, cells, *, minutes=float("inf")):
        """Measure new cells, write each at once, and stop after some CPU minutes."""
        for cell in cells:
            if cell in self.results:
                continue
            if not self.fit:
                raise SystemExit(f"not measured: {cell}")
            if time.process_time() > 60 * minutes:
                print("out of time: repeat the command to continue")
                return False
            figures = dict(zip(MEASURED, measure(cell, short=self.short), strict=True))
            self.results[cell] = figures
            self._append(cell, figures)
        return True

    def _append(self, cell, figures):
        new = not self.path.exists()
        shown = ["" if figures[k] is None else f"{figures[k]:.4f}" for k in MEASURED[:3]]
        with self.path.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            if new:
                writer.writerow([*KEYS, *MEASURED])
            values = [f"{v:g}" if isinstance(v, float) else v for v in astuple(cell)]
            writer.writerow([*values, *shown, f"{figures['seconds']:.1f}"])
        print(cell, shown, f"{figures['seconds']:.1f} s", flush=True, file=sys.stderr)

    def values(self, what, **settings):
        """Return one figure for all measured seeds of a cell."""
        wanted = Cell("f1" if what == "f1" else "distance", **settings)
        cells = (replace(wanted, seed=seed) for seed in range(MOST_SEEDS))
        figures = [self.results[cell][what] for cell in cells if cell in self.results]
        if not figures:
            raise KeyError(f"not measured: {wanted}")
        return figures

    def mean(self, what, **settings):
        return statistics.mean(self.values(what, **settings))

    def maybe(self, what, **settings):
        """Return the mean, or NaN for a cell that was not measured."""
        try:
            return self.mean(what, **settings)
        except KeyError:
            return float("nan")


def with_seeds(cells, seeds):
    """Return the cells for every seed, all cells of a seed before the next seed."""
    cells = list(cells)
    return [replace(cell, seed=seed) for seed in range(seeds) for cell in cells]


# Showing


def small(value, digits=4):
    """Return a share as the tables show it, without its leading zero."""
    return "–" if value != value else f"{value:.{digits}f}".removeprefix("0")


def markdown(head, rows):
    """Return the lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def canvas(width, height, *shape, **more):
    """Return a figure and its axes. Equal drawings give equal files."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "missdp"
    mpl.rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(*shape, squeeze=False, **more)


def save(figure, name, folder, *, columns=4):
    """Write the drawing to the folder of the cells, or to the documentation for its cells."""
    shown = figure.axes[0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=columns, frameon=False, fontsize=7)
    path = (IMAGES if folder == RESULTS else folder) / f"papers-synthesis-{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    print(f"drawn: {path.name}", file=sys.stderr)


@dataclass(frozen=True)
class Claim:
    """A published claim, the measurement here, and whether both agree."""

    published: str
    ours: str
    same: bool | str | None  # None: agrees in part, "new": not published

    @property
    def verdict(self):
        return {True: "reproduced", False: "differs", None: "in part", "new": ""}[self.same]


def claims_table(claims):
    return markdown(
        ["published", "ours", "verdict"], [[c.published, c.ours, c.verdict] for c in claims]
    )


def how_many(truths):
    """Return "7 of 8", and True for all, None for at least half, False for fewer."""
    holds = [bool(t) for t in truths]
    share = sum(holds) / len(holds)
    return f"{sum(holds)} of {len(holds)}", True if share == 1 else None if share >= 0.5 else False


def run(module, argv):
    """Measure new cells, print published and own figures, and draw the figure of a script."""
    arguments = options(module.__doc__, argv)
    measured = Measured(arguments.output, short=arguments.short)
    is_new = arguments.output != RESULTS  # the committed cells have different numbers of seeds
    if is_new:
        requested = [
            *module.cells_once(arguments.short),
            *with_seeds(module.cells(arguments.short), arguments.seeds),
        ]
        measured.need(dict.fromkeys(requested))
    if not arguments.short:
        print("\n".join(module.page(measured)))
        module.draw(measured, arguments.output)
    return measured
