"""Files and folders of every format: opened by their paths, read, changed, closed."""

import errno
import os
import pickle
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE, Popen

import h5py
import numpy as np
import pytest
import safetensors.numpy
import scipy.io
import zarr

import dataview as dv
import files
from children import printed
from dataview.formats import FORMATS, handles, overview
from dataview.formats.catalogue import ABILITIES
from dataview.index import Affine, gather, slabs
from dataview.index.sizes import sizes
from dataview.sources import Source
from files import X, Y
from package import ROOT


def hdf5(folder):
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["part/y"] = X, Y
        file["part"].attrs["unit"] = "m"
        file.attrs["title"] = "some"
        file["x"].attrs["range"] = np.float32([0, 39])
    return path


def zarr_group(version):
    def make(folder):
        path = folder / f"a{version}.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=version)
        group.create_array("x", data=X, chunks=(3, 4))
        group.create_group("part").create_array("y", data=Y)
        group["part"].attrs["unit"] = "m"
        group.attrs["title"] = "some"
        group["x"].attrs["range"] = [0.0, 39.0]
        return path

    return make


def zarr_zip(folder):
    path = folder / "a.zarr.zip"
    with zarr.storage.ZipStore(path, mode="w") as store:
        group = zarr.open_group(store, mode="w")
        group.create_array("x", data=X, chunks=(3, 4))
        group.create_group("part", attributes={"unit": "m"}).create_array("y", data=Y)
        group["x"].attrs["range"] = [0.0, 39.0]
        group.attrs["title"] = "some"
    return path


def npz(folder):
    np.savez(folder / "a.npz", **{"x": X, "part/y": Y})
    return folder / "a.npz"


DESCRIBED = {"hdf5": hdf5, "zarr 2": zarr_group(2), "zarr 3": zarr_group(3), "zip": zarr_zip}
GROUPS = {
    **DESCRIBED,
    "npz": npz,
    "packed npz": files.npz_packed,
    "folder": files.npy_folder,
}
WRITABLE = ["hdf5", "zarr 2", "zarr 3", "folder"]
LOCKABLE = ["npy", "safetensors", *WRITABLE]


@pytest.fixture(params=GROUPS)
def group(request, tmp_path):
    if request.param == "zip":
        with pytest.warns(UserWarning, match="Duplicate name"):  # attributes are written twice
            return GROUPS[request.param](tmp_path)
    return GROUPS[request.param](tmp_path)


@pytest.fixture(params=WRITABLE)
def writable(request, tmp_path):
    return GROUPS[request.param](tmp_path)


# -------------------- opened --------------------


def test_groups_are_nested_fields(group):
    d = dv.open(group)
    assert set(d._fields()) == {"x", "part"} and d.part._fields() == ("y",)
    np.testing.assert_array_equal(d.x[[7, 2, 7], ::-2](), X[[7, 2, 7], ::-2])
    np.testing.assert_array_equal(d[3:].part.y(), Y[3:])


@pytest.mark.parametrize("group", DESCRIBED, indirect=True)
def test_attributes_are_metadata(group):
    d = dv.open(group)
    assert d._meta["title"] == "some" and d.part._meta["unit"] == "m"
    assert d.x._meta["range"] == [0, 39]


def test_a_file_is_recognised_by_what_it_begins_with(tmp_path):
    path = hdf5(tmp_path)
    path = path.rename(tmp_path / "weights")
    np.testing.assert_array_equal(dv.open(path).x(), X)
    folder = GROUPS["zarr 3"](tmp_path).rename(tmp_path / "folder")
    np.testing.assert_array_equal(dv.open(folder).x(), X)
    np.testing.assert_array_equal(dv.open(path, format="hdf5").x(), X)


def test_views_are_pickled_by_their_path(group):
    d = dv.open(group)
    sent = pickle.dumps(d.x[2:5])
    assert len(sent) < 2000
    np.testing.assert_array_equal(pickle.loads(sent)(), X[2:5])


def test_an_unknown_option_is_told(group):
    with pytest.raises(TypeError, match="no option 'chunk'"):
        dv.open(group, chunk=3)
    with pytest.raises(ValueError, match="mode is 'r'"):
        dv.open(group, "a")
    with pytest.raises(ValueError, match=r"mode 'r' only reads: open with 'r\+', or leave lock="):
        dv.open(group, lock="refuse")
    dv.open(group, lock="wait")
    with pytest.raises(TypeError, match=rf"follow= is about lines of text, and .*{group.name}"):
        dv.open(group, follow=1.0)
    with pytest.raises(ValueError, match="lock is one of"):
        dv.open(group, lock="no")
    with pytest.raises(ValueError, match=r"did you mean .refuse.\?"):
        dv.open(group, lock="refus")


