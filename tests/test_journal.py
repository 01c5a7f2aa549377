"""Updates of files happen or do not, whatever interrupts them: the journal, and its recovery."""

import gc
import itertools
import os
import pathlib
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import zarr

import dataview as dv
import kills
from children import python
from dataview.formats import handles
from dataview.index.sizes import sizes
from dataview.sources import npy
from dataview.write import journal, journals, plans, raw_files, recovery

HERE = pathlib.Path(__file__).parent
SEARCHED = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])


# --- kills ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kills.CASES)
def test_a_killed_update_is_finished_or_undone(name):
    is_slow = name.startswith("zarr")
    each = {"--kills": 2, "--steps": 1} if is_slow else {"--kills": 4, "--steps": 4}
    options = [part for option in each.items() for part in option]
    process = python(HERE / "kills.py", name, *options, PYTHONPATH=SEARCHED)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("name", ["npy-records", "npy-rows", "two-files"])
def test_a_killed_recovery_is_taken_up_again(name):
    options = "--kills", 0, "--steps", 2, "--again"
    process = python(HERE / "kills.py", name, *options, PYTHONPATH=SEARCHED)
    assert process.returncode == 0, process.stdout + process.stderr


def test_each_step_is_on_the_device_before_the_next_one_if_power_may_fail(tmp_path, monkeypatch):
    path = made(tmp_path)
    events = []
    for name in ("pwrite", "pwritev", "fsync"):
        monkeypatch.setattr(os, name, noting(events, name, getattr(os, name)))
    with small(), ThreadPoolExecutor(1) as pool, dv.executor(pool):
        d = dv.open(path, "r+", durable="power")
        d -= d._mean(axis=0)
        d._close()
    writes = [n for n, (name, _) in enumerate(events) if name != "fsync"]
    assert len(writes) > 40
    for write, following in itertools.pairwise(writes):
        name, handle = events[write]
        synced = {one for called, one in events[write:following] if called == "fsync"}
        assert handle in synced, (name, events[write : following + 1])


