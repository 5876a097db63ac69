"""Records are written to files and read again. Other content is refused."""

import contextlib
import dataclasses
import json
import math
import re
import traceback
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import missdp
from accounting.accounting_strategies import conditions, elementary
from missdp import accounting, schema
from missdp.baselines.network import Network, Node
from missdp.baselines.networks import Layers, NetworkModel
from missdp.baselines.privbayes import BayesianModel
from missdp.conditions import BinsFromRelease, Condition
from missdp.datasets import yrbss
from missdp.errors import DataError, MissDPError, ParameterError
from missdp.estimate import Estimates, SensitivityAnalysis
from missdp.evaluate import MAR, MCAR, MNAR, DeclaredMechanism, SelfMasking
from missdp.evaluate.classifiers import ClassifierF1
from missdp.evaluate.distances import MarginalDistance, MissingFidelity, MissingnessByKind
from missdp.evaluate.fidelity import Fidelity
from missdp.evaluate.violations import RuleViolations
from missdp.governance.plan import Plan, Planned
from missdp.ground_truth import (
    AmplifiedEvent,
    ChosenRequirements,
    DataChosenRequirements,
    FixedRequirements,
)
from missdp.inference.conditional_models import ConditionalModels
from missdp.inference.conditionals import Conditionals, Factors
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Levels
from missdp.inference.models import PairModel
from missdp.pricing import StepCondition
from missdp.pricing.prices import CheaperChange, Price, PriceStep
from missdp.schema.attributes import Column, Ignored, Key
from missdp.serialization import FORMAT, Record, pack, seal, unpack, unseal
from missdp.session import Products, RowProducts, Total
from missdp.statistics import Estimate, LevelEstimates
from missdp.synth.first_parts import EffectiveSize
from missdp.synth.fitted import Fitted
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.numeric_scores import NumericScore
from missdp.synth.split import BudgetLimits
from missdp.testing.claims import Audit
from missdp.testing.findings import Finding, Report
from missdp.words import Risk
from refusing import refused, refuses


def test_no_other_number_of_the_format_switches_the_checksum_off():
    for record in SINGLE:
        for number in ({}, *({"format": n} for n in (0, 1, 2, 3, 4, 6, True, "5", -1))):
            document = record.to_dict() | number
            for one in (document, seal(document)):
                refused(MissDPError, None, type(record).from_json, json.dumps(one))


