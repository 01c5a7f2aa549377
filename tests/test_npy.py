"""`.npy` files are read and written as NumPy does; broken files raise an error."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import mmap
import os
import pickle
import struct
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from dataview.errors import PartialWriteError, StreamError
from dataview.index import parse
from dataview.index.algebra import Affine, Constant, Index, identity
from dataview.index.sizes import sizes
from dataview.sources import file_access, file_pieces, file_rows, new_files, npy
from dataview.view.face import node_of
from oracle import (
    NUMBERS,
    RECORD,
    accepted_chains,
    arrays,
    assert_same,
    examples,
    fill,
    follow,
    positions,
    scatter,
)

ALIGNED = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"]}, align=True)
NESTED = np.dtype([("x", ALIGNED, (2,)), ("y", [("z", ">i2", (2, 3)), ("w", "M8[us]")])])
NAMES = np.dtype([("名", "<f4"), ("é", ">i2", (2,))])
LATIN = np.dtype([("é", ">i2", (2,)), ("b", "S3")])
TITLED = np.dtype([(("title", "n"), "<i4"), ("v", "V3")])
MIXED_EMPTY = np.dtype([("a", "U0"), ("b", "<i4")])
RECORDS = [RECORD, ALIGNED, NESTED, NAMES, LATIN, TITLED]
CODES = [*NUMBERS, *"M8[s] m8[ms] M8[25us] U3 S3 V5 >i4 >f8 >c8 >U2 >M8[D]".split()]
DTYPES = [*map(np.dtype, CODES), *RECORDS]
NO_BYTES = [np.dtype("U0"), np.dtype("S0"), np.dtype("V0")]

CHANGED = "has changed since it was opened"


@pytest.fixture(params=[True, False], ids=["positioned", "seek"])
def positioned(request, monkeypatch):
    if not request.param:
        monkeypatch.delattr(os, "preadv")
        monkeypatch.delattr(os, "pwritev")


@pytest.fixture
def small_pieces():
    with sizes.set(file_bytes=1 << 12):
        yield


def save(file, array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns that it writes version 3
        np.save(file, array)


def bytes_of(array):
    return np.ascontiguousarray(array).tobytes()


def write_raw(file, text, version=(1, 0), data=b"\0" * 64, encoding="latin-1"):
    """Write a file whose header is this text."""
    raw = text.encode(encoding)
    form = "<H" if version == (1, 0) else "<I"
    file.write_bytes(b"\x93NUMPY" + bytes(version) + struct.pack(form, len(raw)) + raw + data)


def header(shape="(2,)", descr="'<f8'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def all_reads(view):
    """Read by position, through the map, and by gathering."""
    return [view(), view[1:3](), view[:, 0](), view[[2, 0]](), view[2, 1]()]


def check_reads(view, model):
    expected = [model, model[1:3], model[:, 0], model[[2, 0]], model[2, 1]]
    for got, wanted in zip(all_reads(view), expected, strict=True):
        assert_same(got, wanted)


def check_refused(view, match=CHANGED):
    for key in [np.s_[:], np.s_[1:3], np.s_[:, 0], [2, 0], (2, 1)]:
        with pytest.raises(ValueError, match=match):
            view[key]()


# ---------------------------------------------------------------- a file that changes


def test_a_source_refuses_to_write_to_another_file(path):
    source = npy.open_npy(path, "r+")
    value = np.zeros(())
    rows = identity((6, 4))
    column = Index((6,), [Affine(0, ((0, 1),)), Constant(0)])
    np.save(path, np.arange(24).reshape(6, 4))
    before = path.read_bytes()
    for index in [rows, column]:
        with pytest.raises(ValueError, match=CHANGED):
            source.write(index, value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        np.arange(24).reshape(6, 4),  # as many bytes, other numbers
        np.arange(24.0).reshape(4, 6),
        np.asfortranarray(np.arange(24.0).reshape(6, 4)),
        np.arange(24.0, dtype=">f8").reshape(6, 4),
        np.arange(4.0).reshape(1, 4),  # shorter: the map leads beyond the end
        np.arange(4000.0).reshape(800, 5),
        np.array(1.0),
    ],
    ids=["dtype", "shape", "fortran", "swapped", "shorter", "longer", "0-d"],
)
def test_a_file_rewritten_with_another_header_is_refused(path, other, mapped):
    view = dv.open(path, mode="r+")
    if mapped:
        all_reads(view)
    np.save(path, other)
    check_refused(view)
    for key in [np.s_[:], np.s_[1:3], np.s_[:, 0], [2, 0]]:
        with pytest.raises((ValueError, PartialWriteError)) as caught:
            view[key] = 1.0
        assert CHANGED in f"{caught.value} {caught.value.__cause__}"
    assert_same(np.load(path), other)
    check_refused(view)


def test_a_file_with_new_data_under_the_same_header_is_read_anew(path, x, tmp_path):
    view = dv.open(path, mode="r+")
    check_reads(view, x)
    np.save(path, x + 100)  # in place: the same inode
    check_reads(view, x + 100)
    np.save(tmp_path / "other.npy", x + 200)
    os.replace(tmp_path / "other.npy", path)
    check_reads(view, x + 200)
    view[:, 0] = -1
    view[[1, 4], 1] = -2
    expected = x + 200
    expected[:, 0] = -1
    expected[[1, 4], 1] = -2
    assert_same(np.load(path), expected)
    os.unlink(path)
    np.save(path, x + 300)
    check_reads(view, x + 300)


def test_a_file_replaced_by_a_longer_one_with_the_same_header_is_read_anew(path, x):
    view = dv.open(path)
    check_reads(view, x)
    path.write_bytes(path.read_bytes() + b"more")
    check_reads(view, x)


def test_a_file_cut_short_is_refused_and_read_again_when_it_is_whole(path, x):
    whole = path.read_bytes()
    view = dv.open(path)
    check_reads(view, x)
    for size in [len(whole) - 1, 200, 128, 60, 9, 0]:
        path.write_bytes(whole[:size])
        check_refused(view)
    path.write_bytes(b"no longer an array" * 100)
    check_refused(view)
    path.write_bytes(whole)
    check_reads(view, x)


def test_a_file_that_is_gone_is_named(path, x):
    view = dv.open(path)
    check_reads(view, x)
    path.unlink()
    for key in [np.s_[:], [2, 0]]:
        with pytest.raises(FileNotFoundError, match="x\\.npy"):
            view[key]()


@pytest.mark.parametrize(
    "work",
    [
        "view._mean(axis=0)()",
        "view[:, 3]._mean()()",
        "view[::-1]()",
        "view[::-2, 1:3]()",
        "view._shuffled(1)._sum()()",
        "view[np.random.default_rng(0).permutation(1 << 20)]()",
        "view[np.random.default_rng(0).permutation(1 << 20)[:3000]]()",
        "view[np.random.default_rng().integers(0, 1 << 20, 256)]()",
    ],
)
def test_a_file_cut_short_during_a_pass_kills_nobody(work, tmp_path):
    code = """
