"""What is computed element by element: a table with one row for each operation.

A function of NumPy's without a ufunc becomes a `NumpyFunction`, which is called as a ufunc is, so
that every step of a plan is computed in one way.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.errors import error_at
from dataview.index import broadcast_shapes

# --- functions that are no ufuncs --------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class NumpyFunction:
    """A function of NumPy's as an elementwise step; `options` are its arguments besides operands.

    A number that does not fit is an error that says with `where` what it is computed of.

    >>> NumpyFunction("round", (("decimals", 1),))(np.array([0.26, 1.0]))
    array([0.3, 1. ])
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    where: str = ""

    nout = 1
    signature = None

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def needs_own_output(self) -> bool:
        """Whether the result needs memory apart from the operands."""
        return _ROWS[self.name].own_output

    def __call__(self, *operands: Any, out: tuple[np.ndarray, ...] | None = None) -> Any:
        """Return the result, or write it into `out`."""
        try:
            return self._result(operands, out)
        except OverflowError as error:
            if not self.where:
                raise
            raise error_at(error, self.where) from None

    def _result(self, operands: tuple[Any, ...], out: tuple[np.ndarray, ...] | None) -> Any:
        operation, options = _ROWS[self.name], dict(self.options)
        if out is None:
            return operation.function(*operands, **options)
        if operation.into is None:
            np.copyto(out[0], operation.function(*operands, **options))
        else:
            operation.into(*operands, out=out[0], **options)
        return out[0]


@dataclass(frozen=True, slots=True, repr=False)
class Masked:
    """A function applied where its first operand is true; elsewhere the second one is the result.

    It computes nothing elsewhere, so nothing there can warn.

    >>> Masked(np.divide)(np.array([True, False]), np.array([7.0, 8.0]), 1.0, np.array([2.0, 0.0]))
    array([0.5, 8. ])
    """

    function: Callable[..., Any]

    nout = 1
    signature = None

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(
        self, mask: Any, kept: Any, *operands: Any, out: tuple[np.ndarray, ...] | None = None
    ) -> np.ndarray:
        """Return the result, which has the dtype of what is kept, or write it into `out`."""
        shape = broadcast_shapes(*map(np.shape, (mask, kept, *operands)))
        found = np.empty(shape, np.asarray(kept).dtype) if out is None else out[0]
        np.copyto(found, kept)
        if self.function in IN_A_ROW:
            np.copyto(found, self.function(*operands), where=mask)
        else:
            self.function(*operands, out=found, where=mask)
        return found


def copied(values: Any, out: np.ndarray, where: Any) -> None:
    """Copy values into `out` where a mask is true, converted as `astype` does it."""
    np.copyto(out, _as_texts(np.asarray(values), out.dtype), casting="unsafe", where=where)


def sqrt(values: Any, out: np.ndarray, where: Any) -> None:
    """Put the square roots of objects into `out` where a mask is true."""
    ROOTS(values, out=out, where=where)


ROOTS = np.frompyfunc(np.sqrt, 1, 1)
"""The square roots of objects: some have a method of that name, others are numbers."""


Ufunc: TypeAlias = "np.ufunc | NumpyFunction | Masked"


def _check_all_texts(values: np.ndarray, dtype: Any) -> None:
    """Raise if NumPy would write None as a text of four letters."""
    kind = np.dtype(dtype).kind
    if values.dtype.kind == "O" and kind in "SU" and any(value is None for value in values.flat):
        raise ValueError(
            f"no {np.dtype(dtype)} stands for None, which is among the values; _fillna('') puts an "
            "empty text there first"
        )


def _astype(values: Any, dtype: Any, casting: Any) -> np.ndarray:
    values = np.asarray(values)
    _check_all_texts(values, dtype)
    part_is_lost = values.dtype.kind == "c" and np.dtype(dtype).kind in "iuf"
    if part_is_lost and not values.size and casting == "unsafe":
        values = values.real  # of no number, so that NumPy has nothing to warn of
    try:
        found: np.ndarray = _as_texts(values, dtype).astype(dtype, casting=casting)
    except ValueError as error:
        value = _first_refused(values, dtype)
        if value is None:
            raise
        raise ValueError(
            f"{value!r} cannot be converted to {np.dtype(dtype)}; "
            f"np.where(d == {value!r}, other, d) puts another value there, and "
            f"dv.open(path, missing=[{value!r}]) takes it for missing"
        ) from error
    return found


