"""A plan answered: which way it is run, in which blocks, by which engine, on which executor.

Nodes go in and arrays come out: expressions block by block, statistics in streaming passes, matrix
products, compiled functions.
"""

from dataview.compute.blocks import Cut, aliases, block_elements, cutting, is_one_block, tell
from dataview.compute.engines import chosen as chosen_engines
from dataview.compute.engines import current as current_engine
from dataview.compute.engines import engine
from dataview.compute.evaluation import evaluate, lent
from dataview.compute.executors import executor, run_blocks, shares_memory
from dataview.compute.functions import Function, bound, made_like
from dataview.compute.products import matmul, needed
from dataview.compute.programs import Program, compiled, leaves_of
from dataview.compute.quantiles import sampled_rows
from dataview.compute.quick_rows import Taker, taker_of, taker_of_memory
from dataview.compute.reductions import KINDS
from dataview.compute.requests import (
    answered,
    by_name,
    evaluate_all,
    in_order,
    is_equal,
    rewritten,
    row_blocks,
)
from dataview.compute.statistics import pending, reduction, take

__all__ = [
    "KINDS", "Cut", "Function", "Program", "Taker", "aliases", "answered", "block_elements",
    "bound", "by_name", "chosen_engines", "compiled", "current_engine", "cutting", "engine",
    "evaluate", "evaluate_all", "executor", "in_order", "is_equal", "is_one_block", "leaves_of",
    "lent", "made_like", "matmul", "needed", "pending", "reduction", "rewritten", "row_blocks",
    "run_blocks", "sampled_rows", "shares_memory", "take", "taker_of", "taker_of_memory", "tell"
]  # fmt: skip
