"""Saved documents show damage and edits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import missdp
from missdp import Guarantee, PrivBayes
from missdp.accounting import DeclaredRowCount, LaplaceEvent
from missdp.datasets import yrbss
from missdp.errors import DataError, ParameterError
from missdp.record import sealed, unsealed
from missdp.synth.first_formats import convert_file

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
    with pytest.raises(DataError, match="checksum"):
        Guarantee.from_json(json.dumps(kept.to_dict() | {"format": 4}))


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_an_older_number_does_not_switch_the_checksum_off(model, tmp_path, number):
    path = tmp_path / "m.json"
    model.save(path)
    document = json.loads(path.read_text(encoding="utf-8")) | {"format": number}
    document["guarantee"] = Guarantee(0.01, conditions=model.guarantee_.conditions).to_dict()
    for text in (document, {n: part for n, part in document.items() if n != "sha256"}):
        path.write_text(json.dumps(text), encoding="utf-8")
        with pytest.raises(DataError, match="not of format 4"):
            missdp.load(path)
        with pytest.raises(DataError, match="no model or guarantee"):
            convert_file(path, tmp_path / "new.json")


PARAMETERS = [("epsilon", 0.01), ("epsilon", 2.0), ("n_rows", 5), ("delta", 1e-6), ("delta", 0.5)]
REPLACE_ONE = {"adjacency": "replace-one", "epsilon": 2.0}


def test_parameters_and_guarantee_of_a_model_must_agree(model, tmp_path):
    """Each alone is edited, and the file sealed again."""
    path = tmp_path / "m.json"
    model.save(path)
    document = unsealed(json.loads(path.read_text(encoding="utf-8")))
    said = document["guarantee"]
    public = [*said["conditions"], DeclaredRowCount(5).to_dict()]
    for name, change in [
        *(
            ("guarantee", Guarantee(e, conditions=model.guarantee_.conditions).to_dict())
            for e in (0.01, 1.01)
        ),
        *(("guarantee", said | change) for change in ({"conditions": public}, REPLACE_ONE)),
        *(("parameters", {name: value}) for name, value in PARAMETERS),
    ]:
        part = document[name] | change
        path.write_text(json.dumps(sealed(document | {name: part})), encoding="utf-8")
        with pytest.raises(DataError, match="not that of its parameters"):
            missdp.load(path)
    path.write_text(json.dumps(sealed(document)), encoding="utf-8")
    assert missdp.load(path).guarantee_ == model.guarantee_
