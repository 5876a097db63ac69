"""Non-interference: a fit shows only its answers.

All visible results of a fit are recorded as flat facts that can be compared. The answers of a fit
on one table are kept and repeated during a fit on another. Model, samples, saved file, messages,
warnings, errors and state outside the model must then be equal, bit by bit. A difference came from
the rows in another way. The duration of a fit is not compared.
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
from missdp.testing.example_tables import (
    SCHEMA,
    constant_table,
    example_table,
    has_kinds_or_rules,
    unprocessed_table,
)
from missdp.testing.findings import (
    ErrorCatcher,
    Finding,
    Report,
    Run,
    Subject,
    examine,
    expect,
    is_run,
    list_subjects,
    name_of,
)
from missdp.testing.recording import UNANSWERED, RecordingNoise, ReplayedNoise

PAIRS = ("two tables", "one missing cell", "full and empty", "one row and none", "constant columns")
"""Names of the pairs of example tables of `check_non_interference`."""

Facts: TypeAlias = dict[str, str]
_DEEP = 12  # largest depth of nested values that is compared
# The name and the value of visited objects by identity. The value is held, because Python reuses
# the identity of a deleted object.
_Visited: TypeAlias = dict[int, tuple[str, Any]]
_CHECK = "non-interference"
_ADVICE = (
    "Release it through the session, or leave it out. A fit must not change state outside the model"
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
    """Check that a fit or a function depends on the rows only through its charged answers.

    The answers on one example table are kept and repeated on another table. All visible results
    must then be equal, bit by bit: model, samples, saved file, messages, warnings, errors and state
    outside the model. The duration is not compared. Never run it on private rows.

    Parameters
    ----------
    subject : type of Synthesizer, or callable
        Class of a synthesizer, or ``run(table)``, which opens a session and lets it answer. All
        that it returns is compared, hidden attributes too. Return only the visible results, and
        not the session.
    parameters : mapping of str to object, optional
        Parameters of a synthesizer except the strategy.
    strategies : iterable of str, optional
        Missing-data strategies of a synthesizer to check. By default all strategies.
    schema : Schema, optional
        Schema of the example tables, ``SCHEMA`` by default. At least one attribute must be
        nullable.
    pairs : iterable of str, optional
        Names of pairs of tables (see ``PAIRS``). All by default.
    tables : mapping of str to pair, optional
        Pairs of example tables for a function, by name, in place of the default tables.

    Returns
    -------
    Report
        A finding for each strategy and each pair of tables.

    Raises
    ------
    CheckFailedError
        If a visible result differs. The message lists the differences with remedies.
    ParameterError
        If the subject is neither a class of synthesizers nor a function, lacks a strategy, or
        options of a synthesizer are given for a function.

    Notes
    -----
    A report without failures is no proof: other tables may show a difference.

    Examples
    --------
    >>> from missdp.testing import check_non_interference
    >>> from missdp import PrivBayes
    >>> report = check_non_interference(PrivBayes, strategies=["joint"], pairs=["one missing cell"])
    >>> len(report.findings)
    1
    """
    if is_run(subject, parameters=parameters, strategies=strategies):
        pairs_by_name = _tables(schema or SCHEMA, pairs) if tables is None else tables
        cases = {f"{name_of(subject)}, {name}": two for name, two in pairs_by_name.items()}
        repeated = _Repeated(subject, partial(_shown_by_run, subject), (True, False))
        findings = repeated.findings("every visible result of a call was released", cases)
        return Report(name_of(subject), tuple(findings)).checked()
    families = list_subjects(subject, parameters, strategies, schema)  # type: ignore[arg-type]
    findings = [finding for on in families for finding in interference_of(on, pairs)[0]]
    return Report(subject.__name__, tuple(findings)).checked()


def interference_of(
    on: Subject, pairs: Iterable[str] | None = None
) -> tuple[list[Finding], list[tuple[RecordingNoise, Any]]]:
    """Return the findings for one strategy, and the answers of its fits with their models."""
    cases = {f"{on.case}, {name}": two for name, two in _tables(on.schema, pairs).items()}
    repeated = _Repeated(on.family, partial(_shown_by_fit, on))
    findings = repeated.findings("every visible result of a fit was released", cases)
    return findings, [
        (noise, model) for _, noise, first, model in repeated._runs.values() if not first["refusal"]
    ]


def _tables(schema: Schema, pairs: Iterable[str] | None) -> dict[str, tuple[Table, Table]]:
    usual, none = example_table(schema, 300, 0), example_table(schema, 0, 0)
    named = {
        "two tables": (usual, example_table(schema, 250, 1)),
        "one missing cell": (usual, _with_one_more_missing(usual)),
        "full and empty": (usual, none),
        "one row and none": (example_table(schema, 1, 0), none),
        "constant columns": (usual, constant_table(schema, 200)),
    }
    if has_kinds_or_rules(schema):
        named["unprocessed rows"] = (usual, unprocessed_table(schema, 300, 0))
        named["kinds of missing"] = (usual, _with_other_kinds(usual))
    return {name: named[name] for name in (named if pairs is None else pairs)}


def _with_other_kinds(table: Table) -> Table:
    """Return the table with all missing cells of the last kind of their attribute."""
    columns = {}
    for attribute in table.schema:
        column = table.column(attribute.name)
        is_missing = column.codes >= attribute.missing_code
        codes = np.where(is_missing, attribute.extended_size - 1, column.codes)
        columns[attribute.name] = CodedColumn(codes.astype(column.codes.dtype), column.values)
    return Table(table.schema, columns, kind=table.kind)


@dataclass(frozen=True)
class _Repeated:
    """A run, whose answers are kept once for each table and repeated for others."""

    subject: Any  # no run may change its module and classes
    shown: Callable[[RecordingNoise, Any], tuple[Facts, Any]]  # with the return value of the run
    computes: tuple[bool, ...] = (True,)  # whether, while answers are repeated
    _runs: dict[int, tuple[Any, RecordingNoise, Facts, Any]] = field(default_factory=dict)

    def findings(self, what: str, cases: Mapping[str, tuple[Any, Any]]) -> list[Finding]:
        """Return the finding of each pair of tables."""
        return [
            examine(_CHECK, what, case, partial(self._compare, *tables))
            for case, tables in cases.items()
        ]

    def _compare(self, one: Any, other: Any) -> str:
        """Compare the visible results of two tables, given the same answers."""
        noise, first, _ = self.recorded(one)
        expect(noise.answers or first["refusal"], UNANSWERED)
        for computes in self.computes:
            again = ReplayedNoise(noise, reads=computes)
            second = self.shown(again, other)[0] | _outside_state(self.subject)
            problem = _difference(noise, again, first, second)
            expect(not problem, problem)
            outside = noise.outside_reads + again.outside_reads
            expect(not outside, f"rows were read {outside} times outside of an answer. {_ADVICE}")
        return f"{len(noise.answers)} answers, {len(first)} facts"

    def recorded(self, table: Any) -> tuple[RecordingNoise, Facts, Any]:
        """Return the answers on a table, its visible facts, and the return value."""
        if id(table) not in self._runs:
            noise = RecordingNoise(0)
            first, result = self.shown(noise, table)
            self._runs[id(table)] = table, noise, first | _outside_state(self.subject), result
        return self._runs[id(table)][1:]


def _difference(noise: RecordingNoise, again: RecordingNoise, first: Facts, second: Facts) -> str:
    """Return a message with the differences, or an empty text."""
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    if len(again.answers) != len(noise.answers):
        names.insert(0, "number of questions")
    return f"differs with the rows: {', '.join(names[:6])}. {_ADVICE}" if names else ""


# Visible results


def _shown_by_fit(on: Subject, noise: RecordingNoise, table: Table) -> tuple[Facts, Synthesizer]:
    """Fit a model, and return all its visible results, and the model."""
    model, progress = on.build(), list[tuple[str, float]]()
    model.set_params(progress=lambda *shown: progress.append(shown))
    with noise:
        facts = _called("", lambda: model.fit(noise.watched(table)))
    model.set_params(progress=None)
    facts |= {"progress": repr(progress), "repr": repr(model)}
    if not facts["refusal"]:
        facts |= _drawn(model)
    parameters = set(model.get_params(deep=False))
    for name, value in vars(model).items():
        if name not in parameters:
            facts |= _facts_of(value, f"attribute {name}")
    return facts, model


def _shown_by_run(run: Run, noise: RecordingNoise, table: Any) -> tuple[Facts, Any]:
    """Return all visible results of a call, and its return value."""
    result: list[Any] = []
    with noise:
        facts = _called("", lambda: result.append(run(table)))
    returned = result[0] if result else None
    return facts | _facts_of(returned, "result"), returned


def _called(name: str, call: Callable[[], Any]) -> Facts:
    """Make a call, and return its warnings and its error as visible facts."""
    with warnings.catch_warnings(record=True) as warned, ErrorCatcher() as failed:
        warnings.simplefilter("always")
        call()
    messages = repr([(w.category.__name__, str(w.message)) for w in warned])
    return {f"warnings{name}": messages, f"refusal{name}": failed.shown}


def _drawn(model: Any) -> Facts:
    """Return the visible contents of a model's file and rows."""
    facts: Facts = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        facts |= _called(" of save", lambda: model.save(path))
        facts["refusal of save"] = facts["refusal of save"].replace(folder, "")
        facts["saved file"] = path.read_text(encoding="utf-8") if path.exists() else ""
    for mode, n in (("fill", 40), ("keep", 40), ("fill", None)):
        rows = list[Any]()
        extra = {"missing_values": mode, "random_state": 3}
        facts |= _called(f" of sample ({mode}, {n})", lambda: rows.append(model.sample(n, **extra)))  # noqa: B023
        facts[f"samples ({mode}, {n})"] = rows[0].to_csv() if rows else ""
    return facts