import os, sys, threading
import numpy as np
import dataview as dv
path = sys.argv[1]
np.save(path, np.ones((1 << 20, 8)))
view = dv.open(path)
threading.Timer(0.2, os.truncate, (path, 1 << 20)).start()
try:
    while True:
        exec(sys.argv[2])
except (OSError, ValueError) as error:
    print(error)
"""
    said = printed("-c", code, tmp_path / "big.npy", work)
    assert "big.npy" in said and ("ended before" in said or CHANGED in said)


def test_a_large_mapped_file_cut_short_kills_nobody(tmp_path):
    code = """
import sys
import numpy as np
import dataview as dv
path = sys.argv[1]
np.save(path, np.ones((1000, 1000)))
view = dv.open(path)
assert view[[3, 999]]().sum() == 2000
with open(path, "r+b") as file:
    file.truncate(4096)
try:
    view[[3, 999]]()
except ValueError as error:
    print(error)
"""
    assert CHANGED in printed("-c", code, tmp_path / "big.npy")


def test_a_path_may_be_given_as_bytes(path, x):
    np.testing.assert_array_equal(dv.open(os.fsencode(path))(), x)
    dv.View(-x)._save(os.fsencode(path))
    np.testing.assert_array_equal(np.load(path), -x)


def test_nothing_is_opened_while_nothing_changes(path, x, monkeypatch):
    os.utime(path, (1e9, 1e9))
    view = dv.open(path)
    view[[2, 0]]()

    def refuse(path):
        raise AssertionError("the header was read again")

    monkeypatch.setattr(npy, "read_header", refuse)
    check_reads(view, x)
    assert_same(view[:, 1](), x[:, 1])


def test_own_writes_read_the_header_once(path, monkeypatch):
    os.utime(path, (1e9, 1e9))
    view = dv.open(path, mode="r+")
    asked = []
    read = npy.read_header
    monkeypatch.setattr(npy, "read_header", lambda path: asked.append(path) or read(path))
    view[1:3] = 7.0
    assert not asked
    os.utime(path, (1e9 + 5, 1e9 + 5))
    view[0]()
    view[0]()
    view[[0, 2]]()
    assert len(asked) == 1


def test_a_change_is_seen_through_pickles_and_forks(path, x):
    view = dv.open(path)
    check_reads(view, x)
    carried = pickle.dumps(view)
    check_reads(pickle.loads(carried), x)
    np.save(path, x + 1)
    check_reads(pickle.loads(carried), x + 1)
    assert forked(lambda: check_reads(view, x + 1)) == 0
    np.save(path, np.arange(3))
    check_refused(pickle.loads(carried))
    assert forked(lambda: check_refused(view)) == 0
    check_refused(view)


def forked(action):
    """Do an action in a child process; give its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child does not use
        child = os.fork()
    if not child:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_write_of_another_process_is_seen(path, x):
    view = dv.open(path, mode="r+")
    check_reads(view, x)

    def write():
        view[[0, 5]] = -1.0

    assert forked(write) == 0
    x[[0, 5]] = -1
    check_reads(view, x)


