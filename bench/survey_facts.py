"""Public facts about the tables of `surveys.py`: schemas, and rules by which rows are checked.

`TABLES` has schemas without kinds of missing values and rules: every code is a missing code.
`DECLARED` has these attributes with equal bins, their kinds of missing values, and rules, as far as
the language of rules can state them. `UNDECLARED` lists the rules that it cannot state. Rows are
checked by functions of frames in which every kind of missing value is null. The functions do not
depend on the schemas.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import surveys
from _data import schema

from missdp import Categorical, Numeric, Ordinal, Schema
from missdp.schema import Always, Determined, Never, NotApplicable

SPANS = (20_000, 20261122)  # rows and seed


@dataclass(frozen=True)
class Rule:
    """A public fact, with masks of the rows that it concerns and of the rows that break it.

    A routing rule also has a mask of rows in which a cell is missing though the column applies.
    """

    kind: str
    words: str
    concerns: Callable[[pd.DataFrame], pd.Series]
    breaks: Callable[[pd.DataFrame], pd.Series]
    misses: Callable[[pd.DataFrame], pd.Series] | None = None


def observed(frame, *columns):
    return frame[list(columns)].notna().all(axis=1)


def skips(column, words, applies, *reads):
    """A rule that a column is not applicable where a public condition fails for observed cells."""

    def concerned(frame):
        return observed(frame, *reads) & ~applies(frame)

    def misses(frame):
        return observed(frame, *reads) & applies(frame) & frame[column].isna()

    return Rule("routing", words, concerned, lambda f: concerned(f) & f[column].notna(), misses)


def holds(kind, words, fact, *columns):
    """A relation of some columns that is true in every row with all their values."""

    def broken(frame):
        mask = observed(frame, *columns)
        mask[mask] = ~np.asarray(fact(frame[mask]), dtype=bool)
        return mask

    return Rule(kind, words, lambda f: observed(f, *columns), broken)


def never(words, combination, *columns):
    return holds("impossible", words, lambda f: ~combination(f), *columns)


def integer(name, lower, upper, bins=None, **facts):
    bins = bins or upper - lower + 1
    return Numeric(name=name, lower=lower, upper=upper, integer=True, bins=bins, **facts)


MROZ = Schema(
    (
        Ordinal(name="inlf", levels=(0, 1)),
        integer("hours", 0, 5000, 10, spikes=(0,)),
        Numeric(name="wage", lower=0, upper=26, bins=13, nullable=True, outside="clamp"),
        Numeric(name="lwage", lower=-3, upper=4, bins=14, nullable=True, outside="clamp"),
        integer("kidslt6", 0, 5),
        integer("kidsge6", 0, 10),
        integer("age", 30, 60, 10),
        integer("educ", 0, 20, 10),
        Numeric(name="faminc", lower=0, upper=100_000),
        integer("exper", 0, 50, 10),
        integer("expersq", 0, 2500, 10),
        Ordinal(name="city", levels=(0, 1)),
    )
)
MROZ_RULES = (
    skips("wage", "wage n/a unless inlf = 1", lambda f: f.inlf == 1, "inlf"),
    skips("lwage", "lwage n/a unless inlf = 1", lambda f: f.inlf == 1, "inlf"),
    never("not (inlf = 0 and hours > 0)", lambda f: (f.inlf == 0) & (f.hours > 0), "inlf", "hours"),
    never(
        "not (inlf = 1 and hours = 0)", lambda f: (f.inlf == 1) & (f.hours == 0), "inlf", "hours"
    ),
    holds("function", "exper -> expersq", lambda f: f.exper**2 == f.expersq, "exper", "expersq"),
    holds(
        "formula",
        "lwage = log(wage) to 0.001",
        lambda f: (np.log(f.wage.clip(lower=1e-9)) - f.lwage).abs() < 1e-3,
        "wage",
        "lwage",
    ),
)

FERTIL2 = Schema(
    (
        integer("age", 15, 49, 7),
        integer("agesq", 225, 2401, 8),
        integer("educ", 0, 20, 21),
        Ordinal(name="educ0", levels=(0, 1)),
        Ordinal(name="urban", levels=(0, 1)),
        Ordinal(name="evermarr", levels=(0, 1)),
        integer("agefm", 10, 49, 10, nullable=True),
        integer("heduc", 0, 20, 21, nullable=True),
        integer("ceb", 0, 15),
        integer("children", 0, 15),
        integer("agefbrth", 10, 49, 10, nullable=True),
        Ordinal(name="knowmeth", levels=(0, 1), nullable=True),
        Ordinal(name="usemeth", levels=(0, 1), nullable=True),
        integer("idlnchld", 0, 20, 21, nullable=True),
    )
)
FERTIL2_RULES = (
    skips("agefm", "agefm n/a unless evermarr = 1", lambda f: f.evermarr == 1, "evermarr"),
    skips("heduc", "heduc n/a unless evermarr = 1", lambda f: f.evermarr == 1, "evermarr"),
    skips("agefbrth", "agefbrth n/a unless ceb >= 1", lambda f: f.ceb >= 1, "ceb"),
    never(
        "not (knowmeth = 0 and usemeth = 1)",
        lambda f: (f.knowmeth == 0) & (f.usemeth == 1),
        "knowmeth",
        "usemeth",
    ),
    holds("function", "age -> agesq", lambda f: f.age**2 == f.agesq, "age", "agesq"),
    holds("function", "educ -> educ0", lambda f: (f.educ == 0) == f.educ0, "educ", "educ0"),
    holds("order", "children <= ceb", lambda f: f.children <= f.ceb, "children", "ceb"),
    holds("order", "agefm <= age", lambda f: f.agefm <= f.age, "agefm", "age"),
    holds("order", "agefbrth <= age", lambda f: f.agefbrth <= f.age, "agefbrth", "age"),
)

SILENT = ("Refused", "Don't know", "No answer")
INCOMES = (
    *("Lt $1000", "$1000 to 2999", "$3000 to 3999", "$4000 to 4999", "$5000 to 5999"),
    *("$6000 to 6999", "$7000 to 7999", "$8000 to 9999", "$10000 - 14999", "$15000 - 19999"),
    *("$20000 - 24999", "$25000 or more"),
)
PARTIES = (
    *("Strong democrat", "Not str democrat", "Ind,near dem", "Independent", "Ind,near rep"),
    *("Not str republican", "Strong republican", "Other party"),
)
RELIGIONS = (
    *("Protestant", "Catholic", "Jewish", "None", "Other", "Buddhism", "Hinduism", "Other eastern"),
    *("Moslem/islam", "Orthodox-christian", "Christian", "Native american"),
    "Inter-nondenominational",
)
DENOMINATIONS = (
    *("Am baptist asso", "Am bapt ch in usa", "Nat bapt conv of am", "Nat bapt conv usa"),
    *("Southern baptist", "Other baptists", "Baptist-dk which", "Afr meth episcopal"),
    *("Afr meth ep zion", "United methodist", "Other methodist", "Methodist-dk which"),
    *("Am lutheran", "Luth ch in america", "Lutheran-mo synod", "Wi evan luth synod"),
    *("Other lutheran", "Evangelical luth", "Lutheran-dk which", "Presbyterian c in us"),
    *("United pres ch in us", "Other presbyterian", "Presbyterian, merged", "Presbyterian-dk wh"),
    *("Episcopal", "Other", "No denomination"),
)
MARITAL = ("Never married", "Married", "Separated", "Divorced", "Widowed")


def coded(kind, name, levels, codes=("No answer",)):
    return kind(name=name, levels=levels, nullable=True, missing_codes=codes)


GSS = Schema(
    (
        Ordinal(name="year", levels=tuple(range(2000, 2015, 2))),
        coded(Categorical, "marital", MARITAL),
        integer("age", 18, 89, 12, nullable=True),
        Categorical(name="race", levels=("White", "Black", "Other")),
        coded(Ordinal, "rincome", INCOMES, (*SILENT, "Not applicable")),
        coded(Categorical, "partyid", PARTIES, ("No answer", "Don't know")),
        coded(Categorical, "relig", RELIGIONS, ("No answer", "Don't know")),
        coded(Categorical, "denom", DENOMINATIONS, ("No answer", "Don't know", "Not applicable")),
        integer("tvhours", 0, 24, 25, nullable=True),
    )
)
GSS_RULES = (
    skips(
        "denom",
        "denom n/a unless relig is Protestant or Christian",
        lambda f: f.relig.isin(["Protestant", "Christian"]),
        "relig",
    ),
    skips(
        "denom",
        "denom n/a unless relig is Protestant, or Christian but not in 2000, 2002, 2012",
        lambda f: (
            (f.relig == "Protestant")
            | (f.relig == "Christian") & ~f.year.isin([2000, 2002, 2012]).astype(bool)
        ),
        "relig",
        "year",
    ),
)

EDUCATION = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school"),
    "Doctorate",
)
SPOUSE = ("Married-civ-spouse", "Married-AF-spouse")


def adult_schema():
    """Declared domains in 10 bins, a bin per year of education, spikes at gains and losses of 0."""
    facts = {
        "education-num": {"bins": 16},
        "capital-gain": {"spikes": (0,)},
        "capital-loss": {"spikes": (0,)},
    }
    incomplete = ("workclass", "occupation", "native-country")
    attributes = schema("adult", nullable=False)
    return Schema(
        tuple(
            replace(a, nullable=a.name in incomplete, **facts.get(a.name, {})) for a in attributes
        )
    )


ADULT_RULES = (
    holds(
        "function",
        "education -> education-num",
        lambda f: (
            f["education"].map({e: i for i, e in enumerate(EDUCATION, 1)}) == f["education-num"]
        ),
        "education",
        "education-num",
    ),
    never(
        "not (capital-gain > 0 and capital-loss > 0)",
        lambda f: (f["capital-gain"] > 0) & (f["capital-loss"] > 0),
        "capital-gain",
        "capital-loss",
    ),
    skips(
        "occupation",
        "occupation n/a if workclass is Never-worked",
        lambda f: f["workclass"] != "Never-worked",
        "workclass",
    ),
    never(
        "Husband and Wife have a spouse (civil or armed forces)",
        lambda f: f["relationship"].isin(["Husband", "Wife"]) & ~f["marital-status"].isin(SPOUSE),
        "relationship",
        "marital-status",
    ),
    never(
        "Unmarried has no spouse",
        lambda f: (f["relationship"] == "Unmarried") & f["marital-status"].isin(SPOUSE),
        "relationship",
        "marital-status",
    ),
    never(
        "Husband is Male, Wife is Female",
        lambda f: (
            (f["relationship"] == "Husband") & (f["sex"] == "Female")
            | (f["relationship"] == "Wife") & (f["sex"] == "Male")
        ),
        "relationship",
        "sex",
    ),
    never(
        "Armed-Forces works for Federal-gov",
        lambda f: (f["occupation"] == "Armed-Forces") & (f["workclass"] != "Federal-gov"),
        "occupation",
        "workclass",
    ),
    never(
        "Priv-house-serv works for Private",
        lambda f: (f["occupation"] == "Priv-house-serv") & (f["workclass"] != "Private"),
        "occupation",
        "workclass",
    ),
)

CODES = {"nullable": True, "missing_codes": (-1, -5, -8, -9)}
SPANS_SCHEMA = Schema(
    (
        integer("age", 18, 90, 10, **CODES),
        integer("birth_year", 1934, 2006, 10, **CODES),
        coded(Categorical, "employed", ("yes", "no"), ("DK", "RF")),
        integer("hours", 1, 80, 10, **CODES),
        integer("start", 1, 366, 12, **CODES),
        integer("end", 1, 366, 12, **CODES),
    )
)
SPANS_RULES = (
    holds(
        "linear",
        "age + birth_year = 2024",
        lambda f: f.age + f.birth_year == surveys.YEAR,
        "age",
        "birth_year",
    ),
    holds("order", "start <= end", lambda f: f.start <= f.end, "start", "end"),
    skips("hours", "hours n/a unless employed = yes", lambda f: f.employed == "yes", "employed"),
)

TABLES = {
    "spans": (lambda: surveys.spans(*SPANS), lambda: SPANS_SCHEMA, SPANS_RULES),
    "mroz": (surveys.mroz, lambda: MROZ, MROZ_RULES),
    "fertil2": (surveys.fertil2, lambda: FERTIL2, FERTIL2_RULES),
    "gss": (surveys.gss, lambda: GSS, GSS_RULES),
    "adult": (surveys.adult, adult_schema, ADULT_RULES),
}


def declared(schema, rules, **facts):
    """The schema with other facts about some attributes, and with rules."""
    return Schema(tuple(replace(a, **facts.get(a.name, {})) for a in schema), rules)


def kinds(**codes):
    """Codes by their kind, in place of missing codes."""
    return {"missing_codes": (), **{kind: (code,) for kind, code in codes.items()}}


def spans_declared():
    date = kinds(refused=-9, unknown=-8, not_asked=-5)
    return declared(
        SPANS_SCHEMA,
        (
            Always("age + birth_year = 2024"),
            Always("start <= end"),
            NotApplicable("hours", unless="employed = 'yes'"),
        ),
        age=kinds(refused=-9),
        birth_year=kinds(unknown=-8),
        employed=kinds(refused="RF", unknown="DK"),
        hours=kinds(refused=-9, unknown=-8, not_asked=-5, not_applicable=-1),
        start=date,
        end=date,
    )


def mroz_declared():
    complete = {"nullable": False}
    return declared(
        MROZ,
        (
            NotApplicable(("wage", "lwage"), unless="inlf = 1"),
            Never("inlf = 0 and hours > 0"),
            Never("inlf = 1 and hours = 0"),
            Determined("expersq", by="exper", map=tuple((x, x**2) for x in range(51))),
        ),
        wage=complete,
        lwage=complete,
    )


def fertil2_declared():
    complete = {"nullable": False}
    return declared(
        FERTIL2,
        (
            NotApplicable(("agefm", "heduc"), unless="evermarr = 1"),
            NotApplicable("agefbrth", unless="ceb >= 1"),
            Never("knowmeth = 0 and usemeth = 1"),
            Determined("agesq", by="age", map=tuple((x, x**2) for x in range(15, 50))),
            Determined("educ0", by="educ", map=tuple((x, int(x == 0)) for x in range(21))),
            Always("children <= ceb"),
            Always("agefm <= age"),
            Always("agefbrth <= age"),
        ),
        agefm=complete,
        agefbrth=complete,
    )


def gss_declared():
    dont_know = {"missing_codes": ("No answer",), "unknown": ("Don't know",)}
    absent = {"not_applicable": ("Not applicable",)}
    asked = "relig = 'Protestant' or relig = 'Christian' and not year in (2000, 2002, 2012)"
    return declared(
        GSS,
        (NotApplicable("denom", unless=asked),),
        rincome=dont_know | absent | {"refused": ("Refused",)},
        partyid=dont_know,
        relig=dont_know,
        denom=dont_know | absent,
    )


def adult_declared():
    married = " or ".join(f"`marital-status` = '{level}'" for level in SPOUSE)
    return declared(
        adult_schema(),
        (
            Determined(
                "education-num",
                by="education",
                map=tuple(zip(EDUCATION, range(1, 17), strict=True)),
            ),
            Never("`capital-gain` > 0 and `capital-loss` > 0"),
            NotApplicable("occupation", unless="workclass != 'Never-worked'"),
            Never(f"relationship in ('Husband', 'Wife') and not ({married})"),
            Never(f"relationship = 'Unmarried' and ({married})"),
            Never("relationship = 'Husband' and sex = 'Female'"),
            Never("relationship = 'Wife' and sex = 'Male'"),
            Never("occupation = 'Armed-Forces' and workclass != 'Federal-gov'"),
            Never("occupation = 'Priv-house-serv' and workclass != 'Private'"),
        ),
    )


DECLARED = {
    "spans": spans_declared,
    "mroz": mroz_declared,
    "fertil2": fertil2_declared,
    "gss": gss_declared,
    "adult": adult_declared,
}

UNDECLARED = {"mroz": ("lwage = log(wage) to 0.001",)}  # neither linear nor a map
