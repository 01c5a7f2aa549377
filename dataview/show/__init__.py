"""A view as words, formula, picture, HTML and plan, never by reading; `describe` reads."""

from dataview.show.describe import Description, described
from dataview.show.display import text, title
from dataview.show.explain import Explanation, explained
from dataview.show.page import html

__all__ = ["Description", "Explanation", "described", "explained", "html", "text", "title"]
