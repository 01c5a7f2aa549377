"""Rows that a function makes by number, that arrive one by one, are mapped, cached or counted."""

from dataview.samples.caching import cached
from dataview.samples.mapping import (
    BATCH,
    at_epoch,
    deterministic,
    mapped,
    probed,
    row_functions_of,
)
from dataview.samples.numbered import NumberedSamples, name_of, stack, stack_nodes
from dataview.samples.padding import Padding, filled, lengths, lengths_filled, mask_of, padded
from dataview.samples.random_numbers import RandomKeys, random_keys
from dataview.samples.row_functions import Undeclared
from dataview.samples.streams import (
    DerivedSamples,
    FilteredSamples,
    IteratorSamples,
    Stream,
    filtered,
    length_of,
    pool_of,
    repeated_stream,
    samples_at,
    samples_of,
    shuffled_stream,
    within_pool,
)
from dataview.samples.unique import distinct

__all__ = [
    "BATCH", "DerivedSamples", "FilteredSamples", "IteratorSamples", "NumberedSamples", "Padding",
    "RandomKeys", "Stream", "Undeclared", "at_epoch", "cached", "deterministic", "distinct",
    "filled", "filtered", "length_of", "lengths", "lengths_filled", "mapped", "mask_of", "name_of",
    "padded", "pool_of", "probed", "random_keys", "repeated_stream", "row_functions_of",
    "samples_at", "samples_of", "shuffled_stream", "stack", "stack_nodes", "within_pool",
]  # fmt: skip
