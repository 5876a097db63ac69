"""What many tests of synthesizers share."""

import pytest

from missdp.inference import completion
from missdp.synth import learn_pairs


@pytest.fixture
def one_turn(monkeypatch):
    """Fit all pairs in one turn: more turns only bring the model nearer to what was released."""
    monkeypatch.setattr(learn_pairs, "_MOST_TURNS", 1)
    monkeypatch.setattr(learn_pairs, "_ROUNDS", 1)
    monkeypatch.setattr(completion, "_FEWEST", 500)
