"""All ways of writing are one: block by block, undone or resumed after a failure."""

import errno
import functools
import itertools
import operator
import tempfile
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import dataview as dv
from children import python
from dataview.index.sizes import sizes
from dataview.sources import new_files, npy
from dataview.write import overlap, update
from oracle import assert_same, examples
from stores import LeastWritable, no_file_beyond

SMALL = {
    "streamed_elements": 8,
    "at_once_bytes": 0,
    "computed_bytes": 0,
    "small_elements": 8,
    "block_elements": 16,
    "part_bytes": 128,
    "file_bytes": 256,
    "window_bytes": 1,
    "block_bytes": 128,
}
SHAPE = (40, 4)
OTHER = np.arange(160.0).reshape(SHAPE)[::-1] * 1.5

MIXED = np.random.default_rng(2).permutation(40)

WRITES = {
    "a number": lambda d, e: operator.setitem(d, slice(None), 7),
    "an array": lambda d, e: d._write(OTHER),
    "a row": lambda d, e: operator.setitem(d, slice(None), OTHER[3]),
    "another view": lambda d, e: d._write(e),
    "another's rows": lambda d, e: operator.setitem(d, slice(0, None, 2), e[1::2]),
    "a computed view": lambda d, e: operator.setitem(d, slice(None), e * 2 - d),
    "np.where": lambda d, e: operator.setitem(d, slice(None), np.where(d > 70, d, e)),
    "where equal": lambda d, e: operator.setitem(d, d == 70, 7),
    "where unequal": lambda d, e: operator.setitem(d, slice(None), np.where(d != e, e, -d)),
    "where rows are equal": lambda d, e: operator.setitem(
        d, slice(1, None), np.where(d[:-1] == 66, d[1:], 5)
    ),
    "where reversed": lambda d, e: operator.imul(d, (d[::-1] != 14) & (d == 66)),
    "np.clip": lambda d, e: operator.setitem(d, slice(None), np.clip(d, 20, 90)),
    "np.clip out": lambda d, e: np.clip(d, 20, 90, out=d),
    "np.sqrt out": lambda d, e: np.sqrt(e, out=d),
    "nan_to_num": lambda d, e: np.nan_to_num(d, copy=False, nan=d._max()),
    "minus its mean": lambda d, e: operator.isub(d, d._mean(axis=0)),
    "times a part": lambda d, e: operator.imul(d[:, :2], d[:, 2:]),
    "rows further on": lambda d, e: operator.setitem(d, slice(None, -1), d[1:]),
    "rows before": lambda d, e: operator.setitem(d, slice(1, None), d[:-1]),
    "plus rows before": lambda d, e: operator.iadd(d[3:], d[:-3]),
    "both sides": lambda d, e: operator.setitem(d, slice(1, -1), d[2:] - d[:-2]),
    "reversed": lambda d, e: operator.setitem(d, slice(None), d[::-1]),
    "plus reversed": lambda d, e: operator.iadd(d, d[::-1]),
    "mapped": lambda d, e: d._write(d._map(lambda s: s() * 2, shape=(4,), dtype=float)),
    "other rows": lambda d, e: operator.setitem(d, [5, 2, 9, 2] * 6, e[:24]),
    "rows of itself": lambda d, e: operator.setitem(d, [5, 2, 9, 1] * 4, d[10:26]),
    "times other rows": lambda d, e: operator.imul(d[[5, 2, 9, 30, 31, 32]], 2),
    "rows in any order": lambda d, e: operator.setitem(d, MIXED, e * 2),
    "groups of rows in any order": lambda d, e: operator.setitem(
        d, MIXED.reshape(20, 2) // 2, e._reshape(20, 2, 4) * 2
    ),
    "shuffled": lambda d, e: d._shuffled(1)._write(e * 2),
    "a part": lambda d, e: operator.isub(d[10:, 1:3], 1),
    "backwards": lambda d, e: operator.isub(d[::-1], 1),
    "every other row": lambda d, e: operator.isub(d[3::2], 1),
    "a column of the shuffled": lambda d, e: operator.isub(d._shuffled(1)[:, 2], 1),
    "rows and columns by number": lambda d, e: operator.isub(d[MIXED[:20]][:, [3, 0]], 1),
    "elements by number": lambda d, e: operator.isub(d[MIXED, MIXED % 4], 1),
    "columns": lambda d, e: operator.setitem(d, (slice(None), [3, 1]), e[:, :2]),
    "joined": lambda d, e: operator.iadd(dv.concat(d[:10], d[20:]), 1),
    "joined by a view": lambda d, e: dv.concat(d[:10], d[20:])._write(dv.concat(e[:20], e[:10])),
    "fields": lambda d, e: dv.View(a=d, b=e)._write({"a": e * 1, "b": d * 2}),
    "swapped": lambda d, e: dv.View(a=d, b=e)._write((e, d)),
}


