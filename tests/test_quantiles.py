"""Quantiles and distinct values: equal to NumPy's, in few passes and a bounded memory."""

import errno
import math
import os
import pickle
import tempfile
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
import newest
from counting import Rows
from dataview.compute.statistics import nodes
from dataview.index.sizes import sizes
from oracle import (
    LAYOUTS,
    as_array,
    assert_same,
    attempt,
    examples,
    identical,
    lay_out,
    plain,
    public_class,
    silence,
)
from stores import no_file_beyond

METHODS = [
    "linear",
    "lower",
    "higher",
    "nearest",
    "midpoint",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
]
DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g >i4 >f8 M8[s] m8[ms] >M8[D] O".split()
QUANTILES = [0.5, 0, 1, 0.25, 0.9, 0.1, 1 / 3, [0.5], [0.0, 1.0], [0.25, 0.5, 0.75], [[0.1, 0.2]]]


@st.composite
def questions(draw):
    """Draw an array and the arguments of a quantile, some that NumPy refuses too."""
    shape = tuple(draw(st.lists(st.sampled_from([3, 4, 2, 9, 1, 5, 3, 0]), max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    base = lay_out(draw(st.sampled_from(LAYOUTS)), shape, dtype)
    if draw(st.booleans()) or dtype.kind == "O":
        base.root[...] = plain(base.root.shape, dtype)
    q = draw(st.sampled_from(QUANTILES))
    axes = st.sampled_from([None, *range(len(shape)), None, -1, len(shape)])
    several = st.lists(st.integers(0, max(len(shape) - 1, 0)), max_size=2).map(tuple)
    options = {
        "axis": draw(axes | several),
        "method": draw(st.sampled_from(["linear", "linear", *METHODS])),
        "keepdims": draw(st.booleans()) and dtype.kind != "O",  # NumPy fails on a single object
    }
    return base.array, np.array(q) if isinstance(q, list) else q, options


@examples(200)
@given(questions(), st.sampled_from([1 << 26, 1, 64, 1 << 10]))
def test_a_quantile_is_numpys(question, size):
    array, q, options = question
    if not array.size:
        return  # nothing has a test of its own
    with sizes.set(quantile_bytes=size), silence():
        expected, refusal = attempt(lambda a: newest.quantile(a, q, **options), array)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                dv.View(array)._quantile(q, **options)()
            return
        view = dv.View(array)._quantile(q, **options)
        known = view._shape(), view._dtype()
        got = as_array(view())
    expected = as_array(expected)
    dtype = array.dtype if array.dtype.kind == "O" else got.dtype  # one object may be a number
    assert known == (expected.shape, dtype) and got.shape == expected.shape
    if array.dtype.kind == "O":
        assert got.tolist() == expected.tolist()
        return
    assert got.dtype == expected.dtype
    if array.dtype.kind == "i" and not identical(got, expected):
        exact = np.quantile(array.astype("g"), q, **options)
        np.testing.assert_allclose(got.astype("g"), as_array(exact), rtol=1e-15)
        return
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["i8", "u1", "f2", "f4", "f8", ">f4", "m8[s]"])
def test_every_method_is_numpys_for_every_rank(dtype, method):
    a = (np.arange(41) * 37 % 41 - 20 * (dtype[0] != "u")).astype(dtype)
    for q in [np.linspace(0, 1, 9), 0.3, 1]:
        for data in (a, a[:6], a[:1]):
            expected = newest.quantile(data, q, method=method)
            for size in (1 << 26, 1 << 5):
                with sizes.set(quantile_bytes=size):
                    assert_same(dv.View(data)._quantile(q, method=method)(), expected)


def test_columns_are_done_in_groups_and_blocks(rng):
    a = rng.standard_normal((300, 12))
    a[::7] = np.round(a[::7]) + 0.0  # NumPy leaves open which of two zeros comes first
    a[3, 5] = math.nan
    q = [0.0, 0.01, 0.25, 0.5, 0.75, 1.0]
    expected = np.quantile(a, q, axis=0)
    for size in (1 << 26, 1 << 14, 1 << 12):
        with sizes.set(quantile_bytes=size):
            assert_same(dv.View(a)._quantile(q, axis=0)(), expected)
            assert_same(dv.View(a.T)._quantile(q, axis=1)(), expected)
            assert_same(dv.View(a)._quantile(0.5, axis=(0, 1))(), np.array(math.nan)[()])
            assert_same((dv.View(a) * 2)._quantile(q, axis=0)(), expected * 2)
            assert_same(dv.View(a)._quantile(q, axis=0)[2:4, 3:9](), expected[2:4, 3:9])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8"])
def test_a_distance_that_leaves_the_range_is_right(dtype):
    limits = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
    a = np.array([limits.min, limits.max] * 50, dtype)
    for size in (1 << 26, 1):
        with sizes.set(quantile_bytes=size):
            middle = dv.View(a)._quantile(0.5)()
            assert abs(middle) <= 0.5
            assert dv.View(a)._quantile(0.25)() == limits.min


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "M8[s]", "m8[s]"])
def test_unknown_values_make_the_quantile_unknown(dtype):
    a = np.arange(60).reshape(20, 3).astype(dtype)
    a[7, 1] = "NaT" if a.dtype.kind in "mM" else math.nan
    for size in (1 << 26, 1 << 9, 1):
        with sizes.set(quantile_bytes=size):
            for method in ("linear", "lower"):
                found = dv.View(a)._quantile([0.0, 0.4], axis=0, method=method)()
                assert_same(found, np.quantile(a, [0.0, 0.4], axis=0, method=method))
                assert_same(dv.View(a)._quantile(0.4)(), newest.quantile(a, 0.4))


