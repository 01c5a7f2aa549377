"""Protocols of Python and NumPy: arrays, pickles, threads, truth, display, completion."""

from __future__ import annotations

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import unmade
from dataview.index import boxes
from dataview.sources import packing
from oracle import (
    NUMBERS,
    accepted_chains,
    arrays,
    assert_same,
    attempt,
    check_same,
    examples,
    fill,
    follow,
    keys,
    positions,
    scatter,
    slices,
)


@pytest.fixture
def never():
    """A view that cannot be read, with two fields."""
    d = dv.View(input=dv.View(unmade, _length=7), target=dv.View(unmade, _length=7))
    assert attempt(lambda view: view[0](), d.input)[1] is not None
    return d


# ---------------------------------------------------------------- the data, as NumPy


@examples(150)
@given(st.data())
def test_asarray_is_the_data(data):
    array = data.draw(arrays())
    chain = data.draw(accepted_chains(array, 2))
    view, model = follow(dv.View(array), chain), follow(array, chain)
    assert_same(np.asarray(view), model)
    assert_same(np.array(view), model)
    own = view(copy=True)
    assert_same(own, model)
    assert not np.may_share_memory(np.asarray(own), array)


@pytest.mark.parametrize("element", [7, "text", None, (1, 2), 2.5])
def test_asarray_of_a_single_object_is_an_array_of_objects(element):
    objects = np.empty(2, object)
    objects[1] = element
    assert_same(np.asarray(dv.View(objects)[1]), objects[1:].reshape(()))


@examples(100)
@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
def test_asarray_with_a_dtype_is_numpys(kept, asked):
    array = (np.arange(6) % 2).astype(kept)
    expected, refusal = attempt(lambda data: np.asarray(data, dtype=asked), array)
    got, refused = attempt(lambda data: np.asarray(data, dtype=asked), dv.View(array)[1:])
    assert (refusal is None) == (refused is None)
    if refusal is None:
        assert_same(got, expected[1:])


def test_the_data_may_alias_memory_and_a_copy_never_does(x, d):
    assert np.shares_memory(d(), x)
    assert np.shares_memory(d[1:3].input(), x)
    assert np.shares_memory(np.asarray(d), x)
    assert np.shares_memory(np.asarray(d, copy=False), x)
    d()[0, 0] = 50
    assert x[0, 0] == 50
    for own in [d(copy=True), np.array(d), np.asarray(d, copy=True), d[1:].input(copy=True)]:
        assert not np.shares_memory(own, x)
        own[...] = -1
    assert x[0, 0] == 50


def test_a_copy_that_is_needed_and_forbidden_is_refused(d):
    for view in [d[[2, 0]], d + 1]:
        with pytest.raises(ValueError):
            np.asarray(view, copy=False)
    with pytest.raises(ValueError):
        np.asarray(d, dtype="f4", copy=False)


def test_a_buffer_handed_out_is_never_overwritten(d):
    first = [row() for row in d + 0]
    kept = [row.copy() for row in first]
    list(d + 1)
    d[[3, 1]]()
    for row, expected in zip(first, kept, strict=True):
        assert_same(row, expected)


def test_out_is_filled_and_returned(x, d):
    buffer = np.empty((2, 3))
    assert d[1:3].input(out=buffer) is buffer
    assert_same(buffer, x[1:3, :3])
    wide = np.full((4, 4), -1.0)
    strided = wide[::2]
    assert d[[5, 0]](out=strided) is strided
    assert_same(strided, x[[5, 0]])
    assert (wide[1::2] == -1).all()
    row = np.empty(4)
    assert (d[0] * 2)(out=row) is row
    assert_same(row, x[0] * 2)
    for wrong in [np.empty((3, 3)), np.empty((3, 2))]:
        with pytest.raises(ValueError):
            d[1:3].input(out=wrong)
    with pytest.raises(TypeError):
        d[1:3].input(out=np.empty((2, 3), int))


def test_out_may_overlap_what_is_read(x, d):
    expected = x[::-1].copy()
    d[::-1](out=x)
    assert_same(x, expected)


def test_a_call_takes_no_argument(d, x):
    with pytest.raises(TypeError):
        d(x)
    with pytest.raises(TypeError):
        d(0)