EVENT = accounting.LaplaceEvent(sensitivity=1, scale=2.0, label="a count", required={"age"})
PURE, HALF = accounting.PureEvent(epsilon=1.0), accounting.BoundedObservation(0.5)
GUARANTEE = missdp.Guarantee.from_events([EVENT], delta=0.0).with_conditions(
    accounting.ExplicitSeed()
)
SCHEMA = missdp.Schema(
    (
        missdp.Categorical(name="kind", levels=("é", '"'), nullable=True, missing_codes=("?", -9)),
        missdp.Ordinal(name="b", levels=(False, True), label="B"),
        missdp.OpenCategorical(name="ill", max_levels=9, other="rest").with_levels(["J45", "é"]),
        missdp.Numeric(name="c", lower=0, upper=0.3, edges=(0, 0.1, 0.3), undeclared=("lower",)),
        missdp.Date(name="d", lower="2018", upper="2024", step="2 years", spikes=("2020",)),
        missdp.DateTime(name="e", lower="2018-01-01", upper="2018-12-31", timezone="UTC"),
    )
)
BINNING = schema.Binning(
    edges=(0, 1), spikes=(0,), subintervals=(0, 1 / 3, 1), weights=(0.1, 0.2),
    source=schema.BinSource.RELEASE,
)  # fmt: skip
DECLARED = missdp.Schema(
    (
        *SCHEMA.attributes,
        missdp.OpenCategorical(name="town"),
        missdp.Numeric(name="x", lower=0, upper=1),
    )
)
TABLE = np.array([[0.1, 1 / 3], [np.pi, 5e-324]])
MASKS = MissingnessModel(np.array([0.1, 0.0]))
MASKS.slopes[0, 1] = np.array([1.0, -1 / 3])
LEVELS = Levels(np.array([0, 0, 1]), np.array([0.3, 0.7, 1.0]))
FACTORS = Factors(
    (LEVELS, LEVELS), (np.array([1.0, 0.5]), np.ones(2)), {(0, 1): np.full((3, 2), 1 / 3)}
)
LAYERS = Layers((TABLE, TABLE), (np.zeros(2), np.ones(2)))
FAMILY = Node("b", ("kind",))
STEP = PriceStep("impute", "MeanImputer", 3, 0.1, 3, 0.3, math.inf, 1.0, ("one", "two"))
RULED = missdp.Schema(
    (
        missdp.Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        missdp.Numeric(name="hours", lower=0, upper=30, nullable=True, unknown=(-8,)),
        missdp.Numeric(name="free", lower=30, upper=60, nullable=True),
        missdp.Ordinal(name="rank", levels=(1, 2), nullable=True),
    ),
    (
        schema.NotApplicable("hours", unless="work = 'yes'"),
        schema.Always("hours + free = 60"),
        schema.Determined("rank", by="work", map=(("no", 1), ("yes", 2))),
        schema.Always("hours <= free"),
        schema.Never("work = 'no' and free > 59"),
    ),
)
HEADS = ConditionalModels(
    (1, 0), (TABLE[0], TABLE[1]), (TABLE[0], TABLE[1]), {(0, 1): TABLE}, {(0, 1): TABLE > 1}
)
CRUDE = NoisyMarginals((LEVELS,), (TABLE[0],), 0.5, 9.0, (False,))
PLAN = RowProducts({"a": TABLE, "b": TABLE}, clip=2.0)
SUMS = Products({"a": TABLE}, {"a": TABLE[0]}, {("a", "b"): TABLE}, std=1.0, single_std=0.5)
STAY = missdp.Difference(name="stay", later="out", earlier="in", lower=0, upper=4, unit="week")
STAYS = missdp.Schema(
    (
        missdp.Date(name="in", lower="2018-01-01", upper="2018-12-31", nullable=True),
        missdp.Date(name="out", lower="2018-01-01", upper="2018-12-31", nullable=True),
        STAY,  # which is in units of its dates there, and written in its own
    )
)
VISITS = missdp.Schema(
    (missdp.Categorical(name="ward", levels=("a", "b")),),
    file=schema.Layout(decimal=","),
    ignore=("note",),
    keys=("visit",),
    unit=schema.Unit(
        "person", max_rows=3, if_missing="own_unit", missing_codes=("NA",), counts_as="one"
    ),
    weight=schema.SurveyWeight("wt", upper=9.5, default=1.0),
)
NUMBER = NumericScore(np.array([0, 1]), TABLE[0], TABLE[1], -9.0, 9.0, 0.5, 2.0, 2.5, 6.0)
ESTIMATES = Estimates("mean(a)", ("all",), (1.0,), (0.1,), (0.2,), (0.0,), (9.5,), 0.95, ("so",))
PLANNED = Planned(
    epsilon=1.0, delta=1e-6, one_way=2.0, two_way=3.0, fitted=0.03, clear=0.2,
    swamped={"zipf": 0.5}, widths={"a": 1.5}, ground_truth=None, seconds=0.5,
)  # fmt: skip
SINGLE = [
    EVENT,
    accounting.FilterEvent(capacity=PURE, log=[accounting.PureEvent(epsilon=0.5)]),
    accounting.UnitEvent(unit="person", rows=3, counts_as="one", capacity=PURE),
    EffectiveSize(total=9.0, square=4.0, std=1.5, bound=3.0, weight=VISITS.weight),
    AmplifiedEvent(events=[EVENT], assumption=HALF, structure=FixedRequirements()),
    FixedRequirements(),
    DataChosenRequirements(attributes=("a", "b"), smallest=1),
    ChosenRequirements(among=(("a", "b"), ("b",)), largest_share=0.5),
    GUARANTEE,
    missdp.Guarantee(1.0, 1e-6, "replace-one"),
    SCHEMA,
    *DECLARED,
    BINNING,
    RULED,
    *RULED.rules,
    STAY,
    STAYS,
    VISITS,
    Key(name="visit", undeclared=("kind",)),
    Ignored(name="note"),
    VISITS.file,
    VISITS.unit,
    VISITS.weight,
    *(a for a in STAYS if a.name != "stay"),
    MASKS,
    LEVELS,
    FAMILY,
    HEADS,
    FACTORS,
    Conditionals((1, 0), FACTORS, FACTORS),
    Total(180.0, 400.0),
    CRUDE,
    NoisyMarginals((LEVELS,) * 2, (TABLE[0],) * 2, 0.5, 9.0, (True, False), counts={(0, 1): TABLE},
                   stds={(0, 1): 2.0}),
    PLAN,
    SUMS,
    PairRelease(CRUDE, SUMS, PLAN),
    NoisyMarginals(
        (LEVELS, LEVELS), (TABLE[0], np.full(3, 1 / 3)), 0.5, 9.0, (False, True),
        counts={(0, 1): np.ones((2, 3))}, stds={(0, 1): 0.5}, masks={(0, 1): TABLE}, masks_std=1.0,
    ),
    NUMBER,
    PairRelease(
        CRUDE, SUMS, dataclasses.replace(PLAN, extra_features={"a": TABLE}), (NUMBER, None)
    ),
    ESTIMATES,
    SensitivityAnalysis("a", 2.0, (0.0, 0.5), (ESTIMATES, ESTIMATES), (None,)),
    PairModel((LEVELS, LEVELS), HEADS, {(0, 1): TABLE}, MASKS, 12.0),
    LAYERS,
    NetworkModel(
        (LEVELS, LEVELS), Layers((np.eye(4),), (np.ones(4),)), Layers((TABLE[[0, 1] * 2],),
        (np.ones(2),)), (0, 1), True, {1: 0}, np.ones(4) / 4, 12.0
    ),
    Network((Node("kind", ()), FAMILY), {"kind": TABLE[0], "b": TABLE}, {("kind", "b"): TABLE}),
    Fitted(
        family="F", declared=DECLARED, levels={"town": ("é",)}, bins={"x": BINNING},
        frame="polars", n_rows=3, n_rows_std=0.0, guarantee=GUARANTEE,
        parameters={
            "missing": "joint", "kind": None, "w": {("a",): 2}, "x": math.inf, "big": 10**30
        },
        model={"law": HEADS, "counts": {"kind": TABLE.astype(np.int64)}, "all": (TABLE > 1,)},
        tables=None, measured=(("kind", "b"),), kinds={}, tails={}, limits=None, size=None,
        draws="even", release=None, ledger=None,
    ),
    BayesianModel(Network((Node("b", ()),), {"b": TABLE[0]}), None),
    BudgetLimits(
        privacy_measure="gdp", amount=0.5, events=(accounting.FilterEvent(capacity=PURE),),
        structure=FixedRequirements(),
    ),
    Estimate(name="mean", value=1.5, interval=(1, 2.0), confidence=0.95, guarantee=GUARANTEE),
    LevelEstimates(
        name="h", levels=("a", 1, True), values=(1.0, 2.0, 3.0),
        intervals=((0.5, 1.5), (1.5, 2.5), (2.5, 3.5)), confidence=0.9,
        guarantee=GUARANTEE,
    ),
    STEP,
    CheaperChange("leave out step 'pca'", 0.5),
    Price(
        (STEP,), "mean", 1e-6, 0.5, 1.0, "direct", (("direct", 1.0),), GUARANTEE,
        CheaperChange("leave out step 'pca'", 0.5),
    ),
    MarginalDistance(2, {("a", "b"): 0.1, ("a", "c"): 1 / 3}),
    MissingFidelity({"a": 0.1}, {"a": 0.2}, {("a", "b"): 0.3}, 0.4),
    MissingnessByKind({"kind": {"refused": 0.1}}, {"kind": {"refused": 1 / 3}}),
    Fidelity({"two_way_deciles": 0.1}, {"a": 0.1}, {"a": (1.0, 2.0)}, {"a": (0.5,)}, 0.03, 50),
    RuleViolations(3, 1, {"kind": 1, "start <= end": 0}),
    ClassifierF1({"a": {"RandomForest": 0.5}}, ("b",), True),
    MCAR(rate={"a": 0.1, "b": 0.5}, rates="exact"),
    MAR(rate=0.1, drivers=("a",)),
    MNAR(rate=0.1, model="all-columns"),
    SelfMasking(rate=0.1, columns=("a",), strength=2.0),
    DeclaredMechanism(intercepts={"a": -1.0}, weights={"a": {"b": {"x": 0.5}, "c": 1.0}}),
    Audit("a", 4, 0.5, 0.5, 0.0, 0.0, 0.0, False, 0.95, ("Law",)),
    Report("me", (Finding("sensitivity", "saves", "joint", True),)),
    Finding("sensitivity", "saves", "joint", False, "no"),
    accounting.RDPEvent(orders=(2.0, 4.0), epsilons=(0.1, 0.2)),
    schema.Layout(decimal=",", thousands=".", encoding="latin-1", header=("a", "b")),
    Risk.from_guarantee(GUARANTEE, prior=0.1),
    PLANNED,
    Plan(method="aim", rows=9, rehearsed_rows=9, missing={"a": 0.1}, planned=(PLANNED,)),
    *(
        kind(**dict.fromkeys((f.name for f in dataclasses.fields(kind)), 1))
        for kind in StepCondition.__subclasses__()
    ),
]  # fmt: skip


