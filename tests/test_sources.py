"""One suite for every store: a new store needs a line in `STORES`."""

from __future__ import annotations

import copy
import importlib.util
import io
import itertools
import math
import operator
import os
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import fsspec
import h5py
import numpy as np
import pytest
import zarr
from hypothesis import assume, given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview.formats import FORMATS, Format
from dataview.formats.writers.arrays import Writer
from dataview.index import gather, identity
from dataview.plan.build import stored
from dataview.sources import DelayedSource, Source
from dataview.sources.new_files import new_file
from oracle import (
    RECORD,
    accepted_chains,
    arrays,
    assert_same,
    attempt,
    cast_into,
    chains,
    check_same,
    examples,
    fill,
    follow,
    lay_out,
    positions,
    public_class,
    scatter,
    values,
)
from stores import Chunked, Least, LeastWritable, Numbered, NumberedWritable, Raw, Row

# ---------------------------------------------------------------- the stores


class Store(NamedTuple):
    """A store to test: `made` makes it from an array and a folder for its files.

    zarr has no records with arrays in them.
    """

    made: Callable[[np.ndarray, Any], Any]
    writable: bool = True
    only_rows: bool = False
    records: bool = True


def memory(layout):
    def made(array, folder):
        found = lay_out(layout, array.shape, array.dtype).array
        found[...] = array
        return found

    return made


def npy(mode, order="C"):
    def made(array, folder):
        path = folder / "data.npy"
        np.save(path, np.array(array, order=order))
        return dv.open(path, mode)

    return made


def npy_elsewhere(array, folder):
    buffer = io.BytesIO()
    np.save(buffer, array)
    fsspec.filesystem("memory").pipe(f"{folder}/data.npy", buffer.getvalue())
    return dv.open(f"memory:/{folder}/data.npy", keep=False)


def npz(save):
    def made(array, folder):
        save(folder / "data.npz", x=array)
        return dv.open(folder / "data.npz").x

    return made


def raw(array, folder):
    path = folder / "data.raw"
    path.write_bytes(array.tobytes() or b" ")
    return Raw(path, array.shape, array.dtype)


