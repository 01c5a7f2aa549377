"""NumPy's functions of views have NumPy's results, and are lazy where that is supported."""

from __future__ import annotations

import datetime
import fractions
import math
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
import newest
from counting import Counting
from dataview.index.sizes import sizes
from dataview.plan import layout
from oracle import (
    NUMBERS,
    OTHERS,
    SWAPPED,
    WRITABLE,
    arrays,
    as_array,
    assert_same,
    attempt,
    bases,
    check_same,
    evaluated,
    examples,
    fill,
    fill_bool,
    keys,
    public_class,
    silence,
    values,
)

DTYPES = [np.dtype(code) for code in NUMBERS + OTHERS + SWAPPED]
PLAIN = [dtype for dtype in DTYPES if not dtype.hasobject]
FLOATS = [np.dtype(code) for code in "f2 f4 f8 g >f8".split()]
SHAPES = st.lists(st.sampled_from([2, 3, 1, 4, 0]), min_size=0, max_size=4).map(tuple)


def quietly(compute, subject):
    """Give the result of a function of one argument, or its exception, without warnings."""
    with silence():
        return attempt(lambda given: evaluated(compute(given)), subject)


def check_function(compute, array, data):
    """Compare a function of a view with NumPy's of the array, and a part of its result too."""
    expected, refusal = quietly(compute, array)
    if refusal is not None:
        got, error = quietly(compute, dv.View(array))
        assert isinstance(error, public_class(refusal)), (got, error, refusal)
        return
    with silence():
        view = compute(dv.View(array))
        assert isinstance(view, dv.View), "the result of a row of the table is lazy"
        expected = as_array(expected)
        if expected.dtype.kind in "US":  # a single text loses its width
            expected = expected.astype(view._dtype())
        assert view._shape() == expected.shape
        assert_same(view(), expected)
        key = data.draw(keys(expected.shape))
        check_same(view, expected, lambda a: a[key])
        assert_same(pickle.loads(pickle.dumps(view))(), expected)


# ---------------------------------------------------------------- layouts


def factors(draw, size):
    """Draw a shape of so many elements."""
    shape = []
    while size > 1 and len(shape) < 4:
        part = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        shape.append(part)
        size //= part
    return (*shape, size) if size != 1 or not shape else tuple(shape)


@st.composite
def layouts(draw, shape):
    """Draw a function that lays out an array of this shape anew."""
    ndim = len(shape)
    axis = st.integers(-ndim - 1, ndim)
    kind = draw(st.sampled_from(["reshape", "transpose", "axis", "move", "broadcast", "ravel"]))
    if kind == "reshape":
        wanted = list(factors(draw, int(np.prod(shape))))
        if draw(st.integers(0, 3)) == 0:
            wanted[draw(st.integers(0, len(wanted) - 1))] = draw(st.sampled_from([-1, 5]))
        order = draw(st.sampled_from(["C", "C", "F"]))
        return lambda a: np.reshape(a, tuple(wanted), order=order)
    if kind == "transpose":
        axes = draw(st.none() | st.permutations(range(ndim)) | st.lists(axis, max_size=3))
        return lambda a: np.transpose(a, axes)
    if kind == "axis":
        function = draw(st.sampled_from([np.expand_dims, np.squeeze, np.flip]))
        where = draw(axis | st.lists(axis, max_size=2).map(tuple))
        return lambda a: function(a, where)
    if kind == "move":
        function = draw(st.sampled_from([np.moveaxis, np.swapaxes]))
        source, place = draw(axis), draw(axis)
        return lambda a: function(a, source, place)
    if kind == "broadcast":
        front = draw(st.lists(st.sampled_from([2, 1, 3]), max_size=2))
        wide = tuple(draw(st.sampled_from([n, 3])) if n == 1 else n for n in shape)
        return lambda a: np.broadcast_to(a, (*front, *wide))
    order = draw(st.sampled_from(["C", "F"]))
    return lambda a: np.ravel(a, order)


@examples(300)
@given(st.data(), arrays(dtypes=DTYPES, shapes=SHAPES))
def test_a_layout_is_numpys(data, array):
    first = data.draw(layouts(array.shape))
    found, refusal = quietly(first, array)
    if refusal is None:
        second = data.draw(layouts(found.shape))
        check_function(lambda a: second(first(a)), array, data)
    else:
        check_function(first, array, data)


@examples(200)
@given(st.data(), bases(layouts=WRITABLE, dtypes=[np.dtype("i4"), np.dtype("f8")], shapes=SHAPES))
def test_a_layout_is_written_through(data, base):
    compute = data.draw(layouts(base.array.shape))
    numbers = np.arange(base.array.size).reshape(base.array.shape)
    places, refusal = quietly(compute, numbers)
    if refusal is not None:
        return
    view = compute(dv.View(base.array))
    key = data.draw(keys(places.shape))
    before = base.array.copy()
    chosen, refusal = quietly(lambda a: a[key], places)
    if refusal is not None:
        return
    try:
        view[key] = 7
    except dv.ReadOnlyError:
        assert not places.flags.writeable
        assert_same(base.array, before)
        return
    expected = before.flatten()
    expected[np.ravel(chosen)] = 7
    assert_same(base.array, expected.reshape(before.shape))


def test_rows_of_a_reshape_are_rows_of_the_data():
    rows = Counting(lambda number: np.full((4, 6), float(number)))
    flat = np.reshape(rows.probed(100), (100, 24))
    assert flat._shape() == (100, 24)
    assert_same(flat[5:7](), np.repeat([[5.0], [6.0]], 24, axis=1))
    assert sorted(set(rows.asked)) == [5, 6]