@pytest.mark.parametrize(
    "way", ["parts", "noted", "followed", "index", "several", "pattern", "url"]
)
def test_access_is_checked_however_data_are_opened(tmp_path, way):
    for number in range(2):
        np.save(tmp_path / f"part-{number}.npy", X)
        (tmp_path / f"{number}.csv").write_text("filename\na.npy\n")
    (tmp_path / "a.txt").write_text("line\n")
    if way == "noted":
        dv.open(tmp_path, layout="parts", format="npy", manifest=True)
    path, options = {
        "parts": (tmp_path, {"layout": "parts", "format": "npy"}),
        "noted": (tmp_path, {}),
        "followed": (tmp_path / "a.txt", {"follow": 0}),
        "index": (tmp_path / "0.csv", {"get": str}),
        "several": ([tmp_path / "0.csv", tmp_path / "1.csv"], {}),
        "pattern": (tmp_path / "*.csv", {}),
        "url": ("memory://x/a.npy", {"keep": False}),
    }[way]
    for wrong, told in (
        ({"lock": "nonsense"}, "lock is one of"),
        ({"durable": "nonsense"}, "durable is one of"),
        ({"mode": "nonsense"}, "mode is 'r'"),
    ):
        with pytest.raises(ValueError, match=told):
            dv.open(path, **options, **wrong)


# -------------------- changed in place --------------------


def told_as_gone(path, read):
    """Check that reading says that a file was there, with its number and its name."""
    with pytest.raises(FileNotFoundError, match=r"there when .* opened.*renamed") as found:
        read()
    assert (found.value.errno, found.value.filename) == (errno.ENOENT, str(path))


@pytest.mark.parametrize(
    "name",
    ["a.npy", "a.npz", "a.parquet", "a.feather", "a.csv", "a.jsonl", "folder", "a.zarr"],
)
def test_a_file_that_is_gone_since_it_was_opened_says_so(name, tmp_path):
    x = np.arange(50_000)
    whole = dv.View(x) if name == "a.npy" else dv.View(x=x, y=x[::-1].copy())
    path = tmp_path / name
    whole._save(path, "folder") if name == "folder" else whole._save(path)
    gone = path / {"folder": "x.npy", "a.zarr": "x"}.get(name, "")
    with dv.open(path) as d:
        raw = pickle.dumps(d)
        gone.rename(tmp_path / "moved")
        column = d if name == "a.npy" else d.x
        told_as_gone(gone, column[40_000:].__call__)
        told_as_gone(gone, lambda: pickle.loads(raw)[40_000]())
        (tmp_path / "moved").rename(gone)
        np.testing.assert_array_equal(column(), x)


def test_a_matlab_file_that_is_gone_or_another_one_says_so(tmp_path):
    x, path = np.arange(30_000.0).reshape(-1, 3), tmp_path / "a.mat"
    scipy.io.savemat(path, {"x": x})
    with dv.open(path) as d:
        raw = pickle.dumps(d)
        path.rename(tmp_path / "moved")
        told_as_gone(path, d.x.__call__)
        told_as_gone(path, lambda: pickle.loads(raw).x())
        scipy.io.savemat(path, {"x": x[:20]})
        with pytest.raises(ValueError, match=r"'x' of .*a\.mat.* has changed since .* was opened"):
            d.x()
        (tmp_path / "moved").replace(path)
        np.testing.assert_array_equal(d.x(), x)


@pytest.mark.parametrize("how", [{}, {"manifest": True}])
@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_a_part_that_is_gone_since_the_folder_was_opened_says_so(how, suffix, tmp_path):
    x = np.arange(30)
    for number in range(3):
        part = x[10 * number :][:10]
        whole = dv.View(part) if suffix == ".npy" else dv.View(x=part)
        whole._save(tmp_path / f"part-{number}{suffix}")
    with dv.open(tmp_path, layout="parts", **how) as d:
        gone = tmp_path / f"part-2{suffix}"
        gone.unlink()
        told_as_gone(gone, lambda: [row() for row in d])


def test_a_file_is_changed_in_place(writable):
    with dv.open(writable, "r+") as d:
        d.x -= d.x._mean(axis=0)
        d[[1, 0]].part.y[:] = [70, 80]
    d = dv.open(writable)
    np.testing.assert_array_equal(d.x(), X - X.mean(0))
    assert d.part.y[:3]().tolist() == [80, 70, 6]


