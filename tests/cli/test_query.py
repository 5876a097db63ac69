"""``missdp query`` and ``missdp price``."""

import re
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from missdp import AllPairs, Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.datasets import yrbss
from missdp.pricing import column_names
from missdp.pricing.prices import Price
from missdp.schema import Always, Never, NotApplicable
from missdp.statistics import Estimate, ImputedStatistics, statistics

FIXED = "--impute strength_training_7d --match age,gender,grade --epsilon 2"
MEAN = "'mean(strength_training_7d)'"


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Ask about every fourth respondent: reading all of them takes most of the time."""
    path = tmp_path_factory.mktemp("yrbss") / "few.parquet"
    rows = pq.read_table(yrbss().path)
    pq.write_table(rows.take(np.arange(0, rows.num_rows, 4)), path)
    return f"query {path} --schema {yrbss().schema_path} {FIXED}"


@pytest.mark.parametrize("kind", ["noise", "worst-case"])
def test_a_mean_with_an_error_bar_and_a_guarantee(told, kind, few):
    answer = told(f"{few} {MEAN} --where 'age >= 15 and age < 17' --interval {kind}")
    assert Estimate.from_dict(answer).to_dict().items() <= answer.items()
    low, high = answer["interval"]
    assert 0 <= low <= answer["value"] <= high <= 7
    assert 2.3 < answer["value"] < 3.5
    assert answer["guarantee"]["epsilon"] == pytest.approx(2.0)
    if kind == "worst-case":
        low, high = answer["imputation_interval"]
        assert low <= answer["value"] <= high
        assert high - low > 0.3  # some 9 % of the answers are missing, and an answer is 0 to 7


@pytest.mark.parametrize(
    ("line", "option", "remedy"),
    [
        ("{few} 'count()' --match grade", "--match", r"several names by commas \(--match a,b\)"),
        ("{few} 'count()' --impute grade", "--impute", "several names by commas"),
        ("{few} 'count()' --within grade --within age", "--within", "several names by commas"),
        ("{few} 'count()' --where 'age > 14' --where 'age < 16'", "--where", "Use it once"),
        ("ledger show --ledger a --ledger b", "--ledger", "Use it once"),
        ("sample m.json -o x.csv --where 'a > 1' --where 'b > 1'", "--where", "Use it once"),
    ],
)
def test_an_option_given_twice_is_refused(run, few, line, option, remedy):
    code, out, err = run(line.format(few=few))
    assert (code, out) == (2, "")
    assert re.search(f"Option '{option}' is repeated. .*{remedy}", err)


QUESTIONS = [
    "'count()' --where 'strength_training_7d >= 3'",
    "'share(strength_training_7d >= 3)'",
    "'sum(strength_training_7d)'",
    "'variance(strength_training_7d)'",
    "'sd(strength_training_7d)'",
    "'correlation(strength_training_7d, physically_active_7d)'",
    "'histogram(strength_training_7d)'",
    f"{MEAN} --interval worst-case",
]


FACTS = Schema(
    (
        Ordinal(name="age", levels=(20, 40, 60), nullable=True, not_applicable=(-1,),
                unknown=(-8,)),
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        Numeric(name="hours", lower=0, upper=80, nullable=True, refused=(-7,)),
        Numeric(name="pay", lower=0, upper=10, nullable=True, not_applicable=("none",)),
    ),
    (NotApplicable("hours", unless="work = 'yes'"),),
)  # fmt: skip
ROWS = [
    *[(20, "yes", 30, 5), (20, "yes", -7, 5), (-1, "no", 9, "none"), (40, "R", "", "none")] * 200,
    *[(-1, "yes", 30, 5), (-8, "yes", "", "none"), (-8, "yes", 30, 5)] * 200,
]


def instead(ask, question):
    """A command in which the options of a question replace those of the same name."""
    for option in ("--impute", "--match"):
        if option in question:
            ask = re.sub(rf" {option} \S+", "", ask)
    return f"{ask} {question}"


@pytest.fixture(name="ruled")
def _ruled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FACTS.to_toml("facts.toml")

    def made(rows):
        lines = [",".join(map(str, row)) for row in rows]
        (tmp_path / "rows.csv").write_text("\n".join(["age,work,hours,pay", *lines]))
        fixed = "--schema facts.toml --impute hours --match age --epsilon 10"
        return f"query rows.csv {fixed}"

    return made


def test_nothing_is_promised_about_rows_that_may_not_be_there(ok, ruled):
    """One time in twenty noise looks as if there were rows: seven times hardly ever."""
    for question in ("'mean(hours)'", "'share(hours > 3)'", "'variance(hours)'"):
        answers = (ok(f"{ruled([])} {question} --epsilon 1") for _ in range(7))
        said = "It does not even show whether there are such rows"
        assert any(said in out and "half as wide" not in out for out in answers)


@pytest.mark.long
def test_brackets_say_which_of_two_things_they_are(ok, fails, ruled):
    """Groups have intervals of noise alone, everybody one of the population's value."""
    ask = ruled(ROWS)
    groups = ok(f"{ask} 'mean(hours) by work'")
    both = ok(f"{ask} 'mean(hours)' 'mean(hours) by work'")
    assert "Of epsilon" in both
    assert "noise alone" not in ok(f"{ask} 'mean(hours)'")
    assert "mean(hours, by work)  [noise alone]" in groups
    assert both.count("noise alone") == 1
    fails(2, "noise alone", f"{ask} 'mean(hours) by work' --interval total")


