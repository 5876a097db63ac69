"""Returns, with a warning, public names that stand elsewhere since the last release."""

import warnings
from collections.abc import Callable
from importlib import import_module

#: Old public name -> where it stands now. Kept for one release.
MOVED: dict[str, str] = {
    **{
        f"missdp.synth.{name}": f"missdp.baselines.{name}"
        for name in ("DPAutoGAN", "DPCTGAN", "DPMisGAN", "Kamino", "PrivBayes")
    },
}


def moved_from(package: str) -> Callable[[str], object]:
    """Return a module's ``__getattr__`` that finds names moved away from it, and warns."""

    def find(name: str) -> object:
        old = f"{package}.{name}"
        if old not in MOVED:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        new = MOVED[old]
        message = f"{old} is {new} now; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        home, _, last = new.rpartition(".")
        return getattr(import_module(home), last)

    return find
