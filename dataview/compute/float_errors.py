"""Floating-point errors: noted while blocks run, and reported once, in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from dataview.errors import warn

_MODES = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}
"""The name that `np.errstate` has for each kind of error, in the order of NumPy's flags."""


class FloatErrors(dict[tuple[int, str], str]):
    """The name of the step that failed, by the number of the step and the kind of error."""

    def noting(self, step: Callable[[], tuple[int, str]]) -> AbstractContextManager[Any]:
        """Note the errors that happen in this context; `step` returns whose fault each one is."""

        def note(kind: str, flag: int) -> None:
            number, name = step()
            self[number, kind] = name

        return np.errstate(all="call", call=note)

    def noting_in(self, name: str) -> AbstractContextManager[Any]:
        """Note the errors that happen in this context, all of them in one step."""
        return self.noting(lambda: (0, name))

    def report(self) -> None:
        """Treat each error once, as the caller's `errstate` says."""
        modes = np.geterr()
        for (_, kind), name in sorted(self.items()):
            mode = modes[_MODES[kind]]  # type: ignore[literal-required]
            message = f"{kind} encountered in {name}"
            if mode == "raise":
                raise FloatingPointError(message)
            if mode == "warn":
                warn(message)
            elif mode == "call":
                flag = 1 << [*_MODES].index(kind)  # NumPy's bit for this kind of error
                np.geterrcall()(kind, flag)  # type: ignore[operator, misc]
            elif mode == "print":
                print(f"Warning: {message}")
            elif mode == "log":
                np.geterrcall().write(f"Warning: {message}\n")  # type: ignore[union-attr]