def test_infinite_values_are_numpys():
    a = np.array([math.inf, -math.inf, 1.0, 2.0, math.inf])
    for q in (0.0, 0.2, 0.5, 0.6, 1.0):
        for size in (1 << 26, 1):
            with sizes.set(quantile_bytes=size), silence():
                assert_same(dv.View(a)._quantile(q)(), np.quantile(a, q))


@pytest.mark.parametrize("q", [0.5, [0.0, 1.0]])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3)])
def test_quantiles_of_nothing_are_numpys(shape, q):
    a = np.empty(shape)
    for axis in [None, *range(len(shape))]:
        expected, refusal = attempt(lambda data, axis=axis: np.quantile(data, q, axis=axis), a)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                dv.View(a)._quantile(q, axis=axis)
        else:
            assert_same(dv.View(a)._quantile(q, axis=axis)(), expected)


@pytest.mark.parametrize("q", [-0.1, 1.1, [0.5, 2], math.nan])
def test_what_is_no_quantile_is_refused_when_it_is_written(q):
    with pytest.raises(ValueError):
        dv.View([1.0, 2.0])._quantile(q)
    with pytest.raises(ValueError):
        dv.View([1.0, 2.0])._quantile(0.5, method="middle")
    with pytest.raises(TypeError):
        dv.View([1j])._quantile(0.5)
    with pytest.raises(TypeError):
        dv.View(x=[1.0, 2.0])._quantile(0.5)


# ---------------------------------------------------------------- passes and memory


def test_several_quantiles_share_few_passes(rng):
    rows = Rows(400)
    rows.data = rng.standard_normal((400, 3))
    with sizes.set(quantile_bytes=1 << 12):
        found = rows.view._quantile([0.25, 0.5, 0.75], axis=0)
        assert rows.asked == []
        assert_same(found(), np.quantile(rows.data, [0.25, 0.5, 0.75], axis=0))
        counts = rows.counts()
        assert len(set(counts)) == 1 and counts[0] <= 9
        found()
        assert rows.counts() == [0] * 400
    with sizes.set(quantile_bytes=1 << 14):
        rows.view._quantile([0.25, 0.5, 0.75], axis=0)()
        assert max(rows.counts()) <= 4


