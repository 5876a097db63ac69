"""The state of a synthesizer around a fit: its data, what it learned.

* The data of a fit are opened, and small questions about its parameters answered.
* What a fit sets is taken over whole or forgotten whole, and goes into copies and pickles.
* A released model is kept in a file: JSON, readable by anyone, executed by no one.
* Synthetic rows never come from the stream of numbers that the noise came from.
"""

from __future__ import annotations

import copy
import json
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    Budget,
    Condition,
    CutsFromRelease,
    DeclaredRowCount,
    Event,
    ExplicitSeed,
    FilterEvent,
    Guarantee,
)
from missdp.accounting.gates import ChosenGates, DataChosenGates, FixedGates
from missdp.errors import DataError, NotFittedError, ParameterError, SchemaError, replacing
from missdp.estimator import Estimator
from missdp.files import write_atomically
from missdp.inference.model import finite
from missdp.mechanisms import Witness, domain_conditions
from missdp.progress import Progress
from missdp.record import WRONG, Record, read_json
from missdp.schema import Numeric, Schema
from missdp.schema.schema import check_schema
from missdp.sources import MarginalSource, Reads, is_source, open_source
from missdp.synth.caps import Caps, Keeper
from missdp.synth.restore import KindShares
from missdp.table import FrameKind, Table
from missdp.table.frames import frame_kind

__all__ = [
    "FittedState",
    "StoredModel",
    "check_settings",
    "chosen_delta",
    "fit_conditions",
    "is_declared",
    "is_noisy",
    "is_number",
    "is_whole",
    "open_data",
    "parsed",
    "read_document",
    "read_model",
    "sampling_generator",
    "write_model",
]


# Where a saved model keeps facts that families have in common.
_KINDS = "kinds of missing"
_CAPS, _PARTS, _WHO = "caps of the fit", "parts", "who chose"