PARTS_OF_RESHAPED = {
    "all": lambda v: v,
    "its axes turned": lambda v: np.transpose(v, (2, 0, 1)),
    "all but one": lambda v: v[:, 1:],
    "one": lambda v: v[0, 1],
    "in an order of rows": lambda v: v[[1, 0, 0]],
}


@pytest.mark.parametrize("part", PARTS_OF_RESHAPED.values(), ids=PARTS_OF_RESHAPED)
@pytest.mark.parametrize("is_read", ["in memory", "computed", "made by a function"])
def test_parts_of_a_reshape_that_merges_axes(is_read, part):
    a = np.arange(48.0).reshape(4, 6, 2)
    rows = {
        "in memory": lambda: np.transpose(dv.View(a.transpose(1, 0, 2)), (1, 0, 2)),
        "computed": lambda: dv.View(a - 1) + 1,
        "made by a function": lambda: dv.View(a)._map(lambda row: row() * 1.0),
    }
    found = part(np.reshape(rows[is_read]()._probe(), (2, 3, 8)))
    assert_same(found(), part(a.reshape(2, 3, 8)))
    assert not np.shares_memory(found(copy=True), a)


def test_most_of_a_reshape_is_read_without_the_place_of_each_element(monkeypatch):
    def digit(*given):
        raise AssertionError("a place was computed")

    monkeypatch.setattr(layout, "digit", digit)
    a = np.arange(48.0).reshape(4, 6, 2)
    turned = np.transpose(np.reshape(dv.View(a) + 1, (24, 2)), (1, 0))
    assert_same(turned(), a.reshape(24, 2).T + 1)
    hot = np.reshape(dv.View(np.arange(6) % 3)._onehot(range(3)), (2, 3, 3))
    assert_same(np.transpose(hot, (0, 2, 1))(), hot().transpose(0, 2, 1))


def test_a_contiguous_array_is_reshaped_without_a_copy():
    a = np.arange(12.0)
    v = dv.View(a)._reshape(3, 4)
    assert np.shares_memory(v(), a)
    v[1:, ::2] = -1
    assert a.tolist() == [0, 1, 2, 3, -1, 5, -1, 7, -1, 9, -1, 11]


def test_a_copy_of_a_reshape_is_a_copy():
    a = np.arange(24.0).reshape(4, 6)
    v = dv.View(a, left=np.s_[:3])._reshape(-1)
    found = v(copy=True)
    found += 1
    assert a[0, 0] == 0
    assert not v._fields()
    with pytest.raises(AttributeError, match="left"):
        v._field("left")


def test_fields_follow_the_axes_that_a_layout_keeps():
    a = np.arange(24).reshape(2, 3, 4)
    v = dv.View(a, left=np.s_[:2])
    assert_same(v._transpose(1, 0, 2).left(), a.transpose(1, 0, 2)[..., :2])
    assert_same(v._reshape(6, 4).left(), a.reshape(6, 4)[:, :2])
    assert_same(np.expand_dims(v, 0).left(), a[None, ..., :2])


# ---------------------------------------------------------------- elements

OF_ONE = [
    *(np.real, np.imag, np.angle, np.fix, np.isreal, np.iscomplex, np.isposinf, np.isneginf),
    *(np.nan_to_num, np.round, lambda a: np.round(a, 1), lambda a: np.round(a, -1)),
    *(lambda a: np.clip(a, 1, 3), lambda a: np.clip(a, None, 2), lambda a: np.clip(a, 0.5, None)),
    *(lambda a: np.clip(a, a, a), lambda a: np.clip(a, a, None)),
    *(lambda a: np.clip(a, min=1, max=a), lambda a: np.where(a, a, 0), lambda a: np.where(a, 1, a)),
    *(lambda a: np.where(a == a, a[..., :1], 2), lambda a: np.isclose(a, 1, equal_nan=True)),
    *(lambda a: np.isclose(a, a, rtol=0.1), lambda a: np.nan_to_num(a, nan=7, posinf=1)),
]
POWERS = [2, 2.0, 0.5, -1, -1.0, 0, 1, 3, True, np.float32(2), np.int64(2), 2j]


@examples(300)
@given(st.data(), arrays(dtypes=DTYPES, shapes=SHAPES), st.sampled_from(OF_ONE))
def test_a_function_of_elements_is_numpys(data, array, compute):
    if array.dtype.kind in "USO":
        return
    check_function(compute, array if array.ndim else array[None], data)


@examples(200)
@given(st.data(), arrays(dtypes=DTYPES, shapes=SHAPES), st.sampled_from(POWERS))
def test_a_power_is_what_the_operator_of_arrays_gives(data, array, exponent):
    array = array if array.ndim else array[None]
    check_function(lambda a: newest.power(a, exponent), array, data)
    mine, own = array.copy(), array.copy()
    view = dv.View(mine)
    _, refusal = quietly(lambda a: newest.power_in_place(a, exponent), own)
    _, error = quietly(lambda a: newest.power_in_place(a, exponent), view)
    assert (refusal is None) == (error is None)
    assert_same(mine, own if refusal is None else array)  # a failure changes nothing


