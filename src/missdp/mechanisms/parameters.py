"""Checks of public parameters: typed errors in place of whatever Python would raise."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from missdp.errors import ParameterError

__all__ = ["number", "whole"]


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """Return a parameter that must be a whole number of at least ``least``.

    Raises
    ------
    ParameterError
        If it is not.

    Examples
    --------
    >>> whole("rows", 3.0)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ParameterError(f"{name} must be a whole number")
    found = int(float(value))
    if value != found or found < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}")
    return found


def number(
    name: str, value: Any, *, least: float = 0.0, most: float = 1e100, open_end: bool = False
) -> float:
    """Return a parameter that must be a number in ``[least, most]`` (``(least, most]`` if open).

    Raises
    ------
    ParameterError
        If it is not.

    Examples
    --------
    >>> number("share", 0.5, most=1.0)
    0.5
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ParameterError(f"{name} must be a finite number")
    found = float(value)
    if open_end and found <= least:
        raise ParameterError(f"{name} must be above {least:g}")
    if not least <= found <= most:
        raise ParameterError(f"{name} must be between {least:g} and {most:g}")
    return found
