"""Bytes of files elsewhere: few requests, whatever a server does, and nothing left behind."""

from __future__ import annotations

import errno
import hashlib
import importlib
import multiprocessing
import socket
import time
import zipfile
from email.utils import formatdate

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.sources.remote import web
from dataview.sources.remote.reading import read_ranges
from leftovers import nothing_left
from servers import cut, redirect, reset, serving, status, times

DATA = np.random.default_rng(3).bytes(5000)

RANGES = [(4000, 100), (0, 8), (90, 10), (4050, 100), (7, 0), (8, 2)]
WANTED = [DATA[offset : offset + length] for offset, length in RANGES]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    with nothing_left(tmp_path):
        yield


@pytest.fixture
def server():
    with serving() as served:
        served.files["/x.bin"] = DATA
        yield served


def memory(data):
    fsspec.filesystem("memory").pipe("/remote/x.bin", data)
    return "memory://remote/x.bin"


@pytest.fixture
def forget():
    yield
    fsspec.filesystem("memory").rm("/remote", recursive=True)


# -------------------- which bytes --------------------


def places(folder, server):
    (folder / "x.bin").write_bytes(DATA)
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/x.bin", DATA)
    return [
        folder / "x.bin",
        str(folder / "x.bin"),
        f"file://{folder}/x.bin",
        memory(DATA),
        f"zip://in/x.bin::file://{folder}/x.zip",
        f"{server.url}/x.bin",
    ]


def test_ranges_in_any_order_from_all_places(tmp_path, server, forget):
    for url in places(tmp_path, server):
        assert read_ranges(url, RANGES) == WANTED
        assert read_ranges(url, iter(RANGES), gap=0) == WANTED
        assert read_ranges(url) == [DATA]
        assert read_ranges(url, []) == []
        assert read_ranges(url, [(3, 0)]) == [b""]
        assert read_ranges(url, np.array(RANGES)) == WANTED


def test_bytes_that_the_file_does_not_have(tmp_path, server, forget):
    for url in places(tmp_path, server):
        for beyond in ((4990, 11), (5000, 1), (9000, 3)):
            with pytest.raises(ValueError, match=r"has 5000 bytes, and those from .* asked for"):
                read_ranges(url, [(0, 3), beyond])


def test_no_such_file(tmp_path, server):
    urls = (tmp_path / "y", "memory://remote/no", f"{server.url}/no", "memory://no/such")
    for url in urls:
        begin = time.monotonic()
        for ranges in (None, [(0, 3)]):
            with pytest.raises(FileNotFoundError):
                read_ranges(url, ranges)
        assert time.monotonic() - begin < 5
    assert len(server.asked) == 2


def test_ranges_that_are_none():
    for wrong in ([3], [(1, 2, 3)], [(0.5, 2)], ["ab"]):
        with pytest.raises(TypeError, match=r"\(offset, length\), two integers; got"):
            read_ranges("memory://x", wrong)
    with pytest.raises(ValueError, match=r"0 or more; got \(-1, 3\)"):
        read_ranges("memory://x", [(-1, 3)])


# -------------------- how many requests --------------------


def test_neighbours_are_one_request(server):
    url = f"{server.url}/x.bin"
    assert read_ranges(url, RANGES, gap=80) == WANTED
    assert sorted(server.ranges()) == ["bytes=0-99", "bytes=4000-4149"]
    server.asked.clear()
    assert read_ranges(url, RANGES) == WANTED
    assert server.ranges() == ["bytes=0-4149"]


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 900)), max_size=12),
    st.integers(0, 300),
)
def test_any_ranges_are_few_runs(ranges, gap):
    wanted = [DATA[offset : offset + length] for offset, length in ranges]
    with serving() as server:
        server.files["/x.bin"] = DATA
        assert read_ranges(f"{server.url}/x.bin", ranges, gap=gap) == wanted
    asked = np.zeros(5000 + gap, bool)
    for offset, length in ranges:
        if length:
            asked[offset : offset + length + gap] = True
    assert len(server.asked) == np.sum(np.diff(asked.astype(int), prepend=0) == 1)


# -------------------- what servers do --------------------


def wrong_length(handler):
    handler.answer(206, DATA[:7], {"Content-Range": "bytes 0-6/5000"})


def another_part(handler):
    handler.answer(206, DATA[:100], {"Content-Range": "bytes 1-100/5000"})


def slow(handler):
    time.sleep(0.4)
    reset(handler)


@pytest.mark.parametrize(
    "fault", [status(500), status(503), reset, cut(50), wrong_length, another_part, slow]
)
def test_what_passes_is_tried_again(server, fault):
    server.faults["/x.bin"] = times(2, fault)
    assert read_ranges(f"{server.url}/x.bin", [(0, 100)], timeout=0.2) == [DATA[:100]]
    assert len(server.asked) >= 2


@pytest.mark.parametrize("fault", [status(500), reset, wrong_length])
def test_what_does_not_pass_is_told_in_time(server, fault):
    server.faults["/x.bin"] = fault
    begin = time.monotonic()
    with pytest.raises(ConnectionError, match="could not be"):
        read_ranges(f"{server.url}/x.bin", [(0, 100), (4000, 9)], gap=0, deadline=0.5)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("as_date", [False, True])
