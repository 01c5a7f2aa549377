"""Files that are kept: where, made or fetched once, evicted; nothing is left after a failure."""

from __future__ import annotations

import errno
import gc
import hashlib
import io
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import zarr

import dataview as dv
from children import printed
from dataview import cache
from dataview.cache import transfer
from leftovers import nothing_left, open_files
from servers import cut, redirect, reset, serving, status, times


@pytest.fixture(autouse=True)
def root(tmp_path):
    """A root for each test, and a check that nothing but files that were asked for is left."""
    folder = tmp_path / "root"
    cache.set_root(folder)
    with nothing_left(tmp_path):
        yield folder
        cache.set_root(None)
        cache.set_limit()


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# -------------------- the root --------------------


def test_the_root_is_the_one_set_or_named_or_the_systems(tmp_path, monkeypatch):
    monkeypatch.setenv("DATAVIEW_ROOT", str(tmp_path / "named"))
    assert cache.root() == tmp_path / "root"  # what was set comes first
    cache.set_root(None)
    assert cache.root() == tmp_path / "named"
    monkeypatch.setenv("DATAVIEW_ROOT", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "system"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.root() == tmp_path / "system" / "dataview"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root() == tmp_path / ".cache" / "dataview"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.root() == tmp_path / "Library" / "Caches" / "dataview"
    assert list(tmp_path.iterdir()) == []  # asking makes no folder


def test_a_url_is_no_place_where_files_are_kept(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"at paths; got 's3://bucket/x'; dv\.cache\.download"):
        dv.cache.set_root("s3://bucket/x")
    dv.cache.set_root(None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATAVIEW_ROOT", "s3://me:secret@bucket/x")
    with pytest.raises(ValueError, match="at paths; got 's3://me:…@bucket/x'"):
        dv.cache.root()
    monkeypatch.setenv("DATAVIEW_ROOT", str(tmp_path))
    for url in ("https://host/x.npy", "memory://x.npy"):
        with pytest.raises(ValueError, match="at paths; got"):
            dv.cache.make_or_load(url, np.save, np.load)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_root_is_absolute_and_home_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache.set_root("here")
    assert cache.root() == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    cache.set_root("~/there")
    assert cache.root() == tmp_path / "there"
    for wrong in (3, ""):
        with pytest.raises(TypeError, match="path of a folder"):
            cache.set_root(wrong)


def test_the_module_shows_its_public_names_alone():
    assert dir(cache) == sorted(cache.__all__)
    assert all(not name.startswith("_") for name in cache.__all__)


# -------------------- make or load --------------------


def saved(path):
    data = np.arange(6.0)
    np.save(path, data)
    return data


def never(path):
    raise AssertionError("made or loaded once too often")


def test_a_file_is_made_once_and_loaded_after_that(root):
    made = cache.make_or_load("a/b.npy", saved, never)
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(cache.make_or_load("a/b.npy", never, np.load), made)
    assert files_in(root) == ["b.npy"] and (root / "a" / "b.npy").exists()


def test_what_the_creator_returns_is_returned_and_its_path_is_new(root):
    def creator(path):
        assert path.name == "x.tar.gz" and not path.exists() and path != root / "x.tar.gz"
        path.write_text("data")
        (path.parent / "scratch").write_text("left behind")
        return creator

    assert cache.make_or_load("x.tar.gz", creator, never) is creator
    assert cache.make_or_load("x.tar.gz", never, pathlib.Path.read_text) == "data"
    assert files_in(root) == ["x.tar.gz"]


def test_a_folder_can_be_made(root):
    def creator(path):
        path.mkdir()
        (path / "a.txt").write_text("a")

    assert cache.make_or_load("folder", creator, never) is None
    assert cache.make_or_load("folder", never, os.listdir) == ["a.txt"]


def test_absolute_paths_stay_and_none_leaves_the_root(tmp_path, root):
    cache.make_or_load(tmp_path / "x.npy", saved, never)
    assert (tmp_path / "x.npy").exists() and not root.exists()
    for name in ("../x", "a/../../x", ".", ""):
        with pytest.raises(ValueError, match="under the root"):
            cache.make_or_load(name, never, never)
    with pytest.raises(TypeError, match="text or a path"):
        cache.make_or_load(3, never, never)
    with pytest.raises(TypeError, match="loader is a function of a path"):
        cache.make_or_load("x", saved, None)


def test_a_name_of_any_length_that_the_system_takes(root):
    for name in ("x" * 251 + ".npy", "ü" * 100):
        np.testing.assert_array_equal(cache.make_or_load(name, save_exactly, never), 3)


def save_exactly(path):
    path.write_bytes(b"3")
    return 3


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_creator_that_fails_leaves_nothing(root, error):
    def creator(path):
        path.write_text("half")
        raise error

    with pytest.raises(type(error)) as found:
        cache.make_or_load("x.txt", creator, never)
    assert files_in(root) == []
    if isinstance(error, Exception):
        assert f"while {root / 'x.txt'} was made" in found.value.__notes__[0]
    cache.make_or_load("x.txt", saved_text, never)


def saved_text(path):
    path.write_text("text")


def test_a_creator_that_makes_no_file_is_told(root):
    with pytest.raises(FileNotFoundError, match=r"no file or folder at the path.*made x\.npy"):
        cache.make_or_load("x", saved, never)
    with pytest.raises(FileNotFoundError, match=r"no file or folder at the path it was given"):
        cache.make_or_load("x", lambda path: 3, never)
    assert files_in(root) == []


def test_a_loader_that_fails_says_which_file(root):
    cache.make_or_load("x.txt", saved_text, never)
    with pytest.raises(ValueError) as found:
        cache.make_or_load("x.txt", never, np.load)
    assert "remove it to have it made anew" in found.value.__notes__[-1]
    assert files_in(root) == ["x.txt"]


def test_a_creator_that_asks_for_its_own_path_is_told(root):
    def creator(path):
        return cache.make_or_load("x", saved_text, never)

    with pytest.raises(RuntimeError, match="asks for that path itself"):
        cache.make_or_load("x", creator, never)

    def other(path):
        cache.make_or_load("y", saved_text, never)
        saved_text(path)

    cache.make_or_load("x", other, never)
    assert files_in(root) == ["x", "y"]


def test_the_first_file_stays_even_if_another_program_made_it(root):
    def creator(path):
        (root / "x").write_text("first")
        path.write_text("second")
        return "second"

    assert cache.make_or_load("x", creator, never) == "second"
    assert cache.make_or_load("x", never, pathlib.Path.read_text) == "first"


def test_threads_make_a_file_once(root):
    made = []

    def creator(path):
        made.append(path)
        return saved(path)

    def ask(_):
        return cache.make_or_load("x.npy", creator, np.load).sum()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(40))) == {15.0}
    assert len(made) == 1