class Data:
    """Two arrays, in memory or in files, and what they hold."""

    def __init__(self, kind, folder):
        self.kind = kind
        start = np.arange(160.0).reshape(SHAPE)
        arrays = [start.copy(), OTHER.copy()]
        if kind == "memory":
            self.views = [dv.View(array) for array in arrays]
        else:
            for number, array in enumerate(arrays):
                order = "F" if kind == "file in Fortran order" else "C"
                np.save(folder / f"{number}.npy", np.asarray(array, order=order))
            self.views = [dv.open(folder / f"{n}.npy", mode="r+") for n in range(2)]

    def now(self):
        """Give what the views hold."""
        return [view(copy=True) for view in self.views]


def eagerly(name):
    """Give what the write makes of arrays whose values are all computed before."""
    with sizes.set(streamed_elements=10**9):
        data = [dv.View(np.arange(160.0).reshape(SHAPE)), dv.View(OTHER.copy())]
        WRITES[name](*data)
    return [view() for view in data]


every_write = pytest.mark.parametrize("name", WRITES)
every_kind = pytest.mark.parametrize("kind", ["memory", "file", "file in Fortran order"])


def test_written_at_once_is_what_numpy_writes():
    for name in ["another's rows", "np.clip out", "rows before", "both sides", "reversed"]:
        a, b = np.arange(160.0).reshape(SHAPE), OTHER.copy()
        WRITES[name](a, b)
        assert_same(eagerly(name)[0], a)


@pytest.mark.filterwarnings("default")  # where warnings raise, old values are kept for an undo
def test_a_value_that_reads_its_own_target_is_not_copied():
    v = dv.View(np.zeros(4_000_000))
    for change in [
        lambda: operator.setitem(v, slice(None), v * 2 + 1),
        lambda: operator.isub(v, 1),
        lambda: operator.isub(v, v._mean()),
        lambda: np.clip(v, 0, 1, out=v),
    ]:
        tracemalloc.start()
        change()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < v._nbytes() / 4


def test_an_array_whose_elements_share_places_is_written_as_numpy_writes_it():
    arrays = [np.arange(2000.0) for _ in range(2)]
    first, second = [sliding_window_view(a, 3, writeable=True) for a in arrays]
    v = dv.View(first)
    with sizes.set(**SMALL):
        v[...] = v * 2 + 1
    second[...] = second * 2 + 1
    assert_same(arrays[0], arrays[1])


def test_two_maps_of_one_file_see_each_other(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(40.0))
    x, y = [dv.View(np.load(tmp_path / "a.npy", mmap_mode="r+")) for _ in range(2)]
    total = y._sum()
    with sizes.set(**SMALL):
        x[...] = y[::-1]
    assert_same(x(copy=True), np.arange(40.0)[::-1])
    assert total() == 780