@examples(300)
@given(
    st.data(),
    arrays(dtypes=DTYPES, shapes=SHAPES),
    st.sampled_from("? i1 u2 i8 f2 f4 f8 c8 U S U5 S9 O M8[D] m8[s] M8 >f4".split()),
    st.sampled_from(["unsafe", "same_kind", "safe"]),
)
def test_elements_in_another_dtype_are_numpys(data, array, dtype, casting):
    if dtype == "O" and array.dtype.kind in "fc":  # as an object, NaN is equal to nothing
        array = np.nan_to_num(array)
    compute = lambda a: (  # noqa: E731
        a._astype(dtype, casting) if isinstance(a, dv.View) else a.astype(dtype, casting=casting)
    )
    _, refusal = quietly(compute, dv.View(array))
    if isinstance(refusal, TypeError) and "depends on the values" in str(refusal):
        assert array.dtype.kind in "OUS"
        return
    check_function(compute, array if array.ndim else array[None], data)


def test_the_result_of_a_conversion_is_read_only():
    v = dv.View(np.zeros(3))._astype("f8")
    with pytest.raises(dv.ReadOnlyError, match="astype"):
        v[0] = 1


def test_fields_stay_in_another_dtype():
    d = dv.View(np.arange(6.0).reshape(2, 3), input=np.s_[:2])
    assert_same(d._astype("f4").input(), np.array([[0, 1], [3, 4]], "f4"))


def test_numbers_that_numpy_knows_as_objects_are_operands():
    half = fractions.Fraction(1, 2)
    v = dv.View(np.array([1, 2], object))
    assert_same((v + half)(), np.array([1, 2], object) + half)
    day = dv.View(np.array(["2020-01-01"], "M8[D]"))
    assert bool((day == datetime.date(2020, 1, 1))()[0])


# ---------------------------------------------------------------- several arrays


@examples(200)
@given(st.data(), arrays(dtypes=DTYPES, shapes=SHAPES), st.integers(-3, 3))
def test_arrays_joined_are_numpys(data, array, axis):
    join = data.draw(st.sampled_from([np.concatenate, np.stack, np.vstack, np.hstack]))
    options = {} if join in (np.vstack, np.hstack) else {"axis": axis}
    more = array[:1] if array.ndim and data.draw(st.booleans()) else array
    check_function(lambda a: join([a, more, a[:1] if a.ndim else a], **options), array, data)


def test_arrays_joined_over_all_axes():
    a = np.arange(6).reshape(2, 3)
    joined = np.concatenate([dv.View(a), a], axis=None)
    assert isinstance(joined, dv.View)
    assert_same(joined(), np.concatenate([a, a], axis=None))


@examples(200)
@given(st.data(), arrays(dtypes=DTYPES, shapes=SHAPES), st.integers(-3, 2) | st.none())
def test_elements_taken_are_numpys(data, array, axis):
    numbers = data.draw(
        st.sampled_from(
            [0, [0, 0], [[1, 0], [0, -1]], np.array(0), [], [5], [True], np.array([0.5])]
        )
    )
    if not array.size or not array.ndim:  # NumPy checks neither bounds nor dtypes there
        return
    check_function(lambda a: np.take(a, numbers, axis=axis), array, data)


# ---------------------------------------------------------------- matrix products

SIDES = st.lists(st.sampled_from([2, 3, 1, 0]), min_size=0, max_size=2).map(tuple)


@examples(300)
@given(
    st.data(),
    st.sampled_from("? i4 u1 f4 f8 c16 O".split()),
    st.sampled_from("i2 f4 f8".split()),
    SIDES,
    SIDES,
    st.sampled_from([2, 3, 1, 0]),
)
def test_a_matrix_product_is_numpys(data, one, other, lead, trail, inner):
    rng = np.random.default_rng(0)
    left = rng.integers(-4, 4, (*lead, inner)).astype(one)
    columns = data.draw(st.sampled_from([(), (2,), (1,), (3,)]))
    right = rng.integers(-4, 4, (*(trail if columns else ()), inner, *columns)).astype(other)
    multiply = data.draw(st.sampled_from([np.matmul, np.dot, operator.matmul]))
    view_first = data.draw(st.booleans())

    def compute(a):
        if not isinstance(a, dv.View):
            return multiply(left, right)
        return multiply(a, right) if view_first else multiply(left, dv.View(right))

    if multiply is np.dot and max(left.ndim, right.ndim) > 2:
        expected, refusal = quietly(compute, left)
        got, error = quietly(compute, dv.View(left))
        assert (refusal is None) == (error is None)
        if refusal is None:
            assert_same(got, expected)
        return
    check_function(compute, left, data)


def test_rows_and_columns_are_pushed_into_a_product(rng):
    rows = Counting(lambda number: np.full(4, float(number)))
    x = rows.probed(1000)
    w, b = rng.normal(size=(4, 3)), rng.normal(size=3)
    found = (x @ w + b)[:5]()
    assert sorted(set(rows.asked)) == list(range(5))
    assert np.allclose(found, np.arange(5.0)[:, None] * w.sum(0) + b)
    rows.asked.clear()
    assert (x @ w)[[7, 3, 7], 1]().shape == (3,)
    assert sorted(set(rows.asked)) == [3, 7]


def test_a_product_of_wrong_shapes_is_refused_when_it_is_built():
    v = dv.View(np.zeros((2, 3)))
    for other in [np.zeros((2, 3)), np.zeros(2), 3.0]:
        with pytest.raises(ValueError, match="matmul"):
            v @ other
    with pytest.raises(TypeError, match="choose a field: 'a'"):
        dv.View(a=[1.0, 2.0]) @ v


def test_a_product_in_place():
    a = np.arange(4.0).reshape(2, 2)
    v = dv.View(a)
    v @= np.eye(2)[::-1]
    assert a.tolist() == [[1, 0], [3, 2]]


# ---------------------------------------------------------------- the rest of NumPy


