"""Messages for common mistakes: the problem, its place and the remedy, word for word.

No message quotes a private cell. A header of the data is not quoted either, since the first line of
a file without a header is a row.
"""

import json
import shutil
from types import SimpleNamespace

import pytest

from missdp import AllPairs, Numeric, Schema
from missdp.accounting import Guarantee
from missdp.cli.app import COMMANDS, command_named
from missdp.errors import MissDPError
from missdp.governance import plan
from missdp.ground_truth import guarantees
from missdp.pricing import steps
from missdp.pricing.steps import StepCondition
from missdp.schema import SurveyWeight, Unit
from missdp.session import Total, UnitSums
from missdp.statistics import KNNImputation
from missdp.synth.noisy_counts import SmallTableWarning, rounded_rows
from missdp.table.units import rows_of_units
from refusing import refuses

SYNTHESIZE = "synthesize data.csv --schema schema.toml -o o.csv"
FIT = f"{SYNTHESIZE} --epsilon 1"
MODEL_ONLY = "fit data.csv --schema schema.toml -o m2.json"
TRUTH = f"{MODEL_ONLY} --ground-truth-epsilon 1"
QUERY = "query data.csv --schema schema.toml --impute age --match größe --epsilon 1"


def misspelt(old, new):
    """Write a schema in which a word is another one."""

    def written(folder):
        text = (folder / "schema.toml").read_text(encoding="utf-8")
        assert old in text
        (folder / "schema.toml").write_text(text.replace(old, new, 1), encoding="utf-8")

    return written


def rows(text):
    return lambda folder: (folder / "data.csv").write_bytes(text.encode())


def project(text):
    return lambda folder: (folder / "missdp.toml").write_text(text)


def already_released(folder):
    (folder / "o.model.json").write_text(json.dumps({"family": "MST", "release": "2b" * 16}))


def edited_model(folder):
    document = json.loads((folder / "m.json").read_text())
    (folder / "m.json").write_text(json.dumps(document | {"n_rows": 7}))


EPSILON = "--epsilon must be between 1e-6 and 10,000; got {}. Values around 1 are typical."
COLUMN = (
    "the schema declares column 'agee', which the data does not have. Check spelling, spaces and "
    "capitals against the header. A file without a header line needs `header` in the table [file] "
    "of the schema."
)
LEVEL = (
    "column 'größe' contains a value that is not one of its 2 declared levels, or a cell that "
    "cannot be read. Add the level to the schema if it is public, name codes for missing values in "
    'missing_codes, correct the data, or set outside = "missing" in the schema.'
)
NUMBER = (
    "column 'age' contains a value that is not a whole number in [0, 99], or a cell that cannot be "
    "read. Correct the bounds if they are wrong, name codes for missing values in missing_codes, "
    'correct the data, or set outside = "clamp" or "missing" in the schema.'
)
TRUTH_NEEDS = "--ground-truth-epsilon requires an assumption about missingness: add --assume."
CSV = (
    "cannot parse 'data.csv' as CSV: there is no header line, a row has too many or too few "
    "fields or is longer than 16 MiB, a quote is not closed, or lines end in different ways."
)
STATISTICS = "mean, sd, median, quantile, share, correlation, difference"
MODEL = "is not a missdp model. Expected a file that `missdp fit` or `missdp synthesize` wrote."

