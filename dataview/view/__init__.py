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
from dataview.view.hints import advice_of_module
from dataview.view.view import View

__all__ = [
    "View", "advice_of_module", "collate", "concat", "evaluate", "field", "function", "open",
    "ragged", "recover", "symbol", "zip",
]  # fmt: skip
