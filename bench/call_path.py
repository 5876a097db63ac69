"""Print the calls from a fit of AIM to the charge of one marginal.

    python bench/call_path.py [--source SRC]

The charge is the first that the family of AIM makes, in `adaptive`. SRC is the `src` folder of
another version, which may be older than `Filter`.
"""

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any

FAMILY = "synth/adaptive.py"


class Found(BaseException):
    """Ends the fit after its calls are recorded."""


def calls() -> list[tuple[str, str, int]]:
    """Return file, function and line of every call, from `fit` to the record of the charge."""
    import missdp
    from missdp.accounting import budget
    from missdp.datasets import yrbss

    root, kind, path = Path(missdp.__file__).parent, getattr(budget, "Filter", None), []
    kind = kind or budget.Budget  # type: ignore[attr-defined]
    record = kind._record

    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        stack = inspect.stack()[1:]
        outermost = max(i for i, info in enumerate(stack) if info.function == "fit")
        for info in reversed(stack[: outermost + 1]):
            if Path(info.filename).is_relative_to(root):
                file = Path(info.filename).relative_to(root).as_posix()
                path.append((file, info.function, info.lineno))
        if any(file == FAMILY for file, _, _ in path):
            raise Found
        path.clear()
        return record(self, *arguments, **options)

    kind._record = noted
    try:
        missdp.AIM(epsilon=1, random_state=0).fit(yrbss().table())
    except Found:
        pass
    finally:
        kind._record = record
    return path


def main() -> None:
    """Print the calls, and how many stand behind the family's own call."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", help="the src folder of another version")
    if source := parser.parse_args().source:
        sys.path.insert(0, source)
    path = calls()
    for file, function, line in path:
        print(f"{file}:{line} {function}")
    last = max(i for i, (file, _, _) in enumerate(path) if file == FAMILY)
    for name, part in (("from fit", path), ("behind the family's own call", path[last + 1 :])):
        print(f"{name}: {len(part)} frames in {len({file for file, _, _ in part})} files")


if __name__ == "__main__":
    main()
