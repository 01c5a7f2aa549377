"""Rows that are made by number, arrive one by one, are mapped by functions, kept or counted."""

from dataview.samples.caching import cached
from dataview.samples.mapping import BATCH, at_epoch, deterministic, mapped, probed, step
from dataview.samples.numbered import Made, name_of, stacked
from dataview.samples.random_numbers import RandomKeys, random_keys
from dataview.samples.row_functions import Undeclared
from dataview.samples.streams import (
    DerivedSamples,
    Kept,
    Produced,
    Stream,
    again,
    kept,
    keyed,
    length_of,
    pool_of,
    pooled,
    samples_of,
    within_pool,
)
from dataview.samples.unique import counted_values, distinct

__all__ = [
    "BATCH", "DerivedSamples", "Kept", "Made", "Produced", "RandomKeys", "Stream", "Undeclared",
    "again", "at_epoch", "cached", "counted_values", "deterministic", "distinct", "kept",
    "keyed", "length_of", "mapped", "name_of", "pool_of", "pooled", "probed", "random_keys",
    "samples_of", "stacked", "step", "within_pool"
]  # fmt: skip
