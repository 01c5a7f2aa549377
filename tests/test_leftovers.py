"""Nothing is left of what fails or is stopped: no file, no handle, no thread, no socket."""

import contextlib
import gc
import io
import os
import re
import sys
import tarfile
import threading
import time

import fsspec
import numpy as np
import pytest

import dataview as dv
from dataview.sources.remote import attempts
from failing import broken, failing
from leftovers import open_files
from servers import cut, redirect, reset, serving, slow, status, told

N = 6
AT = 8
"""So many steps of each piece of work fail, one in each run."""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No garbage is collected, so that what is let go is let go at once; errors may be anywhere."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # while something is given up
    monkeypatch.setattr(attempts, "PAUSE", 0.0)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def loaders():
    return [one for one in threading.enumerate() if one.name.startswith("dataview-")]


def held(folder):
    """The handles of files in a folder, and of sockets."""
    links = open_files().items()
    return {one for one in links if one[1].startswith((str(folder), "socket:"))}


def settled(folder, before, seconds=5):
    """What is left when threads have ended, which end with what they do."""
    until = time.monotonic() + seconds
    while (loaders() or held(folder) - before) and time.monotonic() < until:
        time.sleep(0.002)
        gc.collect()  # errors of threads that have ended since know themselves
    return {one.name for one in loaders()}, {link for _, link in held(folder) - before}


# -------------------- failures --------------------


def parts(put):
    def made(folder):
        folder.mkdir()
        for number in range(3):
            put(folder, number, np.arange(float(N)) + N * number)
        return folder

    return made


@parts
def arrays(folder, number, rows):
    np.save(folder / f"p{number}.npy", rows)


@parts
def archives(folder, number, rows):
    with tarfile.open(folder / f"p{number}.tar", "w") as archive:
        for row in range(3):
            member = tarfile.TarInfo(f"{row}.txt")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))


def saved(suffix):
    return parts(
        lambda folder, number, rows: dv.View(a=rows, b=rows)._save(folder / f"p{number}{suffix}")
    )


def index(folder):
    archives(folder)
    (folder / "p0.txt").write_text("x")
    (folder / "p1.txt").write_text("y")
    (folder / "index.csv").write_text("filename,label\np0.txt,x\np1.txt,y\n")
    return folder / "index.csv"


def nothing(folder):
    folder.mkdir()
    return folder


def remote(folder):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(float(N)))
    fsspec.filesystem("memory").pipe("/left/x.npy", buffer.getvalue())
    return nothing(folder)


def whole(folder):
    return dv.open(folder, layout="parts")()


def in_batches(**options):
    def loop(folder):
        for batch in dv.open(folder, layout="parts")._loader(4, **options):
            batch  # noqa: B018

    return loop


def counted(folder):
    dv.open(folder, layout="parts", manifest=True)


def make(place):
    creator = lambda path: np.save(path, np.zeros(N))  # noqa: E731
    dv.cache.make_or_load(place / "made.npy", creator, np.load)


def keep(folder):
    mapped = dv.View(np.arange(float(N)))._map(lambda x: x() * 2, shape=(), dtype=float)
    mapped._cached(folder / "kept.npy", version=1)()


def follow(path):
    for line in dv.open(path, follow=0):
        line()


WORK = {
    "arrays, all": (arrays, whole),
    "HDF5, all": (saved(".h5"), whole),
    "HDF5, in batches ahead": (saved(".h5"), in_batches(prefetch=2)),
    "Parquet, in batches": (saved(".parquet"), in_batches()),
    "CSV, all": (saved(".csv"), whole),
    "CSV, in batches ahead": (saved(".csv"), in_batches(prefetch=2)),
    "lines of JSON, in batches": (saved(".jsonl"), in_batches()),
    "archives, in batches": (archives, in_batches()),
    "CSV, counted": (saved(".csv"), counted),
    "HDF5, counted": (saved(".h5"), counted),
    "files": (arrays, lambda folder: dv.open(folder, layout="files", manifest=True).array()),
    "an index": (index, lambda path: dv.open(path, get="text").item()),
    "an index, by workers": (index, lambda p: [*dv.open(p, get="text")._loader(2, workers=2)]),
    "lines that come": (index, follow),
    "saved in parts": (
        nothing,
        lambda place: dv.View(np.arange(20))._save(place / "x", format="folder", rows_per_part=6),
    ),
    "saved": (nothing, lambda place: dv.View(a=np.arange(20))._save(place / "x.csv")),
    "made once": (nothing, make),
    "kept": (nothing, keep),
    "downloaded": (remote, lambda _: dv.cache.download("memory://left/x.npy")),
    "a copy": (remote, lambda _: dv.open("memory://left/x.npy")()),
    "elsewhere": (remote, lambda _: dv.open("memory://left/x.npy", keep=False)()),
}


