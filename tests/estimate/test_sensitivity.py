"""Values are missing because of their values: simulated shifts are recovered."""

import json

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, AllPairs, Categorical, Numeric, Ordinal, Schema
from missdp.errors import ParameterError
from missdp.estimate import SensitivityAnalysis

SCHEMA = Schema(
    (
        Categorical(name="sex", levels=("f", "m")),
        Numeric(name="age", lower=0, upper=9, integer=True),
        Numeric(name="wage", lower=0, upper=20, integer=True, nullable=True),
    )
)


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(0, 10, n), rng.integers(0, 2, n)
    wage = np.clip(np.rint(4 + 0.6 * age + 2 * sex + rng.normal(0, 2.5, n)), 0, 20)
    return pd.DataFrame({"sex": np.array(["f", "m"])[sex], "age": age, "wage": wage.astype(int)})


def departing(frame, shift, seed=0, selective=0.8):
    """Values go missing by age. The ones that do are higher by ``shift`` deviations in truth."""
    rng = np.random.default_rng(seed)
    gone = rng.random(len(frame)) < 0.3 + 0.3 * selective * ((frame["age"] > 4) - 0.5)
    truth = frame["wage"] + np.where(gone, shift * frame["wage"].std(), 0.0)
    return frame.assign(wage=frame["wage"].where(~gone).astype("Int64")), truth


@pytest.fixture(scope="module", params=[AllPairs, pytest.param(AIM, marks=pytest.mark.slow)])
def fitted(request):
    frame, _ = departing(people(), 0.0)
    return request.param(epsilon=1.0, random_state=0).fit(frame, schema=SCHEMA)


@pytest.mark.long
def test_simulated_departures_are_recovered(fitted):
    frame, truth = departing(people(), 0.4)
    result = fitted.sensitivity("mean(wage) by sex", attribute="wage", shifts=(0.0, 0.4))
    start, change = result.estimates
    for place, sex in enumerate("fm"):
        low, high = change.intervals[place]
        assert low < truth[frame["sex"] == sex].mean() < high
        gone = frame.loc[frame["sex"] == sex, "wage"].isna().mean()
        by = change.estimate[place] - start.estimate[place]
        assert by == pytest.approx(0.4 * result.deviation * gone, rel=0.1)
    assert result.deviation == pytest.approx(people()["wage"].std(), rel=0.1)


@pytest.mark.long
def test_without_a_departure_it_is_the_estimate(fitted):
    for question in ("mean(wage)", "share(wage >= 8) by sex", "quantile(wage, 0.7)"):
        result = fitted.sensitivity(question, attribute="wage", shifts=(1.0,)).estimates[0]
        np.testing.assert_allclose(result.estimate, fitted.estimate(question).estimate, rtol=1e-9)
    result = fitted.sensitivity("wage ~ age + C(sex)", attribute="wage", shifts=(1.0,)).estimates
    np.testing.assert_allclose(result[0].estimate, fitted.regress("wage ~ age + C(sex)").estimate)
    assert result[1].estimate[1] > result[0].estimate[1]  # older ones are missing more often


@pytest.mark.long
def test_where_the_conclusion_turns(fitted):
    result = fitted.sensitivity("mean(wage)", attribute="wage", shifts=np.linspace(-1, 1, 5))
    start = result.estimates[2]
    (turn,) = result.tipping
    slope = (result.estimates[4].estimate[0] - start.estimate[0]) / 1.0
    half = (start.intervals[0][1] - start.intervals[0][0]) / 2
    assert abs(turn) == pytest.approx(half / slope, rel=0.05)
    assert f"turns at a shift of {turn:.3g}" in str(result)
    slopes = fitted.sensitivity("wage ~ age", attribute="wage", shifts=(0.1,))
    assert slopes.tipping == (None, None)  # neither comes near 0
    assert "holds from 0 to 0.1" in str(slopes)


