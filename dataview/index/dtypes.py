"""The dtype that holds the values of several."""

from __future__ import annotations

from typing import Any

import numpy as np


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
