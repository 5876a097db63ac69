"""Completion of a draft by a person: paste its blocks, and delete its marks."""

import re
import tomllib

from missdp.schema import Schema


def pasted(text):
    """The blocks in comments of a draft, except for the rule. Each block is TOML by itself."""
    found = []
    for note in text.split("\n\n"):
        commented = note.strip().splitlines()
        lines = [line.removeprefix("# ") for line in commented if line.startswith("# ")]
        start = next((k for k, line in enumerate(lines) if line.startswith("[")), None)
        if len(lines) == len(commented) and start is not None and lines[start] != "[[rule]]":
            found.append(tomllib.loads("\n".join(lines[start:])))
    return found


def completed(text):
    """The schema of a draft with all its blocks pasted. They replace blocks of equal names."""
    document = tomllib.loads(text)
    blocks = pasted(text)
    new = [row for block in blocks for row in block.get("attribute", [])]
    names = {row["name"] for row in new}
    old = [row for row in document.get("attribute", []) if row["name"] not in names]
    document["attribute"] = [*old, *new]
    for block in blocks:
        document |= {key: value for key, value in block.items() if key == "file"}
    for row in document["attribute"]:
        row.pop("undeclared", None)
    document.get("file", {}).pop("undeclared", None)
    assert not re.search("undeclared", str(document))
    return Schema.from_dict(document)
