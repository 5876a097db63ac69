"""Private training: the sensitivity to one row, the noise, the charge, and the output."""

import copy
import math
import pickle
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2, kstest, norm

from missdp import Categorical, Schema, Table
from missdp.accounting import (
    Composition,
    Filter,
    FilterEvent,
    FloatingPointTraining,
    SampledGaussianEvent,
)
from missdp.accounting.composition import epsilon_of
from missdp.accounting.loss_distributions import composed_epsilon
from missdp.baselines.dp_autogan import DPAutoGAN
from missdp.baselines.dp_ctgan import DPCTGAN
from missdp.baselines.dp_misgan import DPMisGAN
from missdp.errors import BudgetExceededError, ParameterError
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.model import Levels
from missdp.schema.modelled import ModelView
from missdp.session import CountedRows, LevelMerge, SeededNoise, Session
from missdp.session.training import SAMPLING_SLACK, SampledSum, TrainingPlan
from missdp.sources import MemorySource, strategy_named
from missdp.synth.family import Request
from missdp.testing import RecordingNoise
from missdp.testing.findings import WatchedRows
from missdp.testing.recording import GradientsOfEachRow

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from missdp.baselines.games import CodeGame, ConditionalGame, MaskGame  # noqa: E402
from missdp.baselines.private_training import (  # noqa: E402
    OpacusGradients,
    PrivateTraining,
)

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")

SIZES = (3, 2, 4)
NAMES = ("a", "b", "c")
SCHEMA = Schema(
    tuple(
        Categorical(name=name, levels=tuple(range(size)), nullable=name != "b")
        for name, size in zip(NAMES, SIZES, strict=True)
    )
)
FAMILIES = (DPMisGAN, DPAutoGAN, DPCTGAN)
every_family = pytest.mark.parametrize("family", FAMILIES)


def codes_of(n, seed=0):
    """Return codes of rows. The last code of 'a' and of 'c' is missing."""
    rng = np.random.default_rng(seed)
    sizes = [size + (name != "b") for name, size in zip(NAMES, SIZES, strict=True)]
    return {name: rng.integers(0, size, n) for name, size in zip(NAMES, sizes, strict=True)}


def table(n, seed=0):
    return Table.from_codes(SCHEMA, codes_of(n, seed))


def fitting(seed=0):
    """Return the start of a game: made-up released marginals."""
    levels = tuple(Levels(np.arange(size), np.ones(size)) for size in SIZES)
    margins = tuple(
        np.full(size + (name != "b"), 1 / (size + (name != "b")))
        for name, size in zip(NAMES, SIZES, strict=True)
    )
    one_way = NoisyMarginals(levels, margins, 1.0, 100.0, (False,) * len(SIZES))
    request = SimpleNamespace(modelled=ModelView(SCHEMA))
    return request, SimpleNamespace(generator=lambda: np.random.default_rng(seed)), one_way


def games(seed=0):
    """Each network that sees private rows, with its loss."""
    masks = MaskGame(*fitting(seed), "conditional")
    coder, conditional = CodeGame(*fitting(seed)), ConditionalGame(*fitting(seed))
    return {
        "misgan, two critics": (masks.network, masks.row_loss),
        "autogan, coder": (coder.coder, coder.coding_loss),
        "autogan, critic": (coder.network, coder.row_loss),
        "ctgan, critic": (conditional.network, conditional.row_loss),
    }


NETWORKS = tuple(games())
every_network = pytest.mark.parametrize("name", NETWORKS)


def training(network, loss, codes, *, rate=1.0, noise=1.0, steps=4, seed=0):
    """A training on rows that were charged for, answered by a seeded source."""
    source = SeededNoise(seed)
    event = SampledGaussianEvent(rate=rate, noise_multiplier=noise, steps=steps)
    law = SampledSum(rate, noise)
    rows = SimpleNamespace(
        event=event, codes=lambda: codes, release=lambda exact: law.draw(exact(), source)
    )
    return PrivateTraining(rows, network, loss, expected_batch=rate * 100)


def total(network, loss, codes):
    """The sum of the clipped gradients of all rows before noise."""
    n = len(next(iter(codes.values())))
    return training(network, loss, codes)._sum(np.arange(n))


