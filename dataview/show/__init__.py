"""A view as words, formula, picture, HTML and plan, never by reading; `describe` reads."""

from dataview.show.describe import Description, described
from dataview.show.display import html, text, title
from dataview.show.explain import Explanation, explained

__all__ = ["Description", "Explanation", "described", "explained", "html", "text", "title"]
