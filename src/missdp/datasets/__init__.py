"""A real survey with real holes, bundled so that everything can be tried without a download.

Provenance: extract of the Youth Risk Behavior Survey (YRBS) of the United States Centers for
Disease Control and Prevention, 2013 wave, 13,583 high-school students and 13 questions; the extract
is the table ``yrbss`` of the OpenIntro collection. United States federal data, public domain
(17 U.S.C. section 105). 38 % of the rows have at least one missing cell; race is missing for 57 %
of Hispanic and 7 % of other respondents, so dropping incomplete rows misleads.

Because the table is public, showing exact figures of it harms nobody. Do not do that with yours.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from missdp.schema import Schema
from missdp.table import Table

__all__ = ["Dataset", "yrbss"]


@dataclass(frozen=True)
class Dataset:
    """A bundled data set.

    Parameters
    ----------
    path : Path
        Parquet file.
    schema_path : Path
        TOML schema.
    """

    path: Path
    schema_path: Path

    def schema(self) -> Schema:
        """Read the schema."""
        return Schema.from_toml(self.schema_path)

    def table(self) -> Table:
        """Read the rows."""
        return Table.read(self.path, self.schema())


def yrbss() -> Dataset:
    """Return the Youth Risk Behavior Survey extract: real answers, real holes.

    >>> yrbss().table()
    Table(age, gender, grade, ...)
    """
    folder = Path(str(resources.files(__name__)))
    return Dataset(path=folder / "yrbss.parquet", schema_path=folder / "yrbss.toml")
