"""Views of files elsewhere: parts of them are brought, by few requests, or a copy is kept."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import zipfile

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview import cache
from dataview.index.sizes import sizes
from leftovers import nothing_left
from servers import serving, status, times

X = np.arange(3000 * 40, dtype="f4").reshape(3000, 40)


@pytest.fixture(autouse=True)
def root(tmp_path):
    cache.set_root(tmp_path / "root")
    with nothing_left(tmp_path):
        yield
        cache.set_root(None)


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture
def server():
    with serving() as served:
        served.files["/x.npy"] = npy(X)
        yield served


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def brought(server):
    """How many bytes were asked for."""
    return sum(last - first + 1 for first, last in map(ends_of, server.ranges()))


def ends_of(asked):
    return map(int, asked.removeprefix("bytes=").split("-"))


# -------------------- arrays --------------------


def test_a_row_does_not_bring_the_file(server):
    with dv.open(f"{server.url}/x.npy", keep=False) as d:
        assert (d.shape, d.dtype) == (X.shape, X.dtype)
        assert len(server.asked) == 1 and brought(server) == 1 << 16
        server.asked.clear()
        np.testing.assert_array_equal(d[2900](), X[2900])
        assert server.ranges() == [f"bytes={128 + 2900 * 160}-{127 + 2901 * 160}"]
        assert "parts of http://" in repr(d)
        assert cache.info().files == ()
    with pytest.raises(ValueError, match="was closed"):
        d[0]()


def test_random_rows_in_few_requests(server, rng):
    d = dv.open(f"{server.url}/x.npy", keep=False)
    rows = rng.integers(0, 3000, 50)
    server.asked.clear()
    np.testing.assert_array_equal(d[rows](), X[rows])
    starts = np.sort(rows * 160)
    assert len(server.asked) <= 2 * (1 + np.sum(np.diff(starts) > 160 + (1 << 16)))
    far = [0, 1, 1500, 2999]
    server.asked.clear()
    np.testing.assert_array_equal(d[far](), X[far])
    assert len(server.asked) == 3 and brought(server) < 2000


@pytest.mark.parametrize("array", [X, np.zeros(3000, [("a", "i8"), ("b", "f8", 19)])])
def test_rows_one_by_one_take_few_requests(array, server):
    server.files["/rows.npy"] = npy(array)
    d = dv.open(f"{server.url}/rows.npy", keep=False)
    whole, rows = (d, array) if array.dtype.names is None else (d.b, array["b"])
    server.asked.clear()
    for row, expected in zip(whole, rows, strict=True):
        np.testing.assert_array_equal(row(), expected)
    assert len(server.asked) <= 6 and brought(server) <= 1.1 * array.nbytes
    server.asked.clear()
    for number in (2000, 1000, 2, 1):  # no rows that follow: nothing is read ahead
        np.testing.assert_array_equal(d[number](), array[number])
    assert len(server.asked) == 4 and brought(server) == 4 * array[0].nbytes
    server.asked.clear()
    with sizes.set(file_bytes=3200):
        assert len([row() for row in whole[:100]]) == 100
    assert max(last - first for first, last in map(ends_of, server.ranges())) < 3200


def test_large_arrays_are_brought_in_bounded_parts(server):
    d = dv.open(f"{server.url}/x.npy", keep=False)
    server.asked.clear()
    with sizes.set(file_bytes=100_000):
        np.testing.assert_array_equal(d(), X)
    counts = [last - first for first, last in map(ends_of, server.ranges())]
    assert len(counts) == 5 and max(counts) < 100_000


KEYS = st.one_of(
    st.integers(-3000, 2999),
    st.slices(3000),
    st.lists(st.integers(-3000, 2999), max_size=5),
    st.tuples(st.slices(3000), st.integers(0, 39)),
    st.tuples(st.lists(st.integers(0, 2999), max_size=4), st.slices(40)),
    st.tuples(st.just(...), st.lists(st.integers(0, 39), min_size=1, max_size=3)),
)


@given(KEYS)
def test_any_key_of_a_remote_array(key):
    url = memory_url("x.npy", npy(X))
    d = dv.open(url, keep=False)
    np.testing.assert_array_equal(d[key](), X[key])
    fsspec.filesystem("memory").rm("/in", recursive=True)


def memory_url(name, data):
    fsspec.filesystem("memory").pipe(f"/in/{name}", data)
    return f"memory://in/{name}"


@pytest.mark.filterwarnings("ignore:Stored array in format 2.0")
@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(X[:50]),
        np.float64(3),
        np.zeros((0, 3)),
        np.zeros(4, [("a", "i4"), ("b", "f8", 2)]),
        np.zeros(3, [(f"name{number}" * 9, "i1") for number in range(2000)]),
        np.array(["a", "bc"]),
    ],
)
def test_arrays_of_all_kinds(array, memory):
    d = dv.open(memory_url("x.npy", npy(array)), keep=False)
    np.testing.assert_array_equal(d(), array)
    if array.dtype.names == ("a", "b"):
        np.testing.assert_array_equal(d.b[1:, 0](), array["b"][1:, 0])


def test_it_is_computed_with_pickled_and_read_after_a_fork(server):
    d = dv.open(f"{server.url}/x.npy", keep=False)
    np.testing.assert_allclose((d[:, :3] * 2)._mean(0)(), (X[:, :3] * 2.0).mean(0), 1e-4)
    for _ in range(2):
        d = pickle.loads(pickle.dumps(d))
    assert len(pickle.dumps(d)) < 2000
    np.testing.assert_array_equal(d[5:7](), X[5:7])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for part in pool.map(_rows, [d] * 4):
            np.testing.assert_array_equal(part, X[[9, 2000]])
    (batch,) = d[:8]._loader(8, workers=1)
    np.testing.assert_array_equal(np.asarray(batch), X[:8])


def _rows(d):
    return d[[9, 2000]]()


def test_an_array_in_any_place(server, tmp_path, memory):
    np.save(tmp_path / "x.npy", X)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "x.npy", "in/x.npy")
    inside = "zip://in/x.npy::"
    memory.pipe("/in/x.zip", (tmp_path / "x.zip").read_bytes())
    server.files["/x.zip"] = (tmp_path / "x.zip").read_bytes()
    for url in (
        f"file://{tmp_path}/x.npy",
        memory_url("x.npy", npy(X)),
        f"{server.url}/x.npy",
        f"{inside}file://{tmp_path}/x.zip",
        f"{inside}memory://in/x.zip",
    ):
        for keep in (True, False, None):
            with dv.open(url, keep=keep) as d:
                np.testing.assert_array_equal(d[[5, 2900]](), X[[5, 2900]])
    with dv.open(f"{inside}{server.url}/x.zip") as d, sizes.set(copied_bytes=10):
        np.testing.assert_array_equal(d[[5, 2900]](), X[[5, 2900]])


def test_a_file_that_changed_is_told(server, memory):
    for url in (f"{server.url}/x.npy", memory_url("x.npy", npy(X))):
        d = dv.open(url, keep=False)
        server.files["/x.npy"] = npy(X + 1)
        memory.pipe("/in/x.npy", npy(X + 1))
        with pytest.raises(ValueError, match="has changed since it was opened; open it again"):
            d[2000]()


def test_broken_headers_and_what_passes(server):
    server.files["/y.npy"] = b"no"
    with pytest.raises(ValueError, match=r"y\.npy is not an \.npy file"):
        dv.open(f"{server.url}/y.npy", keep=False)
    server.files["/y.npy"] = npy(X)[:1000]
    with pytest.raises(ValueError, match="is cut short"):
        dv.open(f"{server.url}/y.npy", keep=False)
    server.faults["/x.npy"] = times(1, status(503))
    d = dv.open(f"{server.url}/x.npy", keep=False)
    server.faults["/x.npy"] = times(1, status(500))
    np.testing.assert_array_equal(d[7](), X[7])


# -------------------- a copy, or parts --------------------


def test_the_size_decides_between_a_copy_and_parts(server):
    with dv.open(f"{server.url}/x.npy") as d:  # a small file
        assert "a copy of" in repr(d)
    with sizes.set(copied_bytes=1000):
        with dv.open(f"{server.url}/x.npy") as d:  # of which there is a copy
            assert "a copy of" in repr(d)
        cache.clear()
        server.asked.clear()
        with dv.open(f"{server.url}/x.npy") as d:
            assert "parts of" in repr(d) and cache.info().files == ()
            np.testing.assert_array_equal(d[-1](), X[-1])
        assert len(server.asked) == 3
        with dv.open(f"{server.url}/x.npy", keep=True) as d:
            assert "a copy of" in repr(d)


def test_a_server_without_parts(server):
    server.has_ranges = False
    with pytest.raises(OSError, match="gives no parts of files"):
        dv.open(f"{server.url}/x.npy", keep=False)
    with sizes.set(copied_bytes=1000), dv.open(f"{server.url}/x.npy") as d:
        assert "a copy of" in repr(d)


def test_objects_are_copied(server):
    server.files["/o.npy"] = npy(np.array([{}, None] * 200), allow_pickle=True)
    with sizes.set(copied_bytes=100):
        with pytest.raises(ValueError, match="pickle=True"):
            dv.open(f"{server.url}/o.npy")
        assert dv.open(f"{server.url}/o.npy", pickle=True)[0]() == {}
    with pytest.raises(OSError, match="holds objects, which are read whole"):
        dv.open(f"{server.url}/o.npy", pickle=True, keep=False)


def test_what_keep_may_be(server, memory):
    with pytest.raises(TypeError, match="keep is True, False, or None"):
        dv.open(f"{server.url}/x.npy", keep="no")
    for options in ({"timeout": "x"}, {"timeout": 0}, {"deadline": "x"}, {"deadline": -1}):
        with pytest.raises(ValueError, match=rf"{next(iter(options))}= is a number of"):
            dv.open(f"{server.url}/x.npy", **options)
        with pytest.raises(ValueError, match="= is a number of seconds; got"):
            dv.cache.download(f"{server.url}/x.npy", **options)
    with pytest.raises(TypeError, match="storage_options is a mapping, for fsspec; got 3"):
        dv.open("memory://x.npy", keep=False, storage_options=3)
    with pytest.raises(
        ValueError, match=r"keep=False: .* is of a format whose files are read whole"
    ):
        dv.open(f"{server.url}/x.h5", keep=False)
    with pytest.raises(TypeError, match="no option 'ttl'"):
        dv.open(f"{server.url}/x.npy", ttl=3)
    with pytest.raises(ValueError, match="mode 'r'"):
        dv.open(f"{server.url}/x.npy", "r+")


def test_progress_of_a_copy_is_told(server):
    told = []
    dv.open(f"{server.url}/x.npy", progress=lambda *counts: told.append(counts))._close()
    assert told[-1] == (len(server.files["/x.npy"]),) * 2


# -------------------- zarr and Parquet --------------------


def test_a_folder_of_zarr_is_read_by_chunks(memory, monkeypatch):
    store = zarr.storage.FsspecStore.from_url("memory://in/g.zarr")
    group = zarr.create_group(store)
    group.create_array("x", data=X, chunks=(100, 40))
    group.create_array("in/y", data=np.arange(3000), chunks=(1000,))
    url = "memory://in/g.zarr"
    with dv.open(url) as d:
        np.testing.assert_array_equal(d.x[250:260](), X[250:260])
        np.testing.assert_array_equal(d["in"].y[[5, 2500]](), [5, 2500])
        assert d._fields() == ("in", "x")
    with pytest.raises(IsADirectoryError, match="only files are fetched"):
        dv.open(url, keep=True)


@pytest.fixture
def table(server):
    columns = {"a": np.arange(20_000.0), "b": [f"text {n}" * 20 for n in range(20_000)]}
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, row_group_size=2000, compression="none")
    server.files["/t.parquet"] = buffer.getvalue()
    return columns


def test_of_parquet_columns_of_groups_are_brought(server, table):
    d = dv.open(f"{server.url}/t.parquet", keep=False)
    opened = brought(server)
    assert opened < 300_000
    server.asked.clear()
    np.testing.assert_array_equal(d.a[4100:4110](), table["a"][4100:4110])
    assert brought(server) < 3 * 16_000 and len(server.asked) <= 2
    assert d.b[5]() == table["b"][5]
    d = pickle.loads(pickle.dumps(d))
    np.testing.assert_array_equal(d.a[::999](), table["a"][::999])
    server.files["/t.parquet"] = server.files["/t.parquet"].replace(b"19000", b"00000")
    with pytest.raises(ValueError, match="has changed since it was opened"):
        d.b[19_000]()


def test_columns_of_small_groups_of_parquet_are_brought_together(server, table):
    d = dv.open(f"{server.url}/t.parquet", keep=False)
    server.asked.clear()
    found = d[3000:9000]()
    assert len(server.asked) == 1
    for name, column in table.items():
        np.testing.assert_array_equal(found[name], column[3000:9000])
    chosen = np.random.default_rng(0).integers(0, 20_000, 50)
    server.asked.clear()
    np.testing.assert_array_equal(d[chosen]()["b"], np.array(table["b"])[chosen])
    assert len(server.asked) <= 2


def test_no_column_of_parquet_is_brought_for_another_one(server):
    buffer = io.BytesIO()
    columns = {name: np.arange(200_000.0) for name in "abc"}
    pq.write_table(pa.table(columns), buffer, use_dictionary=False, compression="none")
    server.files["/t.parquet"] = buffer.getvalue()
    d = dv.open(f"{server.url}/t.parquet", keep=False)
    server.asked.clear()
    assert d.a._sum()() == d.b._sum()() == columns["a"].sum()
    assert brought(server) < 3_300_000


# -------------------- files that change --------------------


def test_of_a_server_without_marks_the_size_tells_that_a_file_has_changed(server):
    server.has_marks = False
    d = dv.open(f"{server.url}/x.npy", keep=False)
    np.testing.assert_array_equal(d[2900:2910](), X[2900:2910])
    server.files["/x.npy"] = npy(X.repeat(2, axis=1)[:2999])
    for rows in (slice(100, 110), [5, 700, 2000]):
        with pytest.raises(ValueError, match=r"x\.npy has changed since it was opened"):
            d[rows]()
    server.files["/x.npy"] = npy(X)
    np.testing.assert_array_equal(d[[5, 700, 2000]](), X[[5, 700, 2000]])


@pytest.mark.parametrize("rows", [2000, 3000, 4000])
def test_rows_of_a_file_that_is_replaced_while_it_is_read_are_of_one_version(
    rows, memory, monkeypatch
):
    d = dv.open(memory_url("x.npy", npy(X)), keep=False)
    kind = type(memory)
    own = kind.open

    def replaced(self, path, *arguments, **options):
        found = own(self, path, *arguments, **options)
        monkeypatch.setattr(kind, "open", own)
        memory_url("x.npy", npy(np.resize(X + 1, (rows, 40))))
        return found if rows == 3000 else own(self, path, *arguments, **options)

    monkeypatch.setattr(kind, "open", replaced)
    with pytest.raises(ValueError, match=r"x\.npy has changed since it was opened"):
        d[[5, 700, 2999]]()


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_copy_is_of_one_version_of_a_file(is_kept, memory, monkeypatch, tmp_path):
    url, kind = memory_url("x.npy", npy(X)), type(memory)
    own = kind.open

    class Late(io.BytesIO):
        """Half of one version of a file, and then of another one."""

        def read(self, count=-1):
            if not self.tell():
                return super().read(len(self.getvalue()) // 2)
            monkeypatch.setattr(kind, "open", own)
            memory_url("x.npy", npy(X + 1))
            self.__init__(memory.cat("/in/x.npy"))
            self.seek(len(self.getvalue()) // 2)
            self.read = super().read
            return self.read(count)

    monkeypatch.setattr(kind, "open", lambda self, path, *_, **__: Late(memory.cat(path)))
    found = dv.open(url)() if is_kept else np.load(cache.download(url))
    np.testing.assert_array_equal(found, X + 1)
