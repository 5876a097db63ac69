"""Saved documents show damage and edits; files of earlier versions are still read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import missdp
from missdp import Guarantee, PrivBayes
from missdp.accounting import LaplaceEvent
from missdp.datasets import yrbss
from missdp.errors import DataError, ParameterError
from missdp.record import sealed, unsealed

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda name: name != "sha256"), json_values))
def test_a_document_survives_a_text_whatever_it_holds(document):
    text = json.dumps(sealed(document), indent=1, ensure_ascii=True)
    assert unsealed(json.loads(text)) == document


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_document_of_numbers_that_are_no_json_has_no_checksum(value):
    """Other programs could not read it, nor compute the checksum again."""
    for write in (sealed, unsealed):
        with pytest.raises(ParameterError, match="finite numbers only") as refused:
            write({"epsilon": [value], "sha256": ""})
        assert refused.value.__cause__ is refused.value.__context__ is None


@pytest.fixture(scope="module")
def model():
    return PrivBayes(epsilon=1.0).fit(yrbss().table())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"epsilon": 1.0', '"epsilon": 0.5'),
        ('"n_rows_std": ', '"n_rows_std": 1'),
        ("sha256", "sha255"),
    ],
)
def test_an_edited_model_is_refused(model, tmp_path, old, new):
    path = tmp_path / "m.json"
    model.save(path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DataError, match="checksum"):
        missdp.load(path)


def test_a_model_without_its_checksum_is_refused(model, tmp_path):
    path = tmp_path / "m.json"
    model.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["sha256"]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(DataError, match="checksum"):
        missdp.load(path)


def test_an_edited_guarantee_is_refused():
    kept = Guarantee.from_events([LaplaceEvent(sensitivity=1, scale=2.0)], delta=0.0)
    text = kept.to_json()
    assert Guarantee.from_json(text) == kept
    with pytest.raises(DataError, match="checksum"):
        Guarantee.from_json(text.replace('"scale": 2.0', '"scale": 2.5'))
    assert Guarantee.from_json(json.dumps(kept.to_dict() | {"format": 2})) == kept
    with pytest.raises(DataError, match="checksum"):
        Guarantee.from_json(json.dumps(kept.to_dict() | {"format": 3}))
