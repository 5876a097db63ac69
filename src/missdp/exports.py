"""The public names of a package."""

from collections.abc import Mapping
from types import ModuleType


def exported_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names that a package imports to export them: not modules, nor these helpers."""
    return sorted(
        name
        for name, found in namespace.items()
        if not (name.startswith("_") or isinstance(found, ModuleType))
        and getattr(found, "__module__", None) != __name__
    )