def plain(record):
    """The content of a record as text, arrays included, since `==` of some records is identity."""
    return json.dumps(record.to_dict(), sort_keys=True)


@example(schema.OpenCategorical(name="town"))  # its kind is that of a closed attribute
@given(st.sampled_from(SINGLE) | conditions | elementary)
def test_every_record_comes_back_as_it_was(record):
    text = record.to_json()
    # A rule is recognised by its fields: its document states no kind.
    for reader in (type(record), schema.Rule if isinstance(record, schema.Rule) else Record):
        again = reader.from_json(text)
        assert type(again) is type(record)
        assert plain(again) == plain(record)
        if type(record).__eq__ is not object.__eq__ and not holds_arrays(record):
            assert again == record
            with contextlib.suppress(TypeError):  # of dictionaries
                assert hash(again) == hash(record)


def holds_arrays(record):
    return '"kind": "array"' in plain(record)


def test_every_kind_is_among_the_examples():
    """Kinds with no example here have one in `accounting_strategies`."""
    ours = {name for name, kind in Record._kinds.items() if kind.__module__.startswith("missdp.")}
    shown = {record.kind for record in SINGLE}
    module = "missdp.accounting.events", "missdp.conditions"
    assert {kind for kind in ours - shown if Record._kinds[kind].__module__ not in module} == set()


