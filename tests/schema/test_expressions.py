"""The one syntax of conditions and equations: its meaning, and hostile texts.

Thousands of conditions are written beside plain Python functions, which decide them row by row.
"""

import ast
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Date, Numeric, Ordinal, Schema
from missdp.errors import ParameterError, SchemaError
from missdp.schema import Always, Never, NotApplicable, expressions
from missdp.schema.expressions import condition, parse_where, statements
from missdp.schema.logic import Cells, Truth, compare
from refusing import refuses

MISSING, NONE = "missing", "not applicable"
SIGNS = {
    "=": lambda a, b: a == b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b, "≠": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, "≤": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "≥": lambda a, b: a >= b,
}  # fmt: skip
EQUAL = ("=", "==", "!=", "<>", "≠")
SIZES = ("low", "mid", "high")
COLUMNS = {
    a.name: a
    for a in (
        Numeric(name="age", lower=0, upper=9, integer=True),
        Numeric(name="in days", lower=-2, upper=9),
        Categorical(name="work", levels=("no", "yes", "it's")),
        Categorical(name="and", levels=("no", "yes", "it's")),
        Ordinal(name="grade", levels=(9, 10, 11)),
        Ordinal(name="size", levels=SIZES),
        Ordinal(name="größe", levels=SIZES),
        Categorical(name="class", levels=(False, True)),
    )
}
WRITTEN = {name: f"`{name}`" for name in ("in days", "and")}
NUMBERS = {"0": 0, "4": 4, "-1.5": -1.5, "+3": 3, "2.5": 2.5, ".5": 0.5, "7.": 7, "1e3": 1000}
PAIRS = [("age", "in days"), ("size", "größe"), ("work", "and"), ("in days", "age")]


def constants(name):
    """The constants that an attribute is compared with, as they are written and as they order."""
    if isinstance(COLUMNS[name], Numeric):
        return NUMBERS
    quoted = {str(lv): f'"{lv}"' if "'" in str(lv) else f"'{lv}'" for lv in COLUMNS[name].levels}
    written = {"class": ["false", "TRUE"], "grade": ["9", "10.0", "11"]}
    texts = written.get(name, list(quoted.values()))
    return {text: code for code, text in enumerate(texts)}


def decided(sign, one, other):
    """Return Kleene's truth of a comparison of two cells. None means that the truth is unknown."""
    if NONE in (one, other):
        return False
    return None if MISSING in (one, other) else bool(SIGNS[sign](one, other))


def either(parts):
    parts = list(parts)
    return True if True in parts else None if None in parts else False


def denied(part):
    return None if part is None else not part


def every(parts):
    return denied(either(map(denied, parts)))


def written_comparison(r):
    """A comparison as text, and as a function of a row."""
    blank = r.choice(("", " ", "\n"))
    if r.random() < 0.25:
        one, other = r.choice(PAIRS)
        sign = r.choice(EQUAL if one == "work" else list(SIGNS))
        text = f"{WRITTEN.get(one, one)}{blank}{sign} {WRITTEN.get(other, other)}"
        return text, lambda row: decided(sign, row[one], row[other])
    name = r.choice(list(COLUMNS))
    known, shown = constants(name), WRITTEN.get(name, name)
    signs = EQUAL if type(COLUMNS[name]) is Categorical else list(SIGNS)
    form, first, second = r.random(), r.choice(list(known)), r.choice(list(known))
    one, two = r.choice(signs), r.choice(signs)
    if form < 0.2:
        listed = [r.choice(list(known)) for _ in range(r.randint(1, 4))]
        text = f"{shown} in ({', '.join(listed)}{r.choice(('', ','))})"
        inside = lambda row: either(decided("=", row[name], known[x]) for x in listed)  # noqa: E731
        if r.random() < 0.5:
            return text, inside
        outside = lambda row: every(decided("!=", row[name], known[x]) for x in listed)  # noqa: E731
        return text.replace(" in (", r.choice((" not in (", " NOT  IN ("))), outside
    if form < 0.4:
        return f"{first}{blank}{one} {shown}", lambda row: decided(one, known[first], row[name])
    if form < 0.55:
        return f"{first} {one} {shown} {two} {second}", lambda row: every(
            (decided(one, known[first], row[name]), decided(two, row[name], known[second]))
        )
    return f"{shown}{blank}{one}{first}", lambda row: decided(one, row[name], known[first])