RULED = [
    "'count()' --where 'pay > 3'",
    "'share(hours >= 3 or pay > 2)' --interval worst-case",
    "'sum(hours)'",
    "'variance(hours)' --where 'pay > 3'",
    "'sd(pay)'",
    "'correlation(hours, pay)'",
    "'histogram(age)'",
    "'mean(hours)' --within work --neighbors 3",
    "'mean(hours)' --match pay",
    "'mean(pay)' --impute hours,pay",
]


@pytest.mark.long
def test_questions_about_nobody_are_answered(ok, ruled):
    for question in RULED[::2]:
        for row in ((-1, "no", "", "none"), (-8, "R", -7, "")):
            assert "differentially private" in ok(instead(ruled([row] * 30), question), quiet=True)


@pytest.fixture(name="held")
def _held(monkeypatch):
    """Answer each question of the rows that were read, and of all of them, with the same draws."""
    seeded = partial(ImputedStatistics, random_state=1)
    monkeypatch.setattr(statistics, "ImputedStatistics", seeded)
    answer, held = statistics.run_queries, []

    def both(rows, *asked, budget, data, schema, **how):
        whole = Table.read(data, Schema.from_toml(schema))
        lean = answer(rows, *asked, budget=budget, **how)
        full = answer(whole, *asked, budget=type(budget)(99.0), **how)
        assert [a.to_dict() for a in lean] == [a.to_dict() for a in full]
        held.append({n: rows.column(n).values is not None for n in rows.schema.names})
        return lean

    def use(ask):
        _, data, _, schema, *_ = ask.split()
        both_ways = partial(both, data=data, schema=schema)
        monkeypatch.setattr("missdp.statistics.run_queries", both_ways)
        return held

    return use


@pytest.mark.parametrize("question", [*QUESTIONS, f"{MEAN} --where 'physically_active_7d > 2'"])
def test_only_columns_of_questions_are_held(ok, held, question, few):
    found = held(few)
    out = ok(f"{few} {question}", quiet=True)
    assert "differentially private" in out
    matched = {"age": False, "gender": False, "grade": False}  # matched by bins, without values
    also = {"physically_active_7d": True} if "physically" in question else {}
    assert found == [{**matched, "strength_training_7d": True, **also}]


@pytest.mark.parametrize("question", RULED)
def test_columns_of_rules_are_held_too(ok, held, ruled, question):
    ask = ruled(ROWS)
    held(ask)
    ok(instead(ask, question), quiet=True)


def test_misfits_in_other_columns_raise_too(fails, ruled, tmp_path):
    ask = instead(ruled([*ROWS, (20, "perhaps", 30, 5)]), "--impute pay 'mean(pay)'")
    assert "perhaps" not in fails(3, "'work'", ask)
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text.replace("work", "labour", 1))
    fails(3, "work", ask)


@pytest.mark.long
def test_a_question_that_makes_no_sense_is_refused_as_if_all_were_read(run, monkeypatch, ruled):
    for question in (
        "'share(hours > 3)' --within labour",
        "'count()' --within labour",
        "--match labour 'mean(hours)'",
        "'histogram(labour)'",
        "--match ' , ' --impute '' 'count()'",
        "--match '' 'count()'",
        "--match '' --within '`age' 'count()'",
        "'mean(pay)' --where 'labour > 3'",
    ):
        ask = instead(ruled(ROWS), question)
        lean = run(ask)
        with monkeypatch.context() as patched:
            patched.setattr(Table, "read_part", lambda rows, facts, *_: Table.read(rows, facts))
            assert lean == run(ask)
        assert lean[0] in {2, 3}


