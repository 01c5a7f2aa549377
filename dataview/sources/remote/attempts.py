"""Attempts that are repeated after growing pauses, as long as there is hope."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""The seconds after which a failed attempt is repeated: first, and as they double, at most."""

_chance = random.SystemRandom()  # the generator that the user has seeded stays as it is


class BrokenOff(ConnectionError):
    """A transfer that ended before the file did."""


def check_patience(timeout: Any, deadline: Any) -> None:
    """Raise if what says how long a server is waited for are no numbers of seconds."""
    for name, value in (("timeout", timeout), ("deadline", deadline)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not value >= 0 or (name == "timeout" and not value):
            raise ValueError(f"{name}= is a number of seconds; got {value!r}")


def repeated(
    attempt: Callable[[], Result],
    is_passing: Callable[[Exception], bool],
    deadline: float,
    arrived: Callable[[], int] = lambda: 0,
    told: Callable[[Exception], float] = lambda error: 0.0,
) -> Result:
    """Make an attempt until one succeeds, or nothing has arrived for too long.

    `is_passing` says of an error whether a later attempt may succeed, `told` how many seconds the
    server asks to wait for it, `arrived` how many bytes are there.
    """
    since, count, pause = time.monotonic(), 0, PAUSE
    while True:
        try:
            return attempt()
        except Exception as error:
            if not is_passing(error):
                raise
            if arrived() > count:
                since, count, pause = time.monotonic(), arrived(), PAUSE
            wait = max(pause * _chance.uniform(0.5, 1), told(error))
            if time.monotonic() + max(pause, wait) > since + deadline:
                raise
        time.sleep(wait)
        pause = min(2 * pause, LONGEST_PAUSE)
