"""Conversion: data of users and of other libraries becomes nodes, and nodes become theirs.

There is one table of readers for the objects of other libraries.
Functions are called with arrays and return arrays.  Pickles hold no more data than they need.
"""

from dataview.exchange.bunches import is_bunch
from dataview.exchange.convert import (
    argument_of,
    named,
    node_of,
    object_node,
    operand_of,
    ragged,
)
from dataview.exchange.copies import freeze, frozen_rows
from dataview.exchange.datasets import data_node, holds_columns, numbered, sample_node
from dataview.exchange.from_libraries import (
    check_gradient,
    in_parts,
    is_foreign,
    is_view,
    recognise_views,
    with_categories,
)
from dataview.exchange.functions import Function, bind, pack_like
from dataview.exchange.pickling import packed_in_order
from dataview.exchange.to_arrow import arrow_array, arrow_batch, arrow_stream
from dataview.exchange.to_libraries import (
    DEVICE,
    dlpack,
    plain,
    register_in_jax,
    samples,
    to_dask,
    to_jax,
    to_pandas,
    to_torch,
    to_xarray,
)

__all__ = [
    "DEVICE", "Function", "argument_of", "arrow_array", "arrow_batch", "arrow_stream", "bind",
    "check_gradient", "data_node", "dlpack", "freeze", "frozen_rows", "holds_columns", "in_parts",
    "is_bunch", "is_foreign", "is_view", "named", "node_of", "numbered", "object_node",
    "operand_of", "pack_like", "packed_in_order", "plain", "ragged", "recognise_views",
    "register_in_jax", "sample_node", "samples", "to_dask", "to_jax", "to_pandas", "to_torch",
    "to_xarray", "with_categories",
]  # fmt: skip
