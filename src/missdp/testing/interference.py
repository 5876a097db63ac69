"""Non-interference: whatever a fit shows was answered.

Everything that anyone can see of a fit is taken down as flat facts that can be compared. The
answers of a fit on one table are kept and repeated during a fit on another. Model, samples, saved
file, messages, warnings, refusals and what is left outside the model must then be the same, bit by
bit: what differs came from the rows by another way. How long a fit takes is not compared.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from missdp.accounting import Composition, Filter
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.testing.findings import (
    Caught,
    Finding,
    Report,
    Run,
    Subject,
    examine,
    expect,
    is_run,
    name_of,
    subjects,
)
from missdp.testing.made_up import SCHEMA, constant, has_kinds_or_rules, made_up, unread
from missdp.testing.recording import UNANSWERED, RecordingNoise, ReplayedNoise

PAIRS = ("two tables", "one hole", "full and empty", "one row and none", "constant columns")
"""The pairs of tables on which answers are repeated."""

Facts: TypeAlias = dict[str, str]
_DEEP = 12
# By identity, what was seen already, and the thing itself: a number that stood for one that is gone
# would soon stand for another.
_Known: TypeAlias = dict[int, tuple[str, Any]]
_CHECK = "non-interference"
_ADVICE = (
    "release it through the door's answers, or leave it out; state outside the model must not "
    "change with a fit"
)


def check_non_interference(
    subject: type[Synthesizer] | Run,
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    pairs: Iterable[str] | None = None,
    tables: Mapping[str, tuple[Any, Any]] | None = None,
) -> Report:
    """Check that a fit, or anything else, shows nothing of the rows but what it was answered.

    Parameters
    ----------
    subject : type of Synthesizer, or callable
        A family, or ``run(table)``, which opens a session and lets it answer. All that it returns
        is compared, hidden attributes too: return what others get to see, and not the session.
    parameters, strategies, schema : optional
        For a family, see `check_synthesizer`.
    pairs : iterable of str, optional
        Which pairs of tables (see ``PAIRS``); all by default.
    tables : mapping of str to pair, optional
        Pairs of tables for a function, by name, instead of those that are made up.

    Returns
    -------
    Report
        A finding for each pair of tables.

    Examples
    --------
    >>> from missdp import PrivBayes
    >>> report = check_non_interference(PrivBayes, strategies=["joint"], pairs=["one hole"])
    >>> len(report.findings)
    1
    """
    if is_run(subject, parameters=parameters, strategies=strategies):
        known = _tables(schema or SCHEMA, pairs) if tables is None else tables
        cases = {f"{name_of(subject)}, {name}": two for name, two in known.items()}
        repeated = _Repeated(subject, partial(_shown_by_run, subject), (True, False))
        found = repeated.findings("whatever a call shows was answered", cases)
        return Report(name_of(subject), tuple(found)).checked()
    families = subjects(subject, parameters, strategies, schema)  # type: ignore[arg-type]
    found = [finding for on in families for finding in interference_of(on, pairs)[0]]
    return Report(subject.__name__, tuple(found)).checked()


def interference_of(
    on: Subject, pairs: Iterable[str] | None = None
) -> tuple[list[Finding], list[tuple[RecordingNoise, Any]]]:
    """Return what was found for one strategy, and the answers of its fits with their models."""
    cases = {f"{on.case}, {name}": two for name, two in _tables(on.schema, pairs).items()}
    repeated = _Repeated(on.family, partial(_shown_by_fit, on))
    found = repeated.findings("whatever a fit shows was answered", cases)
    return found, [
        (kept, model) for _, kept, first, model in repeated._kept.values() if not first["refusal"]
    ]


def _tables(schema: Schema, pairs: Iterable[str] | None) -> dict[str, tuple[Table, Table]]:
    usual, none = made_up(schema, 300, 0), made_up(schema, 0, 0)
    found = {
        "two tables": (usual, made_up(schema, 250, 1)),
        "one hole": (usual, _with_a_hole(usual)),
        "full and empty": (usual, none),
        "one row and none": (made_up(schema, 1, 0), none),
        "constant columns": (usual, constant(schema, 200)),
    }
    if has_kinds_or_rules(schema):
        found["rows as they came"] = (usual, unread(schema, 300, 0))
        found["kinds of holes"] = (usual, _with_other_kinds(usual))
    return {name: found[name] for name in (found if pairs is None else pairs)}


def _with_other_kinds(table: Table) -> Table:
    """Return the table with every hole of the last kind that its attribute may have."""
    columns = {}
    for attribute in table.schema:
        column = table.column(attribute.name)
        hole = column.codes >= attribute.missing_code
        codes = np.where(hole, attribute.extended_size - 1, column.codes)
        columns[attribute.name] = CodedColumn(codes.astype(column.codes.dtype), column.values)
    return Table(table.schema, columns, kind=table.kind)


@dataclass(frozen=True)
class _Repeated:
    """A run, whose answers are kept once for each table and repeated for others."""

    subject: Any  # whose module, and classes, no run may change
    shown: Callable[[RecordingNoise, Any], tuple[Facts, Any]]  # and what the run returned
    computes: tuple[bool, ...] = (True,)  # whether, while answers are repeated
    _kept: dict[int, tuple[Any, RecordingNoise, Facts, Any]] = field(default_factory=dict)

    def findings(self, what: str, cases: Mapping[str, tuple[Any, Any]]) -> list[Finding]:
        """Return what was found on each pair of tables."""
        return [
            examine(_CHECK, what, case, partial(self._compare, *tables))
            for case, tables in cases.items()
        ]

    def _compare(self, one: Any, other: Any) -> str:
        """Compare what is seen of a table with what is seen of another, given the same answers."""
        kept, first, _ = self.recorded(one)
        expect(kept.answers or first["refusal"], UNANSWERED)
        for computes in self.computes:
            again = ReplayedNoise(kept, reads=computes)
            second = self.shown(again, other)[0] | _outside_state(self.subject)
            found = _seen(kept, again, first, second)
            expect(not found, found)
            beside = kept.read_beside + again.read_beside
            expect(not beside, f"rows were read {beside} times outside of an answer. {_ADVICE}")
        return f"{len(kept.answers)} answers, {len(first)} facts"

    def recorded(self, table: Any) -> tuple[RecordingNoise, Facts, Any]:
        """Return the answers on a table, what is seen of it and left outside, and the result."""
        if id(table) not in self._kept:
            kept = RecordingNoise(0)
            first, result = self.shown(kept, table)
            self._kept[id(table)] = table, kept, first | _outside_state(self.subject), result
        return self._kept[id(table)][1:]


def _seen(kept: RecordingNoise, again: RecordingNoise, first: Facts, second: Facts) -> str:
    """Say what differs, if anything does."""
    seen = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    if len(again.answers) != len(kept.answers):
        seen.insert(0, "number of questions")
    return f"differs with the rows: {', '.join(seen[:6])}. {_ADVICE}" if seen else ""


# What anyone sees


def _shown_by_fit(on: Subject, noise: RecordingNoise, table: Table) -> tuple[Facts, Synthesizer]:
    """Fit a model, and return everything that anyone sees of it, and the model."""
    model, progress = on.build(), list[tuple[str, float]]()
    model.set_params(progress=lambda *shown: progress.append(shown))
    with noise:
        seen = _called("", lambda: model.fit(noise.watched(table)))
    model.set_params(progress=None)
    seen |= {"progress": repr(progress), "repr": repr(model)}
    if not seen["refusal"]:
        seen |= _drawn(model)
    parameters = set(model.get_params(deep=False))
    for name, value in vars(model).items():
        if name not in parameters:
            seen |= _facts_of(value, f"attribute {name}")
    return seen, model


def _shown_by_run(run: Run, noise: RecordingNoise, table: Any) -> tuple[Facts, Any]:
    """Return everything that anyone sees of a call, and what it returned."""
    result: list[Any] = []
    with noise:
        seen = _called("", lambda: result.append(run(table)))
    returned = result[0] if result else None
    return seen | _facts_of(returned, "result"), returned


def _called(name: str, call: Callable[[], Any]) -> Facts:
    """Make a call, and return its warnings and its refusal as facts that a reader sees."""
    with warnings.catch_warnings(record=True) as warned, Caught() as failed:
        warnings.simplefilter("always")
        call()
    told = repr([(w.category.__name__, str(w.message)) for w in warned])
    return {f"warnings{name}": told, f"refusal{name}": failed.shown}


def _drawn(model: Any) -> Facts:
    """Return what is seen of a model's file and rows."""
    seen: Facts = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        seen |= _called(" of save", lambda: model.save(path))
        seen["refusal of save"] = seen["refusal of save"].replace(folder, "")
        seen["saved file"] = path.read_text(encoding="utf-8") if path.exists() else ""
    for kept, n in (("fill", 40), ("keep", 40), ("fill", None)):
        rows = list[Any]()
        given = {"missing_values": kept, "random_state": 3}
        seen |= _called(f" of sample ({kept}, {n})", lambda: rows.append(model.sample(n, **given)))  # noqa: B023
        seen[f"samples ({kept}, {n})"] = rows[0].to_csv() if rows else ""
    return seen


