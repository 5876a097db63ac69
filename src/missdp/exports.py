"""The public names of a package."""

from collections.abc import Mapping
from types import ModuleType


def exported_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names that a package exports: all public names that it imports, except modules.

    Parameters
    ----------
    namespace : mapping of str to object
        The global names of the package.

    Returns
    -------
    list of str
        Sorted names, without names that begin with an underscore and without this function.
    """
    return sorted(
        name
        for name, value in namespace.items()
        if not (name.startswith("_") or isinstance(value, ModuleType))
        and getattr(value, "__module__", None) != __name__
    )