def test_fields_of_a_structured_file_notice_a_change(tmp_path):
    path = tmp_path / "r.npy"
    data = fill((6,), RECORD)
    np.save(path, data)
    view = dv.open(path)
    assert_same(view.c.e(), data["c"]["e"])
    field = view.b
    np.save(path, data[:2])
    with pytest.raises(ValueError, match=CHANGED):
        field()
    with pytest.raises(ValueError, match=CHANGED):
        view.c.e[1:3]()


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize("dtype", [NAMES, LATIN, TITLED, *map(np.dtype, ["<f8", ">U3", "M8[ns]"])])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (4, 3)])
def test_headers_are_those_of_numpy(dtype, shape, tmp_path):
    array = fill(shape, dtype)
    save(tmp_path / "theirs.npy", array)
    theirs = (tmp_path / "theirs.npy").read_bytes()
    dv.View(array)._save(tmp_path / "ours.npy")
    ours = (tmp_path / "ours.npy").read_bytes()
    assert ours[: len(ours) - array.nbytes] == theirs[: len(theirs) - array.nbytes]
    assert (len(ours) - array.nbytes) % 64 == 0
    assert_same(np.load(tmp_path / "ours.npy"), array)
    assert_same(dv.open(tmp_path / "theirs.npy")(), array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_each_version_is_read(tmp_path, version):
    array = fill((4,), LATIN)
    path = tmp_path / "v.npy"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open(path, "wb") as file:
            np.lib.format.write_array(file, array, version)
    view = dv.open(path, mode="r+")
    assert view.dtype == LATIN
    assert_same(view(), array)
    view[1:2] = array[3:]
    assert_same(np.load(path)[1:2], array[3:])


def test_names_in_any_script(tmp_path):
    array = fill((5, 2), NAMES)
    path = tmp_path / "n.npy"
    save(path, array)
    view = dv.open(path, mode="r+")
    assert view.dtype.names == ("名", "é")
    assert_same(view["名"](), array["名"])
    view["名"] = np.float32(3)
    array["名"] = 3
    assert_same(np.load(path), array)
    view[1:]._save(tmp_path / "part.npy")
    assert (tmp_path / "part.npy").read_bytes()[6:8] == bytes((3, 0))
    assert_same(np.load(tmp_path / "part.npy"), array[1:])


def test_a_header_longer_than_version_1_can_hold(tmp_path):
    dtype = np.dtype([(f"field_{number:05}", "i1") for number in range(2000)])
    array = np.ones(2, dtype)
    path = tmp_path / "long.npy"
    dv.View(array)._save(path)
    assert np.load(path, max_header_size=10**6).tobytes() == array.tobytes()
    assert dv.open(path).dtype == dtype
    assert bytes_of(dv.open(path)()) == bytes_of(array)


def test_files_of_python_2_are_read(tmp_path):
    path = tmp_path / "old.npy"
    data = np.arange(8, dtype="<i4")
    write_raw(path, header("(4L, 2L)", "[('a 5L', '<i4')]"), data=data.tobytes())
    assert_same(dv.open(path)["a 5L"](), data.reshape(4, 2))


@pytest.mark.parametrize(
    "text",
    [
        header("(-3,)"),
        header("(-1, -8)"),
        header("(2.0,)"),
        header("(True,)"),
        header("[2]"),
        header("2"),
        header(f"({10**30},)"),
        header(f"({10**30}, 0)"),
        header(f"({2**62},)", "'|V0'"),
        header(f"({2**40}, {2**40})"),
        header(f"({'1, ' * 65})"),
        header(fortran="1"),
        header(descr="'no such dtype'"),
        header(descr="None"),
        header(descr="7"),
        header(descr="[('a',)]"),
        header(descr="[('a', '<i4'), ('a', '<i4')]"),
        header(descr="('<i4', (2,))"),
        header(descr="('<i4', (-2,))"),
        header(descr="__import__('os').getcwd()"),
        "{'descr': '<f8', 'shape': (2,)}\n",
        "{'descr': '<f8', 'shape': (2,), 'fortran_order': False, 'more': 1}\n",
        "{[]: 1}\n",
        "{'descr\n",
        "(" * 9000 + "\n",
        "[2]\n",
        "",
        "\0\n",
    ],
    ids=range(28),
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_a_broken_header_is_refused(tmp_path, text, version):
    path = tmp_path / "broken.npy"
    write_raw(path, text, version)
    for mode in ["r", "r+"]:
        with pytest.raises(ValueError, match=r"broken\.npy is not an \.npy file"):
            dv.open(path, mode=mode)


@pytest.mark.parametrize("shape", ["(9,)", "(1000, 1000)", f"({2**50},)"])
def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path, shape):
    path = tmp_path / "broken.npy"
    write_raw(path, header(shape))
    size = path.stat().st_size
    with pytest.raises(ValueError, match=r"broken\.npy is cut short"):
        dv.open(path, mode="r+")
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"PK\3\4" + b"\0" * 90,
        b"\x93NUMPY\x04\x00" + b" " * 90,
        b"\x93NUMPY\x01\x00\xff\xff{}",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 90,
        b"\x93NUMPY\x03\x00\x02\x00\x00\x00\xff\xff" + b" " * 90,  # no utf-8
    ],
)
def test_what_is_no_npy_file_is_refused(tmp_path, content):
    path = tmp_path / "broken.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.npy is not an \.npy file"):
        dv.open(path)


def test_python_objects_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}, []], object), allow_pickle=True)
    np.save(tmp_path / "s.npy", np.zeros(2, [("a", "O")]), allow_pickle=True)
    for name in ["o.npy", "s.npy"]:
        with pytest.raises(ValueError, match="pickled Python objects"):
            dv.open(tmp_path / name)


# ---------------------------------------------------------------- saving


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (4, 3, 2)], ids=str)
@pytest.mark.parametrize("order", "CF")
def test_what_is_saved_is_what_was_viewed(dtype, shape, order, tmp_path):
    array = np.array(fill(shape, dtype), order=order)
    save(tmp_path / "theirs.npy", array)
    view = dv.open(tmp_path / "theirs.npy")
    view._save(tmp_path / "ours.npy")
    dv.View(array)._save(tmp_path / "memory.npy")
    for name in ["ours.npy", "memory.npy"]:
        got = np.load(tmp_path / name)
        assert got.dtype == dtype
        assert_same(got, array)
        assert_same(dv.open(tmp_path / name)(), array)


