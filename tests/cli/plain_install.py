"""Runs commands in a process that sees only the packages of `pip install missdp`, without extras.

Reads a JSON list of commands, each a list of words, from standard input. Prints a JSON list of exit
codes and messages. It is a program of its own because modules that are imported stay imported.
"""

import contextlib
import importlib.metadata
import io
import json
import re
import sys
from importlib.machinery import PathFinder


def plain_distributions():
    """Names of the distributions that a plain install brings, directly or indirectly."""
    names, waiting = set(), ["missdp"]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if name not in names:
                lines = importlib.metadata.requires(name) or ()
                names.add(name)
                waiting += [re.match(r"[\w.-]+", x)[0] for x in lines if "extra ==" not in x]
    return names


def hidden_packages():
    """Top-level modules that only other distributions bring."""
    plain = plain_distributions()
    return {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & plain
    }


class PlainFinder(PathFinder):
    """Finds the modules of a plain install."""

    hidden = frozenset()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in cls.hidden:
            return None
        return super().find_spec(name, path, target)


def run(words):
    """Exit code and standard error of one command."""
    from missdp.cli.main import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        code = main(words)
    return code, printed.getvalue()


if __name__ == "__main__":
    PlainFinder.hidden = hidden_packages()
    sys.meta_path[:] = [PlainFinder if f is PathFinder else f for f in sys.meta_path]
    sys.stdout.write(json.dumps([run(words) for words in json.load(sys.stdin)]))
