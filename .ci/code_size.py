"""Report the size of the code, and keep the trusted code small: `python .ci/code_size.py`.

The report shows lines of code of the package, lines of its tests, and lines of trusted code. Only
growth of the trusted code fails. A change that needs more of it records the new number with
`--record`, and gives the reason in the commit message.
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ".ci/code_size.toml"
# A wrong claim of privacy can come from these folders only if all other code is untrusted.
TRUSTED = ("src/missdp/accounting", "src/missdp/session")


def code_lines(text: str) -> int:
    """Count the lines of a module without docstrings, comments, imports and blank lines."""
    return len(code_line_numbers(text))


def code_line_numbers(text: str) -> set[int]:
    """Return which lines of a module are no docstring, comment, import or blank line."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    # Docstrings, and the texts that describe the name above them.
    left_out: list[ast.stmt] = [
        n
        for n in nodes
        if isinstance(n, ast.Expr)
        and isinstance(n.value, ast.Constant)
        and isinstance(n.value.value, str)
    ]
    left_out += [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    excluded = {i for n in left_out for i in range(n.lineno, (n.end_lineno or n.lineno) + 1)}
    lines = {i: line.strip() for i, line in enumerate(text.splitlines(), 1) if i not in excluded}
    return {i for i, line in lines.items() if line and not line.startswith("#")}


def texts(root: Path, folders: Iterable[str]) -> list[str]:
    """Return the content of all modules in some folders."""
    paths = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return [path.read_text(encoding="utf-8") for path in paths]


def sizes(root: Path = ROOT) -> dict[str, int]:
    """Return the lines of code, of tests and of trusted code, and those of each trusted folder."""
    trusted = {folder: sum(map(code_lines, texts(root, [folder]))) for folder in TRUSTED}
    return {
        "code": sum(map(code_lines, texts(root, ["src/missdp"]))),
        "tests": sum(len(text.splitlines()) for text in texts(root, ["tests"])),
        "trusted": sum(trusted.values()),
        **trusted,
    }


def main(arguments: list[str] | None = None, *, root: Path = ROOT) -> int:
    """Print the sizes. Return 1 if there is more trusted code than recorded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="record the lines of trusted code")
    options = parser.parse_args(arguments)
    counts = sizes(root)
    path = root / RECORD
    if options.record:
        path.write_text(f"trusted = {counts['trusted']}\n", encoding="utf-8")
        return 0
    for name, number in counts.items():
        print(f"lines of {name:23s} {number:7d}")
    recorded = tomllib.loads(path.read_text(encoding="utf-8"))["trusted"]
    if counts["trusted"] > recorded:
        print(
            f"The trusted code has grown from {recorded} lines ({', '.join(TRUSTED)}). Move code "
            "elsewhere, or run `python .ci/code_size.py --record` and give the reason in the "
            "commit message."
        )
    return int(counts["trusted"] > recorded)


if __name__ == "__main__":
    sys.exit(main())
