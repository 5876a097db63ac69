"""Files that earlier versions wrote, before every record had a kind: read once, to be written anew.

These were models of formats 1 and 2, of AIM, MST and PrivBayes, and guarantees of formats 1 to 3.
The last format of each has a checksum, the ones before have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import FixedSchedule, Guarantee
from missdp.errors import DataError, MissDPError, ParameterError, replacing
from missdp.files import write_atomically
from missdp.inference.masks import MaskModel
from missdp.inference.model import Levels
from missdp.inference.models import GraphicalModel, Recipe
from missdp.record import WRONG, Record, decoded, fits, unsealed
from missdp.schema import Schema
from missdp.synth.registry import opened_model, synthesizer_named
from missdp.synth.state import StoredModel, parsed

_MODEL = "format family parameters schema kind n_rows n_rows_std guarantee released"
_GUARANTEE = "format epsilon delta adjacency protects conditions events"
_SEALED = {_MODEL: 2, _GUARANTEE: 3}  # the last format of each layout, which has a checksum
_RENAMED = {"adaptive": "observed", "auto": "joint"}  # strategies
_UP = 1 + 1e-9  # before sums were exact, epsilon may have been rounded down by less


def convert_file(old: Path, new: Path) -> tuple[Guarantee, bool]:
    """Write a file anew in today's format; return its guarantee, and whether it had a checksum."""
    refused = DataError(f"{str(old)!r} is no model or guarantee of an earlier version of missdp")

    def refusal(error: BaseException) -> MissDPError:
        return error if isinstance(error, DataError) else refused

    with replacing(*WRONG, MissDPError, by=refusal):
        document = parsed(old, refused)
        named = {*document} - {"sha256"}
        layout = next((keys for keys in _SEALED if {*keys.split()} == named), "")
        written, last, sealed = document["format"], _SEALED[layout], "sha256" in document
        if not fits(written, int) or written not in ([last] if sealed else range(1, last)):
            raise refused
        if sealed:
            document = unsealed(document)
        if layout == _GUARANTEE:
            guarantee = _guarantee(document)
            if not guarantee.events and guarantee.epsilon:
                raise DataError(
                    f"{str(old)!r} states a guarantee without events that prove it, and cannot be "
                    "converted; compute it anew from the model"
                )
            content = guarantee.to_json().encode("utf-8")
        else:
            model = opened_model(_model(document).to_document(), old)
            guarantee = model.guarantee_
    if layout == _GUARANTEE:
        write_atomically(new, content)
    else:
        model.save(new)
    return guarantee, sealed


def _guarantee(document: Mapping[str, Any]) -> Guarantee:
    data = {**document, "kind": "Guarantee"}
    written = data.pop("format")
    read = None
    with suppress(ParameterError):
        read = Guarantee.from_dict(data)
    read = read or Guarantee.from_dict({**data, "epsilon": data["epsilon"] * _UP})
    if written == 1 and FixedSchedule() not in read.conditions:
        # Perhaps of an adaptive schedule, whose cap was not written down: the events prove only
        # that the statement is none of too little.
        return replace(read, events=())
    return read


def _model(document: Mapping[str, Any]) -> StoredModel:
    parameters, released = decoded(document["parameters"]), decoded(document["released"])
    parameters["missing"] = _RENAMED.get(parameters["missing"], parameters["missing"])
    parameters, released = _FAMILIES[document["family"]](parameters, released)
    return StoredModel(
        family=document["family"],
        parameters=parameters,
        schema=Schema.from_dict({**document["schema"], "kind": "Schema"}),
        frame=document["kind"],
        n_rows=document["n_rows"],
        n_rows_std=document["n_rows_std"],
        guarantee=_guarantee(document["guarantee"]),
        released=released,
    )


_State = dict[str, Any]


def _graphical(parameters: _State, released: _State) -> tuple[_State, _State]:
    model, recipe = released["model"], released["recipe"]
    levels = zip(model["groups"], model["shares"], strict=True)
    kept = model["masks"]
    masks = MaskModel(_array(kept["rates"]))
    masks.intercepts = _array(kept["intercepts"])
    masks.correlation = _array(kept["correlation"])
    masks.slopes = {(a, b): _array(slope) for a, b, slope in kept["slopes"]}
    law = GraphicalModel(
        tuple(Levels(np.array(g, dtype=np.int64), _array(s)) for g, s in levels),
        {clique: _array(table) for clique, table in model["parameters"]},
        masks,
        {clique: np.array(table, dtype=bool) for clique, table in model.get("zeros", ())},
    )
    zeros = parameters.get("structural_zeros")
    if zeros is not None:
        parameters = parameters | {"structural_zeros": dict(map(_zeros, zeros))}
    if isinstance(parameters.get("workload"), tuple):
        parameters = parameters | {"workload": dict(parameters["workload"])}
    return parameters, {
        "model_": law,
        "measured_": released["measured"],
        "_recipe": Recipe(**{**recipe, "sigmas": dict(recipe["sigmas"])}),
    }


def _zeros(stored: _State) -> tuple[tuple[str, ...], Any]:
    table = stored.get("combinations")
    return stored["names"], np.array(stored["table"], dtype=bool) if table is None else table


def _privbayes(parameters: _State, released: _State) -> tuple[_State, _State]:
    synthesizer_named("privbayes")  # whose room knows what a network is
    filling = released["filling"]
    return parameters, {
        "network_": _network(released["network"]),
        "_filling": None if filling is None else _network(filling),
    }


def _network(rows: Any) -> Record:
    families = [{"kind": "Family", "child": r["child"], "parents": [*r["parents"]]} for r in rows]
    laws = {r["child"]: {"kind": "array", "type": "<f8", **r["conditional"]} for r in rows}
    return Record.from_dict({"kind": "Network", "families": families, "conditionals": laws})


def _array(stored: _State) -> NDArray[np.float64]:
    """Return an array: little-endian doubles in base64."""
    return np.asarray(decoded({"kind": "array", "type": "<f8", **stored}))


_FAMILIES: dict[str, Callable[[_State, _State], tuple[_State, _State]]]
_FAMILIES = {"AIM": _graphical, "MST": _graphical, "PrivBayes": _privbayes}
