"""Reading through any key: laws 1, 4, 5 and 9, and the cases B1 to B11."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview.index import (
    Affine,
    Array,
    Constant,
    Index,
    are_apart,
    gather,
    parse,
    positions,
    rows_in_order,
)
from oracle import (
    LONG_TEXT,
    arrays,
    assert_same,
    attempt,
    chains,
    check_same,
    examples,
    fill,
    follow,
    keys,
    public_class,
    scatter,
    step,
)

BOUNDS = [None, *range(-8, 9)]
STEPS = [None, *range(-8, 0), *range(1, 9)]
ALL_SLICES = [slice(*parts) for parts in itertools.product(BOUNDS, BOUNDS, STEPS)]
FIRST_SLICES = list({tuple(range(7)[key]): key for key in ALL_SLICES}.values())


@pytest.fixture
def a():
    return np.arange(24).reshape(4, 3, 2)


@pytest.fixture
def d(a):
    return dv.View(a)


@pytest.fixture
def counted():
    return Counting(np.arange(40).reshape(10, 4).__getitem__)


# ---------------------------------------------------------------- (a) any array, any keys


@examples(500)
@given(st.data())
def test_any_chain_reads_what_numpy_reads(data):
    array = data.draw(arrays())
    chain = data.draw(chains(array))
    check_same(dv.View(array), array, lambda subject: follow(subject, chain))


@examples(300)
@given(st.data())
def test_any_key_of_a_big_enough_array_reads_what_numpy_reads(data):
    array = fill((5, 4, 3), "i8")
    key = data.draw(keys(array.shape))
    check_same(dv.View(array), array, lambda subject: follow(subject, [key]))


@examples(300)
@given(st.data())
def test_shape_size_length_and_dtype_are_those_of_the_data(data):
    array = data.draw(arrays())
    chain = data.draw(chains(array, 3))
    expected, refusal = attempt(lambda subject: follow(subject, chain), array)
    if refusal is not None:
        with pytest.raises(public_class(refusal)):
            follow(dv.View(array), chain)
        return
    view = follow(dv.View(array), chain)
    assert view._shape() == expected.shape
    assert view._ndim() == expected.ndim
    assert view._size() == expected.size
    assert view._dtype() == expected.dtype
    assert view._nbytes() == expected.nbytes
    assert attempt(len, view)[0] == attempt(len, expected)[0]


@examples(200)
@given(st.data())
def test_reading_changes_no_byte(data):
    array = data.draw(arrays(layouts=["C", "strided", "negative"]))
    before = array.copy()
    chain = data.draw(chains(array, 3))
    attempt(lambda view: follow(view, chain)(), dv.View(array))
    assert_same(array, before)


@examples(200)
@given(st.data())
def test_iterating_gives_views_of_consecutive_elements(data):
    array = data.draw(arrays())
    chain = data.draw(chains(array, 2))
    model, _ = attempt(lambda subject: follow(subject, chain), array)
    model, chain = (array, ()) if model is None else (model, chain)
    view = follow(dv.View(array), chain)
    if model.ndim == 0:
        with pytest.raises(TypeError):
            iter(view)
        return
    parts = list(view)
    assert all(isinstance(part, dv.View) for part in parts)
    assert len(parts) == len(model)
    for number, part in enumerate(parts):
        assert_same(part(), step(model, number))


# ---------------------------------------------------------------- (b) slices of slices


def test_the_brute_force_meets_every_selection_of_seven_rows():
    assert len(ALL_SLICES) == 5508
    assert len(FIRST_SLICES) == 90


@pytest.mark.parametrize("first", FIRST_SLICES, ids=str)
def test_every_slice_of_a_slice_of_seven_rows(first):
    view, rows = dv.View(np.arange(7))[first], range(7)[first]
    wrong = [
        second
        for second in ALL_SLICES
        if (part := view[second])().tolist() != (expected := list(rows[second]))
        or len(part) != len(expected)
    ]
    assert wrong == []


@examples(200)
@given(st.data())
def test_slices_of_rows_with_fields(data):
    array = fill((7, 5), "f4")
    first = data.draw(st.sampled_from(FIRST_SLICES))
    second = data.draw(st.sampled_from(ALL_SLICES))
    view = dv.View(array, input=np.s_[:3], target=4)[first][second]
    model = array[first][second]
    assert_same(view(), model)
    assert_same(view.input(), model[:, :3])
    assert_same(view.target(), model[:, 4])
    assert len(view) == len(view.input) == len(model)


# ---------------------------------------------------------------- the cases


@pytest.mark.parametrize(
    ("chain", "rows"),
    [
        ([np.s_[::-1], np.s_[6:]], []),
        ([np.s_[::-1], np.s_[4:1:-1]], [1, 2, 3]),
        ([np.s_[1:5], np.s_[::-1]], [4, 3, 2, 1]),
        ([np.s_[::-2], np.s_[::-1]], [1, 3, 5]),
        ([np.s_[:], np.s_[-7::-5]], []),
    ],
)
def test_b01_empty_slice_after_reverse(chain, rows):
    array = np.arange(18).reshape(6, 3)
    assert_same(follow(dv.View(array), chain)(), array[np.array(rows, int)])


def test_b02_the_bounds_are_those_of_the_view():
    array = np.arange(18).reshape(6, 3)
    part = dv.View(array)[1:3]
    assert_same(part[-1](), array[2])
    for outside in [4, 2, -3, [2], [-3], [0, 5]]:
        with pytest.raises(IndexError):
            part[outside]


def test_b03_two_lists_are_fused(a, d):
    assert_same(d[[2, 0]][[1]](), a[[0]])
    assert_same(d[[2, 0, 2]](), a[[2, 0, 2]])
    assert_same(d[[]](), a[:0])
    assert d[[]]._shape() == (0, 3, 2)


def test_b04_masks(a, d):
    mask = [True, False, True, False]
    assert_same(d[np.array(mask)](), a[[0, 2]])
    assert_same(d[mask](), a[[0, 2]])
    assert_same(d[[False, 3]](), a[[0, 3]])
    for wrong in [[True, False], np.ones(5, bool)]:
        with pytest.raises(IndexError):
            d[wrong]


def test_b05_tuples_of_keys(a, d):
    for key in [np.s_[1, :, 0:1], np.s_[1, ...], np.s_[..., None], np.s_[0, :, [0, 1]]]:
        assert_same(d[key](), a[key])
    assert_same(d[:, [0, 2]][1](), a[1, [0, 2]])
    assert_same(d[1, [0, 2]](), a[1, [0, 2]])
    assert_same(d[1][[0, 2]](), a[1, [0, 2]])
    assert_same(d[[0, 1], [0, 1]](), a[[0, 1], [0, 1]])
    assert d[[0, 1], [0, 1]]._shape() == (2, 2)
    assert d[0, :, [0, 1]]._shape() == (2, 3)


def test_b07_numpys_law_wins_on_keys(a, d):
    assert_same(d[None](), a[None])
    assert_same(d[True](), a[True])
    assert_same(d[False](), a[False])
    for refused in [1.0, [1.5], object(), {}]:
        with pytest.raises(IndexError):
            d[refused]


def test_b08_keys_and_questions_read_nothing(counted):
    view = dv.View(counted, _length=10)
    part = view[2:8][::-1][[0, 3]][1]
    assert isinstance(part, dv.View)
    assert len(view) == 10
    assert len(view[2:8]) == 6
    assert view._length() == 10
    assert "10" in repr(view)
    assert not hasattr(view, "zzz")
    assert "_shuffled" in dir(view)
    assert counted.asked == []
    assert_same(part(), counted.make(4))
    assert counted.asked == [4]


def test_b08_iterating_reads_each_row_once(counted):
    view = dv.View(counted, _length=10)
    samples = list(view)
    assert counted.asked == []
    for number, sample in enumerate(samples):
        assert_same(sample(), counted.make(number))
    assert sorted(counted.asked) == list(range(10))


def test_b09_negative_indices_of_a_concatenation(a):
    whole = np.concatenate([a[:2], a[3:]])
    joined = dv.concat(dv.View(a[:2]), dv.View(a[3:]))
    for key in [-1, -3, np.s_[-2:], np.s_[::-1], [-1, 0, -3]]:
        assert_same(joined[key](), whole[key])
    for outside in [-4, 3, [-4], [0, 3]]:
        with pytest.raises(IndexError):
            joined[outside]


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16, np.array, np.intp])
def test_b10_ints_of_all_kinds(a, d, kind):
    assert_same(d[kind(1)](), a[kind(1)])
    assert_same(d[0][kind(1)](), a[0][kind(1)])
    assert_same(d[kind(1) : kind(3)](), a[1:3])
    assert_same(d[:, kind(1)](), a[:, 1])


class Tensor:
    """An array of another library, which is an index only if it has one element."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __index__(self):
        if self.values.size != 1:
            raise TypeError("only a tensor of one element is an index")
        return int(self.values.item())