def written_condition(r, depth):
    """Return a condition as text and as a function of a row. The text needs no more parentheses."""
    if depth == 0 or r.random() < 0.2:
        return written_comparison(r)
    parts = [written_condition(r, depth - 1) for _ in range(r.randint(1, 3))]
    form = r.random()
    if len(parts) == 1 or form < 0.2:
        text, test = parts[0]
        return f"{r.choice(('not', 'NOT'))} ({text})", lambda row: denied(test(row))
    word, join = r.choice((("and", every), ("or", either)))
    texts, tests = zip(*parts, strict=True)
    text = f" {r.choice((word, word.upper()))} ".join(f"({t})" for t in texts)
    return text, lambda row: join(test(row) for test in tests)


def random_rows(r, n):
    def cell(name):
        if r.random() < 0.3:
            return r.choice((MISSING, NONE))
        if isinstance(COLUMNS[name], Numeric):
            return r.choice((0, 2, 3, 4, 7, 9))
        return r.randrange(COLUMNS[name].size)

    return [{name: cell(name) for name in COLUMNS} for _ in range(n)]


def cells_of(rows):
    def column(name):
        cells = [row[name] for row in rows]
        values = np.array([0.0 if isinstance(c, str) else float(c) for c in cells])
        missing, none = (np.array([c == what for c in cells]) for what in (MISSING, NONE))
        return Cells(values, values, missing, none)

    return {name: column(name) for name in COLUMNS}


def as_list(truth):
    assert not (truth.is_true & truth.is_false).any()
    pairs = zip(truth.is_true.tolist(), truth.is_false.tolist(), strict=True)
    return [True if true else False if false else None for true, false in pairs]


@pytest.mark.long
def test_conditions_agree_with_plain_python():
    r = random.Random(0)
    rows = random_rows(r, 60)
    cells = cells_of(rows)
    for _ in range(3000):
        text, test = written_condition(r, r.randint(0, 3))
        assert as_list(condition(text, COLUMNS).truth(cells, 60)) == [test(x) for x in rows], text


def test_precedence_is_not_and_or():
    r = random.Random(1)
    rows = random_rows(r, 60)
    cells = cells_of(rows)
    for _ in range(300):
        (a, one), (b, two), (c, three) = (written_comparison(r) for _ in range(3))
        cases = {
            f"{a} or {b} and {c}": lambda x: either((one(x), every((two(x), three(x))))),  # noqa: B023
            f"not {a} and {b}": lambda x: every((denied(one(x)), two(x))),  # noqa: B023
            f"not not {a} or {b}": lambda x: either((one(x), two(x))),  # noqa: B023
        }
        for text, test in cases.items():
            found = as_list(condition(text, COLUMNS).truth(cells, 60))
            assert found == [test(x) for x in rows], text


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("width", [0, 1])
def test_comparisons_of_ranges_hold_for_all_values_in_them(operator, width):
    """A comparison of two ranges is true, or false, if it is so for every pair of values."""
    for low, other in itertools.product(range(4), range(4)):
        ranges = [np.array([float(x)]) for x in (low, low + width, other, other + 1)]
        none = np.zeros(1, dtype=bool)
        one, two = Cells(*ranges[:2], none, none), Cells(*ranges[2:], none, none)
        values = itertools.product(range(low, low + width + 1), range(other, other + 2))
        results = {SIGNS[operator](a, b) for a, b in values}
        truth = compare(one, operator, two)
        assert as_list(truth) == [results.pop() if len(results) == 1 else None]


def test_truth_is_kleene():
    known = {True: (True, False), False: (False, True), None: (False, False)}
    for a, b in itertools.product(known, known):
        one, two = (Truth(*(np.array([flag]) for flag in known[x])) for x in (a, b))
        assert as_list(one & two) == [every((a, b))]
        assert as_list(one | two) == [either((a, b))]
        assert as_list(~one) == [denied(a)]