def test_recovery_brings_each_step_to_the_device_if_power_may_fail(tmp_path, monkeypatch):
    path = made(tmp_path)
    program = KILLED.replace('"r+")', '"r+", durable="power")')
    process = python("-c", program, path, "finish", 3, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    events = []
    for name in ("pwrite", "pwritev", "fsync"):
        monkeypatch.setattr(os, name, noting(events, name, getattr(os, name)))
    told = pytest.warns(RuntimeWarning, match="was finished")
    with small(), ThreadPoolExecutor(1) as pool, dv.executor(pool), told:
        dv.open(path)._close()
    assert len(events) > 40
    written = set()
    for name, handle in events:  # nothing is written before what was written elsewhere is safe
        written = written - {handle} if name == "fsync" else written | {handle}
        assert len(written) < 2
    assert not written


@pytest.mark.parametrize("case", ["two-files", "hdf5-gzip"])
def test_what_lies_beside_a_journal_is_on_the_device_before_it_if_power_may_fail(
    case, tmp_path, monkeypatch
):
    make, (change, *_) = kills.CASES[case]
    path = make(tmp_path, kills.numbers())
    synced, seen = set(), []
    real, begin = os.fsync, journal.Journal.begin

    def noted(handle):
        synced.add(os.fstat(handle).st_ino)
        real(handle)

    def beginning(self, *args):
        own = {one for one in tmp_path.rglob("*.journal*/*") if one.suffix}
        seen.extend(own)
        assert {one.stat().st_ino for one in (*own, *(one.parent for one in own))} <= synced
        begin(self, *args)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(journal.Journal, "begin", beginning)
    with small():
        if case == "two-files":
            change(path, durable="power")
        else:
            d = dv.open(path, "r+", durable="power")
            change(d)
            d._close()
    assert [one.suffix for one in seen] == [".link" if case == "two-files" else ".copy0"]


def noting(events, name, function):
    def noted(handle, *args):
        events.append((name, os.fstat(handle).st_ino))
        return function(handle, *args)

    return noted


WAYS = "finish", "undo", "record", "run"
"""How an update is kept whole; a record is undone, and holds all old bytes from the beginning.

So does that of a run of bytes, which has no plan."""


def across(kind, folder):
    """Return an array in chunks of which a row, and a column, are too large for a block."""
    path = folder / f"x.{kind}"
    if kind == "zarr":
        return getattr(kills, kind)(folder, kills.numbers(6000), **kills.ACROSS) / "a"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("a", data=kills.numbers(6000), **kills.ACROSS)
    return path


@pytest.mark.parametrize("kind", ["zarr", "h5"])
def test_an_update_of_blocks_cut_along_two_axes_is_finished_from_where_it_was(kind, tmp_path):
    path, _ = tear(across(kind, tmp_path), done=3)
    (told,) = dv.recover(path)
    assert (told.way, told.blocks, told.done) == ("finish", 8, 3)
    with small(), pytest.warns(RuntimeWarning, match="was finished"):
        d = dv.open(path)
    whole = kills.numbers(6000)
    np.testing.assert_allclose(getattr(d, "a", d)(), whole - whole.mean(axis=0), rtol=1e-12)
    d._close()
    assert not (path.parent / f".{path.name}.journal").exists()


# --- what stands in the way of recovery -------------------------------------------------------


def small(**others):
    return sizes.set(**{**kills.SMALL, **others})


def made(folder, rows=3000):
    path = folder / "x.npy"
    np.save(path, kills.numbers(rows))
    return path


KILLED = """
import os, sys, threading
import dataview as dv
from dataview.index.sizes import sizes
from dataview.sources import npy
from dataview.write import guards
import kills

counted, after, marking = [], guards.Guard.after, threading.Lock()

def until(self, *args):
    with marking:  # the blocks that were counted are marked when the process is killed
        counted.append(args)
        if len(counted) == int(sys.argv[3]):
            os.kill(os.getpid(), 9)
        after(self, *args)

def torn(file, data, place):
    os.pwrite(file.fileno(), memoryview(data).cast("B")[:data.nbytes // 2], place)
    os.kill(os.getpid(), 9)

guards.Guard.after = until
if sys.argv[2] == "run":
    npy.write_at = torn
with sizes.set(**kills.SMALL):
    d = dv.open(sys.argv[1], "r+")
    d = d.a if d._fields() == ("a",) else d
    if sys.argv[2] == "finish":
        d -= d._mean(axis=0)
    elif sys.argv[2] == "undo":
        d[...] = d[::-1]
    elif sys.argv[2] == "record":
        d[100:220:3] = 5
    else:
        d[100:140] = 5
"""


def torn(folder, way="finish"):
    """Return a file whose update was killed, and its journal."""
    return tear(made(folder), way)


def tear(path, way="finish", done=4):
    """Kill an update of a file when so many blocks are done and marked."""
    done = 0 if way == "record" else done
    process = python("-c", KILLED, path, way, done + 1, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    (found,) = (path.parent / f".{path.name}.journal").iterdir()
    return path, found


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected(way):
    a = kills.numbers()
    return a - a.mean(axis=0) if way == "finish" else a


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_who_opens_the_file_gets_it_whole_and_is_told(way, mode, tmp_path):
    path, _ = torn(tmp_path, way)
    done = "finished" if way == "finish" else "undone"
    with (
        small(),
        pytest.warns(RuntimeWarning, match=f"stopped at .* was {done}; the file is as"),
    ):
        d = dv.open(path, mode)
    assert f"96 kB, x.npy ({mode}, an update was {done})" in repr(d)
    np.testing.assert_allclose(d(), expected(way), rtol=1e-12)
    d._close()
    assert [*tmp_path.iterdir()] == [path]
    assert "update" not in repr(dv.open(path))


@pytest.mark.parametrize("way", WAYS)
def test_recover_tells_and_does_what_is_asked(way, tmp_path):
    path, found = torn(tmp_path, way)
    before = everything(tmp_path)
    (told,) = dv.recover(path)
    assert everything(tmp_path) == before
    does = "finish" if way == "finish" else "undo"
    assert (told.path, told.journal, told.way) == (str(path), str(found), does)
    assert told.blocks == (1 if way in ("record", "run") else 24)
    assert told.done == (4 if way == "finish" else None)
    state = " with 4 of 24 blocks done" if way == "finish" else ""
    assert told.what == ("subtract" if way == "finish" else "")
    by = " by subtract" if way == "finish" else ""
    assert str(told).startswith(f"an update of {path}{by} stopped at ")
    assert told.done_now().startswith(f"the update{by} that stopped at ")
    assert str(told).endswith(f"{state}: dv.open can {does} it")
    with small():
        (over,) = dv.recover(str(path), "recover")
    assert over == told._replace(is_over=True)
    state = "after" if way == "finish" else "before"
    assert str(over).startswith(f"{path}: the update{by} that stopped at ")
    assert str(over).endswith(f"was {over.outcome}; the file is as {state} it")
    assert [*tmp_path.iterdir()] == [path]
    assert dv.recover(path) == dv.recover(path, "recover") == []
    np.testing.assert_allclose(np.load(path), expected(way), rtol=1e-12)


def test_a_journal_can_be_forgotten(tmp_path):
    path, _ = torn(tmp_path)
    data = path.read_bytes()
    (told,) = dv.recover(path, "discard")
    assert told.way == "discard"
    assert str(told).endswith("was forgotten; the file is as it was left")
    assert everything(tmp_path) == {path: data}
    with pytest.raises(ValueError, match="'tell', 'recover', 'force', 'discard'; got 'undo'"):
        dv.recover(path, "undo")


LAYOUT = "<16sIIQQQIIB"
HEADER = struct.calcsize(LAYOUT)


def with_header(data, **changes):
    """Return a journal with parts of its header changed, and the sum that fits."""
    names = ("magic", "version", "way", "process", "plan_bytes", "plan_sum", "blocks", "pages")
    names += ("syncs",)
    parts = dict(zip(names, struct.unpack(LAYOUT, data[:HEADER]), strict=True))
    packed = struct.pack(LAYOUT, *{**parts, **changes}.values())
    return packed + struct.pack("<I", zlib.crc32(packed)) + data[HEADER + 4 :]


def with_plan(data, plan):
    start = struct.unpack(LAYOUT, data[:HEADER])
    changed = data[: journal.START] + plan + data[journal.START + start[4] :]
    return with_header(changed, plan_bytes=len(plan), plan_sum=raw_files.checksum(plan))


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def flipped(place):
    def flip(data):
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return flip


class Pointer:
    """A dtype of objects that says it has none, so that bytes would be taken for pointers."""

    def __reduce__(self):
        return np.dtype, ("O", False, True), (3, "|", None, None, None, -1, -1, 0)


DAMAGES = {
    "a plan of pointers": (
        lambda data: with_plan(data, pickle.dumps(Pointer())),
        "numpy.dtype, which no plan is made of",
    ),
    "slots of no size": (lambda data: with_header(data, pages=0), "its header makes no sense"),
    "a way that there is not": (lambda data: with_header(data, way=7), "its header makes no sense"),
    "other blocks": (lambda data: with_header(data, blocks=23), "."),
    "another file altogether": (lambda data: b"no journal" + data[10:], "is no journal"),
    "a header": (flipped(40), "its header has another sum"),
    "a header cut short": (lambda data: data[:30], "its header has another sum"),
    "zeros": (lambda data: bytes(len(data)), "it holds zeros alone"),
    "a plan": (flipped(journal.START + 70), "its plan has another sum"),
    "another version": (lambda data: with_header(data, version=7), "is of version 7"),
    "a plan of code": (
        lambda data: with_plan(data, pickle.dumps(Evil())),
        "posix.system, which no plan is made of",
    ),
    "a plan of nothing": (
        lambda data: with_plan(data, pickle.dumps(None)),
        "else than a plan",
    ),
    "no plan": (lambda data: with_plan(data, b"none"), "cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_journal_that_cannot_be_trusted_is_refused(damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, found = torn(tmp_path)
    change, message = DAMAGES[damage]
    found.write_bytes(change(found.read_bytes()))
    check_refused(path, message)


def check_refused(path, message):
    before = everything(path.parent)
    for mode in ("r", "r+"):
        with pytest.raises(ValueError, match=message) as caught:
            dv.open(path, mode)
        assert "nothing was changed: dv.recover(path, 'discard')" in str(caught.value)
    assert everything(path.parent) == before
    dv.recover(path, "discard")
    assert dv.open(path)().shape == (3000, 4)


@pytest.mark.parametrize("way", ["finish", "undo", "record"])
def test_old_bytes_that_are_damaged_are_refused_before_any_is_used(way, tmp_path):
    path, found = torn(tmp_path, way)
    data = found.read_bytes()
    rows = 40 if way == "record" else 128
    size = struct.pack("<Q", rows * 32)  # that of the old bytes of a block
    slots = [n for n in range(4096, len(data), 4096) if data[n + 8 : n + 16] == size]
    for slot in slots:  # of most, the blocks are done
        data = flipped(slot + journal.START + 5)(data)
    found.write_bytes(data)
    check_refused(path, "an entry has another sum")


@pytest.mark.parametrize("way", ["undo", "record"])
def test_old_bytes_that_are_missing_are_noticed(way, tmp_path):
    path, found = torn(tmp_path, way)
    data = found.read_bytes()
    found.write_bytes(data[: max(1, len(data) // 8192) * 4096])
    check_refused(path, "is damaged: (old bytes are missing|an entry has another sum)")


RUN = struct.calcsize("<QQQQQQHH")


def with_run(data, **changes):
    """Return the journal of a run with parts of it changed, and the sums that fit."""
    size = struct.unpack(LAYOUT, data[:HEADER])[4]
    run = plans.Run.unpacked(data[journal.START : journal.START + size])
    return with_plan(data, run._replace(**changes).packed())


RUN_DAMAGES = {
    "its numbers": (flipped(journal.START + 3), "its plan has another sum"),
    "its old bytes": (flipped(journal.START + RUN + 200), "its plan has another sum"),
    "bytes that are missing": (lambda data: data[:400], "its plan has another sum"),
    "a header": (flipped(40), "its header has another sum"),
    "another version": (lambda data: with_header(data, version=2), "is of version 2"),
    "nothing in it": (lambda data: with_plan(data, b""), "cannot be read"),
    "names that do not fit": (
        lambda data: with_plan(data, bytes(RUN) + b"x"),
        "cannot be read: it holds something else than a run",
    ),
    "another file": (lambda data: with_run(data, number=1), "that was replaced or moved since"),
    "another size": (lambda data: with_run(data, size=5), "was changed by another program"),
    "a place past the end": (
        lambda data: with_run(data, place=1 << 40),
        "was changed by another program",
    ),
}


@pytest.mark.parametrize("damage", RUN_DAMAGES)
def test_a_run_that_cannot_be_trusted_is_refused(damage, tmp_path):
    path, found = torn(tmp_path, "run")
    change, message = RUN_DAMAGES[damage]
    found.write_bytes(change(found.read_bytes()))
    check_refused(path, message)


def test_a_run_in_a_file_of_a_folder_is_put_back(tmp_path):
    folder = kills.fields(tmp_path, kills.numbers())
    program = KILLED.replace("d[100:140] = 5", "d.b[100:140] = 5")
    process = python("-c", program, folder, "run", PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert (np.load(folder / "b.npy") == 5).all(axis=1).sum() == 20
    (told,) = dv.recover(folder)
    assert (told.path, told.way) == (str(folder), "undo")
    with pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
        dv.open(folder / "b.npy")._close()
    assert np.array_equal(np.load(folder / "b.npy"), kills.numbers()[::-1])
    assert {one.name for one in tmp_path.rglob("*")} == {"x", "a.npy", "b.npy"}


def test_who_had_a_torn_file_open_may_not_write_it(tmp_path):
    path = made(tmp_path)
    with small():
        d = dv.open(path, "r+")
        d += 0
        process = python("-c", KILLED, path, "finish", 2, PYTHONPATH=SEARCHED)
        assert process.returncode == -signal.SIGKILL
        with pytest.raises(RuntimeError, match="was killed while it updated"):
            d[...] = 7
        with pytest.warns(RuntimeWarning, match="was finished"):
            again = dv.open(path, "r+")
        again[...] = 7
        assert np.load(path).tolist() == np.full((3000, 4), 7.0).tolist()


def test_a_file_in_the_place_of_the_journals_is_named(tmp_path):
    path = made(tmp_path)
    (tmp_path / ".x.npy.journal").write_text("mine")
    d = dv.open(path, "r+")
    with pytest.raises(NotADirectoryError, match="in the place of the folder for journals"):
        d += 1
    assert np.array_equal(np.load(path), kills.numbers())


def test_texts_of_any_length_in_zarr_are_written(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("s", data=np.array(["a", "bb", "ccc"], np.dtypes.StringDType()))
    d = dv.open(tmp_path / "x.zarr", "r+")
    d.s[1:] = "long enough"
    d._close()
    assert dv.open(tmp_path / "x.zarr").s().tolist() == ["a", "long enough", "long enough"]
    assert {name.name for name in tmp_path.iterdir()} == {"x.zarr"}


def test_the_journal_of_a_file_that_was_replaced_is_refused(tmp_path):
    path, _ = torn(tmp_path)
    shutil.copy(path, tmp_path / "other.npy")
    os.replace(tmp_path / "other.npy", path)
    check_refused(path, "that was replaced or moved since")


def test_a_journal_that_was_made_for_another_file_is_refused(tmp_path):
    path, found = torn(tmp_path)
    data = found.read_bytes()
    (tmp_path / "other").mkdir()
    other = made(tmp_path / "other")
    start = struct.unpack(LAYOUT, data[:HEADER])
    plan = plans.unpacked(data[journal.START : journal.START + start[4]])
    there = plans.File(os.path.join("other", "x.npy"), other.stat().st_ino, other.stat().st_size)
    found.write_bytes(with_plan(data, plan._replace(files=(there,)).packed()))
    check_refused(path, r"names .*other/x.npy, and was not made for it")


def test_a_run_in_another_file_is_refused(tmp_path):
    path, found = torn(tmp_path, "run")
    data = found.read_bytes()
    (tmp_path / "other").mkdir()
    other = made(tmp_path / "other")
    seen = {"number": other.stat().st_ino, "size": other.stat().st_size}
    inside = os.path.join(os.pardir, "other", "x.npy")
    for names in ({"inside": inside}, {"owner": os.path.join("other", "x.npy")}):
        found.write_bytes(with_run(data, **names, **seen))
        with pytest.raises(ValueError, match=r"names .*other/x.npy, and was not made for it"):
            dv.open(path)
        assert np.array_equal(np.load(other), kills.numbers())


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_was_written_anew_is_not_recovered(way, tmp_path):
    path, _ = torn(tmp_path, way)
    np.save(path, kills.numbers() + 100)  # the same file, for the system, and as old
    data = path.read_bytes()
    with pytest.raises(ValueError, match="was changed by another program after the update stopped"):
        dv.open(path)
    assert path.read_bytes() == data
    assert dv.recover(path, "force")
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("way", ["finish", "undo"])
def test_a_file_that_was_written_anew_is_known_before_a_block_is_done(way, tmp_path):
    path, _ = tear(made(tmp_path), way, done=0)
    np.save(path, kills.numbers() + 100)
    data = path.read_bytes()
    with pytest.raises(ValueError, match="was changed by another program after the update stopped"):
        dv.open(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("way", WAYS)
def test_a_file_over_which_an_older_one_was_copied_is_not_recovered(way, tmp_path):
    path, _ = torn(tmp_path, way)
    np.save(tmp_path / "older", kills.numbers() + 100)
    os.utime(tmp_path / "older.npy", (1e9, 1e9))
    shutil.copy2(tmp_path / "older.npy", path)  # the same file, for the system
    data = path.read_bytes()
    with pytest.raises(ValueError, match="was changed by another program after the update stopped"):
        dv.open(path)
    assert path.read_bytes() == data


def folder_of_one(folder, array):
    """Write a folder with one array, or write that anew."""
    (folder / "x").mkdir(exist_ok=True)
    np.save(folder / "x" / "a.npy", array)
    return folder / "x"


def zarr_of_one(folder, array):
    """Write an array of zarr into a folder that may be there: for the system it is the same."""
    zarr.create_array(folder / "x.zarr", data=array, chunks=(500, 4), overwrite=True)
    return folder / "x.zarr"


@pytest.mark.parametrize(("make", "way"), [(folder_of_one, "finish"), (zarr_of_one, "record")])
def test_a_folder_that_was_written_anew_is_not_recovered(way, make, tmp_path):
    path, _ = tear(make(tmp_path, kills.numbers()), way, done=0)
    make(tmp_path, kills.numbers() + 100)
    for one in path.rglob("*"):
        os.utime(one, (later := one.stat().st_mtime + 10, later))
    before = everything(path)
    with pytest.raises(ValueError, match=r"by another program after|moved since"):
        dv.open(path)
    assert everything(path) == before


def test_a_packed_file_over_which_an_older_one_was_copied_is_not_put_back(tmp_path):
    make, _ = kills.CASES["hdf5-gzip"]
    path = make(tmp_path, kills.numbers())
    process = python("-c", KILLED_PACKED, path, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    make(tmp_path, kills.numbers() + 100)
    os.utime(path, (1e9, 1e9))
    data = path.read_bytes()
    with pytest.raises(ValueError, match="was changed by another program after the update stopped"):
        dv.open(path)
    assert path.read_bytes() == data


KILLED_EARLY = KILLED.replace(
    "guards.Guard.after = until", "guards.Guard.{} = lambda *args: os.kill(os.getpid(), 9)"
)


@pytest.mark.parametrize("step", ["before", "writing"])
@pytest.mark.parametrize("is_copied", [False, True])
def test_an_update_of_which_no_block_is_done_is_undone(step, is_copied, tmp_path):
    path = made(tmp_path)
    process = python("-c", KILLED_EARLY.format(step), path, "finish", 1, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    if is_copied:  # by a script that begins again with the data as they were
        np.save(path, kills.numbers())
    else:  # a write that is killed before its first byte changes the time
        os.utime(path)
    with small(), pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
        d = dv.open(path)
    assert np.array_equal(d(), kills.numbers())


def test_a_packed_file_that_was_written_anew_is_not_put_back(tmp_path, monkeypatch):
    make, _ = kills.CASES["hdf5-gzip"]
    path = make(tmp_path, kills.numbers())
    process = python("-c", KILLED_PACKED, path, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    make(tmp_path, kills.numbers() + 100)
    later = path.stat().st_mtime + 10
    os.utime(path, (later, later))
    data = path.read_bytes()
    with pytest.raises(ValueError, match="was changed by another program after the update stopped"):
        dv.open(path)
    assert path.read_bytes() == data
    with monkeypatch.context() as patch:  # a kill while the copy is put back
        patch.setattr(recovery, "copy", stopped)
        with pytest.raises(KeyboardInterrupt):
            dv.recover(path, "force")
    with pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
        d = dv.open(path)
    assert np.array_equal(d.a(), kills.numbers())
    d._close()
    assert [*tmp_path.iterdir()] == [path]


def test_texts_in_zarr_are_put_back(tmp_path):
    path = tmp_path / "x.zarr"
    texts = np.array([str(n) * 9 for n in range(500)], np.dtypes.StringDType())
    zarr.open_group(path, mode="w").create_array("a", data=texts, chunks=(50,))
    program = KILLED_PACKED.replace("d.a -= 1", "d.a[:] = 'x'")
    process = python("-c", program, path, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert "x" in zarr.open_group(path, mode="r")["a"][...].tolist()
    with pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
        d = dv.open(path)
    assert d.a().tolist() == texts.tolist()
    d._close()
    assert [*tmp_path.iterdir()] == [path]


def stopped(*args):
    raise KeyboardInterrupt


KILLED_PACKED = """
import os, sys
import dataview as dv
from dataview.write import guards
guards.Guard.after = lambda *args: os.kill(os.getpid(), 9)
d = dv.open(sys.argv[1], "r+")
d.a -= 1
"""


def test_a_file_of_another_length_is_not_recovered(tmp_path):
    path, _ = torn(tmp_path)
    np.save(path, np.zeros(7))
    check_refused_of(path, "was changed by another program", (7,))


def check_refused_of(path, message, shape):
    with pytest.raises(ValueError, match=message):
        dv.open(path)
    dv.recover(path, "discard")
    assert dv.open(path)().shape == shape


def test_a_folder_shows_no_torn_file(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    torn(folder)
    with small(), pytest.warns(RuntimeWarning, match="was finished; the file is as after it"):
        d = dv.open(tmp_path)
    np.testing.assert_allclose(d.a.x(), expected("finish"), rtol=1e-12)


@pytest.mark.parametrize("says_array", ["consolidated", "attribute"])
def test_a_group_of_zarr_above_a_torn_array_shows_it_whole(says_array, tmp_path):
    root = zarr.create_group(tmp_path / "root.zarr")
    group = root.create_group("g")
    group.create_array("x", data=kills.numbers())
    tear(tmp_path / "root.zarr" / "g" / "x")
    if says_array == "attribute":
        root.attrs["kind"] = group.attrs["node_type"] = "array"
    else:
        with warnings.catch_warnings(action="ignore"):  # version 3 does not specify it
            zarr.consolidate_metadata(root.store)
    (told,) = dv.recover(tmp_path / "root.zarr", action="tell")
    assert told.path == str(tmp_path / "root.zarr" / "g" / "x")
    with small(), pytest.warns(RuntimeWarning, match="was finished; the file is as after it"):
        d = dv.open(tmp_path / "root.zarr")
    np.testing.assert_allclose(d.g.x(), expected("finish"), rtol=1e-12)


@pytest.mark.parametrize("version", [2, 3])
def test_the_chunks_of_zarr_are_not_searched_for_journals(version, tmp_path, monkeypatch):
    path = tmp_path / "root.zarr"
    root = zarr.create_group(path, zarr_format=version)
    for name in ("broken", "x"):
        root.create_array(name, data=np.zeros((9, 9)), chunks=(1, 1))
    if version == 3:  # what it is cannot be known
        (path / "broken" / "zarr.json").write_text('{"node_type": "array"')
    seen = []
    monkeypatch.setattr(recovery.os, "scandir", noting_paths(seen, os.scandir))
    assert dv.recover(path, action="tell") == []
    assert (str(path / "broken") in seen) == (version == 3)
    assert str(path) in seen and str(path / "x") not in seen


def noting_paths(seen, function):
    def noted(path):
        seen.append(path)
        return function(path)

    return noted


def test_links_that_lead_back_are_not_followed_to_find_journals(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    made(folder)
    (folder / "b").symlink_to(tmp_path)
    (folder / "c").symlink_to(folder)
    assert dv.recover(tmp_path) == []


def test_a_journal_of_two_files_is_not_lost_when_one_is_replaced(tmp_path):
    make, _ = kills.CASES["two-files"]
    path = make(tmp_path, kills.numbers())
    process = os.fork()
    if not process:
        stop = kills.Killer(40, half=True)
        stop.install()
        with small():
            kills.both_files(path)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    with small():
        dv.View(np.zeros(3))._save(path / "a.npy")
    assert np.array_equal(np.load(path / "b.npy"), kills.numbers()[::-1])
    assert dv.open(path / "a.npy")().tolist() == [0, 0, 0]


def test_recover_needs_a_file_that_is_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        dv.recover(tmp_path / "typo.npy")
    with pytest.raises(TypeError, match="recover takes the path of a file or folder; got View"):
        dv.recover(dv.View([1]))


def test_what_is_saved_over_a_torn_file_takes_the_journal_away(tmp_path):
    path, _ = torn(tmp_path)
    dv.View(np.zeros(3))._save(path)
    assert [*tmp_path.iterdir()] == [path]
    assert dv.open(path)().tolist() == [0, 0, 0]


def test_a_torn_file_is_recovered_where_its_folder_was_moved(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    torn(folder)
    folder.rename(tmp_path / "b")
    with small(), pytest.warns(RuntimeWarning, match="was finished; the file is as after it"):
        d = dv.open(tmp_path / "b" / "x.npy")
    np.testing.assert_allclose(d(), expected("finish"), rtol=1e-12)


def test_a_link_leads_to_the_journal(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    path, _ = torn(folder)
    (tmp_path / "link.npy").symlink_to(path)
    with small(), pytest.warns(RuntimeWarning, match="was finished; the file is as after it"):
        d = dv.open(tmp_path / "link.npy")
    np.testing.assert_allclose(d(), expected("finish"), rtol=1e-12)


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_run_that_was_written_through_a_link_is_put_back(is_folder, tmp_path):
    path = kills.fields(tmp_path, kills.numbers()) if is_folder else made(tmp_path)
    (tmp_path / "link").symlink_to(path)
    program = KILLED.replace("d[100:140] = 5", "d.b[100:140] = 5") if is_folder else KILLED
    process = python("-c", program, tmp_path / "link", "run", PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    with pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
        d = dv.open(path)
    whole = kills.numbers()
    assert np.array_equal(d.b() if is_folder else d(), whole[::-1] if is_folder else whole)


FIELD_KILLED = KILLED.replace("d -= d._mean", "d.a -= d.a._mean")


def an_hour_ago(path, found):
    """Have an update of a file, and its kill, an hour earlier."""
    data = found.read_bytes()
    start = struct.unpack(LAYOUT, data[:HEADER])
    plan = data[journal.START : journal.START + start[4]]
    (begun,) = {file.begun for file in plans.unpacked(plan).files}
    earlier = plan.replace(struct.pack("<q", begun), struct.pack("<q", begun - 3600 * 10**9))
    found.write_bytes(with_plan(data, earlier))
    for one in (path, found):
        then = one.stat().st_mtime - 3600
        os.utime(one, (then, then))


@pytest.mark.parametrize("packed", [None, "gzip"])
def test_files_that_hdf5_marks_as_open_are_recovered_later(packed, tmp_path, monkeypatch):
    """To take the mark away, and to open the file, changes its time."""
    path = kills.hdf5(tmp_path, kills.numbers(), "latest", chunks=(500, 4), compression=packed)
    program = FIELD_KILLED if packed is None else KILLED_PACKED
    process = python("-c", program, path, "finish", 3, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    found = next(one for one in (tmp_path / ".x.h5.journal").iterdir() if "." not in one.name)
    with small(), monkeypatch.context() as patch:
        patch.setattr(recovery, "Update", stopped)  # a kill when the file was opened again
        an_hour_ago(path, found)
        with pytest.raises(KeyboardInterrupt):
            dv.open(path)
    an_hour_ago(path, found)
    with small(), pytest.warns(RuntimeWarning, match="the file is as"):
        d = dv.open(path)
    whole = kills.numbers()
    wanted = whole if packed else whole - whole.mean(axis=0)
    np.testing.assert_allclose(d.a(), wanted, rtol=1e-12)
    d._close()
    assert [*tmp_path.iterdir()] == [path]


HOLDING = """
import sys
import dataview as dv

d = dv.open(sys.argv[1], "r+")
print("open", flush=True)
sys.stdin.readline()
"""


def test_who_tries_to_open_a_file_leaves_what_says_who_has_it_open(tmp_path):
    path = kills.hdf5(tmp_path, kills.numbers(), "latest")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SEARCHED},
    )
    assert process.stdout.readline() == b"open\n"
    with pytest.raises(OSError, match="open elsewhere"):
        dv.open(path)
    assert dv.recover(path, "discard") == []
    process.kill()
    process.communicate()
    assert len(dv.open(path)) == 3000  # HDF5's mark of who writes it is taken away
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_hdf5_marks_as_open_can_be_opened_when_its_journal_is_forgotten(tmp_path):
    path = kills.hdf5(tmp_path, kills.numbers(), "latest")
    process = python("-c", FIELD_KILLED, path, "finish", 3, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    (told,) = dv.recover(path, "discard")
    assert told.way == "discard"
    assert dv.open(path).a().shape == (3000, 4)


SLOW = """
import itertools, os, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import dataview as dv
from dataview.index.sizes import sizes
from dataview.write import guards, journal
import kills

counted = []

def aged(row):
    counted.append(1)
    if len(counted) == 1000:  # as if it took an hour
        folder = pathlib.Path(sys.argv[1] + "/..").resolve() / ".x.npy.journal"
        for path in folder.iterdir():
            os.utime(path, (0, 0))
        journal.time.monotonic = itertools.count(1e9, 10).__next__
        guards.Guard.after = lambda *args: os.kill(os.getpid(), 9)
    return row * 2

one = ThreadPoolExecutor(1)  # two threads could make the journal old between two steps of a block
with dv.executor(one), sizes.set(**{**kills.SMALL, "undo_bytes": 1 << int(sys.argv[2])}):
    d = dv.open(sys.argv[1], "r+")
    d[...] = dv.View(kills.numbers())._map(aged, shape=(4,), dtype="f8") + 1
"""


@pytest.mark.parametrize("undo", [13, 30])
def test_a_journal_is_no_older_than_a_block_whose_value_took_long(undo, tmp_path):
    path = made(tmp_path)
    process = python("-c", SLOW, path, undo, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not np.array_equal(np.load(path), kills.numbers())
    with pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
        dv.open(path)._close()
    assert np.array_equal(np.load(path), kills.numbers())


INTERRUPTED = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
import dataview as dv
from dataview.index.sizes import sizes
from dataview.write import guards, journal
import kills

counted, entry, undo = [], journal._entry, guards.Guard.before_undo

def interrupted(*args):
    counted.append(args)
    if len(counted) == 5:  # old bytes lie in a slot that another block had, whose entry is there
        raise KeyboardInterrupt
    return entry(*args)

def killed(*args):
    undo(*args)
    os.kill(os.getpid(), 9)

journal._entry, guards.Guard.before_undo = interrupted, killed
with sizes.set(**{**kills.SMALL, "undo_bytes": 1 << 30}):
    with ThreadPoolExecutor(1) as pool, dv.executor(pool):
        d = dv.open(sys.argv[1], "r+")
        d -= d._mean(axis=0)
"""


def test_a_kill_while_an_interrupted_update_is_undone_leaves_what_can_be_recovered(tmp_path):
    path = made(tmp_path)
    np.save(path, np.asfortranarray(kills.numbers()))
    process = python("-c", INTERRUPTED, path, PYTHONPATH=SEARCHED)
    assert process.returncode == -signal.SIGKILL, process.stderr
    with small(), pytest.warns(RuntimeWarning, match="was finished; the file is as after it"):
        dv.open(path)._close()
    np.testing.assert_allclose(np.load(path), expected("finish"), rtol=1e-12)


# --- failures in a process that lives ---------------------------------------------------------


def failing(after):
    """Return a function of rows that fails at one of them."""

    def function(row):
        if row[0] == after:
            raise OSError("no such row")
        return row * 2

    return function


def test_a_failing_function_leaves_the_file_as_it_was_whatever_the_budget(tmp_path):
    path = tmp_path / "x.npy"
    a = np.arange(12000.0).reshape(3000, 4)
    np.save(path, a)
    with small(undo_bytes=0):
        d = dv.open(path, "r+")
        doubled = dv.View(a)._map(failing(8000), shape=(4,), dtype="f8")
        with pytest.raises(OSError, match="no such row"):
            d[...] = doubled
        assert np.load(path).tolist() == a.tolist()
        d._close()
    assert [*tmp_path.iterdir()] == [path]


def interrupted_update(d, monkeypatch, at):
    """Have an update of a file stop before one of its blocks, past its budget; return the error."""
    real, counted = journal.Journal.keep, []

    def failing(self, *args):
        counted.append(1)
        if len(counted) >= at:
            raise OSError(5, "the disk is broken")
        return real(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "keep", failing)
        with pytest.raises(dv.PartialWriteError) as caught:
            d[:, 1:3] -= d[:, 1:3]._mean(axis=0)
    return caught.value


@pytest.mark.parametrize("durable", ["process", False])
def test_a_run_that_fails_midway_is_put_back(durable, tmp_path, monkeypatch):
    path, a = made(tmp_path), kills.numbers()
    d = dv.open(path, "r+", durable=durable)
    d[100:400] = 1
    np.save(path, a)
    with monkeypatch.context() as patch:
        patch.setattr(npy, "write_at", torn_at({1: 0.5}, npy.write_at))
        with pytest.raises(OSError, match="the disk is broken") as caught:
            d[100:400] = 5
    (note,) = caught.value.__notes__
    assert "raised by the write to rows 100:400 of x.npy" in note
    assert np.array_equal(np.load(path), a)
    d[100:400] = 6
    assert (np.load(path)[100:400] == 6).all()
    d._close()
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_run_that_cannot_be_put_back_is_resumed_or_undone_by_who_comes_next(
    resumes, tmp_path, monkeypatch
):
    path, a = made(tmp_path), kills.numbers()
    d = dv.open(path, "r+")
    with monkeypatch.context() as patch:
        patch.setattr(npy, "write_at", torn_at({1: 0.5, 2: 0.1}, npy.write_at))
        with pytest.raises(dv.PartialWriteError, match="the file undoes the write") as error:
            d[100:400] = 5
    assert error.value.rows == {"x.npy (r+)": [(slice(100, 400),)]}
    assert (np.load(path)[100:400] == 5).any()
    if resumes:
        error.value.resume()
        a[100:400] = 5
        d._close()
    else:
        del error, d
        gc.collect()
        with pytest.warns(RuntimeWarning, match="was undone; the file is as before it"):
            dv.open(path)._close()
    assert np.array_equal(np.load(path), a)
    assert [*tmp_path.iterdir()] == [path]


def torn_at(parts, function):
    """Return a function that writes a part of what it is given, and fails, at some of its calls."""
    counted = []

    def write(file, data, place):
        counted.append(1)
        part = parts.get(len(counted))
        if part is None:
            return function(file, data, place)
        function(file, data[: int(len(data) * part)], place)
        raise OSError(5, "the disk is broken")

    return write


def test_an_update_that_stopped_is_resumed_or_finished_by_who_comes_next(tmp_path, monkeypatch):
    path, a = made(tmp_path), kills.numbers()
    after = a.copy()
    after[:, 1:3] -= after[:, 1:3].mean(axis=0)
    for resumes in (True, False):
        np.save(path, a)
        with small(undo_bytes=0):
            d = dv.open(path, "r+")
            error = interrupted_update(d, monkeypatch, 6)
            assert not np.array_equal(np.load(path), after)
            assert not np.array_equal(np.load(path), a)
            dv.open(path)._close()  # who has the error may look at the file
            if resumes:
                error.resume()
                d._close()
                assert [*tmp_path.iterdir()] == [path]
            else:
                del error, d
                gc.collect()
                with pytest.warns(RuntimeWarning, match="was finished; the file is as after it"):
                    dv.open(path)._close()
        np.testing.assert_allclose(np.load(path), after, rtol=1e-12)


def centred_or_reversed(d, way):
    if way == "finish":
        d -= d._mean(axis=0)
    else:
        d[...] = d[::-1]


@pytest.mark.parametrize("way", ["finish", "undo"])
@pytest.mark.parametrize("at", [1, 2, 3, 5, 9, 20])
def test_a_full_disk_at_any_note_leaves_the_file_whole(way, at, tmp_path, monkeypatch):
    path, a = made(tmp_path), kills.numbers()
    real, counted = os.pwrite, []

    def full(*args):
        counted.append(1)
        if len(counted) == at:
            raise OSError(28, "No space left on device")
        return real(*args)

    with small(undo_bytes=1 << 30):
        d = dv.open(path, "r+")
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left") as caught:
            centred_or_reversed(d, way)
        monkeypatch.setattr(os, "pwrite", real)
        assert ".x.npy.journal" in caught.value.filename
        assert np.array_equal(np.load(path), a)
        d[:10] = 0
        d._close()
    assert [*tmp_path.iterdir()] == [path]
    assert np.load(path)[:10].any() == np.False_


@pytest.mark.parametrize("durable", ["process", "power"])
@pytest.mark.parametrize("packed", [None, "gzip"])
def test_a_disk_that_stays_full_keeps_nothing_of_an_update(packed, durable, tmp_path, monkeypatch):
    path = kills.hdf5(tmp_path, kills.numbers(), compression=packed)

    def full(handle, data, *args):
        raise OSError(28, "No space left on device")

    def half_copied(path, to):
        pathlib.Path(to).write_bytes(pathlib.Path(path).read_bytes()[:5000])
        full(None, None)

    d = dv.open(path, "r+", durable=durable)
    with small(), monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        patched.setattr(shutil, "copyfile", half_copied)
        with pytest.raises(OSError, match="No space left"):
            d.a += 1
        assert [*(tmp_path / ".x.h5.journal").iterdir()] == []
    d.a += 1
    d._close()
    assert [*tmp_path.iterdir()] == [path]
    assert np.array_equal(dv.open(path).a(), kills.numbers() + 1)


def test_a_disk_without_room_for_a_name_is_left_as_it_was(tmp_path, monkeypatch):
    path, real = made(tmp_path), os.open

    def full(name, flags, *args, **options):
        if flags & os.O_EXCL:
            raise OSError(28, "No space left on device", name)
        return real(name, flags, *args, **options)

    d = dv.open(path, "r+")
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space left"):
        d += 1
    assert [*tmp_path.iterdir()] == [path]
    assert np.array_equal(np.load(path), kills.numbers())


def test_no_journal_can_be_made(tmp_path, monkeypatch):
    path = made(tmp_path)
    real = os.makedirs

    def refused(folder, *args, **options):
        if str(folder).endswith(".journal"):
            raise PermissionError(13, "Permission denied", folder)
        real(folder, *args, **options)

    monkeypatch.setattr(os, "makedirs", refused)
    d = dv.open(path, "r+")
    with pytest.raises(PermissionError, match="durable=False to update it without"):
        d += 1
    assert np.array_equal(np.load(path), kills.numbers())
    d = dv.open(path, "r+", durable=False)
    d += 1
    assert np.array_equal(np.load(path), kills.numbers() + 1)


# --- when there is a journal, and where -------------------------------------------------------


def test_what_is_written_at_once_needs_none(tmp_path):
    path = made(tmp_path)
    d = dv.open(path, "r+")
    d[5] = 1
    d[7, 2] = 3
    assert [*tmp_path.iterdir()] == [path]
    d[5:2000] = 2
    assert {name.name for name in tmp_path.iterdir()} == {"x.npy", ".x.npy.journal"}
    d._close()
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("durable", ["process", "power"])
def test_a_small_update_takes_few_calls(durable, tmp_path, monkeypatch):
    path = made(tmp_path)
    d = dv.open(path, "r+", durable=durable)
    d[123:125] = 1
    counted = []
    for name in ("pwrite", "ftruncate", "fsync"):
        monkeypatch.setattr(os, name, noting(counted, name, getattr(os, name)))
    d[123:125] = 2
    calls = ["pwrite", "pwrite"]  # what was there together with the header, and the header again
    if durable == "power":  # a device may write only a part of a page
        calls = [*["pwrite", "fsync"] * 2, "fsync", "pwrite", "fsync"]
    assert [name for name, _ in counted] == calls
    d[[3, 500, 2999]] = 3
    monkeypatch.undo()
    assert [name for name, _ in counted[len(calls) :]].count("pwrite") == 3
    assert np.load(path)[[3, 124, 500, 2999]].tolist() == [[n] * 4 for n in (3, 2, 3, 3)]
    assert np.array_equal(np.load(path)[501:2999], kills.numbers()[501:2999])


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
@pytest.mark.parametrize("shape", [(3000, 4), (3, 4000), (1, 2, 5000), (7001,)])
def test_blocks_of_one_window_are_noted_one_by_one(kind, shape, tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    a, b = np.random.default_rng(0).normal(size=(2, *shape))
    np.save(path, a)
    kept = []
    real = journal.Journal.keep
    monkeypatch.setattr(
        journal.Journal, "keep", lambda own, *args: kept.append(args[0]) or real(own, *args)
    )
    with small(noted_bytes=1 << 11), kind(2) as pool, dv.executor(pool):
        d = dv.open(path, "r+")
        d -= d._mean(axis=0)
        assert sorted(kept) == [*range(len(kept))]
        assert len(kept) >= a.nbytes // sizes.file_bytes
        d *= dv.View(b)
        d += d[..., :1] * 0 + 3
        d._close()
    np.testing.assert_allclose(np.load(path), (a - a.mean(axis=0)) * b + 3, 1e-9, 1e-12)


def test_enough_blocks_are_summed_to_know_a_file_by(tmp_path, monkeypatch):
    path, noted = made(tmp_path), []
    monkeypatch.setattr(journal.Journal, "note", lambda own, block, value: noted.append(block))
    with small():
        d = dv.open(path, "r+")
        d -= d._mean(axis=0)
    assert sorted(noted) == [*range(8), 8, 16, 23]  # the last one before it is changed


def test_a_kill_after_an_undo_for_which_the_disk_had_no_room_leaves_what_can_be_finished(tmp_path):
    path = made(tmp_path)
    write, keep, count = npy.NpySource.write, journal.Journal.keep, itertools.count()

    def failing(self, index, value):
        if next(count) < 2:
            return write(self, index, value)
        half = value.copy()
        half[: len(half) // 2] = -1
        write(self, index, half)
        raise OSError("half of it")

    def full(self, block, old, is_new=False):
        if is_new:
            raise OSError("no room for another slot")
        return keep(self, block, old)

    def work():
        npy.NpySource.write, journal.Journal.keep = failing, full
        with small(), pytest.raises(dv.PartialWriteError):
            kills.shifted(dv.open(path, "r+"))
        os.kill(os.getpid(), signal.SIGKILL)

    assert kills.in_child(work) == -signal.SIGKILL
    with small(), pytest.warns(RuntimeWarning, match="was finished"):
        dv.open(path)._close()
    whole = kills.numbers()
    assert np.array_equal(np.load(path), np.concatenate([whole[:1], whole[:-1]]))


@pytest.mark.parametrize("rows", [slice(126, 128), [3, 127, 200]])  # a run, and a record
def test_threads_take_turns_with_small_updates(rows, tmp_path, monkeypatch):
    d = dv.open(made(tmp_path), "r+")
    begun, may_end = threading.Event(), threading.Event()
    write = npy.NpyFile.checked

    def waiting(self, mode):
        if mode == "r+b" and threading.current_thread().name == "first":
            begun.set()
            may_end.wait()
        return write(self, mode)

    def writing(value):
        d[rows] = value

    monkeypatch.setattr(npy.NpyFile, "checked", waiting)
    first = threading.Thread(target=writing, args=(1,), name="first")
    second = threading.Thread(target=writing, args=(2,))
    first.start()
    begun.wait()
    second.start()
    second.join(0.05)
    assert second.is_alive()
    may_end.set()
    first.join()
    second.join()
    assert (d[rows]() == 2).all()


def test_views_that_are_gone_leave_no_journal(tmp_path):
    path = made(tmp_path)
    d = dv.open(path, "r+")
    d += 1
    part = d[3:5]
    del d
    gc.collect()
    part += 1
    del part
    gc.collect()
    assert [*tmp_path.iterdir()] == [path]


def test_the_folder_of_journals_may_vanish_before_anything_is_in_it(tmp_path, monkeypatch):
    """Other views, or processes, that end at that moment take it away while it is empty."""
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path in paths:
        np.save(path, kills.numbers())
    make, vanished = journals.Journals._make_folder, set()

    def vanishing(self):
        make(self)
        if self.folder not in vanished:
            vanished.add(self.folder)
            os.rmdir(self.folder)

    monkeypatch.setattr(journals.Journals, "_make_folder", vanishing)
    a, b = (dv.open(path, "r+") for path in paths)
    with small():
        dv.View(a=a, b=b)._write((b * 1, a * 2))
    assert len(vanished) == 2
    assert np.array_equal(np.load(paths[0]), kills.numbers())
    assert np.array_equal(np.load(paths[1]), kills.numbers() * 2)


def test_none_is_kept_where_it_is_not_asked_for(tmp_path, monkeypatch):
    path = made(tmp_path)
    monkeypatch.setattr(journal.Journal, "begin", None)
    for view in (dv.open(path, "r+", durable=False), dv.View(np.load(path, mmap_mode="r+"))):
        view -= view._mean(axis=0)
    with pytest.raises(ValueError, match="durable is one of 'process', 'power', False: what upd"):
        dv.open(path, "r+", durable=True)
    with pytest.raises(ValueError, match="durable is one of"):
        dv.open(path, durable="disk")


def test_much_that_is_kept_is_announced(tmp_path):
    path = made(tmp_path)
    with small(announced_bytes=1 << 10):
        d = dv.open(path, "r+")
        with pytest.warns(
            RuntimeWarning, match=r"this update of x.npy \(r\+\) keeps 0 MB of what was"
        ):
            d[...] = d[::-1]
        d -= d._mean(axis=0)  # of this one only what is being changed


RUNNING = """
import sys, time
import numpy as np
import dataview as dv
from dataview.index.sizes import sizes
import kills

def slow(row):
    if row[0] == 8000:
        print("begun", flush=True)
        sys.stdin.readline()
    return row * 2

with sizes.set(**kills.SMALL):
    a = np.arange(12000.0).reshape(3000, 4)
    d = dv.open(sys.argv[1], "r+")
    d[...] = dv.View(a)._map(slow, shape=(4,), dtype="f8")
"""


def test_a_file_that_another_process_updates_is_refused_or_waited_for(tmp_path):
    path = made(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNNING), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SEARCHED},
    )
    assert process.stdout.readline() == b"begun\n"
    for mode in ("r", "r+"):
        told = f"process {process.pid} is updating the file"
        with pytest.raises(BlockingIOError, match=told) as error:
            dv.open(path, mode)
        assert error.value.filename == str(path)
    process.stdin.write(b"go on\n")
    process.stdin.flush()
    d = dv.open(path, lock="wait")
    assert d().tolist() == (np.arange(12000.0).reshape(3000, 4) * 2).tolist()
    assert process.wait() == 0
    process.communicate()


UPDATED = """
import os, signal, sys
import numpy as np
import dataview as dv

d = dv.open(sys.argv[1], "r+")
d.x[...] = np.ones((400, 4))
print("updated", flush=True)

def killed(row):
    if row[0] == 800:
        os.kill(os.getpid(), signal.SIGKILL)
    return row * 2

if sys.stdin.readline() == "update\\n":
    d.x[...] = dv.View(np.arange(1600.0).reshape(400, 4))._map(killed, shape=(4,), dtype="f8")
d._close()
"""


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("told", ["close", "update"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_who_waits_for_an_update_gets_an_hdf5_file_when_it_is_closed(
    compression, told, mode, tmp_path
):
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        chunks = {"chunks": (10, 4), "compression": compression}
        file.create_dataset("x", data=np.zeros((400, 4)), **chunks)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(UPDATED), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SEARCHED},
    )
    assert process.stdout.readline() == b"updated\n"
    with pytest.raises(BlockingIOError, match=r"open elsewhere.*lock='wait'"):
        dv.open(path, mode)
    with ThreadPoolExecutor(1) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an update was undone
        waiting = pool.submit(dv.open, path, mode, lock="wait")
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        process.communicate(f"{told}\n".encode())
        d = waiting.result(60)
    assert d.x().tolist() == np.ones((400, 4)).tolist()
    d._close()


WRITES = {
    "all": lambda d: d._write(np.zeros(d._shape())),
    "an operator": lambda d: d.__iadd__(1.0),
    "rows by number": lambda d: d.__setitem__([3, 700, 2999], 1.0),
    "a run of rows": lambda d: d.__setitem__(slice(100, 300), 1.0),
    "one number": lambda d: d.__setitem__((5, 1), 1.0),
}


@pytest.fixture
def updating(tmp_path):
    """A file that is open here, and the process that is updating it and waits midway."""
    path = made(tmp_path)
    d = dv.open(path, "r+")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNNING), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SEARCHED},
    )
    assert process.stdout.readline() == b"begun\n"
    yield path, d, process
    process.kill()
    process.communicate()


def ended(process):
    process.communicate(b"go on\n")
    assert process.returncode == 0


@pytest.mark.parametrize("sees", ["before", "after"])
@pytest.mark.parametrize("way", WRITES)
def test_who_had_the_file_open_may_not_write_while_another_process_updates_it(
    way, sees, updating, monkeypatch
):
    """It is seen before an update, or if both began at a time by who has just said so."""
    path, d, process = updating
    look, looks = journals.Journals.check_free, itertools.count()

    def looked(self, *args, **options):
        if sees == "before" or next(looks) % 2:
            look(self, *args, **options)

    monkeypatch.setattr(journals, "PATIENCE", 0)
    if way != "one number":  # which is looked for once: one call writes it
        monkeypatch.setattr(journals.Journals, "check_free", looked)
    with pytest.raises(
        BlockingIOError, match=f"process {process.pid} is updating the file"
    ) as told:
        WRITES[way](d)
    assert told.value.filename == str(path)
    monkeypatch.undo()
    ended(process)
    values = np.arange(12000.0).reshape(3000, 4) * 2
    assert np.load(path).tolist() == values.tolist()
    WRITES[way](d)
    WRITES[way](here := dv.View(values))
    assert np.load(path).tolist() == here().tolist()
    d._close()
    assert [*path.parent.iterdir()] == [path]


SUBTRACTING = """
import sys
import dataview as dv

d = dv.open(sys.argv[1], "r+")
d[0]()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    d -= 1
"""


def npy_of_zeros(folder):
    np.save(folder / "x.npy", np.zeros((20000, 16), "f4"))
    return folder / "x.npy"


def zarr_of_zeros(folder):
    zarr.create_array(folder / "x", shape=(20000, 16), chunks=(5000, 16), dtype="f4")[...] = 0
    return folder / "x"


@pytest.mark.parametrize("make", [npy_of_zeros, zarr_of_zeros])
def test_processes_take_turns_with_updates_of_a_file(make, tmp_path):
    path = make(tmp_path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SUBTRACTING, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SEARCHED},
        )
        for _ in range(2)
    ]
    assert [one.stdout.readline() for one in processes] == [b"ready\n"] * 2
    for one in processes:
        one.stdin.write(b"go\n")
        one.stdin.flush()
    for one in processes:
        one.communicate()
    assert [one.returncode for one in processes] == [0, 0]
    assert np.unique(dv.open(path)()).tolist() == [-20]
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("mode", ["r+", "w"])
def test_who_waits_for_a_lock_whose_process_is_killed_gets_the_file_whole(
    mode, tmp_path, monkeypatch
):
    path, waited, flock = made(tmp_path), [], handles.fcntl.flock

    def waiting(handle, how):
        if not waited:
            waited.append(tear(path))
        flock(handle, how)

    monkeypatch.setattr(handles.fcntl, "flock", waiting)
    new = {"shape": 3} if mode == "w" else {}
    with small(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d = dv.open(path, mode, lock="wait", **new)
    values = [0, 0, 0] if mode == "w" else expected("finish")
    np.testing.assert_allclose(d(), values, rtol=1e-12)
    d._close()
    assert waited and [*tmp_path.iterdir()] == [path]


# --- plans ------------------------------------------------------------------------------------


def test_plans_hold_what_is_computed_with_and_no_more():
    step = plans.Step(np.subtract, (plans.Result(0), 2.5), 0, (3,), (np.dtype(">f8"),))
    array = np.arange(3).astype(">i2")
    value = (plans.Spot(0, ("a", (3,)), plans.Index((3,), ())), array, np.float32(2), step)
    part = plans.Part(value[0], 0, 5, value, True)
    plan = plans.Plan((plans.File("x.npy", 3, 5),), (part,), -1, True)
    found = plans.unpacked(plan.packed())
    assert found.files == plan.files
    assert found.order == -1
    spot, kept, number, again = found.parts[0].value
    assert (spot.file, spot.address, spot.where.shape) == (0, ("a", (3,)), (3,))
    assert kept.dtype == array.dtype
    assert kept.tolist() == [0, 1, 2]
    assert type(number) is np.float32
    assert again == step
    for refused in (np.frompyfunc(abs, 1, 1), print, np.array([{}]), object(), np.save):
        with pytest.raises(plans.Unwritable):
            plan._replace(order=refused).packed()


def test_sums_tell_of_bits_and_of_pages_that_changed_places():
    rng = np.random.default_rng(0)
    for size in (0, 1, 100, 1 << 16, (1 << 16) + 5, 3 << 16):
        data = rng.integers(0, 256, size).astype(np.uint8)
        known = raw_files.checksum(data)
        for place in rng.integers(0, size, 20) if size else ():
            other = data.copy()
            other[place] ^= 1 << rng.integers(8)
            assert raw_files.checksum(other) != known
        if size >= 1 << 16:
            pages = data[: size // 4096 * 4096].reshape(-1, 4096).copy()
            pages[[2, 9]] = pages[[9, 2]]
            assert raw_files.checksum(np.append(pages.reshape(-1), data[pages.size :])) != known