@pytest.mark.parametrize("dtype", [*NO_BYTES, np.dtype([]), MIXED_EMPTY], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)], ids=str)
def test_elements_without_bytes(dtype, shape, tmp_path):
    array = np.ndarray(shape, dtype)
    if dtype.itemsize:
        array["b"] = 5
    np.save(tmp_path / "a.npy", array)
    view = dv.open(tmp_path / "a.npy", mode="r+")
    assert view.shape == shape and view.dtype == dtype
    if shape:  # a single element of NumPy's takes a character at least
        assert bytes_of(view()) == bytes_of(array)
    view[...] = view()
    view._save(tmp_path / "b.npy")
    got = np.load(tmp_path / "b.npy")
    assert got.shape == shape and got.dtype == dtype and bytes_of(got) == bytes_of(array)


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]}),
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]}),
        np.dtype([("x", {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]})]),
        np.dtype(object),
        np.dtype([("a", "O")]),
    ],
    ids=range(5),
)
def test_a_dtype_that_no_header_describes_is_refused(dtype, tmp_path):
    with pytest.raises(TypeError, match=r"an \.npy file"):
        dv.View(np.zeros(3, dtype))._save(tmp_path / "a.npy")
    assert not list(tmp_path.iterdir())


def test_an_endless_view_is_refused_before_a_file_exists(tmp_path):
    x = dv.View(np.arange(6.0))
    made = dv.View(lambda number: np.float64(number), _length=np.inf)
    for view in [x._repeat(), x._repeat() * 2, x._repeat()[3:], made, made._probe()]:
        with pytest.raises(StreamError, match="never ends"):
            view._save(tmp_path / "a.npy")
        assert not list(tmp_path.iterdir())
    (x._repeat()[:9] * 2)._save(tmp_path / "a.npy")
    assert_same(np.load(tmp_path / "a.npy"), np.arange(9) % 6 * 2.0)


def test_other_formats_are_refused(tmp_path, x):
    for name in ["a.txt", "a"]:
        with pytest.raises(ValueError, match=r"\.npy"):
            dv.View(x)._save(tmp_path / name)
    dv.View(x)._save(tmp_path / "a.dat", format="npy")
    assert_same(np.load(tmp_path / "a.dat"), x)
    with pytest.raises(FileNotFoundError) as caught:
        dv.View(x)._save(tmp_path / "missing" / "a.npy")
    assert caught.value.filename == str(tmp_path / "missing" / "a.npy")
    assert f"no folder {tmp_path / 'missing'}" in str(caught.value)


def test_what_is_no_file_is_not_replaced(tmp_path, x):
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="not a regular file"):
        dv.View(x)._save(pipe)
    with pytest.raises(IsADirectoryError):
        dv.View(x)._save(tmp_path, format="npy")
    assert pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]


@pytest.fixture(params=[True, False], ids=["unnamed", "named"])
def unnamed(request, monkeypatch):
    """Files without a name until they are complete, and a system that has none."""
    if not request.param:
        monkeypatch.setattr(new_files, "UNNAMED", None)
    return request.param


def test_a_new_file_has_the_permissions_of_any_new_file(unnamed, tmp_path, x, monkeypatch):
    (tmp_path / "plain").touch()
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("another thread may make a file"))
    old = tmp_path / "old.npy"
    old.touch(0o604)
    for target in [tmp_path / "new.npy", old]:
        dv.View(x)._save(target)
        assert_same(np.load(target), x)
    os.chmod(old, 0o466)
    dv.View(x + 1)._save(old)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {"plain": modes["plain"], "new.npy": modes["plain"], "old.npy": 0o466}


def test_the_file_of_a_private_one_is_private_while_it_is_written(unnamed, tmp_path):
    target = tmp_path / "a.npy"
    target.touch(0o600)
    seen = []

    def sample(number):
        links = [os.stat(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if is_new(fd)]
        seen.extend(oct(found.st_mode & 0o777) for found in links)
        return np.zeros(8)

    def is_new(fd):
        place = os.path.realpath(f"/proc/self/fd/{fd}")
        return place.startswith(f"{tmp_path}{os.sep}")

    dv.View(sample, _length=3)._probe()._save(target)
    assert set(seen) == {"0o600"}


KILLED = """
import os, sys, numpy as np, dataview as dv
from dataview.sources import new_files
if sys.argv[2] == "False":
    new_files.UNNAMED = None
def sample(number):
    if number == 70:
        print(*os.listdir(os.path.dirname(sys.argv[1])), flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), 9)
    return np.zeros(1 << 17)
dv.View(sample, _length=100)._probe()._save(sys.argv[1])
"""


def test_what_a_killed_process_has_begun_is_gone_or_removed_by_the_next(unnamed, tmp_path, x):
    target = tmp_path / "a.npy"
    command = [sys.executable, "-c", KILLED, str(target), str(unnamed)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        begun = process.stdout.readline().split()
        assert len(begun) == (not unnamed)
        dv.View(x)._save(target)  # what is in use stays
        assert sorted(os.listdir(tmp_path)) == sorted(["a.npy", *begun])
        process.stdin.write("\n")
    dv.View(x + 1)._save(tmp_path / "b.npy")  # another file's are left alone
    assert sorted(os.listdir(tmp_path)) == sorted(["a.npy", "b.npy", *begun])
    dv.View(x + 1)._save(target)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy"]
    assert_same(np.load(target), x + 1)


def test_a_long_name_and_many_that_save_at_once(unnamed, tmp_path, x):
    target = tmp_path / ("é" * 125 + ".npy")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: dv.View(x + n)._save(target), range(40)))
    assert [*tmp_path.iterdir()] == [target]
    assert np.load(target)[0, 0] in range(40)


