"""Statistics without what is missing, statistics of some elements, and missing values filled."""

import json
import math
import sqlite3
import statistics
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.compute.statistics import missing
from dataview.index.sizes import sizes
from oracle import assert_same, attempt, examples, silence

NAN_KINDS = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax"]
ARG_KINDS = ["nanargmin", "nanargmax"]
SOME_KINDS = ["sum", "prod", "mean", "var", "std", "any", "all"]
SHAPES = st.lists(st.sampled_from([3, 1, 7, 0, 20]), min_size=1, max_size=3).map(tuple)
DTYPES = ["f8", "f4", "f2", ">f8", "c16", "i4", "?", "u1", "g"]


def drawn(data, share=0.3):
    """Give numbers of some dtype, of which some are missing if they can be."""
    draws = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape, dtype = data.draw(SHAPES), np.dtype(data.draw(st.sampled_from(DTYPES)))
    x = np.round(draws.normal(size=shape) * 3, 2)
    if dtype.kind in "fc":
        x = x.astype(dtype)
        x[draws.random(shape) < data.draw(st.sampled_from([0, share, 1]))] = np.nan
        x[draws.random(shape) < data.draw(st.sampled_from([0, 0.1]))] = np.inf
    else:
        x = np.abs(x * 10).astype(dtype)
    axes = [None, *range(len(shape)), *((0, 1) for _ in shape[1:2])]
    return x, data.draw(st.sampled_from(axes)), draws


def close(got, expected):
    """Compare a statistic with NumPy's."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    tolerance = {"e": 1e-2, "f": 1e-5, "F": 1e-5}.get(expected.dtype.char, 1e-10)
    if expected.dtype.kind == "c":  # which part of an infinite product is NaN, its order decides
        infinite = ~np.isfinite(expected)
        assert not np.isfinite(got[infinite]).any()
        got, expected = got[~infinite], expected[~infinite]
    np.testing.assert_allclose(got, expected, tolerance, tolerance)


def both(ours, numpys, subject, **small):
    """Give a statistic and NumPy's, in silence; None if NumPy refuses it, as ours has to."""
    with silence():
        expected, refusal = attempt(lambda a: np.asarray(numpys(a)), subject)
        with sizes.set(**small):
            got, error = attempt(lambda a: np.asarray(ours(a)), subject)
    if refusal is not None:
        assert isinstance(error, type(refusal)), (got, error, refusal)
        return None
    assert error is None, error
    return got, expected


PARTS = st.sampled_from([8, 64, 1 << 22])


@examples(600)
@given(st.data())
def test_statistics_without_nan_are_numpys(data):
    x, axis, _ = drawn(data)
    kind = data.draw(st.sampled_from(NAN_KINDS + ARG_KINDS))
    if kind in ARG_KINDS and isinstance(axis, tuple):
        axis = None
    options = {"keepdims": data.draw(st.booleans())}
    if kind in ("nanvar", "nanstd"):
        options["ddof"] = data.draw(st.integers(0, 2))

    found = both(
        lambda a: getattr(dv.View(a), f"_{kind}")(axis, **options)(),
        lambda a: getattr(np, kind)(a, axis=axis, **options),
        x,
        part_bytes=data.draw(PARTS),
    )
    if found is None or (x.dtype.char == "e" and kind not in ("nanmin", "nanmax", *ARG_KINDS)):
        return  # NumPy's own of halves are of few digits
    close(*found)
    with silence():
        by_function = getattr(np, kind)(dv.View(x), axis=axis, **options)
    assert isinstance(by_function, dv.View)


@examples(400)
@given(st.data())
def test_quantiles_without_nan_are_numpys(data):
    x, axis, _ = drawn(data)
    if x.dtype.kind not in "fiu" or not x.size:
        return
    x = np.where(np.isinf(x), x.dtype.type(7), x)  # older versions of NumPy make NaN of them
    q = data.draw(st.sampled_from([0, 0.5, 1, 0.3, [0.25, 0.5, 0.9], [0.1]]))
    method = data.draw(st.sampled_from(["linear", "lower", "hazen", "nearest", "midpoint"]))

    found = both(
        lambda a: dv.View(a)._nanquantile(q, axis, method=method)(),
        lambda a: np.nanquantile(a, q, axis=axis, method=method),
        x,
        quantile_bytes=data.draw(st.sampled_from([64, 1 << 12, 1 << 27])),
    )
    if found is None:
        return
    got, expected = found
    assert got.dtype == np.quantile(np.ones_like(x), q, axis=axis, method=method).dtype
    close(got, expected.astype(got.dtype))  # NumPy's dtype depends on the number of columns


def test_medians_without_nan():
    x = np.random.default_rng(0).normal(size=(1001, 5))
    x[::4, 1] = x[1::2, 2] = np.nan
    v = dv.View(x)
    for kind in (np.nanmedian, lambda a, axis: np.nanpercentile(a, [5, 50], axis=axis)):
        found = kind(v, axis=0)
        assert isinstance(found, dv.View)
        np.testing.assert_allclose(found(), kind(x, axis=0))
    np.testing.assert_allclose(v._nanmedian(axis=0)(), np.nanmedian(x, axis=0))
    days = np.array(["2020-01-03", "NaT", "2020-01-01"], "M8[D]")
    assert dv.View(days)._nanquantile(0, method="lower")() == days[2]
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(v[:0]._nanquantile([0, 1])()).tolist() == [True, True]
    x[:, 3] = np.nan
    with pytest.warns(RuntimeWarning, match="All-NaN slice"):
        assert np.isnan(v._nanmedian(axis=0)()[3])


