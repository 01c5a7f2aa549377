"""Files in an S3 store, of a real server on this machine: few requests, faults, forks, copies."""

from __future__ import annotations

import errno
import gc
import io
import multiprocessing
import os
import threading
import time

import numpy as np
import pytest

import dataview as dv
from dataview import cache
from dataview.index.sizes import sizes
from dataview.sources.remote.reading import read_ranges
from leftovers import open_sockets, own_threads

pytestmark = [
    pytest.mark.clients,
    # JAX, which another test may have imported, warns at each fork; here nothing of it is used.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]

X = np.arange(3000 * 40, dtype="f4").reshape(3000, 40)
DATA = X.tobytes()


class Store:
    """A server of S3, what it was asked for, and the faults that are left."""

    def __init__(self):
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.app = DomainDispatcherApplication(create_backend_app)
        self.asked, self.faults, self.fault = [], [], None
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        url = f"http://127.0.0.1:{self.server.server_port}"
        self.options = {"key": "a", "secret": "b", "client_kwargs": {"endpoint_url": url}}

    def answer(self, environ, start):
        self.asked.append((environ["REQUEST_METHOD"], environ.get("HTTP_RANGE")))
        if self.faults:
            start(self.faults.pop(), [("Content-Length", "0")])
            return [b""]
        if self.fault is not None and environ["PATH_INFO"].endswith("x9.npy"):
            return self.fault(start)
        return self.app(environ, start)

    def ranges(self):
        return [part for method, part in self.asked if method == "GET"]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def store():
    import s3fs

    found = Store()
    system = s3fs.S3FileSystem(**found.options)
    system.mkdir("bucket")
    system.pipe("bucket/x.bin", DATA)
    buffer = io.BytesIO()
    np.save(buffer, X)
    system.pipe("bucket/x.npy", buffer.getvalue())
    found.system = system
    yield found
    found.close()


@pytest.fixture(autouse=True)
def root(tmp_path, store):
    store.asked.clear()
    cache.set_root(tmp_path)
    yield
    cache.set_root(None)


def test_neighbours_are_one_request(store):
    ranges = [(200_000, 100), (0, 8), (90, 10), (200_050, 100)]
    found = read_ranges("s3://bucket/x.bin", ranges, storage_options=store.options)
    assert found == [DATA[offset : offset + length] for offset, length in ranges]
    assert sorted(store.ranges()) == ["bytes=0-99", "bytes=200000-200149"]
    assert read_ranges("s3://bucket/x.bin", storage_options=store.options) == [DATA]


def test_what_passes_is_tried_again_and_what_is_missing_is_told(store):
    store.faults[:] = ["503 Slow Down", "500 Internal Server Error"]
    assert read_ranges("s3://bucket/x.bin", [(3, 4)], storage_options=store.options) == [DATA[3:7]]
    for name in ("bucket/none", "nobody/x.bin"):
        with pytest.raises(FileNotFoundError):
            read_ranges(f"s3://{name}", [(0, 1)], storage_options=store.options)
    with pytest.raises(ValueError, match="has 480000 bytes"):
        read_ranges("s3://bucket/x.bin", [(479_999, 2)], storage_options=store.options)


@pytest.mark.parametrize("options", [{}, {"keep": False}, {"layout": "parts"}])
@pytest.mark.parametrize(
    ("url", "said"),
    [("s3://bucket/none.npy", "bucket/none"), ("s3://nobody/x.npy", "bucket does not exist")],
)
def test_what_is_missing_is_told_with_its_url_and_what_to_do(url, said, options, store):
    with pytest.raises(FileNotFoundError, match=rf"bucket.*\(.*{said}.*check the URL") as found:
        dv.open(url, storage_options=store.options, **options)
    assert (found.value.errno, found.value.filename) == (errno.ENOENT, url)


@pytest.mark.parametrize("options", [{}, {"layout": "parts"}, {"get": "text"}])
@pytest.mark.parametrize("url", ["s3://nobody/*.npy", "s3://bucket/none-*.npy"])
def test_a_pattern_without_files_is_told_with_what_may_be_wrong(url, options, store):
    with pytest.raises(FileNotFoundError, match=r"this pattern, or .* bucket .*check the") as found:
        dv.open(url, storage_options=store.options, **options)
    assert (found.value.errno, found.value.filename) == (errno.ENOENT, url)


@pytest.mark.parametrize("options", [{}, {"keep": False}, {"layout": "parts"}, {"get": "text"}])
@pytest.mark.parametrize("url", ["s3://bucket/x.npy", "s3://bucket/*.npy"])
def test_a_server_that_wants_to_know_who_reads_says_how(url, options, store, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    own = {"client_kwargs": store.options["client_kwargs"]}
    told = r"who reads there \(Unable to locate credentials\); storage_options= .*'anon': True"
    with pytest.raises(PermissionError, match=told) as found:
        dv.open(url, storage_options=own, **options)
    assert (found.value.errno, found.value.filename) == (errno.EACCES, url)


def test_a_server_that_is_gone(store):
    options = {"key": "a", "secret": "b", "client_kwargs": {"endpoint_url": "http://127.0.0.1:1"}}
    with pytest.raises(Exception, match="Could not connect") as found:
        read_ranges("s3://bucket/x", [(0, 1)], deadline=0.3, storage_options=options)
    assert "while s3://bucket/x was read" in found.value.__notes__


def test_rows_of_an_array(store, rng):
    d = dv.open("s3://bucket/x.npy", keep=False, storage_options=store.options)
    store.asked.clear()
    far = [5, 1500, 2990]
    np.testing.assert_array_equal(d[far](), X[far])
    assert len(store.asked) <= 2 * 3
    rows = rng.integers(0, 3000, 64)
    np.testing.assert_array_equal(d[rows](), X[rows])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for part in pool.map(_rows, [d] * 4):
            np.testing.assert_array_equal(part, X[[9, 2000]])
    store.system.pipe("bucket/y.npy", store.system.cat("bucket/x.npy"))
    e = dv.open("s3://bucket/y.npy", keep=False, storage_options=store.options)
    store.system.pipe("bucket/y.npy", store.system.cat("bucket/x.npy") + b" ")
    with pytest.raises(ValueError, match="has changed since it was opened"):
        e[2000]()


def _rows(d):
    return d[[9, 2000]]()


def test_a_copy_and_parts(store):
    with dv.open("s3://bucket/x.npy", storage_options=store.options) as d:
        assert "a copy of" in repr(d)
        np.testing.assert_array_equal(d[-1](), X[-1])
    cache.clear()
    with sizes.set(copied_bytes=1000):
        d = dv.open("s3://bucket/x.npy", storage_options=store.options)
        assert "parts of" in repr(d)
    path = cache.download("s3://bucket/x.bin", storage_options=store.options)
    assert path.read_bytes() == DATA


def test_zarr_and_parquet(store, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    zarr.create_group(tmp_path / "g.zarr").create_array("x", data=X, chunks=(100, 40))
    store.system.put(f"{tmp_path}/g.zarr", "bucket/g.zarr", recursive=True)
    d = dv.open("s3://bucket/g.zarr", storage_options=store.options)
    np.testing.assert_array_equal(d.x[250:260](), X[250:260])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_rows, (d.x,)), X[[9, 2000]])
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": np.arange(20_000.0)}), buffer, row_group_size=2000)
    store.system.pipe("bucket/t.parquet", buffer.getvalue())
    t = dv.open("s3://bucket/t.parquet", keep=False, storage_options=store.options)
    np.testing.assert_array_equal(t.a[4100:4103](), [4100, 4101, 4102])


# -------------------- parts --------------------

PARTS = [X[start : start + 500] for start in range(0, 3000, 500)]


@pytest.fixture(scope="module")
def parts(store):
    """A folder of parts in a bucket, of arrays and of tables."""
    for number, rows in enumerate(PARTS):
        buffer = io.BytesIO()
        np.save(buffer, rows)
        store.system.pipe(f"bucket/parts/x{number + 8}.npy", buffer.getvalue())
        lines = "".join(f"{n}\n" for n in range(100 * number, 100 * number + 100))
        store.system.pipe(f"bucket/tables/t-{number}.csv", f"n\n{lines}".encode())
    store.system.pipe("bucket/parts/", b"")  # which consoles make of folders
    return "s3://bucket/parts"


def test_parts_in_a_bucket(store, parts):
    for place in (parts, f"{parts}/x*.npy"):
        d = dv.open(place, layout="parts", storage_options=store.options)
        assert d._shape() == (3000, 40)
        np.testing.assert_array_equal(d[::7](), X[::7])
    own = dv.open(parts, layout="parts", partition=(1, 4), storage_options=store.options)
    np.testing.assert_array_equal(own(), np.concatenate([PARTS[1], PARTS[5]]))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_rows, (d,)), X[[9, 2000]])
    with pytest.raises(FileNotFoundError):
        dv.open("s3://bucket/none", layout="parts", storage_options=store.options)