def test_only_regular_files_are_opened(tmp_path, x):
    pipe, path = tmp_path / "pipe.npy", tmp_path / "x.npy"
    os.mkfifo(pipe)
    for mode in ["r", "r+"]:
        with pytest.raises(ValueError, match=r"pipe\.npy is a pipe"):
            dv.open(pipe, mode=mode)
        np.save(path, x)
        view = dv.open(path, mode=mode)
        os.replace(path, tmp_path / "old")
        os.mkfifo(path)
        with pytest.raises(ValueError, match=f"{CHANGED}.*is a pipe"):
            view()
        os.unlink(path)
    with pytest.raises(IsADirectoryError):
        dv.open(tmp_path / "folder.npy", os.mkdir(tmp_path / "folder.npy") or "r")


@pytest.mark.parametrize(
    "told",
    [
        {"shape": (1,) * 100_000},
        {"shape": (-1,) * 100_000},
        {"shape": (2,), "descr": [("f" * 100_000, "<x9")]},
        {"shape": (2,), "fortran_order": "f" * 100_000},
        {"f" * 100_000: 1},
    ],
)
def test_a_message_about_a_long_header_is_short(tmp_path, told):
    path = tmp_path / "a.npy"
    header = repr({"descr": "<f4", "fortran_order": False, **told}).encode()
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
    with pytest.raises(ValueError, match=r"a\.npy is not an \.npy file") as caught:
        dv.open(path)
    assert len(str(caught.value)) < 1000


def test_a_message_about_a_changed_file_of_many_fields_is_short(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(2, [(f"f{n}", "f4") for n in range(2000)]))
    view = dv.open(path)
    np.save(path, np.zeros(2, [(f"g{n}", "f4") for n in range(2000)]))
    with pytest.raises(ValueError, match=CHANGED) as caught:
        view.f3()
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_saving_over_the_file_that_is_viewed(path, x, mode, tmp_path):
    view = dv.open(path, mode=mode)
    check_reads(view, x)
    (view[::-1] * 2)._save(path)
    assert_same(np.load(path), x[::-1] * 2)
    check_reads(view, x[::-1] * 2)
    view[1:4]._save(path)
    assert_same(np.load(path), (x[::-1] * 2)[1:4])
    check_refused(view)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]


def test_saving_through_a_link_and_with_its_permissions(path, x, tmp_path):
    link = tmp_path / "link.npy"
    link.symlink_to(path)
    os.chmod(path, 0o640)
    dv.View(x + 1)._save(link)
    assert link.is_symlink()
    assert_same(np.load(path), x + 1)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_save_leaves_all_as_it_was(path, error, tmp_path):
    before = path.read_bytes()

    def sample(number):
        if number == 70:
            raise error("no sample")
        return np.zeros(1 << 17) + number  # 1 MiB: some blocks are written before

    view = dv.View(sample, _length=100)._probe()
    for target in [path, tmp_path / "new.npy"]:
        with pytest.raises(error):
            view._save(target)
        assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "key",
    [
        np.s_[2:3, 1:2], np.s_[1:6, ::2], np.s_[4:0:-1, 2], np.s_[2:7, [3, 0]],
        np.s_[[3, 4, 5], 1:3], np.s_[[4, 5, 6], [0, 2, 2]], np.s_[None, 1:4, 1, None],
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", "CF")
def test_columns_of_a_few_rows_hold_no_other_memory(tmp_path, key, order):
    whole = np.arange(40.0).reshape(8, 5)
    np.save(tmp_path / "a.npy", np.asarray(whole, order=order))
    found = dv.open(tmp_path / "a.npy")[key]()
    assert_same(found, whole[key])
    assert found.flags.forc
    assert (found if found.base is None else found.base).nbytes == found.nbytes


def test_many_blocks(tmp_path):
    big = np.arange(3_000_000, dtype=">i4").reshape(3000, 1000)
    dv.View(big)[::-1]._save(tmp_path / "big.npy")
    assert_same(np.load(tmp_path / "big.npy"), big[::-1])
    dv.View(big.T)._save(tmp_path / "big.npy")
    assert_same(dv.open(tmp_path / "big.npy")(), big.T)


# ---------------------------------------------------------------- reading and writing


@examples(100)
@given(st.data())
def test_any_read_and_write_is_that_of_numpy(tmp_path_factory, data):
    array = data.draw(arrays(layouts=["C", "F"], dtypes=DTYPES))
    file = tmp_path_factory.mktemp("any") / "x.npy"
    save(file, array)
    view = dv.open(file, mode="r+")
    model = np.load(file)
    for start in [40, 80]:
        chain = data.draw(accepted_chains(model, 2))
        places = positions(model, chain)
        assert_same(follow(view, chain)(), model.reshape(-1)[places])
        value = fill(places.shape, model.dtype, start)
        follow(view, chain)._write(value)
        scatter(model, places, value)
        assert_same(np.load(file), model)
        assert_same(view(), model)


@pytest.mark.usefixtures("positioned")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_runs_of_rows(dtype, tmp_path):
    array = fill((9, 3), dtype)
    save(tmp_path / "a.npy", array)
    view = dv.open(tmp_path / "a.npy", mode="r+")
    for key in [np.s_[:], np.s_[2:7], np.s_[6:1:-2], np.s_[4:5], np.s_[1:8, 1:]]:
        assert_same(view[key](), array[key])
        view[key] = array[key][::-1].copy()
        array[key] = array[key][::-1].copy()
        assert_same(np.load(tmp_path / "a.npy"), array)


@pytest.mark.usefixtures("positioned")
def test_a_system_that_transfers_little_at_a_time(tmp_path, monkeypatch):
    class Slow(io.FileIO):
        def readinto(self, part):
            return super().readinto(part[:10])

        def write(self, part):
            return super().write(part[:10])

    for name in ["preadv", "pwritev"]:
        if move := getattr(os, name, None):
            monkeypatch.setattr(os, name, lambda n, ps, at, move=move: move(n, [ps[0][:10]], at))
    block, again = np.arange(12.0), np.zeros(12)
    (tmp_path / "bytes").write_bytes(b"")
    with Slow(tmp_path / "bytes", "r+") as file:
        file_access.write_at(file, block, 7)
        file_access.read_at(file, again, 7)
    assert_same(again, block)


@pytest.mark.usefixtures("positioned")
def test_a_file_is_transferred_in_as_many_calls_as_it_takes(path, x, monkeypatch):
    monkeypatch.setattr(file_access, "MOST", 10)
    view = dv.open(path, mode="r+")
    check_reads(view, x)
    view[1:5] = -x[1:5]
    x[1:5] *= -1
    assert_same(np.load(path), x)


@pytest.mark.parametrize("key", [np.s_[:], np.s_[np.arange(300)], np.s_[10:290]], ids=str)
@pytest.mark.parametrize("mapped", ["all of it", "a part"])
def test_a_map_of_the_same_file_is_written_into_it(key, mapped, tmp_path):
    x = np.arange(300.0 * 50).reshape(300, 50)
    save(tmp_path / "a.npy", x)
    memory = np.load(tmp_path / "a.npy", mmap_mode="r+")
    value = memory[::-1][key] if mapped == "all of it" else memory[:, ::-1][key]
    expected = x.copy()
    expected[key] = value.copy()
    with sizes.set(file_bytes=1 << 12, block_bytes=1 << 12):
        dv.open(tmp_path / "a.npy", mode="r+")[key] = value
    assert_same(np.load(tmp_path / "a.npy"), expected)


def test_a_result_goes_into_a_map_of_the_file_that_is_read(tmp_path):
    x = np.arange(300.0 * 50).reshape(300, 50)
    save(tmp_path / "a.npy", x)
    memory = np.load(tmp_path / "a.npy", mmap_mode="r+")
    with sizes.set(block_bytes=1 << 12, block_elements=100, small_elements=10):
        (dv.open(tmp_path / "a.npy")[::-1] + 1)(out=memory)
    assert_same(np.load(tmp_path / "a.npy"), x[::-1] + 1)


@pytest.mark.usefixtures("positioned")
def test_a_file_that_ends_within_a_block(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"12345")
    block = np.zeros(8, np.uint8)
    with open(path, "rb", buffering=0) as file, pytest.raises(OSError, match="ended"):
        file_access.read_at(file, block, 0)


@pytest.mark.usefixtures("positioned")
@pytest.mark.parametrize("dtype", [*DTYPES, *NO_BYTES], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 2)], ids=str)
def test_a_block_of_any_dtype_is_transferred(dtype, shape, tmp_path):
    block = np.ndarray(shape, dtype) if not dtype.itemsize else fill(shape, dtype)
    path = tmp_path / "bytes"
    path.write_bytes(b"")
    again = np.ndarray(shape, dtype)
    with open(path, "r+b", buffering=0) as file:
        assert isinstance(file, io.FileIO)
        file_access.write_at(file, block, 7)
        file_access.read_at(file, again, 7)
    assert again.tobytes() == block.tobytes()
    assert path.stat().st_size == (7 + block.nbytes if block.nbytes else 0)


