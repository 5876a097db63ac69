"""The public kit of checks, and the promises of our own families, for every family and strategy.

`DAILY` has every strategy of every family, for checks that depend on both. The slow tests check the
remaining strategies. `PAIRED` has each family once, with strategies in turn. Its checks depend on
the family or on the base alone.
"""

from dataclasses import replace

import numpy as np
import pytest

from missdp import AllPairs, Table
from missdp.accounting import (
    DataDependentDomain,
    DeclaredRowCount,
    ExplicitSeed,
    Filter,
    Guarantee,
    PublicDomain,
    releases,
)
from missdp.errors import DataError, OutputError, ParameterError, SchemaError
from missdp.synth import SmallTableWarning, sampling
from missdp.testing import RULED, check_sensitivity, example_table
from missdp.testing.findings import WatchedRows
from missdp.testing.interference import interference_of
from missdp.testing.sensitivity import _sensitivity_of, answers_of
from refusing import refuses
from synth.conformance import (
    DAILY,
    FAMILIES,
    FEW_PAIRS,
    FEW_TRIALS,
    FIRST,
    NEURAL,
    PAIRED,
    SCHEMA,
    make_table,
    subject,
)
from synth.conformance_checks import CHECKS, RULED_CHECKS, budget_for, conformance_of
from synth.worked_example import Independent
from testing.ruled import (
    ONE_FIT,
    ONE_FREE,
    OWN,
    costs_nothing,
    kinds_of_missing,
    obeyed_rules,
    required_sets,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning"),
    pytest.mark.usefixtures("one_turn"),
]
every_case = pytest.mark.parametrize(("family", "strategy"), DAILY)
every_family = pytest.mark.parametrize(
    ("family", "strategy"), PAIRED, ids=[f"{f.name}-{s}" for f, s in PAIRED]
)
# Checks of behaviour that may differ between strategies, and with a second set of parameters.
BY_STRATEGY = ("keeping_holes", "save_and_load", "streaming")
# Checks that depend on the base alone. Every strategy of a quick family is checked.
BY_BASE = ("charged_before_reading", "guarantee", "output_shape")
# Of these, sixty columns take seconds, and fits with rules.
WIDE = ("mst", "all-pairs", "kamino")
LONG = ("privbayes-gaussian",)


def turn_of(family):
    """Every other check, in turn: most rest on the base alone, and one family has them all."""
    turn = [f.build for f, _ in FIRST].index(family.build)
    return [name for i, name in enumerate(CHECKS) if i % 2 == turn % 2 and name not in BY_STRATEGY]


def failed(findings):
    return [str(found) for found in findings if not found.passed]


@pytest.mark.long
@every_case
def test_conformance_and_gates(family, strategy):
    chosen = BY_STRATEGY
    if (family, strategy) in FIRST and family.name not in NEURAL:
        chosen = [*CHECKS] if family.name == "privbayes" else [*chosen, *turn_of(family)]
    elif family.name in ("privbayes", *NEURAL):
        chosen += BY_BASE
    left = {"spends_what_was_asked"} | ({"many_columns"} if family.name in WIDE else set())
    chosen = [name for name in chosen if name not in left]  # the first: see below, with rules
    found = conformance_of(subject(family, strategy), chosen)
    required_sets(subject(family, strategy))
    assert failed(found) == []
    (streams,) = [f.detail for f in found if f.what.startswith("Streamed rows")]
    assert (streams == "streams") == family.streams


@pytest.mark.long
@every_case
def test_what_a_fit_shows_was_released_and_charged_for(family, strategy):
    """Answers of one table are repeated for others, and the values behind them are compared."""
    first = (family, strategy) in FIRST
    tried = {"pairs": None, "trials": 4} if first else {"pairs": FEW_PAIRS, "trials": FEW_TRIALS}
    found = answers_of(subject(family, strategy), **tried, seed=0)
    assert failed(found) == []
    if ((family, strategy) in PAIRED and family.name not in LONG) or family.name == "independent":
        assert failed(_sensitivity_of(subject(family, strategy, RULED), trials=3, seed=2)) == []


@pytest.mark.slow
@every_case
def test_the_whole_kit_with_every_strategy_whichever_row_it_is(family, strategy):
    given = {"parameters": family.options, "strategies": [strategy]}
    for schema in (SCHEMA, RULED, ONE_FREE):
        check_sensitivity(family.build, **given, schema=schema, trials=60, seed=1)
    assert failed(conformance_of(subject(family, strategy))) == []
    on = subject(family, strategy, RULED)
    assert failed(conformance_of(on, RULED_CHECKS)) == []
    for promise in OWN:
        promise(on)
    assert failed(interference_of(on)[0]) == []


@pytest.fixture
def few_rounds(monkeypatch):
    """Draw rows that break rules anew only a few times. Vain attempts then take no longer."""
    monkeypatch.setattr(sampling, "_ROW_ROUNDS", 8)
    monkeypatch.setattr(sampling, "_VALUE_ROUNDS", 8)


@pytest.mark.long
@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    ("family", "strategy"),
    [  # MST and AIM share a base, and neural families serve for comparison
        pytest.param(f, s, id=f.name, marks=[pytest.mark.slow] * (f.name in ("mst", *NEURAL)))
        for f, s in FIRST
    ],
)
def test_kinds_and_rules(family, strategy):
    on = subject(family, strategy, RULED)
    assert failed(conformance_of(on, ["spends_what_was_asked"])) == []
    for promise in ONE_FIT:
        promise(on)
    assert failed(interference_of(on, ("kinds of missing",))[0]) == []


