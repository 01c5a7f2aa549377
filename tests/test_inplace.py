"""In-place operators: the result of NumPy on a copy, whatever overlaps, or unchanged data."""

import _thread
import code
import contextlib
import errno
import itertools
import math
import mmap
import operator
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.sources import file_access
from dataview.view.face import viewed
from dataview.write import assignment, update
from oracle import assert_same, attempt, examples, fill, public_class
from stores import LeastWritable, NumberedWritable

OPERATORS = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
}


pytestmark = pytest.mark.usefixtures("each_engine")


@contextlib.contextmanager
def set_to(**chosen):
    """Use these sizes; warnings are no errors, as for a user."""
    with sizes.set(**chosen), warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        yield


def streamed(least=8, block=16):
    """Stream from so many elements on, in blocks of so many."""
    return set_to(
        streamed_elements=least,
        at_once_bytes=0,
        computed_bytes=0,
        small_elements=min(8, block),
        block_elements=block,
        part_bytes=8 * block,
        file_bytes=8 * block,
        window_bytes=1,
    )


class Memory:
    """An array in memory as the target of a change."""

    def __init__(self, array, folder):
        self.array = array.copy()
        self.view = dv.View(self.array)

    def data(self):
        """Give the data as they are now."""
        return self.array.copy()


class File:
    """An `.npy` file opened for writing as the target of a change."""

    def __init__(self, array, folder, durable="process"):
        self.path = folder / "target.npy"
        np.save(self.path, array)
        self.view = dv.open(self.path, "r+", durable=durable)

    def data(self):
        """Give what the file holds now."""
        return np.load(self.path)


class FortranFile(File):
    """A file in Fortran order."""

    def __init__(self, array, folder, durable="process"):
        super().__init__(np.asfortranarray(array), folder, durable)


TARGETS = [Memory, File, FortranFile]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inplace")