@examples(300)
@given(st.data())
def test_statistics_of_some_elements_are_numpys(data):
    x, axis, draws = drawn(data, 0.05)
    kind = data.draw(st.sampled_from(SOME_KINDS))
    mask = draws.random(x.shape if data.draw(st.booleans()) else x.shape[-1:]) < 0.6
    given_mask = dv.View(mask) if data.draw(st.booleans()) else mask

    def ours(a):
        verb = getattr(dv.View(a), f"_{kind}")(axis, where=given_mask)
        function = getattr(np, kind)(dv.View(a), axis=axis, where=given_mask)
        assert_same(np.asarray(verb()), np.asarray(function()))
        return verb()

    function = getattr(np, kind)
    found = both(ours, lambda a: function(a, axis=axis, where=mask), x, part_bytes=data.draw(PARTS))
    if found is not None and x.dtype.char != "e":
        close(*found)


INITIAL_KINDS = ["sum", "prod", "min", "max", "nansum", "nanprod", "nanmin", "nanmax"]


@examples(500)
@given(st.data())
def test_numpys_functions_with_where_and_initial_are_lazy_and_numpys(data):
    x, axis, draws = drawn(data)
    kind = data.draw(st.sampled_from(NAN_KINDS + INITIAL_KINDS))
    options = {"keepdims": data.draw(st.booleans())}
    if kind in INITIAL_KINDS and data.draw(st.booleans()):
        options["initial"] = data.draw(
            st.sampled_from([0, 1, 2.5, -3, True, np.float32(7), np.inf, 300, np.nan, 1j, "a", [1]])
        )
    mask = draws.random(x.shape if data.draw(st.booleans()) else x.shape[-1:]) < 0.6
    by = data.draw(st.sampled_from([None, mask, dv.View(mask), True]))
    masked = {} if by is None else {"where": by if by is True else mask}
    function = getattr(np, kind)
    reads = []

    class Source:
        shape, dtype = x.shape, x.dtype

        def __getitem__(self, key):
            reads.append(key)
            return x[key]

    def ours(a):
        given_mask = {} if by is None else {"where": by}
        found = function(dv.View(Source()), axis=axis, **options, **given_mask)
        if options.get("initial") not in (np.nan, [1], "a"):
            assert isinstance(found, dv.View) and not reads
        return found

    def numpys(a):
        return function(a, axis=axis, **options, **masked)

    found = both(ours, numpys, x, part_bytes=data.draw(PARTS))
    if found is not None and x.dtype.char != "e":
        close(*found)


@examples(200)
@given(st.data())
def test_extremes_from_an_initial_value(data):
    x, axis, draws = drawn(data)
    mask = draws.random(x.shape) < 0.5
    if x.dtype.kind in "cb":
        return
    initial = data.draw(st.sampled_from([0, 1, 100]))
    for kind in ("min", "max"):
        numpys, ours = getattr(np, kind), getattr(dv.View(x), f"_{kind}")
        assert_same(
            np.asarray(ours(axis, initial=initial)()), np.asarray(numpys(x, axis, initial=initial))
        )
        expected = np.asarray(numpys(x, axis, initial=initial, where=mask))
        assert_same(np.asarray(ours(axis, initial=initial, where=mask)()), expected)
    with pytest.raises(ValueError, match="needs initial="):
        dv.View(x)._max(where=mask)


@pytest.mark.parametrize("kind", ["var", "std", "nanvar", "nanmean", "mean"])
def test_blocks_without_elements_make_no_difference(kind):
    x = np.zeros((20, 0))
    with sizes.set(part_bytes=8), silence():
        assert np.isnan(getattr(dv.View(x), f"_{kind}")()())


def test_what_is_constant_has_its_value_as_mean_and_no_deviation():
    x = np.full((100_000, 3), 0.1)
    x[::3, 0] = np.nan
    x[1, 1] = np.nan
    for block in (1000, 1 << 22):
        with sizes.set(part_bytes=block):
            assert_same(dv.View(x)._nanmean(axis=0)(), np.full(3, 0.1))
            assert_same(dv.View(x)._nanstd(axis=0)(), np.zeros(3))
            assert_same(dv.View(x)._mean(axis=0, where=~np.isnan(x))(), np.full(3, 0.1))


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "c16"])
@pytest.mark.parametrize("shape", [(150_001,), (60_001, 5), (1000, 3, 90), (300, 2000)])
@pytest.mark.parametrize("share", [0, 0.00001, 0.3, 1])
def test_sums_of_many_numbers_without_nan_are_exact(dtype, shape, share):
    draws = np.random.default_rng(0)
    x = (draws.normal(size=shape) * 10.0 ** draws.integers(-3, 4, shape)).astype(dtype)
    x[draws.random(shape) < share] = np.nan
    wide = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    eps = np.finfo(x.dtype).eps
    for axis in {0, None, tuple(range(len(shape)))[:2], len(shape) - 1}:
        with silence():
            total, terms = np.nansum(wide, axis=axis), np.nansum(np.abs(wide), axis=axis)
            counts = (~np.isnan(x)).sum(axis=axis)
            for block in (1 << 20, 1 << 23):
                with sizes.set(part_bytes=block):
                    found = dv.View(x)._nansum(axis=axis)()
                    mean = dv.View(x)._nanmean(axis=axis)()
                assert (np.abs(found - total) <= 16 * eps * terms).all()
                near = np.abs(mean - total / counts) <= 16 * eps * terms / counts
                assert (near | (np.isnan(mean) & (counts == 0))).all()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_infinities_and_sums_past_the_range_of_many_numbers_without_nan(dtype):
    x = np.ones((200_000, 3), dtype)
    x[::2] = np.nan
    x[1, 0], x[3, 1], x[5, 1] = np.inf, np.inf, -np.inf
    x[:, 2] *= np.finfo(dtype).max
    with silence():
        assert_same(dv.View(x)._nansum(axis=0)(), np.array([np.inf, np.nan, np.inf], dtype))
        means = np.array([np.inf, np.nan, np.finfo(dtype).max], dtype)
        assert_same(dv.View(x)._nanmean(axis=0)(), means)