# By mistake: the exit code, the whole message, the command, and the preparation of the folder.
MESSAGES = {
    "absent column": (3, COLUMN, FIT, misspelt('"age"', '"agee"')),
    "undeclared level": (3, LEVEL, FIT, rows("größe,age\nXL,5\nS,1\n")),
    "undeclared level in a check": (
        3, LEVEL, "schema check schema.toml data.csv", rows("größe,age\nXL,5\nS,1\n"),
    ),
    "number outside": (3, NUMBER, FIT, rows("größe,age\nS,5\nS,100\n")),
    "negative epsilon": (2, EPSILON.format(-1), f"{SYNTHESIZE} --epsilon -1", None),
    "large epsilon": (2, EPSILON.format("10001"), f"{SYNTHESIZE} --epsilon 10001", None),
    "large epsilon of a query": (
        2, EPSILON.format(100000), f"{QUERY} 'count()' --epsilon 1e5", None,
    ),
    "large epsilon for the ground truth": (
        2, f"--ground-truth-{EPSILON[2:].format(100000)}",
        f"{MODEL_ONLY} --assume bounded=0.5 --ground-truth-epsilon 1e5", None,
    ),
    "epsilon that is no number": (
        2, "--epsilon must be a number, not 'abc'.", f"{SYNTHESIZE} --epsilon abc", None,
    ),
    "rows that are no number": (
        2, "--rows must be a whole number, not 'all'.", f"{FIT} --rows=all", None,
    ),
    "misspelt choice": (
        2, "--undeclared must be one of refuse, accept, not 'acept'. Did you mean 'accept'?",
        f"{MODEL_ONLY} --epsilon 1 --undeclared acept", None,
    ),
    "folder that is not writable": (
        5, "cannot write '/proc/o.csv': the folder is not writable. Choose another output.",
        f"{FIT} -o /proc/o.csv", None,
    ),
    "misspelt kind": (
        3, "attribute 'größe': unknown kind 'categoric'. Did you mean 'categorical'?",
        FIT, misspelt('"categorical"', '"categoric"'),
    ),
    "misspelt field": (
        3, "attribute 'age': unknown field 'uper'. Did you mean 'upper'? See "
        "docs/schema-reference.md for all fields.", FIT, misspelt("upper", "uper"),
    ),
    "levels without quotes": (
        3, "'schema.toml' is not valid TOML (line 12, column 5). Put text in quotes: "
        'levels = ["no", "yes"].', FIT, misspelt('    "S",', "    S,"),
    ),
    "existing release": (
        5, f"'o.model.json' is the model of release {'2b' * 16}, which was charged. Use "
        "--overwrite to replace it, or choose another output.", FIT, already_released,
    ),
    "no name of an account": (
        2, "--ledger requires --account: the name of the table's account.",
        f"{FIT} --ledger sqlite:///b.db", None,
    ),
    "absent ledger": (
        9, "no ledger at 'b.db'. Create it with `missdp ledger create`.",
        f"{FIT} --ledger sqlite:///b.db --account t", None,
    ),
    "ledger in a folder that is not writable": (
        9, "cannot create '/proc/b.db': the folder is not writable.",
        "ledger create --account t --epsilon 1 --ledger sqlite:////proc/b.db", None,
    ),
    "ledger in an absent folder": (
        9, "cannot create 'no/b.db': the folder does not exist. Create the folder first.",
        "ledger create --account t --epsilon 1 --ledger sqlite:///no/b.db", None,
    ),
    "both epsilons": (
        2, "use --epsilon or --ground-truth-epsilon, not both.", f"{TRUTH} --epsilon 1", None,
    ),
    "no epsilon": (
        2, "--epsilon is required: the privacy budget, for example 1.", SYNTHESIZE, None,
    ),
    "no assumption": (2, TRUTH_NEEDS, TRUTH, None),
    "assumption without an epsilon": (
        2, "--assume requires --ground-truth-epsilon.",
        f"{MODEL_ONLY} --epsilon 1 --assume bounded=0.5", None,
    ),
    "misspelt statistic": (
        2, f"unknown statistic 'averge'. Available: {STATISTICS}. Did you mean 'mean'?",
        "estimate pairs.json averge(age)", None,
    ),
    "levels asked for a mean": (
        2, "'größe' is categorical. Only share(...) is available for it.",
        "estimate pairs.json mean(größe)", None,
    ),
    "where without rows": (
        2, "--where requires --rows: the number of rows to draw.",
        "sample m.json -o x.csv --where 'age > 5'", None,
    ),
    "edited model": (
        3, "'m.json' was changed after it was written (checksum mismatch). Use an unmodified copy.",
        "sample m.json -o x.csv", edited_model,
    ),
    "table as a model": (3, f"'data.csv' {MODEL}", "sample data.csv -o x.csv", None),
    "row with too many fields": (3, CSV, FIT, rows("größe,age\nS,5,5,5\n")),
    "misspelt table": (
        3, "unknown table or field 'atribute' in a schema. Did you mean 'attribute'?",
        FIT, misspelt("[[attribute]]", "[[atribute]]"),
    ),
    "fields outside of a table": (
        3, "fields of an attribute stand outside of a table. Write [[attribute]] above them.",
        FIT, misspelt("[[attribute]]", ""),
    ),
    "no kind": (
        3, "attribute 'age': kind is required. Known kinds: categorical, date, datetime, "
        "difference, ignore, key, numeric, open, ordinal.",
        FIT, misspelt('kind = "numeric"', ""),
    ),
    "absent schema": (
        3, "there is no file 'none.toml'. Check the path.", f"{FIT} --schema none.toml", None,
    ),
    "absent model": (3, "there is no model file 'no.json'", "publish no.json -o d", None),
    "database without a table": (
        2, "a database requires --table: the name of a table, or a SELECT.",
        "synthesize data.duckdb --schema schema.toml -o o.csv --epsilon 1", None,
    ),
    "planned epsilons": (
        2, "--epsilon must be numbers with commas between them, such as 0.5,1,2",
        "plan schema.toml --rows 100 --epsilon 1;2", None,
    ),
    "planned missing rate": (
        2, "--missing-rate must be NAME=RATE, such as age=0.2",
        "plan schema.toml --rows 100 --missing-rate age", None,
    ),
    "assumption of no form": (
        2, "--assume must be of the form mcar=0.8, mcar=age:0.9,income:0.8, bounded=0.9 or "
        "row-independent; got 'mcar'.", f"{TRUTH} --assume mcar", None,
    ),
    "model file of another suffix": (
        2, "--output must be a model file, .json, not 'm.txt'.",
        "fit data.csv --schema schema.toml --epsilon 1 -o m.txt", None,
    ),
    "unknown key of a project": (
        2, "'missdp.toml': unknown key 'shema'. Keys: schema, ledger, account, delta. Did you mean "
        "'schema'?", FIT, project("shema = 's.toml'"),
    ),
    "project that is no TOML": (
        2, "'missdp.toml' is not valid TOML. See docs/commands.md.", FIT, project("schema"),
    ),
    "text in place of a number in a project": (
        2, "'missdp.toml': delta must be a number.", FIT, project("delta = 'none'"),
    ),
    "purpose without a ledger": (
        2, "--purpose and --new-schema require --ledger",
        f"{QUERY} 'count()' --purpose report", None,
    ),
    "head that is no hash": (
        2, "--head must be a hash of 64 hexadecimal digits, or a file, not 'abc'.",
        "ledger verify --ledger sqlite:///b.db --head abc", None,
    ),
    "condition that ends early": (
        2, "--where: expected comparisons such as age >= 20, joined by and, or and not, found 'age'"
        ". Text goes in quotes",
        "sample m.json -o x.csv --rows 5 --where age", None,
    ),
    "existing draft": (
        5, "'schema.toml' exists. Use --overwrite to replace it, or choose another output.",
        "schema init data.csv -o schema.toml", None,
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def pairs(survey, tmp_path_factory):
    """A model of AllPairs, of which estimates can be asked."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.json"
    facts = Schema.from_toml(survey / "schema.toml")
    AllPairs(epsilon=1.0, n_rows=300).fit(survey / "data.csv", schema=facts).save(path)
    return path


@pytest.mark.parametrize("mistake", MESSAGES)
def test_message_of_a_mistake_is_as_written(folder, survey, pairs, run, mistake):
    code, message, command, prepare = MESSAGES[mistake]
    shutil.copy(survey / "m.json", folder)
    shutil.copy(pairs, folder)
    if prepare is not None:
        prepare(folder)
    assert run(command) == (code, "", f"missdp: {message}\n")


AGE = Numeric(name="age", lower=0, upper=9)
WEIGHTED = Schema((AGE,), weight=SurveyWeight("wt", upper=5))


class _Source:
    """A source of counts of its own."""

    def counts(self, *_, **__):
        raise AssertionError


# By mistake: the whole message, and the call that raises it.
CALLS = {
    "declared number of weighted rows": (
        "n_rows cannot be declared if rows are weighted: the weighted total is private. Leave "
        "n_rows out.",
        lambda: AllPairs(epsilon=1.0, n_rows=9).fit({"age": [1], "wt": [1]}, schema=WEIGHTED),
    ),
    "source without units": (
        "this source does not identify units",
        lambda: UnitSums().check(SimpleNamespace(unit_sums=None)),
    ),
    "no epsilons": (
        "epsilons must contain at least one value",
        lambda: plan(Schema((AGE,)), rows=9, epsilons=()),
    ),
    "delta of a guarantee": (
        "delta applies only to events: a Guarantee already has one",
        lambda: guarantees._incomplete(Guarantee(1.0), 1e-6),
    ),
    "attribute in two roles": (
        "attribute 'age' is listed in more than one of impute, match_on and group, or twice in "
        "one. Use each attribute once.",
        lambda: KNNImputation(impute="age", match_on=["sex", "age"]),
    ),
    "unit of a source": (
        "units and weights cannot be used with a custom source. Pass the frame, file, relation or "
        "database instead.",
        lambda: rows_of_units(_Source(), Schema((AGE,), unit=Unit("person"))),
    ),
    "where without n": (
        "where requires n, the number of rows to draw",
        lambda: _fitted().sample(where="age > 5"),
    ),
}


def _fitted():
    return AllPairs(epsilon=1.0, n_rows=9).fit({"age": [1.0] * 9}, schema=Schema((AGE,)))


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
@pytest.mark.parametrize("mistake", CALLS)
def test_message_of_a_call_is_as_written(mistake):
    message, call = CALLS[mistake]
    with refuses(MissDPError) as raised:
        call()
    assert str(raised.value) == message


def test_small_table_warning_names_count_noise_and_remedy():
    said = (
        r"the table is too small for epsilon = 0\.5: released row count 35 ± 78 \(2 SD\)\. Results "
        r"will be mostly noise\. Use a larger epsilon or coarser levels, or declare the row count "
        r"if it is public\.$"
    )
    with pytest.warns(SmallTableWarning, match=said):
        assert rounded_rows(Total(35.2, 39.0**2), epsilon=0.5) == 35


OPTIONS = {
    "synthesize data.csv --epsilonn 1": "--epsilonn. Did you mean '--epsilon'?",
    "sample m.json --row 5": "--row. Did you mean '--rows'?",
    "ledger show --legder x": "--legder. Did you mean '--ledger'?",
    "sample m.json --colour red": "--colour\n",
}


@pytest.mark.parametrize("command", OPTIONS)
def test_unknown_option_is_answered_with_the_likely_one(fails, command):
    assert "Possible" not in fails(2, f"No such option: {OPTIONS[command]}", command)


def test_options_that_replace_files_have_one_name():
    for name in COMMANDS:
        command = command_named(name)
        for one in getattr(command, "commands", {"": command}).values():
            options = {option for parameter in one.params for option in parameter.opts}
            assert "--force" not in options, name


def test_table_option_is_for_databases(folder, fails):
    fails(2, "--table is for databases", f"{FIT} --table patients")


def test_docstrings_of_conditions_have_no_templates():
    named = [getattr(steps, name) for name in vars(steps)]
    found = [one for one in named if isinstance(one, type) and issubclass(one, StepCondition)]
    assert len(found) > 10
    assert [one.__name__ for one in found if "{" in (one.__doc__ or "")] == []
    assert "``k`` largest eigenvalues" in steps.CovarianceGap.__doc__
