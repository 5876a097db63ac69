"""The list of all synthesizer families: by name, from a saved model, and their settings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from missdp.errors import DataError, ParameterError, did_you_mean, replacing
from missdp.schema import Schema
from missdp.schema.expressions import parse_names
from missdp.schema.modelled import ModelView
from missdp.session import RowProducts
from missdp.synth.base import Synthesizer
from missdp.synth.fitted import read_document
from missdp.synth.workload import count_pair_cells, near_pairs

GROUP = "missdp.synthesizers"
"""Entry points of this group add families: `missdp.baselines`, and other packages."""

CORE = {
    "aim": "missdp.synth.aim:AIM",
    "all-pairs": "missdp.synth.all_pairs:AllPairs",
    "mst": "missdp.synth.mst:MST",
}


def synthesizers() -> dict[str, type[Synthesizer]]:
    """Return all available families of synthesizers as a dict from name to class.

    It has the families of missdp and of installed packages. A package adds a family with an entry
    point of the group ``missdp.synthesizers``. It cannot replace a family of missdp.

    Returns
    -------
    dict of str to type of Synthesizer
        Classes by the names that commands use, such as ``"all-pairs"``. Families of missdp come
        first, and each group is sorted by name. Public.

    Raises
    ------
    ParameterError
        If the package of an installed family cannot be imported, or its class is not a
        `Synthesizer`.

    Examples
    --------
    >>> import missdp
    >>> sorted(missdp.synthesizers())[:4]
    ['aim', 'all-pairs', 'dp-autogan', 'dp-ctgan']
    """
    return {name: synthesizer_named(name) for name in _homes()}


def synthesizer_named(name: str) -> type[Synthesizer]:
    """Return the family that has this name.

    Parameters
    ----------
    name : str
        A key of `synthesizers`.

    Returns
    -------
    type of Synthesizer
        The class.

    Raises
    ------
    ParameterError
        If there is no such family, or if its package cannot be imported.
    """
    homes = _homes()
    if name not in homes:
        near = did_you_mean(name, homes)
        raise ParameterError(f"unknown synthesizer {name!r}. Available: {', '.join(homes)}{near}")
    refusal = ParameterError(f"the synthesizer {name!r} is installed but cannot be imported")
    with replacing(Exception, by=refusal):  # a package may raise any error
        loaded = homes[name].load()
    if not (inspect.isclass(loaded) and issubclass(loaded, Synthesizer)):
        raise ParameterError(f"the entry point {name!r} is not a missdp.synth.Synthesizer")
    return loaded


def default_synthesizer(schema: Schema, *, delta: float | None) -> str:
    """Return the name of the default family for a schema: a function of public facts.

    It is AllPairs, which measures only pairs of near attributes if there are more than 100. It is
    AIM for pure differential privacy, and if the tables of all pairs have too many cells.

    >>> from missdp.synth.registry import default_synthesizer
    >>> from missdp.datasets import yrbss
    >>> schema = yrbss().schema()
    >>> default_synthesizer(schema, delta=None), default_synthesizer(schema, delta=0.0)
    ('all-pairs', 'aim')
    """
    if delta == 0:
        return "aim"
    modelled = ModelView(schema)
    near = near_pairs(modelled)
    sizes = [a.extended_size for a in (modelled.schema if near else schema)]
    cells = count_pair_cells(sizes, near)
    return "all-pairs" if cells <= RowProducts.max_numbers else "aim"


def _homes() -> dict[str, EntryPoint]:
    """Return the entry points of all families by name. Those of missdp have priority."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    ours = {n: p for n, p in points.items() if p.module.startswith("missdp.")}
    ours |= {name: EntryPoint(name, home, GROUP) for name, home in CORE.items()}
    return dict(sorted(ours.items())) | {n: p for n, p in sorted(points.items()) if n not in ours}


def load(path: str | Path) -> Synthesizer:
    """Read the fitted model of a file that `Synthesizer.save` wrote, of any family.

    Parameters
    ----------
    path : str or Path
        Name of the file.

    Returns
    -------
    Synthesizer
        A fitted model. It can be sampled, and has its guarantee. It has no shared budget.

    Raises
    ------
    DataError
        If the file does not exist, is not a saved model, was edited, or its family is not
        installed.
    ParameterError
        If the package of its family cannot be imported.

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
    # The family is not quoted, since the file may be any private file.
    installed = ", ".join(point.attr for point in homes.values())
    raise DataError(f"the family of the model is not installed. Available: {installed}.")


def _family_parameters(family: type[Synthesizer]) -> dict[str, Any]:
    """Return the types of the parameters that a family has in addition to the common ones."""
    hints = get_type_hints(family if is_dataclass(family) else family.__init__)
    shared = inspect.signature(Synthesizer).parameters
    names = [name for name in inspect.signature(family).parameters if name not in shared]
    return {name: hints.get(name) for name in names}


def read_settings(family: type[Synthesizer], settings: Iterable[str]) -> dict[str, Any]:
    """Return the values of a family's parameters that were written as ``name=value``.

    >>> from missdp.synth.registry import read_settings, synthesizer_named
    >>> read_settings(synthesizer_named("aim"), ["rounds=30", "first_share=0.2"])
    {'rounds': 30, 'first_share': 0.2}
    >>> read_settings(synthesizer_named("aim"), ["workload=age,sex,income; age,region"])
    {'workload': (('age', 'sex', 'income'), ('age', 'region'))}
    """
    parameters = {name: _choices(hint) for name, hint in _family_parameters(family).items()}
    types = {name: choices for name, choices in parameters.items() if set(choices) - {NoneType}}
    values: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"a setting must have the form name=value; got {text!r}.")
        if name not in types:
            raise ParameterError(
                f"{family.__name__} has no parameter {name!r} to set. It has "
                f"{', '.join(types) or 'none'}{did_you_mean(name, types)}"
            )
        if name in values:
            raise ParameterError(f"{name} is set twice. Set it once.")
        values[name] = _value(name, value, types[name])
    return values


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the plain types and words of a type or a union that a text can state."""
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
    expected = [*words, *(phrase for kind, phrase in numbers.items() if kind in choices)]
    raise ParameterError(f"{name} must be {' or '.join(expected)}, not {text!r}")