@pytest.mark.parametrize("size", [8, 24, 1 << 22])
def test_deviations_without_nan_do_not_overflow_on_the_way(size):
    for a in ([1e200, -1e200, np.nan], [1.5e308, np.nan, -1.5e308, -1.5e308, 1.5e308]):
        with sizes.set(part_bytes=size):
            assert dv.View(np.array(a))._nanstd()() == pytest.approx(a[0], rel=1e-12)


def test_a_large_offset_loses_nothing():
    x = np.random.default_rng(0).normal(1e9, 1, 50_000)
    x[::7] = np.nan
    with sizes.set(part_bytes=5000):
        got = dv.View(x)._nanstd()()
    np.testing.assert_allclose(got, np.nanstd(x.astype(np.longdouble)).astype(float), 1e-9)


@pytest.mark.parametrize("kind", NAN_KINDS[2:])
def test_nothing_but_nan_warns_once_as_numpy_does(kind):
    x = np.full((5, 2), np.nan)
    with pytest.warns(RuntimeWarning) as numpys:
        getattr(np, kind)(x, axis=0)
    with sizes.set(part_bytes=16), pytest.warns(RuntimeWarning) as ours:
        found = getattr(dv.View(x), f"_{kind}")(axis=0)()
    assert np.isnan(found).all()
    assert [str(w.message) for w in ours] == [str(w.message) for w in numpys]


def test_times_leave_out_nat_in_extremes():
    days = np.array(["2020-01-03", "NaT", "2020-01-01"], "M8[D]")
    assert dv.View(days)._nanmin()() == np.nanmin(days)
    assert dv.View(days)._nanmax()() == np.nanmax(days)
    assert dv.View(days)._nanargmin()() == np.nanargmin(days)


def test_sums_of_objects_leave_out_nan():
    objects = np.array([1, np.nan, 2.5], object)
    assert dv.View(objects)._nansum()() == np.nansum(dv.View(objects)) == 3.5
    assert dv.View(np.array(["a", "b"], "T"))._nansum()() == "ab"


def test_nan_statistics_read_once_together():
    x = np.random.default_rng(0).normal(size=(1000, 3))
    x[::5] = np.nan
    reads = []

    class Counted:
        shape, dtype = x.shape, x.dtype

        def __getitem__(self, key):
            reads.append(key)
            return x[key]

    v = dv.View(Counted())
    found = dv.evaluate(v._nanmean(0), v._nanstd(0), v._nanmax(0))
    assert len(reads) == 1
    np.testing.assert_allclose(found[1], np.nanstd(x, axis=0))


def test_deviations_and_variances_without_nan_are_found_together(monkeypatch):
    x = np.random.default_rng(0).normal(size=(1000, 3))
    x[::5] = np.nan
    calls, moments = [], missing._moments
    monkeypatch.setattr(missing, "_moments", lambda *how: calls.append(how) or moments(*how))
    v = dv.View(x)
    variance, deviation = dv.evaluate(v._nanvar(0), v._nanstd(0))
    assert len(calls) == 1
    np.testing.assert_allclose(variance, np.nanvar(x, axis=0))
    np.testing.assert_allclose(deviation, np.nanstd(x, axis=0))
    for kinds in (missing.KINDS, missing.OF_SOME):
        for one, other in (("var", "std"), ("nanvar", "nanstd")):
            assert kinds[one].part is kinds[other].part
    for name in ("min", "max"):  # of values with a mask
        assert missing.OF_SOME[name].part is missing.OF_SOME[f"arg{name}"].part


# ---------------------------------------------------------------- filling and leaving out

GAPS = {
    "floats": np.array([1.0, np.nan, 3.0]),
    "halves": np.array([1.0, np.nan, 3.0], "f2"),
    "complex": np.array([1 + 2j, np.nan, 3.0]),
    "dates": np.array(["2020-01-01", "NaT", "2020-01-03"], "M8[D]"),
    "objects": np.array(["a", None, "c"], object),
    "integers": np.array([1, 2, 3]),
    "texts": np.array(["a", "", "c"]),
}


@pytest.mark.parametrize("name", GAPS)
def test_fillna_fills_what_is_missing_and_keeps_the_dtype(name):
    a = GAPS[name].copy()
    fill = a[0]
    present = np.array([value is not None and value == value for value in a])
    expected = a.copy()
    expected[~present] = fill
    v = dv.View(a)
    assert_same(v._fillna(fill)(), expected)
    assert_same(v._fillna(dv.View(a)[0])(), expected)
    assert_same(v._dropna()(), a[present])
    v[:] = v._fillna(fill)
    assert_same(a, expected)


@pytest.mark.parametrize("value", [1.5, np.nan, -np.inf])
@pytest.mark.parametrize("kind", NAN_KINDS)
def test_the_statistics_of_one_element_are_those_of_numpy(kind, value):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(getattr(dv.View([0.0, value])[1], f"_{kind}")()(), getattr(np, kind)(value))
        for where in (True, False):
            got = dv.View([0.0, value])[1]._var(where=where)()
            assert_same(got, np.var(np.array(value), where=where))


