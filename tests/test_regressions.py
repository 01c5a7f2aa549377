"""Errors that were found once, a test for each."""

import copy
import decimal
import fractions
import itertools
import math
import operator
import pickle
import sys
import tracemalloc

import numpy as np
import pytest

import dataview as dv
from counting import Counting
from dataview.index.sizes import sizes
from oracle import as_array, assert_same, attempt, evaluated, public_class, silence


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["f8", "M8[s]", ">i4", "U3"])
def test_a_large_view_survives_every_pickle_protocol(protocol, dtype):
    d = dv.View(np.zeros(400, dtype))
    again = pickle.loads(pickle.dumps(d, protocol))
    assert_same(again(), d())
    again._write(again[0]())
    ro = pickle.loads(pickle.dumps(d._readonly(), protocol))
    with pytest.raises(dv.ReadOnlyError):
        ro._write(ro[0]())


def test_members_written_from_each_other_are_read_first():
    a, b = np.arange(3.0), np.arange(3.0) + 10
    d = dv.View(a=a, b=b)
    d[:] = (d.b, d.a)
    assert_same(a, np.arange(3.0) + 10)
    assert_same(b, np.arange(3.0))


def test_joined_parts_of_unlike_dtypes_lose_nothing():
    i, f = np.zeros(2, int), np.zeros(2)
    joined = dv.concat(i, f)
    with pytest.raises(TypeError):
        joined[:] = 1.5
    joined[:] = 2
    assert i.tolist() == f.tolist() == [2, 2]
    small = np.zeros(2, np.int8)
    with pytest.raises(OverflowError):
        dv.concat(small, np.zeros(2, int))[:] = 300
    assert small.tolist() == [0, 0]


def test_a_number_seen_as_rows_is_written():
    b = np.array(5)
    dv.View(b)[None]._repeat(2)[:] = 7
    assert b == 7
    w = dv.View(b)[None][[0, 0]]
    w += 1
    assert b == 8
    assert dv.View(np.array("ab", "U9"))[None]._repeat(2)().dtype == "U9"


def test_structured_values_are_cast_field_by_field():
    s = np.zeros(1, [("a", "i1"), ("b", "U2")])
    with pytest.raises((OverflowError, ValueError)):
        dv.View(s)[:] = np.array([(300, "abcdef")], [("a", int), ("b", "U9")])
    t = np.zeros(2, [("a", int), ("b", int)])
    dv.View(t)[:] = dv.View(b=[1, 1], a=[2, 2])
    assert t.tolist() == [(2, 1), (2, 1)]
    dv.View(t)[0] = (5, 6)
    dv.View(t)[1] = {"b": 8, "a": 7}
    assert t.tolist() == [(5, 6), (7, 8)]


def test_numbers_and_masks_are_not_written_into_what_cannot_hold_them():
    a = np.array(["abc"])
    with pytest.raises((TypeError, ValueError)):
        dv.View(a)[0] = 123456
    with pytest.raises(TypeError, match="mask"):
        dv.View(np.zeros(2))[:] = np.ma.array([1.0, 2.0], mask=[True, False])
    o = np.empty(2, object)
    dv.View(o)[0] = [1, 2]
    assert o[0] == [1, 2]


def test_made_samples_unlike_the_first_are_refused():
    texts = dv.View(lambda i: np.array("a" * (9 if i == 5 else 1)), _length=9)._probe()
    with pytest.raises(TypeError, match="sample 5"):
        texts()
    numbers = dv.View(lambda i: np.array(i, int if i == 5 else np.int8), _length=9)._probe()
    with pytest.raises(TypeError, match="sample 5"):
        numbers()


def test_a_new_driver_field_drives():
    d = dv.View(a=np.arange(3), b=np.arange(5), _driver="a")
    d.a = dv.View(np.arange(4) * 10)
    assert len(d) == 4
    assert d[1]() == d.a[1]() == 10


@pytest.mark.parametrize("rows", [(0, 1), [0, 1], np.array([0, 1]), range(2)])
def test_take_takes_rows_in_any_form(rows):
    assert_same(dv.View(np.arange(6).reshape(3, 2))._take(rows)(), np.arange(4).reshape(2, 2))


def test_a_name_behind_a_key_is_written_once():
    x = np.arange(6.0).reshape(3, 2)
    d = dv.View(x, x=0)
    d[d.x > 1, "x"] -= 10
    assert x[:, 0].tolist() == [0, -8, -6]