def written_sum(r, depth):
    """A linear expression as text, and as a function of a row."""
    form, name = r.random(), r.choice(("age", "in days"))
    shown = WRITTEN.get(name, name)
    if depth == 0 or form < 0.2:
        number = r.choice(("2", "0.5", "3", "1e1"))
        return r.choice((
            (shown, lambda row: row[name]), (number, lambda row: float(number)),
            (f"{number} * {shown}", lambda row: float(number) * row[name]),
            (f"-{number} * {shown}", lambda row: -float(number) * row[name]),
        ))  # fmt: skip
    (a, one), (b, two) = written_sum(r, depth - 1), written_sum(r, depth - 1)
    return r.choice((
        (f"{a} + {b}", lambda row: one(row) + two(row)),
        (f"{a} - ({b})", lambda row: one(row) - two(row)),
        (f"2 * ({a})", lambda row: 2 * one(row)),
        (f"-({a})", lambda row: -one(row)),
    ))  # fmt: skip


def test_equations_agree_with_plain_python():
    r = random.Random(2)
    rows = [{"age": r.randrange(10), "in days": r.uniform(-2, 9)} for _ in range(5)]
    for _ in range(1500):
        (a, left), (b, right) = (written_sum(r, r.randint(0, 4)) for _ in range(2))
        # The sum with 0 makes it an equation also where both sides are plain.
        (found,) = statements(f"{a} + 0 = {b}", COLUMNS)
        constant = found.pop("")
        for row in rows:
            value = -constant + sum(times * row[name] for name, times in found.items())
            assert value == pytest.approx(left(row) - right(row), abs=1e-6), (a, b)


HOSTILE = {
    "a call": ["__import__('os')", "print(age) = 1", "age = exec('1')", "(age)(age) = 1",
               "age > years(age, age)", "years(age) = age", "age = years(*age)"],
    "an attribute of an object": ["age.real > 1", "age.__class__ = 1", "().__class__ = 1"],
    "a subscript": ["age[0] > 1", "age in [1, 2]", "{1} = age", "{'a': 1} = age"],
    "a lambda": ["lambda: 1", "(lambda age: 1)(2) = age", "age = lambda"],
    "a power or another operator": ["age ** 9 > 1", "age // 2 = 1", "age % 2 = 1", "age @ age = 1",
                                    "age << 2 = 1", "age | 1 = 1", "~age = 1", "age / 2 = 1"],
    "an assignment": ["(age := 1) > 0", "age = 1; age = 2", "age = 1\nimport os", "age += 1"],
    "text with a prefix": ["work = f'{age}'", "work = b'no'", "work = r'no'", "work = 'n' 'o'",
                           "work = '''no'''"],
    "a comprehension": ["age in (x for x in age)", "[x for x in age] = 1", "age in (*age, 1)"],
    "a conditional": ["age if age else age", "age = 1 if age else 2", "await age", "yield age"],
    "a number of another kind": ["age = 0x10", "age = 1_000", "age = 1j", "age = 0b1", "age = ١",
                                 "age = 1e", "age = NaN", "age = ∞", "age = ..."],
    "another sign": ["age =! 1", "age === 1", "age => 1", "age ＝ 1", "age ! 1", "age is 1",
                     "age ¬= 1", "work = ‘no’", "work = «no»", "work = `no`"],
    "a look-alike name": ["аge > 1", "ａge > 1", "a\u200bge > 1", "age\u0301 > 1", "ﬁ = 1"],
    "a null byte or a comment": ["age = \x00", "age\x00 = 1", "\x1b[31m = 1", "age = 1 # all"],
    "too long": ["age = 1 or " * 20_000 + "age = 1", "x" * 200_000, "9" * 200_000, "(" * 150_000],
    "too deep": ["(" * 101 + "age = 1" + ")" * 101, "not " * 101 + "age = 1", "age = " + "-" * 150,
                 "(" * 5_000 + "age = 1" + ")" * 5_000, "1 + " * 300 + "age = 2",
                 "2 * " * 300 + "age = 2"],
    "an unfinished text": ["age >", "> 1", "age > 1 and", "(age > 1", "age > 1)", "age in (1",
                           "not", "age in ()", "age in (,)", "age in", "'", '"', "`", "``",
                           "work = 'no"],
}  # fmt: skip
TEXTS = [text for texts in HOSTILE.values() for text in texts]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_hostile_texts_are_one_error_that_names_rule_and_place(text):
    schema = Schema(tuple(COLUMNS.values()))
    rules = (Never(text), Always(text), NotApplicable("grade", unless=text))
    for rule in rules:
        with refuses(SchemaError, "^rule ") as caught:
            Schema(schema.attributes, (rule,))
        message = str(caught.value)
        quoted = rule.text if len(rule.text) <= 200 else f"{rule.text[:200]}…"
        assert message.startswith(f"rule {quoted!r}: ")
        assert len(message) < 600
    with refuses(ParameterError, "^where: "):
        parse_where(text, schema)