def test_fillna_refuses_what_does_not_fit():
    v = dv.View(np.array([1, 2], "i4"))
    with pytest.raises(TypeError, match="without losing"):
        v._fillna(1.5)
    with pytest.raises(TypeError, match="choose a field"):
        dv.View(x=[1.0], y=[2.0])._fillna(0)
    with pytest.raises(ValueError, match="broadcast"):
        dv.View([1.0, np.nan])._fillna([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(TypeError, match=r"float64 would lose.*_astype\('float64'\)._fillna"):
        v._fillna(v._mean())
    with pytest.raises(TypeError, match=r"give values of datetime64\[D\]"):
        dv.View(np.array(["NaT"], "M8[D]"))._fillna(dv.View([1.5]))


def test_fillna_takes_dates_as_texts():
    v = dv.View(np.array(["2020-01-01", "NaT"], "M8[D]"))
    assert_same(v._fillna("1900-05-06")(), np.array(["2020-01-01", "1900-05-06"], "M8[D]"))
    with pytest.raises(ValueError, match="'soon' is no date"):
        v._fillna("soon")


def test_dropna_looks_at_every_field():
    d = dv.View(
        x=np.array([1.0, np.nan, 3.0, 4.0]),
        y=np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, 6.0], [7.0, 8.0]]),
        z=dv.View(a=np.array(["a", "b", "c", None], object)),
    )
    assert d._dropna().x().tolist() == [1.0]
    d._dropna().x += 10
    assert d.x[0]() == 11.0


def test_a_statistic_fills_with_what_it_was_when_asked():
    x = np.array([1.0, np.nan, 3.0])
    v = dv.View(x)
    filled = v._fillna(v._nanmean())
    v[0] = 100.0
    assert filled().tolist() == [100.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u2"])
def test_deviations_of_some_small_integers_are_of_full_precision(dtype):
    draws = np.random.default_rng(0)
    x, mask = draws.integers(0, 200, 1000).astype(dtype), draws.random(1000) < 0.5
    for kind in ("var", "std"):
        found = getattr(dv.View(x), f"_{kind}")(where=mask)()
        np.testing.assert_allclose(found, getattr(np, kind)(x, where=mask), 1e-14)


def test_the_median_of_complex_numbers_is_left_to_numpy():
    z = np.array([1 + 1j, 2, 3])
    with pytest.raises(TypeError, match=r"np.median\(view\)"):
        dv.View(z)._median()
    assert np.median(dv.View(z)) == np.median(z)


@pytest.mark.parametrize("kind", ["_median", "_nanmedian"])
@examples(300)
@given(st.data())
def test_medians_are_numpys_beside_infinities_too(kind, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    dtype = np.dtype(data.draw(st.sampled_from(["f8", "f4", "f2", ">f4", "i8", "u1", ">i4", "?"])))
    draws = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x = draws.normal(0, 5, shape)
    if dtype.kind == "f":
        odd = draws.choice([np.inf, -np.inf, np.nan, 0, 3], shape)
        x = np.where(draws.random(shape) < 0.4, odd, x)
    x = x.astype(dtype)
    axis = data.draw(st.sampled_from([None, 0, -1, tuple(range(len(shape)))]))
    with silence():
        expected = getattr(np, kind.replace("_nan", "nan").lstrip("_"))(x, axis=axis)
        found = getattr(dv.View(x), kind)(axis=axis)()
    assert_same(found, expected)


def test_medians_of_large_numbers_and_of_times():
    large = np.array([2**53 + 1, 2**53 + 3])
    assert dv.View(large)._median()() == np.median(large)
    assert dv.View([1.7e308, 1.7e308])._median()() == 1.7e308
    times = np.array([0, 1], "m8[s]")
    assert dv.View(times)._median()() == np.median(times)


def test_the_median_is_numpys():
    x = np.random.default_rng(0).normal(size=(101, 4))
    assert_same(dv.View(x)._median(axis=0)(), np.median(x, axis=0))
    assert isinstance(np.median(dv.View(x)), dv.View)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dv.View([3, 1])._median()() == 2.0


OBJECTS = {
    "decimals": [Decimal(1), Decimal(3), Decimal(8), Decimal(2)],
    "fractions": [Fraction(1, 3), Fraction(2), Fraction(1, 7)],
    "integers": [3, 1, 2],
    "floats with NaN": [1.0, np.nan, 2.0, 5.0],
    "mixed": [True, 2, 3.5, Fraction(1, 2)],
    "texts": ["a", "b", "c"],
    "None": [1, None, 2],
}


def object_quantile(a, kind, axis, **q):
    """What NumPy finds among the objects that are there; its own nanmedian compares None."""
    find = partial(getattr(np, kind.removeprefix("nan")), **q)
    if not kind.startswith("nan") or all(x is not None and x == x for x in a.flat):
        return find(a, axis=axis)
    lines = [a.ravel()] if axis in (None, (0, 1)) else list(np.moveaxis(a, axis, -1))
    known = [np.array([x for x in line if x is not None and x == x], object) for line in lines]
    found = [find(x) if x.size else np.full(np.shape(q.get("q")), np.nan) for x in known]
    return found[0] if len(lines) == 1 else np.stack([np.asarray(f, object) for f in found], -1)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("kind", ["median", "nanmedian", "quantile", "nanquantile"])
@pytest.mark.parametrize("name", OBJECTS)
def test_medians_and_quantiles_of_objects_are_numpys(name, kind, axis):
    a = np.array(OBJECTS[name], object)
    a = np.stack([a, a[::-1], a], axis=1)
    for q in [{}] if kind.endswith("median") else [{"q": 0.5}, {"q": [0, 1]}, {"q": 1}]:
        with silence():
            expected, refusal = attempt(partial(object_quantile, kind=kind, axis=axis, **q), a)
            view = getattr(dv.View(a), f"_{kind}")(axis=axis, **q)
            found, error = attempt(dv.View.__call__, view)
        assert type(error) is type(refusal), (error, refusal)
        if kind.startswith("nan"):
            assert np.shape(found) == np.shape(expected)
            assert list(map(str, np.ravel(found))) == list(map(str, np.ravel(expected)))
        else:
            assert repr(np.asarray(found, object)) == repr(np.asarray(expected, object))


@pytest.mark.parametrize("method", ["linear", "lower", "nearest", "midpoint", "hazen"])
@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "f4", "m8[s]"])
@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 3), 0), ((3, 0), 0), ((3, 0), 1)])
def test_quantiles_of_nothing_without_nan_are_numpys(method, dtype, shape, axis):
    a = np.empty(shape, dtype)
    for q in (0.5, 0, 1):
        with silence():
            expected = np.nanquantile(a, q, axis=axis, method=method)
            found = dv.View(a)._nanquantile(q, axis=axis, method=method)()
            median = dv.View(a)._nanmedian(axis=axis)()
        assert_same(np.asarray(found), np.asarray(expected))
        assert_same(np.asarray(median), np.asarray(expected))
    if a.size == 0 and shape != (3, 0):
        with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
            dv.View(a)._nanmedian(axis=axis)()