@pytest.mark.parametrize("start", [0, 30, 31])
@pytest.mark.parametrize("block_bytes", [24 * 10, 24 * 30, 24 * 70])
def test_no_two_blocks_of_a_change_write_one_chunk(start, block_bytes):
    data = ROWS.astype(float)
    written = []

    class Stored(Source):
        shape, dtype, chunk_rows = data.shape, data.dtype, 30

        def read(self, index, memo):
            return np.array(gather.read(data, index))

        def write(self, index, value):
            first = index.maps[0].offset
            written.append(set(range(first // 30, (first + index.shape[0] - 1) // 30 + 1)))
            gather.assign(data, index, value)

    view = dv.View(Stored())[start:]
    with sizes.set(
        block_bytes=block_bytes,
        small_elements=1,
        streamed_elements=1,
        at_once_bytes=0,
        computed_bytes=0,
    ):
        view -= view._mean(axis=0)
    np.testing.assert_allclose(data[start:], ROWS[start:] - ROWS[start:].mean(0))
    if start % 30 == 0:
        assert sum(map(len, written)) == len(set().union(*written)) and len(written) > 5


def test_a_file_opened_for_reading_is_not_written(group):
    d = dv.open(group)
    with pytest.raises(dv.ReadOnlyError):
        d.x[0] = 1
    np.testing.assert_array_equal(d.x(), X)


@pytest.mark.parametrize("name", ["a.h5", "a.nc"])
@pytest.mark.parametrize("writer", ["view", "h5py"])
def test_a_file_opened_for_reading_is_not_written_while_another_may_write_it(
    tmp_path, writer, name
):
    path = hdf5(tmp_path).rename(tmp_path / name)
    other = dv.open(path, "r+", lock="refuse") if writer == "view" else h5py.File(path, "a")
    d = dv.open(path)
    assert "(r)" in repr(d.x) and "(r+)" not in repr(d.x)
    for view in (d, pickle.loads(pickle.dumps(d))):
        with pytest.raises(dv.ReadOnlyError):
            view.x[0] = 9
        with pytest.raises(dv.ReadOnlyError, match="open it with 'r\\+'"):
            view._append({"x": X, "part": {"y": Y}})
    if writer == "view":
        other.x[0] = 8
        assert d.x[0]().tolist() == [8] * 4
    np.testing.assert_array_equal(d.x[1:](), X[1:])
    other._close() if writer == "view" else other.close()


# -------------------- rows in any order --------------------

ROWS = np.random.default_rng(7).integers(0, 500, (500, 3))


def chunked(kind, folder):
    if kind == "zarr":
        array = zarr.create_array(folder / "c.zarr", shape=ROWS.shape, dtype="i8", chunks=(30, 2))
        array[...] = ROWS
        return folder / "c.zarr"
    with h5py.File(folder / "c.h5", "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(30, 2) if kind == "hdf5" else None)
    return folder / "c.h5"


def rows_in(path, mode="r"):
    d = dv.open(path, mode)
    return d.x if d._fields() else d


@pytest.mark.parametrize("kind", ["hdf5", "contiguous", "zarr"])
@pytest.mark.parametrize("count", [1, 7, 60, 400, 3000])
@pytest.mark.parametrize("slab", [200, 1500, 1 << 22])
def test_rows_by_number_are_those_of_the_data(kind, count, slab, tmp_path, monkeypatch):
    monkeypatch.setattr(slabs, "SLAB_BYTES", slab)
    v = rows_in(chunked(kind, tmp_path))
    rng = np.random.default_rng(count)
    for key in [
        rng.integers(-500, 500, count),
        np.sort(rng.integers(0, 500, count)),
        np.s_[rng.integers(0, 500, count), ::2],
        np.s_[rng.integers(0, 500, count), rng.integers(0, 3, count)],
        np.s_[rng.integers(0, 500, (count, 1)), [2, 0]],
        np.arange(499, -1, -1)[:count],
    ]:
        np.testing.assert_array_equal(v[key](), ROWS[key])


def test_many_rows_in_few_chunks_are_asked_for_by_chunks_alone(tmp_path, monkeypatch):
    data = np.arange(400_000).reshape(-1, 8)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(1000, 8))
    view, pieces, asked = dv.open(tmp_path / "c.h5").x, [], []
    piece, get = slabs.Piece, h5py.Dataset.__getitem__
    monkeypatch.setattr(slabs, "Piece", lambda *given: pieces.append(1) or piece(*given))
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, key: asked.append(get(self, key)) or asked[-1]
    )
    rows = np.random.default_rng(0).integers(0, len(data), 5000)
    np.testing.assert_array_equal(view[rows](), data[rows])
    assert len(pieces) < 50 and len(asked) < 10
    assert max(part.nbytes for part in asked) <= 1 << 20


@pytest.mark.parametrize("workers", [{}, {"workers": 2}, {"workers": 2, "kind": "process"}])
@pytest.mark.parametrize("kind", ["hdf5", "contiguous", "zarr"])
def test_batches_of_a_few_chunks_at_a_time_are_the_rows_of_the_order(kind, workers, tmp_path):
    v = rows_in(chunked(kind, tmp_path))
    sampler = dv.samplers.chunk_permutation(3, rows=30)
    found = [batch() for batch in v._loader(16, sampler=sampler, seed=4, **workers)]
    order = dv.View(np.arange(500))._loader(16, sampler=sampler, seed=4)
    for batch, rows in zip(found, order, strict=True):
        np.testing.assert_array_equal(batch, ROWS[rows()])


def test_each_chunk_is_read_once_for_an_epoch_of_a_chunk_permutation():
    read = []

    class Counted(Source):
        shape, dtype, chunk_rows = ROWS.shape, ROWS.dtype, 30

        def read(self, index, memo):
            read.append(index.shape[0])
            return np.array(gather.read(ROWS, index))

    view = dv.View(Counted())
    for batch in view._loader(8, sampler="chunk-permutation", seed=2):
        batch()
    assert sum(read) == 500 and max(read) > 8
    assert len([*view._loader(8, sampler="permutation")]) == 63
    assert sum(read[-63:]) == 500 and max(read[-63:]) == 8


class Noting(Source):
    """A store that notes from where to where it is read; an array of rows tells no end."""

    shape, dtype = ROWS.shape, ROWS.dtype

    def __init__(self):
        self.read_so = []

    def read(self, index, memo):
        first = index.maps[0]
        self.read_so.append((first.offset, index.shape[0]) if isinstance(first, Affine) else None)
        return np.array(gather.read(ROWS, index))


@pytest.mark.parametrize("wrapped", [lambda v: v, lambda v: v[:, ::2], lambda v: v * 2])
def test_rows_by_number_that_follow_each_other_are_read_as_a_run(wrapped):
    source = Noting()
    view, whole = wrapped(dv.View(source)), wrapped(ROWS)
    for number, batch in enumerate(view._loader(100)):
        np.testing.assert_array_equal(batch(), whole[100 * number :][:100])
    assert source.read_so == [(start, 100) for start in range(0, 500, 100)]
    for rows in ([7], [7, 8, 9], [7, 9], [9, 8], [7, 7, 9], [9, 8, 11]):
        source.read_so.clear()
        rows = np.array(rows, int)
        np.testing.assert_array_equal(view[rows](), whole[rows])
        is_run = (np.diff(rows) == 1).all()
        assert source.read_so == [(7, len(rows)) if is_run else None]


def test_a_store_without_chunks_is_read_in_those_of_the_sampler():
    source = Noting()
    sampler = dv.samplers.chunk_permutation(pool=2, rows=50)
    for batch in dv.View(source)._loader(10, sampler=sampler):
        batch()
    assert len(source.read_so) == 5


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("batch", [1, 7, 100, 500])
def test_rows_of_kept_chunks_are_those_of_the_order(batch, workers, tmp_path):
    """Also where a batch needs more chunks than are kept, and more than there is room for."""
    view = rows_in(chunked("zarr", tmp_path))
    sampler = dv.samplers.chunk_permutation(pool=2)
    expected = dv.View(ROWS)._loader(
        batch, sampler=dv.samplers.chunk_permutation(pool=2, rows=30), seed=4
    )
    loader = view._loader(batch, sampler=sampler, seed=4, workers=workers)
    for _ in range(2):
        for found, wanted in zip(loader, expected, strict=True):
            assert np.array_equal(found(), wanted())


@pytest.mark.parametrize("kind", ["f8", "f4", "i8"])
def test_chunks_of_single_numbers_are_kept(kind):
    numbers = np.arange(100).astype(kind)

    class Numbers(Source):
        shape, dtype, chunk_rows = numbers.shape, numbers.dtype, 30

        def read(self, index, memo):
            return np.array(gather.read(numbers, index))

    batches = [batch() for batch in dv.View(Numbers())._loader(8, sampler="chunk-permutation")]
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), numbers, strict=True)


