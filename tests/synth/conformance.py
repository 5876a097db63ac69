"""What every synthesizer is checked against. A new family adds itself to FAMILIES."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from missdp import PrivBayes, Table
from missdp.baselines import DPMisGAN, Kamino
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.testing import SCHEMA
from missdp.testing.findings import Subject
from synth.worked_example import Independent


@dataclass(frozen=True)
class Family:
    name: str
    build: Callable[..., Synthesizer]
    strategies: tuple[str, ...]
    streams: tuple[str, ...]
    """Strategies that work on a source that never holds all rows."""
    options: dict[str, Any] = field(default_factory=dict)


FAMILIES = [
    Family("privbayes", PrivBayes, PrivBayes.strategies, PrivBayes.strategies),
    Family(
        "privbayes-gaussian",
        PrivBayes,
        PrivBayes.strategies,
        PrivBayes.strategies,
        {"delta": 1e-6},
    ),
    Family(
        "aim",
        AIM,
        AIM.strategies,
        AIM.strategies,
        {"delta": 1e-6, "rounds": 2, "model_rows": 100},
    ),
    Family(
        "mst",
        MST,
        MST.strategies,
        MST.strategies,
        {"delta": 1e-6, "model_rows": 100},
    ),
    Family(
        "aim-pure",
        AIM,
        AIM.strategies,
        AIM.strategies,
        {"delta": 0.0, "rounds": 2, "model_rows": 100},
    ),
    Family("mst-pure", MST, ("observed",), ("observed",), {"delta": 0.0, "model_rows": 100}),
    Family("all-pairs", AllPairs, AllPairs.strategies, AllPairs.strategies),
    Family(
        "all-pairs-imputed",
        AllPairs,
        ("impute-first",),
        ("impute-first",),
        {"imputer": "pairs"},
    ),
    Family("kamino", Kamino, Kamino.strategies, Kamino.strategies),
    Family(
        "kamino-sequential",
        Kamino,
        ("observed", "complete-rows"),
        (),
        {"heads": "sequential", "steps": 1, "batch": 100},
    ),
    Family(
        "dp-misgan", DPMisGAN, DPMisGAN.strategies, DPMisGAN.strategies, {"classes": 3, "fits": 1}
    ),
    Family("independent", Independent, Independent.strategies, Independent.strategies),
]

NEURAL = ("dp-misgan",)
"""How the names of families begin that cannot be fitted without PyTorch."""

if find_spec("torch") is None:
    FAMILIES = [family for family in FAMILIES if not family.name.startswith(NEURAL)]

CASES = [(family, strategy) for family in FAMILIES for strategy in family.strategies]
IDS = [f"{family.name}-{strategy}" for family, strategy in CASES]
PAIRED = [
    (family, family.strategies[turn % len(family.strategies)])
    for turn, family in enumerate(FAMILIES)
]
"""Each family once, with the strategies in turn."""


@cache
def _subject(name, strategy, schema):
    family = next(family for family in FAMILIES if family.name == name)
    return Subject(family.build, strategy, family.options, schema)


def subject(family, strategy, schema=SCHEMA):
    """Return a case of a family; its models of made-up tables are fitted once a session."""
    return _subject(family.name, strategy, schema)


def make_frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    alter = rng.integers(0, 100, n).astype(float)
    size = np.where(alter > 50, "L", rng.choice(["S", "M"], n)).astype(object)
    frame = pd.DataFrame(
        {
            "größe": size,
            "alter": alter,
            "ok": pd.array(alter > 30, dtype="boolean"),
            "score": rng.random(n),
        }
    )
    for name in ("größe", "alter", "ok"):
        frame.loc[rng.random(n) < 0.2, name] = None
    return frame


def make_table(n=400, seed=0):
    return Table.read(make_frame(n, seed), SCHEMA)
