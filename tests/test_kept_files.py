"""Files of which rows are read often stay open, and mapped: what they hand out and leave."""

import gc
import multiprocessing
import os
import pickle
import signal

import numpy as np
import pytest

import dataview as dv
from children import printed, python
from dataview.index.sizes import sizes
from dataview.sources import kept_files, lost_pages
from dataview.sources.file_pieces import Block
from dataview.view.face import node_of
from leftovers import nothing_left, open_files

ORDER = np.random.default_rng(0).permutation(3000)

ROWS = {
    "a row": 7,
    "the last row": -1,
    "a run": slice(5, 90),
    "a step": slice(2900, 3, -7),
    "a step forward": slice(3, 2900, 5),
    "few": ORDER[:5],
    "a row by number": ORDER[:1],
    "a batch": ORDER[:256],
    "more than one call takes": ORDER[:2500],
    "repeated": [3, 2999, 3, 0] * 9,
    "small numbers": ORDER[:100].astype("u2"),
    "numbers without a sign": ORDER[:100].astype("u8"),
    "none": [],
}

RECORDS = np.dtype([("a", "<i2"), ("b", ">f8", 3)])


@pytest.fixture
def x(tmp_path):
    found = np.random.default_rng(1).normal(size=(3000, 10)).astype("f4")
    np.save(tmp_path / "x.npy", found)
    return found


@pytest.fixture
def path(tmp_path, x):
    return tmp_path / "x.npy"


def kept_of(view):
    """What is known of a file that was read often."""
    (kept,) = node_of(view).source.file.opening.kept.values()
    return kept


def read_often(view, rows=ORDER[:64], loaded=True):
    """Read rows until the file stays open, and mapped."""
    for _ in range(4):
        view[rows]()
    held = kept_of(view).held
    assert held is not None and (held.pages is not None) == loaded
    return view


@pytest.mark.parametrize("dtype", ["f4", ">i8", "U3", "M8[s]", RECORDS], ids=str)
def test_rows_are_those_of_numpy(tmp_path, dtype):
    raw = np.random.default_rng(2).integers(1, 99, (3000, 2, 3)).astype("i4")
    for array in (raw.astype(dtype), raw[:, 0, 0].astype(dtype)):
        np.save(tmp_path / "a.npy", array)
        view = read_often(dv.open(tmp_path / "a.npy"))
        for key in ROWS.values():
            found, wanted = view[key](), array[key]
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            assert found.tobytes() == wanted.tobytes()
            assert not isinstance(found, np.ndarray) or found.flags.writeable


def test_what_stays_open_is_not_opened_again(path, x, monkeypatch):
    view = read_often(dv.open(path))
    monkeypatch.setattr("io.FileIO", None)
    for number, batch in zip(range(3), view._shuffled(0)._minibatches(256), strict=False):
        assert batch().shape == (256, 10)
        assert (view[number : number + 40]() == x[number : number + 40]).all()
        assert (view[number]() == x[number]).all()


def test_rows_that_what_stays_open_refuses_are_asked_of_it_once(path, x, monkeypatch):
    with sizes.set(mapped_bytes=1):
        view = read_often(dv.open(path), loaded=False)
        rows, asked = kept_files.OpenFile.rows, []

        def refused(self, block, numbers):
            asked.append(numbers)
            found = rows(self, block, numbers)
            assert found is None  # these are near each other, and read together
            return found

        monkeypatch.setattr(kept_files.OpenFile, "rows", refused)
        for batch in np.split(ORDER[:1500], 5):
            assert (view[batch]() == x[batch]).all()
        assert len(asked) == 5


