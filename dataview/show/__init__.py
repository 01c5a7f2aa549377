"""A view as words, formula, picture, HTML and plan, never by reading.

What reads is named so: `describe`, and pictures of rows that are asked for.
"""

from dataview.show.cells import MISSING
from dataview.show.describe import described
from dataview.show.description import Description
from dataview.show.explain import Explanation, explained
from dataview.show.facts import is_closed, is_small_sample
from dataview.show.formulas import refused_by_objects
from dataview.show.gallery import Gallery, gallery
from dataview.show.outline import text, title
from dataview.show.page import html
from dataview.show.plots import plotted
from dataview.show.thumbnails import (
    has_images_of_several_sizes,
    is_one_image,
    may_be_image,
)
from dataview.show.values import is_found, is_shown
from dataview.show.words import harmless, name_of, size_text

__all__ = [
    "MISSING", "Description", "Explanation", "Gallery", "described", "explained", "gallery",
    "harmless", "has_images_of_several_sizes", "html", "is_closed", "is_found", "is_one_image",
    "is_shown", "is_small_sample", "may_be_image", "name_of", "plotted", "refused_by_objects",
    "size_text", "text", "title",
]  # fmt: skip
