"""Missing cells in other libraries: facts of a release that differ for sure, and a mean.

Each library runs in a separate environment (`bench/.environments/NAME`), which is made at the first
run. dpsynth needs a `python3.12`. The environment contains no part of missdp except for this file
and `bench/missing_pairs.py`. A library gets public levels and bounds of every column, wherever it
takes them. Results go into `bench/missing_elsewhere.json`. A test compares the page
`docs/referees/holes-elsewhere.md` with this file.

    python bench/missing_elsewhere.py            # the libraries, and their CPU minutes
    python bench/missing_elsewhere.py dpsynth
"""

import contextlib
import datetime
import importlib
import importlib.metadata
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from missing_pairs import differing_facts, missing_pairs

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "missing_elsewhere.json"
LEVELS = {"job": ["a", "b", "c"], "town": ["x", "y"], "grade": [1, 2, 3]}
BOUNDS = {"age": (18, 80), "score": (0.0, 1.0)}
ROWS = 200
# Installed packages, their Python, rows of the pairs, and CPU minutes of one run.
LIBRARIES = {
    "missdp": ((), None, 300, 1),
    "opendp": (("opendp[polars]==0.16.0", "pandas"), None, 300, 2),
    "dpsynth": (("dpsynth==0.3.0",), "python3.12", 2000, 1),
    "smartnoise": (("smartnoise-synth==1.0.8",), None, 300, 3),
    "dpmm": (("dpmm==0.1.9",), "python3.11", 100, 3),
}
# Tables of these libraries are reduced to the column that differs and one more.
SLOW = ("dpmm", "dpsynth", "smartnoise")
SLOWEST = [("smartnoise", "AIM"), ("dpmm", "AIM")]  # too slow to count releases with the value
DISTRIBUTIONS = {"smartnoise": "smartnoise-synth"}


