"""The eager NumPy model of a view, and strategies that draw arrays, keys and values."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import dataview as dv
import newest

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
RECORD = np.dtype([("a", "<f4"), ("b", "<i2", (2,)), ("c", [("d", "S2"), ("e", ">u4")])])
NUMBERS = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g c8 c16 G".split()
OTHERS = ["M8[s]", "m8[ms]", "U3", "S3", "O"]
SWAPPED = [">i4", ">f8", ">c8", ">U2", ">M8[D]"]
LONG_TEXT = np.dtypes.StringDType()
DTYPES = [np.dtype(code) for code in NUMBERS + OTHERS + SWAPPED] + [RECORD, LONG_TEXT]
WRITABLE = ["C", "F", "strided", "negative", "padded"]
LAYOUTS = [*WRITABLE, "broadcast", "readonly"]


def examples(count):
    """Give the settings of a property tried on so many examples, or as many as the profile asks."""
    asked = settings.default.max_examples
    count = asked if asked > 500 else count
    return settings(max_examples=count, deadline=None, suppress_health_check=SLOW)


# ---------------------------------------------------------------- comparing


def check_same(view, model, action):
    """Do an action on a view and on its model: equal value, dtype and shape, or exception."""
    expected, refusal = attempt(action, model)
    if refusal is not None:
        with pytest.raises(public_class(refusal)):
            action(view)
        return
    got = evaluated(action(view))
    assert_same(got, expected)
    assert_no_more_writable(got, expected)


def attempt(action, subject):
    """Give the result of an action, or the exception it raised."""
    try:
        return action(subject), None
    except Exception as error:
        return None, newest.refusal(error)


def public_class(error):
    """Give the class of an exception that a user can name."""
    public = ("builtins", "numpy.exceptions")
    return next(kind for kind in type(error).__mro__ if kind.__module__ in public)


def evaluated(result):
    """Give the data of a view, and anything else as it is."""
    return result() if isinstance(result, dv.View) else result


def assert_same(got, expected):
    """Assert that two arrays or elements have the same shape, dtype and values."""
    assert not isinstance(got, dv.View), "a view where data were expected"
    got, expected = as_array(got), as_array(expected)
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    assert comparable(got) == comparable(expected), f"dtype {got.dtype}, expected {expected.dtype}"
    assert identical(got, expected), f"values\n{got!r}\nexpected\n{expected!r}"


def assert_no_more_writable(got, expected):
    """Assert that an alias of read-only data is read-only."""
    both = isinstance(expected, np.ndarray) and isinstance(got, np.ndarray)
    if both and not expected.flags.writeable and np.may_share_memory(got, expected):
        assert not got.flags.writeable, "a writable alias of read-only data"


def as_array(value):
    """Give an array or scalar as an array, any other object as a 0-d array of objects."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    cell = np.empty((), object)
    cell[()] = value
    return cell


def comparable(array):
    """Give what counts of a dtype: a single element loses byte order and text width."""
    if array.ndim:
        return array.dtype
    if array.dtype == LONG_TEXT:  # NumPy gives its element as Python's text
        return np.dtype(object)
    return array.dtype.kind if array.dtype.kind in "US" else array.dtype.newbyteorder("=")


def identical(left, right):
    """Tell whether two arrays hold the same values, NaN and the sign of zero included."""
    kind = left.dtype.kind
    if left.dtype.names is not None:
        return all(identical(left[name], right[name]) for name in left.dtype.names)
    if kind == "O":
        return all(a is b or a == b for a, b in zip(left.flat, right.flat, strict=True))
    if kind == "c":
        return identical(left.real, right.real) and identical(left.imag, right.imag)
    if kind == "f":
        zero = left == 0
        same_zeros = np.array_equal(np.signbit(left[zero]), np.signbit(right[zero]))
        return np.array_equal(left, right, equal_nan=True) and same_zeros
    return np.array_equal(left, right, equal_nan=kind in "mM")