@pytest.mark.parametrize("values", [2, [2], [0, 2], [[0, 1], [2, 3]], [True, False, True, True]])
def test_b10_arrays_of_other_libraries(a, d, values):
    assert_same(d[Tensor(values)](), a[Tensor(values)])
    assert_same(d[Tensor(values), 1](), a[Tensor(values), 1])
    rows = dv.View(image=a, label=np.arange(4))
    assert_same(rows[Tensor(values)].label(), np.arange(4)[Tensor(values)])
    d[Tensor(values)] = -1
    assert_same(a, d())


def test_b11_iteration(a, d):
    assert len(list(d)) == 4
    with pytest.raises(TypeError):
        iter(d[0, 0, 0])
    pairs = [(one(), other()) for one in d for other in d]
    assert len(pairs) == 16
    assert_same(pairs[7][0], a[1])
    assert_same(pairs[7][1], a[3])


# ---------------------------------------------------------------- what a view is


def test_a_view_sees_later_writes(a, d):
    part = d[[2, 0]][:, 1:]
    a[2, 2, 1] = -5
    assert_same(part(), a[[2, 0]][:, 1:])


def test_a_view_keeps_the_key_it_was_made_with(a, d):
    rows, mask = np.array([2, 0]), np.array([True, False, True, False])
    taken, masked = d[rows], d[mask]
    rows[0], mask[1] = 3, True
    assert_same(taken(), a[[2, 0]])
    assert_same(masked(), a[[0, 2]])


