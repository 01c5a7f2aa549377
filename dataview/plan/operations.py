"""What is computed element by element: NumPy's ufuncs, and its functions that are none.

A function without a ufunc of its own becomes an `Operation`, which is called as a ufunc is, so that
every step of a plan is computed in one way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of NumPy's as an elementwise step; `options` are its arguments besides operands.

    >>> Operation("round", (("decimals", 1),))(np.array([0.26, 1.0]))
    array([0.3, 1. ])
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    nout = 1
    signature = None

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *operands: Any, out: tuple[np.ndarray, ...] | None = None) -> Any:
        """Return the result, or write it into `out`."""
        function = _INTO.get(self.name)
        if out is None:
            return _ALONE[self.name](*operands, **dict(self.options))
        if function is None:
            np.copyto(out[0], _ALONE[self.name](*operands, **dict(self.options)))
        else:
            function(out[0], *operands, **dict(self.options))
        return out[0]


Ufunc: TypeAlias = "np.ufunc | Operation"

BINARY: Mapping[str, np.ufunc] = {
    "add": np.add,
    "and": np.bitwise_and,
    "floordiv": np.floor_divide,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lshift": np.left_shift,
    "lt": np.less,
    "mod": np.remainder,
    "mul": np.multiply,
    "or": np.bitwise_or,
    "rshift": np.right_shift,
    "sub": np.subtract,
    "truediv": np.divide,
    "xor": np.bitwise_xor,
}
"""Python's operators of two operands, by the middle of their methods' names; powers are apart."""


# --- the functions, and those of them that can write into an array -----------------------------


def _astype(values: Any, dtype: Any, casting: Any) -> np.ndarray:
    values = np.asarray(values)
    part_is_lost = values.dtype.kind == "c" and np.dtype(dtype).kind in "iuf"
    if part_is_lost and not values.size and casting == "unsafe":
        values = values.real  # of no number, so that NumPy has nothing to warn of
    found: np.ndarray = values.astype(dtype, casting=casting)
    return found


def _real(values: Any) -> np.ndarray:
    return np.array(np.real(values))


def _imag(values: Any) -> np.ndarray:
    return np.array(np.imag(values))


def _cast_into(out: np.ndarray, values: Any, dtype: Any, casting: Any) -> None:
    np.copyto(out, values, casting=casting)


def _where_into(out: np.ndarray, condition: Any, chosen: Any, other: Any) -> None:
    np.copyto(out, other, casting="unsafe")
    np.copyto(out, chosen, casting="unsafe", where=np.asarray(condition).astype(bool, copy=False))


def _clip_into(out: np.ndarray, values: Any, low: Any, high: Any) -> None:
    np.clip(values, low, high, out=out)


def _round_into(out: np.ndarray, values: Any, decimals: int) -> None:
    np.round(values, decimals, out=out)


_ALONE: Mapping[str, Callable[..., Any]] = {
    "angle": np.angle,
    "astype": _astype,
    "clip": np.clip,
    "fix": np.fix,
    "i0": np.i0,
    "imag": _imag,  # NumPy's own would lend the memory of its operand
    "isclose": np.isclose,
    "iscomplex": np.iscomplex,
    "isneginf": np.isneginf,
    "isposinf": np.isposinf,
    "isreal": np.isreal,
    "nan_to_num": np.nan_to_num,
    "real": _real,
    "round": np.round,
    "sinc": np.sinc,
    "where": np.where,
}
_INTO: Mapping[str, Callable[..., None]] = {
    "astype": _cast_into,
    "clip": _clip_into,
    "round": _round_into,
    "where": _where_into,
}


# --- powers ------------------------------------------------------------------------------------


class _Taken(Exception):
    """Which ufunc NumPy took."""


class _Asked(np.ndarray):
    """An array that tells by which ufunc an operator is computed."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        raise _Taken(ufunc, inputs[0].dtype)


def power_of(dtype: np.dtype[Any], exponent: Any) -> np.ufunc:
    """Return the ufunc by which NumPy computes `array ** exponent`: one operand, or two.

    Squares and roots are not powers to NumPy's operator: their last bits and dtypes are others.

    >>> power_of(np.dtype("f4"), 2), power_of(np.dtype("f4"), 3)
    (<ufunc 'square'>, <ufunc 'power'>)
    """
    return _asked_power(dtype, type(exponent).__name__, repr(exponent), exponent)


@lru_cache(maxsize=256)
def _asked_power(dtype: np.dtype[Any], kind: str, text: str, exponent: Any) -> np.ufunc:
    try:
        np.ones(1, dtype).view(_Asked) ** exponent
    except _Taken as taken:
        found: np.ufunc = taken.args[0]
        return found if taken.args[1] == dtype else np.power  # NumPy 2.0 converts some before
    except TypeError:  # the ufunc says what is wrong with these operands
        return np.power
    return np.power
