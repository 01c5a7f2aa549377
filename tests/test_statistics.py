"""Statistics: exact, lazy, in one pass, and unchanged by writes after they were needed."""

import math
import multiprocessing
import pickle
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting, Rows
from dataview.compute.statistics import reductions
from dataview.index.sizes import sizes
from dataview.plan.statistics import STATISTICS
from oracle import (
    LAYOUTS,
    NUMBERS,
    OTHERS,
    SWAPPED,
    as_array,
    assert_same,
    attempt,
    check_same,
    evaluated,
    examples,
    keys,
    lay_out,
    plain,
    public_class,
    silence,
)

KINDS = "sum prod mean var std min max argmin argmax any all".split()
SPREADING = ["var", "std"]
EVERY = NUMBERS + OTHERS + SWAPPED


def parts_of(size):
    """Take statistics in parts of so many bytes, and compute in blocks of as many elements."""
    small, block = min(sizes.small_elements, size), min(sizes.block_elements, size)
    return sizes.set(part_bytes=size, small_elements=small, block_elements=block)


def lazily(kind, **options):
    """Give the action that takes a statistic of a view or of its model."""

    def action(subject):
        if isinstance(subject, dv.View):
            return getattr(subject, f"_{kind}")(**options)
        return getattr(np, kind)(subject, **options)

    return action


# ---------------------------------------------------------------- against NumPy


@st.composite
def options_of(draw, kind, ndim):
    """Draw the options of a statistic, a few that NumPy refuses too."""
    axis = draw(st.sampled_from([None, *range(-ndim, ndim), None, *range(ndim), ndim, -ndim - 1]))
    several = kind not in ("argmin", "argmax")
    if several and draw(st.integers(0, 2)) == 0:
        chosen = draw(st.lists(st.integers(-ndim, max(ndim - 1, 0)), max_size=3))
        axis = tuple(chosen) if ndim else ()
    options = {"axis": axis}
    if draw(st.booleans()):
        options["keepdims"] = draw(st.booleans())
    if kind in SPREADING and draw(st.booleans()):
        options["ddof"] = draw(st.integers(0, 3))
    return options


@st.composite
def drawn_statistics(draw, dtypes=EVERY, styles=("special", "plain")):
    """Draw an array, the name of a statistic and its options."""
    shape = tuple(draw(st.lists(st.sampled_from([3, 4, 2, 5, 1, 7, 3, 0]), max_size=4)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    base = lay_out(draw(st.sampled_from(LAYOUTS)), shape, dtype)
    array = base.array
    if draw(st.sampled_from(styles)) == "plain" or dtype.kind == "O":
        root = base.root
        root[...] = plain(root.shape, dtype)
    kind = draw(st.sampled_from(KINDS))
    return array, kind, draw(options_of(kind, len(shape)))


def check_statistic(array, kind, options, got, expected):
    """Compare a statistic: exactly, or by the error that the size of its terms allows."""
    got, expected = as_array(got), as_array(expected)
    if array.dtype.kind not in "fc" and (kind not in ["mean", *SPREADING]):
        assert_same(got, expected)
        return
    if kind not in ["sum", "prod", "mean", *SPREADING] or expected.dtype.kind not in "fc":
        assert_same(got, expected)
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape
    exact, terms = exactly(array, kind, options)
    limits = np.finfo(expected.dtype)
    rounded = exact.astype(expected.dtype)
    finite = np.isfinite(rounded)
    assert np.array_equal(np.isnan(got[~finite]), np.isnan(rounded[~finite]))
    known = ~finite & ~np.isnan(rounded)
    assert np.array_equal(got[known], rounded[known])
    error = np.abs(got.astype(exact.dtype) - exact)[finite]
    bound = 4 * limits.eps * terms[finite].real + 4 * limits.smallest_subnormal
    assert np.all(error <= bound), f"{kind}: error {error.max()}, bound {bound}"


def exactly(array, kind, options):
    """Give a statistic in extended precision, and the sum of the sizes of its terms."""
    wide = np.clongdouble if array.dtype.kind == "c" else np.longdouble
    data = array.astype(wide)
    ddof = options.get("ddof", 0)
    where = {name: value for name, value in options.items() if name != "ddof"}
    count = np.sum(np.ones(array.shape), **where)
    if kind == "sum":
        return np.asarray(np.sum(data, **where)), np.asarray(np.sum(np.abs(data), **where))
    if kind == "mean":
        total, terms = np.sum(data, **where), np.sum(np.abs(data), **where)
        return np.asarray(total / count), np.asarray(terms / count)
    if kind == "prod":
        found = np.asarray(np.prod(data, **where))
        return found, np.asarray(np.abs(found) * (1 + count / 2))
    kept = {**where, "keepdims": True}
    apart = np.abs(data - np.sum(data, **kept) / np.sum(np.ones(array.shape), **kept)) ** 2
    found = np.asarray(np.sum(apart, **where) / np.maximum(count - ddof, 0))
    if kind == "std":
        found = np.sqrt(found)
    return found, np.asarray(np.abs(found) * 2)


@examples(600)
@given(drawn_statistics(), st.sampled_from([1 << 22, 1, 40, 200]))
def test_a_statistic_is_numpys(statistic, size):
    array, kind, options = statistic
    if kind == "prod" and array.dtype.kind == "c" and not np.isfinite(array).all():
        return  # the order of the factors decides which parts of the product are NaN
    if not array.size or not array.ndim or options["axis"] == () or kind in SPREADING:
        return  # nothing, single numbers and deviations have tests of their own
    if array.dtype.kind == "O":
        return  # what comes of objects is an object, of no dtype of its own
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        return  # values that are not finite have tests of their own too
    action = lazily(kind, **options)
    with parts_of(size), silence():
        expected, refusal = attempt(action, array)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                evaluated(action(dv.View(array)))
            return
        view = action(dv.View(array))
        assert isinstance(view, dv.View)
        known = view._shape(), view._dtype()
        got = view()
    assert known == (np.shape(expected), as_array(got).dtype)
    check_statistic(array, kind, options, got, expected)


@examples(200)
@given(st.data(), drawn_statistics(["?", "i1", "u2", "i8", "M8[s]", "m8[ms]", "f4"], ("special",)))
def test_a_part_of_a_statistic_is_the_part_of_its_data(data, statistic):
    array, kind, options = statistic
    if array.dtype.kind == "f" and kind not in ("min", "max", "argmin", "argmax", "any", "all"):
        kind, options = "max", {name: options[name] for name in options if name != "ddof"}
    with parts_of(data.draw(st.sampled_from([1 << 22, 1, 40]))), silence():
        expected, refusal = attempt(lazily(kind, **options), array)
        if refusal is not None:
            return
        key = data.draw(keys(np.shape(expected)))
        model = as_array(expected)
        view = lazily(kind, **options)(dv.View(array))
        check_same(view, model, lambda subject: subject[key])


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_number_has_every_statistic(kind):
    for number in [np.array(5.0), np.array(0, "i2"), np.array(True)]:
        expected = getattr(np, kind)(number)
        assert_same(getattr(dv.View(number), f"_{kind}")()(), expected)
        again = getattr(dv.View(number), f"_{kind}")()[None]
        assert_same(again(), np.asarray(expected)[None])
        assert_same(
            getattr(dv.View(number), f"_{kind}")(axis=None)[None](), as_array(expected)[None]
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)])
def test_statistics_of_nothing_are_numpys(kind, shape):
    for dtype in ["f8", "f2", "i4", "?", "c16"]:
        a = np.empty(shape, dtype)
        for axis in [None, *range(len(shape))]:
            with silence():
                action = lazily(kind, axis=axis)
                expected, refusal = attempt(action, a)
                if refusal is not None:
                    with pytest.raises(public_class(refusal)):
                        evaluated(action(dv.View(a)))
                else:
                    assert_same(evaluated(action(dv.View(a))), expected)


