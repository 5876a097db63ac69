"""Shares of some groups of the bundled survey, which is public, in the survey and in releases."""

from __future__ import annotations

from typing import Any

import numpy as np

from missdp.table import Table


def group_shares(survey: Table, dropped: Table, synthetic: Table) -> list[dict[str, Any]]:
    """Return the shares of some groups among the answers given.

    Parameters
    ----------
    survey : Table
        The bundled survey.
    dropped, synthetic : Table
        Rows of two releases.

    Returns
    -------
    list of dict
        Of each group, its shares in the survey, in its complete rows, and in the releases.
    """
    complete = survey.take(~survey.incomplete_rows())
    asked = [
        ("hispanic", "hispanic", "Hispanic respondents"),
        ("text_while_driving_30d", "did not drive", "do not drive"),
        ("school_night_hours_sleep", "<5", "sleep less than 5 hours"),
        ("gender", "female", "female respondents"),
    ]
    columns = {
        "answered": survey,
        "complete_rows": complete,
        "dropped_dp": dropped,
        "missdp": synthetic,
    }
    return [
        {"group": label, **{k: _share(t, name, level) for k, t in columns.items()}}
        for name, level, label in asked
    ]


def _share(table: Table, name: str, level: str) -> float:
    attribute = table.schema[name]
    codes = table.codes(name)
    seen = codes < attribute.size
    wanted = attribute.levels.index(level)  # type: ignore[union-attr]
    return float(np.mean(codes[seen] == wanted))
