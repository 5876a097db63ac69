"""What scikit-learn asks of an estimator, of one that does not import it."""

from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from missdp import AIM, Budget
from missdp.errors import ParameterError
from refusing import refuses


def test_parameters_are_those_of_the_constructor_and_clones_share_the_budget():
    budget = Budget(2.0, 1e-6, schedule="adaptive")
    model = AIM(epsilon=2.0, rounds=3, budget=budget)
    copied = clone(model)
    assert copied.get_params() == model.get_params() == model.get_params(deep=False)
    assert copied.budget is budget
    assert list(model.get_params()) == sorted(model.get_params())
    assert model.set_params(rounds=4) is model
    assert (model.rounds, copied.rounds) == (4, 3)


def test_an_unknown_parameter_changes_nothing():
    model = AIM(epsilon=2.0)
    with refuses(ParameterError, "no parameter 'round'; did you mean 'rounds'"):
        model.set_params(epsilon=1.0, round=3)
    assert model.epsilon == 2.0


def test_it_is_shown_by_what_is_not_so_by_default():
    model = AIM(epsilon=2.0, missing="observed")
    assert repr(model) == "AIM(epsilon=2.0, missing='observed')"
    assert "AIM" in model._repr_html_()
    assert "AIM(epsilon=2.0" in repr(make_pipeline(StandardScaler(), model))