AXES = (
    [0, 1], [0], [], [-1, 0], [0, 0], [0, 7], [True], (0, 1), (), (0, 7), (0, None), np.array(1),
    np.array([0, 1]), np.int64(-1), 1.0, True, "0", 3,
)  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7, 5), (300, 1000)])
def test_truth_values_are_counted(shape, rng, monkeypatch):
    a = np.asarray(rng.random(shape) < 0.3)
    parts = [a, a[::-2, ::-1], a.T, np.asfortranarray(a)] if a.ndim == 2 else [a]
    for part in parts:
        v, axes = dv.View(part), range(part.ndim)
        for axis in [None, tuple(axes), *axes]:
            for options in ({}, {"keepdims": True}):
                assert_same(v._sum(axis=axis, **options)(), part.sum(axis=axis, **options))
                with silence():
                    assert_same(v._mean(axis=axis, **options)(), part.mean(axis=axis, **options))
        assert_same(np.sum(v, initial=5)(), np.sum(part, initial=5))
        assert_same(np.sum(v, where=~part)(), np.sum(part, where=~part))
    added = []  # to count all takes a tenth of the time of adding them
    monkeypatch.setattr(reductions, "np", Told(np, added))
    assert dv.View(a)._sum()() == dv.View(a > 0)._sum()() == np.count_nonzero(a)
    assert added == []


class Told:
    """NumPy, for the module of reductions: it notes what is added."""

    def __init__(self, of, added):
        self.of, self.added, self.add = of, added, self

    def reduce(self, block, **options):
        self.added.append(block.shape)
        return self.of.add.reduce(block, **options)

    sum = reduce

    def __getattr__(self, name):
        return getattr(self.of, name)


def test_a_truth_of_numpy_is_no_axis():
    """Older versions of NumPy take it for 1 in some statistics."""
    with pytest.raises(TypeError, match=r"the axis of mean is an integer; got np\.True_"):
        dv.View(np.ones((2, 3)))._mean(axis=np.True_)


@pytest.mark.parametrize("axis", AXES, ids=repr)
@pytest.mark.parametrize(
    "kind",
    [
        "quantile",
        "median",
        "nanquantile",
        "nanmedian",
        "sum",
        "prod",
        "mean",
        "std",
        "var",
        "min",
        "max",
        "argmin",
        "any",
        "all",
        "nansum",
        "nanprod",
        "nanmean",
        "nanstd",
        "nanmax",
    ],
)
def test_axes_of_every_kind_are_those_that_numpy_takes(kind, axis):
    a = np.random.default_rng(0).integers(0, 9, (3, 4, 5)) / 4
    q = (0.5,) if "quantile" in kind else ()
    for subject in (a, a[0]):
        for keepdims in (False, True):

            def by_function(v, keepdims=keepdims):
                return getattr(np, kind)(v, *q, axis=axis, keepdims=keepdims)

            def by_verb(v, keepdims=keepdims):
                if not isinstance(v, dv.View):
                    return by_function(v)
                return getattr(v, f"_{kind}")(*q, axis=axis, keepdims=keepdims)

            for action in (by_function, by_verb):
                expected, refusal = attempt(action, subject)
                if refusal is None:
                    found = evaluated(action(dv.View(subject)))
                    assert found.dtype == expected.dtype and found.shape == expected.shape
                    np.testing.assert_allclose(found, expected, 1e-12)
                else:
                    with pytest.raises(public_class(refusal)):
                        action(dv.View(subject))


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_a_record_or_a_text_are_refused_as_by_numpy(kind):
    for a in [np.zeros(3, [("a", "f4"), ("b", "i2")]), np.array(["b", "a", ""])]:
        expected, refusal = attempt(lazily(kind), a)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                evaluated(lazily(kind)(dv.View(a)))
        else:
            assert_same(evaluated(lazily(kind)(dv.View(a))), expected)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("dtype", ["f2", "f8", "g", "c8", "M8[s]", "m8[s]"])
