"""Datasets that lie in an HDF5 file as in memory: read past HDF5, with the same results."""

import gc
import os
import pickle
import threading

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
import oracle
from dataview.formats.arrays import plain_in_hdf5
from dataview.formats.arrays.datasets_in_hdf5 import H5pySource
from dataview.index import identity
from dataview.index.sizes import sizes
from dataview.sources import REUSED
from dataview.sources.scratch import SMALLEST
from dataview.view.face import node_of
from files import X
from oracle import check_same, examples, follow

DTYPES = ["f4", ">f8", "i2", ">u4", "f2", "u1", "i8"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("plain")


def source_of(view):
    return node_of(view).source


@examples(300)
@given(
    array=oracle.arrays(["plain"], DTYPES).filter(lambda array: array.ndim and array.size),
    block=st.sampled_from([0, 512]),
    room=st.sampled_from([64, 1 << 20]),
    data=st.data(),
)
def test_what_is_read_past_hdf5_is_what_numpy_has(place, array, block, room, data):
    with h5py.File(place / "a.h5", "w", userblock_size=block) as file:
        file["before"] = np.zeros(3, "u1")
        file["x"] = array
    with dv.open(place / "a.h5") as d:
        assert source_of(d.x).plain is not None
        chain = data.draw(oracle.chains(array))
        with sizes.set(file_bytes=room, block_bytes=room):
            check_same(d.x, array, lambda root: follow(root, chain))


def made(name):
    """Give a function that writes a dataset `x` such that HDF5 has to be asked for its elements."""
    options = {
        "chunks": {"chunks": (2, 3)},
        "packed": {"chunks": (2, 3), "compression": "gzip"},
        "checked": {"chunks": (2, 3), "fletcher32": True},
    }
    dtypes = {"truth": bool, "complex": "c8", "fields": "i4,f4", "bytes": "S3", "longer": "f4"}
    if name in options:
        return lambda file: file.create_dataset("x", data=X, **options[name])
    if name in dtypes:
        return lambda file: file.create_dataset("x", data=X.astype(dtypes[name]))
    return {
        "enumeration": lambda file: file.create_dataset(
            "x", data=X.astype("i1"), dtype=h5py.enum_dtype({"a": 0, "b": 1}, "i1")
        ),
        "late": lambda file: file.create_dataset("x", shape=X.shape, dtype="f4"),
        "one number": lambda file: file.create_dataset("x", data=2.5),
        "empty": lambda file: file.create_dataset("x", shape=(0, 3), dtype="f4"),
        "compact": compact,
    }[name]


def compact(file):
    """Write a dataset into the header of its object."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_layout(h5py.h5d.COMPACT)
    kind, shape = h5py.h5t.py_create(X.dtype), h5py.h5s.create_simple(X.shape)
    h5py.h5d.create(file.id, b"x", kind, shape, plan).write(h5py.h5s.ALL, h5py.h5s.ALL, X)


NOT_PLAIN = [
    "chunks", "packed", "checked", "truth", "complex", "fields", "bytes", "enumeration", "late",
    "one number", "empty", "compact",
]  # fmt: skip


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_hdf5_is_asked_for_what_does_not_lie_there_as_in_memory(tmp_path, name):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made(name)(file)
        expected = file["x"][()]
    with dv.open(tmp_path / "a.h5") as d:
        if name != "fields":
            assert source_of(d.x).plain is None
        assert np.asarray(d.x()).tolist() == expected.tolist()


def test_numbers_of_fewer_bits_than_bytes_are_read_by_hdf5(tmp_path):
    kind = h5py.h5t.NATIVE_INT32.copy()
    kind.set_precision(12)
    kind.set_offset(4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((3,)))
        found.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, -2, 2000], "i4"))
    with dv.open(tmp_path / "a.h5") as d:
        assert source_of(d.x).plain is None
        assert d.x().tolist() == [1, -2, 2000]


def test_data_elsewhere_and_files_that_are_written_are_read_by_hdf5(tmp_path):
    raw = tmp_path / "x.raw"
    X.astype("f4").tofile(raw)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", X.shape, "f4", external=[(str(raw), 0, X.size * 4)])
        file["own"] = X
    with h5py.File(tmp_path / "a.h5") as file:
        assert H5pySource(file["x"]).plain is None
        assert H5pySource(file["own"]).plain is not None
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        view = dv.View(file["own"])
        assert source_of(view).plain is None
        file["own"][0] = 7
        assert view[0]().tolist() == [7] * X.shape[1]


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X
    return tmp_path / "a.h5"


def test_a_file_at_the_same_place_is_another_file(path):
    d = dv.open(path)
    with h5py.File(path.with_name("b.h5"), "w") as file:
        file["x"] = X + 1
    os.replace(path.with_name("b.h5"), path)
    np.testing.assert_array_equal(d.x(), X)
    np.testing.assert_array_equal(d.x[::2](), X[::2])
    np.testing.assert_array_equal(dv.open(path).x(), X + 1)


def test_a_file_that_is_gone_is_read_as_long_as_it_is_open(path):
    d = dv.open(path)
    path.unlink()
    np.testing.assert_array_equal(d.x[1:](), X[1:])


def test_a_file_that_is_cut_short_is_named(path):
    d = dv.open(path)
    os.truncate(path, source_of(d.x).plain.block.place + 4)
    for key in (np.s_[:], np.s_[::-2], np.s_[[2, 0]]):
        with pytest.raises(OSError, match=r"a\.h5/x cannot be read.*ended before"):
            d.x[key]()


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("chunks", [None, (10, 4), (10, 2)])
def test_what_was_cut_off_does_not_read_as_zeros(tmp_path, mode, chunks):
    """As it does in HDF5 itself, where chunks are not packed."""
    x = 1 + np.arange(20000.0).reshape(-1, 4)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=chunks)
    with dv.open(tmp_path / "x.h5", mode) as d:
        assert (d.x[:30]() == x[:30]).all()
        os.truncate(tmp_path / "x.h5", 100_000)
        for read in (d.x[-1], d.x[-30:], d.x[[-1, 3]], d.x._sum(), d.x[-30:, 1]):
            with pytest.raises((ValueError, OSError), match=r"x\.h5"):
                read()


def test_a_file_that_grows_and_shrinks_by_itself_is_not_cut_short(tmp_path):
    x = 1 + np.arange(20000.0).reshape(-1, 4)
    dv.View(x=x, extra=x)._save(tmp_path / "x.h5")
    with dv.open(tmp_path / "x.h5", "r+") as d:
        part = d.x[:5000]
        for _ in range(3):
            d._append({"x": x, "extra": x})
            part[:] = part * 2
        assert (part() == 8 * x).all() and (dv.open(tmp_path / "x.h5").x[-5000:]() == x).all()


def test_a_closed_file_is_told_and_leaves_nothing_open(path):
    d = dv.open(path)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    part = pickle.loads(pickle.dumps(d.x[1:]))
    np.testing.assert_array_equal(part(), X[1:])
    d._close()
    with pytest.raises(ValueError, match="closed"):
        d.x()
    del part, d
    gc.collect()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_file_is_opened_once_more_for_all_of_its_datasets(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["z"] = X + 2
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"] = X, X + 1
        file["z"] = h5py.ExternalLink("other.h5", "z")
    opened = []

    class Noted(plain_in_hdf5.RawFile):
        def __init__(self, path):
            opened.append(os.path.basename(path))
            super().__init__(path)

    monkeypatch.setattr(plain_in_hdf5, "RawFile", Noted)
    with dv.open(tmp_path / "a.h5") as d:
        for _ in range(3):
            for number, name in enumerate("xyz"):
                np.testing.assert_array_equal(d[name](), X + number)
                np.testing.assert_array_equal(d[name][[2, 0]](), X[[2, 0]] + number)
    assert opened == ["a.h5", "other.h5"]


@pytest.mark.parametrize("chunks", [None, (100,)])
def test_blocks_are_read_into_memory_that_was_used_before(tmp_path, chunks):
    array = np.arange(SMALLEST, dtype="f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=chunks)
    for mode in ("r", "r+"):
        with dv.open(tmp_path / "a.h5", mode) as d:
            pieces = []
            found = source_of(d.x).read(identity(array.shape), {REUSED: pieces})
            np.testing.assert_array_equal(found, array)
            assert len(pieces) == 1 and np.may_share_memory(found, pieces[0])


def test_threads_read_it_at_once(path):
    d, failed = dv.open(path), []

    def read():
        for start in range(len(X)):
            if not np.array_equal(d.x[start::2](), X[start::2]):
                failed.append(start)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("chunks", [None, (7, 3)])
def test_rows_in_order_are_read_without_a_plan(tmp_path, monkeypatch, chunks):
    x = np.arange(60, dtype=">f4").reshape(20, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=chunks)
        file.create_dataset("one", data=x[:, 0], chunks=chunks and chunks[:1])
    d = dv.open(tmp_path / "a.h5")
    read = H5pySource.read
    monkeypatch.setattr(H5pySource, "read", None)
    for view, wanted in ((d.x, x), (d.one, x[:, 0])):
        for key in (np.s_[3:9], np.s_[19:], 5, -1):
            found = view[key]()
            assert found.dtype == wanted[key].dtype and np.array_equal(found, wanted[key])
            assert not isinstance(found, np.ndarray) or found.flags.writeable
        assert [list(batch()[..., ::1].flat) for batch in view._minibatches(16)] == [
            list(wanted[start : start + 16].flat) for start in (0, 16)
        ]
    monkeypatch.setattr(H5pySource, "read", read)
    d._close()
    with pytest.raises(ValueError, match="closed"):
        d.x[3:9]()
