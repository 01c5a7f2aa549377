"""A view as words, formula, picture, HTML and plan, never by reading.

What reads is named so: `describe`, and pictures of rows that are asked for.
"""

from dataview.show.describe import Description, described
from dataview.show.display import text, title
from dataview.show.explain import Explanation, explained
from dataview.show.gallery import Gallery, gallery
from dataview.show.page import html
from dataview.show.plots import plotted
from dataview.show.thumbnails import is_one_image
from dataview.show.values import is_found, is_shown
from dataview.show.words import size_text

__all__ = [
    "Description", "Explanation", "Gallery", "described", "explained", "gallery", "html",
    "is_found", "is_one_image", "is_shown", "plotted", "size_text", "text", "title",
]  # fmt: skip
