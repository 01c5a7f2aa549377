"""Which rows, in which order: every sampler, a function of (data, seed, epoch); shuffles, splits.

>>> import dataview as dv
>>> labels = ["cat", "cat", "cat", "dog"]
>>> d = dv.View(x=[0, 1, 2, 3], label=labels)
>>> balanced = dv.samplers.label_permutation(by="label")
>>> d._minibatches(2, sampler=balanced).label[0]().tolist()
['dog', 'cat']
"""

from dataview.errors import unknown_name
from dataview.samplers.catalogue import CATALOGUE, are_several, name_here, sampler_of
from dataview.samplers.chunks import ChunkPermutation as chunk_permutation
from dataview.samplers.data import RowsOf
from dataview.samplers.given import kept_rows, saved_order
from dataview.samplers.labelled import LabelDistribution as label_distribution
from dataview.samplers.labelled import LabelPermutation as label_permutation
from dataview.samplers.labelled import LabelUniform as label_uniform
from dataview.samplers.labelled import Restricted as restricted
from dataview.samplers.lengths import Bucket as bucket
from dataview.samplers.lengths import SameLength as same_length
from dataview.samplers.lengths import TokenBudget as token_budget
from dataview.samplers.parts import Mix as mix
from dataview.samplers.parts import PartLinear as part_linear
from dataview.samplers.parts import PartLinearPermutation as part_linear_permutation
from dataview.samplers.parts import PartPermutationPermutation as part_permutation_permutation
from dataview.samplers.parts import stream_by
from dataview.samplers.protocol import (
    Cuts,
    Data,
    Order,
    Sampler,
    batches_of_epoch,
    checked_number,
    checked_seed,
    on_nodes,
    samples_of_epoch,
    text_of,
)
from dataview.samplers.selections import (
    Cycle,
    as_mask,
    as_numbers,
    count_rows,
    ordered,
    repeated,
    row_range,
    rows_by,
    shuffled,
    sorted_by,
    where,
    without_duplicates,
)
from dataview.samplers.simple import BatchwisePermutation as batchwise_permutation
from dataview.samplers.simple import Linear as linear
from dataview.samplers.simple import Permutation as permutation
from dataview.samplers.simple import RandomSlice as random_slice
from dataview.samplers.simple import Subset as subset
from dataview.samplers.simple import Uniform as uniform
from dataview.samplers.simple import Weighted as weighted
from dataview.samplers.splits import folds, group_folds, split

__all__ = [
    "CATALOGUE", "Cuts", "Cycle", "Data", "Order", "RowsOf", "Sampler", "are_several", "as_mask",
    "as_numbers",
    "batches_of_epoch", "batchwise_permutation", "bucket", "checked_number", "checked_seed",
    "chunk_permutation",
    "count_rows", "folds", "group_folds", "kept_rows", "label_distribution",
    "label_permutation", "label_uniform", "linear", "mix", "name_here", "on_nodes",
    "ordered", "part_linear", "part_linear_permutation", "part_permutation_permutation",
    "permutation", "random_slice", "repeated", "restricted", "row_range", "rows_by", "same_length",
    "sampler_of",
    "samples_of_epoch", "saved_order", "shuffled", "sorted_by", "split", "stream_by", "subset",
    "text_of", "token_budget", "uniform", "weighted", "where", "without_duplicates",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return what users of samplers need; the other names are for the wings above."""
    return sorted([*(name.replace("-", "_") for name in CATALOGUE), "Sampler"])


def __getattr__(name: str) -> object:
    here = name_here(name).replace("-", "_")
    raise unknown_name(name, __dir__(), __name__, f"did you mean {here!r}?" if here else "")
