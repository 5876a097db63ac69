"""What a person does with a draft: paste its blocks, and delete its marks."""

import re
import tomllib

from missdp.schema import Schema


def pasted(text):
    """The blocks in comments of a draft, each of which is TOML by itself; but for the rule."""
    found = []
    for note in text.split("\n\n"):
        commented = note.strip().splitlines()
        lines = [line.removeprefix("# ") for line in commented if line.startswith("# ")]
        start = next((k for k, line in enumerate(lines) if line.startswith("[")), None)
        if len(lines) == len(commented) and start is not None and lines[start] != "[[rule]]":
            found.append(tomllib.loads("\n".join(lines[start:])))
    return found


def completed(text):
    """The schema of a draft, all its blocks pasted, in place of others of these names."""
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