MAKER = """
import os, sys, numpy as np
from dataview import cache
from dataview.cache import transfer
def creator(path):
    with open(sys.argv[2], "a") as file:
        file.write("made\\n")
    data = np.arange(200_000.0)
    np.save(path, data)
    return data
print(cache.make_or_load(sys.argv[1], creator, np.load).sum())
"""


def test_processes_make_a_file_once(tmp_path):
    command = [sys.executable, "-c", MAKER, tmp_path / "x.npy", tmp_path / "log"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {process.communicate()[0].strip() for process in running} == {"19999900000.0"}
    assert (tmp_path / "log").read_text() == "made\n"


KILLED = """
import os, signal, sys
from dataview import cache
from dataview.cache import transfer
def creator(path):
    path.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
cache.make_or_load(sys.argv[1], creator, None.__class__)
"""


def test_a_killed_process_blocks_nobody_and_its_half_file_goes(root):
    place = root / "x.txt"
    process = subprocess.run([sys.executable, "-c", KILLED, place], check=False)
    assert process.returncode == -signal.SIGKILL and len(list(root.iterdir())) == 2
    cache.make_or_load(place, saved_text, never)
    assert place.read_text() == "text"


FORKED = """
import os, signal, sys
from dataview import cache
from dataview.cache import transfer
def creator(path):
    child = os.fork()
    if not child:
        os._exit(len(os.read(0, 1)))
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
cache.make_or_load(sys.argv[1], creator, None.__class__)
"""


def test_a_process_that_a_killed_one_had_forked_holds_no_lock(root):
    command = [sys.executable, "-c", FORKED, root / "x"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        child = int(process.stdout.readline())
        assert process.wait() == -signal.SIGKILL
        os.kill(child, 0)  # it runs
        cache.make_or_load(root / "x", saved_text, never)
        process.stdin.close()  # by which the child ends


def test_a_root_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    cache.set_root(tmp_path / "file" / "root")
    with pytest.raises(OSError, match=r"DATAVIEW_ROOT or dv\.cache\.set_root"):
        cache.make_or_load("x", saved_text, never)


def test_the_variable_reaches_other_processes(tmp_path):
    program = "import dataview as dv; print(dv.cache.root())"
    assert printed("-c", program, DATAVIEW_ROOT=tmp_path).strip() == str(tmp_path)


# -------------------- downloads --------------------


@pytest.fixture
def server(root, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as found:
        found.files["/x.bin"] = bytes(range(256)) * 2000
        yield found


def sum_of(data):
    return hashlib.sha256(data).hexdigest()


def test_a_file_is_downloaded_once(server, root):
    url = f"{server.url}/x.bin"
    path = cache.download(url)
    assert path.read_bytes() == server.files["/x.bin"] and path.is_relative_to(root)
    assert path.name.endswith("-x.bin")
    assert cache.download(url) == path == cache.download(url, sum_of(server.files["/x.bin"]))
    assert server.paths() == ["/x.bin"] and files_in(root) == [path.name]


def test_threads_download_a_file_once(server):
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(cache.download, [f"{server.url}/x.bin"] * 24))) == 1
    assert server.paths() == ["/x.bin"]


def test_processes_download_a_file_once(server, root):
    program = "import sys; from dataview import cache; print(cache.download(sys.argv[1]))"
    command = [sys.executable, "-c", program, f"{server.url}/x.bin"]
    environment = {**os.environ, "DATAVIEW_ROOT": str(root)}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    (path,) = {process.communicate()[0].strip() for process in running}
    assert pathlib.Path(path).read_bytes() == server.files["/x.bin"]
    assert server.paths() == ["/x.bin"]


def test_a_wrong_sum_keeps_nothing_and_says_both(server, root):
    right, wrong = sum_of(server.files["/x.bin"]), "0" * 64
    with pytest.raises(ValueError, match=f"sha256 is {right}, expected {wrong}; it is not kept"):
        cache.download(f"{server.url}/x.bin", wrong)
    assert files_in(root) == []
    cache.download(f"{server.url}/x.bin", f"sha256:{right.upper()}")
    for text in ("12", "md5:" + "0" * 32, "g" * 64):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            cache.download(f"{server.url}/x.bin", text)


def test_a_kept_file_that_has_not_the_sum_is_fetched_anew(server):
    path = cache.download(f"{server.url}/x.bin")
    path.write_bytes(b"damaged")
    assert cache.download(f"{server.url}/x.bin") == path  # no sum is given: it is there
    cache.download(f"{server.url}/x.bin", sum_of(server.files["/x.bin"]))
    assert path.read_bytes() == server.files["/x.bin"]


def test_urls_of_one_name_are_files_of_their_own(server, root):
    server.files |= {"/get?name=a.npy&x=/../..": b"a", "/get?name=b": b"b", "/a%2F..%2Fc": b"c"}
    server.files["/%E2%82%AC%20x.npy"] = b"d"
    paths = [cache.download(server.url + path) for path in list(server.files)[1:]]
    assert [path.read_bytes() for path in paths] == [b"a", b"b", b"c", b"d"]
    assert {path.parent for path in paths} == {root / "downloads"}
    assert all(path.name.isascii() and set(path.name).isdisjoint("?&/ %") for path in paths)
    assert paths[-1].suffix == ".npy"


@pytest.mark.parametrize(
    ("number", "error"),
    [(404, FileNotFoundError), (410, FileNotFoundError), (403, PermissionError),
     (401, PermissionError), (400, ConnectionError), (500, ConnectionError)],
)  # fmt: skip
def test_what_a_server_refuses_is_an_error_at_once(server, root, number, error):
    server.faults["/x.bin"] = status(number)
    with pytest.raises(error, match=f"server answers {number}") as found:
        cache.download(f"{server.url}/x.bin", deadline=0)
    assert f"{server.url}/x.bin" in str(found.value)
    assert files_in(root) == [] and len(server.asked) == 1


@pytest.mark.parametrize("number", [404, 403, 400])
def test_what_will_not_change_is_asked_for_once(server, number):
    server.faults["/x.bin"] = status(number)
    with pytest.raises(OSError):
        cache.download(f"{server.url}/x.bin", deadline=1000)
    assert len(server.asked) == 1


@pytest.mark.parametrize("fault", [status(500), status(503), status(429), reset, cut(0), cut(1000)])
def test_what_passes_is_tried_again(server, fault):
    server.faults["/x.bin"] = times(2, fault)
    assert (
        cache.download(f"{server.url}/x.bin", deadline=1000).read_bytes() == server.files["/x.bin"]
    )
    assert len(server.asked) == 3


def test_a_body_that_was_cut_goes_on_where_it_stopped(server):
    data = server.files["/x.bin"]
    server.faults["/x.bin"] = times(1, cut(400_000))
    path = cache.download(f"{server.url}/x.bin", sum_of(data), deadline=1000)
    assert path.read_bytes() == data
    start = int(server.asked[1][1]["Range"].removeprefix("bytes=").removesuffix("-"))
    assert 0 < start <= 400_000


def test_a_file_that_changed_meanwhile_begins_anew(server):
    def changing(handler):
        cut(400_000)(handler)
        server.files["/x.bin"] = b"new" * 300_000

    server.faults["/x.bin"] = times(1, changing)
    assert cache.download(f"{server.url}/x.bin", deadline=1000).read_bytes() == b"new" * 300_000


@pytest.mark.parametrize("answer", [{"Content-Range": "bytes 3-9/10"}, {}])
def test_a_rest_that_was_not_asked_for_is_not_taken(server, answer):
    def wrong(handler):
        if "Range" not in handler.headers:
            return False
        return handler.answer(206, b"wrong", answer)

    cutting, data = times(1, cut(400_000)), server.files["/x.bin"]
    server.faults["/x.bin"] = lambda handler: cutting(handler) is not False or wrong(handler)
    assert cache.download(f"{server.url}/x.bin", deadline=1000).read_bytes() == data


@pytest.mark.parametrize(
    ("first", "rest", "size"),
    [
        ({"ETag": '"v1"'}, {"ETag": '"v2"'}, 900_000),
        ({"ETag": '"v1"'}, {}, 900_000),
        ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"ETag": '"v2"'}, 900_000),
        (
            {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"},
            {"Last-Modified": "Mon, 01 Jan 2024 00:00:09 GMT"},
            900_000,
        ),
        ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {}, 900_003),
    ],
)
def test_a_rest_of_another_version_is_not_joined_to_the_first_half(server, first, rest, size):
    old, new = b"old" * 300_000, (b"new" * 300_001)[:size]

    def ignoring(handler):  # a server that sends a part whatever If-Range says
        asked = handler.headers.get("Range")
        if asked:
            handler.answer_part(asked, new, rest)
        elif len(server.asked) > 1:
            handler.answer(200, new, rest)
        else:
            handler.answer(200, old[:450_000], first, len(old))
            handler.close_connection = True

    server.faults["/x.bin"] = ignoring
    assert cache.download(f"{server.url}/x.bin", deadline=1000).read_bytes() == new
    assert [part is None for part in server.ranges()] == [True, False, True]


