"""Which rows, in which order: every sampler, a function of (data, seed, epoch); shuffles, splits.

>>> import dataview as dv
>>> labels = ["cat", "cat", "cat", "dog"]
>>> d = dv.View(x=[0, 1, 2, 3], label=labels)
>>> balanced = dv.samplers.label_permutation(by="label")
>>> d._minibatches(2, sampler=balanced).label[0]().tolist()
['dog', 'cat']
"""

from dataview.samplers.catalogue import CATALOGUE as CATALOGUE
from dataview.samplers.catalogue import made as made
from dataview.samplers.data import RowsOf as RowsOf
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
from dataview.samplers.protocol import (
    Cuts as Cuts,
)
from dataview.samplers.protocol import (
    Data as Data,
)
from dataview.samplers.protocol import (
    Order as Order,
)
from dataview.samplers.protocol import (
    Sampler as Sampler,
)
from dataview.samplers.protocol import (
    checked_number as checked_number,
)
from dataview.samplers.protocol import (
    checked_seed as checked_seed,
)
from dataview.samplers.protocol import (
    ends_of as ends_of,
)
from dataview.samplers.protocol import (
    total_of as total_of,
)
from dataview.samplers.selections import (
    Cycle as Cycle,
)
from dataview.samplers.selections import (
    Listed as Listed,
)
from dataview.samplers.selections import (
    as_mask as as_mask,
)
from dataview.samplers.selections import (
    as_numbers as as_numbers,
)
from dataview.samplers.selections import (
    mapped as mapped,
)
from dataview.samplers.selections import (
    one_each as one_each,
)
from dataview.samplers.selections import (
    ordered as ordered,
)
from dataview.samplers.selections import (
    repeated as repeated,
)
from dataview.samplers.selections import (
    row_range as row_range,
)
from dataview.samplers.selections import (
    shape_by_rows as shape_by_rows,
)
from dataview.samplers.selections import (
    shuffled as shuffled,
)
from dataview.samplers.simple import BatchwisePermutation as batchwise_permutation
from dataview.samplers.simple import Linear as linear
from dataview.samplers.simple import Permutation as permutation
from dataview.samplers.simple import RandomSlice as random_slice
from dataview.samplers.simple import Subset as subset
from dataview.samplers.simple import Uniform as uniform
from dataview.samplers.simple import Weighted as weighted
from dataview.samplers.splits import folds as folds
from dataview.samplers.splits import group_folds as group_folds
from dataview.samplers.splits import split as split

__all__ = [
    "Cuts",
    "Data",
    "Order",
    "Sampler",
    "batchwise_permutation",
    "bucket",
    "label_distribution",
    "label_permutation",
    "label_uniform",
    "linear",
    "mix",
    "part_linear",
    "part_linear_permutation",
    "part_permutation_permutation",
    "permutation",
    "random_slice",
    "restricted",
    "same_length",
    "subset",
    "token_budget",
    "uniform",
    "weighted",
]