def test_arrays_come_back_to_the_last_bit():
    whole, none = np.arange(3), np.zeros((0, 2))
    for array in (TABLE, TABLE.astype("f4"), whole, none, np.array(True), TABLE.T):
        again = unpack(json.loads(json.dumps(pack(array))))
        assert again.dtype == array.dtype
        np.testing.assert_array_equal(again, array)
    for array in (np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(1, complex)):
        refused(ParameterError, "holds numbers", pack, array)
    refused(ParameterError, "a complex cannot", pack, 1j)


DEEP = "[" * 5000 + "]" * 5000
STRANGE = [
    *(None, True, -1, 10**400, 1e308, "", "x", [], {}, [[]]),
    {"kind": "numeric"},
    {"kind": []},
    {"kind": "float"},
    {"kind": "mapping"},
    {"kind": "mapping", "items": [[[{}], 1]]},
    {"kind": "array", "type": "<f8", "shape": [10**9, 10**9], "data": ""},
    {"kind": "array", "type": "O", "shape": [1], "data": "AAAAAAAAAAA="},
    {"kind": "PureEvent", "epsilon": {}},
]


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


@given(st.sampled_from(SINGLE), st.sampled_from(STRANGE), st.data())
def test_hostile_texts_are_refused_with_one_kind_of_error(record, strange, data):
    document = {"format": FORMAT, **record.to_dict()}
    path = data.draw(st.sampled_from([p for p in places(document) if p]))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = strange
    text, read, error = json.dumps(seal(document)), None, None
    try:
        read = type(record).from_json(text)
    except MissDPError as caught:
        error = caught
    if error is None:
        assert isinstance(read, type(record))
    else:
        assert error.__cause__ is error.__context__ is None