def steep(network, factor):
    """Make gradients long, so that clipping matters."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(factor)


# One row


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NETWORKS),
    n=st.integers(0, 9),
    seed=st.integers(0, 10**6),
    row=st.tuples(*(st.integers(0, size) for size in SIZES)),
    factor=st.sampled_from([0.1, 1.0, 7.0, 100.0]),
)
def test_row_added_moves_sum_by_at_most_clip_norm(name, n, seed, row, factor):
    """With two critics the norm is over both. About half of the rows have missing cells."""
    network, loss = games(seed)[name]
    steep(network, factor)
    before = codes_of(n, seed)
    row = [min(code, size - (x == "b")) for x, code, size in zip(NAMES, row, SIZES, strict=True)]
    after = {x: np.append(c, code) for (x, c), code in zip(before.items(), row, strict=True)}
    moved = np.linalg.norm(total(network, loss, after) - total(network, loss, before))
    assert moved <= 1 + 1e-9


@every_network
def test_long_gradient_is_clipped_to_the_clip_norm_and_not_below(name):
    network, loss = games()[name]
    steep(network, 40.0)
    codes = codes_of(60)
    lengths = [
        np.linalg.norm(total(network, loss, {x: c[[i]] for x, c in codes.items()}))
        for i in range(60)
    ]
    assert 0.999 < max(lengths) <= 1 + 1e-12


def test_both_critics_share_one_clip_norm():
    network, loss = games()["misgan, two critics"]
    steep(network, 4.0)
    first = sum(p.numel() for p in network["rows"].parameters())
    norms = []
    for seed in range(40):
        found = total(network, loss, codes_of(1, seed))
        norms.append((np.linalg.norm(found[:first]), np.linalg.norm(found[first:])))
    both = max(norms, key=min)
    assert min(both) > 0.1
    assert math.hypot(*both) == pytest.approx(1, abs=1e-5)


@every_network
def test_duplicated_row_moves_sum_by_at_most_two_clip_norms(name):
    network, loss = games()[name]
    steep(network, 4.0)
    before = codes_of(7)
    moved = []
    for i in range(7):
        after = {x: np.concatenate([c, c[[i, i]]]) for x, c in before.items()}
        moved.append(np.linalg.norm(total(network, loss, after) - total(network, loss, before)))
    assert 0.1 < max(moved) <= 2 + 1e-9


@every_network
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
def test_row_without_finite_gradient_counts_as_zero(name, bad):
    """Other rows of the sample keep their gradients."""
    network, loss = games()[name]

    def broken(codes):
        factors = torch.ones(len(codes["a"]), dtype=torch.float64)
        factors[codes["a"] == 2] = bad
        return loss(codes) * factors

    codes = codes_of(40)
    others = {x: c[codes["a"] != 2] for x, c in codes.items()}
    assert len(others["a"]) < 40
    found = total(network, broken, codes)
    assert np.isfinite(found).all()
    assert found == pytest.approx(total(network, loss, others), abs=1e-10)
    only = {x: c[codes["a"] == 2] for x, c in codes.items()}
    assert not total(network, broken, only).any()


@every_network
def test_sum_over_blocks_is_sum_over_rows(name):
    network, loss = games()[name]
    codes = codes_of(600)
    parts = [{x: c[part] for x, c in codes.items()} for part in (slice(350), slice(350, 600))]
    found = sum(total(network, loss, part) for part in parts)
    assert total(network, loss, codes) == pytest.approx(found, abs=1e-9)


def test_loss_that_reaches_other_parameters_raises():
    network, loss = games()["autogan, critic"]
    other = torch.nn.Linear(1, 1, dtype=torch.float64)

    def leaking(codes):
        return loss(codes) + other(codes["a"][:, None].double()).squeeze(1)

    with pytest.raises(ParameterError, match="get no noise"):
        total(network, leaking, codes_of(5))


@every_network
def test_every_parameter_of_a_private_loss_is_in_the_private_optimizer(name):
    network, loss = games()[name]
    made = training(network, loss, codes_of(20))
    found = made._sum(np.arange(20))
    assert len(found) == sum(p.numel() for p in network.parameters())
    assert {*made.parameters} == {*network.parameters()}
    assert all(p.grad is None and p.grad_sample is None for p in network.parameters())


# Noise and samples


def kept(rows, width=1):
    """Gradients that are known: one number each row."""
    return GradientsOfEachRow(np.ones((rows, width)))


def noise_of(multiplier, source, count=200_000):
    empty = OpacusGradients(lambda rows: np.zeros(count), 0)
    return SampledSum(0.5, multiplier).draw(empty, source)


class Scaled(SeededNoise):
    """A source whose noise has another scale."""

    def __init__(self, seed, scale):
        super().__init__(seed)
        self.scale = scale

    def discrete_gaussian(self, sigma, size):
        return super().discrete_gaussian(sigma * self.scale, size)


def is_normal(draws, std):
    n = len(draws)
    spread = np.square(draws / std).sum()
    return (
        abs(draws.mean()) < 4.5 * std / math.sqrt(n)
        and chi2.cdf(spread, n) > 1e-5
        and chi2.sf(spread, n) > 1e-5
        and kstest(draws, norm(scale=std).cdf).pvalue > 1e-5
    )


def test_noise_has_the_charged_scale_and_another_scale_is_found():
    assert is_normal(noise_of(2.5, SeededNoise(1)), 2.5)
    for scale in (0.98, 1.02):
        assert not is_normal(noise_of(2.5, Scaled(1, scale)), 2.5)


def test_numeric_scores_of_the_noise_are_independent():
    draws = noise_of(1.0, SeededNoise(2), 400_000).reshape(200, 2000)
    off = np.corrcoef(draws[:60])[np.triu_indices(60, 1)]
    assert is_normal(off * math.sqrt(2000), 1.0)


def test_noisy_sum_lies_on_the_grid_of_the_noise():
    law = SampledSum(1.0, 1.5)
    cell = 1.5 * (1 + 2.0**-13) / 2.0**38
    cells = law.draw(kept(50, 40), SeededNoise(0)) / cell
    assert np.abs(cells - np.rint(cells)).max() < 1e-4


def test_sampler_reads_each_row_at_the_rate():
    law, source = SampledSum(0.02, 2.0**-20), SeededNoise(3)
    found = sum(round(float(law.draw(kept(1000), source)[0])) for _ in range(300))
    assert binomtest(found, 300_000, 0.02).pvalue > 1e-5
    assert binomtest(found, 300_000, 0.022).pvalue < 1e-5


@every_network
def test_empty_sample_takes_a_step_of_noise_alone(name):
    network, loss = games()[name]
    before = [p.detach().clone() for p in network.parameters()]
    made = training(network, loss, codes_of(0))
    made.step()
    moved = [(p - q).abs().min() for p, q in zip(network.parameters(), before, strict=True)]
    assert min(moved) > 0
    gradients = np.concatenate([p.grad.numpy().ravel() for p in network.parameters()])
    assert is_normal(gradients * 100, 1.0)


def test_public_gradient_is_added_after_the_noise():
    """Generated rows pass no hook of Opacus, so that they are not taken for private rows."""
    game = CodeGame(*fitting())
    plain = training(game.network, game.row_loss, codes_of(30), seed=5)
    plain.step()
    noisy = [p.grad.clone() for p in game.network.parameters()]
    game = CodeGame(*fitting())
    game.stream.manual_seed(1)
    more = torch.autograd.grad(game.loss(soft=False), [*game.network.parameters()])
    game.stream.manual_seed(1)
    training(game.network, game.row_loss, codes_of(30), seed=5).step(partial(game.loss, soft=False))
    for parameter, one, other in zip(game.network.parameters(), noisy, more, strict=True):
        assert torch.allclose(parameter.grad, one + other, atol=1e-12)
        assert parameter.grad_sample is None


@every_network
def test_kept_gradients_are_those_of_the_step(name):
    """Only checks of the conformance kit compare these gradients. Releases never compute them."""
    network, loss = games()[name]
    made = training(network, loss, codes_of(25))
    lazy = made._exact()
    copied = GradientsOfEachRow.of(lazy)
    rows = np.array([0, 3, 4, 20])
    assert copied.sum(rows) == pytest.approx(lazy.sum(rows), abs=1e-12)
    made.step()
    assert len(copied) == 25
    assert copy.deepcopy(copied).each.tolist() == copied.each.tolist()


# Charges


@every_family
@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"), [(1.0, 0.02, 1000), (0.3, 0.01, 200), (3.0, 0.5, 20)]
)
def test_plan_is_worth_what_was_asked_for_by_an_independent_oracle(family, epsilon, rate, steps):
    from dp_accounting import dp_event as dp
    from dp_accounting.pld import PLDAccountant

    model = family(epsilon=epsilon, delta=1e-6, sampling_rate=rate, steps=steps)
    request = Request(model)
    trainings = request.trainings
    oracle = PLDAccountant(value_discretization_interval=1e-4)
    (first,) = request.budget.filter().flatten()
    oracle.compose(dp.GaussianDpEvent(first.sigma / first.sensitivity))
    for event in trainings:
        assert event.rate == rate + SAMPLING_SLACK
        step = dp.PoissonSampledDpEvent(event.rate, dp.GaussianDpEvent(event.noise_multiplier))
        oracle.compose(dp.SelfComposedDpEvent(step, event.steps))
    assert 0.995 * epsilon < oracle.get_epsilon(1e-6) <= epsilon
    assert epsilon_of((first, *trainings), 1e-6) <= epsilon
    steps = [event.steps for event in trainings]
    assert steps == ([model.steps // 2, model.steps] if family is DPAutoGAN else [model.steps])


def test_sampled_noise_costs_what_the_specification_says():
    event = SampledGaussianEvent(rate=0.01, noise_multiplier=1.1, steps=2000)
    found = {delta: composed_epsilon((event,), delta) for delta in (1e-5, 1e-6)}
    assert min(abs(epsilon - 2.468) for epsilon in found.values()) < 0.01


@every_family
def test_rate_and_noise_do_not_follow_from_the_number_of_rows(family):
    models = [family(epsilon=1.0, delta=1e-6, steps=2).fit(table(n)) for n in (40, 400)]
    few, many = (model.guarantee_.events[1:] for model in models)
    assert few == many == Request(models[0]).trainings
    assert models[0].guarantee_.events[0].capacity == models[1].guarantee_.events[0].capacity


@every_family
def test_guarantee_states_filter_trainings_and_conditions(family):
    guarantee = family(epsilon=1.0, delta=1e-6, steps=2).fit(table(50)).guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
    assert isinstance(guarantee.events[0], FilterEvent)
    assert all(isinstance(event, SampledGaussianEvent) for event in guarantee.events[1:])
    assert FloatingPointTraining() in guarantee.conditions
    assert "fixed before the first" in " ".join(map(str, guarantee.conditions))
    model, rows = family(epsilon=1.0, delta=1e-6, steps=2), table(50)
    budget = Composition(model.planned_events(rows.schema), 2.0, 1e-5)
    model.set_params(budget=budget).fit(rows)
    assert FloatingPointTraining() in budget.spent.conditions
    assert budget.spent.events == budget.plan


@every_family
def test_one_attribute_is_learned_like_several(family):
    model = family(epsilon=1.0, delta=1e-6, steps=2).fit(table(200).subset(["a"]))
    assert set(model.sample(20)["a"]) <= {0, 1, 2}
    assert model.guarantee_.epsilon == 1.0


class UnreadableError(Exception):
    """Raised when rows are read."""


@every_family
def test_nothing_is_read_before_the_whole_plan_is_charged(family):
    def read():
        raise UnreadableError

    rows, small = WatchedRows(table(50), read), Filter(0.5, 1e-6)
    model = family(epsilon=1.0, delta=1e-6, steps=2)
    enough = Composition(model.planned_events(table(50).schema), 1.0, 1e-6)
    with pytest.raises(BudgetExceededError, match="planned_events"):
        model.set_params(budget=small).fit(rows)
    assert not small.events
    with pytest.raises(Exception, match=r"^(?!.*Filter)"):
        model.set_params(budget=enough).fit(rows)
    assert [event for event in enough.events if isinstance(event, SampledGaussianEvent)] == [
        *Request(model).trainings
    ]
    assert isinstance(enough.events[0], FilterEvent)


# Output of a training

EVENT = SampledGaussianEvent(rate=0.5, noise_multiplier=1.0, steps=2, label="critics")


def session_on(rows, missing="observed", *, trainings=(EVENT,), source=None):
    budget = Filter(1.0, 1e-6)
    plan = TrainingPlan(budget, trainings, 50.0) if trainings else None
    facts = {"budget": budget, "noise": SeededNoise(0), "trainings": plan}
    return Session(
        CountedRows.from_source(source or MemorySource(rows), strategy_named(missing)), **facts
    )


def test_rows_are_given_out_once_for_a_charged_training():
    session = session_on(table(30))
    rows = session.train(EVENT)
    assert {n: c.tolist() for n, c in rows.codes().items()} == {
        n: c.tolist() for n, c in codes_of(30).items()
    }
    for again in (session, session.apply(LevelMerge({a.name: np.arange(a.size) for a in SCHEMA}))):
        with pytest.raises(ParameterError, match="given out before"):
            again.train(EVENT)


@pytest.mark.parametrize(
    "event",
    [
        SampledGaussianEvent(rate=0.6, noise_multiplier=1.0, steps=2, label="critics"),
        SampledGaussianEvent(rate=0.5, noise_multiplier=1.0, steps=3, label="critics"),
    ],
)
def test_training_that_was_not_charged_gets_no_rows(event):
    with pytest.raises(ParameterError, match="was not charged"):
        session_on(table(30)).train(event)
    with pytest.raises(ParameterError, match="no training was charged"):
        session_on(table(30), trainings=()).train(EVENT)


def test_session_answers_as_many_steps_as_were_charged():
    rows = session_on(table(30)).train(EVENT)
    network, loss = games()["autogan, critic"]
    made = PrivateTraining(rows, network, loss, expected_batch=10)
    made.step()
    made.step()
    with pytest.raises(ParameterError, match="were answered"):
        made.step()


def test_session_samples_and_adds_noise_as_was_charged():
    """A family chooses neither sampling nor noise. Both follow from the charged event."""
    rows = session_on(table(4000)).train(EVENT)
    assert rows.event == EVENT
    found = [float(rows.release(lambda: kept(4000))[0]) for _ in range(2)]
    assert all(abs(total - 2000) < 6 * math.sqrt(1000 + 1) for total in found)


def test_plan_is_proven_when_it_is_made_and_cannot_be_copied():
    first = Filter(0.1, 1e-6)
    with pytest.raises(BudgetExceededError):
        TrainingPlan(first, [EVENT], 1.0)
    quiet = replace(EVENT, noise_multiplier=50.0)
    plan = TrainingPlan(first, [quiet], 1.0)
    with pytest.raises(ParameterError, match="was not charged"):
        plan.take(EVENT)
    plan.take(quiet)
    with pytest.raises(ParameterError, match="given out before"):
        plan.take(quiet)
    with pytest.raises(ParameterError, match="equal"):
        TrainingPlan(first, [EVENT, EVENT], 50.0)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ParameterError, match="copied or pickled"):
            duplicate(plan)


def test_complete_rows_are_all_that_complete_rows_gives_out():
    rows = table(60)
    found = session_on(rows, "complete-rows").train(EVENT).codes()
    whole = rows.take(~rows.incomplete_rows())
    assert {n: c.tolist() for n, c in found.items()} == {n: whole.codes(n).tolist() for n in NAMES}


def test_streamed_rows_are_not_given_out():
    from missdp.sources.streamed import DuckDBSource

    session = session_on(table(30))
    session._rows = replace(session._rows, source=DuckDBSource.__new__(DuckDBSource))
    with pytest.raises(ParameterError, match="streamed"):
        session.train(EVENT)


def test_units_of_several_rows_are_refused():
    budget = Filter(1.0, 1e-6)
    plan = TrainingPlan(budget, [EVENT], 50.0)
    facts = {"budget": budget._for_units("patient", 3), "noise": SeededNoise(0), "trainings": plan}
    with pytest.raises(ParameterError, match="several rows"):
        Session(
            CountedRows.from_source(MemorySource(table(30)), strategy_named("observed")), **facts
        )


def test_rows_that_count_different_amounts_are_refused():
    session = session_on(table(30))
    rows = session._rows
    session._rows = replace(rows, facts=replace(rows.facts, steps=1024))
    with pytest.raises(ParameterError, match="count different amounts"):
        session.train(EVENT)


@every_family
def test_as_many_steps_are_taken_as_were_charged(family):
    with RecordingNoise(0) as noise:
        model = family(epsilon=1.0, delta=1e-6, steps=6).fit(table(40))
    steps = [answer for answer in noise.answers if isinstance(answer.mechanism, SampledSum)]
    assert len(steps) == sum(event.steps for event in model.guarantee_.events[1:])
    assert len({len(answer.exact) for answer in steps}) == 1
