"""Loaders: batches epoch after epoch, dealt, read, transformed and collated, by workers or not."""

from dataview.loader.collate import Pad, collated
from dataview.loader.loader import Loader
from dataview.loader.options import LoaderOptions, MinibatchOptions, takes
from dataview.loader.plan import plan_for

__all__ = ["Loader", "LoaderOptions", "MinibatchOptions", "Pad", "collated", "plan_for", "takes"]