@pytest.mark.slow
def test_numbers_at_the_ends_of_floating_point_are_read_or_refused():
    """At every place of every record, where the search above only tries some."""
    for record in SINGLE:
        document = {"format": FORMAT, **record.to_dict()}
        for path in filter(None, places(document)):
            for number in (1e308, 5e-324):
                inner = changed = json.loads(json.dumps(document))
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = number
                with contextlib.suppress(MissDPError):
                    type(record).from_json(json.dumps(seal(changed)))


SECRET = "§secret"
PLANTED = [
    *(SECRET, (SECRET,), [[SECRET]], {SECRET}, {SECRET: SECRET}, {1: SECRET}, {"a": {SECRET: 1}}),
    *({(SECRET, "a"): 1.0}, ((SECRET, SECRET),), (([SECRET],),), {"a": np.array([SECRET])}),
    *(np.array([SECRET]), np.array([SECRET], dtype=object), (1.0, SECRET), (None, [SECRET])),
    type(SECRET, (), {"__repr__": lambda self: SECRET})(),
]
PUBLIC = (missdp.Schema, schema.Rule, schema.Unit, schema.SurveyWeight, schema.Layout, Column)


@pytest.mark.long
def test_no_value_escapes_from_a_field_that_holds_a_wrong_one():
    refusals = 0
    for record in SINGLE:
        for name in record.__dataclass_fields__:
            for planted in PLANTED:
                try:
                    dataclasses.replace(record, **{name: planted})
                except MissDPError as caught:
                    error, refusals = caught, refusals + 1
                else:
                    continue
                assert error.__cause__ is error.__context__ is None, (record.kind, name)
                if not isinstance(record, PUBLIC):  # the facts of a schema may be shown
                    shown = "".join(traceback.format_exception(error))
                    assert SECRET not in shown, (record.kind, name)
    assert refusals > 3000


def test_no_value_escapes_from_a_name_or_a_number_of_fields():
    for kind, args, facts in (
        (accounting.BoundedObservation, (SECRET, SECRET, SECRET), {}),
        (accounting.PureEvent, (SECRET,), {"epsilon": SECRET}),
        (accounting.PureEvent, (), {}),
        (Total, (SECRET,), {"value": SECRET}),
    ):
        assert SECRET not in refused(ParameterError, None, kind, *args, **facts)


def test_errors_of_pydantic_are_caught_in_one_place():
    """No other file builds a validator, whose errors would quote their input."""
    package = Path(missdp.__file__).parent
    for path in package.rglob("*.py"):
        if path != package / "validation.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search("ValidationError|TypeAdapter|BaseModel|validate_call", text), path


def test_a_dataclass_of_another_package_is_checked_alike():
    @dataclasses.dataclass(frozen=True)
    class Elsewhere(accounting.Condition):
        limit: float
        names: tuple[str, ...] = ()

        sentence = "At most {limit} of {names}."

    made = Elsewhere(3, ["a", "b"])
    assert (made.limit, made.names, str(made)) == (3.0, ("a", "b"), "At most 3.0 of a, b.")
    assert accounting.Condition.from_json(made.to_json()) == made
    for facts in ({"limit": SECRET}, {"limit": True}, {"limit": 1.0, "names": SECRET}, {}):
        assert SECRET not in refused(ParameterError, "Elsewhere: ", Elsewhere, **facts)
    refused(ParameterError, "Did you mean 'limit'", Elsewhere, limits=1.0)
    del Record._kinds["Elsewhere"]


