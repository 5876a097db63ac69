"""The curator's report: synthetic rows beside the private ones, exact, and never to be published.

Whatever it says was computed from private rows without noise, so it is marked on every page, and it
is not written into a folder that holds something released.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from missdp.accounting import Guarantee
from missdp.errors import MissingDependencyError, OutputError, replacing
from missdp.files import write_atomically
from missdp.office.membership import Refit
from missdp.schema import Schema

__all__ = ["curator_report"]

_OWN = b"<title>CURATOR ONLY"
_RELEASED = ("*.release.json", "release.json", "*/release.json", "*.model.json", "*.guarantee.json")


def check_apart_from_releases(path: Path, released: Iterable[Path] = ()) -> None:
    """Refuse a report beside what was released: a folder is easily published as a whole."""
    folder = Path(path).resolve().parent
    beside = {Path(file).resolve().parent for file in released}
    if folder in beside or any(True for form in _RELEASED for _ in folder.glob(form)):
        raise OutputError(
            f"cannot write {str(path)!r}: released files are in that folder, and this report is "
            "for the curator only; write it to another folder"
        )


def check_no_curator_page(folder: Path) -> None:
    """Refuse a folder with a curator's page in it for anything that is to be released."""
    for page in folder.glob("*.html"):
        with page.open("rb") as file:
            if _OWN in file.read(4096):
                raise OutputError(
                    f"{str(folder)!r} holds a page for the curator only: a folder is easily "
                    "published as a whole; write to another one"
                )


def curator_report(
    private: Any,
    synthetic: Any,
    path: str | Path,
    *,
    schema: Schema,
    guarantee: Guarantee | None = None,
    control: Any = None,
    f1: bool = False,
    refit: Refit | None = None,
    refits: int = 0,
    released: Iterable[Path] = (),
) -> tuple[str, ...]:
    """Write a page that shows synthetic rows beside the private ones, for the curator only.

    Parameters
    ----------
    private, synthetic : Table, or any table or file that Table.read takes
    path : str or Path
        HTML file to write: one file, which loads nothing.
    schema : Schema
    guarantee : Guarantee, optional
        Of the release, for the page.
    control : Table, or any table or file that Table.read takes, optional
        Rows of the same population that the fit never saw: attacks are then measured.
    f1 : bool, default False
        Whether to train classifiers as well, on real and on synthetic rows, which is slow.
    refit : callable, optional
        From a Table of rows to synthetic ones, as the release was made: membership is then
        measured, on so many ``refits``, half of them without one row, and set beside what
        ``guarantee`` allows.
    refits : int, default 0
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
    >>> from missdp.office import curator_report
    >>> table = yrbss().table()
    >>> model = missdp.MST(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "curator.html"
    >>> drawn = model.sample(2000, missing_values="keep", random_state=0)
    >>> said = curator_report(table, drawn, path, schema=table.schema)
    >>> path.read_text().count("CURATOR ONLY") > 1
    True
    """
    place = Path(path)
    check_apart_from_releases(place, released)
    template = _template()
    from missdp.office.beside import beside  # what compares tables takes a second to import

    tried: dict[str, Any] = {"control": control, "f1": f1, "refit": refit, "refits": refits}
    facts = beside(private, synthetic, schema=schema, guarantee=guarantee, **tried)
    write_atomically(place, template.render(facts).encode())
    return tuple(line for line, _ in facts["verdict"])


def _template() -> Any:
    missing = MissingDependencyError("reports need Jinja2; pip install 'missdp[report]'")
    with replacing(ImportError, by=missing):
        from jinja2 import Environment, PackageLoader
    environment = Environment(
        loader=PackageLoader("missdp.office"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("curator.html")