class FittedState(Estimator):
    """An estimator that is fitted or not, nothing in between."""

    epsilon: float
    delta: float | None
    n_rows: int | Literal["noisy"]
    budget: Budget | None
    progress: Progress | None
    schema_: Schema
    guarantee_: Guarantee
    _fitted_with: dict[str, Any]
    _learned: tuple[str, ...]
    _kind_shares: KindShares
    _kept: Caps | None

    def _adopt(self, fitted: FittedState) -> None:
        parameters = set(self.get_params(deep=False))
        learned = {k: v for k, v in fitted.__dict__.items() if k not in parameters}
        self.__dict__.update(learned)
        self._learned = tuple(learned)

    def _forget(self) -> None:
        for name in (*self.__dict__.pop("_learned", ()), "_left_budget"):
            self.__dict__.pop(name, None)

    def _check_fit_again(self) -> None:
        if "_left_budget" in self.__dict__ and self.budget is None:
            raise ParameterError(
                "this model was fitted within a shared budget that did not travel with it; to fit "
                "it again, give it one with set_params(budget=...), or clone it to do without"
            )

    def _public_parameters(self) -> dict[str, Any]:
        names = set(self.get_params(deep=False)) - {"budget", "progress", "random_state"}
        values = {name: getattr(self, name) for name in sorted(names)}
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in values.items()}

    def _caps(self) -> Caps | None:
        """Return what the parts of a fit cost at most, from parameters and ``schema_`` alone."""

    def _kept_within(self) -> Callable[[Event], None] | None:
        """Fix the caps of a fit; return what refuses releases beyond them, if there are any.

        Parts of networks in pure epsilon are reserved, which is as good.
        """
        caps = self._kept = self._caps()
        reserved = caps is not None and isinstance(caps.structure, DataChosenGates)
        return None if caps is None or reserved else Keeper(caps).admit

    def _caps_of_fit(self) -> Caps | None:
        """Return the caps that this fit was kept within; those of today's code prove nothing.

        Files and pickles that were written before fits were kept within caps have none.
        """
        return self.__dict__.get("_kept")

    def _facts(self) -> dict[str, Any]:
        """Return what a file holds of every family, beside what it released."""
        found: dict[str, Any] = {_KINDS: self._kind_shares} if self._kind_shares else {}
        caps = self._caps_of_fit()
        return (
            found if caps is None else found | {_CAPS: {_PARTS: caps.events, _WHO: caps.structure}}
        )

    def _take_facts(self, stored: StoredModel) -> None:
        """Inverse of `_facts`; with the guarantee."""
        self.guarantee_ = stored.guarantee
        self._kind_shares = self._checked_shares(stored.released.get(_KINDS, {}))
        caps, self._kept = stored.released.get(_CAPS), None
        if caps is None:
            return
        whole, parts, structure = stored.guarantee.events[0], caps[_PARTS], caps[_WHO]
        known = isinstance(structure, FixedGates | DataChosenGates | ChosenGates)
        capped = parts and all(isinstance(part, FilterEvent) for part in parts)
        if not (known and capped and isinstance(whole, FilterEvent)):
            raise DataError("the caps of the parts of the fit are of the wrong type")
        self._kept = Caps(whole=whole.cost, events=parts, structure=structure)

    def _checked_shares(self, shares: Mapping[str, NDArray[np.float64]]) -> KindShares:
        """Refuse shares that are none of kinds of missing of the schema."""
        kinds = {name: (len(self._modelled.kinds[name]),) for name in shares}
        laws = finite(shares.values(), least=0.0) and all(law.any() for law in shares.values())
        if not laws or kinds != {name: law.shape for name, law in shares.items()}:
            raise DataError("shares of kinds of missing must be those of the schema")
        return shares

    def _agrees_with(self, guarantee: Guarantee) -> bool:
        """Whether a guarantee is that of a fit with these parameters."""
        declared = [c.n for c in guarantee.conditions if isinstance(c, DeclaredRowCount)]
        return (
            math.isclose(guarantee.epsilon, self.epsilon, rel_tol=1e-6)
            and guarantee.delta == chosen_delta(self.delta, self.n_rows)
            and (guarantee.adjacency, guarantee.protects) == ("add-remove", "incomplete")
            and declared == ([int(self.n_rows)] if is_declared(self.n_rows) else [])
        )

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):  # what scikit-learn calls fitted
            raise NotFittedError(
                f"this {type(self).__name__} has no {name!r}: it is not fitted yet; call fit first"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle: of a fitted model everything but its budget."""
        state = dict(self.__dict__)
        if "guarantee_" in state and state.get("budget") is not None:
            state |= {"budget": None, "_left_budget": True}
        return state

    def __copy__(self) -> Self:
        """Copy that shares everything, the budget included."""
        another = type(self).__new__(type(self))
        another.__dict__.update(self.__dict__)
        return another

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but the budget, which is shared."""
        another = type(self).__new__(type(self))
        memo[id(self)] = another
        another.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return another

    def _check_fitted(self) -> None:
        if "guarantee_" not in self.__dict__:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")


_SAMPLING = (7, 1, 3)  # any stream but those that SeededNoise spawns


def sampling_generator(seed: Any) -> np.random.Generator:
    """Return a generator of its own for a seed, a generator or None.

    Examples
    --------
    >>> one, two = sampling_generator(5), np.random.default_rng(5)
    >>> bool(one.random() == two.random())
    False
    """
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, Witness):
        return seed.generator()
    if isinstance(seed, np.random.Generator):  # repeatable, but not the generator's own stream
        entropy = seed.integers(2**32, size=8).tolist()
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=_SAMPLING))
    if not (is_whole(seed) and seed >= 0):
        raise ParameterError("random_state must be None or a whole number, at least 0")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_SAMPLING))


def open_data(
    data: Any, schema: Schema | None, reads: Callable[[Schema], Reads]
) -> tuple[MarginalSource, FrameKind]:
    """Return a source for any input, as a family reads it, and the kind of frame to give back."""
    if schema is not None:
        check_schema(schema)
    if isinstance(data, Table) or is_source(data):
        known = schema or data.schema
        kind = data.kind if isinstance(data, Table) else "pandas"
        return open_source(data, known, reads=reads(known)), kind
    if schema is None:
        raise SchemaError(
            "a schema is needed: pass fit(data, schema=...), or read the data with Table.read"
        )
    return open_source(data, schema, reads=reads(schema)), frame_kind(data)


