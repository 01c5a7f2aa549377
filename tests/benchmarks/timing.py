"""Time contestants in turn, and print what was measured as tables of reStructuredText.

A round times each contestant once, so that a slow moment of the machine affects all of them. The
first contestant is the base; the ratios to it are taken within each round. Importing this file
makes the package of this tree the one that is timed, whether or not a copy is installed.
"""

from __future__ import annotations

import sys
import timeit
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

ROUNDS = 51
TURN = 2e-3
"""How many seconds a contestant repeats its call in each round; one call may take longer."""

Contestant = str | Callable[[], object]
"""A statement, timed without the cost of calling a function, or a function."""


class Timed(NamedTuple):
    """What was measured of a contestant: in each round the seconds per call, and the ratio."""

    seconds: np.ndarray
    ratios: np.ndarray


def timed(
    contestants: Mapping[str, Contestant],
    names: Mapping[str, Any] | None = None,
    rounds: int = ROUNDS,
) -> dict[str, Timed]:
    """Time all contestants, the first of them the base; `names` are what statements refer to.

    As timeit has it, the collector of garbage is off.
    """
    timers = [timeit.Timer(call, globals=dict(names or {})) for call in contestants.values()]
    calls = [_calls_in_a_turn(timer) for timer in timers]
    generator = np.random.default_rng(0)
    seconds = np.empty((len(timers), rounds))
    for turn in range(rounds):
        # The order changes: what ran before leaves the caches warm for some and cold for others.
        for number in generator.permutation(len(timers)):
            seconds[number, turn] = timers[number].timeit(calls[number]) / calls[number]
    return dict(zip(contestants, map(Timed, seconds, seconds / seconds[0]), strict=True))


def _calls_in_a_turn(timer: timeit.Timer) -> int:
    number = 1
    while (taken := timer.timeit(number)) < TURN / 2:
        number *= 2
    return max(1, round(number * TURN / taken)) if number > 1 else 1


def statements(*names: str) -> dict[str, str]:
    """Return by its name each contestant that shows its statement in its name.

    >>> statements("NumPy: ``a[5:10]``", "a view: ``d[5:10]``")
    {'NumPy: ``a[5:10]``': 'a[5:10]', 'a view: ``d[5:10]``': 'd[5:10]'}
    """
    return {name: name.split("``")[1] for name in names}


def same(contestants: Mapping[str, str], names: Mapping[str, Any]) -> dict[str, str]:
    """Return the contestants whose result equals the base's; report and leave out the others."""
    equal: dict[str, str] = {}
    expected: np.ndarray | None = None
    for name, code in contestants.items():
        found = np.asarray(eval(code, dict(names)))
        expected = found if expected is None else expected
        if found.dtype == expected.dtype and np.array_equal(found, expected):
            equal[name] = code
        else:
            print(f"{name} gives another result, and is not timed", file=sys.stderr)
    return equal


def peak(call: Callable[[], object]) -> int:
    """Return how many bytes Python and NumPy hold at most during a call, beyond those before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# -------------------- printing --------------------


def spread(values: np.ndarray) -> str:
    """Return the median of the values with the 10th and the 90th percentile.

    >>> spread(np.arange(101.0))
    '50.0 (10.0–90.0)'
    """
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{_digits(middle)} ({_digits(low)}–{_digits(high)})"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(2.5e-7), duration(0.0123)
    ('250 ns', '12.3 ms')
    """
    for unit, size in {"s": 1.0, "ms": 1e-3, "us": 1e-6}.items():
        if seconds >= size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds * 1e9)} ns"


def megabytes(count: float) -> str:
    """Return a number of bytes in MB."""
    return f"{count / 1e6:.2f} MB"


def _digits(value: float) -> str:
    """Return a number with three digits, or all of those before its point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its first column is flush left, the others are flush right."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    printed = [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
        for first, *others in lines
    ]
    return "\n".join([rule, printed[0], rule, *printed[1:], rule])


def comparison(
    measured: Mapping[str, Timed],
    limits: Mapping[str, float] | None = None,
    per: float = 1,
    **columns: Mapping[str, str],
) -> str:
    """Return the table of what was measured: time, ratio, more columns, and the limit in the end.

    `per` divides the times, where a call does a thing many times.
    """
    limits = limits or {}
    headings = ["system", "time", "ratio to base (p10–p90)", *columns, "limit"]
    rows = [
        [
            name,
            duration(float(np.median(seconds)) / per),
            "base" if number == 0 else spread(ratios),
            *(column.get(name, "") for column in columns.values()),
            f"{limits[name]:g}" if name in limits else "",
        ]
        for number, (name, (seconds, ratios)) in enumerate(measured.items())
    ]
    return table(headings, rows)


def heading(text: str) -> str:
    """Return a heading with an empty line around it."""
    return f"\n{text}\n{'-' * len(text)}\n"
