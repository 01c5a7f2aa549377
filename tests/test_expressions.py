"""Elementwise expressions have NumPy's values, errors and warnings; what is read, and how."""

import contextvars
import functools
import math
import multiprocessing
import operator
import os
import pickle
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
import newest
from children import printed
from counting import Rows
from dataview.index.sizes import sizes
from expressions import (
    SIZES,
    TRANSCENDENTAL,
    Leaf,
    Tree,
    check_expression,
    expressions,
    leaves_of,
    thresholds,
    views_of,
)
from oracle import (
    as_array,
    assert_same,
    attempt,
    check_same,
    evaluated,
    examples,
    fill,
    keys,
    lay_out,
    public_class,
    silence,
)

pytestmark = pytest.mark.usefixtures("each_engine")

SMALL, BLOCK = SIZES[0]


# ---------------------------------------------------------------- random trees


TURNED = {
    "Fortran": lambda: np.asfortranarray(fill((300, 6), "f8")),
    "transposed": lambda: fill((6, 300), "f8").T,
    "rows of it": lambda: np.asfortranarray(fill((300, 6), "f8"))[10:290:2],
    "columns of it": lambda: np.asfortranarray(fill((300, 6), "f8"))[:, 1:4],
    "three axes": lambda: np.asfortranarray(fill((40, 5, 6), "f8")),
    "one column": lambda: np.asfortranarray(fill((300, 1), "f8")),
    "axes in another order": lambda: fill((40, 5, 6), "f8").transpose(1, 0, 2),
}
"""Arrays whose elements do not lie in C order."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", TURNED)
def test_the_order_of_axes_is_that_of_the_operands(name, size):
    x = TURNED[name]()
    row, column = fill(x.shape[-1:], "f4") + 1, fill((x.shape[0],) + (1,) * (x.ndim - 1), "f8")
    other = fill(x.shape, "f8")  # in C order
    v = dv.View(x)
    makes = (
        lambda a: a + 1,
        lambda a: (a - row) / (row * 2) * 3,
        lambda a: np.where(a > row, column, np.clip(a, -1, 2)),
        lambda a: (a > 3) & (column < 2),
        lambda a: a[::2] * 2 - row,
        lambda a: a * other + row,
    )
    for make in makes:
        with np.errstate(all="ignore"), thresholds(*size):
            expected, found = make(x), make(v)()
            assert_same(found, expected)
            assert found.flags.f_contiguous == expected.flags.f_contiguous or make is makes[-1]
            if expected.shape == x.shape:
                changed = x.copy(order="K")
                target = dv.View(changed)
                target[...] = make(target)
                assert_same(changed, expected.astype(x.dtype))


@pytest.mark.parametrize("limits", SIZES)
@pytest.mark.parametrize("ufunc", [np.isnan, np.isfinite, np.isinf, np.signbit])
def test_truth_values_are_right_wherever_they_are_written(ufunc, limits):
    """NumPy gets these wrong if they do not follow one another in memory."""
    for make in TURNED.values():
        for dtype in ("f4", "f8"):
            x = make().astype(dtype, order="K")
            x.reshape(-1, order="A")[::5] = np.nan
            v, expected = dv.View(x), np.array(ufunc(x.copy()))
            flags = np.zeros((*x.shape, 3), bool)
            records = np.zeros(x.shape, [("n", "i4"), ("flag", "?")])
            with (
                thresholds(*limits),
                sizes.set(streamed_elements=8, at_once_bytes=0, computed_bytes=0),
            ):
                assert_same(ufunc(v)(), expected)
                assert_same((ufunc(v) | (v > 3))(), expected | (x > 3))
                ufunc(v, out=flags[..., 0])
                dv.View(flags)[..., 1] = ufunc(v)
                dv.View(flags)[..., 2] |= ufunc(v)
                dv.View(records).flag[...] = ufunc(v)
            for found in (*np.moveaxis(flags, -1, 0), records["flag"]):
                assert_same(found, expected)


@examples(400)
@given(expressions(), st.sampled_from(SIZES))
def test_an_expression_is_what_numpy_computes(expression, sizes):
    with thresholds(*sizes):
        check_expression(*expression)


@examples(150)
@given(expressions(("numbers",)), st.sampled_from(SIZES[1:]))
def test_numbers_of_any_two_dtypes_meet_as_in_numpy(expression, sizes):
    with thresholds(*sizes):
        check_expression(*expression)


@examples(250)
@given(st.data(), expressions(depth=3), st.sampled_from(SIZES))
def test_a_part_of_an_expression_is_the_part_of_its_data(data, expression, sizes):
    with thresholds(*sizes):
        found = check_expression(*expression)
        if found is None:
            return
        view, model = found
        key = data.draw(keys(model.shape))
        with silence():
            check_same(view, model, lambda subject: subject[key])


@examples(60)
@given(expressions(depth=4), st.sampled_from(SIZES[1:]))
def test_a_pickled_expression_is_the_same(expression, sizes):
    leaves, tree = expression
    with thresholds(*sizes), silence():
        expected, refusal = attempt(tree, leaves)
        if refusal is None:
            assert_same(pickle.loads(pickle.dumps(tree(views_of(leaves))))(), expected)


@examples(100)
@given(st.data(), expressions(("numbers", "times"), depth=4), st.sampled_from(SIZES))
def test_an_expression_fills_a_buffer(data, expression, sizes):
    leaves, tree = expression
    with thresholds(*sizes), silence():
        expected, refusal = attempt(tree, leaves)
        if refusal is not None:
            return
        expected = as_array(expected)
        layout = data.draw(st.sampled_from(["C", "F", "strided", "negative"]))
        dtype = data.draw(st.sampled_from([expected.dtype, np.dtype("c16"), np.dtype("i2")]))
        buffer, own = (lay_out(layout, expected.shape, dtype).array for _ in range(2))
        _, refusal = attempt(lambda out: newest.copyto(out, expected), own)
        view = tree(views_of(leaves))
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                view(out=buffer)
        else:
            assert view(out=buffer) is buffer
        assert_same(buffer, own)


def test_a_buffer_that_does_not_fit_is_refused():
    v = dv.View(np.arange(6.0)) * 2
    for buffer in [np.empty(5), np.empty((1, 6)), np.empty(()), np.empty((2, 6))]:
        before = buffer.copy()
        with pytest.raises(ValueError):
            v(out=buffer)
        assert_same(buffer, before)
    sealed = np.zeros(6)
    sealed.flags.writeable = False
    with pytest.raises(ValueError):
        v(out=sealed)
    assert not sealed.any()


@pytest.mark.parametrize("small", [True, False])
def test_a_buffer_may_be_the_memory_that_is_read(small):
    with thresholds(*((1 << 14, 1 << 17) if small else (0, 8))):
        a = np.arange(48.0).reshape(12, 4)
        expected = a[::-1] + a * 2
        v = dv.View(a)
        (v[::-1] + v * 2)(out=a)
        assert_same(a, expected)


# ---------------------------------------------------------------- functions of floats


def ulps(got, expected):
    """Give the greatest distance of two arrays, in units of the last place of the expected."""
    if expected.dtype.kind == "c":
        return max(ulps(got.real, expected.real), ulps(got.imag, expected.imag))
    ordinary = np.isfinite(expected)
    assert np.array_equal(got[~ordinary], expected[~ordinary], equal_nan=True)
    distance = np.abs(got[ordinary] - expected[ordinary])
    return float(np.max(distance / np.spacing(np.abs(expected[ordinary])), initial=0))


@examples(200)
@given(st.data(), st.sampled_from(["f2", "f4", "f8", "g", "c8", "c16", "i2"]))
def test_transcendental_functions_are_numpys_within_4_ulp(data, dtype):
    (first, *rest) = data.draw(leaves_of(st.just(dtype)))
    function = data.draw(st.sampled_from(TRANSCENDENTAL))
    args = (first, *(rest or [first])) if function.nin == 2 else (first,)
    with thresholds(*data.draw(st.sampled_from(SIZES))), silence():
        expected, refusal = attempt(lambda given: function(*given), args[:2])
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                function(*views_of(args[:2]))()
            return
        got = function(*views_of(args[:2]))()
        assert np.shape(got) == np.shape(expected) and got.dtype == expected.dtype
        assert ulps(np.atleast_1d(got), np.atleast_1d(expected)) <= 4


def test_a_negative_power_of_integers_is_refused_as_by_numpy():
    a, b = np.arange(1, 40), np.full(39, -1)
    for small, block in SIZES:
        with thresholds(small, block), pytest.raises(ValueError):
            (dv.View(a) ** dv.View(b))()


# ---------------------------------------------------------------- true sizes

AROUND = [
    SMALL - 1,
    SMALL,
    SMALL + 1,
    BLOCK - 1,
    BLOCK,
    BLOCK + 1,
    3 * BLOCK + 5,
]


@pytest.mark.parametrize("size", AROUND)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c8", "?"])
def test_sizes_around_the_thresholds(size, dtype, rng):
    a, b = rng.normal(0, 50, (2, size)).astype(dtype)
    zero = np.array(3).astype(dtype)

    def line(a, b, zero):
        return (a + b) * a + zero * b + 1

    with silence():
        assert_same(line(dv.View(a), dv.View(b), dv.View(zero))(), line(a, b, zero))
        rows = size // 7
        a, b = a[: rows * 7].reshape(rows, 7), b[: rows * 7].reshape(rows, 7)
        for other in [b[0], b[:, :1], b[:1], b[:1, :1], b[0, 0], b.reshape(7, rows).T]:
            got = line(dv.View(a), dv.View(other), dv.View(zero))
            assert_same(got(), line(a, other, zero))
            assert_same(got[::-3, 1:](), line(a, other, zero)[::-3, 1:])
        got = line(dv.View(a.T), dv.View(b[:, 0]), dv.View(zero))
        assert_same(got(), line(a.T, b[:, 0], zero))


SHAPES = [(), (1,), (5,), (40,), (40, 1), (1, 40), (2, 40), (40, 3), (3, 4, 5), (2, 1, 30), (0, 3)]


@pytest.mark.parametrize("small", [0, 8])
@pytest.mark.parametrize("block", [1, 5, 16])
def test_every_two_shapes_broadcast_as_in_numpy(block, small):
    with thresholds(small, block):
        for one in SHAPES:
            for other in SHAPES:
                a, b = fill(one, "f8", 3), fill(other, "f4", 40)
                tree = Tree(np.add, Tree(np.multiply, Leaf(0), Leaf(1)), Leaf(0))
                check_expression([a, b], tree)


def test_a_single_number_meets_a_large_array():
    a = np.arange(3 * SMALL * 8.0).reshape(-1, 3)
    v = dv.View(a)
    for one in [np.array(2.0), np.array([2.0]), np.array([[2.0]])]:
        assert_same((v * dv.View(one))(), a * one)
        assert_same((dv.View(a.ravel()) * dv.View(one.ravel()))(), a.ravel() * 2)
    assert_same((v - v._min())(), a - a.min())
    assert_same((dv.View(a.ravel()) - v._max())(), a.ravel() - a.max())


# ---------------------------------------------------------------- what meets a view


def test_arrays_and_numbers_meet_a_view_lazily():
    a = np.arange(6.0)
    v = dv.View(a)
    pairs = [
        (a + v, a + a),
        (2 - v, 2 - a),
        (np.float32(2) / (v + 1), np.float32(2) / (a + 1)),
        (np.int8(3) ** v, np.int8(3) ** a),
        ([1, 2, 3, 4, 5, 6] * v, [1, 2, 3, 4, 5, 6] * a),
        (a < v, a < a),
        (v[:, None] + a, a[:, None] + a),
    ]
    for view, expected in pairs:
        assert isinstance(view, dv.View)
        assert_same(view(), expected)


@pytest.mark.parametrize("number", [-1, 300, 2**63, 2**64, -(2**70), 2**70, 7])
@pytest.mark.parametrize("dtype", ["i1", "u1", "u8", ">u4"])
def test_integers_are_compared_with_any_integer_of_python(dtype, number):
    for layout in ["C", "padded", "strided", "broadcast"]:
        a = lay_out(layout, (7, 3, 5), np.dtype(dtype)).array
        for compare in [operator.lt, operator.le, operator.gt, operator.ge, operator.eq]:
            # Python compares one by one: NumPy itself may crash before its version 2.2.2.
            expected = [compare(element, number) for element in a.ravel().tolist()]
            reflected = [compare(number, element) for element in a.ravel().tolist()]
            for limits in SIZES:
                with thresholds(*limits):
                    assert_same(compare(dv.View(a), number)(), np.reshape(expected, a.shape))
                    assert_same(compare(number, dv.View(a))(), np.reshape(reflected, a.shape))


def test_an_array_changed_by_a_view_stays_an_array():
    a, b = np.arange(6.0), np.arange(6.0)
    v = dv.View(np.arange(6.0) * 3)
    kept = a
    a -= v
    b -= v()
    assert a is kept
    assert_same(a, b)


def test_results_given_by_a_ufunc_with_options_are_numpys():
    a = np.arange(6.0)
    v, mask = dv.View(a), a > 2
    assert_same(evaluated(np.add(v, 1, dtype="f4")), np.add(a, 1, dtype="f4"))
    out = np.zeros(6)
    assert np.multiply(v, 2, out=out) is out
    assert_same(out, a * 2)
    out, own = np.zeros(6), np.zeros(6)
    np.add(v, 1, out=out, where=mask)
    np.add(a, 1, out=own, where=mask)
    assert_same(out, own)
    assert_same(evaluated(np.add.reduce(v)), np.add.reduce(a))
    assert_same(evaluated(np.add.outer(v, v)), np.add.outer(a, a))
    assert_same(evaluated(np.add.accumulate(v)), np.add.accumulate(a))


def test_a_ufunc_of_several_results_gives_as_many_views():
    a = np.array([1.5, -2.25, 0.0, math.inf])
    for ufunc in [np.modf, np.frexp]:
        with silence():
            for view, expected in zip(ufunc(dv.View(a)), ufunc(a), strict=True):
                assert isinstance(view, dv.View)
                assert_same(view[1:](), expected[1:])
    quotient, rest = divmod(dv.View(np.arange(9)), 4)
    assert_same((quotient * 4 + rest)(), np.arange(9))


def test_an_expression_sees_later_writes():
    a = np.arange(40.0)
    v = dv.View(a)
    doubled = v * 2
    assert_same(doubled(), a * 2)
    v[3] = 50
    a[4] = 60
    assert_same(doubled(), a * 2)
    assert doubled[3]() == 100


def test_what_cannot_be_computed_is_refused_when_it_is_written():
    v, text = dv.View(np.zeros((3, 2))), dv.View(np.array(["a", "b"]))
    with pytest.raises(TypeError):
        v + text
    with pytest.raises(ValueError):
        v + np.zeros(3)
    with pytest.raises(TypeError):
        v & 1
    with pytest.raises(OverflowError):
        dv.View(np.zeros(3, "u1")) + 300
    with pytest.raises(TypeError):
        v + None
    with pytest.raises(TypeError, match="x"):
        dv.View(x=v) + 1


# ---------------------------------------------------------------- floating-point errors

FAULTS = {
    "divide": lambda a: 1 / a,
    "invalid": lambda a: (a - a) / (a - a),
    "over": lambda a: a * 1e300 * 1e300,
    "under": lambda a: (a + 1) * 1e-300 * 1e-300,
    "none": lambda a: a * 2 + 1,
    "root": lambda a: np.sqrt(a - 5) + 1,
    "logarithm": lambda a: np.log(a) * 2,
    "two kinds": lambda a: 1 / a + np.sqrt(a - 5),
    "twice": lambda a: 1 / a + 2 / a,
    "integers": lambda a: (a > 3) * 5 // ((a < 0) * 7),
    "part": lambda a: (1 / a)[::-1] + 1,
    "part of a part": lambda a: np.sqrt((1 / a)[::-1] - 5)[:: len(a) - 1],
}


def told(compute, subject, mode):
    """Give what is told of floating-point errors: the exception, the warnings, the calls."""
    calls = set()
    modes = {"over": mode, "divide": mode, "invalid": mode, "under": mode}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with np.errstate(**modes, call=lambda kind, flag: calls.add(kind)):
            _, error = attempt(lambda data: evaluated(compute(data)), subject)
    kinds = {(note.category, str(note.message).split(" encountered")[0]) for note in seen}
    return None if error is None else public_class(error), kinds, calls


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["ignore", "warn", "raise", "call"])
@pytest.mark.parametrize("fault", FAULTS)
def test_floating_point_errors_are_told_as_by_numpy(fault, mode, sizes):
    a = np.arange(60.0).reshape(20, 3)
    with thresholds(*sizes):
        assert told(FAULTS[fault], dv.View(a), mode) == told(FAULTS[fault], a, mode)


@pytest.mark.parametrize("mode", ["ignore", "warn", "raise", "call"])
@pytest.mark.parametrize("fault", FAULTS)
def test_floating_point_errors_of_large_arrays_are_told_as_by_numpy(fault, mode):
    a = np.ones((9, BLOCK // 4))
    a[-2:] = 0
    with ThreadPoolExecutor(3) as pool, dv.executor(pool):
        for _ in range(2):
            assert told(FAULTS[fault], dv.View(a), mode) == told(FAULTS[fault], a, mode)


@examples(80)
@given(
    expressions(("floats",), depth=4),
    st.sampled_from(SIZES[1:]),
    st.sampled_from(["ignore", "warn", "raise", "call"]),
)
def test_floating_point_errors_of_any_expression_are_numpys(expression, sizes, mode):
    leaves, tree = expression
    with thresholds(*sizes):
        got = told(lambda data: tree(views_of(data)), leaves, mode)
    refusal = told(tree, leaves, "ignore")[0]
    if refusal is None:
        assert got == told(tree, leaves, mode)
    else:  # what cannot be computed is refused before anything is
        assert got[0] is not None and issubclass(got[0], refusal | FloatingPointError)


def test_modes_of_one_kind_leave_the_others():
    a = np.arange(40.0) - 20
    for small, block in SIZES:
        with thresholds(small, block):
            with np.errstate(divide="raise", invalid="ignore"):
                np.sqrt(dv.View(a))()
                with pytest.raises(FloatingPointError):
                    (1 / dv.View(a))()
            with np.errstate(divide="ignore", invalid="raise"):
                (1 / dv.View(a))()
                with pytest.raises(FloatingPointError):
                    np.sqrt(dv.View(a))()


# ---------------------------------------------------------------- computed once


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_shared_part_is_computed_once(sizes):
    calls = []

    def counted(value):
        calls.append(value)
        return value * 2

    double = np.frompyfunc(counted, 1, 1)
    a = np.arange(40).astype(object)
    with thresholds(*sizes):
        v = dv.View(a)
        shared = double(v)
        assert_same((shared * shared + shared)(), (a * 2) ** 2 + a * 2)
        assert sorted(calls) == a.tolist()
        calls.clear()
        assert_same((double(v) + double(v))(), a * 4)
        assert sorted(calls) == a.tolist()
        calls.clear()
        (shared + shared)[3:5]()
        assert sorted(calls) == [3, 4]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_results_of_one_call_are_computed_once(sizes):
    calls = []

    def counted(value, other):
        calls.append(value)
        return value // other, value % other

    split = np.frompyfunc(counted, 2, 2)
    a = np.arange(40).astype(object)
    with thresholds(*sizes):
        quotient, rest = split(dv.View(a), 7)
        assert_same((quotient * 7 + rest)(), a)
        assert sorted(calls) == a.tolist()


def test_a_failing_function_fails_the_expression_and_no_other():
    def fails(value):
        if value == 33:
            raise KeyError("thirty-three")
        return value

    function = np.frompyfunc(fails, 1, 1)
    a = np.arange(40).astype(object)
    for small, block in SIZES:
        with thresholds(small, block):
            v = function(dv.View(a)) + 1
            with pytest.raises(KeyError, match="thirty-three"):
                v()
            assert_same(v[:33](), a[:33] + 1)
            assert_same((dv.View(a) + 1)(), a + 1)


# ---------------------------------------------------------------- executors and threads


def sample_expression(a, b):
    return np.maximum((a - b) * a / (b + 3), a[::-1]) + np.exp(-a / 50)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_every_number_of_threads_gives_the_same(workers, rng):
    a, b = rng.normal(0, 9, (999, 7)), rng.normal(0, 9, 7)
    with thresholds(100, 64):
        view = sample_expression(dv.View(a), dv.View(b))
        default = view()
        with ThreadPoolExecutor(workers) as pool, dv.executor(pool):
            assert_same(view(), default)
            assert_same(view[5:-5:3](), default[5:-5:3])
            with pytest.raises(FloatingPointError), np.errstate(divide="raise"):
                (1 / (dv.View(a) * 0))()
    assert ulps(default, sample_expression(a, b)) <= 4


def test_a_pool_of_processes_gives_the_same():
    a, b = np.linspace(-9, 9, 300).reshape(100, 3), np.array([1.0, 2, 4])
    view = sample_expression(dv.View(a), dv.View(b))
    default = view()
    context = multiprocessing.get_context("spawn")
    with thresholds(10, 10), ProcessPoolExecutor(1, context) as pool, dv.executor(pool):
        assert_same(view(), default)
        assert_same(view[::2](), default[::2])
        buffer = np.empty((100, 3))
        assert_same(view(out=buffer), default)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            (1 / (dv.View(a) * 0))()


def test_a_fork_computes_the_same_with_threads_of_its_own(rng):
    a = rng.normal(size=(1 << 19, 2))
    view = np.sqrt(dv.View(a) ** 2 + 1)
    expected = view()  # the pool of threads is there when the process is forked
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the matter
        child = os.fork()
    if not child:
        try:
            os._exit(0 if np.array_equal(view(), expected) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_that_was_spawned_computes_the_same(rng):
    a = rng.normal(size=(1 << 19, 2))
    view = np.sqrt(dv.View(a) ** 2 + 1)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(total_of, view).result() == total_of(view)


def total_of(view):
    """Give one number that all of a view's data have a part in."""
    return float(view().sum())