def test_errors_rise_where_the_view_is_built(d):
    for key in [4, -5, (0, 3), (0, 0, 0, 0), [7], np.ones(3, bool), np.s_[::0], "a", (..., ...)]:
        with pytest.raises((IndexError, ValueError, KeyError)):
            d[key]


def test_the_message_of_an_index_error_says_what_and_where(d):
    with pytest.raises(IndexError, match=r"(?s)9.*4"):
        d[9]


def test_indexing_a_huge_array_costs_nothing():
    huge = np.broadcast_to(np.arange(4, dtype="i8"), (10**9, 4))
    view = dv.View(huge)[::-1][5:][::3][:, ::-1]
    assert len(view) == len(huge[::-1][5:][::3])
    assert_same(view[10**8](), np.array([3, 2, 1, 0]))
    assert view[None, :, None]._shape() == (1, len(view), 1, 4)
    with pytest.raises(IndexError):
        view[10**9]


def test_a_view_as_a_key_is_evaluated(a, d):
    rows, mask = np.array([3, 1]), np.array([True, False, False, True])
    assert_same(d[dv.View(rows)](), a[rows])
    assert_same(d[dv.View(mask)](), a[mask])
    assert_same(d[d[:, 0, 0] > 6](), a[a[:, 0, 0] > 6])
    assert_same(d[dv.View(np.array(2))](), a[2])


