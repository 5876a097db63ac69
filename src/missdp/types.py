"""Arrays by what they hold, and the kinds of frames."""

from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray


class ArrayType:
    """Tells pydantic that a field holds an array of a type of NumPy.

    >>> Floats.__metadata__[0].checked(np.zeros(2)).tolist()
    [0.0, 0.0]
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype

    def checked(self, value: Any) -> Any:
        """Return an array of the type. Raises ValueError for any other value."""
        if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, self.dtype):
            return value
        raise ValueError(f"an array of {self.dtype.__name__} is needed")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check as pydantic builds it into the class that has the field."""
        from pydantic_core import core_schema

        del source, handler
        return core_schema.no_info_plain_validator_function(self.checked)


Floats: TypeAlias = Annotated[NDArray[np.float64], ArrayType(np.float64)]
Ints: TypeAlias = Annotated[NDArray[np.int64], ArrayType(np.int64)]
Flags: TypeAlias = Annotated[NDArray[np.bool_], ArrayType(np.bool_)]
Clique: TypeAlias = tuple[int, ...]
"""Attributes by their positions in the schema, each once."""
FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""The library of a frame that was given, and is returned."""