@pytest.mark.parametrize("shape", [-1, (8, 3), (2, 3, 4), (1, 24), (24, 1), (6, 2, 2)])
def test_another_shape_of_a_file_is_a_file_as_well(shape, path, x):
    view = dv.open(path, mode="r+")._reshape(shape)
    eager = x.reshape(shape)
    assert_same(view(), eager)
    assert_same(view[1:](), eager[1:])
    found = view()
    found[...] = 7
    assert_same(np.load(path), x)
    assert len(pickle.dumps(view)) < 2000
    assert_same(pickle.loads(pickle.dumps(view))[::-1](), eager[::-1])
    view[1:] *= 2
    eager[1:] *= 2
    assert_same(np.load(path), x)


@pytest.mark.usefixtures("small_pieces")
def test_parts_of_a_large_file_are_read_piece_by_piece(tmp_path):
    x = np.arange(5 * 4000.0).reshape(4000, 5)
    rows = np.random.default_rng(0).permutation(4000)[:700]
    for order in "CF":
        file = tmp_path / f"{order}.npy"
        np.save(file, np.asarray(x, order=order))
        view, eager = dv.open(file, mode="r+"), x.copy()
        for key in [
            np.s_[:],
            np.s_[:, 1],
            np.s_[::-3],
            np.s_[1:-1, 1:4],
            rows,
            np.s_[7],
            (rows, 2),
        ]:
            assert_same(view[key](), eager[key])
            view[key] = eager[key] + 1
            eager[key] += 1
            assert_same(np.load(file), eager)
        assert_same(view._transpose()[1:](), eager.T[1:])
        view[:] = 3
        assert (np.load(file) == 3).all()


@contextlib.contextmanager
def in_small_pieces(file_bytes, windows=True, numbers=7):
    """Cut what is read and written as if it were large; perhaps the system maps no file."""
    small = {"MOST_NUMBERS": numbers, "GAP": 8, "FEW": 1, "FAR": 16}
    refused = {} if windows else {"map_window": lambda *args: None}
    with (
        sizes.set(file_bytes=file_bytes, window_bytes=1),
        mock.patch.multiple(file_pieces, **small),
        mock.patch.multiple(file_rows, GAP=8, **refused),
    ):
        yield


