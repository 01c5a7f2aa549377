"""The public interface: the class `View` in groups of verbs, and the functions of the package."""

from dataview.view.functions import (
    collate,
    concat,
    evaluate,
    field,
    function,
    open,
    ragged,
    recover,
    symbol,
    zip,
)
from dataview.view.view import View

__all__ = [
    "View", "collate", "concat", "evaluate", "field", "function", "open", "ragged", "recover",
    "symbol", "zip",
]  # fmt: skip