def test_rules_that_are_accepted_are_not_refused_by_a_question_about_some(ok, tmp_path):
    """An attribute that follows from others may have a wider domain.

    A question may also leave the other attributes out.
    """
    bounds = {"a": (0, 9), "b": (0, 9), "p": (0, 90), "q": (0, 200)}
    facts = Schema(
        tuple(
            Numeric(name=name, lower=low, upper=high, integer=True, bins=5, nullable=True)
            for name, (low, high) in bounds.items()
        ),
        (Always("a + b = p"), Never("p > 18")),
    )
    facts.to_toml(tmp_path / "facts.toml")
    (tmp_path / "rows.csv").write_text(",".join(bounds) + "\n" + "," * (len(bounds) - 1) + "\n")
    ask = f"query {tmp_path}/rows.csv --schema {tmp_path}/facts.toml"
    ok(f"{ask} --impute p --match q 'count()' --epsilon 1", quiet=True)


def test_names_with_commas_stand_in_backticks(told, ok, fails, tmp_path):
    numbers = {"height, cm": (100, 220), "a,b": (0, 9)}
    facts = Schema(
        (
            *(Numeric(name=n, lower=a, upper=b, nullable=True) for n, (a, b) in numbers.items()),
            Ordinal(name="grade", levels=(1, 2), nullable=True),
        )
    )
    facts.to_toml(tmp_path / "facts.toml")
    rows = "".join(f"{170 + k % 9},{k % 10},{k % 2 + 1}\n" for k in range(500))
    (tmp_path / "rows.csv").write_text('"height, cm","a,b",grade\n' + rows + ",,\n")
    ask = f"query {tmp_path}/rows.csv --schema {tmp_path}/facts.toml --epsilon 5"
    ask += " --impute '`height, cm`, `a,b`' --match"
    assert 165 < told(f"{ask} grade 'mean(`height, cm`)'", quiet=True)["value"] < 185
    ok(f"{ask} grade 'correlation(`height, cm`, `a,b`)'", quiet=True)
    for odd in ("`grade", "grade`", "`grade` x", "a`b"):
        fails(2, "backticks", f"{ask} '{odd}' 'count()'")


# -- without imputation --------------------------------------------------------------------------
def test_complete_columns_are_answered_without_imputation(told, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    facts = Schema(
        (
            Numeric(name="age", lower=0, upper=100),
            Categorical(name="sex", levels=("f", "m")),
            Numeric(name="pay", lower=0, upper=9, nullable=True),
        )
    )
    facts.to_toml("facts.toml")
    rows = "".join(f"{k % 100},{'fm'[k % 2]},\n" for k in range(2000))
    (tmp_path / "rows.csv").write_text(f"age,sex,pay\n{rows}")
    ask = "query rows.csv --schema facts.toml --epsilon 5"
    assert 45 < told(f"{ask} 'mean(age)'")["value"] < 54
    assert 0.45 < told(f"{ask} 'share(sex = \"f\" and age < 99)'")["value"] < 0.55
    assert 1900 < told(f"{ask} 'count()'")["value"] < 2100
    answers = told(f"{ask} 'mean(age) by sex' 'histogram(sex)'")["answers"]
    assert answers[0]["levels"] == ["f", "m"]
    for question in ("mean(pay)", "share(pay > 3)"):
        err = fails(2, "attribute 'pay' may be missing", f"{ask} '{question}'")
        assert "--impute" in err
    fails(2, "'pay' may be missing", f"{ask} 'mean(age)' --where 'pay > 3'")


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("quantile(age, 0.9)", "quantile(...) is answered by `missdp estimate`, from a model"),
        ("median(age)", "answered by `missdp estimate`"),
        ("share(age is missing)", "answered by `missdp estimate`, from a model"),
        ("total(age)", "unknown statistic 'total'. Available: count, share, mean, sum"),
        ("age ~ grade", "this is a formula"),
        ("mean(age) by gender, grade", "by names one attribute here"),
    ],
)
def test_questions_of_models_name_the_command_that_answers(fails, few, question, says):
    fails(2, says, f'{few} "{question}"')


def test_rows_of_text_state_that_refusals_are_not_private(told, ruled, few):
    kinds = [
        {c["kind"] for c in told(f"{ask} 'count()'")["guarantee"]["conditions"]}
        for ask in (ruled(ROWS[:50]), few)
    ]
    assert "RefusalsNotPrivate" in kinds[0]


# -- price ---------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.json"
    rows = yrbss().table().take(np.arange(1000))
    PrivBayes(epsilon=1.0, missing="complete-rows").fit(rows).save(path)
    return str(path)