def test_four_threads_at_once_give_the_same(rng):
    a, b = rng.normal(0, 9, (999, 7)), rng.normal(0, 9, 7)
    expected = sample_expression(dv.View(a), dv.View(b))()
    v = dv.View(a)
    centred = (v - v._mean(axis=0)) / v._std(axis=0)
    alone = ((dv.View(a) - dv.View(a)._mean(axis=0)) / dv.View(a)._std(axis=0))()
    with thresholds(100, 64):
        view = sample_expression(v, dv.View(b))
        start = threading.Barrier(4)

        def work(number):
            start.wait()
            return [view(), view[number:](), centred()]

        with ThreadPoolExecutor(4) as pool:
            for number, (whole, part, middle) in enumerate(pool.map(work, range(4))):
                assert_same(whole, expected)
                assert_same(part, expected[number:])
                np.testing.assert_allclose(middle, alone, rtol=1e-12)


def test_a_fork_while_the_pool_is_made_computes_all_the_same():
    code = """
import os, signal
import numpy as np
import dataview as dv
from dataview.compute import executors
x = dv.View(np.ones(3_000_000))
with executors._lock:
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(0 if (x * 2)._sum()() == 6e6 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed("-c", code).split() == ["0"]


def test_large_data_is_computed_while_the_interpreter_ends():
    code = """