@pytest.mark.parametrize("size", [8, 1 << 22])
def test_an_initial_value_counts_before_a_result_is_out_of_range(size):
    large = np.array([1e200, np.nan, 1e200])
    with sizes.set(part_bytes=size):
        assert np.nanprod(dv.View(large), initial=0)() == 0
        assert np.nanprod(dv.View(large), initial=1e-300)() == 1e-300 * 1e200 * 1e200
        assert np.prod(dv.View(large[::2]), initial=-1e-300)() == -1e-300 * 1e200 * 1e200
        assert np.prod(dv.View(large), initial=0, where=[True, False, True])() == 0
        assert np.sum(dv.View([1e308, 1e308]), initial=-1.5e308)() == 5e307
        rows = dv.ragged([[1e200, 1e200], [3.0]])
        assert np.prod(rows, axis=1, initial=1e-300)().tolist() == [1e-300 * 1e200 * 1e200, 3e-300]
    assert repr(np.prod(dv.View([2, 3]), initial=5)).endswith("prod(int64(2,), initial=5)")


@pytest.mark.parametrize("kind", ["var", "std", "nanvar", "nanstd", "mean", "nanmean"])
@pytest.mark.parametrize("ddof", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4", "?"])
@pytest.mark.parametrize("constant", [True, False])
def test_too_few_elements_where_a_mask_is_true_are_as_numpys(kind, ddof, dtype, constant):
    x = np.ones((3, 4), dtype) if constant else np.arange(12).reshape(3, 4).astype(dtype)
    mask = np.array([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0]], bool)
    options = {} if kind.endswith("mean") else {"ddof": ddof}
    for axis in (0, None):
        with warnings.catch_warnings(record=True) as numpys:
            warnings.simplefilter("always")
            expected = getattr(np, kind)(x, axis=axis, where=mask, **options)
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            found = getattr(np, kind)(dv.View(x), axis=axis, where=mask, **options)()
        close(np.asarray(found), np.asarray(expected))
        first = [
            {str(w.message).split(" in ")[0].rstrip(".") for w in told} for told in (numpys, ours)
        ]
        assert first[0] == first[1]


@pytest.mark.parametrize("size", [8, 1 << 22])
def test_means_of_some_durations_are_numpys(size):
    a = np.array([[1, 4, 9], [2, -7, 5], ["NaT", 1, 6], [3, 3, 3]], "m8[s]")
    mask = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]], bool)
    for kind in ("mean", "nanmean"):
        for by, axis in [(mask, 0), (mask, 1), (mask, None), (~mask, 0), (~mask, None)]:
            with silence(), sizes.set(part_bytes=size):
                expected = np.asarray(getattr(np, kind)(a, axis=axis, where=by))
                found = getattr(np, kind)(dv.View(a), axis=axis, where=by)
                assert isinstance(found, dv.View)
                assert_same(np.asarray(found()), expected)
    assert dv.View(a)._mean(0, where=mask[:, :2].any(axis=1)[:, None])().dtype == "m8[s]"
    with pytest.raises(TypeError, match="where= of var is for numbers; got timedelta64"):
        dv.View(a)._var(where=mask)


def test_an_extreme_with_an_initial_value_needs_no_memory_until_it_is_computed():
    v = dv.View(np.broadcast_to(np.float32(3), (1 << 22, 1 << 22)))
    assert v._min(axis=0, initial=1)[:2]._shape() == (2,)


# -------------------- gaps in the columns of tables --------------------

WITH_GAPS = {
    "age": st.none() | st.integers(-9, 9),
    "city": st.none() | st.sampled_from(["Rome", "Bonn", ""]),
    "ok": st.none() | st.booleans(),
    "x": st.none() | st.floats(-9, 9),
}
WHOLE = {"age": 5, "city": "Oslo", "ok": True, "x": 0.5}


@st.composite
def rows_with_gaps(draw):
    """Rows of a table by column; the first lacks nothing, so that formats know what they are."""
    rows = [WHOLE, *draw(st.lists(st.fixed_dictionaries(WITH_GAPS), max_size=12))]
    return {name: [row[name] for row in rows] for name in WITH_GAPS}


def in_csv(path, columns):
    cell = {None: "", "": '""', True: "true", False: "false"}
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns)]
    for row in rows:
        told = [one if one is None or isinstance(one, (str, bool)) else repr(one) for one in row]
        lines.append(",".join(cell.get(one, one) for one in told))
    path.write_text("\n".join(lines) + "\n")