def _outside_state(family: Any) -> Facts:
    """Return what a fit could change outside its model: classes, modules, and closures."""
    kinds = getattr(family, "__mro__", ())
    own = [c for c in kinds if not c.__module__.startswith(("builtins", "sklearn", "abc"))]
    seen: Facts = {} if kinds else _facts_of(family, "the function")
    for kind in own:
        for name, value in vars(kind).items():
            if not name.startswith(("__", "_abc_")):
                seen |= _facts_of(value, f"class attribute {kind.__name__}.{name}")
    for module in _modules(family):
        for name, value in list(vars(module).items()):
            if not name.startswith("__") and not isinstance(value, types.ModuleType):
                seen |= _facts_of(value, f"global {module.__name__}.{name}")
    return seen


def _modules(family: Any) -> Iterator[types.ModuleType]:
    """The modules of a family's own package."""
    home = getattr(family, "__module__", None) or ""
    package = home.rpartition(".")[0]
    inside = f"{package}." if package.count(".") else f"{home}."
    for name, module in list(sys.modules.items()):
        if (name == home or name.startswith(inside)) and isinstance(module, types.ModuleType):
            yield module


def _facts_of(value: Any, name: str) -> Facts:
    """Return a value as facts, whatever it holds: one for each number, text or array in it."""
    seen: Facts = {}
    _walk(value, name, seen, {}, 0)
    return seen


