"""The world outside: what users and libraries hold becomes nodes, and nodes become theirs.

Files by one table of formats, libraries by one table of readers; pickles, which hold no more data
than they need.
"""

from dataview.exchange.convert import argument_of, made, node_of, open_node, operand_of
from dataview.exchange.from_libraries import is_foreign
from dataview.exchange.pickling import packed_in_order
from dataview.exchange.saving import save
from dataview.exchange.to_arrow import arrow_array, arrow_stream
from dataview.exchange.to_libraries import (
    DEVICE,
    dlpack,
    introduce_to_jax,
    samples,
    to_dask,
    to_jax,
    to_pandas,
    to_torch,
    to_xarray,
)

__all__ = [
    "DEVICE", "argument_of", "arrow_array", "arrow_stream", "dlpack", "introduce_to_jax",
    "is_foreign", "made", "node_of", "open_node", "operand_of", "packed_in_order", "samples",
    "save", "to_dask", "to_jax", "to_pandas", "to_torch", "to_xarray"
]  # fmt: skip