def test_numpys_functions_take_a_view(d, x):
    assert_same(np.stack([row() for row in d]), x)
    assert_same(np.add(d, 1)(), x + 1)
    assert_same(np.sqrt(d[1:])(), np.sqrt(x[1:]))
    assert_same((x - d)(), np.zeros_like(x))
    assert_same((d.input[::-1] - 1)[2](), x[3, :3] - 1)


def test_protocol_names_are_answered_but_not_listed(d):
    assert d.shape == (6, 4)
    assert d.dtype == np.float64
    assert d.ndim == 2
    assert_same(d.to_numpy(), d())
    for name in ["shape", "dtype", "ndim", "to_numpy"]:
        assert name not in dir(d)


# ---------------------------------------------------------------- files


def test_saving_and_opening(tmp_path, d, x):
    file = tmp_path / "x.npy"
    with pytest.warns(RuntimeWarning, match="holds the array alone: the fields 'input', 'target'"):
        d[1:4]._save(file)
    assert_same(np.load(file), x[1:4])
    assert_same(dv.open(file)(), x[1:4])
    dv.View(x * 2)._save(str(file))
    assert_same(dv.open(str(file), mode="r")[::-1](), x[::-1] * 2)
    deep = dv.View(part={"z": dv.View(x, u=np.s_[1:3])._with_meta(unit="m")}, y=x)
    with pytest.warns(RuntimeWarning, match=r"the fields 'part.z.u' and the metadata of 'part.z'"):
        deep._save(file)


@examples(60)
@given(st.data())
def test_any_array_survives_a_file(tmp_path_factory, data):
    codes = [*NUMBERS, "M8[s]", "m8[ms]", "U3", "S3", ">i4", ">f8"]
    array = data.draw(arrays(dtypes=[np.dtype(code) for code in codes]))
    file = tmp_path_factory.mktemp("any") / "x.npy"
    dv.View(array)._save(file)
    assert_same(np.load(file), array)
    key = data.draw(keys(array.shape))
    check_same(dv.open(file), array, lambda subject: follow(subject, [key]))


@examples(60)
@given(st.data())
def test_any_write_reaches_the_file(tmp_path_factory, data):
    array = data.draw(arrays(layouts=["C", "F"], dtypes=[np.dtype("f4"), np.dtype(">i4")]))
    file = tmp_path_factory.mktemp("any") / "x.npy"
    np.save(file, array)
    chain = data.draw(accepted_chains(array, 2))
    places = positions(array, chain)
    value = fill(places.shape, array.dtype, 40)
    follow(dv.open(file, mode="r+"), chain)._write(value)
    expected = array.copy()
    scatter(expected, places, value)
    assert_same(np.load(file), expected)


def test_writing_in_place_to_a_file(path, x):
    d = dv.open(path, mode="r+")
    d[1:3] += 100
    d[[5, 0]]._write(-1)
    v = d[2:5]
    v -= v[::-1]
    expected = x.copy()
    expected[1:3] += 100
    expected[[5, 0]] = -1
    expected[2:5] -= expected[2:5][::-1].copy()
    assert_same(np.load(path), expected)
    assert_same(d(), expected)
    assert_same(dv.open(path)(), expected)


def scribble(data):
    """Try to change what a view handed out."""
    if data.flags.writeable:
        data[...] = -1
        return
    with pytest.raises(ValueError):
        data.flags.writeable = True


def test_a_file_opened_for_reading_is_never_written(path, x):
    for d in [dv.open(path), dv.open(path, mode="r"), dv.open(path, mode="r+")._readonly()]:
        with pytest.raises(ValueError):
            d[0]._write(1)
        with pytest.raises(ValueError):
            d += 1
        scribble(d[1:3]())
    assert_same(np.load(path), x)


def test_a_file_hands_out_no_writable_alias(path, x):
    d = dv.open(path, mode="r+")
    for view in [d, d[1:3], d[0], d[::-1], d[[1, 2]]]:
        scribble(view())
        scribble(np.asarray(view))
    assert_same(np.load(path), x)
    assert_same(d(), x)