def test_nothing_has_the_shape_and_dtype_of_something():
    none = dv.View(np.zeros((4, 3), np.float32))._filter(lambda sample: False)()
    assert none.shape == (0, 3)
    assert none.dtype == np.float32
    assert dv.View(a=[1], b=[2.0])._filter(lambda sample: False)().dtype.names == ("a", "b")
    with pytest.raises(TypeError, match="_probe"):
        dv.View(lambda i: {"a": i}, _length=3)[1]._asdict()


def test_a_record_equals_its_own_data():
    d = dv.View(a=[1, 2], b=[3.0, 4.0])
    assert d == d()
    assert d[0] == d()[0]
    assert (d == d())().all()
    assert bool(d != d()) is False
    assert bool(d == np.zeros(2, [("x", int), ("y", int)])) is False
    assert d[d == d()[0]]().tolist() == [(1, 3.0)]


def test_scalars_of_all_kinds_have_numpys_truth():
    with pytest.raises(ValueError, match="truth"):
        bool(dv.View([2, 2]) == np.int64(2))
    assert dv.View([2]) == np.int64(2)
    assert dv.View(["a"]) == "a"


@pytest.mark.parametrize("other", [None, object(), {1, 2}, [1, [2, 3]], "x"])
def test_a_comparison_can_always_be_built(other):
    assert isinstance(dv.View([1, 2]) == other, dv.View)
    assert isinstance(dv.View([1, 2]) != other, dv.View)


def test_what_never_ends_refuses_at_once():
    r = dv.View(np.arange(3))._repeat()
    for part in [r, r[::2], r[5:], r[1::3]]:
        assert part._length() == math.inf
        for refused in [bool, len, lambda v: v(), lambda v: bool(v == v)]:
            with pytest.raises(TypeError):
                refused(part)
        with pytest.raises(TypeError):
            part[:] = 1
    assert r[::2][:4]().tolist() == [0, 2, 1, 0]
    assert copy.deepcopy(r)[1:4]().tolist() == [1, 2, 0]
    assert list(dv.View(lambda: iter([]))._repeat()) == []


def test_a_factory_must_make_new_iterators():
    spent = iter([1, 2])
    s = dv.View(lambda: spent)
    assert [x() for x in s] == [1, 2]
    with pytest.raises(TypeError, match="same iterator"):
        list(s)


def test_shared_parts_are_computed_and_pickled_once():
    x = dv.View(np.arange(5.0))
    for _ in range(40):
        x = x + x
    assert_same(x(), np.arange(5.0) * 2.0**40)
    assert len(pickle.dumps(x)) < 20_000


def test_long_chains_do_not_exhaust_the_stack():
    v = dv.View(np.zeros(3))
    for _ in range(3000):
        v = v + 1
    assert_same(v(), np.full(3, 3000.0))
    assert_same(v[1:](), np.full(2, 3000.0))


def test_a_row_of_many_fields_costs_no_field():
    def calls(count):
        """Give how many calls the rows of a view with so many fields take."""
        d = dv.View(np.zeros((10, 300)), **{f"c{n}": n for n in range(count)})._shuffled(0)
        called = itertools.count()
        sys.setprofile(lambda *event: next(called))
        try:
            for row in d:
                row()
        finally:
            sys.setprofile(None)
        assert d[3].c0() == 0
        return next(called)

    assert calls(300) == calls(1)


def test_indexing_again_and_again_keeps_no_old_index():
    d = dv.View(np.zeros(200_000))
    rows = np.arange(200_000)
    tracemalloc.start()
    for _ in range(12):
        d = d[rows]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 4 * rows.nbytes


def test_joined_structured_data_keeps_its_fields():
    s = np.zeros(3, [("a", int), ("b", int)])
    joined = dv.concat(s, s)
    assert joined._fields() == ("a", "b")
    joined.a += 1
    assert s["a"].tolist() == [2, 2, 2] or s["a"].tolist() == [1, 1, 1]
    d = dv.View(np.zeros((3, 2)), x=0)
    d.e = dv.View([1, 2, 3])
    assert_same(dv.concat(d, d).e(), np.array([1, 2, 3, 1, 2, 3]))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.array([(1, 2.0), (5, 6.0)], [("x", "i8"), ("y", "f8")]), "a structured array"),
        (dv.View(np.array([[1, 2], [5, 6]]), x=0, y=1), "an array with fields"),
    ],
)
def test_an_array_is_joined_with_a_record_when_it_is_made_one(array, kind):
    record, array = dv.View(x=[3], y=[4.0]), dv.View(array)
    with pytest.raises(ValueError, match=rf"view 1 is {kind}, view 0 a record;.*_select"):
        dv.concat(record, array)
    with pytest.raises(ValueError, match=rf"view 1 is a record, view 0 {kind};.*_select"):
        dv.concat(array, record)
    joined = dv.concat(record, array._select(*array._fields()))
    assert_same(joined.x(), np.array([3, 1, 5]))
    assert_same(joined.y(), np.array([4.0, 2.0, 6.0]))


