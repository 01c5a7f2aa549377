"""Minibatches: the rows of a view, in the order of a sampler, grouped into batches."""

from dataview.batches.dealing import Dealing
from dataview.batches.minibatches import grouped
from dataview.batches.padding import marked, valid
from dataview.batches.uneven import Batches

__all__ = ["Batches", "Dealing", "grouped", "marked", "valid"]
