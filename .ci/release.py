"""Fail while a decision about an upload is open: `python .ci/release.py`.

RELEASING.md lists the decisions of the owner, with a box for each. TO BE DECIDED marks the place of
an open decision. `.ci/run` and RELEASING.md name the tools that check the rest.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = "TO BE DECIDED"
MARKED = ("SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", "pyproject.toml")
URLS = ("Source", "Issues", "Documentation", "Changelog")


def undecided(root: Path = ROOT) -> list[str]:
    """List the open decisions that prevent an upload."""
    text = {
        name: (root / name).read_text(encoding="utf-8")
        for name in (*MARKED, "RELEASING.md", "CHANGELOG.md")
    }
    found = [f"{name}: {MARK}" for name in MARKED if MARK in text[name]]
    found += [
        f"RELEASING.md: {box}" for box in re.findall(r"^- \[ \] (.*)", text["RELEASING.md"], re.M)
    ]
    urls = tomllib.loads(text["pyproject.toml"])["project"].get("urls", {})
    found += [f"pyproject.toml: no address {name}" for name in URLS if not urls.get(name)]
    undated = re.findall(r"^## (?!\d[\d.]* - \d{4}-\d\d-\d\d$).*", text["CHANGELOG.md"], re.M)
    return found + [f"CHANGELOG.md: {heading} has no date" for heading in undated]


if __name__ == "__main__":
    lacking = undecided()
    print("\n".join(lacking) or "Nothing is left to decide.")
    sys.exit(bool(lacking))
