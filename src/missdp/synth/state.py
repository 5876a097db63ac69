"""The state of a synthesizer around a fit: its data, what it learned, and the guarantee restated.

* The data of a fit are opened, and small questions about its parameters answered.
* What a fit sets is taken over whole or forgotten whole, and goes into copies and pickles.
* A released model is kept in a file: JSON, readable by anyone, executed by no one.
* Synthetic rows never come from the stream of numbers that the noise came from.
* The guarantee of a fit is restated for the table before values went missing.
"""

from __future__ import annotations

import copy
import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from missdp.accounting import (
    Budget,
    Condition,
    Event,
    FilterEvent,
    Guarantee,
    MissingCompletelyAtRandom,
    PureEvent,
    difference,
    releases,
)
from missdp.errors import DataError, NotFittedError, ParameterError, SchemaError, replacing
from missdp.files import write_atomically
from missdp.ground_truth import DataChosenGates, FixedGates, ground_truth_guarantee
from missdp.mechanisms import Witness
from missdp.record import WRONG, Record, decoded, read_json
from missdp.schema import Schema
from missdp.sources import MarginalSource, Strategy, is_source, open_source
from missdp.sources.modelled import Modelled
from missdp.table import FrameKind, Table
from missdp.table.frames import frame_kind

__all__ = [
    "FittedState",
    "StoredModel",
    "check_settings",
    "chosen_delta",
    "first_array",
    "is_declared",
    "is_noisy",
    "is_number",
    "is_whole",
    "open_data",
    "read_document",
    "read_model",
    "sampling_generator",
    "synthesizer_ground_truth",
    "write_model",
]