def test_kept_chunks_are_read_anew_after_a_write(tmp_path):
    v = rows_in(chunked("zarr", tmp_path), "r+")
    loader = v._loader(10, sampler="chunk-permutation", seed=0)
    next(loader)()
    v[:] = -1
    assert (next(loader)() == -1).all()


# -------------------- closed --------------------


def test_a_closed_view_says_so(group):
    d = dv.open(group)
    x, part = d.x[1:], d.part
    x._close()
    for view in (x, part.y, d.x):
        with pytest.raises(ValueError, match=r"was closed, .*open it again"):
            view()
    assert x._shape() == (9, 4)


def test_the_display_of_a_closed_view_says_so(group):
    d, other = dv.open(group), dv.View(x=X)
    mean, sums = d.x._mean(), d.x * 2 + d.x
    mean()
    kept = dv.View(mean=mean, x=X)
    mixed = dv.View(x=d.x, y=X)
    joined = dv.concat(d.x, other.x)
    sample = dv.View(part=d.part[3], x=d.x[3])
    views = d, d.x[1:], d.part.y, sums, joined, d._head(2), d._sample(3).x, sample
    for view in (*views, kept, mixed):
        assert "closed;" not in repr(view) and "closed;" not in view._repr_html_()
    d._close()
    for view in views:
        for shown in (repr(view), str(view), view._repr_html_()):
            assert "closed; open the file again to read it" in shown and "_head()" not in shown
    assert "closed;" not in repr(kept)  # the statistic was taken before
    first, x, y = repr(mixed).splitlines()[:3]
    assert ", closed" in first and "closed" in x and "closed" not in y
    assert "closed;" not in repr(dv.open(group))