def uniform_with_missing(rows=20_000, seed=0):
    """Numbers from 30 to 70, of which 30 % are missing completely at random."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(30, 70, rows)
    x[rng.random(rows) < 0.3] = np.nan
    return pd.DataFrame({"x": x, "y": rng.choice(["a", "b"], rows).astype(object)})


# ----------------------------------------------------------------------------- missdp


def with_missdp(name):
    import missdp
    from missdp import Categorical, Numeric, Schema

    def schema(frame):
        public = {"x": {"lower": 0, "upper": 100, "bins": 20}, "y": ["a", "b"]}
        codes = {"age": {"integer": True, "missing_codes": (-9,), "bins": 5}, "score": {"bins": 5}}
        public |= {n: {"lower": b[0], "upper": b[1]} | codes[n] for n, b in BOUNDS.items()}
        public |= LEVELS
        return Schema(
            tuple(
                Numeric(name=n, nullable=True, **public[n])
                if isinstance(public[n], dict)
                else Categorical(name=n, levels=tuple(public[n]), nullable=True)
                for n in frame
            )
        )

    def run(frame, rows=ROWS):
        model = getattr(missdp, name)(epsilon=1.0, delta=1e-6)
        return model.fit(frame, schema=schema(frame)).sample(rows, missing_values="keep")

    return run, lambda frame: run(frame, len(frame))


# ----------------------------------------------------------------------------- dpmm


def hasty(inference, iterations=50):
    """Reduce the iterations of the estimation, which does not change the compared facts."""
    if not hasattr(inference, "_made"):
        inference._made = inference.__init__

        def made(self, *args, **named):
            inference._made(self, *args, **{**named, "iters": iterations})

        inference.__init__ = made


def with_dpmm(home, name):
    def fit(frame):
        module = importlib.import_module(f"dpmm.pipelines.{home}")
        inference = importlib.import_module("dpmm.models.base.mbi.inference").FactoredInference
        hasty(inference)
        made = getattr(module, name)(
            epsilon=1.0,
            n_jobs=1,
            proc_epsilon=None,
            n_bins=5,
            gen_kwargs={"n_iters": 50},
            **({} if home == "priv_bayes" else {"delta": 1e-6}),
        )
        domain = {n: {"categories": list(v)} for n, v in (LEVELS | {"y": ["a", "b"]}).items()}
        domain |= {n: {"lower": low, "upper": high} for n, (low, high) in BOUNDS.items()}
        domain |= {"x": {"lower": 0, "upper": 100}, "grade": {"lower": 1, "upper": 3}}
        made.fit(frame.copy(), domain={n: domain[n] for n in frame})
        return made

    def run(frame):
        made = fit(frame)
        return {
            "rows": made.generate(n_records=ROWS),
            "columns of the stored model": tuple(sorted(made.proc.bin_domain)),
        }

    return run, lambda frame: fit(frame).generate(n_records=len(frame))


# ----------------------------------------------------------------------------- smartnoise


def with_smartnoise(method, **settings):
    def run(frame, rows=ROWS):
        from snsynth import Synthesizer

        synth = Synthesizer.create(method, epsilon=1.0, **settings)
        categorical = [n for n in frame if n in LEVELS or n == "y"]
        synth.fit(
            frame,
            preprocessor_eps=0.5,
            nullable=True,
            categorical_columns=categorical,
            continuous_columns=[n for n in frame if n not in categorical],
        )
        return synth.sample(rows)

    return run, lambda frame: run(frame, len(frame))


# ----------------------------------------------------------------------------- dpsynth


def with_dpsynth(method, *, clip):
    def run(frame):
        import dpsynth
        from dpsynth import discrete_mechanisms

        bounds = BOUNDS | {"x": (0, 100)}
        levels = LEVELS | {"y": ["a", "b"]}
        domains = {
            n: dpsynth.CategoricalAttribute(levels[n])
            if n in levels
            else dpsynth.NumericalAttribute(*bounds[n], clip_to_range=clip)
            for n in frame
        }
        config = dpsynth.TabularConfig(
            domains=domains,
            numerical_bins=8,
            discrete_mechanism=getattr(discrete_mechanisms, method)(pgm_iters=200),
        )
        # Epsilon 1 at delta 1e-6, by the usual conversion: `calibrate` takes seconds at each call.
        fitted = config.configure(zcdp_rho=0.0174)
        return fitted(np.random.default_rng(), frame).synthetic_data

    # The number of rows that it draws is noisy.
    return lambda frame: run(frame).sample(5 * ROWS, replace=True), run


# ----------------------------------------------------------------------------- OpenDP


def opendp_counts(frame):
    """Counts by a column whose levels are public."""
    import opendp.prelude as dp

    cells = ["" if value is None or value != value else value for value in frame["job"]]
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counts = space >> dp.t.then_count_by_categories(LEVELS["job"], null_category=True)
    released = counts >> dp.m.then_laplace(1.0)
    return {"number of counts": len(released(cells))}


def opendp_context(frame, **loss):
    import opendp.prelude as dp
    import polars as pl

    # Text cannot be NaN in polars, so NaN becomes null. Numbers keep their NaN.
    columns = {
        n: [None if isinstance(v, float) and v != v else v for v in frame[n]]
        if frame[n].dtype == object
        else frame[n].to_numpy()
        for n in frame
    }
    data = pl.DataFrame(
        columns, schema_overrides={n: pl.String for n in ("job", "town") if n in frame}
    )
    return dp.Context.compositor(
        data=data.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=100_000)],
    )


def opendp_keys(frame):
    """Counts by keys that a threshold selects."""
    import polars as pl

    query = opendp_context(frame, epsilon=1.0, delta=1e-6).query()
    return query.group_by("job").agg(pl.len().dp.noise()).release().collect().select("job")


def opendp_keys_as_pandas(frame):
    keys = opendp_keys(frame)["job"].to_list()
    return {"keys": tuple(sorted(map(str, keys)))}


def opendp_means(frame, low=0.0, high=1.0, column="score", fill=None):
    """A mean after missing cells, null and NaN, are filled with a public number."""
    import polars as pl

    fill = low if fill is None else fill
    query = opendp_context(frame, epsilon=1.0).query()
    cell = pl.col(column).cast(pl.Float64).fill_null(fill).fill_nan(fill)
    selection = query.select(cell.dp.mean(bounds=(low, high)), pl.len().dp.noise().alias("n"))
    return pd.DataFrame(selection.release().collect().to_dict(as_series=False)).head(1)


def opendp_filled_with_nan(frame):
    """As in issue 2936: null becomes NaN, in a domain that is declared without NaN."""
    import opendp.prelude as dp
    import polars as pl

    is_missing = pl.Series("x", frame["job"].isna().tolist())
    data = pl.LazyFrame({"x": pl.select(pl.when(is_missing).then(None).otherwise(1.0)).to_series()})
    query = pl.LazyFrame(schema={"x": pl.Float64}).select(
        pl.col("x").fill_null(float("nan")).clip(0.0, 1.0).sum().dp.noise(scale=1)
    )
    no_nan = dp.option_domain(dp.atom_domain(T=float, nan=False))
    domain = dp.with_margin(
        dp.lazyframe_domain([dp.series_domain("x", no_nan)]), dp.polars.Margin(max_length=1000)
    )
    space = dp.frame_distance(dp.symmetric_distance()), dp.max_divergence()
    release = dp.m.make_private_lazyframe(domain, *space, query, global_scale=1.0)
    total = release(data).collect().item()
    return {"the noisy sum is above half of the rows": bool(total > len(frame) / 2)}


def opendp_cast(frame):
    """As in issue 2938: a cast that fails makes a null in a column without nulls."""
    import opendp.prelude as dp
    import polars as pl

    values = [float("nan") if v is None or v != v else 1.0 for v in frame["job"]]
    data = pl.LazyFrame({"x": values})
    domain = dp.with_margin(
        dp.lazyframe_domain([dp.series_domain("x", dp.option_domain(dp.atom_domain(T=float)))]),
        dp.polars.Margin(max_length=len(values), invariant="lengths"),
    )
    counted = pl.col("x").fill_null(0.0).cast(pl.Int64, strict=False).count().dp.noise()
    space = dp.frame_distance(dp.symmetric_distance()), dp.max_divergence()
    release = dp.m.make_private_lazyframe(domain, *space, data.select(counted), global_scale=1.0)
    return {"count of a column of fixed length": release(data).collect().item()}


def families(library):
    """By name, the release of a pair of tables, and the release of the table with a mean."""
    if library == "missdp":
        return {name: with_missdp(name) for name in ("AllPairs", "MST")}
    if library == "dpmm":
        return {
            "MST": with_dpmm("mst", "MSTPipeline"),
            "AIM": with_dpmm("aim", "AIMPipeline"),
            "PrivBayes": with_dpmm("priv_bayes", "PrivBayesPipeline"),
        }
    if library == "smartnoise":
        return {"MST": with_smartnoise("mst"), "AIM": with_smartnoise("aim", rounds=3)}
    if library == "dpsynth":
        return {
            "MST": with_dpsynth("MSTConfig", clip=True),
            "MST, clip_to_range=False": with_dpsynth("MSTConfig", clip=False),
        }
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")

    def filled(fill):
        return lambda frame: opendp_means(frame, 0.0, 100.0, "x", fill)

    return {
        "counts by declared levels": (opendp_counts, None),
        "counts by found keys": (opendp_keys_as_pandas, None),
        "mean, missing values as the lower bound": (
            lambda frame: {"released": len(opendp_means(frame))},
            filled(0.0),
        ),
        "mean, missing values as the midpoint": (None, filled(50.0)),
        "sum after fill_null(NaN)": (opendp_filled_with_nan, None),
        "count after a cast": (opendp_cast, None),
    }


def cut_down(pair):
    """The pair with two columns: the column that differs, and one more."""
    named = {"one missing cell": "score", "one missing code": "age"}
    named |= {"an all-missing column": "town", "a missing cell among integers": "grade"}
    differs = named.get(pair.name, "job")
    keep = [differs, "town" if differs != "town" else "job"]
    return type(pair)(pair.name, pair.one[keep], pair.other[keep])


def facts_revealed(run, pair):
    """Facts that differ in a pair. Quick runs come first, and more runs if a fact differs."""
    for table in (pair.one, pair.other):  # errors of both tables are printed, but reveal no fact
        try:
            run(table.copy())
        except Exception as error:  # noqa: BLE001 - libraries raise any error
            print(f"  refused: {type(error).__name__}: {str(error)[:90]}", file=sys.__stdout__)
    quick = differing_facts(run, pair, repeats=2)
    differing = differing_facts(run, pair, repeats=3) if quick else {}
    return {fact: [str(one)[:90], str(other)[:90]] for fact, (one, other) in differing.items()}


def how_often(run, pair, times=20):
    """The number of releases with the value, if the column has no value or this single value."""

    def has(table):
        release = run(table.copy())
        rows = release["rows"] if isinstance(release, dict) else release
        return bool((rows["town"] == "x").any())

    return [sum(has(table) for _ in range(times)) for table in (pair.one, pair.other)]


def mean_of(release):
    frame = uniform_with_missing()
    rows = release(frame)
    values = pd.to_numeric(rows["x"], errors="coerce").astype(float)
    return {
        "mean": round(float(values.mean()), 1),
        "missing": round(float(values.isna().mean()), 2),
    }


@contextlib.contextmanager
def silence():
    logging.disable(logging.CRITICAL)
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with warnings.catch_warnings(), quiet[0], quiet[1]:
        warnings.simplefilter("ignore")
        yield


def measure(library):
    pairs = missing_pairs(LIBRARIES[library][2])
    record = {
        "version": importlib.metadata.version(DISTRIBUTIONS.get(library, library)),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "revealed": {},
        "mean": {},
        "value": {},
    }
    began = time.process_time()
    for name, (run, release) in families(library).items():
        for pair in pairs if run else ():
            chosen = cut_down(pair) if library in SLOW else pair
            with silence():
                differing = facts_revealed(run, chosen)
            record["revealed"].setdefault(name, {})[pair.name] = differing
            print(f"  {name:<26} {pair.name:<30} {differing or 'nothing'}", flush=True)
        if (library, name) not in SLOWEST and library != "opendp":
            with silence():
                record["value"][name] = how_often(run, cut_down(pairs[-1]))
            print(
                f"  {name:<26} releases of 20 with the value: {record['value'][name]}", flush=True
            )
        if release:
            with silence():
                record["mean"][name] = mean_of(release)
            print(f"  {name:<26} mean of 50, 30 % missing: {record['mean'][name]}", flush=True)
    print(f"{library} {record['version']}: {time.process_time() - began:.0f} CPU seconds")
    everything = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    everything[library] = record
    everything = {name: everything[name] for name in LIBRARIES if name in everything}
    RESULTS.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")


def tables(results):
    """Return the tables of the page: leaks of each pair, values of the last pair, and means."""
    names = list(next(iter(results["missdp"]["revealed"].values())))
    shown_names = " | ".join(f"`{name}`" for name in names)
    leaks = [f"| library | release | {shown_names} |", "|---" * (len(names) + 2) + "|"]
    means = ["| library | release | mean | share missing |", "|---|---|---|---|"]
    values = ["| library | release | no value at all | one |", "|---|---|---|---|"]
    for library, record in results.items():
        shown = f"{DISTRIBUTIONS.get(library, library)} {record['version']}"
        for family, pairs in record["revealed"].items():
            cells = ["**revealed**" if pairs[name] else "nothing" for name in names]
            leaks.append(f"| {shown} | {family} | {' | '.join(cells)} |")
        for family, mean in record["mean"].items():
            cells = f"{mean['mean']:.1f} | {mean['missing']:.2f}"
            means.append(f"| {shown} | {family} | {cells} |")
        for family, (none, one) in record["value"].items():
            values.append(f"| {shown} | {family} | {none} | {one} |")
    return tuple("\n".join(lines) for lines in (leaks, values, means))


def environment(library):
    """The Python of the library's environment, which is made if it is absent."""
    requirements, python, *_ = LIBRARIES[library]
    home = HERE / ".environments" / library
    if not home.exists():
        made_by = shutil.which(python) if python else sys.executable
        if made_by is None:
            raise SystemExit(f"{library} needs {python}, which is not on the path")
        install = [home / "bin" / "pip", "install", "-q", *requirements]
        for command in ([made_by, "-m", "venv", home], install):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                shutil.rmtree(home, ignore_errors=True)
                lines = [x for x in made.stderr.strip().splitlines() if x.startswith("ERROR: No")]
                raise SystemExit(f"not installed: {(lines or made.stderr.splitlines())[-1]}")
    return home / "bin" / "python"


def main():
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    if chosen not in LIBRARIES:
        minutes = "\n".join(f"  {n:<12} {v[-1]:>2} CPU minutes" for n, v in LIBRARIES.items())
        raise SystemExit(f"choose a library:\n{minutes}")
    if LIBRARIES[chosen][0] and "--here" not in sys.argv:
        python = environment(chosen)
        os.execv(python, [str(python), __file__, chosen, "--here"])
    measure(chosen)


if __name__ == "__main__":
    main()