def test_failed_writes_leave_the_file_as_it_was(path, x):
    d = dv.open(path, mode="r+")
    for wrong in [np.zeros((6, 5)), 2j, "text"]:
        with pytest.raises((TypeError, ValueError)):
            d._write(wrong)
    with pytest.raises(IndexError):
        d[9] = 1
    assert_same(np.load(path), x)


def test_opening_what_is_not_there(tmp_path, path):
    with pytest.raises(FileNotFoundError):
        dv.open(tmp_path / "nothing.npy")
    with pytest.raises(ValueError, match="mode"):
        dv.open(path, mode="x+")


def test_fields_of_a_file(path, x):
    d = dv.View(dv.open(path, mode="r+"), input=np.s_[:3], target=3)
    d.input -= 1
    d[2:4].target = 0
    expected = x.copy()
    expected[:, :3] -= 1
    expected[2:4, 3] = 0
    assert_same(np.load(path), expected)


# ---------------------------------------------------------------- pickling and copying


def test_a_view_of_a_file_pickles_as_its_path(path, x):
    for mode in ["r", "r+"]:
        view = dv.open(path, mode=mode)[::-1][1:5][:, [2, 0]]
        text = pickle.dumps(view)
        assert len(text) < 2000
        assert_same(pickle.loads(text)(), x[::-1][1:5][:, [2, 0]])
    pickle.loads(text)[0, 0] = 77
    assert np.load(path)[4, 2] == 77


def test_an_empty_part_keeps_its_shape_in_a_pickle():
    v = dv.View(np.arange(60).reshape(12, 5)[::2])
    for part in (v[6:], v[:0, 1:], v._split(6)[1]._readonly()):
        assert_same(pickle.loads(pickle.dumps(part))(), part())


def test_a_view_of_memory_pickles_the_smallest_slab():
    x = np.arange(100_000.0).reshape(10_000, 10)
    for view, model in [
        (dv.View(x)[5000:5010], x[5000:5010]),
        (dv.View(x)[[9000, 9003]][:, ::3], x[[9000, 9003]][:, ::3]),
        (dv.View(x, a=np.s_[:2])[70].a, x[70, :2]),
    ]:
        text = pickle.dumps(view)
        assert len(text) < 5000
        assert_same(pickle.loads(text)(), model)


LONG = {
    "sums": lambda v, x: v + 1,
    "products of matrices": lambda v, x: v @ dv.View(np.eye(3)),
    "joined": lambda v, x: dv.concat(v, x)[1:],
    "centred": lambda v, x: v - v._mean(axis=0),
    "reversed": lambda v, x: (v + 1)[::-1],
    "reshaped": lambda v, x: (v * 2)._reshape(3, 2)._reshape(2, 3),
}


@pytest.mark.filterwarnings("ignore:30 and more")  # statistics and products that nest
@pytest.mark.parametrize("name", LONG)
def test_long_plans_survive_pickles_and_deep_copies(name):
    x = dv.View(np.arange(6.0).reshape(2, 3))
    views = []
    for length in (400, 20):
        view = x
        for _ in range(length):
            view = LONG[name](view, x)
        views.append(view)
    for view in views:
        for one in [pickle.loads(pickle.dumps(view)), copy.deepcopy(view)]:
            assert one._shape() == view._shape()
    assert_same(one(), view())


@examples(100)
@given(st.data())
def test_any_view_survives_a_pickle(data):
    array = data.draw(arrays())
    chain = data.draw(accepted_chains(array, 3))
    view, model = follow(dv.View(array), chain), follow(array, chain)
    again = pickle.loads(pickle.dumps(view))
    assert again._shape() == model.shape
    assert_same(again(), model)


def test_fields_and_metadata_survive_a_pickle(x):
    position = dv.field(np.s_[:3], x=0, y=1)
    d = dv.View(x, position=position, target=3, _meta={"target": {"unit": "mm"}})
    d.total = d.position.x + d.target
    again = pickle.loads(pickle.dumps(d[1:4]))
    assert again._fields() == ("position", "target", "total")
    assert dict(again.target._meta) == {"unit": "mm"}
    assert_same(again.position.y(), x[1:4, 1])
    assert_same(again[1].total(), x[2, 0] + x[2, 3])