@pytest.mark.parametrize("q", [0.5, [0.1, 0.9], np.array([[0.25], [1.0]])])
@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": 0, "method": "nearest"}])
def test_quantiles_by_numpys_names_are_lazy(q, options, rng):
    a = rng.normal(size=(7, 5))
    for function, scale in [(np.quantile, 1), (np.percentile, 100)]:
        wanted = np.multiply(q, scale)
        view = function(dv.View(a), wanted, **options)
        assert isinstance(view, dv.View)
        assert_same(view(), function(a, wanted, **options))


def test_distinct_values_by_numpys_name():
    a = np.array(["b", "a", "b", "c"])
    assert_same(np.unique(dv.View(a)), np.unique(a))
    for got, expected in zip(
        np.unique(dv.View(a), return_counts=True), np.unique(a, return_counts=True), strict=True
    ):
        assert_same(got, expected)
    assert_same(np.unique(dv.View(a), return_index=True)[1], np.unique(a, return_index=True)[1])


@pytest.mark.parametrize("name", "sum prod min max argmin argmax any all mean var std".split())
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_statistics_by_numpys_names_are_lazy(name, axis, keepdims):
    a = np.arange(12).reshape(3, 4) % 5
    view = getattr(np, name)(dv.View(a), axis=axis, keepdims=keepdims)
    assert isinstance(view, dv.View)
    assert_same(view(), getattr(np, name)(a, axis=axis, keepdims=keepdims))


