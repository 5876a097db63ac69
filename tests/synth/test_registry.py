"""The list of families: ours, families of other installed packages, and their parameters."""

import sys

import pandas as pd
import pytest

import missdp
from missdp.errors import DataError, ParameterError
from missdp.schema import Categorical, Schema
from missdp.synth.registry import read_settings, synthesizer_named
from refusing import refuses
from synth.worked_example import SOURCE

OURS = ["aim", "all-pairs", "dp-autogan", "dp-ctgan", "dp-misgan", "kamino", "mst", "privbayes"]
SCHEMA = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))


def install(tmp_path, monkeypatch, points, module=""):
    """Write the files of an installed package."""
    (tmp_path / "stranger.py").write_text(module, encoding="utf-8")
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[missdp.synthesizers]\n{lines}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "stranger", raising=False)


def test_a_package_adds_a_family_that_is_listed_fitted_saved_and_loaded(tmp_path, monkeypatch):
    points = {"independent": "stranger:Independent", "aim": "stranger:Independent"}
    install(tmp_path, monkeypatch, points, SOURCE)
    assert missdp.synthesizers()["aim"] is missdp.AIM  # a name of ours cannot be taken
    assert list(missdp.synthesizers()) == [*OURS, "independent"]
    family = synthesizer_named("independent")
    model = family(epsilon=1.0).fit(pd.DataFrame({"a": ["x", None, "y"] * 300}), schema=SCHEMA)
    model.save(tmp_path / "m.json")
    again = missdp.load(tmp_path / "m.json")
    assert again.sample(5, random_state=0).equals(model.sample(5, random_state=0))


@pytest.mark.parametrize(
    ("module", "match"),
    [("raise RuntimeError('boom')", "cannot be imported"), ("Independent = 3", "is not a")],
)
def test_a_broken_package_is_named_and_leaves_the_others_alone(
    module, match, tmp_path, monkeypatch
):
    install(tmp_path, monkeypatch, {"broken": "stranger:Independent"}, module)
    assert synthesizer_named("mst") is missdp.MST
    for name, told in (("broken", match), ("mist", f"'mist'. Available: {', '.join(OURS)}")):
        with refuses(ParameterError, told):
            synthesizer_named(name)


def test_files_that_are_no_models_are_refused(tmp_path):
    path, other = tmp_path / "m.json", "not installed. Available: AIM, AllPairs, DPAutoGAN"
    for text in ("{}", "[1", '{"family": 3}', '{"family": "Dagobert"}'):
        path.write_text(text)
        with refuses(DataError, other if "Dagobert" in text else "not a missdp model"):
            missdp.load(path)
    with refuses(DataError, "no model file"):
        missdp.load(tmp_path / "none.json")


def test_settings_are_read_by_name_and_type():
    found = read_settings(missdp.AIM, ["rounds=auto", "first_share=1", "workload=3"])
    assert found == {"rounds": "auto", "first_share": 1.0, "workload": 3}
    assert type(found["first_share"]) is float
    assert read_settings(missdp.PrivBayes, ["imputer=random"]) == {"imputer": "random"}
    (named,) = read_settings(missdp.AllPairs, ["workload=age,`a,b`,sex; age,pay"]).values()
    assert named == (("age", "a,b", "sex"), ("age", "pay"))


def test_settings_that_are_none_are_refused():
    for match, *texts in (
        ("name=value", "rounds"),
        ("no parameter 'round'", "round=3"),
        ("no parameter 'epsilon'", "epsilon=9"),
        ("no parameter ''", "=3"),
        ("rounds must be auto or a whole number, not 'many'", "rounds=many"),
        ("whole number", "rounds=1.5"),
        ("a number", "first_share=nan"),
        ("imputer must be marginal or random or mean", "imputer=best"),
        ("workload must be", "workload= "),
        ("backticks", "workload=`a"),
        ("twice", "rounds=3", "rounds=4"),
    ):
        with refuses(ParameterError, match):
            read_settings(missdp.AIM, texts)


def test_without_the_wing_its_families_are_not_there_and_pure_privacy_says_so(monkeypatch):
    monkeypatch.setattr("missdp.synth.registry.entry_points", lambda **_: ())
    assert list(missdp.synthesizers()) == ["aim", "all-pairs", "mst"]
    with refuses(ParameterError, "unknown synthesizer 'privbayes'"):
        synthesizer_named("privbayes")