def test_comparing_records_row_by_row_reads_those_rows():
    rows = Counting(lambda number: {"a": number})
    d = rows.probed(1000)
    assert (d == d)[5]()
    assert set(rows.asked) == {5}


def test_nothing_given_to_a_view_is_dropped_silently():
    def pair(number):
        return [number, number]

    for options, text in [
        ({"x": np.s_[:1]}, "need data of known shape"),
        ({"_rank": 1}, "need data of known shape"),
    ]:
        with pytest.raises(TypeError, match=text):
            dv.View(pair, _length=5, **options)
    with pytest.raises(TypeError, match=r"goes with a function.*got no data"):
        dv.View(x=[1, 2], _length=5)
    with pytest.raises(TypeError, match="two views are named 'f0'"):
        dv.zip([1, 2], f0=[3, 4])
    for length in ("a", math.nan, 1.5, -1, True):
        with pytest.raises(ValueError, match="_length is a number of samples"):
            dv.View(pair, _length=length)
    assert len(dv.View(pair, _length=np.int64(3))) == len(dv.View(pair, _length=3.0)) == 3


def test_the_number_that_stands_for_no_end_is_not_shown():
    for view in (dv.View([3, 4])._repeat(), dv.View(lambda n: n, _length=math.inf)._probe()):
        assert view._shape() == (math.inf,) and view._nbytes() is None
    batches = dv.View(np.arange(20))._minibatches(100)
    assert batches._nbytes() == 160


def test_minibatches_are_explained_by_what_they_read():
    assert "56 B of memory" in str(dv.View(np.arange(7))._minibatches(3)._explain())
    assert "one by one, without end" in str(dv.View(lambda n: n, _length=math.inf)._explain())
    assert "function" in str(dv.View(lambda n: n, _length=4)._explain())


def alike(compute):
    """Assert that a function of what wraps arrays gives NumPy's result, or NumPy's error."""
    with silence():
        expected, refusal = attempt(compute, lambda array: array)
        got, error = attempt(lambda view: evaluated(compute(view)), dv.View)
    if refusal is None:
        assert error is None, error
        assert_same(got, np.asarray(expected) if isinstance(expected, str) else expected)
    else:
        assert isinstance(error, public_class(refusal)), (got, error, refusal)


def cell(value):
    """Give a 0-d array of one object."""
    found = np.empty((), object)
    found[()] = value
    return found


def as_objects(*values):
    """Give an array of objects, whatever they hold."""
    found = np.empty(len(values), object)
    for number, value in enumerate(values):
        found[number] = value
    return found


def texts(value):
    return np.array(value, np.dtypes.StringDType())


def summed_into(wrap):
    out = texts("")
    np.add.reduce(wrap(texts(["abc" * 20, "d" * 30])), out=out)
    return out[None]


@pytest.mark.parametrize(
    "compute",
    [
        lambda w: as_array(np.strings.replace(w(texts("A")), w(texts("")), w(texts("*1")), -1)),
        lambda w: as_array(np.strings.multiply(w(texts("ab")), 2)),
        summed_into,
        lambda w: np.strings.upper(w(np.array(b"ab", "S10"))),
        lambda w: np.tile(w(cell([1, 2])), 3),
        lambda w: np.tile(w(cell([1, 2])), (2, 2)),
        lambda w: np.repeat(w(np.array(b"ab", "S10")), 2),
        lambda w: np.repeat(w(np.array("ab", "U10")), 2),
        lambda w: np.repeat(w(cell([1, 2])), 2),
        lambda w: np.repeat(w(as_objects([1, 2], [3]))[0, ...], 2),
        lambda w: np.append(w(cell([1, 2])), w(cell([1, 2]))),
        lambda w: np.atleast_1d(w(cell([1, 2]))),
        lambda w: np.meshgrid(w(cell([1, 2])), w(np.arange(2)))[0],
        lambda w: np.roll(w(cell([1, 2])), 1),
        lambda w: np.copy(w(np.array(b"ab", "S10"))),
        lambda w: np.copy(w(np.array(3, ">i2"))),
        lambda w: np.add(w(cell([1, 2])), w(cell([3]))),
        lambda w: np.multiply(w(cell([1, 2])), 2) * 2,
        lambda w: np.sum(w(cell([1, 2]))),
    ],
)
def test_an_array_of_no_axes_is_handed_on_as_one(compute):
    alike(compute)


