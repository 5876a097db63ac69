"""The public names of a package."""

from collections.abc import Mapping
from types import ModuleType


def exported_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names that a package exports: all imported names except modules and helpers."""
    return sorted(
        name
        for name, value in namespace.items()
        if not (name.startswith("_") or isinstance(value, ModuleType))
        and getattr(value, "__module__", None) != __name__
    )