def _first_refused(values: np.ndarray, dtype: Any) -> str | bytes | None:
    """Return the first text that is none of a dtype, None if there is none."""
    for value in values.flat if values.dtype.kind in "OSUT" else ():
        if isinstance(value, (str, bytes)):
            try:
                np.array([value], values.dtype).astype(dtype)
            except ValueError:
                return value
    return None


def _as_texts(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Return durations that become texts as texts of any length: NumPy makes them of 21 letters.

    >>> _as_texts(np.array([1000000000, "NaT"], "m8[ns]"), "U")
    array(['1000000000 nanoseconds', 'NaT'], dtype='<U32')
    """
    if values.dtype.kind != "m" or np.dtype(dtype).kind not in "SU":
        return values
    unit, step = np.datetime_data(values.dtype)
    word = str(np.array(0, f"m8[{unit}]")).removeprefix("0")
    numbers = values.astype(np.int64)
    found: np.ndarray = np.strings.add((numbers * step).astype("U20"), word)
    return np.where(numbers == np.iinfo(np.int64).min, np.array("NaT"), found)


def sized(wanted: np.dtype[Any], own: np.dtype[Any]) -> np.dtype[Any]:
    """Return texts of no length that durations become as those of the longest one.

    >>> sized(np.dtype("U"), np.dtype("m8[D]")), len("-9223372036854775807 days")
    (dtype('<U25'), 25)
    """
    if own.kind != "m" or wanted.kind not in "SU" or wanted.itemsize:
        return wanted
    longest = np.array(-np.iinfo(np.int64).max, f"m8[{np.datetime_data(own)[0]}]")
    return np.dtype(f"{wanted.kind}{len(str(longest))}")


def is_present(values: Any) -> np.ndarray:
    """Return where there is a value: not None, NaN or NaT.

    >>> is_present(np.array(["a", None, np.nan], object)).tolist()
    [True, False, False]
    """
    values = np.asarray(values)
    if not may_be_missing(values.dtype):
        return np.ones(values.shape, bool)
    if values.dtype.hasobject:
        flat = values.reshape(-1).tolist()
        try:
            found = [value is not None and value == value for value in flat]
        except ValueError:  # arrays of arrays have no answer, and are there
            whole = [isinstance(value, np.ndarray) for value in flat]
            flat = [own or value for own, value in zip(whole, flat, strict=True)]
            found = [value is not None and value == value for value in flat]
        if not set(map(type, found)) <= _BOOLS:  # of an array elements, of pandas' NA itself
            found = [
                same if type(same) in _BOOLS else same is not value
                for same, value in zip(found, flat, strict=True)
            ]
        return np.array(found, bool).reshape(values.shape)
    return np.asarray(values == values)


_BOOLS = {bool, np.bool_}


TEXTS = "UST"
"""The kinds of texts, which have an order and no arithmetic."""


def may_be_missing(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype may be None, NaN or NaT."""
    return dtype.kind not in "biuSUV"


def nothing_in(dtype: np.dtype[Any]) -> Any:
    """Return what stands in data of a dtype where a value is missing; where none can, it is 0."""
    if dtype.kind in "mM":
        return np.array("NaT", dtype)[()]
    return {"f": np.nan, "c": np.nan, "O": None}.get(dtype.kind, np.zeros((), dtype)[()])


def _known(answer: Any, present: Any) -> np.ndarray:
    """Return answers to a question, which is no where nothing is known."""
    return np.asarray(np.logical_and(answer, present))


def _paired(values: Any, mask: Any) -> np.ndarray:
    """Return pairs of a value and whether there are data."""
    values, mask = np.broadcast_arrays(values, mask)
    found = np.empty(values.shape, [("value", values.dtype), ("mask", bool)])
    found["value"], found["mask"] = values, mask
    return found


def is_cast(ufunc: Any) -> bool:
    """Whether an operation returns the same numbers in another dtype."""
    return getattr(ufunc, "name", None) in ("astype", "fitting")


def _real(values: Any) -> np.ndarray:
    return np.array(np.real(values))


def _imag(values: Any) -> np.ndarray:
    return np.array(np.imag(values))


def _fitting(values: Any, dtype: Any, exact: bool = False) -> np.ndarray:
    """Return numbers in a narrower dtype, or raise if one does not fit into it.

    As floats numbers may lose digits; integers may not if `exact` is true.
    """
    found: np.ndarray = np.empty_like(np.asarray(values), dtype)
    _fitting_into(values, dtype, found, exact)
    return found


def _fitting_into(values: Any, dtype: Any, out: np.ndarray, exact: bool = False) -> None:
    values, dtype = np.asarray(values), np.dtype(dtype)
    if _surely_fits(values, dtype):
        np.copyto(out, values, "unsafe")
        return
    exact = exact and values.dtype.kind in "iu"
    if not exact and dtype.kind in "fc" and (values.dtype.kind != "c" or dtype.kind == "c"):
        with contextlib.suppress(FloatingPointError), np.errstate(over="raise", invalid="ignore"):
            np.copyto(out, values, "unsafe")  # which raises if a finite one becomes infinite
            return
    real = values.real if dtype.kind != "c" else values
    with np.errstate(invalid="ignore", over="ignore"):
        np.copyto(out, real, "unsafe")
    if dtype.kind in "fc":
        lost = np.isfinite(values) & ~np.isfinite(out)
        if dtype.kind == "f":
            lost = lost | (values.imag != 0)
        if exact:
            lost = lost | _are_rounded(values, out.real)
    else:
        lost = out != values
    if lost.any():
        text = str(values[lost].flat[0])
        raise OverflowError(f"{text} does not fit into {dtype}; {values.dtype} holds it")


def _are_rounded(values: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Return where integers are not the same as floats."""
    with np.errstate(invalid="ignore"):
        is_beyond = floats.astype(np.float64) >= np.iinfo(values.dtype).max + 1.0
        return np.asarray(is_beyond | (floats.astype(values.dtype) != values))


def _surely_fits(values: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether all integers fit, found out without a comparison for each."""
    if values.dtype.kind not in "iu" or dtype.kind not in "iu" or not values.size:
        return False
    limits = np.iinfo(dtype)
    if dtype.kind == "u":  # a bit beyond the limit, or a sign, in any of them shows in all together
        bits = np.bitwise_or.reduce(values, axis=None).item()
        return bool(0 <= bits <= limits.max)
    low, high = np.minimum.reduce(values, axis=None), np.maximum.reduce(values, axis=None)
    return bool(limits.min <= low.item() and high.item() <= limits.max)


def _cast_into(values: Any, dtype: Any, casting: Any, out: np.ndarray) -> None:
    values = np.asarray(values)
    _check_all_texts(values, dtype)
    np.copyto(out, _as_texts(values, dtype), casting=casting)


def _where_into(condition: Any, chosen: Any, other: Any, out: np.ndarray) -> None:
    np.copyto(out, other, casting="unsafe")
    np.copyto(out, chosen, casting="unsafe", where=np.asarray(condition).astype(bool, copy=False))


# --- the table ---------------------------------------------------------------------------------


class Rule(NamedTuple):
    """How numexpr computes a ufunc to NumPy's own bits.

    - `dtypes`: those of the operands, one for all of them
    - `slower`: its time over NumPy's, per element in the cache, where it was smallest
    - `text`: how numexpr writes it, where not as formulas do
    - `truth`: the results are bools; otherwise they have the dtype of the operands
    - `raises`: a floating-point error can happen; then the result is not finite, or it underflows
    - `underflows`: the error can be an underflow
    - `separate`: operands that cannot be steps of the same call, as an infinite one leaves no trace
    """

    dtypes: str
    slower: float
    text: str = ""
    truth: bool = False
    raises: bool = False
    underflows: bool = False
    separate: tuple[int, ...] = ()


class Operation(NamedTuple):
    """A row of the table: all that is known of an operation.

    - `function`: what computes it: NumPy's ufunc, NumPy's function, or one that stands for that
    - `text`: how formulas write it, if Python has an operator for it; otherwise they write a call
    - `level`: how tightly that operator binds
    - `operator`: the methods of two operands that do just this, as "add": `__add__`, `__radd__`
    - `numexpr`: how numexpr computes it, if it may

    A function that is no ufunc has more:

    - `operands`: what NumPy calls them
    - `options`: its other arguments, with their defaults
    - `into`: what computes it and takes `out=`; without, the result is copied
    - `own_output`: `into` needs an `out=` that shares no memory with what is read
    - `numpy`: NumPy's function, where `function` stands for it
    """

    function: Any
    text: str = ""
    level: int = 0
    operator: str = ""
    numexpr: Rule | None = None
    operands: str = ""
    options: Mapping[str, Any] = MappingProxyType({})
    into: Callable[..., Any] | None = None
    own_output: bool = False
    numpy: Any = None

    @property
    def name(self) -> str:
        """The name in formulas and errors."""
        name: str = self.function.__name__
        return name.lstrip("_")


COMPARED, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM = range(2, 12)
"""How tightly Python's operators bind; an atom needs no parentheses anywhere."""

_FLOATS, _INTS = "f4 f8", "i4 i8"
_NUMBERS, _BITS = f"{_FLOATS} {_INTS}", f"b1 {_INTS}"
_ORDERED = Rule(_NUMBERS, 2.0, truth=True, separate=(0, 1))

OPERATIONS = (
    Operation(np.add, "{} + {}", SUM, "add", Rule(_NUMBERS, 1.15, raises=True)),
    Operation(np.subtract, "{} - {}", SUM, "sub", Rule(_NUMBERS, 1.03, raises=True)),
    Operation(
        np.multiply, "{} * {}", PRODUCT, "mul", Rule(_NUMBERS, 1.06, raises=True, underflows=True)
    ),
    Operation(
        np.divide,
        "{} / {}",
        PRODUCT,
        "truediv",
        Rule(_FLOATS, 1.08, raises=True, underflows=True, separate=(1,)),
    ),
    Operation(np.floor_divide, "{} // {}", PRODUCT, "floordiv"),
    Operation(np.remainder, "{} % {}", PRODUCT, "mod"),
    Operation(np.matmul, "{} @ {}", PRODUCT),
    Operation(np.power, "{} ** {}", POWER),
    Operation(  # what NumPy computes in place of a power
        np.square,
        "{} ** 2",
        POWER,
        numexpr=Rule(_NUMBERS, 2.4, "{0} * {0}", raises=True, underflows=True, separate=(0,)),
    ),
    Operation(np.negative, "-{}", UNARY, numexpr=Rule(_NUMBERS, 1.4)),
    Operation(np.positive, "+{}", UNARY),
    Operation(np.invert, "~{}", UNARY, numexpr=Rule(_BITS, 1.3)),
    Operation(np.left_shift, "{} << {}", SHIFT, "lshift"),
    Operation(np.right_shift, "{} >> {}", SHIFT, "rshift"),
    Operation(np.bitwise_and, "{} & {}", AND, "and", Rule(_BITS, 1.7)),
    Operation(np.bitwise_xor, "{} ^ {}", XOR, "xor", Rule(_BITS, 1.9)),
    Operation(np.bitwise_or, "{} | {}", OR, "or", Rule(_BITS, 1.8)),
    Operation(np.less, "{} < {}", COMPARED, "lt", _ORDERED),
    Operation(np.less_equal, "{} <= {}", COMPARED, "le", _ORDERED),
    Operation(np.greater, "{} > {}", COMPARED, "gt", _ORDERED),
    Operation(np.greater_equal, "{} >= {}", COMPARED, "ge", _ORDERED),
    Operation(np.equal, "{} == {}", COMPARED),
    Operation(np.not_equal, "{} != {}", COMPARED),
    Operation(np.absolute, numexpr=Rule(_FLOATS, 8.0, "abs({})")),
    Operation(np.sqrt, numexpr=Rule(_FLOATS, 2.0, "sqrt({})", raises=True)),
    Operation(np.floor, numexpr=Rule(_FLOATS, 8.5, "floor({})")),
    Operation(np.ceil, numexpr=Rule(_FLOATS, 8.1, "ceil({})")),
    Operation(np.trunc, numexpr=Rule("f8", 8.8, "trunc({})")),
    Operation(np.copysign, numexpr=Rule("f8", 3.0, "copysign({}, {})", separate=(1,))),
    Operation(np.isnan, numexpr=Rule(_FLOATS, 8.6, "isnan({})", truth=True, separate=(0,))),
    Operation(np.isfinite, numexpr=Rule(_FLOATS, 5.8, "isfinite({})", truth=True, separate=(0,))),
    Operation(np.logical_and, numexpr=Rule("b1", 17.0, "{} & {}")),
    Operation(np.logical_or, numexpr=Rule("b1", 25.0, "{} | {}")),
    Operation(np.logical_xor, numexpr=Rule("b1", 2.4, "{} ^ {}")),
    Operation(np.logical_not, numexpr=Rule("b1", 1.4, "~{}")),
    Operation(np.angle, operands="z", options={"deg": False}),
    Operation(_astype, operands="x", options={"casting": "unsafe"}, into=_cast_into),
    Operation(np.clip, operands="a a_min a_max", into=np.clip),
    Operation(
        _fitting,
        operands="x",
        options={"dtype": None, "exact": False},
        into=_fitting_into,
        own_output=True,
    ),
    Operation(np.fix, operands="x"),
    Operation(np.i0, operands="x"),
    Operation(is_present, operands="values"),
    Operation(_known, operands="answer present", into=np.logical_and),
    Operation(_imag, operands="val", numpy=np.imag),
    Operation(
        np.isclose, operands="a b", options={"rtol": 1e-05, "atol": 1e-08, "equal_nan": False}
    ),
    Operation(np.iscomplex, operands="x"),
    Operation(np.isneginf, operands="x"),
    Operation(np.isposinf, operands="x"),
    Operation(np.isreal, operands="x"),
    Operation(np.nan_to_num, operands="x", options={"nan": 0.0, "posinf": None, "neginf": None}),
    Operation(_paired, operands="values mask"),
    Operation(_real, operands="val", numpy=np.real),
    Operation(np.round, operands="a", options={"decimals": 0}, into=np.round),
    Operation(np.sinc, operands="x"),
    Operation(np.where, operands="condition x y", into=_where_into, own_output=True),
)
"""Every operation of which there is more to say than that a ufunc of NumPy's computes it.

numexpr may compute none whose result could differ in a bit: no powers, remainders or transcendental
functions, no mixed, small, unsigned or complex dtypes.  Powers, equality and matrix products have
methods of their own in the class of views: their rows name no operator.
"""

_ROWS: Mapping[Any, Operation] = {
    row.name if row.operands else row.function: row for row in OPERATIONS
}


def operation_of(ufunc: Ufunc) -> Operation:
    """Return the row of an operation, an empty one for a ufunc that has none.

    >>> operation_of(np.add).text, operation_of(np.exp).text
    ('{} + {}', '')
    """
    return _ROWS.get(getattr(ufunc, "name", ufunc)) or Operation(ufunc)


# --- what is missing ---------------------------------------------------------------------------

TELLING: frozenset[Any] = frozenset((np.isnan, np.isnat, NumpyFunction("is_present")))
"""The operations whose results tell what is missing, so that none of these is missing itself."""


# --- what NumPy gets wrong -----------------------------------------------------------------------

IN_A_ROW: frozenset[Any] = frozenset((np.isfinite, np.isinf, np.isnan, np.signbit))
"""What NumPy 2.0 to 2.4 gets wrong where its results do not follow one another in memory."""


def computed_into(ufunc: Any, operands: Sequence[Any], out: tuple[np.ndarray, ...]) -> None:
    """Have a ufunc write its results into arrays, each of which it gets right.

    >>> out = np.zeros(400, bool)[::2]
    >>> computed_into(np.isnan, [np.full(200, np.nan)], (out,))
    >>> bool(out.all())
    True
    """
    if ufunc in IN_A_ROW and not all(array.flags.c_contiguous for array in (*operands, *out)):
        np.copyto(out[0], ufunc(*operands))
    else:
        ufunc(*operands, out=out)


# --- comparisons -------------------------------------------------------------------------------

CRASHING: frozenset[Any] = frozenset()
"""What may crash for integers and one of Python's that their dtype cannot hold (NumPy's #28117)."""

if np.lib.NumpyVersion(np.__version__) < "2.2.2":
    CRASHING = frozenset(
        (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
    )


def as_compared(value: Any, dtype: Any) -> Any:
    """Return a value to compare data of a dtype with: an infinity for an integer beyond it.

    >>> as_compared(255, np.dtype("u1")), as_compared(256, np.dtype("u1"))
    (255, inf)
    """
    if type(value) is not int or getattr(dtype, "kind", "") not in ("i", "u"):
        return value
    bounds = np.iinfo(dtype)
    if bounds.min <= value <= bounds.max:
        return value
    return math.inf if value > 0 else -math.inf


# --- powers ------------------------------------------------------------------------------------


class _Chosen(Exception):
    """Tells which ufunc NumPy chose for an operator."""


class _Probe(np.ndarray):
    """An array that raises `_Chosen` with the ufunc by which NumPy computes an operator."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        raise _Chosen(ufunc, inputs[0].dtype)


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
        np.ones(1, dtype).view(_Probe) ** exponent
    except _Chosen as chosen:
        found: np.ufunc = chosen.args[0]
        return found if chosen.args[1] == dtype else np.power  # NumPy 2.0 converts some before
    except TypeError:  # the ufunc says what is wrong with these operands
        return np.power
    return np.power