def test_a_quantile_is_a_photograph():
    a = np.arange(12.0).reshape(4, 3)
    v = dv.View(a)
    median = v._quantile(0.5, axis=0)
    for _ in range(2):
        v += 1
        assert_same(median(), np.array([4.5, 5.5, 6.5]))
    assert_same(pickle.loads(pickle.dumps(median))(), np.array([4.5, 5.5, 6.5]))
    assert_same((v - median)(), a - [4.5, 5.5, 6.5])


def computed(n, width):
    """Give rows that are computed from their numbers, so that none is held."""
    numbers = dv.View(np.arange(n, dtype="u4").reshape(n, 1))
    return numbers * (np.arange(1, 2 * width, 2, dtype="u4") * np.uint32(2654435761)) / 2.0**32


@pytest.mark.parametrize("n", [50_000, 400_000])
def test_memory_is_bounded_whatever_the_number_of_rows(n):
    v = computed(n, 4)
    expected = np.quantile(v(), [0.25, 0.5], axis=0)
    quartiles = v._quantile([0.25, 0.5], axis=0)
    with sizes.set(quantile_bytes=1 << 20):
        tracemalloc.start()
        try:
            got = quartiles()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert_same(got, expected)
    assert peak < 6 << 20


def padded(x):
    """Give rows of 1 to 3 equal numbers, which a function makes, with zeros behind."""
    return x._map(lambda n: np.full(int(n) % 3 + 1, n), shape=(None,), dtype="f8")._pad()()


KEPT_IN_FILES = pytest.mark.parametrize(
    ("kept", "numpys"),
    [
        (
            lambda x: x._map_batches(lambda part: part() + 0, shape=(), dtype="f8")._median(0)(),
            np.median,
        ),
        (padded, lambda x: np.where(np.arange(3) <= x[:, None] % 3, x[:, None], 0)),
    ],
    ids=["rows", "ragged rows"],
)