@pytest.fixture(params=TARGETS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def mean(subject, **options):
    """Give the mean of a view or of an array."""
    return subject._mean(**options) if isinstance(subject, dv.View) else subject.mean(**options)


def assigned(target, source):
    """Give the change that assigns one part to another."""

    def change(v):
        v[target] = v[source]

    return change


def changed(operation, target, source):
    """Give the change of one part by another."""

    def change(v):
        v[target] = operation(v[target], v[source])

    return change


def by(operand):
    """Give the change that adds an operand made of the data itself."""

    def change(v):
        v += operand(v)

    return change


def less_mean(v):
    v -= mean(v, axis=0)


def less_mean_of_rows(v):
    v -= mean(v, axis=1, keepdims=True)


def less_mean_of_all(v):
    v -= mean(v)


def row_into_all(v):
    np.add(v[0], 1, out=v)


def column_into_all(v):
    np.multiply(v[:, :1], 2, out=v)


def twice(v):
    v += v
    v *= v * 2 - v[::-1]


def through_fields(v):
    if isinstance(v, dv.View):
        d = dv.View(v, x=np.s_[:3], y=np.s_[1:4])
        x, y = d.x, d.y
    else:
        x, y = v[:, :3], v[:, 1:4]
    x += y
    y -= x


ROWS = 32
CHANGES = {
    "reversed rows": by(lambda v: v[::-1]),
    "reversed columns": by(lambda v: v[:, ::-1]),
    "reversed both": by(lambda v: v[::-1, ::-1]),
    "itself": by(lambda v: v),
    "expression of itself": by(lambda v: v * 2 + 1),
    "expression of itself and its reverse": by(lambda v: v * 2 + v[::-1] * v),
    "part of an expression of itself": by(lambda v: (v * 2)[::-1]),
    "first row": by(lambda v: v[0]),
    "last row": by(lambda v: v[-1]),
    "last rows": by(lambda v: v[-1:]),
    "middle column": by(lambda v: v[:, 2:3]),
    "one element": by(lambda v: v[1, 1]),
    "shuffled rows": by(lambda v: v[[*range(5, ROWS), *range(5)]]),
    "one row many times": by(lambda v: v[[3] * ROWS]),
    "comparison": by(lambda v: v > v[::-1]),
    "mean": less_mean,
    "mean of rows": less_mean_of_rows,
    "mean of all": less_mean_of_all,
    "row broadcast into all": row_into_all,
    "column broadcast into all": column_into_all,
    "twice": twice,
    "windows": through_fields,
    "assigned forward": assigned(np.s_[1:], np.s_[:-1]),
    "assigned backward": assigned(np.s_[:-1], np.s_[1:]),
    "assigned reversed": assigned(np.s_[:], np.s_[::-1]),
    "assigned columns": assigned(np.s_[:, 1:], np.s_[:, :-1]),
    "added forward": changed(operator.iadd, np.s_[1:], np.s_[:-1]),
    "added backward": changed(operator.iadd, np.s_[:-1], np.s_[1:]),
    "added far forward": changed(operator.iadd, np.s_[7:], np.s_[:-7]),
    "added columns forward": changed(operator.isub, np.s_[:, 1:], np.s_[:, :-1]),
    "added columns backward": changed(operator.isub, np.s_[:, :-1], np.s_[:, 1:]),
    "even by odd": changed(operator.imul, np.s_[::2], np.s_[1::2]),
    "even by reversed even": changed(operator.imul, np.s_[::2], np.s_[::-2]),
    "reversed by straight": changed(operator.isub, np.s_[::-1], np.s_[:]),
    "outer quarters": changed(operator.iadd, np.s_[: ROWS // 4], np.s_[-(ROWS // 4) :]),
    "chosen rows": changed(operator.iadd, [5, 3, 9, 20, 31], [3, 5, 31, 9, 0]),
    "rows named twice": changed(operator.iadd, [5, 5, 3, 9, 5, 3] * 20, np.s_[:1]),
    "masked rows": changed(operator.iadd, np.arange(ROWS) % 3 == 0, [*range(11)]),
    "a column": changed(operator.iadd, np.s_[:, 1], np.s_[::-1, 1]),
    "a wide row": changed(operator.iadd, np.s_[2], np.s_[3]),
}


@pytest.mark.parametrize("block", [16, 7, 100, 1 << 17])
@pytest.mark.parametrize("name", CHANGES)
def test_an_overlapping_change_is_numpys_on_a_copy(name, block, kind, folder):
    a = np.arange(ROWS * 4.0).reshape(ROWS, 4) * 3 % 64
    expected = a.copy()
    CHANGES[name](expected)
    # NumPy's own `+=` of a list of rows and its `out=` read before they write, as its slices do.
    with streamed(block=block):
        target = kind(a, folder)
        CHANGES[name](target.view)
        np.testing.assert_allclose(target.data(), expected, rtol=1e-12, atol=1e-12)
        assert_same(target.view(), target.data())


@pytest.mark.parametrize("name", CHANGES)
def test_an_overlapping_change_of_many_rows_is_numpys_on_a_copy(name, kind, folder):
    width = 4
    a = np.arange(40_000 * width, dtype="f4").reshape(-1, width) % 97
    if name in ("shuffled rows", "one row many times", "masked rows"):
        a = np.arange(ROWS * 6000, dtype="f4").reshape(ROWS, 6000) % 97
    expected = a.copy()
    CHANGES[name](expected)
    with set_to():
        target = kind(a, folder)
        CHANGES[name](target.view)
        np.testing.assert_allclose(target.data(), expected, rtol=1e-4, atol=1e-3)


@st.composite
def overlapping_keys(draw, length):
    """Draw two keys of one axis that select as many places, often some of the same."""
    step, other = (draw(st.sampled_from([1, -1, 2, -2, 3])) for _ in range(2))
    count = draw(st.integers(1, length // 3))
    return tuple(run(draw, length, count, stride) for stride in (step, other))


def run(draw, length, count, stride):
    reach = (count - 1) * abs(stride)
    first = draw(st.integers(0, length - 1 - reach))
    return list(range(first, first + reach + 1, abs(stride)))[:: 1 if stride > 0 else -1]


def as_slice(places):
    """Give the slice that selects evenly spaced places."""
    step = places[1] - places[0] if len(places) > 1 else 1
    stop = places[-1] + (1 if step > 0 else -1)
    return slice(places[0], stop if stop >= 0 else None, step)


@examples(250)
@given(
    st.data(),
    st.sampled_from(TARGETS),
    st.sampled_from(["+=", "-=", "*=", "//=", "^="]),
    st.sampled_from(["f8", "i4", "i2", ">f4"]),
    st.sampled_from([3, 16, 50]),
)
def test_any_part_is_changed_by_any_other_as_in_numpy(folder, data, kind, sign, dtype, block):
    a = (fill((24, 6), "i8", 1) * 7 % 51 + 1).astype(dtype)
    pairs = [data.draw(overlapping_keys(n)) for n in a.shape]
    forms = [data.draw(st.sampled_from([as_slice, as_slice, list])) for _ in range(2)]
    to = (forms[0](pairs[0][0]), as_slice(pairs[1][0]))
    of = (forms[1](pairs[0][1]), as_slice(pairs[1][1]))
    expected = a.copy()
    with streamed(4, block), np.errstate(all="ignore"):
        _, refusal = attempt(lambda v: OPERATORS[sign](v[to], v[of]), a.copy())
        target = kind(a, folder)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                OPERATORS[sign](target.view[to], target.view[of])
        else:
            expected[to] = OPERATORS[sign](expected[to], expected[of].copy())
            OPERATORS[sign](target.view[to], target.view[of])
        assert_same(target.data(), expected.astype(target.data().dtype))


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f2", "f4", "f8", "c8", "g"])
@pytest.mark.parametrize("sign", OPERATORS)
def test_every_operator_changes_in_place_as_in_numpy(sign, dtype, kind, folder):
    a = (fill((20, 3), "i8", 0) * 7 % 5).astype(dtype)
    for operand in [2, 0.5, 2j, True, a[0], np.arange(3.0), np.int64(3), a[:2], a[:, :1] > 0]:
        expected = a.copy()
        with streamed(), np.errstate(all="ignore"):
            other = dv.View(operand) if isinstance(operand, np.ndarray) else operand
            _, refusal = attempt(lambda x, other=operand: OPERATORS[sign](x, other), expected)
            target = kind(a, folder)
            if refusal is not None:
                expected = a
                with pytest.raises(public_class(refusal)):
                    OPERATORS[sign](target.view, other)
            else:
                OPERATORS[sign](target.view, other)
            assert_same(target.data(), expected)


# ---------------------------------------------------------------- the same memory, the same file


@pytest.mark.parametrize("n", [24, 600])
def test_two_views_of_one_memory_are_known_to_overlap(n):
    for first, second in [
        (lambda a: a, lambda a: a.T),
        (lambda a: a[1:], lambda a: a[:-1]),
        (lambda a: a[:, ::2], lambda a: a[:, 1::2]),
        (lambda a: a[::-1], lambda a: a),
        (lambda a: a.reshape(-1), lambda a: a.reshape(-1)[::-1]),
        (lambda a: a, lambda a: a[:1]),
    ]:
        a = np.arange(float(n * n)).reshape(n, n)
        expected = a.copy()
        x = first(expected)
        x += second(expected).copy()
        with streamed() if n < 100 else set_to():
            v = dv.View(first(a))
            v += dv.View(second(a))
        assert_same(a, expected)


@pytest.mark.parametrize("n", [24, 300])
def test_a_transposed_square_is_added_to_itself(n):
    a = np.arange(float(n * n)).reshape(n, n)
    expected = a + a.T
    rows, columns = np.arange(n)[:, None], np.arange(n)[None, :]
    with streamed() if n < 100 else set_to():
        v = dv.View(a)
        v += v[columns, rows]
    assert_same(a, expected)


@pytest.mark.parametrize("n", [24, 600])
@pytest.mark.parametrize("way", ["again", "link", "hard link", "map", "relative"])
def test_another_way_to_the_same_file_is_known_to_overlap(way, n, tmp_path, monkeypatch):
    a = np.arange(float(n * n)).reshape(n, n)
    path = tmp_path / "a.npy"
    np.save(path, a)
    other = tmp_path / "b.npy"
    monkeypatch.chdir(tmp_path)
    if way == "link":
        os.symlink(path, other)
    if way == "hard link":
        os.link(path, other)
    ways = {"again": path, "link": other, "hard link": other, "relative": "a.npy"}
    with streamed(block=64) if n < 100 else set_to(file_bytes=1 << 17):
        v = dv.open(path, "r+")
        operand = dv.View(np.load(path, mmap_mode="r")) if way == "map" else dv.open(ways[way])
        v += operand[::-1]
        del operand
    assert_same(np.load(path), a + a[::-1])


@pytest.mark.parametrize("dtype", ["f4", ">f4"])
@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_blocks_of_a_transposed_file_do_not_meet(dtype, axes, tmp_path):
    a = np.zeros((4000, 3, 5), dtype)
    np.save(tmp_path / "a.npy", a)
    with streamed(8, 4096), ThreadPoolExecutor(4) as pool, dv.executor(pool):
        v = dv.open(tmp_path / "a.npy", "r+")._transpose(*axes)
        v += 1
        v += np.ones(v._shape()[1:])
    assert (np.load(tmp_path / "a.npy") == 2).all()


def test_threads_that_write_parts_of_the_same_rows_do_not_meet(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((60_000, 2)))

    def count(part):
        for _ in range(5):
            part += np.ones(part._shape())

    v = dv.open(tmp_path / "a.npy", "r+")
    with set_to(), ThreadPoolExecutor(4) as pool:
        list(pool.map(count, [v[:30_000, 0], v[:30_000, 1], v[30_000::2], v[30_001::2]]))
    assert (np.load(tmp_path / "a.npy") == 5).all()


def test_another_file_is_an_operand_like_any_other(tmp_path):
    a, b = np.arange(240.0).reshape(60, 4), np.arange(240.0).reshape(60, 4) * 10
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    with streamed():
        v = dv.open(tmp_path / "a.npy", "r+")
        v -= dv.open(tmp_path / "b.npy")[::-1]
    assert_same(np.load(tmp_path / "a.npy"), a - b[::-1])
    assert_same(np.load(tmp_path / "b.npy"), b)


def test_a_wide_file_is_changed_by_several_threads(tmp_path):
    a = np.zeros((2, 1 << 20), "f4")
    np.save(tmp_path / "a.npy", a)
    with set_to(), ThreadPoolExecutor(4) as pool, dv.executor(pool):
        v = dv.open(tmp_path / "a.npy", "r+")
        for _ in range(3):
            v += 1
    assert (np.load(tmp_path / "a.npy") == 3).all()


def no_pages(pages, *advice):
    raise OSError(22, "Invalid argument")


def no_map(*args, **options):
    raise OSError(19, "No such device")


@pytest.mark.parametrize("refusal", [{}, {"madvise": no_pages}, {"__new__": no_map}], ids=len)
@pytest.mark.parametrize("undone", [True, False])
def test_a_file_is_changed_where_windows_are_refused_as_well(
    refusal, undone, tmp_path, monkeypatch
):
    a = np.random.default_rng(5).normal(3, 1, (50_001, 17)).astype("f4")
    np.save(tmp_path / "a.npy", a)
    monkeypatch.setattr(mmap, "mmap", type("mmap", (mmap.mmap,), refusal))
    undo = a.nbytes if undone else 0
    with set_to(undo_bytes=undo, file_bytes=1 << 20, window_bytes=1 << 19):
        v = dv.open(tmp_path / "a.npy", "r+")
        v -= v._mean(axis=0)
        v[3:-4] *= np.arange(17, dtype="f4")
    expected = a - dv.View(a)._mean(axis=0)()
    expected[3:-4] *= np.arange(17, dtype="f4")
    assert_same(np.load(tmp_path / "a.npy"), expected)


def test_what_is_read_is_not_memory_of_the_file(tmp_path):
    a = np.zeros((1 << 19, 2))
    np.save(tmp_path / "a.npy", a)
    v = dv.open(tmp_path / "a.npy", "r+")
    assert a.nbytes > sizes.window_bytes
    for found in [v(), v[10:](), v[::2](), v._map_batches(np.asarray)(), v[:, 1]()]:
        assert found.flags.writeable or found.flags.owndata
        v += 1
        assert not found.any()
        v -= 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_number_of_threads_changes_the_same(workers, kind, folder):
    a = np.arange(4000.0).reshape(1000, 4)
    with streamed(8, 64), ThreadPoolExecutor(workers) as pool, dv.executor(pool):
        target = kind(a, folder)
        v = target.view
        v -= v._mean(axis=0)
        v[::2] *= v[1::2]
        v[:, 1:] += v[:, :-1]
    expected = a - a.mean(axis=0)
    expected[::2] *= expected[1::2]
    expected[:, 1:] += expected[:, :-1]
    np.testing.assert_allclose(target.data(), expected, rtol=1e-12)


def test_joined_parts_are_changed_together():
    a, b = np.arange(40.0), np.arange(60.0)
    whole = np.concatenate([a, b])
    whole += whole[::-1].copy()
    with streamed():
        v = dv.concat(a, b)
        v += v[::-1]
    assert_same(np.concatenate([a, b]), whole)


# ---------------------------------------------------------------- whole or not at all

SIZES = {"at once": (1 << 16, 1 << 19), "streamed": (8, 16)}


@pytest.fixture(params=SIZES)
def size(request):
    return SIZES[request.param]


def check_untouched(target, before, error, change):
    """Assert that a change raises this and leaves every byte."""
    with pytest.raises(error):
        change(target.view)
    assert_same(target.data(), before)


@pytest.mark.parametrize("place", [0, 30, 59])
def test_a_floating_point_error_leaves_every_byte(place, kind, size, folder):
    a = np.arange(240.0).reshape(60, 4) + 1
    b = np.ones((60, 4))
    b[place] = 0
    with streamed(*size):
        for workers in (1, 3):
            with ThreadPoolExecutor(workers) as pool, dv.executor(pool):
                target = kind(a, folder)
                with np.errstate(all="raise"):
                    check_untouched(
                        target, a, FloatingPointError, lambda v: operator.itruediv(v, dv.View(b))
                    )
                    check_untouched(
                        target, a, FloatingPointError, lambda v: operator.imul(v, 1e308)
                    )


@pytest.mark.parametrize("place", [0, 59])
def test_a_warning_made_an_error_leaves_every_byte(place, kind, size, folder):
    a = np.arange(240.0).reshape(60, 4) + 1
    b = np.ones((60, 4))
    b[place] = 0
    for category in (RuntimeWarning, Warning):
        with streamed(*size):
            warnings.simplefilter("error", category)
            target = kind(a, folder)
            check_untouched(target, a, RuntimeWarning, lambda v: operator.itruediv(v, dv.View(b)))


@pytest.mark.parametrize("mode", ["ignore", "warn", "call"])
def test_floating_point_errors_are_told_as_the_caller_says(mode, kind, size, folder):
    a = np.arange(240.0).reshape(60, 4)
    seen, calls = {}, {}
    for name in ("view", "array"):
        own = calls[name] = set()
        with streamed(*size), warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            x = kind(a, folder).view if name == "view" else a.copy()
            with np.errstate(all=mode, call=lambda kind, flag, own=own: own.add(kind)):
                x /= x - 5
                x /= np.zeros(4)
        seen[name] = {(note.category, str(note.message).split(" enc")[0]) for note in notes}
    assert seen["view"] == seen["array"]
    assert calls["view"] == calls["array"]


def test_a_function_of_floating_point_errors_gets_numpys_flag(kind, size, folder):
    for value, operand in [(1.0, 0.0), (1e300, 1e-300), (1e-300, 1e300), (0.0, 0.0)]:
        a = np.full((60, 4), value)
        calls = []
        with streamed(*size):
            for x in (kind(a, folder).view, a.copy()):
                own = set()
                with np.errstate(all="call", call=lambda *told, own=own: own.add(told)):
                    x /= operand
                calls.append(own)
        assert calls[0] == calls[1] != set()


def test_a_rule_for_another_warning_does_not_hide_the_one_that_raises(kind, size, folder):
    a = np.arange(240.0).reshape(60, 4)
    with streamed(*size):
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", message="another", category=RuntimeWarning)
        target = kind(a, folder)
        check_untouched(target, a, RuntimeWarning, lambda v: operator.itruediv(v, 0))


def test_what_does_not_fit_leaves_every_byte(kind, size, folder):
    a = np.arange(240).reshape(60, 4)
    with streamed(*size):
        target = kind(a, folder)
        check_untouched(target, a, ValueError, lambda v: operator.iadd(v, np.ones(3, int)))
        check_untouched(target, a, ValueError, lambda v: operator.iadd(v, dv.View(a[:7])))
        check_untouched(
            target, a, ValueError, lambda v: operator.iadd(v, dv.View(a[None, None])[[0, 0]])
        )
        check_untouched(target, a, TypeError, lambda v: operator.iadd(v, np.array(["a"])))
        check_untouched(target, a, TypeError, lambda v: operator.iadd(v, 0.5))
        check_untouched(target, a, TypeError, lambda v: operator.isub(v, v._mean(axis=0)))
        check_untouched(target, a, TypeError, lambda v: operator.imul(v, dv.View(a * 0.5)))
        check_untouched(target, a, TypeError, lambda v: np.sqrt(v, out=v))
        check_untouched(target, a, OverflowError, lambda v: operator.iadd(v, 2**70))


def test_integers_divided_in_place_are_refused(kind, size, folder):
    for dtype in ["i8", "u1", "?"]:
        a = (np.arange(240) % 9).astype(dtype).reshape(60, 4)
        with streamed(*size):
            target = kind(a, folder)
            check_untouched(target, a, TypeError, lambda v: operator.itruediv(v, 2))
            check_untouched(target, a, TypeError, lambda v: operator.itruediv(v[1:], v[:-1]))


@pytest.mark.parametrize("place", [0, 30, 59])
def test_a_negative_power_of_integers_leaves_every_byte(place, kind, size, folder):
    a = np.arange(240).reshape(60, 4) % 7
    powers = np.full((60, 4), 2)
    powers[place] = -1
    with streamed(*size):
        target = kind(a, folder)
        check_untouched(target, a, ValueError, lambda v: operator.ipow(v, dv.View(powers)))


def test_read_only_data_are_left(kind, size, folder):
    a = np.arange(240.0).reshape(60, 4)
    with streamed(*size):
        target = kind(a, folder)
        check_untouched(target, a, dv.ReadOnlyError, lambda v: operator.iadd(v._readonly(), 1))
        check_untouched(target, a, dv.ReadOnlyError, lambda v: operator.iadd(v._readonly()[1:], 1))
        check_untouched(target, a, dv.ReadOnlyError, lambda v: operator.iadd(v * 2, 1))
        check_untouched(target, a, dv.ReadOnlyError, lambda v: operator.iadd(v._mean(0), 1))
        sealed = a.copy()
        sealed.flags.writeable = False
        check_untouched(target, a, dv.ReadOnlyError, lambda v: operator.iadd(dv.View(sealed), v))
        np.save(folder / "sealed.npy", a)
        closed = dv.open(folder / "sealed.npy")
        check_untouched(target, a, dv.ReadOnlyError, lambda v: operator.iadd(closed, v))
        assert_same(np.load(folder / "sealed.npy"), a)
        assert_same(sealed, a)


class Broken(Exception):
    pass


def failing(n, place):
    """Give a view whose row at a place cannot be read."""

    def row(number):
        if number == place:
            raise Broken("no such row")
        return np.full(4, float(number))

    return dv.View(row, _length=n)._probe()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("place", [1, 30, 59])
def test_an_operand_that_fails_leaves_every_byte(place, workers, kind, size, folder):
    a = np.arange(240.0).reshape(60, 4)
    with streamed(*size), ThreadPoolExecutor(workers) as pool, dv.executor(pool):
        target = kind(a, folder)
        for change in [
            lambda v: operator.iadd(v, failing(60, place)),
            lambda v: operator.iadd(v, failing(60, place) * 2 + v),
            lambda v: operator.isub(v, failing(60, place)._mean(axis=0)),
            lambda v: operator.iadd(v[::-1], failing(60, place)),
            lambda v: operator.iadd(v[:, 1:3], failing(60, place)[:, :2]),
        ]:
            check_untouched(target, a, Broken, change)


def test_a_function_that_fails_leaves_every_byte(size):
    def fails(value):
        if value == 33:
            raise Broken("thirty-three")
        return value + 1

    function = np.frompyfunc(fails, 1, 1)
    a = np.arange(60).astype(object)
    v = dv.View(a)
    with streamed(*size):
        with pytest.raises(Broken):
            function(v, out=v)
        assert a.tolist() == list(range(60))
        function(v[:33], out=v[:33])
        assert a.tolist() == [*range(1, 34), *range(33, 60)]


def test_what_cannot_be_undone_is_named(folder):
    a = np.arange(240.0).reshape(60, 4)
    with streamed(), sizes.set(undo_bytes=0), ThreadPoolExecutor(1) as pool, dv.executor(pool):
        target = File(a, folder)
        v = target.view
        with pytest.raises(dv.PartialWriteError) as caught:
            v += failing(60, 30)
    assert isinstance(caught.value.__cause__, Broken)
    ((first,),) = caught.value.rows.values()
    assert f"rows 0:{first[0].stop} of" in str(caught.value) and "failed" in str(caught.value)
    last = first[0].stop
    assert first == (slice(0, last),) and 0 < last <= 30
    numbers = np.arange(60.0)[:, None]
    assert_same(target.data(), np.where(numbers < last, a + numbers, a))


def test_an_undo_that_fails_names_what_is_changed():
    class Breaking(LeastWritable):
        """A store that breaks for good when 33 was written."""

        broken = False

        def write(self, index, value):
            if not self.broken:
                super().write(index, value)
                self.broken = (np.asarray(value) == 33).any()
            if self.broken:
                raise OSError("no space left")

    def view(a):
        return viewed(stored(Breaking(a), True))

    a = np.arange(32.0 * 60).reshape(60, 32) % 34 - 5
    d = view(a)
    with (
        streamed(),
        pytest.raises(dv.PartialWriteError, match=r"undo.*no space left.*rows \d+:\d+"),
    ):
        d += np.linspace(0, 1, 32).round() * 5
    first, second = view(np.zeros(4)), view(np.zeros(4))
    with pytest.raises(
        dv.PartialWriteError, match=r"undo.*changed, some perhaps only in part: rows 0:4 of"
    ):
        dv.View(a=first, b=second)._write({"a": np.ones(4), "b": np.full(4, 33.0)})


class Refusing(NumberedWritable):
    """What looks like an array, and can only be read."""

    def __setitem__(self, key, value):
        raise Broken("set it by put()")


class Complaining(NumberedWritable):
    """What looks like an array, and raises after each write."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        raise Broken("written, but late")


@pytest.mark.parametrize("kind", [Refusing, Complaining])
def test_a_write_that_changed_nothing_raises_the_error_of_the_class(kind, size):
    a = np.arange(240.0).reshape(60, 4)
    target = kind(a)
    v = dv.View(target)

    def in_all():
        v[...] = v * 2

    def in_rows():
        v[1:3] = 7

    def in_records():
        dv.View(x=a.copy(), y=v)[4] = {"x": 1, "y": 2}

    with streamed(*size):
        for change in [in_all, in_rows, in_records]:
            with pytest.raises(Broken) as caught:
                change()
            (note,) = caught.value.__notes__
            assert kind.__name__ in note and "as it was before the write" in note
            assert_same(target.data, a)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_disk_that_fills_up_is_an_error_of_the_file_if_no_row_remains_changed(
    workers, folder, monkeypatch
):
    a = np.arange(4000.0).reshape(100, 40)
    writer = file_access._writer

    def full(file):
        def write(parts, place):
            room = a.nbytes // 2 + 1000 - place  # the rest of the file was never given any
            if room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return writer(file)((parts[0][:room],), place)

        return write

    monkeypatch.setattr(file_access, "_writer", full)
    monkeypatch.setattr(mmap, "mmap", type("mmap", (mmap.mmap,), {"madvise": no_pages}))
    for change in [
        lambda v: operator.iadd(v, 1),
        lambda v: v._write(a * 2),
        lambda v: operator.setitem(v, np.s_[:, 0], 1.0),
        lambda v: operator.setitem(v, np.s_[:-1], v[1:]),
    ]:
        with streamed(), ThreadPoolExecutor(workers) as pool, dv.executor(pool):
            target = File(a, folder)
            with pytest.raises(OSError, match="No space left") as caught:
                change(target.view)
            assert caught.value.filename == str(target.path)
            assert_same(target.data(), a)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("undone", [True, False])
@pytest.mark.parametrize("change", ["in windows", "by copies"])
@pytest.mark.parametrize("kind", [File, FortranFile])
@pytest.mark.usefixtures("files_left_open")
def test_an_interrupt_lets_each_block_be_whole(workers, undone, change, kind, folder, monkeypatch):
    a = np.arange(4000.0).reshape(100, 40)
    compute, counted = update.overwrite, itertools.count()

    def interrupted(*args):
        if next(counted) in (5, 6):
            _thread.interrupt_main()
        compute(*args)

    monkeypatch.setattr(update, "overwrite", interrupted)
    factor = dv.View(np.full((100, 40), 2.0)) if change == "in windows" else 2
    budget = sizes.set(undo_bytes=a.nbytes if undone else 0)
    with streamed(), budget, ThreadPoolExecutor(workers) as pool, dv.executor(pool):
        target = kind(a, folder, durable=False)  # a journal would undo past the budget
        v = target.view
        with pytest.raises(KeyboardInterrupt) as caught:
            v *= factor
    assert isinstance(caught.value, dv.PartialWriteError) is not undone
    if undone:
        assert_same(target.data(), a)
        return
    assert isinstance(caught.value.__cause__, KeyboardInterrupt)
    assert "was interrupted" in str(caught.value)
    changed = np.zeros(a.shape, bool)
    ((*keys,),) = caught.value.rows.values()
    for key in keys:
        changed[key] = True
    assert changed.any()
    assert_same(target.data(), np.where(changed, a * 2, a))
    monkeypatch.undo()
    caught.value.resume()
    assert_same(target.data(), a * 2)


@pytest.mark.parametrize("undone", [True, False])
@pytest.mark.usefixtures("files_left_open")
def test_ctrl_c_in_memory_comes_after_the_write_or_undoes_it(undone, folder, monkeypatch):
    a = np.arange(240.0).reshape(60, 4)
    for module in (assignment, update):
        compute = module.overwrite

        def interrupted(*args, compute=compute):
            _thread.interrupt_main()
            compute(*args)

        monkeypatch.setattr(module, "overwrite", interrupted)
    with streamed():
        if undone:
            warnings.simplefilter("error", RuntimeWarning)
        target = Memory(a, folder)
        v = target.view
        with pytest.raises(KeyboardInterrupt):
            v *= 2
    assert_same(target.data(), a if undone else a * 2)


@pytest.mark.usefixtures("files_left_open")
def test_what_ctrl_c_stopped_at_a_prompt_is_resumed_there(folder, monkeypatch, capsys):
    a = np.arange(240.0).reshape(60, 4)
    compute = update.overwrite

    def interrupted(*args):
        _thread.interrupt_main()
        compute(*args)

    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        monkeypatch.setattr(sys, name, None, raising=False)
    monkeypatch.setattr(update, "overwrite", interrupted)
    with streamed(), sizes.set(undo_bytes=0):
        target = File(a, folder)
        prompt = code.InteractiveInterpreter({"d": target.view, "sys": sys})
        prompt.runsource("d *= 2")
        monkeypatch.setattr(update, "overwrite", compute)
        assert "at a prompt: sys.last_value.resume()" in capsys.readouterr().err
        prompt.runsource("sys.last_value.resume()")
    assert_same(target.data(), a * 2)


@pytest.mark.usefixtures("files_left_open")
def test_an_error_says_that_opening_the_file_goes_on_with_the_write(folder, monkeypatch):
    a = np.arange(6000.0).reshape(1500, 4)
    compute = update.overwrite

    def interrupted(*args):
        _thread.interrupt_main()
        compute(*args)

    monkeypatch.setattr(update, "overwrite", interrupted)
    with streamed(), sizes.set(undo_bytes=0):
        target = File(a, folder)
        told = r"dv\.open of the file does the rest.*dv\.recover\(path, 'discard'\)"
        with pytest.raises(dv.PartialWriteError, match=told) as caught:
            target.view[:] = target.view * 2
        monkeypatch.setattr(update, "overwrite", compute)
        caught.value.resume()
    assert_same(target.data(), a * 2)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("budget", [0, 1 << 20])
@pytest.mark.usefixtures("files_left_open")
def test_ctrl_c_in_a_write_that_fails_is_not_forgotten(budget, lasting):
    class Breaking(LeastWritable):
        """A store with a block that fails, once or each time, while Ctrl-C is pressed."""

        count = 0

        def write(self, index, value):
            self.count += 1
            if self.count == 3 or (lasting and self.count > 3):
                super().write(index, np.asarray(value) * 0 - 1)
                _thread.interrupt_main()
                raise OSError("no space left")
            super().write(index, value)

    a = np.arange(240.0).reshape(60, 4)
    store = Breaking(a)
    v = viewed(stored(store, True))
    with (
        streamed(),
        sizes.set(undo_bytes=budget, block_bytes=128),
        ThreadPoolExecutor(1) as pool,
        dv.executor(pool),
        pytest.raises(KeyboardInterrupt) as caught,
    ):
        v += 1
    if budget and not lasting:
        assert_same(store.kept, a)
        return
    assert isinstance(caught.value, dv.PartialWriteError) and caught.value.rows
    store.count = -1000
    caught.value.resume()
    assert_same(store.kept, a + 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_failure_within_the_budget_is_undone(workers, folder):
    a = np.arange(240.0).reshape(60, 4)
    budget = sizes.set(undo_bytes=a.nbytes)
    with streamed(), budget, ThreadPoolExecutor(workers) as pool, dv.executor(pool):
        check_untouched(File(a, folder), a, Broken, lambda v: operator.iadd(v, failing(60, 59)))


def test_memory_beyond_the_budget_says_what_was_changed(folder):
    a = np.arange(240.0).reshape(60, 4)
    small = sizes.set(undo_bytes=0, block_bytes=128)
    with streamed(), small, ThreadPoolExecutor(1) as pool, dv.executor(pool):
        v = Memory(a, folder).view
        with pytest.raises(dv.PartialWriteError) as caught:
            v += failing(60, 59)
    (((rows,),),) = caught.value.rows.values()
    added = np.arange(60.0)[:, None] * (np.arange(60) < rows.stop)[:, None]
    assert_same(v(), a + added)


# ---------------------------------------------------------------- written through


def test_a_change_through_fields_reaches_the_base_and_nothing_else(kind, size, folder):
    a = np.arange(240.0).reshape(60, 4)
    expected = a.copy()
    expected[::2, 1:3] *= 2
    expected[5:, 3] -= expected[5:, 3].mean()
    with streamed(*size):
        target = kind(a, folder)
        d = dv.View(target.view, x=np.s_[1:3], y=3)
        d.x[::2] *= 2
        d[5:].y -= d[5:].y._mean(axis=0)
    np.testing.assert_allclose(target.data(), expected, rtol=1e-14)


def test_an_integer_result_is_rounded_into_the_target_as_by_numpy(kind, size, folder):
    for dtype, operand in [
        ("f4", np.arange(4.0) / 3),
        ("f2", 0.1),
        ("i1", np.int64(100)),
        ("u1", 200),
    ]:
        a = (np.arange(240) % 90).astype(dtype).reshape(60, 4)
        expected = a.copy()
        with streamed(*size), np.errstate(all="ignore"):
            expected += operand
            target = kind(a, folder)
            v = target.view
            v += operand
        assert_same(target.data(), expected)


COMPUTED = {
    "clip": lambda x, y: np.clip(x, -1, y),
    "clip a number": lambda x, y: np.clip(0.5, x, 2 * x * x),
    "clip by itself": lambda x, y: np.clip(2 * x, x, y + x),
    "round": lambda x, y: np.round(x * 3, 1),
    "round a clip": lambda x, y: np.round(np.clip(x / 3, -0.2, 0.2), 2) + x,
    "fix": lambda x, y: np.fix(x * 2) - x,
    "sinc": lambda x, y: np.sinc(x),
    "where": lambda x, y: np.where(x > 0, y, x),
    "where it is clipped": lambda x, y: np.where(y > x, x, np.clip(x, y, 2) + 1),
    "real": lambda x, y: np.real(x) * np.imag(x) + np.real(y),
}
"""Functions of NumPy that are no ufuncs, of what is written and of other data."""


@pytest.mark.parametrize("name", COMPUTED)
def test_functions_write_what_numpy_computes_apart(name, kind, size, folder):
    x = np.random.default_rng(0).normal(size=(60, 4))
    y = np.random.default_rng(1).normal(size=(60, 4))
    with streamed(*size):
        target = kind(x, folder)
        v = target.view
        v[:] = COMPUTED[name](v, dv.View(y))
        assert_same(target.data(), COMPUTED[name](x, y))


def test_a_change_of_nothing_changes_nothing(kind, size, folder):
    a = np.arange(240.0).reshape(60, 4)
    with streamed(*size):
        target = kind(a, folder)
        v = target.view
        v[:0] += 1
        v[[]] += math.nan
        v[np.zeros(60, bool)] += 1
        v[:, :0] *= dv.View(np.empty((60, 0)))
    assert_same(target.data(), a)