def _outside_state(family: Any) -> Facts:
    """Return the state outside a model: classes, modules, and closures."""
    kinds = getattr(family, "__mro__", ())
    classes = [c for c in kinds if not c.__module__.startswith(("builtins", "sklearn", "abc"))]
    facts: Facts = {} if kinds else _facts_of(family, "the function")
    for kind in classes:
        for name, value in vars(kind).items():
            if not name.startswith(("__", "_abc_")):
                facts |= _facts_of(value, f"class attribute {kind.__name__}.{name}")
    for module in _modules(family):
        for name, value in list(vars(module).items()):
            if not name.startswith("__") and not isinstance(value, types.ModuleType):
                facts |= _facts_of(value, f"global {module.__name__}.{name}")
    return facts


def _modules(family: Any) -> Iterator[types.ModuleType]:
    """The modules of a family's own package."""
    home = getattr(family, "__module__", None) or ""
    package = home.rpartition(".")[0]
    inside = f"{package}." if package.count(".") else f"{home}."
    for name, module in list(sys.modules.items()):
        if (name == home or name.startswith(inside)) and isinstance(module, types.ModuleType):
            yield module


def _facts_of(value: Any, name: str) -> Facts:
    """Return a value as facts: one for each number, text or array in it."""
    facts: Facts = {}
    _walk(value, name, facts, {}, 0)
    return facts


def _walk(value: Any, name: str, facts: Facts, visited: _Visited, depth: int) -> None:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        facts[name] = repr(value)
        return
    if id(value) in visited or depth > _DEEP:
        facts[name] = f"as {visited.get(id(value), ('something deep',))[0]}"
        return
    visited[id(value)] = name, value
    description, parts = _parts(value)
    facts[name] = description
    for label, part in parts:
        _walk(part, name + label, facts, visited, depth + 1)


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


def _with_one_more_missing(table: Table) -> Table:
    """Return the table with one more cell missing, of an observed nullable attribute."""
    name = table.schema.nullable[0]
    is_missing = np.arange(len(table)) == np.flatnonzero(~table.mask(name))[0]
    return table.with_missing({name: is_missing})
