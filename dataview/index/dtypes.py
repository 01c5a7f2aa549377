"""The dtype that holds the values of several, and the one that a name stands for."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.errors import closest

_NAMES = (
    "bool int float complex bytes str object int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128 datetime64 timedelta64"
).split()
"""Names of NumPy's that may be meant."""

_INSTEAD = {
    "'M8[D]', or 'M8[s]' for times": "date datetime datetime64 timestamp",
    "'T', which is text of any length, or 'U10'": "string text varchar",
    "d._codes(), which numbers texts": "category categorical dictionary enum factor",
}
"""What to write for the dtypes that others have."""


def dtype_of(given: Any) -> np.dtype[Any]:
    """Return NumPy's dtype, or raise with the one that may be meant.

    >>> dtype_of("f4")
    dtype('float32')
    >>> dtype_of("flot32")
    Traceback (most recent call last):
    TypeError: NumPy has no dtype 'flot32'; did you mean 'float32'? Others are float, 'f4' and 'U10'
    """
    try:
        found: np.dtype[Any] = np.dtype(given)
    except TypeError as error:
        raise TypeError(f"NumPy has no dtype {given!r}; {_meant(given)}") from error
    return found


def _meant(given: Any) -> str:
    """Return what to write for a dtype that NumPy has not, such as torch.float32."""
    name = str(given).rpartition(".")[2].casefold()
    for text, names in _INSTEAD.items():
        if name in names.split():
            return f"write {text}"
    close = closest(name, _NAMES)
    return f"did you mean {close!r}? Others are float, 'f4' and 'U10'" if close else _EXAMPLES


_EXAMPLES = "dtypes are int, float, 'f4', 'U10', 'M8[D]' and others of NumPy's"


def promoted(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Return what `np.result_type` does, but with room for fields that are arrays.

    NumPy (2.4) leaves these the bytes that they have in the first dtype, so that reading them would
    read beyond the data.

    >>> wide = promoted(np.dtype([("a", "i1", 2)]), np.dtype([("a", "f8", 2)]))
    >>> wide, wide.itemsize
    (dtype([('a', '<f8', (2,))]), 16)
    """
    found = np.result_type(*dtypes)
    if not found.names or all(dtype == dtypes[0] for dtype in dtypes):
        return found
    formats = [_promoted_field([dtype[name] for dtype in dtypes]) for name in found.names]
    return np.dtype({"names": found.names, "formats": formats}, align=found.isalignedstruct)


def _promoted_field(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    if dtypes[0].subdtype is None:
        return promoted(*dtypes)
    return np.dtype((promoted(*[dtype.base for dtype in dtypes]), dtypes[0].shape))
