"""Batches handed out epoch after epoch: dealt, read, transformed, collated, by workers or not."""

from dataview.loader.collate import Pad, collated
from dataview.loader.loader import Loader
from dataview.loader.options import Lent, Options, made

__all__ = ["Lent", "Loader", "Options", "Pad", "collated", "made"]