def in_json_lines(path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def in_parquet(path, columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, row_group_size=4)


def in_sqlite(path, columns):
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (age INTEGER, city TEXT, ok BOOLEAN, x REAL)")
    rows = list(zip(*columns.values(), strict=True))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()


MAKERS = {".csv": in_csv, ".jsonl": in_json_lines, ".parquet": in_parquet, ".db": in_sqlite}


def in_table(folder, suffix, columns):
    path = folder / f"t{suffix}"
    MAKERS[suffix](path, columns)
    return dv.open(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("gaps")


def check_texts(d, texts):
    labels = sorted({text for text in texts if text is not None})
    assert d.city().tolist() == texts
    assert d.city._labels()().tolist() == labels
    codes = [-1 if text is None else labels.index(text) for text in texts]
    assert d.city._codes()().tolist() == codes
    assert d.city._counts()()["count"].tolist() == [texts.count(label) for label in labels]
    assert d.city._fillna("?")().tolist() == ["?" if text is None else text for text in texts]
    assert len(d.city._dropna()) == len(texts) - texts.count(None)
    assert d.city._describe()[""]["missing"] == texts.count(None)
    if None in texts:
        assert d.city_mask().tolist() == [text is not None for text in texts]


@examples(200)
@given(suffix=st.sampled_from([*MAKERS]), columns=rows_with_gaps())
def test_texts_that_are_missing_are_none(place, suffix, columns):
    with in_table(place, suffix, columns) as d:
        check_texts(d, columns["city"])
    if None in columns["city"]:
        with dv.open(place / f"t{suffix}", fill={"city": "-"}) as d:
            assert d.city().tolist() == ["-" if one is None else one for one in columns["city"]]
            assert "city_mask" not in d._fields()


@pytest.mark.clients
@given(columns=rows_with_gaps(), library=st.sampled_from(["string", "str", "polars"]))
def test_texts_that_are_missing_in_a_frame_are_none(columns, library):
    import pandas
    import polars

    if library == "polars":
        frame = polars.DataFrame(columns)
    else:
        frame = pandas.DataFrame(columns).astype({"city": library})
    check_texts(dv.View(frame), columns["city"])


def frame_of(columns, library):
    import pandas
    import polars

    if library == "polars":
        return polars.DataFrame(columns)
    frame = pandas.DataFrame(columns, dtype=object)
    return frame.astype({"age": "Int64", "ok": "boolean", "city": "string", "x": float})


def check_rows(d, columns):
    rows = list(zip(*columns.values(), strict=True))
    whole = [row for row in rows if None not in row]
    found = d._dropna()
    assert list(zip(*(found[name]().tolist() for name in columns), strict=True)) == whole
    described = d._describe()
    for name, values in columns.items():
        known = [value for value in values if value is not None]
        assert described[name]["count"] == len(values)
        assert described[name].get("missing", 0) == len(values) - len(known)
        assert described[name]["distinct"] == len({*known})
        if name in ("age", "x"):
            assert described[name]["mean"] == pytest.approx(np.mean(known))
            assert described[name]["50%"] == np.quantile(known, 0.5)
            assert (described[name]["min"], described[name]["max"]) == (min(known), max(known))


@examples(100)
@given(
    suffix=st.sampled_from([*MAKERS]), columns=rows_with_gaps(), size=st.sampled_from([60, 1 << 20])
)
def test_rows_in_which_a_column_of_a_table_has_a_gap(place, suffix, columns, size):
    with in_table(place, suffix, columns) as d, sizes.set(block_bytes=size):
        check_rows(d, columns)


@pytest.mark.clients
@given(columns=rows_with_gaps(), library=st.sampled_from(["pandas", "polars"]))
def test_rows_in_which_a_column_of_a_frame_has_a_gap(columns, library):
    check_rows(dv.View(frame_of(columns, library)), columns)


def test_a_field_beside_another_is_its_mask_if_it_has_a_truth_value_for_each_row():
    x, cells = np.arange(6).reshape(3, 2), np.ones((3, 2), bool)
    cells[1] = False
    assert len(dv.View(x=x, x_mask=cells)._dropna()) == 3
    d = dv.View(x=x, x_mask=cells[:, 0], y={"z": [1.0, 2.0, np.nan]}, y_mask=[True, True, True])
    assert d._dropna().x().tolist() == [[0, 1]]
    found = d._describe()
    assert (found["x"]["missing"], found["x"]["mean"], found["y.z"]["missing"]) == (2, 2.5, 1)
    assert "missing" not in found["x_mask"]
    ragged = dv.View(x=dv.View([[1], [], [2, 3]]), x_mask=[True, False, True])
    assert [row.tolist() for row in ragged._dropna().x()] == [[1], [2, 3]]
    assert ragged._describe()["x"]["count"] == 3


OWN_MASKS = {
    "age": pa.array([1, None, 3]),
    "age_mask": pa.array([True, True, False]),
    "city": pa.array(["a", "b", None]),
}
"""Columns with gaps, and one that is only called like a mask."""


def test_a_column_called_like_a_mask_does_not_hide_the_one_of_the_gaps(tmp_path):
    pq.write_table(pa.table(OWN_MASKS), tmp_path / "a.parquet")
    d = dv.open(tmp_path / "a.parquet")
    assert d.age_mask_2().tolist() == [True, False, True]
    found = d._dropna()
    assert (found.age().tolist(), found.age_mask().tolist()) == ([1], [True])
    assert d["age", "age_mask"]._dropna().age().tolist() == [1, 3]
    told = d._describe()
    assert (told["age"]["missing"], told["age"]["mean"]) == (1, 2)
    assert [*told] == ["age", "age_mask", "city"] and "missing" not in told["age_mask"]


def test_a_mask_under_another_name_tells_the_gaps_of_its_column(tmp_path):
    pq.write_table(pa.table(OWN_MASKS), tmp_path / "a.parquet")
    d = dv.open(tmp_path / "a.parquet")._rename(age_mask_2="known")
    assert d["age",]._dropna().age().tolist() == [1, 3]
    assert d._describe()["age"]["mean"] == 2
    bare = d._drop("known")
    assert bare["age", "age_mask"]._dropna().age_mask().tolist() == [True, True, False]
    assert "missing" not in bare._describe()["age"]


def test_what_has_no_truth_value_for_each_row_is_no_mask_whatever_metadata_say():
    notes = {"regions": {"mask_of": "image"}}
    d = dv.View(image=np.arange(8).reshape(2, 2, 2), regions=np.zeros((2, 2, 2)), _meta=notes)
    assert len(d._dropna()) == 2
    assert [*d._describe()] == ["image", "regions"]
    assert "missing" not in d._describe()["image"]


KEYS = [(), np.s_[::-1], np.s_[1:], np.s_[0], np.s_[[-1, 0]], np.s_[::2, None]]


def check_gaps(d, columns, key):
    for name, fill in [("age", -1), ("ok", True), ("city", "?"), ("x", 7.5)]:
        expected = [fill if one is None else one for one in columns[name]]
        expected = np.array(expected, d[name].dtype)
        assert_same(np.asarray(d[name][key]._fillna(fill)()), np.asarray(expected[key]))
        assert_same(np.asarray(d[key][name]._fillna(fill)()), np.asarray(expected[key]))
    zeros = np.array([one or 0 for one in columns["age"]])
    assert_same(d.age(), zeros)


@examples(200)
@given(suffix=st.sampled_from([*MAKERS]), columns=rows_with_gaps(), key=st.sampled_from(KEYS))
def test_gaps_of_integers_and_truth_values_are_filled(place, suffix, columns, key):
    with in_table(place, suffix, columns) as d:
        check_gaps(d, columns, key)
        if None not in columns["age"]:
            assert d.age._fillna(3)().tolist() == columns["age"]


@pytest.mark.clients
@given(
    columns=rows_with_gaps(),
    library=st.sampled_from(["pandas", "polars"]),
    key=st.sampled_from(KEYS),
)
def test_gaps_of_integers_and_truth_values_of_a_frame_are_filled(columns, library, key):
    check_gaps(dv.View(frame_of(columns, library)), columns, key)


STATISTICS = "sum prod mean var std min max argmin argmax median".split()


@pytest.mark.parametrize("suffix", MAKERS)
def test_statistics_leave_out_what_is_missing(tmp_path, suffix):
    columns = {"age": [31, None, 41], "city": list("abc"), "ok": [True, None, True], "x": [1.5] * 3}
    d = in_table(tmp_path, suffix, columns)
    whole = d._dropna("age")._select("age", "city")._group(by="city")
    assert whole._sum().age().tolist() == [31, 41]
    for kind in STATISTICS:
        getattr(d.age, f"_{kind}")()
    assert (d.age._mean()(), d.age._min()(), np.mean(d.age[1:])()) == (36, 31, 41)
    assert d.age._mean(where=d.age > 31)() == 41 and d.age._min(initial=33)() == 31
    assert (d.age * 2)._sum()() == 144 and d.ok._all()()
    assert np.where(d.age_mask, d.age, 5)._sum()() == 77
    filled = dv.open(tmp_path / f"t{suffix}", fill={"age": 3})
    assert filled.age._mean()() == 25 and (filled.age + 1)._sum()() == 78


def test_what_is_missing_becomes_no_text_none():
    texts = dv.View(np.array(["Rome", None, ""], object))
    for dtype in ("U20", "S20"):
        with pytest.raises(ValueError, match=r"no .*20 stands for None.*_fillna\(''\)"):
            texts._astype(dtype)()
        with pytest.raises(ValueError, match="None"):
            texts._astype(dtype)(out=np.empty(3, dtype))
        assert texts._fillna("")._astype(dtype)().tolist() == [*np.array(["Rome", "", ""], dtype)]
        assert texts[::2]._astype(dtype)()[0] == np.array("Rome", dtype)
    assert np.isnan(dv.View(np.array([1, None], object))._astype("f8")()[1])


def test_texts_that_are_missing_are_saved_with_their_mask(tmp_path):
    d = in_table(tmp_path, ".csv", {"city": ["Rome", None, ""], "n": [1, 2, 3]})
    d._save(tmp_path / "t.h5")
    found = dv.open(tmp_path / "t.h5")
    assert found.city().tolist() == ["Rome", None, ""]
    assert found.city_mask().tolist() == [True, False, True]
    assert found == d
    with pytest.raises(TypeError, match=r"has None, .*_fillna\(''\) gives one"):
        d.city._save(tmp_path / "u.h5")


@pytest.mark.parametrize("axis", [0, None])
def test_a_mean_of_numbers_that_half_floats_cannot_hold_warns_of_nothing(axis):
    a = np.full((400_000, 2), 1e6)
    a[1::2] += 1
    assert (dv.View(a)._nanmean(axis=axis)() == 1e6 + 0.5).all()
    a[7] = np.nan
    np.testing.assert_allclose(dv.View(a)._nanmean(axis=axis)(), np.nanmean(a, axis=axis))


# -------------------- counted, and last in any order --------------------


def test_missing_is_counted_in_each_field():
    inner = dv.View(t=np.array(["2020-01-01", "NaT"], "M8[D]"))
    d = dv.View(
        x=[[1.0, np.nan], [np.nan, np.nan]],
        name=["a", None],
        n=[1, 2],
        n_mask=[True, False],
        part=inner,
        rows=dv.ragged([1.0, np.nan, 2.0], lengths=[1, 2]),
    )
    found = d._missing()
    assert found._fields() == ("x", "name", "n", "part", "rows")
    assert [found._field(name)() for name in ("x", "name", "n", "rows")] == [3, 1, 1, 1]
    assert found.part.t() == 1
    assert dv.View([1.0, np.nan])._missing()() == 1
    assert dv.View([1, 2])._missing()() == 0
    assert "x     int64  ()  3" in repr(found)


@pytest.mark.parametrize("dtype", [float, object, "M8[D]", "c16"])
def test_rows_without_a_value_are_last_in_both_orders(dtype, rng):
    numbers = rng.permutation(40)
    gaps = rng.random(40) < 0.3
    values = numbers.astype("M8[D]" if dtype == "M8[D]" else dtype)
    values[gaps] = {"M8[D]": np.datetime64("NaT"), object: None}.get(dtype, np.nan)
    d = dv.View(x=values, row=np.arange(40))
    ascending = np.argsort(np.where(gaps, 99, numbers), kind="stable")
    descending = np.argsort(np.where(gaps, 99, -numbers), kind="stable")
    there = (~gaps).sum()
    assert d._sorted("x").row()[:there].tolist() == ascending[:there].tolist()
    assert d._sorted("x", reverse=True).row().tolist() == descending.tolist()
    assert d._nlargest(5, "x").row().tolist() == descending[:5].tolist()
    assert d._nsmallest(5, by="x").row().tolist() == ascending[:5].tolist()
    assert dv.View(numbers)._nlargest(3)().tolist() == [39, 38, 37]
    with pytest.raises(TypeError, match=r"rows comes first, as in _nlargest\(5, 'x'\)"):
        d._nlargest("x", 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["f8", "i8", "u1", "?", "M8[s]", "U3", ">i4", "gaps"])
def test_the_largest_and_the_smallest_rows_are_the_first_of_the_sorted_ones(kind, seed):
    draw = np.random.default_rng(seed)
    x = draw.integers(0, 9, 60)
    x = x.astype("f8" if kind == "gaps" else kind)
    if kind in ("f8", "gaps"):
        x[draw.random(60) < (0.9 if seed == 3 else 0.2)] = np.nan
    d = dv.View(x=x, y=draw.integers(0, 3, 60), row=np.arange(60))
    for n in (0, 1, 5, 59, 60, 100):
        for by in ("x", ["x", "y"], ["y", "x"]):
            wanted = d._sorted(by, reverse=True).row()[:n].tolist()
            assert d._nlargest(n, by).row().tolist() == wanted
            assert d._nsmallest(n, by).row().tolist() == d._sorted(by).row()[:n].tolist()


def test_codes_of_no_label_are_last_in_both_orders():
    pets = dv.View(kind=["cat", None, "dog", None], n=[0, 1, 2, 3])
    pets.kind = pets.kind._codes()
    assert pets._sorted("kind", reverse=True).n().tolist() == [2, 0, 1, 3]
    assert pets._sorted(["kind", "n"], reverse=True).n().tolist() == [2, 0, 3, 1]


def test_where_values_are_missing_is_asked_of_one_field():
    d = dv.View(x=[1.0, np.nan], y=[1, 2])
    for verb in ("_isna", "_notna"):
        with pytest.raises(TypeError, match=f"^{verb} takes one array.*choose a field: 'x', 'y'"):
            getattr(d, verb)()


@pytest.mark.parametrize("mask", ["no", 1.5, 3, [1.0, 0.0, 1.0], [1, 0, 1], [True, False]])
@pytest.mark.parametrize("kind", ["sum", "prod", "mean", "var", "any", "all", "min"])
def test_a_mask_is_checked_also_where_a_column_has_gaps(kind, mask):
    gaps = dv.View(x=[1, 2, 3], x_mask=[True, False, True], _meta={"x_mask": {"mask_of": "x"}})
    options = {"initial": 9} if kind == "min" else {}
    errors = [
        attempt(lambda x: getattr(x, f"_{kind}")(where=mask, **options), x)[1]
        for x in (dv.View([1, 2, 3]), gaps.x)
    ]
    assert str(errors[0])[:6] == "where=" and type(errors[0]) is type(errors[1])
    if mask != [True, False]:
        assert str(errors[0]) == str(errors[1])


EXACT = [[Decimal("1.5"), None], [Decimal(3), Decimal(2)], [None, Decimal(4)], [None, None]]


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("part_bytes", [1 << 23, 8])
def test_statistics_of_decimals_leave_out_none(axis, told, part_bytes):
    values = np.array(EXACT, object)
    columns = {None: [values.reshape(-1)], 0: list(values.T), 1: list(values)}[axis]
    there = [[one for one in column if one is not None] for column in columns]
    with sizes.set(part_bytes=part_bytes):
        view = dv.View(values)

        def asked(kind, *, ddof=0):
            how = {"ddof": ddof} if ddof else {}
            if told and axis is None:  # a column that has a mask
                mask = np.array([one is not None for one in values.reshape(-1)])
                meta = {"x_mask": {"mask_of": "x"}}
                d = dv.View(x=values.reshape(-1), x_mask=mask, _meta=meta)
                return [getattr(d.x, f"_{kind}")(axis, **how)()]
            found = getattr(view, f"_nan{kind}")(axis, **how)()
            return [found] if axis is None else found.tolist()

        assert asked("sum") == [sum(ones) for ones in there]
        assert asked("prod") == [math.prod(ones) for ones in there]
        for found, ones in zip(asked("mean"), there, strict=True):
            assert found == statistics.mean(ones) if ones else np.isnan(found)
        for found, ones in zip(asked("var"), there, strict=True):
            assert found == statistics.pvariance(ones) if ones else np.isnan(found)
        for found, ones in zip(asked("var", ddof=1), there, strict=True):
            assert found == statistics.variance(ones) if len(ones) > 1 else np.isnan(found)
        for found, ones in zip(asked("std"), there, strict=True):
            assert found == statistics.pvariance(ones).sqrt() if ones else np.isnan(found)
        if axis != 1:
            assert asked("min") == [min(ones) for ones in there]
            assert asked("max") == [max(ones) for ones in there]


def test_rows_of_hundreds_of_columns_are_looked_at_for_missing_values():
    columns = {f"f{n}": np.array([0.0, np.nan if n == 700 else 1.0]) for n in range(1000)}
    d = dv.View(**columns)
    assert len(d._dropna()) == 1
    assert len(d._filter(d.f700._notna() & (d.f1 < 1))) == 1
    assert d._missing().f700() == 1 and d._missing().f699() == 0
