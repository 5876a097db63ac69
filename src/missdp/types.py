"""Arrays by what they hold, and the kinds of frames."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Clique: TypeAlias = tuple[int, ...]
"""Attributes by their positions in the schema, each once."""
FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""The library of a frame that was given, and is returned."""