ARRAYS = [files.npy, files.tensors, files.matlab_5, files.matlab_7, files.netcdf_3, files.netcdf_4]
TABLES = [files.csv, files.json_lines, files.sqlite_table, files.parquet, files.feather]
MEDIA = [files.text_lines, files.pictures, files.sounds, files.shard_tar, files.shard_zip]


@pytest.mark.parametrize("make", [*GROUPS.values(), *ARRAYS, *TABLES, *MEDIA])
@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_closed_view_says_so_and_is_not_pickled(make, tmp_path):
    d = dv.open(make(tmp_path))
    sent = pickle.dumps(d)
    assert ", closed" not in repr(d)
    d._close()
    assert ", closed" in repr(d).partition("\n")[0]
    with pytest.raises(ValueError, match=r"was closed, .*open it again"):
        pickle.dumps(d)
    assert pickle.loads(sent)._fields() == d._fields()


def test_a_file_that_is_closed_can_be_removed_and_written_anew(tmp_path):
    path = hdf5(tmp_path)
    with dv.open(path) as d:
        assert d.x[1, 1]() == 5
    with h5py.File(path, "w") as file:
        file["x"] = X * 2
    assert dv.open(path).x[1, 1]() == 10


def test_nothing_is_left_open_by_views_that_are_gone(tmp_path):
    path = hdf5(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        dv.open(path).x[0]()
    assert len(os.listdir("/proc/self/fd")) == before
    with h5py.File(path, "r+") as file:  # which HDF5 refuses while it is open for reading
        file["x"][0] = 1


# -------------------- threads and processes --------------------

FORKED = """
import os, sys, threading
import dataview as dv

view = dv.open(sys.argv[1], sys.argv[2]).x
view[0]()
done = threading.Event()


def read():
    while not done.is_set():
        view[::3]()


threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(5):
    child = os.fork()
    if not child:
        try:
            print(view._sum()(), flush=True)
        except ValueError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
done.set()
"""


def test_a_forked_process_reads_on(group):
    found = printed("-W", "ignore", "-c", FORKED, group, "r").split()
    assert found == [str(X.sum())] * 5


def test_a_forked_process_does_not_use_an_hdf5_file_that_is_written(tmp_path):
    found = printed("-W", "ignore", "-c", FORKED, hdf5(tmp_path), "r+").splitlines()
    assert len(found) == 5 and all("forked from" in line for line in found)


@pytest.mark.parametrize("name", ["zarr 2", "zarr 3", "folder", "sharded"])
def test_a_forked_process_reads_other_files_that_are_written(tmp_path, name):
    path = (GROUPS | {"sharded": files.zarr_sharded})[name](tmp_path)
    found = printed("-W", "ignore", "-c", FORKED, path, "r+").split()
    assert found == [str(X.sum())] * 5


FORKED_WRITER = """
import os, sys
import dataview as dv

view = dv.open(sys.argv[1], "r+")
if not os.fork():
    rows = {"x": [[0] * 4], "part": {"y": [0]}}
    for write in (view.x.__setitem__, lambda *given: view._append(rows)):
        try:
            write(0, 9)
        except ValueError as error:
            print(error, flush=True)
    os._exit(0)
os.wait()
print(view.x[0, 1]())
"""


@pytest.mark.parametrize("name", ["zarr 2", "zarr 3"])
def test_a_forked_process_does_not_write_to_a_group_of_its_parent(tmp_path, name):
    *told, last = printed("-W", "ignore", "-c", FORKED_WRITER, GROUPS[name](tmp_path)).splitlines()
    assert len(told) == 2 and all("only that one may write it" in line for line in told)
    assert last == "1.0"


def test_a_file_that_another_process_writes_is_only_read(tmp_path):
    with pytest.raises(ValueError, match=r"a\.h5: swmr=True reads .* got 'r\+'; to write"):
        dv.open(hdf5(tmp_path), "r+", swmr=True)


GROWING = """
import sys
import dataview as dv

try:
    dv.open(sys.argv[1])
except OSError as error:
    print(error)
view = dv.open(sys.argv[1], swmr=True).x
print(len(view), view[-1](), flush=True)
sys.stdin.readline()
print(len(view), view[-1](), view[3](), len(dv.open(sys.argv[1], swmr=True).x))
"""


def test_a_file_is_read_while_another_process_writes_it(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        x = file.create_dataset("x", data=np.arange(10), maxshape=(None,), chunks=(4,))
        file.swmr_mode = True
        command = [sys.executable, "-c", GROWING, str(path)]
        with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as child:
            assert "is written by another process" in child.stdout.readline()
            assert child.stdout.readline() == "10 9\n"
            x[3] = 99
            x.resize((15,))
            x.flush()
            assert child.communicate("\n")[0] == "10 9 99 15\n"


def test_threads_read_at_the_same_time(group):
    d = dv.open(group)
    expected = [X[n % 7 :: 2] for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda n: d.x[n % 7 :: 2](), range(40))
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, wanted)


def test_worker_processes_open_the_file_for_themselves(group):
    d = dv.open(group)
    with d._loader(3, workers=2, kind="process") as loader:
        np.testing.assert_array_equal(np.concatenate([batch.x() for batch in loader]), X)


def test_a_file_that_was_replaced_is_written_no_more(tmp_path):
    path = tmp_path / "a.h5"
    dv.View(X)._save(path)
    with dv.open(path, "r+") as old:
        (old + 1)._save(path)
        with pytest.raises(ValueError, match="was replaced since it was opened"):
            old[0] = 5
        with pytest.raises(ValueError, match="was replaced since it was opened"):
            old._append(X)
    np.testing.assert_array_equal(dv.open(path)(), X + 1)


# -------------------- one writer at a time --------------------


@pytest.fixture(params=LOCKABLE)
def lockable(request, tmp_path):
    if request.param == "safetensors":
        safetensors.numpy.save_file({"x": X}, tmp_path / "a.safetensors")
        return tmp_path / "a.safetensors"
    if request.param == "npy":
        np.save(tmp_path / "a.npy", X)
        return tmp_path / "a.npy"
    return GROUPS[request.param](tmp_path)


def test_a_second_writer_is_refused(lockable):
    folder = lockable.parent
    before = sorted(os.listdir(folder))
    first = dv.open(lockable, "r+", lock="refuse")
    with pytest.raises(BlockingIOError, match=r"another view has it open for writing; close"):
        dv.open(lockable, "r+", lock="refuse")
    first._close()
    second = dv.open(lockable, "r+", lock="refuse")
    del second
    dv.open(lockable, "r+", lock="wait")._close()
    assert sorted(os.listdir(folder)) == before


def test_a_lock_where_no_file_can_be_made_is_refused_in_words(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", X)
    real = os.open

    def refused(path, *args, **options):
        if str(path).endswith(".writing"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError, match=r"no file can be made there; leave lock= out"):
        dv.open(tmp_path / "a.npy", "r+", lock="refuse")
    assert len(dv.open(tmp_path / "a.npy", "r+")) == len(X)


def test_a_view_that_waits_is_opened_when_the_other_is_closed(lockable, monkeypatch):
    first, begun = dv.open(lockable, "r+", lock="refuse"), threading.Event()
    flock = handles.fcntl.flock

    def told(handle, how):
        if how == handles.fcntl.LOCK_EX:
            begun.set()
        flock(handle, how)

    monkeypatch.setattr(handles.fcntl, "flock", told)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(dv.open, lockable, "r+", lock="wait")
        assert begun.wait(60) and not waiting.done()
        first._close()
        second = waiting.result(60)
    with pytest.raises(BlockingIOError):
        dv.open(lockable, "r+", lock="refuse")
    second._close()


LOCKED = """
import os, sys
import dataview as dv

view = dv.open(sys.argv[1], "r+", lock="refuse")
if not os.fork():
    del view
    sys.exit()
os.wait()
try:
    dv.open(sys.argv[1], "r+", lock="refuse")
except BlockingIOError:
    print("refused")
"""


@pytest.mark.parametrize("name", ["a.npy", "a.h5", "a.zarr", "a"])
def test_a_file_that_is_claimed_is_not_replaced(name, tmp_path):
    path, format = tmp_path / name, None if "." in name else "folder"
    dv.View(X)._save(path, format)
    with dv.open(path, "r+", lock="refuse") as d, pytest.raises(BlockingIOError):
        dv.View(Y)._save(path, format)
    assert len(d) == 10
    dv.View(Y)._save(path, format)
    assert dv.open(path)._shape() == (10,)


def test_a_forked_process_that_ends_leaves_the_lock(lockable):
    assert printed("-W", "ignore", "-c", LOCKED, lockable) == "refused\n"


# -------------------- what is no data --------------------


def odd(folder):
    path = folder / "odd.h5"
    with h5py.File(path, "w") as file:
        file["x"] = X
        file["texts"] = ["a", "é", ""]
        file["bytes"] = np.array([b"ab", b"c"])
        file.create_dataset("enum", data=[0, 1, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}))
        file["truth"] = np.array([True, False])
        file["table"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        file["reference"] = file["x"].ref
        file["null"] = h5py.Empty("f4")
        file["loop/again"] = h5py.SoftLink("/loop")
        file["gone"] = h5py.SoftLink("/nowhere")
        file["out"] = h5py.ExternalLink("/etc/hostname", "/x")
        file["up"] = h5py.ExternalLink("../other.h5", "/x")
        file["kind"] = np.dtype("f4")
        file.create_group("empty")
    return path


LOST = {
    "reference": "references to other parts",
    "null": "is empty: it has a type",
    "loop": "contains itself",
    "gone": "leads nowhere",
    "out": "outside of the folder",
    "up": "outside of the folder",
    "empty": "a group without arrays",
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_no_data_says_why_when_it_is_asked_for(name, tmp_path):
    d = dv.open(odd(tmp_path))
    assert set(d._fields()) == {"x", "texts", "bytes", "enum", "truth", "table"}
    with pytest.raises(dv.FieldError, match=rf"'{name}' .*{LOST[name]}") as caught:
        d._field(name)
    assert ("odd.h5" in str(caught.value)) == (name in UNREAD)


def test_texts_enums_and_records_are_read_as_such(tmp_path):
    d = dv.open(odd(tmp_path))
    assert d.texts().tolist() == ["a", "é", ""] and d.texts[1:]().tolist() == ["é", ""]
    assert d.bytes().tolist() == [b"ab", b"c"]
    assert d.enum().tolist() == [0, 1, 1] and d.enum._meta["labels"] == {"no": 0, "yes": 1}
    assert d.truth().tolist() == [True, False]
    assert d.table.b().tolist() == [2.5]
    again = pickle.loads(pickle.dumps(d.texts))
    assert again().tolist() == ["a", "é", ""]


@pytest.mark.parametrize("wrong", [None, 3, "a\0b"])
def test_only_texts_are_written_to_texts(tmp_path, wrong):
    with dv.open(odd(tmp_path), "r+") as d:
        d.texts[2] = "ü"
        with pytest.raises(TypeError, match=r"written to odd\.h5/texts has .*HDF5 holds texts"):
            d.texts[1:] = np.array(["x", wrong], object)
        assert d.texts().tolist() == ["a", "é", "ü"]


UNREAD = LOST.keys() - {"empty"}  # an empty group has nothing to be read


def test_what_cannot_be_read_is_shown_with_the_reason(tmp_path):
    d = dv.open(odd(tmp_path))
    for text in (repr(d), d._repr_html_()):
        for name in UNREAD - {"up"}:
            assert re.search(rf"{name}\b.*not readable: .*{LOST[name][:12]}", text), name
        assert "… 1 more not readable" in text
        assert "empty" not in text.replace("is empty", "")
    assert "not readable" not in repr(d._select("x", "texts"))


def test_what_cannot_be_read_is_not_left_out_of_a_copy_unsaid(tmp_path):
    d = dv.open(odd(tmp_path))
    names = sorted(UNREAD)
    for view in (d, d._rename(x="z"), d._drop("x")):
        with pytest.raises(ValueError, match=r"'gone'.*leads nowhere.*_drop\('gone', ") as told:
            view._save(tmp_path / "copy.h5")
        assert all(repr(name) in str(told.value) for name in names)
    assert not (tmp_path / "copy.h5").exists()
    with pytest.raises(ValueError, match=r"not readable.*'loop'"):
        d._drop(*[name for name in names if name != "loop"])._save(tmp_path / "copy.h5")
    d._drop(*names)._save(tmp_path / "copy.h5")
    copy = dv.open(tmp_path / "copy.h5")
    assert copy._fields() == d._fields()
    copy._save(tmp_path / "again.h5")
    with pytest.raises(ValueError, match=r"not readable.*'null'"):
        dv.concat(d, d)._save(tmp_path / "both.h5")
    dv.concat(d, d)._drop(*names)._save(tmp_path / "both.h5")
    d.table._save(tmp_path / "table.npy")
    with pytest.raises(dv.FieldError, match="'empty' is a group without arrays"):
        d._drop("empty")
    with pytest.raises(dv.FieldError, match="did you mean 'reference'"):
        d._drop("referense")


def test_what_cannot_be_read_is_shown_after_rows_were_added(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=X, maxshape=(None, 4))
        file["reference"] = file["x"].ref
    with dv.open(tmp_path / "a.h5", "r+") as d:
        d._append({"x": X})
        assert "not readable" in repr(d) and len(d) == 20


def test_what_cannot_be_read_of_a_group_inside_is_told_with_its_remedy(tmp_path):
    path = hdf5(tmp_path)
    with h5py.File(path, "r+") as file:
        file["part/reference"] = file["x"].ref
    d = dv.open(path)
    assert re.search(r"\n    reference .*not readable: holds references", repr(d))
    remedy = r"d\._set_field\('part', d\['part'\]\._drop\('reference'\)\)"
    with pytest.raises(ValueError, match=rf"'part\.reference'.*{remedy}"):
        d._save(tmp_path / "copy.zarr")
    d.z = d.x * 2
    assert "not readable" in repr(d[1:]) and d._meta["title"] == "some"
    d._set_field("part", d.part._drop("reference"))
    d._save(tmp_path / "copy.zarr")
    copy = dv.open(tmp_path / "copy.zarr")
    assert copy._meta["title"] == "some" and copy.part._meta["unit"] == "m"


def test_a_file_without_arrays_says_what_it_has(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["null"] = h5py.Empty("f4")
    with pytest.raises(ValueError, match=r"a\.h5 holds no arrays; 'null' is empty"):
        dv.open(tmp_path / "a.h5")


def test_a_file_that_is_refused_is_closed(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["null"] = h5py.Empty("f4")
    with pytest.raises(ValueError, match="holds no arrays") as told:
        dv.open(path)
    with h5py.File(path, "r+") as file:  # which HDF5 refuses while it is open for reading
        file["x"] = X
    with h5py.File(path, "r+") as file:
        file.attrs["dataview"] = "{"
    with pytest.raises(ValueError, match="description") as told_too:
        dv.open(path)
    with h5py.File(path, "r+") as file:
        del file.attrs["dataview"]
    assert told.value is not told_too.value


def test_a_file_that_is_something_else_is_told(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"no" * 500)
    with pytest.raises(OSError, match=r"a\.h5 is no HDF5 file"):
        dv.open(tmp_path / "a.h5")
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(ValueError, match="is no folder of zarr"):
        dv.open(tmp_path / "a.zarr")
    (tmp_path / "b.zarr").write_bytes(b"no")
    with pytest.raises(ValueError, match="neither a folder of zarr nor a zip"):
        dv.open(tmp_path / "b.zarr")
    for name in ("a.h5", "a.zarr", "a"):
        with pytest.raises(FileNotFoundError):
            dv.open(tmp_path / "none" / name)


# -------------------- the page about them --------------------


def test_the_page_has_the_table_of_formats_and_a_line_on_each():
    page = (ROOT / "doc" / "formats.rst").read_text(encoding="utf-8")
    assert f"\n\n{overview()}\n\n" in page
    for name in FORMATS:
        assert f"\n- {name}: " in page


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_tells_what_a_format_can_do(name):
    assert FORMATS[name].can <= set(ABILITIES) - {"write"}


def test_long_texts_of_zarr_are_read_in_every_way(tmp_path):
    texts = np.array([str(n) * 9 for n in range(500)], np.dtypes.StringDType())
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("a", data=texts, chunks=(50,))
    a = dv.open(tmp_path / "x.zarr").a
    rows = np.random.default_rng(3).permutation(500)
    for key in (slice(None), slice(40, 160), slice(None, None, -7), 123, rows, rows[:9]):
        assert np.asarray(a[key]()).tolist() == np.asarray(texts[key]).tolist()
    assert dv.View(group["a"])[::-1]().tolist() == texts[::-1].tolist()
    assert [b().tolist() for b in a._minibatches(100)][1] == texts[100:200].tolist()


def test_a_folder_of_arrays_lists_the_other_files_with_data(tmp_path):
    np.save(tmp_path / "a.npy", Y)
    hdf5(tmp_path).rename(tmp_path / "lab.h5")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "notes.txt").write_text("none")
    d = dv.open(tmp_path)
    assert d._fields() == ("a",)
    assert "lab.h5" in repr(d) and "t.csv" in repr(d) and "notes" not in repr(d)
    with pytest.raises(dv.FieldError, match=r"is a file of its own: dv\.open\('.*t\.csv'\)"):
        d["t.csv"]
    with pytest.raises(ValueError, match=r"d\._drop\('lab\.h5', 't\.csv'\)"):
        d._save(tmp_path / "b.npz")
    d._drop("lab.h5", "t.csv")._save(tmp_path / "b.npz")
