"""How plans are computed: in which blocks, by which engine, on which executor.

Nodes go in and arrays come out: expressions block by block, statistics in streaming passes, matrix
products, compiled functions.
"""

from dataview.compute.blocks import (
    Cut,
    aliases,
    block_axis,
    block_elements,
    cuts_along,
    is_one_block,
    operand_index,
)
from dataview.compute.engines import chosen as chosen_engines
from dataview.compute.engines import current as current_engine
from dataview.compute.engines import engine
from dataview.compute.evaluation import evaluate, memory_of, settle
from dataview.compute.executors import executor, run_blocks, shares_memory
from dataview.compute.float_errors import FloatErrors
from dataview.compute.functions import Function, bind, pack_like
from dataview.compute.listeners import changing, changing_arrays, listen, replacing
from dataview.compute.photographs import waiting_at
from dataview.compute.places import Place, Targets, into_places, place_of
from dataview.compute.products import matmul, operand_indices
from dataview.compute.programs import Program, compiled, leaves_of
from dataview.compute.quantiles import sampled_rows
from dataview.compute.quick_rows import Taker, taker_of, taker_of_memory
from dataview.compute.reductions import KINDS
from dataview.compute.requests import (
    as_tuples,
    by_name,
    evaluate_all,
    evaluate_into,
    is_equal,
    overwrite,
    row_blocks,
)
from dataview.compute.statistics import passes_before, reduction

__all__ = [
    "KINDS", "Cut", "FloatErrors", "Function", "Place", "Program", "Taker", "Targets", "aliases",
    "as_tuples", "bind", "block_axis", "block_elements", "by_name", "changing", "changing_arrays",
    "chosen_engines", "compiled", "current_engine", "cuts_along", "engine", "evaluate",
    "evaluate_all", "evaluate_into", "executor", "into_places", "is_equal", "is_one_block",
    "leaves_of", "listen", "matmul", "memory_of", "operand_index", "operand_indices", "overwrite",
    "pack_like", "passes_before", "place_of", "reduction", "replacing", "row_blocks", "run_blocks",
    "sampled_rows", "settle", "shares_memory", "taker_of", "taker_of_memory", "waiting_at",
]  # fmt: skip
