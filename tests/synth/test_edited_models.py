"""A model file that was edited and sealed again is refused when it is opened, or draws rows."""

import base64
import copy
import json
from itertools import cycle, islice

import numpy as np
import pytest

from missdp.errors import DataError
from missdp.record import sealed
from synth.conformance import CASES, IDS, make_table

pytestmark = pytest.mark.usefixtures("one_turn")
CHOSEN = (
    "privbayes-joint",
    "kamino-observed",
    "all-pairs-joint",
    "aim-observed",
    "dp-misgan-observed",
)


def leaves(value, path=()):
    """Yield where numbers, texts and arrays are."""
    if isinstance(value, dict | list) and value != {} and "data" not in value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    elif not isinstance(value, dict | list) or "data" in value:
        yield path, value


def array_of(stored):
    return np.frombuffer(base64.b64decode(stored["data"]), stored["type"]).reshape(stored["shape"])


def stored(array):
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"kind": "array", "type": array.dtype.str, "shape": list(array.shape), "data": data}


def edits(value):
    """Yield what a leaf may be edited to: mostly indices and sizes that point nowhere."""
    if isinstance(value, dict):
        array = array_of(value)
        for number in (-1, 99) if array.dtype.kind in "ib" else (-1.0, np.nan, 1e300):
            other = array.copy()
            other[(-1,) * array.ndim] = number
            yield stored(other)
        yield stored(array[..., :-1])
        yield stored(np.concatenate([array, array]))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (-1, value + 1, 99)
    elif isinstance(value, str):
        yield "ok" if value != "ok" else "score"  # attributes of the table


def edited(document, path, value):
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return sealed(changed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("family", "strategy"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in CHOSEN[:3:2]))
        for case, name in zip(CASES, IDS, strict=True)
        if name in CHOSEN
    ],
)
def test_every_edit_of_a_released_model_is_refused_at_once_or_does_no_harm(
    family, strategy, tmp_path
):
    model = family.build(epsilon=2.0, missing=strategy, random_state=1, **family.options)
    path = tmp_path / "model.json"
    model.fit(make_table().subset(("größe", "alter", "ok"))).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["sha256"]
    refused = drawn = 0
    for k, (where, value) in enumerate(leaves(document["released"], ("released",))):
        for other in islice(cycle(edits(value)), k, k + 1):  # in turn
            path.write_text(json.dumps(edited(document, where, other)), encoding="utf-8")
            try:
                opened = type(model).load(path)
            except DataError:
                refused += 1
                continue
            kept = opened._applied_strategy.models_holes and drawn % 2
            opened.sample(20, missing_values="keep" if kept else "fill", random_state=1)
            drawn += 1
    assert refused