@examples(300)
@given(st.data())
def test_any_read_and_write_in_small_pieces_is_that_of_numpy(tmp_path_factory, data):
    array = data.draw(arrays(layouts=["C", "F"], dtypes=DTYPES))
    file = tmp_path_factory.mktemp("any") / "x.npy"
    save(file, array)
    view, model = dv.open(file, mode="r+"), np.load(file)
    pieces = in_small_pieces(data.draw(st.sampled_from([64, 1 << 12])), data.draw(st.booleans()))
    with pieces:
        chain = data.draw(accepted_chains(model, 2))
        places = positions(model, chain)
        assert_same(follow(view, chain)(), model.reshape(-1)[places])
        assert_same(follow(dv.open(file), chain)(), model.reshape(-1)[places])
        value = fill(places.shape, model.dtype, 40)
        follow(view, chain)._write(value)
    scatter(model, places, value)
    assert_same(np.load(file), model)


MANY = np.random.default_rng(8)
SCATTERED = {
    "shuffled": MANY.permutation(60),
    "repeated": MANY.integers(0, 60, 150),
    "few": np.array([59, 0, 30]),
    "negative": -1 - MANY.permutation(60)[:20],
    "mask": MANY.random(60) < 0.4,
    "backwards": np.s_[::-1],
    "backwards in steps": np.s_[50:3:-7],
    "rows in two axes": MANY.permutation(60)[:24].reshape(4, 6),
    "repeated rows in two axes": MANY.integers(0, 9, (5, 7)),
    "columns of rows": (MANY.permutation(60)[:25], 2),
    "some columns of rows": (MANY.permutation(60)[:25], np.s_[5:1:-2]),
    "columns": np.s_[:, 3],
    "columns by number": (np.s_[2:], [4, 0, 3]),
    "repeated columns": (np.s_[2:], [4, 0, 4]),
    "columns backwards": np.s_[:, ::-1],
    "elements": (MANY.integers(0, 60, 100), MANY.integers(0, 6, 100)),
    "a grid": np.ix_(MANY.integers(0, 60, 20), [5, 1, 5]),
    "in the last axis": (np.s_[10:30], np.s_[:], [6, 2]),
    "a box": np.s_[3:58:4, 1:5, 2:6],
}


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("name", SCATTERED)
def test_scattered_rows_are_those_of_numpy(name, order, windows, tmp_path):
    key = SCATTERED[name]
    for dtype in ["f4", "S3", ALIGNED]:
        model = np.array(fill((60, 6, 7), np.dtype(dtype)), order=order)
        save(tmp_path / "a.npy", model)
        view = dv.open(tmp_path / "a.npy", mode="r+")
        for file_bytes in [1 << 24, 1 << 11]:
            with in_small_pieces(file_bytes, windows, 25):
                wanted = np.array(model[key])
                assert_same(view[key](), wanted)
                assert_same(dv.open(tmp_path / "a.npy")[key](), wanted)
                value = np.roll(wanted.reshape(-1), 5).reshape(wanted.shape)
                for given_value in [value, value[-1:], value.reshape(-1)[1]]:
                    view[key] = given_value
                    model[key] = given_value
                    assert_same(np.load(tmp_path / "a.npy"), model)


@pytest.mark.parametrize("windows", [True, False])
def test_members_of_scattered_records_are_those_of_numpy(windows, tmp_path):
    model = fill((200, 3), NESTED)
    save(tmp_path / "a.npy", model)
    view = dv.open(tmp_path / "a.npy", mode="r+")
    rows = np.random.default_rng(1).integers(0, 200, 150)
    with in_small_pieces(1 << 11, windows, 25):
        for key in [rows, (rows, 1), np.s_[::-1], np.s_[:, 2]]:
            assert_same(view.y.z[key](), model["y"]["z"][key])
            value = model["y"]["z"][key][::-1].copy()
            view.y.z[key] = value
            model["y"]["z"][key] = value
            assert_same(np.load(tmp_path / "a.npy"), model)


class CountingMap(mmap.mmap):
    """A map that notes how much of a file is mapped and loaded."""

    mapped, loaded = [], []

    def __new__(cls, number, length, **options):
        cls.mapped.append(length)
        return super().__new__(cls, number, length, **options)

    def madvise(self, advice, start, length):
        self.loaded.append(length)
        super().madvise(advice, start, length)


@pytest.fixture
def counted(monkeypatch):
    CountingMap.mapped.clear()
    CountingMap.loaded.clear()
    monkeypatch.setattr(mmap, "mmap", CountingMap)
    return CountingMap


def test_scattered_rows_of_a_file_are_written_in_one_pass(counted, tmp_path):
    data = np.ones((1 << 14, 64), "f4")
    np.save(tmp_path / "a.npy", data)
    view = dv.open(tmp_path / "a.npy", "r+", durable=False)
    with sizes.set(file_bytes=1 << 18, undo_bytes=0):
        view._shuffled(1)[:] = 0
    assert not np.load(tmp_path / "a.npy").any()
    assert max(counted.mapped, default=0) <= 2 << 18 and sum(counted.loaded) < 2 * data.nbytes


def test_only_the_pages_of_scattered_rows_are_loaded_to_write_them(counted, tmp_path):
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "f4", (1 << 18, 64))
    view = dv.open(tmp_path / "a.npy", "r+")
    rows = np.random.default_rng(0).permutation(1 << 18)[:500]
    view[rows] = 3
    assert sum(counted.loaded) <= 500 * 2 * mmap.PAGESIZE
    assert max(counted.mapped, default=0) <= 65 << 20
    found = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert (found[rows] == 3).all() and found.sum() == 500 * 64 * 3


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(
    "key", [np.s_[:, 3], np.s_[::-1], [70, 3, 99], ([70, 3, 99], 2), np.s_[::9]], ids=str
)
def test_a_full_disk_is_an_error_that_names_the_file(key, order, tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((100, 50), order=order))
    before = path.read_bytes()

    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mmap, "mmap", type("mmap", (mmap.mmap,), {"madvise": full}))
    monkeypatch.setattr(os, "pwritev", full, raising=False)
    monkeypatch.setattr(file_access, "_writer", lambda file: full)
    node = node_of(dv.open(path, "r+")[key])
    with pytest.raises(OSError, match="No space left") as caught:
        node.node.source.write(node.index, np.ones(()))
    assert caught.value.filename == str(path) and caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before


