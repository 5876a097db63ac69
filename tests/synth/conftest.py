"""Fixtures that many tests of synthesizers share."""

import pytest

from missdp.inference import completion, raking
from missdp.synth import learn_pairs


@pytest.fixture
def one_turn(monkeypatch):
    """Fit all pairs in one turn and swap no rows.

    More turns and swaps only bring rows nearer to the released answers.
    """
    monkeypatch.setattr(learn_pairs, "_MAX_TURNS", 1)
    monkeypatch.setattr(learn_pairs, "_ROUNDS", 1)
    monkeypatch.setattr(completion, "_MIN_ROWS", 500)
    monkeypatch.setattr(raking, "_swap", lambda chosen, *_, **__: chosen)
