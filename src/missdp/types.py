"""Types of arrays by their elements, cliques, and kinds of frames."""

from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray


class ArrayType:
    """Annotation of a pydantic field that holds an array of one NumPy type.

    Parameters
    ----------
    dtype : type
        The NumPy type of the elements, such as ``np.float64``.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.types import Floats
    >>> Floats.__metadata__[0].checked(np.zeros(2)).tolist()
    [0.0, 0.0]
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype

    def checked(self, value: Any) -> Any:
        """Return a value if it is an array of the declared NumPy type.

        Parameters
        ----------
        value : object
            The value of a field.

        Returns
        -------
        ndarray
            The value itself.

        Raises
        ------
        ValueError
            If it is another value. pydantic turns this error into an error of the field.
        """
        if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, self.dtype):
            return value
        raise ValueError(f"an array of {self.dtype.__name__} is needed")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check in the form that pydantic needs."""
        from pydantic_core import core_schema

        del source, handler
        return core_schema.no_info_plain_validator_function(self.checked)


Floats: TypeAlias = Annotated[NDArray[np.float64], ArrayType(np.float64)]
Ints: TypeAlias = Annotated[NDArray[np.int64], ArrayType(np.int64)]
Flags: TypeAlias = Annotated[NDArray[np.bool_], ArrayType(np.bool_)]
Clique: TypeAlias = tuple[int, ...]
"""Attributes by their positions in the schema, without repetition."""
FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""The library of a data frame. The default library of output frames is the library of the input."""