@pytest.mark.long
@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("promise", [p for p in OWN if p not in ONE_FIT])
def test_what_the_base_promises_of_kinds_and_rules(promise):
    promise(subject(FAMILIES[-1], "joint", RULED))
    if promise is kinds_of_missing:  # which are drawn in a way of its own
        promise(subject(next(f for f in FAMILIES if f.name == "all-pairs"), "joint", RULED))


@every_family
def test_all_but_one_attribute_follow(family, strategy):
    on = replace(subject(family, strategy), schema=ONE_FREE)
    obeyed_rules(on)
    costs_nothing(on)
    assert failed(_sensitivity_of(on, trials=3, seed=2)) == []


@every_family
def test_synthetic_rows_do_not_reuse_the_noise(family, strategy, monkeypatch):
    streams = []
    declared = family.build.family

    def sample(fitted, n, rng, keep_missing):
        return streams.append(rng.random(8).tolist()) or {}

    monkeypatch.setattr(family.build, "family", replace(declared, sample=sample))
    model = subject(family, strategy).fitted(random_state=5)
    monkeypatch.setattr("missdp.synth.base.Table.from_codes", lambda *_, **__: make_table(3))
    noise = np.random.default_rng(5).random(10_000)
    for seed in (None, 5):
        model.sample(3, random_state=seed)
        assert not np.isin(streams[-1], noise).any()


# Promises of the base that hold for every family.
two_families = pytest.mark.parametrize("family", [Independent, AllPairs])


@two_families
def test_what_was_read_from_the_data_or_declared_becomes_a_condition(family, tmp_path):
    """Also if parameters are numbers of NumPy."""
    frame, budget = example_table(SCHEMA, 300).to_native("pandas"), Filter(100.0, 0.5)
    marked = replace(SCHEMA["größe"], undeclared=("levels",))
    schema = replace(SCHEMA, attributes=(marked, *SCHEMA.attributes[1:]))
    asked = {"epsilon": np.float32(0.7), "n_rows": np.int64(123), "random_state": np.int64(3)}
    model = family(**asked, budget=budget)
    with refuses(SchemaError, "undeclared"):
        model.fit(frame, schema=schema)
    assert not budget.events
    model.fit(frame, schema=schema, undeclared="accept")
    for conditions in (model.guarantee_.conditions, budget.spent.conditions):
        assert DataDependentDomain(attributes=("größe",)) in conditions
        assert DeclaredRowCount(n=123) in conditions
        assert ExplicitSeed in map(type, conditions)
        # Facts that were read from the data are not public. All other facts still have to be
        # public.
        assert PublicDomain() not in conditions
        assert any(isinstance(condition, PublicDomain) for condition in conditions)
    assert model.guarantee_.epsilon <= float(np.float32(0.7)) * (1 + 1e-9)
    drawn = (len(model.sample()), len(model.sample(np.int64(3))))
    assert (model.n_rows_, *drawn) == (123, 123, 3)
    model.save(tmp_path / "m.json")
    assert family.load(tmp_path / "m.json").guarantee_ == model.guarantee_


@two_families
def test_frames_and_files_give_the_same_model_as_tables(family, tmp_path):
    table = example_table(SCHEMA, 300)
    frame, arrow = table.to_native("pandas"), table.to_arrow()
    frame.to_csv(tmp_path / "x.csv", index=False)
    wanted = family(epsilon=1.0, random_state=0).fit(table).sample(50)
    for data, kind in ((arrow, type(arrow)), (tmp_path / "x.csv", type(frame))):
        out = family(epsilon=1.0, random_state=0).fit(data, schema=SCHEMA).sample(50)
        assert type(out) is kind
        one, other = Table.read(out, SCHEMA), Table.read(wanted, SCHEMA)
        assert all((one.codes(n) == other.codes(n)).all() for n in SCHEMA.names)


def fail():
    raise DataError("the disk is on fire")


@pytest.mark.parametrize(
    ("family", "strategy"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[0].name in NEURAL)) for case in FIRST],
)
def test_a_failed_fit_stays_charged_and_progress_is_a_fraction(family, strategy):
    on, seen = subject(family, strategy), []
    budget = budget_for(on)
    with refuses(DataError, "on fire"):
        on.build(budget=budget).fit(WatchedRows(example_table(SCHEMA, 60), fail))
    assert budget.events
    on.build(progress=lambda *shown: seen.append(shown)).fit(example_table(SCHEMA, 60))
    assert all(0 <= done <= 1 for _, done in seen)
    assert not [stage for stage, _ in seen if any(ch.isdigit() for ch in stage)]


@pytest.mark.parametrize(("family", "strategy"), DAILY)
def test_a_model_of_no_rows_costs_what_was_asked_and_refuses_bad_questions(
    family, strategy, tmp_path
):
    on = subject(family, strategy)
    budget = budget_for(on)
    with pytest.warns(SmallTableWarning, match="epsilon"):
        model = on.build(budget=budget).fit(example_table(SCHEMA, 0))
    most, found = on.epsilon * (1 + 1e-9), model.guarantee_
    assert 0.95 * on.epsilon < found.epsilon <= most
    assert budget.spent.epsilon <= most
    if len(found.events) == 1:  # else a training was charged beside the filter
        assert Guarantee.from_events(releases(found.events), delta=on.delta).epsilon <= most
    drawn, wanted = model.sample(), example_table(SCHEMA, 9).to_native("pandas")
    assert len(drawn) == model.n_rows_ >= 1
    assert len(model.sample(0)) == 0  # asked for
    assert (drawn.dtypes == wanted.dtypes).all()
    for n in (-1, 1.5, True, "3"):
        with refuses(ParameterError, "n must be an integer"):
            model.sample(n)
    for seed in (-1, "x", 1.5, True):
        with refuses(ParameterError, "random_state"):
            model.sample(3, random_state=seed)
    with refuses(OutputError):
        model.save(tmp_path / "nowhere" / "model.json")