def test_aliases_survive_a_pickle(x):
    d = dv.View(x, position=np.s_[:3], first=0)
    again = pickle.loads(pickle.dumps(d))
    again.first = -5
    assert (again.position()[:, 0] == -5).all()
    whole = dv.View(x)
    record = pickle.loads(pickle.dumps(dv.View(whole=whole, part=whole[:, 1:])))
    record.part = -7
    assert (record.whole()[:, 1:] == -7).all()
    assert x.min() == 0


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def in_old_pickles(value):
    return pickle.loads(pickle.dumps(value, 2))


def beside(value):
    """Give a value that was pickled with its arrays in buffers of their own."""
    buffers = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=[bytearray(buffer.raw()) for buffer in buffers])


COPIES = [pickled, in_old_pickles, beside, copy.deepcopy]


def check_aliases(views, again, start=90):
    """Check that what is written through each view is seen through the others as before."""
    for one, other in zip(views, again, strict=True):
        assert_same(other(), one())
    for number, (one, other) in enumerate(zip(views, again, strict=True)):
        value = fill((), one._dtype(), start + number)
        refusal = attempt(lambda view, v=value: view.__setitem__(..., v), one)[1]
        if refusal is not None:
            with pytest.raises(type(refusal)):
                other[...] = value
        else:
            other[...] = value
        for left, right in zip(views, again, strict=True):
            assert_same(right(), left())


@st.composite
def parts_of(draw, array):
    """Draw a part of an array that NumPy makes without a copy."""
    part = array
    for _ in range(draw(st.integers(0, 3))):
        key = tuple(draw(slices(n)) for n in part.shape)
        ways = [lambda a, k=key: a[k], lambda a: a.T, lambda a: a[..., None]]
        if part.ndim:
            ways += [lambda a: a[0] if len(a) else a, lambda a: a[-1:]]
        if part.dtype.names:
            ways.append(lambda a: a[draw(st.sampled_from(a.dtype.names))])
        if part.dtype.kind == "c":
            ways += [lambda a: a.real, lambda a: a.imag]
        if part.flags.c_contiguous and not part.dtype.hasobject:
            ways.append(lambda a: a.reshape(-1))
            if part.ndim and part.dtype.kind in "iu":
                ways.append(lambda a: a.view("u1"))
        part = np.asarray(draw(st.sampled_from(ways))(part))
    return part


@examples(300)
@given(st.data())
def test_whatever_shares_memory_shares_it_in_a_copy(data):
    array = data.draw(arrays())
    views = [follow(dv.View(array), data.draw(accepted_chains(array, 2)))]
    views += map(dv.View, data.draw(st.lists(parts_of(array), min_size=1, max_size=4)))
    views = data.draw(st.permutations([*views, views[0][:]] if views[0]._ndim() else views))
    check_aliases(views, data.draw(st.sampled_from(COPIES))(views))


@pytest.mark.parametrize("made", COPIES)
def test_fields_in_the_same_memory_share_it_in_a_copy(made, x):
    big = np.arange(4000.0).reshape(1000, 4)
    views = dv.View(big, low=0)
    records = np.zeros(6, [("a", "i4"), ("b", "f8", 2), ("o", "O")])
    frozen = x[:]
    frozen.flags.writeable = False
    for d in [
        dv.View(a=x, b=x),
        dv.View(a=x[:5], b=x[1:]),
        dv.View(a=x, b=frozen),
        dv.View(a=x[:, 0], b=x[0:6, 0:2], c=x[::-1]),
        dv.View(a=x, b=dv.View(x)._readonly()),
        dv.View(a=dv.View(x), b=np.asfortranarray(x).T, _rank=0),
        dv.View(a=views[5:8], b=views[4:7]),
        dv.View(records, c=dv.View(records["b"])),
        dv.View(a=records["a"], b=records["b"]),
        dv.View(a=big[0], b=big[:, 0], _rank=0),
        dv.concat(dv.View(a=x, b=x), dv.View(a=x[:2], b=x[2:4])),
    ]:

        def parts(view):
            return [view, *(part for _, part in view._iter_fields())][view._dtype() is None :]

        again = made(d)
        check_aliases(parts(d), parts(again))


