"""NumPy's `.npy` files; pickled objects are loaded if they are asked for by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib import format as npy

from dataview.formats.handles import Claim
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import ArraySource, HoldsObjects, open_npy


def open_array(path: str, mode: str, claim: Claim | None = None, pickle: bool = False) -> Node:
    """Return the node of an `.npy` file; objects are all loaded if `pickle` is true."""
    try:
        return stored(open_npy(path, mode, claim))
    except HoldsObjects:
        if not pickle:
            raise
        if mode != "r":
            raise ValueError(
                f"{path} holds pickled objects, which cannot be changed in place; open it with "
                "mode 'r'"
            ) from None
    with open(path, "rb") as file:
        return stored(objects_in(file))


def objects_in(file: Any) -> ArraySource:
    """Return the array of objects that begins here in a file; code in the file may run."""
    found: np.ndarray = npy.read_array(file, allow_pickle=True)
    found.flags.writeable = False
    return ArraySource(found)
