"""What a package index shows of the README: a link that is relative here would be broken there."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)]+)\)")


def long_description(readme: str, source: str | None, version: str) -> str:
    """Lead relative links to the source; without one, words stay and pictures go."""

    def absolute(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if source is None:
            return "" if picture else words
        return f"{picture}[{words}]({source}/{'raw' if picture else 'blob'}/v{version}/{target})"

    return LINK.sub(absolute, readme)


class Readme(MetadataHookInterface):
    """Make `readme`, with the address that `[project.urls]` gives as Source."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        shown = long_description(text, source, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
