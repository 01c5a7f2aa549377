"""Objects that look like arrays: h5py's datasets, zarr's arrays, and any with `[]`."""

import collections
import copy
import operator
import pickle
import threading
import types

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from dataview.index.sizes import sizes
from oracle import accepted_chains, arrays, assert_same, examples, follow, positions, scatter
from stores import Numbered, NumberedWritable


@pytest.fixture
def x():
    return np.arange(24.0).reshape(6, 4)


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        yield file


def numbered(array, folder):
    return NumberedWritable(array)


def hdf5(array, folder):
    return h5py.File(folder / "data.h5", "a").create_dataset("x", data=array)


def zarr_array(array, folder):
    chunks = tuple(max(2, length // 4) for length in array.shape)
    made = zarr.create_array(
        folder / "data.zarr", shape=array.shape, dtype=array.dtype, chunks=chunks
    )
    made[...] = array
    return made


every_kind = pytest.mark.parametrize("kind", [numbered, hdf5, zarr_array])


# ---------------------------------------------------------------- reading


def test_nothing_is_read_before_it_is_asked_for(x):
    found = Numbered(x)
    view = dv.View(found, first=np.s_[:, 0])
    built = (view.first * 2)[1:] + view[1:, 1] - view._mean()
    assert (built._shape(), built._dtype()) == ((5,), np.float64)
    assert "6" in repr(view) and "Numbered" in repr(view)
    assert found.keys == []


ASKED = {
    "a run": (np.s_[10:20], 10 * 8),
    "an element": (np.s_[7, 3], 1),
    "in steps": (np.s_[::10], 10 * 8),
    "backwards": (np.s_[90:50:-2, ::-3], 20 * 3),
    "columns": (np.s_[:, 2:4], 100 * 2),
    "rows by number": ([7, 2, 7, 3], 3 * 8),
    "rows by mask": (np.arange(100) % 7 == 0, 15 * 8),
    "rows and columns by number": (np.ix_([90, 4], [7, 0, 3]), 6),
    "one element of each row": ((np.arange(100), np.arange(100) % 8), 100),
    "elements far apart": (([99, 0, 0], [0, 7, 7]), 2),
    "none": (np.s_[5:5], 0),
}


@pytest.mark.parametrize(("key", "elements"), ASKED.values(), ids=ASKED)
def test_what_is_asked_for_is_read_and_little_more(key, elements):
    array = np.arange(800).reshape(100, 8)
    found = Numbered(array)
    assert_same(dv.View(found)[key](), array[key])
    few = 4 if isinstance(key, tuple) and isinstance(key[0], (list, np.ndarray)) else 1
    assert elements <= found.elements <= few * elements


def test_a_pass_reads_all_once():
    array = np.arange(400_000.0).reshape(50_000, 8)
    found = Numbered(array)
    view = dv.View(found)
    assert_same(view._sum(axis=0)(), array.sum(axis=0))
    assert found.elements == array.size
    assert_same(dv.evaluate([view._min(), view._max()])[0][0], array.min())
    assert found.elements == 2 * array.size


@pytest.mark.parametrize("bytes", [1 << 24, 16])
@examples(100)
@given(st.data())
def test_any_part_of_what_takes_slices_alone_is_numpys(bytes, data):
    array = data.draw(arrays(layouts=["C"], dtypes=[np.dtype("i4"), np.dtype("U3")]))
    chain = data.draw(accepted_chains(array, 3))
    found = Numbered(array)
    part = follow(dv.View(found), chain)
    with sizes.set(file_bytes=bytes):
        assert_same(np.asarray(part), np.asarray(follow(array, chain)))
    assert found.elements <= 4 * max(1, np.unique(positions(array, chain)).size)


def test_what_takes_slices_of_rows_alone_is_read_by_rows(x):
    class Rows:
        shape, dtype = x.shape, "f8"

        def __getitem__(self, key):
            assert isinstance(key, slice)
            return x[key].tolist()

    assert_same((dv.View(Rows())[[4, 1]] + 1)(), x[[4, 1]] + 1)
    assert_same(dv.View(a=Rows())[2].a(), x[2])


@every_kind
def test_what_is_read_is_nobody_elses(kind, x, tmp_path):
    view = dv.View(kind(x, tmp_path))
    for part in [view(), view[1:3](), view[::-1](), view[2]()]:
        part[...] = -1
    assert_same(view(), x)


def test_what_is_not_as_it_says_is_refused(x):
    class Liar(Numbered):
        answer = None

        def __getitem__(self, key):
            return self.answer(self.data[key])

    found = Liar(x)
    view = dv.View(found)
    found.answer = lambda part: part[:1]
    with pytest.raises(ValueError, match=r"Liar.* gave the shape \(1, 4\) .* selects \(3, 4\)"):
        view[2:5]()
    found.answer = lambda part: part.astype(complex)
    with pytest.raises(TypeError, match=r"its dtype is float64, and gave complex128 \(ndarray\)"):
        view()
    found.answer = lambda part: np.ma.masked_equal(part, 3)
    assert_same(view[1:](), x[1:])
    with pytest.raises(ValueError, match=r"lose its mask.*set_auto_mask"):
        view()
    found.answer = lambda part: part.astype("f4")
    assert_same(view(), x)
    found.shape = (7, 4)  # rows were added
    assert_same(view(), x)
    found.shape = (5, 4)
    with pytest.raises(ValueError, match=r"had the shape \(6, 4\).* now has \(5, 4\).* anew"):
        view()


def test_what_has_all_names_of_an_array_may_be_something_else(x):
    Pair = collections.namedtuple("Pair", "shape dtype")
    assert dv.View(Pair((1, 2), [3, 4]))._fields() == ("shape", "dtype")
    assert dv.View({"shape": (1, 2), "dtype": [3, 4]})._fields() == ("shape", "dtype")

    class Lent:
        shape, dtype = x.shape, x.dtype
        __array_interface__ = x.__array_interface__

        def __getitem__(self, key):
            raise AssertionError("memory is shared, and not asked for")

    dv.View(Lent())[0] = 9
    assert x[0, 0] == 9

    class Columns(Numbered):
        def __init__(self, array):
            super().__init__(array)
            self.dtype = types.SimpleNamespace(name="category")

        def __array__(self, dtype=None, copy=None):
            return self.data

    assert_same(dv.View(Columns(x))(), x)


# ---------------------------------------------------------------- writing


@every_kind
def test_a_write_reaches_the_object(kind, x, tmp_path):
    found = kind(x, tmp_path)
    view = dv.View(found)
    view[0] = 4.0
    x[0] = 4
    view[[5, 2], [1, 3]] = [7, 8]
    x[[5, 2], [1, 3]] = [7, 8]
    view[1::2, ::-2] *= 2
    x[1::2, ::-2] *= 2
    np.add(view[:, 1], 1, out=view[:, 1])
    x[:, 1] += 1
    assert_same(found[0:6], x)


@pytest.mark.parametrize("bytes", [1 << 24, 16])
@examples(100)
@given(st.data())
def test_nothing_but_the_places_is_written(bytes, data):
    array = data.draw(arrays(layouts=["C"], dtypes=[np.dtype("i4")]))
    chain = data.draw(accepted_chains(array, 3))
    written = np.zeros(array.shape, int)

    class Noted(NumberedWritable):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            written[key] += 1

    places = positions(array, chain)
    found = Noted(array)
    value = np.arange(places.size, dtype="i4").reshape(places.shape)
    with sizes.set(file_bytes=bytes):
        follow(dv.View(found), chain)._write(value)
    scatter(array, places, value)
    assert_same(found.data, array)
    assert set(np.flatnonzero(written)) == set(places.ravel().tolist())


def test_of_repeated_places_the_last_value_counts(rng):
    array = np.zeros((9, 7))
    view = dv.View(NumberedWritable(array))
    for _ in range(20):
        rows, columns = rng.integers(0, 9, (8, 6)), rng.integers(0, 7, 6)
        value = rng.random((8, 6))
        with sizes.set(file_bytes=64):
            view[rows, columns] = value
        array[rows, columns] = value
        assert_same(view(), array)


@every_kind
def test_an_object_is_written_into_a_view(kind, x, tmp_path):
    found = kind(x, tmp_path)
    view = dv.View(np.zeros((6, 4)), first=np.s_[:, 0])
    view[:] = found
    assert_same(view(), x)
    view.first = Numbered(x[:, 2])
    assert_same(view[:, 0](), x[:, 2])
    dv.View(found)[:] = dv.View(found)[::-1]
    assert_same(found[0:6], x[::-1])
    with pytest.raises(ValueError, match="broadcast"):
        view[1:] = found


@every_kind
def test_two_views_of_one_object_know_each_other(kind, x, tmp_path):
    found = kind(x, tmp_path)
    view = dv.View(found)
    view[1:] = dv.View(found)[:-1]
    x[1:] = x[:-1].copy()
    view += dv.View(a=found).a[::-1]
    x += x[::-1].copy()
    kept = dv.View(found)._cached(1 << 20)
    assert_same(kept(), x)
    view[2] = -1
    x[2] = -1
    assert_same(kept(), x)


def test_opened_twice_it_is_the_same_data(x, tmp_path):
    found = zarr_array(x, tmp_path)
    dv.View(found)[1:] = dv.View(zarr.open_array(tmp_path / "data.zarr", mode="r"))[:-1]
    x[1:] = x[:-1].copy()
    assert_same(found[...], x)
    first = hdf5(x, tmp_path)
    again = h5py.File(tmp_path / "data.h5", "r+")["x"]
    dv.View(first)[1:] = dv.View(again)[:-1]
    x[1:] = x[:-1].copy()
    assert_same(first[...], x)


def shares(one, other):
    return dv.View(one)._state[0].source.may_share(dv.View(other)._state[0].source)


def test_other_data_is_other_data(x, file, tmp_path):
    first, second = (file.create_dataset(name, data=x) for name in "xy")
    file["link"] = first
    assert shares(first, file["x"])
    assert shares(first, file["link"])
    assert not shares(first, second)
    assert not shares(first, x)
    layout = h5py.VirtualLayout((6, 4), "f8")
    layout[...] = h5py.VirtualSource(first)
    assert shares(first, file.create_virtual_dataset("v", layout))
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    for name in "xy":
        group.create_array(name, data=x)
    assert shares(group["x"], group["x"])
    assert not shares(group["x"], group["y"])
    assert not shares(group["x"], first)
    own = NumberedWritable(x)
    assert shares(own, own)
    assert not shares(own, NumberedWritable(x))


READ_ONLY = {
    "array-like": lambda x, folder: (Numbered(x), "Numbered (r)"),
    "h5py": lambda x, folder: (
        [hdf5(x, folder).file.close(), h5py.File(folder / "data.h5")["x"]][1],
        "h5py data.h5/x (r)",
    ),
    "zarr": lambda x, folder: (
        [zarr_array(x, folder), zarr.open_array(folder / "data.zarr", mode="r")][1],
        "zarr data.zarr (r)",
    ),
    "h5py's texts": lambda x, folder: (
        h5py.File(folder / "t.h5", "w").create_dataset("t", data=["a", "b"]).asstr(),
        "AsStrView (r)",
    ),
}


@pytest.mark.parametrize("made", READ_ONLY.values(), ids=READ_ONLY)
def test_what_cannot_be_written_is_read_only_and_says_so(made, x, tmp_path):
    found, text = made(x, tmp_path)
    view = dv.View(found)
    assert text in repr(view)
    for change in [lambda: operator.setitem(view, 0, 4), lambda: operator.iadd(view, 1)]:
        with pytest.raises(dv.ReadOnlyError) as caught:
            change()
        assert text in str(caught.value)


def test_two_threads_that_write_one_chunk_lose_nothing():
    array = zarr.create_array(
        zarr.storage.MemoryStore(), shape=(4000, 16), chunks=(1000, 16), dtype="f8"
    )
    view = dv.View(array)
    view[...] = 0

    def add(start):
        for _ in range(5):
            view[start::4] += 1

    run([threading.Thread(target=add, args=(start,)) for start in range(4)])
    assert (array[...] == 5).all()


def run(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---------------------------------------------------------------- h5py


def test_a_view_says_which_dataset_it_is_of(file, x):
    view = dv.View(file.create_dataset("group/x", data=x))
    for text in [repr(view), view._repr_html_(), str((view + 1)._explain())]:
        assert "h5py data.h5/group/x" in text
    assert "h5py data.h5, without a name" in repr(dv.View(file.create_dataset(None, data=x)))


def test_a_group_is_a_record(file, x):
    file["outer/x"], file["outer/y"], file["z"] = x, x[:, 0], x[:, 1]
    view = dv.View(file)
    assert (view._fields(), view.outer._fields()) == (("outer", "z"), ("x", "y"))
    view.outer.x[2] = 7
    x[2] = 7
    assert_same(file["outer/x"][...], x)
    assert_same(view[1:].z(), file["z"][1:])


DATA = {
    "texts": (["a", "bc", ""], [b"a", b"bc", b""]),
    "bytes": (np.array([b"a", b"bcd"], "S3"), None),
    "truths": (np.array([True, False]), None),
    "complex": (np.array([1 + 2j, 3], ">c16"), None),
    "half": (np.array([1, 2], "f2"), None),
    "one number": (np.float32(3), None),
    "one text": ("abc", b"abc"),
    "nothing": (np.zeros((0, 3), ">i8"), None),
}


@pytest.mark.parametrize(("given", "expected"), DATA.values(), ids=DATA)
def test_each_dtype_is_read_and_written(given, expected, file):
    dataset = file.create_dataset("x", data=given)
    view = dv.View(dataset)
    if expected is None:
        assert_same(np.asarray(view), np.asarray(given))
        view[...] = np.asarray(given)[..., ::-1] if np.ndim(given) else given
        assert_same(np.asarray(view), np.asarray(given)[..., ::-1] if np.ndim(given) else given)
        return
    assert view._dtype() == np.dtype(object)
    assert np.asarray(view).tolist() == expected
    if not np.ndim(expected):
        view[...] = "new"
        assert dataset.asstr()[()] == "new"
    else:
        assert view[[2, 0]]().tolist() == [expected[2], expected[0]]
        view[1] = "new"
        assert dataset.asstr()[1] == "new"


def test_enumerations_lists_and_records_with_texts(file):
    colours = h5py.enum_dtype({"red": 0, "green": 1}, "i2")
    assert_same(dv.View(file.create_dataset("e", data=[1, 0], dtype=colours))(), np.int16([1, 0]))
    lists = file.create_dataset("l", (3,), h5py.vlen_dtype("i4"))
    lists[0], lists[2] = [1, 2], [3]
    assert [row.tolist() for row in dv.View(lists)()] == [[1, 2], [], [3]]
    kind = np.dtype([("name", h5py.string_dtype()), ("code", "S2"), ("value", "f4", (2,))])
    records = file.create_dataset("r", (3,), kind)
    view = dv.View(records)
    view.value = np.arange(6).reshape(3, 2)
    view.code[1:] = [b"ab", b"c"]
    assert view.value[::-1, 1]().tolist() == [5, 3, 1]
    assert records[...]["code"].tolist() == [b"", b"ab", b"c"]
    assert view[0].name() == b""


def test_a_dataset_without_a_shape_is_refused(file):
    with pytest.raises(ValueError, match="/e is empty"):
        dv.View(file.create_dataset("e", data=h5py.Empty("f4")))


def test_a_closed_file_is_said_so(x, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        dataset = file.create_dataset("x", data=x)
        view = dv.View(dataset)
    assert "h5py data.h5/x" in repr(view)
    for ask in [view, lambda: operator.setitem(view, 0, view[5]()), lambda: pickle.dumps(view)]:
        with pytest.raises(ValueError, match=r"h5py data\.h5/x was closed; keep it open"):
            ask()
    with pytest.raises(ValueError, match="of a closed file; open"):
        dv.View(dataset)


@pytest.mark.parametrize("dtype", ["f8", "S3"])  # of which HDF5 knows numbers better
def test_a_dataset_that_was_resized_is_said_so(x, file, dtype):
    dataset = file.create_dataset("x", data=x.astype(dtype), maxshape=(None, 4))
    view = dv.View(dataset)
    row = view[0]()
    dataset.resize(3, axis=0)
    for use in (
        lambda: operator.setitem(view, 0, row),
        view,
        view[2:5],
        view[[0, 4]],
        view[5],
        view[:2],
        view[::-2, 1:],
    ):
        with pytest.raises(ValueError, match=r"\(6, 4\).* now has \(3, 4\)"):
            use()
    dataset.resize((9, 4))
    assert_same(view[:3](), x[:3].astype(dtype))


@pytest.fixture
def asked(monkeypatch):
    """Give a list of what h5py's datasets are asked for."""
    found = []

    def noting(name, own):
        def noted(dataset, *arguments):
            found.append(name)
            return own(dataset, *arguments)

        return noted

    own = h5py.Dataset
    monkeypatch.setattr(own, "__getitem__", noting("[]", own.__getitem__))
    monkeypatch.setattr(own, "shape", property(noting("shape", own.shape.fget)))
    return found


# What h5py remembers of a file that is only read costs little; else it asks HDF5 each time.
@pytest.mark.parametrize(("mode", "each"), [("r", ["[]"]), ("r+", [])])
def test_a_batch_asks_h5py_for_little(x, tmp_path, asked, mode, each):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(2, 2))
    with dv.open(tmp_path / "a.h5", mode) as d:
        d.x[:1]()
        asked.clear()
        found = [batch() for batch in d.x._minibatches(2)]
        assert asked == len(found) * each
    assert_same(np.concatenate(found), x)


def test_a_pickle_opens_the_dataset_again(x, tmp_path):
    dataset = hdf5(x, tmp_path)
    view = dv.View(dataset)[1:] * 2
    dataset[1] = 5
    x[1] = 5
    assert_same(pickle.loads(pickle.dumps(view))(), x[1:] * 2)
    text = pickle.dumps(view)
    assert len(text) < 2000
    dataset.file.close()
    assert_same(pickle.loads(text)(), x[1:] * 2)
    with h5py.File(tmp_path / "data.h5", "a") as file:
        del file["x"]
        file["x"] = x[:4]
    with pytest.raises(ValueError, match=r"has changed since .*\(6, 4\) float64, now \(4, 4\)"):
        pickle.loads(text)
    with h5py.File(tmp_path / "data.h5", "a") as file:
        del file["x"]
    with pytest.raises(KeyError, match="a view of /x was pickled"):
        pickle.loads(text)
    (tmp_path / "data.h5").unlink()
    with pytest.raises(FileNotFoundError, match="open it with mode 'r'"):
        pickle.loads(text)


def test_what_cannot_be_opened_again_is_not_pickled(x, file):
    in_memory = h5py.File("memory", "w", driver="core", backing_store=False)
    for dataset in [in_memory.create_dataset("x", data=x), file.create_dataset(None, data=x)]:
        view = dv.View(dataset)
        with pytest.raises(TypeError, match=r"cannot be pickled.*dv.View\(view\(\)\)"):
            pickle.dumps(view)
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.deepcopy(view)
        assert_same(pickle.loads(pickle.dumps(dv.View(view())))(), x)


def test_another_process_reads_what_a_pickle_names(x, tmp_path):
    hdf5(x, tmp_path).file.close()
    for mode in ["r", "r+"]:
        with h5py.File(tmp_path / "data.h5", mode) as file:
            (tmp_path / mode).write_bytes(pickle.dumps(dv.View(file["x"])))
            program = (
                "import pickle, sys\n"
                "try: print(pickle.load(open(sys.argv[1], 'rb'))[1:3].sum())\n"
                "except OSError as error: print(error)"
            ).replace(".sum()", "._sum()()")
            told = printed("-c", program, tmp_path / mode, HDF5_USE_FILE_LOCKING="TRUE")
        assert (float(told) == x[1:3].sum()) if mode == "r" else "open it with mode 'r'" in told


def test_workers_read_a_dataset(x, tmp_path):
    hdf5(x, tmp_path).file.close()
    with h5py.File(tmp_path / "data.h5") as file:
        loader = dv.View(file["x"])._loader(2, workers=1, kind="process")
        found = [batch() for batch in loader]
        loader.close()
    assert_same(np.concatenate(found), x)


def test_several_threads_read_one_file():
    array = np.arange(40_000.0).reshape(4000, 10)
    file = h5py.File("memory", "w", driver="core", backing_store=False)
    view = dv.View(file.create_dataset("x", data=array, chunks=(100, 10)))
    found = {}

    def read(start):
        found[start] = view[start : start + 500]()

    run([threading.Thread(target=read, args=(start,)) for start in range(0, 4000, 500)])
    assert_same(np.vstack([found[start] for start in sorted(found)]), array)


CAPPED = """
import os, resource, sys

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # each processor holds a block
import h5py, numpy as np, dataview as dv
from dataview.index.sizes import sizes

sizes.undo_bytes = 1 << 20
file = h5py.File(sys.argv[1], "w")
made = file.create_dataset("x", (400_000, 64), "f4", chunks=(4096, 64))
for start in range(0, 400_000, 50_000):
    made[start : start + 50_000] = np.arange(50_000, dtype="f4")[:, None]
d = dv.View(made)
(d[:1000] - d[:1000]._mean(axis=0))()
d[:100_000]._mean(axis=0)()  # starts the threads, which take addresses


def most_held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (80 << 20),) * 2)
before = most_held()
exec(sys.argv[2])
assert most_held() - before >> 10 < 64, most_held() - before
print(made[0, 0], made[49_999, 63], made[-2, 0])
"""

WORKS = {
    "centre": ("d -= d._mean(axis=0)", "-24999.5 24999.5 24998.5"),
    "fill": ("d[:] = 7", "7.0 7.0 7.0"),
    "fill backwards": ("d[::-1] = np.arange(64)", "0.0 63.0 0.0"),
    "fill columns": ("d._transpose()[3:] = 7", "0.0 7.0 49998.0"),
    "every fourth row": ("assert d[::4]().shape == (100_000, 64)", "0.0 49999.0 49998.0"),
}


@pytest.mark.parametrize(("work", "expected"), WORKS.values(), ids=WORKS)
def test_a_dataset_larger_than_memory_is_changed_in_blocks(work, expected, tmp_path):
    assert printed("-c", CAPPED, tmp_path / "x.h5", work).strip() == expected


# ---------------------------------------------------------------- zarr


def test_a_view_says_which_array_it_is_of(tmp_path, x):
    group = zarr.open_group(tmp_path / "train.zarr", mode="w")
    view = dv.View(group.create_array("a/x", data=x))
    assert "zarr train.zarr/a/x (r+)" in repr(view)
    assert "zarr MemoryStore (r+)" in repr(dv.View(zarr.array(x, store=zarr.storage.MemoryStore())))


@pytest.mark.parametrize("kind", [hdf5, zarr_array])
def test_scattered_rows_and_columns_are_asked_for_at_once(kind, tmp_path, monkeypatch, rng):
    array = rng.random((600, 400))
    found = kind(array, tmp_path)
    view, keys, own = dv.View(found), [], type(found).__getitem__
    monkeypatch.setattr(
        type(found), "__getitem__", lambda self, key: keys.append(key) or own(self, key)
    )
    rows, columns = (rng.choice(length, 30, replace=False) for length in array.shape)
    key = np.ix_(rows, columns)
    assert_same(view[key](), array[key])
    assert len(keys) == 1
    with sizes.set(file_bytes=1000):
        assert_same(view[key](), array[key])
    assert len(keys) > (20 if kind is hdf5 else 1)  # zarr reads whole chunks in any case
    view[key] *= 2
    array[key] *= 2
    assert_same(view(), array)


def test_a_group_of_zarr_is_a_record(tmp_path, x):
    group = zarr.open_group(tmp_path / "train.zarr", mode="w")
    with pytest.raises(ValueError, match="group / is empty"):
        dv.View(group)
    group.create_array("z", data=x[:, 1])
    group.create_array("outer/x", data=x)
    view = dv.View(group)
    assert view._fields() == ("outer", "z")
    view.outer.x[1:] = 7
    assert_same(group["outer/x"][...], np.concatenate([x[:1], np.full((5, 4), 7.0)]))
    assert_same(view[::2].z(), x[::2, 1])


def test_texts_of_any_length_are_read_and_written():
    found = zarr.create_array(zarr.storage.MemoryStore(), shape=(3,), dtype=str)
    view = dv.View(found)
    view[:] = ["a", "", "longer"]
    view[1] = "new"
    assert view[::-1]().tolist() == ["longer", "new", "a"]
    assert found[...].tolist() == ["a", "new", "longer"]


def test_records_of_zarr_have_fields():
    kind = np.dtype([("a", "<f8"), ("b", ">i4"), ("c", [("d", "f4")])])
    found = zarr.create_array(
        zarr.storage.MemoryStore(), shape=(6,), dtype=kind, chunks=(2,), zarr_format=2
    )
    view = dv.View(found)
    view.a = np.arange(6)
    view.c.d[::2] = 7
    view[1].b = -3
    assert found[...]["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found[...]["c"]["d"].tolist() == [7, 0, 7, 0, 7, 0]
    assert view[::-1].b().tolist() == [0, 0, 0, 0, -3, 0]