def test_a_rest_without_a_time_is_taken_from_a_server_that_has_no_marks(server):
    data, time = server.files["/x.bin"], {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}

    def short(handler):
        asked = handler.headers.get("Range")
        if asked:
            handler.answer_part(asked, data, {})
        else:
            handler.answer(200, data[:400_000], time, len(data))
            handler.close_connection = True

    server.faults["/x.bin"] = short
    assert cache.download(f"{server.url}/x.bin", deadline=1000).read_bytes() == data
    assert len(server.asked) == 2


def test_a_server_that_has_no_rest_is_asked_for_all(server):
    def none(handler):
        return handler.answer(416) if "Range" in handler.headers else False

    cutting, data = times(1, cut(400_000)), server.files["/x.bin"]
    server.faults["/x.bin"] = lambda handler: (
        None if cutting(handler) is not False else none(handler)
    )
    assert cache.download(f"{server.url}/x.bin", deadline=1000).read_bytes() == data


def test_a_short_body_is_no_file(server, root):
    server.faults["/x.bin"] = cut(1000)
    with pytest.raises(ConnectionError, match="could not be fetched"):
        cache.download(f"{server.url}/x.bin", deadline=0)
    assert files_in(root) == []


def test_a_length_that_is_too_small_is_found_by_the_sum(server, root):
    data = server.files["/x.bin"]
    server.faults["/x.bin"] = lambda handler: handler.answer(200, data, length=100)
    with pytest.raises(ValueError, match=sum_of(data[:100])):
        cache.download(f"{server.url}/x.bin", sum_of(data))
    assert files_in(root) == []


