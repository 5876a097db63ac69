"""The checks of kinds and rules pass correct families, and fail wrong ones."""

from dataclasses import replace

import numpy as np
import pytest

from missdp.accounting import Filter, LaplaceEvent
from missdp.errors import CheckFailedError
from missdp.schema import Numeric
from missdp.schema.bound_rules import Forbidden
from missdp.synth import sampling
from missdp.table import Table
from missdp.table.follow import cells_by_name
from missdp.testing import RULED, SCHEMA, check_non_interference, neighbours
from missdp.testing.example_tables import _read_again, unprocessed_table
from missdp.testing.findings import BrokenPromise
from missdp.testing.interference import _with_other_kinds
from synth.conformance_checks import FittedSubject, conformance_of
from testing import examples, ruled
from testing.by_hand import ABSENT, HOLE, broken_by_hand, rows_by_hand

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")


# -- failures ----------------------------------------------------------------------------------
def failing(family, rule):
    """Return why a family breaks a promise: a rule, or a check of conformance."""
    on = FittedSubject(family, "joint", {}, ruled.ONE_FREE if family is Counting else RULED)
    if isinstance(rule, str):
        (result,) = conformance_of(on, [rule])
        assert not result.passed
        return result.detail
    with pytest.raises(BrokenPromise) as caught:
        rule(on)
    return str(caught.value)


def last_levels(fitted, n, rng, keep_missing):
    return {a.name: np.full(n, a.size - 1) for a in fitted.modelled.schema}


class Obstinate(examples.Histograms):
    """Draws the same row every time, a rule or not: the one of all last levels."""

    family = replace(examples.Histograms.family, sample=last_levels)


def test_even_a_family_whose_rows_always_break_a_rule_gives_rows_that_obey(monkeypatch):
    """Its rows are drawn again, and if that is in vain, some of their cells become any level."""
    monkeypatch.setattr(sampling, "_ROW_ROUNDS", 3)
    monkeypatch.setattr(sampling, "_VALUE_ROUNDS", 5)
    model = FittedSubject(Obstinate, "joint", {}, RULED).fitted(n_rows=300)
    for missing_values in ("fill", "keep"):
        ruled.obeying(model.sample_table(5, missing_values=missing_values), missing_values)


@pytest.mark.long
def test_rows_that_break_rules_and_lost_kinds_are_detected(monkeypatch):
    def unchecked(modelled, codes, rng):
        table, broken = sampling._completed(modelled, codes, rng, overrule=True)
        return table, np.zeros_like(broken)

    def first_kind(share, n, rng):
        return rng.integers(len(share), size=n) * 0

    with monkeypatch.context() as patch:
        patch.setattr(sampling, "_ruled", unchecked)
        for rule in (ruled.obeyed_rules, ruled.rows_that_break_rules):
            assert "break rules: " in failing(examples.Histograms, rule)
    monkeypatch.setattr(sampling, "_spread", first_kind)
    assert "kinds of missing of" in failing(examples.Histograms, ruled.kinds_of_missing)


def with_missing_cells(fitted, n, rng, keep_missing):
    return examples.Histograms.family.sample(fitted, n, rng, True)


class LeavingHoles(examples.Histograms):
    """Draws missing cells whether they are to be filled or not."""

    family = replace(examples.Histograms.family, sample=with_missing_cells)


def charge_for_derived(session):
    session._charge(LaplaceEvent(sensitivity=1, scale=1e6, label="marginal geburt"))


class PayingForWhatFollows(examples.Histograms):
    family = examples.histograms(before=charge_for_derived)


def too_much(request):
    return Filter(1.5 * request.parameters.epsilon, request.delta)


class Overspending(examples.Histograms):
    family = replace(examples.Histograms.family, budget=too_much)


class Casting(examples.Histograms):
    def sample(self, n=None, **more):
        frame = super().sample(n, **more)
        return frame if len(frame) else frame.astype(object)