def test_a_sample_is_read_once_for_numpys_functions():
    source = Counting(float)
    rows = source.probed(3)
    assert np.copy(rows[1]) == 1
    assert source.asked == [1]


class Zero:
    def __index__(self):
        return 0


def ordinals(*shape):
    return np.arange(math.prod(shape), dtype=float).reshape(shape)


SPANS = np.array([1, 2, 3], "m8[s]")
DATES = np.array(["2020-01-01", "NaT", "1970-01-02"], "M8[D]")
PAIRS = np.array([(1, 2.0), (0, 0.0)], [("a", "i4"), ("b", "f8")])
MASK = np.array([True, False, True])
THINGS = as_objects(1, None, "x")


@pytest.mark.parametrize(
    "compute",
    [
        lambda w: np.where(w(MASK), w(ordinals(3)), None),
        lambda w: np.where(MASK, None, w(ordinals(3))),
        lambda w: np.where(w(MASK), None, None),
        lambda w: np.logical_or(w(THINGS), None),
        lambda w: np.logical_and(None, w(THINGS)),
        lambda w: w(ordinals(3)) + None,
        lambda w: np.quantile(w(ordinals(2, 3)), 0.5, axis=[0, 1]),
        lambda w: np.percentile(w(ordinals(2, 3)), 50, axis=[0, 1]),
        lambda w: np.median(w(ordinals(2, 3)), axis=[0, 1]),
        lambda w: np.sum(w(ordinals(2, 3)), axis=[0, 1]),
        lambda w: np.dot(w(SPANS), w(np.array([1, 2, 3]))),
        lambda w: np.dot(w(np.array([1, 2, 3])), w(SPANS)),
        lambda w: np.dot(w(SPANS[None]), w(np.array([1, 2, 3]))),
        lambda w: np.dot(w(SPANS), w(SPANS)),
        lambda w: np.clip(w(ordinals(3)), 2),
        lambda w: np.clip(w(ordinals(3)), 1, None),
        lambda w: np.clip(w(ordinals(3)), a_max=2),
        lambda w: np.clip(w(ordinals(3)), None, None, min=5),
        lambda w: np.clip(w(ordinals(3)), 2, 3, max=1),
        lambda w: np.equal(w(np.array(["a", "b"])), 1),
        lambda w: np.not_equal(w(np.array([b"a", b"b"])), w(np.arange(2))),
        lambda w: np.equal(1, w(texts(["a", "b"]))),
        lambda w: np.equal(w(np.array(["a", "b"])), as_objects("a", 1)),
        lambda w: np.equal(w(DATES), 1),
        lambda w: np.not_equal(1, w(DATES)),
        lambda w: np.equal(w(DATES), w(SPANS)),
        lambda w: np.equal(w(np.array(["a", "b"])), w(np.array([b"a", b"b"]))),
        lambda w: np.equal(w(np.array(["a", "b"])), w(np.zeros(0, bool))),
        lambda w: np.equal(w(np.zeros(2, "V3")), w(np.zeros(2, "V3"))),
        lambda w: np.equal(w(PAIRS), w(PAIRS)),
        lambda w: np.not_equal(w(PAIRS), 1),
        lambda w: np.equal(w(np.zeros(2, "V3")), as_objects("a", None)),
        lambda w: np.array(7) == w(DATES),
        lambda w: w(DATES) != w(np.arange(3)),
        lambda w: w(np.zeros(3, bool)) == w(np.zeros(2, "V3")),
        lambda w: w(PAIRS) == w(PAIRS),
        lambda w: w(PAIRS) == w(np.zeros(3, int)),
        lambda w: w(np.array(["a", "b"])) == 1,
        lambda w: w(np.array(["a", "b"])) != np.arange(2),
        lambda w: w(ordinals(3, 4))[Zero(), Zero()],
        lambda w: w(ordinals(3, 4))[Zero(), [0, 1]],
    ],
)
def test_a_function_or_a_key_is_numpys_to_the_letter(compute):
    alike(compute)