def test_columns_of_what_stays_open(path, x):
    view = read_often(dv.open(path))
    assert (view[ORDER[:300]][:, 2:5]() == x[ORDER[:300], 2:5]).all()
    assert (view[ORDER[:300], ::-3]() == x[ORDER[:300], ::-3]).all()
    assert (
        view._reshape(1500, 20)[ORDER[:300] // 2]() == x.reshape(1500, 20)[ORDER[:300] // 2]
    ).all()


def test_members_and_columns_first_stay_open_too(tmp_path):
    x = np.arange(6000.0).reshape(3000, 2)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.save(tmp_path / "r.npy", x.view([("a", "f8"), ("b", "f8")]))
    columns, fields = dv.open(tmp_path / "f.npy"), dv.open(tmp_path / "r.npy")
    for view, wanted in ((columns, x), (fields.a, x[:, :1])):
        for _ in range(4):
            assert (view[ORDER[:100]]() == wanted[ORDER[:100]]).all()
            assert view[7, 0]() == wanted[7, 0]
    del columns, fields, view
    gc.collect()
    assert not [link for link in open_files().values() if str(tmp_path) in link]


KEYS = [
    np.s_[ORDER[:90], ::-2], np.s_[5:95, [3, 0, 0]], np.s_[ORDER[:90], ORDER[:90] % 4],
    np.s_[ORDER[:60].reshape(20, 3), 1:], np.s_[[[2999], [0]], [3, 1]], np.s_[-90:, 2],
    np.s_[::-7, 1:3], np.s_[7, ::2], np.s_[-1, [3, 0]], np.s_[5:2900:9, [2, 0]],
    np.s_[[7], 3:],
]  # fmt: skip
"""Rows by number or near each other, and columns of them."""


@pytest.mark.parametrize("order", "CF")
def test_columns_of_rows_are_those_of_numpy_and_open_nothing(tmp_path, order, monkeypatch):
    raw = np.zeros((3000, 4), RECORDS, order)
    raw["a"] = ORDER[:, None] + range(4)
    raw["b"] = np.random.default_rng(3).normal(size=(3000, 4, 3))
    np.save(tmp_path / "records.npy", raw)
    np.save(tmp_path / "doubles.npy", np.asarray(raw["b"][..., 1], order=order))
    records, doubles = dv.open(tmp_path / "records.npy"), dv.open(tmp_path / "doubles.npy")
    pairs = [(records, raw), (records["b"], raw["b"]), (doubles, raw["b"][..., 1])]
    for view, _ in pairs:
        read_often(view, ORDER[:400])
    monkeypatch.setattr("io.FileIO", None)
    for view, array in pairs:
        for key in KEYS:
            found, wanted = view[key](), array[key]
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            assert found.tobytes() == wanted.tobytes()
            compact = found.transpose(np.argsort(found.strides)[::-1])
            assert compact.flags.c_contiguous and found.flags.writeable


def test_few_rows_open_nothing(path, x):
    view = dv.open(path)
    before = open_files()
    for row in range(20):
        view[row]()
    view[:]()
    assert open_files() == before


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_writes_are_seen(path, x, mode):
    view = read_often(dv.open(path, mode))
    rows = ORDER[:100]
    if mode == "r+":
        view[rows] = 3
        assert (view[rows]() == 3).all() and (view[int(rows[0])]() == 3).all()
        view -= 1
        assert (view[rows]() == 2).all() and (
            view[ORDER[100:200], 3]() == x[ORDER[100:200], 3] - 1
        ).all()
    np.load(path, mmap_mode="r+")[rows] = 4  # changes no time at once
    assert (view[rows]() == 4).all()
    with open(path, "r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(np.full(10, 5, "f4").tobytes())
    assert (view[2999]() == 5).all() and (view[[2999] * 20]() == 5).all()
    if mode == "r+":
        view._append(view[rows])
        assert (view[rows]() == 4).all() and len(read_often(dv.open(path, mode))) == 3100


def test_another_file_in_its_place_is_seen(path, x, tmp_path):
    view = read_often(dv.open(path))
    np.save(tmp_path / "y.npy", x + 1)
    os.replace(tmp_path / "y.npy", path)
    assert (view[ORDER[:100]]() == (x + 1)[ORDER[:100]]).all()
    read_often(view)
    np.save(path, x[:, ::-1] + 2)
    assert (view[7]() == (x[:, ::-1] + 2)[7]).all()
    np.save(path, x.astype("f8"))
    with pytest.raises(ValueError, match=r"x\.npy has changed"):
        view[ORDER[:100]]()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        view[7]()


def test_a_file_cut_short_is_an_error_that_names_it(path):
    view = read_often(dv.open(path))
    os.truncate(path, 5000)
    for rows in (ORDER[:100], 2999, slice(2900, 2950)):
        with pytest.raises(ValueError, match=r"x\.npy has changed.*cut short"):
            view[rows]()
    assert kept_of(view).held is None


def test_what_is_not_there_can_be_taken_without_harm(path, x):
    """As it is where another program truncates the file after it was looked at."""
    held = kept_of(read_often(dv.open(path))).held
    os.truncate(path, 5000)
    block, rows = Block(128, x.shape, x.dtype), np.arange(20)
    assert (held.rows(block, rows[::-1]) == x[:20][::-1]).all()
    assert held.rows(block, rows + 2000) is None and held.pages is None
    assert (held.rows(block, range(20)) == x[:20]).all()
    for lost in (rows + 2000, rows[:3] + 2000, range(2000, 2020), 2999):
        assert held.rows(block, lost) is None
    assert not held.read(np.empty((20, 10), "f4"), 100_000)


def test_a_file_that_is_cut_short_within_a_page_while_rows_are_taken(path, monkeypatch):
    """There is no signal then: the rest of the page is zeros."""
    view, rows_of = read_often(dv.open(path)), lost_pages.Map.rows

    def cut_short(*given):
        os.truncate(path, os.path.getsize(path) - 100)
        return rows_of(*given)

    monkeypatch.setattr(lost_pages.Map, "rows", cut_short)
    with pytest.raises(ValueError, match=r"x\.npy has changed.*cut short"):
        view[[2999] * 20]()


LOST = """
import faulthandler, multiprocessing, os, signal, sys, threading
import numpy as np
import dataview as dv
from dataview.sources.file_pieces import Block
from dataview.view.face import node_of

block = Block(128, (3000, 10), np.dtype("f4"))

def lost(held, count=1):
    assert (held.rows(block, np.arange(20)[::-1]) == 1).all()
    os.truncate(path, 5000)
    found = []
    def take():
        found.append(held.rows(block, np.arange(20) + 2000))
    threads = [threading.Thread(target=take) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    take()
    for thread in threads:
        thread.join()
    assert found == [None] * count
    print("went on", flush=True)

path, why = sys.argv[1:]
np.save(path, np.ones((3000, 10), "f4"))
if why == "a dump of tracebacks":
    faulthandler.enable()
view = dv.open(path)
for _ in range(4):
    view[np.arange(2900, step=40)]()
(kept,) = node_of(view).source.file.opening.kept.values()
if why == "a later dump of tracebacks":
    faulthandler.enable()
if why == "a signal that was sent before":
    signal.signal(signal.SIGBUS, lambda *_: None)  # as its own handler, which was not there then
    kept.held.rows(block, np.arange(20)[::-1])
    os.kill(os.getpid(), signal.SIGBUS)
if why == "in a fork with its own handler":
    def child():
        faulthandler.enable()
        lost(kept.held)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
lost(kept.held, 8 if why == "threads" else 1)
if why == "a signal that is sent":
    kept.held.rows(block, np.arange(20)[::-1])
    os.kill(os.getpid(), signal.SIGBUS)
if why.startswith("a map of others"):
    if why.endswith("dumped"):
        faulthandler.enable()
    np.save(path, np.ones((3000, 10), "f4"))
    again = dv.open(path)
    for _ in range(4):
        again[np.arange(2900, step=40)]()
    mine = np.load(path, mmap_mode="r")
    os.truncate(path, 5000)
    mine[2999].copy()
"""
"""A program that loses a part of a file while it is taken from."""


@pytest.mark.parametrize(
    "why",
    [
        "alone",
        "threads",
        "a dump of tracebacks",
        "a later dump of tracebacks",
        "a signal that was sent before",
        "in a fork with its own handler",
    ],
)
def test_a_process_goes_on_when_a_file_is_cut_short_while_rows_are_taken(tmp_path, why):
    assert printed("-c", LOST, tmp_path / "x.npy", why) == "went on\n"


def test_an_interrupt_that_comes_with_a_lost_page_is_not_lost(path, monkeypatch):
    held = kept_of(read_often(dv.open(path))).held
    answer, told = lost_pages._answer, []

    def interrupted(*given):
        told.append(given)
        if len(told) == 1:
            raise KeyboardInterrupt
        answer(*given)

    monkeypatch.setattr(lost_pages, "_answer", interrupted)
    os.truncate(path, 5000)
    block, rows = Block(128, (3000, 10), np.dtype("f4")), np.arange(20) + 2000
    with pytest.raises(KeyboardInterrupt):
        held.rows(block, rows)
    assert len(told) == 2 and held.rows(block, rows) is None


def test_a_signal_that_others_send_ends_the_process(tmp_path):
    process = python("-c", LOST, tmp_path / "x.npy", "a signal that is sent")
    assert process.stdout == "went on\n" and process.returncode == -signal.SIGBUS


@pytest.mark.parametrize("how", ["", "dumped"])
def test_what_others_have_mapped_is_left_to_them(tmp_path, how):
    process = python("-c", LOST, tmp_path / "x.npy", f"a map of others, {how}")
    assert process.stdout == "went on\n" and process.returncode == -signal.SIGBUS
    assert ("Bus error" in process.stderr) == bool(how)


def test_rows_that_cannot_be_taken_are_read_by_position(path, x, monkeypatch):
    view = read_often(dv.open(path))
    monkeypatch.setattr(lost_pages.Map, "rows", lambda *_: None)
    monkeypatch.setattr(lost_pages.Map, "part", lambda *_: None)
    monkeypatch.setattr(kept_files.OpenFile, "read", lambda *_: False)
    for rows in ROWS.values():
        assert np.array_equal(view[rows](), x[rows])


@pytest.mark.parametrize("why", ["another system", "few addresses", "large"])
def test_what_may_not_stay_mapped_stays_open(path, x, monkeypatch, why):
    limits = {"few addresses": (1 << 40, 1 << 40)}
    monkeypatch.setattr(
        kept_files.resource,
        "getrlimit",
        lambda _: limits.get(why, (kept_files.resource.RLIM_INFINITY,) * 2),
    )
    if why == "another system":
        monkeypatch.setattr(lost_pages, "can_handle", lambda: False)
    with sizes.set(mapped_bytes=1000 if why == "large" else sizes.mapped_bytes):
        view = read_often(dv.open(path), loaded=False)
        for rows in ROWS.values():
            assert np.array_equal(view[rows](), x[rows])


def test_few_files_stay_open_and_the_maps_have_a_limit(tmp_path, x):
    views = []
    for number in range(kept_files.MOST_FILES + 4):
        np.save(tmp_path / f"{number}.npy", x + number)
        views.append(read_often(dv.open(tmp_path / f"{number}.npy")))
    held = [kept_of(view).held is not None for view in views]
    assert held == [False] * 4 + [True] * kept_files.MOST_FILES
    with sizes.set(mapped_bytes=3 * os.path.getsize(tmp_path / "0.npy")):
        read_often(views[0])
        held = [kept_of(view).held is not None for view in views]
        assert held == [True] + [False] * (len(views) - 3) + [True] * 2
    for number, view in enumerate(views):
        assert (view[ORDER[:20]]() == x[ORDER[:20]] + number).all()


def test_nothing_is_left_of_views_that_are_gone_or_closed(tmp_path, path):
    with nothing_left(tmp_path):
        read_often(dv.open(path))
    with nothing_left(tmp_path), dv.open(path) as view:
        read_often(view)
    with nothing_left(tmp_path):
        part = view[:10]
    with pytest.raises(ValueError, match="was closed"):
        part()
    with open("/proc/self/maps") as maps:
        assert str(path) not in maps.read()


def test_members_of_an_archive_stay_open_together(tmp_path, x):
    np.savez(tmp_path / "a.npz", x=x, y=x[:, :3] + 1)
    view = dv.open(tmp_path / "a.npz")
    for _ in range(9):
        view.x[ORDER[:64]](), view.y[ORDER[:64]]()
    gc.collect()
    assert sum(link.endswith("a.npz") for link in open_files().values()) <= 2
    assert (view.y[ORDER[:64]]() == x[ORDER[:64], :3] + 1).all()


def test_a_pickle_holds_no_open_file(path, x):
    view = read_often(dv.open(path))
    raw = pickle.dumps(view)
    assert len(raw) < 2000
    assert (pickle.loads(raw)[ORDER[:99]]() == x[ORDER[:99]]).all()


def read_in_a_fork(view, expected):
    assert (view[ORDER[:256]]() == expected[ORDER[:256]]).all()
    assert (view[5]() == expected[5]).all()


def test_a_forked_process_reads_what_stays_open(path, x):
    view = read_often(dv.open(path))
    child = multiprocessing.get_context("fork").Process(target=read_in_a_fork, args=(view, x))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert (view[ORDER[:256]]() == x[ORDER[:256]]).all()


def test_short_rows_of_a_large_file_are_read_one_by_one(tmp_path):
    x = np.random.default_rng(4).normal(size=(64, 1000))
    np.save(tmp_path / "x.npy", x)
    rows = ORDER[ORDER < 64]
    with sizes.set(mapped_bytes=0):
        view = read_often(dv.open(tmp_path / "x.npy"), rows, loaded=False)
        for some in (rows[:20], [*rows[:18], rows[0], rows[0]], rows):
            assert (view[some]() == x[some]).all()
        held = kept_of(view).held
        block, few = Block(128, x.shape, x.dtype), 3 * np.arange(17)
        assert (held.rows(block, few[::-1]) == x[:51:3][::-1]).all()
        assert held.rows(block, few + 25) is None
        assert held.rows(block, np.arange(64)[::-1]) is None
