"""All ways of asking for the same rows give the same: views of the same data, made in many ways."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from oracle import assert_same, attempt, chains, check_same, evaluated, examples, fill, follow
from stores import Least, LeastWritable

DTYPES = ["i8", "f4", ">i2", "U3", "O", "i1,f4"]


def of_memory(array):
    """View the array."""
    return dv.View(array)


def of_a_store(array):
    """View a store that is not in memory."""
    return dv.View(Least(array))


# ---------------------------------------------------------------- the same data, made otherwise


def joined(make):
    return lambda array: dv.concat(
        make(array[: len(array) // 2]), make(array[len(array) // 2 :]), make(array[:0])
    )


def by_numbers(make):
    def made(array):
        order = np.random.default_rng(len(array)).permutation(len(array))
        return make(array[np.argsort(order)])[order]

    return made


def shuffled(make):
    def made(array):
        order = dv.View(np.arange(len(array)))._shuffled(1)()
        return make(array[np.argsort(order)])._shuffled(1)

    return made


def backwards(make):
    return lambda array: make(array[::-1])[::-1]


def columns(make):
    def made(array):
        if array.ndim < 2:
            return make(np.stack([array, array], 1))[:, 1]
        return make(np.concatenate([array, array], 1))[:, array.shape[1] :]

    return made


def picked_columns(make):
    def made(array):
        if array.ndim < 2:
            return make(np.stack([array, array], 1))[:, 1]
        return make(array[:, ::-1])[:, np.arange(array.shape[1])[::-1]]

    return made


def reshaped(make):
    return lambda array: make(array.reshape(-1))._reshape(array.shape)


def reshaped_of_more(make):
    return lambda array: make(array.reshape(-1, 1, 1))._reshape(array.shape)


def batches(make):
    def made(array):
        if array.ndim < 2 or not array.size:
            return make(array)
        rows = array.reshape(-1, *array.shape[2:])
        return make(rows)._minibatches(array.shape[1], tail="error")

    return made


def a_field(make):
    return lambda array: dv.View(x=make(array), y=np.zeros(len(array)))[:].x


def a_field_inside(make):
    return lambda array: dv.View(inner=dv.View(x=make(array)), y=np.zeros(len(array))).inner.x


def transposed(make):
    return lambda array: make(array.T)._transpose()


def added_axis(make):
    return lambda array: make(array[None])[0]


WRAPPERS = [
    joined, by_numbers, shuffled, backwards, columns, picked_columns, reshaped, reshaped_of_more,
    batches, a_field, a_field_inside, transposed, added_axis,
]  # fmt: skip


def computed(make):
    return lambda array: np.positive(make(array))


@st.composite
def made_views(draw):
    """Draw an array, and a view of the same data made in some steps."""
    shape = draw(st.sampled_from([(7,), (6, 4), (1, 3), (4, 1), (5, 2, 3), (0, 3), (8, 2)]))
    dtype = draw(st.sampled_from(DTYPES))
    array = fill(shape, dtype)
    make = draw(st.sampled_from([of_memory, of_a_store]))
    numbers = array.dtype.kind in "if"
    for wrap in draw(
        st.lists(st.sampled_from([*WRAPPERS, *([computed] * numbers)]), min_size=1, max_size=3)
    ):
        make = wrap(make)
    view = make(array)
    return array.astype(view._dtype()), view  # what is joined has the machine's byte order


@examples(600)
@given(made_views(), st.data())
def test_any_key_of_what_was_made_in_any_way_reads_what_numpy_reads(made, data):
    array, view = made
    chain = data.draw(chains(array))
    check_same(view, array, lambda subject: follow(subject, chain))


@examples(300)
@given(made_views(), st.data())
def test_rows_by_number_range_list_and_mask(made, data):
    array, view = made
    count = len(array)
    if not count:
        return
    numbers = np.array(
        data.draw(st.lists(st.integers(-count, count - 1), min_size=1, max_size=9)), "i2"
    )
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    for key in (numbers, numbers.tolist(), mask, mask.tolist(), numbers.astype("u8") % count):
        part = view[key]
        expected = array[np.asarray(key)]
        assert len(part) == len(expected)
        assert_same(part(), expected)
        assert_same(np.asarray(part), expected)
        assert_same(part[::-1](), expected[::-1])
        for row in range(len(expected)):
            assert_same(part[row](), expected[row])
        mine = part(copy=True)
        assert not np.may_share_memory(mine, array)


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__)
@pytest.mark.parametrize("make", [of_memory, of_a_store], ids=lambda make: make.__name__)
def test_rows_of_fields_are_fields_of_rows(wrap, make):
    x, y = fill((8, 4), "f4"), np.arange(8)
    d = dv.View(x=wrap(make)(x), y=wrap(make)(y))
    for key in (3, slice(1, 6, 2), [4, 1, 1], np.arange(8) % 3 == 0):
        assert_same(d[key].x(), x[key])
        assert_same(d.x[key](), x[key])
        assert_same(d[key, "x"](), x[key])
        parts = d[key]._asdict()
        assert_same(parts["x"], x[key])
        assert_same(parts["y"], y[key])
        assert_same(d[key]()["x"], x[key])


@pytest.mark.parametrize("wrap", [*WRAPPERS, computed], ids=lambda wrap: wrap.__name__)
@pytest.mark.parametrize("make", [of_memory, of_a_store], ids=lambda make: make.__name__)
def test_rows_that_were_asked_for_hold_no_data(wrap, make):
    data = fill((8, 4), "f4")
    held = []

    def made(array):
        view = make(array)
        held.append(weakref.ref(view._state[0].source))
        return view

    gc.collect()
    gc.disable()
    try:
        view = wrap(made)(data)
        d = dv.View(x=view, y=np.arange(8))
        for key in (2, slice(1, 5), [1, 0]):
            view[key](), (view[key] + 1)(), d[key](), d[key].x(), d[key]._asdict()
        del view, d
        assert [source() for source in held] == [None] * len(held)
    finally:
        gc.enable()


def test_row_numbers_are_kept_as_they_were():
    numbers = np.array([2, 0])
    part = dv.View(np.arange(3))[numbers]
    numbers[:] = 1
    assert part().tolist() == [2, 0]


@pytest.mark.parametrize("key", [[3], [-4], np.array([3], "u8"), np.array([2**63], "u8")])
def test_row_numbers_outside_are_refused_when_the_part_is_made(key):
    with pytest.raises(IndexError, match="out of bounds"):
        dv.View(np.arange(3))[key]


def test_rows_of_rows_write_to_the_rows():
    a = np.arange(10)
    part = dv.View(a)[[7, 2, 5]]
    part[1:] = -1
    part[[0]] += 100
    assert a.tolist() == [0, 1, -1, 3, 4, -1, 6, 107, 8, 9]


SECOND = [..., np.s_[::2], -1, np.s_[:, 1], np.s_[1, ...], np.s_[::-1, 2:, ::2]]


@pytest.mark.parametrize("of_others", [False, True])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("second", SECOND, ids=str)
@pytest.mark.parametrize("first", [np.s_[1:], np.s_[::-2], 3, np.s_[:], np.s_[0:0]], ids=str)
def test_slices_of_memory_are_the_memory_itself(first, second, called, of_others):
    array = np.arange(240.0).reshape(6, 5, 4, 2)
    view = dv.View(array)
    view = view._readonly() if of_others else view
    if called:
        view()

    def asked(subject):
        return subject[first][second][..., 1:]

    found = evaluated(attempt(asked, view)[0])
    expected, refusal = attempt(asked, array)
    assert (found is None) == (refusal is not None)
    if refusal is None:
        assert_same(found, expected)
        assert np.shares_memory(found, array) == np.shares_memory(expected, array)
        assert found.flags.writeable is not of_others


# ---------------------------------------------------------------- functions, objects, memory


def test_a_function_makes_each_sample_once_whatever_asks_for_its_fields():
    calls = Counting(lambda number: {"image": np.full(3, number), "label": number})
    d = dv.View(calls, _length=10)._probe()
    for size in (3, 5):
        calls.asked.clear()
        for batch in d._minibatches(size):
            batch._asdict()
        assert sorted(calls.asked) == list(range(10))
    calls.asked.clear()
    both = dv.View(x=d.image[::-1], y=d.label[::-1])
    both[2]._asdict(), both[4:6]._asdict()
    assert calls.asked == [7, 4, 5]


ASKED = [
    lambda v: v[2]._asdict(),
    lambda v: v._asdict(),
    lambda v: v[[1, 2]].w(),
    lambda v: v[2].w(),
    lambda v: v[1:5][2].w(),
    lambda v: (v * 2)[2].w(),
    lambda v: dv.concat(v, v)[2].w(),
]


@pytest.mark.parametrize("ask", ASKED)
def test_windows_that_were_asked_for_hold_no_data(ask):
    gc.collect()
    gc.disable()
    try:
        array = np.zeros((12, 4))
        gone = weakref.ref(array)
        view = dv.View(array, w=np.s_[:2])
        ask(view)
        del view, array
        assert gone() is None
    finally:
        gc.enable()


def test_elements_that_are_objects_are_themselves():
    arrays = np.empty(4, object)
    arrays[:] = [np.arange(2), None, [1, 2], "text"]
    d = dv.View(x=arrays, y=np.arange(4))
    joined = dv.concat(d, d)
    for row in range(4):
        for sample in (d[row](), joined[row]()):
            assert sample["x"] is arrays[row]
        assert joined.x[row]() is arrays[row]
        assert joined[row]._asdict()["x"] is arrays[row]


def test_an_element_that_is_none_is_read_once():
    kept = Least(np.array([None, None], object))
    read, kept.times = kept.read, 0

    class Asked(Least):
        def read(self, index, memo):
            kept.times += 1
            return read(index, memo)

    view = dv.View(Asked(np.array([None, None], object)))
    assert view[0]() is None and kept.times == 1
    assert dv.concat(view, view)[3]() is None and kept.times == 2


def test_elements_of_joined_objects_are_the_same_however_asked():
    a = np.array([[1, "x"], [2, None], [3, "y"]], object)
    c = dv.concat(dv.View(a[:2]), dv.View(a[2:]))
    assert c[:, 0][1]() == c[1, 0]() == c[1][0]() == c._reshape(-1)[2]() == 2


def test_read_only_objects_see_later_writes():
    v = dv.View(np.array([1, 2, 3], object))
    shown = v._readonly()
    shown[0:2](), shown[[0]]()
    v[0] = 99
    assert shown[[0]]().tolist() == [99]
    assert shown[0]() == 99
    assert shown().tolist() == [99, 2, 3]


@pytest.mark.parametrize("value", [lambda v: v[1, 0], lambda v: dv.View(5.0), lambda v: v[1]])
def test_a_view_of_any_shape_is_written_to_rows_as_numpy_broadcasts_it(value):
    a = np.arange(8.0).reshape(4, 2)
    expected = a.copy()
    v = dv.View(a)
    written = value(v)
    expected[0] = written()
    expected[2:4] = written()
    v[0] = written
    v[2:4] = value(v)
    assert_same(a, expected)


def test_rows_that_are_copied_like_values_are_refused():
    v = dv.View(np.arange(6.0).reshape(3, 2))
    first, second = v[0], v[1]
    np.copyto(first, second)
    with pytest.raises(ValueError, match="swapped like values"):
        np.copyto(second, first)
    assert_same(v(), np.arange(6.0).reshape(3, 2))


# ---------------------------------------------------------------- parts joined, again and again

PARTS = {
    "a run": lambda draw, n: np.s_[(start := draw.integers(n)) : start + draw.integers(1, n + 1)],
    "backwards": lambda draw, n: np.s_[:: -draw.integers(1, 3)],
    "steps": lambda draw, n: np.s_[draw.integers(n) :: draw.integers(2, 5)],
    "numbers": lambda draw, n: draw.integers(-n, n, draw.integers(1, 2 * n)),
    "a mask": lambda draw, n: draw.random(n) < 0.5,
    "all": lambda draw, n: np.s_[:],
}


def joined_parts(draw, views, arrays, levels):
    """Join parts of some views, and parts of what came of it, as their arrays are joined."""
    for _ in range(levels):
        parts, rows = [], []
        for _ in range(draw.integers(2, 12)):
            number = draw.integers(len(views))
            key = PARTS[draw.choice([*PARTS])](draw, max(1, len(arrays[number])))
            if len(arrays[number]):
                parts.append(views[number][key])
                rows.append(arrays[number][key])
        if draw.random() < 0.5:
            whole = dv.View(arrays[0])._shuffled(3)
            parts.append(views[0]._shuffled(3))
            rows.append(whole())
        views = [dv.concat(*parts), *views]
        arrays = [np.concatenate(rows), *arrays]
    return views[0], arrays[0]


@pytest.mark.parametrize("dtype", ["f4", ">i2", "U3", "O"])
@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 3), is_file=st.booleans())
@examples(60)
def test_rows_of_joined_parts_are_those_of_joined_arrays(dtype, seed, levels, is_file):
    draw = np.random.default_rng(seed)
    arrays = [fill((count, 3), np.dtype(dtype), count) for count in (7, 40)]
    views = [dv.View(Least(array)) if is_file else dv.View(array) for array in arrays]
    view, array = joined_parts(draw, views, arrays, levels)
    n = len(array)
    for key in (
        np.s_[:],
        np.s_[n // 3 : 2 * n // 3 + 1],
        np.s_[::-1],
        np.s_[-1:0:-3],
        draw.integers(-n, n, 50),
        draw.integers(0, n, 0),
        int(draw.integers(n)),
        draw.random(n) < 0.3,
    ):
        assert_same(view[key](), array[key])
        columns = (*((key,) if isinstance(key, int) else (key, np.s_[:])), np.s_[::-2])
        columns = columns[:1] + columns[-1:]
        assert_same(view[columns](), array[columns])


@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 3), is_file=st.booleans())
@examples(60)
def test_rows_of_joined_parts_are_written_as_numpy_writes_places(seed, levels, is_file):
    draw = np.random.default_rng(seed)
    numbers = [np.arange(7), np.arange(7, 47)]
    flat = np.arange(47.0 * 3).reshape(47, 3)
    make = LeastWritable if is_file else np.copy
    kept = [make(flat[:7]), make(flat[7:])]
    twins = np.random.default_rng(seed)
    view, _ = joined_parts(draw, [dv.View(one) for one in kept], numbers, levels)
    _, rows = joined_parts(twins, [dv.View(one) for one in numbers], numbers, levels)
    for turn in range(3):
        n = len(rows)
        keys = [
            np.s_[:],
            np.s_[n // 3 : 2 * n // 3 + 1],
            np.s_[::-1],
            draw.integers(-n, n, 30),
            int(draw.integers(n)),
            draw.random(n) < 0.3,
        ]
        for key in keys:
            shape = flat[rows[key]].shape
            value = draw.normal(size=shape) if turn else float(draw.normal())
            if draw.random() < 0.5 or np.unique(rows[key]).size < np.size(rows[key]):
                view[key] = value
                flat[rows[key]] = value
            else:
                view[key] += value
                flat[rows[key]] += value
            found = np.concatenate([one.kept if is_file else one for one in kept])
            assert_same(found, flat)


def test_rows_by_number_of_joined_parts_of_a_store_are_read_together():
    array = np.arange(4000.0).reshape(1000, 4)

    class Asked(Least):
        def read(self, index, memo):
            calls.append(index.shape[0])
            return super().read(index, memo)

    calls = []
    view = dv.View(Asked(array))
    parts = [view[start : start + 10] for start in range(0, 1000, 10)]
    numbers = np.random.default_rng(0).integers(0, 1000, 256)
    swapped = np.concatenate([array[500:], array[:500]])
    for joined, expected in (
        (dv.concat(*parts), array),
        (dv.concat(*parts[::-1]), np.concatenate(np.split(array, 100)[::-1])),
        (dv.concat(view[500:], view[:500], view), np.concatenate([swapped, array])),
        (dv.concat(dv.concat(view[500:], view[:500])[7:]), swapped[7:]),
    ):
        calls.clear()
        at = numbers[numbers < len(expected)]
        assert_same(joined[at](), expected[at])
        assert calls == [len(at)]