class Holder:
    """An object that has views beside others."""

    def __init__(self, **views):
        self.__dict__.update(views)


@pytest.mark.parametrize("made", COPIES)
@pytest.mark.parametrize("first", [False, True], ids=["the whole first", "the part first"])
def test_views_that_are_copied_together_share_what_they_shared(made, first, x):
    v = dv.View(x, x=0, y=np.s_[1:3])
    views = [v, v.x, v[2:], v[::-1].y, dv.View(x[1:4])]
    views = views[:: -1 if first else 1]
    check_aliases(views, made(tuple(views)))
    check_aliases(views, [*made(dict(enumerate(views))).values()])
    held = made(Holder(one=views[0], more=[Holder(rest=views[1:])]))
    check_aliases(views, [held.one, *held.more[0].rest])
    computed, mean = made(((v + 1)[1:], v)), made((v, v._mean()))
    before = v().mean()
    computed[1][...] = mean[0][...] = 5.0
    assert computed[0].y()[2, 1] == 6 and mean[1]() == before
    again = made(made(views))
    check_aliases(views, again)


def test_a_pickle_holds_what_its_views_share_once():
    x = np.arange(100_000.0).reshape(10_000, 10)
    v = dv.View(x, low=np.s_[:2])
    size = x.nbytes
    for views in [
        (v, v.low, v[2:], v[5]),
        (v[5], v[2:], v.low, v),
        (v[5000:], v[:6000], v[4000:5500]),
        (v[5], v[3:].low, v),
        [dv.View(a=x, b=x)],
        [dv.View(a=x[:6000], b=x[5000:])],
        {n: v[:, n : n + 3] for n in range(8)},
        [dv.View(x[n : n + 100]) for n in range(0, 9900, 10)],
    ]:
        count = 500 * len(views)
        assert size * 0.99 < len(pickle.dumps(views)) < size + 2000 + count
    for view in [v[3:5], v[9000].low, dv.View(a=x[:2], b=x[-1:]), dv.View(a=x[:3], b=x[1:4])]:
        pickle.dumps(v)
        assert len(pickle.dumps(view)) < 2000
    for few in [dv.View(a=x[0], b=x[:, 0], _rank=0), (v[5], v[:, 1]), dv.View(x[::7, 1])]:
        assert len(pickle.dumps(few)) < 85_000
    few = np.zeros((1000, 1000))
    assert len(pickle.dumps((dv.View(np.diagonal(few)), dv.View(few.T[::-1, 5])))) < 20_000


def test_a_part_stays_small_while_a_pickle_of_the_whole_is_alive():
    v = dv.View(np.arange(10_000.0))
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    pickler.dump(v)
    assert len(pickle.dumps(v[3:5])) < 1000
    pickler.dump(v[3:5])
    assert file.tell() < 82_000
    unpickler = pickle.Unpickler(io.BytesIO(file.getvalue()))
    whole, part = unpickler.load(), unpickler.load()
    part[0] = -1
    assert whole[3]() == -1


def test_pickles_in_several_threads_have_all_they_need():
    v = dv.View(np.arange(10_000.0))

    def check(start):
        views = [v[start : start + 50], v[start + 25 : start + 99], v]
        again = pickle.loads(pickle.dumps(views))
        again[0][30] = -1
        assert again[1][5]() == again[2][start + 30]() == -1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(check, range(0, 8000, 100)))


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize(
    "parts",
    [
        lambda v, count: [v[i] for i in np.random.default_rng(1).permutation(count)],
        lambda v, count: [v[i : i + 9] for i in range(count)],
        lambda v, count: [v[:, i : i + 2] for i in range(count)],
        lambda v, count: [*(v[i] for i in range(count)), v],
    ],
    ids=["rows", "windows", "columns", "the whole at last"],
)
def test_the_work_of_a_pickle_grows_as_its_views(monkeypatch, parts, count):
    v = dv.View(np.zeros((1024, 1024)))
    calls = []
    for kind, name in [(boxes.Box, "overlaps"), (packing.Place, "array_in")]:
        method = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *args, m=method: calls.append(0) or m(*args))
    pickle.loads(pickle.dumps(parts(v, count)))
    assert len(calls) < 20 * count


