"""Everything that anyone can see of a fit, as flat facts that can be compared."""

from __future__ import annotations

import hashlib
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from missdp.accounting import Budget
from missdp.mechanisms import Witness
from missdp.testing.results import Caught

__all__ = ["Facts", "differences", "facts_of", "outcome", "outcome_of_run", "outside_state"]

Facts = dict[str, str]
_DEEP = 12


def outcome(model: Any, data: Any, folder: Path, *, rows: int = 40) -> Facts:
    """Fit a model, and return everything that anyone sees of it.

    Parameters
    ----------
    model : Synthesizer
    data : Table or MarginalSource
    folder : Path
        Where models are saved.
    rows : int, default 40
        How many rows to draw beside the released number of them.
    """
    seen: Facts = {}
    progress: list[tuple[str, float]] = []
    model.set_params(progress=lambda *shown: progress.append(shown))
    with warnings.catch_warnings(record=True) as warned, Caught() as failed:
        warnings.simplefilter("always")
        model.fit(data)
    model.set_params(progress=None)
    seen["progress"] = repr(progress)
    seen["warnings"] = repr([(w.category.__name__, str(w.message)) for w in warned])
    seen["refusal of fit"] = failed.shown
    seen["repr"] = repr(model)
    if failed.error is None:
        seen |= _drawn(model, folder, rows)
    parameters = set(model.get_params(deep=False))
    for name, value in vars(model).items():
        if name not in parameters:
            seen |= facts_of(value, f"attribute {name}")
    return seen


def outcome_of_run(run: Any, witness: Any, data: Any) -> Facts:
    """Return everything that anyone sees of a call."""
    result: Any = None
    with warnings.catch_warnings(record=True) as warned, Caught() as failed:
        warnings.simplefilter("always")
        result = run(witness, data)
    seen = {
        "warnings": repr([(w.category.__name__, str(w.message)) for w in warned]),
        "refusal": failed.shown,
    }
    return seen | facts_of(result, "result")


def _drawn(model: Any, folder: Path, rows: int) -> Facts:
    seen: Facts = {}
    with Caught() as failed:
        model.save(folder / "model.json")
        seen["saved file"] = (folder / "model.json").read_text(encoding="utf-8")
    seen["refusal of save"] = failed.shown
    for kept in ("fill", "keep"):
        with Caught() as failed, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            table = model.sample(rows, missing_values=kept, random_state=3)
            seen[f"samples ({kept})"] = table.to_csv()
            seen[f"warnings of sample ({kept})"] = repr([str(w.message) for w in warned])
        seen[f"refusal of sample ({kept})"] = failed.shown
    with Caught() as failed:
        seen["number of rows"] = repr(model.sample(random_state=4).shape)
    seen["refusal of sample"] = failed.shown
    return seen


def outside_state(family: Any) -> Facts:
    """Return what a fit could change outside its model: classes and modules of a family.

    Of a function its module, and what it carries.
    """
    kinds = getattr(family, "__mro__", ())
    own = [c for c in kinds if not c.__module__.startswith(("builtins", "sklearn", "abc"))]
    seen: Facts = {} if kinds else facts_of(family, "the function")
    for kind in own:
        for name, value in vars(kind).items():
            if not name.startswith(("__", "_abc_")):
                seen |= facts_of(value, f"class attribute {kind.__name__}.{name}")
    for module in _modules(family):
        for name, value in list(vars(module).items()):
            if not name.startswith("__") and not isinstance(value, types.ModuleType):
                seen |= facts_of(value, f"global {module.__name__}.{name}")
    return seen


def _modules(family: Any) -> Iterator[types.ModuleType]:
    """The modules of a family's own package."""
    home = getattr(family, "__module__", None) or ""
    package = home.rpartition(".")[0]
    inside = f"{package}." if package.count(".") else f"{home}."
    for name, module in list(sys.modules.items()):
        if (name == home or name.startswith(inside)) and isinstance(module, types.ModuleType):
            yield module


def differences(one: Facts, other: Facts) -> list[str]:
    """Return the names of the facts that are not the same."""
    names = dict.fromkeys((*one, *other))
    return [name for name in names if one.get(name) != other.get(name)]


def facts_of(value: Any, name: str) -> Facts:
    """Return a value as facts, whatever it holds: one for each number, text or array in it.

    Examples
    --------
    >>> facts_of({"a": [1, "x"]}, "model")
    {'model': 'dict of 1', "model['a']": 'list of 2', "model['a'][0]": '1', "model['a'][1]": "'x'"}
    """
    seen: Facts = {}
    _walk(value, name, seen, {}, 0)
    return seen


def _walk(value: Any, name: str, seen: Facts, known: dict[int, str], depth: int) -> None:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        seen[name] = repr(value)
        return
    if id(value) in known or depth > _DEEP:
        seen[name] = f"as {known.get(id(value), 'something deep')}"
        return
    known[id(value)] = name
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
    if isinstance(value, Budget):
        return kind, [(".events", [event.to_dict() for event in value.events])]
    if isinstance(value, types.FunctionType):
        return _function(value)
    if isinstance(value, (type, types.ModuleType, Witness, cached_property, property)):
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