@pytest.mark.long
def test_analysis_is_serialized_and_plotted(fitted, tmp_path):
    result = fitted.sensitivity("mean(wage) by sex", attribute="wage", shifts=(0.5,))
    assert SensitivityAnalysis.from_json(result.to_json()) == result
    assert len(result.to_frame()) == 4
    result.plot(tmp_path / "it.svg")
    assert "<svg" in (tmp_path / "it.svg").read_text()
    with pytest.raises(ParameterError, match="must end in"):
        result.plot(tmp_path / "it.gif")


@pytest.mark.parametrize(
    ("question", "options", "says"),
    [
        ("mean(wage)", {"attribute": "age"}, "one that the question is about"),
        ("mean(age) by sex", {"attribute": "sex"}, "makes groups"),
        ("mean(age)", {"attribute": "age"}, "never missing"),
        ("mean(wage)", {"attribute": "wage", "shifts": (0.0,)}, "shifts must be"),
        ("mean(wage)", {"attribute": "wage", "shifts": (np.nan,)}, "shifts must be"),
        ("mean(wage)", {"attribute": "wage", "confidence": 1.0}, "confidence"),
        ("share(wage is missing)", {"attribute": "wage"}, "not the share of|AllPairs"),
    ],
)
def test_attribute_without_departures_raises(fitted, question, options, says):
    with pytest.raises(ParameterError, match=says):
        fitted.sensitivity(question, **options)


@pytest.mark.long
def test_nothing_is_added_to_levels():
    frame, _ = departing(people(300), 0.0)
    sex = Categorical(name="sex", levels=("f", "m"), nullable=True)
    stars = Ordinal(name="stars", levels=(1, 2, 3), nullable=True)
    schema = Schema((sex, stars, *SCHEMA.attributes[1:]))
    frame = frame.assign(stars=frame["age"] % 3 + 1)
    model = AllPairs(epsilon=1.0, random_state=0).fit(frame, schema=schema)
    with pytest.raises(ParameterError, match="is categorical"):
        model.sensitivity("share(sex == 'f')", attribute="sex")
    with pytest.raises(ParameterError, match="nothing can be added to a share"):
        model.sensitivity("share(stars >= 2)", attribute="stars")


def test_masks_must_be_modelled():
    frame, _ = departing(people(300), 0.0)
    model = AllPairs(epsilon=1.0, missing="complete-rows", random_state=0)
    model.fit(frame, schema=SCHEMA)
    with pytest.raises(ParameterError, match="Fit with missing='joint'"):
        model.sensitivity("mean(wage)", attribute="wage")


@pytest.mark.slow
def test_nine_in_ten_of_fifty_departures_are_recovered():
    population, held = people(200_000, seed=1), []
    for seed in range(50):
        shift = (seed % 5 - 2) / 4
        frame, _ = departing(population.sample(3000, random_state=seed), shift, seed, selective=0)
        truth = population["wage"].mean() + 0.3 * shift * population["wage"].std()
        model = AllPairs(epsilon=1.0, random_state=seed).fit(frame, schema=SCHEMA)
        result = model.sensitivity("mean(wage)", attribute="wage", shifts=(shift or 0.1,))
        low, high = result.estimates[result.shifts.index(shift)].intervals[0]
        held.append(low < truth < high)
    assert np.mean(held) >= 0.9


@pytest.mark.long
def test_the_command_says_the_same(fitted, tmp_path, capsys):
    from missdp.cli.main import main

    fitted.save(tmp_path / "m.json")
    words = [str(tmp_path / "m.json"), "mean(wage)", "--shift", "wage=-0.5:0.5"]
    picture = tmp_path / "picture.png"
    assert main(["estimate", *words, "--plot", str(picture), "--json"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert len(message["shifts"]) == 11
    assert message["tipping"] == list(
        fitted.sensitivity("mean(wage)", attribute="wage", shifts=message["shifts"]).tipping
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    for bad in ("wage=1:0", "wage=0", "wage=a:b", "wage=0:inf", "0:1"):
        assert main(["estimate", *words[:-1], bad]) == 2
    assert main(["estimate", *words, "sd(wage)"]) == 2  # one question
    assert main(["estimate", *words[:2], "--plot", str(picture)]) == 2