WRONG = [
    *("", "{", "NaN", "null", "[]", DEEP, "1" * 5000, '"\\ud800"', '{"a":' * 900 + "1" + "}" * 900),
    *('{"kind": "numeric", "lower": NaN}', '{"kind": "Record"}', '{"format": 5}', '{"format": []}'),
]


def test_what_is_no_record_is_refused():
    for text in WRONG:
        for kind in (
            Record,
            accounting.Event,
            missdp.Guarantee,
            missdp.Schema,
            Estimate,
            Fitted,
        ):
            refused(MissDPError, None, kind.from_json, text)


def test_names_of_kinds_are_given_once():
    with pytest.raises(TypeError, match="already registered"):
        type("Estimate", (Record,), {"__module__": "elsewhere"})


def test_derived_facts_are_written_and_not_believed():
    written = MarginalDistance(1, {("a",): 0.5}).to_dict()
    assert (written["mean"], ClassifierF1({}, (), False).to_dict()["mean"]) == (0.5, None)
    assert MarginalDistance.from_dict({**written, "mean": 0.0}).mean == 0.5


def test_a_guarantee_without_the_number_of_its_format_is_refused():
    document = json.loads(missdp.Guarantee(1.0, conditions=[accounting.ExplicitSeed()]).to_json())
    for name in ("format", "sha256"):
        del document[name]  # without the number, no checksum would be asked for
    refused(
        MissDPError, None, missdp.Guarantee.from_json, json.dumps(document | {"conditions": []})
    )
    assert missdp.Guarantee.from_dict(document).epsilon == 1.0  # as a part of something else


# Saved documents show damage and edits.
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.long
@given(st.dictionaries(st.text().filter(lambda name: name != "sha256"), json_values))
def test_a_document_survives_a_text_whatever_it_holds(document):
    text = json.dumps(seal(document), indent=1, ensure_ascii=True)
    assert unseal(json.loads(text)) == document


def test_a_document_of_numbers_that_are_no_json_has_no_checksum():
    """Other programs could not read it, nor compute the checksum again."""
    for write in (seal, unseal):
        for value in (math.nan, math.inf, -math.inf):
            with refuses(ParameterError, "finite numbers only"):
                write({"epsilon": [value], "sha256": ""})


def test_edited_models_and_guarantees_are_refused(tmp_path):
    path = tmp_path / "m.json"
    model = missdp.PrivBayes(epsilon=1.0).fit(yrbss().table())
    model.save(path)
    text = path.read_text(encoding="utf-8")
    document = unseal(json.loads(text))
    for old, new in (
        ('"epsilon": 1.0', '"epsilon": 0.5'),
        ('"n_rows_std": ', '"n_rows_std": 1'),
        ("sha256", "sha255"),
    ):
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        refused(DataError, "checksum", missdp.load, path)
    cheaper = missdp.Guarantee(0.01, conditions=model.guarantee_.conditions).to_dict()
    for number in range(4):  # no other number of a format switches the checksum off
        older = json.loads(text) | {"format": number, "guarantee": cheaper}
        for one in (older, {n: part for n, part in older.items() if n != "sha256"}):
            path.write_text(json.dumps(one), encoding="utf-8")
            refused(DataError, "not of format 5", missdp.load, path)
    # Parameters and guarantee must agree: each alone is edited, and the file sealed again.
    said = document["guarantee"]
    conditions = [*said["conditions"], accounting.DeclaredRowCount(5).to_dict()]
    edits = [("guarantee", cheaper | {"epsilon": e}) for e in (0.01, 1.01)]
    edits += [("guarantee", {"conditions": conditions})]
    edits += [("guarantee", {"adjacency": "replace-one", "epsilon": 2.0})]
    edits += [("parameters", {"epsilon": e}) for e in (0.01, 2.0)]
    edits += [("parameters", part) for part in ({"n_rows": 5}, {"delta": 1e-6}, {"delta": 0.5})]
    for name, change in edits:
        part = document[name] | change
        path.write_text(json.dumps(seal(document | {name: part})), encoding="utf-8")
        refused(DataError, "does not match its parameters", missdp.load, path)
    path.write_text(json.dumps(seal(document)), encoding="utf-8")
    assert missdp.load(path).guarantee_ == model.guarantee_
    kept = missdp.Guarantee.from_events(
        [accounting.LaplaceEvent(sensitivity=1, scale=2.0)], delta=0.0
    )
    assert missdp.Guarantee.from_json(kept.to_json()) == kept
    for edited in (
        kept.to_json().replace('"scale": 2.0', '"scale": 2.5'),
        json.dumps(kept.to_dict() | {"format": 5}),
    ):
        refused(DataError, "checksum", missdp.Guarantee.from_json, edited)