@pytest.mark.parametrize("kind", ["min", "max", "argmin", "argmax"])
def test_the_first_unknown_value_wins_wherever_it_lies(kind, dtype, place):
    a = np.array([5, 3, 9, 3, 9, 1, 7]).astype(dtype)
    a[place] = a[5] = "NaT" if a.dtype.kind in "mM" else math.nan
    wide = np.stack([a, np.roll(a, 1)], axis=1)
    for size in (1, 1 << 22):
        with parts_of(size):
            assert_same(getattr(dv.View(a), f"_{kind}")()(), getattr(np, kind)(a))
            found = getattr(dv.View(wide), f"_{kind}")(axis=0)
            assert_same(found(), getattr(np, kind)(wide, axis=0))
            assert_same(getattr(dv.View(wide), f"_{kind}")()(), getattr(np, kind)(wide))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    "values", [[math.inf, 1], [-math.inf, 1], [math.inf, -math.inf], [math.nan]]
)
def test_infinite_and_unknown_values_stay_so(values, dtype):
    a = np.array([1, 2, *values, 3]).astype(dtype)
    for size in (1, 1 << 22):
        with parts_of(size), silence():
            for kind in [
                "sum",
                "mean",
                *SPREADING,
                *(["min", "max"] if a.dtype.kind == "f" else []),
            ]:
                got, expected = getattr(dv.View(a), f"_{kind}")()(), getattr(np, kind)(a)
                assert got.dtype == expected.dtype
                np.testing.assert_array_equal(got, expected, err_msg=kind)


# ---------------------------------------------------------------- exactness


def test_the_mean_of_many_float32_rows_is_exact(rng):
    a = rng.standard_normal((400_000, 64), "f4")
    a += 100
    exact = a.mean(axis=0, dtype="f8")
    for mean in [dv.View(a)._mean(axis=0)(), (dv.View(a) + np.float32(0))._mean(axis=0)()]:
        assert mean.dtype == np.float32
        assert np.abs(mean - exact).max() < 1e-5
    spread = dv.View(a[:100_000])._std(axis=0)()
    assert np.abs(spread - a[:100_000].std(axis=0, dtype="f8")).max() < 1e-6


@pytest.mark.parametrize("shape", [(300_000,), (100_000, 3), (3, 100_000)])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_a_long_sum_of_float32_is_as_good_as_one_in_double(layout, shape):
    a = lay_out(layout, shape, np.dtype("f4")).array
    a[...] = 0.1
    exact = float(np.float32(0.1)) * a.size
    for axis in [None, (0, 1) if a.ndim == 2 else 0]:
        assert abs(float(dv.View(a)._sum(axis=axis)()) / exact - 1) <= 2**-23
        assert abs(float(dv.View(a)._mean(axis=axis)()) - float(np.float32(0.1))) <= 2**-27
    if a.ndim == 2:
        for axis in (0, 1):
            sums = dv.View(a)._sum(axis=axis)().astype("f8")
            assert np.abs(sums / (float(np.float32(0.1)) * a.shape[axis]) - 1).max() <= 2**-23


def test_a_sum_of_doubles_is_near_the_true_one(rng):
    a = rng.standard_normal(200_000) * 10.0 ** rng.integers(-9, 9, 200_000)
    exact, terms = math.fsum(a), math.fsum(np.abs(a))
    for size in (1 << 22, 10_000):
        with parts_of(size):
            assert abs(dv.View(a)._sum()() - exact) <= 8 * 2**-52 * terms
            assert abs(dv.View(a)._mean()() - exact / len(a)) <= 8 * 2**-52 * terms / len(a)


def test_a_small_spread_about_a_large_mean_is_found():
    for dtype, offset in [("f4", 2.0**20), ("f8", 2.0**40), ("i8", 2**40)]:
        a = (np.tile([0, 1, 2, 3], 5000) + offset).astype(dtype)
        for size in (1 << 22, 4000):
            with parts_of(size):
                assert dv.View(a)._var()() == pytest.approx(1.25, rel=1e-6)
                assert dv.View(a.reshape(-1, 2))._std(axis=0)() == pytest.approx(1.0, rel=1e-6)


CONSTANTS = {
    "f2": [0.1, -3.3, 0, 1, 6e4, 6e-8],
    "f4": [0.1, -3.3, 0, 1, 3e38, 1e-30, 1e-45],
    "f8": [0.1, -3.3, 0, 1, 1e9 + 1 / 3, 1.7e308, 1e-200, 5e-324],
    "g": [0.1, -3.3, 1e9 + 1 / 3],
    "c8": [0.1, 0.1 - 3.3j],
    "c16": [0.1, 0.1 - 3.3j, 1j, 1e200 + 1e-3j],
    "i8": [3, -7, 2**53 + 1, 2**62 + 12345],
    "u4": [4_000_000_001],
    "i1": [-128],
    "?": [True, False],
    ">f8": [0.1],
}
"""Numbers of each dtype, most of which are not what many of them divided by their count are."""


def check_constant(a, axis):
    """Check that the mean of an array that is constant over an axis is exact, and no spread."""
    one = np.take(a, 0, axis=axis) if axis is not None else a.flat[0]
    mean = dv.View(a)._mean(axis=axis)
    assert_same(mean(), np.asarray(one).astype(mean._dtype())[()])
    for kind in SPREADING:
        assert not np.any(getattr(dv.View(a), f"_{kind}")(axis=axis)()), (kind, axis)


@pytest.mark.parametrize("size", [1 << 23, 1 << 12, 200])
@pytest.mark.parametrize("dtype", CONSTANTS)
def test_the_mean_of_what_is_constant_is_exactly_it_and_the_deviation_nothing(dtype, size):
    for value in CONSTANTS[dtype]:
        with parts_of(size), silence():
            for layout in ("C", "F", "strided"):
                a = lay_out(layout, (7, 331), np.dtype(dtype)).array
                a[...] = value
                for axis in (None, 0, 1, (0, 1)):
                    check_constant(a, None if axis == (0, 1) else axis)
            check_constant(np.full(1999, value, dtype), 0)