@contextlib.contextmanager
def silence():
    """Let floating-point errors and warnings pass, but no key that NumPy will refuse."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        newest.heed_keys_outside()
        yield


# ---------------------------------------------------------------- the model


@dataclass(frozen=True)
class Base:
    """A root buffer and the way an array is cut out of it."""

    root: np.ndarray
    cut: Callable[[np.ndarray], np.ndarray]

    @property
    def array(self):
        """Give the array, a view of the root."""
        return self.cut(self.root)

    def twin(self):
        """Give an independent copy."""
        return Base(self.root.copy(), self.cut)


def step(array, key):
    """Index an array, keeping a single element as a 0-d array of the same dtype."""
    part = array[key]
    if isinstance(part, np.ndarray) and part.dtype == array.dtype:
        return part
    cell = np.empty((), array.dtype)
    cell[()] = part
    return cell


def follow(subject, chain):
    """Apply a chain of keys to a view or to its model."""
    for key in chain:
        subject = step(subject, key) if isinstance(subject, np.ndarray) else subject[key]
    return subject


def positions(array, chain=()):
    """Give the flat positions that a chain of keys selects, as an array."""
    return follow(np.arange(array.size).reshape(array.shape), chain)


def scatter(array, places, values):
    """Write values at flat positions of an array, the last writer in C order winning."""
    flat, order = array.flatten(), places.ravel()[::-1]
    last, index = np.unique(order, return_index=True)
    flat[last] = values.ravel()[::-1][index]
    array[...] = flat.reshape(array.shape)


def cast_into(shape, dtype, value):
    """Give what a write leaves in memory of this shape and dtype, or raise what NumPy raises."""
    landed = np.empty(shape, dtype)
    newest.copyto(landed, evaluated(value))
    return landed


def check_write(base, places, landed, write):
    """Assert that a write puts these values at these positions and changes no other byte."""
    twin = base.twin()
    scatter(twin.array, places, landed)
    write()
    assert_same(base.root, twin.root)


def check_refused(base, error, write):
    """Assert that a write raises this class of exception and changes no byte."""
    before = base.root.copy()
    with pytest.raises(error):
        write()
    assert_same(base.root, before)


# ---------------------------------------------------------------- data


def fill(shape, dtype, start=0):
    """Give an array whose elements can be told apart, NaN, NaT and minus zero among them."""
    out = np.empty(shape, dtype)
    if out.dtype.names is not None:
        for name in out.dtype.names:
            out[name] = fill(out[name].shape, out[name].dtype, start)
        return out
    numbers = np.arange(start, start + out.size)
    flat = FILLS.get(out.dtype.kind, fill_numbers)(numbers, out.dtype)
    return flat.reshape(shape)


def plain(shape, dtype):
    """Give ordinary data of either sign, where the dtype has signs; of objects, integers."""
    size = math.prod(shape)
    numbers = np.arange(size) * 37 % 23 - 9
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return (
            (numbers / 4 + (1j * (numbers % 5) if dtype.kind == "c" else 0))
            .astype(dtype)
            .reshape(shape)
        )
    return numbers.astype(dtype).reshape(shape)


def fill_numbers(numbers, dtype):
    """Give consecutive integers, wrapped."""
    return numbers.astype(dtype)


def fill_bool(numbers, dtype):
    """Give an irregular pattern of booleans."""
    return (numbers * 7 % 5 < 2).astype(dtype)


def fill_float(numbers, dtype):
    """Give consecutive numbers, the first few special."""
    flat = numbers.astype(dtype)
    special = [np.nan, -0.0, np.inf, -1.5]
    flat[1:5] = special[: len(flat[1:5])]
    return flat


def fill_complex(numbers, dtype):
    """Give complex numbers, the second NaN."""
    flat = (numbers + 1j * numbers[::-1]).astype(dtype)
    flat[1:2] = np.nan
    return flat


def fill_time(numbers, dtype):
    """Give consecutive times, the second NaT."""
    flat = numbers.astype(dtype)
    flat[1:2] = "NaT"
    return flat


def fill_text(numbers, dtype):
    """Give the decimal digits of small numbers."""
    return (numbers % 97).astype(dtype)


def fill_objects(numbers, dtype):
    """Give objects of several types."""
    flat = np.empty(numbers.size, dtype)
    for place, number in enumerate(numbers.tolist()):
        flat[place] = [number, f"text {number}", None, (number, number), number / 2][number % 5]
    return flat


FILLS = {
    "b": fill_bool,
    "f": fill_float,
    "c": fill_complex,
    "m": fill_time,
    "M": fill_time,
    "U": fill_text,
    "S": fill_text,
    "T": fill_text,
    "O": fill_objects,
}


def lay_out(layout, shape, dtype):
    """Give a base whose array has this shape, dtype and layout."""
    ends = {0, len(shape) - 1}
    if layout == "F":
        return Base(fill(shape[::-1], dtype), np.transpose)
    if layout == "strided":
        wide = tuple(2 * n + 1 if axis in ends else n for axis, n in enumerate(shape))
        key = tuple(np.s_[1::2] if axis in ends else np.s_[:] for axis in range(len(shape)))
        return Base(fill(wide, dtype), lambda root: root[(*key, ...)])
    if layout == "negative":
        return Base(fill(shape, dtype), lambda root: root[(*[np.s_[::-1]] * len(shape), ...)])
    if layout == "padded":
        wide = tuple(n + 2 if axis in ends else n for axis, n in enumerate(shape))
        key = tuple(np.s_[1:-1] if axis in ends else np.s_[:] for axis in range(len(shape)))
        return Base(fill(wide, dtype), lambda root: root[(*key, ...)])
    if layout == "broadcast":
        thin = tuple(1 if axis % 2 == 0 else n for axis, n in enumerate(shape))
        return Base(fill(thin, dtype), lambda root: np.broadcast_to(root, shape))
    if layout == "readonly":
        return Base(fill(shape, dtype), frozen)
    return Base(fill(shape, dtype), lambda root: root[...])


def frozen(root):
    """Give a read-only view of an array."""
    view = root.view()
    view.flags.writeable = False
    return view


SIDES = st.sampled_from([3, 4, 2, 5, 1, 6, 3, 4, 2, 3, 5, 0])
SHAPES = st.lists(SIDES, max_size=5).map(tuple).filter(lambda shape: math.prod(shape) <= 720)


def bases(layouts=LAYOUTS, dtypes=DTYPES, shapes=SHAPES):
    """Draw a root buffer with an array in it, of any dtype, layout and of 0 to 5 dimensions."""
    return st.builds(lay_out, st.sampled_from(layouts), shapes, st.sampled_from(dtypes))


def arrays(layouts=LAYOUTS, dtypes=DTYPES, shapes=SHAPES):
    """Draw an array of any dtype and layout, of 0 to 5 dimensions."""
    return bases(layouts, dtypes, shapes).map(lambda base: base.array)


# ---------------------------------------------------------------- keys

ODD_KEYS = [
    1.5,
    [1.0],
    np.array([]),
    np.array([0.5]),
    np.s_[::0],
    np.s_[1.5:],
    (..., ...),
    (0, ..., 0, ...),
    [None],
    10**30,
    {},
    [[0, 1], [0]],
    (0,) * 9,
    (None,) * 3,
    [slice(None)],
    range(1),
    np.array([0, -1], object),
    (),
    ...,
    [],
    [[], []],
    np.zeros((0, 2), int),
    [False, 1],
]
INDEX_SHAPES = [(2,), (3,), (1,), (4,), (), (0,), (2, 2), (2, 1), (1, 3)]
PARTS = "slice int slice list int mask slice newaxis ellipsis stop bool".split()
COMMON_SLICES = [np.s_[:], np.s_[::-1], np.s_[1:], np.s_[:-1], np.s_[::2], np.s_[-2::-1]]
ZERO_DIMENSIONAL = [True, False, np.True_, np.array(False), np.array(True)]


def slices(n):
    """Draw a slice of n entries, of any step, often out of range."""
    bound = st.none() | st.integers(-n - 3, n + 3) | st.integers(-n - 3, n + 3).map(np.int64)
    size = st.integers(1, n + 2)
    anything = st.builds(slice, bound, bound, st.none() | size | size.map(lambda k: -k))
    return anything | st.sampled_from(COMMON_SLICES)


@st.composite
def numbers_within(draw, n, count):
    """Draw so many positions of n entries, negative ones too, seldom one out of bounds."""
    inside = st.integers(-n, n - 1) if n else st.just(0)
    found = draw(st.lists(inside, min_size=count, max_size=count))
    if found and draw(st.integers(0, 19)) == 19:
        found[-1] = draw(st.sampled_from([n, -n - 1, n + 3]))
    return found


@st.composite
def ints(draw, n):
    """Draw one position, as an int of any kind."""
    (number,) = draw(numbers_within(n, 1))
    kinds = [int, np.int64, np.int8, np.array] + [np.uint16] * (number >= 0)
    return draw(st.sampled_from(kinds))(number)


@st.composite
def index_arrays(draw, n, common):
    """Draw an index of integers that broadcasts to a common shape, as list, tuple or array."""
    shape = draw(st.sampled_from([common, common[1:], (1,) * len(common)]))
    index = np.array(draw(numbers_within(n, math.prod(shape))), np.intp).reshape(shape)
    form = draw(st.sampled_from(["list", "array", "small", "swapped", "unsigned", "tuple"]))
    if form == "list":
        return index.tolist()
    if form == "tuple" and index.ndim == 1:
        return tuple(index.tolist())
    if form == "unsigned":
        return (index % max(n, 1)).astype(np.uint8)
    return index.astype({"small": np.int8, "swapped": ">i4"}.get(form, np.intp))


@st.composite
def masks(draw, shape, count=None):
    """Draw a mask for the leading axes of a shape, as array or list, seldom of a wrong length."""
    shape = tuple(shape)
    if draw(st.integers(0, 19)) == 19:
        shape = (*shape[:-1], shape[-1] + draw(st.sampled_from([1, -1] if shape[-1] > 1 else [1])))
    size = math.prod(shape)
    if count is not None and count <= size:
        chosen = draw(st.permutations(range(size)))[:count]
        flat = np.isin(np.arange(size), chosen)
    else:
        flat = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    mask = flat.reshape(shape)
    return mask.tolist() if draw(st.booleans()) else mask


@st.composite
def tuples(draw, shape):
    """Draw the parts of a key, at most one for each axis, new axes and an ellipsis among them."""
    common = draw(st.sampled_from(INDEX_SHAPES))
    parts, axis, once = [], 0, {"newaxis": 2, "ellipsis": 1, "bool": 1}
    while axis < len(shape):
        kind = draw(st.sampled_from(PARTS))
        n, rest = shape[axis], shape[axis:]
        if kind in once:
            once[kind] -= 1
            if once[kind] < 0:
                continue
        if kind == "stop":
            break
        if kind == "newaxis":
            parts.append(None)
        elif kind == "bool":
            parts.append(draw(st.sampled_from(ZERO_DIMENSIONAL)))
        elif kind == "ellipsis":
            parts.append(...)
            axis += draw(st.integers(0, len(rest)))
        elif kind == "int" and n:
            parts.append(draw(ints(n)))
            axis += 1
        elif kind == "list" and n:
            parts.append(draw(index_arrays(n, common)))
            axis += 1
        elif kind == "mask" and 0 < math.prod(rest[:2]) <= 16:
            used = draw(st.integers(1, min(2, len(rest))))
            parts.append(draw(masks(rest[:used], common[-1] if common else 1)))
            axis += used
        else:
            parts.append(draw(slices(n)))
            axis += 1
    return tuple(parts)


@st.composite
def keys(draw, shape):
    """Draw a key for an array of this shape, of every kind, a few that NumPy refuses too."""
    form = draw(st.integers(0, 15))
    if form == 15:
        return draw(st.sampled_from(ODD_KEYS + ZERO_DIMENSIONAL))
    if form >= 13 and shape and math.prod(shape) <= 64:
        return draw(masks(shape[: draw(st.integers(1, len(shape)))]))
    parts = draw(tuples(shape))
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else parts


@st.composite
def chains(draw, array, most=5):
    """Draw one to five keys to be applied one after another; only the last may be refused."""
    chain = []
    for _ in range(draw(st.integers(1, most))):
        key = draw(keys(array.shape))
        chain.append(key)
        array, refusal = attempt(lambda part, key=key: step(part, key), array)
        if refusal is not None or array.size > 2000:
            break
    return chain


@st.composite
def refused_keys(draw, shape):
    """Draw a key that NumPy refuses for an array of this shape."""
    outside = [n + past for n in shape[:1] for past in (0, 2)] + [-n - 1 for n in shape[:1]]
    wrong = [[place] for place in outside] + [[0, place] for place in outside]
    beyond = [(*[np.s_[:]] * len(shape), 0), (..., [0], *[0] * len(shape))]
    misfits = [np.ones(n + 1, bool) for n in shape[:1]] + [np.ones((*shape, 1), bool)]
    odd = [1.5, [1.0], np.array([0.5]), (..., 0, ...), 10**30, {}, [None], object()]
    sliced = [np.s_[::0], np.s_[1.5:]] if shape else []
    return draw(st.sampled_from([*outside, *wrong, *beyond, *misfits, *odd, *sliced]))


@st.composite
def accepted_chains(draw, array, most=4):
    """Draw keys that NumPy accepts, one after another."""
    chain = draw(chains(array, most))
    _, refusal = attempt(lambda part: follow(part, chain), array)
    return chain[:-1] if refusal is not None else chain


# ---------------------------------------------------------------- values

PYTHON_SCALARS = [0, 1, 7, -1, 300, 2**40, 2**70, 2.5, True, 2j]


@st.composite
def values(draw, shape, dtype):
    """Draw an array, scalar or view to be written into this shape and dtype; not all fit."""
    numeric = np.dtype(dtype).kind in "biufc"
    form = draw(st.sampled_from(["same", "row", "one", "view", "long", "python", "cast"]))
    if form == "python" and numeric:
        scalars = [0, 1, 2.5, True, 2j] if np.dtype(dtype) == bool else PYTHON_SCALARS
        return draw(st.sampled_from(scalars))
    if form == "cast" and numeric:
        return fill(shape, draw(st.sampled_from(NUMBERS)), 40)
    if form == "row":
        return fill(shape[1:], dtype, 40)
    if form == "one":
        return fill((1,) * len(shape), dtype, 40)
    if form == "long" and shape:
        return fill((*shape[:-1], shape[-1] + 2), dtype, 40)
    if form == "view":
        return dv.View(fill(shape, dtype, 40))
    return fill(shape, dtype, 40)
