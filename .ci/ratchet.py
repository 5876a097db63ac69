"""What a reviewer has to read may only become less: `python .ci/ratchet.py [--record]`.

Counts are compared with those in ratchet.toml beside this file. A new capability raises them in the
commit that adds it, with `--record` and the reason in the message.
"""

import ast
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KEPT = HERE / "ratchet.toml"
SLACK = 0.02  # by which a count may have fallen before it is recorded anew

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def of_file(text: str) -> dict[str, int]:
    """Count a file's lines of code and of docstrings, its classes, and names that are public.

    Code is what is left without docstrings, comments, imports and blank lines.
    """
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    documented = [n for n in nodes if isinstance(n, (ast.Module, *DEFINITIONS))]
    documented = [n for n in documented if ast.get_docstring(n, clean=False) is not None]
    strings = {i for n in documented for i in range(n.body[0].lineno, n.body[0].end_lineno + 1)}
    imports = [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    lines = [line.strip() for i, line in enumerate(text.splitlines(), 1) if i not in strings]
    code = sum(bool(line) and not line.startswith("#") for line in lines)
    public = [n for n in tree.body if isinstance(n, DEFINITIONS) and not n.name.startswith("_")]
    return {
        "files": 1,
        "code": code - sum(n.end_lineno - n.lineno + 1 for n in imports),
        "docstrings": len(strings),
        "classes": sum(isinstance(n, ast.ClassDef) for n in nodes),
        "public_names": len(public),
    }


def counts() -> dict[str, int]:
    """Count the package, its tests and its pages."""
    found: dict[str, int] = {}
    for path in (ROOT / "src" / "missdp").rglob("*.py"):
        for name, number in of_file(path.read_text(encoding="utf-8")).items():
            found[name] = found.get(name, 0) + number
    tests = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    found["test_lines"] = sum(len(text.splitlines()) for text in tests)
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found["words"] = sum(len(path.read_text(encoding="utf-8").split()) for path in pages)
    return found


def main() -> int:
    """Compare with what is recorded, or record what is there."""
    found = counts()
    if "--record" in sys.argv[1:]:
        KEPT.write_text("".join(f"{name} = {n}\n" for name, n in found.items()), encoding="utf-8")
        return 0
    kept = tomllib.loads(KEPT.read_text(encoding="utf-8"))
    risen = [name for name, n in found.items() if n > kept[name]]
    fallen = [name for name, n in found.items() if n < kept[name] * (1 - SLACK)]
    for name in found:
        print(f"{name:12s} {found[name]:7,d}   at most {kept[name]:7,d}")
    if risen:
        print(
            f"More than recorded: {', '.join(risen)}. Write less elsewhere; or, for a new "
            "capability, run `python .ci/ratchet.py --record` and give the reason in the commit."
        )
    elif fallen:
        print(f"Less than recorded: {', '.join(fallen)}. Run `python .ci/ratchet.py --record`.")
    return int(bool(risen))


if __name__ == "__main__":
    sys.exit(main())
