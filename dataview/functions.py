"""The functions of the package that make views: open, field, concat, zip."""

from __future__ import annotations

from typing import Any

from dataview import declaring, opening
from dataview.face import node_from
from dataview.fields import WindowSpec
from dataview.joining import concat as concat_nodes
from dataview.view import View, viewed

__all__ = ["concat", "field", "open", "zip"]


def open(path: Any, mode: str = "r") -> View:
    """Open a file as a view; `mode="r+"` lets the view write to it."""
    return viewed(opening.open_node(path, mode))


def field(window: Any, /, **fields: Any) -> WindowSpec:
    """Declare a window that has windows of its own, counted from its start.

    >>> import numpy as np
    >>> d = View(np.arange(6).reshape(2, 3), pos=field(np.s_[1:], x=0, y=1))
    >>> d.pos.y()
    array([2, 5])
    """
    return WindowSpec(window, fields)


def concat(*views: Any) -> View:
    """Return the views one after the other; fields are joined by name.

    >>> concat(View([1, 2]), View([3]))[-2:]()
    array([2, 3])
    """
    parts = views[0] if len(views) == 1 and isinstance(views[0], (list, tuple)) else views
    return viewed(concat_nodes([node_from(part) for part in parts]))


def zip(*views: Any, **fields: Any) -> View:
    """Return the record of views of one length, row by row: given by name, or f0, f1 and so on.

    >>> zip(x=[1, 2], y=View([3, 4]))[0]._asdict()
    {'x': np.int64(1), 'y': np.int64(3)}
    """
    named = {f"f{number}": part for number, part in enumerate(views)} | fields
    return viewed(declaring.zipped({name: node_from(part) for name, part in named.items()}))