def delayed(array, folder):
    rows = max(1, len(np.atleast_1d(array)) // 3)
    if importlib.util.find_spec("dask") is None:
        return DelayedSource(Chunked(array, rows))
    from dask.array import from_array

    return from_array(array, chunks=(rows, *array.shape[1:])[: array.ndim])


def quartered(shape):
    return tuple(max(1, length // 4) for length in shape)


def hdf5(mode):
    def made(array, folder):
        path = folder / "data.h5"
        dtype = h5py.opaque_dtype(array.dtype) if array.dtype.kind == "M" else array.dtype
        chunks = quartered(array.shape) if array.size and array.ndim else None
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=array.astype(dtype), chunks=chunks)
        return h5py.File(path, mode)["x"]

    return made


def hdf5_by_path(array, folder):
    file = hdf5("r")(array, folder).file
    file.close()
    return dv.open(folder / "data.h5", "r+").x


def zarr_array(mode):
    def made(array, folder):
        kept = zarr.create_array(
            folder / "data.zarr",
            shape=array.shape,
            dtype=array.dtype,
            chunks=quartered(array.shape),
            zarr_format=2,
            fill_value=None,
        )
        kept[...] = array
        return zarr.open_array(folder / "data.zarr", mode=mode)

    return made


def function(array, folder):
    return dv.View(Row(array), _length=len(array))._probe()


STORES = {
    "memory": Store(memory("C")),
    "memory in Fortran order": Store(memory("F")),
    "strided memory": Store(memory("strided")),
    "npy": Store(npy("r"), writable=False),
    "npy to be written": Store(npy("r+")),
    "npy in Fortran order": Store(npy("r+", "F")),
    "npy elsewhere": Store(npy_elsewhere, writable=False),
    "npz": Store(npz(np.savez), writable=False),
    "packed npz": Store(npz(np.savez_compressed), writable=False),
    "delayed": Store(delayed, writable=False),
    "function": Store(function, writable=False, only_rows=True),
    "least": Store(lambda array, folder: Least(array), writable=False),
    "least that can be written": Store(lambda array, folder: LeastWritable(array)),
    "raw": Store(raw),
    "array-like": Store(lambda array, folder: Numbered(array), writable=False),
    "array-like that can be written": Store(lambda array, folder: NumberedWritable(array)),
    "h5py": Store(hdf5("r"), writable=False),
    "h5py to be written": Store(hdf5("r+")),
    "HDF5 by its path": Store(hdf5_by_path),
    "zarr": Store(zarr_array("r"), writable=False, records=False),
    "zarr to be written": Store(zarr_array("r+"), records=False),
}
WRITABLE = [name for name, store in STORES.items() if store.writable]
WITH_RECORDS = [name for name, store in STORES.items() if store.records]

DTYPES = [np.dtype(code) for code in "? i2 >i4 f4 >f8 c8 M8[D] S3".split()] + [RECORD]
NUMBERS = [np.dtype(code) for code in "i2 >i4 f4 >f8".split()]
LARGE = (11_000, 100)
TABLE = np.dtype([("a", "<f8"), ("b", "<i4", (2,)), ("c", [("d", ">f4")])])


every_store = pytest.mark.parametrize("name", STORES)
every_writable_store = pytest.mark.parametrize("name", WRITABLE)
every_store_of_records = pytest.mark.parametrize("name", WITH_RECORDS)


@pytest.fixture
def new(tmp_path):
    """Make views of new stores."""
    numbers = itertools.count()

    def made(name, array):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return dv.View(STORES[name].made(array, folder))

    return made


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Make views of new stores, in the examples of properties."""
    return lambda name, array: dv.View(STORES[name].made(array, tmp_path_factory.mktemp("store")))


def drawn(data, name, dtypes=DTYPES):
    """Draw an array that a store can hold."""
    dtypes = [dtype for dtype in dtypes if dtype.names is None or STORES[name].records]
    array = data.draw(arrays(layouts=["C"], dtypes=dtypes))
    assume(not STORES[name].only_rows or (array.ndim and len(array)))
    return array


def counting(*shape, dtype=np.float64):
    """Give an array of small whole numbers, whose sums are exact."""
    return (np.arange(math.prod(shape)) * 7 % 101 - 50).reshape(shape).astype(dtype)


def table(rows):
    found = np.empty(rows, TABLE)
    found["a"], found["b"] = counting(rows), counting(rows, 2)
    found["c"]["d"] = counting(rows)[::-1]
    return found


# ---------------------------------------------------------------- reading


@every_store
@examples(30)
@given(st.data())
def test_any_part_is_numpys(name, fresh, data):
    array = drawn(data, name)
    view, chain = fresh(name, array), data.draw(chains(array, 3))
    check_same(view, array, lambda subject: follow(subject, chain))


@every_store
def test_only_memory_is_lent(name, new):
    array = counting(6, 4)
    view = new(name, array)
    lent = source_of(view).memory is not None
    assert lent == ("memory" in name)
    for part in [view(), view[1:3](), view[:, 1](), view[[2, 0]]()]:
        assert part.flags.writeable
        part[...] = 7
    if not lent:
        assert_same(view(), array)


@every_store
def test_a_large_expression_is_numpys(name, new):
    array = counting(*LARGE)
    view = new(name, array)
    centred = (view - view._mean(axis=0)) * 2
    assert_same(centred(), (array - array.mean(axis=0)) * 2)
    assert_same(centred[5:-3:7, ::3](), ((array - array.mean(axis=0)) * 2)[5:-3:7, ::3])
    out = np.empty(LARGE)
    (view + view[::-1])(out=out)
    assert_same(out, array + array[::-1])


KINDS = ["sum", "min", "max", "argmax", "any"]


@every_store
@pytest.mark.parametrize("shape", [(7, 4), LARGE], ids=["small", "large"])
def test_statistics(name, shape, new):
    array = counting(*shape)
    view = new(name, array)
    asked = [(kind, axis) for kind in KINDS for axis in (None, 0, 1)]
    found = dv.evaluate([getattr(view, f"_{kind}")(axis=axis) for kind, axis in asked])
    for (kind, axis), got in zip(asked, found[0], strict=True):
        assert_same(got, getattr(array, kind)(axis=axis))
    np.testing.assert_allclose(view._std(axis=0)(), array.std(axis=0), rtol=1e-12)
    assert_same(view._quantile(0.5, axis=0)(), np.quantile(array, 0.5, axis=0))
    assert_same(view._unique()(), np.unique(array))


@every_store
def test_minibatches_and_loaders(name, new):
    array = counting(23, 4)
    view = new(name, array)
    batches = [batch() for batch in view._minibatches(batch_size=5)]
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]
    assert_same(np.concatenate(batches), array)
    order = view._shuffled(3)
    assert_same(np.sort(order(), axis=0), np.sort(array, axis=0))
    alone = [batch() for batch in view._loader(5, "permutation", seed=4)]
    with view._loader(5, "permutation", seed=4, workers=2) as loader:
        for batch, expected in zip(loader, alone, strict=True):
            assert_same(batch(), expected)
    assert_same(np.sort(np.concatenate(alone), axis=0), np.sort(array, axis=0))


@every_store_of_records
def test_members(name, new):
    array = table(9)
    view = new(name, array)
    assert view._fields() == ("a", "b", "c")
    for key in [np.s_[:], np.s_[::-2], [4, 1, 4], array["a"] > 0, 3, np.s_[2:2]]:
        assert_same(view.a[key](), array["a"][key])
        assert_same(view[key].b(), array["b"][key])
        assert_same(view.c.d[key](), array["c"]["d"][key])
    assert_same(view.b[[3, 0], [1, 0]](), array["b"][[3, 0], [1, 0]])
    assert_same(view.b[::-1, None, 1](), array["b"][::-1, None, 1])
    assert_same((view.a + view.b[:, 1])(), array["a"] + array["b"][:, 1])
    assert view._asdict()["c"]["d"].tolist() == array["c"]["d"].tolist()


@every_store
def test_layouts(name, new):
    array = counting(6, 4)
    view = new(name, array)
    for shape in [(24,), (3, 2, 4), (2, -1), (4, 6), (1, 6, 4)]:
        assert_same(view._reshape(shape)(), array.reshape(shape))
        assert_same(view._reshape(shape)[-1:](), array.reshape(shape)[-1:])
        assert_same(view._reshape(shape)._transpose()(), array.reshape(shape).T)
        assert_same((view._reshape(shape) + 1)[-1:](), array.reshape(shape)[-1:] + 1)
    flat = array.reshape(12, 2)
    for key in [
        np.s_[1:9],
        np.s_[8:3:-2, ::-1],
        7,
        np.s_[3:8, 1],
        np.s_[5:6, [1, 0, 1]],
        np.s_[2:2],
    ]:
        assert_same(view._reshape(12, 2)[key](), flat[key])
        assert_same((view._reshape(12, 2) * 2)[key](), flat[key] * 2)
    for key in [[7, 0, 7, -1], [[3], [10]], np.s_[[5, 2], ::-1], np.s_[[5, 2, 4], [1, 0, 1]]]:
        assert_same(view._reshape(12, 2)[key](), flat[key])
        assert_same((view._reshape(12, 2) * 2)[key](), flat[key] * 2)
    assert_same(view[1:]._reshape(5, 4)[1:4](), array[1:].reshape(5, 4)[1:4])
    windows = (view * 2)._reshape(12, 2)._windows(3)[2:6]
    assert_same(windows(), np.stack([flat[n : n + 3] * 2 for n in range(2, 6)]))
    means = dv.View(np.stack([array, array], -1))._mean(axis=2)
    made = (windows, *(np.broadcast_to(x[2:4], (3, 2, 4)) for x in (view, view @ np.eye(4), means)))
    for repeated in made:
        found = repeated()
        rest = found[1:].copy()
        if found.flags.writeable:
            found[0] = -1
        assert_same(found[1:], rest)
    assert_same(dv.concat(view, view[::-1])[4:8](), np.concatenate([array, array[::-1]])[4:8])


@pytest.mark.parametrize(
    ("key", "needed"),
    [
        (np.s_[:2, :2], {0, 10}),
        (np.s_[::2, 0], {0, 20}),
        (np.s_[[2, 0], 3], {21, 1}),
        (1, {*range(10, 20)}),
    ],
)
def test_a_function_is_called_for_no_row_that_a_part_of_its_reshaped_rows_lacks(key, needed):
    made = Counting(lambda number: np.arange(2) + 2 * number)
    view = made.probed(30)._reshape(3, 20)
    assert_same(view[key](), np.arange(60).reshape(3, 20)[key])
    assert set(made.asked) == needed


@every_store
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0)])
def test_no_axes_and_no_elements(name, shape, new):
    if STORES[name].only_rows:
        return
    array = fill(shape, np.float32)
    view = new(name, array)
    assert_same(view(), array)
    assert_same(view._sum()(), array.sum())
    assert_same((view + 1)(), array + np.float32(1))
    if STORES[name].writable:
        view += 1
        view[...] = view + 1
        assert_same(view(), array + np.float32(2))


# ---------------------------------------------------------------- what is said, kept and sent


@every_store
def test_pickles_and_copies(name, new):
    array = counting(6, 4)
    view = new(name, array)
    for made in [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]:
        assert_same(made(view)(), array)
        assert_same(made(view[1:5:2, [2, 0]])(), array[1:5:2][:, [2, 0]])
        assert_same(made(view - view._mean(axis=0))(), array - array.mean(axis=0))
        if STORES[name].records:
            fields = made(new(name, table(5)))
            assert_same(fields.b[1:](), table(5)["b"][1:])
            assert_same(fields[::2].c.d(), table(5)["c"]["d"][::2])
    if STORES[name].writable:
        again = copy.deepcopy(view)
        again -= 1
        assert_same(again(), array - 1)


@every_store
def test_a_store_is_described(name, new):
    view = new(name, counting(6, 4))
    for text in [repr(view), str(view), view._repr_html_(), repr(view * 2), str(view._explain())]:
        assert text
    assert "6" in str(view._describe())
    assert view._deterministic
    assert view._nbytes() == 6 * 4 * 8


@every_store
def test_saving(name, new, tmp_path):
    saved = [counting(6, 4), counting(6, 4, dtype=">i4"), *[table(7)] * STORES[name].records]
    for number, array in enumerate(saved):
        view, path = new(name, array), tmp_path / f"{number}.npy"
        view._save(path)
        assert_same(np.load(path), array)
        (view if array.dtype.names is None else view.b)[::-1]._save(path)
        assert_same(np.load(path), (array if array.dtype.names is None else array["b"])[::-1])


@every_store
def test_kept_rows_and_photographs(name, new):
    array = counting(6, 4)
    view = new(name, array)
    kept, frozen, mean = view._cached(1 << 20), view._freeze(), view._mean(axis=0)
    assert_same(kept(), array)
    if STORES[name].writable:
        view[1:3] = 5
        changed = array.copy()
        changed[1:3] = 5
        assert_same(kept(), changed)
    assert_same(frozen(), array)
    assert_same(mean(), array.mean(axis=0))


# ---------------------------------------------------------------- writing


@every_writable_store
@examples(30)
@given(st.data())
def test_any_write_changes_what_numpys_positions_say(name, fresh, data):
    array = drawn(data, name)
    view, chain = fresh(name, array), data.draw(accepted_chains(array, 3))
    places = positions(array, chain)
    value = data.draw(values(places.shape, array.dtype))
    landed, refusal = attempt(lambda v: cast_into(places.shape, array.dtype, v), value)
    if refusal is not None:
        with pytest.raises(public_class(refusal)):
            follow(view, chain)._write(value)
    else:
        follow(view, chain)._write(value)
        scatter(array, places, landed)
    assert_same(view(), array)


@every_writable_store
@examples(20)
@given(st.data())
def test_any_operator_that_assigns(name, fresh, data):
    array = drawn(data, name, NUMBERS)
    view, chain = fresh(name, array), data.draw(accepted_chains(array, 2))
    places = positions(array, chain)
    assign = data.draw(st.sampled_from([operator.iadd, operator.isub, operator.imul]))
    part = follow(array, chain).copy()
    with np.errstate(all="ignore"):
        assign(follow(view, chain), 3)
        scatter(array, places, np.asarray(assign(part, 3)))
    assert_same(view(), array)


def one_more(x):
    x += 1


def centred(x):
    x -= mean(x)


def some_rows(x):
    x[3::2] *= 2


def some_columns(x):
    x[:, ::3] -= 1


def rows_by_number(x):
    x[[9, 2, 5]] += 1


def with_the_other_end(x):
    x += x[::-1]


def with_the_next_row(x):
    x[:-1] -= x[1:]


def through_the_transpose(x):
    turned = x._transpose() if isinstance(x, dv.View) else x.T
    turned += 1


def shifted(x):
    x[1:] = x[:-1]


def a_column(x):
    x[:, 1] = 5


def an_expression(x):
    x[:] = x * 2 + 1


CHANGES = [
    one_more,
    centred,
    some_rows,
    some_columns,
    rows_by_number,
    with_the_other_end,
    with_the_next_row,
    through_the_transpose,
    shifted,
    a_column,
    an_expression,
]


def mean(x):
    return x._mean(axis=0) if isinstance(x, dv.View) else x.mean(axis=0)


@every_writable_store
@pytest.mark.parametrize("shape", [(12, 4), LARGE], ids=["small", "large"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_in_place(name, shape, change, new):
    array = counting(*shape)
    view = new(name, array)
    change(view)
    change(array)
    assert_same(view(), array)


@pytest.mark.parametrize("name", [name for name in WRITABLE if name in WITH_RECORDS])
@pytest.mark.parametrize("rows", [9, 70_000])
def test_changes_of_members(name, rows, new):
    array = table(rows)
    view = new(name, array)
    view.a -= 1
    array["a"] -= 1
    view.b += view.b[::-1]
    array["b"] += array["b"][::-1].copy()
    view.b[[3, 3, 0], [1, 1, 0]] = [7, 8, 9]
    array["b"][[3, 3, 0], [1, 1, 0]] = [7, 8, 9]
    view.c.d[::2] *= 2
    array["c"]["d"][::2] *= 2
    view[1].b = [4, 5]
    array[1]["b"] = [4, 5]
    view[-2:] = view[:2]()
    array[-2:] = array[:2]
    assert_same(view(), array)


@every_writable_store
def test_writing_through_layouts(name, new):
    array = counting(6, 4)
    view = new(name, array)
    view._reshape(3, 8)[1] = 5
    array.reshape(3, 8)[1] = 5
    view._reshape(-1)[::5] += 1
    array.reshape(-1)[::5] += 1
    dv.concat(view[4:], view[:2])[1:3] = 9
    array[[5, 0]] = 9
    assert_same(view(), array)


@every_writable_store
def test_a_view_that_is_read_while_it_is_written(name, new):
    array = counting(*LARGE)
    view = new(name, array)
    again = pickle.loads(pickle.dumps(view)) if isinstance(source_of(view).path, str) else view
    view += again[::-1]
    array += array[::-1].copy()
    assert_same(view(), array)


def source_of(view):
    return view._state[0].source


# ---------------------------------------------------------------- what is read-only


REFUSED = {
    "an element": lambda x: operator.setitem(x, 0, 1),
    "all": lambda x: operator.setitem(x, ..., x + 1),
    "in place": lambda x: operator.iadd(x, 1),
    "some rows in place": lambda x: operator.imul(x[2:5], 2),
    "written": lambda x: x._write(np.zeros((6, 4))),
}


@every_store
@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_is_read_only_is_never_written(name, change, new):
    array = counting(6, 4)
    view = new(name, array)
    assert source_of(view).writable == STORES[name].writable
    if STORES[name].writable:
        view = view._readonly()
    with pytest.raises(dv.ReadOnlyError) as caught:
        change(view)
    assert source_of(view).describe() in str(caught.value)
    assert_same(view(), array)


# ---------------------------------------------------------------- the protocol itself


def test_a_store_has_to_say_how_it_is_read():
    with pytest.raises(TypeError, match="read"):
        type("Silent", (Source,), {})()


def test_what_a_store_returns_is_as_it_has_declared():
    class Doubled(Source):
        shape, dtype = (4, 3), np.dtype("i8")

        def __init__(self, wrong):
            self.wrong = wrong

        def read(self, index, memo):
            return self.wrong(gather.read(np.arange(12).reshape(4, 3), index))

    number = dv.View(Doubled(lambda found: found * 2))  # NumPy makes a number of a 0-d array
    assert number[1, 2]() == 10 and number[1:, 0]().tolist() == [6, 12, 18]
    for wrong, got in (
        (lambda found: found / 2, "returned float64 of shape"),
        (lambda found: found[None], "returned int64 of shape"),
        (lambda found: found.tolist(), "returned (list|int) where"),
    ):
        view = dv.View(Doubled(wrong))
        for part in (view, view[1], view[1, 2], view[[2, 1]], view + 1, view._mean()):
            with pytest.raises(TypeError, match=f"Doubled {got}"):
                part()


def test_a_store_without_write_refuses_to_be_written():
    with pytest.raises(dv.ReadOnlyError, match="Least"):
        Least(counting(3)).write(identity((3,)), np.zeros(()))


def test_what_a_store_says_of_itself_is_known_without_reading():
    class Unread(Source):
        shape, dtype = (70_000, 3), np.dtype("f4")

        def read(self, index, memo):
            raise AssertionError("the store was read")

        def describe(self):
            return "a cupboard"

    view = dv.View(Unread())
    assert "a cupboard" in repr(view)
    assert (view - view._mean(axis=0))[5:]._shape() == (69_995, 3)
    with pytest.raises(dv.ReadOnlyError, match="a cupboard"):
        view -= 1


def test_a_store_that_was_opened_for_reading_is_read_only():
    class Opened(LeastWritable):
        def __init__(self, array, mode):
            super().__init__(array)
            self.writable = mode == "r+"

    for mode in ["r", "r+"]:
        assert dv.View(Opened(counting(3), mode))._state[0].writable == (mode == "r+")


def test_only_what_is_asked_for_is_read():
    class Counted(Least):
        elements = 0

        def read(self, index, memo):
            self.elements += math.prod(index.shape)
            return super().read(index, memo)

    source = Counted(table(100))
    view = dv.View(source)
    view.a[5:10]()
    view.b[[7, 3, 7], 1]()
    view[2].c()
    assert source.elements == 5 + 2 + 1


def test_a_store_says_whether_it_is_the_same_each_time():
    class Drawn(Least):
        deterministic = False

    view = dv.View(Drawn(table(4)))
    assert not view._deterministic
    assert not (view.b * 2)._deterministic
    with pytest.raises(ValueError, match="_deterministic"):
        view.a._cached(1 << 20)


def test_stores_are_fields_and_operands():
    array = counting(5)
    view = dv.View(x=Least(array), y=array)
    assert_same((view.x + Least(array))(), array + array)
    assert_same(view[2:].x(), array[2:])


def test_a_new_format_is_one_row(monkeypatch, tmp_path):
    def opened(path, mode, claim):
        rows = os.path.getsize(path) // 8
        return stored(Raw(path, (rows,), np.float64))

    def saved(path, job):
        with new_file(path) as file:
            job.reading.read(lambda leaf, key, block: file.write(block.tobytes()))

    writer = Writer("a raw file", saved, lambda leaf: None, is_array=True)
    monkeypatch.setitem(FORMATS, "raw", Format((".raw",), opened, writer))
    monkeypatch.setitem(FORMATS, "log", Format((".log",), opened))
    array = counting(300_000)
    (dv.View(array) * 2)._save(tmp_path / "x.raw")
    dv.View(array)._save(tmp_path / "x.log", format="raw")
    assert_same(dv.open(tmp_path / "x.raw")(), array * 2)
    assert_same(dv.open(str(tmp_path / "x.log"))(), array)
    with pytest.raises(ValueError, match=r"end in \.npy, \.npz.* \.raw, \.log, .*; got 'x.xyz'"):
        dv.open("x.xyz")
    with pytest.raises(ValueError, match=r"as \.npy,.* \.raw, or .*; got .* \('\.log'\)"):
        dv.View(array)._save(tmp_path / "y.log")