@pytest.fixture
def undone(tmp_path):
    """Removes what work has made, and tells what that was."""
    begun = None

    def undo():
        nonlocal begun
        names = {path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()}
        begun = names if begun is None else begun
        for path in names - begun:
            path.unlink()
        return {re.sub(r"-\d{9,}", "", str(path)) for path in names - begun}  # without its time

    dv.cache.set_root(tmp_path / "root")
    yield undo
    dv.cache.set_root(None)


@pytest.mark.parametrize("error", [broken, KeyboardInterrupt])
@pytest.mark.parametrize("name", WORK)
def test_nothing_is_left_of_a_failure(name, error, tmp_path, undone):
    put, work = WORK[name]
    given = put(tmp_path / "x")
    undone()
    work(given)  # what is imported or kept for ever is there from now on
    undone()
    with failing(error=error) as counting:
        work(given)
    finished = undone()
    before = held(tmp_path)
    last = len(counting.steps) - 1
    for at in sorted({1 + step * last // (AT - 1) for step in range(AT)}):
        with contextlib.suppress(Exception, KeyboardInterrupt), failing(at, error) as failure:
            work(given)
        where = f"step {at}, {failure.steps[at - 1 : at]}"
        assert settled(tmp_path, before) == (set(), set()), where
        assert undone() <= finished, where


# -------------------- servers that fail --------------------

FAULTS = {
    "reset": reset,
    "silent": slow(0.4),
    "error": status(500),
    "forbidden": status(403),
    "short": cut(20),
    "empty": cut(0),
    "too long a length": told(lambda data: data, 10**6),
    "redirected for ever": lambda handler: redirect(handler.path)(handler),
}
"""What happens to the second of three files, or to the only one."""

FETCH = {"timeout": 0.1, "deadline": 0.1}
"""For how long a server that fails is waited for; a sound one may take longer on a busy machine."""


def fetched(sources, **options):
    return dv.open(sources, **FETCH, **options)


def in_parts(urls, sampler="part-linear", prefetch=0, **options):
    d = fetched(urls, layout="parts", **options)
    return [batch() for batch in d._loader(4, sampler=sampler, prefetch=prefetch)]


FAR = {
    "a copy": lambda urls, _: fetched(urls["x1.npy"])(),
    "parts of a file": lambda urls, _: fetched(urls["x1.npy"], keep=False)(),
    "downloaded": lambda urls, _: dv.cache.download(urls["x1.npy"], **FETCH),
    "arrays, copied": lambda urls, _: in_parts(arrays_at(urls)),
    "arrays, each epoch": lambda urls, _: in_parts(arrays_at(urls), keep=False),
    "arrays, in batches ahead": lambda urls, _: in_parts(arrays_at(urls), prefetch=2),
    "tables, as a stream": lambda urls, _: [
        row() for row in fetched(tables_at(urls), layout="parts")
    ],
    "tables, counted": lambda urls, _: in_parts(tables_at(urls), manifest=True),
    "tables together": lambda urls, _: fetched(tables_at(urls))(),
    "an index": lambda _, index: dv.open(index, get="bytes", **FETCH).item(),
    "an index, by workers": lambda _, index: [
        *dv.open(index, get="files", **FETCH)._loader(1, fields="item", workers=2)
    ],
}


def arrays_at(urls):
    return [urls[f"x{number}.npy"] for number in range(3)]


def tables_at(urls):
    return [urls[f"t{number}.csv"] for number in range(3)]


@pytest.fixture
def far(tmp_path):
    """A server of arrays and tables, their URLs, and an index of them."""
    with serving() as server:
        for number in range(3):
            buffer = io.BytesIO()
            np.save(buffer, np.arange(float(N)) + N * number)
            server.files[f"/x{number}.npy"] = buffer.getvalue()
            server.files[f"/t{number}.csv"] = b"a,b\n" + b"%d,1\n" % number * N
        urls = {path[1:]: server.url + path for path in server.files}
        index = tmp_path / "index.csv"
        index.write_text("\n".join(["filename", *arrays_at(urls)]))
        yield server, urls, index


@pytest.mark.parametrize("fault", [*FAULTS, "refused"])
@pytest.mark.parametrize("name", FAR)
def test_nothing_is_left_of_a_server_that_fails(name, fault, far, tmp_path, undone, monkeypatch):
    server, urls, index = far
    undone()
    before = held(tmp_path)
    if fault == "refused":
        urls = {name: "http://127.0.0.1:1/" + name for name in urls}
        index.write_text(index.read_text().replace(server.url, "http://127.0.0.1:1"))
    else:
        server.faults |= dict.fromkeys(("/x1.npy", "/t1.csv"), FAULTS[fault])
    is_told = False
    try:
        FAR[name](urls, index)
    except (OSError, ValueError):
        is_told = True
    assert is_told
    gc.collect()  # errors of requests know themselves
    assert settled(tmp_path, before) == (set(), set())
    left = {os.path.basename(path) for path in undone()}
    assert not [one for one in left if one.startswith(".") or "1" in one], left
    if fault != "refused":
        server.faults.clear()
        monkeypatch.setitem(FETCH, "timeout", 30)
        monkeypatch.setitem(FETCH, "deadline", 30)
        FAR[name](urls, index)
        assert settled(tmp_path, before)[0] == set()


# -------------------- streams that are stopped --------------------


class Rows:
    """A stream that tells which of its passes are open."""

    def __init__(self):
        self.open = 0

    def __call__(self):
        self.open += 1
        try:
            yield from range(1000)
        finally:
            self.open -= 1


STEPS = {
    "itself": lambda stream: stream,
    "mapped": lambda stream: stream._map(lambda row: row() * 2),
    "filtered": lambda stream: stream._filter(lambda row: True),
    "in minibatches": lambda stream: stream._minibatches(4),
    "pooled": lambda stream: stream._shuffled(1, pool=10),
    "sliced": lambda stream: stream[3:100],
    "repeated": lambda stream: stream._repeat(3),
    "mapped in minibatches": lambda stream: stream._map(lambda row: row() * 2)._minibatches(4),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_loop_that_is_left_ends_the_pass(step):
    rows = Rows()
    view = STEPS[step](dv.View(rows))
    for _ in view:
        assert rows.open == 1
        break
    assert rows.open == 0


@pytest.mark.parametrize("options", [{}, {"prefetch": 2}, {"workers": 2}])
def test_a_loader_that_is_closed_ends_the_pass(options):
    rows = Rows()
    with dv.View(rows)._loader(4, **options) as loader:
        next(loader)
        assert rows.open == 1
    assert rows.open == 0
    assert not loaders()


@pytest.mark.parametrize("options", [{}, {"prefetch": 2}, {"workers": 2}])
@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_a_loop_that_fails_ends_the_pass(options, error, tmp_path):
    def fail(batch):
        raise error

    rows = Rows()
    with pytest.raises(error):
        for _ in dv.View(rows)._loader(4, transform=fail, **options):
            pass
    assert settled(tmp_path, held(tmp_path)) == (set(), set())
    assert rows.open == 0


@pytest.mark.parametrize("name", ["CSV, all", "lines of JSON, in batches", "lines that come"])
def test_a_stream_of_files_that_is_closed_ends_its_passes(name, tmp_path):
    put, work = WORK[name]
    given = put(tmp_path / "x")
    before = held(tmp_path)
    how = {"follow": 100} if work is follow else {"layout": "parts"}
    with dv.open(given, **how) as stream:
        passing = iter(stream)
        next(passing)
    assert (loaders(), held(tmp_path) - before) == ([], set())
    for rows in (passing, iter(stream)):
        with pytest.raises(ValueError, match="was closed"):
            next(rows)
