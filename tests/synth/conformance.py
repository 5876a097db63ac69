"""Cases on which every synthesizer is checked. A new family adds itself to FAMILIES."""

from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdp import PrivBayes, Table
from missdp.baselines import DPMisGAN, Kamino
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.testing import SCHEMA
from synth.conformance_checks import FittedSubject
from synth.worked_example import Independent


@dataclass(frozen=True)
class Family:
    name: str
    build: type[Synthesizer]
    options: dict[str, Any] = field(default_factory=dict)
    some: tuple[str, ...] = ()
    streams: bool = True
    """Whether it works on a source that never holds all rows."""

    @property
    def strategies(self):
        return self.some or self.build.family.strategies


FAMILIES = [
    Family("privbayes", PrivBayes),
    Family("privbayes-gaussian", PrivBayes, {"delta": 1e-6}),
    Family("aim", AIM, {"delta": 1e-6, "rounds": 2}),
    Family("mst", MST, {"delta": 1e-6}),
    Family("aim-pure", AIM, {"delta": 0.0, "rounds": 2}),
    Family("mst-pure", MST, {"delta": 0.0}, ("observed",)),
    Family("all-pairs", AllPairs),
    Family("all-pairs-workload", AllPairs, {"workload": 3}),
    Family("kamino", Kamino),
    Family("dp-misgan", DPMisGAN, {"steps": 2, "sampling_rate": 0.2}, streams=False),
    Family("independent", Independent),
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
FIRST = [
    c
    for i, c in enumerate(PAIRED)
    if c[0].build not in [f.build for f, _ in PAIRED[:i]] and c[0].build is not Independent
]
"""Each class once, with its usual parameters. The example is in tests/testing/test_kit.py."""
OFTEN = [*FIRST, *(c for c in PAIRED if c[0].build is Independent)]
OFTEN += [(f, s) for f, s in CASES if f"{f.name}-{s}" == "all-pairs-joint"]
OFTEN += [(f, s) for f, s in CASES if f.name == "privbayes"]
DAILY = [
    pytest.param(*case, id=name, marks=[pytest.mark.slow] * (case not in OFTEN))
    for case, name in zip(CASES, IDS, strict=True)
]
"""All strategies with the quickest family, and one or two with other families.

The slow tests use all strategies.
"""

FEW_PAIRS = ("one missing cell", "full and empty", "constant columns")
FEW_TRIALS = 2
"""Pairs and trials that every case repeats daily.

`tests/testing/test_kit.py` tests that they find leaks.
"""


@cache
def _subject(name, strategy, schema):
    family = next(family for family in FAMILIES if family.name == name)
    return FittedSubject(family.build, strategy, family.options, schema)


def subject(family, strategy, schema=SCHEMA):
    """Return a case of a family. Its models of made-up tables are fitted once in a test session."""
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
