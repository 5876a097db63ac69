"""Shares of groups in the bundled public survey and in releases."""

from __future__ import annotations

from typing import Any

import numpy as np

from missdp.table import Table


def group_shares(survey: Table, dropped: Table, synthetic: Table) -> list[dict[str, Any]]:
    """Return the shares of groups among observed answers.

    Parameters
    ----------
    survey : Table
        The bundled survey.
    dropped, synthetic : Table
        Rows of two releases: after dropping incomplete rows, and with missing values modelled.

    Returns
    -------
    list of dict
        A dictionary for each group: its shares in the survey, in its complete rows, and in the
        releases. The shares of the survey are exact, since the survey is public.
    """
    complete = survey.take(~survey.incomplete_rows())
    groups = [
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
        for name, level, label in groups
    ]


def _share(table: Table, name: str, level: str) -> float:
    """Return the share of a level among observed cells."""
    attribute = table.schema[name]
    codes = table.codes(name)
    code = attribute.levels.index(level)  # type: ignore[union-attr]
    return float(np.mean(codes[codes < attribute.size] == code))