@pytest.mark.parametrize("keeps_room", [True, False])
@KEPT_IN_FILES
def test_a_full_disk_for_temporary_files_is_an_error(
    kept, numpys, keeps_room, tmp_path, monkeypatch
):
    if not keeps_room:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x = np.arange(2000.0)
    with sizes.set(quantile_bytes=1 << 12):
        assert_same(kept(dv.View(x)), numpys(x))
        with no_file_beyond(1 << 12), pytest.raises(OSError, match="file; TMPDIR=") as found:
            kept(dv.View(x))
    assert found.value.errno == errno.EFBIG and found.value.filename == str(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("axis", [0, None])
def test_an_approximate_quantile_reads_a_sample_of_the_rows_once(axis, rng):
    rows = Rows(4000)
    rows.data = rng.standard_normal((4000, 3)) + 5
    with sizes.set(quantile_bytes=1 << 16, sampled_rows=1000):
        got = rows.view._quantile([0.1, 0.5], axis=axis, approx=True)()
        again = rows.view._quantile([0.1, 0.5], axis=axis, approx=True)()
    counts = rows.counts()
    assert set(counts) == {0, 2} and 1000 <= sum(counts) <= 2000
    assert_same(got, again)
    got = got.reshape(2, 1, -1)
    below = (rows.data <= got).mean(axis=(1, 2) if axis is None else 1)
    assert np.abs(below.T - [0.1, 0.5]).max() < 2.7 / math.sqrt(500)


def test_an_approximate_quantile_of_few_rows_is_exact(rng):
    a = rng.standard_normal((300, 3))
    assert_same(dv.View(a)._quantile(0.3, axis=0, approx=True)(), np.quantile(a, 0.3, axis=0))


# ---------------------------------------------------------------- distinct values


@examples(100)
@given(
    st.lists(st.sampled_from([3, 4, 30, 1, 0]), max_size=2).map(tuple),
    st.sampled_from("? i1 u8 f2 f8 g c8 M8[s] m8[ms] U3 S3 >i4 >U2".split()),
    st.sampled_from(LAYOUTS),
    st.sampled_from([1 << 22, 1, 50]),
)
def test_distinct_values_are_numpys(shape, dtype, layout, size):
    a = lay_out(layout, shape, np.dtype(dtype)).array
    expected, counts = np.unique(a, return_counts=True)
    with sizes.set(block_bytes=size):
        alone, both = dv.View(a)._unique(), dv.View(a)._unique(counts=True)
        assert alone._dtype() == a.dtype
        np.testing.assert_array_equal(alone(), expected)
        np.testing.assert_array_equal(both.value(), expected)
        np.testing.assert_array_equal(both.count(), counts)
        assert alone().dtype == a.dtype and both.count().dtype == np.int64
        assert alone._shape() == expected.shape and alone._length() == len(expected)


def test_distinct_values_are_lazy_and_a_photograph():
    rows = Rows(20)
    view = rows.view
    found = view._unique(counts=True)
    repr(found), found._fields(), found._dtype(), found.value._dtype()
    assert rows.asked == []
    values = found.value()
    found.count(), list(found), found()
    assert rows.counts() == [1] * 20
    rows.data += 1
    np.testing.assert_array_equal(found.value(), values)
    a = np.array([3, 1, 3])
    v = dv.View(a)._unique()
    assert [part() for part in v] == [1, 3]
    a[:] = 0
    assert v().tolist() == [1, 3] and len(v) == 2
    assert pickle.loads(pickle.dumps(v))().tolist() == [1, 3]
    assert v[::-1]().tolist() == [3, 1] and (v + 1)().tolist() == [2, 4]
    assert v[:1]().tolist() == [1]
    with pytest.raises((ValueError, dv.ReadOnlyError)):
        v[:] = 0


def test_what_has_no_distinct_values_is_refused():
    with pytest.raises(TypeError, match="choose a field"):
        dv.View(x=[1], y=[2])._unique()
    with pytest.raises(TypeError, match="never ends"):
        dv.View([1, 2])._repeat()._unique()
    with pytest.raises(TypeError):
        dv.View(np.array([1, "a"], object))._unique()()


def test_room_for_distinct_values_does_not_grow_with_the_rows():
    labels = dv.View(np.zeros(1_000_000, "i2")) + np.int16(3)
    tracemalloc.start()
    try:
        with sizes.set(block_bytes=1 << 16):
            assert labels._unique(counts=True)().tolist() == [(3, 1_000_000)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 21


LEVELS = [0.9, 0.0, 1.0, [0.1, 0.9], [0.75, 0.25, 0.5], [0.5, 0.5], np.linspace(0, 1, 11)]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "i4", "u8", "m8[s]"])
@pytest.mark.parametrize("shape", [(20_001,), (5000, 4), (2, 3000)])
def test_ranks_are_found_one_after_the_other(dtype, shape):
    draws = np.random.default_rng(0)
    a = draws.integers(0, 100, shape).astype(dtype)
    if a.dtype.kind == "f":
        a[draws.random(shape) < 0.01] = np.inf
    arrays = [a, np.asfortranarray(a), a[::-1]]
    if a.dtype.kind in "fm":
        some = a.copy()
        some[-1] = some[..., -1] = np.nan if a.dtype.kind == "f" else "NaT"
        arrays.append(some)
    for array in arrays:
        v = dv.View(array)
        for axis in [None, *range(array.ndim)]:
            with np.errstate(invalid="ignore"):
                for q in LEVELS:
                    assert_same(v._quantile(q, axis=axis)(), newest.quantile(array, q, axis=axis))
                assert_same(v._median(axis=axis)(), np.median(array, axis=axis))
    assert_same(v(), arrays[-1])


def test_the_dtype_of_quantiles_is_asked_once():
    for dtype in ("f4", "f8", "i2"):
        v = dv.View(np.arange(10).astype(dtype))
        before = nodes._asked_dtype.cache_info().misses
        levels = (0.125, 1, True, np.float32(0.125), [0.125], [np.float32(0.5)])
        for q in [*levels, *levels]:
            assert_same(v._quantile(q)(), newest.quantile(v(), q))
        assert nodes._asked_dtype.cache_info().misses - before <= 2
    with pytest.raises(ValueError, match="Quantiles must be in the range"):
        v._quantile(math.nan)
