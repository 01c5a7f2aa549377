"""The results of the newest NumPy, where an older supported version has other results.

With every version of NumPy, the model has the results of the newest one. Each difference is found
by trying, not by the version: where there is none, a function here is NumPy's own.
"""

import warnings

import numpy as np
import pytest

# ---------------------------------------------------------------- keys

OUTSIDE = "Out of bound index found"
"""The start of NumPy 2.0's warning of a key that is out of bounds and selects nothing."""


def heed_keys_outside():
    """Let NumPy 2.0 refuse what it would only warn of, while other warnings are ignored."""
    warnings.filterwarnings("error", OUTSIDE, DeprecationWarning)


def refusal(error):
    """Give the exception that the newest NumPy raises where this one was raised."""
    if isinstance(error, DeprecationWarning) and str(error).startswith(OUTSIDE):
        return IndexError(str(error))
    return error


# ---------------------------------------------------------------- writing


def _copyto_looks_at_values():
    try:
        np.copyto(np.zeros(1, "i1"), 300, casting="same_kind")
    except OverflowError:
        return False
    return True


COPYTO_LOOKS_AT_VALUES = _copyto_looks_at_values()
"""NumPy 2.0 casts a single number by its value, as before NEP 50, and wraps it: 300 becomes 44."""


def copyto(landed, value, casting="same_kind"):
    """Write a value into an array, by the kinds and sizes of dtypes alone."""
    if COPYTO_LOOKS_AT_VALUES:
        if type(value) is int and landed.dtype.kind in "iufc":
            value = np.asarray(value, landed.dtype)
        elif isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
            landed, value = landed[None], np.asarray(value)[None]  # no single number any more
    np.copyto(landed, value, casting=casting)


# ---------------------------------------------------------------- operators

COMPARING_CRASHES = np.lib.NumpyVersion(np.__version__) < "2.2.2"
"""NumPy may crash (its issue 28117) where integers that do not lie side by side are compared with
one of Python's that their dtype cannot hold. This alone cannot be looked for."""

EQUALITY_IS_PLAIN = type(np.timedelta64(0, "s") == np.datetime64(0, "s")) is bool
"""NumPy 2.0 says Python's False where two single things are of no common kind, not its own."""


def computed(operation, *operands):
    """Give the result of an operation on arrays and numbers, or on views."""
    if COMPARING_CRASHES and any(type(operand) is int for operand in operands):
        operands = map(_side_by_side, operands)
    found = operation(*operands)
    return np.bool_(found) if EQUALITY_IS_PLAIN and type(found) is bool else found


def _side_by_side(operand):
    if isinstance(operand, np.ndarray) and operand.dtype.kind in "iu":
        return np.array(operand, operand.dtype.newbyteorder("="), order="C")
    return operand


SQUARES_INTEGERS = (np.ones(1, "i1") ** np.float32(2)).dtype != np.float32
"""NumPy 2.0 squares integers for x**2.0 whatever the dtype of 2.0, and so accepts x **= 2.0."""


def _is_squared(base, exponent):
    floating = np.asarray(exponent).dtype.kind == "f"
    return SQUARES_INTEGERS and floating and base.dtype.kind in "iu" and exponent == 2


def power(base, exponent):
    """Give the power of an array, or of a view, that the operator gives."""
    if isinstance(base, np.ndarray) and _is_squared(base, exponent):
        return np.power(base, exponent)
    return base**exponent


def power_in_place(base, exponent):
    """Change an array, or a view, into its power as the operator does."""
    if isinstance(base, np.ndarray) and _is_squared(base, exponent):
        np.power(base, exponent, out=base)
    else:
        base **= exponent


# ---------------------------------------------------------------- quantiles

ROUNDS_PLACES = np.quantile(np.arange(41, dtype="f2"), 0.3, method="hazen") != np.float16(11.8)
"""NumPy 2.0 looks for the place of a quantile in the precision of the data, not in double."""


def quantile(data, q, **options):
    """Give quantiles whose places among the data are found in double precision."""
    single = data.dtype.kind == "f" and data.dtype.itemsize < 8 and type(q) in (int, float)
    if not (ROUNDS_PLACES and single):
        return np.quantile(data, q, **options)
    inside = np.lib._function_base_impl
    between = inside._lerp
    with pytest.MonkeyPatch.context() as patch:
        # An array q stays in double precision; only the share of the way is as precise as the data.
        patch.setattr(inside, "_lerp", lambda a, b, t, out: between(a, b, t.astype(a.dtype), out))
        return np.quantile(data, np.array(q), **options)