def test_numbers_are_views_too():
    view = dv.View(np.float32(2.5))
    assert_same(view(), np.float32(2.5))
    assert view._shape() == ()
    assert view._size() == 1
    assert_same(view[None](), np.array([2.5], "f4"))
    assert_same(view[...](), np.float32(2.5))
    with pytest.raises(IndexError):
        view[0]


def test_a_view_of_a_view_is_the_same_data(a, d):
    again = dv.View(d[1:])
    assert_same(again[0](), a[1])
    again[0]._write(7)
    assert (a[1] == 7).all()


def test_two_keys_are_apart_exactly_if_they_have_no_element_in_common():
    shape = (6, 5)
    places = np.arange(30).reshape(shape)
    slices = [slice(*ends) for ends in itertools.product([None, 1, 4], [None, 5, 0], [1, 2, 3, -2])]
    rows = [*slices, 0, -1, [4, 1], []]
    keys = [*rows, *((row, column) for row in rows[::5] for column in (0, slice(1, 4, 2), [2, 0]))]
    for one, other in itertools.product(keys, repeat=2):
        apart = not np.isin(places[one], places[other]).any()
        assert are_apart(parse(one, shape), parse(other, shape)) == apart, (one, other)


# ---------------------------------------------------------------- an index over memory


@st.composite
def maps_in_order(draw, shape):
    """Give an index whose maps have view axes of their own, in their order or in another."""
    maps, lengths = [], []
    for length in shape:
        axis, kind = len(lengths), draw(st.sampled_from(["one", "line", "new", "several", "grid"]))
        if kind == "one":
            maps.append(Constant(draw(st.integers(0, length - 1))))
        elif kind in ("line", "new"):
            lengths += [1] * (kind == "new")
            maps.append(Affine(length - 1, ((len(lengths), -1),)))
            lengths.append(length)
        else:
            counts = [draw(st.integers(1, 6)) for _ in range(2 if kind == "grid" else 1)]
            numbers = st.lists(st.integers(0, length - 1), min_size=36, max_size=36)
            values = np.array(draw(numbers))[: np.prod(counts)].reshape(counts)
            maps.append(Array(values, tuple(range(axis, axis + len(counts)))))
            lengths += counts
    return Index(lengths, maps)