def test_many_equal_numbers_have_no_spread():
    for count in (100_000, 3_000_001):
        a = np.full(count, 0.1)
        assert (dv.View(a)._mean()(), dv.View(a)._std()()) == (0.1, 0)
        wide = np.repeat([[0.1, 1 / 3, 1e9 + 0.7]], count // 3, axis=0)
        assert dv.View(wide)._mean(axis=0)().tolist() == wide[0].tolist()
        assert dv.View(wide)._std(axis=0)().tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", [1 << 22, 400])
def test_a_constant_among_other_columns_is_exact(size, rng):
    a = rng.standard_normal((1000, 6)) * [1, 0, 1, 0, 1e-9, 0] + [0, 0.1, 5, 1 / 3, 1e9, 0]
    a[3, 0] = np.inf
    a[5, 2] = np.nan
    with parts_of(size), silence():
        for data, axis in [(a, 0), (a.T, 1), (np.asfortranarray(a), 0), (a[:, None], 0)]:
            mean = np.ravel(dv.View(data)._mean(axis=axis)())
            spread = np.ravel(dv.View(data)._std(axis=axis)())
            assert mean[[1, 3, 5]].tolist() == [0.1, 1 / 3, 0]
            assert spread[[1, 3, 5]].tolist() == [0, 0, 0]
            assert mean[0] == np.inf and np.isnan(mean[2]) and np.isnan(spread[[0, 2]]).all()


@pytest.mark.parametrize("size", [1 << 22, 2000])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_standardised_constants_are_numpys_unknowns_with_its_warning(size, axis):
    a = np.full((300, 300), 0.1)
    v = dv.View(a)
    with parts_of(size):
        keep = {} if axis is None else {"keepdims": True}
        z = (v - v._mean(axis=axis, **keep)) / v._std(axis=axis, **keep)
        with pytest.warns(RuntimeWarning, match="invalid value") as told:
            assert np.isnan(z()).all()
        assert len(told) == 1


@examples(150)
@given(
    st.sampled_from(["f4", "f8", "c16", "i8"]),
    st.sampled_from([0, 1.0, -3e3, 1e6, 1e9 + 1 / 3]),
    st.sampled_from([1e-6, 1e-3, 1, 1e3]),
    st.sampled_from([1 << 22, 64, 3000]),
    st.sampled_from(["noise", "drift", "outlier", "first"]),
    st.integers(0, 2**32 - 1),
)
def test_a_large_offset_loses_no_digit_of_the_spread(dtype, offset, spread, size, shape, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.standard_normal(900)) if shape == "drift" else rng.standard_normal(900)
    if shape in ("outlier", "first"):
        x[0 if shape == "first" else 500] = 1e4
    a = (x * spread * (1 + 0.5j if dtype == "c16" else 1) + offset).astype(dtype)
    wide = a.astype("G" if dtype == "c16" else "g")
    apart = wide - wide.mean()
    exact = (apart * apart.conj()).real.mean()
    limits = np.finfo("f4" if dtype == "f4" else "f8")
    with parts_of(size), silence():
        for data, axis in [(a, None), (a.reshape(-1, 1), 0), (a.reshape(1, -1), 1)]:
            got = np.ravel(dv.View(data)._var(axis=axis)())[0]
            assert abs(got - exact) <= 40 * limits.eps * exact
            mean = np.ravel(dv.View(data)._mean(axis=axis)())[0]
            assert abs(mean - wide.mean()) <= 16 * limits.eps * np.abs(wide).mean()


def test_the_spread_of_small_halves_is_found():
    a = (np.arange(1000) % 7 * 1e-4).astype("f2")
    exact = a.astype("f8").std()
    for data, axis in [(a, None), (a[:, None], 0), (a[None], 1)]:
        assert abs(float(np.ravel(dv.View(data)._std(axis=axis)())[0]) / exact - 1) < 2**-10


HUGE = {
    "f2": [60000, 60000, -60000, -50000],
    "f4": [3e38, 3e38, -3e38, -2e38],
    "f8": [1.7e308, 1.7e308, -1.7e308, -1.6e308],
    "c8": [3e38, 3e38, -3e38, -2e38],
    "c16": [1.7e308, 1.7e308j, -1.7e308, -1.6e308j],
}


@pytest.mark.parametrize("size", [1, 1 << 22])
@pytest.mark.parametrize("dtype", HUGE)
def test_a_sum_that_overflows_on_the_way_is_right_in_the_end(dtype, size):
    a = np.array(HUGE[dtype], dtype)
    exact = a.astype(np.clongdouble).sum()
    eps = np.finfo(dtype).eps
    with parts_of(size), silence():
        for data, axis in [(a, None), (a[:, None], 0), (np.stack([a, a], 1), 0), (a[None], 1)]:
            total = dv.View(data)._sum(axis=axis)()
            mean = dv.View(data)._mean(axis=axis)()
            assert np.all(np.abs(total - exact) <= 8 * eps * np.abs(a[0])), (total, exact)
            assert np.all(np.abs(mean - exact / 4) <= 4 * eps * np.abs(a[0])), (mean, exact / 4)


@pytest.mark.parametrize("size", [1, 1 << 22])
@pytest.mark.parametrize(("dtype", "value"), [("f2", 3e4), ("f4", 1e30), ("f8", 1e200)])
def test_a_deviation_whose_square_overflows_is_right(dtype, value, size):
    a = np.array([value, -value] * 4, dtype)
    with parts_of(size), silence():
        assert dv.View(a)._std()() == pytest.approx(float(a[0]), rel=1e-3)
        assert dv.View(a[:, None])._std(axis=0)()[0] == pytest.approx(float(a[0]), rel=1e-3)
        assert dv.View(a)._var()() == (a.astype("g") ** 2).mean().astype(dtype)


PRODUCTS = [("f2", 12), ("f4", 90), ("f8", 700), ("c8", 90), ("c16", 700), ("g", 9000), ("G", 9000)]


@pytest.mark.parametrize("size", [1, 64, 1 << 22])
@pytest.mark.parametrize(("dtype", "power"), PRODUCTS)
def test_a_product_that_leaves_the_range_on_the_way_is_right_in_the_end(dtype, power, size):
    large, small = (np.ldexp(np.ones(1, "g"), [p])[0] for p in (power, -power))
    turn = 1j if np.dtype(dtype).kind == "c" else 1
    a = (np.array([large] * 20 + [small] * 20 + [3]) * turn).astype(dtype)
    expected = np.dtype(dtype).type(3 * turn)
    with parts_of(size), silence():
        for data in (a, a[::-1], np.roll(a, 10)):
            assert dv.View(data)._prod()() == expected
            assert dv.View(np.stack([data, data], 1))._prod(axis=0)().tolist() == [expected] * 2
            assert dv.View(np.stack([data, data]))._prod(axis=1)().tolist() == [expected] * 2
        assert dv.View(np.append(a[:20], a.dtype.type(0)))._prod()() == 0
        assert dv.View(a[:20])._prod()() in (np.inf, large**20)


def test_small_integers_are_summed_as_numpy_sums_them():
    a = np.full(70_000, 255, "u1")
    for size in (1 << 22, 999):
        with parts_of(size):
            assert_same(dv.View(a)._sum()(), a.sum())
            assert_same(dv.View(a.astype("i2"))._mean()(), a.astype("i2").mean())
            assert_same(dv.View(a[:40])._prod()(), a[:40].prod())
            assert_same(dv.View(a > 3)._sum()(), (a > 3).sum())
            assert_same(dv.View(a[:3000].reshape(-1, 3))._sum(axis=(0, 1))(), a[:3000].sum())


# ---------------------------------------------------------------- the same everywhere


def many(v):
    """Give statistics whose bits depend on the order of addition."""
    return [v._sum(axis=0), v._mean(), v._std(axis=0), v._var(axis=1), v._prod(), v._argmax()]


def test_bits_are_the_same_for_every_executor(rng):
    a = rng.standard_normal((2000, 5), "f4") * 1e3 + 1
    with parts_of(1000), silence():
        expected = [statistic() for statistic in many(dv.View(a))]
        for workers in (1, 2, 3):
            with ThreadPoolExecutor(workers) as pool, dv.executor(pool):
                for got, own in zip(many(dv.View(a)), expected, strict=True):
                    assert_same(got(), own)


def test_bits_are_the_same_in_other_processes(rng):
    a = rng.standard_normal((60, 5), "f4") * 1e3 + 1
    context = multiprocessing.get_context("spawn")
    with parts_of(400), silence():
        expected = [statistic() for statistic in many(dv.View(a))]
        with ProcessPoolExecutor(1, context) as pool, dv.executor(pool):
            for got, own in zip(many(dv.View(a)), expected, strict=True):
                assert_same(got(), own)


def test_floating_point_errors_of_the_operand_are_told_as_the_caller_says():
    a = np.ones((100, 3))
    a[50] = 0
    with parts_of(100), ThreadPoolExecutor(3) as pool, dv.executor(pool):
        for _ in range(3):
            with np.errstate(divide="ignore"):
                assert (1 / dv.View(a))._max()() == math.inf
            with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
                (1 / dv.View(a))._max()()
            with pytest.warns(RuntimeWarning, match="divide by zero"):
                (1 / dv.View(a))._max()()


# ---------------------------------------------------------------- photographs


def test_a_statistic_is_of_the_data_as_they_were_when_it_was_asked_for():
    a = np.arange(12.0).reshape(4, 3)
    v = dv.View(a)
    mean = v._mean(axis=0)
    for _ in range(2):
        v += 1
        assert_same(mean(), np.array([4.5, 5.5, 6.5]))
    assert mean[1]() == 5.5
    assert_same((mean + 0)(), np.array([4.5, 5.5, 6.5]))
    assert_same(v._mean(axis=0)(), np.array([6.5, 7.5, 8.5]))


def test_two_sets_are_centred_by_one_mean():
    train, test = np.arange(12.0).reshape(4, 3), np.full((2, 3), 50.0)
    expected = train - train.mean(axis=0), test - train.mean(axis=0)
    t, u = dv.View(train), dv.View(test)
    mu = t._mean(0)
    t -= mu
    u -= mu
    assert_same(train, expected[0])
    assert_same(test, expected[1])


def test_a_part_of_a_statistic_needs_all_of_it_and_keeps_it():
    a = np.arange(12.0).reshape(4, 3)
    v = dv.View(a)
    mean = v._mean(axis=0)
    assert mean[2]() == 6.5
    v[...] = 0
    assert_same(mean(), np.array([4.5, 5.5, 6.5]))


def test_an_expression_keeps_its_statistics_while_its_data_change():
    a = np.arange(12.0).reshape(4, 3)
    v = dv.View(a)
    centred = v - v._mean(axis=0)
    first = centred()
    a += 10
    assert_same(centred(), first + 10)


def test_a_statistic_that_was_taken_is_pickled_with_its_value():
    a = np.arange(3_000_000.0)
    mean, late = dv.View(a)._mean(), dv.View(a[:3])._mean()
    mean()
    a[...] = 0
    text = pickle.dumps(mean)
    assert len(text) < 2000
    assert pickle.loads(text)() == 1499999.5
    assert pickle.loads(pickle.dumps(mean * 2))() == 2999999
    assert pickle.loads(pickle.dumps(late))() == 0


def test_a_photograph_cannot_be_changed():
    v = dv.View(np.arange(12.0).reshape(4, 3))
    mean = v._mean(axis=0)
    with pytest.raises(ValueError):
        mean()[0] = 5
    with pytest.raises(dv.ReadOnlyError):
        mean[0] = 5
    with pytest.raises(dv.ReadOnlyError):
        mean += 1
    assert_same(mean(copy=True), np.array([4.5, 5.5, 6.5]))


# ---------------------------------------------------------------- what is read


def test_nothing_is_read_before_a_statistic_is_asked():
    rows = Rows(50)
    for kind in KINDS:
        statistic = getattr(rows.view, f"_{kind}")(axis=0)
        shifted = statistic[:2] + 1
        repr(shifted)
        dir(statistic)
        assert statistic._shape() == (3,) and len(shifted) == 2 and statistic._dtype() is not None
        pickle.dumps(statistic._dtype())
    assert rows.asked == []


@pytest.mark.parametrize("size", [1 << 22, 100])
def test_statistics_of_each_row_asked_together_read_the_data_once(size):
    rows = Rows(50)
    v = rows.view
    with parts_of(size):
        found = (v._mean(axis=1) + v._max(axis=1))()
        assert rows.counts() == [1] * 50
    assert_same(found, rows.data.mean(axis=1) + rows.data.max(axis=1))


@pytest.mark.parametrize("size", [1 << 22, 100])
def test_statistics_asked_together_read_the_data_once(size):
    rows = Rows(50)
    v = rows.view
    with parts_of(size):
        both = v._mean(axis=0) / v._std(axis=0)
        both()
        assert rows.counts() == [1] * 50
        both()
        assert rows.counts() == [0] * 50
        several = v._min(0) + v._max(0) + v._sum(0) + v._var(0) + v._argmin(0) + v._any(0)
        several()
        assert rows.counts() == [1] * 50


@pytest.mark.parametrize("size", [1 << 22, 100])
def test_a_statistic_of_a_statistic_reads_the_data_once_for_each(size):
    rows = Rows(50)
    v = rows.view
    with parts_of(size):
        spread = ((v - v._mean(axis=0)) ** 2)._mean(axis=0)
        np.testing.assert_allclose(spread(), rows.data.var(axis=0), rtol=1e-12)
    assert rows.counts() == [2] * 50


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keepdims", [False, True])
def test_statistics_of_some_rows_read_these_rows(kind, keepdims):
    rows = Rows(50)
    expected = getattr(rows.data, kind)(axis=1, keepdims=keepdims)
    for key in [5, np.s_[3:40:7], [4, 4, -1], np.s_[::-10], np.s_[:0], (np.s_[2:30], None)]:
        statistic = getattr(rows.view, f"_{kind}")(axis=1, keepdims=keepdims)
        got = statistic[key]()
        needed = np.unique(np.arange(50)[key[0] if isinstance(key, tuple) else key])
        assert sorted(rows.asked) == needed.tolist(), key
        rows.asked.clear()
        np.testing.assert_allclose(got, expected[key], rtol=1e-14)
    centred = rows.view - rows.view._mean(axis=1, keepdims=True)
    centred[7]()
    assert set(rows.asked) == {7}


def test_iterating_standardised_rows_reads_the_statistics_once():
    rows = Rows(50)
    v = rows.view
    z = (v - v._mean(axis=0)) / v._std(axis=0)
    for row in z:
        row()
    assert rows.counts() == [1] + [2] * 49  # the first is in one request with the statistics


def test_a_failing_row_fails_the_statistic_and_it_can_be_asked_again():
    rows = Rows(50)
    broken = [True]

    def row(number):
        if number == 33 and broken:
            raise OSError("no such row")
        return rows(number)

    v = dv.View(row, _length=50)._probe()
    total = v._sum(axis=0)
    with parts_of(100):
        with pytest.raises(OSError, match="33"):
            total()
        broken.clear()
        np.testing.assert_allclose(total(), rows.data.sum(axis=0))


# ---------------------------------------------------------------- warnings

WARNED = [
    ("mean", np.empty(0), "Mean of empty slice"),
    ("mean", np.empty(0, "i4"), "Mean of empty slice"),
    ("var", np.empty((0, 3)), "Degrees of freedom <= 0"),
    ("std", np.empty(0, "f4"), "Degrees of freedom <= 0"),
]


@pytest.mark.parametrize(("kind", "a", "message"), WARNED)
def test_too_few_elements_are_warned_of(kind, a, message):
    with pytest.warns(RuntimeWarning, match=message), np.errstate(all="ignore"):
        getattr(dv.View(a), f"_{kind}")(axis=0)()
    with pytest.warns(RuntimeWarning, match="Degrees"), np.errstate(all="ignore"):
        assert dv.View([1.0, 2.0])._var(ddof=2)() == math.inf


NOTED = [
    ("sum", [1e308, 1e308], "over"),
    ("sum", [math.inf, -math.inf], "invalid"),
    ("mean", [math.inf, -math.inf], "invalid"),
    ("prod", [1e300, 1e300], "over"),
    ("prod", [math.inf, 0.0], "invalid"),
    ("var", [math.inf, 1.0], "invalid"),
    ("var", [1e200, -1e200], "over"),
    ("sum", np.array([6e4, 6e4], "f2"), "over"),
    ("prod", np.array([1e30, 1e30], "f4"), "over"),
    ("sum", np.array([math.inf, -math.inf], "g"), "invalid"),
]
WORDS = {"over": "overflow", "invalid": "invalid value"}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [1, 1 << 22])
@pytest.mark.parametrize(("kind", "values", "error"), NOTED)
def test_floating_point_errors_are_told_once_as_the_caller_says(kind, values, error, size, axis):
    a = np.stack([np.asarray(values)] * 2, axis=1 - axis)
    with np.errstate(**{error: "raise"}), pytest.raises(FloatingPointError):
        getattr(np, kind)(a, axis=axis)
    with parts_of(size):
        statistic = getattr(dv.View(a), f"_{kind}")(axis=axis)
        with np.errstate(**{error: "raise"}), pytest.raises(FloatingPointError):
            statistic()
        with pytest.warns(RuntimeWarning) as told:
            statistic()
        assert [WORDS[error] in str(warning.message) for warning in told] == [True]
        statistic()


