"""Lazy, symbolic views of data: one class for a number, a sample, a dataset and its minibatches.

>>> import numpy as np
>>> import dataview as dv
>>> d = dv.View(np.arange(12).reshape(4, 3), input=np.s_[:2], target=np.s_[2])
>>> d.input[1:3]()
array([[3, 4],
       [6, 7]])
"""

import importlib
import sys
import types

from dataview import cache, samplers, spaces
from dataview.compute import engine, executor
from dataview.errors import (
    FieldError,
    InterruptedWriteError,
    PartialWriteError,
    RaggedError,
    ReadOnlyError,
    StreamError,
    UndeclaredError,
)
from dataview.errors import unknown_name as _unknown_name
from dataview.formats import register_decoder
from dataview.index.progress import progress
from dataview.loader import Pad
from dataview.view import (
    View,
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
from dataview.view import (
    advice_of_module as _advice_of_module,
)

__version__ = "0.1.0"

specs = spaces.specs
sys.modules[f"{__name__}.specs"] = specs  # so that it can be imported by this name, too


class _Wing(types.ModuleType):
    """A module of the package whose name users take for a function: `dv.view(X)`."""

    def __call__(self, *_: object, **__: object) -> object:
        name = self.__name__.rpartition(".")[2]
        advice = _advice_of_module(name, vars(View))
        raise TypeError(f"dv.{name} is a module, and no function; {advice}")

    def __reduce__(self) -> tuple[object, ...]:  # libraries pickle modules by their exact class
        return importlib.import_module, (self.__name__,)


for _name in ("batches", "loader", "show", "view", "write"):
    sys.modules[f"{__name__}.{_name}"].__class__ = _Wing


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    raise _unknown_name(name, __all__, __name__, _advice_of_module(name, vars(View)))


__all__ = [
    "FieldError",
    "InterruptedWriteError",
    "Pad",
    "PartialWriteError",
    "RaggedError",
    "ReadOnlyError",
    "StreamError",
    "UndeclaredError",
    "View",
    "cache",
    "collate",
    "concat",
    "engine",
    "evaluate",
    "executor",
    "field",
    "function",
    "open",
    "progress",
    "ragged",
    "recover",
    "register_decoder",
    "samplers",
    "spaces",
    "specs",
    "symbol",
    "zip",
]
