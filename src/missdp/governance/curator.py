"""The curator's report: an exact comparison of synthetic and private rows, never to be published.

The report is computed from private rows without noise. So every page is marked, and the report is
not written into a folder with released files.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from missdp.accounting import Guarantee
from missdp.errors import MissingDependencyError, OutputError
from missdp.files import picture_bytes, write_atomically
from missdp.governance.rendering import template
from missdp.schema import Schema
from missdp.schema.schema import check_schema
from missdp.table import Table
from missdp.table.units import rows_of_units

if TYPE_CHECKING:  # comparing takes a second to import
    from missdp.evaluate import Fidelity, MissingFidelity

__all__ = ["curator_report"]

_RELEASED = ("release.json", "*/release.json", "*.model.json", "*.synthetic.json")
_MAX_PAIRS = 30  # pairs of columns that are listed
_MAX_PATTERNS = 20  # patterns of missing cells that are listed
_POINTS = ("5 %", "25 %", "50 %", "75 %", "95 %")

_OPTIONAL = ("promise", "pairs", "f1", "rules")  # optional parts of the page
_Text: TypeAlias = Callable[[float], str]  # text of a share, with the digits that rows support
_Verdict: TypeAlias = list[tuple[str, bool]]  # lines, and whether each is a warning


def check_apart_from_releases(path: Path, released: Iterable[Path] = ()) -> None:
    """Raise an error if released files are in the report's folder, which may be published."""
    folder = Path(path).resolve().parent
    folders = {Path(file).resolve().parent for file in released}
    if folder in folders or any(True for form in _RELEASED for _ in folder.glob(form)):
        raise OutputError(
            f"cannot write {str(path)!r}: released files are in that folder, and this report is "
            "for the curator only. Write it to another folder."
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
    """Write an HTML page that compares synthetic rows with the private rows, for the curator only.

    The page is computed from private rows without noise. It is private and must not be published.

    Parameters
    ----------
    private : Table, or any table or file that Table.read takes
        The private rows.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic rows.
    path : str or Path
        HTML file to write. It loads no other file.
    schema : Schema
        Schema of both tables. If it declares a unit of protection or a survey weight, private rows
        count as in a fit. Synthetic rows need not have these columns.
    guarantee : Guarantee, optional
        Guarantee of the release, which the page shows.
    f1 : bool, default False
        Whether to train classifiers on real and on synthetic rows, which is slow. It needs the
        extra ``learners``.
    released : iterable of Path, default ()
        Released files. The report is not written into their folders.

    Returns
    -------
    tuple of str
        The verdict, one line each. Private, like the page.

    Raises
    ------
    OutputError
        If released files are in the folder, or the file cannot be written.
    MissingDependencyError
        If the extra ``report`` is not installed.
    DataError, SchemaError
        If a table cannot be read under the schema, or the tables have different attributes. Also if
        the schema is not a `Schema`, for example a path.

    Examples
    --------
    >>> import tempfile, pathlib, missdp
    >>> from missdp.datasets import yrbss
    >>> from missdp.governance import curator_report
    >>> table = yrbss().table()
    >>> model = missdp.MST(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "curator.html"
    >>> drawn = model.sample(2000, missing_values="keep", random_state=0)
    >>> verdict = curator_report(table, drawn, path, schema=table.schema)
    >>> path.read_text().count("CURATOR ONLY") > 1
    True
    """
    place = Path(path)
    check_apart_from_releases(place, released)
    page, verdict = curator_page(private, synthetic, schema=schema, guarantee=guarantee, f1=f1)
    write_atomically(place, page.encode())
    return verdict


def curator_page(
    private: Any,
    synthetic: Any,
    *,
    schema: Schema,
    guarantee: Guarantee | None = None,
    f1: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """Return the HTML page of `curator_report` and its verdict, without writing a file.

    Parameters
    ----------
    private, synthetic, schema, guarantee, f1
        As in `curator_report`.

    Returns
    -------
    page : str
        The page. Private.
    verdict : tuple of str
        The verdict, one line each. Private.

    Raises
    ------
    MissingDependencyError
        If the extra ``report`` is not installed.
    """
    from missdp.evaluate.align import align  # comparing takes a second to import

    check_schema(schema)
    page = template("curator.html")
    rows, row_schema = _rows_in_a_fit(private, schema), _row_schema(schema)
    real, drawn = align(rows, synthetic, row_schema)
    facts, verdict = _compared(real, drawn, row_schema, (rows, synthetic))
    facts = dict.fromkeys(_OPTIONAL, "") | facts | {"shown": _rows_in_words(schema)}
    if f1:
        single = real if schema.unit is None else _one_row_per_unit(private, schema)
        facts["f1"] = _f1(align(single, drawn, row_schema)[0], drawn)
    if guarantee is not None:
        facts["promise"] = f"{guarantee}\n\n{guarantee.explain()}"
    facts |= {"verdict": verdict, "picture": _picture(real, drawn, row_schema)}
    return page.render(facts), tuple(line for line, _ in verdict)


def _rows_in_a_fit(private: Any, schema: Schema) -> Any:
    """Return the rows of each unit that a fit would read, repeated by their weights."""
    if schema.without_unit is schema:
        return private
    if schema.is_weighted:
        return Table.read(private, schema)._as_counted()
    return rows_of_units(private, schema)


def _one_row_per_unit(private: Any, schema: Schema) -> Any:
    """Return one row of each unit, so that training and test rows have no common unit."""
    if schema.unit is None or isinstance(private, Table):
        return private
    unit = replace(schema.unit, max_rows=1)
    return rows_of_units(private, replace(_row_schema(replace(schema, unit=None)), unit=unit))


def _rows_in_words(schema: Schema) -> str:
    """Return a description of the compared rows if the schema has a unit or a weight."""
    unit = schema.unit
    chosen = f"at most {unit.max_rows} of each {unit.column}, drawn for this page" if unit else ""
    counted = "as often as they count" if schema.is_weighted else ""
    return "; ".join(filter(None, (chosen, counted)))


def _row_schema(schema: Schema) -> Schema:
    """Return the schema without unit and weight, whose columns are ignored."""
    apart = tuple(f.column for f in (schema.unit, schema.weight) if f is not None)
    unread = (*schema.ignore, *apart)
    return replace(schema.without_unit, ignore=unread) if apart else schema


def _compared(
    real: Table, drawn: Table, schema: Schema, sources: tuple[Any, Any]
) -> tuple[dict[str, Any], _Verdict]:
    """Return the comparisons of the page, and the verdict at its top."""
    from missdp.evaluate import fidelity, missing_fidelity, missing_mask
    from missdp.evaluate.align import to_text

    text = partial(to_text, rows=min(len(real), len(drawn)))
    complete = real.take(~missing_mask(real).any(axis=1).astype(bool))
    scores, missing = (
        fidelity(real, drawn, schema=schema),
        missing_fidelity(real, drawn, schema=schema),
    )
    sizes = (
        f"{len(real):,} real rows, of which {len(complete):,} are complete, and "
        f"{len(drawn):,} synthetic rows."
    )
    facts = {"sizes": sizes, **_scores(scores, text), **_missing(real, drawn, missing, text)}
    distances, far, dropped = _distances(real, drawn, complete, schema, text)
    distance = (
        f"Synthetic tables are {'further' if far > dropped else 'no further'} away than the "
        f"complete rows, which have no privacy: {text(far)} and {text(dropped)} on average."
    )
    verdict = [(scores.verdict, False), (distance, far > dropped)]
    if missing.verdict:
        verdict.append((missing.verdict, True))
    if schema.rule_set.bound:
        facts["rules"], line = _broken_rules(schema, sources)
        verdict.append(line)
    return facts | distances, verdict


def _scores(result: Fidelity, text: _Text) -> dict[str, Any]:
    """Return the scores of numbers and relations."""
    from missdp.evaluate.fidelity import SCORES

    return {
        "scores": [(SCORES[name], text(score)) for name, score in result.scores.items()],
        "numbers": [
            (f"{name}, {which}", text(result.ks[name]), *(f"{x:.4g}" for x in table[name]))
            for name in result.ks
            for which, table in (("real", result.truth), ("synthetic", result.synthetic))
        ],
        "number_heads": ["number", "KS", "mean", "SD", *_POINTS],
    }


def _missing(real: Table, drawn: Table, result: MissingFidelity, text: _Text) -> dict[str, Any]:
    """Return missing rates, and patterns of cells that are missing together."""
    from missdp.evaluate import missing_patterns

    true, synthetic = missing_patterns(real), missing_patterns(drawn)
    return {
        "rates": [
            (name, text(rate), text(result.synthetic_rates[name]))
            for name, rate in result.truth_rates.items()
        ],
        "patterns": [
            (", ".join(names) or "nothing", f"{count:,}", f"{synthetic.get(names, 0):,}")
            for names, count in [*true.items()][:_MAX_PATTERNS]
        ],
    }


def _distances(
    real: Table, drawn: Table, complete: Table, schema: Schema, text: _Text
) -> tuple[dict[str, Any], float, float]:
    """Return distances of columns and pairs, and the means for synthetic and complete rows."""
    from missdp.evaluate import marginal_distance

    facts = {}
    for k, name, limit in ((1, "columns", len(schema)), (2, "pairs", _MAX_PAIRS))[: len(schema)]:
        far = marginal_distance(real, drawn, k=k, schema=schema)
        dropped = marginal_distance(real, complete, k=k, schema=schema)
        facts[name] = [
            (" × ".join(clique), text(d), text(dropped.per_marginal[clique]))
            for clique, d in far.worst(limit).items()
        ]
    return facts, far.mean, dropped.mean


def _broken_rules(
    schema: Schema, sources: tuple[Any, Any]
) -> tuple[list[tuple[str, str, str]], tuple[str, bool]]:
    """Return the numbers of rows that break each rule, and a line of the verdict."""
    from missdp.evaluate import rule_violations

    ours, theirs = (rule_violations(source, schema=schema) for source in sources)
    rows = [(t, f"{count:,}", f"{theirs.broken[t]:,}") for t, count in ours.broken.items()]
    line = f"{theirs.broken_rows:,} synthetic and {ours.broken_rows:,} real rows break a rule."
    return rows, (line, theirs.broken_rows > 0)


def _f1(real: Table, drawn: Table) -> list[tuple[str, str, str]]:
    """Return F1 scores of classifiers from real and from synthetic rows, on held-out real rows."""
    from missdp.evaluate import classifier_f1, holdout

    training, test = holdout(real, random_state=0)
    truth, synthetic = (
        classifier_f1(real, rows, test=test, random_state=0).by_attribute
        for rows in (training, drawn)
    )
    return [(name, f"{score:.3f}", f"{synthetic[name]:.3f}") for name, score in truth.items()]


def _picture(real: Table, drawn: Table, schema: Schema) -> str | None:
    """Return a drawing of the columns of both tables, or None without the extra ``plot``."""
    from missdp.evaluate.fidelity import columns_figure

    with suppress(MissingDependencyError):
        figure = columns_figure(real, drawn, schema=schema)
        return base64.b64encode(picture_bytes(figure, "svg")).decode()
    return None
