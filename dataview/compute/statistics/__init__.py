"""Statistics: what is asked for as nodes, how each is computed of parts, and when all are taken.

All that are needed of one operand are computed while it is read once.
"""

from dataview.compute.statistics.evaluation import take, take_below, take_each
from dataview.compute.statistics.function_rows import RaggedInFile, RowsInFile
from dataview.compute.statistics.kept_rows import RowsForLater, needed_later
from dataview.compute.statistics.masks import (
    median,
    reduction,
    reduction_from,
    reduction_where,
    some_rows,
    with_nothing,
)
from dataview.compute.statistics.missing import KINDS, OF_SOME
from dataview.compute.statistics.nodes import quantile_dtype
from dataview.compute.statistics.passes import passes_before, pending
from dataview.compute.statistics.quantiles import MEDIAN, quantiles_by_group
from dataview.compute.statistics.reductions import CLOSE, NEARLY, Kind, result_dtype

__all__ = [
    "CLOSE", "KINDS", "MEDIAN", "NEARLY", "OF_SOME", "Kind", "RaggedInFile", "RowsForLater",
    "RowsInFile", "median", "needed_later", "passes_before", "pending",
    "quantile_dtype", "quantiles_by_group", "reduction", "reduction_from", "reduction_where",
    "result_dtype", "some_rows", "take", "take_below", "take_each", "with_nothing",
]  # fmt: skip