@every_kind
@every_write
@pytest.mark.parametrize("budget", [1 << 20, 0], ids=["undo", "no undo"])
def test_blocks_give_what_one_piece_gives(name, kind, budget, tmp_path):
    data = Data(kind, tmp_path)
    with sizes.set(**SMALL, undo_bytes=budget):
        WRITES[name](*data.views)
    for found, expected in zip(data.now(), eagerly(name), strict=True):
        assert_same(found, expected)
    del data  # and with it the journals of its files
    until = time.monotonic() + 60  # a thread that worked may let go of them a little later
    while {path.name for path in tmp_path.iterdir()} > {"0.npy", "1.npy"}:
        assert time.monotonic() < until
        time.sleep(0.01)


class Stop(Exception):
    """Stops a write."""


AT_ONCE = {"a number", "an array", "a row"}
"""What NumPy writes to memory in one piece, which nothing can stop."""

REPEATED = {"other rows", "rows of itself", "groups of rows in any order"}
"""Writes of some rows several times."""


@every_kind
@every_write
@pytest.mark.parametrize("budget", [0, 1 << 20], ids=["no undo", "undo"])
def test_a_write_stopped_at_any_block_is_undone_or_resumed(
    name, budget, kind, tmp_path, monkeypatch
):
    expected = eagerly(name)
    owners = {"_write": update.Update, "_change": update.Update, "write_run": npy.NpySource}
    ways = {way: getattr(owner, way) for way, owner in owners.items()}
    for error, when in [(KeyboardInterrupt, "before"), (Stop, "after")]:
        for number in itertools.count():
            counted = itertools.count()

            def stopped(self, *args, way, counted=counted, number=number, error=error, when=when):
                now = next(counted) == number
                if now and when == "before":
                    raise error
                ways[way](self, *args)
                if now:
                    raise error

            data = Data(kind, tmp_path)
            before = data.now()
            with sizes.set(**SMALL, undo_bytes=budget):
                for way, owner in owners.items():
                    monkeypatch.setattr(owner, way, functools.partialmethod(stopped, way=way))
                try:
                    WRITES[name](*data.views)
                except (error, dv.PartialWriteError) as caught:
                    monkeypatch.undo()
                    _check(caught, name, data, before, expected, budget)
                else:
                    monkeypatch.undo()
                    assert next(counted) <= number  # every block has been stopped at
                    break
        assert bool(number) is not (kind == "memory" and name in AT_ONCE)


@pytest.mark.parametrize("name", ["rows in any order", "groups of rows in any order", "shuffled"])
def test_scattered_rows_of_a_file_are_written_in_several_blocks(name, tmp_path, monkeypatch):
    write, blocks = update.Update._write, []
    monkeypatch.setattr(
        update.Update, "_write", lambda self, *args: blocks.append(write(self, *args))
    )
    with sizes.set(**SMALL):
        WRITES[name](*Data("file", tmp_path).views)
    assert len(blocks) >= 5


def _check(caught, name, data, before, expected, budget):
    if not isinstance(caught, dv.PartialWriteError):
        for found, old in zip(data.now(), before, strict=True):
            assert_same(found, old)
        return
    assert budget == 0 and caught.rows
    assert ("interrupted" in str(caught)) == isinstance(caught.__cause__, KeyboardInterrupt)
    _check_rows(caught, name, data, before, expected)
    caught.resume()
    for found, new in zip(data.now(), expected, strict=True):
        assert_same(found, new)