def test_what_a_slab_holds_besides_is_not_copied_when_it_is_loaded():
    v = dv.View(np.zeros(1000))
    buffers = []
    text = pickle.dumps((v[5:], v[10:]), protocol=5, buffer_callback=buffers.append)
    (buffer,) = buffers
    memory = bytearray(buffer.raw())
    loaded = pickle.loads(text, buffers=[memory])
    assert all(np.may_share_memory(view(), np.frombuffer(memory, "u1")) for view in loaded)


def test_a_read_only_view_stays_read_only_through_a_pickle(d):
    again = pickle.loads(pickle.dumps(d._readonly()))
    with pytest.raises(ValueError):
        again[0]._write(1)


def test_records_and_joined_views_survive_a_pickle(x):
    record = dv.View(image=x, label=np.arange(6))._shuffled(2)
    again = pickle.loads(pickle.dumps(record))
    assert_same(again(), record())
    joined = dv.concat(dv.View(x), dv.View(x)[::-1])[2:9]
    assert_same(pickle.loads(pickle.dumps(joined))(), joined())


def test_a_deep_copy_has_its_own_data(x, d):
    other = copy.deepcopy(d)
    other.input = -1
    other[0].target *= 2
    assert_same(x, np.arange(24.0).reshape(6, 4))
    assert (other.input() == -1).all()
    assert_same(copy.copy(d)(), x)


# ---------------------------------------------------------------- threads


def test_views_are_read_by_several_threads(x):
    array = np.arange(20_000).reshape(2000, 10)
    d = dv.View(array, a=np.s_[:4])._shuffled(3)
    order = dv.View(np.arange(2000))._shuffled(3)()

    def read(number):
        return d[number : number + 100].a()[:, 1], d[number]()

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(read, range(400)))
    for number, (column, row) in enumerate(results):
        assert_same(column, array[order[number : number + 100], 1])
        assert_same(row, array[order[number]])


def test_views_are_written_by_several_threads():
    array = np.zeros((400, 10), int)
    d = dv.View(array, a=np.s_[:4])

    def write(number):
        d[number].a = number
        d[number, 4:] += number

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(400)))
    assert_same(array, np.repeat(np.arange(400), 10).reshape(400, 10))


# ---------------------------------------------------------------- truth and equality


def test_views_are_unhashable(d):
    with pytest.raises(TypeError):
        hash(d)
    with pytest.raises(TypeError):
        {d}  # noqa: B018


def test_the_truth_of_a_view(x, d):
    with pytest.raises(ValueError):
        bool(d)
    with pytest.raises(ValueError):
        bool(d > 3)
    assert bool(d[1, 1])
    assert not d[0, 0]
    assert not (d[0, 0] > 1)
    assert d[1:2, 1:2]


def test_b20_equality_is_elementwise_and_has_a_truth(x, d):
    other = dv.View(x.copy())
    assert_same((d == other)(), np.ones((6, 4), bool))
    assert_same((d != other)(), np.zeros((6, 4), bool))
    assert bool(d == other) is True
    assert bool(d != other) is False
    assert d == x
    other[2, 2] = -1
    assert bool(d == other) is False
    assert d != other
    assert (d == other)[0]().all()


def test_b20_shapes_are_never_broadcast_by_the_truth(x):
    three, one = dv.View(np.ones(3)), dv.View(np.ones(1))
    assert_same((three == one)(), np.ones(3, bool))
    assert bool(three == one) is False
    assert bool(three != one) is True
    misfit = dv.View(np.ones(4)) == three
    assert bool(misfit) is False
    with pytest.raises(ValueError):
        misfit()


def test_b20_against_a_scalar_the_truth_is_numpys(d):
    assert d[0, 1] == 1
    assert bool(d[0, 1] == 2) is False
    with pytest.raises(ValueError):
        bool(d == 1)


def test_b20_the_truth_is_lost_by_any_further_operation(d, x):
    for further in [(d == x)[1:], ~(d == x), (d == x) & (d == x)]:
        with pytest.raises(ValueError):
            bool(further)


def test_b20_nan_is_not_equal(x, d):
    x[0, 0] = np.nan
    assert bool(d == d) is False
    assert bool(d != d) is True
    assert d[1:] == d[1:]


