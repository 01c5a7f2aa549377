"""Where bytes are: one room for each kind of store, all with the one protocol of `Source`."""

from dataview.sources.array_likes import ArrayLike
from dataview.sources.dask_arrays import DelayedSource
from dataview.sources.functions import (
    AT_ONCE,
    FROM_OTHERS,
    FunctionSource,
    Made,
    made_once,
    made_so_far,
    making,
)
from dataview.sources.memory import ArraySource
from dataview.sources.npy import open_npy, save_npy, temporary_npy
from dataview.sources.packing import packed_together
from dataview.sources.protocol import Memo, Source
from dataview.sources.scratch import REUSED, borrow, give_back
from dataview.sources.sharing import (
    Home,
    Reference,
    are_together,
    by_path,
    key_of_file,
    store_of_file,
    stores_meeting,
)

__all__ = [
    "AT_ONCE", "FROM_OTHERS", "REUSED", "ArrayLike", "ArraySource", "DelayedSource",
    "FunctionSource", "Home", "Made", "Memo", "Reference", "Source", "are_together", "borrow",
    "by_path", "give_back", "key_of_file", "made_once", "made_so_far", "making", "open_npy",
    "packed_together", "save_npy", "store_of_file", "stores_meeting", "temporary_npy",
]  # fmt: skip
