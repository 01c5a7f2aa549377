"""Shapes for messages and displays."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dataview.index.algebra import is_endless


def shape_text(lengths: Iterable[float | None] | None) -> str:
    """Return a shape as text, with ? for what is unknown; of many axes the first and the last.

    >>> shape_text((None, 3)), shape_text((4,)), shape_text((math.inf, 2)), shape_text(None)
    ('(?, 3)', '(4,)', '(endless, 2)', '?')
    """
    if lengths is None:
        return "?"
    words = list(map(length_text, lengths))
    words = words if len(words) <= 8 else [*words[:6], "…", words[-1]]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def length_text(length: float | None) -> str:
    """Return a length as text.

    >>> length_text(None), length_text(7), length_text(2**62)
    ('?', '7', 'endless')
    """
    if length is None:
        return "?"
    return "endless" if length == math.inf or is_endless(int(length)) else str(int(length))