def test_a_server_that_is_silent_is_given_up(server, root):
    done = threading.Event()
    server.faults["/x.bin"] = lambda handler: done.wait()
    try:
        with pytest.raises(ConnectionError, match="timed out"):
            cache.download(f"{server.url}/x.bin", timeout=0.05, deadline=0)
    finally:
        done.set()
    assert files_in(root) == []


def test_a_connection_that_is_refused_is_told(root, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as bound:  # a port on which nobody listens
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/x.bin"
        with pytest.raises(ConnectionError, match="could not be fetched"):
            cache.download(url, deadline=0)
    assert files_in(root) == []


def test_a_redirect_is_followed_and_a_ring_of_them_told(server, root):
    server.faults["/old"] = redirect("/x.bin")
    assert cache.download(f"{server.url}/old").read_bytes() == server.files["/x.bin"]
    server.faults["/ring"] = redirect("/ring")
    with pytest.raises(ConnectionError, match="redirects"):
        cache.download(f"{server.url}/ring", deadline=5)
    assert len(files_in(root)) == 1


def test_progress_is_told(server, capsys):
    told = []
    size = len(server.files["/x.bin"])
    cache.download(f"{server.url}/x.bin", progress=lambda *counts: told.append(counts))
    assert told[-1] == (size, size) and told == sorted(told)
    server.files["/y"] = b"y" * 1000
    cache.download(f"{server.url}/y", progress=True)
    assert "fetching: 100%" in capsys.readouterr().err
    with pytest.raises(TypeError, match="progress= is True, False or a function"):
        cache.download(f"{server.url}/z", progress=3)


def test_a_report_that_fails_leaves_nothing(server, root):
    def report(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.download(f"{server.url}/x.bin", progress=report)
    assert files_in(root) == []


def test_what_is_no_url_is_told():
    for given in ("x.npy", "/x.npy", pathlib.Path("x"), None):
        with pytest.raises(ValueError, match="download takes a URL"):
            cache.download(given)


@pytest.mark.parametrize("rest", ["", "/x", "127.0.0.1:99999/x"])
def test_a_url_that_no_server_can_have_is_told(rest):
    with pytest.raises(ValueError, match="is no URL of a web server"):
        cache.download(f"http://{rest}", deadline=1000)


def test_what_a_file_system_refuses_names_the_url():
    for url in ("nowhere://x.npy", "memory://none.npy"):
        with pytest.raises((ValueError, FileNotFoundError)) as found:
            cache.download(url)
        assert found.value.__notes__ == [f"while {url} was fetched"]
    with pytest.raises(TypeError, match="storage_options is a mapping"):
        cache.download("memory://x", storage_options=3)


def test_a_password_is_not_in_messages(server):
    url = server.url.replace("//", "//me:secret@") + "/none"
    with pytest.raises(FileNotFoundError) as found:
        cache.download(url)
    assert "secret" not in str(found.value) and "me:…@127.0.0.1" in str(found.value)


def test_other_file_systems_are_downloaded_from(remote_files):
    path = cache.download("memory://folder/x.bin", sum_of(b"remote"))
    assert path.read_bytes() == b"remote" and path.name.endswith("-x.bin")
    with pytest.raises(FileNotFoundError):
        cache.download("memory://folder/none")
    with pytest.raises(IsADirectoryError, match="only files are fetched"):
        cache.download("memory://folder")


@pytest.fixture
def remote_files():
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe("/folder/x.bin", b"remote")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.mark.parametrize(
    ("url", "extra", "library"),
    [("http://127.0.0.1:1/x", "download", "pooch"), ("memory://x", "remote", "fsspec")],
)
def test_a_library_that_is_missing_is_told(url, extra, library, monkeypatch, root):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"\.\[{extra}\]"):
        cache.download(url)
    assert files_in(root) == []


# -------------------- copies of remote files --------------------


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


X = np.arange(12.0).reshape(4, 3)


@pytest.fixture
def web(server):
    """A server with an array, and a limit by bytes alone, whatever else is on the disk."""
    cache.set_limit(disk=1)
    server.files["/x.npy"] = npy(X)
    return server


def test_a_url_is_opened_and_fetched_once(web, root):
    for _ in range(3):
        with dv.open(f"{web.url}/x.npy") as d:
            np.testing.assert_array_equal(d[1:](), X[1:])
            assert f"a copy of {web.url}/x.npy" in dv.View._describe.__doc__ + repr(d)
    assert len(web.asked) == 3 and files_in(root) == ["about.json", "x.npy"]
    assert [headers.get("If-None-Match") is None for _, headers in web.asked] == [
        True,
        False,
        False,
    ]
    assert cache.info().bytes == len(web.files["/x.npy"])
    (kept,) = cache.info().files
    assert (kept.url, kept.in_use) == (f"{web.url}/x.npy", False) and kept.path.exists()


@pytest.mark.parametrize("has_marks", [True, False])
def test_a_file_that_changed_is_fetched_anew_and_the_old_view_reads_on(web, has_marks):
    web.has_marks = has_marks  # without them, the length tells
    old = dv.open(f"{web.url}/x.npy")
    web.files["/x.npy"] = npy(np.ones(5))
    np.testing.assert_array_equal(dv.open(f"{web.url}/x.npy")(), np.ones(5))
    np.testing.assert_array_equal(old(), X)
    assert len(cache.info().files) == 2


@pytest.mark.parametrize("length", [-1, 0, 300])
def test_a_copy_that_somebody_has_changed_is_fetched_anew(web, length):
    dv.open(f"{web.url}/x.npy")._close()
    (kept,) = cache.info().files
    os.truncate(kept.path, length % len(web.files["/x.npy"]) if length < 0 else length)
    with dv.open(f"{web.url}/x.npy") as d:
        np.testing.assert_array_equal(d(), X)
    with dv.open(f"{web.url}/x.npy") as d:
        np.testing.assert_array_equal(d(), X)
    assert len(web.asked) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url": 3', "\0" * 40])
def test_a_copy_of_which_nothing_is_known_any_more_is_fetched_anew(web, root, text):
    dv.open(f"{web.url}/x.npy")._close()
    (kept,) = cache.info().files
    (kept.path.parent / "about.json").write_text(text)
    assert [one.url for one in cache.info().files] == [""]
    with dv.open(f"{web.url}/x.npy") as d:
        np.testing.assert_array_equal(d(), X)
    assert cache.clear() == 2 * len(web.files["/x.npy"])
    assert files_in(root) == []


def test_an_old_version_goes_first(web):
    urls = [f"{web.url}/{name}.npy" for name in "xy"]
    web.files["/y.npy"] = npy(X)
    for url in urls:
        dv.open(url)._close()
    web.files["/y.npy"] = npy(X + 1)
    size = len(web.files["/y.npy"])
    cache.set_limit(bytes=2 * size, disk=1)
    dv.open(urls[1])._close()
    assert [kept.url for kept in cache.info().files] == urls


def test_the_least_recently_used_goes_first(web):
    names = [f"/{number}.npy" for number in range(4)]
    web.files |= {name: npy(X + number) for number, name in enumerate(names)}
    cache.set_limit(bytes=3 * len(npy(X)), disk=1)
    for name in names[:3]:
        dv.open(web.url + name)._close()
    dv.open(web.url + names[0])._close()  # used again
    dv.open(web.url + names[3])._close()
    kept = [one.url.removeprefix(web.url) for one in cache.info().files]
    assert kept == [names[2], names[0], names[3]]
    used = [one.used for one in cache.info().files]
    assert used == sorted(used) and cache.info().bytes <= cache.info().limit


def test_files_in_use_stay(web, root):
    web.files |= {"/y.npy": npy(X + 1), "/z.npy": npy(X + 2)}
    cache.set_limit(bytes=2 * len(npy(X)), disk=1)
    x, y = (dv.open(f"{web.url}/{name}.npy") for name in "xy")
    assert [kept.in_use for kept in cache.info().files] == [True, True]
    part = x[1:3]
    del x
    with pytest.raises(OSError, match=r"no room for .* views use .* dv\.cache\.set_limit"):
        dv.open(f"{web.url}/z.npy")
    assert cache.clear() == 0
    np.testing.assert_array_equal(part(), X[1:3])
    y._close()
    dv.open(f"{web.url}/z.npy")._close()
    assert sorted(path for path in files_in(root) if path != "about.json") == ["x.npy", "z.npy"]
    del part
    gc.collect()
    assert cache.clear() == 2 * len(npy(X)) and files_in(root) == []


def test_a_file_in_use_by_another_process_stays(web, root):
    url = f"{web.url}/x.npy"
    program = (
        "import sys, dataview as dv; d = dv.open(sys.argv[1]); print(1, flush=True); input();"
        "print(d().sum())"
    )
    environment = {**os.environ, "DATAVIEW_ROOT": str(root)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", program, url]
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdout.readline() == "1\n"
        assert cache.info().files[0].in_use and cache.clear() == 0
        assert process.communicate("\n")[0].strip() == "66.0"
    assert cache.clear(url) == len(npy(X))


def test_a_view_that_is_loaded_from_a_pickle_uses_the_file(web):
    d = dv.open(f"{web.url}/x.npy")
    pickled = pickle.dumps(d[1:])
    d._close()
    loaded = pickle.loads(pickled)
    assert cache.clear() == 0
    np.testing.assert_array_equal(loaded(), X[1:])


def test_one_url_is_cleared(web):
    web.files["/y.npy"] = npy(X)
    for name in "xy":
        dv.open(f"{web.url}/{name}.npy")._close()
    assert cache.clear(f"{web.url}/x.npy") == len(npy(X))
    assert [kept.url for kept in cache.info().files] == [f"{web.url}/y.npy"]
    cache.clear()
    assert cache.clear() == 0 and cache.info().files == ()


def test_what_is_larger_than_the_limit_is_not_fetched(web, root):
    cache.set_limit(bytes=100, disk=1)
    with pytest.raises(OSError, match=r"up to 100 are kept; dv\.cache\.set_limit"):
        dv.open(f"{web.url}/x.npy", keep=True)
    assert files_in(root) == []
    np.testing.assert_array_equal(dv.open(f"{web.url}/x.npy")[1](), X[1])  # where it is
    assert files_in(root) == []
    of_bytes = ({"bytes": -1}, {"bytes": "64 GB"}, {"bytes": True})
    for wrong in (*of_bytes, {"disk": 80}, {"disk": "0.8"}, {"disk": True}):
        with pytest.raises(ValueError, match="set_limit: "):
            cache.set_limit(**wrong)


def test_a_disk_that_is_full_keeps_the_last_file_alone(web, root):
    web.files["/y.npy"] = npy(X)
    cache.set_limit(disk=0)
    for name in "xy":
        dv.open(f"{web.url}/{name}.npy")._close()
    assert files_in(root) == ["about.json", "y.npy"]


def test_on_a_full_disk_copies_that_nobody_uses_make_room(web, root, monkeypatch):
    size = len(web.files["/x.npy"])
    web.files |= {f"/{name}.npy": npy(X + ord(name)) for name in "abcd"}
    web.files["/large.npy"] = npy(np.arange(40.0))
    own = transfer.Arriving.write

    def write(self, data):  # a disk on which there is room for three copies
        held = sum(path.stat().st_size for path in root.rglob("*.npy"))
        if held + len(data) > 3 * size + size // 2:
            own(self, data[: len(data) // 2])
            self.file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        own(self, data)

    monkeypatch.setattr(transfer.Arriving, "write", write)
    used = dv.open(f"{web.url}/a.npy")
    for name in "bcdb":
        np.testing.assert_array_equal(dv.open(f"{web.url}/{name}.npy")(), X + ord(name))
        assert len(cache.info().files) <= 3
    with dv.open(f"{web.url}/large.npy") as d:
        np.testing.assert_array_equal(d(), np.arange(40.0))
    np.testing.assert_array_equal(used(), X + ord("a"))
    web.files["/more.npy"] = npy(np.zeros(size))
    for fetched in (dv.open, cache.download):
        with pytest.raises(
            OSError, match=r"no room for it; dv\.cache\.set_root.*more\.npy"
        ) as found:
            fetched(f"{web.url}/more.npy")
        assert found.value.errno == errno.ENOSPC
    assert files_in(root) == ["a.npy", "about.json"]
    np.testing.assert_array_equal(used(), X + ord("a"))


def test_without_a_connection_the_copy_is_opened_and_that_is_said(web):
    url = f"{web.url}/x.npy"
    dv.open(url)._close()
    web.faults["/x.npy"] = status(503)
    with pytest.warns(RuntimeWarning, match=r"503.*; the copy is opened that was last used at 20"):
        np.testing.assert_array_equal(dv.open(url)(), X)
    web.faults["/x.npy"] = status(404)
    with pytest.raises(FileNotFoundError):
        dv.open(url)


def test_of_a_copy_that_does_not_open_the_url_is_told(web):
    url = f"{web.url}/x.npy"
    web.files["/x.npy"] = b"no array"
    for read in (lambda: dv.open(url), lambda: dv.open([url], layout="parts", manifest=True)):
        with pytest.raises(ValueError, match="is not an") as error:
            read()
        assert url in "".join([str(error.value), *getattr(error.value, "__notes__", [])])


def test_a_server_that_always_answers_304_is_told(web):
    web.faults["/x.npy"] = status(304)
    with pytest.raises(ConnectionError, match="server answers 304"):
        dv.open(f"{web.url}/x.npy")


def test_threads_open_a_url_and_evict_each_others_files(web):
    web.files |= {f"/{number}.npy": npy(X + number) for number in range(6)}
    cache.set_limit(bytes=5 * len(npy(X)), disk=1)

    def read(number):
        with dv.open(f"{web.url}/{number % 6}.npy") as d:
            return (d() == X + number % 6).all()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(60)))
    assert cache.info().bytes <= cache.info().limit


READER = """
import sys, numpy as np, dataview as dv
dv.cache.set_limit(bytes=int(sys.argv[2]), disk=1)
for n in range(12):
    with dv.open(f"{sys.argv[1]}/{n % 4}.npy") as d:
        assert (d() == np.arange(12.0).reshape(4, 3) + n % 4).all()
print("read")
"""


def test_processes_open_urls_and_evict_each_others_files(web, root):
    web.files |= {f"/{number}.npy": npy(X + number) for number in range(4)}
    command = [sys.executable, "-c", READER, web.url, str(3 * len(npy(X)))]
    environment = {**os.environ, "DATAVIEW_ROOT": str(root)}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    assert {process.communicate()[0] for process in running} == {"read\n"}
    assert cache.info().bytes <= 3 * len(npy(X))


def test_what_a_killed_process_began_is_swept(web, root):
    (root / "kept" / ".abc.making").mkdir(parents=True)
    (root / "kept" / ".abc.making" / "half").write_text("half")
    (root / "kept" / ".abc.lock").write_text("")
    dv.open(f"{web.url}/x.npy")._close()
    assert list(root.rglob(".*")) == []


STARTED = """
import sys
import dataview as dv
dv.open(sys.argv[1])
"""


def test_a_process_that_is_killed_while_it_fetches_blocks_nobody(web, root):
    began, done = threading.Event(), threading.Event()

    def stopping(handler):
        cut(200_000)(handler)
        began.set()
        done.wait()

    web.files["/x.npy"] = npy(np.zeros(50_000))
    web.faults["/x.npy"] = times(1, stopping)
    command = [sys.executable, "-c", STARTED, f"{web.url}/x.npy"]
    environment = {**os.environ, "DATAVIEW_ROOT": str(root)}
    with subprocess.Popen(command, env=environment) as process:
        began.wait()
        process.kill()
    done.set()
    assert process.returncode == -signal.SIGKILL and list(root.rglob(".*.making"))
    np.testing.assert_array_equal(dv.open(f"{web.url}/x.npy")(), np.zeros(50_000))


def test_what_cannot_be_opened_is_not_in_use(web):
    web.files |= {"/x.csvs": b"a,b", "/bad.npy": b"no array"}
    for name in ("x.csvs", "bad.npy"):
        with pytest.raises(ValueError):
            dv.open(f"{web.url}/{name}")
    gc.collect()
    assert [kept.in_use for kept in cache.info().files] == [False, False]
    assert cache.clear() == 11


def test_what_others_put_into_the_folder_stays(web, root):
    dv.open(f"{web.url}/x.npy")._close()
    (root / "kept" / "note.txt").write_text("mine")
    assert len(cache.info().files) == 1
    cache.clear()
    assert files_in(root) == ["note.txt"]


def test_files_of_each_format_are_opened(web, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
    np.savez(tmp_path / "x.npz", x=X)
    with zarr.storage.ZipStore(tmp_path / "x.zarr.zip", mode="w") as store:
        zarr.open_group(store).create_array("x", data=X)
    for name in ("x.h5", "x.npz", "x.zarr.zip"):
        web.files[f"/{name}"] = (tmp_path / name).read_bytes()
        with dv.open(f"{web.url}/{name}") as d:
            np.testing.assert_array_equal(d.x(), X)
            assert cache.info().files[-1].in_use
        assert not cache.info().files[-1].in_use
    web.files["/get?what=x"] = npy(X)
    np.testing.assert_array_equal(dv.open(f"{web.url}/get?what=x")(), X)  # by how it begins


def test_only_reading_is_for_urls(web):
    url = f"{web.url}/x.npy"
    with pytest.raises(ValueError, match="read as a local copy, which is opened with mode 'r'"):
        dv.open(url, "r+")
    for write in (lambda: dv.open(url, "w", shape=3, dtype="f8"), lambda: dv.View(X)._save(url)):
        with pytest.raises(ValueError, match="data are written to files of this machine"):
            write()
    with pytest.raises(TypeError, match="no option 'pickles'"):
        dv.open(url, pickles=True)
    assert cache.clear() == 0


def test_other_file_systems_are_opened(remote_files, root):
    cache.set_limit(disk=1)
    remote_files.pipe("/folder/x.npy", npy(X))
    for _ in range(2):
        np.testing.assert_array_equal(dv.open("memory://folder/x.npy")(), X)
    assert len(cache.info().files) == 1
    remote_files.pipe("/folder/x.npy", npy(X + 1))
    np.testing.assert_array_equal(dv.open("memory://folder/x.npy")(), X + 1)
    with pytest.raises(IsADirectoryError, match=r"only files are fetched.*\.zarr\.zip"):
        dv.open("memory://folder")
    with pytest.raises(FileNotFoundError):
        dv.open("memory://folder/none.npy")


def test_a_file_url_is_the_file_itself(tmp_path, root):
    np.save(tmp_path / "a b.npy", X)
    url = (tmp_path / "a b.npy").as_uri()
    with dv.open(url, "r+") as d:
        d[0] = 7
    np.testing.assert_array_equal(dv.open(url)[0](), [7] * 3)
    assert not root.exists()


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("in/x.npy", npy(X))
    return path.read_bytes()


def test_what_is_in_an_archive_is_opened(web, tmp_path):
    web.files["/x.zip"] = zipped(tmp_path / "x.zip")
    for url in (f"zip://in/x.npy::file://{tmp_path}/x.zip", f"zip://in/x.npy::{web.url}/x.zip"):
        for _ in range(2):
            with dv.open(url) as d:
                np.testing.assert_array_equal(d(), X)
    assert [link for link in open_files().values() if link.startswith(str(tmp_path))] == []
    assert web.paths() == ["/x.zip"] * 2 and len(cache.info().files) == 3
    assert not any(kept.in_use for kept in cache.info().files)


def test_options_of_a_file_system_are_part_of_the_name(remote_files):
    remote_files.pipe("/x.npy", npy(X))
    for options in (None, {"use_listings_cache": False}, {"use_listings_cache": True}):
        np.testing.assert_array_equal(dv.open("memory://x.npy", storage_options=options)(), X)
    assert len(cache.info().files) == 3
