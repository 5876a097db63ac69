"""A column that is never there in most rows leaves the margins of where it is there as they are."""

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Schema, Table
from missdp.synth import AIM, MST

LEVELS = {"works": "ny", "school": "0123", "wage": "012345"}


def people(n, *, skipped):
    """Rows of people of whom a third work; of the others a share has no wage."""
    rng = np.random.default_rng(0)
    works = rng.random(n) < 0.35
    unlike = [rng.choice(4, n, p=p) for p in ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])]
    school = np.where(works, unlike[1], unlike[0])
    wage = pd.Series((school + rng.integers(0, 3, n)).astype(str))
    frame = pd.DataFrame(
        {
            "works": np.where(works, "y", "n"),
            "school": school.astype(str),
            "wage": wage.mask(~works & (rng.random(n) < skipped)),
        }
    )
    attributes = [
        Categorical(name=name, levels=tuple(levels), nullable=name == "wage")
        for name, levels in LEVELS.items()
    ]
    return Table.read(frame, Schema(tuple(attributes)))


def margin(table, name):
    counts = np.bincount(table.codes(name), minlength=table.schema[name].extended_size)
    return counts / len(table)


@pytest.mark.parametrize(("family", "skipped"), [(MST, 1.0), (AIM, 0.97)])
def test_kept_margins_are_the_released_ones_where_a_rate_of_holes_is_near_one(family, skipped):
    private = people(20_000, skipped=skipped)
    apart = []
    for seed in range(3):
        model = family(epsilon=1.0, delta=1e-6, random_state=seed).fit(private)
        kept = model.sample_table(50_000, missing_values="keep", random_state=seed)
        assert ("works", "wage") in model.measured_
        apart += [
            np.abs(margin(private, n) - margin(kept, n)).sum() / 2 for n in private.schema.names
        ]
    # Noise of one cell is some .001 of the rows; this was .05 to .25 where sums of quotients,
    # each of a count of nobody by hardly any chance, told how many rows there are.
    assert np.mean(apart) < 0.006
    assert max(apart) < 0.04
