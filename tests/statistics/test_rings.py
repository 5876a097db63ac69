"""How many donees are near one label, and labels sorted on disk: as counted by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import shelf
from missdp.statistics import rings
from missdp.statistics.layout import Layout, Side


def laid_out(rng):
    """Return a few cells of donors and donees, and which cells have donees."""
    size, cells = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    cell, gives = rng.integers(0, cells, size), rng.random(size) < 0.6
    ranks = rng.permutation(size).astype(np.uint8)
    order = np.lexsort((ranks, cell))
    donors, donees = (
        Side(kept, ranks, np.searchsorted(cell[kept], np.arange(cells + 1)))
        for kept in (order[gives[order]], order[~gives[order]])
    )
    near = SimpleNamespace(cells=np.flatnonzero(donees.counts))
    return Layout(None, None, donors, donees, size), near


def by_hand(layout, cell, reach):
    give, take = (
        side.ranks[side.rows[slice(*side.start[cell : cell + 2])]].astype(int)
        for side in (layout.donors, layout.donees)
    )
    if len(give) <= reach:
        return len(take)
    passed = np.searchsorted(give, take)
    return max(np.count_nonzero((passed - one) % len(give) < reach) for one in passed)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 60), st.booleans())
def test_depths_are_those_counted_by_hand_whatever_is_looked_at_at_once(seed, donees, once, disk):
    layout, near = laid_out(np.random.default_rng(seed))
    expected = [[by_hand(layout, cell, reach) for cell in near.cells] for reach in range(1, 12)]
    with pytest.MonkeyPatch.context() as patch, shelf.on_disk(1 if disk else None):
        patch.setattr(rings, "DONEES", donees)
        patch.setattr(rings, "_AT_ONCE", once)
        patch.setattr(shelf, "_LEAST", 1)
        found = [depth.tolist() for depth in rings.Ring(layout, near).depths(range(1, 12))]
    assert found == expected


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_labels_are_sorted_on_disk(many, seed):
    labels = np.random.default_rng(seed).permutation(2 * many)[:many].astype(np.uint32)
    expected = np.sort(labels)
    with pytest.MonkeyPatch.context() as patch, shelf.on_disk(1):
        for module, name in ((rings, "DONEES"), (shelf, "_LEAST"), (shelf, "_STRETCH")):
            patch.setattr(module, name, 7)
        rings._sort_on_disk(labels, 2 * many)
    assert (labels == expected).all()