def test_each_part_in_a_bucket_is_read_once_an_epoch(store, parts):
    d = dv.open(
        parts, layout="parts", keep=False, parts_in_memory="300kB", storage_options=store.options
    )
    for _ in range(2):
        store.asked.clear()
        batches = d._loader(200, sampler="part-permutation-permutation", seed=3)
        rows = np.concatenate([batch() for batch in batches])
        np.testing.assert_array_equal(rows[rows[:, 0].argsort()], X)
        bodies = [one for one in store.ranges() if one and one.startswith("bytes=128-")]
        assert 3 <= len(bodies) <= 6
        assert len(store.ranges()) == 2 * len(bodies)  # a header before each


def short(start):
    start("206 Partial Content", [("Content-Length", "1000"), ("ETag", '"x"')])
    return [b"too few"]


def silent(start):
    time.sleep(0.5)
    start("200 OK", [("Content-Length", "0")])
    return [b""]


def status(text):
    def answer(start):
        start(text, [("Content-Length", "0")])
        return [b""]

    return answer


FAULTS = {
    "error": status("500 Internal Server Error"),
    "forbidden": status("403 Forbidden"),
    "short": short,
    "silent": silent,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("keep", [None, False])
def test_nothing_is_left_of_a_bucket_that_fails(keep, fault, store, parts, tmp_path, monkeypatch):
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    patience = {"read_timeout": 0.2, "retries": {"max_attempts": 0}}
    options = {**store.options, "config_kwargs": patience, "default_cache_type": "none"}
    how = {"keep": keep, "deadline": 0.1, "parts_in_memory": "100kB", "storage_options": options}

    def work():
        return dv.open(parts, layout="parts", **how)()

    np.testing.assert_array_equal(work(), X)
    cache.clear()
    gc.collect()
    threads, sockets = own_threads(), len(open_sockets())
    store.fault = FAULTS[fault]
    is_told = False
    try:
        work()
    except Exception:  # of any class: it is the library's
        is_told = True
    store.fault = None
    assert is_told
    gc.collect()
    assert own_threads() == threads
    assert len(open_sockets()) <= sockets + 1  # the library's own connection
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []
    np.testing.assert_array_equal(work(), X)


def test_tables_in_a_bucket_are_counted_once(store, parts):
    url = "s3://bucket/tables"
    options = {"storage_options": store.options}
    assert dv.open(url, layout="parts", **options)._length() is None
    d = dv.open(url, layout="parts", manifest=True, **options)
    assert (len(d), d.n[250]()) == (600, 250)
    store.asked.clear()
    assert len(dv.open(url, **options)) == 600
    assert len(store.asked) <= 4
    assert dv.open(f"{url}/*.csv", **options).n()[-1] == 599


@pytest.mark.parametrize("change", ["another", "shorter", "gone", "back"])
def test_rows_of_an_object_that_is_replaced_meanwhile_are_of_one_version(change, store):
    """The object is replaced while its rows are asked for, at any of the requests."""

    def npy(array):
        buffer = io.BytesIO()
        np.save(buffer, array)
        return buffer.getvalue()

    others = {"another": npy(X + 1), "shorter": npy(X[:50]), "back": npy(X)}
    own, url = store.app, "s3://bucket/y.npy"
    wanted = [5, 700, 1500, 2999]
    for number in range(1, 7):
        store.app = own
        store.system.pipe("bucket/y.npy", npy(X))
        d = dv.open(url, keep=False, storage_options=store.options)
        store.asked.clear()

        def app(environ, start, number=number):
            if len(store.asked) == number:
                store.app = own
                if change == "gone":
                    store.system.rm("bucket/y.npy")
                else:
                    store.system.pipe("bucket/y.npy", others[change])
            return own(environ, start)

        store.app = app
        found, told = X[wanted], "y.npy"
        try:
            found = d[wanted]()
        except (ValueError, FileNotFoundError) as error:
            told = f"{error} {error.__notes__}"
        np.testing.assert_array_equal(found, X[wanted])
        assert "y.npy" in told
    store.app = own