def _check_rows(caught, name_written, data, before, expected):
    """Check that the keys of an error are those of what was changed, and no others."""
    names = ["memory"] * 2 if data.kind == "memory" else ["0.npy (r+)", "1.npy (r+)"]
    if names[0] == names[1]:
        names[1] += " (2)"
    for name, keys in caught.rows.items():
        number = names.index(name)
        named = np.zeros(SHAPE, bool)
        for key in keys:
            named[key] = True
        now = data.now()[number]
        assert_same(now[~named], before[number][~named])
        if name_written not in REPEATED:  # a row that is written twice
            assert_same(now[named], expected[number][named])
    for number, name in enumerate(names):
        if name not in caught.rows:
            assert_same(data.now()[number], before[number])


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("budget", [0, 1 << 20], ids=["no undo", "undo"])
def test_what_a_change_reads_is_found_out_once(kind, budget, tmp_path, monkeypatch):
    walks = []

    def counted(root, leaves_of=overlap.leaves_of):
        walks.append(root)
        return leaves_of(root)

    monkeypatch.setattr(overlap, "leaves_of", counted)
    counts = []
    for size in (1 << 20, 128):
        d, e = Data(kind, tmp_path).views
        mean = d._mean(axis=0)
        walks.clear()
        with sizes.set(**{**SMALL, "file_bytes": size, "block_bytes": size}, undo_bytes=budget):
            d -= mean * e
        counts.append(len(walks))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    "name", ["rows before", "rows further on", "plus rows before", "where equal", "where unequal"]
)
def test_rows_that_are_moved_are_not_kept_elsewhere(name, monkeypatch):
    def refused(*args):
        raise AssertionError("a value was computed before")

    monkeypatch.setattr(overlap, "_kept", refused)
    views = [dv.View(np.arange(160.0).reshape(SHAPE)), dv.View(OTHER.copy())]
    with sizes.set(**SMALL):
        WRITES[name](*views)
    monkeypatch.undo()
    assert_same(views[0](), eagerly(name)[0])


@pytest.mark.parametrize("failing", [*itertools.combinations(range(1, 9), 2)], ids=str)
@pytest.mark.parametrize("change", ["shift", "add"])
def test_what_is_resumed_after_an_undo_that_failed_is_right(failing, change):
    class Breaking(LeastWritable):
        """A store some of whose writes fail, after a part of the block was written."""

        count = 0

        def write(self, index, value):
            self.count += 1
            if self.count in failing:
                super().write(index, np.broadcast_to(value, index.shape) * 0 - 1)
                raise OSError("no space left")
            super().write(index, value)

    start = np.arange(11.0)
    expected = start + 100 if change == "add" else np.append(start[1:], start[-1])
    store = Breaking(start)
    v = dv.View(store)
    with sizes.set(**SMALL | {"block_bytes": 16}, undo_bytes=1 << 20):
        try:
            if change == "add":
                v += 100
            else:
                v[:-1] = v[1:]
        except dv.PartialWriteError as caught:
            caught.resume()
        except OSError:
            expected = start
    assert_same(store.kept, expected)


KILLED = """
import os, sys, numpy as np, dataview as dv
from dataview.index.sizes import sizes
from dataview.sources import new_files
from dataview.write import update
if sys.argv[1] == "named":
    new_files.UNNAMED = None
sizes.undo_bytes, sizes.streamed_elements = 0, 8
sizes.at_once_bytes = sizes.computed_bytes = 0
update.Update.run = lambda self: os.kill(os.getpid(), 9)
d = dv.open(sys.argv[2], "r+") if len(sys.argv) > 2 else dv.View(np.arange(100.0))
d[:] = d[::-1]
"""