OF_EACH_KIND = [
    *(MASK, ordinals(3), np.array([0, 1, 2**64 - 1], "u8"), np.array([1, 0, 0.5])),
    *(np.array([1, 1j, 0]), np.array([b"a", b"", b"1"]), np.array(["a", "", "1"])),
    *(texts(["a", "", "1"]), DATES, SPANS, SPANS.astype("m8[Y]"), np.zeros(3, "V3")),
    *(PAIRS[[0, 1, 0]], PAIRS[[0, 1, 1]].astype([("a", "i8"), ("c", "f8")]), THINGS),
]
BY_OPERATOR = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BY_FUNCTION = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
BY_FUNCTION += [np.logical_and, np.logical_or, np.logical_xor]


def test_an_array_equals_a_view_of_another_kind_in_a_view_of_its_own_truth():
    for left, right in ((DATES, [1, 2, 3]), (np.array(["a", "b"]), [1, 2])):
        equal, unequal = left == dv.View(right), left != dv.View(right)
        assert isinstance(equal, dv.View)
        assert unequal and not equal and unequal().all()


@pytest.mark.parametrize("given", [PAIRS, {"a": PAIRS["a"], "b": PAIRS["b"]}])
def test_records_are_compared_with_records_of_the_same_fields(given):
    v = dv.View(given)
    other = PAIRS.astype([("a", "i4"), ("c", "f8")])
    for one in (1, None, np.arange(2), other, np.zeros(2, "V3"), PAIRS[["a"]]):
        alike(lambda w, one=one: (v if w is dv.View else PAIRS) == one)
        if isinstance(one, np.ndarray):
            assert v != dv.View(one)
            assert not (v == dv.View(one))  # noqa: SIM201
    assert v == PAIRS
    assert (v == PAIRS[:1])().tolist() == [True, False]


@pytest.mark.parametrize("compare", BY_OPERATOR + BY_FUNCTION, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [3, 0])
def test_any_two_kinds_of_data_compare_as_in_numpy(compare, rows):
    for left, right in itertools.product(OF_EACH_KIND, OF_EACH_KIND):
        kinds = {left.dtype.kind, right.dtype.kind}
        if "O" in kinds and kinds & {*"V"} and left.dtype.names != right.dtype.names:
            continue  # a record beside objects asks for a field
        for others in (right[:rows], right[0:1].reshape(())):
            if others.shape == () and kinds in ({"M", "U"}, {"M", "T"}):
                continue  # a text beside dates is the date that it tells
            alike(lambda w, others=others, left=left: compare(w(left), w(others)))
            if compare not in (np.equal, np.not_equal):  # which `array == view` calls
                alike(lambda w, others=others, left=left: compare(left, w(others)))
            alike(lambda w, others=others, left=left: compare(w(others), left))


@pytest.mark.parametrize(
    "key",
    [
        np.zeros(0, bool),
        np.zeros(2, bool),
        np.zeros((3, 0), bool),
        np.zeros((0, 4), bool),
        np.zeros((2, 0), bool),
        np.zeros((2, 2), bool),
        (slice(None), np.zeros(0, bool)),
        (Zero(), Zero()),
        np.zeros((1,) * 33, int),
        np.zeros((1,) * 63, int),
        np.zeros((1,) * 64, int),
        (np.zeros((1,) * 40, int), np.zeros((1,) * 35 + (2,), int)),
        (slice(None), np.zeros((1,) * 33, int)),
        (np.zeros(2, int), np.zeros((1,) * 40 + (3,), int)),
    ],
)
def test_unusual_keys_read_and_write_as_numpys(key):
    alike(lambda w: w(ordinals(3, 4))[key])
    alike(lambda w: written_by(w, ordinals(3, 4), key, 7))


def written_by(wrap, array, key, value):
    """Give an array after a value was written into it through a view or as NumPy does."""
    wrap(array)[key] = value
    return array


def test_numpy_has_room_for_so_many_index_arrays():
    array = np.zeros((1,) * 64)
    alike(lambda w: w(array)[(np.array([0]),) * 64])
    alike(lambda w: w(array)[(np.array([0]),) * 63])
    alike(lambda w: written_by(w, array.copy(), (np.array([0]),) * 64, 1))
    with pytest.raises(IndexError, match="cannot be above 63, but 64 index arrays found"):
        dv.View(array)[(np.array([0]),) * 64]


def test_a_mask_along_an_axis_without_elements_has_no_entries():
    for count in (0, 3):
        alike(lambda w, count=count: w(np.ones((0, 4)))[np.ones(count, bool)])


