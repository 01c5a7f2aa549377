"""Parts at URLs: which they are, what is fetched when, and what is kept of them."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import threading
import time
import zipfile
from collections import Counter

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataview as dv
from dataview.index.sizes import sizes
from leftovers import nothing_left
from oracle import assert_same
from servers import serving, status

X = np.arange(78.0 * 3).reshape(78, 3)
EDGES = [0, 20, 38, 38, 63, 78]
PIECES = [X[start:stop] for start, stop in itertools.pairwise(EDGES)]
SAMPLERS = ["part-linear", "part-linear-permutation", "part-permutation-permutation"]


def settled(seconds=10):
    """Whether all threads that load parts end."""
    until = time.monotonic() + seconds
    while any(one.name == "dataview-parts" for one in threading.enumerate()):
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


@pytest.fixture(autouse=True)
def root(tmp_path):
    dv.cache.set_root(tmp_path / "root")
    with nothing_left(tmp_path):
        yield
        assert settled()
    dv.cache.set_root(None)


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    if system.exists("/far"):
        system.rm("/far", recursive=True)


@pytest.fixture
def server():
    with serving() as served:
        yield served


def arrays(pieces=PIECES):
    return {f"part-{number}.npy": array_bytes(piece) for number, piece in enumerate(pieces)}


def array_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def tables(edges=EDGES):
    return {
        f"part-{number}.csv": "".join(
            ["a,b\n", *(f"{row},text {row}\n" for row in range(start, stop))]
        ).encode()
        for number, (start, stop) in enumerate(itertools.pairwise(edges))
    }


def put(system, files, folder="/far"):
    system.pipe({f"{folder}/{name}": data for name, data in files.items()})
    return f"memory:/{folder}"


def serve(server, files):
    server.files |= {f"/{name}": data for name, data in files.items()}
    return [f"{server.url}/{name}" for name in files]


# -------------------- where they are --------------------


def test_parts_in_a_folder_of_any_file_system(memory, tmp_path):
    url = put(memory, {**arrays(), "_SUCCESS": b"", ".hidden": b"x", "below/part-9.npy": b"x"})
    zipped = tmp_path / "x.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        for name, data in arrays().items():
            archive.writestr(f"in/{name}", data)
    here = tmp_path / "here"
    here.mkdir()
    for name, data in arrays().items():
        (here / name).write_bytes(data)
    for place in (url, f"{url}/", f"zip://in::file://{zipped}", f"file://{here}"):
        d = dv.open(place, layout="parts")
        assert d._shape() == (78, 3)
        assert_same(d(), X)
        assert_same(pickle.loads(pickle.dumps(d))[[70, 3, 21]](), X[[70, 3, 21]])
        own = [dv.open(place, layout="parts", partition=(p, 2)) for p in range(2)]
        assert [len(view) for view in own] == [35, 43]


def test_parts_are_in_the_order_of_their_numbers(memory):
    url = put(memory, arrays([X[6 * n : 6 * n + 6] for n in range(13)]))
    assert_same(dv.open(url, layout="parts")(), X)
    some = [f"{url}/part-{number}.npy" for number in (10, 2)]
    assert_same(dv.open(some, layout="parts")(), np.concatenate([X[60:66], X[12:18]]))


def test_urls_of_parts_on_web_servers(server, memory, tmp_path):
    urls = serve(server, arrays())
    np.save(tmp_path / "x.npy", PIECES[1])
    url = put(memory, arrays())
    mixed = [urls[0], tmp_path / "x.npy", f"{url}/part-3.npy"]
    assert_same(dv.open(mixed, layout="parts")(), X[[*range(38), *range(38, 63)]])
    d = dv.open(urls, layout="parts")
    assert_same(d(), X)
    assert_same(dv.open([urls[3], urls[3]], layout="parts")(), np.concatenate([PIECES[3]] * 2))
    assert_same(dv.open(urls[:2], layout="parts", keep=False, timeout=5)[15:25](), X[15:25])
    server.has_ranges = False
    assert_same(dv.open(urls, layout="parts")(), X)
    with pytest.raises(FileNotFoundError, match=r"404.*none\.npy"):
        dv.open([*urls, f"{server.url}/none.npy"], layout="parts")


def test_a_folder_of_a_web_server_is_refused_with_a_way(server):
    serve(server, arrays())
    with pytest.raises(ValueError, match=r"do not list the files.*dv\.open\(\[url, …\]"):
        dv.open(server.url, layout="parts")
    assert server.asked == []


def test_what_is_no_folder_elsewhere_says_so(memory):
    url = put(memory, arrays())
    with pytest.raises(NotADirectoryError, match=r"memory://far/part-0\.npy"):
        dv.open(f"{url}/part-0.npy", layout="parts")
    with pytest.raises(FileNotFoundError):
        dv.open("memory://none", layout="parts")
    with pytest.raises(IsADirectoryError, match="layout='parts'"):
        dv.open(url)
    with pytest.raises(TypeError, match=r"no option 'deadlin'.*deadline"):
        dv.open(url, layout="parts", deadlin=3)
    put(memory, {"part-0": b"x"}, "/far/plain")
    with pytest.raises(ValueError, match="format="):
        dv.open(f"{url}/plain", layout="parts")


def test_patterns_stand_for_files_of_any_file_system(memory, tmp_path):
    url = put(memory, {**arrays([X[6 * n : 6 * n + 6] for n in range(13)]), "other.npy": b"x"})
    assert_same(dv.open(f"{url}/part-*.npy", layout="parts")(), X)
    assert_same(dv.open(f"{url}/part-[23].npy", layout="parts", keep=False)(), X[12:24])
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, data in tables().items():
            archive.writestr(f"in/{name}", data)
    inside = f"zip://in/part-*.csv::file://{tmp_path}/x.zip"
    assert dv.open(inside).a().tolist() == [*range(78)]
    with pytest.raises(FileNotFoundError, match=r"no file has a name of this pattern.*none-\*"):
        dv.open(f"{url}/none-*.npy", layout="parts")


def test_tables_at_urls_are_one_table(memory, server, tmp_path):
    url = put(memory, tables())
    urls = serve(server, tables())
    for several in (
        f"{url}/part-*.csv",
        urls,
        [urls[0], *[f"{url}/part-{n}.csv" for n in (1, 3, 4)]],
    ):
        d = dv.open(several)
        assert d.a().tolist() == [*range(78)]
        again = pickle.loads(pickle.dumps(d))
        assert again.b[40]() == "text 40"
        assert any(one.in_use for one in dv.cache.info().files)
        d._close()
        again._close()
        assert not any(one.in_use for one in dv.cache.info().files)
    d = dv.open(urls, partition=(1, 2), sep=",", timeout=5)
    assert d.a().tolist() == [*range(1, 78, 2)]
    with pytest.raises(ValueError, match="layout='parts'"):
        dv.open(urls, keep=False)
    with pytest.raises(TypeError, match=r"dv\.concat.*part-0\.npy"):
        dv.open(serve(server, arrays()))
    with pytest.raises(FileNotFoundError, match=r"404.*none\.csv"):
        dv.open([*urls, f"{server.url}/none.csv"])


# -------------------- what is fetched --------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_each_part_is_fetched_once_an_epoch(sampler, server):
    wide = np.repeat(X, 500, axis=1)  # so that parts are larger than a header is
    urls = serve(server, arrays([wide[start : start + 13] for start in range(0, 78, 13)]))
    d = dv.open(urls, layout="parts", keep=False, parts_in_memory=3 * 13 * wide[0].nbytes + 20_000)
    for _ in range(2):
        server.asked.clear()
        rows = [row for batch in d._loader(5, sampler=sampler, seed=2) for row in batch()[:, 0]]
        assert sorted(rows) == X[:, 0].tolist()
        assert settled()
        fetched = Counter(server.paths())
        assert len(fetched) >= 3  # those in memory from before need not be fetched
        assert set(fetched.values()) == {2}  # the header, and the data


def test_columns_of_parts_are_fetched_together(server):
    buffer = io.BytesIO()
    columns = {name: np.random.default_rng(0).random(20_000) for name in "abcdef"}
    pq.write_table(pa.table(columns), buffer, row_group_size=5000)
    urls = serve(server, {f"part-{number}.parquet": buffer.getvalue() for number in range(4)})
    d = dv.open(urls, layout="parts", keep=False)
    server.asked.clear()
    assert sum(len(batch.a()) for batch in d._loader(3000)) == 80_000
    assert settled()
    _, *others = Counter(server.paths()).values()  # the first tells which columns are asked for
    assert others == [3] * 3  # the beginning and the end, and the data


@pytest.mark.parametrize("put_files", [arrays, tables])
def test_a_copy_of_each_part_is_fetched_once_for_all_epochs(put_files, server):
    urls = serve(server, put_files())
    d = dv.open(urls, layout="parts", manifest=True, parts_in_memory=1500)
    for epoch in range(3):
        server.asked.clear()
        for batch in d._loader(7, sampler="part-linear"):
            batch()
        assert settled()
        assert set(Counter(server.paths()).values()) == {1}
        if epoch:
            assert all("If-None-Match" in headers for _, headers in server.asked)


def test_opening_asks_for_headers_alone_and_loads_one_part_ahead(server):
    big = [np.arange(n * 10.0**6, n * 10.0**6 + 40_000) for n in range(4)]
    urls = serve(server, arrays(big))
    d = dv.open(urls, layout="parts", parts_in_memory="1MB")
    assert len(d) == 160_000
    assert all(int(one.partition("-")[2]) < 1 << 16 for one in server.ranges())
    server.asked.clear()
    assert d[3]() == big[0][3]
    assert {*server.paths()} == {"/part-0.npy"}
    d[20_000]()
    assert settled()
    assert {*server.paths()} == {"/part-0.npy", "/part-1.npy"}


@pytest.mark.parametrize("keep", [None, False])
def test_opening_asks_once_for_each_part(keep, server):
    urls = serve(server, arrays())
    how = {"layout": "parts", "keep": keep}
    d = dv.open(urls, **how)
    first, *others = server.files
    assert Counter(server.paths()) == dict.fromkeys(server.files, 1)
    server.asked.clear()
    own = dv.open(urls, partition=(1, 3), **how)
    assert {*server.paths()} == {first, others[0], others[3]}  # those of others are not asked for
    assert_same(own(), np.concatenate([PIECES[1], PIECES[4]]))
    server.files[others[0]] = array_bytes(X[:4])
    d._refresh()
    assert_same(d(), np.concatenate([PIECES[0], X[:4], *PIECES[2:]]))


def test_text_is_a_stream_until_it_is_counted(memory, server):
    url = put(memory, tables())
    for place in (url, serve(server, tables())):
        stream = dv.open(place, layout="parts")
        assert stream._length() is None
        assert [row.a() for row in stream] == [*range(78)]
        d = dv.open(place, layout="parts", manifest=True)
        assert (len(d), d.b[60]()) == (78, "text 60")
        assert [len(batch()) for batch in d._loader(30)] == [30, 30, 18]


def test_formats_that_are_fetched_whole_are_a_stream_until_they_are_counted(memory, tmp_path):
    for number, piece in enumerate(PIECES):
        dv.View(x=piece)._save(tmp_path / "part.npz")
        memory.pipe(f"/far/part-{number}.npz", (tmp_path / "part.npz").read_bytes())
    stream = dv.open("memory://far", layout="parts")
    assert stream._length() is None
    assert_same(np.stack([row.x() for row in stream]), X)
    assert_same(dv.open("memory://far", layout="parts", manifest=True).x(), X)


# -------------------- what is kept --------------------


def test_a_manifest_of_a_folder_elsewhere_is_kept_in_the_cache(memory, root, tmp_path, monkeypatch):
    url = put(memory, tables())
    dv.open(url, layout="parts", manifest=True, storage_options={})
    kept = list((tmp_path / "root" / "parts").iterdir())
    assert len(kept) == 1
    assert sorted(memory.ls("/far", detail=False)) == [f"/far/{name}" for name in sorted(tables())]
    assert "storage_options" not in json.loads(kept[0].read_text())["options"]
    d = dv.open(url)  # the manifest says what it is
    assert (len(d), d.a[77]()) == (78, 77)
    memory.pipe("/far/part-5.csv", b"a,b\n78,text 78\n")
    memory.pipe("/far/part-6.csv", b"a,b\n79,text 79\n")
    told = (
        r"manifest of memory://far is out of date: 2 parts were counted.*part-5\.csv is the first"
    )
    with pytest.warns(RuntimeWarning, match=told):
        assert len(dv.open(url)) == 80
    memory.pipe("/far/part-6.csv", b"a,b\n")
    d._refresh()
    assert len(d) == 79
    assert dv.open(url, layout="parts", manifest=False)._length() is None
    kept[0].write_text("{")
    with pytest.raises(ValueError, match="manifest=True makes a new one"):
        dv.open(url)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"^{os.path.join('root', 'parts')}"):
        dv.open(url)


def test_a_list_of_files_has_a_manifest_in_the_cache(server, tmp_path):
    urls = serve(server, tables())
    for number, data in enumerate(tables().values()):
        (tmp_path / f"{number}.csv").write_bytes(data)
    paths = [tmp_path / f"{number}.csv" for number in range(len(EDGES) - 1)]
    for several in (urls, paths):
        dv.open(several, layout="parts", manifest=True)
        d = dv.open(several, layout="parts")
        assert (len(d), d.a[40]()) == (78, 40)
    server.files["/part-3.csv"] = tables()["part-4.csv"]
    with pytest.warns(RuntimeWarning, match=r"out of date: part-3\.csv was counted anew"):
        assert len(dv.open(urls, layout="parts")) == 78 - 25 + 15


def test_a_part_that_changed_since_it_was_counted_is_told(memory):
    url = put(memory, arrays())
    d = dv.open(url, layout="parts", keep=False)
    memory.pipe("/far/part-4.npy", array_bytes(X[:3]))
    assert_same(d[:60](), X[:60])
    with pytest.raises(ValueError, match=r"memory://far/part-4\.npy has changed"):
        d[70]()


def test_what_was_saved_in_parts_is_opened_elsewhere(memory, tmp_path):
    rows = [list(range(n % 4)) for n in range(12)]
    model = dv.View(x=X[:12], n={"y": np.arange(12)}, t=dv.ragged(rows))
    model._save(tmp_path / "s", "folder", rows_per_part=5)
    memory.put(f"{tmp_path}/s/", "/far/s", recursive=True)
    d = dv.open("memory://far/s", layout="parts")
    assert_same(d.x(), X[:12])
    assert_same(d.n.y[::5](), np.arange(12)[::5])
    assert [row.tolist() for row in d.t()] == rows
    own = dv.open("memory://far/s", layout="parts", partition=(1, 3))
    assert [row.tolist() for row in own.t()] == rows[1::3]


# -------------------- failures --------------------


def test_a_part_that_fails_is_told_where_it_is_needed(server):
    urls = serve(server, arrays())
    d = dv.open(urls, layout="parts", keep=False, deadline=0.1)
    server.faults["/part-3.npy"] = status(500)
    assert_same(d[:38](), X[:38])
    with pytest.raises(ConnectionError, match=r"part-3\.npy.*500"):
        d[40]()
    server.faults.clear()
    assert_same(d(), X)


def test_passwords_are_in_no_message(server):
    urls = [one.replace("://", "://me:secret@") for one in serve(server, tables())]
    dv.open(urls, layout="parts", manifest=True)
    server.files["/part-3.csv"] = tables()["part-4.csv"]
    with pytest.warns(RuntimeWarning) as told:
        d = dv.open(urls, layout="parts")
    assert "secret" not in str(told[0].message) + repr(d)
    d._close()
    with pytest.raises(ValueError, match="was closed") as error:
        d.a()
    assert "secret" not in str(error.value)


def test_sizes_of_copies_are_those_of_single_files(server):
    urls = serve(server, arrays())
    with sizes.set(copied_bytes=100):
        assert_same(dv.open(urls, layout="parts")(), X)
    assert dv.cache.info().files == ()