def test_a_file_cut_short_is_not_made_longer_by_a_write(path, x, monkeypatch):
    view = dv.open(path, "r+")
    size = path.stat().st_size
    source = node_of(view).source
    monkeypatch.setattr(type(source.file), "check", lambda file: None)  # it was whole just now
    os.truncate(path, size - 80)
    monkeypatch.setattr(file_rows, "map_window", lambda *args: None)
    for index in [node_of(view[:, 1]).index, node_of(view[[5, 0]]).index]:
        with pytest.raises(OSError, match=r"x\.npy ended before"):
            source.write(index, np.ones(()))
        assert path.stat().st_size == size - 80


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_file_of_one_element(dtype, tmp_path):
    first, second = fill((), dtype, 3), fill((), dtype, 5)
    save(tmp_path / "a.npy", first)
    view = dv.open(tmp_path / "a.npy", mode="r+")
    assert_same(view(), first)
    view._write(second)
    assert_same(np.load(tmp_path / "a.npy"), second)
    assert_same(view[...](), second)


# ---------------------------------------------------------------- modes


def test_a_file_opened_for_reading_refuses_writes(path, x):
    view = dv.open(path)
    before = path.read_bytes()
    for key in [np.s_[1:3], np.s_[:, 0], [0, 2]]:
        with pytest.raises(ValueError, match="read-only"):
            view[key] = 1.0
    assert path.read_bytes() == before
    check_reads(view, x)


def test_a_read_only_file_is_not_opened_for_writing(path, x, monkeypatch):
    os.chmod(path, 0o444)

    def access(place, mode):  # as for a user who is not root
        return not mode & os.W_OK or bool(os.stat(place).st_mode & 0o222)

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(PermissionError, match="x\\.npy cannot be written"):
        dv.open(path, mode="r+")
    check_reads(dv.open(path), x)


KEYS_NEAR = [
    np.s_[3:60, ::2],
    np.s_[::-7, 3],
    np.s_[5:50, [3, 1, 3]],
    np.s_[::400],
    np.s_[::-900, 1:],
]


@pytest.mark.parametrize("key", KEYS_NEAR, ids=str)
def test_columns_of_rows_near_each_other_are_read_in_one_call(tmp_path, key, monkeypatch):
    x = np.arange(4096.0 * 4).reshape(4096, 4)
    np.save(tmp_path / "x.npy", x)
    asked = []
    read = file_rows.read_runs

    def noting(file, block, runs):
        asked.extend(runs := list(runs))
        read(file, block, runs)

    monkeypatch.setattr(file_rows, "read_runs", noting)
    assert_same(dv.open(tmp_path / "x.npy")[key](), x[key])
    assert len(asked) == 1


def test_a_run_of_bytes_is_found_wherever_a_slab_is_one():
    a = np.arange(48, dtype="i4").reshape(4, 3, 4)
    rows, columns = [2, np.s_[:], np.s_[1:3], np.s_[3:]], [1, np.s_[:], np.s_[1:], np.s_[2:]]
    for key in itertools.product(rows, columns, [0, np.s_[:], np.s_[1:3]]):
        part = a[key]
        expected = 100 + part.flat[0] * 4 if part.flags.c_contiguous else None
        assert file_pieces.run_of(100, a.shape, 4, parse(key, a.shape)) == expected, key
    for key in (np.s_[::2], np.s_[::-1], np.s_[2:2], [1, 2]):
        assert file_pieces.run_of(100, a.shape, 4, parse(key, a.shape)) is None


LARGE = (4000, 3, 20)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("block", [1 << 15, 1 << 22])
def test_what_is_read_lies_in_the_order_of_the_file(order, block, tmp_path):
    x = np.asarray(np.random.default_rng(0).normal(size=LARGE), order=order)
    np.save(tmp_path / "x.npy", x)
    f, t = dv.open(tmp_path / "x.npy"), dv.open(tmp_path / "x.npy")._transpose()
    row = np.arange(20.0)
    with sizes.set(file_bytes=block, block_bytes=block, block_elements=block // 8):
        for found, expected in [
            (f(), x),
            (t(), x.T),
            (f[::2](), x[::2].copy("K")),
            (f[10:3000, 1:, ::-1](), x[10:3000, 1:, ::-1].copy("K")),
            ((f * row - 1)(), x * row - 1),
            ((t[5:15] * 2)(), x.T[5:15] * 2),
            ((f[:, 1] > row)(), x[:, 1] > row),
        ]:
            assert_same(found, expected)
            assert found.flags.f_contiguous == expected.flags.f_contiguous
        numbers = np.arange(0, 4000, 7)[::-1]
        assert_same(f[numbers](), x[numbers])
        assert_same(f[:, [2, 0]](), x[:, [2, 0]])
        assert_same(f[numbers, 1, 3:](), x[numbers, 1, 3:])
        np.testing.assert_allclose(f._mean(axis=0)(), x.mean(axis=0), atol=1e-12)
        assert_same(f._max(axis=2)(), x.max(axis=2))