# The noise of every part of a fit then stays in the range that is drawn exactly.
_LEAST_EPSILON = 1e-6
_MOST_EPSILON = 1e4  # far beyond any protection
_MOST_ROWS = 2**53


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse parameters of a synthesizer that are out of range or of the wrong type.

    Raises
    ------
    ParameterError
    """
    for name in ("epsilon", "delta"):
        value = settings[name]
        if name == "delta" and value is None:
            continue
        if not is_number(value):
            raise ParameterError(f"{name} must be a number, not {type(value).__name__}")
        if value != value:
            raise ParameterError(f"{name} must be a number, not nan")
    if 0 < settings["epsilon"] < _LEAST_EPSILON:
        raise ParameterError(f"epsilon must be at least {_LEAST_EPSILON:g}: all else is noise")
    if not settings["epsilon"] <= _MOST_EPSILON:
        raise ParameterError(f"epsilon must be at most {_MOST_EPSILON:g}: it protects nothing")
    declared = settings["n_rows"]
    if not (is_whole(declared) and 1 <= declared <= _MOST_ROWS) and not is_noisy(declared):
        raise ParameterError("n_rows must be 'noisy' or a whole number from 1 to 2**53")
    seeded = is_whole(settings["random_state"]) or isinstance(settings["random_state"], Witness)
    if settings["random_state"] is not None and not seeded:
        raise ParameterError("random_state must be None or a whole number, at least 0")
    if settings["progress"] is not None and not callable(settings["progress"]):
        raise ParameterError("progress must be callable or None")
    if settings["budget"] is not None and not isinstance(settings["budget"], Budget):
        raise ParameterError("budget must be a missdp.Budget or None")


def chosen_delta(delta: float | None, n_rows: str | int) -> float:
    """Return the delta of a fit: what was asked for, else 1e-6, or 1 / (100 n) for a large known n.

    Examples
    --------
    >>> chosen_delta(None, "noisy"), chosen_delta(None, 10**6), chosen_delta(0.0, 10**6)
    (1e-06, 1e-08, 0.0)
    """
    if delta is not None:
        return delta
    return min(1e-6, 1 / (100 * n_rows)) if is_declared(n_rows) and n_rows > 0 else 1e-6


def cut_conditions(schema: Schema) -> list[Condition]:
    """Return which bins were found by other releases."""
    found: dict[str, list[str]] = {}
    for a in schema:
        if isinstance(a, Numeric) and a.cuts_from is not None and a.edges is not None:
            found.setdefault(a.cuts_from, []).append(a.name)
    return [CutsFromRelease(tuple(names), release) for release, names in found.items()]


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a parameter is a whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a parameter is a real number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_noisy(n_rows: Any) -> TypeGuard[str]:
    """Whether the number of rows is to be released."""
    return isinstance(n_rows, str) and n_rows == "noisy"


def is_declared(n_rows: str | int) -> TypeGuard[int]:
    """Whether the number of rows was declared public."""
    return not is_noisy(n_rows)


@dataclass(frozen=True, kw_only=True)
class StoredModel(Record):
    """What a model file holds: public facts and released values only.

    Parameters
    ----------
    family : str
        The class of the synthesizer.
    parameters : dict of str
        Public parameters that it was fitted with.
    schema : Schema
    frame : str
        The kind of data frame that was fitted.
    n_rows, n_rows_std : int, float
        Released or declared number of rows, and the standard deviation of its noise.
    guarantee : Guarantee
    released : dict of str
        What the family makes rows from.
    """

    family: str
    parameters: dict[str, Any]
    schema: Schema
    frame: FrameKind
    n_rows: int
    n_rows_std: float
    guarantee: Guarantee
    released: dict[str, Any]


def write_model(path: Path, model: StoredModel, *, release: str | None = None) -> None:
    """Write a released model, whole or not at all."""
    text = json.dumps(
        model.to_document(release=release), indent=1, ensure_ascii=False, allow_nan=False
    )
    write_atomically(path, text.encode("utf-8"))


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the parsed text of a model file, whose family is not known yet.

    Raises
    ------
    DataError
        If the file is absent or is not a model file.
    """
    broken = DataError(f"{str(path)!r} is not a missdp model file")
    document = parsed(path, broken)
    if not (isinstance(document, Mapping) and isinstance(document.get("family"), str)):
        raise broken
    return document


def parsed(path: Path, broken: DataError) -> Any:
    """Return the value of a JSON file; raise ``broken`` if it is none."""

    def unreadable(error: BaseException) -> DataError:
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}")

    with replacing(OSError, by=unreadable), replacing(ValueError, by=broken):
        return read_json(path.read_bytes().decode("utf-8"))


def read_model(document: Mapping[str, Any], path: Path, *, family: str) -> StoredModel:
    """Return the model of a parsed file.

    Raises
    ------
    DataError
        If it was damaged, is of another format, or holds a model of another family.
    """
    broken = DataError(f"{str(path)!r} is not a missdp model file")
    if document["family"] != family:
        raise DataError(f"{str(path)!r} holds a model of another family; use missdp.load")
    with replacing(*WRONG, by=lambda error: error if isinstance(error, DataError) else broken):
        return StoredModel.from_document(document)


def fit_conditions(
    schema: Schema, undeclared: str, random_state: int | None, n_rows: int | Literal["noisy"]
) -> list[Condition]:
    """Return what the guarantee of a fit rests on, beside what its releases rest on."""
    conditions = [*domain_conditions(schema, undeclared), *cut_conditions(schema)]
    if random_state is not None:
        conditions.append(ExplicitSeed())
    if is_declared(n_rows):
        conditions.append(DeclaredRowCount(n=int(n_rows)))
    return conditions
