"""Requirements of scikit-learn for an estimator, on an estimator that does not import it."""

import json
import subprocess
import sys
from functools import partial

import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from missdp import AIM, Filter
from missdp import estimator as ours
from missdp.datasets import yrbss
from missdp.errors import ParameterError
from refusing import refuses


def test_parameters_are_those_of_the_constructor_and_clones_share_the_budget():
    budget = Filter(2.0, 1e-6)
    model = AIM(epsilon=2.0, rounds=3, budget=budget)
    copied = clone(model)
    assert copied.get_params() == model.get_params() == model.get_params(deep=False)
    assert copied.budget is budget
    assert list(model.get_params()) == sorted(model.get_params())
    assert model.set_params(rounds=4) is model
    assert (model.rounds, copied.rounds) == (4, 3)


def test_an_unknown_parameter_changes_nothing():
    model = AIM(epsilon=2.0)
    with refuses(ParameterError, "no parameter 'round'. Did you mean 'rounds'"):
        model.set_params(epsilon=1.0, round=3)
    assert model.epsilon == 2.0


def test_it_is_shown_by_what_is_not_so_by_default():
    model = AIM(epsilon=2.0, missing="observed")
    assert repr(model) == "AIM(epsilon=2.0, missing='observed')"
    assert "AIM" in model._repr_html_()
    assert "AIM(epsilon=2.0" in repr(make_pipeline(StandardScaler(), model))


@pytest.mark.parametrize("cloned", [partial(clone, safe=False), ours.clone])
def test_clones_share_a_budget_and_nothing_else(cloned):
    steps, budget = [("scale", StandardScaler(with_mean=False))], Filter(1.0)
    (name, step), shared, kind = cloned([*steps, budget, AIM])[0], *cloned([budget, AIM])
    assert (name, step.with_mean, shared, kind) == ("scale", False, budget, AIM)
    assert step is not steps[0][1]


WITHOUT = """
import json, sys
sys.modules.update(dict.fromkeys(("sklearn",)))  # as if they were not installed
from missdp import AIM
from missdp.cli.main import main
from missdp.pricing import MeanImputer, PricedPipeline, PrivateMean, price
rows = [[0.1, float("nan")], [0.3, 0.5], [0.2, 0.4]]
chain = PricedPipeline(
    [("fill", MeanImputer(max_incomplete=1))], PrivateMean(noise_multiplier=5.0), rows=3, columns=2,
    complete=False)
assert price(chain.with_noise(5.0)).epsilon == chain.fit(rows).guarantee_.epsilon
assert "AIM(epsilon=1.0" in AIM(epsilon=1.0)._repr_html_()
survey, facts = sys.argv[1:]
of = ["--schema", facts]
small = ["--method", "aim", "--set", "rounds=1", "--rows", "300"]
runs = [
    ["synthesize", survey, *of, "--epsilon", "1", "-o", "out.csv", *small],
    ["evaluate", survey, "out.csv", *of],
    ["impute", survey, "--model", "out.model.json", "-o", "filled.csv"],
    ["guarantee", "out.model.json"],
    ["evaluate", survey, "out.csv", *of, "--f1"],
]
print(json.dumps([main(words) for words in runs]))
"""


@pytest.mark.slow
def test_commands_do_without_what_only_classifiers_need(tmp_path):
    code = [sys.executable, "-W", "ignore", "-c", WITHOUT, yrbss().path, yrbss().schema_path]
    done = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, 0, 0, 0, 7], done.stderr
    assert done.stderr.count("pip install 'missdp[learners]'") == 1
