"""Where bytes are: one room for each kind of store, all with the one protocol of `Source`."""

from dataview.sources.array_likes import ArrayLike
from dataview.sources.dask_arrays import DelayedSource
from dataview.sources.file_access import Abandoned, keep_room, open_regular
from dataview.sources.functions import (
    AT_ONCE,
    FROM_OTHERS,
    FunctionSource,
    Made,
    check_held,
    check_like,
    holds,
    made_once,
    made_so_far,
    making,
)
from dataview.sources.memory import ArraySource
from dataview.sources.new_files import new_file, new_place, temporary_file
from dataview.sources.new_folders import new_folder
from dataview.sources.npy import (
    NpyFile,
    NpySource,
    Opening,
    check_writable,
    open_npy,
    raw_bytes,
    temporary_npy,
)
from dataview.sources.npy_header import (
    SETTLED_NS,
    FileState,
    Header,
    HoldsObjects,
    check_array,
    header_bytes,
    header_in,
    state_of,
)
from dataview.sources.packing import packed_together
from dataview.sources.protocol import Memo, Source
from dataview.sources.remote import (
    WEB,
    BrokenOff,
    check_local,
    file_name,
    is_url,
    key_of,
    local_path,
    may_pass,
    place_may_pass,
    read_ranges,
    refused,
    repeated,
    scheme_of,
    shown,
)
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
    "AT_ONCE", "FROM_OTHERS", "REUSED", "SETTLED_NS", "WEB", "Abandoned", "ArrayLike",
    "ArraySource", "BrokenOff", "DelayedSource", "FileState", "FunctionSource", "Header",
    "HoldsObjects", "Home", "Made", "Memo", "NpyFile", "NpySource", "Opening", "Reference",
    "Source", "are_together", "borrow", "by_path", "check_array", "check_held", "check_like",
    "check_local", "check_writable", "file_name", "give_back", "header_bytes", "header_in",
    "holds", "is_url", "keep_room", "key_of", "key_of_file", "local_path", "made_once",
    "made_so_far", "making", "may_pass", "new_file", "new_folder", "new_place", "open_npy",
    "open_regular", "packed_together", "place_may_pass", "raw_bytes", "read_ranges", "refused",
    "repeated", "scheme_of", "shown", "state_of", "store_of_file", "stores_meeting",
    "temporary_file", "temporary_npy",
]  # fmt: skip