import atexit
import numpy as np
import dataview as dv
x = dv.View(np.ones(3_000_000))
atexit.register(lambda: print((x * 2)._sum()()))
if {begun}:
    (x * 2)()
"""
    for begun in (True, False):
        assert printed("-c", code.format(begun=begun)).split() == ["6000000.0"]


def test_tasks_of_a_pool_that_evaluate_on_it_do_not_wait_for_each_other():
    x = dv.View(np.ones(3_000_000))
    both = threading.Barrier(2)

    def total():
        both.wait(timeout=60)
        with dv.executor(pool):
            return float((x * 2)._sum()())

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(total) for _ in range(2)]
        assert [one.result(timeout=60) for one in found] == [6e6, 6e6]


def test_what_is_no_executor_is_refused():
    with pytest.raises(TypeError), dv.executor(4):
        pass


# ---------------------------------------------------------------- what is read


def test_building_an_expression_reads_nothing():
    rows = Rows(50)
    v = rows.view
    z = np.sqrt((v - v._mean(axis=0)) / v._std(axis=0) + v[::-1] * 2)[3:7]
    assert z._shape() == (4, 3) and z._dtype() == np.float64 and len(z) == 4
    repr(z)
    dir(z)
    list(z)
    assert rows.asked == []


@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_a_part_of_an_expression_reads_the_rows_it_needs(sizes):
    rows = Rows(50)
    v = rows.view
    with thresholds(*sizes):
        for key in [5, np.s_[3:40:7], [4, 4, -1], np.s_[::-1], np.s_[:0], (np.s_[2:30], 1)]:
            got = ((v * 2 + v) / (v + 1))[key]()
            needed = np.unique(np.arange(50)[key[0] if isinstance(key, tuple) else key])
            assert sorted(rows.asked) == needed.tolist(), key
            rows.asked.clear()
            assert_same(got, ((rows.data * 2 + rows.data) / (rows.data + 1))[key])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_standardising_makes_every_row_once(sizes):
    rows = Rows(600)
    with thresholds(*sizes):
        d = dv.View(input=rows.view, target=np.zeros(600))
        z = (d.input - d.input._mean(axis=0)) / d.input._std(axis=0)
        got = z()
    assert rows.counts() == [1] * 600
    expected = (rows.data - rows.data.mean(axis=0)) / rows.data.std(axis=0)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_standardising_in_slices_makes_the_first_rows_with_the_statistics(sizes):
    rows = Rows(600)
    with thresholds(*sizes):
        d = dv.View(input=rows.view, target=np.zeros(600))
        z = (d.input - d.input._mean(axis=0)) / d.input._std(axis=0)
        parts = [z[start : start + 256]() for start in range(0, 600, 256)]
        assert rows.counts() == [1] * 256 + [2] * 344
        assert_same(np.concatenate(parts), z())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_standardising_into_a_buffer_makes_every_row_once(sizes):
    rows = Rows(100)
    with thresholds(*sizes):
        v = rows.view
        ((v - v._mean(axis=0)) / v._std(axis=0))(out=np.empty((100, 3)))
    assert rows.counts() == [1] * 100


def test_some_rows_of_standardised_data_need_the_statistics_and_these_rows():
    rows = Rows(600)
    d = dv.View(input=rows.view, target=np.zeros(600))
    z = (d.input - d.input._mean(axis=0)) / d.input._std(axis=0)
    z[:5]()
    assert rows.counts() == [1] * 600
    z[:5]()
    z[7]()
    assert rows.counts() == [1] * 5 + [0, 0, 1] + [0] * 592


def test_a_warning_names_the_line_that_asked_for_the_data():
    large = dv.View(np.zeros(1 << 21))
    for ask in [lambda: (1 / large)(), lambda: dv.View(np.empty((0, 3)))._mean(axis=0)()]:
        with pytest.warns(RuntimeWarning) as told:
            ask()
        assert {warning.filename for warning in told} == {__file__}


@pytest.mark.parametrize(
    "compute",
    [
        lambda v: v / 3 - 1,
        lambda v: v._mean(axis=0),
        lambda v: functools.partial(v / 3 - 1, out=np.empty((100, 4))),
    ],
    ids=["expression", "statistic", "into an array"],
)
def test_an_interrupt_leaves_no_trace_in_numpys_error_state(compute, monkeypatch):
    class Interrupted(np.errstate):
        """Ctrl-C comes before the state is set back."""

        def __exit__(self, *error):
            raise KeyboardInterrupt

    def interrupt():
        with thresholds(8, 16):
            before, asked = np.geterr(), compute(dv.View(np.arange(400.0).reshape(100, 4)))
            monkeypatch.setattr(np, "errstate", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                asked()
            monkeypatch.undo()
            assert np.geterr() == before

    contextvars.copy_context().run(interrupt)