def test_a_server_is_asked_again_when_it_says(server, as_date, monkeypatch):
    later = formatdate(time.time() + 8, usegmt=True) if as_date else "7"
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    server.faults["/x.bin"] = times(1, status(503, {"Retry-After": later}))
    assert read_ranges(f"{server.url}/x.bin", [(0, 9)], deadline=20) == [DATA[:9]]
    assert len(waited) == 1 and 5 < waited[0] < 9
    server.faults["/x.bin"] = status(429, {"Retry-After": "3600"})
    server.asked.clear()
    with pytest.raises(ConnectionError, match=r"answers 429 .*Retry-After: 3600\).*deadline="):
        read_ranges(f"{server.url}/x.bin", [(0, 9)], deadline=20)
    assert len(server.asked) == 1


def test_a_server_that_is_not_there():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/x"
        with pytest.raises(ConnectionError, match="x could not be read"):
            read_ranges(url, [(0, 1)], deadline=0.3)


def test_what_is_forbidden_is_asked_once(server):
    server.faults["/x.bin"] = status(403)
    with pytest.raises(PermissionError, match="403"):
        read_ranges(f"{server.url}/x.bin", [(0, 1)])
    assert len(server.asked) == 1


def test_a_redirect_is_followed(server):
    server.faults["/y"] = redirect("/x.bin")
    assert read_ranges(f"{server.url}/y", RANGES) == WANTED


def test_a_server_without_ranges_is_asked_once_for_all(server):
    server.has_ranges = False
    assert read_ranges(f"{server.url}/x.bin", RANGES, gap=0) == WANTED
    assert server.ranges().count(None) == 1
    with pytest.raises(ValueError, match="has 5000 bytes"):
        read_ranges(f"{server.url}/x.bin", [(4999, 2)])


def test_a_body_without_end_is_given_up(server, monkeypatch):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()  # without a length: it ends when the connection does
        handler.close_connection = True
        sent = 0
        while sent < 1 << 26:
            handler.wfile.write(bytes(1 << 16))
            sent += 1 << 16
        ended.append(sent)

    ended = []
    server.faults["/x.bin"] = endless
    monkeypatch.setattr(web, "MOST_WHOLE", 1 << 20)
    with pytest.raises(OSError, match=r"more than 1048576 bytes.*gives no parts") as found:
        read_ranges(f"{server.url}/x.bin", RANGES)
    assert found.value.errno == errno.EFBIG
    assert ended == []


def test_a_file_that_is_replaced_between_two_requests(server):
    mark = hashlib.md5(DATA).hexdigest()

    def replaced(handler):
        if handler.headers["Range"] == "bytes=0-0":
            return False
        headers = {"ETag": f'"{mark}2"', "Content-Range": "bytes 4000-4000/5000"}
        return handler.answer(206, b"x", headers)

    server.faults["/x.bin"] = replaced
    with pytest.raises(ValueError, match="was replaced while it was read"):
        read_ranges(f"{server.url}/x.bin", [(0, 1), (4000, 1)], gap=0)


@pytest.mark.parametrize("options", [{}, {"keep": False}, {"layout": "parts"}, {"get": "text"}])
@pytest.mark.parametrize("url", ["foo://bucket/x.npy", "zip://x.npy::memoryy://x.zip"])
def test_protocols_that_are_unknown_are_told_with_those_that_are_known(url, options):
    protocol = "memoryy" if "::" in url else "foo"
    with pytest.raises(ValueError, match=f"^{url}: fsspec knows no protocol '{protocol}'") as found:
        dv.open(url, **options)
    assert all(f" {name}," in str(found.value) for name in fsspec.available_protocols())
    assert ("did you mean 'memory'?" in str(found.value)) == (protocol == "memoryy")


def test_a_protocol_without_its_package_says_what_to_install(monkeypatch):
    there = {"class": "no_such_package.System", "err": "install no_such_package"}
    registry = importlib.import_module("fsspec.registry")  # which the mapping of this name hides
    monkeypatch.setitem(registry.known_implementations, "rare", there)
    for how in ({}, {"layout": "parts"}, {"get": "text"}):
        with pytest.raises(ImportError, match=r"^rare://x\.npy: .*'rare'.*install no_such_package"):
            dv.open("rare://x.npy", **how)


def test_a_file_system_that_fails_is_asked_again(monkeypatch, forget):
    url = memory(DATA)
    system = type(fsspec.filesystem("memory"))
    left = [ConnectionResetError("reset"), OSError(5, "busy"), TimeoutError("late")]
    opened = system.open

    def failing(self, *arguments, **options):
        if left:
            raise left.pop()
        return opened(self, *arguments, **options)

    monkeypatch.setattr(system, "open", failing)
    assert read_ranges(url, RANGES) == WANTED
    left.append(PermissionError("no"))
    with pytest.raises(PermissionError) as found:
        read_ranges(url, RANGES)
    assert found.value.__notes__ == ["while memory://remote/x.bin was read"]
    assert (found.value.errno, found.value.filename) == (errno.EACCES, url)


def test_read_after_a_fork(server, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.bin", DATA)
    urls = [f"{server.url}/x.bin", f"zip://x.bin::file://{tmp_path}/x.zip"]
    assert [read_ranges(url, RANGES) for url in urls] == [WANTED, WANTED]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.starmap(read_ranges, [(url, RANGES) for url in urls * 2])
    assert found == [WANTED] * 4
