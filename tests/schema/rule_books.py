"""Random schemas with small domains and rules, and the meaning of the rules for a row of values."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal
from missdp.schema import Always, Determined, Never, NotApplicable

NONE = "not applicable"
SCALE = ("low", "mid", "high")
Row = dict[str, Any]
Obeys = Callable[[Row], bool]

NAMES = ("a", "b c", "d-e", "é")


def quoted(name):
    return f"`{name}`"


@st.composite
def attributes(draw, name):
    facts = {"name": name, "nullable": draw(st.booleans())}
    if draw(st.integers(0, 5)) == 0:
        facts["not_applicable"] = ("none",)
    style = draw(st.sampled_from(("text", "scale", "number")))
    if style == "text":
        return Categorical(levels=("x", "y", "z")[: draw(st.integers(1, 3))], **facts)
    if style == "scale":
        return Ordinal(levels=SCALE, **facts)
    lower = draw(st.integers(-1, 1))
    upper = lower + draw(st.integers(1, 4))
    spikes = draw(st.lists(st.integers(lower, upper), unique=True, max_size=2))
    bins = draw(st.integers(1, upper - lower))
    return Numeric(lower=lower, upper=upper, integer=True, bins=bins, spikes=spikes, **facts)


def domain(attribute):
    if isinstance(attribute, Numeric):
        return list(range(int(attribute.lower), int(attribute.upper) + 1))
    return list(attribute.levels)


def holds(value, sign, other, scale=SCALE):
    if NONE in (value, other):
        return False
    if isinstance(value, str) and sign not in ("=", "!="):
        value, other = scale.index(value), scale.index(other)
    return {
        "=": value == other, "!=": value != other, "<": value < other,
        "<=": value <= other, ">": value > other, ">=": value >= other,
    }[sign]  # fmt: skip


@st.composite
def conditions(draw, given):
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        attribute = draw(st.sampled_from(given))
        ordered = not isinstance(attribute, Categorical)
        sign = draw(st.sampled_from(("=", "!=", *(("<", "<=", ">", ">=") if ordered else ()))))
        numeric = isinstance(attribute, Numeric)
        numbers = [-2, -0.5, 0, 1, 1.5, 2, 3]
        value = draw(st.sampled_from(numbers if numeric else domain(attribute)))
        text = f"{quoted(attribute.name)} {sign} {value if numeric else repr(value)}"
        test = lambda row, n=attribute.name, s=sign, v=value: holds(row[n], s, v)  # noqa: E731
        if draw(st.booleans()):
            text, test = f"not ({text})", (lambda row, t=test: not t(row))
        parts.append((text, test))
    word = draw(st.sampled_from(("and", "or")))
    every = all if word == "and" else any
    texts, tests = zip(*parts, strict=True)
    return f" {word} ".join(texts), lambda row: every(test(row) for test in tests)


@st.composite
def rules(draw, given):
    numbers = [a.name for a in given if isinstance(a, Numeric)]
    scales = [a.name for a in given if isinstance(a, Ordinal)]
    kinds = ["route", "impossible", "map"]
    kinds += ["order"] if max(len(numbers), len(scales)) > 1 else []
    kinds += ["equation"] if len(numbers) > 1 else []
    kind = draw(st.sampled_from(kinds))
    if kind == "route":
        target = draw(st.sampled_from(given)).name
        text, test = draw(conditions([a for a in given if a.name != target] or given))
        return NotApplicable(target, unless=text), lambda row: (row[target] != NONE) == test(row)
    if kind == "impossible":
        text, test = draw(conditions(given))
        return Never(text), lambda row: not test(row)
    if kind == "order":
        pool = draw(st.sampled_from([p for p in (numbers, scales) if len(p) > 1]))
        low, high = draw(st.permutations(pool))[:2]
        sign = draw(st.sampled_from(("<", "<=")))
        ordered = lambda r: holds(r[low], sign, r[high])  # noqa: E731
        rule = Always(f"{quoted(low)} {sign} {quoted(high)}")
        return rule, lambda row: NONE in (row[low], row[high]) or ordered(row)
    if kind == "equation":
        one, two = draw(st.permutations(numbers))[:2]
        times, plus = draw(st.sampled_from((1, 2, -1, 0.5))), draw(st.integers(-2, 3))
        text = f"{times} * {quoted(one)} + {plus} = {quoted(two)}"
        text = text.replace("+ -", "- ")
        text = text if times > 0 else f"{plus} - {quoted(one)} = {quoted(two)}".replace("--", "-")
        follows = lambda x: NONE if x == NONE else times * x + plus  # noqa: E731
        return Always(text), lambda row: row[two] == follows(row[one])
    target = draw(st.sampled_from(given))
    by = draw(st.sampled_from([a for a in given if a is not target] or given))
    mapping = {level: draw(st.sampled_from(domain(target))) for level in domain(by)}
    rule = Determined(target.name, by=by.name, map=tuple(mapping.items()))
    return rule, lambda row: row[target.name] == mapping.get(row[by.name], NONE)


@st.composite
def books(draw):
    given = [draw(attributes(name)) for name in NAMES[: draw(st.integers(2, 4))]]
    return given, [draw(rules(given)) for _ in range(draw(st.integers(1, 4)))]