@pytest.mark.parametrize("kind", KINDS)
def test_what_stays_in_range_in_the_end_is_not_warned_of(kind):
    a = np.array([1e308, 1e308, -1e308, -1e308, 1e-300, math.nan][: 5 if kind != "sum" else 6])
    if kind in ("prod", *SPREADING):
        a = np.array([1e150, 1e150, -1e150, 1e-150])
    for size in (1, 1 << 22):
        with parts_of(size):
            getattr(dv.View(a), f"_{kind}")()()


# ---------------------------------------------------------------- rows of photographs


def test_rows_that_were_asked_alone_and_the_others_stay_as_they_were():
    a = np.arange(12.0).reshape(4, 3)
    v = dv.View(a)
    mean, middle = v._mean(axis=1), v._quantile([0.5, 1], axis=1)
    assert mean[1]() == 4
    assert_same(middle[:, 2](), np.array([7.0, 8.0]))
    sent = pickle.dumps((mean, middle))
    v += 100
    for own, other in [(mean, middle), pickle.loads(sent)]:
        assert_same(own[1:3](), np.array([4.0, 7.0]))
        assert_same(other[0, [3, 2, 3]](), np.array([10.0, 7.0, 10.0]))
        v += 100
        assert_same(own(), np.array([1.0, 4.0, 7.0, 10.0]))
        assert_same(other()[0], np.array([1.0, 4.0, 7.0, 10.0]))