def test_a_huge_number_is_a_number():
    number = "9" * 5_000
    assert parse_where(f"age < {number}", Schema(tuple(COLUMNS.values()))).right == np.inf


def test_messages_say_place_and_remedy():
    schema = Schema(tuple(COLUMNS.values()))
    for text, words in {
        "age > 1 and age ** 2 > 3": ["cannot read '* 2 > 3'", "Write names, constants"],
        "age + 1 > 3": ["found 'age + 1'", "always = 'a + 2 * b = c'"],
        "grade > 9 and (size)": ["found 'size'", "comparisons such as age >= 20"],
        "siz = 'low'": ["no attribute 'siz'", "Did you mean 'size'?"],
        "size = lo": ["no attribute 'lo'", "Text goes in quotes"],
        "size = 'lwo'": ["'lwo' is not a level of 'size'", "Did you mean 'low'?"],
        "in days > 3": ["goes in backticks: `in days`"],
        "age > size": ["'age' and 'size' cannot be compared", "ordinal with the same levels"],
    }.items():
        with refuses(ParameterError) as caught:
            parse_where(text, schema)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_nothing_is_compiled_or_evaluated(monkeypatch):
    """Python's parser sees placeholders only, and its tree is never compiled."""
    sources = []

    class Noted:
        """The parser's module, of which only the syntax tree and its parser may be used."""

        def __getattr__(self, name):
            assert name[0].isupper() or name == "copy_location", name
            return getattr(ast, name)

        def parse(self, source, **options):
            assert options == {"mode": "eval"}
            sources.append(source)
            return ast.parse(source, **options)

    monkeypatch.setattr(expressions, "ast", Noted())
    condition("age in (1, 2) and not work = 'no' or `and` = \"it's\"", COLUMNS)
    assert sources == ["_0 in ( _3 , _5 ) and not _9 == _11 or _13 == _15"]
    source = Path(expressions.__file__).read_text(encoding="utf-8").replace("re.compile(", "")
    assert not [name for name in ("eval(", "exec(", "compile(") if name in source]


@settings(max_examples=300)
@given(st.text("ab_ageworkin()=<>!'\"`,.+-*0159 \n\\[]{}:;@#é≤", max_size=40))
def test_any_text_is_a_condition_or_one_error(text):
    schema = Schema(tuple(COLUMNS.values()))
    with refuses(ParameterError):
        parse_where(text, schema)
        raise ParameterError("it is a condition")


def test_attributes_named_like_words_of_python_need_no_backticks():
    names = ("class", "lambda", "None", "is", "if", "yield", "True_", "print", "years")
    columns = {n: Numeric(name=n, lower=0, upper=9, integer=True) for n in names}
    for name in names:
        assert condition(f"{name} > 3", columns).names == {name}
        (found,) = statements(f"{name} + 1 = class", columns)
        assert {*found} == {"", name, "class"}


def test_dates_are_compared_with_dates_and_texts():
    days = {"lower": "2020-01-01", "upper": "2020-12-31"}
    columns = {n: Date(name=n, **days) for n in ("admission", "discharge")}
    first = condition("admission <= '2020-01-02'", columns)
    assert first.right == columns["admission"].lower + 1
    assert condition("admission <= discharge", columns).right is columns["discharge"]
