"""Write the tables of bench/papers/synthesis.md from measured cells, without a fit.

    python bench/papers/a_page.py              # 10 CPU seconds
    python bench/papers/a_page.py --check      # whether the page has these tables

A block of the page stands between "% begin NAME" and "% end NAME", where NAME is a script.
"""

import argparse
import importlib
import re
import sys

from a_shared import HERE, RESULTS, Measured

PAGE = HERE / "synthesis.md"
BLOCK = re.compile(r"% begin (?P<name>\w+)\n.*?\n% end (?P=name)", re.DOTALL)


def block(match):
    name = match["name"]
    lines = importlib.import_module(name).page(Measured(RESULTS, fit=False))
    return "\n".join([f"% begin {name}", "", *lines, "", f"% end {name}"])


def filled(text, only=None):
    """Return the page with blocks from the measured cells."""
    return BLOCK.sub(lambda m: block(m) if only in (None, m["name"]) else m[0], text)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    text = PAGE.read_text(encoding="utf-8")
    expected = filled(text)
    if options.check:
        return 0 if text == expected else "the page does not hold what was measured"
    PAGE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
