"""What is chosen for the lines below a ``with``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Any, Generic, Self, TypeVar

from dataview.errors import warn

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Setting(ContextDecorator, Generic[T]):
    """A value for a context variable inside a ``with`` block, or while a function runs.

    A statement that only makes one would do nothing, so a warning says what to write.
    `call` is what the user has written, `otherwise` what makes the same choice everywhere.
    """

    def __init__(self, variable: ContextVar[T], value: T, call: str, otherwise: str = "") -> None:
        self._variable, self._value = variable, value
        self._call, self._otherwise = call, otherwise
        self._tokens: list[Token[T]] = []
        self._is_used = False

    def __enter__(self) -> T:
        self._is_used = True
        self._tokens.append(self._variable.set(self._value))
        return self._value

    def __exit__(self, *failure: object) -> None:
        self._variable.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        """Return the function, which runs with this setting."""
        self._is_used = True
        return super().__call__(function)

    def _recreate_cm(self) -> Self:
        """Return the setting for one call of a function, as calls may run at the same time."""
        return type(self)(self._variable, self._value, self._call, self._otherwise)

    def _advice(self) -> str:
        block = f"write 'with {self._call}:' and indent the lines below it"
        remedies = f"{block}, or {self._otherwise}" if self._otherwise else block
        return f"{self._call} has no effect without 'with'; {remedies}"

    def __repr__(self) -> str:
        return f"<{self._advice()}>"

    def __del__(self) -> None:
        if not self._is_used:
            warn(self._advice())


def written(function: str, value: Any) -> str:
    """Return how a user calls a function of this package with a value, in short.

    >>> written("progress", False), written("progress", print)
    ('dv.progress(False)', 'dv.progress(print)')
    """
    shown = getattr(value, "__name__", None) or repr(value)
    return f"dv.{function}({shown if len(shown) <= 40 else '…'})"
