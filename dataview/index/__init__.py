"""Where an element is: the algebra of indices, NumPy's keys, gathering from memory, permutations.

An index says, for each axis of the data, which position each element of a view has there.  Keys
become indices here; a gather reads and writes an array through one.
"""

from dataview.index import gather
from dataview.index.algebra import (
    ENDLESS,
    LINE,
    Affine,
    Array,
    Computed,
    Constant,
    Index,
    Map,
    axes_of,
    axis_index,
    block_index,
    boxed,
    compose,
    extend,
    extent,
    identity,
    is_endless,
    is_identity,
    leading,
    numbers_map,
    positions,
    renamed,
    renumbered,
    shares_axes,
    shifted,
    whole_axes,
)
from dataview.index.keys import (
    NO_KEY,
    Written,
    broadcast_shapes,
    is_integer,
    parse,
    plain_index,
    without_names,
)
from dataview.index.ordering import rows_in_order
from dataview.index.overlap import are_apart
from dataview.index.permutation import Draws, Permutation, words
from dataview.index.rows import (
    Rows,
    as_array,
    in_a_run,
    numbers_at,
    numbers_of,
    row_key,
    rows_at,
    rows_index,
    rows_then,
    sampled_rows,
    with_a_run,
)

__all__ = [
    "ENDLESS", "LINE", "NO_KEY", "Affine", "Array", "Computed", "Constant", "Draws", "Index",
    "Map", "Permutation", "Rows", "Written", "are_apart", "as_array", "axes_of", "axis_index",
    "block_index", "boxed", "broadcast_shapes", "compose", "extend", "extent", "gather",
    "identity", "in_a_run", "is_endless", "is_identity", "is_integer", "leading", "numbers_at",
    "numbers_map", "numbers_of", "parse", "plain_index", "positions", "renamed", "renumbered",
    "row_key", "rows_at", "rows_in_order", "rows_index", "rows_then", "sampled_rows",
    "shares_axes", "shifted", "whole_axes", "with_a_run", "without_names", "words",
]  # fmt: skip