CALLS = {
    "sort": np.sort,
    "cumsum": lambda a: np.cumsum(a, axis=0),
    "sum in another dtype": lambda a: np.sum(a, dtype="f4"),
    "sum from a start": lambda a: np.sum(a, initial=5),
    "sum of some": lambda a: np.sum(a, where=a > 2),
    "percentile of rows": lambda a: np.percentile(a, 30, axis=1, method="lower"),
    "searchsorted": lambda a: np.searchsorted(np.arange(5), a),
    "einsum": lambda a: np.einsum("ij->j", a),
    "histogram": lambda a: np.histogram(a, 3)[0],
    "norm": np.linalg.norm,
    "where alone": lambda a: np.where(a > 3)[1],
    "column_stack": lambda a: np.column_stack([a, a]),
    "a list of views": lambda a: np.array_equiv(a, [a, a][0]),
    "allclose": lambda a: np.allclose(a, a + 1e-9),
    "array_equal": lambda a: np.array_equal(a, a),
    "array_equal of others": lambda a: np.array_equal(a, a[:1]),
    "count_nonzero": lambda a: np.count_nonzero(a, axis=0),
    "a negative power": lambda a: np.power(a, 2.0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_any_function_of_a_view_is_numpys(call):
    a = np.arange(12).reshape(3, 4)
    assert_same(evaluated(call(dv.View(a))), call(a))


def test_what_is_known_of_a_view_is_told_without_reading():
    rows = Counting(lambda number: np.zeros(3))
    made = rows.probed(10)
    assert np.shape(made) == (10, 3)
    assert (np.ndim(made), np.size(made), np.size(made, 1)) == (2, 30, 3)
    assert np.result_type(made, np.float32) == np.float64
    assert np.can_cast(np.float32, np.float64) and not np.iscomplexobj(made)
    like = np.full_like(made, 2.5)
    assert_same(like, np.full((10, 3), 2.5))
    like[0] = 1
    assert not rows.asked


def test_functions_that_change_an_array_change_the_data_of_a_view():
    for change in [
        lambda a: np.copyto(a[1:], [9.0]),
        lambda a: np.copyto(a, 7, where=np.arange(6) > 3),
        lambda a: np.put(a, [0, 2], [5, 6]),
        lambda a: np.place(a, np.arange(6) > 4, [1]),
        lambda a: np.putmask(a, np.arange(6) > 2, 8),
        lambda a: np.add.at(a, [1, 1], 2),
        lambda a: np.add(a, 1, out=a, where=np.arange(6) > 3),
        lambda a: np.cumsum(a, out=a),
        lambda a: np.modf(np.arange(6.0) + 0.5, out=(a, None)),
        lambda a: np.nan_to_num(a, copy=False),
    ]:
        own, mine = np.arange(6.0), np.arange(6.0)
        change(own)
        change(dv.View(mine))
        assert_same(mine, own)
        with pytest.raises(ValueError, match="read-only"):
            change(dv.View(mine.copy())._readonly())
        assert_same(mine, own)


@examples(300)
@given(st.data())
def test_a_value_is_copied_or_put_where_a_mask_is_true_as_numpy_does(data):
    base = data.draw(bases(WRITABLE, DTYPES, SHAPES))
    twin, shape = base.twin(), base.array.shape
    value = data.draw(values((), base.array.dtype))
    rows = data.draw(st.booleans()) and len(shape) > 1
    mask = fill((shape[0], *(1,) * (len(shape) - 1)) if rows else shape, bool)
    casting = data.draw(st.sampled_from(["same_kind", "unsafe", "no"]))

    def change(a):
        given = dv.View(mask) if isinstance(a, dv.View) else mask
        own = isinstance(a, dv.View) or not isinstance(value, dv.View)
        one = value if own else np.asarray(value)
        with silence():
            if function == "putmask":
                np.putmask(a, given, one)
            elif function == "all":
                np.copyto(a, one, casting)
            else:
                np.copyto(a, one, casting, where=given)

    function = data.draw(st.sampled_from(["copyto", "putmask", "all"]))
    _, refusal = attempt(change, twin.array)
    with sizes.set(
        streamed_elements=data.draw(st.sampled_from([0, 1 << 16])),
        at_once_bytes=0,
        computed_bytes=0,
        block_bytes=64,
    ):
        if refusal is None:
            change(dv.View(base.array))
        else:
            with pytest.raises(public_class(refusal)):
                change(dv.View(base.array))
    assert_same(base.root, twin.root)


@st.composite
def changes(draw, shape, dtype):
    """Draw a function that changes an array of this shape through what NumPy offers for it."""
    count = math.prod(shape)
    mask = fill_bool(np.arange(count) + draw(st.integers(0, 3)), bool).reshape(shape)
    rows = mask[..., :1] if shape else mask
    others = fill(shape, draw(st.sampled_from([dtype, *PLAIN])), 3)
    some = others.reshape(-1)[: draw(st.integers(0, 3))]
    numbers = np.array(draw(st.lists(st.integers(-count - 1, count), max_size=5)), int)
    rows_within = numbers[np.abs(2 * numbers + 1) < 2 * (*shape, 0)[0]]
    mode = draw(st.sampled_from(["raise", "wrap", "clip"]))
    axis = draw(st.integers(-1, max(len(shape) - 1, 0)))
    along = np.zeros([1 if n == axis % max(len(shape), 1) else k for n, k in enumerate(shape)], int)
    square = fill((*shape[-1:], *shape[-1:]), np.dtype(int))
    casting = draw(st.sampled_from(["same_kind", "unsafe", "safe"]))
    product = np.matmul if dtype.kind in "biufc" and shape else np.maximum
    return draw(
        st.sampled_from(
            [
                lambda a: np.copyto(a, given_as(a, others), casting, where=given_as(a, mask)),
                lambda a: np.copyto(a, given_as(a, others), casting, where=rows),
                lambda a: np.putmask(a, given_as(a, mask), given_as(a, others)),
                lambda a: np.putmask(a, given_as(a, mask), some),
                lambda a: np.putmask(a, given_as(a, mask), some.tolist()),
                lambda a: np.place(a, given_as(a, mask), some),
                lambda a: np.place(a, given_as(a, mask), some.tolist()),
                lambda a: np.put(a, numbers, some.tolist(), "clip"),
                lambda a: np.fill_diagonal(a, some.tolist()),
                lambda a: np.put(a, numbers, some, mode),
                lambda a: np.put(a, numbers, given_as(a, others), mode=mode),
                lambda a: np.fill_diagonal(a, some),
                lambda a: np.fill_diagonal(a, 1, wrap=True),
                lambda a: np.put_along_axis(a, along, 1, axis),
                lambda a: np.add.at(a, rows_within, 1),
                lambda a: np.maximum.at(a, rows_within, given_as(a, others[rows_within])),
                lambda a: np.add(a, given_as(a, others), out=a, where=given_as(a, mask)),
                lambda a: np.divide(given_as(a, others), a, out=a, where=rows),
                lambda a: np.negative(a, out=a, where=True),
                lambda a: np.negative(a, out=a, where=False),
                lambda a: product(a, square % 3, out=a),
                lambda a: product(a, (square % 3).astype(dtype), out=a),
                lambda a: product(given_as(a, others), square % 3, out=a),
            ]
        )
    )


def given_as(subject, array):
    """Give an array as a view where the subject is a view."""
    return dv.View(array) if isinstance(subject, dv.View) else array


@examples(1500)
@given(st.data())
def test_functions_that_change_an_array_change_a_view_alike(data):
    base = data.draw(bases(WRITABLE, PLAIN, SHAPES))
    twin = base.twin()
    change = data.draw(changes(base.array.shape, base.array.dtype))

    def quiet(a):
        with silence():
            change(a)

    _, refusal = attempt(quiet, twin.array)
    before = base.root.copy()
    with sizes.set(
        streamed_elements=data.draw(st.sampled_from([0, 1 << 16])),
        at_once_bytes=0,
        computed_bytes=0,
        block_bytes=64,
    ):
        if refusal is None:
            quiet(dv.View(base.array))
            assert_same(base.root, twin.root)
        else:
            with pytest.raises(public_class(refusal)):
                quiet(dv.View(base.array))
            assert_same(base.root, before)


def test_a_number_out_of_bounds_changes_nothing():
    v = dv.View(np.arange(3.0))
    for change in [lambda: np.add.at(v, [0, 3], 1), lambda: np.put(v, [0, -4], 1)]:
        with pytest.raises(IndexError, match="out of bounds"):
            change()
        assert v().tolist() == [0.0, 1.0, 2.0]


def test_what_a_mask_leaves_out_is_not_computed():
    a, b = np.ones(1 << 17), np.zeros(1 << 17)
    b[1] = 2.0
    v = dv.View(a)
    np.divide(v, b, out=v, where=b != 0)  # a warning would be an error
    assert a[:3].tolist() == [1.0, 0.5, 1.0]


def test_a_result_is_written_into_a_view():
    a, b = np.arange(6.0), np.zeros(6)
    out = dv.View(b)
    assert np.add(a, 1, out=out) is out
    assert np.sum(np.ones((6, 6)), axis=0, out=out) is out
    assert_same(b, np.full(6, 6.0))


def test_a_record_is_no_array():
    d = dv.View(a=[1.0, 2.0], b=[3, 4])
    with pytest.raises(TypeError, match="choose a field"):
        np.where(d, 1, 0)
    with pytest.raises(TypeError, match="choose a field"):
        np.mean(d)


# ---------------------------------------------------------------- out=

INTO = {
    **{
        f"{kind} over {axis}": lambda a, out, kind=kind, axis=axis: getattr(np, kind)(
            a, axis=axis, out=out
        )
        for kind in "sum prod mean var std min max argmin argmax any all".split()
        for axis in (None, 0, 1)
    },
    "sum by position": lambda a, out: np.sum(a, 0, None, out),
    "sum in another dtype": lambda a, out: np.sum(a, 0, dtype="f4", out=out),
    "mean of some": lambda a, out: np.mean(a, 0, where=[True, False, True], out=out),
    "max with keepdims": lambda a, out: np.max(a, axis=0, keepdims=True, out=out),
    "var with ddof": lambda a, out: np.var(a, 0, ddof=1, out=out),
    "nanmean": lambda a, out: np.nanmean(a, axis=0, out=out),
    "nanmax": lambda a, out: np.nanmax(a, axis=0, out=out),
    "median": lambda a, out: np.median(a, axis=0, out=out),
    "quantile": lambda a, out: np.quantile(a, 0.5, axis=0, out=out),
    "quantiles": lambda a, out: np.quantile(a, [0.5, 0.25], axis=0, out=out),
    "ptp": lambda a, out: np.ptp(a, 0, out),
    "cumsum": lambda a, out: np.cumsum(a, axis=0, out=out),
    "dot": lambda a, out: np.dot(a, np.ones((3, 3)), out=out),
    "dot by position": lambda a, out: np.dot(a, np.ones(3), out),
    "take": lambda a, out: np.take(a, [1, 0], axis=0, out=out),
    "take one": lambda a, out: np.take(a, -1, 1, out),
    "take clipped": lambda a, out: np.take(a, [7, 0], 0, out, "clip"),
    "concatenate": lambda a, out: np.concatenate([a, a[:1]], axis=0, out=out),
    "concatenate unsafely": lambda a, out: np.concatenate([a, a[:1]], casting="unsafe", out=out),
    "concatenate in a dtype": lambda a, out: np.concatenate([a, a[:1]], dtype="f4", out=out),
    "stack": lambda a, out: np.stack([a, a], out=out),
    "clip": lambda a, out: np.clip(a, 1, 3, out=out),
    "round": lambda a, out: np.round(a, 0, out=out),
    "isposinf": lambda a, out: np.isposinf(a, out),
    "trace": lambda a, out: np.trace(a, out=out),
    "compress": lambda a, out: np.compress([True, False], a, axis=0, out=out),
    "where": lambda a, out: np.where(a, a, 1, out=out),
    "add": lambda a, out: np.add(a, 1, out=out),
    "add.reduce": lambda a, out: np.add.reduce(a, axis=0, out=out),
    "matmul": lambda a, out: np.matmul(a, np.ones((3, 3)), out=out),
    "einsum": lambda a, out: np.einsum("ij->j", a, out=out),
}
SHAPES_OF_OUT = [(), (3,), (2,), (1,), (4,), (2, 3), (3, 3), (1, 3), (3, 1), (2, 2, 3)]


def written(call, a, out):
    """Give what the output holds after a call, and the exception."""
    with silence():
        found, refusal = attempt(lambda given: call(given, out), a)
    assert refusal is not None or found is out
    return np.array(out), refusal


def check_output(call, a, out):
    """Compare a call with NumPy's: of arrays and views, into arrays and views."""
    expected, refusal = written(call, a, out.copy())
    for data, into in [(dv.View(a), dv.View), (a, dv.View), (dv.View(a), np.asarray)]:
        got, error = written(call, data, into(out.copy()))
        if refusal is not None:
            assert isinstance(error, public_class(refusal)), (error, refusal)
            if into is dv.View:
                assert_same(got, out)
            continue
        assert error is None, error
        if out.dtype.kind in "fc":
            np.testing.assert_allclose(got, expected, rtol=1e-4 if out.dtype == "f4" else 1e-6)
        else:
            assert_same(got, expected)


@pytest.mark.parametrize("shape", SHAPES_OF_OUT, ids=str)
@pytest.mark.parametrize("call", INTO.values(), ids=INTO)
def test_an_output_has_the_shape_that_numpy_asks_for(call, shape):
    a = np.array([[0.5, 2, -3.25], [4, 1, 7.5]])
    for dtype in ("f8", "i8", "?"):
        check_output(call, a, np.ones(shape, dtype))


FITTING = {
    "over None": (), "over 0": (3,), "over 1": (2,), "position": (3,), "dtype": (3,), "some": (3,),
    "keepdims": (1, 3), "ddof": (3,), "nan": (3,), "median": (3,), "quantiles": (2, 3),
    "quantile": (3,), "ptp": (3,), "dot by": (2,), "take one": (2,), "concatenate": (3, 3),
    "stack": (2, 2, 3), "trace": (), "compress": (1, 3), "reduce": (3,), "einsum": (3,),
}  # fmt: skip


@pytest.mark.parametrize("call", INTO, ids=INTO)
def test_an_output_has_a_dtype_that_numpy_casts_to(call):
    shape = next((shape for part, shape in FITTING.items() if part in call), (2, 3))
    for dtype in ("f4", "f8", "i4", "u1", "i8", "?", "c16"):
        a = np.array([[0.5, 2, -3.25], [4, 1, 7.5]]).astype(dtype)
        for other in ("f4", "f8", "g", "i4", "i8", "?", "c16", "M8[s]"):
            check_output(INTO[call], a, np.ones(shape).astype(other))


@pytest.mark.parametrize(
    "call", ["sum over 0", "max over 0", "std over 0", "argmax over 0", "nanmean", "dot", "take"]
)
def test_objects_are_an_output_where_they_are_numpys(call):  # which crashes of some others
    a = np.array([[0.5, 2, -3.25], [4, 1, 7.5]])
    check_output(INTO[call], a, np.ones((2, 3) if call in ("dot", "take") else 3).astype("O"))


def test_a_wrong_output_is_refused_before_anything_is_read():
    rows = Counting(lambda number: np.zeros(3))
    v = rows.probed(10)
    rows.asked.clear()
    for call in [
        lambda out: np.sum(v, axis=0, out=out),
        lambda out: np.concatenate([v, v], out=out),
        lambda out: np.take(v, [1, 2], axis=0, out=out),
        lambda out: np.dot(v, np.ones((3, 3)), out=out),
    ]:
        for shape in [(7, 3), (3, 1), (1,), ()]:
            for out in [np.zeros(shape), dv.View(np.zeros(shape))]:
                with pytest.raises(ValueError, match="shape"):
                    call(out)
    with pytest.raises(TypeError):
        np.std(v, axis=0, out=dv.View(np.zeros(3, int)))
    with pytest.raises(ValueError, match="read-only"):
        np.sum(v, axis=0, out=dv.View(np.zeros(3))._readonly())
    assert not rows.asked


def test_a_sum_into_a_wider_output_is_taken_in_its_precision():
    a = (0.1 + np.array([1e7, 0, -1e7])).astype("f4") + np.float32(0.1)
    for out in (np.zeros(()), dv.View(np.zeros(()))):
        assert np.sum(dv.View(a), out=out) is out
        assert float(np.asarray(out)) == float(np.sum(a, dtype="f8"))


def test_batches_and_records_are_outputs():
    a = np.arange(12.0).reshape(6, 2)
    batches = dv.View(a)._minibatches(3)
    assert np.clip(batches, 3, 5, out=batches) is batches
    assert a.ravel().tolist() == [3, 3, 3, 3, 4, 5, 5, 5, 5, 5, 5, 5]
    record = dv.View(x=np.array([1.0, 2.0]), y=np.array([3, 4]))
    into = dv.View(x=np.zeros(3), y=np.zeros(3, int))
    assert np.take(record, [1, 0, 1], axis=0, out=into) is into
    assert into.x().tolist() == [2, 1, 2] and into.y().tolist() == [4, 3, 4]
    with pytest.raises(TypeError):
        np.sum(dv.View(a), axis=0, out=record)


def test_no_output_is_no_argument():
    v = dv.View(np.arange(6.0).reshape(2, 3))
    for found in [np.sum(v, axis=0, out=None), np.take(v, 0, 1, None), np.add(v, 1, out=None)]:
        assert isinstance(found, dv.View)


@pytest.mark.parametrize("ufunc", [np.frexp, np.modf, np.divmod])
def test_the_other_output_is_returned(ufunc):
    a = np.array([[0.5, -3.25, 8.0]])
    operands = [1.5] * (ufunc.nin - 1)
    expected = ufunc(a, *operands)
    for place in (0, 1):
        for make in (dv.View, np.asarray):
            into = make(np.zeros_like(expected[place]))
            outs = [None, None]
            outs[place] = into
            found = ufunc(dv.View(a), *operands, out=tuple(outs))
            assert type(found) is tuple and found[place] is into
            assert_same(np.asarray(found[1 - place]), expected[1 - place])
            assert_same(np.asarray(into), expected[place])
    both = (dv.View(np.zeros((1, 3))), np.zeros((1, 3), expected[1].dtype))
    found = ufunc(dv.View(a), *operands, out=both)
    assert found[0] is both[0] and found[1] is both[1]
    assert_same(both[0](), expected[0])
    assert_same(both[1], expected[1])


def test_an_output_is_an_array_or_a_view():
    v = dv.View(np.zeros(3))
    for out in ([0.0, 0.0, 0.0], "no", 5):
        for call in (lambda out: np.add(v, 1, out=out), lambda out: np.sum(v, out=out)):
            with pytest.raises(TypeError):
                call(out)


MATRICES = [(), (2,), (3,), (2, 2), (3, 2), (2, 3), (3, 2, 2), (1, 2, 2), (0, 2)]


@pytest.mark.parametrize("left", MATRICES, ids=str)
@pytest.mark.parametrize("right", MATRICES, ids=str)
def test_a_product_in_place_is_numpys(left, right):
    a, b = np.arange(12.0)[: max(1, np.prod(left, dtype=int))], np.arange(3.0, 15)
    a, b = np.resize(a, left), np.resize(b, right)
    own = a.copy()
    _, refusal = quietly(lambda given: operator.imatmul(given, b), own)
    for other in (b, dv.View(b)):
        mine = a.copy()
        view = dv.View(mine)
        found, error = quietly(lambda given, other=other: operator.imatmul(given, other), view)
        if refusal is None:
            assert error is None, error
            assert_same(mine, own)
        else:
            assert isinstance(error, public_class(refusal)), (found, error, refusal)
            assert_same(mine, a)


# ---------------------------------------------------------------- what was wrong once


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("q", [50, 12.5, np.float32(50), [25, 75], []])
def test_percentiles_have_numpys_dtype_and_shape(dtype, q):
    x = np.arange(12).reshape(4, 3).astype(dtype)
    for options in [{}, {"axis": 0}, {"axis": 0, "method": "nearest"}]:
        assert_same(np.percentile(dv.View(x), q, **options)(), np.percentile(x, q, **options))


@pytest.mark.parametrize(
    "bounds", [(-1, 300), (-1, None), (None, 300), (3, 300), (-1, 5), (0, 255)]
)
def test_small_integers_are_clipped_at_any_number(bounds):
    x = np.arange(8, dtype=np.uint8)
    expected = np.clip(x.astype(int), *bounds).astype(np.uint8)  # which NumPy 2.0 refuses of x
    assert_same(evaluated(np.clip(dv.View(x), *bounds)), expected)


@pytest.mark.parametrize("order", ["A", "K"])
def test_the_order_in_memory_is_numpys(order):
    x = np.arange(12).reshape(3, 4).T
    assert_same(evaluated(np.ravel(dv.View(x), order)), np.ravel(x, order))
    with pytest.raises(ValueError, match="'C' or 'F'"):
        dv.View(x)._reshape(-1, order=order)


def test_records_are_counted():
    x = np.array([(0, 0), (1, 0)], [("a", int), ("b", int)])
    assert np.count_nonzero(dv.View(x)) == np.count_nonzero(x)


def test_spans_and_points_of_time_are_not_joined():
    times = dv.View(np.array(["2020-01-01"], "M8[D]"))
    spans = np.array([1], "m8[D]")
    for join in [lambda: dv.concat(times, spans), lambda: np.concatenate([times, spans])]:
        with pytest.raises(TypeError, match="m8"):
            join()


@pytest.mark.parametrize("part", [np.real, np.imag])
def test_a_part_of_numbers_is_computed_and_lends_no_memory(part):
    x = np.ones((3, 2), complex)
    got = part(dv.View(x))()
    got[:] = 7
    assert_same(x, np.ones((3, 2), complex))


def test_lost_parts_of_complex_numbers_are_warned_of_once():
    real = dv.View(np.ones(3, complex))._astype("f4")
    with pytest.warns(np.exceptions.ComplexWarning) as told:
        real()
    assert len(told) == 1
    with pytest.raises(TypeError):
        dv.View(np.ones(3, complex))._astype("f4", casting="same_kind")


@pytest.mark.parametrize("dtype", [np.dtypes.StringDType(), object, "U1", "S1"])
def test_one_text_is_spread_out(dtype):
    for array in (np.array("A", dtype), np.array(["A", "b"], dtype), np.array([["A"]], dtype)):
        for shape in ((2, 2), (3, 2, 2), (0, 2)):
            assert_same(np.broadcast_to(dv.View(array), shape)(), np.broadcast_to(array, shape))


@pytest.mark.parametrize("axes", [33, 64])
def test_arrays_have_as_many_axes_as_numpys(axes):
    a = np.arange(-1.0, 3).reshape(2, 2, *[1] * (axes - 2))
    o, x = a.astype(object), np.ones((2, *[1] * (axes - 1)))
    v, w = dv.View(a), dv.View(o)
    for found, expected in [
        (np.where(v > 0, v, None), np.where(a > 0, a, None)), (w == 1, o == 1), (w + w, o + o),
        (v + x, a + x), (v == v[::-1], a == a[::-1]), (v._fillna(0), a),
        (np.sum(v, where=v > 0), np.sum(a, where=a > 0)),
    ]:  # fmt: skip
        assert found.shape == expected.shape
        assert_same(np.ravel(found()), np.ravel(expected))  # the oracle has no more than 32 axes
    v += x
    assert np.array_equal(a, o.astype(float) + 1)
    if axes < 64:
        assert v._onehot().shape == (*a.shape, 4)


def test_full_like_takes_its_value_from_a_view():
    rows = Counting(lambda number: np.zeros(3))
    like, other = rows.probed(2), np.array([1.5, 2.5, 3.5])
    for value in (dv.View(other), dv.View(other)._mean(), [dv.View(other)[0], 2, 3]):
        plain = value() if isinstance(value, dv.View) else [1.5, 2, 3]
        assert_same(np.full_like(like, value), np.full_like(np.ones((2, 3)), plain))
        assert_same(np.full_like(other, value, int), np.full_like(other, plain, int))
    assert not rows.asked


def test_a_tolerance_may_be_a_view():
    x = np.arange(4.0)
    near = dv.View(np.array([0.5, 1.5]))._mean()
    assert np.allclose(dv.View(x), x + 0.9, atol=near) and not np.allclose(dv.View(x), x + 9)
    assert_same(np.isclose(dv.View(x), x * 1.5, near), np.isclose(x, x * 1.5, 1.0))


@pytest.mark.parametrize(
    "unit", ["Y", "M", "W", "7D", "D", "h", "m", "25s", "s", "ms", "us", "ns", "ps", "fs", "as", ""]
)
@pytest.mark.parametrize("kind", ["m8", "M8"])
def test_texts_of_times_are_never_cut(kind, unit):
    if kind == "M8" and not unit:
        return  # NumPy has no datetimes of no unit
    numbers = np.array([0, -1, 10**9, 2**62 // 25, -(2**62) // 25])
    if kind == "m8":
        numbers = np.append(numbers, [2**63 - 1, -(2**63) + 1, -(2**63)])
    times = numbers.view(f"{kind}[{unit}]" if unit else kind)
    there = dv.View(np.ones(len(times), bool))._with_meta(mask_of="x")
    for wanted in ("U", "U60", "S", str):
        texts = [str(time) for time in times]
        if wanted == "S":
            texts = [text.encode() for text in texts]
        for x in (
            dv.View(times),
            dv.View(x=times, x_mask=there).x,
            dv.View(times.byteswap().view(times.dtype.newbyteorder())),
        ):
            assert x._astype(wanted)().tolist() == texts
            assert x._astype(wanted)[::-1][1:3]().tolist() == texts[::-1][1:3]
    if kind == "m8":  # datetimes are refused there
        assert dv.View(times)._astype("U5")().tolist() == times.astype("U5").tolist()