@pytest.mark.parametrize("family", [missdp.AllPairs, missdp.MST, missdp.PrivBayes])
def test_a_model_file_that_lacks_anything_is_refused(family, tmp_path):
    """Nothing is taken to have a default that a file does not state."""
    path, survey = tmp_path / "m.json", yrbss()
    facts = survey.schema().subset(["grade", "gender", "height"])
    frame = survey.table().subset(facts.names).to_native().head(600)
    units = family is not missdp.PrivBayes
    if units:
        frame = frame.assign(person=np.arange(600) // 2)
        facts = dataclasses.replace(facts, unit=schema.Unit("person", max_rows=2))
    family(epsilon=1.0, random_state=0).fit(frame, schema=facts).save(path)
    document = unseal(json.loads(path.read_text(encoding="utf-8")))
    wrong = [{"parameters": document["parameters"] | {"base": "heads"}}]
    wrong += [{"size": None}] if units else []
    facts = document["parameters"].items()
    wrong += [{"parameters": {n: f for n, f in facts if n != name}} for name, _ in facts]
    lacking = [{n: f for n, f in document.items() if n != name} for name in document]
    lacking = [one for one in lacking if {*one} >= {"format", "family", "kind"}]
    for one in [*(document | one for one in wrong), *lacking]:
        path.write_text(json.dumps(seal(one)), encoding="utf-8")
        refused(DataError, "not a missdp model", missdp.load, path)
    path.write_text(json.dumps(seal(document)), encoding="utf-8")
    assert len(missdp.load(path).sample(5)) == 5


@pytest.mark.parametrize(
    "changed",
    [{"levels": {}}, {"levels": {"town": ("é",), "ill": ("J45",)}}, {"bins": {"c": BINNING}}],
)
def test_results_of_a_fit_where_facts_are_declared_raise(changed):
    fitted = next(record for record in SINGLE if isinstance(record, Fitted))
    assert Fitted.from_dict(fitted.to_dict()).schema == fitted.schema
    data = fitted.to_dict() | {name: pack(fact) for name, fact in changed.items()}
    with pytest.raises(MissDPError, match="do not fit"):
        Fitted.from_dict(data)


@pytest.mark.parametrize(
    "decorate", [lambda cls: cls, dataclasses.dataclass(frozen=True, init=False)]
)
def test_a_record_with_an_init_of_its_own_is_refused(decorate):
    """It would not be called, so that an event might cost less than its author wrote."""
    with pytest.raises(TypeError, match="no __init__ of its own"):

        @decorate
        class Twice(accounting.PureEvent):
            def __init__(self, epsilon):
                super().__init__(epsilon=2 * epsilon)


def test_a_document_is_read_by_any_class_above_its_own():
    """One that has a field of the name that a file has for its release."""
    found = BinsFromRelease(("age",), "release 1")
    assert Condition.from_json(found.to_json()) == found