@pytest.fixture(params=["unnamed", "named"])
def unnamed(request, monkeypatch):
    """Files without a name until they are complete, and a system that has none."""
    if request.param == "named":
        monkeypatch.setattr(new_files, "UNNAMED", None)
    return request.param


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_what_a_killed_write_kept_is_gone_or_removed_by_the_next(
    kind, unnamed, tmp_path, monkeypatch
):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(100.0))
    own = [path] if kind == "file" else []
    process = python("-c", KILLED, unnamed, *own, TMPDIR=str(tmp_path))
    assert process.returncode == -9, process.stderr
    assert len([*tmp_path.iterdir()]) == (1 if unnamed == "unnamed" else 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    d = dv.open(path, "r+") if own else dv.View(np.arange(100.0))
    with sizes.set(**SMALL, undo_bytes=0):
        d[:] = d[::-1]
    assert_same(d(), np.arange(100.0)[::-1])
    assert [*tmp_path.iterdir()] == [path]


def test_an_error_of_the_disk_says_what_was_written_where(unnamed, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(100_000.0))
    d = dv.open(path, "r+")
    with sizes.set(streamed_elements=8, undo_bytes=0), no_file_beyond(100_000):
        with pytest.raises(OSError, match=r"a temporary file in the folder .*a\.npy") as kept:
            d[:] = d[::-1]
        with pytest.raises(OSError, match=r"a new file in the folder .*b\.npy") as saved:
            (d + 1)._save(tmp_path / "b.npy")
    for caught, name in [(kept, "a.npy"), (saved, "b.npy")]:
        assert caught.value.errno == errno.EFBIG
        assert caught.value.filename == str(tmp_path / name)
    assert [*tmp_path.iterdir()] == [path]
    assert_same(np.load(path), np.arange(100_000.0))


def test_an_error_of_a_sample_is_not_one_of_the_file_that_is_saved(tmp_path):
    def sample(number):
        raise OSError(errno.EIO, "no answer", "elsewhere")

    with pytest.raises(OSError, match="no answer: 'elsewhere'") as caught:
        dv.View(np.zeros(3))._map(sample, shape=(4,), dtype=float)._save(tmp_path / "a.npy")
    assert caught.value.filename is None and "a.npy" not in str(caught.value)


@given(data=st.data())
@examples(150)
def test_any_overlap_is_written_as_numpy_writes_it(data, tmp_path_factory):
    a = np.arange(60.0).reshape(20, 3)
    length = data.draw(st.integers(1, 10))
    steps = st.sampled_from([1, 1, 2, -1, -2])

    def rows():
        step = data.draw(steps)
        width = abs(step) * (length - 1)
        low = data.draw(st.integers(0, 19 - width)) if width < 20 else 0
        where = range(low, low + width + 1, abs(step))
        where = where if step > 0 else where[::-1]
        stop = where.stop if where.stop >= 0 else None
        return slice(where.start, stop, where.step) if width < 20 else None

    target, first, second = rows(), rows(), rows()
    if None in (target, first, second):
        return
    expected = a.copy()
    expected[target] = a[first] * 2 - a[second]
    path = tmp_path_factory.mktemp("overlap") / "a.npy"
    np.save(path, a)
    memory = dv.View(a)
    with sizes.set(**SMALL, undo_bytes=data.draw(st.sampled_from([0, 1 << 20]))):
        for v in (memory, dv.open(path, mode="r+")):
            v[target] = v[first] * 2 - v[second]
            assert_same(v(), expected)


def test_an_integer_that_does_not_fit_leaves_every_byte(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(40, dtype="i1"))
    wide = dv.View(np.arange(40) + 100)
    with sizes.set(**SMALL):
        for d in (dv.View(np.arange(40, dtype="i1")), dv.open(tmp_path / "a.npy", mode="r+")):
            with pytest.raises(OverflowError, match="does not fit into int8"):
                d._write(wide)
            with pytest.raises(TypeError, match="without losing"):
                d._write(wide * 0.5)
            assert d().tolist() == list(range(40))


def test_what_is_asked_after_a_failure_is_taken_before_the_rest_is_written(monkeypatch):
    put, counted = update.Update._put, itertools.count()

    def stopped(self, *args):
        if next(counted) == 2:
            raise Stop
        put(self, *args)

    d = dv.View(np.zeros(SHAPE))
    with sizes.set(**SMALL, undo_bytes=0):
        monkeypatch.setattr(update.Update, "_put", stopped)
        with pytest.raises(dv.PartialWriteError) as caught:
            d._write(dv.View(np.ones(SHAPE))._map(lambda s: s(), shape=(4,), dtype=float))
        monkeypatch.undo()
        total, now = d._sum(), d().sum()
        caught.value.resume()
    assert d().sum() == 160 != now
    assert total() == now
