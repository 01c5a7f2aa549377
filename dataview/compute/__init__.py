"""How plans are computed: in which blocks, by which engine, on which executor.

Nodes go in and arrays come out: expressions block by block, statistics in streaming passes, matrix
products, compiled functions.
"""

from dataview.compute.blocks import operand_index
from dataview.compute.engines import chosen as chosen_engines
from dataview.compute.engines import current as current_engine
from dataview.compute.engines import engine
from dataview.compute.evaluation import evaluate
from dataview.compute.executors import executor, run_blocks, shares_memory
from dataview.compute.float_errors import FloatErrors
from dataview.compute.functions import Function, bind, pack_like
from dataview.compute.photographs import take_before, take_before_replacing, waiting_at
from dataview.compute.places import Place, Targets, into_places, place_of
from dataview.compute.products import matmul, operand_indices
from dataview.compute.programs import Program, compiled, leaves_of
from dataview.compute.quantiles import sampled_rows
from dataview.compute.reductions import KINDS
from dataview.compute.requests import (
    as_tuples,
    by_name,
    evaluate_all,
    evaluate_into,
    fields_at,
    is_equal,
    overwrite,
    read_as_rows_of,
    row_blocks,
    rows_of,
)
from dataview.compute.rows import memory_of, own_copy
from dataview.compute.statistics import pending, reduction, take
from dataview.compute.ways import Cut, Way, aliases, cuts_along, is_divided, way_of

__all__ = [
    "KINDS", "Cut", "FloatErrors", "Function", "Place", "Program", "Targets", "Way", "aliases",
    "as_tuples", "bind", "by_name", "chosen_engines", "compiled", "current_engine", "cuts_along",
    "engine", "evaluate", "evaluate_all", "evaluate_into", "executor", "fields_at", "into_places",
    "is_divided", "is_equal", "leaves_of", "matmul", "memory_of", "operand_index",
    "operand_indices", "overwrite", "own_copy", "pack_like", "pending", "place_of",
    "read_as_rows_of", "reduction", "row_blocks", "rows_of", "run_blocks", "sampled_rows",
    "shares_memory", "take", "take_before", "take_before_replacing", "waiting_at", "way_of",
]  # fmt: skip