def test_b20_samples_are_found_in_lists(d):
    assert d[1] in [d[0], d[1]]
    assert d[1] not in [d[0], d[2]]


def test_b20_the_truth_of_records_is_that_of_their_members(x):
    one, other = dv.View(a=x, b=x[:, 0]), dv.View(a=x.copy(), b=x[:, 0].copy())
    assert one == other
    assert one[2] == other[2]
    other[3].b = 99
    assert one != other
    assert one[2] == other[2]
    assert bool(one == dv.View(a=x, c=x[:, 0])) is False


def test_b21_sizes_and_lengths():
    assert dv.View(np.array(5))._size() == 1
    empty = dv.View(np.zeros((0, 3)))
    assert empty._size() == 0
    assert len(empty) == 0
    assert empty._length() == 0
    with pytest.raises(TypeError):
        len(dv.View(np.array(5)))


# ---------------------------------------------------------------- display and completion


def test_display_and_completion_read_nothing(never):
    for view in [never, never[1:5], never.input, never[2], never._shuffled(1)]:
        assert isinstance(repr(view), str)
        assert "<" in view._repr_html_()
        assert not hasattr(view, "zzz")
        assert not hasattr(view, "_ipython_canary_method_should_not_exist_")
        assert "_shuffled" in dir(view)
        view._ipython_key_completions_()
        pickle.dumps(view)
    assert len(never[1:5]) == 4


def test_the_display_names_fields_shapes_and_dtypes(d, never):
    text = repr(d)
    for part in ["input", "target", "float64", "6", "4"]:
        assert part in text
    assert repr(d) == text
    assert "input" in repr(never)
    assert "?" in repr(never)


def test_the_html_is_small_escaped_and_has_no_script():
    names = {f"<script>alert({number})</script>&": np.zeros(3) for number in range(300)}
    window = dv.View(np.zeros((3, 4)), **{"<b>bold</b>": 0})
    for view in [dv.View(**names), window, dv.View(scene={"<script>": np.zeros(3)})]:
        html = view._repr_html_()
        assert len(html.encode()) < 10_000
        assert "<script" not in html
        assert "<b>bold" not in html
    assert "<details" in dv.View(**names)._repr_html_()


def test_fields_come_first_in_dir(d):
    assert d.__dir__()[:2] == ["input", "target"]
    assert "_shuffled" in dir(d)


def test_keys_are_completed_with_fields(d):
    assert list(d._ipython_key_completions_())[:2] == ["input", "target"]
    named = dv.View(**{"pixel 3": np.zeros(2), "a": np.zeros(2)})
    assert list(named._ipython_key_completions_())[:2] == ["pixel 3", "a"]


def test_private_names_are_never_fields(d):
    for name in ["_nothing", "__nothing__", "_repr_nothing_"]:
        with pytest.raises(AttributeError):
            getattr(d, name)


def test_the_class_defines_no_public_name():
    assert [name for name in vars(dv.View) if not name.startswith("_")] == []


def test_one_element_is_a_position_and_is_formatted_as_a_number():
    largest = dv.View([1, 3])._max()
    assert [10, 20, 30, 40][largest] == 40
    assert list(range(largest)) == [0, 1, 2]
    assert f"{largest:05.1f} {dv.View(0.25):%}" == "003.0 25.000000%"
    assert f"{largest}" == str(largest)
    for refused in [lambda: range(dv.View([1, 2])), lambda: range(dv.View(1.5))]:
        with pytest.raises(TypeError):
            refused()


def test_a_buffer_to_read_into_is_an_array():
    with pytest.raises(TypeError, match="out= is an array"):
        dv.View([1, 2])(out=[0, 0])


def test_whether_there_is_a_shape_can_always_be_asked():
    x = np.zeros((4, 3))
    for view in [dv.View(x) == np.zeros((5, 5)), dv.View(a=x, b=[1, 2])]:
        assert not hasattr(view, "shape")
        assert not hasattr(view, "ndim")
    with pytest.raises(AttributeError, match="different lengths"):
        dv.View(a=x, b=[1, 2]).shape  # noqa: B018
