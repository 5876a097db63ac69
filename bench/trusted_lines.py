"""Count the trusted code that one fit of AIM reaches.

    python bench/trusted_lines.py [--json]

Trusted folders are those of `.ci/code_size.py`. A file is reached if the fit calls one of its
functions. For each file, the report shows its lines of code and the lines that the fit runs. A
statement of several lines counts with the lines that the interpreter reports. Imports do not count
as a run.
"""

import argparse
import importlib.util
import inspect
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeAlias

from missdp import AIM
from missdp.datasets import yrbss

ROOT = Path(__file__).resolve().parents[1]
Lines: TypeAlias = dict[str, set[int]]


def code_size() -> ModuleType:
    """Return the script that names the trusted folders and counts lines of code."""
    spec = importlib.util.spec_from_file_location("code_size", ROOT / ".ci" / "code_size.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines_run(action: Callable[[], Any], files: set[str]) -> Lines:
    """Return the lines of some files that an action runs within functions, in all threads."""
    lines: Lines = defaultdict(set)

    def in_function(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
        lines[frame.f_code.co_filename].add(frame.f_lineno)
        return in_function

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        # Bodies of modules and of classes run when they are imported.
        if code.co_filename in files and code.co_flags & inspect.CO_OPTIMIZED:
            return in_function(frame, event, argument)
        return None

    threading.settrace(on_call)
    sys.settrace(on_call)
    try:
        action()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return dict(lines)


def report() -> dict[str, dict[str, int]]:
    """Return the lines of code, and the lines that run, of each trusted file that a fit reaches."""
    sizes, table = code_size(), yrbss().table()
    paths = {str(path): path for folder in sizes.TRUSTED for path in (ROOT / folder).rglob("*.py")}
    lines = lines_run(lambda: AIM(epsilon=1, random_state=0).fit(table), set(paths))
    files = {}
    for name in sorted(lines):
        code_lines = sizes.code_line_numbers(paths[name].read_text(encoding="utf-8"))
        file = paths[name].relative_to(ROOT / "src" / "missdp").as_posix()
        files[file] = {"lines": len(code_lines), "run": len(code_lines & lines[name])}
    return files


def main() -> None:
    """Print the report, as text or as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, files = parser.parse_args(), report()
    total = {name: sum(file[name] for file in files.values()) for name in ("lines", "run")}
    if options.json:
        print(json.dumps({"files": files, "total": total}))
        return
    print("file                             lines   run")
    for file, counts in (*files.items(), (f"in all {len(files)} files", total)):
        print(f"{file:32s} {counts['lines']:5d} {counts['run']:5d}")


if __name__ == "__main__":
    main()
