"""The curator's report: synthetic rows beside the private ones, exact, and never to be published.

Whatever it says was computed from private rows without noise, so it is marked on every page, and it
is not written into a folder that holds something released.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from missdp.accounting import Guarantee
from missdp.errors import MissingDependencyError, OutputError
from missdp.files import write_atomically
from missdp.governance.rendering import template
from missdp.schema import Schema
from missdp.table import Table
from missdp.table.units import rows_of_units

if TYPE_CHECKING:  # comparing takes a second to import
    from missdp.evaluate import Fidelity, MissingFidelity

__all__ = ["curator_report"]

_RELEASED = ("release.json", "*/release.json", "*.model.json", "*.synthetic.json")
_MOST_PAIRS = 30
_MOST_PATTERNS = 20
_POINTS = ("5 %", "25 %", "50 %", "75 %", "95 %")

_OPTIONAL = ("promise", "pairs", "f1", "rules")  # of the page
_Text: TypeAlias = Callable[[float], str]  # of a share, with as many digits as rows support
_Verdict: TypeAlias = list[tuple[str, bool]]  # lines, and whether each is bad news


def check_apart_from_releases(path: Path, released: Iterable[Path] = ()) -> None:
    """Refuse a report beside what was released: a folder is easily published as a whole."""
    folder = Path(path).resolve().parent
    beside = {Path(file).resolve().parent for file in released}
    if folder in beside or any(True for form in _RELEASED for _ in folder.glob(form)):
        raise OutputError(
            f"cannot write {str(path)!r}: released files are in that folder, and this report is "
            "for the curator only; write it to another folder"
        )


def curator_report(
    private: Any,
    synthetic: Any,
    path: str | Path,
    *,
    schema: Schema,
    guarantee: Guarantee | None = None,
    f1: bool = False,
    released: Iterable[Path] = (),
) -> tuple[str, ...]:
    """Write a page that shows synthetic rows beside the private ones, for the curator only.

    Parameters
    ----------
    private, synthetic : Table, or any table or file that Table.read takes
    path : str or Path
        HTML file to write: one file, which loads nothing.
    schema : Schema
        Where it declares a unit or a weight, private rows take part as they do in a fit, and other
        tables need not have these columns.
    guarantee : Guarantee, optional
        Of the release, for the page.
    f1 : bool, default False
        Whether to train classifiers as well, on real and on synthetic rows, which is slow.
    released : iterable of Path
        Released files, beside which nothing is written.

    Returns
    -------
    tuple of str
        The verdict, one line each. Private, like the page.

    Raises
    ------
    OutputError
        If the folder holds something released, or the file cannot be written.
    MissingDependencyError
        If the extra ``report`` is not installed.

    Examples
    --------
    >>> import tempfile, pathlib, missdp
    >>> from missdp.datasets import yrbss
    >>> from missdp.governance import curator_report
    >>> table = yrbss().table()
    >>> model = missdp.MST(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "curator.html"
    >>> drawn = model.sample(2000, missing_values="keep", random_state=0)
    >>> said = curator_report(table, drawn, path, schema=table.schema)
    >>> path.read_text().count("CURATOR ONLY") > 1
    True
    """
    from missdp.evaluate.align import align  # comparing takes a second to import

    place = Path(path)
    check_apart_from_releases(place, released)
    page = template("curator.html")
    rows, others = _as_in_a_fit(private, schema), _of_rows(schema)
    real, made = align(rows, synthetic, others)
    facts, verdict = _compared(real, made, others, (rows, synthetic))
    facts = dict.fromkeys(_OPTIONAL, "") | facts | {"shown": _taking_part(schema)}
    if f1:
        alone = real if schema.unit is None else _one_of_each(private, schema)
        facts["f1"] = _f1(align(alone, made, others)[0], made)
    if guarantee is not None:
        facts["promise"] = f"{guarantee}\n\n{guarantee.explain()}"
    facts |= {"verdict": verdict, "picture": _picture(real, made, others)}
    write_atomically(place, page.render(facts).encode())
    return tuple(line for line, _ in verdict)


def _as_in_a_fit(private: Any, schema: Schema) -> Any:
    """Return as many rows of each unit as take part in a fit, and as often as they count."""
    if schema.without_unit is schema:
        return private
    if schema.is_weighted:
        return Table.read(private, schema)._as_counted()
    return rows_of_units(private, schema)


def _one_of_each(private: Any, schema: Schema) -> Any:
    """Return one row of each unit, which then counts once: rows that teach tell of no others."""
    if schema.unit is None or isinstance(private, Table):
        return private
    one = replace(schema.unit, max_rows=1)
    return rows_of_units(private, replace(_of_rows(replace(schema, unit=None)), unit=one))


def _taking_part(schema: Schema) -> str:
    """Return which rows are shown, where rows are not by themselves."""
    unit = schema.unit
    most = f"at most {unit.max_rows} of each {unit.column}, drawn for this page" if unit else ""
    counted = "as often as they count" if schema.is_weighted else ""
    return "; ".join(filter(None, (most, counted)))


def _of_rows(schema: Schema) -> Schema:
    """Return a schema of rows by themselves; columns of unit and weight may be there, unread."""
    apart = tuple(f.column for f in (schema.unit, schema.weight) if f is not None)
    unread = (*schema.ignore, *apart)
    return replace(schema.without_unit, ignore=unread) if apart else schema


def _compared(
    real: Table, made: Table, schema: Schema, sources: tuple[Any, Any]
) -> tuple[dict[str, Any], _Verdict]:
    """Return what the page shows of both tables, and what is said of it first."""
    from missdp.evaluate import fidelity, missing_fidelity, missing_mask
    from missdp.evaluate.align import rounded

    text = partial(rounded, rows=min(len(real), len(made)))
    complete = real.take(~missing_mask(real).any(axis=1).astype(bool))
    kept, holes = fidelity(real, made, schema=schema), missing_fidelity(real, made, schema=schema)
    sizes = (
        f"{len(real):,} real rows, of which {len(complete):,} are complete, and "
        f"{len(made):,} synthetic ones."
    )
    facts = {"sizes": sizes, **_scores(kept, text), **_missing(real, made, holes, text)}
    distances, far, dropped = _distances(real, made, complete, schema, text)
    beside = (
        f"Synthetic tables are {'further' if far > dropped else 'no further'} away than what "
        f"dropping incomplete rows would leave, without any privacy: {text(far)} and "
        f"{text(dropped)} on average."
    )
    verdict = [(kept.verdict, False), (beside, far > dropped)]
    if holes.verdict:
        verdict.append((holes.verdict, True))
    if schema.rule_set.bound:
        facts["rules"], line = _broken_rules(schema, sources)
        verdict.append(line)
    return facts | distances, verdict


def _scores(kept: Fidelity, text: _Text) -> dict[str, Any]:
    """Return how numbers and relations came out."""
    from missdp.evaluate.fidelity import SCORES

    return {
        "scores": [(SCORES[name], text(score)) for name, score in kept.scores.items()],
        "numbers": [
            (f"{name}, {which}", text(kept.ks[name]), *(f"{x:.4g}" for x in table[name]))
            for name in kept.ks
            for which, table in (("real", kept.truth), ("synthetic", kept.synthetic))
        ],
        "number_heads": ["number", "KS", "mean", "SD", *_POINTS],
    }


def _missing(real: Table, made: Table, holes: MissingFidelity, text: _Text) -> dict[str, Any]:
    """Return how often cells are missing, and which are missing together."""
    from missdp.evaluate import missing_patterns

    true, drawn = missing_patterns(real), missing_patterns(made)
    return {
        "rates": [
            (name, text(rate), text(holes.synthetic_rates[name]))
            for name, rate in holes.truth_rates.items()
        ],
        "patterns": [
            (", ".join(names) or "nothing", f"{count:,}", f"{drawn.get(names, 0):,}")
            for names, count in [*true.items()][:_MOST_PATTERNS]
        ],
    }


def _distances(
    real: Table, made: Table, complete: Table, schema: Schema, text: _Text
) -> tuple[dict[str, Any], float, float]:
    """Return distances of columns and pairs, and mean ones of synthetic and of complete rows."""
    from missdp.evaluate import marginal_distance

    facts = {}
    for k, name, most in ((1, "columns", len(schema)), (2, "pairs", _MOST_PAIRS))[: len(schema)]:
        far = marginal_distance(real, made, k=k, schema=schema)
        dropped = marginal_distance(real, complete, k=k, schema=schema)
        facts[name] = [
            (" × ".join(clique), text(d), text(dropped.per_marginal[clique]))
            for clique, d in far.worst(most).items()
        ]
    return facts, far.mean, dropped.mean


def _broken_rules(
    schema: Schema, sources: tuple[Any, Any]
) -> tuple[list[tuple[str, str, str]], tuple[str, bool]]:
    """Return how many rows break each rule, and a line of the verdict."""
    from missdp.evaluate import rule_violations

    ours, theirs = (rule_violations(source, schema=schema) for source in sources)
    rows = [(t, f"{count:,}", f"{theirs.broken[t]:,}") for t, count in ours.broken.items()]
    said = f"{theirs.broken_rows:,} synthetic rows break a rule; {ours.broken_rows:,} real do."
    return rows, (said, theirs.broken_rows > 0)


def _f1(real: Table, made: Table) -> list[tuple[str, str, str]]:
    """Return how well either rows teach, tested on the same real rows, which teach nothing."""
    from missdp.evaluate import classifier_f1, holdout

    taught, unseen = holdout(real, random_state=0)
    own, other = (
        classifier_f1(real, rows, test=unseen, random_state=0).by_attribute
        for rows in (taught, made)
    )
    return [(name, f"{score:.3f}", f"{other[name]:.3f}") for name, score in own.items()]


def _picture(real: Table, made: Table, schema: Schema) -> str | None:
    """Return the columns of both tables as a drawing, or None without the extra ``plot``."""
    from missdp.evaluate import plot_columns

    with tempfile.TemporaryDirectory() as folder, suppress(MissingDependencyError):
        drawn = Path(folder) / "columns.svg"
        plot_columns(real, made, drawn, schema=schema)
        return base64.b64encode(drawn.read_bytes()).decode()
    return None