def test_rows_are_read_once_when_they_are_asked_again():
    rows = Rows(50)
    z = rows.view - rows.view._mean(axis=1, keepdims=True)
    z[3:9]()
    rows.counts()
    z[3:9]()
    assert rows.counts() == [int(3 <= number < 9) for number in range(50)]


def test_rows_of_a_statistic_too_large_to_be_kept_are_taken_anew():
    a = np.zeros((9 << 20, 1))
    mean = dv.View(a)._mean(axis=1)
    assert mean[1]() == 0
    a[1] = 5
    assert mean[1]() == 5


def test_a_window_over_an_axis_is_gone_with_the_axis():
    d = dv.View(np.arange(9.0).reshape(3, 3), top=np.s_[:2, :], left=np.s_[:, :2])
    assert d._mean(axis=0)._fields() == ("left",)
    assert d._quantile([0.0, 0.5, 1.0], axis=0)._fields() == ("left",)
    assert_same(d._quantile([0.0, 0.5, 1.0], axis=0).left(), np.arange(9.0).reshape(3, 3)[:, :2])


def test_a_copy_of_a_statistic_is_ones_own():
    x = np.arange(12.0).reshape(4, 3)
    for statistic in [dv.View(x)._mean(axis=0), dv.View(x)._quantile([0.1, 0.5], axis=0)]:
        before = statistic().copy()
        for own in [statistic(copy=True), np.array(statistic), statistic[1:](copy=True)]:
            own[...] = -1
        assert_same(statistic(), before)


