"""Minibatches: the rows of a view, in the order of a sampler, grouped into batches."""

from dataview.batches.minibatches import grouped
from dataview.batches.padding import PaddedRows, valid
from dataview.batches.uneven import Batches

__all__ = ["Batches", "PaddedRows", "grouped", "valid"]
