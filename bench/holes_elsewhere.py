"""What other libraries do with a hole: facts of a release that tell neighbours apart for certain.

Each library runs in its own environment, which needs nothing of missdp but this file and
`src/missdp/testing/holes.py` (NumPy and pandas). It is given what is public where it can be: bounds
and levels of every column. Prints one line for each pair of tables and each thing told.

    python bench/holes_elsewhere.py missdp
    python -m venv /tmp/d; /tmp/d/bin/pip install dpmm
    /tmp/d/bin/python bench/holes_elsewhere.py dpmm
    ... pip install smartnoise-synth && .../python bench/holes_elsewhere.py smartnoise
"""

import importlib.metadata
import importlib.util
import sys
import warnings
from pathlib import Path

LEVELS = {"job": ["a", "b", "c"], "town": ["x", "y"]}
BOUNDS = {"age": (18, 80), "score": (0.0, 1.0)}
ROWS = 200


def holes():
    """The module with the pairs, without its package."""
    path = Path(__file__).resolve().parents[1] / "src" / "missdp" / "testing" / "holes.py"
    spec = importlib.util.spec_from_file_location("holes", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["holes"] = module
    spec.loader.exec_module(module)
    return module


def missdp_all_pairs(frame):
    from missdp import AllPairs, Categorical, Numeric, Schema

    numeric = {"age": {"integer": True, "missing_codes": (-9,)}, "score": {}}
    schema = Schema(
        tuple(Categorical(name=n, levels=tuple(v), nullable=True) for n, v in LEVELS.items())
        + tuple(
            Numeric(name=n, lower=low, upper=high, bins=5, nullable=True, **numeric[n])
            for n, (low, high) in BOUNDS.items()
        )
    )
    model = AllPairs(epsilon=1.0, delta=1e-6).fit(frame, schema=schema)
    return model.sample(ROWS, missing_values="keep")


def dpmm(pipeline):
    def run(frame):
        from importlib import import_module

        home, name = pipeline
        made = getattr(import_module(home), name)(
            epsilon=1.0, **({} if "Priv" in name else {"delta": 1e-6}), n_jobs=1
        )
        domain = {n: {"categories": v} for n, v in LEVELS.items()}
        domain |= {n: {"lower": low, "upper": high} for n, (low, high) in BOUNDS.items()}
        made.fit(frame, domain=domain)
        return made.generate(n_records=ROWS)

    return run


def smartnoise(method):
    def run(frame):
        from snsynth import Synthesizer

        synth = Synthesizer.create(method, epsilon=1.0)
        return synth.fit_sample(
            frame,
            preprocessor_eps=0.5,
            nullable=True,
            categorical_columns=list(LEVELS),
            continuous_columns=list(BOUNDS),
        )

    return run


def opendp_keys(frame):
    """Counts by a column whose levels are public: what a null becomes."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    cells = ["" if value is None or value != value else value for value in frame["job"]]
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counts = space >> dp.t.then_count_by_categories(LEVELS["job"], null_category=True)
    released = counts >> dp.m.then_laplace(1.0)
    return {"number of counts": len(released(cells))}


LIBRARIES = {
    "missdp": {"AllPairs": missdp_all_pairs},
    "dpmm": {
        "MST": dpmm(("dpmm.pipelines.mst", "MSTPipeline")),
        "PrivBayes": dpmm(("dpmm.pipelines.priv_bayes", "PrivBayesPipeline")),
    },
    "smartnoise": {"MST": smartnoise("mst"), "AIM": smartnoise("aim")},
    "opendp": {"counts": opendp_keys},
}
DISTRIBUTIONS = {"smartnoise": "smartnoise-synth"}


def main():
    chosen = sys.argv[1] if len(sys.argv) > 1 else "missdp"
    if chosen not in LIBRARIES:
        raise SystemExit(f"choose one of {', '.join(LIBRARIES)}")
    module = holes()
    version = importlib.metadata.version(DISTRIBUTIONS.get(chosen, chosen))
    print(f"{chosen} {version}")
    for name, run in LIBRARIES[chosen].items():
        for pair in module.hole_pairs():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = module.differing_facts(run, pair, repeats=3)
            print(f"  {name:<10} {pair.name:<30} {'nothing' if not told else ''}", flush=True)
            for fact, (one, other) in told.items():
                print(f"      {fact}: {str(one)[:90]!r} | {str(other)[:90]!r}")


if __name__ == "__main__":
    main()