# --- loops that go on with their own result ------------------------------------------------------


def descend(rounds, settled=lambda b: b):
    """Give the result of the steps of a linear regression, each settled as the user does it."""
    x = dv.View(np.arange(12.0).reshape(4, 3) / 12)
    y = dv.View(np.arange(4.0)[:, None])
    b = dv.View(np.zeros((3, 1)))
    for _ in range(rounds):
        b = settled(b - 0.1 * (x * (x @ b - y))._mean(axis=0)[:, None])
    return b


def test_a_loop_that_nests_is_told_once_and_how_to_end_it():
    with pytest.warns(RuntimeWarning, match=r"\(b - step\)\(\), or .*\._freeze\(\)") as told:
        found = descend(60)
    assert [warning.filename for warning in told] == [__file__]
    expected = descend(60, lambda b: b._freeze())
    np.testing.assert_allclose(found(), expected(), rtol=1e-12)
    np.testing.assert_allclose(descend(60, lambda b: dv.View(b()))(), expected(), rtol=1e-12)


def test_what_is_long_or_deep_and_no_loop_of_statistics_is_not_told():
    v = dv.View(np.arange(4.0))
    turned = v
    for _ in range(200):
        turned = (turned + 1)[::-1]
    assert turned._sum()() == 806.0
    for _ in range(3000):
        v = v + 1
    for _ in range(10):
        v = v - v._mean()
    assert (v @ v)() == 5.0


def test_what_has_no_mean_is_named():
    d = dv.View(name=["a", "b"], day=np.arange(2).astype("M8[D]"))
    with pytest.raises(TypeError, match=r"mean: 'name' holds texts \(<U1\)"):
        d.name._mean()
    with pytest.raises(TypeError, match="std: 'day' holds dates"):
        d.day._std()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "mean", "var"])