@pytest.mark.parametrize(
    ("shape", "key", "value"),
    [
        ((4,), slice(None), [[1], [2], [3], [4]]),
        ((4,), slice(None), [[1, 2], [2, 3], [3, 4], [4, 5]]),
        ((4,), slice(None), [[1, 2, 3, 4]]),
        ((4,), slice(1, None), [[1], [2], [3]]),
        ((4,), slice(1, None), np.array([[1], [2], [3]])),
        ((4,), slice(1, None), np.array([[1, 2, 3]])),
        ((4,), ..., [[1, 2], [2], [3], []]),
        ((4,), 0, [1, 2]),
        ((4,), [0, 1], [[1], [2]]),
        ((4,), [0, 1], [[1], [2], [3]]),
        ((4,), np.array([True, True, False, False]), [[1], [2]]),
        ((4, 2), slice(None), [[[1], [2]]]),
        ((4, 2), slice(None), [[1, 2]]),
        ((4, 2), slice(None), [[[1], [2]]] * 4),
        ((4, 2), 1, ([1], [2])),
    ],
)
def test_lists_are_written_into_objects_as_numpy_does(shape, key, value):
    alike(lambda w: written_by(w, np.empty(shape, object), key, value))


@pytest.mark.parametrize(
    ("shape", "mask", "value"),
    [
        ((3, 4), (3, 4), (3, 4)),
        ((3, 4), (3, 4), (1, 12)),
        ((3, 4), (3, 4), (12,)),
        ((3, 4), (3, 4), (3,)),
        ((3, 4), (3, 4), (1,)),
        ((3, 4), (3,), (3, 4)),
        ((3,), (3,), (1, 3)),
        ((3,), (3,), (3, 1)),
    ],
)
@pytest.mark.parametrize("given", [np.asarray, list, dv.View, lambda array: (array,)])
def test_a_value_through_a_mask_has_at_most_one_axis(shape, mask, value, given):
    key = np.ones(mask, bool)
    expected, refusal = attempt(
        lambda a: written_by(np.asarray, a, key, np.ones(value)), np.zeros(shape)
    )
    for values in (np.ones(value), np.ones(value).tolist(), dv.View(np.ones(value))):
        array = np.zeros(shape)
        _, error = attempt(lambda a, v=values: written_by(dv.View, a, given(key), v), array)
        assert (error is None) == (refusal is None), error
        assert refusal is None or isinstance(error, type(refusal)), error
        assert_same(array, np.zeros(shape) if refusal else expected)


@pytest.mark.parametrize("dtype", ["U2", "U5", "S3", ">U4", np.dtypes.StringDType()])
def test_texts_are_repeated_in_place(dtype):
    def repeated(wrap, count=2):
        array = np.array(["a", "bc"], dtype)
        view = wrap(array)
        view *= count
        return array

    alike(repeated)
    alike(lambda w: repeated(w, w(np.array([3, 0]))))


NUMBERS_AS_OBJECTS = [
    as_objects(*map(decimal.Decimal, (1, 2, 4))),
    as_objects(*[fractions.Fraction(n, 3) for n in range(6)]).reshape(3, 2),
    as_objects(1 + 2j, 3 - 1j, 2),
    as_objects(1, 2, 4),
    as_objects(1.5),
]


@pytest.mark.parametrize("array", NUMBERS_AS_OBJECTS)
@pytest.mark.parametrize("kind", ["var", "std"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"keepdims": True}, {"ddof": -1}])
def test_spreads_of_objects_stay_objects(array, kind, options):
    view = getattr(dv.View(array), f"_{kind}")(**options)
    assert view._dtype().kind == "O"
    _, refusal = attempt(lambda a: getattr(np, kind)(a, **options), array)
    if refusal is None or not isinstance(array.flat[0], fractions.Fraction):
        got = view()
        variances = np.asarray(np.var(array, **options), object)
        roots = [np.sqrt(v) for v in variances.flat] if kind == "std" else list(variances.flat)
        assert list(np.asarray(got, object).flat) == roots
        assert type(np.asarray(got, object).flat[0]) in {*map(type, roots), complex, float}
    else:
        with pytest.raises(type(refusal)):
            view()


def test_spreads_of_objects_are_streamed():
    thirds = as_objects(*[fractions.Fraction(n * n, 3) for n in range(1000)])
    with sizes.set(part_bytes=64, block_bytes=64):
        assert dv.View(thirds)._var()() == np.var(thirds)
        assert dv.View(thirds.reshape(100, 10))._var(axis=0)().tolist() == (
            np.var(thirds.reshape(100, 10), axis=0).tolist()
        )
