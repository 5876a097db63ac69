"""The one list of synthesizer families: by name, from a saved model, and what can be set."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import combinations
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from missdp.errors import DataError, ParameterError, did_you_mean, replacing
from missdp.schema import Schema
from missdp.schema.expressions import parse_names
from missdp.session import RowProducts
from missdp.synth.base import Synthesizer
from missdp.synth.fitted import read_document

GROUP = "missdp.synthesizers"
"""Entry points of this group add families: `missdp.baselines`, and other packages."""

CORE = {
    "aim": "missdp.synth.aim:AIM",
    "all-pairs": "missdp.synth.all_pairs:AllPairs",
    "mst": "missdp.synth.mst:MST",
}


def synthesizers() -> dict[str, type[Synthesizer]]:
    """Return all synthesizer families by name: ours, and those that installed packages add.

    A package adds one with an entry point of the group ``missdp.synthesizers``. It cannot take
    the name of one of ours.

    >>> import missdp
    >>> sorted(missdp.synthesizers())[:4]
    ['aim', 'all-pairs', 'dp-autogan', 'dp-ctgan']
    """
    return {name: synthesizer_named(name) for name in _homes()}


def synthesizer_named(name: str) -> type[Synthesizer]:
    """Return the family that a name stands for."""
    homes = _homes()
    if name not in homes:
        near = did_you_mean(name, homes)
        raise ParameterError(
            f"there is no synthesizer {name!r}. There are {', '.join(homes)}{near}"
        )
    refusal = ParameterError(f"the synthesizer {name!r} is installed but cannot be imported")
    with replacing(Exception, by=refusal):  # whatever a stranger's module does when imported
        loaded = homes[name].load()
    if not (inspect.isclass(loaded) and issubclass(loaded, Synthesizer)):
        raise ParameterError(f"the entry point {name!r} is not a missdp.synth.Synthesizer")
    return loaded


_MANY_ATTRIBUTES = 40
"""Beyond so many, selected marginals were closer than all pairs (Adult side by side, epsilon 1)."""


def default_synthesizer(schema: Schema, *, delta: float | None) -> str:
    """Return the name of the family to take if nobody chose one: a function of public facts.

    All pairs at once for up to 40 attributes; AIM beyond, where most pairs hold nothing but noise,
    and for pure differential privacy.

    >>> from missdp.datasets import yrbss
    >>> schema = yrbss().schema()
    >>> default_synthesizer(schema, delta=None), default_synthesizer(schema, delta=0.0)
    ('all-pairs', 'aim')
    """
    cells = sum(a.extended_size * b.extended_size for a, b in combinations(schema, 2))
    held = len(schema) <= _MANY_ATTRIBUTES and cells <= RowProducts.max_numbers
    return "all-pairs" if held and delta != 0 else "aim"


def _homes() -> dict[str, EntryPoint]:
    """Return where the families are, by name; a stranger's cannot take the name of one of ours."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    ours = {n: p for n, p in found.items() if p.module.startswith("missdp.")}
    ours |= {name: EntryPoint(name, home, GROUP) for name, home in CORE.items()}
    return dict(sorted(ours.items())) | {n: p for n, p in sorted(found.items()) if n not in ours}


def load(path: str | Path) -> Synthesizer:
    """Return the released model of a file that `Synthesizer.save` wrote, whatever its family.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    DataError
        If there is no such file, if it is not a saved model, or if no installed family is the
        model's.

    Examples
    --------
    >>> import tempfile, pathlib, missdp
    >>> from missdp.datasets import yrbss
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> missdp.PrivBayes(epsilon=1.0).fit(yrbss().table()).save(path)
    >>> type(missdp.load(path)).__name__
    'PrivBayes'
    """
    document, homes = read_document(Path(path)), _homes()
    for name, point in homes.items():
        if point.attr == document["family"]:
            return synthesizer_named(name).opened(document, Path(path))
    # Not quoted: what was given for a model could be anyone's file.
    known = ", ".join(point.attr for point in homes.values())
    raise DataError(f"the model is of a family that is not installed; there are {known}")


def _own_parameters(family: type[Synthesizer]) -> dict[str, Any]:
    """Return the type of each parameter that a family has beside those that all families have."""
    hints = get_type_hints(family if is_dataclass(family) else family.__init__)
    shared = inspect.signature(Synthesizer).parameters
    own = [name for name in inspect.signature(family).parameters if name not in shared]
    return {name: hints.get(name) for name in own}


def read_settings(family: type[Synthesizer], settings: Iterable[str]) -> dict[str, Any]:
    """Return the values of a family's own parameters that were written as ``name=value``.

    >>> read_settings(synthesizer_named("aim"), ["rounds=30", "first_share=0.2"])
    {'rounds': 30, 'first_share': 0.2}
    >>> read_settings(synthesizer_named("aim"), ["workload=age,sex,income; age,region"])
    {'workload': (('age', 'sex', 'income'), ('age', 'region'))}
    """
    own = {name: _choices(hint) for name, hint in _own_parameters(family).items()}
    types = {name: choices for name, choices in own.items() if set(choices) - {NoneType}}
    found: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"write a setting as name=value, not {text!r}")
        if name not in types:
            raise ParameterError(
                f"{family.__name__} has no parameter {name!r} to set. It has "
                f"{', '.join(types) or 'none'}{did_you_mean(name, types)}"
            )
        if name in found:
            raise ParameterError(f"{name} is set twice")
        found[name] = _value(name, value, types[name])
    return found


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the plain types and words that a text can stand for, of a type or a union."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(choice for part in get_args(hint) for choice in _choices(part))
    if get_origin(hint) is Literal:
        return tuple(word for word in get_args(hint) if isinstance(word, str))
    return (hint,) if hint in (bool, int, float, str, NoneType, _MARGINALS) else ()


_MARGINALS = Iterable[tuple[str, ...]]


def _value(name: str, text: str, choices: tuple[Any, ...]) -> Any:
    words: dict[str, Any] = {word: word for word in choices if isinstance(word, str)}
    words |= {"none": None} if NoneType in choices else {}
    words |= {"true": True, "false": False} if bool in choices else {}
    if text in words:
        return words[text]
    for kind in (int, float):
        if kind in choices:
            try:
                number = kind(text)
            except ValueError:
                continue
            if math.isfinite(number):
                return number
    if _MARGINALS in choices and text.strip():
        return tuple(map(parse_names, text.split(";")))
    if str in choices:
        return text
    numbers = {int: "a whole number", float: "a number"}
    expected = [*words, *(said for kind, said in numbers.items() if kind in choices)]
    raise ParameterError(f"{name} must be {' or '.join(expected)}, not {text!r}")