@pytest.mark.parametrize("count", [3, 16, 1000, 50_000])
def test_what_leaves_the_range_on_the_way_is_found_beside_nan_and_infinity(axis, kind, count):
    large = 1.5e308 if kind != "var" else 1e200
    lines = np.zeros((8, count))
    lines[0, :2], lines[0, -1] = large, -large if kind != "var" else large
    lines[1:4, count // 2] = np.nan, np.inf, -np.inf
    lines[4, :2] = lines[5, -2:] = np.inf, -np.inf
    lines[6, [0, 1, -1]] = large, large, np.nan
    a = np.ascontiguousarray(lines.T) if axis == 0 else lines
    with np.errstate(all="ignore"):
        wide = getattr(a.astype(np.longdouble), kind)(axis=axis)
        found = getattr(dv.View(a), f"_{kind}")(axis=axis)()
        expected = wide.astype(float)
    np.testing.assert_allclose(found, expected, 1e-12)
    assert np.isfinite(found[0]) or kind == "var"


# ---------------------------------------------------------------- axes in another order


TURNED = {
    "whole": lambda v: v,
    "part": lambda v: v[1:, ::-1],
    "rows": lambda v: v[[2, 0, 1]],
    "split": lambda v: v._reshape(len(v) // 2, 2, *v._shape()[1:]),
}


@examples(400)
@given(st.data())
def test_statistics_of_axes_in_another_order_are_numpys(data):
    shape = data.draw(st.sampled_from([(4, 3), (6, 1, 2), (4, 3, 2)]))
    dtype = data.draw(st.sampled_from(["f4", "f8", "i2", "?", "O", "c8"]))
    whole = plain(shape, dtype)
    taken = data.draw(st.sampled_from(list(TURNED)))
    array = TURNED[taken](dv.View(whole))()
    order = data.draw(st.permutations(range(array.ndim)))
    others = [] if dtype in ("O", "c8") else ["median", "quantile", "nanmin", "nanmean"]
    kind = data.draw(st.sampled_from([*KINDS, *others]))
    options = data.draw(options_of(kind, array.ndim))
    options.pop("ddof", None)
    if kind == "quantile":
        options["q"] = data.draw(st.sampled_from([0.5, [0.25, 1], [[0.1], [0.9]]]))
    if options["axis"] == () or (dtype, kind) in [("?", "quantile"), ("O", "std")]:
        return
    computed = TURNED[taken](dv.View(lambda number: whole[number], _length=len(whole))._probe())
    turned, model = computed._transpose(*order), array.transpose(order)
    with parts_of(data.draw(st.sampled_from([1 << 22, 1, 40]))), silence():
        expected, refusal = attempt(lazily(kind, **options), model)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                evaluated(lazily(kind, **options)(turned))
            return
        view = lazily(kind, **options)(turned)
        got = view()
    assert view._shape() == np.shape(expected)
    if dtype == "O" or kind in others:
        floats = [np.asarray(value).astype(float) for value in (got, expected)]
        assert np.allclose(*floats, equal_nan=True)
        assert as_array(got).dtype == as_array(expected).dtype or dtype == "O"
        return
    check_statistic(model, kind, options, got, expected)


def test_statistics_of_transposed_rows_are_read_row_by_row():
    a = np.arange(40.0).reshape(10, 4)
    rows = Counting(lambda number: a[number])
    turned = rows.probed(10)._transpose()
    with parts_of(64):
        assert turned._sum(axis=0)[:2]().tolist() == [6, 22]
        assert rows.asked == [0, 1]
        rows.asked.clear()
        mean, std = turned[:, 2:]._mean(axis=1), turned[:, 2:]._std(axis=1)
        both = dv.evaluate(mean, std)
    assert rows.asked == list(range(2, 10))
    assert_same(both[0], a[2:].mean(axis=0))
    assert_same(both[1], a[2:].std(axis=0))


def test_few_parts_are_held_of_statistics_with_many_values():
    rows = dv.View(lambda number: np.full(400_000, number), _length=100)._probe()
    tracemalloc.start()
    try:
        total = rows._sum(axis=0)
        assert total[0]() == 4950
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["sum", "prod"])
@pytest.mark.parametrize("initial", [5, 2.5, True])
@pytest.mark.parametrize("dtype", [int, float, bool, "i1", "f4", object])
def test_sums_and_products_begin_with_a_number(kind, initial, dtype):
    data = (np.arange(12).reshape(4, 3) % 5).astype(dtype)
    mask = np.arange(4)[:, None] != 2
    for axis in (None, 0, 1):
        for how in ({}, {"where": mask}, {"keepdims": True}):
            found = getattr(dv.View(data), f"_{kind}")(axis, initial=initial, **how)
            with np.errstate(all="ignore"):
                expected = getattr(np, kind)(data, axis, initial=initial, **how)
            assert_same(found(), expected)


TEXTS = {
    "any length": np.array(["b", "", "a"], np.dtypes.StringDType()),
    "texts": np.array(["b", "", "a"]),
    "empty": np.array(["", "", ""]),
    "bytes": np.array([b"b", b"", b"a"]),
}


@pytest.mark.parametrize("mask", [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_where_a_mask_is_false_do_not_count(name, mask):
    data, mask = TEXTS[name], np.array(mask, bool)
    for kind in ("any", "all"):
        expected = getattr(np, kind)(data, where=mask)
        assert_same(getattr(dv.View(data), f"_{kind}")(where=mask)(), expected)
    if name == "any length":
        assert dv.View(data)._sum(where=mask)() == "".join(data[mask])
        for initial in ("", "x"):
            found = dv.View(data)._sum(where=mask, initial=initial)()
            assert found == np.sum(data, where=mask, initial=initial)


def test_a_sum_begins_with_its_initial_value():
    texts = np.array(["b", "a"], np.dtypes.StringDType())
    assert dv.View(texts)._sum(initial="x")() == "xba" == np.sum(texts, initial="x")
    assert dv.View(texts.astype(object))._sum(initial="x")() == "xba"


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", ["median", "nanmedian", "mean", "nanmean"])
def test_there_is_no_mean_of_texts_and_the_error_says_so(name, kind):
    with pytest.raises(TypeError, match=r"^(nan)?(mean|median): 't' holds (texts|bytes) "):
        getattr(dv.View(t=TEXTS[name]).t, f"_{kind}")()


@pytest.mark.parametrize("name", TEXTS)
def test_the_place_of_the_first_text_is_numpys_as_nothing_is_missing(name):
    for kind in ("argmin", "nanargmin", "argmax", "nanargmax"):
        assert getattr(dv.View(TEXTS[name]), f"_{kind}")()() == getattr(np, kind)(TEXTS[name])


@pytest.mark.parametrize("dtype", ["u1", "i1", "?"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1), (0, 2)])
def test_moments_of_numbers_of_one_byte_are_exact(rng, dtype, axis):
    a = rng.integers(0, 2, (4200, 40, 3)).astype("?") if dtype == "?" else None
    if a is None:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = rng.integers(low, high, (4200, 40, 3), dtype, endpoint=True)
    wide = a.astype("g")
    count = wide.size // np.ravel(wide.sum(axis)).size
    exact = (wide**2).sum(axis) / count - (wide.sum(axis) / count) ** 2
    assert np.allclose(dv.View(a)._var(axis=axis)(), exact.astype("f8"), rtol=1e-15, atol=0)
    same = np.full((4200, 40, 3), a.max())
    assert not dv.View(same)._std(axis=axis)().any()


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_a_long_line_of_doubles_has_the_moments_of_its_pieces(rng, offset):
    line = rng.normal(size=3 * reductions.LINE_ELEMENTS + 5) + offset
    d = dv.View(line)
    exact = line.astype(np.longdouble)
    assert abs(d._sum()() - exact.sum()) <= 64 * np.finfo(float).eps * abs(exact).sum()
    assert abs(d._var()() / float(((exact - exact.mean()) ** 2).mean()) - 1) < 1e-12
    line[-1] = np.inf
    assert d._sum()() == np.inf
    line[:] = 0.1
    assert d._var()() == 0.0


@pytest.mark.parametrize("what", STATISTICS.values(), ids=STATISTICS)
def test_the_table_tells_what_numpy_has_of_nothing(what):
    if what.is_quantile or not hasattr(np, what.name):
        return
    nothing, function = np.empty(0), getattr(np, what.name)
    if what.needs_some:
        with pytest.raises(ValueError):
            function(nothing)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = function(nothing)
    assert np.isnan(found) if what.of_none is None else found == what.of_none
    assert what.is_average == (what.of_none is None)


@pytest.mark.parametrize("what", STATISTICS.values(), ids=STATISTICS)
def test_the_table_tells_of_which_objects_a_statistic_is_an_object(what):
    one = STATISTICS[what.plain]
    if one.is_quantile or one.family == "truth":
        return
    found = getattr(np, one.name)(np.array([Decimal(1), Decimal(3)], object))
    assert isinstance(found, Decimal) == ("O" in what.objects)
