"""Rows that a function makes by number, that arrive one by one, are mapped or cached."""

from dataview.samples.arriving import (
    Row,
    RowViews,
    are_rows,
    pool_of,
    rows_in,
    together,
    within_pool,
)
from dataview.samples.asking import asked, statistic
from dataview.samples.caching import cached
from dataview.samples.collecting import collected, is_ragged, known_lengths, with_lengths
from dataview.samples.declaring import declared, declared_spec, with_part
from dataview.samples.in_order import ClosableSamples, DerivedSamples, Samples, read_once, stacked
from dataview.samples.mapping import (
    BATCH,
    all_at_epoch,
    at_epoch,
    deterministic,
    mapped,
    probed,
    row_functions_of,
)
from dataview.samples.metadata import described
from dataview.samples.numbered import (
    NumberedSamples,
    RaggedSamples,
    name_of,
    samples_behind,
    stack,
    stack_nodes,
)
from dataview.samples.once import keeper, read_together
from dataview.samples.padding import (
    Filling,
    PaddedSamples,
    Padding,
    filled,
    lengths,
    lengths_filled,
    mask_of,
    padded,
)
from dataview.samples.pairing import Dropped, Items, Pairing, pairing_of, pairings_in
from dataview.samples.passes import IteratorSamples
from dataview.samples.ragged import AnyLength, in_rows, joined_alike, likeness
from dataview.samples.random_numbers import RandomKeys, random_keys
from dataview.samples.row_functions import Spec, Undeclared
from dataview.samples.streams import (
    FilteredSamples,
    Stream,
    arranged,
    arriving,
    filtered,
    length_of,
    repeated_stream,
    samples_at,
    samples_of,
    shuffled_stream,
    side_by_side,
    visited,
)

__all__ = [
    "BATCH",
    "AnyLength",
    "ClosableSamples",
    "DerivedSamples",
    "Dropped",
    "Filling",
    "FilteredSamples",
    "Items",
    "IteratorSamples",
    "NumberedSamples",
    "PaddedSamples",
    "Padding",
    "Pairing",
    "RaggedSamples",
    "RandomKeys",
    "Row",
    "RowViews",
    "Samples",
    "Spec",
    "Stream",
    "Undeclared",
    "all_at_epoch",
    "are_rows",
    "arranged",
    "arriving",
    "asked",
    "at_epoch",
    "cached",
    "collected",
    "declared",
    "declared_spec",
    "described",
    "deterministic",
    "filled",
    "filtered",
    "in_rows",
    "is_ragged",
    "joined_alike",
    "keeper",
    "known_lengths",
    "length_of",
    "lengths",
    "lengths_filled",
    "likeness",
    "mapped",
    "mask_of",
    "name_of",
    "padded",
    "pairing_of",
    "pairings_in",
    "pool_of",
    "probed",
    "random_keys",
    "read_once",
    "read_together",
    "repeated_stream",
    "row_functions_of",
    "rows_in",
    "samples_at",
    "samples_behind",
    "samples_of",
    "shuffled_stream",
    "side_by_side",
    "stack",
    "stack_nodes",
    "stacked",
    "statistic",
    "together",
    "visited",
    "with_lengths",
    "with_part",
    "within_pool",
]  # fmt: skip
