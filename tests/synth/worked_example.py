"""The family that docs/developers/extending.md shows, taken from that page."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "developers" / "extending.md"
SOURCE = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
exec(compile(SOURCE, str(_PAGE), "exec"))  # so that models can be pickled by this module's name
Independent = globals()["Independent"]