def test_the_guarantee_of_a_model_or_of_the_ground_truth(model, ok, told):
    assert "-differentially private" in ok("guarantee", model)
    rates = ",".join(f"{name}:0.9" for name in yrbss().schema().names)
    truth = f"guarantee {model} --assume"
    found = told(f"{truth} mcar={rates}")["ground_truth"]
    assert found["protects"] == "ground-truth"
    assert 0.3 < found["epsilon"] < 0.45
    assert told(f"{truth} mcar=0.9")["ground_truth"] == found
    assert "does not depend on any other row" in ok(f"{truth} row-independent")
    assert told(f"{truth} bounded=0.5")["ground_truth"]["epsilon"] < 0.7


@pytest.mark.parametrize(("strategy", "missing"), [("joint", True), ("observed", False)])
def test_guarantee_states_strategy_for_missing_values(folder, told, strategy, missing):
    schema = Schema((Categorical(name="a", levels=(0, 1), nullable=True),))
    model = AllPairs(epsilon=1.0, missing=strategy, random_state=0)
    model.fit({"a": [0, 1, None] * 50}, schema=schema).save("a.json")
    stated = told("guarantee", "a.json")
    assert stated["model"] == "a.json"
    assert (stated["strategy"], stated["models_missingness"]) == (strategy, missing)


def test_several_models_are_also_priced_together(model, ok, told):
    both = told("guarantee", model, model)
    assert [one["guarantee"]["epsilon"] for one in both["models"]] == [1.0, 1.0]
    assert 1.0 < both["together"]["epsilon"] <= 2.0
    truth = told("guarantee", model, model, "--assume", "bounded=0.5")["together"]["epsilon"]
    assert truth < both["together"]["epsilon"]
    assert "All together, had they been fixed in advance" in ok("guarantee", model, model)


TABLE = """
delta = 1e-6
[table]
rows = {rows}
columns = {columns}
complete = false
{more}
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""
STEPS = """
[[step]]
kind = "impute-mean"
max_incomplete = 30
[[step]]
kind = "pca-rank"
n_components = 2
min_gap = 0.2
"""
PIPELINE = TABLE.format(rows=1000, columns=4, more=STEPS)


def price_in(document):
    return Price.from_dict({k: v for k, v in document.items() if k != "warnings"})


@pytest.mark.long
def test_a_pipeline_costs_more_than_its_last_step_claims(ok, told, run, fails, tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(PIPELINE)
    found = told("price", path)
    assert price_in(found).to_dict().items() <= found.items()
    assert found["epsilon"] > found["naive_epsilon"] > 0
    assert found["adjacency"] == "replace-one"
    out = ok("price", path, "--delta", 1e-9)
    assert "naive claim (wrong here)" in out
    assert "conditions:" in out
    pytest.importorskip("matplotlib")
    ok("price", path, "--plot", tmp_path / "p.svg")
    assert (tmp_path / "p.svg").stat().st_size > 1000
    fails(5, "--overwrite", "price", path, "--plot", tmp_path / "p.svg")
    ok("price", path, "--plot", tmp_path / "p.svg", "--overwrite")
    fails(5, "", "price", path, "--plot", tmp_path / "no" / "p.svg")
    for line, says in (  # as in the file
        ("min_gap = 0.2\n", "[[step]] 2 (pca-rank) needs min_gap"),
        ("noise_multiplier = 8.0\n", "[mechanism] (mean) needs noise_multiplier"),
        ("max_incomplete = 30\n", "[[step]] 1 (impute-mean) needs max_incomplete"),
    ):
        path.write_text(PIPELINE.replace(line, ""))
        assert run("price", path) == (2, "", f"missdp: {says}\n")


@pytest.mark.long
def test_a_step_that_fills_by_a_saved_model_moves_no_row(model, told, tmp_path, fails):
    columns, path = len(column_names(yrbss().schema())), tmp_path / "p.toml"

    def described(columns, model):
        step = f'radius = 3.0\n[[step]]\nkind = "impute-model"\nmodel = "{model}"'
        path.write_text(TABLE.format(rows=2000, columns=columns, more=step))

    described(columns, model)
    found = price_in(told("price", path))
    assert (found.steps[0].transformer, found.steps[0].shifted_rows) == ("DPImputer", 0)
    assert found.epsilon == found.naive_epsilon
    described(columns + 1, model)
    fails(2, f"makes {columns} columns", "price", path)
    described(columns, "none.json")
    fails(3, "", "price", path)
