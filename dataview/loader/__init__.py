"""Batches handed out epoch after epoch: dealt, read, transformed, collated, by workers or not."""

from dataview.loader.collate import Pad, collated
from dataview.loader.loader import Loader
from dataview.loader.options import LoaderOptions, MinibatchOptions, Options, takes
from dataview.loader.plan import Lent, made

__all__ = [
    "Lent",
    "Loader",
    "LoaderOptions",
    "MinibatchOptions",
    "Options",
    "Pad",
    "collated",
    "made",
    "takes",
]