def _walk(value: Any, name: str, seen: Facts, known: _Known, depth: int) -> None:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        seen[name] = repr(value)
        return
    if id(value) in known or depth > _DEEP:
        seen[name] = f"as {known.get(id(value), ('something deep',))[0]}"
        return
    known[id(value)] = name, value
    head, parts = _parts(value)
    seen[name] = head
    for label, part in parts:
        _walk(part, name + label, seen, known, depth + 1)


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]]]:
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return f"array {value.shape}", [("[:]", value.ravel().tolist())]
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype} {value.shape} {digest}", []
    if isinstance(value, Mapping):
        return f"{kind} of {len(value)}", [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return f"{kind} of {len(value)}", [(f"[{i}]", part) for i, part in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return f"{kind} {sorted(map(repr, value))}", []
    if isinstance(value, np.random.Generator):
        return kind, [(".state", repr(value.bit_generator.state))]
    if isinstance(value, Composition | Filter):
        return kind, [(".events", [event.to_dict() for event in value.events])]
    if isinstance(value, types.FunctionType):
        return _function(value)
    if isinstance(value, partial):
        return kind, [(".of", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, (type, types.ModuleType, RecordingNoise, cached_property, property)):
        return f"{kind} {getattr(value, '__qualname__', '')}", []
    if isinstance(value, (classmethod, staticmethod)):
        return kind, [(".function", value.__func__)]
    return kind, [(f".{key}", part) for key, part in _state(value).items()]


def _function(value: types.FunctionType) -> tuple[str, list[tuple[str, Any]]]:
    cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
    carried = {"defaults": value.__defaults__, "dict": value.__dict__, "closure": cells}
    return f"function {value.__qualname__}", [(f".{k}", v) for k, v in carried.items() if v]


def _state(value: Any) -> dict[str, Any]:
    slots = [s for c in type(value).__mro__ for s in getattr(c, "__slots__", ())]
    held = {s: getattr(value, s) for s in slots if isinstance(s, str) and hasattr(value, s)}
    return held | dict(getattr(value, "__dict__", {}))


def _with_a_hole(table: Table) -> Table:
    """Return the table with one more cell missing; it must have an observed nullable one."""
    name = table.schema.nullable[0]
    hole = np.arange(len(table)) == np.flatnonzero(~table.mask(name))[0]
    return table.with_missing({name: hole})