class Counting(examples.Histograms):
    """Says how many rows have a missing cell."""

    family = examples.histograms(after=examples.is_empty)

    def __repr__(self):
        return f"epsilon, {self._fitted and self.model_['empty']}"


@pytest.mark.parametrize(
    ("family", "rule", "words"),
    [
        (LeavingHoles, ruled.filled_cells, "filled rows have holes"),
        (PayingForWhatFollows, ruled.costs_nothing, "follows from others"),
        (Overspending, "spends_what_was_asked", "no fit went through"),
        (Casting, ruled.types_and_codes, "columns or types differ"),
        (Counting, ruled.rows_that_break_rules, "depends on the rows"),
    ],
)
def test_broken_promises_are_detected(family, rule, words):
    assert words in failing(family, rule)


@pytest.mark.long
def test_kinds_read_outside_a_session_are_detected_with_rules():
    options = {"strategies": ["joint"], "pairs": ["kinds of missing"]}
    with pytest.raises(CheckFailedError, match="kinds of"):
        check_non_interference(examples.Telltale, schema=RULED, **options)
    assert check_non_interference(examples.Telltale, strategies=["joint"]).passed


# -- the tables ----------------------------------------------------------------------------------
def broken_by(table):
    return {text for row in rows_by_hand(table) for text in broken_by_hand(table.schema, row)}


def test_made_up_tables_have_every_kind_and_break_rules_before_they_are_read():
    raw = unprocessed_table(RULED, 500)
    for attribute in RULED:
        for kind in attribute.kinds:
            assert raw.mask(attribute.name, kind).any()
    assert broken_by(raw) == {rule.text for rule in RULED.rule_set.bound}
    table = _read_again(raw)
    # Attributes that are never missing stay so, and so do attributes without a source.
    assert broken_by(table) <= {"never stufe = 'c' and wohnt = true", "alter + geburt = 2024"}
    other = _with_other_kinds(table)
    assert np.array_equal(other.incomplete_rows(), table.incomplete_rows())
    assert not np.array_equal(other.codes("größe"), table.codes("größe"))


@pytest.mark.parametrize("schema", [SCHEMA, RULED])
def test_neighbours_differ_in_one_row_half_of_them_incomplete(schema):
    pairs = list(neighbours(schema, 40, 0))
    assert {len(table) for table, _, _ in pairs} == {0, 1, 3, 12, 30}
    for table, more, _ in pairs:
        assert len(more) == len(table) + 1
        for a in schema:  # for any cells of one row, others are read as before
            assert np.array_equal(more.codes(a.name)[:-1], table.codes(a.name))
            if isinstance(a, Numeric) and schema is SCHEMA:
                assert np.array_equal(more.values(a.name)[:-1], table.values(a.name))
    rows = (Table.from_codes(schema, row) for *_, row in pairs)
    broken = [bool(broken_by(row.with_values(np.random.default_rng(0)))) for row in rows]
    assert sum(broken) > 10 or schema is SCHEMA
    missing = [
        any(row[n][0] >= schema[n].missing_code for n in schema.nullable) for *_, row in pairs
    ]
    assert sum(missing) == 20


def test_rules_by_hand_agree_with_the_rules_of_the_package():
    table = unprocessed_table(RULED, 300, seed=3)
    plain = replace(RULED, rules=())
    cells = {n: table.column(n) for n in RULED.names}
    reference = cells_by_name(plain, cells)
    rows = list(rows_by_hand(table))
    by_hand = [broken_by_hand(RULED, row) for row in rows]
    assert any(HOLE in row.values() for row in rows)
    assert any(ABSENT in row.values() for row in rows)
    for rule in RULED.rule_set.bound:
        surely = rule.broken(reference, len(table)).is_true
        for row, result, sure in zip(rows, by_hand, surely, strict=True):
            # By hand, derived cells must be stated, value or not: a missing cell is no answer.
            if isinstance(rule, Forbidden) or HOLE not in (row[name] for name in rule.names):
                assert (rule.text in result) == sure, (rule.text, row)
