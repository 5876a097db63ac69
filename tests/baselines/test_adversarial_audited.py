"""Audits of adversarial families: a row is found as well as was charged, and no better."""

import math

import numpy as np
import pytest

from baselines.test_adversarial import FAMILIES
from missdp.accounting import SampledGaussianEvent, releases
from missdp.errors import CheckFailedError
from missdp.session import SeededNoise
from missdp.testing import (
    TINY,
    Claim,
    RecordingNoise,
    ReplayedNoise,
    canary,
    check_sensitivity,
)
from missdp.testing.claims import judge
from missdp.testing.recording import GradientsOfEachRow

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from missdp.baselines import games, private_training  # noqa: E402
from missdp.session.training import SampledSum  # noqa: E402

PUBLIC = {"epsilon": 8.0, "delta": 1e-3, "n_rows": 12, "sampling_rate": 1.0, "steps": 4}


@pytest.fixture
def steep(monkeypatch):
    """Losses are so large that every gradient is clipped."""
    for game, name in (
        (games.Game, "row_loss"),
        (games.ConditionalGame, "row_loss"),
        (games.CodeGame, "coding_loss"),
    ):
        loss = getattr(game, name)
        monkeypatch.setattr(game, name, lambda self, codes, loss=loss: 2.0**12 * loss(self, codes))


def trained(family, parameters, tables):
    """The mechanisms of all steps of a fit, with their sums on either table, and the charges."""
    with RecordingNoise(3) as kept:
        model = family(**parameters).fit(tables[0])
    with ReplayedNoise(kept) as again:
        family(**parameters).fit(tables[1])
    steps = [
        (a.mechanism, a.exact.each.sum(axis=0), b.exact.each.sum(axis=0))
        for a, b in zip(kept.answers, again.answers, strict=True)
        if isinstance(a.mechanism, SampledSum)
    ]
    events = releases(model.guarantee_.events)
    return steps, [e for e in events if isinstance(e, SampledGaussianEvent)]


def likelihoods(steps, runs, scale=1.0):
    """Log-likelihood ratios of answers drawn with the row, and without it.

    Noise may have another scale than the scale that was charged.
    """
    noise = np.random.default_rng(0)

    def one(side):
        found = 0.0
        for law, *sums in steps:
            std = law.noise_multiplier
            answer = sums[side] + scale * std * noise.standard_normal(sums[side].shape)
            off = [np.square((answer - each) / std).sum() for each in sums]
            found += (off[0] - off[1]) / 2
        return found

    return tuple(np.array([one(side) for _ in range(runs)]) for side in (1, 0))


@pytest.mark.usefixtures("steep")
@pytest.mark.parametrize("name", FAMILIES)
def test_clipped_canary_is_found_as_well_as_was_charged(name):
    family, own = FAMILIES[name]
    steps, events = trained(family, {**PUBLIC, **own}, canary(TINY, 12))
    # The autoencoder takes half as many steps as the critic.
    assert len(steps) == (6 if name == "autogan" else 4)
    assert all(event.rate == 1 for event in events)
    claimed = math.sqrt(sum(e.steps / e.noise_multiplier**2 for e in events))
    sound = judge(*likelihoods(steps, runs=400), Claim((), mu=claimed))
    assert not sound.flagged
    assert sound.ratio >= 0.85
    moved = math.sqrt(
        sum((np.linalg.norm(a - b) / law.noise_multiplier) ** 2 for law, a, b in steps)
    )
    assert 0.95 * claimed <= moved <= claimed
    assert judge(*likelihoods(steps, runs=400, scale=0.1), Claim((), mu=claimed)).flagged


@pytest.mark.usefixtures("steep")
def test_drawn_noise_is_the_noise_that_the_audit_takes():
    (law, one, _), *_ = trained(*_misgan(), canary(TINY, 12))[0]
    rows = GradientsOfEachRow(one[None])
    draws = np.concatenate([law.draw(rows, SeededNoise(k)) - one for k in range(20)])
    assert draws.std() == pytest.approx(law.noise_multiplier, rel=0.03)


def _misgan():
    family, own = FAMILIES["misgan"]
    return family, {**PUBLIC, **own}


def flagged(monkeypatch, words, **changes):
    for name, value in changes.items():
        monkeypatch.setattr(private_training, name, value)
    family, own = FAMILIES["ctgan"]
    with pytest.raises(CheckFailedError, match=words):
        check_sensitivity(
            family,
            parameters={**own, "delta": 1e-3, "steps": 2, "sampling_rate": 0.5},
            strategies=["observed"],
            trials=4,
        )


@pytest.mark.usefixtures("steep")
def test_sensitivities_flag_gradients_that_are_not_clipped(monkeypatch):
    flagged(monkeypatch, "longer than the clip norm", _CLIP=3.0)


def test_sensitivities_flag_rows_that_are_sampled_more_often(monkeypatch):
    class Often(SampledSum):
        """Reads rows at another rate than was charged."""

        def __init__(self, rate, noise_multiplier):
            super().__init__(min(1.0, 1.5 * rate), noise_multiplier)

    monkeypatch.setattr("missdp.session.session.SampledSum", Often)
    flagged(monkeypatch, "at least its rate")


def test_sensitivities_flag_losses_that_look_at_other_rows(monkeypatch):
    def centred(self, codes):
        rows, _ = self.shown(codes)
        (scores,) = self.scores(rows, rows[:, None] * self.levels_of)
        return (scores - scores.mean()).pow(2).sum(dim=1)

    monkeypatch.setattr(games.ConditionalGame, "row_loss", centred)
    flagged(monkeypatch, "changes the gradients of other rows")


def test_sensitivities_flag_losses_that_count_the_rows_of_a_sample(monkeypatch):
    """Alone, each gradient is the same as without this factor."""
    loss = games.ConditionalGame.row_loss

    def counted(self, codes):
        odd = len(next(iter(codes.values()))) % 2
        return loss(self, codes) * (1 if odd else -1)

    monkeypatch.setattr(games.ConditionalGame, "row_loss", counted)
    flagged(monkeypatch, "changes the gradients of other rows")