class FittedState(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """An estimator that is fitted or not, nothing in between."""

    budget: Budget | None
    _learned: tuple[str, ...]

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

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):  # what scikit-learn calls fitted
            raise NotFittedError(
                f"this {type(self).__name__} has no {name!r}: it is not fitted yet; call fit first"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle: of a fitted model everything but its budget."""
        state = dict(super().__getstate__())
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


def open_data(data: Any, schema: Schema | None) -> tuple[MarginalSource, FrameKind]:
    """Return a source for any input, and the kind of frame to give back."""
    if isinstance(data, Table):
        return open_source(data, schema or data.schema), data.kind
    if is_source(data):
        return open_source(data, schema or data.schema), "pandas"
    if schema is None:
        raise SchemaError(
            "a schema is needed: pass fit(data, schema=...), or read the data with Table.read"
        )
    return open_source(data, schema), frame_kind(data)


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


_FIRST_FORMATS = (1, 2)  # without kinds of records; the first one without a checksum
Upgrade: TypeAlias = Callable[
    [dict[str, Any], dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]
]
"""From parameters and released model of the first two formats to those of today."""

# What strategies were called in files written before version 0.2.
_RENAMED = {"adaptive": "observed", "auto": "joint"}


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

    _sealed_since: ClassVar[int] = 2

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the model of a dictionary; the first two formats had no kinds of records."""
        if isinstance(data, Mapping) and data.get("format") in _FIRST_FORMATS:
            with replacing(*WRONG, by=ParameterError("this is no model of the first two formats")):
                parameters = data["parameters"]
                missing = _RENAMED.get(parameters["missing"], parameters["missing"])
                data = {
                    **{name: data[name] for name in data if name != "kind"},
                    "frame": data["kind"],
                    "parameters": {**parameters, "missing": missing},
                    "schema": {"kind": "Schema", **data["schema"]},
                    "guarantee": {"kind": "Guarantee", **data["guarantee"]},
                }
        return super().from_dict(data)


def first_array(stored: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return an array of a file of the first two formats: little-endian doubles in base64."""
    return np.asarray(decoded({"kind": "array", "type": "<f8", **stored}))


def write_model(path: Path, model: StoredModel) -> None:
    """Write a released model, whole or not at all."""
    text = json.dumps(model.to_document(), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text.encode("utf-8"))


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the parsed text of a model file, whose family is not known yet.

    Raises
    ------
    DataError
        If the file is absent or is not a model file.
    """
    broken = DataError(f"{str(path)!r} is not a missdp model file")

    def unreadable(error: BaseException) -> DataError:
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}")

    with replacing(OSError, by=unreadable), replacing(ValueError, by=broken):
        document = read_json(path.read_bytes().decode("utf-8"))
    if not (isinstance(document, Mapping) and isinstance(document.get("family"), str)):
        raise broken
    return document


def read_model(
    document: Mapping[str, Any], path: Path, *, family: str, upgrade: Upgrade
) -> StoredModel:
    """Return the model of a parsed file; ``upgrade`` is the family's, for the first two formats.

    Raises
    ------
    DataError
        If it was damaged, is of another version, or holds a model of another family.
    """
    broken = DataError(f"{str(path)!r} is not a missdp model file")
    if document["family"] != family:
        raise DataError(f"{str(path)!r} holds a model of another family; use missdp.load")
    with replacing(*WRONG, by=lambda error: error if isinstance(error, DataError) else broken):
        stored = StoredModel.from_document(document)
        if document["format"] not in _FIRST_FORMATS:
            return stored
        parameters, released = upgrade(stored.parameters, stored.released)
        return replace(stored, parameters=parameters, released=released)


def synthesizer_ground_truth(
    guarantee: Guarantee, *, strategy: Strategy, modelled: Modelled, assumption: Condition | None
) -> Guarantee:
    """Return the ground-truth guarantee of a fit.

    Parameters
    ----------
    guarantee : Guarantee
        What the fit guarantees for the incomplete table.
    strategy : Strategy
        The missing-data strategy, which knows who chose the gates.
    modelled : Modelled
        Public facts: which attributes are modelled, and which of them rules may fill.
    assumption : Condition
        How values went missing.

    Raises
    ------
    ParameterError
        If rates are stated of attributes that the schema does not have, or says are never missing.

    Returns
    -------
    Guarantee
        Never worse than ``guarantee``; equal where no amplification is proven.

    Notes
    -----
    Every number here is a cap that was set before anything was released: that of the whole fit,
    and those of the parts that a fit reserves for releases that read observed cells only.

    With ``"observed"`` the network decides which attributes a row must have observed, and even how
    the epsilon E reserved for the tables is split among them. Given the row's mask m, the output
    (network r, tables) has log-ratio at most ``sum_j e_j(r) 1[S_j(r) within obs(m)]`` with
    ``sum_j e_j(r) <= E``. By convexity its exponential is at most ``sum_j (e_j(r) / E)
    exp(E 1[S_j(r) within obs(m)])``, whose mean over m is at most ``1 + p* (e^E - 1)`` for every
    r, with p* the largest probability of observing one nullable attribute. So the tables count as
    one mechanism with epsilon E and a gate of at least one attribute, whatever the data chose,
    provided that every attribute is nullable; otherwise some table may read every row and nothing
    is amplified. The other direction follows as in the mask-mixture theorem. With
    ``"complete-rows"`` all gates of the part are the same, and the same argument needs no structure
    at all. With ``"impute-first"`` only the imputer's margins have gates, and those and their noise
    are fixed by the parameters. Whatever else a fit releases costs at most the rest of its cap.
    Gaussian releases keep their epsilon: no bound is proven for them when the data chose the gates.
    """
    _check_names(assumption, modelled.whole)
    whole = guarantee.events[0] if len(guarantee.events) == 1 else None
    if not isinstance(whole, FilterEvent) or whole.cost.currency != "pure":
        return ground_truth_guarantee(guarantee, assumption)
    gated, chosen = _gated(whole, strategy)
    names = modelled.schema.names
    always = {*names} - {*modelled.schema.nullable} | modelled.filled & {*names}
    if not gated or (chosen and always):
        return ground_truth_guarantee(guarantee, assumption)
    structure = DataChosenGates(attributes=names, smallest=1) if chosen else FixedGates()
    merged = replace(guarantee, events=_with_the_rest(whole.cost.amount, gated))
    return ground_truth_guarantee(merged, assumption, structure=structure)


def _check_names(assumption: Condition | None, schema: Schema) -> None:
    """Refuse rates that contradict public facts: a mistyped name, or another table."""
    if not isinstance(assumption, MissingCompletelyAtRandom):
        return
    stated = dict(assumption.observed)
    if unknown := sorted(set(stated) - set(schema.names)):
        raise ParameterError(
            f"observed names attributes that the schema does not have: {', '.join(unknown)}; it "
            f"has {', '.join(schema.names)}"
        )
    never = [name for name, rate in stated.items() if rate < 1 and name not in schema.nullable]
    if never:
        raise ParameterError(
            f"observed must be 1 for attributes that the schema says are never missing: "
            f"{', '.join(never)}"
        )


def _gated(whole: FilterEvent, strategy: Strategy) -> tuple[list[FilterEvent], bool]:
    """Return what may be amplified, by caps, and whether the data chose the gates."""
    if strategy.gates == "parameters":
        margins = [e for e in whole.log if e.gate and not isinstance(e, FilterEvent)]
        caps = [Guarantee.from_events(event).epsilon for event in margins]
        return [_cap(e, c, e.gate) for e, c in zip(margins, caps, strict=True)], False
    if strategy.gates == "none":
        return [], False
    found, chosen = [], strategy.gates == "data"
    for part in whole.log:
        gates = [release.gate for release in releases(part)]
        known = [gate for gate in gates if gate]
        if isinstance(part, FilterEvent) and known and len(known) == len(gates):
            # Data-chosen: one of the smallest, as good as any. Fixed: what all of them have.
            smallest = min(known, key=lambda names: (len(names), sorted(names)))
            gate = smallest if chosen else frozenset.intersection(*known)
            found.append(_cap(part, part.cost.amount, gate))
    return [part for part in found if part.gate], chosen


def _cap(event: Event, epsilon: float, gate: frozenset[str] | None) -> FilterEvent:
    return FilterEvent(capacity=PureEvent(epsilon=epsilon), label=event.label, gate=gate)


def _with_the_rest(cap: float, gated: Sequence[FilterEvent]) -> tuple[Event, ...]:
    """Return the gated parts, and one event of all that the cap leaves for everything else.

    Rounding takes from the gated parts what it adds to the rest.
    """
    caps = [event.cost.amount for event in gated]
    rest = difference(cap, *caps, up=True)
    last = _cap(gated[-1], difference(cap, rest, *caps[:-1]), gated[-1].gate)
    everything_else = FilterEvent(capacity=PureEvent(epsilon=rest), label="everything else")
    return (*gated[:-1], last, everything_else)