@examples(300)
@given(st.data())
def test_any_index_reads_what_its_positions_say(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    whole = fill((*shape[:-1], shape[-1] + 2), "f4")
    index = data.draw(maps_in_order(shape))
    for array in (fill(shape, "f4"), np.asfortranarray(fill(shape, "f4")), whole[..., : shape[-1]]):
        found = gather.read(array, index)
        expected = array[tuple(positions(map_, index.shape) for map_ in index.maps)]
        assert_same(np.array(found), np.array(np.broadcast_to(expected, index.shape)))


# ---------------------------------------------------------------- columns of structured arrays


COLUMNS = [
    np.dtype([("a", "i4"), ("b", "f8"), ("c", "U3")]),
    np.dtype([("a", "i4", (2,)), ("b", ">f8"), ("c", [("x", "u1")])]),
    np.dtype(
        {
            "names": ["a", "b", "c"],
            "formats": ["i4", "f8", "U2"],
            "offsets": [4, 16, 8],
            "titles": ["the first", "the second", None],
            "itemsize": 32,
        }
    ),
]


@examples(200)
@given(st.data())
def test_columns_of_a_structured_array_are_one(data):
    dtype = data.draw(st.sampled_from(COLUMNS))
    shape = data.draw(st.sampled_from([(3,), (2, 3), (), (2, 1, 3), (0, 2)]))
    array = np.zeros(shape, dtype)
    for name in dtype.names[:2]:
        array[name] = np.arange(array[name].size).reshape(array[name].shape)
    names = data.draw(st.permutations(dtype.names))[: data.draw(st.integers(1, 3))]
    first, last = data.draw(keys(shape)), data.draw(keys(array[names].shape))
    for action in [
        lambda s: s[names],
        lambda s: s[names][last],
        lambda s: s[first][names],
        lambda s: s[names][last][names[:1]],
    ]:
        expected, refusal = attempt(action, array)
        got, error = attempt(lambda view, action=action: action(view)(), dv.View(array))
        if refusal is None:
            assert error is None, error
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            for name in expected.dtype.names:
                assert got[name].tolist() == expected[name].tolist()
        else:
            assert isinstance(error, public_class(refusal)), (got, error, refusal)


def test_a_column_that_is_named_twice_is_refused():
    table = dv.View(np.zeros((2, 3), COLUMNS[0]))
    for view in (table, table[0], table[0, 0]):
        with pytest.raises(ValueError, match="duplicate field of name 'a'"):
            view[["a", "b", "a"]]
    assert dv.View(x=[1], y=[2])[["x", "x"]]._fields() == ("x", "x_2")


def test_a_column_in_place_of_the_arrays_own_has_its_own_dtype():
    table = dv.View(np.zeros((2, 3), COLUMNS[0]))
    table.a = dv.View(np.ones((2, 3)))
    assert table[["a", "b"]]().dtype == [("a", "f8", (3,)), ("b", "f8", (3,))]
    assert table._select("b", "c")._rename(b="d")().dtype == [("d", "f8"), ("c", "U3")]


# ---------------------------------------------------------------- whole rows


@examples(200)
@given(st.data())
def test_rows_that_an_index_needs_ascend_and_are_read_once(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    strides = [data.draw(st.integers(-4, 8)) for _ in shape]
    offset = sum(-min(0, n * stride) for n, stride in zip(shape, strides, strict=True))
    pairs = tuple((axis, stride) for axis, stride in enumerate(strides) if stride)
    map_ = Affine(offset, pairs or ((0, 3),))
    numbers, rest = gather.rows_and_rest(Index(shape, [map_]))
    assert (np.diff(numbers) > 0).all()
    places = np.broadcast_to(positions(map_, shape), shape)
    assert_same(numbers, np.unique(positions(map_, shape)))
    assert_same(gather.read(numbers, rest), places)


def test_rows_in_batches_are_needed_as_they_stand():
    for strides in (((0, 4), (1, 1)), ((0, 1), (1, 3)), ((0, 8), (1, 2))):
        _, rest = gather.rows_and_rest(Index((3, 4), [Affine(5, strides)]))
        assert isinstance(rest.maps[0], Affine)


# ---------------------------------------------------------------- texts of any length


LAYOUTS_OF_ROWS = {
    "all": lambda v: v,
    "minibatches": lambda v: v._minibatches(2, tail="drop"),
    "minibatches from the last": lambda v: v._minibatches(2, tail="drop")[::-1],
    "windows": lambda v: v._windows(3, step=2),
    "windows and rows": lambda v: v._windows(2)[1:, ::-1],
    "other axes": lambda v: v._transpose(),
    "a reshape": lambda v: v._reshape(-1)[1:]._reshape(-1, 1),
    "pairs": lambda v: v[np.array([[1], [0]]), np.array([2, 1])],
    "a diagonal": lambda v: v[np.arange(3), np.arange(3)],
    "rows of minibatches": lambda v: v._minibatches(2, tail="drop")[[1, 0], 1],
}


@examples(200)
@given(st.data())
def test_texts_of_any_length_in_any_layout(data):
    shape = data.draw(st.sampled_from([(4, 3), (7, 4), (4, 3, 2), (6, 4, 1)]))
    before, after = (data.draw(st.sampled_from(list(LAYOUTS_OF_ROWS))) for _ in range(2))
    array = fill(shape, LONG_TEXT)

    def laid(v):
        first = LAYOUTS_OF_ROWS[before](v)
        try:
            return LAYOUTS_OF_ROWS[after](first)
        except (IndexError, ValueError, TypeError):  # too small for the second
            return first

    places = laid(dv.View(np.arange(array.size).reshape(shape)))()
    view = laid(dv.View(array))
    assert_same(view(), array.ravel()[places])
    value = fill(places.shape, LONG_TEXT, 50)
    expected = array.copy()
    scatter(expected, places, value)
    view[...] = value
    assert_same(array, expected)
    view += "!"
    scatter(expected, places, expected.ravel()[places] + "!")
    assert_same(array, expected)


def test_windows_of_texts_of_any_length_see_what_is_written():
    texts = fill((4, 3), LONG_TEXT)
    view = dv.View(texts)._windows(3, step=2)
    found = view()
    found[:] = "its own"
    with pytest.raises(ValueError, match="without a copy"):
        view(copy=False)
    texts[:] = "written"
    assert_same(view(), texts[None, :3])
    view[...] = "through"
    assert_same(view(), texts[None, :3])
    assert texts[0, 0] == "through"
    assert np.shares_memory(dv.View(texts)[1:](), texts)


def test_batches_of_texts_of_any_length_in_a_zarr_array(tmp_path):
    texts = np.array(list("abcdefgh"), np.dtypes.StringDType())
    dv.View(s=texts, y=np.arange(8))._save(tmp_path / "t.zarr")
    d = dv.open(tmp_path / "t.zarr", mode="r+")
    batches = d._minibatches(4)
    assert_same([b.s() for b in batches][1], texts[4:])
    assert_same(d.s._windows(3)(), texts[np.arange(6)[:, None] + np.arange(3)])
    batches[1].s[:] = np.array(list("wxyz"), np.dtypes.StringDType())
    batches[0].s += "!"
    assert d.s().tolist() == ["a!", "b!", "c!", "d!", *"wxyz"]


def columns_to_order(dtype, count):
    """Return values of a dtype: far apart, near to each other, few, in runs, and with ends."""
    draws = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        wide = draws.standard_normal(count) * 10.0 ** draws.integers(-4, 5, count)
        near, ends = 1 + draws.integers(0, 99, count) * np.finfo(dtype).eps, [0.0, -0.0, np.inf]
        ends = [*ends, -np.inf, float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)]
    else:
        info = np.iinfo("i8" if dtype.kind in "mM" else dtype)
        low = info.min + (dtype.kind in "mM")  # the least is NaT
        wide = draws.integers(low, info.max, count, "u8" if dtype.kind == "u" else "i8", True)
        near, ends = draws.integers(0, 99, count), [low, info.max, 0, 1, low + 1]
    few = draws.permutation(
        np.resize(np.array(ends, near.dtype if dtype.kind != "u" else "u8"), count)
    )
    made = [wide, near, few, np.sort(wide), np.sort(wide)[::-1], np.where(near < 50, near, wide)]
    return [values.astype(dtype) for values in made]


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", ">f8", "i1", "i4", ">i4", "i8", "u8", ">M8[s]", "m8[ns]"]
)
@pytest.mark.parametrize("count", [100, 3000, 70_000])
def test_rows_are_put_in_the_order_of_values_as_by_numpy(dtype, count):
    with np.errstate(over="ignore"):
        columns = columns_to_order(dtype, count)
    for values in columns:
        found = rows_in_order(values)
        assert_same(found, np.argsort(values, kind="stable"))
        missing = np.arange(count) % 7 == 0
        if values.dtype.kind in "fmM":
            some = values.copy()
            some[missing] = np.nan if some.dtype.kind == "f" else "NaT"
            assert_same(rows_in_order(some), np.argsort(some, kind="stable"))
        last = columns[0].astype(columns[0].dtype.newbyteorder("="))
        plain = values.astype(last.dtype)
        assert_same(rows_in_order(missing, plain, last), np.lexsort((last, plain, missing)))
        kept = values[::3]
        assert_same(rows_in_order(kept), np.argsort(kept, kind="stable"))
        assert dv.View(values)._sorted()().tobytes() == values[found].tobytes()
        backwards = count - 1 - np.argsort(values[::-1], kind="stable")[::-1]
        assert dv.View(values)._sorted(reverse=True)().tobytes() == values[backwards].tobytes()
