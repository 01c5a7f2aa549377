"""How plans are computed: in which blocks, by which engine, on which executor.

Nodes go in and arrays come out: expressions block by block, statistics in streaming passes, matrix
products.
"""

from dataview.compute.blocks import matmul, operand_indices
from dataview.compute.chosen import BEGUN, median, reduction, reduction_from, reduction_where
from dataview.compute.evaluation import Kept, evaluate, settle
from dataview.compute.executors import executor, run_blocks, run_in_windows, shares_memory
from dataview.compute.kernel import FloatErrors
from dataview.compute.missing import KINDS, OF_SOME
from dataview.compute.passes import passes_before
from dataview.compute.photographs import (
    changing,
    changing_arrays,
    listen,
    replacing,
    waiting_at,
)
from dataview.compute.programs import Program, chosen_engines, compiled, engine, leaves_of
from dataview.compute.quantiles import MEDIAN, quantile_dtype, quantiles_by_group
from dataview.compute.reductions import CLOSE, NEARLY, Kind, result_dtype
from dataview.compute.requests import (
    as_tuples,
    by_name,
    copied_rows,
    evaluate_all,
    evaluate_at_once,
    evaluate_into,
    evaluate_view,
    fields_at,
    in_own_arrays,
    is_equal,
    overwrite,
    read_as_rows_of,
    reader_of,
    row_blocks,
    rows_of,
    without_mask,
)
from dataview.compute.reshaping import read_below
from dataview.compute.scattered import is_expression, is_made_by_rows, operands_of, part_of
from dataview.compute.turns import Turns, turns_of
from dataview.compute.ways import (
    Cut,
    aliases,
    chunk_shape_of,
    cuts_along,
    cuts_of_grid,
    cuts_of_product,
    grid_of_rows,
    have_makers_in_common,
    in_requests,
    lend_part,
    maker_of,
    makers_of,
    making_together,
    memory_of,
    own_copy,
    parts_of,
    rows_of_request,
    table_of,
    way_of,
)
from dataview.plan.places import LatePlace, Place, Targets, into_places, operand_index, place_of

__all__ = [
    "BEGUN", "CLOSE", "KINDS", "MEDIAN", "NEARLY", "OF_SOME", "Cut", "FloatErrors", "Kept", "Kind",
    "LatePlace", "Place", "Program", "Targets", "Turns", "aliases", "as_tuples", "by_name",
    "changing", "changing_arrays", "chosen_engines", "chunk_shape_of", "compiled", "copied_rows",
    "cuts_along", "cuts_of_grid", "cuts_of_product", "engine", "evaluate", "evaluate_all",
    "evaluate_at_once",
    "evaluate_into", "evaluate_view", "executor", "fields_at", "grid_of_rows",
    "have_makers_in_common", "in_own_arrays", "in_requests",
    "into_places", "is_equal", "is_expression", "is_made_by_rows", "leaves_of", "lend_part",
    "listen", "maker_of", "makers_of", "making_together",
    "matmul", "median", "memory_of", "operand_index", "operand_indices", "operands_of",
    "overwrite", "own_copy", "part_of", "parts_of", "passes_before", "place_of",
    "quantile_dtype", "quantiles_by_group",
    "read_as_rows_of", "read_below", "reader_of", "reduction", "reduction_from",
    "reduction_where", "replacing", "result_dtype", "row_blocks",
    "rows_of", "rows_of_request", "run_blocks", "run_in_windows", "settle",
    "shares_memory", "table_of", "turns_of", "waiting_at", "way_of",
    "without_mask",
]  # fmt: skip
