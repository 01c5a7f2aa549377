"""Minibatches: rows grouped, in the order of a sampler, into a view of views."""

from dataview.batches.minibatches import grouped
from dataview.batches.padding import PaddedRows, valid
from dataview.batches.reading import reader_of
from dataview.batches.uneven import Batches

__all__ = ["Batches", "PaddedRows", "grouped", "reader_of", "valid"]
